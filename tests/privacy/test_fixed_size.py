"""Samples of fixed size: the curve, that it dominates every pair of data sets, and that it composes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from discreet.errors import InvalidParameter
from discreet.privacy.discrete_events import AtomsEvent, EitherOrderEvent, RandomizedResponseEvent
from discreet.privacy.event import ApproximateEvent, GaussianEvent, LaplaceEvent
from discreet.privacy.sampling import FixedSizeEvent, FixedSizePair, PoissonEvent
from discreet.privacy.unit import Relation

F = Fraction
Law = dict[int, F]
ODDS = 3  # of the true answer, in the mechanisms that are enumerated
ALPHAS = [F(a, b) for a, b in ((1, 20), (1, 3), (1, 2), (4, 5), (1, 1), (5, 4), (3, 2), (2, 1), (5, 2), (4, 1))]


def hockey_stick(p: dict[int, F], q: dict[int, F], alpha: F) -> F:
    return sum((max(x - alpha * q.get(k, F(0)), F(0)) for k, x in p.items()), F(0))


def answered(truth: int, categories: int) -> Law:
    """Randomised response, exactly."""
    return {k: F(ODDS if k == truth else 1, ODDS + categories - 1) for k in range(categories)}


def on_a_sample(data: tuple[int, ...], sample: int, f: Callable[[tuple[int, ...]], int], categories: int) -> Law:
    """The exact law of randomised response to f of a uniform subset."""
    law: defaultdict[int, F] = defaultdict(F)
    subsets = list(combinations(data, sample))
    for s in subsets:
        for k, p in answered(f(tuple(sorted(s))), categories).items():
            law[k] += p / len(subsets)
    return dict(law)


def at(pair: FixedSizePair, alpha: F) -> float:
    return float(pair.upper(np.array([math.log(alpha)]))[0])


def event(categories: int, sample: int, population: int) -> FixedSizeEvent:
    return FixedSizeEvent(RandomizedResponseEvent(F(math.log(ODDS)), categories), sample, population)


@pytest.mark.parametrize("epsilon", [-3.0, -0.4, -1e-6, 0.0, 1e-9, 0.02, 0.5, 1.0, 2.5])
@pytest.mark.parametrize("mu", [F(1, 2), F(2)])
def test_the_gaussian_curve_is_the_integral_of_the_definition(mu: F, epsilon: float) -> None:
    q, m, alpha = 0.01, float(mu), math.exp(abs(epsilon))

    def excess(t: float) -> float:
        mixture = (1 - q) * norm.pdf(t) + q * norm.pdf(t - m)
        return max(mixture - alpha * norm.pdf(t), 0.0)

    cut = math.log(math.expm1(abs(epsilon)) / q + 1) / m + m / 2
    truth = integrate.quad(excess, cut, m + 40, points=[m, m + 5, 10 + m], epsabs=0, epsrel=1e-10, limit=400)[0]
    if epsilon < 0:  # H_α(Q ‖ P') = 1 − α + α·H_{1/α}(P' ‖ Q)
        truth = -math.expm1(epsilon) + math.exp(epsilon) * truth
    found = FixedSizeEvent(GaussianEvent(mu * mu), 6, 600).pair().delta(np.array([epsilon]))[0]
    assert found == pytest.approx(truth, rel=1e-7)


@pytest.mark.parametrize("seed", range(12))
def test_no_two_data_sets_of_an_enumerated_mechanism_lie_above_the_curve(seed: int) -> None:
    categories, sample, population = 2 + seed % 2, 1 + seed % 3, 4

    def f(s: tuple[int, ...]) -> int:
        return sha256(f"{seed}:{s}".encode()).digest()[0] % categories

    pair = event(categories, sample, population).pair()
    assert isinstance(pair, FixedSizePair)
    curve = {a: at(pair, a) for a in ALPHAS}
    for rest in product(range(3), repeat=population - 1):
        laws = [on_a_sample((*rest, x), sample, f, categories) for x in range(3)]
        for p, q in product(laws, laws):
            for a in ALPHAS:
                assert float(hockey_stick(p, q, a)) <= curve[a]


@pytest.mark.parametrize("alpha", ALPHAS)
def test_two_data_sets_attain_the_curve(alpha: F) -> None:
    # Whether the unit 9 is in the sample is all that the mechanism looks at.
    p = on_a_sample((0, 0, 0, 9), 2, lambda s: int(9 in s), 2)
    q = on_a_sample((0, 0, 0, 0), 2, lambda s: int(9 in s), 2)
    worst = max(hockey_stick(p, q, alpha), hockey_stick(q, p, alpha))
    pair = event(2, 2, 4).pair()
    assert isinstance(pair, FixedSizePair)
    assert at(pair, alpha) == pytest.approx(float(worst), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("removes", [True, False])
def test_neither_direction_of_the_poisson_pair_would_do(removes: bool) -> None:
    poisson = PoissonEvent(RandomizedResponseEvent(F(math.log(ODDS)), 2), F(1, 2)).pair()
    curve = poisson if removes else poisson.reverse()
    p = on_a_sample((0, 0, 0, 9), 2, lambda s: int(9 in s), 2)
    q = on_a_sample((0, 0, 0, 0), 2, lambda s: int(9 in s), 2)
    alpha = F(4, 5) if removes else F(5, 4)
    worst = max(hockey_stick(p, q, alpha), hockey_stick(q, p, alpha))
    assert float(worst) > float(curve.upper(np.array([math.log(alpha)]))[0]) + 1e-3


HALF_OF_FOUR = ({0: F(1, 2), 1: F(1, 4), 2: F(1, 4)}, {0: F(1, 4), 1: F(1, 4), 2: F(1, 2)})
"""The pair of a binary answer with odds 3 about two of four units, by hand: losses log 2, 0 and −log 2."""


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_curve_is_that_of_a_pair_derived_by_hand(alpha: F) -> None:
    pair = event(2, 2, 4).pair()
    assert isinstance(pair, FixedSizePair)
    assert at(pair, alpha) == pytest.approx(float(hockey_stick(*HALF_OF_FOUR, alpha)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", range(8))
def test_two_adaptive_uses_lie_below_the_product_of_the_pair(seed: int) -> None:
    def first(s: tuple[int, ...]) -> int:
        return int(9 in s)

    def second(s: tuple[int, ...]) -> int:
        return sha256(f"{seed}:{s}".encode()).digest()[0] % 2

    twice = [{3 * i + j: x * y for i, x in law.items() for j, y in law.items()} for law in HALF_OF_FOUR]
    for x, y in ((9, 0), (0, 9), (9, 1), (1, 0)):
        laws = []
        for data in ((0, 0, 1, x), (0, 0, 1, y)):
            one = on_a_sample(data, 2, first, 2)
            other = [on_a_sample(data, 2, second, 2), one]  # the second question depends on the first answer
            laws.append({2 * i + j: p * r for i, p in one.items() for j, r in other[i].items()})
        for a in ALPHAS:
            assert hockey_stick(laws[0], laws[1], a) <= hockey_stick(twice[0], twice[1], a)


def test_an_asymmetric_base_counts_in_both_orders() -> None:
    one_sided = AtomsEvent((F(1, 2), F(1, 2)), (F(1, 10), F(9, 10)))
    pair, base = FixedSizeEvent(EitherOrderEvent(one_sided), 1, 2).pair(), one_sided.pair()
    x = np.array([0.2])
    moved = np.log1p(np.expm1(x) * 2)
    assert base.delta(moved)[0] != pytest.approx(base.reverse().delta(moved)[0])
    assert pair.delta(x)[0] >= max(base.delta(moved)[0], base.reverse().delta(moved)[0]) / 2
    assert pair.reverse() == pair


@pytest.mark.parametrize("base", [GaussianEvent(F(1)), LaplaceEvent(F(2)), ApproximateEvent(F(1), F(1, 1000))])
def test_the_curve_is_convex_in_alpha_and_falls(base: GaussianEvent) -> None:
    alpha = np.linspace(0.01, 6, 3000)
    curve = FixedSizeEvent(base, 1, 10).pair().delta(np.log(alpha))
    assert np.all(np.diff(curve) <= 1e-12)
    assert np.all(np.diff(curve, 2) >= -1e-12)
    assert np.all(curve >= 1 - alpha - 1e-12)


def test_a_larger_sample_loses_more() -> None:
    x = np.linspace(-1, 1, 21)
    curves = [FixedSizeEvent(GaussianEvent(F(1)), n, 100).pair().delta(x) for n in (1, 10, 50, 99)]
    for smaller, larger in pairwise(curves):
        assert np.all(smaller <= larger)
    assert np.all(curves[-1] <= GaussianEvent(F(1)).pair().delta(x) + 1e-12)


def test_the_closed_forms_are_those_of_the_textbook() -> None:
    one = FixedSizeEvent(ApproximateEvent(F(1), F(1, 1000)), 3, 30)
    assert one.pure is not None
    assert float(one.pure) == pytest.approx(math.log(1 + 0.1 * math.expm1(1)), rel=1e-12)
    assert one.pure >= F(math.log1p(0.1 * math.expm1(1)))
    assert one.failure == F(1, 10000)
    assert one.rho == F(1, 2)
    assert one.relation is Relation.REPLACE
    assert FixedSizeEvent(GaussianEvent(F(1)), 3, 30).pure is None
    at_the_end = np.array([float(one.pair().epsilon_max)])
    assert one.pair().delta(at_the_end)[0] == pytest.approx(1e-4, rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e-12, 700.0, 1e6, -700.0, -1e6])
def test_extreme_losses_stay_finite(epsilon: float) -> None:
    pair = FixedSizeEvent(GaussianEvent(F(1)), 1, 1 << 62).pair()
    assert 0 <= float(pair.delta(np.array([epsilon]))[0]) <= 1
    assert math.isfinite(FixedSizeEvent(LaplaceEvent(F(5000)), 1, 2).pair().epsilon_max)


@pytest.mark.parametrize(
    ("base", "sample", "population"),
    [
        (GaussianEvent(F(1)), 0, 10),
        (GaussianEvent(F(1)), 10, 10),
        (GaussianEvent(F(1)), 11, 10),
        (GaussianEvent(F(1)), 1, 1 << 70),
        (FixedSizeEvent(GaussianEvent(F(1)), 1, 10), 1, 10),
        (PoissonEvent(GaussianEvent(F(1)), F(1, 2)), 1, 10),
    ],
)
def test_impossible_samples_are_refused(base: GaussianEvent, sample: int, population: int) -> None:
    with pytest.raises(InvalidParameter):
        FixedSizeEvent(base, sample, population)
