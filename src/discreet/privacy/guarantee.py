"""Promises, as values."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from operator import attrgetter
from typing import Any

from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, exact, positive, probability, set_fields

PER_QUERY = Fraction(20)
"""The owner's cap on one query's ε unless the budget says another."""


@dataclass(frozen=True, slots=True)
class Approximate:
    """(ε, δ)-differential privacy: P(S) ≤ e^ε Q(S) + δ for all events S and neighbours P, Q. δ = 0 is pure.

    References:
        Dwork, Roth, *The Algorithmic Foundations of Differential Privacy*, Definition 2.4,
        https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if self.epsilon < 0:
            raise InvalidParameter(f"epsilon must be at least 0, not {self.epsilon}.")
        if not 0 <= self.delta < 1:
            raise InvalidParameter(f"delta must lie in [0, 1), not {self.delta}.")


@dataclass(frozen=True, slots=True)
class ZCDP:
    """ρ-zero-concentrated differential privacy: every Rényi divergence of order α is at most ρα.

    References: Bun, Steinke 2016, Definition 1.1, https://arxiv.org/abs/1605.02065
    """

    rho: Fraction

    def __post_init__(self) -> None:
        if self.rho < 0:
            raise InvalidParameter(f"rho must be at least 0, not {self.rho}.")


@dataclass(frozen=True, slots=True)
class GDP:
    """μ-Gaussian differential privacy; `mu_squared` is μ², which adds up exactly.

    References: Dong, Roth, Su 2019, Definition 2.6, https://arxiv.org/abs/1905.02383
    """

    mu_squared: Fraction

    def __post_init__(self) -> None:
        if self.mu_squared < 0:
            raise InvalidParameter(f"mu_squared must be at least 0, not {self.mu_squared}.")


@dataclass(frozen=True, slots=True, init=False)
class Budget:
    """How much may ever be learned about each unit of a population: (ε, δ), over all time.

    `per_query` caps the ε of a single query, so that a slip of the keyboard cannot spend a lifetime.

    >>> Budget(epsilon=3, delta=1e-6)
    Budget(epsilon=3, delta=1e-06)
    """

    epsilon: Fraction
    delta: Fraction
    per_query: Fraction

    def __init__(self, epsilon: Real, delta: Real = 0, *, per_query: Real = PER_QUERY) -> None:
        e = exact("epsilon", epsilon)
        if e < 0:
            raise InvalidParameter(f"epsilon must be at least 0, not {epsilon}.")
        set_fields(self, epsilon=e, delta=probability("delta", delta), per_query=positive("per_query", per_query))

    @property
    def guarantee(self) -> Approximate:
        """The promise that the budget stands for."""
        return Approximate(self.epsilon, self.delta)

    def __repr__(self) -> str:
        return called(self, "epsilon", "delta", per_query=PER_QUERY)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_budget, (self.epsilon, self.delta, self.per_query))


def decimal(x: Fraction) -> str:
    """Return a fraction as people write it: exact when twelve digits say it, else six significant digits."""
    if x.numerator.bit_length() - x.denominator.bit_length() > 1000:  # no float
        return f"{Decimal(x.numerator) / Decimal(x.denominator):.6g}"
    exact_text = f"{float(x):.12g}"
    return exact_text if Fraction(exact_text) == x else f"{float(x):.6g}"


def called(value: object, *names: str, first: str = "", **usual: object) -> str:
    """Return the call that makes a value: `first`, the fields of these names, and each other that is not as usual.

    Of the names one whose field is None is left out. A name may lead into a field, as in "span.low".

    >>> called(Budget(3), "epsilon", delta=0, per_query=20)
    'Budget(epsilon=3)'
    """
    given = [first] * bool(first)
    for name in (*names, *usual):
        found = attrgetter(name)(value)
        if found != usual.get(name):
            shown = found.value if isinstance(found, Enum) else found
            text = decimal(shown) if isinstance(shown, Fraction) else repr(shown)
            given.append(f"{name.rpartition('.')[2].lstrip('_')}={text}")
    return f"{type(value).__name__}({', '.join(given)})"


def numbered(title: str, *steps: str) -> str:
    """Return a title and its numbered steps, one a line: a proof with the numbers of a case in it."""
    return "\n".join((title, *(f"{i}. {step}" for i, step in enumerate(steps, start=1))))


def words(epsilon: Fraction, delta: Fraction) -> str:
    """Return an (ε, δ) as people write it."""
    return f"ε = {decimal(epsilon)}" + (f", δ = {decimal(delta)}" if delta else "")


def _budget(epsilon: Fraction, delta: Fraction, per_query: Fraction) -> Budget:
    return Budget(epsilon, delta, per_query=per_query)
