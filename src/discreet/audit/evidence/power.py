"""Power of a test: which violations it would have found, and how many samples a smaller one would need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.audit.evidence.betting import Cuts, growth_rate
from discreet.audit.places import Floats

_MOST_RUNS = 0.8416  # the normal quantile of 80 %
_LEARNING = 0.3  # standard deviations that are lost by learning the event and by stepping in slices
_DOUBT = 2.0  # standard deviations by which rates are doubted when an event is chosen to judge power by
_OFTEN = 100  # times that it has happened
_GRID = np.geomspace(1e-6, 1.0, 600)
_FARTHEST = 40.0  # the largest ε that is looked for


@dataclass(frozen=True, slots=True)
class Unseen:
    """A violation that a test would have missed in most runs, and about what it would need.

    Attributes:
        epsilon, delta: the true promise.
        samples: of each neighbour.
        seconds: at the pace of the test.
    """

    epsilon: float
    delta: float
    samples: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Power:
    """Estimates, no bounds, for violations by an event like the best one that a test has found.

    A larger ε at the claimed δ keeps the event's chance under the neighbour that it favours, and makes it rarer under
    the other one. A larger δ at the claimed ε keeps the chance under the other one. A test finds what is "found in most
    runs" in about 80 % of them (docs/proofs/auditing.md, "What is an estimate only").

    Attributes:
        claimed: the promise (ε, δ) that is reported on.
        likely: the chance of the event under the neighbour that it favours; 1/2 where nothing told the two apart.
        error: of the wealth against the claim.
        tested: pairs that were bet on.
        drawn: outputs of each neighbour.
        taught: the most of them that only teach.
        pace: seconds that an output of each neighbour takes.
    """

    claimed: tuple[float, float]
    likely: float
    error: float
    tested: int
    drawn: int
    taught: int
    pace: float

    @property
    def epsilon(self) -> float:
        """The least ε at the claimed δ that would have been found in most runs; ∞ where none would."""
        claimed = self.claimed[0]
        grid = claimed + _GRID * (max(_FARTHEST, 2 * claimed) - claimed)
        return self._least(grid, *self._larger_epsilon(grid))

    @property
    def delta(self) -> float:
        """The least δ at the claimed ε that would have been found in most runs; ∞ where none would."""
        claimed = self.claimed[1]
        grid = claimed + _GRID * (1 - claimed)
        return self._least(grid, *self._larger_delta(grid))

    @property
    def unseen(self) -> tuple[Unseen, ...]:
        """Violations half as large as those that would have been found: one in δ, one in ε."""
        halves = [
            (claimed + least) / 2 for claimed, least in zip(self.claimed, (self.epsilon, self.delta), strict=True)
        ]
        return tuple(
            self.needs(**{name: half})
            for name, half in (("delta", halves[1]), ("epsilon", halves[0]))
            if half < math.inf
        )

    def needs(self, *, epsilon: float | None = None, delta: float | None = None) -> Unseen:
        """About how many samples of each neighbour, and seconds, would find a violation in most runs.

        Args:
            epsilon: the true ε at the claimed δ.
            delta: the true δ at the claimed ε, instead.

        >>> power = Power((1.0, 0.0), 0.5, 4e-4, 80_000, 100_000, 20_000, 1e-6)
        >>> needed = power.needs(epsilon=1.02)
        >>> round(needed.samples, -5), round(needed.seconds, 1)
        (300000.0, 0.3)
        """
        true = (epsilon or self.claimed[0], delta or self.claimed[1])
        larger = self._larger_epsilon if delta is None else self._larger_delta
        pairs = float(self._pairs(*larger(np.asarray([true[delta is not None]])))[0])
        samples = pairs + min(pairs * (self.drawn / max(self.tested, 1) - 1), self.taught)
        return Unseen(*true, samples, samples * self.pace)

    def _larger_epsilon(self, epsilons: Floats) -> tuple[Floats, Floats]:
        p = np.full(len(epsilons), self.likely)
        return p, (p - self.claimed[1]) * np.exp(-epsilons)

    def _larger_delta(self, deltas: Floats) -> tuple[Floats, Floats]:
        p = np.minimum(self.likely + deltas - self.claimed[1], 1.0)
        return p, (p - deltas) * math.exp(-self.claimed[0])

    def _pairs(self, p: Floats, q: Floats) -> Floats:
        """Pairs after which wealth that grows at the largest rate on such an event has refuted the claim."""
        from scipy.special import ndtri

        sure = float(-ndtri(self.error)) + _MOST_RUNS + _LEARNING
        with np.errstate(divide="ignore"):
            return np.asarray(sure**2 / 2 / growth_rate(p, q, *self.claimed))

    def _least(self, grid: Floats, p: Floats, q: Floats) -> float:
        seen = np.flatnonzero(self._pairs(p, q) <= self.tested)
        return float(grid[seen[0]]) if len(seen) else math.inf


def likeliest(past: Sequence[Cuts], delta: float) -> float:
    """Return the chance, under the neighbour that it favours, of the event that shows the largest ε at δ; 1/2 where
    none does.

    Rates are doubted, so that it is not that of an event with some lucky hits.
    """
    most, chance = 0.0, 0.5
    for cuts in past:
        likely, low, high = cuts.doubted(delta, _DOUBT)
        shown = np.log(np.maximum(low, 1e-300) / (high + _DOUBT**2 / (cuts.n + 1)))
        shown[likely * cuts.n < _OFTEN] = -math.inf
        best = int(np.argmax(shown))
        if shown[best] > most:
            most, chance = float(shown[best]), float(likely[best])
    return chance
