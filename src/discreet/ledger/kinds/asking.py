"""The entries that connecting and asking write: a table's schema, a charge, a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from discreet.accounting.filter import Charge, Tally
from discreet.ledger import forms
from discreet.privacy import codec
from discreet.privacy.guarantee import Approximate


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
        events = codec.decode(body["events"])
        if codec.encode(events) != body["events"] or "units" not in body:
            raise ValueError("not as it was written")
        guarantee = Approximate(forms.fraction(body["epsilon"]), forms.fraction(body["delta"]))
        return cls(
            forms.text(body["question"]),
            Charge(events, guarantee),
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
