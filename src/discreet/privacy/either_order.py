"""A use whose two laws may come in either order: which data set has which is not known, and may change."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from discreet.errors import InvalidParameter
from discreet.privacy.discrete_events import AtomsEvent
from discreet.privacy.event import Event
from discreet.privacy.pair import Pair
from discreet.privacy.pairs.largest import LargestPair
from discreet.privacy.unit import Relation


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
