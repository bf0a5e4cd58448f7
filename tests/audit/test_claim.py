"""Claims against the closed forms of the guarantees that they stand for."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import discreet as dp
from discreet import accounting
from discreet.audit import Claim
from discreet.errors import InvalidParameter
from discreet.privacy.guarantee import Approximate


def test_a_budget_is_one_promise_and_no_float_claims_less() -> None:
    claim = Claim.of(dp.Budget(epsilon=Fraction(1, 3), delta=Fraction(1, 7)))
    assert claim == Claim.of(Approximate(Fraction(1, 3), Fraction(1, 7)))
    ((epsilon, delta),) = claim.points
    assert Fraction(epsilon) >= Fraction(1, 3) and epsilon == pytest.approx(1 / 3)
    assert Fraction(delta) >= Fraction(1, 7) and delta == pytest.approx(1 / 7)
    assert Claim.of(0.5).points == ((0.5, 0.0),)
    assert Claim.of(claim) is claim


def test_a_loss_is_tested_at_several_points_of_its_curve() -> None:
    mu = 0.5
    claim = Claim.of(accounting.gaussian(1 / mu))
    for epsilon, delta in claim.points:  # Balle, Wang 2018, Theorem 8
        truth = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)
        assert delta == pytest.approx(truth, rel=1e-6)
    assert any(epsilon == 0 for epsilon, _ in claim.points)
    assert Claim.of(accounting.laplace(2)).points[0] == (0.5, 0.0)


def test_the_tradeoff_of_a_guarantee_is_the_textbooks() -> None:
    alpha = np.linspace(0, 1, 21)
    response = Claim.of(math.log(3)).tradeoff(alpha)  # two lines that meet at (1/4, 1/4)
    assert response == pytest.approx(np.maximum(np.maximum(1 - 3 * alpha, (1 - alpha) / 3), 0), abs=1e-9)
    normal = Claim.of(accounting.gaussian(1)).tradeoff(alpha)  # Dong, Roth, Su 2019, Equation (6)
    assert normal == pytest.approx(stats.norm.cdf(stats.norm.isf(alpha) - 1), abs=1e-6)


@pytest.mark.parametrize("bad", ["one", None, math.nan, -1, object(), [1]])
def test_what_is_no_claim_is_refused_by_name(bad: object) -> None:
    with pytest.raises(InvalidParameter):
        Claim.of(bad)  # type: ignore[arg-type]
