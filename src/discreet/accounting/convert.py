"""From one promise to another, each answer rounded so that the promise still holds.

An ε or a δ is rounded up, a ρ or a μ² down. The proofs, and why rounding is covered, are in docs/proofs/conversions.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from discreet.errors import InvalidParameter
from discreet.privacy.exact import above, below
from discreet.privacy.pair import ACCURACY, FLOOR, Curve
from discreet.privacy.pairs.additive import GaussianPair

SMALLEST_DELTA = Fraction(1, 10**280)
"""The smallest δ > 0 that the conversions take; below it floating point runs out."""


def zcdp_delta(rho: Fraction, epsilon: Fraction) -> float:
    """Return a δ for which every ρ-zCDP mechanism is (ε, δ)-DP.

    References: Canonne, Kamath, Steinke 2020, Proposition 12, https://arxiv.org/abs/2004.00010
    """
    if rho == 0:
        return 0.0
    r, e = above(rho), below(epsilon)

    def log_delta(s: float) -> float:
        x, log_alpha = math.exp(s), _log1p_exp(s)
        terms = (x * (1 + x) * r, -x * e, -x * _log1p_exp(-s), -log_alpha)
        return math.fsum(terms) + _slack(terms)

    return min(max(math.exp(min(_least(log_delta), 0.0)), FLOOR), 1.0)


def zcdp_epsilon(rho: Fraction, delta: Fraction) -> float:
    """Return an ε for which every ρ-zCDP mechanism is (ε, δ)-DP.

    References: Canonne, Kamath, Steinke 2020, Proposition 12, https://arxiv.org/abs/2004.00010
    """
    if rho == 0:
        return 0.0
    r, log_d = above(rho), _log(delta)

    def epsilon(s: float) -> float:
        x, log_alpha = math.exp(s), _log1p_exp(s)
        terms = ((1 + x) * r, -log_d / x, -log_alpha / x, -_log1p_exp(-s))
        return math.fsum(terms) + _slack(terms)

    return max(_least(epsilon), 0.0)


def rho_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest ρ, rounded down, such that ρ-zCDP implies (ε, δ)-DP by the conversion of `zcdp_delta`.

    >>> float(rho_for(Fraction(1), Fraction(1, 10**6)))
    0.02435...

    References: Canonne, Kamath, Steinke 2020, Proposition 12, solved for ρ at each α, https://arxiv.org/abs/2004.00010
    """
    e, log_d = below(epsilon), _log(delta)

    def minus_rho(s: float) -> float:
        x, log_alpha = math.exp(s), _log1p_exp(s)
        terms = (-e, -log_d / x, -log_alpha / x, -_log1p_exp(-s))
        return (math.fsum(terms) + _slack(terms)) / (1 + x)

    return Fraction(max(-_least(minus_rho) * (1 - ACCURACY), 0.0))


def gdp_delta(mu_squared: Fraction, epsilon: Fraction) -> float:
    """Return the δ for which every μ-GDP mechanism is (ε, δ)-DP, and no less is true of the Gaussian one.

    References: Balle, Wang 2018, Theorem 8, https://arxiv.org/abs/1805.06530; Dong, Roth, Su 2019, Corollary
    2.13, https://arxiv.org/abs/1905.02383
    """
    return float(GaussianPair(mu_squared).upper(np.array(below(epsilon)))) if mu_squared else 0.0


def gdp_epsilon(mu_squared: Fraction, delta: Fraction) -> float:
    """Return the ε for which every μ-GDP mechanism is (ε, δ)-DP, rounded up.

    References: Balle, Wang 2018, Theorem 8, https://arxiv.org/abs/1805.06530; beyond μ = 1000 by ρ = μ²/2 instead
    """
    if not mu_squared:
        return 0.0
    pair, high = GaussianPair(mu_squared), zcdp_epsilon(mu_squared / 2, delta)
    epsilon = invert(pair.upper, _target(delta), high=high)
    return high if epsilon is None else epsilon


@lru_cache(maxsize=1 << 10)
def mu_squared_for(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest μ², rounded down, such that μ-GDP implies (ε, δ)-DP (the analytic calibration).

    Noise of deviation σ on a vector that moves by at most Δ in ℓ2 is μ-GDP with μ² = Δ²/σ².

    >>> float(1 / mu_squared_for(Fraction(1), Fraction(1, 10**5))) ** 0.5
    3.73063...

    References: Balle, Wang 2018, Theorem 9 and Algorithm 1, https://arxiv.org/abs/1805.06530
    """
    target, e = _target(delta), np.array(below(epsilon))
    # Always allowed: μ² = 2ρ, since ρ-zCDP is the weaker fact, and μ = √2π·δ, since δ(ε) ≤ δ(0) ≤ μ/√2π.
    start = max(rho_for(epsilon, delta) * 2, (delta * Fraction(5, 2)) ** 2)
    low, high = below(start), 2 * above(start)
    if low < 1e-290:
        return start
    while _mu_delta(high, e) <= target:
        low, high = high, 2 * high
    while high > low * (1 + 1e-13):
        middle = math.sqrt(low) * math.sqrt(high)
        if not low < middle < high:
            break
        low, high = (middle, high) if _mu_delta(middle, e) <= target else (low, middle)
    return Fraction(low)


def invert(curve: Callable[[Curve], Curve], target: float, *, high: float) -> float | None:
    """Return the least ε ≥ 0 at which a non-increasing curve is at most `target`; None when not at `high`.

    A point is returned only after the curve was seen to meet the target there.
    """
    low = 0.0
    for _ in range(12):  # each round narrows the interval 64 times, in one vectorised call
        grid = np.linspace(low, high, 65)
        meets = np.flatnonzero(curve(grid) <= target)
        if meets.size == 0:
            return None
        i = int(meets[0])
        high = float(grid[i])
        if i == 0:
            return high
        low = float(grid[i - 1])
        if high - low <= 1e-14 * high:
            break
    return high


def _mu_delta(mu_squared: float, epsilon: Curve) -> float:
    return float(GaussianPair(Fraction(mu_squared)).upper(epsilon))


def _target(delta: Fraction) -> float:
    if delta < SMALLEST_DELTA:
        raise InvalidParameter(
            f"delta must be at least 1e-280 here, not {float(delta):.3g}.",
            hint="Gaussian noise and zCDP have no pure ε: give a delta such as 1e-6",
        )
    return below(delta)


def _log(delta: Fraction) -> float:
    return math.nextafter(math.log(_target(delta)), -math.inf)


def _log1p_exp(s: float) -> float:
    """log(1 + e^s): log α at s = log(α − 1), and −log(1 − 1/α) at −s, each without cancellation."""
    return s + math.log1p(math.exp(-s)) if s > 0 else math.log1p(math.exp(s))


def _slack(terms: tuple[float, ...]) -> float:
    # Each term carries a few relative rounding errors (at most 8 · 2^-53 with those of exp and log), added upwards.
    return 8 * 2.3e-16 * math.fsum(map(abs, terms))


def _least(f: Callable[[float], float]) -> float:
    """Return the least value that golden-section search sees over s = log(α − 1); each seen is a valid bound.

    The bounds are quasi-convex in α: where one of them is at most t is the set on which a convex function is at most 0.
    """
    low, high, g = -45.0, 90.0, (math.sqrt(5) - 1) / 2
    a, b = high - g * (high - low), low + g * (high - low)
    fa, fb = f(a), f(b)
    while high - low > 1e-8:
        if fa <= fb:
            high, b, fb = b, a, fa
            a = high - g * (high - low)
            fa = f(a)
        else:
            low, a, fa = a, b, fb
            b = low + g * (high - low)
            fb = f(b)
    return min(fa, fb)
