"""One column at a time, and the sum over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.encoding import Encoded
from discreet.audit.scores.bins import Bins
from discreet.audit.scores.ratios import monotone, pieces

Floats: TypeAlias = NDArray[np.float64]


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
