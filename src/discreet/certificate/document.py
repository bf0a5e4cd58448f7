"""A certificate: its fields, writing one, and reading one back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.certificate.codec import decode, encode
from discreet.certificate.evidence import Evidence, Link
from discreet.certificate.forms import (
    Reader,
    anything,
    digest,
    listed,
    number,
    optional,
    record,
    refuse,
    text,
)
from discreet.certificate.reasons import reasons
from discreet.certificate.registry import registry
from discreet.errors import InternalError
from discreet.ledger.entry import Charged, Opened
from discreet.privacy.unit import Relation
from discreet.rederive.claim import Claim, Cost

FORMAT = "discreet certificate, format 1"
"""What a certificate calls itself. A field never changes its meaning under this name."""


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked: the text, the identity of what was measured, and its name in a batch."""

    sql: str
    identity: str
    name: str | None

    def to_json(self) -> dict[str, Any]:
        """The question as JSON."""
        return {"sql": self.sql, "identity": self.identity, "name": self.name}


@dataclass(frozen=True, slots=True)
class Price:
    """What a release cost each unit of a population, and the entry that charged it."""

    population: str
    relation: Relation
    cost: Cost
    entry: int


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate as it was read: every field of the known form, and nothing judged yet."""

    library: str
    question: Question
    population: str
    version: str | None
    claim: Claim
    reasons: tuple[str, ...]
    answer: Any
    evidence: Evidence
    registry: Any

    @property
    def prices(self) -> tuple[Price, ...]:
        """What the release cost: the one population that paid."""
        claim = self.claim
        return (Price(self.population, claim.relation, claim.charged, self.evidence.charge.seq),)


def write(
    question: Question, claim: Claim, answer: dict[str, Any] | None, evidence: Evidence
) -> dict[str, Any]:
    """The certificate of a release, as JSON.

    Args:
        question: what was asked.
        claim: what was charged for.
        answer: the rows; None where the ledger has no digest of them.
        evidence: what the ledger says.
    """
    opened, charge = evidence.account.read().content, evidence.charge.read()
    if not isinstance(opened, Opened) or not isinstance(charge.content, Charged):
        raise InternalError("The entries of this release are of other kinds than they must be.")
    version = charge.note.get("version")
    return {
        "format": FORMAT,
        "library": charge.note.get("library"),
        "question": question.to_json(),
        "population": charge.population,
        "version": version,
        "claim": encode(claim),
        "reasons": reasons(claim),
        "answer": answer,
        "ledger": {**evidence.to_json(), "head": head_json(evidence.head)},
        "registry": registry(claim, opened, population=charge.population, version=version),
    }


def read(document: Any) -> Certificate:
    """A certificate's fields.

    Raises:
        InvalidParameter: it is none, or one of a newer format.
    """
    if type(document) is not dict or document.get("format") != FORMAT:
        refuse(f"its format is not {FORMAT!r}")
    found = record(document, _FIELDS, "it")
    del found["format"]
    return Certificate(**{("evidence" if name == "ledger" else name): part for name, part in found.items()})


def question(value: Any) -> Question:
    """What was asked."""
    return Question(
        **record(value, {"sql": text, "identity": digest, "name": optional(text)}, "the question")
    )


def head_json(head: tuple[int, str]) -> dict[str, Any]:
    """A head as JSON."""
    return {"seq": head[0], "hash": head[1]}


def head(value: Any) -> tuple[int, str]:
    """The number and hash of a chain's last entry."""
    found = record(value, {"seq": number, "hash": digest}, "the head")
    return found["seq"], found["hash"]


def _evidence(value: Any) -> Evidence:
    return Evidence(**record(value, {**LINKS, "head": head}, "the ledger's part"))


LINKS: Mapping[str, Reader[Any]] = {
    **dict.fromkeys(("account", "charge", "release"), Link.from_json),
    "schemas": listed(Link.from_json),
}
"""The entries of one account."""

_FIELDS = {
    "format": text,
    "library": text,
    "question": question,
    "population": text,
    "version": optional(text),
    "claim": decode,
    "reasons": listed(text),
    "answer": anything,
    "ledger": _evidence,
    "registry": anything,
}
