"""An audit as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.audit.claim import Claim
from discreet.audit.evidence.power import Power
from discreet.audit.finding import BITS, LAW, Audit, Chance, Witness
from discreet.table import render, visible

_LONGEST = 160
"""Characters of an input that are shown; a reader who needs more has the object."""

_FLOATS = {
    "keep": "first on a grid that hides their bits (3/4 of the error), then with all bits (1/4)",
    "ignore": "ignored: they were read on a grid that hides their bits",
}

_SHOWN = 8
"""Rows of what was tried that are shown as text; JSON has all."""


def text(audit: Audit) -> str:
    """The audit for a terminal: the verdict first, then what it rests on."""
    lines = [f"{audit.name}: {audit.verdict.upper()}{why(audit)}", "", *lines_of(rows(audit))]
    if audit.witness is not None:
        lines += ["", *witness_lines(audit.witness)]
    if audit.tried:
        lines += ["", render(["tried", "ε seen", "samples"], tried_rows(audit, _SHOWN))]
        if len(audit.tried) > _SHOWN:
            lines.append(f"and {len(audit.tried) - _SHOWN} more.")
    for probe in audit.probes:
        lines += ["", f"{probe.name}: {probe.verdict}. {probe.words}"]
    if audit.notes:
        lines += ["", *(f"Note: {note}" for note in audit.notes)]
    return "\n".join(visible(line) for one in lines for line in one.split("\n"))


def why(audit: Audit) -> str:
    """Return the words after the verdict where there are real numbers: what refutes the claim, or was left out."""
    if audit.floats is not None and audit.cause is not None:
        return " in law (scale or sensitivity)" if audit.cause == LAW else " by floating-point bits"
    return "" if audit.violated or audit.floats != "ignore" else " in law (floats ignored)"


def witness_lines(witness: Witness) -> list[str]:
    """The neighbours, the event and its two chances."""
    lines = [
        f"Event: {witness.event}.",
        f"  under x  = {shown(witness.x)}: {chance_words(witness.under_x)}",
        f"  under x′ = {shown(witness.x_neighbour)}: {chance_words(witness.under_neighbour)}",
    ]
    if witness.epsilon > 0:
        lines.append(f"  so these two alone show ε ≥ {number(witness.epsilon)}.")
    return lines


def chance_words(chance: Chance) -> str:
    """How often, out of how many, and the interval."""
    return f"{chance.hits:,} of {chance.samples:,}, a chance of {number(chance.low)} to {number(chance.high)}"


def number(x: float) -> str:
    """A number in four digits, as people read it."""
    return "∞" if x == math.inf else f"{x:.4g}"


def shown(x: object) -> str:
    """An input on one line, cut where it is long."""
    try:
        words = np.array2string(x, separator=", ", threshold=20) if isinstance(x, np.ndarray) else repr(x)
    except Exception as error:  # somebody else's __repr__ must not end an audit
        words = f"<{type(x).__name__} without a text: {type(error).__name__}>"
    words = " ".join(words.split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def to_json(audit: Audit) -> dict[str, Any]:
    """Return all of the audit in JSON's own types; inputs as text; an infinite number is the text "inf"."""
    power, witness = audit.power, audit.witness
    inputs = {} if witness is None else {k: shown(getattr(witness, k)) for k in ("x", "x_neighbour")}
    return {
        **fields_of(audit, "power", "witness"),
        "power": power and {k: plain(getattr(power, k)) for k in ("epsilon", "delta", "unseen")},
        "witness": witness and {**inputs, **_fields(witness, *inputs)},
    }


def fields_of(result: Any, *without: str) -> dict[str, Any]:
    """Return the fields of a result in JSON's own types, with the claim in words and as points."""
    claim: Claim | None = result.claim
    claimed = claim and {"text": claim.text, "points": plain(claim.points)}
    return {"format": 1, "claimed": claimed, **_fields(result, "claim", *without)}


def plain(value: object) -> Any:
    """Return a value in JSON's own types: results by their fields, an infinite number and what is unknown as text."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float | Fraction | np.floating):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(v) for v in value]
    return _fields(value) if type(value).__module__.startswith("discreet.audit.") else shown(value)


def _fields(result: Any, *without: str) -> dict[str, Any]:
    return {
        f.name: plain(getattr(result, f.name)) for f in fields(result) if f.compare and f.name not in without
    }


def lines_of(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return rows of a name and words as lines for a terminal."""
    return [f"{name:<8} {words}" for name, words in rows]


def tried_rows(audit: Audit, most: int) -> list[list[str]]:
    """Return the cells of the first things that were tried."""
    return [[t.what, number(t.epsilon), f"{t.samples:,}"] for t in audit.tried[:most]]


def rows(audit: Audit) -> list[tuple[str, str]]:
    """Return the rows about claim, bounds, floats, error, power and effort: a name and words."""
    found = (
        f"ε ≥ {number(audit.epsilon_lower)} at δ = {number(audit.claim.delta)}; "
        f"δ ≥ {number(audit.delta_lower)} at ε = {number(audit.claim.epsilon)}"
    )
    allowed = "" if audit.limit is None else f"; about {audit.limit:g} s were allowed"
    by_bits = audit.cause == BITS
    return [
        ("claimed", audit.claim.text),
        ("found", found),
        *([] if audit.floats is None else [("floats", _FLOATS[audit.floats])]),
        ("error", f"false-positive rate: at most {number(audit.error)}"),
        *([("law", "nothing was found on the grid, a test of this power:")] if by_bits else []),
        *([] if audit.power is None or (audit.violated and not by_bits) else _power_words(audit.power)),
        ("effort", f"{audit.samples:,} samples in {audit.seconds:.3g} s{allowed}"),
    ]


def _power_words(power: Power) -> list[tuple[str, str]]:
    (epsilon, delta), least = power.claimed, (power.epsilon, power.delta)
    seen = [f"ε = {number(least[0])} at δ = {number(delta)}"] if least[0] < math.inf else []
    seen += [f"δ = {number(least[1])} at ε = {number(epsilon)}"] if least[1] < math.inf else []
    rows = [
        (
            "power",
            f"{' or '.join(seen) or 'nothing, with so few samples,'} would have been found in most runs",
        )
    ]
    for one in power.unseen:
        larger = (
            f"a δ of {number(one.delta)} instead of {number(delta)}"
            if one.delta != delta
            else f"an ε of {number(one.epsilon)} instead of {number(epsilon)}"
        )
        need = f"{float(f'{one.samples:.2g}'):,.0f} samples of each neighbour, {one.seconds:.2g} s"
        rows.append(("", f"{larger} would need about {need}"))
    return rows
