"""Mechanisms as a run draws them: several times, at a price that was fixed before the first.

A law says what all its draws cost together (`events`) and begins a run of them (`start`). A law without memory is
charged for each draw; one with memory (a sparse vector, a tree over time) once for all, and its run ends by itself:
what comes after the end is None, a result like any other.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.convert import gdp_epsilon
from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import Additive
from discreet.mechanisms.binary_tree import BinaryTree
from discreet.mechanisms.selection import Selection
from discreet.mechanisms.sparse_vector import SparseVector
from discreet.noise.entropy import Entropy
from discreet.privacy.event import ApproximateEvent, Composed
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


_SLACK = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class BestOfRuns(DrawLaw):
    """The result of the highest score of K runs, K geometric; its noise is that of the runs, which the code draws.

    Guarantee:
        (epsilon, delta)-DP, if the code makes independent runs, of which each is `run`-DP, or with delta `run`-zCDP; if
        after each it stops with chance 1/`runs`, whatever the runs gave; and if nothing leaves but the best result.

    References:
        Liu, Talwar 2019, Theorem 3.1; Papernot, Steinke 2022, Theorem 2, https://arxiv.org/abs/2110.03620.

    Attributes:
        epsilon, delta: of all.
        run: the ε of a run, or its ρ.
        runs: how many there are on average.
    """

    epsilon: Fraction
    delta: Fraction
    run: Fraction
    runs: int

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction, runs: int) -> BestOfRuns:
        """Return the law at this price, with the costliest runs that it has room for.

        Raises:
            InvalidParameter: there is no room.
        """
        if not delta:
            return cls(epsilon, delta, epsilon / 3, runs)
        low, high = 0.0, float(epsilon)
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if cost(middle, float(delta), runs) <= float(epsilon) * _SLACK else (low, middle)
        if not low:
            raise InvalidParameter("ε is too small for so many runs.", hint="a larger epsilon, or fewer runs=")
        return cls(epsilon, delta, Fraction(low * _SLACK), runs)

    def events(self, moved: Sensitivity, times: int, relation: Relation) -> Composed:
        if not (self.run > 0 and self.runs > 0 and 0 <= self.delta < 1 and self._least <= self.epsilon):
            raise InvalidParameter("the runs cost more than the best of them may.", hint="a smaller run")
        return Composed([ApproximateEvent(self.epsilon, self.delta)]) * times

    @property
    def _least(self) -> Fraction | float:
        """The ε of all."""
        return cost(float(self.run), float(self.delta), self.runs) if self.delta else 3 * self.run

    def secret(self, rng: Entropy) -> Any:
        """Return where the code's own randomness comes from."""
        return rng

    def start(self, rng: Entropy) -> NextDraw:
        return lambda values: values

    @property
    def name(self) -> str:
        each = f"ε = {float(self.run):.6g}"
        if self.delta:
            each = f"ε = {gdp_epsilon(2 * self.run, self.delta):.6g} (ρ = {float(self.run):.6g})"
        return f"noise of its own: the best of runs at {each} each, whose hidden number is {self.runs:,} on average"


def cost(rho: float, delta: float, runs: int) -> float:
    """Return the ε at δ of the best of a geometric number of runs, each of which is ρ-zCDP."""
    log = math.log(runs)
    inner = max(math.sqrt(log / rho), 1.0)  # the best λ' for 2(λ' − 1)ρ + 2·ln(1/γ)/λ'
    orders = 1 + np.exp(np.linspace(-6, 12, 4000))
    divergence = orders * rho + 2 * (inner - 1) * rho + 2 * log / inner + log / (orders - 1)
    # Canonne, Kamath, Steinke 2020, Proposition 12
    found = divergence + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return float(found.min())
