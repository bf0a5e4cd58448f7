"""Compositions of curves: the truth lies between the bounds, and the bounds are close."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction as F
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.bounds import Bounds
from discreet.accounting.engines import tilted
from discreet.accounting.engines.connect_the_dots import connect_the_dots
from discreet.accounting.engines.lattice import delta_bounds, epsilon_bounds, upper_curve
from discreet.privacy.grouping import SampledGroupEvent
from discreet.privacy.pair import Curve, Pair
from discreet.privacy.pairs.additive import DiscreteGaussianPair, DiscreteLaplacePair, GaussianPair, LaplacePair
from discreet.privacy.pairs.guaranteed import ApproximatePair, BoundedRangePair, ZCDPPair
from tests.privacy import curves

GAUSSIANS = [(2, F(1, 4)), (10, F(1, 100)), (100, F(1, 100)), (20, F(9))]


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12, 1e-30])
@pytest.mark.parametrize(("n", "mu_squared"), GAUSSIANS)
def test_gaussian_uses_are_one_gaussian_use(n: int, mu_squared: F, delta: float) -> None:
    found = epsilon_bounds([(GaussianPair(mu_squared), n)], delta)
    assert found is not None
    assert curves.gaussian(n * mu_squared, found.upper) <= F(delta)
    assert curves.gaussian(n * mu_squared, found.lower) > F(delta)
    assert found.upper - found.lower <= 2e-7 * found.upper


def test_the_smallest_delta_is_sound() -> None:
    found = epsilon_bounds([(GaussianPair(F(1, 4)), 2)], 1e-280)
    assert found is not None
    # ε for which Φ(−a) − e^ε Φ(−b) = 1e-280, at 400 digits.
    assert found.lower <= 25.474741475165469 <= found.upper <= 25.47475


def test_a_million_uses_are_sound() -> None:
    found = epsilon_bounds([(GaussianPair(F(1, 10**6)), 10**6)], 1e-6)
    assert found is not None
    assert curves.gaussian(F(1), found.upper) <= F(1, 10**6) < curves.gaussian(F(1), found.lower)
    assert found.upper <= 4.8870


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-20, 1e-100])
def test_pure_uses_are_a_binomial_sum(delta: float) -> None:
    found = epsilon_bounds([(ApproximatePair(0.1, 0.0), 500)], delta)
    assert found is not None
    assert curves.composed_response(F(0.1), 500, found.upper) <= F(delta)
    assert curves.composed_response(F(0.1), 500, found.lower) > F(delta)
    assert found.upper - found.lower <= 1e-8 * found.upper


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("epsilon", [0.0, 0.123, 1.0, 3.75, 3.999, 4.5])
def test_leaks_and_lattices_are_exact(epsilon: float) -> None:
    parts: list[tuple[Pair, int]] = [(ApproximatePair(0.5, 2.0**-20), 4), (DiscreteLaplacePair(2, F(4)), 4)]
    law = curves.response(F(1, 2), F(1, 2**20))
    other = curves.lattice_laplace(2, F(4))
    found = delta_bounds(parts, epsilon)
    truth = curves.composed([law] * 4 + [other] * 4, epsilon)
    assert F(found.lower) <= truth <= F(found.upper)
    assert found.upper - found.lower <= 1e-5 * found.upper


SIZES = st.sampled_from([F(1, 8), F(1, 4), F(3, 10), F(37, 100), F(1, 2), F(1)])


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(SIZES, st.integers(1, 2)), min_size=1, max_size=2),
    st.sampled_from([F(0), F(1, 2**30), F(1, 2**7)]),
    st.floats(0.0, 4.0),
)
def test_the_truth_lies_between_the_bounds_for_any_steps(uses: list[tuple[F, int]], leak: F, epsilon: float) -> None:
    laws = [curves.response(F(float(size)), leak) for size, n in uses for _ in range(n)]
    found = delta_bounds([(ApproximatePair(float(size), float(leak)), n) for size, n in uses], epsilon)
    truth = curves.composed(laws, epsilon)
    assert F(found.lower) <= truth <= F(found.upper) + F(1, 10**290)


def test_different_kinds_are_convolved() -> None:
    # Laplace and Gaussian: the curve of the Gaussian, averaged over the law of the Laplace loss.
    import mpmath

    r, mu, epsilon = mpmath.mpf("0.5"), mpmath.mpf("0.5"), mpmath.mpf(1)

    def gaussian(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.ncdf(mu / 2 - x / mu) - mpmath.exp(x) * mpmath.ncdf(-mu / 2 - x / mu)

    ends = gaussian(epsilon - r) / 2 + gaussian(epsilon + r) * mpmath.exp(-r) / 2
    inner = mpmath.quad(lambda t: gaussian(epsilon - r + 2 * t) * mpmath.exp(-t) / 2, [0, r])
    found = delta_bounds([(LaplacePair(0.5), 1), (GaussianPair(F(1, 4)), 1)], 1.0)
    assert found.lower <= ends + inner <= found.upper
    assert found.upper - found.lower <= 1e-5 * found.upper


@pytest.mark.parametrize(
    "parts",
    [
        [(LaplacePair(0.1), 100)],
        [(BoundedRangePair(0.2), 10)],
        [(ZCDPPair(0.001), 100)],
        [(DiscreteGaussianPair(1, F(100)), 20)],
        [(LaplacePair(0.1), 10), (LaplacePair(0.0713), 7), (GaussianPair(F(1, 50)), 3)],
    ],
)
def test_bounds_are_close_and_fast(parts: list[tuple[Pair, int]]) -> None:
    began = time.process_time()
    found = epsilon_bounds(parts, 1e-6)
    assert time.process_time() - began <= 10  # a fiftieth of it is usual
    assert found is not None
    assert found.upper - found.lower <= 5e-7 * found.upper


def test_one_use_is_its_own_curve() -> None:
    found = epsilon_bounds([(LaplacePair(1.0), 1)], 1e-3)
    truth = 1 + 2 * math.log1p(-1e-3)
    assert found is not None
    assert found.lower <= truth <= found.upper <= truth * (1 + 1e-9)


def test_ends_of_the_range() -> None:
    assert epsilon_bounds([], 1e-6) == Bounds(0.0, 0.0)
    assert epsilon_bounds([(ApproximatePair(0.5, 0.25), 3)], 1e-3) is None
    assert epsilon_bounds([(LaplacePair(800.0), 2)], 1e-6) is None
    whole = epsilon_bounds([(ApproximatePair(0.5, 0.0), 3)], 1e-200)
    assert whole is not None
    assert whole.lower <= 1.5 <= whole.upper <= 1.5 + 1e-8
    large = epsilon_bounds([(GaussianPair(F(1, 100)), 2)], 0.9)
    assert large == Bounds(0.0, 0.0)


def test_an_untilted_transform_understates_a_small_delta_and_says_so() -> None:
    # The same masses without a tilt: rounding of 1e-16 drowns a δ of 1e-30, and the error bound shows it.
    pair, n, epsilon = ApproximatePair(0.1, 0.0), 200, 13.0
    law = connect_the_dots(pair, 0.1, -0.1, 0.1)
    truth = curves.composed_response(F(0.1), n, epsilon)
    window = tilted.TiltedWindow(-20.1, 20.1, 1.0, 1.0, 40.2)
    bare = np.fft.irfft(np.fft.rfft(tilted._folded(law.mass, law.first, 512)) ** n, 512)
    losses = 0.1 * np.arange(-256, 256)
    naive = float(np.roll(bare, 256) @ -np.expm1(np.minimum(epsilon - losses, 0.0)))
    assert abs(F(naive) - truth) > truth / 2
    almost = tilted.transformed([law], [n], 1e-6, epsilon, window)
    assert almost is not None
    assert almost.below(epsilon) <= truth <= almost.above(epsilon)
    sound = delta_bounds([(pair, n)], epsilon)
    assert sound.lower <= truth <= sound.upper <= float(truth) * (1 + 1e-5)


def test_a_curve_with_losses_too_small_by_a_thousandth_falls_outside_the_bounds() -> None:
    # What the bounds protect from: losses moved down to a point of a grid of step 1e-4, say.
    found = epsilon_bounds([(LaplacePair(0.1), 50)], 1e-6)
    assert found is not None

    class Lower(LaplacePair):
        def delta(self, epsilon: Curve) -> Curve:
            return LaplacePair.delta(self, epsilon + 1e-4)

    wrong = epsilon_bounds([(Lower(0.1), 50)], 1e-6)
    assert wrong is not None
    assert wrong.upper < found.lower


CURVES: list[tuple[Pair, int, Callable[[float], F]]] = [
    (GaussianPair(F(1, 4)), 10, lambda epsilon: curves.gaussian(F(5, 2), epsilon)),
    (GaussianPair(F(9)), 20, lambda epsilon: curves.gaussian(F(180), epsilon)),
    (ApproximatePair(0.1, 0.0), 500, lambda epsilon: curves.composed_response(F(0.1), 500, epsilon)),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-14])
@pytest.mark.parametrize(("pair", "n", "truth"), CURVES, ids=["gaussian", "many tilts", "response"])
def test_a_few_tilts_bound_the_whole_curve(pair: Pair, n: int, truth: Callable[[float], F], delta: float) -> None:
    curve = upper_curve([(pair, n)], delta)
    assert curve is not None
    assert len(curve.sums) <= 5
    assert truth(curve.top) <= F(delta)
    for part in (0.0, 0.01, 0.2, 0.37, 0.7, 1.0):
        known, found = truth(part * curve.top), curve.delta(part * curve.top)
        assert known <= F(found)  # and so would not be those of losses too small by a thousandth
        assert found <= float(known) * 1.001 + delta / 5


def test_a_curve_of_losses_too_small_by_a_thousandth_is_caught() -> None:
    curve = upper_curve([(GaussianPair(F(1, 4) * F(998, 1000)), 10)], 1e-6)
    assert curve is not None
    assert any(curves.gaussian(F(5, 2), x) > F(curve.delta(x)) for x in (0.0, 1.0, 3.0))


def test_the_curve_of_nothing_is_nothing() -> None:
    curve = upper_curve([], 1e-6)
    assert curve is not None
    assert (curve.top, curve.delta(0.0)) == (0.0, 0.0)
    assert upper_curve([(ApproximatePair(5000.0, 0.0), 2)], 1e-6) is None


@pytest.mark.exhaustive
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_there_is_no_gap_where_the_largest_loss_of_all_is_near(every: int) -> None:
    pair = SampledGroupEvent(F(1), F(1, 100), 3).pair().reverse()  # no loss is above 3·log(1/0.99)
    found = [delta_bounds([(pair, 100)], epsilon).upper for epsilon in np.arange(2.0, 3.0, 0.1)[::every]]
    assert all(b <= max(a, 1e-30) for a, b in pairwise(found))
    assert found[-1] < 1e-30
