"""Answers about a loss (bounds on each side of the truth), the part of it that questions read, and sums over events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from discreet.privacy.event import Composed, Event
from discreet.privacy.exact import Real

_FEW = 64  # terms that are summed exactly; the digits of more would pile up
_GRAIN = 1 << 160  # of the sums of more terms, each rounded up


@dataclass(frozen=True, slots=True)
class Bounds:
    """A certified interval: the truth lies in [lower, upper]."""

    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class AccountingEngine:
    """What answered, and the theorem that says so."""

    name: str
    theorem: str


@dataclass(frozen=True, slots=True)
class Answer:
    """An ε or a δ: at most `upper`; the least that holds for the worst such uses is at least `lower`."""

    lower: float
    upper: Fraction
    engine: AccountingEngine


class Loss(Protocol):
    """A `PrivacyLoss` of one composition, as the questions about it read it."""

    @property
    def events(self) -> Composed: ...
    @property
    def pure(self) -> Fraction | None: ...
    @property
    def pure_apart(self) -> Fraction | None: ...
    @property
    def mu_squared(self) -> Fraction | None: ...
    @property
    def failure(self) -> Fraction: ...
    def epsilon(self, delta: Real = 0) -> float: ...
    def delta(self, epsilon: Real) -> float: ...


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums over events that have a meaning of their own; None where one of the events has none.

    Those of more than 64 terms are rounded up, each term by less than 1e-48.
    """

    pure: Fraction | None
    rho: Fraction | None
    mu_squared: Fraction | None
    failure: Fraction


def sums(events: Iterable[tuple[Event, int]]) -> Sums:
    """All four."""
    parts = list(iter(events))  # not `list(events)`, which would make room for as many as there are uses
    failure = total((e.failure, n) for e, n in parts)
    assert failure is not None
    return Sums(
        total((e.pure, n) for e, n in parts),
        total((e.rho, n) for e, n in parts),
        total((e.mu_squared, n) for e, n in parts),
        failure,
    )


def total(terms: Iterable[tuple[Fraction | None, int]]) -> Fraction | None:
    """Σ n·x, or None when an x is."""
    known = []
    for x, n in terms:
        if x is None:
            return None
        known.append(x if n == 1 else x * n)
    if len(known) <= _FEW:
        return sum(known, Fraction(0))
    return Fraction(sum(-(-x.numerator * _GRAIN // x.denominator) for x in known), _GRAIN)


def largest(values: Iterable[Fraction | None]) -> Fraction | None:
    """Return the largest of some numbers of at least 0, or None when one of them is."""
    out = Fraction(0)
    for x in values:
        if x is None:
            return None
        out = max(out, x)
    return out
