"""Noise in a row of the result: its laws before the data, and quantiles of weighed sums of independent noises."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from discreet.mechanisms.additive import Additive
from discreet.mechanisms.exponential_quantile import ExponentialQuantile

Terms: TypeAlias = tuple[tuple[Fraction, Additive], ...]
"""Independent noises, each with the size of its coefficient."""

_CELLS = 150  # of one standard deviation in a convolution
_MOST_CELLS = 10_000  # that the reaches of all terms take together


@dataclass(frozen=True, slots=True)
class Laws:
    """The noise in each row of a result.

    Attributes:
        columns: that of each noisy column.
        sources: that of the nodes of each tree, or the mechanism that chooses its leaf.
        is_row: whether each row of the table is a unit.
    """

    columns: tuple[Additive, ...]
    sources: Mapping[Hashable, Additive | ExponentialQuantile]
    is_row: bool

    def of(self, source: Hashable) -> Additive:
        """Return the noise of a tree of which no leaf is chosen by its rank."""
        noise = self.sources[source]
        assert not isinstance(noise, ExponentialQuantile)
        return noise


@lru_cache(maxsize=4096)
def quantile(terms: Terms, confidence: Fraction) -> float:
    """Return a t with P(|Σ aᵢ Zᵢ| ≤ t) ≥ confidence for independent noises, at most about one per cent above the least.

    Where a term that is nearly always 0 reaches far beyond the deviation of the sum, the cells are wider, so that there
    are not too many, and t is less close.
    """
    terms = tuple((abs(a), z) for a, z in terms if a)
    if not terms:
        return 0.0
    if len(terms) == 1:
        a, z = terms[0]
        return float(a * z.quantile(confidence))
    deviation = math.sqrt(sum(float(a) ** 2 * z.variance for a, z in terms))
    # each within its own
    apart = float(sum(a * _alone(z, 1 - (1 - confidence) / len(terms)) for a, z in terms))
    if deviation == 0.0:
        return apart
    slack = sum(float(a) * z.slack for a, z in terms)
    beyond = (1 - confidence) / (1000 * len(terms))
    reaches = [float(a) * _alone(z, 1 - beyond) for a, z in terms]
    step = max(deviation / _CELLS, sum(reaches) / _MOST_CELLS)
    law = np.ones(1)
    for (a, z), far in zip(terms, reaches, strict=True):
        reach = math.ceil(far / step) + 1
        edges = (np.arange(-reach, reach + 2, dtype=np.float64) - 0.5) * (step / float(a))
        law = np.convolve(law, np.diff(z.cdf(edges)))
    middle = len(law) // 2
    inside = law[middle] + np.concatenate(([0.0], np.cumsum(law[middle + 1 :] + law[:middle][::-1])))
    enough = np.flatnonzero(inside >= float(confidence))  # mass beyond the reach counts as outside
    k = int(enough[0]) if len(enough) else len(inside)
    return min((k + len(terms) / 2 + 0.5) * step + slack, apart)  # each term was moved by at most half a step


@lru_cache(maxsize=4096)
def _alone(noise: Additive, confidence: Fraction) -> int:
    """Return the quantile of one noise, which is searched for."""
    return noise.quantile(confidence)
