"""The person table as a value: hashes of ids in order, and beside each what that person has spent.

Spending is counted in whole parts of a person's capacity, rounded up, so that sums are exact and never wrap. Nothing
here knows of privacy but that it errs upwards: two people with one hash share one budget.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

CAPACITY = 2**15 * 3**3 * 5**6 * 7 * 11 * 13 * 17
"""The parts of a person's capacity, a number near 2^48 that decimals and small numbers divide: three queries of a
third, or a thousand of a thousandth, fit exactly.
"""

BEYOND = CAPACITY + 1  # stands for every cost that nobody can pay: all larger ones are this one
PORTION = 1 << 21  # people in one stored portion: a few dozen MB
_TAG = b"discreet people, format 1\x00"
_HEAD = struct.Struct("<QB")

Hashes = NDArray[np.uint64]
Sums = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PeopleTable:
    """People and what each has spent."""

    hashes: Hashes  # ascending, each once
    spent: Sums  # one row for each sum, one column for each person; from 0 to `CAPACITY`

    @classmethod
    def nobody(cls, sums: int) -> PeopleTable:
        """Nobody has spent anything, in so many sums."""
        return cls(np.empty(0, np.uint64), np.empty((sums, 0), np.int64))

    def __len__(self) -> int:
        return len(self.hashes)

    def __repr__(self) -> str:
        return "PeopleTable(…)"  # how many there are is private

    def of(self, hashes: Hashes) -> Sums:
        """Return what these people have spent; 0 for those who are not there."""
        found = np.zeros((len(self.spent), len(hashes)), np.int64)
        if len(self):
            place, there = self._places(hashes)
            found[:, there] = self.spent[:, place[there]]
        return found

    def after(self, newer: PeopleTable) -> PeopleTable:
        """Return the table after these people's sums, which replace theirs here; a sum never becomes less."""
        if not len(newer):
            return self
        if not len(self):
            return newer
        place, there = self._places(newer.hashes)
        spent = self.spent.copy()
        known = place[there]
        spent[:, known] = np.maximum(spent[:, known], newer.spent[:, there])
        new = ~there
        if not new.any():
            return PeopleTable(self.hashes, spent)
        at = place[new]
        hashes = np.insert(self.hashes, at, newer.hashes[new])
        return PeopleTable(hashes, np.insert(spent, at, newer.spent[:, new], axis=1))

    def portions(self, size: int = PORTION) -> list[bytes]:
        """Return the table as bytes, in portions of at most so many people; one at least."""
        starts = range(0, max(len(self), 1), size)
        return [self._encoded(start, start + size) for start in starts]

    @classmethod
    def restored(cls, portions: Sequence[bytes], sums: int) -> PeopleTable:
        """Return what `portions` wrote. Raises ValueError: anything else."""
        parts = [_decoded(portion, sums) for portion in portions]
        if not parts:
            raise ValueError("no portion")
        whole = cls(np.concatenate([p.hashes for p in parts]), np.concatenate([p.spent for p in parts], axis=1))
        if (whole.hashes[1:] <= whole.hashes[:-1]).any():
            raise ValueError("hashes that do not ascend")
        return whole

    def _places(self, hashes: Hashes) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Where these hashes are or would be, and whether they are there; the table is not empty."""
        place = np.searchsorted(self.hashes, hashes)
        there = self.hashes[np.minimum(place, len(self) - 1)] == hashes
        return place, there

    def _encoded(self, start: int, end: int) -> bytes:
        hashes = self.hashes[start:end]
        columns = [hashes.astype("<u8").tobytes()]
        columns += [row[start:end].astype("<i8").tobytes() for row in self.spent]
        return b"".join([_TAG, _HEAD.pack(len(hashes), len(self.spent)), *columns])


def _decoded(portion: bytes, sums: int) -> PeopleTable:
    start = len(_TAG) + _HEAD.size
    if portion[: len(_TAG)] != _TAG or len(portion) < start:
        raise ValueError("not a portion of a person table")
    n, found = _HEAD.unpack_from(portion, len(_TAG))
    if found != sums or len(portion) != start + 8 * n * (1 + sums):
        raise ValueError("another size than it says")
    hashes = np.frombuffer(portion, "<u8", n, start).astype(np.uint64)
    spent = np.frombuffer(portion, "<i8", n * sums, start + 8 * n).astype(np.int64).reshape(sums, n)
    if n and (int(spent.min()) < 0 or int(spent.max()) > CAPACITY):
        raise ValueError("sums that nobody can have spent")
    return PeopleTable(hashes, spent)


def parts_of(cost: Fraction, capacity: Fraction) -> int:
    """Return a cost in parts of a capacity, rounded up; `BEYOND` where it is more than all of it.

    >>> parts_of(Fraction(1, 3), Fraction(1)) * 3 == CAPACITY
    True
    """
    if cost <= 0:
        return 0
    if cost > capacity:
        return BEYOND
    return -int(-cost * CAPACITY // capacity)  # ⌈x⌉ = −⌊−x⌋


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """What becomes of a query's people."""

    paid: PeopleTable  # those who take part, with what they have spent now. Private.
    out: Hashes  # the hashes, ascending, of those who cannot pay and are left out of the data. Private.

    def __repr__(self) -> str:
        return "Settled(…)"


def settle(before: PeopleTable, hashes: Hashes, costs: Sums) -> Settled:
    """Who of these people can pay their costs, and what they have spent then.

    Guarantee:
        Whether a person takes part follows from what that person has spent before and from its own cost, and where
        several people have one hash, from theirs. Those who take part have spent their cost more than before, in every
        sum, and no sum is above `CAPACITY`; those who are left out have spent what they had.

    Args:
        before: what everybody has spent so far.
        hashes: of the people in the query; where several have one hash, it is there several times.
        costs: one row for each sum, one column for each of `hashes`; none below 0, and `BEYOND` at most.
    """
    if costs.shape != (len(before.spent), len(hashes)):
        raise TypeError("a cost for each sum and each person")
    if costs.size and (int(costs.min()) < 0 or int(costs.max()) > BEYOND):
        raise OverflowError("a cost out of range")
    order = np.argsort(hashes)
    found = hashes[order]
    first = np.ones(len(found), np.bool_)
    first[1:] = found[1:] != found[:-1]
    starts = np.flatnonzero(first)
    each = found[starts]
    due = _added(costs[:, order], starts)
    after = before.of(each) + due  # at most 2^49
    can = (after <= CAPACITY).all(axis=0)
    changed = can & (due > 0).any(axis=0)
    return Settled(PeopleTable(each[changed], after[:, changed]), each[~can])


def _added(costs: Sums, starts: NDArray[np.intp]) -> Sums:
    """Return the costs of each hash, added up where several people have it; `BEYOND` at most."""
    people = costs.shape[1]
    if len(starts) == people:
        return costs
    if int(np.diff(starts, append=people).max()) > _MOST:  # so many with one hash do not happen
        return np.full((len(costs), len(starts)), BEYOND)
    return np.minimum(np.add.reduceat(costs, starts, axis=1), BEYOND)


_MOST = 1 << 14  # people with one hash, whose costs of 2^48 are less than 2^63 together


BINS = 10  # Tenths of a budget: the summary's lines. Public, and the same for every account.


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What becomes of a summary's people.

    Attributes:
        settled: who pays, and has spent how much then. Private.
        counts: how many of those who pay have used up to a tenth of their budget, up to two tenths, … Private.
    """

    settled: Settled
    counts: tuple[int, ...]

    def __repr__(self) -> str:
        return "Summary(…)"


def summarised(before: PeopleTable, due: Sums) -> Summary:
    """Return the counts of a table's people by what they have used, each of whom pays the same for being counted.

    Guarantee:
        Each entry of the table is charged `due`, or it cannot pay and is in no count. Whether it pays, and in which
        count it is, follows from that entry alone: between two tables of which one has an entry more, that of somebody
        who pays, one count moves, by one; of somebody who cannot pay, none does. (docs/proofs/people.md#a-summary)

    Args:
        before: what everybody has spent so far, each something.
        due: what it costs each of them, one column.
    """
    settled = settle(before, before.hashes, np.broadcast_to(due, before.spent.shape))
    return Summary(settled, counted(settled.paid))


def counted(people: PeopleTable) -> tuple[int, ...]:
    """How many people have used more than i tenths of their budget and i + 1 at most, for each i; of several sums the
    one counts of which the most is used.
    """
    used = people.spent.max(axis=0)
    places = np.clip((used * BINS + (CAPACITY - 1)) // CAPACITY - 1, 0, BINS - 1)
    return tuple(np.bincount(places, minlength=BINS).tolist())
