"""What is learned from past outputs of two neighbours: an encoder, scores, and how often their events happened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from discreet.audit.claim import Claim, Ints
from discreet.audit.evidence.betting import Cuts
from discreet.audit.evidence.intervals import tradeoff_high
from discreet.audit.finding import Chance, EventPredicate, Tradeoff, Tried
from discreet.audit.outputs.encoding import Encoded, Encoder
from discreet.audit.outputs.shape import Batch
from discreet.audit.scores import Score, learn
from discreet.audit.scores.column import OneColumn
from discreet.audit.scores.enumeration import Enumeration
from discreet.audit.scores.trees import Trees

Bins: TypeAlias = tuple[Ints, Ints]

_NEARLY = 0.85  # of the largest ε: an event that shows as much and is easier to check is shown instead
_TYPE_ONE = np.unique(np.concatenate([[0.0], np.geomspace(1e-6, 1e-2, 21), np.linspace(0.01, 1.0, 100)]))
_LOOKED_AT = 20_000  # outputs of each neighbour from which an event is put into words
_LISTED = 8  # outputs that a reader may be shown one by one
_FEWEST = 10  # outputs that are enough to learn anything from


@dataclass(frozen=True, slots=True)
class ScoreEvent:
    """One event among those of several scores: the cut of a score, or (`other`) its complement."""

    score: int
    cut: int
    other: bool


def clearest(
    past: Sequence[Cuts],
    delta: float,
    n: int,
    error: float,
    *,
    epsilon: float = 0.0,
    plain: Sequence[int] | None = None,
) -> ScoreEvent:
    """Return the event from which the intervals of n fresh samples are expected to leave the largest ε, or nearly so.

    Counts of the past are doubted as well, so that an event is not chosen for having been lucky.

    Args:
        past: the events, with counts of the past.
        delta: the claimed δ.
        n: fresh samples.
        error: of the intervals.
        epsilon: the claimed ε, which the intervals should exceed if they can.
        plain: how hard the events of each score are to check; of those that are nearly as good as the best, one of the
            easiest is taken.
    """
    from scipy.special import ndtri

    z = float(-ndtri(error / 8))
    best: dict[int, tuple[float, ScoreEvent]] = {}
    for i, cuts in enumerate(past):
        likely, rare = cuts.rates()
        wide = z / math.sqrt(max(n, 1)) + 1 / math.sqrt(max(cuts.n, 1))
        low = likely - wide * np.sqrt(likely * (1 - likely)) - delta
        high = rare + wide * np.sqrt(rare * (1 - rare)) + wide**2 / 2
        # Where no event leaves anything, the one that differs most; "always" and "never" come last.
        gap = (likely - rare) / np.sqrt(likely * (1 - likely) + rare * (1 - rare))
        seen = cuts.p + cuts.q
        gap -= 1e3 * np.tile((seen == 0) | (seen == 2 * cuts.n), 2)
        worth = np.where(low > high, np.log(np.maximum(low, 1e-300) / high), gap - 1e6)
        k = int(np.argmax(worth))
        rank = plain[i] if plain is not None else 0
        if rank not in best or worth[k] > best[rank][0]:
            best[rank] = float(worth[k]), ScoreEvent(i, k % len(cuts.at), k >= len(cuts.at))
    most = max((worth for worth, _ in best.values()), default=0.0)
    least = _NEARLY * most if most > 0 else most - 0.1 * abs(most + 1e6)
    if most > epsilon:
        least = max(least, most - (1 - _NEARLY) * (most - epsilon) * 2)
    good = [rank for rank, (worth, _) in best.items() if worth >= least]
    return best[min(good)][1] if good else ScoreEvent(0, 0, False)


def chances(event: ScoreEvent, fresh: Cuts, error: float) -> tuple[Chance, Chance]:
    """Return the chances of an event under the neighbour that it favours and under the other one.

    Args:
        event: chosen before the samples in `fresh` were drawn.
        fresh: the counts of the event's score.
        error: the chance that any of the two intervals misses.
    """
    first, second = int(fresh.p[event.cut]), int(fresh.q[event.cut])
    if event.other:
        first, second = fresh.n - second, fresh.n - first
    return Chance.of(first, fresh.n, error / 2), Chance.of(second, fresh.n, error / 2)


def epsilon_of(likely: Chance, rare: Chance, delta: float) -> float:
    """Return the ε that two intervals leave for sure at δ: log((low − δ)/high), 0 where that is negative."""
    if likely.low <= delta or rare.high <= 0:
        return 0.0
    # Down by more than the rounding of a logarithm and of a quotient.
    return max(math.log((likely.low - delta) / rare.high) - 1e-12, 0.0)


def tradeoff(event: ScoreEvent, fresh: Cuts, claim: Claim, error: float) -> Tradeoff:
    """Return the errors of tests by one score, on samples that are fresh to it, beside what the claim allows."""
    p, q = (fresh.n - fresh.q, fresh.n - fresh.p) if event.other else (fresh.p, fresh.q)
    beta, beta_high = tradeoff_high(_TYPE_ONE, p, q, fresh.n, error)
    return Tradeoff(_TYPE_ONE.copy(), beta, beta_high, claim.tradeoff(_TYPE_ONE))


def shown(cuts: Cuts, delta: float) -> float:
    """Return the ε that counts show at δ, for ranking only: the best event's, at rates two deviations worse."""
    _, low, high = cuts.doubted(delta, 2.0)
    good = low > 0
    return max(float(np.log(low[good] / np.minimum(high[good], 1.0)).max(initial=0.0)), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """Scores learned from one half of the past, with thresholds and counts from the other half.

    Attributes:
        encoder: learned from all of it.
        scores: what separates the two.
        cuts: for each score, its events with all counts so far; they grow as samples come.
        seen: some of the outputs of the second half.
    """

    encoder: Encoder
    scores: tuple[Score, ...]
    cuts: tuple[Cuts, ...]
    seen: tuple[Encoded, Encoded]

    @classmethod
    def of(cls, p: Batch, q: Batch, *, effort: int = 1, bits: bool = True) -> Learned:
        """Learn from outputs of the two neighbours, as many of the one as of the other."""
        encoder = Encoder.learned(p, q, bits=bits)
        p_rows, q_rows = encoder.encode(p), encoder.encode(q)
        half = len(p_rows) // 2
        scores = tuple(learn(p_rows[:half], q_rows[:half], effort=effort)) if half >= _FEWEST else ()
        held = p_rows[half:], q_rows[half:]
        cuts = []
        for score in scores:
            p_scores, q_scores = score(held[0]), score(held[1])
            cut = Cuts.through(p_scores, q_scores)
            cut.add(cut.bins(p_scores), cut.bins(q_scores))
            cuts.append(cut)
        return cls(encoder, scores, tuple(cuts), (held[0].first(_LOOKED_AT), held[1].first(_LOOKED_AT)))

    @property
    def width(self) -> int:
        """Numbers in a row."""
        return max(len(self.seen[0].columns), 1)

    @property
    def plainness(self) -> tuple[int, ...]:
        """For each score how hard its events are to check by hand: 0 for one column or a few outputs."""
        return tuple(_plainness(score) for score in self.scores)

    def keep(self, which: Sequence[int]) -> Learned:
        """Return the same with some of the scores only."""
        scores, cuts = tuple(self.scores[i] for i in which), tuple(self.cuts[i] for i in which)
        return replace(self, scores=scores, cuts=cuts)

    def bins(self, p: Batch, q: Batch) -> list[Bins]:
        """For each score, the bins of outputs."""
        needed = frozenset[int]().union(*(score.needs for score in self.scores))
        rows = self.encoder.encode(p, needed=needed), self.encoder.encode(q, needed=needed)
        return [
            (cut.bins(score(rows[0])), cut.bins(score(rows[1])))
            for score, cut in zip(self.scores, self.cuts, strict=True)
        ]

    def words(self, event: ScoreEvent) -> str:
        """Return an event in words.

        Scores put "score above a threshold" into words. A complement is the negation of that, except that of a list of
        whole outputs and that of intervals, which are of the same kind.
        """
        score, cut = self.scores[event.score], self.cuts[event.score]
        hits = np.concatenate([cut.bins(score(rows)) > event.cut for rows in self.seen])
        outputs = Encoded.joined(self.seen)
        if not event.other:
            return score.words(outputs, hits)
        if isinstance(score, Enumeration) or (isinstance(score, OneColumn) and score.ordered):
            return score.words(outputs, ~hits)
        return f"not: {score.words(outputs, hits)}"

    def happens(self, event: ScoreEvent) -> EventPredicate:
        """Return an event as a function of outputs."""
        return EventPredicate(self.encoder, self.scores[event.score], self.cuts[event.score].at, event.cut, event.other)

    def tried(self, delta: float) -> tuple[Tried, ...]:
        """Return the scores, and what ε each showed, best first."""
        found = [Tried(s.name, shown(c, delta), c.n) for s, c in zip(self.scores, self.cuts, strict=True)]
        return tuple(sorted(found, key=lambda t: -t.epsilon))


def _plainness(score: Score) -> int:
    if isinstance(score, OneColumn):
        return 0
    if isinstance(score, Enumeration):
        return 0 if len(score.known) <= _LISTED else 1
    return 3 if isinstance(score, Trees) else 2


def count(cuts: Sequence[Cuts], bins: Sequence[Bins]) -> None:
    """Add the bins of new outputs to counts."""
    for cut, (p, q) in zip(cuts, bins, strict=True):
        cut.add(p, q)
