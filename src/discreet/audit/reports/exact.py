"""The exact answer about a small mechanism as JSON and as one HTML page."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.audit.reports.html import document, facts, head, text
from discreet.audit.reports.report import number, plain, shown
from discreet.privacy.guarantee import decimal
from discreet.table import render_html

if TYPE_CHECKING:
    from discreet.audit.exact.matrix import Finite
    from discreet.finite.measured import Event

_LOOKED_AT = Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2)
"""The ε at which δ is shown, beside those of the claim."""

_CELLS = 400
"""Probabilities that a page shows; more are for the object."""


def to_json(answer: Finite) -> dict[str, Any]:
    """All of the answer but the probabilities; fractions and inputs as text, an infinite number as "inf"."""
    ratio, witness = answer.ratio(), answer.witness
    claim = answer.claim
    return {
        "format": 1,
        "inputs": [shown(x) for x in answer.inputs],
        "outputs": [shown(o) for o in answer.outputs],
        "pairs": [list(pair) for pair in answer.pairs],
        "rounding": str(answer.table.rounding),
        "claimed": None
        if claim is None
        else {"text": claim.text, "points": [[str(a) for a in point] for point in answer.points]},
        "verdict": answer.verdict,
        "epsilon": plain(answer.epsilon()),
        "ratio": None if ratio is None else str(ratio),
        "failure": str(answer.failure),
        "deltas": [{"epsilon": str(e), "delta": answer.delta(e)} for e in _epsilons(answer)],
        "witness": None if witness is None else _event(witness),
    }


def page(answer: Finite) -> str:
    """The answer as a page: verdict, ε, the event, δ at several ε, and the probabilities where they are few."""
    return document("Finite mechanism", body(answer))


def body(answer: Finite) -> str:
    """The answer as a part of a page."""
    parts = [head("Finite mechanism", answer.verdict), facts(_rows(answer))]
    if (witness := answer.witness) is not None:
        parts += ["<h2>Witness</h2>", f"<p>{text(str(witness))}</p>"]
    claimed: dict[Fraction, Fraction] = {}
    for e, d in answer.points:
        claimed[e] = min(d, claimed.get(e, d))
    rows: list[list[str | None]] = [
        [decimal(e), number(answer.delta(e)), decimal(claimed[e]) if e in claimed else "–"]
        for e in _epsilons(answer)
    ]
    parts += ["<h2>δ at ε</h2>", render_html(["ε", "δ", "claimed δ"], rows)]
    if len(answer.inputs) * len(answer.outputs) <= _CELLS:
        whole = answer.table.whole
        table: list[list[str | None]] = [
            [shown(x), *(str(Fraction(p, whole)) for p in row)]
            for x, row in zip(answer.inputs, answer.table.rows, strict=True)
        ]
        parts += ["<h2>Probabilities</h2>", render_html(["input", *map(shown, answer.outputs)], table)]
    return "".join(parts)


def _rows(answer: Finite) -> list[tuple[str, str]]:
    ratio, rounding = answer.ratio(), answer.table.rounding
    found = (
        f"no finite ε; δ ≥ {number(float(answer.failure))} at every ε"
        if ratio is None
        else f"ε = {number(answer.epsilon())} at δ = 0"
    )
    size = f"{len(answer.inputs)} inputs × {len(answer.outputs)} outputs"
    return [
        ("claimed", "nothing" if answer.claim is None else answer.claim.text),
        ("found", found),
        (
            "error",
            "none: the numbers are exact" if not rounding else f"within rounding of {decimal(rounding)}",
        ),
        ("work", f"{size}, {len(answer.pairs)} pairs of neighbours"),
    ]


def _epsilons(answer: Finite) -> list[Fraction]:
    return sorted({*_LOOKED_AT, *(e for e, _ in answer.points)})


def _event(event: Event) -> dict[str, Any]:
    return {
        "x": shown(event.x),
        "x_neighbour": shown(event.x_neighbour),
        "outputs": [shown(o) for o in event.outputs],
        "under_x": str(event.under_x),
        "under_neighbour": str(event.under_neighbour),
        "epsilon": plain(event.epsilon),
    }
