"""Certificates, of a release to one population or to two: their fields, writing one, and reading one back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from discreet.errors import InternalError
from discreet.ledger.entry import Charged, Opened
from discreet.privacy.unit import Relation
from discreet.verify.certificate.codec import decode, decode_flows, encode
from discreet.verify.certificate.evidence import HEAD, LINKS, Evidence
from discreet.verify.certificate.forms import (
    Reader,
    anything,
    digest,
    fields,
    listed,
    optional,
    record,
    refuse,
    text,
)
from discreet.verify.certificate.reasons import reasons, reasons_of_both
from discreet.verify.certificate.registry import registry, registry_of_both
from discreet.verify.claim import Cost, PlanClaim
from discreet.verify.flows import FlowClaim

FORMAT, OF_BOTH = "discreet certificate, format 1", "discreet certificate of two populations, format 1"
"""Format that a certificate names, of one population and of two; another one is refused."""

C = TypeVar("C", bound=PlanClaim | FlowClaim)


@dataclass(frozen=True, slots=True)
class CertifiedQuery:
    """What was asked: the text, the identity of what was measured, and its name in a batch."""

    sql: str
    identity: str
    name: str | None


_QUESTION = fields(CertifiedQuery, "the question", sql=text, identity=digest, name=optional(text))


@dataclass(frozen=True, slots=True)
class Price:
    """What a release cost each unit of a population, and the entry that charged it."""

    population: str
    relation: Relation
    cost: Cost
    entry: int


@dataclass(frozen=True, slots=True)
class Certificate(Generic[C]):
    """A certificate as it was read: every field of the known form, and nothing judged yet.

    `populations` and `evidence` are in one order, and the sides of a claim of flows too.
    """

    library: str
    question: CertifiedQuery
    populations: tuple[str, ...]
    version: str | None
    claim: C
    reasons: tuple[str, ...]
    answer: Any
    evidence: tuple[Evidence, ...]
    registry: Any

    @property
    def prices(self) -> tuple[Price, ...]:
        """What the release cost each population that paid."""
        claim = self.claim
        sides = (
            [(claim.relation, claim.charged)]
            if isinstance(claim, PlanClaim)
            else [(s.relation, s.cost) for s in claim.sides]
        )
        paid = zip(self.populations, sides, self.evidence, strict=True)
        return tuple(Price(name, *side, own.charge.seq) for name, side, own in paid)


def write(
    question: CertifiedQuery,
    claim: PlanClaim | FlowClaim,
    answer: dict[str, Any] | None,
    evidence: Sequence[Evidence],
) -> dict[str, Any]:
    """The certificate of a release, as JSON.

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
    names, note = [entry.population for entry in charges], charges[0].note
    version, head = note.get("version"), HEAD.write(evidence[0].head)
    entries = [{name: form.write(getattr(own, name)) for name, form in LINKS.items()} for own in evidence]
    parts: dict[str, Any]
    if isinstance(claim, PlanClaim):
        parts = {
            "format": FORMAT,
            "population": names[0],
            "reasons": reasons(claim),
            "ledger": {**entries[0], "head": head},
            "registry": registry(claim, opened[0], population=names[0], version=version),
        }
    else:
        parts = {
            "format": OF_BOTH,
            "populations": names,
            "reasons": reasons_of_both(claim),
            "ledger": {"accounts": entries, "head": head},
            "registry": registry_of_both(claim, opened, populations=names, version=version),
        }
    return {
        "library": note.get("library"),
        "question": _QUESTION.write(question),
        "version": version,
        "claim": encode(claim),
        "answer": answer,
        **parts,
    }


def read(document: Any) -> Certificate[PlanClaim]:
    """A certificate's fields.

    Raises:
        InvalidParameter: it is none, or one of another format.
    """
    if type(document) is not dict or document.get("format") != FORMAT:
        refuse(f"its format is not {FORMAT!r}; what was spent still counts")
    names: dict[str, Reader[Any]] = {"population": text, "claim": decode, "ledger": _evidence}
    found = record(document, {**_FIELDS, **names}, "it")
    del found["format"]
    return Certificate(populations=(found.pop("population"),), evidence=(found.pop("ledger"),), **found)


def read_of_both(document: Any) -> Certificate[FlowClaim]:
    """As `read`, of a certificate of two populations."""
    names: dict[str, Reader[Any]] = {
        "populations": listed(text, exactly=2),
        "claim": decode_flows,
        "ledger": _accounts,
    }
    found = record(document, {**_FIELDS, **names}, "it")
    del found["format"]
    if len(set(found["populations"])) != 2:
        refuse("it is not of two populations")
    return Certificate(evidence=found.pop("ledger"), **found)


def _evidence(value: Any) -> Evidence:
    return Evidence(**record(value, {**LINKS, "head": HEAD}, "the ledger's part"))


def _accounts(value: Any) -> tuple[Evidence, ...]:
    found = record(value, {"accounts": listed(anything, exactly=2), "head": HEAD}, "the ledger's part")
    return tuple(
        Evidence(**record(own, LINKS, "an account's part"), head=found["head"]) for own in found["accounts"]
    )


_FIELDS: dict[str, Reader[Any]] = {
    "format": text,
    "library": text,
    "question": _QUESTION,
    "version": optional(text),
    "reasons": listed(text),
    "answer": anything,
    "registry": anything,
}
"""Fields of either certificate."""
