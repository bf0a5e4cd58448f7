"""What a ledger can say: entries of a few kinds, and their stored form.

`to_json` and `from_json` are each other's inverse; what `from_json` cannot read it refuses with a `ValueError`,
`TypeError`, `KeyError` or `InvalidParameter`, which `from_row` turns into words. A kind that is not in `KINDS` was
written by another version and is refused, never skipped.

What an owner writes is signed off: `by` says by whom and `reason` why, in public words. None can be taken back. A cap
is a budget with its own `per_query`, and a capacity in the units of the account's filter. A later entry of the name
replaces it; an analyst's group stays what it was at first, so that a group's spending stays with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias, TypeVar, get_args

from discreet.accounting.filter import Charge, Tally
from discreet.errors import InvalidParameter, LedgerCorrupt, LedgerError
from discreet.ledger import forms
from discreet.ledger.chain import canonical, link, parse
from discreet.ledger.failures import ANOTHER, KEEP
from discreet.ledger.forms import (
    ACT,
    BUDGET,
    DIGEST,
    NAME,
    NUMBER,
    OBJECT,
    SIGNED,
    TALLY,
    TEXT,
    TRUTH,
    Act,
    Fields,
    Form,
    fraction,
    object_of,
    optional,
    tally,
    tally_texts,
    text,
)
from discreet.ledger.store import Row
from discreet.privacy import codec
from discreet.privacy.guarantee import Approximate, Budget
from discreet.privacy.unit import Relation

T = TypeVar("T")


class Analysts(Enum):
    """What is promised about several analysts: against all of them together, or also against each one apart."""

    TOGETHER = "together"
    APART = "apart"

    @classmethod
    def parse(cls, text: str | Analysts) -> Analysts:
        """Return the value of that name.

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
    """Return the same, or null."""
    return Form(
        lambda value: None if value is None else form.read(value),
        lambda value: None if value is None else form.write(value),
    )


@dataclass(frozen=True, slots=True)
class Opened(Act):
    """An account was opened, with what never changes. Of its secret key only the SHA-256 is told.

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


_SHORT = 4000  # characters of events that are worth keeping

TOGETHER = "together"
"""The field of a note that names the populations which pay for one query together, in the order of their entries."""

SUMMARY = "summary"  # the field of a note that says that it paid for a summary of what people have used, not for SQL


@dataclass(frozen=True, slots=True)
class Pinned(Fields):
    """A table's public schema was fixed."""

    kind: ClassVar[str] = "schema"
    keyed_by: ClassVar[str] = "table"
    forms: ClassVar[Mapping[str, Form[Any]]] = {"table": TEXT, "schema": OBJECT}

    table: str
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Charged(Fields):
    """A query was charged, by an analyst if the account has any.

    `spent` is the population's tally with this charge in it, `note` holds public facts only.
    """

    kind: ClassVar[str] = "charge"
    keyed_by: ClassVar[str] = "question"
    forms: ClassVar[Mapping[str, Form[Any]]] = dict.fromkeys(
        ("question", "events", "epsilon", "delta", "spent", "units", "analyst", "note"), OBJECT
    )

    question: str
    charge: Charge
    spent: Tally
    note: dict[str, Any]
    analyst: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields."""
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
        """Return the value of these fields."""
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
    keyed_by: ClassVar[str] = "question"
    forms: ClassVar[Mapping[str, Form[Any]]] = {"question": TEXT, "charge": NUMBER, "release": OBJECT}

    question: str
    charge: int
    release: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Begun(Fields):
    """So many draws of a charged run may have been made, written before the first of them that is new."""

    kind: ClassVar[str] = "begun"
    keyed_by: ClassVar[str] = "charge"
    forms: ClassVar[Mapping[str, Form[Any]]] = {"charge": NUMBER, "draws": NUMBER}

    charge: int
    draws: int


@dataclass(frozen=True, slots=True)
class PeopleCharged(Fields):
    """The person table after a charge, by a hiding commitment; or after a merge of its segments, with no charge.

    It is written for each charge, whoever and however many were touched; the table itself is private.
    """

    kind: ClassVar[str] = "people"
    keyed_by: ClassVar[str] = "charge"
    forms: ClassVar[Mapping[str, Form[Any]]] = {"charge": _maybe(NUMBER), "commitment": DIGEST}

    charge: int | None
    commitment: str


@lru_cache(maxsize=64)
def _charge(events: str, epsilon: str, delta: str) -> Charge:
    """Return the charge of these texts, remembered: the same query costs the same again."""
    rows = json.loads(events)
    found = codec.decode(rows)
    if codec.encode(found) != rows:
        raise ValueError("not as it was written")
    return Charge(found, Approximate(fraction(epsilon), fraction(delta)))


@dataclass(frozen=True, slots=True)
class Rebudgeted(Act):
    """The population's budget, and the capacity that follows from it in the filter's units, is now this."""

    kind: ClassVar[str] = "budget"
    forms: ClassVar[Mapping[str, Form[Any]]] = {"budget": BUDGET, "capacity": TALLY, **ACT}

    budget: Budget
    capacity: Tally
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decision(Fields):
    """What is said by its kind alone."""

    forms: ClassVar[Mapping[str, Form[Any]]] = SIGNED

    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Frozen(Decision):
    """No charge is taken, and no run goes on, until the account is thawed; stored releases are still handed out."""

    kind: ClassVar[str] = "freeze"


@dataclass(frozen=True, slots=True)
class Thawed(Act):
    """The end of a freeze."""

    kind: ClassVar[str] = "thaw"
    forms: ClassVar[Mapping[str, Form[Any]]] = ACT

    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Closed(Decision):
    """No charge is ever taken again; stored releases are still handed out."""

    kind: ClassVar[str] = "close"


@dataclass(frozen=True, slots=True)
class Moved(Fields):
    """The account goes on in the store `to`, whose chain begins as a copy of this one up to `head`; here it has ended.

    A ledger moves as a whole: one such entry for each account, all with the same `to` and `head`, and nothing after.
    """

    kind: ClassVar[str] = "moved"
    forms: ClassVar[Mapping[str, Form[Any]]] = {"to": TEXT, "head": DIGEST, **SIGNED}

    to: str
    head: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class GroupCapped(Act):
    """All analysts of this group together may spend this much."""

    kind: ClassVar[str] = "group"
    keyed_by: ClassVar[str] = "name"
    forms: ClassVar[Mapping[str, Form[Any]]] = {"name": TEXT, "budget": BUDGET, "capacity": TALLY, **ACT}

    name: str
    budget: Budget
    capacity: Tally
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class AnalystCapped(Act):
    """This analyst, in this group or none, may spend this much."""

    kind: ClassVar[str] = "analyst"
    keyed_by: ClassVar[str] = "name"
    forms: ClassVar[Mapping[str, Form[Any]]] = {**GroupCapped.forms, "group": NAME}

    name: str
    group: str | None
    budget: Budget
    capacity: Tally
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Locked(Act):
    """Whether charges open accounts, from here on: of no population, it stands under the empty name.

    In a locked ledger an account is opened by its owner's act alone. Where the lock names the owner's public key, each
    `Act` carries a signature by it (`ledger/owner.py`).
    """

    kind: ClassVar[str] = "lock"
    key: ClassVar[str] = ""
    forms: ClassVar[Mapping[str, Form[Any]]] = {"locked": TRUTH, "public_key": NAME, **ACT}

    locked: bool
    public_key: str | None
    by: str
    reason: str


Content: TypeAlias = (
    Opened
    | Pinned
    | Charged
    | Released
    | Begun
    | PeopleCharged
    | Rebudgeted
    | Frozen
    | Thawed
    | Closed
    | AnalystCapped
    | GroupCapped
    | Moved
    | Locked
)

KINDS: dict[str, type[Content]] = {content.kind: content for content in get_args(Content)}  # every stored kind


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a ledger: its number, when (told, never used), of which population, and what happened."""

    seq: int
    time: str
    population: str
    content: Content

    @property
    def kind(self) -> str:
        """What happened, as one of `KINDS`."""
        return self.content.kind

    @property
    def question(self) -> str | None:
        """The identity of the query that was charged or answered."""
        return self.content.question if isinstance(self.content, Charged | Released) else None

    @property
    def epsilon(self) -> Fraction | None:
        """The ε that was charged; None unless this is a charge."""
        return self.content.charge.guarantee.epsilon if isinstance(self.content, Charged) else None

    @property
    def delta(self) -> Fraction | None:
        """The δ that was charged; None unless this is a charge."""
        return self.content.charge.guarantee.delta if isinstance(self.content, Charged) else None

    @property
    def note(self) -> dict[str, Any]:
        """The public facts beside a charge; empty unless this is one."""
        return self.content.note if isinstance(self.content, Charged) else {}

    @property
    def analyst(self) -> str | None:
        """Who was charged, or whose cap this is; None unless it is a charge or a cap of somebody."""
        match self.content:
            case Charged():
                return self.content.analyst
            case AnalystCapped():
                return self.content.name
            case _:
                return None


def release_in(entry: Entry) -> dict[str, Any]:
    """Return what the entry of a release keeps of it."""
    assert isinstance(entry.content, Released)
    return entry.content.release


def to_row(entry: Entry, previous: str) -> Row:
    """Return the stored form of an entry after that hash.

    Raises:
        InvalidParameter: a note, schema or release holds what JSON cannot.
    """
    head = {"seq": entry.seq, "time": entry.time, "population": entry.population, "kind": entry.kind}
    body = canonical(head | entry.content.to_json())
    return Row(entry.seq, entry.population, entry.kind, entry.content.key, body, link(previous, body))


def from_row(row: Row) -> Entry:
    """Return the entry of a stored row. Its hash is the chain's business, not looked at here.

    Raises:
        LedgerError: a kind or field that this version does not know.
        LedgerCorrupt: a body that is not what it should be, or that its row contradicts.
    """
    try:
        body = parse(row.body)
        seq, time, population, kind = (body.pop(name) for name in ("seq", "time", "population", "kind"))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise _corrupt(row) from None
    if type(kind) is not str or kind not in KINDS:
        raise LedgerError(f"entry {row.seq} of the ledger has the unknown kind {kind!r}.", hint=ANOTHER)
    if unknown := sorted(body.keys() - KINDS[kind].forms.keys()):
        raise LedgerError(f"entry {row.seq} of the ledger has the unknown field {unknown[0]!r}.", hint=ANOTHER)
    if body.get("units") is not None:
        raise LedgerError(f"entry {row.seq} of the ledger is charged per unit, in an unknown form.", hint=ANOTHER)
    try:
        entry = Entry(seq, forms.text(time), forms.text(population), KINDS[kind].from_json(body))
    except InvalidParameter as error:
        raise LedgerError(f"entry {row.seq} of the ledger cannot be read: {error.message}", hint=ANOTHER) from None
    except (ValueError, KeyError, AttributeError, TypeError, ArithmeticError):
        raise _corrupt(row) from None
    if type(seq) is not int or (seq, population, kind, entry.content.key) != row[:4]:
        raise _corrupt(row)
    return entry


def _corrupt(row: Row) -> LedgerCorrupt:
    return LedgerCorrupt(f"entry {row.seq} of the ledger is damaged.", hint=KEEP)
