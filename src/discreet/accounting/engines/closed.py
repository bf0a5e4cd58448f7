"""What closed forms say of a composition: sums of ε, of ρ and of μ², and their conversions.

Every answer is a theorem's; none is numeric composition. Proofs: docs/proofs/conversions.md
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.accounting.bounds import AccountingEngine
from discreet.accounting.convert import SMALLEST_DELTA, gdp_delta, gdp_epsilon, zcdp_delta, zcdp_epsilon
from discreet.accounting.divergence import orders_of, renyi_delta, renyi_epsilon, renyi_upper
from discreet.accounting.mu import known_mu_squared
from discreet.privacy.event import Composed, Event
from discreet.privacy.exact import above, below
from discreet.privacy.pairs.guaranteed import ApproximatePair

_FEW = 64  # distinct events whose known μ is worth its time


SUM = AccountingEngine("sum of ε and δ", "Dwork, Roth 2014, Theorem 3.16")
GAUSSIAN = AccountingEngine("Gaussian closed form", "Balle, Wang 2018, Theorem 8")
GDP = AccountingEngine("closed form of Gaussian differential privacy", "Dong, Roth, Su 2019, Corollary 3.3")
RENYI = AccountingEngine("Rényi divergences added up", "Canonne, Kamath, Steinke 2020, Proposition 12")
ZCDP = AccountingEngine("zCDP closed form", "Canonne, Kamath, Steinke 2020, Proposition 12")


def epsilons(events: Composed, delta: Fraction) -> Iterator[tuple[Fraction, AccountingEngine]]:
    """Every closed ε at δ; all of them valid."""
    known = sums(events)
    left = delta - known.failure
    if left < 0:
        return
    if known.pure is not None:
        yield known.pure, SUM
    if left < SMALLEST_DELTA:
        return
    yield from _converted(known, left)
    for alpha, divergence in _divergences(events):
        yield renyi_epsilon(alpha, divergence, left), RENYI
    mu_squared = _known_mu_squared(events, known)
    if mu_squared is not None:
        yield from _finite(gdp_epsilon(mu_squared, left), GDP)
    pure, rest = _split(events)
    if pure and rest is not None:
        yield from ((pure + epsilon, engine) for epsilon, engine in _converted(rest, left))


def deltas(events: Composed, epsilon: Fraction) -> Iterator[tuple[float, AccountingEngine]]:
    """Every closed δ at ε, none below the failure; all of them valid, the first is 1."""
    known = sums(events)
    yield 1.0, SUM
    if known.pure is not None:  # all of it is one (ε, δ)-DP use
        if known.pure <= epsilon:
            yield above(min(known.failure, Fraction(1))), SUM
        pair = ApproximatePair(above(known.pure), above(min(known.failure, Fraction(1))))
        yield float(pair.upper(np.array(below(epsilon)))), SUM
    yield from _lost(known, known.failure, epsilon)
    mu_squared = _known_mu_squared(events, known)
    if mu_squared is not None:
        yield gdp_delta(mu_squared, epsilon), GDP
    for alpha, divergence in _divergences(events):
        yield _plus(known.failure, renyi_delta(alpha, divergence, epsilon)), RENYI
    pure, rest = _split(events)
    if pure and pure <= epsilon and rest is not None:
        yield from _lost(rest, known.failure, epsilon - pure)


def _converted(known: Sums, delta: Fraction) -> Iterator[tuple[Fraction, AccountingEngine]]:
    if known.mu_squared is not None:
        yield from _finite(gdp_epsilon(known.mu_squared, delta), GAUSSIAN)
    elif known.rho is not None:
        yield from _finite(zcdp_epsilon(known.rho, delta), ZCDP)


def _finite(epsilon: float, engine: AccountingEngine) -> Iterator[tuple[Fraction, AccountingEngine]]:
    """Yield what left the range of floats says nothing."""
    if math.isfinite(epsilon):
        yield Fraction(epsilon), engine


def _lost(known: Sums, failure: Fraction, epsilon: Fraction) -> Iterator[tuple[float, AccountingEngine]]:
    if known.mu_squared is not None:
        yield _plus(failure, gdp_delta(known.mu_squared, epsilon)), GAUSSIAN
    elif known.rho is not None:
        yield _plus(failure, zcdp_delta(known.rho, epsilon)), ZCDP


def _known_mu_squared(events: Composed, known: Sums) -> Fraction | None:
    """Return a μ² of uses that are not all Gaussian; worth nothing for a single one, whose curve is known."""
    single = sum(n for _, n in events.parts) == 1  # `len(events)` is no more than a machine's integer
    if known.mu_squared is not None or known.failure or single or len(events.parts) > _FEW:
        return None
    return known_mu_squared(events)


def _divergences(events: Composed) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield the orders at which some event's divergence is given, with the divergence of all together."""
    orders = {alpha for event, _ in events for alpha in orders_of(event)}
    for alpha in sorted(orders):
        divergence = total((renyi_upper(event, alpha), n) for event, n in events)
        if divergence is not None:
            yield alpha, divergence


def _split(events: Composed) -> tuple[Fraction, Sums | None]:
    """Return the sum of the pure events' ε, and the sums of the others; None when there are no others."""
    pure = total((e.pure, n) for e, n in events if e.pure is not None)
    rest = [(e, n) for e, n in events if e.pure is None]
    assert pure is not None
    return pure, sums(rest) if rest else None


def _plus(failure: Fraction, delta: float) -> float:
    return min(above(failure + Fraction(delta)), 1.0) if math.isfinite(delta) else 1.0


_GRAIN = 1 << 160  # of the sums of more terms, each rounded up


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
