"""What a guarantee allows an attacker who guesses: success, advantage, odds, errors. Proofs: docs/proofs/games.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.canary.guesses import promises
from discreet.audit.claim import Claim

Floats: TypeAlias = NDArray[np.float64]

_SLACK = 1e-12
"""Far above the rounding errors of a few terms below 1."""


def success(claim: Claim, priors: Sequence[Fraction]) -> float:
    """The largest chance to guess which of several worlds is real, of which any two are neighbours.

    Guarantee:
        For (ε, δ)-DP and priors p₁ ≥ p₂ ≥ …: δ + (1 − δ)·max_t (p₁ + … + p_t)·e^ε/(e^ε + t − 1), the least of it over
        the points of the claim; rounded up. For two worlds it is attained. docs/proofs/games.md, Theorem 1.

    References: for k equal priors, Humphries et al. 2020, https://arxiv.org/abs/2010.12112 (k = 2).
    """
    falling = np.cumsum(sorted((float(p) for p in priors), reverse=True))
    others = np.arange(len(falling))  # t − 1
    best = 1.0
    for epsilon, delta in promises(claim):
        reached = float(np.max(falling / (1 + others * math.exp(-epsilon))))
        best = min(best, delta + (1 - delta) * reached)
    if claim.loss is not None and len(priors) == 2:
        best = min(best, max(claim.loss.success(p) for p in priors))
    return min(1.0, best + _SLACK)


def advantage(claim: Claim) -> float:
    """The largest difference of the chances of one guess under two neighbours: (e^ε − 1 + 2δ)/(e^ε + 1), rounded up."""
    half = Fraction(1, 2)
    return min(1.0, 2 * success(claim, (half, half)) - 1)


def odds(claim: Claim, prior: Fraction) -> float | None:
    """The largest odds for one world after any output: prior odds times e^ε, for pure ε; None where δ > 0."""
    pure = [epsilon for epsilon, delta in claim.points if delta == 0]
    if not pure:
        return None
    before = float(prior) / float(1 - prior)
    return before * math.exp(min(min(pure), 700.0)) * (1 + _SLACK)


def errors(claim: Claim, alpha: Floats) -> Floats:
    """The least type II errors that a claim allows tests of those levels."""
    if claim.loss is None:
        return claim.tradeoff(alpha)
    return np.asarray(claim.loss.tradeoff(alpha), dtype=np.float64)
