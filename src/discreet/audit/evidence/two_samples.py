"""Two samples of scores: an event chosen on some, and what the others say about it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.evidence.intervals import broken, clopper_pearson, clopper_pearson_many

Floats: TypeAlias = NDArray[np.float64]

_CUTS = 400
_STEPS = 60


@dataclass(frozen=True, slots=True)
class EventEvidence:
    """What the counts of one event say: the p-value of the promises, and a lower bound on ε."""

    p_value: float
    epsilon_lower: float


@dataclass(frozen=True, slots=True)
class CutEvent:
    """Scores on one side of a cut.

    Attributes:
        cut: the cut, which belongs to the event.
        upwards: whether the event is "at least the cut", else "at most".
        inside: whether it speaks for the first sample (a canary that is in), else for the second.
        ratio: the ratio of the two chances, of what intervals left of them where it was chosen: no evidence.
    """

    cut: float
    upwards: bool
    inside: bool
    ratio: float

    def happens(self, scores: Floats) -> NDArray[np.bool_]:
        """Return which of the scores are in it."""
        return np.asarray(scores >= self.cut if self.upwards else scores <= self.cut)

    def hits(self, scores: Floats) -> int:
        """Return how many of the scores are in it."""
        return int(np.sum(self.happens(scores)))


def threshold(inside: Floats, outside: Floats, delta: float, error: float) -> CutEvent:
    """Return the event that shows the largest ε at δ, of all cuts, both sides and both orders of the samples."""
    scores = np.unique(np.concatenate([inside, outside]))
    if len(scores) > _CUTS:
        scores = np.unique(np.quantile(scores, np.linspace(0, 1, _CUTS), method="nearest"))
    found = CutEvent(float(scores[-1]), True, True, -math.inf)
    for upwards in (True, False):
        sign = 1 if upwards else -1
        hits = [len(s) - np.searchsorted(np.sort(sign * s), sign * scores) for s in (inside, outside)]
        for p, q, is_inside in ((0, 1, True), (1, 0, False)):
            p_low = clopper_pearson_many(hits[p], len(inside), error)[0]
            q_high = clopper_pearson_many(hits[q], len(outside), error)[1]
            clear = (p_low - delta) / q_high
            at = int(np.argmax(clear))
            if clear[at] > found.ratio:
                found = CutEvent(float(scores[at]), upwards, is_inside, float(clear[at]))
    return found


def between(
    p_hits: int, q_hits: int, n: int, promises: Iterable[tuple[float, float]], delta: float, error: float
) -> EventEvidence:
    """Return the evidence of an event that was seen that often in n fresh samples of each neighbour.

    Guarantee:
        The p-value is the least error at which the two Clopper–Pearson bounds, of error/2 each, contradict one of the
        promises P(E) ≤ e^ε Q(E) + δ. All promises are about the same two chances, so no correction is needed.
    """
    points = tuple(promises)

    def refuted(level: float) -> bool:
        low, high = clopper_pearson(p_hits, n, level)[0], clopper_pearson(q_hits, n, level)[1]
        return broken(points, low, high)

    p_value = 1.0
    if refuted(p_value):
        kept, enough = -300.0, 0.0  # exponents of ten
        for _ in range(_STEPS):
            middle = (kept + enough) / 2
            kept, enough = (kept, middle) if refuted(10.0**middle) else (middle, enough)
        p_value = 10.0**enough
    low, high = clopper_pearson(p_hits, n, error)[0], clopper_pearson(q_hits, n, error)[1]
    epsilon = math.log((low - delta) / high) if low > delta + high else 0.0
    return EventEvidence(p_value, epsilon * (1 - 1e-12))
