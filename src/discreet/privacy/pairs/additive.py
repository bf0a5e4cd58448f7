"""The pairs of continuous and discrete Laplace and Gaussian noise, accurate however small δ is.

The Gaussian curves are written with Mills ratios, in which nothing cancels: with M(t) = Φ(−t)/φ(t), a = ε/μ − μ/2
and b = a + μ, Theorem 8 of Balle, Wang reads δ = Φ(−a) − e^ε Φ(−b) = φ(a)(M(a) − M(b)).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from discreet.privacy.exact import above, below
from discreet.privacy.pair import Curve, Pair
from discreet.privacy.pairs.finite import MOST_ATOMS, FinitePair, Outcomes, decay, product, up

_MOST = 1000.0  # a μ beyond it is taken to be no privacy at all: there a = ε/μ − μ/2 would cancel beyond ACCURACY
_MOST_DISCRETE = 16.0
_REACH = 37.3  # deviations, beyond which there is less than FLOOR
_NARROWEST = 1e-3  # σ, below which squares over σ² leave the floats
_LEAST = 1e-306  # of a mass, below which floats lose their digits
_WIDE = 320.0  # from this σ on sums over the integers are integrals, corrected by Euler and Maclaurin


@dataclass(frozen=True, slots=True)
class GaussianPair(Pair):
    """N(0, 1) and N(μ, 1).

    References: Balle, Wang 2018, Theorem 8, https://arxiv.org/abs/1805.06530; it dominates in any dimension
    by Dong, Roth, Su 2019, Theorem 2.7, https://arxiv.org/abs/1905.02383
    """

    mu_squared: Fraction

    def delta(self, epsilon: Curve) -> Curve:
        """Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)."""
        mu = _root(self.mu_squared)
        return _mirrored(lambda x: _gaussian(x, mu), epsilon, mu, _MOST)

    @property
    def epsilon_max(self) -> float:
        return math.inf if self.mu_squared else 0.0


@dataclass(frozen=True, slots=True)
class DiscreteGaussianPair(FinitePair):
    """Mass ∝ exp(−k²/2σ²) on the integers, around 0 and around `shift`.

    References: the law is Canonne, Kamath, Steinke 2020, Definition 1, https://arxiv.org/abs/2004.00010; the
    curve is docs/proofs/pairs.md
    """

    shift: int
    sigma_squared: Fraction

    def delta(self, epsilon: Curve) -> Curve:
        """Σ p(k)(1 − e^(ε − loss(k)))₊, with loss(k) = (shift² − 2k·shift)/2σ²."""
        sigma, s = _root(self.sigma_squared), float(self.shift)
        mu = _root(Fraction(self.shift * self.shift) / self.sigma_squared)
        curve = _discrete_wide if sigma >= _WIDE else _discrete_narrow
        return _mirrored(lambda x: curve(x, s, sigma), epsilon, mu, _MOST_DISCRETE)

    @property
    def epsilon_max(self) -> float:
        return math.inf if self.shift else 0.0

    def outcomes(self) -> Outcomes | None:
        """Return the outcomes j = −k with loss (shift² + 2j·shift)/2σ², as far as either law has more than `FLOOR`."""
        if self.shift == 0:
            return Outcomes(np.zeros(1), np.ones(1), np.ones(1))
        s, sigma = float(self.shift), _root(self.sigma_squared)
        reach = math.ceil(_REACH * sigma)
        if not (2 * reach + s < MOST_ATOMS and sigma > _NARROWEST):
            return None
        rate = 1 / (2 * self.sigma_squared)
        j = np.arange(-reach - s, reach + 1)
        density = decay(np.arange(0.0, reach + s + 1) ** 2, rate)
        whole = 2 * math.fsum(density[1 : reach + 1]) + 1
        p, q = (density[np.abs(x).astype(np.intp)] / whole for x in (j, j + s))
        kept = np.maximum(p, q) > _LEAST
        return Outcomes(up(*product(s * s + 2 * j * s, rate))[kept], p[kept], q[kept])


def _root(x: Fraction) -> float:
    """√x, also where x itself is no float."""
    half = (x.numerator.bit_length() - x.denominator.bit_length()) // 2
    return math.ldexp(math.sqrt(x / Fraction(4) ** half), half)


def _mirrored(curve: Callable[[Curve], Curve], epsilon: Curve, mu: float, most: float) -> Curve:
    # H_{e^x}(P‖Q) = 1 − e^x + e^x H_{e^−x}(Q‖P), and the pair is symmetric: only ε ≥ 0 is left to do.
    x = np.minimum(epsilon, 0.0)
    if mu == 0:
        return -np.expm1(x)
    if mu > most:
        return np.ones_like(epsilon)
    positive = curve(np.abs(epsilon))
    return np.where(epsilon >= 0, positive, -np.expm1(x) + np.exp(x) * positive)


def _gaussian(epsilon: Curve, mu: float) -> Curve:
    from scipy.special import ndtr

    a = np.minimum(epsilon, mu * (1e8 + mu)) / mu - mu / 2  # beyond it the curve is far below FLOOR
    b = a + mu
    if mu < 0.25:
        return _density(a) * _mills_difference(a, mu)
    right = _density(a) * (_mills(np.maximum(a, 0.0)) - _mills(b))
    return np.where(a > 0, right, ndtr(-a) - _density(a) * _mills(b))


def _density(t: Curve) -> Curve:
    t = np.minimum(np.abs(t), 1e150)  # its square is a float then
    return np.asarray(np.exp(-t * t / 2) / math.sqrt(2 * math.pi))


def _mills(t: Curve) -> Curve:
    from scipy.special import erfcx

    return math.sqrt(math.pi / 2) * erfcx(t / math.sqrt(2))


def _mills_difference(a: Curve, mu: float) -> Curve:
    """M(a) − M(a + μ) = ∫ (1 − t M(t)) dt, by Gauss and Legendre where subtracting would cancel (μ ≤ 1/4)."""
    if mu >= 0.25:
        return _mills(a) - _mills(a + mu)
    nodes, weights = _legendre()
    t = a[..., None] + mu / 2 * (nodes + 1)
    return mu / 2 * ((1 - t * _mills(t)) @ weights)


@cache
def _legendre() -> tuple[Curve, Curve]:
    return np.polynomial.legendre.leggauss(8)


def _discrete_narrow(epsilon: Curve, s: float, sigma: float) -> Curve:
    """By a table of partial sums, for σ < 320; see docs/proofs/pairs.md, "Discrete Gaussian".

    With p the mass function, j = −k, ℓ_j = (s² + 2js)/2σ² and R(j) = Σ_{t≥0} p(j+t)/p(j), the curve falls between two
    losses ℓ_{j−1} < ε ≤ ℓ_j like D_j + p(j)R(j+s)(1 − e^(ε−ℓ_j)), where D_j = (1 − e^(−s/σ²)) Σ_{i>j} p(i)R(i+s).
    """
    first = -math.floor(s / 2)
    last = max(first, 0) + math.ceil(39 * sigma) + 2
    j = np.arange(first, last + 1, dtype=np.float64)
    weight = np.exp(-(j * j) / (2 * sigma * sigma)) / _mass(sigma)
    slope = weight * _tail_ratio(j + s, sigma)
    after = np.cumsum(slope[::-1])[::-1]
    table = -math.expm1(-s / (sigma * sigma)) * np.append(after[1:], 0.0)

    where = np.ceil(epsilon * (sigma * sigma / s) - s / 2)
    i = np.clip(where - first, 0, j.size - 1).astype(np.intp)
    loss = s * s / (2 * sigma * sigma) + j[i] * s / (sigma * sigma)
    inside = table[i] - slope[i] * np.expm1(np.minimum(epsilon - loss, 0.0))
    return np.where(where > last, 0.0, inside)


def _mass(sigma: float) -> float:
    """Σ over the integers of exp(−k²/2σ²)."""
    k = np.arange(1, math.ceil(9 * sigma) + 2, dtype=np.float64)
    return 1 + 2 * math.fsum(np.exp(-(k * k) / (2 * sigma * sigma)))


def _tail_ratio(j: Curve, sigma: float) -> Curve:
    """R(j) = Σ_{t≥0} p(j+t)/p(j) for consecutive j ≥ 0, from the top down in blocks that stay in range."""
    out = np.empty_like(j)
    end = j[-1]
    top = math.ceil(end + 45 * sigma * sigma / (end + sigma)) + 1  # beyond it less than e^−45 of R(end) is left
    ratio = 1.0  # of the block above
    while top >= j[0]:
        low = max(j[0], min(top - 1, math.ceil(math.sqrt(max(top * top - 1200 * sigma * sigma, 0.0)))))
        t = np.arange(low, top + 1)
        scaled = np.exp(np.minimum((top * top - t * t) / (2 * sigma * sigma), 600.0))  # p(t)/p(top), if it matters
        scaled[-1] = ratio
        sums = np.cumsum(scaled[::-1])[::-1]
        scaled[-1] = 1.0
        values = sums / scaled
        keep = t[t <= end].size
        out[int(low - j[0]) : int(low - j[0]) + keep] = values[:keep]
        if low == j[0]:
            return out
        top, ratio = low, values[0]
    return out


def _discrete_wide(epsilon: Curve, s: float, sigma: float) -> Curve:
    """For σ ≥ 320, where R(j) = σM(a) + E(a), a = j/σ, with E by Euler and Maclaurin.

    With b = a + s/σ the curve is p(j){σ(M(a) − M(b)) + E(a) − E(b) + (1 − e^(ε−ℓ_j))R(j+s)}; the first
    neglected term of E is a⁷/(1209600 σ⁷), below 1e-11 of the rest.
    """
    mu = s / sigma
    j = np.ceil(epsilon * (sigma * sigma / s) - s / 2)
    a = np.minimum(j / sigma, 40.0)  # there the mass is below FLOOR
    b = a + mu
    loss = s * s / (2 * sigma * sigma) + j * s / (sigma * sigma)
    correction = (
        -1 / (12 * sigma)
        + (_three(a, b) - 3) / (720 * sigma**3)
        - (_five(a, b) - 10 * _three(a, b) + 15) / (30240 * sigma**5)
    )
    e = 0.5 + b / (12 * sigma) - (b**3 - 3 * b) / (720 * sigma**3) + (b**5 - 10 * b**3 + 15 * b) / (30240 * sigma**5)
    ratio = sigma * _mills(b) + e
    sums = sigma * _mills_difference(a, mu) + mu * correction - np.expm1(np.minimum(epsilon - loss, 0.0)) * ratio
    return np.where(j > 40 * sigma, 0.0, _density(a) / sigma * sums)


def _three(a: Curve, b: Curve) -> Curve:
    """(b³ − a³)/(b − a)."""
    return a * a + a * b + b * b


def _five(a: Curve, b: Curve) -> Curve:
    """(b⁵ − a⁵)/(b − a)."""
    return a**4 + a**3 * b + (a * b) ** 2 + a * b**3 + b**4


_LEAST_LOSS, _MOST_LOSS = 1e-250, 1e6  # of the largest loss, where its multiples keep their digits
_FAR = 700.0  # an exponent that a float still holds


@dataclass(frozen=True, slots=True)
class LaplacePair(Pair):
    """Laplace noise of scale 1 around 0 and around `ratio`.

    References: the curve is Balle, Barthe, Gaboardi 2018, Theorem 3, https://arxiv.org/abs/1807.01647
    """

    ratio: float

    def delta(self, epsilon: Curve) -> Curve:
        """1 − e^((ε−r)/2) for |ε| ≤ r, 0 above, 1 − e^ε below."""
        middle = -np.expm1(np.minimum(epsilon - self.ratio, 0.0) / 2)
        return np.where(epsilon >= -self.ratio, middle, -np.expm1(np.minimum(epsilon, 0.0)))

    @property
    def epsilon_max(self) -> float:
        return self.ratio


@dataclass(frozen=True, slots=True)
class DiscreteLaplacePair(FinitePair):
    """Mass ∝ exp(−|k|/scale) on the integers, around 0 and around `shift`.

    References: docs/proofs/pairs.md, from the definition; a larger shift dominates a smaller one.
    """

    shift: int
    scale: Fraction

    def delta(self, epsilon: Curve) -> Curve:
        """P(k < m) − e^ε Q(k < m) with the best m, that is m = ⌈(shift − ε·scale)/2⌉ in 0 … shift."""
        top = self.epsilon_max
        if self.shift == 0:
            return -np.expm1(np.minimum(epsilon, 0.0))
        step = top / self.shift  # 1/scale, rounded so that shift·step is the (rounded up) largest loss
        u = np.clip(epsilon - top, -2 * top, 0.0)
        m = np.clip(np.ceil(-u / (2 * step)), 1, self.shift)
        # Any event gives a lower bound, so the neighbours of the rounded m can only correct it.
        best = np.maximum(self._at(u, m, step), self._at(u, np.maximum(m - 1, 1), step))
        best = np.maximum(best, self._at(u, np.minimum(m + 1, self.shift), step))
        middle = np.where(epsilon >= top, 0.0, best)
        return np.where(epsilon >= -top, middle, -np.expm1(np.minimum(epsilon, 0.0)))

    @property
    def epsilon_max(self) -> float:
        return above(self.shift / self.scale)

    def outcomes(self) -> Outcomes | None:
        """0 or less, 1, …, shift or more, with losses (shift − 2k)/scale; by size, so the last comes first."""
        if self.shift == 0:
            return Outcomes(np.zeros(1), np.ones(1), np.ones(1))
        if self.shift >= MOST_ATOMS or not _LEAST_LOSS < self.epsilon_max < _MOST_LOSS:
            return None
        rate, k = 1 / self.scale, np.arange(self.shift, -1.0, -1.0)
        # The loss at one end is the largest of all, and no rounding is to take another above it.
        loss = np.minimum(up(*product(self.shift - 2 * k, rate)), self.epsilon_max)
        ends = (k == 0) | (k == self.shift)
        share = np.where(ends, 1.0, -math.expm1(-below(rate))) / (1 + math.exp(-below(rate)))
        p = decay(k, rate) * share
        return Outcomes(loss, p, p[::-1].copy())

    @staticmethod
    def _at(u: Curve, m: Curve, step: float) -> Curve:
        # With q = e^−step: (1 − e^(u + (m−1)step) + q(1 − q^(m−1))) / (1 + q); nothing cancels at the best m.
        q = math.exp(-step)
        grown = np.minimum(u + (m - 1) * step, _FAR)  # beyond it m is a neighbour of the best, and far worse
        return (-np.expm1(grown) - q * np.expm1(-(m - 1) * step)) / (1 + q)
