"""A certificate: its fields, writing one, and reading one back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.certificate.codec import decode, encode
from discreet.certificate.evidence import Evidence, Link
from discreet.certificate.forms import (
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
from discreet.rederive.claim import Claim

FORMAT = "discreet certificate, format 1"
"""What a certificate calls itself. A field never changes its meaning under this name."""


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked: the text, the identity of what was measured, and its name in a batch."""

    sql: str
    identity: str
    name: str | None


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
        "question": {"sql": question.sql, "identity": question.identity, "name": question.name},
        "population": charge.population,
        "version": version,
        "claim": encode(claim),
        "reasons": reasons(claim),
        "answer": answer,
        "ledger": {
            "account": evidence.account.to_json(),
            "schemas": [own.to_json() for own in evidence.schemas],
            "charge": evidence.charge.to_json(),
            "release": evidence.release.to_json(),
            "head": {"seq": evidence.head[0], "hash": evidence.head[1]},
        },
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


def _question(value: Any) -> Question:
    return Question(
        **record(value, {"sql": text, "identity": digest, "name": optional(text)}, "the question")
    )


def _head(value: Any) -> tuple[int, str]:
    found = record(value, {"seq": number, "hash": digest}, "the head")
    return found["seq"], found["hash"]


def _evidence(value: Any) -> Evidence:
    links = dict.fromkeys(("account", "charge", "release"), Link.from_json)
    names = {**links, "schemas": listed(Link.from_json), "head": _head}
    return Evidence(**record(value, names, "the ledger's part"))


_FIELDS = {
    "format": text,
    "library": text,
    "question": _question,
    "population": text,
    "version": optional(text),
    "claim": decode,
    "reasons": listed(text),
    "answer": anything,
    "ledger": _evidence,
    "registry": anything,
}
