"""What a ledger can say: four kinds of entry, as values, and their JSON.

A treaty with every ledger ever written: a kind is never removed, a field never changes its meaning, and
what means something new gets a new kind. What is not in the table below was written by a newer version and
is refused, never skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

from discreet.accounting.filter import Charge, Tally
from discreet.errors import InvalidParameter, LedgerCorrupt, LedgerError
from discreet.ledger.chain import canonical, link, parse
from discreet.ledger.failures import KEEP
from discreet.ledger.store import Row
from discreet.privacy import codec
from discreet.privacy.guarantee import Approximate, Budget
from discreet.privacy.unit import Relation

_NEWER = "a newer version of discreet wrote it; install that one"


@dataclass(frozen=True, slots=True)
class Opened:
    """An account was opened, with what stays fixed for life. Of its secret key only the SHA-256 is told.

    `capacity` is the most that each of the filter's sums may reach, as it followed from the budget on that
    day: a later version that computes it more tightly does not change what an open account may spend.
    """

    kind: ClassVar[str] = "account"
    key: ClassVar[str] = ""

    budget: Budget
    relation: Relation
    filter: str
    capacity: Tally
    secret_sha256: str


@dataclass(frozen=True, slots=True)
class Pinned:
    """A table's public schema was fixed."""

    kind: ClassVar[str] = "schema"

    table: str
    schema: dict[str, Any]

    @property
    def key(self) -> str:
        """The table's name."""
        return self.table


@dataclass(frozen=True, slots=True)
class Charged:
    """A question was charged; `spent` is the tally with this charge in it, `note` holds public facts only."""

    kind: ClassVar[str] = "charge"

    question: str
    charge: Charge
    spent: Tally
    note: dict[str, Any]

    @property
    def key(self) -> str:
        """The question's identity."""
        return self.question


@dataclass(frozen=True, slots=True)
class Released:
    """A finished release was stored under the charge that paid for it."""

    kind: ClassVar[str] = "release"

    question: str
    charge: int
    release: dict[str, Any]

    @property
    def key(self) -> str:
        """The question's identity."""
        return self.question


Content: TypeAlias = Opened | Pinned | Charged | Released


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a ledger: its number, when (told, never used), of which population, and what happened."""

    seq: int
    time: str
    population: str
    content: Content

    @property
    def kind(self) -> str:
        """One of "account", "schema", "charge", "release"."""
        return self.content.kind

    @property
    def question(self) -> str | None:
        """The identity of the question that was charged or answered."""
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


def to_row(entry: Entry, previous: str) -> Row:
    """The stored form of an entry after that hash.

    Raises:
        InvalidParameter: a note, schema or release holds what JSON cannot.
    """
    head = {"seq": entry.seq, "time": entry.time, "population": entry.population, "kind": entry.kind}
    body = canonical(head | _fields(entry.content))
    return Row(entry.seq, entry.population, entry.kind, entry.content.key, body, link(previous, body))


def from_row(row: Row) -> Entry:
    """The entry of a stored row. Its hash is the chain's business, not looked at here.

    Raises:
        LedgerError: a kind or field that this version does not know.
        LedgerCorrupt: a body that is not what it should be, or that its row contradicts.
    """
    try:
        body = parse(row.body)
        seq, time, population, kind = (body.pop(name) for name in ("seq", "time", "population", "kind"))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        raise _corrupt(row) from None
    if type(kind) is not str or kind not in _KINDS:
        raise LedgerError(f"entry {row.seq} of the ledger has the unknown kind {kind!r}.", hint=_NEWER)
    read, names = _KINDS[kind]
    if unknown := sorted(body.keys() - names):
        raise LedgerError(f"entry {row.seq} of the ledger has the unknown field {unknown[0]!r}.", hint=_NEWER)
    if body.get("units") is not None:
        raise LedgerError(
            f"entry {row.seq} of the ledger is charged per unit, in an unknown form.", hint=_NEWER
        )
    try:
        entry = Entry(seq, _text(time), _text(population), read(body))
    except InvalidParameter as error:
        raise LedgerError(
            f"entry {row.seq} of the ledger cannot be read: {error.message}", hint=_NEWER
        ) from None
    except (ValueError, KeyError, AttributeError, TypeError, ArithmeticError):
        raise _corrupt(row) from None
    if type(seq) is not int or (seq, population, kind, entry.content.key) != row[:4]:
        raise _corrupt(row)
    return entry


def fraction(text: str) -> Fraction:
    """The fraction that `codec.fraction_text` wrote.

    Raises:
        ValueError: any other text.
    """
    if not _FRACTION.fullmatch(text) or codec.fraction_text(x := Fraction(text)) != text:
        raise ValueError("not a fraction in lowest terms")
    return x


def tally(texts: list[str]) -> Tally:
    """A tally from its stored form."""
    return tuple(fraction(text) for text in texts)


_FRACTION = re.compile(r"-?[0-9]{1,4000}/[0-9]{1,4000}")


def _fields(content: Content) -> dict[str, Any]:
    match content:
        case Opened(budget, relation, name, capacity, digest):
            amounts = {"epsilon": budget.epsilon, "delta": budget.delta, "per_query": budget.per_query}
            return {
                "budget": {k: codec.fraction_text(x) for k, x in amounts.items()},
                "relation": relation.value,
                "filter": name,
                "capacity": [codec.fraction_text(x) for x in capacity],
                "secret_sha256": digest,
            }
        case Pinned(table, schema):
            return {"table": table, "schema": schema}
        case Charged(question, charge, spent, note):
            return {
                "question": question,
                "events": codec.encode(charge.events),
                "epsilon": codec.fraction_text(charge.guarantee.epsilon),
                "delta": codec.fraction_text(charge.guarantee.delta),
                "spent": [codec.fraction_text(x) for x in spent],
                "units": None,
                "note": note,
            }
        case Released(question, seq, release):
            return {"question": question, "charge": seq, "release": release}


def _opened(body: dict[str, Any]) -> Opened:
    limits = {k: fraction(text) for k, text in body["budget"].items()}
    budget = Budget(limits.pop("epsilon"), limits.pop("delta"), per_query=limits.pop("per_query"))
    if limits or not re.fullmatch("[0-9a-f]{64}", body["secret_sha256"]):
        raise ValueError("unknown limit, or no digest")
    relation, capacity = Relation.parse(body["relation"]), tally(body["capacity"])
    return Opened(budget, relation, _text(body["filter"]), capacity, body["secret_sha256"])


def _pinned(body: dict[str, Any]) -> Pinned:
    return Pinned(_text(body["table"]), _object(body["schema"]))


def _charged(body: dict[str, Any]) -> Charged:
    events = codec.decode(body["events"])
    if codec.encode(events) != body["events"] or "units" not in body:
        raise ValueError("not as it was written")
    guarantee = Approximate(fraction(body["epsilon"]), fraction(body["delta"]))
    return Charged(
        _text(body["question"]), Charge(events, guarantee), tally(body["spent"]), _object(body["note"])
    )


def _released(body: dict[str, Any]) -> Released:
    if type(body["charge"]) is not int:
        raise ValueError("not a number of an entry")
    return Released(_text(body["question"]), body["charge"], _object(body["release"]))


_KINDS: dict[str, tuple[Callable[[dict[str, Any]], Content], frozenset[str]]] = {
    "account": (_opened, frozenset({"budget", "relation", "filter", "capacity", "secret_sha256"})),
    "schema": (_pinned, frozenset({"table", "schema"})),
    "charge": (_charged, frozenset({"question", "events", "epsilon", "delta", "spent", "units", "note"})),
    "release": (_released, frozenset({"question", "charge", "release"})),
}
"""Every stored kind, for ever, with its fields."""


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("not text")
    return value


def _object(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise TypeError("not an object")
    return value


def _corrupt(row: Row) -> LedgerCorrupt:
    return LedgerCorrupt(f"entry {row.seq} of the ledger is damaged.", hint=KEEP)
