"""An interval for a quantile near which a cell was named: edges about the cell, and a test of the rank at each.

An edge x lies between the cells x − 1 and x. Noisy counts of the parts between edges give each edge a noisy rank. The
interval ends at the edges whose ranks are surely too low and too high; where these lie decides how wide it is, and has
no say in how often it holds the quantile.

Guarantee:
    All of it is computed from what was named and from noisy counts, and is post-processing. The interval holds the
    quantile with probability at least `confidence`, for every table and all edges that do not depend on the noise of
    the counts (docs/proofs/exponential-quantile.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.additive import Additive
from discreet.mechanisms.rank_error import rank_error

REACHES = (2.8, 3.6, 5.0, 8.0)
"""How many rows from the named cell the edges on each side aim to be, in multiples of 1/rate: by trial."""

EDGES = len(REACHES) + 1
"""How many edges there are on each side at most: those, and one where that side surely has many rows."""

_MOST = 10**200  # a noisy count beyond it counts as this much, so that its products stay floats
_CLEAR = 4.5  # standard deviations from which on a density on both sides is taken as known
_SEEN = 3.0  # and one on a single side
_APART = 4.0  # by so many deviations the two sides differ, before each has a density of its own
_GAP = 14  # times the first edge's distance: if all seen of a side lies further, edges lie evenly on the way there


def doubling(cell: int, cells: int) -> list[int]:
    """Edges at distances 1, 2, 4, … on both sides of a cell, those of a grid of so many cells."""
    far = [1 << k for k in range(cells.bit_length())]
    return [x for x in (*(cell + 1 - d for d in reversed(far)), *(cell + d for d in far)) if 0 < x < cells]


def edges_about(cell: int, cells: int, noisy: Sequence[int], noise: Additive, unit: float) -> list[int]:
    """Edges some multiples of `unit` rows away from the cell, as the noisy counts between `doubling` edges say.

    The rows are taken to lie evenly up to the nearest distance at which noise is a small part of the count, on both
    sides alike unless they clearly differ. One more edge on each side lies where that side surely has many rows; where
    that is much further than rows that lie evenly would be, the cell is in a gap, and all others lie on the way there.
    """
    ends = np.array([0, *doubling(cell, cells), cells], dtype=np.float64)
    middle = int(np.searchsorted(ends, cell, side="right")) - 1
    counts = np.array([float(max(min(n, _MOST), -_MOST)) for n in noisy])
    widths = np.diff(ends)
    sides = [(counts[middle::-1], widths[middle::-1]), (counts[middle:], widths[middle:])]
    length = max(len(n) for n, _ in sides)
    both = np.sum([[np.pad(x, (0, length - len(x))) for x in side] for side in sides], axis=0)
    deviation = max(math.sqrt(noise.variance), 1e-6)  # so that no noise at all divides by nothing
    near, common, clear = _density(both[0], both[1], math.sqrt(2) * deviation, _CLEAR)
    found = set[int]()
    for (n, width), sign in zip(sides, (-1, 1), strict=True):
        own, density = min(near, len(n) - 1), common
        alone, error = _fit(n, width, deviation)
        if clear and abs(alone[own] - common) > _APART * error[own]:
            _, density, _ = _density(n, width, deviation, _SEEN)
        last, _, _ = _density(n[1:], width[1:], deviation, _SEEN) if len(n) > 1 else (-1, 0.0, False)
        wanted = [reach * unit / density if density > 0 else math.inf for reach in REACHES]
        far = float(np.sum(width[: last + 2]))
        if far > _GAP * wanted[0]:
            wanted = [wanted[0] * (far / wanted[0]) ** (k / len(REACHES)) for k in range(EDGES)]
        else:
            wanted.append(max(far, 1.3 * wanted[-1]))
        distance = 0
        for d in wanted:
            distance = max(distance + 1, math.ceil(min(d, cells)))
            found.add(cell + distance if sign > 0 else cell + 1 - distance)
    return sorted(x for x in found if 0 < x < cells)


def _fit(
    counts: NDArray[np.float64], widths: NDArray[np.float64], deviation: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By least squares the density up to each distance, and its standard deviation."""
    size = np.cumsum(widths * widths)
    return np.cumsum(counts * widths) / size, deviation / np.sqrt(size)


def _density(
    counts: NDArray[np.float64], widths: NDArray[np.float64], deviation: float, clear: float
) -> tuple[int, float, bool]:
    """The nearest distance at which the density is so many deviations above 0, it, and whether there is one: else that
    at which it is the most above.
    """
    density, error = _fit(counts, widths, deviation)
    ratio = density / error
    enough = np.flatnonzero(ratio >= clear)
    at = int(enough[0]) if len(enough) else int(np.argmax(ratio))
    return at, float(density[at]), bool(len(enough))


def between(
    edges: Sequence[int],
    noisy: Sequence[int],
    noise: Additive,
    p: Fraction,
    slack: Fraction,
    cells: int,
    level: Fraction,
) -> tuple[int, int]:
    """The first and the last cell in which the quantile lies with probability `level`.

    From the left, edges are passed while the rank of each is too low for a quantile to its left: a quantile is cut off
    only where noise takes the rank of the first edge to its right that far, one test for each side.
    """
    before, total = list(accumulate(noisy)), sum(noisy)
    low, high = 0, cells

    def reach(left: int) -> float:
        return rank_error(noise, ((1 - p, left), (p, len(noisy) - left)), level) + float(slack)

    ranks = [(x, n - p * total, i + 1) for i, (x, n) in enumerate(zip(edges, before, strict=False))]
    for x, rank, left in ranks:
        if rank >= -reach(left):
            break
        low = x
    for x, rank, left in reversed(ranks):
        if rank <= reach(left):
            break
        high = x
    return low, high - 1
