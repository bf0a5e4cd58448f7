"""Sampled Gaussian noise, and long compositions, against truth computed elsewhere."""

from __future__ import annotations

import json
import math
from fractions import Fraction as F
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet import accounting
from discreet.accounting.engines import contour, lattice
from discreet.accounting.engines.contour import delta_bounds, epsilon_bounds
from discreet.accounting.engines.sampled_gaussian import SampledGaussianLaw
from discreet.errors import InvalidParameter
from discreet.privacy.event import GaussianEvent
from discreet.privacy.law import GaussianLaw, LaplaceLaw, SumLaw, TwoPointLaw
from discreet.privacy.sampling import PoissonEvent, PoissonPair

# Computed at 160 bits and more by tests/accounting/truth.py, which shares no code with the package.
TRUTH = json.loads((Path(__file__).parents[3] / "accounting" / "sgd_truth.json").read_text())


@pytest.mark.parametrize("case", TRUTH, ids=lambda c: f"{c['sigma']}-{c['q']}-{c['steps']}-{c['delta']}")
def test_bounds_contain_the_truth_and_the_upper_one_is_tight(case: dict[str, Any]) -> None:
    loss = accounting.gaussian(case["sigma"]).poisson(case["q"]) * case["steps"]
    truth = max(F(case["epsilon_remove"]), F(case.get("epsilon_add", 0)))
    lower, upper = loss.bounds(case["delta"])
    rounded = truth / 10 ** (case.get("digits", 15) - 1)  # the truth of few steps is written with so many digits
    assert F(lower) <= truth + rounded
    assert F(upper) >= truth - rounded
    assert upper <= float(truth) * (1 + (1e-7 if case.get("few") else 1e-9))
    assert lower >= float(truth) * (1 - 1e-6)


@pytest.mark.parametrize("case", [c for c in TRUTH if c.get("few")])
def test_a_rate_that_is_slightly_wrong_misses_the_truth_of_two_steps(case: dict[str, Any]) -> None:
    truth = float(case["epsilon_remove"])
    for factor in (1 - 1e-5, 1 + 1e-5):
        found = epsilon_bounds(
            SampledGaussianLaw(case["sigma"], case["q"] * factor, case["steps"], True), case["delta"]
        )
        assert found is not None
        assert not found.lower <= truth <= found.upper


LOOSE_ONCE = [
    (0.47131, 0.00034335, 737, 6.5e-09),
    (2.08194, 1.004e-05, 988, 1.19e-14),
    (0.3553, 4.632e-05, 3697, 3.7e-14),
    (2.09392, 1.407e-05, 4189, 2.1e-15),
    (0.30513, 1.271e-05, 184607, 3.9e-09),
    (7.23876, 3.388e-05, 47823, 6.0e-12),
    (0.61628, 1.741e-05, 45397, 1.3e-05),
    (1.18426, 0.00178314, 99, 2e-08),
]


@pytest.mark.parametrize(("sigma", "rate", "steps", "delta"), LOOSE_ONCE)
def test_few_samples_and_a_small_delta_are_bounded_to_a_millionth(
    sigma: float, rate: float, steps: int, delta: float
) -> None:
    lower, upper = (accounting.gaussian(sigma).poisson(rate) * steps).bounds(delta)
    assert 0 < lower <= upper <= lower * (1 + 1e-6)
    chance = delta_bounds(SampledGaussianLaw(sigma, rate, steps, True), (lower + upper) / 2)
    assert chance.lower <= delta * (1 + 1e-4)  # the engine's other question gives the same answer
    assert chance.upper >= delta * (1 - 1e-4)


@pytest.mark.parametrize("case", [c for c in TRUTH if c["steps"] > 1 and c["q"] < 1 and not c.get("few")][:6])
@pytest.mark.parametrize("side", ["remove", "add"])
def test_each_direction_is_bounded_and_a_wrong_rate_is_told_apart(case: dict[str, Any], side: str) -> None:
    truth = float(case[f"epsilon_{side}"])
    for factor, holds in ((1, True), (1 - 1e-5, False), (1 + 1e-5, False)):
        law = SampledGaussianLaw(case["sigma"], case["q"] * factor, case["steps"], side == "remove")
        bounds = epsilon_bounds(law, case["delta"])
        assert bounds is not None
        assert (bounds.lower * (1 - 1e-11) <= truth <= bounds.upper * (1 + 1e-11)) == holds


@pytest.mark.parametrize(("mu", "epsilon"), [(1.0, 0.0), (1.0, 3.0), (0.1, 0.2), (5.0, 30.0)])
def test_the_gaussian_closed_form_lies_in_the_bounds(mu: float, epsilon: float) -> None:
    def normal(t: float) -> float:
        return math.erfc(-t / math.sqrt(2)) / 2

    truth = normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)
    bounds = delta_bounds(GaussianLaw(mu * mu), epsilon)
    assert bounds.lower <= truth * (1 + 1e-11)
    assert bounds.upper >= truth * (1 - 1e-11)
    assert bounds.upper - bounds.lower < 1e-7 * truth


def test_many_pure_uses_meet_the_optimal_composition_theorem() -> None:
    # Kairouz, Oh, Viswanath 2015: the worst is randomised response, whose law is binomial.
    n, e0 = 500, 0.1
    p = 1 / (1 + math.exp(-e0))

    def delta(epsilon: float) -> float:
        terms = (
            math.exp(
                math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
                + k * math.log(p) + (n - k) * math.log1p(-p)
            ) * -math.expm1(epsilon - (2 * k - n) * e0)
            for k in range(n + 1)
            if (2 * k - n) * e0 > epsilon
        )  # fmt: skip
        return math.fsum(terms)

    lower, upper = (accounting.pure(e0) * n).bounds(1e-6)
    assert delta(lower) >= 1e-6 * (1 - 1e-9)
    assert delta(upper) <= 1e-6 * (1 + 1e-9)
    assert delta(upper * (1 - 2e-6)) > 1e-6


def test_mixed_uses_in_any_order_cost_the_same() -> None:
    parts = [accounting.laplace(scale=10 + i) for i in range(60)] + [accounting.gaussian(20)] * 9
    forward, backward = sum(parts[1:], parts[0]), sum(parts[-2::-1], parts[-1])
    assert forward.epsilon(1e-6) == backward.epsilon(1e-6)
    assert forward.bounds(1e-6)[0] > 0.999 * forward.bounds(1e-6)[1]


@pytest.mark.parametrize(
    ("law", "losses", "mass"),
    [
        (TwoPointLaw(np.array([0.7]), np.array([1.0])), [0.7, -0.7], [1 / (1 + math.exp(x)) for x in (-0.7, 0.7)]),
        (GaussianLaw(0.25), None, None),
        (LaplaceLaw(np.array([0.9]), np.array([1.0])), None, None),
    ],
)  # fmt: skip
def test_moment_generating_functions_are_those_of_the_loss(law: Any, losses: Any, mass: Any) -> None:
    import mpmath as mp

    for z in (0.5 + 0j, 3 + 2j, 0.1 + 7j):
        if losses is not None:
            truth = sum(m * mp.exp(z * x) for x, m in zip(losses, mass, strict=True))
        elif isinstance(law, GaussianLaw):
            truth = mp.quad(lambda x, z=z: mp.npdf(x) * mp.exp(z * (0.125 + 0.5 * x)), mp.linspace(-12, 14, 90))
        else:
            inner = mp.quad(lambda x, z=z: mp.exp(-x) / 2 * mp.exp(z * (0.9 - 2 * x)), mp.linspace(0, 0.9, 20))
            truth = inner + mp.exp(0.9 * z) / 2 + mp.exp(-0.9 - 0.9 * z) / 2
        value, error = law.log_mgf(np.array([z]))
        assert abs(complex(mp.exp(complex(value[0])) / truth) - 1) <= float(error[0]) + 1e-12


@pytest.mark.thinned(4)
@pytest.mark.parametrize("rate", [1e-5, 0.01, 0.5])
@pytest.mark.parametrize("removes", [True, False])
def test_the_curve_of_one_sample_is_its_definition(rate: float, removes: bool) -> None:
    import mpmath as mp

    pair = PoissonPair(GaussianEvent(F(1)).pair(), F(rate), removes)
    top = -math.log1p(-rate)
    for epsilon in (-0.5, -rate / 2, 0.0, top / 2, 0.9 * top, 2 * top, 1.0):

        def excess(x: Any, epsilon: float = epsilon) -> Any:
            q, p = mp.npdf(x), mp.npdf(x - 1)
            mixed = (1 - mp.mpf(rate)) * q + mp.mpf(rate) * p
            return mixed - mp.exp(epsilon) * q if removes else q - mp.exp(epsilon) * mixed

        # Where the likelihood ratio crosses e^ε the integrand has its only kink.
        level = (math.exp(epsilon if removes else -epsilon) - 1 + rate) / rate
        kink = math.log(level) + 0.5 if level > 0 else -40.0
        ends = (max(kink, -40.0), 40.0) if removes else (-40.0, min(kink, 40.0))
        with mp.workdps(30):
            truth = mp.quad(excess, mp.linspace(*ends, 33)) if ends[0] < ends[1] else mp.mpf(0)
        got = float(pair.upper(np.array([epsilon]))[0])
        assert got >= float(truth) * (1 - 1e-12) - 1e-25
        assert got <= float(truth) * (1 + 1e-6) + 1e-14


HARD = [
    (3, "1e-3", 10, 1e-6),
    (2, "1e-3", 100, 1e-6),
    (1, "1e-4", 100, 1e-6),
    (1, "1e-5", 1000, 1e-7),
    (10, "1e-5", 10, 1e-7),
]


@pytest.mark.parametrize(("sigma", "rate", "steps", "delta"), HARD)
def test_few_samples_are_bounded_closely_and_as_the_grid_bounds_them(
    sigma: int, rate: str, steps: int, delta: float
) -> None:
    pair = PoissonEvent(GaussianEvent(F(1, sigma**2)), F(float(rate))).pair()
    grid = lattice.epsilon_bounds([(pair, steps)], delta)
    found = epsilon_bounds(SampledGaussianLaw(float(sigma), float(rate), steps, True), delta)
    assert grid is not None
    assert found is not None
    assert grid.lower <= found.upper
    assert found.lower <= grid.upper
    assert found.upper - found.lower <= 1e-6 * found.upper + 1e-9
    other = epsilon_bounds(SampledGaussianLaw(float(sigma), float(rate) * 1.01, steps, True), delta)
    assert other is not None
    assert other.lower > grid.upper  # a rate that is 1 % off is told apart


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta"),
    [("0.3712", "1.17e-05", 487, 5.377460322435212e-05), ("0.45806", "5.349e-05", 33, 0.0005613744169600588)],
)
def test_few_rare_samples_are_bounded_closely_in_both_directions_together(
    sigma: str, rate: str, steps: int, delta: float
) -> None:
    event = PoissonEvent(GaussianEvent(1 / F(sigma) ** 2), F(rate))
    found = (accounting.gaussian(F(sigma)).poisson(F(rate)) * steps).bounds(delta)
    assert found[1] is not None
    assert 0 < found[1] - found[0] <= max(1e-6 * found[1], 1e-9)
    grids = [lattice.epsilon_bounds([(pair, steps)], delta) for pair in (event.pair(), event.pair().reverse())]
    low, high = max(g.lower for g in grids if g), max(g.upper for g in grids if g)
    assert low <= found[0]
    assert found[1] <= high
    wrong = (accounting.gaussian(F(sigma)).poisson(F(rate) * 2) * steps).bounds(delta)
    assert wrong[0] > high


# (parts of σ, rate, steps), δ, whether the unit is removed; found by a search for wide answers
WIDE_ONCE = [
    ([(0.494544597741245, 0.00013238159364569653, 31)], 2.7752281822357555e-11, False),
    ([(0.9897105912947398, 0.0006403551908186535, 4)], 5.202816446253516e-10, False),
    ([(1.4388770333613237, 0.019256307538364645, 3)], 2.5058992682391777e-14, False),
    ([(5.9081488933168655, 0.0011638304118875313, 1)], 4.572787418967875e-10, True),
    (
        [(10.248257346490801, 0.0006966613525984874, 2), (4.260060474492712, 2.7215144488152728e-05, 2)],
        2.983875647255193e-13,
        True,
    ),
]


@pytest.mark.parametrize(("parts", "delta", "removes"), WIDE_ONCE)
def test_few_uses_that_hardly_ever_lose_anything_are_bounded_closely(
    parts: list[tuple[float, float, int]], delta: float, removes: bool
) -> None:
    law = SumLaw(tuple(SampledGaussianLaw(*part, removes) for part in parts))
    bounds = epsilon_bounds(law if len(parts) > 1 else law.laws[0], delta)
    assert bounds is not None
    assert 0 < bounds.upper - bounds.lower < 1e-8 * bounds.upper


def test_the_curve_of_few_uses_is_bounded_as_closely_as_once() -> None:
    bounds = delta_bounds(SampledGaussianLaw(1.0607173338582239, 0.44339382452059345, 2, True), 1.255732834071643)
    assert 0 < bounds.upper - bounds.lower < 1e-8 * bounds.upper
    small = delta_bounds(SampledGaussianLaw(5.055180594992084, 0.000297152281042882, 10, True), 0.0021009719303370705)
    assert small.lower <= small.upper < 1e-18  # Chernoff alone says 7e-15
    loss = accounting.gaussian(noise_multiplier=1.0607173338582239).poisson(0.44339382452059345) * 2
    low, high = loss.bounds(epsilon=1.255732834071643)
    assert high is not None
    assert 0 < high - low < 1e-6 * high


def test_a_rate_next_to_one_meets_the_truth() -> None:
    # By tests/accounting/truth.py, at 256 bits.
    law = SampledGaussianLaw(0.3959674677904514, 0.9998976626134284, 29, False)
    found = epsilon_bounds(law, 3.4711490120443456e-07)
    assert found is not None
    assert found.lower <= 154.5340963377331373 <= found.upper <= 154.53409634


@pytest.mark.thinned(3)
@pytest.mark.parametrize("sigma", [1e-3, 10.0, 1e4])
@pytest.mark.parametrize("rate", [2.0**-1074, 1e-9, 1 - 2.0**-53])
def test_extreme_parameters_are_answered_or_refused(sigma: float, rate: float) -> None:
    for delta, steps in ((1e-280, 10**9), (0.999, 3), (1e-20, 1)):
        for removes in (True, False):
            found = epsilon_bounds(SampledGaussianLaw(sigma, rate, steps, removes), delta)
            assert found is None or 0 <= found.lower <= found.upper < math.inf
            at = delta_bounds(SampledGaussianLaw(sigma, rate, steps, removes), 0.1)
            assert 0 <= at.lower <= at.upper <= 1


def test_sampling_everything_changes_nothing_and_nothing_costs_nothing() -> None:
    loss = accounting.gaussian(2)
    assert loss.poisson(1) == loss
    assert loss.poisson(0).epsilon() == 0.0
    assert loss.poisson(0.5).poisson(0.5) == loss.poisson(0.25)
    assert accounting.pure(1).poisson(0.1).epsilon() == pytest.approx(math.log1p(0.1 * math.expm1(1)), rel=1e-12)


def test_epsilon_falls_with_noise_and_grows_with_rate_and_steps() -> None:
    def epsilon(sigma: float, rate: float, steps: int) -> float:
        return (accounting.gaussian(sigma).poisson(rate) * steps).epsilon(1e-6)

    assert epsilon(1, 0.01, 1000) > epsilon(1.01, 0.01, 1000)
    assert epsilon(1, 0.01, 1000) < epsilon(1, 0.0101, 1000) < epsilon(1, 0.0101, 1001)
    assert epsilon(0.3, 1e-5, 1000) < math.inf  # where the integrand does not fall, the bound is wider, and holds


def test_bad_rates_and_several_uses_are_refused_by_name() -> None:
    for rate in (-0.1, 1.5, math.nan, math.inf, "x"):
        with pytest.raises(InvalidParameter, match="rate"):
            accounting.gaussian(1).poisson(rate)
    with pytest.raises(InvalidParameter, match="sample is taken for one"):
        (accounting.pure(1) * 2).poisson(0.1)
    with pytest.raises(InvalidParameter, match="sample of a sample"):
        PoissonEvent(PoissonEvent(GaussianEvent(F(1)), F(1, 2)), F(1, 2))


def test_few_looks_find_the_root_from_a_guess_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    plain = contour._Curve.look

    def look(curve: contour._Curve, epsilon: float) -> tuple[float, float, float]:
        looks.append(epsilon)
        return plain(curve, epsilon)

    monkeypatch.setattr(contour._Curve, "look", look)
    bounds = epsilon_bounds(SampledGaussianLaw(1.38892, 0.00192433, 641, True), 2.77e-11)
    assert bounds is not None
    assert bounds.upper - bounds.lower < 1e-7 * bounds.upper
    assert len(looks) < 16  # and not dozens of halvings
