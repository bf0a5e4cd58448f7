"""Uses on disjoint parts of the data: a unit is in one part, and what the other parts cost does not touch it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from discreet.errors import InvalidParameter
from discreet.privacy.event import (
    ApproximateEvent,
    Composed,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ZCDPEvent,
    common_relation,
)
from discreet.privacy.exact import count
from discreet.privacy.pair import Pair
from discreet.privacy.unit import Relation

MOST = 64
"""How many alternatives a loss may have: each is answered by itself."""


@dataclass(frozen=True, slots=True)
class ParallelEvent(Event):
    """One use on each of some disjoint parts of the data.

    Guarantee:
        For add-remove neighbours, when a public rule says for each unit by itself which part it belongs to.
        A replaced unit may leave one part and enter another, and costs both: there this event does not hold.

    References: McSherry 2009, Theorem 4, https://doi.org/10.1145/1559845.1559850; docs/proofs/parallel.md
    """

    events: tuple[Event, ...]
    relation: ClassVar[Relation] = Relation.ADD_REMOVE

    def __post_init__(self) -> None:
        events: object = self.events  # a list could change after it was checked
        if not isinstance(events, tuple) or not events:
            raise InvalidParameter("events must be a tuple of at least one event, one for each part.")
        for event in self.events:
            common_relation(Relation.ADD_REMOVE, event.relation)

    @property
    def pure(self) -> Fraction | None:
        return _largest(event.pure for event in self.events)

    @property
    def rho(self) -> Fraction | None:
        return _largest(event.rho for event in self.events)

    @property
    def mu_squared(self) -> Fraction | None:
        return _largest(event.mu_squared for event in self.events)

    @property
    def failure(self) -> Fraction:
        return max(event.failure for event in self.events)

    def pair(self) -> Pair:
        from discreet.privacy.pair import LargestPair

        return LargestPair(tuple(event.pair() for event in self.events))


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Compositions of which, for each pair of neighbours, one is what happens to them: the loss is the largest.

    Adding adds every alternative to every other, since neighbours choose a part of each partition. Those that
    another one dominates are left out. A single composition is one alternative.

    Guarantee:
        A loss whose answers are the worst of those of `choices` holds for all neighbours of `relation`.

    Raises:
        InvalidParameter: more than `MOST` alternatives, or events that hold for different neighbours.

    References: docs/proofs/parallel.md
    """

    choices: frozenset[Composed]
    relation: Relation | None

    def __init__(self, choices: Iterable[Composed], relation: Relation | None = None) -> None:
        given = tuple(choices)
        for choice in given:  # also of those that are left out
            relation = common_relation(relation, choice.relation)
        found = undominated(given)
        if not found:
            raise InvalidParameter("choices must be at least one composition.")
        if len(found) > MOST:
            raise _too_many(len(found))
        object.__setattr__(self, "choices", found)
        object.__setattr__(self, "relation", relation)

    @classmethod
    def parallel(cls, parts: Iterable[Alternatives]) -> Alternatives:
        """Return the loss of uses on disjoint parts of the data, whatever was used on each part, adaptively or not.

        Guarantee:
            As `ParallelEvent`: for add-remove neighbours. All that is ever used on one partition is summed
            within its parts first; two partitions are two calls, whose results are added.

        Raises:
            InvalidParameter: no part, or events that hold for replaced units only.
        """
        parts = tuple(parts)
        if not parts:
            raise InvalidParameter("parts must be at least one loss.")
        for part in parts:
            common_relation(Relation.ADD_REMOVE, part.relation)
        return cls((choice for part in parts for choice in part.choices), Relation.ADD_REMOVE)

    def __iter__(self) -> Iterator[Composed]:
        return iter(self.choices)

    def __len__(self) -> int:
        return len(self.choices)

    def __add__(self, other: Alternatives) -> Alternatives:
        relation = common_relation(self.relation, other.relation)
        return Alternatives((a + b for a in self.choices for b in other.choices), relation)

    def __mul__(self, n: int) -> Alternatives:
        """Return the sum of n such losses, each of a partition of its own; on one partition multiply its parts."""
        left = count("count", n, least=0)
        if len(self.choices) == 1:
            return Alternatives((choice * left for choice in self.choices), self.relation)
        out, square = Alternatives([Composed()], self.relation), self
        while left:
            out = out + square if left & 1 else out
            left >>= 1
            square = square + square if left else square
        return out


def undominated(choices: Iterable[Composed]) -> frozenset[Composed]:
    """Those that no other one is seen to dominate.

    Raises:
        InvalidParameter: far more than `MOST` of them.
    """
    kept: list[Composed] = []
    for choice in sorted(dict.fromkeys(choices), key=_size, reverse=True):  # the large ones dominate
        if len(kept) > 2 * MOST:
            raise _too_many(len(kept))
        if any(dominates(other, choice) for other in kept):
            continue
        kept = [other for other in kept if not dominates(choice, other)]
        kept.append(choice)
    return frozenset(kept)


def dominates(larger: Composed, smaller: Composed) -> bool:
    """Return whether `larger` is seen to cost at least as much as `smaller`, at every ε and in both directions.

    A sufficient condition: common events cancel, Gaussian events count by the sum of their μ², and what is left of
    `smaller` is matched to events of `larger`, each to one of its own kind with parameters that are no less.

    References: docs/proofs/parallel.md, "Dominance"
    """
    over, under = Counter(dict(larger.parts)), Counter(dict(smaller.parts))
    over, under = over - under, under - over
    if not under or _covers_all(over, under):
        return True
    if _gaussian(over) < _gaussian(under):
        return False
    free = {event: n for event, n in over.items() if not isinstance(event, GaussianEvent)}
    for event, n in under.items():
        if isinstance(event, GaussianEvent):
            continue
        for other in free:
            used = min(n, free[other]) if _covers(other, event) else 0
            n, free[other] = n - used, free[other] - used
        if n:
            return False
    return True


def _too_many(n: int) -> InvalidParameter:
    return InvalidParameter(
        f"this loss has {n} alternatives or more, and at most {MOST} are supported.",
        hint="use fewer partitions, or the same event in each part of a partition",
    )


def _size(choice: Composed) -> Fraction:
    """About how much it costs; any order is sound."""
    return sum((event.rho * n for event, n in choice if event.rho is not None), Fraction(0))


def _covers(other: Event, event: Event) -> bool:
    """Return whether `other` dominates `event`, one by one."""
    match other, event:
        case LaplaceEvent(), LaplaceEvent():
            return other.ratio >= event.ratio
        case DiscreteLaplaceEvent(), DiscreteLaplaceEvent():
            return other.shift >= event.shift and other.scale <= event.scale
        case ZCDPEvent(), _:
            return event.rho is not None and not event.failure and event.rho <= other.rho
        case ApproximateEvent(), _:
            return event.pure is not None and event.pure <= other.epsilon and event.failure <= other.delta
        case _:
            return False


def _covers_all(over: Counter[Event], under: Counter[Event]) -> bool:
    """Return whether one event of `over` dominates all of `under` together, by a sum of ε and δ or of ρ."""
    pure = _sum((event.pure, n) for event, n in under.items())
    rho = _sum((event.rho, n) for event, n in under.items())
    failure = sum((event.failure * n for event, n in under.items()), Fraction(0))
    for other in over:
        match other:
            case ApproximateEvent(epsilon=e, delta=d):
                found = pure is not None and pure <= e and failure <= d
            case ZCDPEvent(rho=r):
                found = rho is not None and rho <= r and not failure
            case _:
                found = False
        if found:
            return True
    return False


def _gaussian(events: Counter[Event]) -> Fraction:
    return sum((e.mu_squared * n for e, n in events.items() if isinstance(e, GaussianEvent)), Fraction(0))


def _largest(values: Iterable[Fraction | None]) -> Fraction | None:
    known = list(values)
    found = [x for x in known if x is not None]
    return max(found) if len(found) == len(known) else None


def _sum(parts: Iterable[tuple[Fraction | None, int]]) -> Fraction | None:
    total = Fraction(0)
    for x, n in parts:
        if x is None:
            return None
        total += x * n
    return total
