"""The evidence of an audit: an event with its chances, the trade-off.

The verdict itself comes from `Wealth` (`betting.py`); the intervals here (`intervals.py`) are what a reader can check.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.claim import Claim
from discreet.audit.evidence.betting import Cuts
from discreet.audit.evidence.intervals import tradeoff_high
from discreet.audit.finding import Chance, Tradeoff

Floats: TypeAlias = NDArray[np.float64]

_NEARLY = 0.85  # of the largest ε: an event that shows as much and is easier to check is shown instead
_TYPE_ONE = np.unique(np.concatenate([[0.0], np.geomspace(1e-6, 1e-2, 21), np.linspace(0.01, 1.0, 100)]))


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
    """Return the ε that counts show at δ, for ranking only: the best event's, at rates two standard deviations
    worse.
    """
    _, low, high = cuts.doubted(delta, 2.0)
    good = low > 0
    return max(float(np.log(low[good] / np.minimum(high[good], 1.0)).max(initial=0.0)), 0.0)
