"""The true hockey-stick curves, from the definitions, at 60 digits. Nothing here looks at the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import wraps
from itertools import count, islice
from math import comb
from typing import ParamSpec, TypeAlias

import mpmath
from mpmath import mpf

P = ParamSpec("P")
Law: TypeAlias = "list[tuple[mpf, mpf]]"
DIGITS = 55


def real(x: Fraction | float) -> mpf:
    """The exact value of a fraction or a float, to `DIGITS` digits."""
    x = Fraction(x)
    return mpf(x.numerator) / x.denominator


def exactly(truth: Callable[P, mpf]) -> Callable[P, Fraction]:
    """A function computed at `DIGITS` digits, its value as a fraction, which no later operation rounds."""

    @wraps(truth)
    def at_length(*args: P.args, **kwargs: P.kwargs) -> Fraction:
        with mpmath.workdps(DIGITS):
            value = truth(*args, **kwargs)
            sign, man, exp, _ = value._mpf_
            return Fraction(-int(man) if sign else int(man)) * Fraction(2) ** int(exp)

    return at_length


@exactly
def gaussian(mu_squared: Fraction, epsilon: float) -> mpf:
    """Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), with so many digits that the subtraction costs nothing."""
    mu, x = mpmath.sqrt(real(mu_squared)), real(epsilon)
    return mpmath.ncdf(mu / 2 - x / mu) - mpmath.exp(x) * mpmath.ncdf(-mu / 2 - x / mu)


@exactly
def gaussian_by_quadrature(mu_squared: Fraction, epsilon: float) -> mpf:
    """∫ (φ(t) − e^ε φ(t − μ))₊ dt, from the definition."""
    mu, x = mpmath.sqrt(real(mu_squared)), real(epsilon)
    edge = mu / 2 - x / mu  # the density ratio exceeds e^ε to the left of it
    cuts = [edge - k for k in (40, 20, 10, 6, 4, 2, 1, 0)]
    return mpmath.quad(lambda t: mpmath.npdf(t) - mpmath.exp(x) * mpmath.npdf(t, mu=mu), cuts)


@exactly
def sampled_gaussian(mu_squared: Fraction, rate: Fraction, epsilon: float) -> mpf:
    """The larger of the two directions of ((1−q)N(0,1) + qN(μ,1), N(0,1)), from where the densities' ratio is e^±ε."""
    mu, q, x = mpmath.sqrt(real(mu_squared)), real(rate), real(epsilon)
    up, down = mpmath.exp(x), mpmath.exp(-x)

    def edge(ratio: mpf) -> mpf:  # where 1 − q + q·e^(μt − μ²/2) is `ratio`
        return (mpmath.log((ratio - 1 + q) / q) + mu * mu / 2) / mu

    t = edge(up)
    removed = (1 - q) * mpmath.ncdf(-t) + q * mpmath.ncdf(mu - t) - up * mpmath.ncdf(-t)
    if down <= 1 - q:
        return removed
    t = edge(down)
    added = mpmath.ncdf(t) - up * ((1 - q) * mpmath.ncdf(t) + q * mpmath.ncdf(t - mu))
    return max(removed, added)


@exactly
def laplace(ratio: Fraction, epsilon: float) -> mpf:
    """∫ (p(t) − e^ε p(t − r))₊ dt for p(t) = e^−|t|/2, piece by piece up to where the ratio is e^ε."""
    r, x = real(ratio), real(epsilon)
    if x >= r:
        return mpf(0)
    edge = (r - x) / 2 if x > -r else mpmath.inf
    left = (1 - mpmath.exp(x - r)) / 2
    if edge < r:
        middle = (1 - mpmath.exp(-edge)) / 2 - mpmath.exp(x - r) * (mpmath.exp(edge) - 1) / 2
        return left + middle
    middle = (1 - mpmath.exp(-r)) / 2 - mpmath.exp(x - r) * (mpmath.exp(r) - 1) / 2
    return left + middle + (mpmath.exp(-r) - mpmath.exp(x)) / 2


@exactly
def approximate(epsilon_zero: Fraction, delta: Fraction, epsilon: float) -> mpf:
    """Σ (P − e^ε Q)₊ over the four outcomes of randomised response with a leak."""
    return _over(response(epsilon_zero, delta), real(epsilon))


@exactly
def discrete_laplace(shift: int, scale: Fraction, epsilon: float) -> mpf:
    """Σ (p(k) − e^ε p(k − shift))₊ over the integers, for p(k) ∝ exp(−|k|/scale)."""
    b, x = real(scale), real(epsilon)
    q = mpmath.exp(-1 / b)
    reach = shift + int(mpmath.ceil(60 * b)) + 2
    window = range(-reach, reach + 1)
    return _sum(_excess(-abs(k) / b, -abs(k - shift) / b, x) for k in window) * (1 - q) / (1 + q)


@exactly
def discrete_gaussian(shift: int, sigma_squared: Fraction, epsilon: float) -> mpf:
    """Σ (p(k) − e^ε p(k − shift))₊ over the integers, for p(k) ∝ exp(−k²/2σ²), from the last k with an excess down."""
    v, x = 2 * real(sigma_squared), real(epsilon)
    k = int(mpmath.floor(mpf(shift) / 2 - x * v / 2 / shift)) + 1
    p, q = _gaussian_from(k, v), _gaussian_from(k - shift, v)
    total, limit, factor = mpf(0), mpf(10) ** -15, mpmath.exp(x)
    for j in count(k, -1):
        term = max(next(p) - factor * next(q), mpf(0))
        total += term
        if j < 0 and 0 < term < total * limit:  # terms fall faster than geometrically here
            break
    reach = int(mpmath.ceil(12 * mpmath.sqrt(v / 2))) + 3
    return total / _sum(islice(_gaussian_from(reach, v), 2 * reach + 1))


@exactly
def composed_response(epsilon_zero: Fraction, n: int, epsilon: float) -> mpf:
    """The curve of n uses of randomised response, a binomial sum (Kairouz, Oh, Viswanath 2015, Theorem 3.3)."""
    e, x = real(epsilon_zero), real(epsilon)
    p = 1 / (1 + mpmath.exp(-e))
    return _sum(comb(n, k) * _excess(_log_power(p, k, n), _log_power(1 - p, k, n), x) for k in range(n + 1))


@exactly
def composed(laws: list[Law], epsilon: float) -> mpf:
    """The curve of a product of finite laws, by enumerating every combination."""
    return _over(_products(laws), real(epsilon))


def response(epsilon_zero: Fraction, delta: Fraction) -> Law:
    """Randomised response with a leak: (P, Q) of its four outcomes."""
    with mpmath.workdps(DIGITS):
        p, leak = 1 / (1 + mpmath.exp(-real(epsilon_zero))), real(delta)
        told, lied = (1 - leak) * p, (1 - leak) * (1 - p)
        return [(leak, mpf(0)), (told, lied), (lied, told), (mpf(0), leak)]


def lattice_laplace(shift: int, scale: Fraction) -> Law:
    """Discrete Laplace noise clamped where its loss no longer changes: (P, Q) of 0 or less, …, shift or more."""
    with mpmath.workdps(DIGITS):
        q = mpmath.exp(-1 / real(scale))
        inner = [(q**k * (1 - q) / (1 + q), q ** (shift - k) * (1 - q) / (1 + q)) for k in range(1, shift)]
        return [(1 / (1 + q), q**shift / (1 + q)), *inner, (q**shift / (1 + q), 1 / (1 + q))]


def _gaussian_from(k: int, v: mpf) -> Iterator[mpf]:
    """exp(−j²/v) for j = k, k − 1, …, each from the one before, which costs a digit or two of the many."""
    p, ratio, step = mpmath.exp(-mpf(k * k) / v), mpmath.exp(mpf(2 * k - 1) / v), mpmath.exp(-2 / v)
    while True:
        yield p
        p *= ratio
        ratio *= step


def _products(laws: list[Law]) -> Law:
    out: Law = [(mpf(1), mpf(1))]
    for law in laws:
        out = [(a * p, b * q) for a, b in out for p, q in law]
    return out


def _over(law: Law, epsilon: mpf) -> mpf:
    x = mpmath.exp(epsilon)
    tiny = mpf(10) ** (10 - DIGITS)  # what is left of two equal masses is rounding
    return _sum(p - x * q for p, q in law if p - x * q > tiny * p)


def _log_power(p: mpf, k: int, n: int) -> mpf:
    return k * mpmath.log(p) + (n - k) * mpmath.log(1 - p)


def _excess(log_p: mpf, log_q: mpf, epsilon: mpf) -> mpf:
    difference = log_p - log_q - epsilon
    return -mpmath.exp(log_p) * mpmath.expm1(-difference) if difference > 0 else mpf(0)


def _sum(terms: Iterable[mpf]) -> mpf:
    return sum(terms, mpf(0))
