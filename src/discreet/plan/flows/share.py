"""One noise for two populations: large enough for each, and what each of them pays for it.

Guarantee:
    `Paid.events` composed are (ε, δ)-DP for `Paid.guarantee`, for neighbours in that population, whose sensitivities
    they are for; the ε is at most what was allowed it (docs/proofs/flows.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.accounting.convert import mu_squared_for
from discreet.accounting.loss import PrivacyLoss
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.cost import Kind, allocate, root_above
from discreet.privacy.event import Composed
from discreet.privacy.guarantee import Approximate
from discreet.privacy.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a population may pay, and how far one of its units moves each column."""

    sensitivities: tuple[Sensitivity, ...]
    epsilon: Fraction
    delta: Fraction

    def pure(self, noises: Sequence[Additive]) -> Fraction:
        """What Laplace noise costs it when ε adds up."""
        return sum(
            (
                s.l1 / z.scale
                for s, z in zip(self.sensitivities, noises, strict=True)
                if isinstance(z, DiscreteLaplaceNoise)
            ),
            Fraction(0),
        )

    def mu_squared(self, noises: Sequence[Additive]) -> Fraction:
        """The μ² that Gaussian noise costs it."""
        return sum(
            (
                s.l2_squared / z.sigma**2
                for s, z in zip(self.sensitivities, noises, strict=True)
                if isinstance(z, RoundedGaussianNoise)
            ),
            Fraction(0),
        )


@dataclass(frozen=True, slots=True)
class Paid:
    """What a population pays: the events for its own sensitivities, and the promise that they are charged as."""

    events: Composed
    guarantee: Approximate


def shared_noise(sides: Sequence[Allowed], kind: Kind) -> tuple[tuple[Additive, ...], tuple[Paid, ...]]:
    """The noise of each column such that no population pays more than it may, and what each pays.

    Raises:
        NotPrivate: Gaussian noise without a δ.
    """
    alone = [
        allocate(s.sensitivities, epsilon=s.epsilon, delta=s.delta, kind=kind, select=None).noises
        for s in sides
    ]
    noises = _shrunk(sides, [_larger(column) for column in zip(*alone, strict=True)])
    return noises, tuple(_paid(side, noises) for side in sides)


def _larger(noises: Sequence[Additive]) -> Additive:
    """Of the noises that each population needs for a column, the largest."""
    return max(noises, key=lambda z: z.scale if isinstance(z, DiscreteLaplaceNoise) else _sigma(z))


def _sigma(noise: Additive) -> Fraction:
    assert isinstance(noise, RoundedGaussianNoise)
    return noise.sigma


def _shrunk(sides: Sequence[Allowed], noises: Sequence[Additive]) -> tuple[Additive, ...]:
    """All scales made smaller by one factor, until a population pays all that it may: where columns differ in which
    population needs more, none does yet.
    """
    if all(isinstance(z, RoundedGaussianNoise) for z in noises):
        part = max(s.mu_squared(noises) / mu_squared_for(s.epsilon, s.delta) for s in sides)
        if not 0 < part < 1:
            return tuple(noises)
        return tuple(RoundedGaussianNoise(root_above(_sigma(z) ** 2 * part)) for z in noises)
    part = max(s.pure(noises) / s.epsilon for s in sides)
    if not 0 < part < 1:  # at 1, or above it, where a δ pays for more than adding up does
        return tuple(noises)
    return tuple(DiscreteLaplaceNoise(z.scale * part) for z in noises if isinstance(z, DiscreteLaplaceNoise))


def _paid(side: Allowed, noises: Sequence[Additive]) -> Paid:
    events = sum((z.event(s) for z, s in zip(noises, side.sensitivities, strict=True)), Composed())
    pure = side.pure(noises)
    if pure <= side.epsilon and all(isinstance(z, DiscreteLaplaceNoise) for z in noises):
        return Paid(events, Approximate(pure))
    spent = PrivacyLoss(events).guarantee(side.delta).epsilon if len(events) else Fraction(0)
    return Paid(events, Approximate(min(side.epsilon, spent), side.delta if len(events) else Fraction(0)))
