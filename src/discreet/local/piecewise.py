"""The piecewise mechanism for means, on whole numbers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from discreet.local.coins import Coin, rounded_coin
from discreet.local.estimate import Estimate
from discreet.local.means import MeanRandomizer, no_domain, read_reports
from discreet.local.randomizer import numbered
from discreet.local.reals import Span, read_numbers, rounded_at_random
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.noise.fixedpoint import exp_neg
from discreet.noise.uniform import below_vector
from discreet.privacy.guarantee import decimal

_FINE = 7  # the window holds about 2^7 steps
_FINEST = 26


@dataclass(frozen=True, slots=True)
class Window:
    """The law of a report: m + 1 inputs, m + w reports, and a window of w reports that moves with the input.

    Input i gives each report of {i, …, i + w − 1} the chance p/w, and each other one (1 − p)/m.
    """

    bits: int
    width: int
    coin: Coin

    @property
    def inputs(self) -> int:
        """The number m of steps between the ends of the range."""
        return 1 << self.bits

    @property
    def reports(self) -> int:
        """The number of different reports, m + w."""
        return self.inputs + self.width

    @property
    def slope(self) -> Fraction:
        """How much the expected report grows with the input: p − (1 − p)·w/m."""
        p = self.coin.chance
        return p - (1 - p) * Fraction(self.width, self.inputs)

    def moments(self, i: int) -> tuple[Fraction, Fraction]:
        """Return the mean and the variance of the report to input i."""
        p, m, w, k = self.coin.chance, self.inputs, self.width, self.reports
        inside, everywhere = _sums(i, i + w), _sums(0, k)
        mean, square = (p * s / w + (1 - p) * (t - s) / m for s, t in zip(inside, everywhere, strict=True))
        return mean, square - mean * mean


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Piecewise(MeanRandomizer):
    """Reports a whole number: with chance p one of a window around the value, else any other one.

    The value is rounded to one of m + 1 steps, at random so that its expectation stays. The window has
    w ≈ m·e^(−ε/2) reports and slides over all m + w of them as the value goes from low to high; within it, and
    outside, reports are uniform.

    Guarantee:
        ε-DP for any two values of one device: a report in the window is p·m/((1 − p)·w) ≤ e^ε times as likely as
        one outside, in integers, and the window is equally wide for all values. Outside of the range a value
        counts as the nearer end, and what is not a number as the middle. Unbiased for values on a grid of 2^30
        steps. Least variance in the middle of the range, most at its ends.

    References:
        Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu 2019, Algorithm 2 and Lemma 1,
        https://arxiv.org/abs/1907.00834; docs/proofs/local-means.md, Theorem 3.

    >>> from discreet.local import Laplace
    >>> Piecewise(epsilon=4).error(users=10_000) < Laplace(epsilon=4).error(users=10_000)
    True
    """

    epsilon: Fraction
    span: Span

    @property
    def window(self) -> Window:
        """The law of a report, in whole numbers."""
        return _window(self.epsilon)

    def randomize(self, x: Any, *, rng: Entropy | None = None) -> Any:
        """Return an integer from 0 to m + w − 1; for an array one for each entry.

        Args:
            x: a number, or a one-dimensional array of numbers.
            rng: where randomness comes from, for tests; the operating system's by default.
        """
        values, alone = read_numbers(x)
        source = SystemEntropy() if rng is None else rng
        law, n = self.window, len(values)
        first = rounded_at_random(self.span.steps(values), law.bits, source)
        heads = law.coin.flips(n, source)
        inside = first + below_vector(law.width, n, source)
        other = below_vector(law.inputs, n, source)
        other += law.width * (other >= first)
        reports = np.where(heads, inside, other)
        return int(reports[0]) if alone else reports

    def estimate(self, reports: Any, *, domain: Sequence[Hashable] | None = None) -> Estimate:
        """Return the mean of the values of the devices that reported."""
        no_domain(domain)
        law = self.window
        whole = read_reports(reports, low=0, high=law.reports - 1)
        n = len(whole)
        start, _ = law.moments(0)
        share = (Fraction(int(whole.sum(dtype=np.int64)), n) - start) / (law.slope * law.inputs)
        return Estimate(
            ("mean",),
            np.array([self.span.value(share)]),
            users=n,
            own=self._variance,
            reach=float(self.span.width * (law.reports - 1 - start) / (law.slope * law.inputs)),
            bounds=self.span.bounds,
        )

    @property
    def _variance(self) -> float:
        """Of what one device adds to the sum, at the worst value: an end, and what rounding to a step adds."""
        law = self.window
        _, variance = law.moments(0)
        return float((variance / law.slope**2 + Fraction(1, 4)) * (self.span.width / law.inputs) ** 2)

    def explain(self) -> str:
        e, law = decimal(self.epsilon), self.window
        p, m, w = float(law.coin.chance), law.inputs, law.width
        return numbered(
            repr(self),
            f"Rounding. The value becomes a step i of 0, …, {m}, with a chance that keeps its expectation.",
            f"Law. With chance p = {p:.6g} the report is uniform on the window of {w} reports from i on, else on the "
            f"{m} others.",
            f"Ratio. A report has chance p/{w} or (1 − p)/{m}, whatever the value is.",
            f"Odds. p·{m}/((1 − p)·{w}) ≤ exp({e}), compared in integers.",
            f"Conclusion. Averaged over the rounding the ratio stays: one report is {e}-DP for any two values.",
            f"Error. The mean of 1,000,000 devices within ±{self.error(10**6):.6g} with confidence 95%.",
        )


@lru_cache(maxsize=64)
def _window(epsilon: Fraction) -> Window:
    """So fine a grid that the window has some hundred steps; the same on every machine, since all is in integers."""
    bits = _FINE
    while bits < _FINEST and exp_neg(epsilon / 2, bits)[1] < 1 << _FINE:
        bits += 1
    m, w = 1 << bits, exp_neg(epsilon / 2, bits)[1]
    return Window(bits, w, rounded_coin(epsilon, Fraction(w, m)))


def _sums(first: int, end: int) -> tuple[Fraction, Fraction]:
    """Σ k and Σ k² over first ≤ k < end."""

    def below(n: int) -> tuple[int, int]:
        return n * (n - 1) // 2, (n - 1) * n * (2 * n - 1) // 6

    return tuple(Fraction(b - a) for a, b in zip(below(first), below(end), strict=True))  # type: ignore[return-value]  # two
