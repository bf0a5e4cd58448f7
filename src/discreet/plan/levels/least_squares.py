"""Levels that were measured apart are made to agree: least squares, and whole numbers near it.

The noisy finest groups are corrected by what the noisy totals say of them; every total is then the sum of its parts.
Groups are a product of lists, so that least squares is a sum over the components of the analysis of variance, each a
weighed mean of what the levels know of it. In a ROLLUP that is the estimate of Hay et al.; in a CUBE no tree would do.

The corrections are rounded together: what is rounded is their running sum, along the groups in the order of the
ROLLUP, or along each key of a CUBE. So every total is off by half at each of its corners only, however many parts it
has.

References:
    Hay, Rastogi, Miklau, Suciu 2010, *Boosting the accuracy of differentially private histograms through consistency*,
    https://arxiv.org/abs/0904.0942. docs/proofs/totals.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.additive import Additive
from discreet.mechanisms.summed import SummedNoise
from discreet.mechanisms.weighed import Parts, WeighedNoise
from discreet.plan.levels.weights import Kept, Levels


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the measurements of one column are combined.

    Attributes:
        levels: what was asked.
        measured: the levels that were measured, the finest first, each with its noise.
    """

    levels: Levels
    measured: tuple[tuple[Kept, Additive], ...]

    def adjusted(self, finest: Sequence[int], totals: Sequence[Sequence[int]]) -> list[int]:
        """The finest groups as whole numbers, such that they and their sums are near the least squares.

        Args:
            finest: the noisy integers of the finest groups, in the order of the product of the lists.
            totals: those of the other measured levels.
        """
        sizes = self.levels.sizes
        noisy = np.array([*finest, None], dtype=object)[:-1].reshape(sizes)
        correction = np.zeros(sizes)
        means: dict[Kept, NDArray[np.float64]] = {}
        for (kept, noise), numbers in zip(self.measured[1:], totals, strict=True):
            others = tuple(i for i in range(len(sizes)) if i not in kept)
            shape = tuple(n if i in kept else 1 for i, n in enumerate(sizes))
            wanted = np.array([*numbers, None], dtype=object)[:-1].reshape(shape)
            missing = (wanted - noisy.sum(axis=others, keepdims=True)).astype(np.float64) / noise.variance
            for component in _subsets(kept):
                seen = missing.mean(axis=tuple(i for i in kept if i not in component), keepdims=True)
                means[component] = means.get(component, 0.0) + seen
        for component, mean in means.items():
            pure = mean
            for i in component:
                pure = pure - pure.mean(axis=i, keepdims=True)
            correction += pure / self._known(component)
        whole = _rounded(correction, _order(self.levels))
        return [int(a) + b for a, b in zip(noisy.ravel().tolist(), whole, strict=True)]

    def noise(self, kept: Kept) -> Additive:
        """The law of what the numbers of a level are off by, each of them the same.

        Guarantee:
            `WeighedNoise`: its terms are what least squares adds up, its rounding what `adjusted` may be off by.
        """
        return _noise(self, kept)

    def variance(self, kept: Kept) -> float:
        """The variance of the numbers of a level, before rounding."""
        return math.fsum(float(a) ** 2 * z.variance for a, z in _terms(self, kept))

    def _known(self, component: Kept) -> float:
        inside = [(s, z) for s, z in self.measured if set(component) <= set(s)]
        return math.fsum(self.levels.parts(s) / z.variance for s, z in inside)


def rounding(levels: Levels, kept: Kept) -> Fraction:
    """How far a total of this level may be from least squares: a half for each corner."""
    corners = 2 ** len(kept) if _order(levels) is None else min(len(kept), 1) + 1
    return Fraction(corners, 2)


@lru_cache(maxsize=512)
def _noise(agreement: Agreement, kept: Kept) -> Additive:
    return WeighedNoise(_terms(agreement, kept), rounding(agreement.levels, kept))


@lru_cache(maxsize=512)
def _terms(agreement: Agreement, kept: Kept) -> Parts:
    """With what weight each measured number enters a number of this level: the same for all that agree with it in the
    same keys.
    """
    levels, found = agreement.levels, dict[tuple[Fraction, Additive], int]()
    for measured, noise in agreement.measured:
        common = tuple(i for i in kept if i in measured)
        outside = math.prod(n for i, n in enumerate(levels.sizes) if i not in kept and i not in measured)
        summed = math.prod(n for i, n in enumerate(levels.sizes) if i in measured and i not in kept)
        for same in _subsets(common):
            times = summed * math.prod(levels.sizes[i] - 1 for i in common if i not in same)
            weight = 0.0
            for component in _subsets(common):
                part = 1.0
                for i in common:
                    mean = 1 / levels.sizes[i]
                    part *= (float(i in same) - mean) if i in component else mean
                weight += part / agreement._known(component)
            size = Fraction(abs(weight) * outside / noise.variance)
            if times and size:
                found[size, noise] = found.get((size, noise), 0) + times
    return tuple((a, z if n == 1 else SummedNoise(z, n)) for (a, z), n in found.items())


def _order(levels: Levels) -> tuple[int, ...] | None:
    """The keys in an order in which every level keeps the first so many; None where there is none, as in a CUBE."""
    order: list[int] = []
    for kept in sorted(levels.kept, key=len):
        if kept and not set(order) <= set(kept):
            return None
        order += [i for i in kept if i not in order]
    return tuple(order)


def _rounded(correction: NDArray[np.float64], order: tuple[int, ...] | None) -> list[int]:
    """Whole numbers whose running sums are those of the corrections, rounded."""
    if order is None:
        running = correction
        for i in range(correction.ndim):
            running = np.cumsum(running, axis=i)
        whole = _whole(running)
        for i in range(correction.ndim):
            whole = np.diff(whole, axis=i, prepend=0)
        return list(whole.ravel().tolist())
    turned = np.transpose(correction, order)
    whole = np.diff(_whole(np.cumsum(turned.ravel())), prepend=0).reshape(turned.shape)
    return list(np.transpose(whole, np.argsort(order)).ravel().tolist())


def _whole(x: NDArray[np.float64]) -> NDArray[Any]:
    """Each number rounded, as Python integers, which hold any."""
    found = np.empty(x.size, dtype=object)
    found[:] = [round(v) for v in x.ravel().tolist()]
    return found.reshape(x.shape)


def _subsets(of: Kept) -> Iterator[Kept]:
    return (c for r in range(len(of) + 1) for c in combinations(of, r))
