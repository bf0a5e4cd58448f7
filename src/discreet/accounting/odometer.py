"""A running report of what was spent, true at every moment, whoever decides when to stop and what comes next."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from discreet.errors import InvalidParameter
from discreet.privacy.event import Composed, common_relation
from discreet.privacy.exact import Real, above, below, probability
from discreet.privacy.unit import Relation

_STEPS = [Fraction(2) ** k * step for k in range(-8, 17) for step in (Fraction(1), Fraction(3, 2))]
_CENTRE = _STEPS.index(Fraction(8))
_ORDERS = tuple(1 + step for step in _STEPS)
_POWER = np.array([float(step) for step in _STEPS])
_RAW = 1 / (1 + np.abs(np.arange(len(_STEPS)) - _CENTRE) / 2) ** 2
_WEIGHT = np.log(_RAW / _RAW.sum() * (1 - 1e-12))  # they add up to at most 1


class Odometer:
    """What all charges so far may have revealed, when nothing limits them beforehand.

    A filter says whether a charge may be made and keeps a promise that was fixed at the start. An odometer
    lets every charge pass and says after each how much it has come to. It costs a little more ε than a filter
    that was opened for that ε, since its readings hold all at once.

    Guarantee:
        However the charges are chosen, each in sight of all earlier answers, and whenever the analyst stops for
        whatever reason, with the reading ε there: P(S) ≤ ∫_S e^ε dQ + δ for all sets S of answers with finite readings,
        under the neighbours that the charges were derived for. If no charge has a failure apart from its ε or ρ, it is
        more: with probability at least 1 − δ the privacy loss is at no moment above the reading of that moment.

    Attributes:
        delta: the δ of all readings together. Half of it is for the failures of charges.

    References: Whitehouse, Ramdas, Rogers, Wu 2023, Theorem 3 (an odometer by a mixture of martingales),
    https://arxiv.org/abs/2203.05481; Rogers, Roth, Ullman, Vadhan 2016 (odometers),
    https://arxiv.org/abs/1605.08294; for Rényi divergences: docs/proofs/filters.md

    >>> from discreet.accounting import gaussian
    >>> odometer = Odometer(delta=1e-6)
    >>> for _ in range(10):
    ...     odometer.charge(gaussian(20).events)
    >>> round(odometer.epsilon, 2)
    0.96
    """

    __slots__ = ("_divergences", "_failure", "_pure", "_relation", "delta")

    delta: Fraction

    def __init__(self, delta: Real) -> None:
        self.delta = probability("delta", delta)
        if self.delta < Fraction(1, 10**280):
            raise InvalidParameter("an odometer needs a delta of at least 1e-280.", hint="give delta=1e-6")
        self._divergences = [Fraction(0)] * len(_ORDERS)
        self._failure = Fraction(0)
        self._pure: Fraction | None = Fraction(0)
        self._relation: Relation | None = None

    def charge(self, events: Composed) -> None:
        """Count the events of a plan, before its data is read.

        Raises:
            TypeError: anything but the events of a plan.
            InvalidParameter: an event without a Rényi divergence, or one that holds for other neighbours than
                an earlier one. Nothing was counted.
        """
        given: object = events
        if not isinstance(given, Composed):
            raise TypeError(f"an odometer counts the events of a plan, not a {type(given).__name__}")
        relation = common_relation(self._relation, events.relation)
        added = [_divergence(events, order) for order in _ORDERS]
        pure = self._pure
        for event, n in events:
            pure = None if pure is None or event.pure is None else pure + event.pure * n
        self._relation = relation
        self._divergences = [a + b for a, b in zip(self._divergences, added, strict=True)]
        self._failure += sum((event.failure * n for event, n in events), Fraction(0))
        self._pure = pure

    @property
    def failure(self) -> Fraction:
        """The δ that charges spent apart; beyond half of `delta` there is no reading."""
        return self._failure

    @property
    def epsilon(self) -> float:
        """The reading: an ε, rounded up; infinite once the failures are more than half of δ."""
        if self._failure > self.delta / 2:
            return math.inf
        mixed = _crossing(np.array([above(x) for x in self._divergences]), -math.log(below(self.delta / 2)))
        return mixed if self._pure is None else min(mixed, above(self._pure))

    def __repr__(self) -> str:
        return f"Odometer: ε = {self.epsilon:.6g} at δ = {float(self.delta):.6g}"


def _crossing(divergences: np.ndarray[tuple[int], np.dtype[np.float64]], log_inverse: float) -> float:
    """Where Σ w e^(λ(ε − C)) reaches 1/δ, rounded up: each term is taken at its least, and 1/δ at its most."""
    wanted = log_inverse * (1 + 1e-14) + 1e-12

    def reaches(epsilon: float) -> bool:
        exponent = _WEIGHT + _POWER * (epsilon - divergences - 1e-15 * (epsilon + divergences)) - 1e-13
        top = float(exponent.max())
        return top + math.log(float(np.exp(exponent - top).sum())) * (1 - 1e-14) >= wanted

    finite = np.isfinite(divergences)
    if not finite.any():
        return math.inf
    low, high = (0.0, float(np.min(divergences[finite] + (wanted - _WEIGHT[finite]) / _POWER[finite])) * (1 + 1e-9))
    while not reaches(high):
        low, high = high, high * (1 + 1e-6) + 1e-12
    for _ in range(60):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def _divergence(events: Composed, order: Fraction) -> Fraction:
    from discreet.accounting.divergence import renyi_upper

    total = Fraction(0)
    for event, n in events:
        one = renyi_upper(event, order)
        if one is None:
            raise InvalidParameter(
                "this charge has an event without a Rényi divergence, which an odometer cannot count.",
                hint="describe the use by its ε, δ: accounting.approximate(epsilon, delta)",
            )
        total += one * n
    return total
