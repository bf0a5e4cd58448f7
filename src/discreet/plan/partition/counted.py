"""How many rows fulfil a condition: read from the noisy sums of a partition's cells.

Guarantee:
    Post-processing. For every table an interval holds the bounded number of rows with probability at least
    `confidence`: it is the estimate, which is unbiased, give or take a quantile of the law of its noise; that of a sum
    of many draws is known to about three digits (`SummedNoise`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from discreet.mechanisms.additive import Additive
from discreet.mechanisms.summed import SummedNoise
from discreet.mechanisms.weighed import WeighedNoise
from discreet.plan.expr import Call, Expr, Literal, Within
from discreet.plan.partition.strategy import PARTS, weights
from discreet.plan.types import Type

if TYPE_CHECKING:
    from discreet.plan.quantile_tree.shape import Spread
    from discreet.plan.quantile_tree.tree import NoisyTree


Read: TypeAlias = Mapping[tuple[int, int], Fraction]
"""The weight of each sum that is read: by its layer and its place there."""


@dataclass(frozen=True, slots=True)
class Combined:
    """A constant and counts from one partition, each times a number: their noise is that of one estimate."""

    spread: Spread
    constant: Fraction
    parts: tuple[tuple[Fraction, Within], ...]

    @property
    def read(self) -> Read:
        """The weights of the sums in all of it."""
        return _read(self)

    def estimate(self, tree: NoisyTree) -> Fraction:
        """Its noisy value, before rounding."""
        total = sum(
            (w * tree.families[level, 0][place] for (level, place), w in self.read.items()), Fraction(0)
        )
        return self.constant + total

    @property
    def rounded(self) -> Fraction:
        """Σ |its factor| over the counts that are rounded: those that read a sum with a weight that is not whole."""
        sizes: dict[Within, Fraction] = {}
        for size, count in self.parts:
            sizes[count] = sizes.get(count, Fraction(0)) + size
        return sum((abs(size) for count, size in sizes.items() if not _is_whole(count)), Fraction(0))

    def reach(self, noise: Additive, confidence: Fraction) -> float:
        """A t with P(|noise of the estimate| ≤ t) ≥ confidence."""
        return float(_reach(self, noise, confidence))

    def error(self, noise: Additive, confidence: Fraction) -> float:
        """How far the noise moves it with probability `confidence`, rounding of each count included."""
        return self.reach(noise, confidence) + float(self.rounded) / 2

    def variance(self, noise: Additive) -> float:
        """Its variance, with a twelfth for each count that is rounded to whole rows."""
        square = sum(float(w) ** 2 for w in self.read.values())
        return square * noise.variance + float(self.rounded) ** 2 / 12


def number(tree: NoisyTree, count: Within) -> int:
    """The noisy number of rows that fulfil a condition, rounded to whole rows."""
    found = round(_only(count).estimate(tree))
    return max(found, 0) if tree.raised else found


def combined(expr: Expr) -> Combined | None:
    """A column that is affine in counts from one partition; None for any other."""
    match expr:
        case Within():
            return _only(expr)
        case Call("as double", (inner,), _) if inner.type is Type.INT:
            return combined(inner)
        case Call("neg", (inner,), _):
            return _scaled(combined(inner), Fraction(-1))
        case Call("+" | "-" as sign, (a, b), _):
            return _added(a, b, Fraction(1 if sign == "+" else -1))
        case Call("*", (a, b), _):
            by, of = (_constant(a), b) if _constant(a) is not None else (_constant(b), a)
            return None if by is None else _scaled(combined(of), by)
        case Call("/", (a, b), _):
            by = _constant(b)
            return _scaled(combined(a), 1 / by) if by else None
        case _:
            return None


def _is_whole(count: Within) -> bool:
    return all(w.denominator == 1 for w in _only(count).read.values())


def _only(count: Within) -> Combined:
    return Combined(count.spread, Fraction(0), ((Fraction(1), count),))


def _constant(expr: Expr) -> Fraction | None:
    match expr:
        case Literal(value, _) if isinstance(value, int | float) and not isinstance(value, bool):
            return Fraction(value)
        case Call("neg", (inner,), _):
            found = _constant(inner)
            return None if found is None else -found
        case Call("as double", (inner,), _) if inner.type is Type.INT:
            return _constant(inner)
        case _:
            return None


def _scaled(found: Combined | None, by: Fraction) -> Combined | None:
    if found is None or not by:
        return None
    return Combined(found.spread, found.constant * by, tuple((size * by, c) for size, c in found.parts))


def _added(a: Expr, b: Expr, sign: Fraction) -> Combined | None:
    one, other = combined(a), _scaled(combined(b), sign)
    if one is not None and other is not None:
        if one.spread != other.spread:
            return None
        return Combined(one.spread, one.constant + other.constant, (*one.parts, *other.parts))
    if one is not None and (more := _constant(b)) is not None:
        return Combined(one.spread, one.constant + sign * more, one.parts)
    if other is not None and (more := _constant(a)) is not None:
        return Combined(other.spread, other.constant + more, other.parts)
    return None


@lru_cache(maxsize=4096)
def _read(column: Combined) -> Read:
    layers, found = column.spread.layers, dict[tuple[int, int], Fraction]()
    assert layers is not None
    for size, count in column.parts:
        for level, place, w in weights(layers, count.leaves):
            found[level, place] = found.get((level, place), Fraction(0)) + size * Fraction(w, PARTS)
    return {at: w for at, w in found.items() if w}


@lru_cache(maxsize=4096)
def _reach(column: Combined, noise: Additive, confidence: Fraction) -> Fraction:
    sizes = Counter(abs(w) for w in _read(column).values())
    return _quantile(tuple(sorted(sizes.items())), noise, confidence)


@lru_cache(maxsize=4096)
def _quantile(sizes: tuple[tuple[Fraction, int], ...], noise: Additive, confidence: Fraction) -> Fraction:
    """A quantile of the sum of so many draws with each weight."""
    if not sizes:
        return Fraction(0)
    laws = [(w, noise if n == 1 else SummedNoise(noise, n)) for w, n in sizes]
    if len(laws) == 1:
        ((w, law),) = laws
        return w * law.quantile(confidence)
    together = WeighedNoise(tuple((w * PARTS, law) for w, law in laws), Fraction(0))
    return Fraction(together.quantile(confidence), PARTS)
