"""What a use costs a group: neighbours that differ by k units instead of one.

A group of at most k units is there or is not (add-remove), or at most k units are other ones (replace). A group
that is partly added and partly removed is not meant, unless the use costs the same in both directions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from discreet.errors import InvalidParameter
from discreet.privacy.discrete_events import BoundedRangeEvent, RandomizedResponseEvent
from discreet.privacy.event import (
    ApproximateEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ZCDPEvent,
)
from discreet.privacy.exact import Real, above, count, exact, probability
from discreet.privacy.guarantee import Approximate
from discreet.privacy.pair import Pair
from discreet.privacy.sampling import PoissonEvent
from discreet.privacy.unit import Relation

MOST = 256
"""The largest group for which a curve is computed where no closed form is known."""

_UNIT = 2.0**-52


def group(event: Event, k: int) -> Event:
    """Return the same use for neighbours that differ by at most k units.

    Guarantee:
        Valid for any use that `event` stands for by itself. It is not valid for one use that is written as
        several events, such as a vector of counts with one event for each: a group may move other counts
        with each of its units, so a vector is grouped by its sensitivity. See docs/proofs/group.md.

    Raises:
        InvalidParameter: a k that is no count, or above `MOST` where no closed form is known.

    References: Gaussian and in general: Dong, Roth, Su 2019, Theorem 2.14, https://arxiv.org/abs/1905.02383;
    zCDP: Bun, Steinke 2016, Proposition 1.9, https://arxiv.org/abs/1605.02065; samples: Ganesh 2024,
    https://arxiv.org/abs/2401.10294; pure and bounded range: docs/proofs/group.md

    >>> group(ApproximateEvent(Fraction(1, 2)), 3)
    DiscreteLaplaceEvent(shift=3, scale=Fraction(2, 1))
    """
    if count("k", k) == 1:
        return event
    closed = _closed(event, k)
    return GroupEvent(event, k) if closed is None else closed


def group_uses(events: Composed, k: int) -> Composed:
    """Return what uses with an event each cost together, for neighbours that differ by at most k units.

    Guarantee:
        Each event stands for a use by itself, chosen adaptively or not: see `group`. Of randomised response
        each unit gives its own answer with its own coins, so that k units are k answers.

    Raises:
        InvalidParameter: as `group`.
    """
    count("k", k)
    return Composed(
        (event, n * k) if isinstance(event, RandomizedResponseEvent) else (group(event, k), n) for event, n in events
    )


def textbook_group(epsilon: Real, delta: Real, k: int) -> Approximate:
    """Return what (ε, δ)-DP says of a group of k: (kε, δ(e^{kε} − 1)/(e^ε − 1)), which is at most (kε, ke^((k−1)ε)δ).

    For reports: the curve of `group` is lower or equal at every ε.

    Raises:
        InvalidParameter: parameters out of range, or a group for which δ is 1 or more, and nothing is said.

    References: Vadhan 2017, *The Complexity of Differential Privacy*, Lemma 2.2,
    https://privacytools.seas.harvard.edu/publications/complexity-differential-privacy

    >>> textbook_group(0, '1/1000', 5)
    Approximate(epsilon=Fraction(0, 1), delta=Fraction(1, 200))
    """
    e, d = exact("epsilon", epsilon), probability("delta", delta)
    if e < 0:
        raise InvalidParameter(f"epsilon must be at least 0, not {epsilon}.")
    grown = _grown(d, e, count("k", k))
    if grown >= 1:
        raise InvalidParameter(
            f"a group of {k} has no guarantee from epsilon={float(e):.6g} and delta={float(d):.6g}.",
            hint="ask for a smaller group, or give the events to `group`, which says more",
        )
    return Approximate(k * e, grown)


@dataclass(frozen=True, slots=True)
class GroupEvent(Event):
    """A use of `event`, for neighbours that differ by at most k units.

    Guarantee:
        `pair` dominates k steps of which each is dominated by the pair of `event`, whatever the use does.
        `pure` and `failure` are those of the textbook; `rho` is Bun, Steinke 2016, Proposition 1.9.

    References: Dong, Roth, Su 2019, Theorem 2.14, https://arxiv.org/abs/1905.02383; docs/proofs/group.md
    """

    event: Event
    k: int

    def __post_init__(self) -> None:
        if count("k", self.k) > MOST:
            raise InvalidParameter(
                f"a group of {self.k} is too large: k must be at most {MOST} for a {type(self.event).__name__}.",
                hint="Gaussian, Laplace, pure and zCDP uses take groups of any size",
            )
        if self.event.failure and self.event.pure is None:
            raise InvalidParameter(
                "a use with a δ apart and no ε says nothing of groups: how far its δ grows is not bounded."
            )

    @property
    def pure(self) -> Fraction | None:
        return None if self.event.pure is None else self.k * self.event.pure

    @property
    def rho(self) -> Fraction | None:
        """The lesser of k²ρ and ε²/2; without the former where a failure is spent apart."""
        known = []
        if self.event.rho is not None and not self.event.failure:
            known.append(self.k * self.k * self.event.rho)
        if self.pure is not None:
            known.append(self.pure * self.pure / 2)
        return min(known, default=None)

    @property
    def mu_squared(self) -> Fraction | None:
        return None if self.event.mu_squared is None else self.k * self.k * self.event.mu_squared

    @property
    def failure(self) -> Fraction:
        """That of the textbook, rounded up; 0 where the event has none."""
        if self.event.pure is None:
            return Fraction(0)
        return min(_grown(self.event.failure, self.event.pure, self.k), Fraction(1))

    @property
    def relation(self) -> Relation | None:
        return self.event.relation

    def pair(self) -> Pair:
        from discreet.privacy.pairs.group import GroupPair

        pair = self.event.pair()
        return pair if self.k == 1 else GroupPair(pair, self.k)


@dataclass(frozen=True, slots=True)
class SampledGroupEvent(Event):
    """A μ-GDP use on a Poisson sample at `rate`, for neighbours by adding or by removing at most k units.

    Guarantee:
        The curve is met by Gaussian noise on a sum to which each unit adds μσ.

    References: Ganesh 2024, https://arxiv.org/abs/2401.10294; proof: docs/proofs/group.md
    """

    mu_squared_of_one: Fraction
    rate: Fraction
    k: int
    relation: ClassVar[Relation] = Relation.ADD_REMOVE

    def __post_init__(self) -> None:
        for name in ("mu_squared_of_one", "rate"):
            if not isinstance(getattr(self, name), Fraction):  # a float could not be stored exactly
                raise InvalidParameter(f"{name} of an event must be a Fraction.")
        if self.mu_squared_of_one < 0:
            raise InvalidParameter(f"mu_squared_of_one must be at least 0, not {self.mu_squared_of_one}.")
        if not 0 < self.rate < 1:
            raise InvalidParameter(f"rate must be a Fraction between 0 and 1, not {self.rate}.")
        if count("k", self.k) > MOST:
            raise InvalidParameter(f"a group of {self.k} is too large: k must be at most {MOST} for a sample.")

    @property
    def pure(self) -> Fraction | None:
        return None if self.mu_squared_of_one else Fraction(0)

    @property
    def rho(self) -> Fraction:
        """That of the k units without sampling."""
        return self.k * self.k * self.mu_squared_of_one / 2

    def pair(self) -> Pair:
        from discreet.privacy.pairs.group import SampledGroupPair

        return SampledGroupPair(self.mu_squared_of_one, self.rate, self.k, True)


def _closed(event: Event, k: int) -> Event | None:
    """Return the families that are closed under groups; see docs/proofs/group.md for each of them."""
    match event:
        case GaussianEvent(mu_squared=m):
            return GaussianEvent(k * k * m)
        case LaplaceEvent(ratio=r):
            return LaplaceEvent(k * r)
        case DiscreteLaplaceEvent(shift=s, scale=b):
            return DiscreteLaplaceEvent(k * s, b)
        case DiscreteGaussianEvent(shift=s, sigma_squared=v):
            return DiscreteGaussianEvent(k * s, v)
        case ApproximateEvent(epsilon=e, delta=d) if d == 0:
            return DiscreteLaplaceEvent(k, 1 / e) if e else event
        case ZCDPEvent(rho=r):
            return ZCDPEvent(k * k * r)
        case BoundedRangeEvent(epsilon=e):
            return BoundedRangeEvent(k * e)
        case PoissonEvent(event=GaussianEvent(mu_squared=m), rate=q):
            return SampledGroupEvent(m, q, k)
        case SampledGroupEvent(mu_squared_of_one=m, rate=q, k=n):
            return SampledGroupEvent(m, q, n * k)
        case GroupEvent(event=inner, k=n):
            return GroupEvent(inner, n * k)
        case _:
            return None


def _grown(delta: Fraction, epsilon: Fraction, k: int) -> Fraction:
    """δ(1 + e^ε + … + e^((k−1)ε)), rounded up; 1 where that is no float."""
    if delta == 0 or epsilon == 0:
        return min(k * delta, Fraction(1))
    e = above(epsilon)
    if k * e > 700:
        return Fraction(1)
    factor = math.expm1(k * e) / math.expm1(e) * (1 + (16 + 2 * k * e) * _UNIT)
    return min(delta * Fraction(factor), Fraction(1))
