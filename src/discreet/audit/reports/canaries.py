"""An audit of training with canaries as one HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.audit.finding import Tradeoff
from discreet.audit.reports.html import document, facts, head, picture
from discreet.audit.reports.report import lines_of, number
from discreet.privacy.unit import Relation
from discreet.table import render_html

if TYPE_CHECKING:
    from discreet.audit.canary.canaries import Canaries

_CAPTION = (
    "The claim forbids the red region to what is expected. The blue line is what the scores of these runs reached; it "
    "has no band, and the verdict rests on the guesses, not on it. The dashed line is guessing."
)
_ERRORS = "type I error: out called in", "type II error: in called out"


def page(found: Canaries) -> str:
    """The result as a page: verdict, bound, errors of the scores, guesses."""
    return document(found.name, body(found))


def body(found: Canaries) -> str:
    """The result as a part of a page."""
    line = Tradeoff(found.alpha, found.beta, found.beta, found.claimed)
    parts = [
        head(found.name, found.verdict),
        facts(_rows(found)),
        "<h2>Errors of the scores</h2>",
        picture(line, _CAPTION, _ERRORS),
    ]
    if found.tried:
        rows: list[list[str | None]] = [
            [f"{t.inside:,}", f"{t.outside:,}", f"{t.right:,}", f"{t.p_value:.3g}", number(t.epsilon_lower)]
            for t in found.tried
        ]
        table = render_html(["guessed in", "guessed out", "right", "p-value", "ε at least"], rows)
        parts += ["<h2>Guesses</h2>", table]
    return "".join(parts)


def text(found: Canaries) -> str:
    """Return the result for a terminal."""
    return "\n".join([f"{found.name}: {found.verdict.upper()}", "", *lines_of(_rows(found))])


def _rows(found: Canaries) -> list[tuple[str, str]]:
    how = "one canary" if found.canaries == 1 else f"{found.canaries:,} canaries"
    models = "one run" if found.runs == 1 else f"{found.runs:,} runs"
    changed = "in or out" if found.relation == Relation.ADD_REMOVE.value else "one of two twins"
    return [
        ("claimed", found.claim.text),
        ("found", f"ε ≥ {number(found.epsilon_lower)} at δ = {number(found.claim.delta)}"),
        ("guesses", f"{found.right:,} of {found.guesses:,} right; p-value of the claim {found.p_value:.3g}"),
        ("error", f"false-positive rate: at most {number(found.error)}"),
        ("power", f"had every guess been right: ε ≥ {number(found.reachable)}"),
        ("work", f"{models} with {how}, each {changed} by a fair coin ({found.relation} neighbours)"),
    ]
