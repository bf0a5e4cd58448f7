"""Where numbers belong among cuts: `numpy.searchsorted` for many numbers and few cuts, several times as fast."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Index = NDArray[np.uint8]

_CELLS = 8192
_CROWDED = 4  # cuts in one cell, beyond which bisection is as fast
_MANY = 4096  # numbers for which a table is worth its making
_FEW = 8  # cuts with each of which all numbers are compared
_BLOCK = 16_384  # numbers that stay in the cache


def places(cuts: Floats, x: Floats) -> NDArray[np.intp]:
    """For each number how many of the rising cuts are below it; 0 for what is no number.

    A table of equal cells tells where each begins among the cuts, and the few cuts in the same cell are compared. Cells
    are numbered by a function that does not fall, rounded or not, so that a cut in an earlier cell is below, one in a
    later cell is not, and the answer is exact.
    """
    if len(cuts) <= _FEW:
        return _above(cuts, x, 0).astype(np.intp)
    table = _table(cuts) if len(x) >= _MANY else None
    if table is None:
        found = np.searchsorted(cuts, x)
        found[np.isnan(x)] = 0
        return found
    first, steps, low, scale = table
    beyond = np.append(cuts, np.inf)
    found = np.empty(len(x), dtype=np.intp)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(x), _BLOCK):
            block = x[start : start + _BLOCK]
            place = first.take(_cells(block, low, scale), mode="clip")
            for _ in range(steps):
                place += beyond.take(place) < block
            found[start : start + _BLOCK] = place
    return found


def binned(cuts: Floats, x: Floats) -> Index:
    """One more than the place of each number, and 0 for what is no number; for fewer than 255 cuts."""
    found = _above(cuts, x, 1) if len(cuts) <= _FEW else (places(cuts, x) + 1).astype(np.uint8)
    found[np.isnan(x)] = 0
    return found


def _above(cuts: Floats, x: Floats, first: int) -> Index:
    """Return how many of a few cuts are below each number, counted from `first`."""
    found = np.full(len(x), first, dtype=np.uint8)
    for cut in cuts:
        found += x > cut
    return found


def _table(cuts: Floats) -> tuple[NDArray[np.int16], int, float, float] | None:
    """For each cell the cuts in cells before it, the most cuts in one cell, and what numbers the cells."""
    low = float(cuts[0])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scale = float(np.float64(_CELLS - 1) / (cuts[-1] - cuts[0]))
        if not (np.isfinite(scale) and scale > 0 and len(cuts) < 2**14):
            return None
        within = np.bincount(_cells(cuts, low, scale), minlength=_CELLS + 2)
    steps = int(within.max())
    if steps > _CROWDED:
        return None
    return (np.cumsum(within) - within).astype(np.int16), steps, low, scale


def _cells(x: Floats, low: float, scale: float) -> NDArray[np.int32]:
    """Return the cell of each number, from 0 for what is below all cuts; of what is no number, anything."""
    return np.clip((x - low) * scale, -1, _CELLS).astype(np.int32) + 1
