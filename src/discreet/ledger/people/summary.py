"""How much of their own budgets people have used, counted over those who pay to be counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet.ledger.people.table import CAPACITY, PeopleTable, Settled, Sums, settle

BINS = 10
"""Tenths of a budget: the summary's lines. Public, and the same for every account."""


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
    """The counts of a table's people by what they have used, each of whom pays the same for being counted.

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
