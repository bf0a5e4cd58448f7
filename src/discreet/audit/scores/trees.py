"""Small boosted trees on binned columns: for what is no sum over columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.encoding import Encoded
from discreet.audit.places import Floats, Index
from discreet.audit.scores.bins import Bins
from discreet.audit.scores.column import threshold_words

_DEPTH = 3
_RATE = 0.3
_RIDGE = 4.0
_LEAST_GAIN = 4.0
_PATIENCE = 8
_ROWS = 24_000
"""Rows from which each tree is grown."""
_LEAST_ROWS = 40
_COLUMNS = 12
"""Columns that are looked at for each tree."""


@dataclass(frozen=True, slots=True)
class _Tree:
    """A full binary tree: node k has the children 2k + 1 and 2k + 2; bins above `cuts` go right."""

    columns: NDArray[np.intp]
    cuts: NDArray[np.int64]
    leaves: Floats

    def __call__(self, index: Index) -> Floats:
        return np.asarray(self.leaves[self.leaf(index)])

    def leaf(self, index: Index) -> NDArray[np.uint8]:
        node: NDArray[np.uint8] = np.zeros(len(index), dtype=np.uint8)
        for level in range(_DEPTH):
            right = np.zeros(len(index), dtype=bool)
            for k in range(2**level - 1, 2 ** (level + 1) - 1):
                if self.cuts[k] < 256:
                    here = index[:, self.columns[k]] > self.cuts[k]
                    right |= here if level == 0 else here & (node == k)
            node = 2 * node + np.uint8(1) + right
        return np.asarray(node - np.uint8(2**_DEPTH - 1))


@dataclass(frozen=True, slots=True)
class Trees:
    """A sum of small trees."""

    bins: Bins
    columns: NDArray[np.intp]
    trees: tuple[_Tree, ...]
    intercept: float

    @property
    def name(self) -> str:
        """How it was learned."""
        return f"{len(self.trees)} trees over {len(self.columns)} columns"

    @property
    def needs(self) -> frozenset[int]:
        """The columns that it looks at."""
        return frozenset(self.columns.tolist())

    def __call__(self, outputs: Encoded) -> Floats:
        """Return the score of each output."""
        index = np.stack(self.bins.of(outputs, self.columns)).T
        total = np.full(len(outputs), self.intercept)
        for tree in self.trees:
            total += tree(index)
        return total

    def words(self, outputs: Encoded, hit: NDArray[np.bool_]) -> str:
        """Return the threshold and an example."""
        return threshold_words(f"score of {self.name}", self(outputs), outputs, hit)


def learn(bins: Bins, p: Index, q: Index, columns: NDArray[np.intp], rounds: int) -> Trees | None:
    """Boosted trees for the binned columns; None where they tell nothing about samples that were held out.

    References: Friedman 2001, Greedy function approximation; Ke et al. 2017, LightGBM (histograms).
    """
    if min(len(p), len(q)) < _LEAST_ROWS:
        return None
    index = np.asfortranarray(np.concatenate([p[:, columns], q[:, columns]]))
    y = np.concatenate([np.ones(len(p)), np.zeros(len(q))])
    held = np.arange(len(y)) % 4 == 3
    fit, fit_y, test, test_y = (np.asfortranarray(index[~held]), y[~held], np.asfortranarray(index[held]), y[held])
    base = float(np.log(fit_y.mean() / (1 - fit_y.mean())))
    rng = np.random.default_rng(0)
    width = int(index.max()) + 1
    f, g = np.full(len(fit), base), np.full(len(test), base)
    trees: list[_Tree] = []
    best, least = 0, _loss(g, test_y)
    bar = least - 2.0 / len(test_y)
    for _ in range(rounds):
        rows = rng.permutation(len(fit))[:_ROWS] if len(fit) > _ROWS else slice(None)
        looked = rng.permutation(len(columns))[:_COLUMNS]
        tree = _grown(np.asfortranarray(fit[rows][:, looked]), looked, fit_y[rows], f[rows], width)
        f += tree(fit)
        g += tree(test)
        trees.append(tree)
        loss = _loss(g, test_y)
        if loss < least:
            best, least = len(trees), loss
        elif len(trees) - best >= _PATIENCE:
            break
    if least > bar:
        return None
    return Trees(bins, columns, tuple(trees[:best]), base - float(np.log(len(p) / len(q))))


def _grown(index: Index, looked: NDArray[np.intp], y: Floats, f: Floats, width: int) -> _Tree:
    """One tree that follows the gradient of the logistic loss."""
    chance = 1 / (1 + np.exp(-f))
    g, h = y - chance, np.maximum(chance * (1 - chance), 1e-6)
    inner = 2**_DEPTH - 1
    columns, cuts = np.zeros(inner, dtype=np.intp), np.full(inner, 256, dtype=np.int64)
    node = np.zeros(len(y), dtype=np.int64)
    for level in range(_DEPTH):
        first, many = 2**level - 1, 2**level
        gain, at = np.full(many, _LEAST_GAIN), np.zeros((many, 2), dtype=np.int64)
        at[:, 1] = 256
        row = (node - first) * width
        for k in range(index.shape[1]):
            cell = row + index[:, k]
            G = np.cumsum(np.bincount(cell, g, many * width).reshape(many, width), axis=1)
            H = np.cumsum(np.bincount(cell, h, many * width).reshape(many, width), axis=1)
            right_G, right_H = G[:, -1:] - G, H[:, -1:] - H
            won = G**2 / (H + _RIDGE) + right_G**2 / (right_H + _RIDGE) - G[:, -1:] ** 2 / (H[:, -1:] + _RIDGE)
            where = np.argmax(won, axis=1)
            most = won[np.arange(many), where]
            better = most > gain
            gain[better], at[better, 0], at[better, 1] = most[better], k, where[better]
        columns[first : first + many], cuts[first : first + many] = looked[at[:, 0]], at[:, 1]
        own = node - first
        node = 2 * node + 1 + (index[np.arange(len(y)), at[own, 0]] > at[own, 1])
    leaf = node - inner
    total = np.bincount(leaf, h, inner + 1) + _RIDGE
    return _Tree(columns, cuts, _RATE * np.bincount(leaf, g, inner + 1) / total)


def _loss(f: Floats, y: Floats) -> float:
    return float(np.mean(np.logaddexp(0, f) - y * f))
