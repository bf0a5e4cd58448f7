"""Prices of mechanisms by textbook formulas in floats: sums, integrals and closed forms, none from the product.

A use says its ρ, its μ² and its δ, and bounds of its Rényi divergence: the true one from below, and the one that is
charged from above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq


def above(x: float) -> float:
    """The chance that a normal number is above x."""
    return math.erfc(x / math.sqrt(2)) / 2


def density(x: float) -> float:
    """The density of a normal number."""
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class Use:
    """One use: ρ, μ² where it is Gaussian, δ, and from an order the least and the largest fair divergence."""

    rho: float
    divergence: Callable[[float], tuple[float, float]]
    mu_squared: float | None = None
    delta: float = 0.0


def laplace(moved: int, scale: float) -> Use:
    """Integer Laplace noise on a number that moves: its divergence is a sum over the integers."""

    def divergence(order: float) -> tuple[float, float]:
        k = np.arange(-60 * math.ceil(scale) - moved, 60 * math.ceil(scale) + moved + 1)
        exponent = -(order * abs(k - moved) + (1 - order) * abs(k)) / scale
        t = math.exp(-1 / scale)
        exact = math.log(math.fsum(np.exp(exponent)) * (1 - t) / (1 + t)) / (order - 1)
        return exact, exact

    return Use((moved / scale) ** 2 / 2, divergence)


def responses(epsilon: float, delta: float = 0.0) -> Use:
    """Any use of (ε, δ): no worse than a coin that tells the truth with odds e^ε, or everything with chance δ."""

    def divergence(order: float) -> tuple[float, float]:
        p = 1 / (1 + math.exp(-epsilon))
        exact = math.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)) / (order - 1)
        return exact, exact

    return Use(epsilon**2 / 2, divergence, delta=delta)


def of_rho(rho: float, least: Callable[[float], float] = lambda order: 0.0) -> Use:
    """A use of which only a ρ is charged; `least` is its true divergence."""
    return Use(rho, lambda order: (least(order), order * rho))


def bounded_range(epsilon: float) -> Use:
    """The exponential mechanism: ρ = ε²/8, and an ε-DP use."""
    worse = responses(epsilon)
    return Use(epsilon**2 / 8, lambda order: (0.0, min(order * epsilon**2 / 8, worse.divergence(order)[1])))


def gaussian(mu_squared: float) -> Use:
    """Gaussian noise."""
    return Use(mu_squared / 2, lambda order: (order * mu_squared / 2,) * 2, mu_squared)


def sampled(mu_squared: float, rate: float) -> Use:
    """Gaussian noise on a Poisson sample: charged by the straight line between the moments of whole orders."""
    mu = math.sqrt(mu_squared)

    def log_moment(order: float) -> float:
        x = np.arange(-30, order * mu + 30, 1 / 256)  # sums of so smooth a function are its integral
        logs = order * np.log(1 - rate + rate * np.exp(mu * x - mu_squared / 2)) - x**2 / 2
        return float(np.max(logs) + np.log(np.sum(np.exp(logs - np.max(logs))) / 256 / math.sqrt(2 * math.pi)))

    def divergence(order: float) -> tuple[float, float]:
        low = math.floor(order)
        share = order - low
        above = log_moment(low + 1) if share else 0.0
        line = (1 - share) * (log_moment(low) if low > 1 else 0.0) + share * above
        return log_moment(order) / (order - 1), min(line / (order - 1), order * mu_squared / 2)

    return Use(mu_squared / 2, divergence)


def least(delta: float, *curves: Callable[[float], float]) -> float:
    """The least ε at which none of these curves δ(ε) is above δ."""
    return max(float(brentq(lambda e, c=c: c(e) - delta, 0, 60, xtol=1e-13)) for c in curves)


def gaussian_delta(mu_squared: float) -> Callable[[float], float]:
    """δ(ε) of Gaussian noise."""
    mu = math.sqrt(mu_squared)
    return lambda e: above(e / mu - mu / 2) - math.exp(e) * above(e / mu + mu / 2)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest μ² at (ε, δ)."""
    return float(brentq(lambda m: gaussian_delta(m)(epsilon) - delta, 1e-6, 100, xtol=1e-14))


def sampled_deltas(mu_squared: float, rate: float) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """δ(ε) of Gaussian noise on a Poisson sample, when a unit goes and when it comes."""
    mu = math.sqrt(mu_squared)

    def goes(e: float) -> float:
        x = (math.log((math.expm1(e) + rate) / rate) + mu_squared / 2) / mu
        return (1 - rate) * above(x) + rate * above(x - mu) - math.exp(e) * above(x)

    def comes(e: float) -> float:
        if math.exp(-e) <= 1 - rate:
            return 0.0
        x = (math.log((math.exp(-e) - 1 + rate) / rate) + mu_squared / 2) / mu
        return above(-x) - math.exp(e) * ((1 - rate) * above(-x) + rate * above(mu - x))

    return goes, comes


def fixed_size_epsilon(mu_squared: float, rate: float, delta: float) -> float:
    """ε of Gaussian noise on a sample of fixed size, of units that are replaced."""
    return math.log1p(rate * math.expm1(least(delta / rate, gaussian_delta(mu_squared))))


def two_steps_deltas(mu_squared: float) -> tuple[Callable[[float], float], Callable[[float], float]]:
    """δ(ε) of two Gaussian steps of which each unit takes one, when a unit goes and when it comes.

    The density ratio is the mean of two lognormal numbers of mean 1, over the second of which the integral is known.
    """
    mu = math.sqrt(mu_squared)

    def over(strike: float) -> float:
        """E(L − strike)₊."""
        if strike <= 0:
            return 1 - strike
        d = (mu_squared / 2 - math.log(strike)) / mu
        return above(-d) - strike * above(mu - d)

    def mean(of: Callable[[float], float]) -> float:
        def weighed(x: float) -> float:
            return density(x) * of(math.exp(mu * x - mu_squared / 2))

        return float(quad(weighed, -12, 12, limit=400, epsabs=1e-15, epsrel=1e-10)[0])

    def goes(e: float) -> float:
        return mean(lambda one: over(2 * math.exp(e) - one)) / 2

    def comes(e: float) -> float:
        def under(one: float) -> float:
            strike = 2 * math.exp(-e) - one  # E(strike − L)₊ = E(L − strike)₊ − 1 + strike
            return over(strike) - 1 + strike if strike > 0 else 0.0

        return math.exp(e) * mean(under) / 2

    return goes, comes
