"""What Bob reached, as a value, beside what the guarantee allows one who guesses. Proofs: docs/proofs/games.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.audit.claim import Claim
from discreet.audit.finding import VIOLATED, Chance, Tradeoff
from discreet.audit.guesses import promises
from discreet.audit.places import Floats
from discreet.audit.reports import chance_words, document, facts, fields_of, head, notes, number, picture, text
from discreet.privacy.guarantee import decimal
from discreet.table import render_html, visible

UNCLAIMED = "unclaimed"
_ROUNDING = 1e-9

_CAPTION = (
    "The claim forbids the red region. The blue line is Bob's test on fresh games, with its band; where the upper edge "
    "of the band enters the red region, the claim is broken. The dashed line is guessing."
)
_ERRORS = "type I error: the second called the first", "type II error: the first called the second"


_SLACK = 1e-12
"""Far above the rounding errors of a few terms below 1."""


@dataclass(frozen=True, slots=True)
class GameMeasure:
    """One thing that Bob reached.

    Attributes:
        what: "success", "advantage", "odds", …
        found: as it was seen.
        low, high: the ends of its interval; all intervals of a game hold at once with chance 1 − error.
        allowed: the most that the guarantee allows; None where it says nothing, or nothing was claimed.
    """

    what: str
    found: float
    low: float
    high: float
    allowed: float | None

    @property
    def violated(self) -> bool:
        """Whether it is surely more than the guarantee allows."""
        return self.allowed is not None and self.low > self.allowed + _ROUNDING


@dataclass(frozen=True, slots=True)
class Game:
    """What Bob reached in a game of guessing the input from the output.

    Guarantee:
        With probability at least 1 − error all intervals and the band hold at once; so a mechanism that keeps its claim
        is called "violated" with probability at most `error`.

    Attributes:
        name: what was attacked.
        kind: "membership" (two neighbours) or "attribute" (several worlds).
        claim: what was claimed, if anything.
        verdict: "violated", "consistent" or "unclaimed".
        error: the stated error probability.
        worlds: what Alice may put in, as text.
        priors: the chances with which she does.
        success: how many of the games Bob won, on fresh samples.
        rows: what he reached, beside what is allowed; the first is his success.
        clearest: the output in words that told Bob most, where there are two worlds.
        tradeoff: his errors beside those that the claim allows, where there are two worlds.
        by_world: how many games he won in each world.
        samples: samples drawn, of all worlds together.
        seconds: wall-clock seconds.
        notes: what a reader should know about the mechanism's runs.
    """

    name: str
    kind: str
    claim: Claim | None
    verdict: str
    error: float
    worlds: tuple[str, ...]
    priors: tuple[Fraction, ...]
    success: Chance
    rows: tuple[GameMeasure, ...]
    clearest: str
    tradeoff: Tradeoff | None
    by_world: tuple[Chance, ...]
    samples: int
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def violated(self) -> bool:
        """Whether the claim was refuted."""
        return self.verdict == VIOLATED

    @property
    def advantage(self) -> GameMeasure | None:
        """By how much Bob says "the first" more often when it is; None for more than two worlds."""
        return next((row for row in self.rows if row.what == "advantage"), None)

    @property
    def odds(self) -> GameMeasure | None:
        """The odds after the clearest output for the world it speaks for; None for more than two worlds."""
        return next((row for row in self.rows if row.what == "odds"), None)

    def __str__(self) -> str:
        first, s = self.rows[0], self.success
        limit = "" if first.allowed is None else f"; the guarantee allows at most {_percent(first.allowed)}"
        span = f"{100 * first.low:.1f}–{100 * first.high:.1f}"
        lines = [
            f"{self.name}: {self.verdict.upper()}",
            "",
            f"Alice puts in {self._choices()}. Bob sees the output and guesses which.",
            f"Bob is right in {_percent(first.found)} ({span}) of {s.samples:,} games{limit}.",
            f"Without the output he would be right in {_percent(float(max(self.priors)))}.",
        ]
        for row in self.rows[1:]:
            what = f"Odds after the clearest output, {self.clearest}" if row.what == "odds" else row.what.capitalize()
            limit = "" if row.allowed is None else f"; allowed: at most {row.allowed:.4g}"
            lines.append(f"{what}: {row.found:.4g} ({row.low:.4g} to {row.high:.4g}){limit}.")
        if self.claim is not None:
            lines.append(f"The claim is {self.claim.text}; false-positive rate: at most {100 * self.error:.4g} %.")
        lines += [f"Note: {note}" for note in self.notes]
        return "\n".join(visible(line) for line in lines)

    def to_html(self) -> str:
        """Return the game as one HTML page without outside parts."""
        return document(self.name, _body(self))

    def _choices(self) -> str:
        named = [f"{world} with chance {decimal(prior)}" for world, prior in zip(self.worlds, self.priors, strict=True)]
        return ", ".join(named[:-1]) + f" or {named[-1]}"

    def to_json(self) -> dict[str, Any]:
        """Return the game in JSON's own types."""
        return fields_of(self)


def _percent(x: float) -> str:
    return f"{100 * x:.1f} %"


def _body(game: Game) -> str:
    """Return a page's verdict, what Bob reached beside what is allowed, his errors, each world, notes."""
    reached = render_html(["Bob's …", "found", "at least", "at most", "allowed"], [_measure(row) for row in game.rows])
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
        ("Bob", f"is right in {chance_words(game.success)}"),
        ("without the output", f"he would be right with chance {number(float(max(game.priors)))}"),
        ("error", f"false-positive rate: at most {number(100 * game.error)} %"),
        ("work", f"{game.samples:,} samples in {game.seconds:.3g} s"),
    ]


def _measure(row: GameMeasure) -> list[str | None]:
    return [
        row.what,
        number(row.found),
        number(row.low),
        number(row.high),
        "–" if row.allowed is None else number(row.allowed),
    ]


def success(claim: Claim, priors: Sequence[Fraction]) -> float:
    """Return the largest chance to guess which of several worlds is real, of which any two are neighbours.

    Guarantee:
        For (ε, δ)-DP and priors p₁ ≥ p₂ ≥ …: δ + (1 − δ)·max_t (p₁ + … + p_t)·e^ε/(e^ε + t − 1), the least of it over
        the points of the claim; rounded up. For two worlds it is attained. docs/proofs/games.md, Theorem 1.

    References: for k equal priors, Humphries et al. 2020, https://arxiv.org/abs/2010.12112 (k = 2).
    """
    falling = np.cumsum(sorted((float(p) for p in priors), reverse=True))
    others = np.arange(len(falling))  # t − 1
    best = 1.0
    for epsilon, delta in promises(claim):
        reached = float(np.max(falling / (1 + others * math.exp(-epsilon))))
        best = min(best, delta + (1 - delta) * reached)
    if claim.loss is not None and len(priors) == 2:
        best = min(best, max(claim.loss.success(p) for p in priors))
    return min(1.0, best + _SLACK)


def advantage(claim: Claim) -> float:
    """Return the largest difference of a guess's chances under two neighbours: (e^ε − 1 + 2δ)/(e^ε + 1), rounded up."""
    half = Fraction(1, 2)
    return min(1.0, 2 * success(claim, (half, half)) - 1)


def odds(claim: Claim, prior: Fraction) -> float | None:
    """Return the largest odds for one world after any output: prior odds times e^ε, for pure ε; None where δ > 0."""
    pure = [epsilon for epsilon, delta in claim.points if delta == 0]
    if not pure:
        return None
    before = float(prior) / float(1 - prior)
    return before * math.exp(min(min(pure), 700.0)) * (1 + _SLACK)


def errors(claim: Claim, alpha: Floats) -> Floats:
    """Return the least type II errors that a claim allows tests of those levels."""
    if claim.loss is None:
        return claim.tradeoff(alpha)
    return np.asarray(claim.loss.tradeoff(alpha), dtype=np.float64)
