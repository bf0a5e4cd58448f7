"""Counts in buckets with noise: what one row can change, what that costs, and how far the noise moves a score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.gaussian import root_above
from discreet.mechanisms.parameters import read_confidence, read_delta, read_size
from discreet.mechanisms.summed import SummedNoise
from discreet.mechanisms.values import total
from discreet.noise.entropy import Entropy
from discreet.privacy.event import Composed
from discreet.privacy.exact import Real, count, exact, positive
from discreet.privacy.guarantee import decimal
from discreet.privacy.unit import Relation, Sensitivity
from discreet.sketch.hashing import Box, Family, Floats, Hashes, Kernel, Ranges

_LARGEST = 1 << 28  # counts of one sketch: 2 GiB
_SLACK = Fraction(1, 1 << 40)  # so that an accountant that rounds up finds the claimed ε too


@dataclass(frozen=True, slots=True)
class Counting:
    """The public parameters of a sketch: its hash family, its noise, and the neighbours that it is for.

    Attributes:
        epsilon, delta: the guarantee.
        relation: what neighbours are.
        family: the hash functions.
        parts: into so many disjoint parts rows are told apart (the classes), each with buckets of its own.
    """

    epsilon: Fraction
    delta: Fraction
    relation: Relation
    family: Family
    parts: int

    @classmethod
    def of(
        cls,
        *,
        epsilon: Real,
        delta: Real,
        relation: str | Relation,
        dimension: int,
        ranges: Ranges,
        kernel: str,
        bandwidth: Real | None,
        power: int,
        repetitions: int,
        buckets: int,
        parts: int,
    ) -> Counting:
        """Return what was asked for, checked.

        Raises:
            InvalidParameter: an argument is missing or impossible.
        """
        near = Kernel.parse(kernel)
        if (near is Kernel.L2) == (bandwidth is None):
            words = "the l2 kernel needs a bandwidth" if bandwidth is None else "angles have no bandwidth"
            raise InvalidParameter(
                f"{words}.", hint="bandwidth=0.25 is a quarter of the width of the ranges; power= sharpens angles"
            )
        l, w = count("repetitions", repetitions), count("buckets", buckets)
        if w & (w - 1) or not 2 <= w <= 1 << 30:
            raise InvalidParameter(f"buckets must be a power of two from 2 to 2^30, not {w}.", hint="buckets=256")
        if count("power", power) * l > 1 << 20:
            raise InvalidParameter("repetitions times power must be at most 2^20.", hint="repetitions=500, power=4")
        if l * w * parts > _LARGEST:
            raise InvalidParameter(
                f"the sketch would have {l * w * parts:,} counts, above {_LARGEST:,}.", hint="take fewer buckets"
            )
        width = None if bandwidth is None else positive("bandwidth", bandwidth)
        family = Family(Box.of(dimension, ranges), near, width, power, l, w)
        assert family.width  # refuses what is too narrow or too wide
        d = exact("delta", delta)
        d = d if d == 0 else read_delta(delta, hint="delta=1e-6, or 0 for Laplace noise")
        return cls(read_size("epsilon", epsilon), d, Relation.parse(relation), family, parts)

    @property
    def sensitivity(self) -> Sensitivity:
        """One row is in one bucket of each repetition; a replaced one leaves it and enters another."""
        return Sensitivity(self.family.repetitions * (2 if self.relation is Relation.REPLACE else 1), 1)

    @property
    def noise(self) -> Additive:
        """The law that is added to each count: discrete Laplace, or with a δ the rounded Gaussian."""
        if self.delta == 0:
            return DiscreteLaplaceNoise(self.sensitivity.l1 / self.epsilon)
        from discreet.accounting.convert import mu_squared_for

        share = mu_squared_for(self.epsilon, self.delta)  # μ², rounded down
        return RoundedGaussianNoise(root_above(self.sensitivity.l2_squared * (1 + _SLACK) / share))

    @property
    def events(self) -> Composed:
        """What all counts together cost."""
        return self.noise.event(self.sensitivity)

    def counted(self, hashes: Hashes, rows: object, parts: NDArray[np.int64] | None, rng: Entropy) -> Any:
        """Return the noisy counts, by part, repetition and bucket. A row whose part is −1 is in none."""
        f = self.family
        whole = f.box.whole(rows)
        size = self.parts * f.repetitions * f.buckets
        counts = np.zeros(size, dtype=np.int64)
        first = np.arange(f.repetitions, dtype=np.int64) * f.buckets
        for block in hashes.blocks(len(whole)):
            places = hashes.buckets(whole[block]) + first
            if parts is not None:
                mine = parts[block]
                places = (places + mine[:, None] * (f.repetitions * f.buckets))[mine >= 0]
            counts += np.bincount(places.reshape(-1), minlength=size)
        noisy = total(counts, self.noise.draw(size, rng))
        return noisy.reshape(self.parts, f.repetitions, f.buckets)

    def error(self, confidence: Real, rows: int | None) -> float:
        """Return a half-width of a score: of its noise, and with `rows` also of the chance in the hash functions."""
        c = exact("confidence", confidence)
        f = self.family
        share = c if rows is None else (1 + c) / 2  # half of the doubt for each
        width = noise_width(self.noise, f.repetitions, f.buckets, share)
        if rows is None:
            return width
        n = count("rows", rows)
        # Hoeffding 1963, Theorem 2: independent counts from 0 to n, their mean over the repetitions.
        doubt = float(1 - share)
        return width + n * math.sqrt(math.log(2 / doubt) / (2 * f.repetitions)) / (1 - 1 / f.buckets)

    def steps(self) -> list[str]:
        """Return the proof, with the numbers."""
        f, s = self.family, self.sensitivity
        moved = "is in one bucket of each" if s.l0 == f.repetitions else "leaves one bucket of each and enters another"
        if isinstance(self.noise, DiscreteLaplaceNoise):
            law = f"P(Z = k) ∝ exp(−|k|/b), b = {s.l1}/ε = {decimal(self.noise.scale)}"
            why = f"The ratio for all counts together is at most exp({s.l1}/b) = exp({decimal(self.epsilon)})"
        else:
            assert isinstance(self.noise, RoundedGaussianNoise)
            law = f"N(0, σ²) rounded, σ = {float(self.noise.sigma):.6g}"
            why = f"In ℓ2 they move by √{s.l2_squared}, which is what σ was made for (Balle, Wang, Theorem 8)"
        promise = f"({decimal(self.epsilon)}, {decimal(self.delta)})" if self.delta else decimal(self.epsilon)
        return [
            (
                f"Hashes. {f.repetitions} functions with {f.buckets} buckets each are drawn before any row is read; "
                "the buckets of a row are a function of that row alone."
            ),
            f"Sensitivity. Neighbours: {self.relation.value}. A row {moved}, so counts move by at most {s.l1} in ℓ1.",
            f"Noise. Each count gets its own Z, {law}.",
            f"Ratio. {why}.",
            f"Conclusion. The counts are {promise}-DP, and everything that is asked of them is a function of them.",
        ]


def scores(counts: NDArray[Any], family: Family, buckets: NDArray[np.int64]) -> Floats:
    """Σ k(x, row) for each part (first axis) and point, without what falls into a bucket by accident.

    A count in the bucket of x is expected to be Σ (k + (1 − k)/W); the number of rows is the mean of all that was
    counted in each repetition, which is noisy and public.
    """
    w = family.buckets
    every = np.arange(family.repetitions)
    means = counts.astype(np.float64).mean(axis=2)  # (part, repetition): rows/W
    seen = np.stack([part[every, buckets].mean(axis=1) for part in counts.astype(np.float64)])
    return np.asarray((seen - means.mean(axis=1)[:, None]) / (1 - 1 / w))


def rows_of(counts: NDArray[Any]) -> Floats:
    """Return the noisy number of rows of each part: the mean over the repetitions."""
    return np.asarray(counts.astype(np.float64).sum(axis=2).mean(axis=1))


_NORMAL = 1e4  # the variance of a sum of more than some draws from which its law is the normal one to four digits
_FINE = 32  # cells of one standard deviation of what comes from the other buckets
_DOUBT = Fraction(1, 10**9)  # with less of it the two parts share it


@lru_cache(maxsize=64)
def noise_width(noise: Additive, repetitions: int, buckets: int, confidence: Fraction) -> float:
    """Return a half-width that the noise of a score stays within, with this confidence; to about three digits.

    Of L repetitions and W buckets a score has Σ Z over its own L buckets less the mean of all, over 1 − 1/W and L: that
    is (A − B/(W − 1))/L, with A the sum of L draws and B the sum of L(W − 1) others. B is put into cells.
    """
    c = read_confidence(confidence)
    own, others = SummedNoise(noise, repetitions), SummedNoise(noise, repetitions * (buckets - 1))
    share = buckets - 1
    if 1 - c < _DOUBT:
        half = (1 + c) / 2
        return (own.quantile(half) + _beyond(others, half) / share) / repetitions
    places, mass = _cells(others)

    def inside(t: float) -> float:
        ends = np.concatenate([places / share + t, np.ceil(places / share - t) - 1])
        below = own.cdf(ends)
        return float(mass @ (below[: len(places)] - below[len(places) :]))

    low, high = 0.0, 1.0 / share
    if inside(low) >= c:
        return 0.0
    while inside(high) < c:
        low, high = high, 2 * high
    while high - low > 1e-5 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if inside(middle) >= c else (middle, high)
    return high * (1 + 1e-9) / repetitions  # a hair above the place of a jump, which a float may miss


def _cells(others: SummedNoise) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the middles of cells that hold an odd number of integers each, and their probabilities."""
    deviation = math.sqrt(others.noise.variance)
    step = max(int(deviation * math.sqrt(others.n) / _FINE), 1) | 1
    half = math.ceil((12 * math.sqrt(others.n) + 60) * max(deviation, 1.0) / step)
    middles = np.arange(-half, half + 1, dtype=np.float64) * step
    ends = np.append(middles, middles[-1] + step) - step / 2
    return middles, np.diff(_below(others, ends))


def _below(others: SummedNoise, ends: NDArray[np.float64]) -> NDArray[np.float64]:
    if others.n == 1:
        return others.noise.cdf(ends)
    if others.variance < _NORMAL or others.n < _NORMAL:
        return others.cdf(ends)
    from scipy.special import ndtr

    return np.asarray(ndtr(ends / math.sqrt(others.variance)))


def _beyond(others: SummedNoise, confidence: Fraction) -> float:
    """Return a quantile of |B|."""
    if others.variance < _NORMAL or others.n < _NORMAL:
        return others.quantile(confidence)
    from scipy.special import ndtri

    return float(-ndtri(float((1 - confidence) / 2))) * math.sqrt(others.variance) * 1.01


class Sketch:
    """Noisy counts of rows in buckets of random hash functions, and what they cost.

    Attributes:
        counting: the public parameters.
    """

    __slots__ = ()

    counting: Counting

    @property
    def events(self) -> Composed:
        """What one `fit` costs, as events."""
        return self.counting.events

    @property
    def loss(self) -> PrivacyLoss:
        """What one `fit` costs. At a δ above 0, Laplace noise in many repetitions costs less than its sum."""
        return PrivacyLoss(self.events)

    def error(self, confidence: Real = Fraction(19, 20), *, rows: int | None = None) -> float:
        """Return a half-width of a score (of one class), in rows, from public facts: that of the noise alone.

        With a guess of the number of `rows`, also of the chance that lies in the hash functions, by Hoeffding's bound,
        whatever the rows are; it is mostly far too large.
        """
        return self.counting.error(confidence, rows)

    def kernel(self, near: Floats) -> Floats:
        """Return the kernel at distances where each range has width 1, or at angles: what scores are sums of."""
        return self.counting.family.chance(near)


def described(name: str, counting: Counting) -> str:
    """Return the parameters, as they were given."""
    f = counting.family
    parts = [f"epsilon={decimal(counting.epsilon)}"]
    parts += [f"delta={decimal(counting.delta)}"] if counting.delta else []
    parts += [f"dimension={f.box.dimension}", f"kernel={f.kernel.value!r}"]
    parts += [f"bandwidth={decimal(f.bandwidth)}"] if f.bandwidth is not None else []
    parts += [f"power={f.power}"] if f.power > 1 else []
    parts += [f"repetitions={f.repetitions}", f"buckets={f.buckets}"]
    parts += [f"relation={counting.relation.value!r}"] if counting.relation is not Relation.ADD_REMOVE else []
    return f"{name}({', '.join(parts)})"
