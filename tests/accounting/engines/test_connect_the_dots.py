"""Grid laws: above the curve they replace, and below it composed with a little Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction as F
from typing import TypeAlias

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.engines.connect_the_dots import SPLIT, GridLaw, connect_the_dots, reach
from discreet.privacy.pair import Curve, Pair
from discreet.privacy.pairs.additive import DiscreteLaplacePair, GaussianPair, LaplacePair
from discreet.privacy.pairs.guaranteed import ApproximatePair
from tests.privacy import curves

Case: TypeAlias = tuple[Pair, Callable[[float], F]]
PAIRS: st.SearchStrategy[Case] = st.sampled_from(
    [
        (GaussianPair(F(1, 4)), lambda x: curves.gaussian(F(1, 4), x)),
        (LaplacePair(0.75), lambda x: curves.laplace(F(3, 4), x)),
        (ApproximatePair(0.5, 2.0**-20), lambda x: curves.approximate(F(1, 2), F(1, 2**20), x)),
        (DiscreteLaplacePair(3, F(10)), lambda x: curves.discrete_laplace(3, F(10), x)),
    ]
)


def grid_law(pair: Pair, step: float) -> GridLaw:
    ends = reach(pair, 1e-12)
    assert ends is not None
    return connect_the_dots(pair, step, *ends)


@pytest.mark.exhaustive
@settings(max_examples=60, deadline=None)
@given(PAIRS, st.floats(0.003, 0.3), st.floats(-1.5, 1.5))
def test_a_grid_law_is_above_the_true_curve(case: Case, step: float, epsilon: float) -> None:
    pair, truth = case
    law = grid_law(pair, step)
    assert law.delta(epsilon - law.nudge) * (1 + 1e-12) + 1e-299 >= truth(epsilon)


@settings(max_examples=40, deadline=None)
@given(st.floats(0.02, 0.3), st.floats(-1.5, 2.5))
def test_a_grid_law_is_below_the_pair_with_a_gaussian_use(step: float, epsilon: float) -> None:
    # N(0, 1) against N(μ, 1) twice is one such pair, with the μ² added: the right-hand side has a closed form.
    law = grid_law(GaussianPair(F(1, 4)), step)
    covered = curves.gaussian(F(1, 4) + F(SPLIT * step) ** 2, epsilon)
    assert not law.exact
    assert law.delta(epsilon) <= math.exp(law.excess) * float(covered) + law.lost + 1e-15


def test_a_smaller_gaussian_use_would_not_cover_the_split() -> None:
    # One loss of either sign, in the middle between two grid points each: the split is as large as it can be.
    step, size = 0.1, 0.55
    law = connect_the_dots(ApproximatePair(size, 0.0), step, -size, size)
    p = 1 / (1 + math.exp(-size))

    def covered(epsilon: float, mu: float) -> float:
        return p * float(curves.gaussian(F(mu) ** 2, epsilon - size)) + (1 - p) * float(
            curves.gaussian(F(mu) ** 2, epsilon + size)
        )

    grid = np.linspace(0.5, 0.6, 21)
    assert all(law.delta(x) <= covered(x, SPLIT * step) * (1 + 1e-9) for x in grid)
    assert any(law.delta(x) > covered(x, 0.95 * SPLIT * step) for x in grid)


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0, 3.0, 8.0, 20.0])
def test_the_inequality_behind_the_split(t: float) -> None:
    # 4Φ(t)Φ(−t) ≤ e^(−t²/2), with equality at 0.
    with mpmath.workdps(120):
        left = 4 * mpmath.ncdf(t) * mpmath.ncdf(-t)
        assert left <= mpmath.exp(-(mpmath.mpf(t) ** 2) / 2)
        assert left > mpmath.exp(-(mpmath.mpf(t) ** 2) / 2) / 20 / (1 + t)


@pytest.mark.parametrize(
    ("pair", "step", "exact"),
    [
        (ApproximatePair(0.5, 0.0), 0.5, True),
        (ApproximatePair(0.5, 1e-8), 0.1, True),
        (ApproximatePair(0.5, 0.0), 0.3, False),
        (DiscreteLaplacePair(3, F(10)), 0.1, True),
        (DiscreteLaplacePair(3, F(10)), 0.3, False),
        (LaplacePair(0.5), 0.5, False),
        (LaplacePair(0.5), 0.01, False),
        (GaussianPair(F(1, 4)), 0.01, False),
    ],
)
def test_losses_on_the_grid_are_recognised_by_the_curve_alone(pair: Pair, step: float, exact: bool) -> None:
    law = grid_law(pair, step)
    assert law.exact is exact


def test_dents_in_a_curve_are_filled() -> None:
    class Dented(Pair):
        __slots__ = ()
        epsilon_max = 1.0

        def delta(self, epsilon: Curve) -> Curve:
            smooth = LaplacePair(1.0).delta(epsilon)
            return np.where(np.abs(epsilon - 0.5) < 0.1, smooth * 1.05, smooth)

    law = connect_the_dots(Dented(), 0.001, -1.0, 1.0)
    for x in np.linspace(-0.9, 0.9, 37):
        assert law.delta(x - law.nudge) >= curves.laplace(F(1), float(x))
    assert law.delta(0.5) < 1.05 * float(curves.laplace(F(1), 0.5))
