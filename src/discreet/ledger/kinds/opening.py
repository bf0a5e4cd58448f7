"""The entry that opens an account, with what stays fixed for life."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, TypeVar

from discreet.accounting.filter import Tally
from discreet.errors import InvalidParameter
from discreet.ledger.forms import BUDGET, DIGEST, NAME, TALLY, TEXT, TRUTH, Act, Form, object_of, text
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import Relation

T = TypeVar("T")


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


def _people(value: Any) -> People:
    if object_of(value).keys() != {"budget", "filter", "capacity"}:
        raise ValueError("unknown field")
    return People(BUDGET(value["budget"]), text(value["filter"]), TALLY(value["capacity"]))


def _people_json(people: People) -> dict[str, Any]:
    budget, capacity = BUDGET.write(people.budget), TALLY.write(people.capacity)
    return {"budget": budget, "filter": people.filter, "capacity": capacity}


def _maybe(form: Form[T]) -> Form[T | None]:
    """The same, or null."""
    return Form(
        lambda value: None if value is None else form.read(value),
        lambda value: None if value is None else form.write(value),
    )


@dataclass(frozen=True, slots=True)
class Opened(Act):
    """An account was opened, with what stays fixed for life. Of its secret key only the SHA-256 is told.

    `capacity` is the most that each of the filter's sums may reach, as it followed from the budget on that
    day: a later version that computes it more tightly does not change what an open account may spend.
    `budget` and `capacity` are None where each person's own budget, `people`, is the whole promise; the sums
    are counted in the units of the filter all the same, without a limit.
    `owner` says that its owner has opened it, and no charge; `signature` is by the key that a lock named.
    """

    kind: ClassVar[str] = "account"
    key: ClassVar[str] = ""
    forms: ClassVar[Mapping[str, Form[Any]]] = {
        "budget": _maybe(BUDGET),
        "relation": Form(Relation.parse, lambda relation: relation.value),
        "filter": TEXT,
        "capacity": _maybe(TALLY),
        "secret_sha256": DIGEST,
        "people": _maybe(Form(_people, _people_json)),
        "analysts": Form(lambda value: Analysts.parse(text(value)), lambda analysts: analysts.value),
        "owner": TRUTH,
        "signature": NAME,
    }

    budget: Budget | None
    relation: Relation
    filter: str
    capacity: Tally | None
    secret_sha256: str
    people: People | None = None
    analysts: Analysts = Analysts.TOGETHER
    owner: bool = False

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Opened:
        """Return the value of these fields."""
        if (body["budget"] is None) != (body["capacity"] is None):
            raise ValueError("a budget without a capacity, or a capacity without a budget")
        return cls(**{name: form.read(body[name]) for name, form in cls.forms.items()})
