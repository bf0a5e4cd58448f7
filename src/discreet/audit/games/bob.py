"""Bob: the best guesses about the input that can be learned from samples of the outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.evidence.two_samples import CutEvent, threshold
from discreet.audit.outputs.encoding import Encoded, Encoder
from discreet.audit.outputs.shape import Batch
from discreet.audit.scores import Score, learn

Floats: TypeAlias = NDArray[np.float64]

_CUTS = 1000
_BAND = 24
_BINS = 64
_DOUBT = 0.01  # of the intervals by which the clearest outputs are compared; it is no part of any guarantee
_CLEARER = 0.05  # by how much a later score, which is harder to put into words, has to be clearer
_PRIOR = 0.5  # counts that each bin has beforehand


@dataclass(frozen=True, slots=True)
class Guesser:
    """A test between two neighbours, fixed before it is judged.

    Attributes:
        encoder: reads outputs.
        score: the score by which Bob guesses.
        cut: Bob guesses the first neighbour where the score is at least that.
        cuts: rising thresholds of the same score, for the trade-off of errors.
        clear_score: the score of the clearest output.
        clear: the clearest output.
    """

    encoder: Encoder
    score: Score
    cut: float
    cuts: Floats
    clear_score: Score
    clear: CutEvent

    @classmethod
    def learned(cls, p: Batch, q: Batch, prior: float, delta: float) -> Guesser:
        """Learned on the first halves of both samples, chosen among on the second halves."""
        encoder = Encoder.learned(p, q)
        first, second = encoder.encode(p), encoder.encode(q)
        half_p, half_q = len(first) // 2, len(second) // 2
        scores = learn(first[:half_p], second[:half_q]) or [_Nothing()]
        best, chosen, cut, clearest, clear = (
            -math.inf,
            scores[0],
            -math.inf,
            scores[0],
            CutEvent(0.0, True, True, -1.0),
        )
        for score in scores:
            s, t = scored(score, first[half_p:]), scored(score, second[half_q:])
            reached, at = _best_cut(s, t, prior)
            if reached > best:
                best, chosen, cut = reached, score, at
            event = threshold(s, t, delta, _DOUBT)
            if event.ratio > clear.ratio + _CLEARER * abs(clear.ratio):
                clearest, clear = score, event
        cuts = _spread(scored(chosen, first[half_p:]), scored(chosen, second[half_q:]))
        return cls(encoder, chosen, cut, cuts, clearest, clear)


@dataclass(frozen=True, slots=True)
class Chooser:
    """Bob's choice among several worlds: the one of the largest posterior, learned world by world against the rest.

    Attributes:
        encoder: reads outputs.
        weights: for each world a score, the edges of its bins, and the log of posterior odds in each bin.
    """

    encoder: Encoder
    weights: tuple[tuple[Score, Floats, Floats], ...]

    @classmethod
    def learned(cls, batches: Sequence[Batch], priors: Sequence[float]) -> Chooser:
        """Learned on the first halves of the samples; scores are chosen, and become odds, on the second halves."""
        encoder = Encoder.learned(*batches)
        worlds = [encoder.encode(b) for b in batches]
        heads, tails = [w[: len(w) // 2] for w in worlds], [w[len(w) // 2 :] for w in worlds]
        weights = []
        for i, prior in enumerate(priors):
            shares = [p / (1 - prior) if j != i else 0.0 for j, p in enumerate(priors)]
            rest, rest_held = _mixed(heads, shares), _mixed(tails, shares)
            best: tuple[float, tuple[Score, Floats, Floats]] | None = None
            for score in learn(heads[i], rest) or [_Nothing()]:
                s, t = scored(score, tails[i]), scored(score, rest_held)
                edges = _edges(s, t)
                told = _log_odds(s, t, edges, prior)
                loss = prior * np.mean(np.logaddexp(0, -told[np.searchsorted(edges, s, "right")])) + (
                    1 - prior
                ) * np.mean(np.logaddexp(0, told[np.searchsorted(edges, t, "right")]))
                if best is None or loss < best[0]:
                    best = float(loss), (score, edges, told)
            assert best is not None
            weights.append(best[1])
        return cls(encoder, tuple(weights))

    def guesses(self, batch: Batch) -> NDArray[np.intp]:
        """The world that each output speaks for."""
        outputs = self.encoder.encode(batch)
        odds = [
            told[np.searchsorted(edges, scored(score, outputs), "right")]
            for score, edges, told in self.weights
        ]
        return np.asarray(np.argmax(np.stack(odds), axis=0), dtype=np.intp)


def scored(score: Score, outputs: Encoded) -> Floats:
    """The scores, where one that is NaN says nothing."""
    return np.nan_to_num(np.asarray(score(outputs), dtype=np.float64), nan=0.0, posinf=1e300, neginf=-1e300)


class _Nothing:
    """The score of outputs that have nothing in them."""

    @property
    def name(self) -> str:
        return "nothing"

    @property
    def needs(self) -> frozenset[int]:
        return frozenset()

    def __call__(self, outputs: Encoded) -> Floats:
        return np.zeros(len(outputs))

    def words(self, outputs: Encoded, hit: NDArray[np.bool_]) -> str:
        return "any output"


def _best_cut(p: Floats, q: Floats, prior: float) -> tuple[float, float]:
    """The largest success of "the first neighbour iff the score is at least the cut", and that cut."""
    cuts = np.unique(np.concatenate([p, q]))
    if len(cuts) > _CUTS:
        cuts = np.unique(np.quantile(cuts, np.linspace(0, 1, _CUTS), method="nearest"))
    cuts = np.append(cuts, np.inf)
    said = 1 - np.searchsorted(np.sort(p), cuts) / max(1, len(p))
    silent = np.searchsorted(np.sort(q), cuts) / max(1, len(q))
    reached = prior * said + (1 - prior) * silent
    at = int(np.argmax(reached))
    return float(reached[at]), float(cuts[at])


def _spread(p: Floats, q: Floats) -> Floats:
    """Thresholds for the band: all scores when they are few, else quantiles that are denser in the tails."""
    pooled = np.concatenate([p, q])
    values = np.unique(pooled)
    if len(values) <= _BAND:
        return values
    tail = np.geomspace(0.001, 0.04, _BAND // 4)
    levels = np.concatenate([tail, np.linspace(0.06, 0.94, _BAND - 2 * len(tail)), 1 - tail])
    return np.unique(np.quantile(pooled, levels, method="nearest"))


def _mixed(worlds: Sequence[Encoded], shares: Sequence[float]) -> Encoded:
    """Outputs of several worlds in these shares, as many as one world has."""
    n = max(len(w) for w in worlds)
    return Encoded.joined([w[: math.ceil(s * n)] for w, s in zip(worlds, shares, strict=True) if s > 0])


def _edges(p: Floats, q: Floats) -> Floats:
    values = np.unique(np.concatenate([p, q]))
    if len(values) <= _BINS:
        return values[1:]
    return np.unique(
        np.quantile(np.concatenate([p, q]), np.linspace(0, 1, _BINS + 1)[1:-1], method="nearest")
    )


def _log_odds(p: Floats, q: Floats, edges: Floats, prior: float) -> Floats:
    """Log posterior odds in each bin, from counts."""
    bins = len(edges) + 1
    hits = np.bincount(np.searchsorted(edges, p, "right"), minlength=bins) + _PRIOR
    misses = np.bincount(np.searchsorted(edges, q, "right"), minlength=bins) + _PRIOR
    ratio = np.log(hits / hits.sum()) - np.log(misses / misses.sum())
    return np.asarray(ratio + math.log(prior / (1 - prior)), dtype=np.float64)
