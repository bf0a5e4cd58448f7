"""One column at a time, and the sum over all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, psi

from discreet.audit.outputs.encoding import Encoded
from discreet.audit.places import Floats
from discreet.audit.scores.bins import Bins

_STRENGTHS = np.array([1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 1e6])
"""Pseudo-counts of the prior: the first lets a ratio be anything, the last holds it at 1."""
_ROUNDS = 100
_SLOPE = 1e-6


def shrunk(p: Floats, q: Floats, n_p: int, n_q: int) -> Floats:
    """Return the posterior mean of log(P/Q) of each class, of which p of n_p and q of n_q samples were seen.

    The share of P among the samples of a class has a mixture of Beta laws as its prior, whose weights are learned from
    all classes (empirical Bayes): where most classes tell nothing, a class needs many samples to tell something; and
    a class with 50 samples of P and none of Q is believed anyhow.

    References: Robbins 1956, An empirical Bayes approach to statistics.
    """
    share = n_p / (n_p + n_q)
    pairs, which, times = np.unique(np.column_stack([p, q]), axis=0, return_inverse=True, return_counts=True)
    k, m = pairs[:, :1], pairs[:, 1:]
    a, b = _STRENGTHS * share, _STRENGTHS * (1 - share)
    log_likelihood = betaln(k + a, m + b) - betaln(a, b)
    log_likelihood -= log_likelihood.max(axis=1, keepdims=True)
    likelihood = np.exp(log_likelihood)
    weights = np.append(np.full(len(_STRENGTHS) - 1, 0.01), 1)
    for _ in range(_ROUNDS):
        belongs = likelihood * weights
        belongs /= belongs.sum(axis=1, keepdims=True)
        weights = times @ belongs + 0.1
        weights /= weights.sum()
    log_odds = psi(k + a) - psi(m + b) - (psi(a) - psi(b))
    # At strength 1 the prior's own mean of log-odds is 0 by symmetry only; the difference above takes it out.
    scores = (belongs * log_odds).sum(axis=1)
    return np.asarray(scores[which.reshape(-1)])


def pieces(p: Floats, q: Floats, n_p: int, n_q: int) -> tuple[Floats, Floats]:
    """Piecewise constant estimates along ordered bins, of the best pieces; one row for each column.

    Args:
        p: counts of the first sample, columns × bins.
        q: counts of the second one.
        n_p: size of the first sample.
        n_q: size of the second one.

    Returns:
        The estimates, columns × bins, and for each column the log-likelihood that it gains, less a penalty for each
        piece.

    References: Jackson et al. 2005, An algorithm for optimal partitioning of data on an interval,
        https://arxiv.org/abs/math/0309285
    """
    columns, m = p.shape
    penalty = 1.0 + np.log(m)
    base = np.log(n_p / n_q)
    P = np.concatenate([np.zeros((columns, 1)), np.cumsum(p, axis=1)], axis=1)
    Q = np.concatenate([np.zeros((columns, 1)), np.cumsum(q, axis=1)], axis=1)
    best = np.zeros((columns, m + 1))
    start = np.zeros((columns, m + 1), dtype=np.int64)
    for j in range(1, m + 1):
        gain = best[:, :j] + _gain(P[:, j : j + 1] - P[:, :j], Q[:, j : j + 1] - Q[:, :j], n_p, n_q) - penalty
        start[:, j] = np.argmax(gain, axis=1)
        best[:, j] = gain[np.arange(columns), start[:, j]]
    estimates = np.zeros((columns, m))
    for c in range(columns):
        j = m
        while j > 0:
            i = int(start[c, j])
            estimates[c, i:j] = np.log((P[c, j] - P[c, i] + 0.5) / (Q[c, j] - Q[c, i] + 0.5)) - base
            j = i
    return estimates, best[:, m] + penalty


def monotone(p: Floats, q: Floats, n_p: int, n_q: int) -> Floats:
    """Estimates along ordered bins that only rise, or only fall, whichever is the likelier.

    References: Ayer et al. 1955, An empirical distribution function for sampling with incomplete information.
    """
    rising, likely = _pooled(p, q, n_p, n_q)
    falling, likely_down = _pooled(p[::-1], q[::-1], n_p, n_q)
    return rising if likely >= likely_down else falling[::-1]


def _pooled(p: Floats, q: Floats, n_p: int, n_q: int) -> tuple[Floats, float]:
    """Pool adjacent violators: rising estimates, and their gain in log-likelihood."""
    blocks: list[list[float]] = []
    for k, m in zip(p.tolist(), q.tolist(), strict=True):
        blocks.append([k, m, 1])
        # Compares shares without dividing, so that empty bins join their neighbours.
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] >= blocks[-1][0] * blocks[-2][1]:
            k2, m2, width = blocks.pop()
            blocks[-1] = [blocks[-1][0] + k2, blocks[-1][1] + m2, blocks[-1][2] + width]
    counts = np.array(blocks)
    values = np.log((counts[:, 0] + 0.5) / (counts[:, 1] + 0.5)) - np.log(n_p / n_q)
    likely = float(_gain(counts[:, 0], counts[:, 1], n_p, n_q).sum())
    # A hair of slope within a block: of equally good thresholds the outer ones are the safer ones at either end.
    return np.repeat(values, counts[:, 2].astype(int)) + _SLOPE * np.arange(len(p)), likely


def _gain(p: Floats, q: Floats, n_p: int, n_q: int) -> Floats:
    """Log-likelihood of one share for a piece, over that of no difference."""
    total = np.maximum(p + q, 1e-300)
    share = n_p / (n_p + n_q)
    return p * np.log(np.maximum(p, 1e-300) / (total * share)) + q * np.log(
        np.maximum(q, 1e-300) / (total * (1 - share))
    )


@dataclass(frozen=True, slots=True)
class OneColumn:
    """The log ratio of the bins of one column."""

    bins: Bins
    column: int
    scores: Floats
    how: str

    @property
    def name(self) -> str:
        """How it was learned."""
        return f"{self.bins.columns[self.column].name}, {self.how}"

    @property
    def ordered(self) -> bool:
        """Whether its events are unions of intervals."""
        return self.bins.orders[self.column] is None

    @property
    def needs(self) -> frozenset[int]:
        """The columns that it looks at."""
        return frozenset([self.column])

    def __call__(self, outputs: Encoded) -> Floats:
        """Return the score of each output."""
        return self.scores.take(self.bins.of(outputs, np.array([self.column]))[0])

    def words(self, outputs: Encoded, hit: NDArray[np.bool_]) -> str:
        """Return the intervals of the column that are hit: those of the larger scores, or of the smaller ones."""
        if not hit.any():
            return "never"
        index = self.bins.of(outputs, np.array([self.column]))[0]
        inside = self.scores >= self.scores[index[hit]].min()
        if not hit.all() and self.scores[index[hit]].max() < self.scores[index[~hit]].min():
            inside = self.scores < self.scores[index[~hit]].min()
        if self.ordered:
            inside[0] &= bool((index[hit] == 0).any())
        return self.bins.words(self.column, inside)


@dataclass(frozen=True, slots=True)
class SumOfColumns:
    """A table for each column, and their sum."""

    bins: Bins
    columns: NDArray[np.intp]
    tables: tuple[Floats, ...]
    intercept: float
    what: str

    @property
    def name(self) -> str:
        """How it was learned."""
        return f"{self.what} over {len(self.columns)} columns"

    @property
    def needs(self) -> frozenset[int]:
        """The columns that it looks at."""
        return frozenset(self.columns.tolist())

    def __call__(self, outputs: Encoded) -> Floats:
        """Return the score of each output."""
        index = self.bins.of(outputs, self.columns)
        total = np.full(len(outputs), self.intercept)
        for k, table in enumerate(self.tables):
            total += table.take(index[k])
        return total

    def words(self, outputs: Encoded, hit: NDArray[np.bool_]) -> str:
        """Return the threshold and an example."""
        return threshold_words(f"score of the {self.name}", self(outputs), outputs, hit)


def learn(
    bins: Bins, p: Floats, q: Floats, n_p: int, n_q: int, raw: NDArray[np.intp], most: int
) -> list[OneColumn | SumOfColumns]:
    """Scores from the counts of bins (columns × bins).

    Args:
        bins: the cuts.
        p: counts of the first sample.
        q: counts of the second one.
        n_p: size of the first sample.
        n_q: size of the second one.
        raw: the columns over which is summed.
        most: how many single columns become scores.
    """
    estimates, gains = pieces(p, q, n_p, n_q)
    estimates[p[:, 0] + q[:, 0] == 0, 0] = 0.0  # no NaN was seen: it says nothing
    seen = p + q > 0
    varies = np.where(seen, estimates, -np.inf).max(axis=1) > np.where(seen, estimates, np.inf).min(axis=1)
    found: list[OneColumn | SumOfColumns] = []
    ranked = np.argsort(-gains, kind="stable")[:most]
    for j in ranked:
        if gains[j] <= 0 and found:
            break
        if varies[j]:
            found.append(OneColumn(bins, int(j), estimates[j], "pieces"))
        if bins.orders[j] is None and len(bins.cuts[j]) > 2:
            # NaN has no place in an order: its bin keeps its own estimate.
            rising = np.concatenate([estimates[j, :1], monotone(p[j, 1:], q[j, 1:], n_p, n_q)])
            found.append(OneColumn(bins, int(j), rising, "monotone"))
    telling = raw[varies[raw]]
    if len(telling) > 1:
        # As if they were independent (naive Bayes).
        found.append(SumOfColumns(bins, telling, tuple(estimates[telling]), 0.0, "sum of log ratios"))
    return found


def threshold_words(what: str, scores: Floats, outputs: Encoded, hit: NDArray[np.bool_]) -> str:
    """Return an event of a model in words: the threshold, and the clearest output that is hit."""
    if not hit.any():
        return "never"
    reached = np.where(hit, scores, -np.inf)
    example = outputs.examples(int(outputs.codes[int(np.argmax(reached))]))
    return f"{what} at least {scores[hit].min():.6g}; for instance {example}"
