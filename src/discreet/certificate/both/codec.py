"""A claim of flows between two populations as JSON, and back; a treaty as that of `certificate/codec.py`."""

from __future__ import annotations

from typing import Any

from discreet.certificate import seal
from discreet.certificate.forms import listed, number, optional, record, refuse, text, whole
from discreet.certificate.parts import (
    additive,
    cost,
    cost_json,
    length,
    noise_json,
    relation,
    sensitivity,
    sensitivity_json,
)
from discreet.rederive.flows import FlowClaim, FlowColumn, Pipe, Side


def encode(claim: FlowClaim) -> dict[str, Any]:
    """A claim as JSON."""
    return {
        "table": claim.table,
        "columns": sorted(claim.columns),
        "view": claim.view,
        "sql": claim.sql,
        "lists": list(claim.lists),
        "measured": [
            {
                "pipes": [
                    {"place": p.place, "sign": str(p.sign), "caps": [str(cap) for cap in p.caps]}
                    for p in column.pipes
                ],
                "noise": noise_json(column.noise),
            }
            for column in claim.measured
        ],
        "sides": [
            {
                "unit": side.unit,
                "relation": side.relation.value,
                "sensitivities": [sensitivity_json(s) for s in side.sensitivities],
                "cost": cost_json(side.cost),
            }
            for side in claim.sides
        ],
    }


def decode(value: Any) -> FlowClaim:
    """The claim that `encode` wrote.

    Raises:
        InvalidParameter: anything else.
    """
    return FlowClaim(**record(value, _CLAIM, "the claim"))


def of_claim(claim: FlowClaim) -> str:
    """The digest of a claim: all of it is known before the data is read."""
    return seal.digest(encode(claim))


def _columns(value: Any) -> frozenset[str]:
    found = listed(text)(value)
    if list(found) != sorted(set(found)):
        refuse("the columns are not as they are written")
    return frozenset(found)


def _caps(value: Any) -> tuple[int, int]:
    found = listed(whole)(value)
    if len(found) != 2:
        refuse("a flow has not a cap for each of two populations")
    return found[0], found[1]


def _pipe(value: Any) -> Pipe:
    return Pipe(**record(value, {"place": number, "sign": whole, "caps": _caps}, "a flow"))


def _column(value: Any) -> FlowColumn:
    return FlowColumn(**record(value, {"pipes": listed(_pipe), "noise": additive}, "a column"))


def _side(value: Any) -> Side:
    names = {"unit": text, "relation": relation, "sensitivities": listed(sensitivity), "cost": cost}
    return Side(**record(value, names, "a population's side"))


def _sides(value: Any) -> tuple[Side, Side]:
    found = listed(_side)(value)
    if len(found) != 2:
        refuse("a claim has not the sides of two populations")
    return found[0], found[1]


_CLAIM = {
    "table": text,
    "columns": _columns,
    "view": optional(text),
    "sql": text,
    "lists": listed(length),
    "measured": listed(_column),
    "sides": _sides,
}
