"""An interval for a quantile near which a cell was named: edges about the cell, and a test of the rank at each.

An edge x lies between the cells x − 1 and x. Noisy counts of the parts between edges give each edge a noisy rank. The
interval ends at the edges whose ranks are surely too low and too high; where these lie decides how wide it is, and has
no say in how often it holds the quantile.

Guarantee:
    All of it is computed from what was named and from noisy counts, and is post-processing. The interval holds the
    quantile with probability at least `confidence`, for every table and all edges that do not depend on the noise of
    the counts (docs/proofs/exponential-quantile.md).

How far the noise of a rank reaches: a rank is a sum of noisy nodes, all with noise of one law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.additive import Additive

REACHES = (2.8, 3.6, 5.0, 8.0)
"""How many rows from the named cell the edges on each side aim to be, in multiples of 1/rate: by trial."""

EDGES = len(REACHES) + 1
"""How many edges there are on each side at most: those, and one where that side surely has many rows."""

_MOST = 10**200  # a noisy count beyond it counts as this much, so that its products stay floats
_CLEAR = 4.5  # standard deviations from which on a density on both sides is taken as known
_SEEN = 3.0  # and one on a single side
_APART = 4.0  # by so many deviations the two sides differ, before each has a density of its own
_GAP = 14  # times the first edge's distance: if all seen of a side lies further, edges lie evenly on the way there

Weights: TypeAlias = tuple[tuple[Fraction, int], ...]
"""(size of a coefficient, how many independent noises have it)."""


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
    """Return the nearest distance at which the density is so many deviations above 0, it, and whether there is one:
    else that at which it is the most above.
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
    """Return the first and the last cell in which the quantile lies with probability `level`.

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


@lru_cache(maxsize=1 << 14)
def rank_error(noise: Additive, weights: Weights, confidence: Fraction) -> float:
    """Return a t with P(|Σ aᵢ Zᵢ| ≤ t) ≥ confidence for independent noises Zᵢ of one law; at most about 3 % above the
    least.

    Guarantee:
        Each aᵢZᵢ is moved to the middle of a cell, by half a cell at most, so that the sum moves by at most half a cell
        for each term, which is added to t. The sum of the moved terms is convolved on a circle; what is beyond it, or
        wraps around it, is less than what is taken off and counts as outside (docs/proofs/quantile-trees.md).
    """
    terms = [(max(float(a), _LEAST), n) for a, n in weights if a and n]
    count = sum(n for _, n in terms)
    if not count:
        return 0.0
    deviation = math.sqrt(sum(n * a * a for a, n in terms) * noise.variance)
    alone = noise.quantile(1 - (1 - confidence) / count)  # all terms are within it at once
    surely = sum(n * a for a, n in terms) * alone
    reach, furthest, beyond = _NEAR if 1 - confidence >= _OFTEN else _FAR
    if 1 - confidence <= 4 * beyond or deviation < _STILL or alone == 0:
        return surely
    step = deviation / (_CELLS * count)
    size = -(-2 * math.ceil(reach * _stretch(deviation)) * _CELLS * count // _ROUND) * _ROUND
    k = np.arange(-(size // 2), size // 2 + 1, dtype=np.float64)
    spectrum = np.ones(size // 2 + 1)
    for a, n in terms:
        mass = np.fft.ifftshift(np.diff(noise.cdf((k - 0.5) * (step / a))))
        spectrum = spectrum * np.fft.rfft(mass).real ** n  # a symmetric law has a real transform
    law = np.fft.irfft(spectrum, size)
    inside = law[0] + np.concatenate(([0.0], 2 * np.cumsum(law[1 : size // 2])))
    enough = np.flatnonzero(inside >= float(confidence) + 2 * beyond)
    if not len(enough) or enough[0] > furthest * _CELLS * count:
        return surely
    return min(surely, (int(enough[0]) + count / 2 + 0.5) * step)


def _stretch(deviation: float) -> float:
    """√κ: how much further than Laplace's a sum of small integers with this deviation may reach."""
    rate = deviation**-2
    if rate < 1e-6:
        return 1.0  # κ is below 1 + 1e-6
    return math.sqrt(2 * rate) / math.acosh(1 + rate)


_CELLS = 25  # of a standard deviation, for each term
_OFTEN = Fraction(1, 10_000)
# Half the circle in standard deviations, the furthest t that is believed, and a bound on what wraps around
# (docs/proofs/quantile-trees.md): P(|S| > x) ≤ 2 min over u of exp(−√2 x u)/(1 − u²), with x twice the first less the
# second.
_NEAR = (12, 8, 1e-8)
_FAR = (20, 12, 1e-11)
_ROUND = 256  # sizes with small factors transform fast
_LEAST = 1e-250  # a smaller coefficient counts as this much, so that what is divided by it stays a float
_STILL = 1e-3  # noise with a deviation below this is 0 but once in a million times
