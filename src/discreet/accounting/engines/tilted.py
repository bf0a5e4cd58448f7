"""The law of a sum of grid laws, tilted by e^(cℓ) and found by a Fourier transform, with every error bounded.

The tilted sum lies around the losses that matter, so the rounding of the transform is relative to δ, however
small δ is. What falls outside the window is bounded by Chernoff, wrapped around or not.

References: docs/proofs/lattice-composition.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.bounds import Bounds
from discreet.accounting.engines.connect_the_dots import FARTHEST, SPLIT, GridLaw
from discreet.privacy.pair import FLOOR, Curve

_TRANSFORM = 8 * 2.0**-53  # the error of a transform for each halving, relative to the sum of sizes
_UNIT = 2.0**-52  # twice the rounding unit
_KNOTS = (2.0, 7.0)  # in standard deviations of the covering Gaussian use
_FAR = 40.0
_MOST = 1 << 22  # points, whatever was asked for
_BLOCK = 1 << 16  # bins that are multiplied at once
_DEEP = 280.0  # the curve is kept down to where it may be e^280 times δ


@dataclass(frozen=True, slots=True)
class TiltedWindow:
    """Where the tilted sum lies, but for a small share, and the Chernoff bounds that say so."""

    bottom: float
    top: float
    down: float
    up: float
    length: float
    """Of the window or of the longest grid of a pair."""


@dataclass(frozen=True, slots=True, eq=False)
class TiltedSums:
    """The composed law around the losses that matter: its curve at grid points, from above and from below.

    The true curve at ε is at most `upper` at ε − nudge; `lower` − lost, less the factor e^excess, is below the
    curve of the pairs composed with a Gaussian use of `spread` at ε + low_nudge.
    """

    start: int
    step: float
    upper: Curve
    lower: Curve
    nudge: float
    low_nudge: float
    excess: float
    lost: float
    spread: float

    def above(self, epsilon: float) -> float:
        """At least δ(ε); infinite below the window."""
        at = (epsilon - self.nudge) * (1 - math.copysign(4 * _UNIT, epsilon - self.nudge))
        return self._read(self.upper, at - 2.0**-48 * self.step, up=True)

    def below(self, epsilon: float) -> float:
        """At most δ(ε)."""
        value = self._smoothed(epsilon)
        s = self.spread
        if s == 0:
            return value
        if s > 0.05:
            return 0.0
        # What the splitting added is at most the curve of the Gaussian use, less that of no use: a bump around
        # ε. A polygon in e^ε above the bump is a sum of curves, of which only the one at ε is taken away.
        x = np.array([-_KNOTS[1], -_KNOTS[0], 0.0, _KNOTS[0], _KNOTS[1]]) * s
        near, far = _bump(_KNOTS[0], s), _bump(_KNOTS[1], s)
        y = np.array([0.0, near * math.exp(x[1]), math.erf(s / math.sqrt(8)) * (1 + 2.0**-40), near, 0.0])
        slope = np.append(np.append(0.0, np.diff(y) / (np.exp(x[:-1]) * np.expm1(np.diff(x)))), 0.0)
        weight = np.diff(slope) * np.exp(x) * (1 + 2.0**-30)
        centre = -float(weight[2])
        others = math.fsum(float(weight[i]) * self.above(epsilon - x[i]) for i in (0, 1, 3, 4))
        others += far / -math.expm1(-s) * self.above(epsilon - _FAR * s) + FLOOR
        return (value - others) / (1 - centre / (1 + 2.0**-29)) if value > others else 0.0

    def epsilon(self, delta: float) -> Bounds | None:
        """Return the ε ≥ 0 where the bounds cross delta; None when the upper one does not."""
        first = max(self.start * self.step + 2 * self.nudge, 0.0)
        last = (self.start + self.upper.size - 1) * self.step + 2 * self.nudge
        if self.above(last) > delta:
            return None
        low, high = first, last
        if self.above(first) <= delta:
            high = first
        while high - low > 1e-13 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.above(middle) <= delta else (middle, high)
        step = max(1e-9 * high, 1e-13)
        while step < high and not self.below(high - step) > delta:
            step *= 2
        low, top = max(high - step, 0.0), high
        if not self.below(low) > delta:
            return Bounds(0.0, high)
        while top - low > 1e-11 * high:
            middle = (low + top) / 2
            low, top = (middle, top) if self.below(middle) > delta else (low, middle)
        return Bounds(low, high)

    def _smoothed(self, epsilon: float) -> float:
        at = (epsilon + self.low_nudge) * (1 + math.copysign(4 * _UNIT, epsilon + self.low_nudge))
        return (
            self._read(self.lower, at + 2.0**-48 * self.step, up=False) * math.exp(-self.excess) * (1 - 8 * _UNIT)
            - self.lost
        )

    def _read(self, curve: Curve, epsilon: float, *, up: bool) -> float:
        i = math.floor(epsilon / self.step) - self.start
        if i < 0:
            return math.inf if up else float(curve[0])
        if i >= curve.size - 1:
            return float(curve[-1])
        left, right = float(curve[i]), float(curve[i + 1])
        part = math.expm1(epsilon - (self.start + i) * self.step) / math.expm1(self.step)
        # Straight in e^ε between the points; the part may be off by the rounding of ε.
        slack = (abs(epsilon) / self.step + 8) * 4 * _UNIT
        part = min(max(part - slack if up else part + slack, 0.0), 1.0)
        return (left * (1 - part) + right * part) * (1 + (8 * _UNIT if up else -8 * _UNIT))


def transformed(
    laws: Sequence[GridLaw], counts: Sequence[int], c: float, epsilon: float, window: TiltedWindow
) -> TiltedSums | None:
    """Return the sum of the laws, each so many times, tilted by c, for ε near `epsilon`; None when floats do not reach.

    Guarantee:
        That of `TiltedSums`, whatever the window and the tilt: a poor choice widens the bounds.
    """
    step = laws[0].step
    uses, both = sum(counts), list(zip(laws, counts, strict=True))
    bottom, end = math.floor(window.bottom / step), math.ceil(window.top / step)
    if not 0 <= end - bottom < _MOST:  # ends that rounding put anywhere
        return None
    size = 1 << max((end - bottom).bit_length(), 6)
    end = bottom + size - 1

    tilts, tilted, relative = [], [], 0.0
    for law, n in both:
        k, w, error = tilt(law, c)
        tilts.append(k)
        tilted.append(_folded(w, law.first, size))
        relative += n * (error + (w.size // size + 2) * _UNIT)
    log_k = math.fsum(n * k for n, k in zip(counts, tilts, strict=True))
    above = math.fsum(n * log_mgf(law, c + window.up) for law, n in both) - log_k - window.up * end * step
    below = math.fsum(n * log_mgf(law, c - window.down) for law, n in both) - log_k + window.down * bottom * step
    farthest = max(float(np.max(np.abs(law.losses()))) for law in laws)
    slack = 2.0**-40 * (
        uses * (1 + (c + window.up + window.down) * farthest) + (window.up + window.down) * size * step + abs(log_k)
    )
    if slack > 1:
        return None
    off_top, off_bottom = math.exp(min(above + slack, 0.0)), math.exp(min(below + slack, 0.0))

    # δ(ε) is e^(log_k − cε) times the sum of q·e^(−c(ℓ−ε))(1 − e^(ε−ℓ))₊.
    start = max(bottom, math.floor((epsilon - _DEEP / (c + 1)) / step))
    d: Curve = np.asarray(step * np.arange(end - start + 1), dtype=np.float64)
    log_scale = log_k - c * (start * step)
    rounding = relative + (d.size * 3 + 64 + abs(log_k) + c * (abs(start * step) + d[-1])) * 4 * _UNIT
    if log_scale > 600 or d[-1] > FARTHEST or rounding > 0.1:
        return None
    q, error = _power(tilted, counts, size)
    q = np.roll(q, -(bottom % size))[start - bottom :]
    last = sum(n * (law.first + int(np.flatnonzero(law.mass)[-1])) for law, n in both)
    if last < end:  # beyond the sum of the largest losses there is nothing
        off_top = 0.0
    beyond = slice(max(last + 1 - start, 0), None)
    scale = math.exp(log_scale)
    # At most so much does a unit of tilted mass add, wherever it is. None is added from below the window.
    most = np.exp(-c * d)
    most *= math.exp(log_kernel(c) + slack + 2.0**-20)
    infinite, infinite_low = _infinite(laws, counts)
    # These are long, so that they are worked on in place.
    mass = np.maximum(q, 0.0)
    mass += error
    mass[beyond] = 0.0
    first_far = int(np.searchsorted((c + 1) * d, 690.0, side="right"))  # from where on the curve may underflow
    far = float(mass[first_far:] @ np.exp(-c * d[first_far:])) + 1e-300
    upper = _curve(mass, d, c, step)
    upper += off_top * most
    upper += far
    upper *= scale * (1 + 2 * rounding)
    upper += infinite + FLOOR
    q -= error
    np.maximum(q, 0.0, out=q)
    q[beyond] = 0.0
    lower = _curve(q, d, c, step)
    lower *= scale * (1 - 2 * rounding)
    most *= scale * (off_top + off_bottom)
    lower -= most
    np.maximum(lower, 0.0, out=lower)
    lower += infinite_low
    excess = math.fsum(n * law.excess for law, n in both) * (1 + _UNIT)
    return TiltedSums(
        start,
        step,
        upper,
        lower,
        math.fsum(n * law.nudge for law, n in both) * (1 + _UNIT),
        math.fsum(n * law.nudge for law, n in both if law.exact) * (1 + _UNIT),
        excess,
        math.fsum(n * law.lost for law, n in both) * math.exp(min(excess, 700.0)) * (1 + 2.0**-20),
        SPLIT * step * math.sqrt(sum(n for law, n in both if not law.exact)) * (1 + 2 * _UNIT),
    )


def log_mgf(law: GridLaw, c: float) -> float:
    """Return the logarithm of Σ mass·e^(cℓ), up to rounding."""
    exponent = c * law.losses()
    some = law.mass > 0
    with np.errstate(divide="ignore"):
        exponent = np.where(some, exponent + np.log(law.mass), -np.inf)
    top = float(exponent.max())
    with np.errstate(under="ignore"):
        return top + math.log(float(np.exp(exponent - top).sum()))


def log_kernel(c: float) -> float:
    """Return the logarithm of the largest (1 − e^−l)·e^(−cl) over l ≥ 0."""
    return c * math.log(c) - (1 + c) * math.log1p(c)


def tilt(law: GridLaw, c: float) -> tuple[float, Curve, float]:
    """Return a number k, the masses times e^(cℓ − k), which are about 1 together, and their relative rounding error."""
    k = log_mgf(law, c)
    exponent = c * law.losses() - k
    with np.errstate(under="ignore"):
        w = law.mass * np.exp(np.minimum(exponent, 690.0))
    # Where a positive mass meets a vast factor their logarithms are added instead.
    wild = np.flatnonzero((exponent > 690) & (law.mass > 0))
    if wild.size:
        w[exponent > 690] = 0.0
        w[wild] = np.exp(np.minimum(np.log(law.mass[wild]) + exponent[wild], 690.0))
    return k, w, (float(np.max(np.abs(exponent))) + 720.0 * bool(wild.size) + abs(k) + 8) * 2 * _UNIT


def _curve(q: Curve, d: Curve, c: float, step: float) -> Curve:
    """Σ q_j e^(−c d_j)(1 − e^(d_i − d_j))₊ at every i, by positive terms only; in the place of q."""
    factor = -(c + 1) * d
    q *= np.exp(factor, out=factor)
    q[:-1] = np.cumsum(q[:0:-1])[::-1]  # of all terms beyond
    q[-1] = 0.0
    q *= np.exp(d, out=factor)
    q[:] = np.cumsum(q[::-1])[::-1]
    q *= math.expm1(step)
    return q


def _folded(w: Curve, first: int, size: int) -> Curve:
    """Return the masses at their losses modulo `size`."""
    offset = first % size
    whole = np.zeros(-(-(offset + w.size) // size) * size)
    whole[offset : offset + w.size] = w
    return np.asarray(whole.reshape(-1, size).sum(axis=0))


def _power(tilted: list[Curve], counts: Sequence[int], size: int) -> tuple[Curve, float]:
    """Return the cyclic convolution of all, each with its count, and a bound on an entry's error; empties `tilted`."""
    halvings = math.log2(size)
    transforms, errors = [], []
    while tilted:  # each is let go when it was transformed: they are long
        w = tilted.pop(0)
        errors.append((_TRANSFORM * halvings * 1.01 + 16 * _UNIT) * float(w.sum()))
        transforms.append(np.fft.rfft(w))
        del w
    whole, wrong, length = transforms[0], 0.0, 0.0
    for i in range(0, whole.size, _BLOCK):
        block = [transform[i : i + _BLOCK] for transform in transforms]
        product, off = _product(block, errors, counts)
        wrong += off
        length += float(np.abs(product).sum())
        whole[i : i + _BLOCK] = product  # of this block no more is read
    del transforms
    # Every bin but two stands for two, and the inverse adds its own rounding.
    rounding = (_TRANSFORM * halvings * 1.01 + 16 * _UNIT) * length
    return np.fft.irfft(whole, size), 2 * (wrong + rounding) / size * (1 + 2.0**-20)


def _product(
    transforms: Sequence[NDArray[np.complex128]], errors: Sequence[float], counts: Sequence[int]
) -> tuple[NDArray[np.complex128], float]:
    """Return the product of some bins, each transform to the power of its count, and the sum of all their errors."""
    bins = transforms[0].size
    log_size: NDArray[np.float64] = np.zeros(bins)
    for transform, error, n in zip(transforms, errors, counts, strict=True):
        log_size += n * np.log(np.abs(transform) + error)
    keep = np.flatnonzero(log_size > -46.0)
    missed = np.exp(log_size)
    missed[keep] = 0.0
    off: NDArray[np.float64] = np.zeros(keep.size)
    log_product: NDArray[np.complex128] = np.zeros(keep.size, dtype=np.complex128)
    lost = np.zeros(keep.size, dtype=bool)
    for transform, error, n in zip(transforms, errors, counts, strict=True):
        part = transform[keep]
        length = np.abs(part)
        sure = length > 8 * error
        lost |= ~sure
        part = np.where(sure, part, 1.0)
        off += n * (1.15 * error / np.abs(part) + 16 * _UNIT)
        log_product += n * np.log(part)
    lost |= off > 1.0
    product = np.where(lost, 0.0, np.exp(np.where(lost, 0.0, log_product)))
    wrong = np.where(lost, np.exp(log_size[keep]), np.abs(product) * np.expm1(np.where(lost, 0.0, off)))
    whole = np.zeros(bins, dtype=np.complex128)
    whole[keep] = product
    return whole, float(wrong.sum() + missed.sum())


def _infinite(laws: Sequence[GridLaw], counts: Sequence[int]) -> tuple[float, float]:
    """Return the chance of an infinite loss in any use, rounded up and down."""
    whole, finite = 0.0, 0.0
    for law, n in zip(laws, counts, strict=True):
        total = float(law.mass.sum())
        whole += n * math.log(total + law.infinite)
        finite += n * math.log1p(-law.infinite / (total + law.infinite)) if law.infinite else 0.0
    value = -math.expm1(finite) * math.exp(min(whole, 700.0))
    slack = sum(counts) * 2.0**-42 + 2.0**-46
    return value * math.exp(slack), value * math.exp(-slack)


def _bump(at: float, s: float) -> float:
    """At least the curve of N(0, 1) and N(s, 1) at ε = at·s, by M(a) − M(a + s) ≤ s(1 − aM(a)) ≤ s/(1 + a²)."""
    a = at - s / 2
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    plain = density / (1 + a * a)
    if a < 4:
        plain = min(plain, density - a * math.erfc(a / math.sqrt(2)) / 2)
    return s * plain * (1 + 2.0**-40)
