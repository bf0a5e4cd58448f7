"""How many rows the leaves of a noisy tree of one level hold: histograms, and the values that most rows have.

Guarantee:
    All of it is read from the noisy leaves, and is post-processing. For every table, each interval holds what would be
    read without noise with probability at least `confidence`; those of one list of commonest values hold all together
    (docs/proofs/spreads.md).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet.plan.functions.calendar import EPOCH
from discreet.plan.schema import Scalar
from discreet.plan.types import Type

if TYPE_CHECKING:
    from discreet.plan.quantile_tree.shape import Spread
    from discreet.plan.quantile_tree.tree import NoisyTree

Ends: TypeAlias = tuple[Any, Any]
"""The two ends of an interval of numbers, or of dates."""


def value_of(spread: Spread, leaf: int, kind: Type) -> Scalar:
    """What a leaf stands for, of this type: dates and times are counted in days and seconds since 1970."""
    found = spread.at(leaf, Type.INT if kind.is_moment else kind)
    if not kind.is_moment or not isinstance(found, int):
        return found
    return (
        EPOCH.date() + dt.timedelta(days=found) if kind is Type.DATE else EPOCH + dt.timedelta(seconds=found)
    )


def histogram(tree: NoisyTree, kind: Type) -> dict[Scalar, int]:
    """The noisy number of rows of each leaf, rounded to whole rows; below 0 where noise took it there."""
    row = tree.spread.steps(is_row=tree.is_row)
    return {value_of(tree.spread, i, kind): round(Fraction(w, row)) for i, w in enumerate(_leaves(tree))}


def histogram_intervals(tree: NoisyTree, kind: Type, confidence: Fraction) -> Mapping[Scalar, Ends]:
    """Where the bounded number of rows of each leaf lies, each with probability `confidence`."""
    row = tree.spread.steps(is_row=tree.is_row)
    t = tree.noise.quantile(confidence)
    return {
        value_of(tree.spread, i, kind): (float(Fraction(w - t, row)), float(Fraction(w + t, row)))
        for i, w in enumerate(_leaves(tree))
    }


def histogram_error(spread: Spread, noise: int, *, is_row: bool) -> float:
    """How far noise of at most so many steps moves the number of rows of a leaf, rounding included."""
    return noise / spread.steps(is_row=is_row) + (0.0 if is_row else 0.5)


def top(tree: NoisyTree, most: int, kind: Type) -> list[Scalar]:
    """The values of the leaves with the greatest noisy weights; of equal ones the first in their order."""
    weights = _leaves(tree)
    order = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    return [value_of(tree.spread, i, kind) for i in order[:most]]


def top_intervals(tree: NoisyTree, most: int, kind: Type, confidence: Fraction) -> list[Ends | None]:
    """Between which values the bounded first, second, … commonest value lies; None where values are no numbers.

    With probability `confidence` no noise is beyond t. Then the j-th greatest noisy weight is within t of the j-th
    greatest true one, and so within 2t of the noisy weight of the leaf that truly has it.
    """
    weights = _leaves(tree)
    ranked = sorted(weights, reverse=True)[:most]
    if not (kind.is_number or kind.is_moment):
        return [None] * len(ranked)
    t = tree.noise.quantile(1 - (1 - confidence) / len(weights))
    found: list[Ends | None] = []
    for weight in ranked:
        near = [i for i, w in enumerate(weights) if abs(w - weight) <= 2 * t]
        found.append(_reach(tree.spread, near[0], near[-1], kind))
    return found


def _reach(spread: Spread, first: int, last: int, kind: Type) -> Ends:
    if not kind.is_moment:
        return spread.reach(first, last)
    low, high = value_of(spread, first, kind), value_of(spread, last, kind)
    assert isinstance(low, dt.date) and isinstance(high, dt.date)
    return low, high


def _leaves(tree: NoisyTree) -> tuple[int, ...]:
    """All noisy leaves of a tree of one level."""
    leaves = tree.family(0, 0)
    assert tree.spread.depth == 1 and leaves is not None
    return leaves
