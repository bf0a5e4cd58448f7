"""Mechanisms as a run draws them: several times, at a price that was fixed before the first.

A law says what all its draws cost together (`events`) and begins a run of them (`start`). A law without memory is
charged for each draw; one with memory (a sparse vector, a tree over time) once for all, and its run ends by itself:
what comes after the end is None, a result like any other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import Additive
from discreet.mechanisms.selection import Selection
from discreet.mechanisms.sparse_vector import SparseVector
from discreet.mechanisms.streams.binary_tree import BinaryTree
from discreet.noise.entropy import Entropy
from discreet.privacy.event import Composed
from discreet.privacy.unit import Relation, Sensitivity

Exact: TypeAlias = NDArray[Any]
"""A vector of integers before the noise: int64, or Python integers where 64 bits may not hold them. Private."""

NextDraw: TypeAlias = Callable[[Exact], Any]
"""The noisy values of the exact ones; each call is a draw of one run."""


class DrawLaw(ABC):
    """A mechanism, as a run draws it."""

    __slots__ = ()

    @abstractmethod
    def events(self, moved: Sensitivity, times: int, relation: Relation) -> Composed:
        """Return what `times` draws cost together, each of a vector that one unit moves by at most `moved`.

        Raises:
            InvalidParameter: the mechanism was made for smaller moves, for fewer draws or for another relation.
        """

    @abstractmethod
    def start(self, rng: Entropy) -> NextDraw:
        """Begin a run of draws."""

    def secret(self, rng: Entropy) -> Any:
        """Return the part of the noise that the private code is handed with its arguments; None for most laws."""
        return None

    @property
    def remembers(self) -> bool:
        """Whether draws of one run share noise, so that they are charged once for all, and are never sampled."""
        return False

    @property
    def steps_of_a_unit(self) -> int | None:
        """In how many draws of a run a unit may count; None where it may count in all."""
        return None

    @property
    @abstractmethod
    def name(self) -> str:
        """The mechanism in words."""


@dataclass(frozen=True, slots=True)
class AddedNoise(DrawLaw):
    """Noise on every number of a vector, fresh in each draw.

    Guarantee:
        That of the noise for the moves given, once for each draw; the draws compose, also where a vector is
        chosen after the noisy ones before it.
    """

    noise: Additive

    def events(self, moved: Sensitivity, times: int, relation: Relation) -> Composed:
        return self.noise.event(moved) * times

    def start(self, rng: Entropy) -> NextDraw:
        noise = self.noise

        def draw(values: Exact) -> NDArray[Any]:
            noisy = noise.add(values.tolist(), rng)
            small = all(-(1 << 63) <= n < 1 << 63 for n in noisy)
            return np.array(noisy, np.int64 if small else object)

        return draw

    @property
    def name(self) -> str:
        return {
            "DiscreteLaplaceNoise": "discrete Laplace noise",
            "RoundedGaussianNoise": "Gaussian noise, rounded to whole numbers",
            "DiscreteGaussianNoise": "discrete Gaussian noise",
        }[type(self.noise).__name__]


@dataclass(frozen=True, slots=True)
class NamedBest(DrawLaw):
    """The place of a high one among several scores, named by the exponential mechanism or one like it.

    Guarantee:
        That of the selection, once for each draw, where one unit moves every score by at most its `sensitivity`.
    """

    selection: Selection

    def events(self, moved: Sensitivity, times: int, relation: Relation) -> Composed:
        if moved.linf > self.selection.sensitivity:
            raise InvalidParameter(
                f"one unit moves a score by up to {moved.linf}, and the selection is for {self.selection.sensitivity}.",
                hint=f"{type(self.selection).__name__}(epsilon=…, sensitivity={moved.linf})",
            )
        return self.selection.events * times

    def start(self, rng: Entropy) -> NextDraw:
        return lambda scores: self.selection.release(range(len(scores)), scores.tolist(), rng=rng)

    @property
    def name(self) -> str:
        return f"{type(self.selection).__name__} on scores"


@dataclass(frozen=True, slots=True)
class AboveOrBelow(DrawLaw):
    """Whether one number after another lies above a threshold, until so many did; then None.

    Guarantee:
        That of the sparse vector for a whole run, however long, where one unit moves every number by at most its
        `sensitivity`.
    """

    sparse: SparseVector

    def __post_init__(self) -> None:
        if self.sparse.answers is not None:
            raise InvalidParameter("a sparse vector that a recipe draws gives no numbers.", hint="leave answers= out")

    def events(self, moved: Sensitivity, times: int, relation: Relation) -> Composed:
        if moved.linf > self.sparse.sensitivity:
            raise InvalidParameter(
                f"one unit moves a number by up to {moved.linf}, and the sparse vector is for "
                f"{self.sparse.sensitivity}.",
                hint=f"SparseVector(epsilon=…, threshold=…, sensitivity={moved.linf})",
            )
        return self.sparse.events

    def start(self, rng: Entropy) -> NextDraw:
        run = self.sparse.start(rng=rng)
        return lambda values: None if run.halted else run.ask(int(values[0]))

    @property
    def remembers(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return "sparse vector"


@dataclass(frozen=True, slots=True)
class RunningTotals(DrawLaw):
    """The noisy sum of all numbers so far, after each of them, until the declared steps are over; then None.

    Guarantee:
        That of the tree for a whole run, where a unit counts in at most `contributions` draws and moves each of these
        by at most `sensitivity`: of parts of people the meter lets no more count.
    """

    tree: BinaryTree

    def events(self, moved: Sensitivity, times: int, relation: Relation) -> Composed:
        tree = self.tree
        # the tree doubles the move itself where a unit is replaced by another
        most = tree.sensitivity * (2 if relation is Relation.REPLACE else 1)
        if moved.linf > most or tree.relation is not relation:
            raise InvalidParameter(
                f"one unit moves a number by up to {moved.linf} under {relation.value}, and the tree is for {most} "
                f"under {tree.relation.value}.",
                hint="give the tree the sensitivity= and the relation= of the part",
            )
        return tree.events

    def start(self, rng: Entropy) -> NextDraw:
        run = self.tree.start(rng=rng)
        return lambda values: run.add(int(values[0])) if run.left else None

    @property
    def remembers(self) -> bool:
        return True

    @property
    def steps_of_a_unit(self) -> int | None:
        return self.tree.contributions

    @property
    def name(self) -> str:
        return "noisy sums over time"
