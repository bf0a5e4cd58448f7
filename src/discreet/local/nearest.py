"""How near the nearest of many random directions are to a given one: what PrivUnit's estimates are divided by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_PANELS, _NODES = 48, 16
_FAR = 14.0  # deviations, beyond which a normal has no mass that floats see
_GRID = 3001
_ENOUGH = 8  # so many nearest ones, and little is lost
_FEWEST = 16
_MOST = 1 << 12


@dataclass(frozen=True, slots=True)
class Closeness:
    """Of the reported direction U, for a unit vector x.

    Attributes:
        mean: E⟨U, x⟩.
        square: E⟨U, x⟩².
    """

    mean: float
    square: float


def closeness(pairs: int, nearest: int, chance: Fraction, dimension: int) -> Closeness:
    """For `pairs` of opposite uniform directions: one of the `nearest` with this chance, else one of the others.

    With T = |⟨u, x⟩| for uniform u, of which `pairs` are drawn, the nearest ones have
    Σ E g(T) = pairs·E[g(T)·P(fewer than `nearest` others are larger)]; with t = sin φ the density of T is
    proportional to cos^(d−2) φ in φ.
    """
    from scipy.special import bdtr, betainc

    d = dimension
    phi, weights = _quadrature(min(math.pi / 2, _FAR / math.sqrt(d)))
    log_density = math.lgamma(d / 2) - math.lgamma((d - 1) / 2) - math.log(math.pi) / 2 + math.log(2)
    mass = weights * np.exp(log_density + (d - 2) * np.log(np.cos(phi)))
    larger = betainc((d - 1) / 2, 0.5, np.cos(phi) ** 2)
    among = pairs * mass * (bdtr(nearest - 1, pairs - 1, larger) if nearest < pairs else 1.0)
    t = np.sin(phi)
    near, near_square = float(among @ t) / nearest, float(among @ (t * t)) / nearest
    others, p = 2 * pairs - nearest, float(chance)
    # all directions together sum to 0, and their squares to 2·pairs/d
    mean = p * near - (1 - p) * near * nearest / others
    square = p * near_square + (1 - p) * (2 * pairs / d - nearest * near_square) / others
    return Closeness(mean, square)


@lru_cache(maxsize=64)
def best_numbers(epsilon: Fraction, dimension: int) -> tuple[int, int]:
    """(pairs, nearest): the fewest pairs, a power of two, for which the best number of nearest ones is some."""
    pairs = _FEWEST
    while True:
        nearest = best_nearest(epsilon, pairs, dimension)
        if nearest >= _ENOUGH or pairs >= _MOST:
            return pairs, nearest
        pairs *= 2


def best_nearest(epsilon: Fraction, pairs: int, dimension: int) -> int:
    """The number of nearest ones that brings the reported direction nearest to the vector.

    On a grid, by numpy alone, since devices need it; only the variance depends on how good it is.
    """
    phi = np.linspace(0, min(math.pi / 2, _FAR / math.sqrt(dimension)), _GRID)
    with np.errstate(divide="ignore"):
        mass = (
            np.exp((dimension - 2) * np.log(np.maximum(np.cos(phi), 0.0)))
            if dimension > 2
            else np.ones(_GRID)
        )
        mass /= mass.sum()
        below = np.clip(np.cumsum(mass) - mass / 2, 1e-300, 1 - 2.0**-53)
        log_larger, log_smaller = np.log(1 - below), np.log(below)
    t = np.sin(phi)
    odds, total, best, found = math.exp(min(float(epsilon), 700.0)), 0.0, -math.inf, 1
    for k in range(1, pairs + 1):
        ways = math.lgamma(pairs + 1) - math.lgamma(k) - math.lgamma(pairs - k + 1)
        total += float((t * mass) @ np.exp(ways + (k - 1) * log_larger + (pairs - k) * log_smaller))
        others = 2 * pairs - k
        p = k * odds / (k * odds + others)
        mean = total / k * (p - (1 - p) * k / others)
        if mean > best:
            best, found = mean, k
        elif k > 2 * found + 8:
            break
    return found


@lru_cache(maxsize=16)
def _quadrature(end: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of Gauss and Legendre on panels of [0, end]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    width = end / _PANELS
    starts = np.arange(_PANELS)[:, None] * width
    return (starts + (nodes + 1) * width / 2).ravel(), np.tile(weights * width / 2, _PANELS)
