"""Gaussian noise at each of several steps, each unit taking part in one of them, drawn uniformly.

Also known as balls and bins, or as an epoch of batches to which the records were assigned independently. It is
not an epoch of batches of fixed size from a shuffled data set: no useful bound is known for that one, and it
may lose far more than either Poisson samples or this (Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang
2024, *How private are DP-SGD implementations?*, https://arxiv.org/abs/2403.17673), so nothing is offered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from discreet.errors import InvalidParameter
from discreet.privacy.event import Event
from discreet.privacy.exact import above, count
from discreet.privacy.pair import Curve, Pair
from discreet.privacy.pairs.additive import GaussianPair
from discreet.privacy.unit import Relation

_MOST_STEPS = 1 << 20  # more steps hide a unit better, and are counted as this many
_MU = (1e-6, 12.0)  # outside of it the bound is that of one step alone
_SPACING = 1 / 40  # of the grids, in deviations
_FAR = 12.5  # deviations of the normal law that a grid covers; what is left out is added
_LARGEST = 700.0
_VALUES = 1e-12  # how far rounding may move the values of a law, relatively; ε is moved by it
_MASSES = 1e-12  # how far it may move the chances of one ratio, relatively
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class AllocationEvent(Event):
    """One pass of `steps` Gaussian uses, each unit in exactly one of them: `mu_squared_of_step` is the μ² of a use.

    Guarantee:
        It holds for adding or removing a unit. Each unit draws its step uniformly, independently of the data
        and of all other units, and the draws stay secret; a step may depend on the answers of those before.
        Passes compose when each draws anew. Batches of fixed size are not covered.

    References: Chua et al. 2024, *Balls-and-bins sampling for DP-SGD*, https://arxiv.org/abs/2412.16802, and
    Feldman, Shenfeld 2025, *Privacy amplification by random allocation*, https://arxiv.org/abs/2502.08202
    (the pair); proof of all that is claimed here: docs/proofs/allocation.md
    """

    mu_squared_of_step: Fraction
    steps: int
    relation: ClassVar[Relation] = Relation.ADD_REMOVE

    def __post_init__(self) -> None:
        if not isinstance(self.mu_squared_of_step, Fraction):
            raise InvalidParameter(
                f"mu_squared_of_step must be a Fraction, not {type(self.mu_squared_of_step).__name__}."
            )
        if self.mu_squared_of_step < 0:
            raise InvalidParameter(f"mu_squared_of_step must be at least 0, not {self.mu_squared_of_step}.")
        count("steps", self.steps)

    @property
    def pure(self) -> Fraction | None:
        return None if self.mu_squared_of_step else Fraction(0)

    @property
    def rho(self) -> Fraction:
        """μ²/2, that of the one use: which of the steps it is can only be forgotten."""
        return self.mu_squared_of_step / 2

    def pair(self) -> Pair:
        return AllocationPair(self.mu_squared_of_step, min(self.steps, _MOST_STEPS), True)


@dataclass(frozen=True, slots=True)
class AllocationPair(Pair):
    """((1/t)Σ N(μeᵢ, I), N(0, I)) when a unit is removed; the two swapped when one is added.

    The ratio W is a mean of t independent lognormal variables under N(0, I), and the curves are E(W − e^ε)₊
    and E(1 − e^ε W)₊. Both are convex in W, so they are computed for a law that spreads W on a grid.
    """

    mu_squared: Fraction
    steps: int
    removes: bool
    exact: ClassVar[bool] = False  # `delta` is that of a spread ratio

    def delta(self, epsilon: Curve) -> Curve:
        """Return the curve of the spread ratio, above the true one by about 1e-3 of ε; never above one use's."""
        alone = GaussianPair(self.mu_squared).delta(epsilon)
        mu = math.nextafter(math.sqrt(above(self.mu_squared)), math.inf)
        if self.steps == 1 or not _MU[0] <= mu <= _MU[1]:
            return alone
        ratio = _mean_ratio(mu, self.steps)
        near = np.clip(epsilon, -_LARGEST, _LARGEST)
        alpha = np.exp(near - _VALUES * (1 + np.abs(near)))  # a smaller ε has a larger δ
        found = ratio.above(alpha) if self.removes else alpha * ratio.below(1 / alpha)
        found = np.where(np.abs(epsilon) <= _LARGEST, found * (1 + 1e-11 + self.steps * _MASSES), 1.0)
        return np.minimum(np.maximum(found, -np.expm1(np.minimum(epsilon, 0.0))), alone)

    def reverse(self) -> Pair:
        """Return the same with the unit added instead of removed, or the reverse."""
        return AllocationPair(self.mu_squared, self.steps, not self.removes)

    @property
    def epsilon_max(self) -> float:
        return math.inf if self.mu_squared else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Spread:
    """A law on a grid that starts at 0, larger in convex order than the variable it stands for.

    `lost` is an expectation that was taken off values beyond the grid, which count as 0 instead.
    """

    at: Curve
    mass: Curve
    lost: float

    def above(self, x: Curve) -> Curve:
        """E(· − x)₊ and what was lost: an upper bound."""
        over = np.append(np.cumsum(self.mass[::-1])[::-1], 0.0)  # P(· ≥ at[i])
        area = np.append(np.cumsum((np.diff(self.at) * over[1:-1])[::-1])[::-1], 0.0)
        i = np.minimum(np.searchsorted(self.at, x, side="left"), self.at.size - 1)
        return np.asarray(area[i] + np.maximum(self.at[i] - x, 0.0) * over[i] + self.lost)

    def below(self, x: Curve) -> Curve:
        """E(x − ·)₊: an upper bound."""
        under = np.cumsum(self.mass)  # P(· ≤ at[i])
        area = np.append(0.0, np.cumsum(np.diff(self.at) * under[:-1]))
        i = np.maximum(np.searchsorted(self.at, x, side="right") - 1, 0)
        return np.asarray(area[i] + np.maximum(x - self.at[i], 0.0) * under[i])

    def plus(self, other: _Spread, grid: Curve) -> _Spread:
        """Return the law of the independent sum, spread on another grid."""
        mass, lost = np.zeros(grid.size), self.lost + other.lost
        rows = max(_BLOCK // other.at.size, 1)
        for k in range(0, self.at.size, rows):
            part = slice(k, k + rows)
            value = np.add.outer(self.at[part], other.at).ravel()
            chance = np.multiply.outer(self.mass[part], other.mass).ravel()
            i = np.searchsorted(grid, value, side="right") - 1
            beyond = i >= grid.size - 1
            lost += float(np.dot(value[beyond], chance[beyond]))
            chance_beyond = float(chance[beyond].sum())
            i, value, chance = i[~beyond], value[~beyond], chance[~beyond]
            share = (value - grid[i]) / (grid[i + 1] - grid[i])
            mass += np.bincount(i, chance * (1 - share), grid.size)
            mass += np.bincount(i + 1, chance * share, grid.size)
            mass[0] += chance_beyond
        return _Spread(grid, mass, lost)

    def over(self, n: int) -> _Spread:
        """Return the law of the variable divided by n."""
        return _Spread(self.at / n, self.mass, self.lost / n)


@lru_cache(maxsize=32)
def _mean_ratio(mu: float, steps: int) -> _Spread:
    """Return the mean of `steps` independent exp(μx − μ²/2), x normal, by doubling."""
    square, total, size, done = _one(mu), None, 1, 0
    while True:
        if steps & size:
            done += size
            total = square if total is None else total.plus(square, _grid(mu, done))
        if 2 * size > steps:
            assert total is not None
            return total.over(steps)
        size *= 2
        square = square.plus(square, _grid(mu, size))


def _one(mu: float) -> _Spread:
    """One ratio X = exp(μx − μ²/2), spread on its grid: between two points by its mass and its mean there."""
    from scipy.special import ndtr

    grid = _grid(mu, 1)
    z = np.log(grid[1:]) / mu + mu / 2  # X < grid where x < z; E[X; X < grid] = Φ(z − μ)
    chance = np.diff(_tails(z), prepend=[[0.0], [1.0]])
    share = np.diff(_tails(z - mu), prepend=[[0.0], [1.0]])
    # From the nearer end, so that no digits cancel in either tail.
    p = np.where(z < 0, chance[0], -chance[1])
    mean = np.where(z < mu, share[0], -share[1])
    width = np.diff(grid)
    up = np.clip((mean - grid[:-1] * p) / width, 0.0, p)
    mass = np.append(p - up, 0.0) + np.append(0.0, up)
    mass[0] += float(ndtr(-z[-1]))
    return _Spread(grid, mass, float(ndtr(mu - z[-1])))


def _tails(z: Curve) -> Curve:
    from scipy.special import ndtr

    return np.array([ndtr(z), ndtr(-z)])


def _grid(mu: float, n: int) -> Curve:
    """0, and points that are dense where a sum of n ratios is likely, each step small against what is near.

    Any grid is safe; this one is fine against the deviation near the mean and against the value elsewhere.
    """
    deviation, top = math.sqrt(n * math.expm1(mu * mu)), mu * (_FAR + mu) - mu * mu / 2
    # Bernstein's bound, of the same chance as `_FAR` deviations: 1 less a ratio is hardly ever above `short`.
    bottom, share = -mu * _FAR - mu * mu / 2, _FAR * _FAR / 2
    short = -math.expm1(bottom)
    below = short * share / 3 + math.sqrt((short * share / 3) ** 2 + 2 * share * deviation**2)
    least = max(n * math.exp(bottom), n - below)
    most = min(n + _FAR * deviation + math.expm1(top), n * math.exp(top))
    tail = np.geomspace(deviation / 100, most - n, 4000) if most - n > deviation / 100 else np.zeros(1)
    bulk = np.linspace(n - _FAR * deviation, n + _FAR * deviation, 4000)
    x = np.sort(np.concatenate((np.geomspace(least, most, 8000), n + tail, bulk)))
    x = x[(x >= least) & (x <= most)]
    # Equal steps in s, where ds = dx / min(deviation + μ(x − n)₊, μx).
    speed = 1 / np.minimum(deviation + mu * np.maximum(x - n, 0.0), mu * x)
    s = np.append(0.0, np.cumsum(np.diff(x) * (speed[1:] + speed[:-1]) / 2))
    points = np.interp(np.linspace(0.0, s[-1], math.ceil(s[-1] / _SPACING) + 1), s, x)
    return np.append(0.0, np.unique(points))
