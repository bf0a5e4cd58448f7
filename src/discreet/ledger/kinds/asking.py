"""The entries that asking writes: a table's schema, a charge, a release, what each person has spent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from discreet.accounting.filter import Charge, Tally
from discreet.ledger.chain import canonical
from discreet.ledger.forms import (
    DIGEST,
    NUMBER,
    OBJECT,
    TEXT,
    Fields,
    Form,
    fraction,
    number,
    object_of,
    optional,
    tally,
    tally_texts,
    text,
)
from discreet.privacy import codec
from discreet.privacy.guarantee import Approximate

_SHORT = 4000  # characters of events that are worth keeping

TOGETHER = "together"
"""The field of a note that names the populations which pay for one question together, in the order of their entries."""


@dataclass(frozen=True, slots=True)
class Pinned(Fields):
    """A table's public schema was fixed."""

    kind: ClassVar[str] = "schema"
    forms: ClassVar[Mapping[str, Form[Any]]] = {"table": TEXT, "schema": OBJECT}

    table: str
    schema: dict[str, Any]

    @property
    def key(self) -> str:
        """The table's name."""
        return self.table


@dataclass(frozen=True, slots=True)
class Charged(Fields):
    """A question was charged, by an analyst if the account has any.

    `spent` is the population's tally with this charge in it, `note` holds public facts only.
    """

    kind: ClassVar[str] = "charge"
    forms: ClassVar[Mapping[str, Form[Any]]] = dict.fromkeys(
        ("question", "events", "epsilon", "delta", "spent", "units", "analyst", "note"), OBJECT
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
            "spent": tally_texts(self.spent),
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
            text(body["question"]),
            read(events, text(body["epsilon"]), text(body["delta"])),
            tally(body["spent"]),
            object_of(body["note"]),
            optional(body["analyst"]),
        )


@dataclass(frozen=True, slots=True)
class Released(Fields):
    """A finished release was stored under the charge that paid for it."""

    kind: ClassVar[str] = "release"
    forms: ClassVar[Mapping[str, Form[Any]]] = {"question": TEXT, "charge": NUMBER, "release": OBJECT}

    question: str
    charge: int
    release: dict[str, Any]

    @property
    def key(self) -> str:
        """The question's identity."""
        return self.question


@dataclass(frozen=True, slots=True)
class PeopleCharged(Fields):
    """The person table after a charge, by a hiding commitment; or after a merge of its segments, with no charge.

    It is written for each charge, whoever and however many were touched; the table itself is private.
    """

    kind: ClassVar[str] = "people"
    forms: ClassVar[Mapping[str, Form[Any]]] = {
        "charge": Form(lambda value: None if value is None else number(value)),
        "commitment": DIGEST,
    }

    charge: int | None
    commitment: str

    @property
    def key(self) -> str:
        """The number of the charge; empty for a merge."""
        return "" if self.charge is None else str(self.charge)


@lru_cache(maxsize=64)
def _charge(events: str, epsilon: str, delta: str) -> Charge:
    """The charge of these texts: the same question costs the same again, and every transaction reads the last one."""
    rows = json.loads(events)
    found = codec.decode(rows)
    if codec.encode(found) != rows:
        raise ValueError("not as it was written")
    return Charge(found, Approximate(fraction(epsilon), fraction(delta)))
