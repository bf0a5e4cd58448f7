"""Events of mechanisms that choose among finitely many outcomes, or whose losses lie in a short range."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from discreet.errors import InvalidParameter
from discreet.privacy.event import Event, at_least_zero, hashed
from discreet.privacy.exact import above, count
from discreet.privacy.pair import LargestPair, Pair
from discreet.privacy.unit import Relation


@dataclass(frozen=True, slots=True)
class RandomizedResponseEvent(Event):
    """One of `categories` answers: the true one with odds e^ε against each of the others.

    Guarantee:
        `pair` is the mechanism itself on two true answers that differ; any two give the same curve.

    References: Kairouz, Oh, Viswanath 2014, https://arxiv.org/abs/1407.1338; ρ = ε²/2 is Bun,
    Steinke 2016, Proposition 1.4, https://arxiv.org/abs/1605.02065; docs/proofs/pairs.md
    """

    epsilon: Fraction
    categories: int

    def __post_init__(self) -> None:
        at_least_zero("epsilon", self.epsilon)
        count("categories", self.categories, least=2)

    def __hash__(self) -> int:
        return hashed(self.epsilon, self.categories)

    @property
    def pure(self) -> Fraction:
        return self.epsilon

    @property
    def rho(self) -> Fraction:
        return self.epsilon * self.epsilon / 2

    def pair(self) -> Pair:
        from discreet.privacy.pairs.finite import RandomizedResponsePair

        return RandomizedResponsePair(above(self.epsilon), self.categories)


@dataclass(frozen=True, slots=True)
class AtomsEvent(Event):
    """A use that two mass functions on the same finitely many outcomes dominate: p with a unit, q without it.

    Guarantee:
        For add-remove neighbours, unless p and q are mirror images, which have no order. `pair` is (p, q) itself, and
        its reverse (q, p). `pure` is the largest finite |log(p/q)| rounded up. `failure` is the larger mass of the
        outcomes that only one of the laws can have, which no ε covers: the use is (`pure`, `failure`)-DP.

    References: docs/proofs/pairs.md, from the definition; ρ = ε²/2 is Bun, Steinke 2016, Proposition 1.4,
    https://arxiv.org/abs/1605.02065
    """

    p: tuple[Fraction, ...]
    q: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        _masses("p", self.p)
        _masses("q", self.q)
        if len(self.p) != len(self.q):
            raise InvalidParameter(
                f"p and q must name the same outcomes: p has {len(self.p)} of them and q has {len(self.q)}."
            )

    @property
    def pure(self) -> Fraction:
        from discreet.privacy.pairs.finite import largest_loss

        return max(largest_loss(self.p, self.q), largest_loss(self.q, self.p))

    @property
    def rho(self) -> Fraction:
        return self.pure * self.pure / 2

    @property
    def failure(self) -> Fraction:
        return max(_only(self.p, self.q), _only(self.q, self.p))

    @property
    def relation(self) -> Relation | None:
        return None if _mirrored(self.p, self.q) else Relation.ADD_REMOVE

    def pair(self) -> Pair:
        from discreet.privacy.pairs.finite import AtomsPair

        return AtomsPair(self.p, self.q)


@dataclass(frozen=True, slots=True)
class BoundedRangeEvent(Event):
    """Any ε-bounded-range use, such as the exponential mechanism with that range of its exponents.

    For all neighbours there is a t such that every outcome's loss lies in [t − ε, t].

    Guarantee:
        `pair` has the largest curve of any such use. `rho` is that of the uses, and lower than the pair's
        own: over many uses it can be the better bound, and losses take the better one.

    References: Dong, Durfee, Rogers 2020, https://arxiv.org/abs/1909.13830; ρ = ε²/8 is Cesar,
    Rogers 2021, https://arxiv.org/abs/2004.07223; the pair: docs/proofs/pairs.md
    """

    epsilon: Fraction

    def __post_init__(self) -> None:
        at_least_zero("epsilon", self.epsilon)

    @property
    def pure(self) -> Fraction:
        return self.epsilon

    @property
    def rho(self) -> Fraction:
        return self.epsilon * self.epsilon / 8

    def pair(self) -> Pair:
        from discreet.privacy.pairs.guaranteed import BoundedRangePair

        return BoundedRangePair(above(self.epsilon))


@lru_cache(maxsize=256)
def _mirrored(p: tuple[Fraction, ...], q: tuple[Fraction, ...]) -> bool:
    """Return whether to exchange p and q only changes the order of the outcomes."""
    return sorted(zip(p, q, strict=True)) == sorted(zip(q, p, strict=True))


def _only(p: tuple[Fraction, ...], q: tuple[Fraction, ...]) -> Fraction:
    """Return the mass that p puts where q has none."""
    return sum((a for a, b in zip(p, q, strict=True) if not b), Fraction(0))


def _masses(name: str, masses: object) -> None:
    if not isinstance(masses, tuple):  # a list could change after it was checked
        raise InvalidParameter(f"{name} of an event must be a tuple, not {type(masses).__name__}.")
    if not masses:
        raise InvalidParameter(f"{name} must have at least one outcome.")
    for i, mass in enumerate(masses):
        at_least_zero(f"{name}[{i}]", mass)
    if sum(masses) != 1:
        raise InvalidParameter(f"the masses of {name} must sum to exactly 1, not {sum(masses)}.")


@dataclass(frozen=True, slots=True)
class EitherOrderEvent(Event):
    """A use of `event` for replaced units, of which either may have the one law or the other.

    Adding or removing a unit says which side is which, and in every use the same; replacing one by another does
    not. So the curve is the larger of the two orders' at every ε, which composes.

    Guarantee:
        For replaced units, when any two of them have the laws of `event` in one order or the other.

    References: docs/proofs/pairs.md, "Either order"
    """

    event: Event
    relation: ClassVar[Relation] = Relation.REPLACE

    def __post_init__(self) -> None:
        # Its relation is of the order of its laws alone; of other events it may be of a sample, which must stay.
        if not isinstance(self.event, AtomsEvent):
            raise InvalidParameter(f"a {type(self.event).__name__} has one order only: two given laws may have either.")

    @property
    def pure(self) -> Fraction | None:
        return self.event.pure

    @property
    def rho(self) -> Fraction | None:
        return self.event.rho

    @property
    def failure(self) -> Fraction:
        return self.event.failure

    def pair(self) -> Pair:
        pair = self.event.pair()
        return LargestPair((pair, pair.reverse()))
