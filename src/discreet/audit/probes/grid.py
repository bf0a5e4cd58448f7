"""The grid on which outputs lie, if any, as their lowest bits show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.audit.outputs.derived import lowest_bit
from discreet.audit.probes.contrast import OutputNumbers

_ENOUGH = 50  # outputs of one size; all of them are even multiples by a chance of 2^-50
_SPARE = 8  # bits of a float that are used by chance only


@dataclass(frozen=True, slots=True)
class Seen:
    """What the lowest bits of some outputs say.

    Attributes:
        exponent: all outputs are multiples of 2^exponent.
        relative: whether smaller outputs have finer bits, so that there is no grid beside that of floats.
        coarse: whether outputs repeat so much that they lie on a coarse grid, of whatever step.
        rounded: whether the grid is as fine as floats of that size can be: it may be finer in truth.
    """

    exponent: int
    relative: bool
    coarse: bool
    rounded: bool


def grid_of(sample: OutputNumbers, x: Any) -> Seen | None:
    """The grid of the outputs at one input x; None where fewer than fifty of them are finite."""
    values = sample.values[np.isfinite(sample.values)]
    away = values[values != 0]
    if len(values) < _ENOUGH:
        return None
    if not len(away):
        return Seen(0, False, True, False)
    low = lowest_bit(away).astype(np.int64)
    size = np.frexp(away)[1].astype(np.int64) - 1
    exponent = int(low.min())
    # distinct outputs become rarer the more there are on a grid; half of them is far from what continuous noise gives
    coarse = len(np.unique(values)) <= len(values) / 2
    sizes = [(int(s), int(low[size == s].min())) for s in np.unique(size) if (size == s).sum() >= _ENOUGH]
    finest = [s for s, bits in sizes if s - bits >= sample.bits - 1 - _SPARE]
    rises = len(sizes) >= 3 and sizes[-1][1] - sizes[0][1] >= (sizes[-1][0] - sizes[0][0]) / 2
    # On a grid, small outputs leave bits unused; where even the smallest use them all, there is none.
    relative = not coarse and bool(finest) and rises
    rounded = bool((size - low >= sample.bits - 1 - _SPARE).any())
    return Seen(exponent, relative, coarse, rounded)
