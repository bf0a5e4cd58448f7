"""Noise for a vector of integers of known sensitivity: its law, its cost, and how wide weighed sums of it are.

Mechanisms that measure a matrix of the data (trees, factorisations, strategies) share it: they know by how much their
integers can move, and what they release are weighed sums of noisy integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.gaussian import Gaussian, root_above
from discreet.mechanisms.parameters import read_choice, read_confidence, read_delta, read_size
from discreet.privacy.event import ApproximateEvent, Composed, GaussianEvent
from discreet.privacy.exact import Real, exact

FINE = 20
"""Noise is at least 2^20 steps wide, so that whole steps are as good as real numbers for its error."""


@dataclass(frozen=True, slots=True)
class AskedGuarantee:
    """The guarantee that was asked for: pure ε with Laplace noise (δ is 0), or (ε, δ) with Gaussian noise.

    Attributes:
        unit: for Gaussian noise σ²/Δ², the least for which N(0, σ²) is (ε, δ)-DP; 0 for Laplace noise.
    """

    epsilon: Fraction
    delta: Fraction
    unit: Fraction

    @classmethod
    def read(cls, name: str, epsilon: Real | None, delta: Real | None, noise: str | None) -> AskedGuarantee:
        """Return the guarantee, from the arguments of a mechanism of this name.

        Raises:
            InvalidParameter: an argument is missing or impossible, or noise and δ contradict each other.
        """
        if noise is not None:
            noise = read_choice("noise", noise, ("laplace", "gaussian"))
        if epsilon is None:
            raise InvalidParameter(f"{name} needs epsilon.", hint=f"{name}(epsilon=1, …)")
        e = read_size("epsilon", epsilon)
        if noise == "laplace" or (noise is None and delta is None):
            if delta is not None and exact("delta", delta) != 0:
                raise InvalidParameter(
                    "Laplace noise needs no delta, and takes 0 only.",
                    hint="leave delta out, or ask for noise='gaussian'",
                )
            return cls(e, Fraction(0), Fraction(0))
        if delta is None:
            raise InvalidParameter("Gaussian noise needs a delta.", hint="give delta=1e-6, or ask for noise='laplace'")
        d = read_delta(delta, hint="take delta=1e-6; without δ use noise='laplace'")
        return cls(e, d, 1 / Gaussian(epsilon=e, delta=d).mu_squared)

    @property
    def is_pure(self) -> bool:
        """Whether the noise is Laplace."""
        return not self.delta

    @property
    def noise(self) -> str:
        """Its name as an argument."""
        return "laplace" if self.is_pure else "gaussian"

    def width(self, l1: int, l2_squared: int) -> Fraction:
        """About the scale, or σ, of the noise for integers that move by so much."""
        return l1 / self.epsilon if self.is_pure else root_above(l2_squared * self.unit)

    def calibrated(self, l1: int, l2_squared: int) -> tuple[Additive, Composed]:
        """Return the noise for integers that move by at most `l1` and √`l2_squared`, and what adding it to them costs.

        Guarantee:
            Laplace: b = l1/ε exactly, and the cost is ε. Gaussian: σ² ≥ l2²·unit, and the cost is μ² = l2²/σ², at
            most the μ² that (ε, δ) allows (docs/proofs/laplace.md, docs/proofs/gaussian.md).
        """
        if self.is_pure:
            return DiscreteLaplaceNoise(l1 / self.epsilon), Composed([ApproximateEvent(self.epsilon)])
        sigma = root_above(l2_squared * self.unit)
        return RoundedGaussianNoise(sigma), Composed([GaussianEvent(l2_squared / (sigma * sigma))])


def bits_for(width: Fraction) -> int:
    """Return how many binary digits to measure below the unit, so that noise of this width is 2^`FINE` steps wide."""
    p, q = width.numerator, width.denominator
    return max(0, FINE - (p.bit_length() - q.bit_length() - 1))


def half_width(noise: Additive, squares: float, absolutes: float, confidence: Real) -> float:
    """Return a t with P(|Σ cᵢ Zᵢ| ≤ t) ≥ `confidence`, from Σ cᵢ² = `squares` and Σ |cᵢ| ≤ `absolutes` alone.

    Guarantee:
        None of privacy: it is for error bars. It holds for independent draws and for all weights; for Laplace noise
        it is above the quantile of a single draw by less than 2 % at 95 % confidence, and less beyond
        (docs/proofs/matrix-mechanism.md, "Size").
    """
    c = read_confidence(confidence)
    if isinstance(noise, DiscreteLaplaceNoise):
        fine = math.sqrt(math.log(2 * _LUCK))  # of what a draw is beside a continuous one
        wide = math.sqrt(2) * float(noise.scale) * laplace_reach(float((1 - c) * (1 - Fraction(1, _LUCK))))
        return math.sqrt(squares) * (wide + fine) * _UP
    assert isinstance(noise, RoundedGaussianNoise)
    return (float(noise.sigma) * math.sqrt(squares) * _normal_reach(float(1 - c)) + absolutes / 2) * _UP


@lru_cache(maxsize=64)
def laplace_reach(alpha: float) -> float:
    """Return a κ with P(|S| > κ) ≤ α for every weighed sum S of independent Laplace numbers with variance 1.

    S is N(0, W) with W = Σ wᵢ Vᵢ, a weighed mean of standard exponential numbers, and W is below one of them in
    convex order. So P(|S| > t) = E g(W) ≤ E φ(V) for any convex φ above g(w) = P(|N(0, w)| > t). φ is g up to some
    place, and beyond it the line from there that touches g from above (docs/proofs/matrix-mechanism.md, "Size").
    """
    low, high = 0.0, 1.0
    alpha = min(alpha, 0.99)  # a wider one where hardly any is asked for
    while _mass(high) > alpha:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if _mass(middle) > alpha else (low, middle)
    return high * _UP


def _mass(t: float) -> float:
    """Return the least E φ(V) of all places at which φ may leave g."""
    bend = t * t / 3  # g is convex up to here, concave beyond
    beyond = bend * np.geomspace(1e-5, 64, 1500)
    least = 1.0
    places, weights = _legendre(512)
    for start in np.minimum(bend, np.linspace(0.0, min(bend, 2.0 * t + 4), 33)):
        place = float(start)
        lines = (_outside(t, place + beyond) - _outside(t, np.array([place]))) / beyond
        slope = float(lines.max()) * (1 + 1e-4)  # the grid misses the touching point by less than this
        nodes = places * place
        inside = float((weights * _outside(t, nodes) * np.exp(-nodes)).sum()) * place
        least = min(least, inside + math.exp(-place) * (float(_outside(t, np.array([place]))[0]) + slope))
    return least


def _outside(t: float, w: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(|N(0, w)| > t)."""
    from scipy.special import erfc

    return np.asarray(erfc(t / np.sqrt(2 * np.maximum(w, 1e-300))))


@lru_cache(maxsize=64)
def _normal_reach(alpha: float) -> float:
    from scipy.special import ndtri

    return float(-ndtri(alpha / 2))


@lru_cache(maxsize=1)
def _legendre(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, w = np.polynomial.legendre.leggauss(n)
    return (x + 1) / 2, w / 2


_LUCK = 1 << 20
_UP = 1 + 1e-9  # far above the rounding of the float operations here
