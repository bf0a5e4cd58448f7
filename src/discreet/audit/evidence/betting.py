"""Bets against promises: wealth that a true promise lets grow past 1/α with probability at most α.

For one promise P(E) ≤ e^ε Q(E) + δ and an event E chosen before the samples, Z = 1[a ∈ E] − e^ε 1[b ∈ E] of a fresh
pair a ~ P, b ~ Q has a mean of at most δ, so 1 + λ(Z − δ) with 0 ≤ λ < 1/(e^ε + δ) is not negative and has a mean of at
most 1. Proofs: docs/proofs/auditing.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from discreet.audit.claim import Ints, Promises
from discreet.audit.places import Floats, places

MOST_CUTS = 200
"""Candidate events of one score."""

_MOST_STAKE = 0.98  # of the largest λ: no wealth is ever lost altogether
_DOUBT = 1.5  # standard deviations by which a rate learned from the past is doubted before money is bet on it
_SURE = 3.1  # standard deviations of certainty that growth alone reaches the target in time
_SIGNIFICANT = 4.0  # standard deviations from which on the past itself refutes a promise
_BETTER = 3.0  # standard deviations by which an event is better than another one beyond doubt
_OFTEN = 300  # times that an event has happened whose excess is not a few lucky hits
_A_LITTLE = 0.5  # standard deviations by which such an event is better than one that noise did not choose
_HOPELESS = 2.0  # standard deviations by which a promise has to look true for no money to be bet against it
_SPARE = 3.0  # standard deviations by which more samples are planned than half of all tests need
_LOST = -20.0  # the log wealth at which one stops betting
_SLICES = 128  # steps in which stakes are adjusted on the way to the horizon
_OVERSHOOT = 0.02  # what the aim lies above the target, in log wealth


@dataclass(slots=True, eq=False)
class Cuts:
    """The candidate events "score above a threshold" of one score, and how often each happened so far.

    An output is reduced to its bin: the number of thresholds below its score. Event k is "bin above k"; its complement,
    "bin at most k", is the event for the other order of the neighbours.

    Attributes:
        at: the thresholds, rising.
        n: how many outputs of each neighbour were counted.
        p, q: for each event, how many outputs of the first and of the second neighbour were in it.
    """

    at: Floats
    n: int
    p: NDArray[np.int64]
    q: NDArray[np.int64]

    @classmethod
    def through(cls, p_scores: Floats, q_scores: Floats) -> Cuts:
        """Thresholds at all scores when they are few, else at quantiles, denser in the tails; no counts yet."""
        pooled = np.sort(np.concatenate([clean(p_scores), clean(q_scores)]))
        values = pooled[np.concatenate([[True], pooled[1:] != pooled[:-1]])[: len(pooled)]]
        if len(values) > MOST_CUTS:
            n = len(pooled)
            tail = np.unique(np.geomspace(1.5 / n, 0.02, 30))
            levels = np.concatenate([tail, np.linspace(0.02, 0.98, MOST_CUTS - 60), 1 - tail])
            values = np.unique(pooled[np.clip(np.ceil(n * levels).astype(np.intp) - 1, 0, n - 1)])
        none = np.zeros(len(values), dtype=np.int64)
        return cls(values, 0, none, none.copy())

    def empty(self) -> Cuts:
        """Return the same events, counted anew."""
        none = np.zeros(len(self.at), dtype=np.int64)
        return Cuts(self.at, 0, none, none.copy())

    def bins(self, scores: Floats) -> Ints:
        """Return the bin of each score."""
        return places(self.at, scores)  # "not a number" as in `clean`

    def rates(self) -> tuple[Floats, Floats]:
        """Return the smoothed chances of the events and complements under the neighbour that each favours, and not."""
        return both_orders((self.p + 0.5) / (self.n + 1), (self.q + 0.5) / (self.n + 1))

    def doubted(self, delta: float, doubt: float) -> tuple[Floats, Floats, Floats]:
        """Return the likelier chances, these less δ and so many deviations, and the other ones with as many more."""
        (likely, rare), by = self.rates(), doubt / math.sqrt(self.n + 1)
        low, high = (x + s * by * np.sqrt(x * (1 - x)) for x, s in ((likely, -1), (rare, 1)))
        return likely, low - delta, high

    def add(self, p_bins: Ints, q_bins: Ints) -> None:
        """Count more pairs."""
        self.n += len(p_bins)
        self.p = self.p + _hits(p_bins, len(self.at))
        self.q = self.q + _hits(q_bins, len(self.at))


def edges(points: Sequence[tuple[float, float]], past: Sequence[Cuts]) -> float:
    """By how many standard deviations the counts are beyond what promises (ε, δ) allow, at the best event and promise.

    Smoothed; the best of many events, so that 3 is nothing special. For ranking only.
    """
    found = -math.inf
    for cuts in past:
        likely, rare = cuts.rates()
        for epsilon, delta in points:
            grown = _grown(np.full(1, epsilon))
            z = (likely - grown * rare - delta) / _spread(likely, rare, grown)
            found = max(found, float(z.max(initial=-math.inf)) * math.sqrt(cuts.n))
    return found


def both_orders(p: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Chances of the events for the first neighbour against the second, then of the complements the other way round."""
    return np.concatenate([p, 1 - q]), np.concatenate([q, 1 - p])


def clean(scores: Floats) -> Floats:
    """Scores in which "not a number" is the least one, so that they are ordered."""
    return np.where(np.isnan(scores), -np.inf, scores)


def _hits(bins: Ints, cuts: int) -> NDArray[np.int64]:
    counts = np.bincount(bins, minlength=cuts + 1)
    return np.cumsum(counts[::-1])[::-1][1:].astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Bets:
    """For each wealth, the promise and the event that it bets on until the next plan, all chosen from past samples.

    Attributes:
        score: the number of the score.
        cut: the number of the event among its cuts.
        other: whether it is the complement, for the second neighbour against the first.
        grown: e^ε of the promise, rounded up.
        delta: its δ.
        p, q: the chances of the event under the likelier and the other neighbour, as learned.
        n: from how many samples.
        steady: the λ of largest growth, at doubted rates.
        keen: the largest λ that is worth while when the target has to be reached in time.
        edge: the mean of Z − δ as learned, over its standard deviation.
    """

    score: Ints
    cut: Ints
    other: NDArray[np.bool_]
    grown: Floats
    delta: Floats
    p: Floats
    q: Floats
    n: int
    steady: Floats
    keen: Floats
    edge: Floats

    def won(self, bins: Sequence[tuple[Ints, Ints]]) -> tuple[float, float]:
        """Return what the bet against the claim (the last one) wins per stake: the sum of Z − δ over new pairs.

        Beside it the variance that was expected of that.
        """
        p_bins, q_bins = bins[int(self.score[-1])]
        n, cut = len(p_bins), self.cut[-1]
        p, q = int(np.count_nonzero(p_bins > cut)), int(np.count_nonzero(q_bins > cut))
        likely, rare = (n - q, n - p) if self.other[-1] else (p, q)
        sigma = float(_spread(self.p[-1:], self.q[-1:], self.grown[-1:])[0])
        return likely - float(self.grown[-1]) * rare - n * float(self.delta[-1]), n * sigma**2

    def of(self, rows: Ints) -> Bets:
        """Return the bets of some of the wealths."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "n"})


class Wealth:
    """Wealth against each promise, and against the claim as a whole (the last one).

    Guarantee:
        For a promise that is true, and fresh independent pairs given everything that `plan` used, each wealth is a
        nonnegative supermartingale that starts at 1: the chance that it ever reaches 1/α is at most α, whenever and for
        whatever reason one stops (Ville). `best` is its running maximum. The wealth of the claim bets, in each plan, on
        one of the claim's points and one order of the neighbours, so that it tests all of them at once without a
        correction. Logarithms of wealth are rounded down.

    References:
        Ville 1939; Waudby-Smith, Ramdas 2024, Section 4, https://arxiv.org/abs/2010.09686
    """

    def __init__(self, promises: Promises, error: float) -> None:
        self.promises = promises
        self.target = math.log(1 / error)
        self.log_wealth: Floats = np.zeros(len(promises) + 1)
        self.best: Floats = np.zeros(len(promises) + 1)

    @property
    def refuted(self) -> NDArray[np.bool_]:
        """The promises whose wealth has reached 1/error."""
        return self.best[:-1] >= self.target

    @property
    def claim_refuted(self) -> bool:
        """Whether the wealth against the claim has reached 1/error."""
        return bool(self.best[-1] >= self.target)

    def plan(self, past: Sequence[Cuts]) -> Bets:
        """Return the bets of largest expected growth, judged by counts of past samples."""
        rows = self.promises
        grown = _grown(rows.epsilons)
        score, cut, other, p, q = _events(rows, past)
        n = min(cuts.n for cuts in past)
        wide = _spread(p, q, grown)
        edge = (p - grown * q - rows.deltas) / wide
        # The claim as a whole bets on the most promising of its points.
        champion = int(rows.claimed[int(np.argmax(edge[rows.claimed]))])
        every = np.append(np.arange(len(rows)), champion)
        grown, delta, p, q = grown[every], rows.deltas[every], p[every], q[every]
        doubt = _DOUBT / math.sqrt(n + 1)
        steady = _growth_optimal(
            np.maximum(p - doubt * np.sqrt(p * (1 - p)), 0.0),
            np.minimum(q + doubt * np.sqrt(q * (1 - q)), 1.0),
            grown,
            delta,
        )
        keen = np.maximum(_growth_optimal(p, q, grown, delta), _MOST_STAKE / (grown + delta) / 2)
        return Bets(score[every], cut[every], other[every], grown, delta, p, q, n, steady, keen, edge[every])

    def needed(self, past: Sequence[Cuts]) -> int:
        """About how many pairs will refute the claim, if its best event is as good as it looks.

        As many as a normal test of the mean of Z needs, and as the largest growth of wealth needs where hits are rare.
        """
        from scipy.special import ndtri

        bets = self.plan(past).of(np.asarray([len(self.promises)]))
        sure = float(-ndtri(math.exp(-self.target))) + _SPARE
        edge = max(float(bets.edge[0]) - _DOUBT / 2 / math.sqrt(bets.n + 1), 1e-9)
        rate = float(_growth(bets.p, bets.q, bets.grown, bets.delta)[0])
        return math.ceil(min(max((sure / edge) ** 2, 2 * self.target / max(rate, 1e-300)), 1e15))

    def settle(self, bets: Bets, bins: Sequence[tuple[Ints, Ints]], *, left: int | None = None) -> None:
        """Settles bets on fresh pairs.

        Args:
            bets: chosen before these pairs were drawn.
            bins: for each score, the bins of the first and of the second neighbour's outputs; pairs by position.
            left: how many pairs will be left after these, when the stakes aim at the target by the end of them; None:
                stakes of largest growth.
        """
        m = len(bins[0][0])
        aim = left is not None
        ahead = m + (left or 0)
        rows = np.flatnonzero(
            (self.best < self.target)
            & (self.log_wealth > _LOST)
            & ((bets.steady > 0) | (aim & (bets.edge >= -_HOPELESS / math.sqrt(bets.n + 1))))
        )
        if m == 0 or len(rows) == 0:
            return
        bets = bets.of(rows)
        slices = int(np.clip(math.ceil(_SLICES * m / ahead), 1, _SLICES // 2)) if aim else 1
        edges = np.linspace(0, m, min(slices, m) + 1).astype(np.intp)
        counts = _counts(bets, bins, edges)
        wealth, best = self.log_wealth[rows], self.best[rows]
        for i in range(len(edges) - 1):
            stake = self._stakes(bets, wealth, ahead - int(edges[i])) if aim else bets.steady
            wealth = wealth + _log_growth(bets, stake, *(c[i] for c in counts))
            best = np.maximum(best, wealth)
        self.log_wealth[rows], self.best[rows] = wealth, best

    def _stakes(self, bets: Bets, wealth: Floats, rest: int) -> Floats:
        """λ for each wealth: the growth-optimal one, or the one that replicates the best test at the horizon.

        With `rest` pairs left and wealth W, a ticket that pays 1/α if a normal test at the end rejects costs W when the
        test has level αW. Its hedge is λ = φ(d)/(Φ(d) σ √rest) with Φ(d) = αW. Any λ is valid; this one is nearly as
        powerful as a test with a fixed number of samples, and may stop before the end all the same.
        """
        from scipy.special import log_ndtr, ndtri_exp

        room = np.minimum(wealth - self.target - _OVERSHOOT, -1e-9)
        d = np.maximum(ndtri_exp(room), -30.0)
        root = math.sqrt(max(rest, 1))
        hazard = np.exp(-d * d / 2 - 0.5 * math.log(2 * math.pi) - log_ndtr(d))
        bold = np.minimum(hazard / (_spread(bets.p, bets.q, bets.grown) * root), bets.keen)
        doubted = bets.edge - _DOUBT / math.sqrt(bets.n + 1)
        sure = (doubted > 0) & (d + doubted * root > _SURE)
        return np.where(sure, bets.steady, bold)


def _grown(epsilons: Floats) -> Floats:
    """e^ε rounded up: Z is then not above its true value. Far beyond any ε that could be refuted no more than huge."""
    grown = np.exp(np.minimum(epsilons, 300.0))
    return np.asarray(np.nextafter(np.nextafter(grown, np.inf), np.inf), dtype=np.float64)


def _spread(p: Floats, q: Floats, grown: Floats) -> Floats:
    """Return the standard deviation of Z."""
    return np.sqrt(p * (1 - p) + grown * grown * q * (1 - q))


def _events(rows: Promises, past: Sequence[Cuts]) -> tuple[Ints, Ints, NDArray[np.bool_], Floats, Floats]:
    """For each row: score, cut, order, and the smoothed chances of the event.

    An anchor takes the event with the largest mean of Z − δ in standard deviations. One that no event of the past
    refutes takes the event of the promise before it in its chain, unless another one is better by far: near the truth
    noise would choose. Only for what is claimed the best of the events that happened often, of which noise has few to
    choose from, need not be better by far: an event that refutes a smaller ε may say nothing about this one.
    """
    score = np.concatenate([np.full(len(c.at), i, dtype=np.intp) for i, c in enumerate(past)])
    cut = np.concatenate([np.arange(len(c.at), dtype=np.intp) for c in past])
    n = np.concatenate([np.full(len(c.at), c.n) for c in past])
    p = (np.concatenate([c.p for c in past]) + 0.5) / (n + 1)
    q = (np.concatenate([c.q for c in past]) + 0.5) / (n + 1)
    likely, rare = both_orders(p, q)
    root = np.sqrt(np.concatenate([n, n]))
    grown = _grown(rows.anchor_epsilons)
    chosen = np.zeros(len(grown), dtype=np.intp)
    # An event, or what it leaves out: that of a rare one is its twin, and for ε = 0 the same bet.
    often = np.minimum(likely, 1 - rare) * np.concatenate([n, n]) >= _OFTEN
    claimed = set(rows.anchor[rows.claimed].tolist())
    for i in range(len(grown)):
        z = (likely - grown[i] * rare - rows.anchor_deltas[i]) / _spread(likely, rare, grown[i])
        best, first = int(np.argmax(z)), rows.parent[i] < 0
        before = best if first else int(chosen[rows.parent[i]])
        if i in claimed and often.any():
            other = int(np.argmax(np.where(often, z, -math.inf)))
            if first or z[other] * root[other] > z[before] * root[before] + _A_LITTLE:
                before = other
        refuted = z[best] * root[best] >= _SIGNIFICANT
        better = z[best] * root[best] >= z[before] * root[before] + _BETTER
        chosen[i] = best if refuted or better else before
    event = chosen[rows.anchor]
    k = event % len(score)
    return score[k], cut[k], event >= len(score), likely[event], rare[event]


def _growth_optimal(p: Floats, q: Floats, grown: Floats, delta: Floats) -> Floats:
    """Return the λ that maximises the mean of log(1 + λ(Z − δ)), by bisection of its derivative, which falls."""
    chances, values = _outcomes(p, q, grown, delta)
    low, high = np.zeros_like(p), _MOST_STAKE / (grown + delta)
    for _ in range(28):
        middle = (low + high) / 2
        slope = sum(c * v / (1 + middle * v) for c, v in zip(chances, values, strict=True))
        low, high = np.where(slope > 0, middle, low), np.where(slope > 0, high, middle)
    hopeful = p - grown * q - delta > 0
    return np.where(hopeful, low, 0.0)


def growth_rate(p: Floats, q: Floats, epsilon: float, delta: float) -> Floats:
    """Return the largest mean of log(1 + λ(Z − δ)) for an event of chances p and q; 0 where it breaks no promise."""
    return _growth(p, q, _grown(np.full(len(p), epsilon)), np.full(len(p), delta))


def _growth(p: Floats, q: Floats, grown: Floats, delta: Floats) -> Floats:
    stake = _growth_optimal(p, q, grown, delta)
    chances, values = _outcomes(p, q, grown, delta)
    return np.asarray(sum(c * np.log1p(stake * v) for c, v in zip(chances, values, strict=True)))


def _outcomes(p: Floats, q: Floats, grown: Floats, delta: Floats) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return the chances of the four outcomes of a pair, and Z − δ."""
    chances = p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)
    return chances, (1 - grown - delta, 1 - delta, -grown - delta, -delta)


def _counts(
    bets: Bets, bins: Sequence[tuple[Ints, Ints]], edges: Ints
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each slice and each bet, the pairs by (first in the event, second in it): n11, n10, n01, n00."""
    shape = (len(edges) - 1, len(bets.score))
    first, second, both = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    size = np.diff(edges)[:, None]
    part = np.repeat(np.arange(shape[0]), np.diff(edges))
    for score in np.unique(bets.score):
        rows = np.flatnonzero(bets.score == score)
        p_bins, q_bins = bins[score]
        width = int(max(p_bins.max(initial=0), q_bins.max(initial=0), bets.cut[rows].max())) + 1
        for into, values in ((first, p_bins), (second, q_bins), (both, np.minimum(p_bins, q_bins))):
            table = np.bincount(part * width + values, minlength=shape[0] * width).reshape(shape[0], width)
            above = size - np.cumsum(table, axis=1)  # how many have a bin above k
            into[:, rows] = above[:, bets.cut[rows]]
    n11, n00 = both, size - first - second + both
    # For the complements the pair swaps its parts, and both are in when neither was.
    return np.where(bets.other, n00, n11), first - both, second - both, np.where(bets.other, n11, n00)


def _log_growth(
    bets: Bets,
    stake: Floats,
    n11: NDArray[np.int64],
    n10: NDArray[np.int64],
    n01: NDArray[np.int64],
    n00: NDArray[np.int64],
) -> Floats:
    """Logarithm of Π (1 + λ(Z − δ)), rounded down."""
    total, slack = np.zeros_like(stake), np.zeros_like(stake)
    for count, value in (
        (n11, 1 - bets.grown - bets.delta),
        (n10, 1 - bets.delta),
        (n01, -bets.grown - bets.delta),
        (n00, -bets.delta),
    ):
        x = stake * value
        total += count * np.log1p(x)
        slack += count * np.abs(x)
    # 1 + x is at least 0.02, so that each term is wrong by less than 50 |x| and a few units in the last place.
    return np.asarray(total - 1e-13 * slack, dtype=np.float64)
