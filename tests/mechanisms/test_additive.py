"""Noise on integers: its size against sums in fifty digits, its cost against the theorems, its addition."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import (
    KINDS,
    Additive,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    RoundedGaussianNoise,
)
from discreet.noise.entropy import SystemEntropy
from discreet.privacy.event import (
    ApproximateEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    ZCDPEvent,
)
from discreet.privacy.unit import Sensitivity
from discreet.testing import ReplayEntropy

mp.mp.dps = 50

WIDTHS = [Fraction(1, 50), Fraction(1, 3), Fraction(1), Fraction(7, 3), Fraction(40), Fraction(999)]
HUGE = [Fraction(1 << 40) + Fraction(1, 3), Fraction(1 << 70)]


def number(x: Fraction) -> mp.mpf:
    return mp.mpf(x.numerator) / x.denominator


def laplace_tail(scale: Fraction, t: int) -> mp.mpf:
    p = mp.exp(-1 / number(scale))
    return 2 * p ** (t + 1) / (1 + p)


def rounded_tail(sigma: Fraction, t: int) -> mp.mpf:
    return mp.erfc((t + mp.mpf(1) / 2) / (number(sigma) * mp.sqrt(2)))


def discrete_tail(sigma_squared: Fraction, t: int) -> mp.mpf:
    v = 2 * number(sigma_squared)
    last = t + 3 + int(40 * mp.sqrt(v))
    above = mp.fsum(mp.exp(-mp.mpf(k) * k / v) for k in range(t + 1, last))
    inside = mp.fsum(mp.exp(-mp.mpf(k) * k / v) for k in range(1, t + 1))
    return 2 * above / (1 + 2 * (above + inside))


@pytest.mark.parametrize("width", [*WIDTHS, *HUGE])
@pytest.mark.parametrize("reach", [0, 1, 3, 10, 60])
def test_laplace_tail_is_an_upper_bound_to_ten_digits(width: Fraction, reach: int) -> None:
    t = int(width * reach)
    truth = laplace_tail(width, t)
    assert truth <= DiscreteLaplaceNoise(width).tail(t) <= truth * (1 + mp.mpf(10) ** -10) + mp.mpf(10) ** -320


@pytest.mark.parametrize("width", [*WIDTHS, *HUGE])
@pytest.mark.parametrize("reach", [0, 1, 3, 10, 30])
def test_rounded_gaussian_tail_is_an_upper_bound_to_ten_digits(width: Fraction, reach: int) -> None:
    t = int(width * reach)
    truth = rounded_tail(width, t)
    assert truth <= RoundedGaussianNoise(width).tail(t) <= truth * (1 + mp.mpf(10) ** -10) + mp.mpf(10) ** -320


@pytest.mark.parametrize("width", [w for w in WIDTHS if w < 100])
@pytest.mark.parametrize("reach", [0, 1, 3, 10, 30])
def test_discrete_gaussian_tail_is_an_upper_bound_to_ten_digits(width: Fraction, reach: int) -> None:
    t = int(width * reach)
    truth = discrete_tail(width * width, t)
    found = DiscreteGaussianNoise(width * width).tail(t)
    assert truth <= found <= truth * (1 + mp.mpf(10) ** -10) + mp.mpf(10) ** -300


@pytest.mark.parametrize("t", [0, 200, 1023, 1024, 1025, 3000, 9000])
def test_wide_discrete_gaussian_tail_is_above_the_sum(t: int) -> None:
    squared = Fraction(1 << 20) + 1  # the first that is not summed term by term
    k = np.arange(-60_000, 60_001, dtype=np.float64)
    mass = np.exp(-(k * k) / (2 * float(squared)))
    truth = 1 - mass[np.abs(k) <= t].sum() / mass.sum() if t < 1024 else mass[np.abs(k) > t].sum() / mass.sum()
    assert truth * (1 - 1e-13) <= DiscreteGaussianNoise(squared).tail(t) <= truth * (1 + 1e-5)


LAWS: list[Additive] = [
    *(DiscreteLaplaceNoise(w) for w in WIDTHS),
    *(RoundedGaussianNoise(w) for w in WIDTHS),
    *(DiscreteGaussianNoise(w * w) for w in WIDTHS),
    DiscreteGaussianNoise(Fraction(1 << 22)),
]


@pytest.mark.parametrize("law", [*LAWS, DiscreteLaplaceNoise(HUGE[1]), RoundedGaussianNoise(HUGE[1])], ids=str)
@pytest.mark.parametrize("confidence", ["0.5", "0.95", "1/3", "0.999999999999999999999"])
def test_quantile_is_the_least_that_the_tail_allows(law: Additive, confidence: str) -> None:
    t = law.quantile(confidence)
    alpha = 1 - Fraction(confidence)
    assert Fraction(law.tail(t)) <= alpha
    assert t == 0 or Fraction(law.tail(t - 1)) > alpha * (1 - Fraction(1, 10**15))


def test_quantiles_are_those_of_the_textbook() -> None:
    # The 97.5 % point of the normal law, and ln(1/α) scales of the continuous Laplace.
    assert abs(RoundedGaussianNoise(Fraction(10**9)).quantile(0.95) / 1e9 - 1.959963985) < 1e-9
    assert abs(DiscreteGaussianNoise(Fraction(10**18)).quantile(0.95) / 1e9 - 1.959963985) < 1e-9
    assert abs(DiscreteLaplaceNoise(Fraction(10**9)).quantile(0.95) / 1e9 - 2.995732274) < 1e-9


@pytest.mark.parametrize("confidence", [0, 1, 1.5, -1, float("nan"), True, "x", "1e-400"])
def test_quantile_refuses_what_is_no_confidence(confidence: object) -> None:
    if confidence == "1e-400":
        confidence = 1 - Fraction(1, 10**400)
    with pytest.raises(InvalidParameter):
        DiscreteLaplaceNoise(Fraction(1)).quantile(confidence)  # type: ignore[arg-type]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_cdf_agrees_with_the_tail_and_is_symmetric(law: Additive) -> None:
    t = np.array([0.0, 1, 2, 7, 100, 3000])
    two_sided = np.array([law.tail(int(k)) for k in t])
    assert np.allclose(2 * (1 - law.cdf(t)), two_sided, rtol=0, atol=1e-7)
    assert np.allclose(2 * law.cdf(-t - 1), two_sided, rtol=1e-6, atol=1e-7)
    assert np.array_equal(law.cdf(t + 0.75), law.cdf(t))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_variance_is_that_of_the_law(law: Additive) -> None:
    # E Z² = Σ (2t + 1) P(|Z| > t), here from the cdf on a range that holds all but 1e-15 of it.
    last = law.quantile("0.999999999999999999")
    t = np.arange(0, last + 1, dtype=np.float64)
    summed = float(((2 * t + 1) * 2 * law.cdf(-t - 1)).sum())
    assert law.variance == pytest.approx(summed, rel=1e-6, abs=1e-12)


def test_costs_are_those_of_the_theorems() -> None:
    product, tight = Sensitivity(3, 2), Sensitivity(3, 2, l1=4, l2_squared=8)
    b, s, v = Fraction(5, 2), Fraction(7, 3), Fraction(11, 4)
    assert DiscreteLaplaceNoise(b).event(product) == Composed([(DiscreteLaplaceEvent(2, b), 3)])
    assert DiscreteLaplaceNoise(b).event(tight) == Composed([ApproximateEvent(4 / b)])
    assert RoundedGaussianNoise(s).event(product) == Composed([GaussianEvent(12 / s**2)])
    assert RoundedGaussianNoise(s).event(tight) == Composed([GaussianEvent(8 / s**2)])
    assert DiscreteGaussianNoise(v).event(product) == Composed([(DiscreteGaussianEvent(2, v), 3)])
    assert DiscreteGaussianNoise(v).event(tight) == Composed([ZCDPEvent(8 / (2 * v))])


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_move_costs_nothing(kind: str) -> None:
    law = KINDS[kind](Fraction(3))
    assert law.event(Sensitivity(0, 5)) == law.event(Sensitivity(5, 0)) == Composed()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [Fraction(3), Fraction(1 << 130)])
def test_addition_never_wraps(kind: str, width: Fraction) -> None:
    values = [(1 << 63) - 1, -(1 << 63), 10**400, 0]
    noisy = KINDS[kind](width).add(values, SystemEntropy())
    assert all(type(n) is int for n in noisy)
    # 700 widths: under every law less than 1e-300 lies outside.
    assert all(abs(n - v) <= 700 * width + 1 for n, v in zip(noisy, values, strict=True))


def test_addition_is_value_plus_noise() -> None:
    data = bytes(range(256)) * 8
    law = DiscreteLaplaceNoise(Fraction(10))
    noise = law.add([0, 0, 0], ReplayEntropy(data))
    assert law.add([5, -7, 10**30], ReplayEntropy(data)) == [5 + noise[0], -7 + noise[1], 10**30 + noise[2]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [Fraction(0), Fraction(-1)])
def test_no_width_is_refused(kind: str, width: Fraction) -> None:
    with pytest.raises(InvalidParameter, match="above 0"):
        KINDS[kind](width)


def test_every_law_has_a_name_for_plans() -> None:
    elsewhere = {"SummedNoise", "WeighedNoise", "StaircaseNoise"}  # never of plans
    laws = {law.__name__ for law in Additive.__subclasses__()}
    assert {law.__name__ for law in KINDS.values()} == laws - elsewhere
    assert list(KINDS) == ["discrete-laplace", "rounded-gaussian", "discrete-gaussian"]
