"""What a ledger can say: entries of a few kinds, and their stored form.

What is not in the table below was written by another version and is refused, never skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from discreet.errors import InvalidParameter, LedgerCorrupt, LedgerError
from discreet.ledger import forms
from discreet.ledger.chain import canonical, link, parse
from discreet.ledger.failures import ANOTHER, KEEP
from discreet.ledger.kinds import AnalystCapped as AnalystCapped
from discreet.ledger.kinds import Analysts as Analysts
from discreet.ledger.kinds import Charged as Charged
from discreet.ledger.kinds import Closed as Closed
from discreet.ledger.kinds import Frozen as Frozen
from discreet.ledger.kinds import GroupCapped as GroupCapped
from discreet.ledger.kinds import Locked as Locked
from discreet.ledger.kinds import Moved as Moved
from discreet.ledger.kinds import Opened as Opened
from discreet.ledger.kinds import People as People
from discreet.ledger.kinds import PeopleCharged as PeopleCharged
from discreet.ledger.kinds import Pinned as Pinned
from discreet.ledger.kinds import Rebudgeted as Rebudgeted
from discreet.ledger.kinds import Released as Released
from discreet.ledger.kinds import Thawed as Thawed
from discreet.ledger.store import Row

Content: TypeAlias = (
    Opened
    | Pinned
    | Charged
    | Released
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

KINDS: dict[str, type[Content]] = {
    "account": Opened,
    "schema": Pinned,
    "charge": Charged,
    "release": Released,
    "people": PeopleCharged,
    "budget": Rebudgeted,
    "freeze": Frozen,
    "thaw": Thawed,
    "close": Closed,
    "analyst": AnalystCapped,
    "group": GroupCapped,
    "moved": Moved,
    "lock": Locked,
}
"""Every stored kind."""


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
