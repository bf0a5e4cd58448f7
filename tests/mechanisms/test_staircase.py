"""The staircase: its law by enumeration, its optimal shape by exhaustion, its draws, floats, errors, doors."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.mechanisms import Geometric, Laplace, Staircase
from discreet.mechanisms.staircase import StaircaseNoise, best_inner
from discreet.noise.entropy import SystemEntropy
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.unit import Sensitivity
from discreet.testing import ReplayEntropy
from tests.noise.chi_square import accepts, refuses

ALARM = 1e-9
RNG = SystemEntropy()
SHAPES = [(Fraction(1, 3), 5, 2), (Fraction(1), 1, 1), (Fraction(2), 7, 2), (Fraction(2), 7, 7), (Fraction(5), 40, 3)]


def masses(epsilon: float, width: int, inner: int, reach: int) -> NDArray[np.float64]:
    """P(Z = −reach), …, P(Z = reach), by Geng and Viswanath's definition, normalised over a far longer range."""
    i = np.arange(reach + math.ceil(60 / epsilon + 3) * width)
    weight = np.exp(-epsilon * (i // width + (i % width >= inner)))
    p = weight[: reach + 1] / (2 * weight.sum() - 1)
    return np.concatenate([p[:0:-1], p])


def places(noise: NDArray[Any], reach: int) -> list[int]:
    """Which of `masses` each draw belongs to; what lies farther out, on both sides, is right of them."""
    found: list[int] = np.where(np.abs(noise) > reach, 2 * reach + 1, noise + reach).tolist()
    return found


def test_the_normaliser_is_the_papers() -> None:
    # a(r) = (1 − b)/(2r + 2b(Δ − r) − (1 − b)), Geng and Viswanath, the discrete setting.
    for e, width, r in SHAPES:
        b = math.exp(-e)
        a = (1 - b) / (2 * r + 2 * b * (width - r) - (1 - b))
        assert 1 - StaircaseNoise(e, width, r).tail(0) == pytest.approx(a, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "width", "inner"), SHAPES)
def test_a_move_by_at_most_the_width_costs_epsilon_and_not_less(epsilon: Fraction, width: int, inner: int) -> None:
    reach = 6 * width
    p = masses(float(epsilon), width, inner, reach + width)
    log = np.log(p)
    for d in range(1, width + 1):
        worst = float(np.abs(log[d:] - log[:-d]).max())
        assert worst <= float(epsilon) * (1 + 1e-12)
        assert worst >= float(epsilon) * (1 - 1e-12)  # even the least move
    assert float(np.abs(log[width + 1 :] - log[: -width - 1]).max()) > float(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize(("epsilon", "width", "inner"), SHAPES)
def test_draws_follow_the_law_and_not_a_neighbouring_one(epsilon: Fraction, width: int, inner: int) -> None:
    law, reach = StaircaseNoise(epsilon, width, inner), 4 * width + 2
    truth = masses(float(epsilon), width, inner, reach)
    found = places(law.draw(200_000, RNG), reach)
    assert accepts(found, truth.tolist())
    others = [(1.05, inner)] + ([(1.0, inner + 1)] if inner < width else []) + ([(1.0, inner - 1)] if inner > 1 else [])
    for stretch, r in others:
        wrong = masses(float(epsilon) * stretch, width, r, reach)
        if np.abs(wrong - truth).sum() > 0.02:  # enough to be seen in so many draws
            assert refuses(found, wrong.tolist(), truth.tolist())
    shifted = np.concatenate([[0.0], truth[:-1]]) + 1e-9
    assert not accepts(found, (shifted / shifted.sum()).tolist())


@pytest.mark.laws
@pytest.mark.parametrize("value", [17, 17.0])
def test_single_releases_follow_the_law_and_not_a_neighbouring_one(value: float) -> None:
    mechanism = Staircase(epsilon=2, sensitivity=7)
    noise = np.array([mechanism.release(value, rng=RNG) for _ in range(6000)]) - value
    if isinstance(value, int):
        truth = masses(2.0, 7, 2, 40)
        assert accepts(places(noise, 40), truth.tolist())
        assert not accepts(places(noise + 1, 40), truth.tolist())
    else:
        assert stats.kstest(continuous_cdf(noise, 2.0, 7.0), "uniform").pvalue > ALARM
        assert stats.kstest(continuous_cdf(noise, 1.5, 7.0), "uniform").pvalue < ALARM
        assert stats.kstest(continuous_cdf(noise + 1, 2.0, 7.0), "uniform").pvalue < ALARM


def continuous_cdf(x: NDArray[np.float64], epsilon: float, width: float) -> NDArray[np.float64]:
    """Geng and Viswanath's continuous law at its best γ: density a(γ)e^−kε up to (k + γ)Δ, then e^−ε of it."""
    b, g = math.exp(-epsilon), 1 / (1 + math.exp(epsilon / 2))
    a = (1 - b) / (2 * width * (g + b * (1 - g)))
    k, part = np.divmod(np.abs(x) / width, 1)
    whole = width * (g + b * (1 - g))
    inside = np.minimum(part, g) + b * np.maximum(part - g, 0)
    mass = a * (whole * (1 - b**k) / (1 - b) + b**k * width * inside)
    return np.where(x < 0, 0.5 - mass, 0.5 + mass)


def test_arrays_have_the_share_of_each_number() -> None:
    mechanism = Staircase(epsilon=6, sensitivity=7, dimension=3)
    noise = np.array([mechanism.release(np.zeros(3, dtype=np.int64), rng=RNG) for _ in range(2500)])
    assert mechanism.noise == StaircaseNoise(Fraction(2), 7, 2)
    truth, wrong = masses(2.0, 7, 2, 40), masses(2.5, 7, 2, 40)
    found = places(noise.ravel(), 40)
    assert accepts(found, truth.tolist())
    assert refuses(found, wrong.tolist(), truth.tolist())
    assert mechanism.events == Composed([(ApproximateEvent(Fraction(2)), 3)])


@pytest.mark.parametrize("epsilon", ["0.01", "0.3", 1, 2, 5, 12])
def test_the_shape_is_the_best_of_all(epsilon: str | int) -> None:
    e = Fraction(epsilon)
    for width in (1, 2, 3, 10, 37):
        with mp.workdps(40):
            b = mp.exp(-mp.mpf(e.numerator) / e.denominator)

            def cost(r: int, width: int = width, b: mp.mpf = b) -> mp.mpf:
                # E|Z| by summing each step's weights and moments
                w = [1 if j < r else b for j in range(width)]
                zeroth, first = mp.fsum(w), mp.fsum(j * x for j, x in enumerate(w))
                total = width * zeroth * b / (1 - b) ** 2 + first / (1 - b)
                return 2 * total / (2 * zeroth / (1 - b) - 1)

            costs = [cost(r) for r in range(1, width + 1)]
            assert costs[best_inner(e, width) - 1] == min(costs)


def test_the_error_is_the_papers_and_falls_faster_than_laplaces() -> None:
    # Geng and Viswanath: E|Z| = Δ e^(ε/2)/(e^ε − 1) for real numbers.
    for epsilon in (0.5, 2.0, 8.0):
        width = 100_000
        law = StaircaseNoise(Fraction(epsilon), width, best_inner(Fraction(epsilon), width))
        i = np.arange(width * math.ceil(45 / epsilon + 2))
        weight = np.exp(-epsilon * (i // width + (i % width >= law.inner)))
        mean = 2 * (i * weight).sum() / (2 * weight.sum() - 1)
        assert mean / width == pytest.approx(math.exp(epsilon / 2) / math.expm1(epsilon), rel=1e-3)
        assert mean / width < 1 / epsilon
    assert Staircase(epsilon=12, sensitivity=1000).error(0.9) < Laplace(epsilon=12, sensitivity=1000).error(0.9) / 5


@pytest.mark.parametrize(("epsilon", "width", "inner"), SHAPES)
def test_tails_moments_and_distribution_are_those_of_the_masses(epsilon: Fraction, width: int, inner: int) -> None:
    law, reach = StaircaseNoise(epsilon, width, inner), width * math.ceil(45 / epsilon)
    p, k = masses(float(epsilon), width, inner, reach), np.arange(-reach, reach + 1)
    for t in (-1, 0, 1, inner - 1, inner, width - 1, width, width + inner, 3 * width + 1):
        assert law.tail(t) == pytest.approx(min(1.0, p[np.abs(k) > t].sum()), rel=1e-9)
        assert law.tail(t) >= p[np.abs(k) > t].sum() * (1 - 1e-12) or t < 0
    points = np.array([-2.0 * width, -1.5, -1.0, 0.0, 0.5, float(inner), 2.0 * width])
    assert law.cdf(points) == pytest.approx(np.array([p[k <= math.floor(t)].sum() for t in points]), rel=1e-9)
    assert law.variance == pytest.approx(float((p * k * k).sum()), rel=1e-9)


def test_the_error_covers_at_its_rate() -> None:
    for m in (Staircase(epsilon=1, sensitivity=4), Staircase(epsilon=6, sensitivity=50, gamma="0.2")):
        for law, unit, rounding in ((m.noise, 1, 0), (m.lattice.noise, m.lattice.grid.step, 0.5)):
            z = np.abs(law.draw(20_000, RNG).astype(np.float64))
            inside = int((z <= (m.error(0.9) / float(unit)) - rounding).sum())
            assert stats.binom.cdf(inside, len(z), 0.9) > ALARM


def test_a_step_of_one_is_the_geometric_law() -> None:
    a, b = Staircase(epsilon="0.7").noise, Geometric(epsilon="0.7").noise
    for t in range(30):
        assert a.tail(t) == pytest.approx(b.tail(t), rel=1e-9)


def test_coins_that_words_leave_open_are_settled_exactly() -> None:
    # The word on the border says nothing; the 64 bits after it are compared with the chance's own.
    law = StaircaseNoise(Fraction(1), 10, 4)
    with mp.workdps(60):
        p = 4 / (4 + 6 * mp.exp(-1))
        word = int(mp.floor(p * 2**64))
        further = int(mp.floor((p * 2**64 - word) * 2**64))
    for extra, shown in ((further - 10, True), (further + 10, False)):
        replay = ReplayEntropy(word.to_bytes(8, "little") + extra.to_bytes(8, "little"))
        assert law._coins(1, replay).tolist() == [shown]


def test_extreme_parameters_give_numbers() -> None:
    for m in (
        Staircase(epsilon="1e-24"),
        Staircase(epsilon="1e24"),
        Staircase(epsilon=1000, gamma=1),
        Staircase(epsilon=1, sensitivity="1e24", gamma="1e-20"),
    ):
        assert isinstance(m.release(3), int) and math.isfinite(m.release(3.5)) and m.error() >= 0
    tall = Staircase(epsilon="1e-24", sensitivity="1e24", dimension=2).release(np.array([1, 2]))
    assert tall.dtype == object and all(isinstance(x, int) for x in tall)


def test_an_array_needs_its_dimension() -> None:
    for values in (np.array([1, 2]), np.array([1.5]), np.zeros((2, 2), dtype=np.int64)):
        with pytest.raises(InvalidParameter, match="dimension=") as caught:
            Staircase(epsilon=1).release(values)
        assert f"dimension={values.size}" in caught.value.hint
    with pytest.raises(InvalidParameter, match="3 numbers"):
        Staircase(epsilon=1, dimension=3).release(np.array([1, 2]))
    assert Staircase(epsilon=1, dimension=4).release(np.zeros((2, 2))).shape == (2, 2)


def test_numbers_that_move_together_cost_each() -> None:
    event = StaircaseNoise(Fraction(1, 2), 4, 2).event
    assert event(Sensitivity(3, 4)) == Composed([(ApproximateEvent(Fraction(1, 2)), 3)])
    assert event(Sensitivity(3, 1, l1=3)) == Composed([(ApproximateEvent(Fraction(1, 2)), 3)])
    assert event(Sensitivity(1, 5)) == Composed([ApproximateEvent(Fraction(1))])
    assert event(Sensitivity(0, 0)) == Composed()


@pytest.mark.parametrize("gamma", [0, -1, "1.01", math.nan, math.inf, True, "x", [1]], ids=repr)
def test_impossible_shares_are_refused(gamma: object) -> None:
    with pytest.raises(InvalidParameter, match="gamma"):
        Staircase(epsilon=1, gamma=gamma)  # type: ignore[arg-type]


def test_impossible_laws_are_refused() -> None:
    for epsilon, width, inner in ((0, 3, 1), (1, 3, 0), (1, 3, 4)):
        with pytest.raises(InvalidParameter):
            StaircaseNoise(Fraction(epsilon), width, inner)
    with pytest.raises(InvalidParameter, match="below 1"):
        Staircase(epsilon=1, sensitivity="0.5").release(3)


def test_explain_and_repr_carry_the_numbers() -> None:
    for m in (
        Staircase(epsilon=0.5, sensitivity=3),
        Staircase(epsilon=0.5, sensitivity="0.1", gamma="0.25", dimension=2),
    ):
        assert eval(repr(m), {"Staircase": Staircase}) == m
        assert "M is 0.5-DP" in m.explain()
