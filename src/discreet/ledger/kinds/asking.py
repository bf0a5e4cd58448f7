"""The entries that connecting and asking write: a table's schema, a charge, a release."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from discreet.accounting.filter import Charge, Tally
from discreet.ledger import forms
from discreet.ledger.chain import canonical
from discreet.privacy import codec
from discreet.privacy.guarantee import Approximate

_SHORT = 4000  # characters of events that are worth keeping


@dataclass(frozen=True, slots=True)
class Pinned:
    """A table's public schema was fixed."""

    kind: ClassVar[str] = "schema"
    names: ClassVar[frozenset[str]] = frozenset({"table", "schema"})

    table: str
    schema: dict[str, Any]

    @property
    def key(self) -> str:
        """The table's name."""
        return self.table

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return {"table": self.table, "schema": self.schema}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Pinned:
        """The value of these fields."""
        return cls(forms.text(body["table"]), forms.object_of(body["schema"]))


@dataclass(frozen=True, slots=True)
class Charged:
    """A question was charged, by an analyst if the account has any.

    `spent` is the population's tally with this charge in it, `note` holds public facts only.
    """

    kind: ClassVar[str] = "charge"
    names: ClassVar[frozenset[str]] = frozenset(
        {"question", "events", "epsilon", "delta", "spent", "units", "analyst", "note"}
    )

    question: str
    charge: Charge
    spent: Tally
    note: dict[str, Any]
    analyst: str | None = None

    @property
    def key(self) -> str:
        """The question's identity."""
        return self.question

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return {
            "question": self.question,
            "events": codec.encode(self.charge.events),
            "epsilon": codec.fraction_text(self.charge.guarantee.epsilon),
            "delta": codec.fraction_text(self.charge.guarantee.delta),
            "spent": forms.tally_texts(self.spent),
            "units": None,
            "analyst": self.analyst,
            "note": self.note,
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Charged:
        """The value of these fields."""
        if "units" not in body:
            raise ValueError("not as it was written")
        events = canonical(body["events"])
        read = _charge if len(events) <= _SHORT else _charge.__wrapped__
        return cls(
            forms.text(body["question"]),
            read(events, forms.text(body["epsilon"]), forms.text(body["delta"])),
            forms.tally(body["spent"]),
            forms.object_of(body["note"]),
            forms.optional(body["analyst"]),
        )


@dataclass(frozen=True, slots=True)
class Released:
    """A finished release was stored under the charge that paid for it."""

    kind: ClassVar[str] = "release"
    names: ClassVar[frozenset[str]] = frozenset({"question", "charge", "release"})

    question: str
    charge: int
    release: dict[str, Any]

    @property
    def key(self) -> str:
        """The question's identity."""
        return self.question

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return {"question": self.question, "charge": self.charge, "release": self.release}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Released:
        """The value of these fields."""
        return cls(
            forms.text(body["question"]), forms.number(body["charge"]), forms.object_of(body["release"])
        )


@lru_cache(maxsize=64)
def _charge(events: str, epsilon: str, delta: str) -> Charge:
    """The charge of these texts: the same question costs the same again, and every transaction reads the last one."""
    rows = json.loads(events)
    found = codec.decode(rows)
    if codec.encode(found) != rows:
        raise ValueError("not as it was written")
    return Charge(found, Approximate(forms.fraction(epsilon), forms.fraction(delta)))
