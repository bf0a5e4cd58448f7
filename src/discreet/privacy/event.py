"""What one use of a mechanism cost.

A treaty with every ledger ever written: a class here is never removed, a field never changes its meaning, and a
mechanism with a new meaning gets a new class and a new tag. An event says only what accounting needs: which pair of
distributions dominates it, and the closed forms that are theorems for it. `Composed` is the only place that counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from discreet.errors import InvalidParameter
from discreet.privacy.exact import above, count, lowest
from discreet.privacy.pair import Pair
from discreet.privacy.unit import Relation

_NOTHING = Fraction(0)
_new = object.__new__


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
        return _NOTHING

    @property
    def relation(self) -> Relation | None:
        """The only neighbours for which the event holds; None for those that its parameters were derived for."""
        return None

    @abstractmethod
    def pair(self) -> Pair:
        """Return the dominating pair."""


@dataclass(frozen=True, slots=True)
class ApproximateEvent(Event):
    """Any (ε, δ)-DP use, known by its guarantee alone. With δ = 0 any ε-DP use.

    References: the pair is Kairouz, Oh, Viswanath 2015, Theorem 3.2, https://arxiv.org/abs/1311.0776;
    ρ = ε²/2 is Bun, Steinke 2016, Proposition 1.4, https://arxiv.org/abs/1605.02065
    """

    epsilon: Fraction
    delta: Fraction = _NOTHING

    def __post_init__(self) -> None:
        at_least_zero("epsilon", self.epsilon)
        if not 0 <= _fraction("delta", self.delta).numerator < self.delta.denominator:
            raise InvalidParameter(f"delta must lie in [0, 1), not {self.delta}.")

    def __hash__(self) -> int:
        return hashed(self.epsilon, self.delta.numerator)

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
        from discreet.privacy.pairs.guaranteed import ApproximatePair

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
        from discreet.privacy.pairs.guaranteed import ZCDPPair

        return ZCDPPair(above(self.rho))


@dataclass(frozen=True, slots=True)
class LaplaceEvent(Event):
    """Continuous Laplace noise of scale b on one number that moves by at most `ratio`·b."""

    ratio: Fraction

    def __post_init__(self) -> None:
        if type(self.ratio) is not Fraction or self.ratio.numerator < 0:  # seldom: the call takes its time
            at_least_zero("ratio", self.ratio)

    def __hash__(self) -> int:
        return hash(self.ratio.as_integer_ratio())

    @property
    def pure(self) -> Fraction:
        return self.ratio

    @property
    def rho(self) -> Fraction:
        return self.ratio * self.ratio / 2

    def pair(self) -> Pair:
        from discreet.privacy.pairs.additive import LaplacePair

        return LaplacePair(above(self.ratio))


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceEvent(Event):
    """Noise with mass ∝ exp(−|k|/scale) on one integer that moves by at most `shift`."""

    shift: int
    scale: Fraction

    def __post_init__(self) -> None:
        count("shift", self.shift, least=0)
        _positive("scale", self.scale)

    def __hash__(self) -> int:
        return hashed(self.scale, self.shift)

    @property
    def pure(self) -> Fraction:
        whole, parts = self.scale.as_integer_ratio()
        return lowest(self.shift * parts, whole)

    @property
    def rho(self) -> Fraction:
        return self.pure * self.pure / 2

    def pair(self) -> Pair:
        from discreet.privacy.pairs.additive import DiscreteLaplacePair

        return DiscreteLaplacePair(self.shift, self.scale)


@dataclass(frozen=True, slots=True)
class GaussianEvent(Event):
    """Gaussian noise of deviation σ on a vector that moves by at most μσ in ℓ2, rounded or not.

    References: Dong, Roth, Su 2019, Theorem 2.7, https://arxiv.org/abs/1905.02383; ρ = μ²/2 is Bun, Steinke
    2016, Proposition 1.6, https://arxiv.org/abs/1605.02065. Rounding is post-processing.
    """

    mu_squared: Fraction

    def __post_init__(self) -> None:
        if type(self.mu_squared) is not Fraction or self.mu_squared.numerator < 0:  # seldom: the call takes its time
            at_least_zero("mu_squared", self.mu_squared)

    def __hash__(self) -> int:
        return hash(self.mu_squared.as_integer_ratio())

    @property
    def pure(self) -> Fraction | None:
        return None if self.mu_squared else Fraction(0)

    @property
    def rho(self) -> Fraction:
        return self.mu_squared / 2

    def pair(self) -> Pair:
        from discreet.privacy.pairs.additive import GaussianPair

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
        from discreet.privacy.pairs.additive import DiscreteGaussianPair

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

    # Times the sum of `_first` and `_second`, until `parts` is looked at. As few objects as can be: there may be many.
    __slots__ = ("_first", "_parts", "_relation", "_second", "_times")

    _first: Composed | Event | None
    _second: Composed | None
    _times: int
    _parts: tuple[tuple[Event, int], ...] | None
    _relation: Relation | None

    def __init__(self, parts: Iterable[Event | tuple[Event, int]] = ()) -> None:
        given = [part if isinstance(part, tuple) else (part, 1) for part in parts]
        known = [(event, n) for event, n in given if count("count", n, least=0)]
        if len(known) > 1:
            known = _counted(known)
        self._first, self._second, self._times = None, None, 1
        self._parts, self._relation = tuple(known), None
        for event, _ in known:
            self._relation = common_relation(self._relation, event.relation)

    @classmethod
    def of(cls, event: Event) -> Composed:
        """One use of one event: `Composed([event])`, but faster."""
        out = _new(Composed)
        out._first, out._second, out._times, out._parts, out._relation = event, None, 1, None, event.relation
        return out

    @property
    def parts(self) -> tuple[tuple[Event, int], ...]:
        """Each distinct event with its count, in the order in which they first came."""
        if self._parts is None:
            self._parts = tuple(self._tally())
            self._first = self._second = None
        return self._parts

    @property
    def relation(self) -> Relation | None:
        """The neighbours for which some of the events hold and no others; None when none of them says."""
        return self._relation

    def __add__(self, other: Composed) -> Composed:
        one, two = self._relation, other._relation
        out = _new(Composed)
        out._first, out._second, out._times, out._parts = self, other, 1, None
        out._relation = one if one is two else common_relation(one, two)
        return out

    def __mul__(self, n: int) -> Composed:
        times = count("count", n, least=0)
        if times == 1:
            return self
        if times == 0:
            return Composed()
        out = _new(Composed)
        out._first, out._second, out._times, out._parts, out._relation = (self, None, times, None, self._relation)
        return out

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
        found: list[tuple[Event, int]] = []  # the last one first: sums grow to the right, one use at a time
        waiting: list[tuple[Composed | Event | None, int]] = [(self, 1)]
        while waiting:
            node, times = waiting.pop()
            while type(node) is Composed:
                # What another thread forgets of a node it forgets after it has counted it: so the count is read last.
                first, second = node._first, node._second
                if (known := node._parts) is not None:
                    found += [(event, n * times) for event, n in reversed(known)]
                    break
                times *= node._times
                if second is not None:
                    leaf = second._first
                    if leaf is not None and not isinstance(leaf, Composed):
                        found.append((leaf, times * second._times))
                    else:  # down the second; the first waits
                        waiting.append((first, times))
                        first = second
                node = first
            else:
                if node is not None:
                    assert not isinstance(node, Composed)
                    found.append((node, times))
        found.reverse()
        return _counted(found)


def _counted(parts: list[tuple[Event, int]]) -> list[tuple[Event, int]]:
    if len(dict(parts)) == len(parts):  # all of them differ
        return parts
    tally: dict[Event, list[int]] = {}
    for event, n in parts:  # one look-up for each: a hash takes its time
        tally.setdefault(event, [0])[0] += n
    return [(event, n) for event, (n,) in tally.items()]


def common_relation(one: Relation | None, other: Relation | None) -> Relation | None:
    """Return the neighbours for which both hold.

    Raises:
        InvalidParameter: there are none.
    """
    if one is not None and other is not None and one is not other:
        raise InvalidParameter(
            f"one of these losses holds for {one.value} neighbours only, and one for {other.value} neighbours.",
            hint="derive both for the same neighbours",
        )
    return one if other is None else other


def hashed(x: Fraction, more: int = 0) -> int:
    """Return a hash of an event's parameters: fractions are in lowest terms, and their own hash is far slower."""
    whole, parts = x.as_integer_ratio()
    return hash((whole, parts, more))


def at_least_zero(name: str, x: object) -> None:
    """Refuses what is no Fraction of at least 0, for a field of an event."""
    if _fraction(name, x).numerator < 0:
        raise InvalidParameter(f"{name} must be at least 0, not {x}.")


def _positive(name: str, x: object) -> None:
    if _fraction(name, x).numerator <= 0:
        raise InvalidParameter(f"{name} must be above 0, not {x}.")


def _fraction(name: str, x: object) -> Fraction:
    if not isinstance(x, Fraction):  # a float would be NaN one day, and could not be stored exactly
        raise InvalidParameter(f"{name} of an event must be a Fraction, not {type(x).__name__}.")
    return x


MOST = 10**6
"""The largest order; beyond it a divergence says hardly more than an ε."""


@dataclass(frozen=True, slots=True)
class RenyiEvent(Event):
    """Any use whose Rényi divergence of each order α > 1 in `orders` is at most the one in `divergences`.

    Guarantee:
        For neighbours in both directions. Of any other order it says what follows by monotonicity and
        convexity: see `divergence`.

    References: Mironov 2017, Definition 4, https://arxiv.org/abs/1702.07476; docs/proofs/renyi-curve.md

    >>> event = RenyiEvent((Fraction(2), Fraction(4)), (Fraction(1), Fraction(3, 2)))
    >>> event.divergence(Fraction(3))
    Fraction(11, 8)
    """

    orders: tuple[Fraction, ...]
    divergences: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        given: tuple[tuple[str, object], ...] = (("orders", self.orders), ("divergences", self.divergences))
        for name, values in given:
            # A list could change after it was checked, and a float could not be stored exactly.
            if not isinstance(values, tuple) or not all(isinstance(x, Fraction) for x in values):
                raise InvalidParameter(f"{name} of an event must be a tuple of Fractions.")
        if not self.orders or len(self.orders) != len(self.divergences):
            raise InvalidParameter(
                f"there must be one divergence for each order, and at least one: orders has {len(self.orders)} "
                f"and divergences has {len(self.divergences)}."
            )
        if not 1 < self.orders[0] <= self.orders[-1] <= MOST or any(a >= b for a, b in pairwise(self.orders)):
            raise InvalidParameter(f"orders must be above 1, at most {MOST} and strictly rising.")
        if min(self.divergences) < 0:
            raise InvalidParameter(f"a divergence must be at least 0, not {min(self.divergences)}.")

    @property
    def pure(self) -> Fraction | None:
        """None: finitely many orders bound no ε, unless a divergence is 0 and so nothing is told."""
        return None if min(self.divergences) else Fraction(0)

    @property
    def rho(self) -> Fraction | None:
        """None: they bound no ρ either, which is about every order."""
        return self.pure

    def divergence(self, alpha: Fraction) -> Fraction | None:
        """Return what the divergence of order α > 1 is at most; None above the largest order.

        The least of what monotonicity says (D_α ≤ D_β for α ≤ β) and what convexity says: (α − 1)D_α is convex
        in α and 0 at α = 1, so that it lies below its chords.

        References: van Erven, Harremoës 2014, Theorem 3 and Corollary 2, https://arxiv.org/abs/1206.2459
        """
        if alpha <= 1:
            raise InvalidParameter(f"alpha must be above 1, not {alpha}.")
        if min(self.divergences) == 0:
            return Fraction(0)
        known = list(zip(self.orders, self.divergences, strict=True))
        above = [(a, t) for a, t in known if a >= alpha]
        below = [(Fraction(1), Fraction(0)), *((a, t) for a, t in known if a < alpha)]
        chords = (
            ((b - alpha) * (a - 1) * s + (alpha - a) * (b - 1) * t) / ((b - a) * (alpha - 1))
            for a, s in below
            for b, t in above
        )
        return min([t for _, t in above] + list(chords), default=None)

    def pair(self) -> Pair:
        from discreet.privacy.pairs.guaranteed import RenyiPair

        return RenyiPair(self.orders, self.divergences)
