"""Two Gaussian laws on the integers, exactly: the rounded continuous one, and the discrete one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.noise import laplace
from discreet.noise.bernoulli import scaled_exp_neg
from discreet.noise.cells import Target, cells, standard_normal
from discreet.noise.entropy import Entropy, bits
from discreet.noise.table import bell

LARGEST_SIGMA = 1 << 56
"""The largest standard deviation of a vector, whose values are int64."""

_FEW = 256  # so many scalars cost less than the table of a fresh scale
_SMALL = Fraction(1, 1 << 32)  # below it, cells would be finer than the digits of a machine word
_MARGIN = 2.0**-36  # a float decides only if it is farther than this from the truth it is compared with


def rounded(sigma: Fraction, rng: Entropy) -> int:
    """round(Z) for Z ~ N(0, σ²), the continuous Gaussian; any rational σ above 0.

    Guarantee:
        Exact in law given ideal bits, P(k) = Φ((k+½)/σ) − Φ((k−½)/σ), in time that does not follow the value:
        Z is a real number of which only the digits are drawn that its rounding needs.

    References:
        docs/proofs/gaussian-sampling.md, "Rounded".
    """
    _check("σ", sigma)
    magnitude, minus = standard_normal().floor(sigma, 1, rng)
    return -magnitude if minus else magnitude


def rounded_vector(sigma: Fraction, size: int, rng: Entropy) -> NDArray[np.int64]:
    """`size` independent integers from the law of `rounded`; σ at most 2^56.

    Guarantee:
        Exact in law given ideal bits; nothing is cut off and nothing wraps.

    References:
        docs/proofs/gaussian-sampling.md, "Rounded".
    """
    _check("σ", sigma)
    if sigma > LARGEST_SIGMA:
        raise _too_large("σ", "2^56", sigma)
    _check_size(size)
    if size <= _FEW or sigma < _SMALL:
        return np.array([rounded(sigma, rng) for _ in range(size)], dtype=np.int64)
    return cells(bell(sigma * sigma), Target.ROUNDED).draw(size, rng)


def discrete(sigma_squared: Fraction, rng: Entropy) -> int:
    """One integer from the discrete Gaussian law, P(k) ∝ exp(−k²/2σ²); any rational σ² above 0.

    Guarantee:
        Exact in law given ideal bits, in time that does not follow the value.

    References:
        Canonne, Kamath, Steinke 2020, Algorithm 3, https://arxiv.org/abs/2004.00010;
        docs/proofs/gaussian-sampling.md, "Discrete".
    """
    _check("σ²", sigma_squared)
    a, b = sigma_squared.numerator, sigma_squared.denominator
    r = math.isqrt(16 * a // b) + 1  # the proposal has scale t = r/4, a little above σ
    t = Fraction(r, 4)
    while True:
        y = laplace.sample(t, rng)
        # (|y| − σ²/t)²/2σ², over one denominator
        if _happens((abs(y) * b * r - 4 * a) ** 2, 2 * a * b * r * r, rng):
            return y


def discrete_vector(sigma_squared: Fraction, size: int, rng: Entropy) -> NDArray[np.int64]:
    """`size` independent integers from the law of `discrete`; σ² at most 2^112.

    Guarantee:
        Exact in law given ideal bits; nothing is cut off and nothing wraps.

    References:
        docs/proofs/gaussian-sampling.md, "Discrete".
    """
    _check("σ²", sigma_squared)
    if sigma_squared > LARGEST_SIGMA**2:
        raise _too_large("σ²", "2^112", sigma_squared)
    _check_size(size)
    if size <= _FEW:
        return np.array([discrete(sigma_squared, rng) for _ in range(size)], dtype=np.int64)
    return cells(bell(sigma_squared), Target.INTEGERS).draw(size, rng)


def _happens(p: int, q: int, rng: Entropy) -> bool:
    """Return True with probability exp(−p/q); a float decides where it is sure to be right."""
    u = bits(rng, 64)
    estimate = math.exp(-p / q) if p < q << 10 else 0.0
    gap = estimate - u * 2.0**-64
    if not -_MARGIN <= gap <= _MARGIN:
        return gap > 0
    return scaled_exp_neg(Fraction(p, q), rng, drawn=u, known=64)


def _check(name: str, value: Fraction) -> None:
    if value.numerator <= 0:
        raise InvalidParameter(f"the {name} of Gaussian noise must be above 0, not {value}.")


def _too_large(name: str, limit: str, value: Fraction) -> InvalidParameter:
    return InvalidParameter(
        f"the {name} of a vector of Gaussian noise is at most {limit}, not {value}.",
        hint="draw single values, which have no limit, or use a coarser lattice",
    )


def _check_size(size: int) -> None:
    if size < 0:
        raise InvalidParameter(f"the size of a vector of Gaussian noise must be at least 0, not {size}.")
