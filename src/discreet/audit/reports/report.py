"""An audit as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from discreet.audit.evidence.power import Power
from discreet.audit.finding import BITS, LAW, Audit, Chance, Probe, Tradeoff, Tried, Witness
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
    lines = [f"{audit.name}: {audit.verdict.upper()}{why(audit)}", "", *_rows(audit)]
    if audit.witness is not None:
        lines += ["", *witness_lines(audit.witness)]
    if audit.tried:
        shown = [[t.what, number(t.epsilon), f"{t.samples:,}"] for t in audit.tried[:_SHOWN]]
        lines += ["", render(["tried", "ε seen", "samples"], shown)]
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
    """All of the audit in JSON's own types; inputs as text; an infinite number is the text "inf"."""
    return {
        "format": 1,
        "name": audit.name,
        "claimed": {"text": audit.claim.text, "points": [[_float(a) for a in p] for p in audit.claim.points]},
        "verdict": audit.verdict,
        "cause": audit.cause,
        "floats": audit.floats,
        "error": audit.error,
        "epsilon_lower": _float(audit.epsilon_lower),
        "delta_lower": _float(audit.delta_lower),
        "power": None if audit.power is None else _power(audit.power),
        "witness": None if audit.witness is None else _witness(audit.witness),
        "tradeoff": None if audit.tradeoff is None else _tradeoff(audit.tradeoff),
        "samples": audit.samples,
        "seconds": round(audit.seconds, 3),
        "limit": audit.limit,
        "tried": [_tried(t) for t in audit.tried],
        "probes": [_probe(p) for p in audit.probes],
        "notes": list(audit.notes),
    }


def _rows(audit: Audit) -> list[str]:
    found = (
        f"ε ≥ {number(audit.epsilon_lower)} at δ = {number(audit.claim.delta)}; "
        f"δ ≥ {number(audit.delta_lower)} at ε = {number(audit.claim.epsilon)}"
    )
    rows = [("claimed", audit.claim.text), ("found", found), *rest(audit)]
    return [f"{name:<8} {words}" for name, words in rows]


def rest(audit: Audit) -> list[tuple[str, str]]:
    """Return the rows about floats, error, power and effort: a name and words."""
    allowed = "" if audit.limit is None else f"; about {audit.limit:g} s were allowed"
    by_bits = audit.cause == BITS
    return [
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


def _power(power: Power) -> dict[str, Any]:
    unseen = [
        {k: _float(getattr(u, k)) for k in ("epsilon", "delta", "samples", "seconds")} for u in power.unseen
    ]
    return {"epsilon": _float(power.epsilon), "delta": _float(power.delta), "unseen": unseen}


def _witness(witness: Witness) -> dict[str, Any]:
    return {
        "x": shown(witness.x),
        "x_neighbour": shown(witness.x_neighbour),
        "event": witness.event,
        "under_x": _chance(witness.under_x),
        "under_neighbour": _chance(witness.under_neighbour),
        "epsilon": _float(witness.epsilon),
    }


def _chance(chance: Chance) -> dict[str, Any]:
    return {"hits": chance.hits, "samples": chance.samples, "low": chance.low, "high": chance.high}


def _tradeoff(tradeoff: Tradeoff) -> dict[str, Any]:
    return {
        name: [float(x) for x in getattr(tradeoff, name)]
        for name in ("alpha", "beta", "beta_high", "claimed")
    }


def _tried(tried: Tried) -> dict[str, Any]:
    return {"what": tried.what, "epsilon": _float(tried.epsilon), "samples": tried.samples}


def _probe(probe: Probe) -> dict[str, Any]:
    return {
        "name": probe.name,
        "verdict": probe.verdict,
        "words": probe.words,
        "details": {str(k): _plain(v) for k, v in probe.details.items()},
    }


def _plain(value: object) -> Any:
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float | np.floating):
        return _float(float(value))
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(v) for v in value]
    return shown(value)


def _float(x: float) -> float | str:
    return float(x) if math.isfinite(x) else str(float(x))
