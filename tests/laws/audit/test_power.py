"""What an audit says of its own power is borne out by audits of mechanisms that are just so far beyond their claim."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.audit.claim import Claim
from discreet.audit.sequential import distinguish
from discreet.audit.sequential_test import SequentialTest
from discreet.privacy.guarantee import Budget

CLAIM, SAMPLES, AUDITS = Claim.of(1), 20_000, 9


class Coin:
    """Ones with a chance."""

    def __init__(self, chance: float, seed: int) -> None:
        self.chance, self._random = chance, np.random.default_rng(seed)

    def draw(self, n: int) -> NDArray[np.int64]:
        """n coins."""
        return (self._random.random(n) < self.chance).astype(np.int64)


def duel_of(p: float, q: float, seed: int, samples: int) -> SequentialTest:
    one, two = Coin(p, 2 * seed), Coin(q, 2 * seed + 1)
    return SequentialTest(one, two, CLAIM, error=1e-3, samples=samples, effort=0).run()


def found(p: float, q: float, samples: int) -> float:
    """The share of tests that find it."""
    return sum(duel_of(p, q, 100 + k, samples).refuted for k in range(AUDITS)) / AUDITS


@pytest.mark.parametrize(("likely", "in_delta"), [(0.5, False), (0.02, True)])
def test_what_would_have_been_found_is_found_in_most_runs_and_half_of_it_where_it_is_said(
    likely: float, in_delta: bool
) -> None:
    power = duel_of(likely, likely / math.e, 1, SAMPLES).power()
    assert power.likely == pytest.approx(likely, rel=0.2)

    def chances(excess: float) -> tuple[float, float]:
        return (likely + excess, likely / math.e) if in_delta else (likely, likely * math.exp(-1 - excess))

    least = power.delta if in_delta else power.epsilon - 1
    half = power.unseen[0 if in_delta else 1]
    assert found(*chances(least), SAMPLES) > 0.5
    assert found(*chances(least / 2), SAMPLES) < 0.5
    assert found(*chances(least / 2), round(half.samples / 3)) < 0.5
    assert found(*chances(least / 2), round(3 * half.samples)) > 0.5


def classical(seed: int) -> Callable[..., NDArray[np.float64]]:
    """The Gaussian mechanism as calibrated for ε < 1, at ε = 8 and δ = 0.01: σ = 0.388, of which the true δ is 0.0178.

    Dwork, Roth, The Algorithmic Foundations of Differential Privacy, Theorem A.1; on a grid, so that no bits leak.
    """
    rng = np.random.default_rng(seed)
    sigma = math.sqrt(2 * math.log(1.25 / 0.01)) / 8
    return lambda x, n: np.rint((x + rng.normal(0, sigma, n)) * 1024) / 1024


def test_the_classical_gaussian_beyond_its_theorem_is_found_with_the_samples_that_20_seconds_hold() -> None:
    claimed = Budget(8, "0.01")
    soon = distinguish(classical(0), 0, 1, claimed, samples=2_000_000, probes=False)
    assert not soon.violated
    assert soon.power is not None
    assert soon.power.delta > 0.0178
    late = distinguish(classical(0), 0, 1, claimed, samples=40_000_000, probes=False)
    assert late.violated
    assert late.samples < 2 * 40_000_000
    # What the short audit said of this violation is about right.
    assert late.samples / 2 / 3 < soon.power.needs(delta=0.0178).samples < 3 * late.samples / 2
