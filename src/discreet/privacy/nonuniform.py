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

_BLOCK = 64  # points whose sum is one product: this bounds the rounding of the sum
_TOGETHER = 1 << 15  # numbers of the factors that are worked on at once
_PRODUCT = 3 << 14  # multiplications in one product of matrices: with more, BLAS starts threads, which wait busily
PHASE = 12
"""Units of the phase y·p by which each term of `line_sums` may be off besides."""

_GRID = 24  # heights at which the size of the sum is measured


def line_sums(weight: Floats, point: Floats, step: float, count: int) -> Complex:
    """Σ w·(e^(i·y·p) − 1) at y = 0, step, …: count of them.

    With j = a·n + b and e^(i(s+t)) − 1 = (e^(is) − 1)(e^(it) − 1) + (e^(is) − 1) + (e^(it) − 1) all heights together
    are one product of two matrices; a small phase keeps its relative accuracy. `weight` is at least 0. The result is
    off by at most `summed` units of `line_sizes`, by `PHASE` units of Σ w·y·|p|, and by what the points are off.
    """
    n = max(math.isqrt(count), 1)
    rows = -(-count // n)
    out, rest = np.zeros((rows, n), dtype=np.complex128), np.zeros(n, dtype=np.complex128)
    if count > 1:
        width = min(_BLOCK, max(point.size, 1))
        short = -point.size % width
        p, w = np.append(point, np.zeros(short)), np.append(weight, np.zeros(short))
        few, some = max(math.isqrt(n), 1), max(math.isqrt(rows), 1)
        first = _sines(np.multiply.outer(step * np.array([1, few, n, n * some]), p))
        chunk = max(_TOGETHER // (width * (n + rows)), 1) * width
        parts = min(-(-rows * n * width // _PRODUCT), max(rows // 2, 1))
        ends = [rows * i // parts for i in range(parts + 1)]
        for i in range(0, p.size, chunk):
            base, mass = first[:, i : i + chunk], w[i : i + chunk]
            inner = _turned(base[0], base[1], few, n)
            inner[0] = 1.0  # e^0 − 1 is 0: in its place the sums of the other factor come out
            across = inner.reshape(n, -1, width).transpose(1, 2, 0)
            outer = _turned(base[2], base[3], some, rows, mass).reshape(rows, -1, width).transpose(1, 0, 2)
            for j, k in pairwise(ends):
                out[j:k] += np.matmul(outer[:, j:k], across).sum(axis=0)
            # In two rows: BLAS starts threads for one, as a vector.
            alone = np.repeat(mass.reshape(-1, 1, width), 2, axis=1) + 0j
            rest += np.matmul(alone, across).sum(axis=0)[0]
        rest[0] = 0.0
        out[:, 1:] += out[:, :1]
        out += rest
    return np.asarray(out.ravel()[:count])


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
    grid = np.append(0.0, y[-1] * _SHARES)
    grid[-1] = y[-1]
    sizes = np.einsum("gp,p->g", np.minimum(np.multiply.outer(3 * grid, np.abs(point)), 8.0), weight)
    return np.asarray(sizes[np.minimum(np.searchsorted(grid, y), _GRID)])


def _turned(near: Complex, far: Complex, few: int, count: int, mass: Floats | float = 1.0) -> Complex:
    """`mass` times e^(ijt) − 1 for j = 0, 1, …, count of them, from e^(it) − 1 and e^(i·few·t) − 1."""
    groups = -(-count // few)
    one, two = _doubled(near, few), _doubled(far, groups)
    two *= mass
    whole = np.multiply(two[:, None], one + 1)
    whole += one * mass
    return np.asarray(whole.reshape(groups * few, -1)[:count])


def _doubled(first: Complex, count: int) -> Complex:
    """e^(ijt) − 1 for j = 0, 1, …, count of them, from e^(it) − 1."""
    out = np.zeros((count, first.size), dtype=np.complex128)
    out[1:2] = first
    k = 1
    while k + 1 < count:  # from the first k the next k
        known = out[1 : min(k, count - k - 1) + 1]
        np.multiply(known + 1, out[k], out=out[k + 1 : k + 1 + len(known)])
        out[k + 1 : k + 1 + len(known)] += known
        k *= 2
    return out


def _sines(turn: Floats) -> Complex:
    """e^(i·turn) − 1."""
    out = np.empty(turn.shape, dtype=np.complex128)
    half = np.sin(turn / 2)
    out.real = -2 * half * half
    out.imag = np.sin(turn)
    return out


_SHARES = np.geomspace(1e-4, 1.0, _GRID)
