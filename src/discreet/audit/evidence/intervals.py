"""Textbook intervals: what a reader can check without the betting."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.audit.places import Floats


def clopper_pearson(hits: int, n: int, error: float) -> tuple[float, float]:
    """Both ends of an interval for a chance, from `hits` in `n` independent trials.

    Guarantee:
        Each end is on the wrong side of the truth with probability at most error/2.

    References:
        Clopper, Pearson 1934, https://doi.org/10.1093/biomet/26.4.404
    """
    low, high = clopper_pearson_many(np.asarray([hits]), n, error)
    return float(low[0]), float(high[0])


def clopper_pearson_many(hits: NDArray[np.int_], n: int, error: float) -> tuple[Floats, Floats]:
    """`clopper_pearson` for several counts; each interval has the error by itself."""
    from scipy.special import betaincinv

    k = np.asarray(hits, dtype=np.float64)
    if n == 0:
        return np.zeros_like(k), np.ones_like(k)
    low = betaincinv(np.maximum(k, 1), np.maximum(n - k + 1, 1), error / 2)
    high = betaincinv(k + 1, np.maximum(n - k, 1), 1 - error / 2)
    # The inverse of the incomplete beta function is good to about 1e-13; outwards by more than that.
    low = np.where(k > 0, low * (1 - 1e-9), 0.0)
    high = np.where(k < n, np.minimum(high * (1 + 1e-9), 1.0), 1.0)
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


def broken(points: Iterable[tuple[float, float]], low: float, high: float) -> bool:
    """Return whether promises P(E) ≤ e^ε Q(E) + δ contradict P(E) ≥ low and Q(E) ≤ high."""
    return any(low > math.exp(min(e, 700.0)) * high + d for e, d in points)


def tradeoff_high(
    alpha: Floats, p_hits: NDArray[np.int_], q_hits: NDArray[np.int_], n: int, error: float
) -> tuple[Floats, Floats]:
    """Return the type II errors of the tests "reject when the event happens", and upper bounds that hold all at once.

    Args:
        alpha: type I errors at which the curve is wanted.
        p_hits: how often each event happened in n samples of P (the alternative). The events were chosen before these
            samples were drawn.
        q_hits: the same in n samples of Q (the null).
        n: samples of each.
        error: the chance that any of the bounds is below what the best test can reach.

    Returns:
        `beta`, estimated, and `beta_high`, at each alpha.

    Guarantee:
        With probability at least 1 − error, the least type II error among tests of type I error alpha is at most
        beta_high, for all alpha at once: 2K one-sided Clopper–Pearson bounds, each with error/(2K), and tests in
        between by randomising.
    """
    each = error / (2 * max(len(p_hits), 1))
    type_one = np.concatenate([[0.0], q_hits / max(n, 1), [1.0]])
    type_two = np.concatenate([[1.0], 1 - p_hits / max(n, 1), [0.0]])
    one_high = np.concatenate([[0.0], clopper_pearson_many(q_hits, n, 2 * each)[1], [1.0]])
    two_high = np.concatenate([[1.0], 1 - clopper_pearson_many(p_hits, n, 2 * each)[0], [0.0]])
    return _under(type_one, type_two, alpha), _under(one_high, two_high, alpha)


def _under(x: Floats, y: Floats, at: Floats) -> Floats:
    """Return the lower convex hull of points, at `at`: a mixture of two tests is a test."""
    hull: list[tuple[float, float]] = []
    for point in sorted(zip(x.tolist(), y.tolist(), strict=True)):
        if hull and point[1] >= hull[-1][1]:
            continue  # not better than one with a smaller type I error
        while len(hull) >= 2 and _above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    xs, ys = np.asarray(hull).T
    return np.asarray(np.interp(at, xs, ys), dtype=np.float64)


def _above(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])


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
