"""What a certificate of two populations says in other words: its reasons, and an entry of a registry for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from discreet.certificate.reasons import change_of, moves
from discreet.certificate.registry import entry_of, named, rows_of
from discreet.ledger.entry import Opened
from discreet.rederive.flows import FlowClaim, span_of_side

_ALSO = "what the answer says of somebody who is a unit of both populations, for whom the two losses add up"


def reasons(claim: FlowClaim) -> list[str]:
    """A sentence for each integer column and population, in order; the wording belongs to the format."""
    found = []
    for i, column in enumerate(claim.measured):
        flows = "a maximum flow" if len(column.pipes) == 1 else "a difference of two maximum flows"
        for place, side in enumerate(claim.sides):
            low, high = span_of_side(column, place)
            found.append(
                f"Column {i}: {flows} in each of {math.prod(claim.lists):,} groups, to which a unit of "
                f"{side.unit!r} adds a whole number from {low:,} to {high:,} by its caps; when it "
                f"{change_of(side.relation)}, {moves(side.sensitivities[i])}."
            )
    return found


def registry(
    claim: FlowClaim, opened: Sequence[Opened], *, populations: Sequence[str], version: str | None
) -> list[dict[str, Any]]:
    """The release as an entry of a registry, for each of the populations."""
    groups = math.prod(claim.lists)
    found = []
    for place, (side, account, name) in enumerate(zip(claim.sides, opened, populations, strict=True)):
        spans = [span_of_side(column, place) for column in claim.measured]
        unit = {
            "is": [rows_of(claim.table, side.unit)],
            "population": name,
            "protected_beside": [other for other in populations if other != name],
            "contribution": [
                {"groups": groups, "of_groups": groups, "least": str(low), "most": str(high)}
                for low, high in spans
            ],
            "bounded_by": "the caps of maximum flows over what the SQL gives; nothing is assumed of the data",
        }
        found.append(
            entry_of(
                side.relation,
                side.cost,
                account,
                population=name,
                version=version,
                unit=unit,
                declared=bool(claim.lists),
                mechanisms=sorted({named(column.noise) for column in claim.measured}),
                also=[_ALSO],
            )
        )
    return found
