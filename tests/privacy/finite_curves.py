"""The true curves of laws on finitely many outcomes, at `DIGITS` digits. Nothing here looks at the package."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import mpmath
from mpmath import mpf

from tests.privacy.curves import exactly, real


@exactly
def atoms(p: Sequence[Fraction], q: Sequence[Fraction], epsilon: float) -> mpf:
    """Σ (p − e^ε q)₊, each term from the definition, with digits for masses and ε down to 1e-300."""
    with mpmath.workdps(750):
        x = mpmath.exp(real(epsilon))
        return sum((max(real(a) - x * real(b), mpf(0)) for a, b in zip(p, q, strict=True)), mpf(0))


def either(p: Sequence[Fraction], q: Sequence[Fraction], epsilon: float) -> Fraction:
    """The larger of the curves of (p, q) and (q, p)."""
    return max(atoms(p, q, epsilon), atoms(q, p, epsilon))


@exactly
def randomized_response(epsilon_zero: Fraction, categories: int, epsilon: float) -> mpf:
    """Σ (p − e^ε q)₊ over every one of the answers, when 0 and 1 are the true ones."""
    odds, x = mpmath.exp(real(epsilon_zero)), real(epsilon)
    p = [odds if i == 0 else mpf(1) for i in range(categories)]
    q = [odds if i == 1 else mpf(1) for i in range(categories)]
    total = sum(p)
    tiny = mpf(10) ** -45  # what is left of two equal masses is rounding
    terms = (a - mpmath.exp(x) * b for a, b in zip(p, q, strict=True))
    return sum((t for t in terms if t > tiny), mpf(0)) / total


@exactly
def two_points(t: Fraction | float, reach: Fraction, epsilon: float) -> mpf:
    """The curve of two outcomes with losses t and t − reach."""
    return _two_points(real(t), real(reach), real(epsilon))


@exactly
def bounded_range(reach: Fraction, epsilon: float) -> mpf:
    """The largest of `two_points` over t, by ternary search where both losses are on either side of ε."""
    eta, x = real(reach), real(epsilon)
    low, high = max(mpf(0), x), min(eta, x + eta)
    if low >= high:
        return max(-mpmath.expm1(x), mpf(0))
    for _ in range(150):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        if _two_points(a, eta, x) < _two_points(b, eta, x):
            low = a
        else:
            high = b
    return _two_points((low + high) / 2, eta, x)


def _two_points(t: mpf, eta: mpf, x: mpf) -> mpf:
    p = mpmath.expm1(t - eta) / mpmath.expm1(-eta)
    terms = [(p, t), (1 - p, t - eta)]
    return sum((-mass * mpmath.expm1(x - loss) for mass, loss in terms if loss > x), mpf(0))
