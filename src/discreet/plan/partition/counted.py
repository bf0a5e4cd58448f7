"""How many rows fulfil conditions: read from the noisy sums of a partition's cells.

Guarantee:
    Post-processing. For every table an interval holds the bounded number of rows with probability at least
    `confidence`: it is the estimate, which is unbiased, give or take a quantile of the law of its noise; that of a sum
    of many draws is known to about three digits (`SummedNoise`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Protocol, TypeAlias

from discreet.mechanisms.additive import Additive
from discreet.mechanisms.summed import SummedNoise, WeighedNoise
from discreet.plan.partition.strategy import PARTS, Layers, weights

Read: TypeAlias = Mapping[tuple[int, int], Fraction]
"""The weight of each sum that is read: by its layer and its place there."""


class Layered(Hashable, Protocol):
    """The cells of a partition, and the sums of them that are measured."""

    @property
    def layers(self) -> Layers | None:
        """The cells of each sum of each layer."""


@dataclass(frozen=True, slots=True)
class Combined:
    """A constant and counts from one partition, each times a number: their noise is that of one estimate.

    Attributes:
        shape: the partition.
        constant: what is added to the counts.
        parts: of each count its factor, and the cells whose rows it counts.
    """

    shape: Layered
    constant: Fraction
    parts: tuple[tuple[Fraction, tuple[int, ...]], ...]

    def scaled(self, by: Fraction) -> Combined | None:
        """Return it times a number; None for 0 times."""
        parts = tuple((size * by, cells) for size, cells in self.parts)
        return Combined(self.shape, self.constant * by, parts) if by else None

    def shifted(self, by: Fraction) -> Combined:
        """Return it plus a number."""
        return replace(self, constant=self.constant + by)

    def plus(self, other: Combined) -> Combined | None:
        """Both together; None where they are read from different partitions."""
        if self.shape != other.shape:
            return None
        return Combined(self.shape, self.constant + other.constant, (*self.parts, *other.parts))

    @property
    def read(self) -> Read:
        """The weights of the sums in all of it."""
        return _read(self)

    def estimate(self, families: Mapping[tuple[int, int], Sequence[int]]) -> Fraction:
        """Its noisy value from noisy sums, before rounding."""
        total = sum((w * families[level, 0][place] for (level, place), w in self.read.items()), Fraction(0))
        return self.constant + total

    @property
    def rounded(self) -> Fraction:
        """Σ |its factor| over the counts that are rounded: those that read a sum with a weight that is not whole."""
        sizes: dict[tuple[int, ...], Fraction] = {}
        for size, cells in self.parts:
            sizes[cells] = sizes.get(cells, Fraction(0)) + size
        return sum((abs(size) for cells, size in sizes.items() if not self._is_whole(cells)), Fraction(0))

    def reach(self, noise: Additive, confidence: Fraction) -> float:
        """Return a t with P(|noise of the estimate| ≤ t) ≥ confidence."""
        return float(_reach(self, noise, confidence))

    def error(self, noise: Additive, confidence: Fraction) -> float:
        """How far the noise moves it with probability `confidence`, rounding of each count included."""
        return self.reach(noise, confidence) + float(self.rounded) / 2

    def variance(self, noise: Additive) -> float:
        """Its variance, with a twelfth for each count that is rounded to whole rows."""
        square = sum(float(w) ** 2 for w in self.read.values())
        return square * noise.variance + float(self.rounded) ** 2 / 12

    def _is_whole(self, cells: tuple[int, ...]) -> bool:
        read = Combined(self.shape, Fraction(0), ((Fraction(1), cells),)).read
        return all(w.denominator == 1 for w in read.values())


@lru_cache(maxsize=4096)
def _read(column: Combined) -> Read:
    layers, found = column.shape.layers, dict[tuple[int, int], Fraction]()
    assert layers is not None
    for size, cells in column.parts:
        for level, place, w in weights(layers, cells):
            found[level, place] = found.get((level, place), Fraction(0)) + size * Fraction(w, PARTS)
    return {at: w for at, w in found.items() if w}


@lru_cache(maxsize=4096)
def _reach(column: Combined, noise: Additive, confidence: Fraction) -> Fraction:
    sizes = Counter(abs(w) for w in _read(column).values())
    return _quantile(tuple(sorted(sizes.items())), noise, confidence)


@lru_cache(maxsize=4096)
def _quantile(sizes: tuple[tuple[Fraction, int], ...], noise: Additive, confidence: Fraction) -> Fraction:
    """Return a quantile of the sum of so many draws with each weight."""
    if not sizes:
        return Fraction(0)
    laws = [(w, noise if n == 1 else SummedNoise(noise, n)) for w, n in sizes]
    if len(laws) == 1:
        ((w, law),) = laws
        return w * law.quantile(confidence)
    together = WeighedNoise(tuple((w * PARTS, law) for w, law in laws), Fraction(0))
    return Fraction(together.quantile(confidence), PARTS)
