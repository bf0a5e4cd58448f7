"""Certificates, of a release that one population or two paid for: their fields, writing one, and reading it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet.errors import InternalError
from discreet.ledger.entry import Charged, Opened
from discreet.privacy.unit import Relation
from discreet.verify.certificate.claim_checks import ClaimChecks, PlanChecks
from discreet.verify.certificate.evidence import HEAD, LINKS, Evidence
from discreet.verify.certificate.flow_checks import FlowChecks
from discreet.verify.certificate.forms import Reader, anything, digest, fields, listed, optional, record, refuse, text
from discreet.verify.certificate.registry import registry
from discreet.verify.certificate.seal import decode, encode
from discreet.verify.claim import Cost, PlanClaim
from discreet.verify.flows import FlowClaim

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
