"""What is measured of a partition's cells, so that counts of rows under many conditions are close.

A layer is a set of sums of cells that lie apart: one row is in one of them at most, so that a layer costs what one
count costs, however many sums it has. All layers have the same noise. A count is read from them with the weights of
least squares, as multiples of a 32nd, so that its noise is a sum of few kinds of terms.

Guarantee:
    None of privacy: which layers there are follows from the conditions and the kind of noise alone, and weights are
    applied to noisy numbers. Every estimate is unbiased, exactly: Σ weight·(cells of a sum) is 1 on the cells of the
    condition and 0 elsewhere.

References:
    Choosing what to measure for what is asked: Li, Miklau, Hay, McGregor, Rastogi 2015, *The matrix mechanism*,
    https://doi.org/10.1007/s00778-015-0398-x; trees of sums: Hay, Rastogi, Miklau, Suciu 2010,
    https://arxiv.org/abs/0904.0942. docs/proofs/partition.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Layer: TypeAlias = tuple[tuple[int, ...], ...]
"""Sums of cells, no cell in two of them: the cells of each."""

Layers: TypeAlias = tuple[Layer, ...]

Weights: TypeAlias = tuple[tuple[int, int, int], ...]
"""For each sum that a count reads: its layer, its place there, and its weight in parts of `PARTS`."""

PARTS = 32
"""Weights are multiples of one such part."""

_DEEPEST = 4  # layers of a tree of sums
_MOST_OWN = 16  # layers of the conditions themselves
_WORTH = math.log(0.95)  # mean logarithm of variances from which on counts are measured together


def chosen(
    counts: Sequence[tuple[int, ...]], cells: int, moved: tuple[float, float], *, gaussian: bool
) -> Layers | None:
    """Return the layers from which no count has more noise than alone with its own part of the budget, and all of them
    the least; None where that is not better than each count by itself.

    Args:
        counts: for each condition the cells whose rows fulfil it.
        cells: how many there are.
        moved: the ℓ1 and the squared ℓ2 norm by which one unit moves a layer, of those by which it moves one count.
        gaussian: whether noise is Gaussian.
    """
    counts = sorted(set(counts))
    best, worth = None, _WORTH
    for layers in _candidates(counts, cells):
        squares = np.array([squared(weights(layers, count)) for count in counts])
        cost = moved[1] * len(layers) / len(counts) if gaussian else (moved[0] * len(layers) / len(counts)) ** 2
        found = float(np.mean(np.log(squares * cost)))
        if (squares * cost <= 1 + 1e-9).all() and found < worth - 1e-9:
            best, worth = layers, found
    return best


def squared(read: Weights) -> float:
    """Return the sum of the squared weights: the variance of a count whose sums have noise of variance 1."""
    return sum(w * w for _, _, w in read) / PARTS**2


@lru_cache(maxsize=4096)
def weights(layers: Layers, count: tuple[int, ...]) -> Weights:
    """With which weights a count reads the sums.

    Raises:
        ValueError: it cannot be read from them.
    """
    if not _holds_cells(layers):
        return _own(layers, count)
    if len(layers) == 1:
        return tuple((0, cell, PARTS) for cell in count)
    rows = [(level, place, set(node)) for level, layer in enumerate(layers) for place, node in enumerate(layer)]
    read = np.isin(np.arange(len(layers[0])), count).astype(np.float64) @ _least_squares(layers)
    left = {cell: PARTS * (cell in count) for cell in range(len(layers[0]))}
    found = []
    for (level, place, node), weight in zip(rows, read.tolist(), strict=True):
        if level and (near := math.floor(PARTS * weight + 0.5 + 1e-7)):  # just above a half, so that halves agree
            found.append((level, place, near))
            for cell in node:
                left[cell] -= near
    return (*((0, cell, w) for cell, w in left.items() if w), *found)


def _holds_cells(layers: Layers) -> bool:
    """Whether the first layer has each cell by itself."""
    return all(len(node) == 1 for node in layers[0]) and len({*layers[0]}) == len(
        {cell for layer in layers for node in layer for cell in node}
    )


def _own(layers: Layers, count: tuple[int, ...]) -> Weights:
    """Return a condition that is measured itself."""
    return next(((level, layer.index(count), PARTS),) for level, layer in enumerate(layers) if count in layer)


@lru_cache(maxsize=64)
def _least_squares(layers: Layers) -> NDArray[np.float64]:
    """(BᵀB)⁻¹Bᵀ for the matrix B of all sums."""
    cells = len(layers[0])
    matrix = np.array([[float(c in node) for c in range(cells)] for layer in layers for node in layer])
    return np.asarray(np.linalg.solve(matrix.T @ matrix, matrix.T))


def _candidates(counts: Sequence[tuple[int, ...]], cells: int) -> Iterator[Layers]:
    """Each cell; trees over the cells in their order; the conditions themselves; these beside the cells."""
    single: Layer = tuple((cell,) for cell in range(cells))
    yield (single,)
    own = _coloured(counts)
    if len(own) <= _MOST_OWN:
        yield own
        yield (single, *(tuple(n for n in layer if len(n) > 1) for layer in own if any(len(n) > 1 for n in layer)))
    tried = set()
    for depth in range(2, _DEEPEST + 1):
        for fanout in {math.ceil(cells ** (1 / depth)), math.ceil(cells ** (1 / depth)) + 1}:
            sizes = tuple(s for s in (fanout**level for level in range(1, depth)) if 1 < s < cells)
            if sizes and sizes not in tried:
                tried.add(sizes)
                yield (single, *(_blocks(cells, size) for size in sizes))


def _blocks(cells: int, size: int) -> Layer:
    """Neighbouring cells, so many together."""
    ends = [*range(0, cells, size), cells]
    return tuple(tuple(range(a, b)) for a, b in pairwise(ends) if b - a > 1)


def _coloured(counts: Sequence[tuple[int, ...]]) -> Layers:
    """Return the conditions in layers of such as lie apart, each in the first where it has room; for ranges these are
    as few layers as there are ranges over one place.
    """
    layers: list[list[tuple[int, ...]]] = []
    taken: list[set[int]] = []
    for count in sorted(set(counts)):
        level = next((i for i, cells in enumerate(taken) if cells.isdisjoint(count)), len(layers))
        if level == len(layers):
            layers.append([])
            taken.append(set())
        layers[level].append(count)
        taken[level].update(count)
    return tuple(tuple(layer) for layer in layers)
