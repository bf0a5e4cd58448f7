"""δ(ε) from a moment generating function, between certified bounds.

δ(ε) = (1/2πi) ∫ M(z) e^(−zε) / (z(z+1)) dz along Re z = c > 0. The trapezoid rule with step 2π/p gives, by
Poisson's summation formula, Σ_j e^(cjp) δ(ε + jp) exactly: every term is positive, so the sum never falls
below δ(ε), and Chernoff bounds say by how much it may exceed it. What is cut off, the quadrature behind M and
the rounding are bounded and added. Where |M| does not fall fast enough, the loss of a Gaussian use with a tiny
μ is composed on top: that can only raise δ(ε), and it makes the integrand fall.

For parameters that are fixed before the first answer, and only for those: it is not a filter.

References: Zhu, Dong, Wang 2022, https://arxiv.org/abs/2106.08567; proof: docs/proofs/contour.md
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet.accounting.bounds import Bounds
from discreet.privacy.law import Complex, Floats, GaussianLaw, Law, SumLaw

MOST_NODES = 1 << 14
"""The most heights at which a moment generating function is evaluated."""

_SHARE = 1e-10  # of δ: what aliases and the cut tail may each add
_SMOOTHING = 2e-7  # of ε: what the added Gaussian use may cost
_FACTORS = ((0.0, 0.05, 0.2, 0.5, 0.75), (1.1, 1.25, 1.5, 2.0, 3.0))  # of c: where aliases are bounded
_UNIT = 2.0**-48  # a few dozen rounding units
_GOLDEN = (math.sqrt(5) - 1) / 2


def epsilon_bounds(law: Law, delta: float) -> Bounds | None:
    """Bounds of the least ε ≥ 0 with δ(ε) ≤ delta; None when the numbers leave the range of floats.

    Where the integrand falls too slowly the Chernoff bound is all that is said, with 0 below.
    """
    log_delta = math.log(delta)
    c, first = _chernoff(law, log_delta)
    if not math.isfinite(first):
        return None
    if first <= 0:
        return Bounds(0.0, 0.0)
    found = _line(law, c, first, log_delta)
    upper = None if found is None else found.solve(delta, first)
    if found is None or upper is None:
        return Bounds(0.0, first)
    return Bounds(found.below(delta, upper), min(upper, first))


def delta_bounds(law: Law, epsilon: float) -> Bounds:
    """Bounds of δ(ε), by Chernoff alone (and 0) where the integrand falls too slowly."""
    c, log_delta = _least(lambda c: _real(law, c) + _kernel(c) - c * epsilon)
    if log_delta < math.log(1e-290):
        return Bounds(0.0, 1e-290)
    chernoff = math.exp(min(log_delta + 1e-9, 0.0))
    found = _line(law, c, epsilon, log_delta - 5, at=epsilon)
    if found is None:
        return Bounds(0.0, chernoff)
    value, error = found.value(epsilon)
    upper = min(value + error, chernoff)
    return Bounds(min(found.lower(epsilon), upper), upper)


@dataclass(frozen=True, slots=True)
class _Line:
    """The integrand at the nodes of one vertical line, ready for any ε."""

    law: Law
    c: float
    step: float
    z: Complex
    log_scale: float
    term: Complex
    error: Floats
    tail: float
    mu: float

    def value(self, epsilon: float) -> tuple[float, float]:
        """The sum at ε, which is at least δ(ε) up to the error, and that error."""
        scale = self.step / math.pi * math.exp(self.log_scale - self.c * epsilon)
        turned = self.term * np.exp(-1j * self.z.imag * epsilon)
        total = scale * float(turned.real.sum())
        size = np.abs(self.term)
        steps = self.z.size + abs(self.log_scale) + abs(self.c * epsilon) + np.abs(self.z.imag * epsilon)
        rounding = 2.0**-50 * float((size * steps).sum())
        error = float((size * np.expm1(np.minimum(self.error, 500.0))).sum()) + rounding
        return total, scale * error * 1.01 + math.exp(self.tail - self.c * epsilon)

    def slope(self, epsilon: float) -> float:
        """The derivative of the sum."""
        scale = self.step / math.pi * math.exp(self.log_scale - self.c * epsilon)
        return -scale * float((self.z * self.term * np.exp(-1j * self.z.imag * epsilon)).real.sum())

    def solve(self, delta: float, start: float) -> float | None:
        """An ε ≥ 0 at which the upper bound was seen to be at most delta, within 1e-12 of the least."""
        epsilon, push = start, 0.0
        for _ in range(60):
            value, error = self.value(epsilon)
            slope = self.slope(epsilon)
            if not (value > 0 and slope < 0):
                return None
            move = math.log((value + error) / delta) * value / -slope
            if value + error <= delta and move > -1e-12 * max(epsilon, 1e-6):
                return max(epsilon, 0.0)
            push = max(2 * push, 1e-14 * abs(epsilon)) if abs(move) < 1e-11 * abs(epsilon) else 0.0
            epsilon += max(move, -0.5 * abs(epsilon) - 1e-9) + push
            if epsilon < 0:
                value, error = self.value(0.0)
                if value + error <= delta:
                    return 0.0
        return None

    def lower(self, epsilon: float) -> float:
        """A δ that the curve is at least."""
        far = 8.5 * self.mu  # the added loss exceeds it with a chance below 1e-16 of … `miss`
        at = epsilon + far + self.mu**2 / 2
        value, error = self.value(at)
        miss = 0.5 * math.erfc(8.5 / math.sqrt(2)) if self.mu else 0.0
        return max(value - error - self._aliases(at) - miss, 0.0)

    def below(self, delta: float, upper: float) -> float:
        """An ε that the least one is at least: there the certified δ still exceeds delta."""
        step = max(1e-9 * upper, 1e-12)
        for _ in range(40):
            epsilon = upper - step
            if epsilon <= 0:
                return 0.0
            if self.lower(epsilon) > delta:
                return epsilon
            step *= 4
        return 0.0

    def _aliases(self, epsilon: float) -> float:
        """A bound on the sum of e^(cjp) δ(ε + jp) over j ≠ 0."""
        period, total = 2 * math.pi / self.step, 0.0
        for factors in _FACTORS:
            best = math.inf
            for factor in factors:
                t = factor * self.c
                log_first = -t * epsilon + (_real(self.law, t) + _kernel(t) if t else 0.0)
                ratio = -abs(self.c - t) * period
                if ratio < -1:
                    best = min(best, log_first + ratio - math.log(-math.expm1(ratio)))
            total += math.exp(min(best, 700.0))
        return total


def _line(law: Law, c: float, epsilon: float, log_delta: float, at: float | None = None) -> _Line | None:
    target = log_delta + math.log(_SHARE)
    where = epsilon * 0.8 if at is None else at
    sides = [
        min(
            ((_real(law, f * c) + _kernel(f * c) if f else 0.0) - f * c * where - target) / abs(c - f * c)
            for f in factors
        )
        for factors in _FACTORS
    ]
    period = max(*sides, 1e-12)
    if not math.isfinite(period):
        return None
    step, mu, k = 2 * math.pi / period, 0.0, _real(law, c)
    height = _height(law, c, k - c * where - target, step)
    if height is None:
        mu = math.sqrt(2 * _SMOOTHING * max(epsilon, 1e-3) / (c + 1))
        law = SumLaw((law, GaussianLaw(mu * mu)))
        k = _real(law, c)
        height = _height(law, c, k - c * where - target, step)
        if height is None:
            return None
    n = math.ceil(height / step) + 2
    z: Complex = np.asarray(c + 1j * step * np.arange(n), dtype=np.complex128)
    value, error = law.log_mgf(z)
    if not np.isfinite(value).all():
        return None
    term: Complex = np.asarray(np.exp(value - k) / (z * (z + 1)), dtype=np.complex128)
    term[0] /= 2
    tail = k + law.decay(c, height) - math.log(math.pi * height)
    return _Line(law, c, step, z, k, term, error, tail, mu)


def _height(law: Law, c: float, log_excess: float, step: float) -> float | None:
    """A height beyond which the integrand adds less than its share; None when there is none in reach."""
    y = 8 * step
    while y <= MOST_NODES * step:
        if log_excess + law.decay(c, y) - math.log(math.pi * y) <= 0:
            return y
        y *= 1.25
    return None


def _chernoff(law: Law, log_delta: float) -> tuple[float, float]:
    """The c of the best Chernoff bound, and the ε that it gives."""

    def epsilon(c: float) -> float:
        terms = (_real(law, c), _kernel(c), -log_delta)
        return (math.fsum(terms) + _UNIT * math.fsum(map(abs, terms))) / c

    return _least(epsilon)


def _least(f: Callable[[float], float]) -> tuple[float, float]:
    """The least value found of a quasi-convex function of log c, and its place."""
    middle, step = math.log(8.0), math.log(4.0)
    at, left, right = f(8.0), f(2.0), f(32.0)
    while left < at and middle > -20:
        middle, right, at = middle - step, at, left
        left = f(math.exp(middle - step))
    while right < at and middle < 20:
        middle, left, at = middle + step, at, right
        right = f(math.exp(middle + step))
    low, high = middle - step, middle + step
    a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    fa, fb = f(math.exp(a)), f(math.exp(b))
    while high - low > 0.02:
        if fa <= fb:
            high, b, fb = b, a, fa
            a = high - _GOLDEN * (high - low)
            fa = f(math.exp(a))
        else:
            low, a, fa = a, b, fb
            b = low + _GOLDEN * (high - low)
            fb = f(math.exp(b))
    return (math.exp(a), fa) if fa <= fb else (math.exp(b), fb)


def _real(law: Law, c: float) -> float:
    """The logarithm of M(c), rounded up; infinite where it leaves the range of floats."""
    with np.errstate(over="ignore", invalid="ignore"):
        value, error = law.log_mgf(np.array([complex(c)]))
    out = float(value[0].real + error[0])
    return out if math.isfinite(out) else math.inf


def _kernel(c: float) -> float:
    """The logarithm of the largest (1 − e^−l)·e^(−cl) over l ≥ 0."""
    return c * math.log(c) - (1 + c) * math.log1p(c)
