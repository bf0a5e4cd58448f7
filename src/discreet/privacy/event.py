"""What one use of a mechanism cost.

A treaty with every ledger ever written: a class here is never removed, a field never changes its meaning,
and a mechanism with a new meaning gets a new class and a new tag. An event says only what accounting needs:
which pair of distributions dominates it, and the closed forms that are theorems for it. `Composed` is the
only place that counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidParameter
from discreet.privacy.exact import above, count
from discreet.privacy.pair import Pair
from discreet.privacy.unit import Relation


class Event(ABC):
    """One use of one mechanism with public parameters."""

    __slots__ = ()

    @property
    @abstractmethod
    def pure(self) -> Fraction | None:
        """An ε for which the use is ε-DP; None when there is none."""

    @property
    @abstractmethod
    def rho(self) -> Fraction | None:
        """A ρ for which the use is ρ-zCDP, apart from `failure`; None when there is none."""

    @property
    def mu_squared(self) -> Fraction | None:
        """μ² for which the use is exactly or at most μ-GDP; None when no closed form is known."""
        return None

    @property
    def failure(self) -> Fraction:
        """A δ that is spent apart: outside an event of this probability, `pure` and `rho` hold."""
        return Fraction(0)

    @property
    def relation(self) -> Relation | None:
        """The only neighbours for which the event holds; None for those that its parameters were derived for."""
        return None

    @abstractmethod
    def pair(self) -> Pair:
        """The dominating pair."""


@dataclass(frozen=True, slots=True)
class ApproximateEvent(Event):
    """Any (ε, δ)-DP use, known by its guarantee alone. With δ = 0 any ε-DP use.

    References: the pair is Kairouz, Oh, Viswanath 2015, Theorem 3.2, https://arxiv.org/abs/1311.0776;
    ρ = ε²/2 is Bun, Steinke 2016, Proposition 1.4, https://arxiv.org/abs/1605.02065
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        at_least_zero("epsilon", self.epsilon)
        _fraction("delta", self.delta)
        if not 0 <= self.delta < 1:
            raise InvalidParameter(f"delta must lie in [0, 1), not {self.delta}.")

    @property
    def pure(self) -> Fraction:
        return self.epsilon

    @property
    def rho(self) -> Fraction:
        return self.epsilon * self.epsilon / 2

    @property
    def failure(self) -> Fraction:
        return self.delta

    def pair(self) -> Pair:
        from discreet.privacy.pairs.approximate import ApproximatePair

        return ApproximatePair(above(self.epsilon), above(self.delta))


@dataclass(frozen=True, slots=True)
class ZCDPEvent(Event):
    """Any ρ-zCDP use, known by its guarantee alone.

    References: Bun, Steinke 2016, Definition 1.1, https://arxiv.org/abs/1605.02065
    """

    rho: Fraction

    def __post_init__(self) -> None:
        at_least_zero("rho", self.rho)

    @property
    def pure(self) -> None:
        return None

    def pair(self) -> Pair:
        from discreet.privacy.pairs.zcdp import ZCDPPair

        return ZCDPPair(above(self.rho))


@dataclass(frozen=True, slots=True)
class LaplaceEvent(Event):
    """Continuous Laplace noise of scale b on one number that moves by at most `ratio`·b."""

    ratio: Fraction

    def __post_init__(self) -> None:
        at_least_zero("ratio", self.ratio)

    @property
    def pure(self) -> Fraction:
        return self.ratio

    @property
    def rho(self) -> Fraction:
        return self.ratio * self.ratio / 2

    def pair(self) -> Pair:
        from discreet.privacy.pairs.laplace import LaplacePair

        return LaplacePair(above(self.ratio))


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceEvent(Event):
    """Noise with mass ∝ exp(−|k|/scale) on one integer that moves by at most `shift`."""

    shift: int
    scale: Fraction

    def __post_init__(self) -> None:
        count("shift", self.shift, least=0)
        _positive("scale", self.scale)

    @property
    def pure(self) -> Fraction:
        return self.shift / self.scale

    @property
    def rho(self) -> Fraction:
        return self.pure * self.pure / 2

    def pair(self) -> Pair:
        from discreet.privacy.pairs.laplace import DiscreteLaplacePair

        return DiscreteLaplacePair(self.shift, self.scale)


@dataclass(frozen=True, slots=True)
class GaussianEvent(Event):
    """Gaussian noise of deviation σ on a vector that moves by at most μσ in ℓ2, rounded or not.

    References: Dong, Roth, Su 2019, Theorem 2.7, https://arxiv.org/abs/1905.02383; ρ = μ²/2 is Bun, Steinke
    2016, Proposition 1.6, https://arxiv.org/abs/1605.02065. Rounding is post-processing.
    """

    mu_squared: Fraction

    def __post_init__(self) -> None:
        at_least_zero("mu_squared", self.mu_squared)

    @property
    def pure(self) -> Fraction | None:
        return None if self.mu_squared else Fraction(0)

    @property
    def rho(self) -> Fraction:
        return self.mu_squared / 2

    def pair(self) -> Pair:
        from discreet.privacy.pairs.gaussian import GaussianPair

        return GaussianPair(self.mu_squared)


@dataclass(frozen=True, slots=True)
class DiscreteGaussianEvent(Event):
    """Noise with mass ∝ exp(−k²/2σ²) on one integer that moves by at most `shift`.

    References: ρ = shift²/2σ² is Canonne, Kamath, Steinke 2020, Theorem 4, https://arxiv.org/abs/2004.00010
    """

    shift: int
    sigma_squared: Fraction

    def __post_init__(self) -> None:
        count("shift", self.shift, least=0)
        _positive("sigma_squared", self.sigma_squared)

    @property
    def pure(self) -> Fraction | None:
        return None if self.shift else Fraction(0)

    @property
    def rho(self) -> Fraction:
        return Fraction(self.shift * self.shift, 2) / self.sigma_squared

    def pair(self) -> Pair:
        from discreet.privacy.pairs.gaussian import DiscreteGaussianPair

        return DiscreteGaussianPair(self.shift, self.sigma_squared)


class Composed:
    """A flat multiset of events: what several uses cost together, whatever their order.

    Adding and multiplying take constant time; the multiset is counted when it is first looked at.

    Raises:
        InvalidParameter: events that hold for different neighbours, or a count that is none.

    >>> e = ApproximateEvent(Fraction(1, 2))
    >>> Composed([e]) * 3 == Composed([e, e, e])
    True
    """

    __slots__ = ("_joined", "_parts", "_relation")

    _joined: tuple[tuple[Composed, int], ...]
    _parts: tuple[tuple[Event, int], ...] | None
    _relation: Relation | None

    def __init__(self, parts: Iterable[Event | tuple[Event, int]] = ()) -> None:
        given = [part if isinstance(part, tuple) else (part, 1) for part in parts]
        known = [(event, n) for event, n in given if count("count", n, least=0)]
        if len(known) > 1:
            known = _counted(known)
        self._joined, self._parts, self._relation = (), tuple(known), None
        for event, _ in known:
            self._relation = common_relation(self._relation, event.relation)

    @property
    def parts(self) -> tuple[tuple[Event, int], ...]:
        """Each distinct event with its count, in the order in which they first came."""
        if self._parts is None:
            self._parts = tuple(self._tally())
            self._joined = ()
        return self._parts

    @property
    def relation(self) -> Relation | None:
        """The neighbours for which some of the events hold and no others; None when none of them says."""
        return self._relation

    def __add__(self, other: Composed) -> Composed:
        return _join(((self, 1), (other, 1)))

    def __mul__(self, n: int) -> Composed:
        return _join(((self, n),)) if count("count", n, least=0) else Composed()

    def __iter__(self) -> Iterator[tuple[Event, int]]:
        return iter(self.parts)

    def __len__(self) -> int:
        return sum(n for _, n in self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Composed) and dict(self.parts) == dict(other.parts)

    def __hash__(self) -> int:
        return hash(frozenset(self.parts))

    def __repr__(self) -> str:
        return f"Composed({list(self.parts)!r})"

    def _tally(self) -> list[tuple[Event, int]]:
        found: list[tuple[Event, int]] = []
        waiting = [(self, 1)]
        while waiting:
            node, times = waiting.pop()
            if node._parts is None:
                waiting += [(inner, times * n) for inner, n in reversed(node._joined)]
            else:
                found += [(event, n * times) for event, n in node._parts]
        return _counted(found)


def _counted(parts: list[tuple[Event, int]]) -> list[tuple[Event, int]]:
    tally: dict[Event, list[int]] = {}
    for event, n in parts:  # one look-up for each: a hash of fractions takes its time
        tally.setdefault(event, [0])[0] += n
    return [(event, n) for event, (n,) in tally.items()]


def common_relation(one: Relation | None, other: Relation | None) -> Relation | None:
    """The neighbours for which both hold.

    Raises:
        InvalidParameter: there are none.
    """
    if one is not None and other is not None and one is not other:
        raise InvalidParameter(
            f"one of these losses holds for {one.value} neighbours only, and one for {other.value} neighbours.",
            hint="derive both for the same neighbours",
        )
    return one if other is None else other


def _join(joined: tuple[tuple[Composed, int], ...]) -> Composed:
    out = Composed.__new__(Composed)
    relation = None
    for part, _ in joined:
        relation = common_relation(relation, part._relation)
    out._joined, out._parts, out._relation = joined, None, relation
    return out


def at_least_zero(name: str, x: object) -> None:
    """Refuses what is no Fraction of at least 0, for a field of an event."""
    if _fraction(name, x) < 0:
        raise InvalidParameter(f"{name} must be at least 0, not {x}.")


def _positive(name: str, x: object) -> None:
    if _fraction(name, x) <= 0:
        raise InvalidParameter(f"{name} must be above 0, not {x}.")


def _fraction(name: str, x: object) -> Fraction:
    if not isinstance(x, Fraction):  # a float would be NaN one day, and could not be stored exactly
        raise InvalidParameter(f"{name} of an event must be a Fraction, not {type(x).__name__}.")
    return x
