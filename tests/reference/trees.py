"""Histograms, commonest values and quantiles of the reference: what weight each value has, caps and bounds applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

from tests.reference.expression import Row
from tests.reference.question import Key, Order, Question, groups_of, kept_rows

Leaf: TypeAlias = Callable[[Row], int | None]
"""The place of a row's value among those that are told apart; None for a row that is not counted."""

STEPS = 1 << 20
"""Steps of weight in one row, where a unit has many."""


def weights(rows: Sequence[Row], question: Question, leaf: Leaf, order: Order) -> dict[Key, dict[int, int]]:
    """The weight of each place in each group, in steps; the question's measures are not looked at.

    In at most `max_groups` groups, n of a unit's rows have a place. Each of them weighs one row, or max_rows/n of it,
    rounded down to steps, where there are more than `max_rows`. Where each row is a unit it weighs 1.

    >>> from tests.reference.expression import Column
    >>> from tests.reference.values import Kind
    >>> uid = Column("uid", Kind.INT)
    >>> rows = [{"uid": 1, "x": n} for n in (3, 3, 2, 1)] + [{"uid": 2, "x": n} for n in (1, None)]
    >>> asked = Question((), unit=uid, max_groups=1, max_rows=2)
    >>> found = weights(rows, asked, lambda r: r["x"], lambda u, g: 0)[()]
    >>> {value: weight / STEPS for value, weight in sorted(found.items())}
    {1: 1.5, 2: 0.5, 3: 1.0}
    """
    blocks = kept_rows(rows, question, order)
    found: dict[Key, Counter[int]] = {key: Counter() for key in groups_of(question, blocks)}
    for (_, key), block in blocks.items():
        places = [place for row in block if (place := leaf(row)) is not None]
        whole = 1 if question.unit is None else question.max_rows * STEPS // max(len(places), question.max_rows)
        for place in places:
            found[key][place] += whole
    return {key: dict(counted) for key, counted in found.items()}


def bin_of(value: Fraction | int | None, ends: Sequence[Fraction | int]) -> int | None:
    """The first bin whose end is at least the value; one after the last for what is above all ends.

    >>> [bin_of(x, [1, 5]) for x in (-2, 1, 2, 5, 6, None)]
    [0, 0, 1, 1, 2, None]
    """
    return None if value is None else sum(end < value for end in ends)


def commonest(found: dict[int, int], places: int, most: int) -> list[int]:
    """The places with the greatest weights, the greatest first; of equal ones the first."""
    return sorted(range(places), key=lambda place: (-found.get(place, 0), place))[:most]


def quantile(found: dict[int, int], share: Fraction) -> int | None:
    """The first place up to which at least this share of all weight lies; the first with any for 0."""
    total, before = sum(found.values()), 0
    for place, weight in sorted(found.items()):
        before += weight
        if weight and before >= share * total:
            return place
    return None
