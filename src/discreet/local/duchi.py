"""Duchi's mechanism for means: one bit for a number, a corner of the cube for a vector."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.coins import Coin, rounded_coin
from discreet.local.estimate import Estimate
from discreet.local.means import MeanRandomizer, no_domain, read_reports
from discreet.local.randomizer import numbered
from discreet.local.reals import Span, read_numbers, rounded_at_random
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.privacy.exact import Real, count
from discreet.privacy.guarantee import called, decimal

_CHUNK = 1 << 22  # bits that are made at once
_WIDEST = 1 << 20


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Duchi(MeanRandomizer):
    """Reports one bit for a number of [low, high]; with `dimension=d`, d bits for d such numbers together.

    A number is rounded to one of the two ends, at random so that its expectation stays; that end is reported with
    chance p ≤ e^ε/(e^ε + 1), else the other. A vector is rounded to a corner of the cube in the same way; with
    chance p a uniform corner of the half that leans to it is reported, else one of the other half.

    Guarantee:
        ε-DP for any two values of one device: of two values, no report is more than p/(1 − p) ≤ e^ε times as likely
        under one, in integers. Every number is decided without a refusal: outside of the range it counts as the
        nearer end, and what is not a number as the middle. Unbiased for values on a grid of 2^30 steps, to the
        nearest of which a value is brought first. The best worst-case variance for small ε; `Piecewise` is
        better for single numbers from ε ≈ 1.3 on.

    References:
        Duchi, Jordan, Wainwright 2018 (the sampling strategy for ℓ∞),
        https://arxiv.org/abs/1604.02390; Wang et al. 2019, Algorithms 1 and 3, https://arxiv.org/abs/1907.00834;
        docs/proofs/local-means.md, Theorem 1.

    >>> Duchi(epsilon=50, low=0, high=10).randomize([0, 10.0]).tolist()
    [0, 1]
    """

    epsilon: Fraction
    span: Span
    dimension: int | None

    def __init__(self, *, epsilon: Real, low: Real = -1, high: Real = 1, dimension: int | None = None) -> None:
        d = None if dimension is None else count("dimension", dimension)
        if d is not None and d > _WIDEST:
            raise InvalidParameter(f"dimension must be at most {_WIDEST:,}, not {d:,}.")
        MeanRandomizer.__init__(self, epsilon=epsilon, low=low, high=high)
        object.__setattr__(self, "dimension", d)

    @property
    def coin(self) -> Coin:
        """The coin that keeps what was rounded: odds at most e^ε."""
        return rounded_coin(self.epsilon)

    @property
    def signal(self) -> Fraction:
        """How much of a corner's coordinate is in the mean of the reported one: (2p − 1)·E|S|/d.

        S is a sum of d fair signs, so E|S|/d = C(d − 1, ⌊(d − 1)/2⌋)/2^(d − 1).
        """
        d = self.dimension or 1
        return (2 * self.coin.chance - 1) * Fraction(math.comb(d - 1, (d - 1) // 2), 1 << (d - 1))

    def randomize(self, x: Any, *, rng: Entropy | None = None) -> Any:
        """0 or 1 for a number; d of them for a vector; for an array one report for each entry or row.

        Args:
            x: a number or an array of numbers; with `dimension=d`, d numbers or an array with d in each row.
            rng: where randomness comes from, for tests; the operating system's by default.
        """
        values, alone = read_numbers(x, self.dimension)
        source = SystemEntropy() if rng is None else rng
        steps = self.span.steps(values)
        if self.dimension is None:
            ends = rounded_at_random(steps, 0, source).astype(np.uint8)
            reports = ends ^ ~self.coin.flips(ends.size, source)
            return int(reports[0]) if alone else reports
        rows = max(1, _CHUNK // self.dimension)
        parts = [self._corners(steps[i : i + rows], source) for i in range(0, len(steps), rows)]
        corners = np.concatenate([np.empty((0, self.dimension), dtype=np.uint8), *parts])
        return corners[0] if alone else corners

    def estimate(self, reports: Any, *, domain: Sequence[Hashable] | None = None) -> Estimate:
        """Return the mean of the values of the devices that reported; of each coordinate of a vector."""
        no_domain(domain)
        row = () if self.dimension is None else (self.dimension,)
        bits = read_reports(reports, row=row, low=0, high=1)
        ones = np.atleast_1d(bits.sum(axis=0, dtype=np.int64))
        middle, width, n = (self.span.low + self.span.high) / 2, self.span.width, len(bits)
        signal = self.signal
        values = float(middle) + (2 * ones - n) * float(width / (2 * n * signal))
        return Estimate(
            ("mean",) if self.dimension is None else tuple(range(self.dimension)),
            values,
            users=n,
            own=self._variance,
            reach=float(width / 2 * (1 / signal + 1)),
            bounds=self.span.bounds,
        )

    @property
    def _variance(self) -> float:
        """Of what one device adds to the sum, at the worst value: the middle of the range."""
        return float((self.span.width / 2 / self.signal) ** 2)

    def _corners(self, steps: NDArray[np.int64], rng: Entropy) -> NDArray[np.uint8]:
        corner = rounded_at_random(steps, 0, rng).astype(np.uint8)
        n, d = corner.shape
        drawn = np.frombuffer(rng.bytes(-(-n * d // 8)), dtype=np.uint8)
        uniform = np.unpackbits(drawn, count=n * d).reshape(n, d)
        lean = 2 * (uniform == corner).sum(axis=1, dtype=np.int64) - d  # ⟨uniform, corner⟩ in signs
        away = np.where(self.coin.flips(n, rng), lean < 0, lean > 0)  # a tie stays where it is
        return np.asarray(uniform ^ away.astype(np.uint8)[:, None], dtype=np.uint8)

    def explain(self) -> str:
        e, p = decimal(self.epsilon), float(self.coin.chance)
        if self.dimension is None:
            law = f"reported with chance p = {p:.6g}, else the other end"
            ratio = "Both reports have chances between 1 − p and p, whatever the value is."
        else:
            law = (
                f"kept in mind: with chance p = {p:.6g} a uniform corner z of the half with ⟨z, v⟩ ≥ 0 is reported, "
                "else one with ⟨z, v⟩ ≤ 0"
            )
            ratio = (
                f"Each of the 2^{self.dimension} corners has a chance between 2(1 − p) and 2p times its share under "
                "every v; where ⟨z, v⟩ = 0 exactly its share."
            )
        return numbered(
            repr(self),
            "Rounding. The value becomes one of the ends of its range (of each range), with a chance that keeps its "
            "expectation.",
            f"Law. The rounded v is {law}.",
            f"Ratio. {ratio}",
            f"Odds. p/(1 − p) ≤ exp({e}), compared in integers.",
            f"Conclusion. Averaged over the rounding the ratio stays: one report is {e}-DP for any two values.",
            f"Error. The mean of 1,000,000 devices within ±{self.error(10**6):.6g} with confidence 95%.",
        )

    def __repr__(self) -> str:
        return called(self, "epsilon", "span.low", "span.high", "dimension")
