"""Samples of people: who counts in each of a run's draws, drawn secretly, and what that makes of their price.

A sample is of people, never of rows: the theorems amplify the privacy of whoever may be left out whole. It is drawn
where the exact numbers are, by exact chances, is used for one draw and shown to nobody.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError, InvalidParameter
from discreet.noise.bernoulli import bernoulli
from discreet.noise.entropy import Entropy, below_vector, words64
from discreet.privacy.allocation import AllocationEvent
from discreet.privacy.event import Composed, Event
from discreet.privacy.exact import Real, count, exact
from discreet.privacy.sampling import FixedSizeEvent, PoissonEvent
from discreet.privacy.unit import Relation

Places: TypeAlias = "NDArray[np.int64]"
"""The places of the people who are in a sample, in order. Private."""


class Sampling(ABC):
    """How the people of each draw are sampled.

    Attributes:
        relation: the only one for which its theorem holds.
    """

    __slots__ = ()

    relation: ClassVar[Relation]

    @abstractmethod
    def events(self, one: Composed, times: int) -> Composed:
        """Return what `times` draws cost, of which each costs `one` for those who are in its sample.

        Raises:
            InvalidParameter: a scheme that is not defined for such draws.
        """

    @abstractmethod
    def start(self, people: int, rng: Entropy) -> Iterator[Places]:
        """Begin a run: one sample for each draw, of so many people. Private."""


@dataclass(frozen=True, slots=True)
class PoissonSampling(Sampling):
    """Each person is in each sample with chance `rate`, independently.

    Guarantee:
        That of `PoissonEvent` for each draw, under add-remove (docs/proofs/sampling.md).
    """

    rate: Fraction
    relation: ClassVar[Relation] = Relation.ADD_REMOVE

    def __post_init__(self) -> None:
        if not 0 < exact("rate", self.rate) < 1:
            raise InvalidParameter(f"rate must lie between 0 and 1, not {self.rate}.")

    @classmethod
    def at(cls, rate: Real) -> PoissonSampling:
        """Return the scheme with this rate, read exactly."""
        return cls(exact("rate", rate))

    def events(self, one: Composed, times: int) -> Composed:
        return Composed([(PoissonEvent(_single(one), self.rate), times)])

    def start(self, people: int, rng: Entropy) -> Iterator[Places]:
        p, q = self.rate.numerator, self.rate.denominator
        for _ in repeat(None):
            if q < 1 << 62:
                yield np.flatnonzero(below_vector(q, people, rng) < p)
            else:
                yield np.flatnonzero([bernoulli(self.rate, rng) for _ in range(people)])


@dataclass(frozen=True, slots=True)
class FixedSizeSampling(Sampling):
    """So many of `population` people are in each sample, every set of them with one chance.

    Guarantee:
        That of `FixedSizeEvent` for each draw, under replace, where no more people than `population` have rows
        (docs/proofs/fixed-size.md): the owner vouches for it. Whoever has none takes an empty place, so that the size
        of the sample says nothing of who has.
    """

    size: int
    population: int
    relation: ClassVar[Relation] = Relation.REPLACE

    def __post_init__(self) -> None:
        if not 0 < count("size", self.size) < count("population", self.population):
            raise InvalidParameter(
                f"size must lie below population = {self.population}, not {self.size}.",
                hint="without sampling= everybody is in every draw",
            )

    def events(self, one: Composed, times: int) -> Composed:
        return Composed([(FixedSizeEvent(_single(one), self.size, self.population), times)])

    def start(self, people: int, rng: Entropy) -> Iterator[Places]:
        if people > self.population:
            raise InternalError(
                "There are more people than the declared population, so that a sample of fixed size would protect "
                "them less than was said. The charge stands.",
                hint="declare the true number of people",
            )
        for _ in repeat(None):
            chosen = _subset(self.size, self.population, rng)
            yield chosen[chosen < people]


@dataclass(frozen=True, slots=True)
class OneOfSteps(Sampling):
    """Each person is in one of `steps` draws, drawn uniformly: one pass over the people.

    Guarantee:
        That of `AllocationEvent` for each whole pass, under add-remove and for Gaussian noise
        (docs/proofs/allocation.md). Each pass draws anew.
    """

    steps: int
    relation: ClassVar[Relation] = Relation.ADD_REMOVE

    def __post_init__(self) -> None:
        if count("steps", self.steps) < 2:
            raise InvalidParameter("steps must be at least 2: in one step everybody takes part.")

    def events(self, one: Composed, times: int) -> Composed:
        event = _single(one)
        if event.mu_squared is None or event.mu_squared <= 0:
            raise InvalidParameter(
                "a pass in which each person takes one step is accounted for Gaussian noise alone.",
                hint="take RoundedGaussianNoise, or PoissonSampling",
            )
        if times % self.steps:
            raise InvalidParameter(
                f"{times} draws are no whole passes of {self.steps} steps.",
                hint=f"times={self.steps * (times // self.steps + 1)}",
            )
        return Composed([(AllocationEvent(event.mu_squared, self.steps), times // self.steps)])

    def start(self, people: int, rng: Entropy) -> Iterator[Places]:
        for _ in repeat(None):
            step_of = below_vector(self.steps, people, rng)
            for step in range(self.steps):
                yield np.flatnonzero(step_of == step)


def _single(one: Composed) -> Event:
    """Return the one event that a draw costs.

    Raises:
        InvalidParameter: it costs several, or nothing.
    """
    if [n for _, n in one] != [1]:
        raise InvalidParameter(
            "a draw on a sample must be one use of a mechanism.",
            hint="take RoundedGaussianNoise, whose cost for a whole vector is one event; or leave sampling= out",
        )
    ((event, _),) = one
    return event


def _subset(size: int, of: int, rng: Entropy) -> Places:
    """Return the places of a uniform subset, in order: those of the least of `of` distinct random words."""
    while True:
        words = words64(rng, of)
        chosen = np.argpartition(words, size - 1)[:size]
        # a tie between the last that is in and the first that is out would favour one of them: drawn again
        if np.count_nonzero(words <= words[chosen].max()) == size:
            return np.sort(chosen).astype(np.int64)
