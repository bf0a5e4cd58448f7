"""Small worlds: all data sets of a few values, who is whose neighbour, and statistics by their definitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement

from discreet.privacy.unit import Relation

VALUES = (0, 1, 3, 7)
SPAN = 7

World = tuple[int, ...]
Function = Callable[[World], int]


def worlds(n: int) -> Iterator[World]:
    """All sorted data sets of n values."""
    return combinations_with_replacement(VALUES, n)


@cache
def neighbours(x: World, relation: Relation) -> frozenset[World]:
    """All data sets that differ from x in one value."""
    taken = {x[:i] + x[i + 1 :] for i in range(len(x))}
    if relation is Relation.REPLACE:
        return frozenset(tuple(sorted((*t, v))) for t in taken for v in VALUES)
    return frozenset(taken | {tuple(sorted((*x, v))) for v in VALUES})


@cache
def within(x: World, k: int, relation: Relation) -> frozenset[World]:
    """All data sets that differ from x in at most k values."""
    if k == 0:
        return frozenset([x])
    near = within(x, k - 1, relation)
    return near.union(*(neighbours(y, relation) for y in near))


def local(f: Function, x: World, relation: Relation, changes: int = 1) -> int:
    """How far f can move when so many values change."""
    return max(abs(f(x) - f(y)) for y in within(x, changes, relation))


def farthest(f: Function, x: World, k: int, relation: Relation, changes: int = 1) -> int:
    """The largest local sensitivity on all data sets within k units of x."""
    return max(local(f, y, relation, changes) for y in within(x, k * changes, relation))


def ranked(x: World, p: Fraction) -> int:
    """The value of rank ⌈pn⌉, and 0 where there is none."""
    return x[math.ceil(p * len(x)) - 1] if x else 0


def quantile(p: Fraction) -> Function:
    """The p-quantile."""
    return lambda x: ranked(x, p)


def interquartile(x: World) -> int:
    """The distance of the quartiles."""
    return ranked(x, Fraction(3, 4)) - ranked(x, Fraction(1, 4))


def deviation(x: World) -> int:
    """The median distance from the median."""
    return ranked(tuple(sorted(abs(v - ranked(x, Fraction(1, 2))) for v in x)), Fraction(1, 2))


def mode(x: World) -> int:
    """The most frequent value, the first of several."""
    return max(VALUES, key=lambda v: (x.count(v), -v))
