"""A certificate of a release to two populations: its fields, writing one, and reading one back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.certificate.both.codec import decode, encode
from discreet.certificate.both.words import reasons, registry
from discreet.certificate.document import LINKS, Price, Question, head, head_json, question
from discreet.certificate.evidence import Evidence
from discreet.certificate.forms import anything, listed, optional, record, refuse, text
from discreet.errors import InternalError
from discreet.ledger.entry import Charged, Opened
from discreet.rederive.flows import FlowClaim

FORMAT = "discreet certificate of two populations, format 1"
"""What such a certificate calls itself. A field never changes its meaning under this name."""


@dataclass(frozen=True, slots=True)
class CertificateOfBoth:
    """A certificate as it was read: every field of the known form, and nothing judged yet.

    `populations`, `claim.sides` and `evidence` are in one order.
    """

    library: str
    question: Question
    populations: tuple[str, str]
    version: str | None
    claim: FlowClaim
    reasons: tuple[str, ...]
    answer: Any
    evidence: tuple[Evidence, Evidence]
    registry: Any

    @property
    def prices(self) -> tuple[Price, ...]:
        """What the release cost each population."""
        sides = zip(self.populations, self.claim.sides, self.evidence, strict=True)
        return tuple(Price(name, s.relation, s.cost, own.charge.seq) for name, s, own in sides)


def write(
    question: Question,
    claim: FlowClaim,
    answer: dict[str, Any] | None,
    evidence: tuple[Evidence, Evidence],
) -> dict[str, Any]:
    """The certificate of a release, as JSON.

    Args:
        question: what was asked.
        claim: what both were charged for.
        answer: the rows; None where the ledger has no digest of them.
        evidence: what the ledger says, for each population.
    """
    opened = tuple(_opened(own) for own in evidence)
    charges = [own.charge.read() for own in evidence]
    populations, note = [entry.population for entry in charges], charges[0].note
    if not all(isinstance(entry.content, Charged) for entry in charges):
        raise InternalError("The entries of this release are of other kinds than they must be.")
    version = note.get("version")
    return {
        "format": FORMAT,
        "library": note.get("library"),
        "question": question.to_json(),
        "populations": populations,
        "version": version,
        "claim": encode(claim),
        "reasons": reasons(claim),
        "answer": answer,
        "ledger": {"accounts": [own.to_json() for own in evidence], "head": head_json(evidence[0].head)},
        "registry": registry(claim, opened, populations=populations, version=version),
    }


def read(document: Any) -> CertificateOfBoth:
    """A certificate's fields.

    Raises:
        InvalidParameter: it is none.
    """
    found = record(document, _FIELDS, "it")
    del found["format"]
    found["evidence"] = found.pop("ledger")
    return CertificateOfBoth(**found)


def _opened(own: Evidence) -> Opened:
    content = own.account.read().content
    if not isinstance(content, Opened):
        raise InternalError("The entries of this release are of other kinds than they must be.")
    return content


def _two(value: Any) -> tuple[str, str]:
    found = listed(text)(value)
    if len(found) != 2 or found[0] == found[1]:
        refuse("it is not of two populations")
    return found[0], found[1]


def _evidence(value: Any) -> tuple[Evidence, Evidence]:
    found = record(value, {"accounts": listed(_entries), "head": head}, "the ledger's part")
    accounts = [Evidence(**own, head=found["head"]) for own in found["accounts"]]
    if len(accounts) != 2:
        refuse("the ledger's part is not of two accounts")
    return accounts[0], accounts[1]


def _entries(value: Any) -> dict[str, Any]:
    return record(value, LINKS, "an account's part")


_FIELDS: Mapping[str, Any] = {
    "format": text,
    "library": text,
    "question": question,
    "populations": _two,
    "version": optional(text),
    "claim": decode,
    "reasons": listed(text),
    "answer": anything,
    "ledger": _evidence,
    "registry": anything,
}
