"""Mixtures of product distributions that are fitted to noisy tables: public, and the same for the same tables.

Nothing here is random: the mixture starts from fixed numbers, so that a replay finds the same one.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from discreet.synth.domain import Floats, Singles

START = 0.7  # spread of the logarithms of the components' first probabilities
RATE, MEAN, SQUARE = 0.12, 0.9, 0.99  # step and decays of Adam

FARTHEST = 20.0
"""The largest logarithm of a probability, up to a factor, and its negative the least: floats of 32 bits hold all."""

LITTLE = 1e-12  # what is added to the root of the mean square of a slope: with less than that nothing moves
LEAST = 2e-4  # the least share of rows that a cell has at the start


@dataclass
class Tables:
    """Noisy tables of columns and pairs, with their precisions.

    Attributes:
        sizes: how many cells each column has.
        counts: noisy counts of all columns' cells.
        precision: of each of them 1/σ².
        rows: how many rows there are, about.
    """

    sizes: Sequence[int]
    counts: Floats
    precision: Floats
    rows: float
    pairs: Floats = field(init=False)
    weights: Floats = field(init=False)

    def __post_init__(self) -> None:
        width = sum(self.sizes)
        self.pairs, self.weights = np.zeros((width, width)), np.zeros((width, width))

    def add(self, a: int, b: int, table: Floats, sigma: float) -> None:
        """Take the noisy table of a pair of columns."""
        at, to = self.slices[a], self.slices[b]
        self.pairs[at, to], self.pairs[to, at] = table, table.T
        self.weights[at, to] = self.weights[to, at] = 1 / sigma**2

    @property
    def slices(self) -> list[slice]:
        """Where each column's cells stand among all."""
        ends = np.cumsum([0, *self.sizes]).tolist()
        return [slice(a, b) for a, b in pairwise(ends)]


class Mixture:
    """Components each of which has independent columns, of equal weight; in floats of 32 bits, which noise exceeds."""

    def __init__(self, tables: Tables, components: int, spread: float = START) -> None:
        """Start from the columns alone, each component a little apart from the others."""
        self.tables = tables
        base = np.zeros(len(tables.counts))
        for own in tables.slices:
            held = np.maximum(tables.counts[own], tables.rows * LEAST)
            base[own] = np.log(held / held.sum())
        self._of = np.repeat(np.eye(len(tables.sizes), dtype=np.float32), tables.sizes, axis=1)  # cells of columns
        self.base = base
        self.logits = (base + spread * _spread(components, len(base))).astype(np.float32)
        self.is_fitted = False

    @property
    def probabilities(self) -> Singles:
        """For each component the probabilities of all columns' cells, one after the other."""
        held = np.exp(np.clip(self.logits, -FARTHEST, FARTHEST, out=self.logits))
        held /= (held @ self._of.T) @ self._of
        return np.asarray(held)

    @property
    def pairs(self) -> Floats:
        """Expected counts of all pairs of cells; before the first fit those of independent columns."""
        if not self.is_fitted:
            return np.asarray(np.outer(np.exp(self.base), np.exp(self.base)) * self.tables.rows)
        held = self.probabilities
        return np.asarray((held.T @ held).astype(np.float64) * (self.tables.rows / len(held)))

    def fit(self, steps: int) -> None:
        """Fit all tables by so many steps of Adam, from where the last fit ended: as shares of rows, and with weights
        of at most 1, which change none of its steps.
        """
        tables, n = self.tables, np.float32(len(self.logits))
        largest = max(float(tables.weights.max()), float(tables.precision.max()))
        seen, alone = ((x / tables.rows).astype(np.float32) for x in (tables.pairs, tables.counts))
        weights, precision = ((x / largest).astype(np.float32) for x in (tables.weights * 2, tables.precision))
        mean, square = np.zeros_like(self.logits), np.zeros_like(self.logits)
        for t in range(1, steps + 1):
            held = self.probabilities
            apart = held.T @ held
            apart /= n
            apart -= seen
            apart *= weights
            slope = held @ apart
            slope += precision * (held.mean(axis=0) - alone)
            slope *= held
            slope -= held * ((slope @ self._of.T) @ self._of)
            mean *= MEAN
            mean += (1 - MEAN) * slope
            slope *= slope
            square *= SQUARE
            square += (1 - SQUARE) * slope
            rate = RATE * min(1, 2 * (1 - t / (steps + 1)))
            np.sqrt(square, out=slope)
            slope += LITTLE
            np.divide(mean, slope, out=slope)
            slope *= rate * math.sqrt(1 - SQUARE**t) / (1 - MEAN**t)
            self.logits -= slope
        self.is_fitted = True


def _spread(rows: int, columns: int) -> Floats:
    """Return fixed numbers that look like independent normal ones: Box and Muller's, of a digest's bits."""
    words = np.frombuffer(hashlib.shake_128(b"components").digest(16 * rows * columns), "<u8")
    first, second = (((words >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53).reshape(2, rows, columns)
    return np.asarray(np.sqrt(-2 * np.log(first)) * np.cos(2 * math.pi * second))
