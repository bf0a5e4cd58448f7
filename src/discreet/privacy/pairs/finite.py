"""Pairs whose loss takes finitely many values: what their outcomes weigh on both sides."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, DivisionByZero, InvalidOperation
from fractions import Fraction
from functools import lru_cache

import numpy as np

from discreet.privacy.exact import above
from discreet.privacy.law import AtomsLaw
from discreet.privacy.pair import FLOOR, Curve, Pair

MOST_ATOMS = 10_000
"""More outcomes than this are not listed one by one."""

_LARGEST = 700.0  # a loss beyond which the smaller mass is next to no float
_LEAST = 1e-290  # of a mass


@dataclass(frozen=True, slots=True, eq=False)
class FiniteLaw(AtomsLaw):
    """Finitely many losses with their masses under P, and the chance `leak` of an infinite one.

    Guarantee:
        A loss is at least the true one and exceeds it by at most 2⁻⁴⁴ of its size; a mass is off by at most
        2⁻⁴⁸ of itself; `leak` is at least the true one and exceeds it by at most 2⁻⁴⁸ of itself. What is
        left out has less than `FLOOR` of mass. The masses alone say 1 − leak only up to rounding.
    """

    leak: float


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """The outcomes of a pair (P, Q): losses log(p/q) in rising order, rounded up, and their masses p and q.

    `p_alone` is the mass that P has where Q has none, and `q_alone` the other way round.
    """

    loss: Curve
    p: Curve
    q: Curve
    p_alone: float = 0.0
    q_alone: float = 0.0

    def law(self) -> FiniteLaw:
        """Return the loss under P."""
        kept = self.p > FLOOR / (2 * max(self.p.size, 1))
        return FiniteLaw(self.loss[kept], self.p[kept], self.p_alone)


class FinitePair(Pair):
    """A pair whose outcomes can be listed."""

    __slots__ = ()

    @abstractmethod
    def outcomes(self) -> Outcomes | None:
        """Return the outcomes, rounded as `FiniteLaw` says; None when there are too many or they leave the floats."""

    def law(self) -> FiniteLaw | None:
        found = self.outcomes()
        return None if found is None else found.law()


def response(epsilon: float, told: float, neither: float, leak: float = 0.0) -> Outcomes | None:
    """Return the outcomes with losses ε, 0 and −ε, where P gives `told` to the first and `neither` to the second."""
    if not (epsilon <= _LARGEST and told > _LEAST):
        return None
    lied = told * float(np.exp(-epsilon))
    rows = [(-epsilon, lied, told), (0.0, neither, neither), (epsilon, told, lied)]
    loss, p, q = np.array([row for row in rows if row[1]]).T.copy()
    return Outcomes(loss, p, q, leak, leak)


def decay(weights: Curve, rate: Fraction) -> Curve:
    """exp(−w·rate) for integers w up to 2⁵³, to a few units in the last place however large w·rate is."""
    high, low = product(weights, rate)
    return np.exp(-high) * (1 - low)


def product(weights: Curve, rate: Fraction) -> tuple[Curve, Curve]:
    """w·rate as a rounded product and what it lacks, for integers w up to 2⁵³ (Dekker's exact product)."""
    first = float(rate)
    second = float(rate - Fraction(first))
    high = weights * first
    a, b = _halves(weights), _halves(np.array(first))
    lost = ((a[0] * b[0] - high) + a[0] * b[1] + a[1] * b[0]) + a[1] * b[1]
    return high, lost + weights * second


def _halves(x: Curve) -> tuple[Curve, Curve]:
    """Return the float x as a sum of two floats of 26 digits each (Veltkamp's splitting)."""
    big = x * 134217729.0
    high = big - (big - x)
    return high, x - high


def up(high: Curve, low: Curve) -> Curve:
    """Return the sum of high and low, rounded up by a unit or two; 0 stays 0."""
    value = high + low
    return np.where(value == 0, 0.0, np.nextafter(value, np.inf))


_DIGITS = 50
_SLACK = Decimal("1e-45")  # relative; far above the error of a logarithm at that many digits
_MOST_CATEGORIES = 2**1000  # fewer categories dominate more, and this many still fit a float


@dataclass(frozen=True, slots=True)
class AtomsPair(FinitePair):
    """Two mass functions on the same outcomes.

    References: docs/proofs/pairs.md, "Finitely many outcomes", from the definition.
    """

    p: tuple[Fraction, ...]
    q: tuple[Fraction, ...]

    def delta(self, epsilon: Curve) -> Curve:
        """Σ (p − e^ε q)₊: from the next loss ℓ ≥ ε on it is δ(ℓ) + e^ℓ Q(loss ≥ ℓ) (1 − e^(ε−ℓ))."""
        law = _law(self.p, self.q)
        i = np.searchsorted(law.floor[:-1], epsilon, side="left")
        below = np.minimum(epsilon - law.floor[i], 0.0) - law.rest[i]  # of one sign: nothing cancels
        return np.minimum(law.at[i] - law.slope[i] * np.expm1(below), 1.0)

    def reverse(self) -> Pair:
        """Return the same with p and q exchanged."""
        return AtomsPair(self.q, self.p)

    @property
    def epsilon_max(self) -> float:
        return float(largest_loss(self.p, self.q))

    def outcomes(self) -> Outcomes | None:
        """Return the outcomes with one ratio p/q together."""
        return _outcomes(self.p, self.q)


@dataclass(frozen=True, slots=True)
class RandomizedResponsePair(FinitePair):
    """k-ary randomised response on two true answers: the losses are ε, −ε and, elsewhere, 0.

    References: docs/proofs/pairs.md, "k-ary randomised response"; symmetric, and a larger ε dominates.
    """

    epsilon: float
    categories: int

    def delta(self, epsilon: Curve) -> Curve:
        """p(1 − e^(ε−ε₀))₊ + (k−2)p e^−ε₀ (1 − e^ε)₊ + p e^−ε₀ (1 − e^(ε+ε₀))₊, p = 1/(1 + (k−1)e^−ε₀)."""
        k = min(self.categories, _MOST_CATEGORIES)
        odds = math.exp(-self.epsilon)
        told = -np.expm1(np.minimum(epsilon - self.epsilon, 0.0))
        neither = -np.expm1(np.minimum(epsilon, 0.0))
        lied = -np.expm1(np.minimum(epsilon + self.epsilon, 0.0))
        return (told + odds * (float(k - 2) * neither + lied)) / (1 + float(k - 1) * odds)

    @property
    def epsilon_max(self) -> float:
        return self.epsilon

    def outcomes(self) -> Outcomes | None:
        """Return the losses ε, 0, −ε with masses p, (k−2)p e^−ε and p e^−ε, p = 1/(1 + (k−1)e^−ε)."""
        k = min(self.categories, _MOST_CATEGORIES)
        odds = math.exp(-self.epsilon)
        told = 1 / (1 + float(k - 1) * odds)
        return response(self.epsilon, told, float(k - 2) * odds * told)


def largest_loss(p: tuple[Fraction, ...], q: tuple[Fraction, ...]) -> Fraction:
    """Return the largest log(p/q) of an outcome that both can have, rounded up to a float; at least 0."""
    law = _law(p, q)
    if law.floor.size == 1:
        return Fraction(0)
    floor, rest = float(law.floor[-2]), float(law.rest[-2])
    return max(Fraction(math.nextafter(floor, math.inf) if rest else floor), Fraction(0))


@dataclass(frozen=True, slots=True, eq=False)
class _Law:
    """The losses in rising order and the curve at each; a last row stands for all beyond the largest.

    A loss is `floor` + `rest`, with `floor` the greatest float at most as large: a float ε is at most the
    loss exactly when it is at most `floor`, and ε − floor − rest keeps its digits however close they are.
    """

    floor: Curve
    rest: Curve
    at: Curve
    slope: Curve


@lru_cache(maxsize=64)
def _law(p: tuple[Fraction, ...], q: tuple[Fraction, ...]) -> _Law:
    shared = sorted(((a / b, a, b) for a, b in zip(p, q, strict=True) if a and b), reverse=True)
    leak = sum((a for a, b in zip(p, q, strict=True) if not b), Fraction(0))
    rows = [(0.0, 0.0, float(leak), 0.0)]
    more, less = Fraction(0), Fraction(0)  # the masses of the outcomes with at least this loss
    for ratio, a, b in shared:
        more, less = more + a, less + b
        # Exact until here, where each is rounded once: two roundings are far below ACCURACY.
        rows.append((*logarithm(ratio), float(leak + more - ratio * less), float(ratio * less)))
    columns = np.array([*rows[:0:-1], rows[0]]).T.copy()
    columns.flags.writeable = False
    return _Law(*columns)


@lru_cache(maxsize=64)
def _outcomes(p: tuple[Fraction, ...], q: tuple[Fraction, ...]) -> Outcomes | None:
    together: dict[Fraction, tuple[Fraction, Fraction]] = {}
    alone = [Fraction(0), Fraction(0)]
    for a, b in zip(p, q, strict=True):
        if a and b:
            more, less = together.get(a / b, (Fraction(0), Fraction(0)))
            together[a / b] = more + a, less + b
        else:
            alone = [alone[0] + a, alone[1] + b]
    if len(together) > MOST_ATOMS:
        return None
    rows = [(_loss(ratio), *map(float, together[ratio])) for ratio in sorted(together)]
    loss, a_mass, b_mass = np.array(rows).reshape(-1, 3).T.copy()
    for column in (loss, a_mass, b_mass):
        column.flags.writeable = False
    return Outcomes(loss, a_mass, b_mass, above(alone[0]), above(alone[1]))


def _loss(ratio: Fraction) -> float:
    """log(ratio), rounded up."""
    floor, rest = logarithm(ratio)
    return math.nextafter(floor, math.inf) if rest > 0 else floor


def logarithm(ratio: Fraction) -> tuple[float, float]:
    """log(ratio), rounded up beyond its 45th digit, as the greatest float below it and the rest."""
    n, d = ratio.numerator, ratio.denominator
    if n == d:
        return 0.0, 0.0
    # |log(n/d)| ≥ |n−d|/max(n, d): so many digits of n/d are lost near 1.
    lost = (max(n, d) // abs(n - d)).bit_length() // 3 + 1
    context = Context(
        prec=_DIGITS + lost,
        rounding=ROUND_HALF_EVEN,
        Emax=MAX_EMAX,
        Emin=MIN_EMIN,
        clamp=0,
        flags=[],
        traps=[InvalidOperation, DivisionByZero],
    )
    loss = context.ln(context.divide(Decimal(n), Decimal(d)))
    loss = context.add(loss, context.multiply(context.abs(loss), _SLACK))
    floor = float(loss)
    if Decimal(floor) > loss:
        floor = math.nextafter(floor, -math.inf)
    return floor, float(context.subtract(loss, Decimal(floor)))
