"""Certificates, of a release that one population or two paid for: their fields, writing one, reading it back.

And claims of flows between two populations, as a check sees them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from discreet.errors import InternalError
from discreet.ledger.entry import Charged, Opened
from discreet.privacy.event import Composed
from discreet.privacy.unit import Relation
from discreet.verify.certificate.claim_checks import (
    ClaimChecks,
    PlanChecks,
    PricedNoise,
    RegistryFacts,
    change_of,
    moves,
    rows_of,
)
from discreet.verify.certificate.evidence import HEAD, LINKS, Evidence
from discreet.verify.certificate.forms import (
    Reader,
    anything,
    digest,
    fields,
    listed,
    must,
    optional,
    record,
    refuse,
    text,
)
from discreet.verify.certificate.registry import registry
from discreet.verify.certificate.seal import decode, encode
from discreet.verify.certificate.stored import check_plain
from discreet.verify.claim import Cost, PlanClaim
from discreet.verify.derive import PrivateRows
from discreet.verify.flows import Edges, FlowClaim, derived_flows, priced_side, side_moves, span_of_side
from discreet.verify.price import norms

FORMAT = "discreet certificate, format 1"
"""Format that a certificate names; another one is refused."""


@dataclass(frozen=True, slots=True)
class CertifiedQuery:
    """What was asked: the text, the identity of what was measured, its name in a batch, and the query over results of
    which it is a measured part: post-processing, of which only the text is checked.
    """

    sql: str
    identity: str
    name: str | None
    outer: str | None = None


_QUESTION = fields(CertifiedQuery, "the query", sql=text, identity=digest, name=optional(text), outer=optional(text))


@dataclass(frozen=True, slots=True)
class Price:
    """What a release cost each unit of a population, and the entry that charged it."""

    population: str
    relation: Relation
    cost: Cost
    entry: int


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate as it was read: every field of the known form, and nothing judged yet.

    `populations`, `evidence` and the payers of the claim are in one order.
    """

    library: str
    question: CertifiedQuery
    populations: tuple[str, ...]
    version: str | None
    claim: PlanClaim | FlowClaim
    reasons: tuple[str, ...]
    answer: Any
    evidence: tuple[Evidence, ...]
    registry: Any

    @property
    def prices(self) -> tuple[Price, ...]:
        """What the release cost each population that paid."""
        paid = zip(self.populations, checks_of(self.claim).payers, self.evidence, strict=True)
        return tuple(Price(name, *payer, own.charge.seq) for name, payer, own in paid)


def checks_of(claim: PlanClaim | FlowClaim) -> ClaimChecks:
    """Return the claim as a check sees it."""
    return PlanChecks(claim) if isinstance(claim, PlanClaim) else FlowChecks(claim)


def write(
    question: CertifiedQuery, claim: PlanClaim | FlowClaim, answer: dict[str, Any] | None, evidence: Sequence[Evidence]
) -> dict[str, Any]:
    """Return the certificate of a release, as JSON.

    Args:
        question: what was asked.
        claim: what was charged for.
        answer: the rows; None where the ledger has no digest of them.
        evidence: what the ledger says, for each population.
    """
    opened = [content for own in evidence if isinstance(content := own.account.read().content, Opened)]
    charges = [own.charge.read() for own in evidence]
    if len(opened) < len(evidence) or not all(isinstance(entry.content, Charged) for entry in charges):
        raise InternalError("The entries of this release are of other kinds than they must be.")
    names, note, checks = [entry.population for entry in charges], charges[0].note, checks_of(claim)
    version = note.get("version")
    entries = [{name: form.write(getattr(own, name)) for name, form in LINKS.items()} for own in evidence]
    return {
        "format": FORMAT,
        "library": note.get("library"),
        "question": _QUESTION.write(question),
        "populations": names,
        "version": version,
        "claim": encode(claim),
        "reasons": checks.reasons(),
        "answer": answer,
        "ledger": {"accounts": entries, "head": HEAD.write(evidence[0].head)},
        "registry": registry(checks, opened, populations=names, version=version),
    }


def read(document: Any) -> Certificate:
    """Return a certificate's fields.

    Raises:
        InvalidParameter: it is none, or one of another format.
    """
    if type(document) is not dict or document.get("format") != FORMAT:
        refuse(f"its format is not {FORMAT!r}; what was spent still counts")
    found = record(document, _FIELDS, "it")
    del found["format"]
    certificate = Certificate(evidence=found.pop("ledger"), **found)
    names = certificate.populations
    if not len({*names}) == len(names) == len(certificate.evidence) == len(checks_of(certificate.claim).payers):
        refuse("its populations, its accounts and who pays for its claim are not as many")
    return certificate


def _evidence(value: Any) -> tuple[Evidence, ...]:
    found = record(value, {"accounts": listed(anything), "head": HEAD}, "the ledger's part")
    return tuple(Evidence(**record(own, LINKS, "an account's part"), head=found["head"]) for own in found["accounts"])


_FIELDS: dict[str, Reader[Any]] = {
    "format": text,
    "library": text,
    "question": _QUESTION,
    "populations": listed(text),
    "version": optional(text),
    "claim": decode,
    "reasons": listed(text),
    "answer": anything,
    "ledger": _evidence,
    "registry": anything,
}


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
