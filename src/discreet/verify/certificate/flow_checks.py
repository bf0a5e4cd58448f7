"""Claims of flows between two populations, as a check sees them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from discreet.privacy.event import Composed
from discreet.verify.certificate.claim_checks import ClaimChecks, PricedNoise, RegistryFacts, change_of, moves, rows_of
from discreet.verify.certificate.forms import must
from discreet.verify.certificate.stored import check_plain
from discreet.verify.derive import PrivateRows
from discreet.verify.flows import Edges, FlowClaim, derived_flows, priced_side, side_moves, span_of_side
from discreet.verify.price import norms


class FlowChecks(ClaimChecks):
    """The claim of flows, for which both populations pay."""

    def __init__(self, claim: FlowClaim) -> None:
        self.claim = claim
        self.measures = bool(claim.measured)
        self.payers = tuple((side.relation, side.cost) for side in claim.sides)
        self.costs = tuple(side.cost for side in claim.sides)
        self.note = {"table": claim.table}

    @cached_property
    def edges(self) -> Edges:
        """What the statement gives."""
        return derived_flows(self.claim)

    def derive(self) -> None:
        _ = self.edges

    def check_sensitivities(self) -> None:
        """Each number is of one flow, whose caps limit what a pair carries; and sensitivities are just the moves."""
        claim, most = self.claim, self.edges.most
        flows = [flow for column in claim.measured for flow in column.flows]
        must([p.place for p in flows] == list(range(len(most))), "the flows are not of each number once")
        for flow in flows:
            must(most[flow.place] == min(flow.caps), "the caps of a flow are not those of the statement")
        for place, side in enumerate(claim.sides):
            for moved, said in zip(side_moves(claim, place), side.sensitivities, strict=True):
                must(moved.norms == norms(said), "a unit moves a column less far than is said")

    def priced(self) -> list[PricedNoise]:
        found = []
        for place, side in enumerate(self.claim.sides):
            part = priced_side(self.claim, place)
            columns = zip(self.claim.measured, side.sensitivities, strict=True)
            events = sum((column.noise.event(s) for column, s in columns), Composed())
            found.append(PricedNoise([part], events, side.cost))
        return found

    def check_charges(self) -> None:
        """Each population is charged just what is priced."""

    def sources(self, place: int) -> list[tuple[PrivateRows, Sequence[str]]]:
        claim, unit = self.claim, self.claim.sides[place].unit
        return [(PrivateRows(claim.table, claim.columns, unit, view=claim.view), [claim.sql])]

    def others(self, place: int, populations: Sequence[str]) -> Sequence[tuple[str, str]]:
        return [(populations[1 - place], self.claim.sides[1 - place].unit)]

    def check_stored(self, release: Mapping[str, Any]) -> None:
        lists = self.claim.lists
        check_plain(release, len(lists), math.prod(lists), len(self.claim.measured))

    def reasons(self) -> list[str]:
        found = []
        for i, column in enumerate(self.claim.measured):
            flows = "a maximum flow" if len(column.flows) == 1 else "a difference of two maximum flows"
            for place, side in enumerate(self.claim.sides):
                low, high = span_of_side(column, place)
                found.append(
                    f"Column {i}: {flows} in each of {math.prod(self.claim.lists):,} groups, to which a unit of "
                    f"{side.unit!r} adds a whole number from {low:,} to {high:,} by its caps; when it "
                    f"{change_of(side.relation)}, {moves(side.sensitivities[i])}."
                )
        return found

    def registry_facts(self, place: int, populations: Sequence[str]) -> RegistryFacts:
        claim, groups = self.claim, math.prod(self.claim.lists)
        spans = [span_of_side(column, place) for column in claim.measured]
        unit = {
            "is": [rows_of(claim.table, claim.sides[place].unit)],
            "population": populations[place],
            "protected_beside": [populations[1 - place]],
            "contribution": [
                {"groups": groups, "of_groups": groups, "least": str(low), "most": str(high)} for low, high in spans
            ],
            "bounded_by": "the caps of maximum flows over what the SQL gives; nothing is assumed of the data",
        }
        also = "what the result says of somebody who is a unit of both populations, for whom the two losses add up"
        return RegistryFacts(unit, bool(claim.lists), [column.noise for column in claim.measured], [also])
