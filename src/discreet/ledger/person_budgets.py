"""Budgets of people: one write transaction finds who can pay for a query, and stores what they have spent then.

The person table in the ledger has one segment for each charge, committed to by an entry, and all merged now and then.

A segment has the sums, after a charge, of those who paid; what is in a later one counts. Every `MERGED`th charge writes
the whole table as one segment instead and removes the others: by number, never by size, since sizes are private. The
entry `people` of a charge holds a commitment to all segments that there are after it.

Guarantee:
    The commitment hides: without the account's secret it tells nothing of the table, whatever else is known (HMAC as a
    pseudorandom function). And it binds: a table that was changed, cut short or exchanged for an older one does not
    meet the last commitment (a collision of SHA-256 else).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from discreet.accounting.filter import Filter, Tally, reopen_filter
from discreet.errors import InvalidParameter, LedgerCorrupt
from discreet.ledger.chain import canonical
from discreet.ledger.entry import Charged, Entry, Opened, PeopleCharged, from_row
from discreet.ledger.entry import People as Promise
from discreet.ledger.failures import KEEP
from discreet.ledger.log import Log, View
from discreet.ledger.people_table import BEYOND, Hashes, PeopleTable, Sums, parts_of, settle, summarised

MERGED = 16  # so many segments are merged into one
_NAME = re.compile("([0-9]{16})/([0-9]{4})")


@dataclass(frozen=True, slots=True)
class Segments:
    """Which segments there are: the names of their portions in order, each with its SHA-256 where that is known."""

    population: str  # whose they are
    sums: int  # how many sums each person has
    portions: Mapping[str, str]  # name → digest

    @property
    def numbers(self) -> list[int]:
        """The entries that wrote the segments."""
        return sorted({segment_of(self.population, name) for name in self.portions})

    def commitment(self, secret: bytes) -> str:
        """Return the commitment to these segments, under a key of the account's secret."""
        key = hmac.digest(secret, b"discreet person table, commitment", "sha256")
        told = canonical([self.population, self.sums, [[n, self.portions[n]] for n in sorted(self.portions)]])
        return hmac.digest(key, told.encode(), "sha256").hex()

    def of(self, seq: int) -> list[str]:
        """Return the names of one segment's portions, in order."""
        return sorted(n for n in self.portions if segment_of(self.population, n) == seq)


def portion_name(population: str, seq: int, portion: int) -> str:
    """Return the name of a portion of the segment that entry `seq` commits to; names are ordered as their numbers."""
    return f"people/{population}/{seq:016d}/{portion:04d}"


def segment_of(population: str, blob: str) -> int:
    """Return the entry that wrote a portion; 0 if it is no portion of this population's table."""
    start = f"people/{population}/"
    found = _NAME.fullmatch(blob[len(start) :]) if blob.startswith(start) else None
    return int(found[1]) if found else 0


def stored_portions(view: View, population: str) -> list[str]:
    """Return the names of all portions of a population's table, in order."""
    return [blob for blob in view.blobs() if segment_of(population, blob)]


def last_entry(view: View, population: str, newest: int) -> Entry | None:
    """Return the last `people` entry of a population, which must be the one that wrote its newest segment.

    Raises:
        LedgerCorrupt: it is another one.
    """
    rows = view.rows(after=max(newest - 1, 0), limit=2, population=population, kind=PeopleCharged.kind)
    if [row.seq for row in rows] != ([newest] if newest else []):
        raise corrupt(population)
    if not rows:
        return None
    view.entry(rows[0])  # its hash
    return from_row(rows[0])


def digest_of(portion: bytes) -> str:
    """Return what a commitment says of a portion."""
    return hashlib.sha256(portion).hexdigest()


def joined(tables: Sequence[PeopleTable], sums: int) -> PeopleTable:
    """Return the table that these make, in order of their numbers; the first may be large, and is read once."""
    first, *later = [t for t in tables if len(t)] or [PeopleTable.nobody(sums)]
    newer = PeopleTable.nobody(sums)
    for table in later:
        newer = newer.after(table)
    return first.after(newer)


def corrupt(population: str) -> LedgerCorrupt:
    """Return the table is not the one that the chain commits to."""
    return LedgerCorrupt(
        f"what the people of {population!r} have spent is not what the ledger's chain says: the table was changed, cut "
        "short or exchanged.",
        hint=KEEP,
    )


T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """The table as one transaction left it: what this process need not read again."""

    segments: Segments
    table: PeopleTable

    def __repr__(self) -> str:
        return "_Known(…)"


_KNOWN: WeakKeyDictionary[Log, dict[str, _Known]] = WeakKeyDictionary()
"""The last table that was seen, of each population. What is stored is looked at before it is trusted."""


class PersonBudgets:
    """Each person's own budget: what a query's people pay, and who of them cannot.

    Guarantee:
        Of any number of queries, threads and processes, each query settles alone, in the order of its `people`
        entry: whether a person takes part follows from what that person spent in queries settled before and from its
        cost in this one. A cost that was taken is never forgotten: the table is stored in the transaction that appends
        the entry which commits to it, and a table that does not meet the last commitment is refused.
    """

    __slots__ = ("_counted", "_log", "_population", "_secret", "capacity", "filter", "key")

    filter: Filter  # the rule by which a person's costs add up
    capacity: Tally  # what its sums may reach, fixed when the account was opened
    key: str  # the key under which ids are hashed. Never shown.

    def __init__(self, log: Log, population: str, promise: Promise, secret: bytes) -> None:
        self._log, self._population, self._secret = log, population, secret
        self.filter = reopen_filter(promise.filter, promise.budget, promise.capacity)
        self.capacity = promise.capacity
        self._counted = _counted(promise.capacity)
        self.key = hmac.digest(secret, b"discreet person table, ids", "sha256")[:16].hex()

    def __repr__(self) -> str:
        return f"PersonBudgets({self._population!r})"

    def settle(self, charge: int, hashes: Hashes, costs: Sums) -> Hashes:
        """Charges the people of a query, and returns the hashes of those who cannot pay. Private.

        Args:
            charge: the number of the query's charge, whose people have not been settled yet.
            hashes: of each person in the query.
            costs: in parts of the capacity, a row for each sum and a column for each of `hashes`.

        Raises:
            InvalidParameter: no such charge, or its people have been settled.
            LedgerError: the ledger could not be read and written; then nothing may be released.
            LedgerCorrupt: the table is not the one that the chain commits to.
        """
        due = _due(costs, self._counted)

        def asked(table: PeopleTable) -> tuple[Hashes, PeopleTable]:
            settled = settle(table, hashes, due)
            return settled.out, settled.paid

        return self._settled(charge, asked)

    def summarise(self, charge: int, cost: Tally) -> tuple[int, ...]:
        """Charges everybody who has spent anything for being counted, and returns the counts of those who can pay, by
        tenths of what they have used then. Private.

        Args:
            charge: the number of the summary's charge, whose people have not been settled yet.
            cost: in the units of the filter, the same for everybody.

        Raises:
            InvalidParameter: no such charge, or its people have been settled.
            LedgerError: the ledger could not be read and written; then nothing may be released.
            LedgerCorrupt: the table is not the one that the chain commits to.
        """
        due = _due(np.array(self.parts(cost), np.int64)[:, None], self._counted)

        def asked(table: PeopleTable) -> tuple[tuple[int, ...], PeopleTable]:
            found = summarised(table, due)
            return found.counts, found.settled.paid

        return self._settled(charge, asked)

    def parts(self, cost: Tally) -> tuple[int, ...]:
        """Return a cost in parts of each sum of a person's capacity, rounded up; above `CAPACITY` nobody can pay it."""
        return tuple(parts_of(x, most) for x, most in zip(cost, self.capacity, strict=True))

    def _settled(self, charge: int, asked: Callable[[PeopleTable], tuple[T, PeopleTable]]) -> T:
        """Return what is asked of the table in one transaction, once those who pay are kept with their spending."""

        def work(view: View) -> tuple[T, _Known]:
            view.refuse_moved()
            by = self._check(view, charge)
            known = self._read(view)
            found, paid = asked(known.table)
            return found, self._write(view, by, known, paid)

        found, known = self._log.write(work)
        _KNOWN.setdefault(self._log, {})[self._population] = known
        return found

    def _check(self, view: View, charge: int) -> Entry:
        paid = view.numbered(charge)
        if paid is None or (paid.population, paid.kind) != (self._population, Charged.kind):
            raise InvalidParameter(f"entry {charge} is not a charge of {self._population!r}.")
        if view.latest(self._population, PeopleCharged.kind, str(charge)) is not None:
            raise InvalidParameter(f"the people of the charge {charge} have been charged already.")
        return paid

    def _read(self, view: View) -> _Known:
        """Return the table as it is stored, of which only what is not known yet is read."""
        sums, names = len(self._counted), stored_portions(view, self._population)
        known = _KNOWN.get(self._log, {}).get(self._population)
        if known is None or not known.segments.portions.keys() <= set(names):  # merged by another process, say
            known = _Known(Segments(self._population, sums, {}), PeopleTable.nobody(sums))
        new = [name for name in names if name not in known.segments.portions]
        if new and known.segments.portions and new[0] < max(known.segments.portions):
            raise corrupt(self._population)
        found = {name: view.blob(name) or b"" for name in new}
        digests = {name: digest_of(portion) for name, portion in found.items()}
        told = Segments(self._population, sums, {**known.segments.portions, **digests})
        newest = max(told.numbers, default=0)
        entry = last_entry(view, self._population, newest)
        if entry is not None and not (
            isinstance(entry.content, PeopleCharged) and entry.content.commitment == told.commitment(self._secret)
        ):
            raise corrupt(self._population)
        try:
            each = [
                PeopleTable.restored([found[name] for name in told.of(number)], sums)
                for number in told.numbers
                if number not in known.segments.numbers
            ]
        except ValueError:
            raise corrupt(self._population) from None
        return _Known(told, joined([known.table, *each], sums))

    def _write(self, view: View, charge: Entry, known: _Known, paid: PeopleTable) -> _Known:
        """Store those who paid as a segment, or the whole table in place of all segments, and commit to it."""
        seq, table = view.head[0] + 1, known.table.after(paid)
        merges = len(known.segments.numbers) + 1 >= MERGED
        kept = {} if merges else dict(known.segments.portions)
        for name in known.segments.portions if merges else ():
            view.put_blob(name, None)
        for i, portion in enumerate((table if merges else paid).portions()):
            name = portion_name(self._population, seq, i)
            view.put_blob(name, portion)
            kept[name] = digest_of(portion)
        told = Segments(self._population, known.segments.sums, kept)
        content = PeopleCharged(charge.seq, told.commitment(self._secret))
        entry = view.append(self._population, content, paid=charge)
        assert entry.seq == seq
        return _Known(told, table)


def problems(view: View, population: str, opened: Opened, secret: bytes | None) -> list[str]:
    """Return what is wrong with a population's person table, to which its chain commits, in sentences."""
    names = stored_portions(view, population)
    if opened.people is None or secret is None:
        return [f"there is a table of people of {population!r}, who have no budgets."] if names and secret else []
    sums = len(_counted(opened.people.capacity))
    try:
        digests = {name: digest_of(view.blob(name) or b"") for name in names}
        told = Segments(population, sums, digests)
        entry = last_entry(view, population, max(told.numbers, default=0))
        if entry is not None and (
            not isinstance(entry.content, PeopleCharged) or entry.content.commitment != told.commitment(secret)
        ):
            raise corrupt(population)
        for number in told.numbers:
            PeopleTable.restored([view.blob(name) or b"" for name in told.of(number)], sums)
    except ValueError:
        return [corrupt(population).message]
    except LedgerCorrupt as error:
        return [error.message]
    return []


def _counted(capacity: Tally) -> list[int]:
    """Return the places of the sums that anything can be spent of: a budget without a δ has one of ε alone."""
    return [i for i, most in enumerate(capacity) if most > 0]


def _due(costs: Sums, counted: list[int]) -> Sums:
    """Return the costs in the sums that are counted; who has one in another cannot pay."""
    others = [i for i in range(len(costs)) if i not in counted]
    return np.where((costs[others] > 0).any(axis=0), BEYOND, costs[counted])
