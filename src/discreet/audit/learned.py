"""What is learned from past outputs of two neighbours: an encoder, scores, and how often their events happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from discreet.audit.event_predicate import EventPredicate
from discreet.audit.evidence.betting import Cuts, Ints
from discreet.audit.evidence.events import ScoreEvent, shown
from discreet.audit.finding import Tried
from discreet.audit.outputs.encoding import Encoded, Encoder
from discreet.audit.outputs.shape import Batch
from discreet.audit.scores import learn
from discreet.audit.scores.column import OneColumn
from discreet.audit.scores.enumeration import Enumeration
from discreet.audit.scores.score import Score
from discreet.audit.scores.trees import Trees

Bins: TypeAlias = tuple[Ints, Ints]

_LOOKED_AT = 20_000  # outputs of each neighbour from which an event is put into words
_LISTED = 8  # outputs that a reader may be shown one by one
_FEWEST = 10  # outputs that are enough to learn anything from


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
        return EventPredicate(
            self.encoder, self.scores[event.score], self.cuts[event.score].at, event.cut, event.other
        )

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
