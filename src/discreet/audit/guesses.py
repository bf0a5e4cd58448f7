"""How many right guesses about coins a private mechanism allows: exact tails, and what they say about ε."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from discreet.audit.claim import Claim
from discreet.errors import InvalidParameter

_SLACK = 1 + 1e-9
"""Far above the rounding errors of the binomial tails and of what follows."""

_STEPS = 60  # of a bisection
_POINTS = 24  # of a curve
_SHARES = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 32)
_SHARES_IN = (1 / 8,)
_FEWEST = 4


@dataclass(frozen=True, slots=True)
class Guesses:
    """How many canaries were guessed in and out, how many rightly, and what that says.

    Attributes:
        inside: guesses "it is in" (the first twin), of the highest scores.
        outside: guesses "it is out" (the second twin), of the lowest scores.
        right: how many of them were right.
        p_value: the chance of as many or more under the claim, before the correction for several tries.
        epsilon_lower: the lower bound on ε at the claimed δ, with the error divided among the tries.
    """

    inside: int
    outside: int
    right: int
    p_value: float
    epsilon_lower: float

    @property
    def guesses(self) -> int:
        """All guesses together."""
        return self.inside + self.outside


def tail(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return the largest chance of at least `right` right guesses that (ε, δ)-DP allows.

    Guarantee:
        For coins that are fair and independent, a mechanism that is (ε, δ)-DP with respect to each of the
        `canaries` coins, and a guesser who sees its output only and always makes `guesses` guesses, whichever
        they are: P(W ≥ v) ≤ G + mδ·G·(1 − G)/(v·b), where G and b are the chances that a binomial of `guesses`
        trials of chance e^ε/(1 + e^ε) is at least v, and v. It is rounded up.

    References:
        docs/proofs/canaries.md, Theorem 1. For δ = 0 it is the p-value of Steinke, Nasr, Jagielski 2023, section 5 and
        Appendix D, and for δ > 0 it is below theirs, https://arxiv.org/abs/2305.08846

    >>> round(tail(100, 100, 80, 1.0, 0.0), 5)
    0.07156
    """
    if right <= 0:
        return 1.0
    from scipy.special import betainc, betaincc, expit, log_expit

    # In terms of misses, whose chance stays exact for a large ε; the binomial law by the incomplete beta function.
    misses, wrong = guesses - right, float(expit(-epsilon))
    reached = float(betaincc(misses + 1, right, wrong))
    if delta == 0:
        return min(1.0, reached * _SLACK)
    # log of the binomial's chance of exactly v hits, which may be below every float
    atom = (
        math.lgamma(guesses + 1)
        - math.lgamma(right + 1)
        - math.lgamma(misses + 1)
        + right * float(log_expit(epsilon))
        + misses * float(log_expit(-epsilon))
    )
    if reached > 1e-280:
        log_ratio = math.log(reached) - atom
    else:  # terms beyond v fall at least geometrically there: G/b ≤ 1/(1 − ρ)
        growth = misses * math.exp(min(epsilon, 700.0)) / (right + 1)
        log_ratio = -math.log1p(-growth) if growth < 1 else math.inf
    ratio = math.exp(min(log_ratio, 700.0))
    failures = canaries * delta * ratio * float(betainc(misses + 1, right, wrong)) / right
    return min(1.0, (reached + failures) * _SLACK)


def epsilon_lower(canaries: int, guesses: int, right: int, delta: float, error: float) -> float:
    """Return a lower bound on ε at δ from that many right guesses, which is too high with chance at most `error`.

    Guarantee:
        Every ε' that `tail` rejects rules out all smaller ones too (ε-DP implies ε'-DP), so any ε' with a tail
        of at most `error` is a bound. docs/proofs/canaries.md, Corollary 2.
    """
    if tail(canaries, guesses, right, 0.0, delta) > error:
        return 0.0
    low, high = 0.0, 1.0
    while high < 64 and tail(canaries, guesses, right, high, delta) <= error:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if tail(canaries, guesses, right, middle, delta) <= error:
            low = middle
        else:
            high = middle
    return low


def p_value(canaries: int, guesses: int, right: int, promises: Iterable[tuple[float, float]]) -> float:
    """Return the largest chance of at least that many right guesses under all of the promises together.

    No correction for the number of promises is needed: all of them bound tails of one and the same count.
    """
    return min(tail(canaries, guesses, right, epsilon, delta) for epsilon, delta in promises)


def promises(claim: Claim) -> tuple[tuple[float, float], ...]:
    """Return the points of a claim; of a `PrivacyLoss` more of its curve, from ε = 0 on to where δ is about 1e-7."""
    loss = claim.loss
    if loss is None:
        return claim.points
    for delta in (1e-7, 1e-5, 1e-3, 1e-1):
        try:
            last = loss.epsilon(delta)
        except InvalidParameter:  # no finite ε at so small a δ
            continue
        grid = [float(e) for e in np.linspace(0.0, last, _POINTS)]
        return tuple(dict.fromkeys([*claim.points, *((e, loss.delta(e)) for e in grid)]))
    return claim.points


def ladder(canaries: int) -> tuple[tuple[int, int], ...]:
    """Return the numbers of guesses (in, out) that are tried by default: all, half, a quarter, … of the canaries."""
    both = [(math.ceil(canaries * s / 2), math.floor(canaries * s / 2)) for s in _SHARES]
    only_in = [(math.ceil(canaries * s), 0) for s in _SHARES_IN]
    chosen = [pair for pair in dict.fromkeys([*both, *only_in]) if sum(pair) >= _FEWEST]
    return tuple(chosen) or ((math.ceil(canaries / 2), canaries // 2),)
