"""The law of a sparse vector run, in integers: whether a query lies above a noisy threshold, and by how much."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.parameters import read_confidence
from discreet.mechanisms.values import NumberArray
from discreet.noise import geometric, laplace
from discreet.noise.entropy import Entropy
from discreet.noise.lattice import Grid
from discreet.privacy.exact import Real

WIDEST = Fraction(1 << 50)
"""The widest noise, in units: clipping at `_REACH` is far beyond all that it can hide."""

_REACH = 1 << 61  # queries farther from 0 count as that far
_FARTHEST = 1 << 60  # a threshold farther from 0 is subtracted from all queries before they are cut off
_EXACT = 1 << 62  # levels below it are compared in 64 bits


@dataclass(frozen=True, slots=True)
class SparseLaw:
    """Queries, threshold and noise as multiples of one unit: 1 for integers, the grid's step for floats.

    A query q is above when q + ν ≥ threshold + offset + ρ, where ρ is geometric of scale `bar_scale`, once for
    the whole run, and ν geometric of scale `query_scale`, fresh for each query. Both are at least 0.

    Attributes:
        grid: where floats are rounded to; None for integers.
        threshold: the public threshold.
        bar_scale: the scale of ρ.
        query_scale: the scale of ν.
        answer_scale: the scale of the discrete Laplace noise of a number; None where no fresh noise is drawn.
        offset: what is added to the threshold, so that a query on it is above about half of the time: a
            public number, and so without a part in the proof.
        shift: what `queries` and `level` are relative to: 0, or the threshold where it is far from 0.
    """

    grid: Grid | None
    threshold: int
    bar_scale: Fraction
    query_scale: Fraction
    answer_scale: Fraction | None
    offset: int = field(init=False)
    shift: int = field(init=False)

    def __post_init__(self) -> None:
        if max(self.bar_scale, self.query_scale, self.answer_scale or 0) > WIDEST:
            raise InvalidParameter(
                "the noise would be wider than 2^50 steps.", hint="take a larger epsilon or a smaller cutoff"
            )
        # For exponential variables of scales a ≤ b the median of ν − ρ is b·ln(2b/(a + b)).
        a, b = float(self.bar_scale), float(self.query_scale)
        object.__setattr__(self, "offset", max(0, round(b * math.log(2 * b / (a + b)))))
        object.__setattr__(self, "shift", 0 if abs(self.threshold) <= _FARTHEST else self.threshold)

    def level(self, rng: Entropy) -> int:
        """Return the noisy threshold of one run, relative to `shift`."""
        return self.threshold - self.shift + self.offset + geometric.sample(self.bar_scale, rng)

    def queries(self, numbers: NumberArray) -> NDArray[np.int64]:
        """Return the queries in units, relative to `shift`. Those beyond ±2^61 units are cut off there."""
        entries = numbers.entries
        if self.grid is not None:
            if self.shift or not numbers.is_real:
                return self._clipped([self.grid.snap(x) for x in entries.tolist()])
            most = self.grid.to_float(_REACH)
            return self.grid.snap_vector(np.clip(entries, -most, most))
        if entries.dtype == np.int64 and not self.shift:
            return np.asarray(np.clip(entries, -_REACH, _REACH), dtype=np.int64)
        return self._clipped(entries.tolist())

    def above(self, queries: NDArray[np.int64], level: int, most: int, rng: Entropy) -> list[tuple[int, int]]:
        """Return the places of the first queries that are above, `most` at most, each with its gap q + ν − level."""
        noise = geometric.sample_vector(self.query_scale, len(queries), rng)
        if abs(level) < _EXACT:  # then no difference of a level and a query leaves 64 bits
            places = np.flatnonzero(noise >= level - queries)[:most].tolist()
        else:
            sums = zip(queries.tolist(), noise.tolist(), strict=True)
            places = [i for i, (q, v) in enumerate(sums) if q + v >= level][:most]
        return [(i, int(queries[i]) + int(noise[i]) - level) for i in places]

    def number(self, query: int, gap: int, rng: Entropy) -> int | float:
        """Return what is said of a query that is above: itself with fresh noise, or an estimate from its gap."""
        if self.answer_scale is None:
            return self._shown(gap + self.threshold - self.shift + self.offset + self._centre)
        return self._shown(query + laplace.sample(self.answer_scale, rng))

    def within(self, doubt: float, queries: int) -> tuple[int, int]:
        """Bounds of ρ and of ν for so many queries, of which one fails with chance at most `doubt`."""
        bar = math.ceil(float(self.bar_scale) * math.log(2 / doubt) * _UP)
        query = math.ceil(float(self.query_scale) * (math.log(2 / doubt) + math.log(queries)) * _UP)
        return bar, query

    def error(self, doubt: float, queries: int) -> Fraction:
        """Return the distance from the threshold beyond which no query is wrong; see `SparseVector.error`."""
        bar, query = self.within(doubt, queries)
        rounding = Fraction(0) if self.grid is None else Fraction(3, 2)  # of a query, and of the threshold
        return self.unit * (max(bar + self.offset, query - self.offset, 0) + rounding)

    def gap_error(self, doubt: float, queries: int) -> Fraction:
        """Return how far estimates from gaps are off at most."""
        bar, query = self.within(doubt, queries)
        rounding = Fraction(0) if self.grid is None else Fraction(1, 2)
        return self.unit * (max(bar - self._centre, query + self._centre) + rounding)

    def fresh_error(self, confidence: Fraction) -> Fraction:
        """Return how far a number with fresh noise is off at most, with this confidence."""
        assert self.answer_scale is not None
        rounding = Fraction(0) if self.grid is None else Fraction(1, 2)
        return self.unit * (DiscreteLaplaceNoise(self.answer_scale).quantile(confidence) + rounding)

    @property
    def unit(self) -> Fraction:
        """The unit, as a number."""
        return Fraction(1) if self.grid is None else self.grid.step

    @property
    def _centre(self) -> int:
        """E(ρ − ν), rounded: the mean of a geometric variable of scale s is 1/(e^(1/s) − 1)."""
        means = [1 / math.expm1(min(float(1 / s), 700.0)) for s in (self.bar_scale, self.query_scale)]
        return round(means[0] - means[1])

    def _shown(self, units: int) -> int | float:
        whole = units + self.shift
        return whole if self.grid is None else self.grid.to_float(whole)

    def _clipped(self, units: list[Any]) -> NDArray[np.int64]:
        return np.array([min(max(q - self.shift, -_REACH), _REACH) for q in units], dtype=np.int64)


def doubt_of(confidence: Real) -> float:
    """1 − confidence, not more."""
    return math.nextafter(float(1 - read_confidence(confidence)), 0.0)


_UP = 1 + 2.0**-40  # more than logarithms and products round
