"""Grids on which real numbers are read when a mechanism is judged by its law and not by its floats' bits."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

_QUANTILES = 64  # parts into which the distinct values of a column are cut
_FINER = 10  # bits by which the step is finer than the smallest of those parts
_PRECISION = 47  # bits below the largest of the cuts that a step may be: a cell there holds 64 floats
_LOOKED_AT = 8192  # values from which the step is chosen
_WHOLE = 2.0**53  # from here on all floats are whole
_SHIFT = 0.381966011250105  # (3 − √5)/2: cells begin where no multiple of a power of two or ten is near


def is_real(values: Floats) -> bool:
    """Return whether one of these floats is no whole number, or so large that all floats are whole there."""
    finite = values[np.isfinite(values)]
    return bool(np.any((np.floor(finite) != finite) | (np.abs(finite) >= _WHOLE)))


def step_of(values: Floats) -> float:
    """Return the step of a column's grid, a power of two chosen from the law of these values alone.

    Much finer than the values' spread, so that nothing of the law is lost; much coarser than the floats of their size,
    so that each cell holds many floats and the bits are lost.
    """
    finite = values[np.isfinite(values)]
    some = np.unique(finite[:: len(finite) // _LOOKED_AT + 1])
    cuts = np.quantile(some, np.linspace(0, 1, _QUANTILES + 1), method="nearest")
    largest = max(float(np.max(np.abs(cuts[1:-1]))), 2.0**-1020)
    least = math.frexp(largest)[1] - _PRECISION
    gaps = np.diff(cuts)
    gaps = gaps[gaps > math.ldexp(1.0, least)]
    found = math.frexp(float(gaps.min()))[1] - 1 - _FINER if len(gaps) else least
    return math.ldexp(1.0, max(found, least))


def on_grid(values: Floats, step: float) -> Floats:
    """Return each value as the multiple of the step that begins its cell; what is not finite stays as it is.

    A function of the value alone: what it does to outputs is post-processing.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.floor(values / step + _SHIFT) * step
    return np.where(np.isfinite(found), found, values)
