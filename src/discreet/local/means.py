"""Randomizers for means: Laplace, the piecewise mechanism and Duchi's, over numbers of a declared range."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.coins import Coin, rounded_coin
from discreet.local.estimate import Estimate, half_width, read_epsilon
from discreet.local.randomizer import Randomizer, numbered
from discreet.local.reals import STEPS, Span, read_numbers, read_span, rounded_at_random
from discreet.noise import laplace
from discreet.noise.entropy import Entropy, SystemEntropy, below_vector
from discreet.noise.fixedpoint import exp_neg
from discreet.privacy.event import Composed, DiscreteLaplaceEvent
from discreet.privacy.exact import Real, count, set_fields
from discreet.privacy.guarantee import called, decimal

_LARGEST = (1 << 63) - 1  # of int64, in which all is computed


class MeanRandomizer(Randomizer):
    """A randomizer of numbers of a declared range, from whose reports their mean is estimated.

    Attributes:
        epsilon: the ε of one report.
        span: the declared range.
    """

    __slots__ = ()

    epsilon: Fraction
    span: Span

    def __init__(self, *, epsilon: Real, low: Real = -1, high: Real = 1) -> None:
        set_fields(self, epsilon=read_epsilon(epsilon), span=read_span(low, high))

    def error(self, users: int, confidence: Real = 0.95) -> float:
        """Return how far the mean of so many values is off at most, with that confidence, at the worst values.

        For vectors it is each coordinate of the mean.
        """
        return half_width(self._variance, users, confidence)

    @property
    @abstractmethod
    def _variance(self) -> float:
        """Of what one device adds to the sum, at the worst value."""

    def __repr__(self) -> str:
        return called(self, "epsilon", "span.low", "span.high")


def read_reports(
    reports: Any, *, row: tuple[int, ...] = (), low: int | None = None, high: int | None = None
) -> NDArray[Any]:
    """Report as an array of integers with one `row` for each device, all from `low` to `high`.

    Raises:
        InvalidParameter: they are not what devices of these parameters send.
    """
    try:
        array = np.asarray(reports)
    except ValueError:  # a ragged list
        array = np.empty(0, dtype=np.object_)
    if isinstance(reports, np.ma.MaskedArray):
        raise InvalidParameter("reports must be a plain array, not a masked one.", hint="reports[~mask].data")
    if array.shape == row and array.dtype.kind in "iub":  # of one device
        array = array[None]
    if array.dtype.kind not in "iub" or array.shape[1:] != row or array.ndim != 1 + len(row):
        kind = "an integer" if not row else f"a row of {row[0]} integers"
        raise InvalidParameter(
            f"reports must hold {kind} for each device, not {array.dtype} of shape {array.shape}.",
            hint="pass what randomize returned, stacked in one array",
        )
    if not len(array):
        raise InvalidParameter("there must be at least one report.")
    most = _LARGEST if high is None else high
    if (low is not None and int(array.min()) < low) or int(array.max()) > most:
        raise InvalidParameter(
            "there are reports that no device with these parameters sends.",
            hint="server and devices need equal parameters",
        )
    return array


def no_domain(domain: Sequence[Hashable] | None) -> None:
    """Refuses a domain where a mean is estimated."""
    if domain is not None:
        raise InvalidParameter("a mean has no domain.", hint="estimate(reports)")


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Laplace(MeanRandomizer):
    """Reports a number of [low, high], in steps of 2^−30 of the range, with discrete Laplace noise.

    Guarantee:
        ε-DP for any two values of one device: they lie at most 2^30 steps apart, and the noise has mass ∝ exp(−|k|/b)
        with b = 2^30/ε, a fraction, drawn exactly. Outside of the range a value counts as the nearer end, and what is
        not a number as the middle. Unbiased for values on the grid. Its loss composes better than that of other reports
        of the same ε; for one report `Duchi` has less variance below ε = 2.3 and `Piecewise` always.

    References:
        Dwork, McSherry, Nissim, Smith 2006, Proposition 1, https://doi.org/10.1007/11681878_14;
        docs/proofs/local-means.md, Theorem 2.

    >>> Laplace(epsilon=1, low=0, high=10).error(users=10_000) < 0.28
    True
    """

    epsilon: Fraction
    span: Span

    @property
    def scale(self) -> Fraction:
        """The scale b = 2^30/ε of the noise, in steps."""
        return STEPS / self.epsilon

    @property
    def events(self) -> Composed:
        return Composed([DiscreteLaplaceEvent(STEPS, self.scale)])

    def randomize(self, x: Any, *, rng: Entropy | None = None) -> Any:
        """Return an integer: the value in steps from the low end, with noise; for an array one for each entry.

        Args:
            x: a number, or a one-dimensional array of numbers.
            rng: where randomness comes from, for tests; the operating system's by default.
        """
        values, alone = read_numbers(x)
        source = SystemEntropy() if rng is None else rng
        steps = self.span.steps(values)
        noisy = steps + laplace.sample_vector(self.scale, steps.size, source)
        return int(noisy[0]) if alone else noisy

    def estimate(self, reports: Any, *, domain: Sequence[Hashable] | None = None) -> Estimate:
        """Return the mean of the values of the devices that reported."""
        no_domain(domain)
        noisy = read_reports(reports)
        n = len(noisy)
        high, low = divmod(noisy.astype(np.int64), 1 << 32)  # their sums stay below 2^63
        mean = Fraction((int(high.sum()) << 32) + int(low.sum()), n * STEPS)
        return Estimate(
            ("mean",),
            np.array([self.span.value(mean)]),
            users=n,
            own=self._variance,
            reach=float(3 * self.span.width / self.epsilon),  # so Bernstein's bound is that of sub-gamma noise
            bounds=self.span.bounds,
        )

    @property
    def _variance(self) -> float:
        """2(width/ε)², from below which the variance of the discrete law lies."""
        return float(2 * (self.span.width / self.epsilon) ** 2)

    def explain(self) -> str:
        e, b = decimal(self.epsilon), float(self.scale)
        return numbered(
            repr(self),
            f"Sensitivity. Two values of a device lie at most {STEPS:,} = 2^30 steps of the range apart.",
            f"Noise. The report is k + Z with P(Z = z) ∝ exp(−|z|/b) and b = 2^30/{e} ≈ {b:.6g}.",
            "Ratio. P(o | k) / P(o | k') = exp((|o − k'| − |o − k|)/b) ≤ exp(|k − k'|/b).",
            f"Conclusion. The ratio is at most exp(2^30/b) = exp({e}): one report is {e}-DP for any two values.",
            f"Error. The mean of 1,000,000 devices within ±{self.error(10**6):.6g} with confidence 95%.",
        )


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
        Duchi, Jordan, Wainwright 2018 (the sampling strategy for ℓ∞), https://arxiv.org/abs/1604.02390; Wang et al.
        2019, Algorithms 1 and 3, https://arxiv.org/abs/1907.00834; docs/proofs/local-means.md, Theorem 1.

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
