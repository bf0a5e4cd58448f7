"""Fourier sums of arbitrary points at equally spaced heights, without losing the small ones.

Proof of the error bound: docs/proofs/contour.md
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Complex: TypeAlias = NDArray[np.complex128]
Floats: TypeAlias = NDArray[np.float64]

_BLOCK = 64  # points whose sum is one product: this bounds the rounding of the sum, and memory
_PRODUCT = (
    3 << 14
)  # multiplications in one product of matrices: with more, BLAS starts threads, which wait busily
_GRID = 24  # heights at which the size of the sum is measured


def line_sums(weight: Floats, point: Floats, step: float, count: int) -> Complex:
    """Σ w·(e^(i·y·p) − 1) at y = 0, step, …: count of them.

    With j = a·n + b and e^(i(s+t)) − 1 = (e^(is) − 1)(e^(it) − 1) + (e^(is) − 1) + (e^(it) − 1) all heights
    together are one product of two matrices; a small phase keeps its relative accuracy. `weight` is at least 0.
    The result is off by at most `summed` units of `line_sizes`, and by what the phases y·p are off.
    """
    n = max(math.isqrt(count), 1)
    rows = -(-count // n)
    out = np.zeros((rows + 1, n), dtype=np.complex128)
    parts = min(-(-(rows + 1) * n * _BLOCK // _PRODUCT), (rows + 1) // 2)
    ends = [(rows + 1) * i // parts for i in range(parts + 1)]
    if count > 1:
        for i in range(0, point.size, _BLOCK):
            part, w = point[i : i + _BLOCK], weight[i : i + _BLOCK]
            outer = _turned(np.multiply.outer(step * n * np.arange(rows), part))
            grown = np.concatenate([outer * w, w[None]])
            inner = _turned(np.multiply.outer(step * np.arange(n), part)).T
            for j, k in pairwise(ends):
                out[j:k] += grown[j:k] @ inner
            out[:rows] += grown[:rows].sum(axis=1)[:, None]
        out[:rows] += out[rows]
    return np.asarray(out[:rows].ravel()[:count])


def dot(one: Floats, other: Floats) -> float:
    """Σ a·b, not by BLAS."""
    return float(np.einsum("i,i->", one, other))


def summed(points: int) -> int:
    """Units of `line_sizes` by which `line_sums` of so many points may be off."""
    return min(_BLOCK, points) + -(-points // _BLOCK) + 16


def line_sizes(weight: Floats, point: Floats, y: Floats) -> Floats:
    """Upper bounds, at rising heights y, of Σ w·min(3·y·|p|, 8): of the sizes that `line_sums` adds up."""
    if y[-1] == 0:
        return np.zeros(y.size)
    far = np.abs(point)
    grid = np.append(0.0, y[-1] * np.geomspace(1e-4, 1.0, _GRID))
    grid[-1] = y[-1]
    sizes = np.array([dot(np.minimum(3 * at * far, 8.0), weight) for at in grid])
    return np.asarray(sizes[np.minimum(np.searchsorted(grid, y), _GRID)])


def _turned(turn: Floats) -> Complex:
    """e^(i·turn) − 1."""
    out = np.empty(turn.shape, dtype=np.complex128)
    half = np.sin(turn / 2)
    out.real = -2 * half * half
    out.imag = np.sin(turn)
    return out
