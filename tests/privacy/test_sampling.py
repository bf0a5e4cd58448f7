"""The curve of a use on a Poisson sample, near the largest loss, where it hangs on the last digits of ε."""

from __future__ import annotations

from fractions import Fraction as F

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from discreet.privacy.event import GaussianEvent
from discreet.privacy.pair import ACCURACY
from discreet.privacy.sampling import PoissonEvent
from tests.privacy.curves import real


def added(mu_squared: F, rate: F, epsilon: float) -> mpf:
    """∫ (N(0,1) − e^ε((1−q)N(0,1) + qN(μ,1)))₊, which ends where the densities' ratio is e^−ε."""
    mu, q, x = mpmath.sqrt(real(mu_squared)), real(rate), mpf(epsilon)
    if mpmath.exp(-x) <= 1 - q:
        return mpf(0)
    end = (mpmath.log((mpmath.exp(-x) - 1 + q) / q) + mu * mu / 2) / mu
    return mpmath.ncdf(end) - mpmath.exp(x) * ((1 - q) * mpmath.ncdf(end) + q * mpmath.ncdf(end - mu))


@pytest.mark.parametrize("mu_squared", [F(1, 100), F(1, 4), F(6), F(100)])
@pytest.mark.parametrize("rate", [F(1, 10**5), F(1, 3), F(972424, 10**6), F(999898, 10**6), 1 - F(1, 10**9)])
def test_adding_a_unit_has_its_exact_curve_up_to_the_largest_loss(mu_squared: F, rate: F) -> None:
    pair = PoissonEvent(GaussianEvent(mu_squared), rate).pair().reverse()
    with mpmath.workdps(60):
        largest = float(-mpmath.log(1 - real(rate)))
        for gap in (0.1, 1e-3, 1e-6, 1e-9, 1e-12):
            true = added(mu_squared, rate, largest * (1 - gap))
            found = mpf(float(pair.delta(np.array(largest * (1 - gap)))))
            assert true * (1 - mpf(ACCURACY)) - mpf("1e-300") <= found <= true * (1 + mpf(ACCURACY)) + mpf("1e-300")
    assert pair.epsilon_max >= largest * (1 - 1e-15)
    assert float(pair.delta(np.array(pair.epsilon_max))) == 0.0


def test_curves_that_end_or_are_steep_claim_no_accuracy_for_lower_bounds() -> None:
    assert PoissonEvent(GaussianEvent(F(1, 4)), F(1, 3)).pair().accuracy == ACCURACY
    assert PoissonEvent(GaussianEvent(F(1, 10**6)), F(1, 3)).pair().accuracy > ACCURACY
