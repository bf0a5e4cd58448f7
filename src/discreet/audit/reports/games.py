"""A game as one HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.audit.finding import Chance
from discreet.audit.reports.html import document, facts, head, notes, picture, text
from discreet.audit.reports.report import chance_words, number
from discreet.privacy.guarantee import decimal
from discreet.table import render_html

if TYPE_CHECKING:
    from discreet.audit.games.played import Game, Measure

_CAPTION = (
    "The claim forbids the red region. The blue line is Bob's test on fresh games, with its band; where the upper edge "
    "of the band enters the red region, the claim is broken. The dashed line is guessing."
)
_ERRORS = "type I error: the second called the first", "type II error: the first called the second"


def page(game: Game) -> str:
    """The game as a page: verdict, what Bob reached beside what is allowed, his errors, each world, notes."""
    return document(game.name, body(game))


def body(game: Game) -> str:
    """The game as a part of a page."""
    reached = render_html(
        ["Bob's …", "found", "at least", "at most", "allowed"], [_measure(row) for row in game.rows]
    )
    parts = [head(game.name, game.verdict), facts(_rows(game)), "<h2>What Bob reached</h2>", reached]
    if game.clearest:
        parts.append(f"<p>The clearest output: {text(game.clearest)}.</p>")
    if game.tradeoff is not None:
        parts += ["<h2>Bob's errors</h2>", picture(game.tradeoff, _CAPTION, _ERRORS)]
    worlds: list[list[str | None]] = [
        [world, decimal(prior), chance_words(won)]
        for world, prior, won in zip(game.worlds, game.priors, game.by_world, strict=True)
    ]
    table = render_html(["what Alice puts in", "with chance", "Bob is right"], worlds, align=["left"] * 3)
    return "".join([*parts, "<h2>Worlds</h2>", table, notes(game.notes)])


def _rows(game: Game) -> list[tuple[str, str]]:
    claimed = "nothing" if game.claim is None else game.claim.text
    return [
        ("game", "which of two neighbours?" if game.kind == "membership" else "which of several worlds?"),
        ("claimed", claimed),
        ("Bob", _won(game.success)),
        ("without the output", f"he would be right with chance {number(float(max(game.priors)))}"),
        ("error", f"a keeper of the claim is accused with chance {number(game.error)} at most"),
        ("work", f"{game.samples:,} samples in {game.seconds:.3g} s"),
    ]


def _won(success: Chance) -> str:
    return f"is right in {chance_words(success)}"


def _measure(row: Measure) -> list[str | None]:
    return [
        row.what,
        number(row.found),
        number(row.low),
        number(row.high),
        "–" if row.allowed is None else number(row.allowed),
    ]
