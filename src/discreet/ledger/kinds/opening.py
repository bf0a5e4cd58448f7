"""The entry that opens an account, with what stays fixed for life."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from discreet.accounting.filter import Tally
from discreet.errors import InvalidParameter
from discreet.ledger import forms
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import Relation


class Analysts(Enum):
    """What is promised about several analysts: against all of them together, or also against each one apart."""

    TOGETHER = "together"
    APART = "apart"

    @classmethod
    def parse(cls, text: str | Analysts) -> Analysts:
        """The value of that name.

        Raises:
            InvalidParameter: another name.
        """
        try:
            return cls(text)
        except ValueError:
            raise InvalidParameter(
                f"analysts must be 'together' or 'apart', not {text!r:.60}.",
                hint="'apart' adds a weaker promise against analysts who never talk; their caps are reserved then",
            ) from None


@dataclass(frozen=True, slots=True)
class People:
    """The promise to each person by itself: a budget, the filter that adds a person's spending up, its capacity."""

    budget: Budget
    filter: str
    capacity: Tally


@dataclass(frozen=True, slots=True)
class Opened:
    """An account was opened, with what stays fixed for life. Of its secret key only the SHA-256 is told.

    `capacity` is the most that each of the filter's sums may reach, as it followed from the budget on that
    day: a later version that computes it more tightly does not change what an open account may spend.
    `budget` and `capacity` are None where each person's own budget, `people`, is the whole promise; the sums
    are counted in the units of the filter all the same, without a limit.
    `owner` says that its owner has opened it, and no charge; `signature` is by the key that a lock named.
    """

    kind: ClassVar[str] = "account"
    key: ClassVar[str] = ""
    names: ClassVar[frozenset[str]] = frozenset(
        {
            "budget",
            "relation",
            "filter",
            "capacity",
            "secret_sha256",
            "people",
            "analysts",
            "owner",
            "signature",
        }
    )

    budget: Budget | None
    relation: Relation
    filter: str
    capacity: Tally | None
    secret_sha256: str
    people: People | None = None
    analysts: Analysts = Analysts.TOGETHER
    owner: bool = False
    signature: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        people = self.people
        return {
            "budget": None if self.budget is None else forms.budget_texts(self.budget),
            "relation": self.relation.value,
            "filter": self.filter,
            "capacity": None if self.capacity is None else forms.tally_texts(self.capacity),
            "secret_sha256": self.secret_sha256,
            "people": None
            if people is None
            else {
                "budget": forms.budget_texts(people.budget),
                "filter": people.filter,
                "capacity": forms.tally_texts(people.capacity),
            },
            "analysts": self.analysts.value,
            "owner": self.owner,
            "signature": self.signature,
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Opened:
        """The value of these fields."""
        budget, capacity = body["budget"], body["capacity"]
        if (budget is None) != (capacity is None):
            raise ValueError("a budget without a capacity, or a capacity without a budget")
        return cls(
            None if budget is None else forms.budget(budget),
            Relation.parse(body["relation"]),
            forms.text(body["filter"]),
            None if capacity is None else forms.tally(capacity),
            forms.digest(body["secret_sha256"]),
            _people(body["people"]),
            Analysts.parse(forms.text(body["analysts"])),
            forms.truth(body["owner"]),
            forms.optional(body["signature"]),
        )


def _people(value: Any) -> People | None:
    if value is None:
        return None
    if forms.object_of(value).keys() != {"budget", "filter", "capacity"}:
        raise ValueError("unknown field")
    return People(forms.budget(value["budget"]), forms.text(value["filter"]), forms.tally(value["capacity"]))
