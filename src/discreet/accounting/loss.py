"""What some uses of mechanisms cost together, asked in any of the field's words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.accounting.bounds import Bounds
from discreet.accounting.contour import delta_bounds, epsilon_bounds
from discreet.accounting.convert import SMALLEST_DELTA, gdp_delta, gdp_epsilon, zcdp_delta, zcdp_epsilon
from discreet.accounting.laws import laws
from discreet.accounting.pld import LONGEST, composed_delta, composed_epsilon
from discreet.errors import InvalidParameter
from discreet.privacy.event import Composed, Event, GaussianEvent
from discreet.privacy.exact import Real, above, below, exact, probability
from discreet.privacy.guarantee import Approximate, decimal
from discreet.privacy.law import Law
from discreet.privacy.pairs.approximate import ApproximatePair
from discreet.privacy.sampling import PoissonEvent


@dataclass(frozen=True, slots=True, repr=False)
class PrivacyLoss:
    """The loss of a multiset of events whose parameters were fixed before the first answer.

    Guarantee:
        Whatever was dominated by `events`, adaptively chosen within them, is (ε, δ)-DP for each pair that
        `epsilon`, `delta` and `guarantee` return, under the neighbours for which the events were derived.
        Each answer is the least of several theorems' answers: the sum of ε and δ; zCDP; the Gaussian closed
        form; for at most 64 events, the numeric composition of their dominating pairs; and for more, and for
        samples, the inversion of their moment generating functions where these have formulas.

    References:
        Dwork, Roth 2014, Theorem 3.16 (sums); Canonne, Kamath, Steinke 2020, Proposition 12 (zCDP),
        https://arxiv.org/abs/2004.00010; Balle, Wang 2018, Theorem 8 (Gaussian),
        https://arxiv.org/abs/1805.06530; Zhu, Dong, Wang 2022, Theorem 10 (pairs),
        https://arxiv.org/abs/2106.08567. Proofs: docs/proofs/composition.md

    >>> from discreet.privacy.event import ApproximateEvent
    >>> loss = PrivacyLoss(Composed([ApproximateEvent(Fraction(1, 10))])) * 3
    >>> loss
    PrivacyLoss: ε = 0.3 (pure)
    >>> loss.epsilon()
    0.3
    """

    events: Composed

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        return PrivacyLoss(self.events + other.events)

    def __mul__(self, n: int) -> PrivacyLoss:
        return PrivacyLoss(self.events * n)

    __rmul__ = __mul__

    def __radd__(self, other: int) -> PrivacyLoss:
        """So that `sum` of losses works: its start is 0."""
        return self if other == 0 else NotImplemented

    def poisson(self, rate: Real) -> PrivacyLoss:
        """The loss of this one use on a sample that each unit enters independently with chance `rate`.

        Guarantee:
            For add-remove neighbours and no others: the sample is secret, and its size is not fixed.

        Raises:
            InvalidParameter: a rate outside [0, 1], or several uses (sample each: `loss.poisson(q) * n`).

        References: Zhu, Dong, Wang 2022, Theorem 11, https://arxiv.org/abs/2106.08567; proof:
        docs/proofs/sampling.md
        """
        q = exact("rate", rate)
        if not 0 <= q <= 1:
            raise InvalidParameter(f"rate must lie in [0, 1], not {rate}.")
        event: Event
        if self.mu_squared is not None:
            event = GaussianEvent(self.mu_squared)  # several Gaussian uses are one
        elif len(self.events) == 1:
            ((event, _),) = self.events
        else:
            raise InvalidParameter(
                f"this loss has {len(self.events)} uses, and a sample is taken for one.",
                hint="sample each use and then compose: loss.poisson(rate) * n",
            )
        if q == 0 or not len(self.events):
            return PrivacyLoss(Composed())
        if q == 1:
            return self
        if isinstance(event, PoissonEvent):
            return PrivacyLoss(Composed([PoissonEvent(event.event, event.rate * q)]))
        return PrivacyLoss(Composed([PoissonEvent(event, q)]))

    def bounds(self, delta: Real) -> tuple[float, float]:
        """Certified bounds of the least ε at δ for the worst uses that these events stand for.

        The upper one is `epsilon(delta)`. The lower one is 0 where nothing better is proven.

        Raises:
            InvalidParameter: as `epsilon`.
        """
        upper, d = self.epsilon(delta), probability("delta", delta)
        if self.pure is not None and d == 0:
            return math.nextafter(below(self.pure), 0.0), upper
        both = laws(self.events) if d >= SMALLEST_DELTA else None
        if both is not None and len(self.events) == 1:  # then the curve is exact, up to `ACCURACY`
            more = Fraction(above(d)) * (1 + Fraction(1, 10**9))
            found = [(composed_epsilon(self.events, more, at_most=max(upper, 1e-300)) or 0.0) * (1 - 1e-12)]
        else:
            found = [_lower(law, above(d)) for law in both or ()]
        return min(max(found, default=0.0), upper), upper

    @property
    def pure(self) -> Fraction | None:
        """The ε for which all of it is ε-DP, exactly; None when δ has to be above 0."""
        return None if self.failure else self._sum_of_pure()

    @property
    def rho(self) -> Fraction | None:
        """The ρ for which all of it is ρ-zCDP apart from `failure`; None when an event has none."""
        return _sum((e.rho, n) for e, n in self.events)

    @property
    def mu_squared(self) -> Fraction | None:
        """The μ² for which all of it is μ-GDP; None unless every event is Gaussian."""
        return _sum((e.mu_squared, n) for e, n in self.events)

    @property
    def failure(self) -> Fraction:
        """The δ that is spent apart, whatever ε is asked for: the sum of the events' own."""
        return sum((e.failure * n for e, n in self.events), Fraction(0))

    def epsilon(self, delta: Real = 0) -> float:
        """An ε for which all of it is (ε, δ)-DP, rounded up to a float (which means its shortest decimal).

        Raises:
            InvalidParameter: no finite ε exists at that δ: Gaussian noise or zCDP at δ = 0, or a δ below
            `failure`.
        """
        return _reported(self.guarantee(delta).epsilon)

    def guarantee(self, delta: Real = 0) -> Approximate:
        """The same as an exact promise. The ε of pure events at δ = 0 is their sum, not rounded.

        Raises:
            InvalidParameter: no finite ε exists at that δ.
        """
        d = probability("delta", delta)
        found = min(self._epsilons(d), default=None)
        if found is None:
            raise self._unreachable(d)
        return Approximate(found, d)

    def delta(self, epsilon: Real) -> float:
        """A δ for which all of it is (ε, δ)-DP, rounded up.

        Raises:
            InvalidParameter: a negative ε.
        """
        e = exact("epsilon", epsilon)
        if e < 0:
            raise InvalidParameter(f"epsilon must be at least 0, not {epsilon}.")
        simple = self._sum_of_pure()
        if simple is not None and simple <= e:
            return _reported(self.failure)
        known = min(self._deltas(e))
        if self._is_short:
            known = min(known, composed_delta(self.events, e, at_most=known))
        both = self._inverted_laws()
        if both is not None:
            found = [delta_bounds(law, below(e)).upper for law in both]
            known = min(known, _plus(self.failure, max(found)))
        return known

    def __repr__(self) -> str:
        return f"PrivacyLoss: {self._in_words()}"

    def _in_words(self) -> str:
        apart = f", δ = {decimal(self.failure)}" if self.failure else ""
        simple = self._sum_of_pure()
        if simple is not None:
            return f"ε = {decimal(simple)}{apart or ' (pure)'}"
        if self.mu_squared is not None:
            return f"μ = {float(self.mu_squared) ** 0.5:.6g} (Gaussian)"
        if any(isinstance(event, PoissonEvent) for event, _ in self.events):
            return f"{len(self.events)} uses, with Poisson sampling{apart}"
        if self.rho is not None:
            return f"ρ = {decimal(self.rho)} (zCDP{', apart from' + apart[1:] if apart else ''})"
        return f"{len(self.events)} uses"

    def _sum_of_pure(self) -> Fraction | None:
        return _sum((e.pure, n) for e, n in self.events)

    def _inverted_laws(self) -> tuple[Law, Law] | None:
        """The laws whose moment generating functions are worth inverting; None when there are none."""
        sampled = any(isinstance(event, PoissonEvent) for event, _ in self.events)
        if self.mu_squared is not None or not (sampled or len(self.events) > LONGEST):
            return None
        return laws(self.events) if len(self.events) > 1 else None

    @property
    def _is_short(self) -> bool:
        """Whether numeric composition is worth its time; the Gaussian closed form is exact already."""
        short = 0 < len(self.events) <= LONGEST and self.mu_squared is None
        return short and (len(self.events) == 1 or self._inverted_laws() is None)

    def _epsilons(self, delta: Fraction) -> Iterator[Fraction]:
        """Every theorem's ε at δ; all of them valid."""
        left = delta - self.failure
        if left < 0:
            return
        simple = self._sum_of_pure()
        if simple is not None:
            yield simple
        if left < SMALLEST_DELTA:
            return
        known = simple
        for epsilon in self._closed_epsilons(left):
            known = epsilon if known is None else min(known, epsilon)
            yield epsilon
        both = self._inverted_laws()
        if both is not None:
            bounds = [epsilon_bounds(law, below(left)) for law in both]
            if all(bounds):
                yield Fraction(max(b.upper for b in bounds if b is not None))
        if known is not None and self._is_short:
            numeric = composed_epsilon(self.events, delta, at_most=above(known))
            if numeric is not None:
                yield Fraction(numeric)

    def _closed_epsilons(self, delta: Fraction) -> Iterator[Fraction]:
        if self.mu_squared is not None:
            yield Fraction(gdp_epsilon(self.mu_squared, delta))
        elif self.rho is not None:
            yield Fraction(zcdp_epsilon(self.rho, delta))
        pure, rest = self._split()
        if pure and len(rest.events):
            yield from (pure + epsilon for epsilon in rest._closed_epsilons(delta))

    def _deltas(self, epsilon: Fraction) -> Iterator[float]:
        """Every closed theorem's δ at ε, none below `failure`; all of them valid."""
        yield 1.0
        simple = self._sum_of_pure()
        if simple is not None:  # all of it is one (ε, δ)-DP use
            pair = ApproximatePair(above(simple), above(min(self.failure, Fraction(1))))
            yield float(pair.upper(np.array(below(epsilon))))
        if self.mu_squared is not None:
            yield gdp_delta(self.mu_squared, epsilon)
        elif self.rho is not None:
            yield _plus(self.failure, zcdp_delta(self.rho, epsilon))
        pure, rest = self._split()
        if pure and pure <= epsilon and len(rest.events):
            yield from (_plus(self.failure, d) for d in rest._deltas(epsilon - pure))

    def _split(self) -> tuple[Fraction, PrivacyLoss]:
        """The sum of the pure events' ε, and the loss of the others."""
        pure = sum((e.pure * n for e, n in self.events if e.pure is not None), Fraction(0))
        return pure, PrivacyLoss(Composed((e, n) for e, n in self.events if e.pure is None))

    def _unreachable(self, delta: Fraction) -> InvalidParameter:
        if self.failure > delta:
            return InvalidParameter(
                f"this loss has no ε at delta={decimal(delta)}: {decimal(self.failure)} of δ is spent apart.",
                hint=f"ask at a delta above {decimal(self.failure)}",
            )
        return InvalidParameter(
            f"this loss has no pure ε, and none at delta={decimal(delta)}.",
            hint="Gaussian noise and zCDP need a delta above what is spent apart: ask epsilon(delta=1e-6)",
        )


def _sum(parts: Iterable[tuple[Fraction | None, int]]) -> Fraction | None:
    total = Fraction(0)
    for x, n in parts:
        if x is None:
            return None
        total += x * n
    return total


def _plus(failure: Fraction, delta: float) -> float:
    return min(above(failure + Fraction(delta)), 1.0)


def _lower(law: Law, delta: float) -> float:
    found = epsilon_bounds(law, delta)
    return found.lower if isinstance(found, Bounds) else 0.0


def _reported(x: Fraction) -> float:
    """The least float at or above x, when a float is read as its shortest decimal as everywhere here."""
    f = above(x)
    down = math.nextafter(f, 0.0)
    return down if math.isfinite(f) and Fraction(repr(down)) >= x else f
