"""Counts, and sums of numbers that are not negative, made non-negative after the noise: post-processing, free.

Alone, a noisy number below 0 becomes 0, its best estimate. Where totals are shown beside their parts, raising each part
by itself would raise the totals as well, the more so the more parts there are; so the parts are moved together: they
are the whole numbers from 0 on that are nearest to the noisy ones (in squares) among those with their total, from the
widest totals down (Abowd and others 2022, section 6, does the same with a census, https://arxiv.org/abs/2204.08986).
A total keeps its value unless it is below 0 itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from discreet.catalog.schema import Scalar
    from discreet.plan.question import Question
    from discreet.query.grouping_sets import Sets


def never_negative(question: Question) -> tuple[bool, ...]:
    """Of each measure, whether its exact value cannot be below 0."""
    caps = question.table.unit.caps
    return tuple(measure.span(1 if caps is None else caps[1])[0] >= 0 for measure in question.measures)


def honest(interval: Any, value: Any, low: float) -> Any:
    """Return the interval of a noisy value that was moved: without what lies below `low`, and with the new value."""
    if not (isinstance(interval, tuple) and isinstance(value, int | float)) or value != value:
        return interval
    if not all(isinstance(end, int | float) for end in interval):
        return interval
    below, above = interval
    return min(max(below, low), value), max(above, value)


def raised(
    keys: Sequence[tuple[Scalar, ...]], cells: Sequence[Sequence[int]], sets: Sets | None, places: Sequence[bool]
) -> list[tuple[int, ...]]:
    """Return the cells of the finest groups, non-negative where that is true of the exact ones.

    Args:
        keys: those of the groups.
        cells: their noisy integers, one tuple a group.
        sets: the grouping sets whose totals are shown, or None.
        places: of each column, whether its exact value cannot be below 0.
    """
    columns = [list(column) for column in zip(*cells, strict=True)]
    for i, column in enumerate(columns):
        if places[i]:
            columns[i] = [max(x, 0) for x in column] if sets is None else _with_totals(keys, column, sets)
    return list(zip(*columns, strict=True)) if columns else [tuple(row) for row in cells]


def nearest(values: Sequence[int], total: int) -> list[int]:
    """Return the whole numbers from 0 on with this sum (≥ 0) that are nearest to the values: the least sum of squares.

    The nearest real ones are max(xᵢ − τ, 0); of the whole ones beside them, those that lose most by being rounded down
    are rounded up.
    """
    if not values:
        return []
    exact = sorted(values, reverse=True)
    running, shift = 0, 0.0
    for place, value in enumerate(exact, start=1):
        running += value
        if value * place > running - total:  # this one stays above 0
            shift = (running - total) / place
    lowered = np.maximum(np.array([float(x) for x in values]) - shift, 0)
    found = [int(x) for x in np.floor(lowered)]
    missing = total - sum(found)
    order = np.argsort(np.floor(lowered) - lowered, kind="stable")
    step, rest = divmod(missing, len(found))
    for place, i in enumerate(order):
        found[i] += step + (place < rest)
    return _repaired(found)


def _repaired(found: list[int]) -> list[int]:
    """Return the same sum without what rounding very large numbers may have left below 0."""
    debt = -sum(x for x in found if x < 0)
    kept = [max(x, 0) for x in found]
    while debt:
        i = max(range(len(kept)), key=kept.__getitem__)
        paid = min(debt, kept[i])
        kept[i], debt = kept[i] - paid, debt - paid
    return kept


def _with_totals(keys: Sequence[tuple[Scalar, ...]], column: Sequence[int], sets: Sets) -> list[int]:
    chain = _nested(sets)
    found = list(column)
    _split(list(range(len(found))), max(sum(found), 0), keys, column, chain, found)
    return found


def _nested(sets: Sets) -> list[tuple[int, ...]]:
    """Return grouping sets each of which refines the one before it, from the widest on."""
    chain: list[tuple[int, ...]] = []
    for kept in sorted(set(sets), key=lambda s: (len(s), s)):
        if kept and (not chain or set(chain[-1]) < set(kept)):
            chain.append(kept)
    return chain


def _split(
    places: Sequence[int],
    total: int,
    keys: Sequence[tuple[Scalar, ...]],
    column: Sequence[int],
    chain: Sequence[tuple[int, ...]],
    found: list[int],
) -> None:
    """Give these groups numbers with that total, by the chain's grouping sets and at last each for itself."""
    parts: dict[tuple[Scalar, ...], list[int]] = {}
    for place in places:
        own = tuple(keys[place][i] for i in chain[0]) if chain else (place,)
        parts.setdefault(own, []).append(place)
    shares = nearest([sum(column[i] for i in part) for part in parts.values()], total)
    for part, share in zip(parts.values(), shares, strict=True):
        if chain:
            _split(part, share, keys, column, chain[1:], found)
        else:
            found[part[0]] = share
