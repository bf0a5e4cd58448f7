"""The exact law of a sparse vector run, by going through all noisy thresholds: independent of the package's code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Outcome = tuple[int, ...]
"""The places of the queries that are above."""


@dataclass(frozen=True)
class Law:
    """Geometric ρ of scale `bar` once, geometric ν of scale `query` each; above: q + ν ≥ level + ρ."""

    bar: float
    query: float
    level: int

    @classmethod
    def textbook(cls, e1: float, e2: float, cutoff: int, monotonic: bool, level: int, sensitivity: int = 1) -> Law:
        """The scales of Algorithm 7 of Lyu, Su and Li: Δ/ε₁, and 2cΔ/ε₂ or cΔ/ε₂."""
        return cls(sensitivity / e1, (1 if monotonic else 2) * cutoff * sensitivity / e2, level)

    def bars(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """All noisy thresholds with more than e^−45 of chance beyond, and their chances."""
        rho = np.arange(math.ceil(45 * self.bar) + 2, dtype=np.float64)
        return rho + self.level, -math.expm1(-1 / self.bar) * np.exp(-rho / self.bar)

    def tail(self, m: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(ν ≥ m)."""
        return np.exp(-np.maximum(m, 0) / self.query)

    def chance(self, queries: tuple[int, ...], places: Outcome, cutoff: int) -> float:
        """P(exactly these are above), the run being over at the `cutoff`-th."""
        bars, chances = self.bars()
        asked = places[-1] + 1 if len(places) == cutoff else len(queries)
        p = chances.copy()
        for i, q in enumerate(queries[:asked]):
            above = self.tail(bars - q)
            p *= above if i in places else 1 - above
        return float(p.sum())

    def chance_of_gaps(self, queries: tuple[int, ...], gaps: dict[int, int], cutoff: int) -> float:
        """P(exactly these are above, by these gaps)."""
        bars, chances = self.bars()
        asked = max(gaps) + 1 if len(gaps) == cutoff else len(queries)
        p = chances.copy()
        for i, q in enumerate(queries[:asked]):
            need = bars - q
            if i in gaps:
                v = need + gaps[i]
                p *= np.where(v >= 0, -math.expm1(-1 / self.query) * np.exp(-np.maximum(v, 0) / self.query), 0.0)
            else:
                p *= 1 - self.tail(need)
        return float(p.sum())

    def of(self, queries: tuple[int, ...], cutoff: int) -> dict[Outcome, float]:
        """The whole law."""
        return {places: self.chance(queries, places, cutoff) for places in outcomes(len(queries), cutoff)}


def outcomes(queries: int, cutoff: int) -> Iterator[Outcome]:
    """Every set of at most `cutoff` places."""
    for n in range(min(queries, cutoff) + 1):
        yield from combinations(range(queries), n)
