"""Whether outputs that one call gave together depend on each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.encoding import Encoder
from discreet.audit.outputs.sampling import Batch

Floats: TypeAlias = NDArray[np.float64]

_RARE = 1e-4
"""The chance by which independent outputs look dependent to one half of the calls; both halves have to."""
_FEWEST = 8  # calls in each half
_COLUMNS = 24


def depend(calls: Sequence[Batch]) -> bool:
    """Whether outputs of one call are more, or less, alike than those of different calls, beyond doubt.

    Args:
        calls: equally many outputs of each of several calls at one input.
    """
    half = len(calls) // 2
    if half < _FEWEST or len(calls[0]) < 2:
        return False
    width = len(calls[0])
    arrays = [call for call in calls if isinstance(call, np.ndarray)]
    every: Batch = (
        np.concatenate(arrays) if len(arrays) == len(calls) else [o for call in calls for o in call]
    )
    values = Encoder.learned(every, bits=False).encode(every).values[:, :_COLUMNS]
    rare = _RARE / max(values.shape[1], 1)
    for column in values.T:
        ranked = _ranks(column).reshape(len(calls), width)
        sides = [_side(part, rare) for part in (ranked[:half], ranked[half : 2 * half])]
        if sides[0] != 0 and sides[0] == sides[1]:
            return True
    return False


def _side(ranks: Floats, rare: float) -> int:
    """1 where calls differ too much, −1 where they differ too little, else 0.

    References: Kruskal, Wallis 1952, Use of ranks in one-criterion variance analysis.
    """
    from scipy.special import chdtr, chdtrc

    calls, width = ranks.shape
    off = ranks - ranks.mean()
    total = float((off**2).sum())
    if total == 0:
        return 0
    h = (ranks.size - 1) * width * float((off.mean(axis=1) ** 2).sum()) / total
    if chdtrc(calls - 1, h) < rare / 2:
        return 1
    return -1 if chdtr(calls - 1, h) < rare / 2 else 0


def _ranks(x: Floats) -> Floats:
    """Ranks, equal ones for equal values; NaN comes first."""
    clean = np.where(np.isnan(x), -np.inf, x)
    _, inverse, times = np.unique(clean, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    return np.asarray((last - (times - 1) / 2)[inverse.reshape(-1)], dtype=np.float64)
