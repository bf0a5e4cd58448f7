"""Mixtures of product distributions that are fitted to noisy tables: public, and the same for the same tables.

Nothing here is random: the mixture starts from fixed numbers, so that a replay finds the same one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from discreet.synth.domain import Floats

START = 0.7
"""Spread of the logarithms of the components' first probabilities."""

RATE, MEAN, SQUARE = 0.12, 0.9, 0.99
"""Step and decays of Adam."""

LOWEST = -60.0
"""The least logarithm of a probability, next to the largest of its column: below, floats become slow."""

LEAST = 2e-4
"""The least share of rows that a cell has at the start."""


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
    """Components each of which has independent columns, of equal weight."""

    def __init__(self, tables: Tables, components: int) -> None:
        """Start from the columns alone."""
        self.tables = tables
        base = np.zeros(len(tables.counts))
        for own in tables.slices:
            held = np.maximum(tables.counts[own], tables.rows * LEAST)
            base[own] = np.log(held / held.sum())
        self._column = np.repeat(np.arange(len(tables.sizes)), tables.sizes)
        self._starts = np.array([own.start for own in tables.slices])
        self.base = base
        self.logits = base + START * _spread(components, len(base))
        self.is_fitted = False

    @property
    def probabilities(self) -> Floats:
        """For each component the probabilities of all columns' cells, one after the other."""
        below = self.logits - np.maximum.reduceat(self.logits, self._starts, axis=1)[:, self._column]
        shifted = np.exp(np.maximum(below, LOWEST))
        return np.asarray(shifted / np.add.reduceat(shifted, self._starts, axis=1)[:, self._column])

    @property
    def pairs(self) -> Floats:
        """Expected counts of all pairs of cells; before the first fit those of independent columns."""
        if not self.is_fitted:
            return np.asarray(np.outer(np.exp(self.base), np.exp(self.base)) * self.tables.rows)
        held = self.probabilities
        return np.asarray(held.T @ held * (self.tables.rows / len(held)))

    def fit(self, steps: int) -> None:
        """Fit all tables by so many steps of Adam, from where the last fit ended."""
        tables, n = self.tables, len(self.logits)
        share = tables.rows / n
        mean, square = np.zeros_like(self.logits), np.zeros_like(self.logits)
        for t in range(1, steps + 1):
            held = self.probabilities
            apart = tables.weights * (held.T @ held * share - tables.pairs)
            alone = tables.precision * (held.sum(axis=0) * share - tables.counts)
            slope = held @ apart * (2 / n) + alone / n
            slope = held * (slope - np.add.reduceat(held * slope, self._starts, axis=1)[:, self._column])
            mean = MEAN * mean + (1 - MEAN) * slope
            square = SQUARE * square + (1 - SQUARE) * slope * slope
            rate = RATE * min(1, 2 * (1 - t / (steps + 1)))
            self.logits -= rate * (mean / (1 - MEAN**t)) / (np.sqrt(square / (1 - SQUARE**t)) + 1e-12)
        self.is_fitted = True


def _spread(rows: int, columns: int) -> Floats:
    """Return fixed numbers that look like independent normal ones: Box and Muller's, of mixed counters."""
    first, second = (_mixed(rows * columns, stream).reshape(rows, columns) for stream in (1, 2))
    return np.asarray(np.sqrt(-2 * np.log(first)) * np.cos(2 * math.pi * second))


def _mixed(n: int, stream: int) -> Floats:
    """Return n fixed numbers in (0, 1), as SplitMix64 mixes the counters of a stream."""
    with np.errstate(over="ignore"):
        z = (np.arange(1, n + 1, dtype=np.uint64) + np.uint64(stream << 40)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return np.asarray(((z >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53)
