"""Scores that separate the outputs of two neighbours, learned from samples of both."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.encoding import Encoded
from discreet.audit.places import Floats, Index
from discreet.audit.scores import additive, column, enumeration, trees
from discreet.audit.scores.bins import Bins, counts

_BINS = (24, 64, 100)
_RAMPS = (8, 24, 32)
"""Of a column in an additive model, where there are few columns; and the most of all columns together."""
_WEIGHTS = (60, 120, 180)
_CELLS = (1_000_000, 6_000_000, 30_000_000)
"""Numbers (rows × columns) that are looked at; more rows are cut off, except where outputs are only counted."""
_NARROW = 30
"""Columns up to which differences are looked at without effort."""
_STEPS = (3, 6, 8)
_SINGLE = (3, 4, 6)
_ROUNDS = (0, 40, 80)


class Score(Protocol):
    """A number for each output, learned from two samples: the larger, the likelier under the first of them.

    Estimates of log(P/Q) are best: then "score above ε" is the event of the promise at ε. Any monotone function will
    do, since thresholds are chosen on other samples.
    """

    @property
    def name(self) -> str:
        """How it was learned."""

    @property
    def needs(self) -> frozenset[int]:
        """The columns that it looks at, and −1 for the codes of whole outputs."""

    def __call__(self, outputs: Encoded) -> Floats:
        """Return the score of each output."""

    def words(self, outputs: Encoded, hit: NDArray[np.bool_]) -> str:
        """Return the event `hit` (a threshold of this score on these outputs) in words a reader can check."""


def learn(p: Encoded, q: Encoded, *, effort: int = 1) -> list[Score]:
    """Scores for two samples of outputs that one encoder made; the same ones for the same samples.

    Args:
        p: outputs of one neighbour; at least one.
        q: outputs of the other.
        effort: 0 for a search over many neighbours, 1, or 2.
    """
    effort = min(max(effort, 0), 2)
    found: list[Score] = []
    if (counted := enumeration.learn(p, q)) is not None:
        found.append(counted)
    width = p.values.shape[1]
    if width == 0:
        return found
    most = max(500, _CELLS[effort] // width)
    P, Q = np.asfortranarray(p.values[:most]), np.asfortranarray(q.values[:most])
    kinds = np.array([c.kind for c in p.columns])
    raw = np.flatnonzero(np.isin(kinds, ["number", "label"]))
    differences = effort > 0 or width <= _NARROW
    bins = Bins.learned(P, Q, p.columns, _BINS[effort], differences=differences)
    p_index, q_index = bins.index(P), bins.index(Q)
    size = bins.width()
    found += column.learn(bins, counts(p_index, size), counts(q_index, size), len(P), len(Q), raw, _SINGLE[effort])
    found += _additive(P, Q, p_index, q_index, bins, effort)
    if _ROUNDS[effort] and width > 1:
        kept = np.flatnonzero(
            np.array([len(c) > 0 or o is not None for c, o in zip(bins.cuts, bins.orders, strict=True)])
        )
        grown = trees.learn(bins, p_index, q_index, kept, _ROUNDS[effort]) if len(kept) else None
        if grown is not None:
            found.append(grown)
    return found


def _additive(P: Floats, Q: Floats, p: Index, q: Index, bins: Bins, effort: int) -> list[Score]:
    kinds = np.array([c.kind for c in bins.columns])
    raw = np.flatnonzero(np.isin(kinds, ["number", "label"]))
    numbers = np.array([j for j in np.flatnonzero(kinds == "number") if not bins.columns[j].labels], dtype=np.intp)
    cut = np.array([len(c) > 0 for c in bins.cuts])
    steps = np.flatnonzero((kinds == "difference") & cut)
    if len(steps):
        steps = np.concatenate([numbers[:1], steps])
    rounds = _STEPS[effort]
    found: list[Score | None] = []

    def add(chosen: NDArray[np.intp], ramps: int, what: str) -> None:
        if len(chosen):
            found.append(additive.learn(bins, p, q, chosen, ramps, what, rounds))

    if effort or len(raw) == 1:
        add(raw, _ramps(len(raw), effort), "additive model")
        add(steps, _ramps(len(steps), effort), "additive model of differences")
    if len(raw) > 1:
        add(raw, 1, "linear model")
    if not effort:
        add(steps, 1, "linear model of differences")
    if len(numbers) > 1:
        found += additive.learn_common(P, Q, numbers, "curve", rounds, plain=effort > 0)
        if len(steps) > 1 and effort:
            found += additive.learn_common(P, Q, steps, "curve of differences", rounds, plain=False)
    return [score for score in found if score is not None]


def _ramps(columns: int, effort: int) -> int:
    return max(2, min(_WEIGHTS[effort] // max(1, columns), _RAMPS[effort]))
