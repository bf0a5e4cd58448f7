"""Every answer against a formula, mpmath or an enumeration; never below the truth, and hardly above it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from discreet import accounting
from discreet.accounting import PrivacyLoss
from discreet.accounting.engines import lattice, tilted
from discreet.accounting.engines.closed import gdp
from discreet.accounting.questions import advantage, hockey_stick, rdp, success, zcdp
from discreet.accounting.tradeoff import tradeoff
from discreet.errors import InvalidParameter

mp.dps = 50
RATIOS = ("1e-6", "0.01", "0.3", "1", "2.5", "10", "40")
ORDERS = ("1.001", "1.5", "2", "7.25", "32", "1000")


def just_above(answer: float, truth: mpf, slack: float = 1e-9) -> bool:
    """Whether an upper bound is one, and a good one."""
    return bool(truth * (1 - mpf(10) ** -15) <= mpf(answer) <= truth * (1 + slack) + mpf(10) ** -15)


def just_below(answer: float, truth: mpf, slack: float) -> bool:
    """Whether a lower bound is one, and a good one."""
    return bool(truth * (1 - slack) - mpf(10) ** -14 <= mpf(answer) <= truth)


def quantile(x: mpf) -> mpf:
    """Φ⁻¹ at 50 digits."""
    return mp.sqrt(2) * mp.erfinv(2 * x - 1) if x > mpf("1e-20") else -_far(x)


def _far(x: mpf) -> mpf:
    return mp.findroot(lambda z: mp.log(mp.erfc(z / mp.sqrt(2)) / 2) - mp.log(x), mp.sqrt(-2 * mp.log(x)))


# Rényi divergence


@pytest.mark.parametrize("alpha", ORDERS)
def test_renyi_divergence_of_gaussian_noise_is_exact(alpha: str) -> None:
    loss = accounting.gaussian(noise_multiplier=2) * 3
    assert rdp(loss, alpha) == float(Fraction(alpha) * 3 / 8)


@pytest.mark.parametrize("alpha", ORDERS)
@pytest.mark.parametrize("ratio", RATIOS)
def test_renyi_divergence_of_laplace_noise_is_that_of_mironov(ratio: str, alpha: str) -> None:
    a, r = mpf(alpha), mpf(ratio)
    # Mironov 2017, Table II.
    inside = a / (2 * a - 1) * mp.exp((a - 1) * r) + (a - 1) / (2 * a - 1) * mp.exp(-a * r)
    truth = mp.log(inside) / (a - 1)
    # Near r = 0 and α = 1 floats cancel, and the bound αr²/2 takes over.
    assert just_above(rdp(accounting.laplace(scale=1, sensitivity=ratio), alpha), truth, 1e-5)
    if mpf(ratio) > mpf("0.1"):
        assert just_above(rdp(accounting.laplace(scale=1, sensitivity=ratio), alpha), truth)


@pytest.mark.parametrize("alpha", ORDERS)
@pytest.mark.parametrize("epsilon", RATIOS)
def test_renyi_divergence_of_a_pure_use_is_that_of_randomised_response(epsilon: str, alpha: str) -> None:
    a, e = mpf(alpha), mpf(epsilon)
    p = mp.exp(e) / (1 + mp.exp(e))
    q = 1 - p
    truth = mp.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
    assert just_above(rdp(accounting.pure(epsilon) * 5, alpha), 5 * truth)


@pytest.mark.parametrize(("sigma", "rate"), [("1", "0.01"), ("0.7", "0.2"), ("5", "1e-3"), ("2", "0.9")])
@pytest.mark.parametrize("alpha", [2, 3, 8, 32])
def test_renyi_divergence_of_sampled_gaussian_noise_is_the_binomial_sum(sigma: str, rate: str, alpha: int) -> None:
    s, q = mpf(sigma), mpf(rate)
    # Mironov, Talwar, Zhang 2019, section 3.3, integer α.
    inside = sum(
        mp.binomial(alpha, k) * (1 - q) ** (alpha - k) * q**k * mp.exp((k * k - k) / (2 * s * s))
        for k in range(alpha + 1)
    )
    truth = 1000 * mp.log(inside) / (alpha - 1)
    loss = accounting.gaussian(sigma).poisson(rate) * 1000
    assert just_above(rdp(loss, alpha), truth, 1e-9 if truth > mpf("1e-3") else 1e-5)  # M − 1 is 1e-8 there


def test_renyi_divergences_of_different_uses_add() -> None:
    parts = [accounting.gaussian(3), accounting.laplace(2), accounting.zcdp(0.1), accounting.pure(0.2) * 4]
    separate = sum(rdp(part, 4) for part in parts)
    assert rdp(sum(parts[1:], parts[0]), 4) == pytest.approx(separate, rel=1e-12)


def test_a_divergence_of_infinite_order_is_the_pure_epsilon() -> None:
    assert rdp(accounting.laplace(scale=2) * 3, math.inf) == 1.5
    assert rdp(accounting.laplace(scale=2) * 3, 10**6) <= 1.5
    with pytest.raises(InvalidParameter, match="not pure"):
        rdp(accounting.gaussian(1), math.inf)


@pytest.mark.parametrize(
    "alpha", ["inf", " Inf", "infinity", Decimal("Infinity"), np.float32("inf"), np.float64("inf")]
)
def test_an_infinite_order_may_be_written_in_words(alpha: str) -> None:
    assert rdp(accounting.laplace(scale=2) * 3, alpha) == 1.5
    with pytest.raises(InvalidParameter, match="not pure"):
        accounting.gaussian(1).rdp(alpha)


@pytest.mark.parametrize("alpha", [1, 0.5, "nan", float("nan"), -math.inf])
def test_an_order_of_at_most_one_is_refused(alpha: float) -> None:
    with pytest.raises(InvalidParameter, match="alpha"):
        rdp(accounting.gaussian(1), alpha)


# zCDP


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "2", "8"])
def test_the_rho_of_a_pure_use_is_the_least(epsilon: str) -> None:
    e, rho = mpf(epsilon), mpf(zcdp(accounting.pure(epsilon)))
    worst = max(_randomised(e, 1 + mpf(10) ** x) / (1 + mpf(10) ** x) for x in np.linspace(-9, 3, 61))
    assert worst * (1 - mpf("1e-14")) <= rho <= worst * (1 + mpf("1e-6"))


@pytest.mark.parametrize("ratio", ["0.01", "0.5", "2", "8"])
def test_the_rho_of_laplace_noise_is_the_least(ratio: str) -> None:
    r, rho = mpf(ratio), mpf(zcdp(accounting.laplace(scale=1, sensitivity=ratio)))
    ratios = []
    for x in np.linspace(-9, 3, 61):
        a = 1 + mpf(10) ** x
        inside = a / (2 * a - 1) * mp.exp((a - 1) * r) + (a - 1) / (2 * a - 1) * mp.exp(-a * r)
        ratios.append(mp.log(inside) / (a - 1) / a)
    assert max(ratios) * (1 - mpf("1e-14")) <= rho <= max(ratios) * (1 + mpf("1e-6"))


def test_zcdp_is_never_more_than_what_filters_charge() -> None:
    losses = [accounting.exponential(0.7), accounting.gaussian(3), accounting.zcdp(0.25), accounting.pure(900)]
    for loss in [*losses, accounting.gaussian(0.5).poisson(0.1) * 10, accounting.pure(1).poisson(0.1)]:
        assert loss.rho is not None
        assert zcdp(loss) <= math.nextafter(float(loss.rho), math.inf)
    assert zcdp(accounting.gaussian(4)) == 0.03125


def _randomised(e: mpf, a: mpf) -> mpf:
    p = mp.exp(e) / (1 + mp.exp(e))
    return mp.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)


# GDP


def test_the_mu_of_gaussian_noise_is_exact() -> None:
    assert gdp(accounting.gaussian(2)) == 0.5
    assert gdp(accounting.gaussian(2) * 16 + accounting.gdp("1.5")) == 2.5


@pytest.mark.parametrize("epsilon", RATIOS)
def test_the_mu_of_a_pure_use_is_that_of_dong_roth_and_su(epsilon: str) -> None:
    e = mpf(epsilon)
    truth = -2 * quantile(1 / (1 + mp.exp(e)))
    assert just_above(gdp(accounting.pure(epsilon)), truth, 1e-11)
    assert just_above(gdp(accounting.exponential(2 * Fraction(epsilon))), truth, 1e-11)
    assert just_above(gdp(accounting.randomized_response(epsilon) * 9), 3 * truth, 1e-11)


@pytest.mark.parametrize("ratio", RATIOS)
def test_the_mu_of_laplace_noise_is_the_worst_point_of_its_trade_off(ratio: str) -> None:
    r = mpf(ratio)

    def gap(x: float) -> mpf:  # on the curved part of the trade-off, α from e^−r/2 to 1/2
        alpha = mp.exp(-r * mpf(x)) / 2
        return -quantile(alpha) - quantile(mp.exp(-r) / (4 * alpha))

    worst = max(gap(float(x)) for x in np.linspace(0, 1, 21))
    assert just_above(gdp(accounting.laplace(scale=1, sensitivity=ratio)), worst, 1e-11)


@pytest.mark.parametrize("shift", [1, 2, 3, 8, 25])
@pytest.mark.parametrize("scale", ["0.2", "3", "1e4"])
def test_the_mu_of_discrete_laplace_noise_is_the_worst_of_its_corners(scale: str, shift: int) -> None:
    q = mp.exp(-1 / mpf(scale))
    tails = [q**m / (1 + q) for m in range(1, shift + 1)]
    worst = max(-quantile(a) - quantile(b) for a, b in zip(tails, tails[::-1], strict=True))
    assert just_above(gdp(accounting.discrete_laplace(scale, shift)), worst, 1e-11)


@pytest.mark.parametrize("categories", [3, 10, 10**6])
@pytest.mark.parametrize("epsilon", ["0.01", "1", "6", "30"])
def test_the_mu_of_k_ary_randomised_response_is_that_of_its_corner(epsilon: str, categories: int) -> None:
    e = mpf(epsilon)
    p = 1 / (1 + (categories - 1) * mp.exp(-e))
    truth = quantile(p) - quantile(mp.exp(-e) * p)
    assert just_above(gdp(accounting.randomized_response(epsilon, categories)), truth, 1e-9)


def test_the_mu_of_two_mass_functions_is_that_of_their_worst_corner() -> None:
    loss = accounting.from_pmfs(["0.5", "0.3", "0.2"], ["0.1", "0.3", "0.6"])
    corners = [("0.5", "0.1"), ("0.8", "0.4")]
    worst = max(quantile(mpf(power)) - quantile(mpf(level)) for power, level in corners)
    assert just_above(gdp(loss), worst, 1e-11)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "loss",
    [
        accounting.pure(1),
        accounting.laplace(1),
        accounting.discrete_laplace(2, 5),
        accounting.exponential(3),
        accounting.randomized_response(2, 5),
        accounting.from_pmfs(["0.5", "0.3", "0.2"], ["0.1", "0.3", "0.6"]),
    ],
    ids=str,
)
def test_a_mu_covers_the_curve_at_every_epsilon_and_a_smaller_one_does_not(loss: PrivacyLoss) -> None:
    mu = gdp(loss)
    grid = np.concatenate([[0.0], np.geomspace(1e-3, 6, 150)])
    curve = [loss.delta(float(e)) for e in grid]
    assert all(d <= _gaussian_curve(mu, e) * (1 + 1e-9) for d, e in zip(curve, grid, strict=True))
    least = min(_gaussian_curve(mu * 0.99, e) / d for d, e in zip(curve, grid, strict=True) if d > 1e-12)
    assert least < 1


def test_a_sample_has_at_most_the_mu_of_the_whole() -> None:
    whole = accounting.gaussian(2)
    assert gdp(whole.poisson(0.01) * 4) == 1.0
    assert gdp(accounting.pure(1).poisson(0.01)) < gdp(accounting.pure(1)) / 10


def _gaussian_curve(mu: float, epsilon: float) -> float:
    m, e = mpf(mu), mpf(float(epsilon))
    return float(mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m))


# Refusals


@pytest.mark.parametrize(("ask", "word"), [(lambda x: rdp(x, 2), "Rényi"), (zcdp, "ρ"), (gdp, "μ")])
def test_a_delta_apart_has_no_divergence_no_rho_and_no_mu(ask: Callable[[PrivacyLoss], float], word: str) -> None:
    with pytest.raises(InvalidParameter, match=f"no {word}.*spent apart"):
        ask(accounting.approximate(0.1, 1e-6) + accounting.gaussian(1))


@pytest.mark.parametrize("loss", [accounting.zcdp(0.1), accounting.discrete_gaussian(3)], ids=str)
def test_a_use_without_a_proven_mu_is_refused_by_name(loss: PrivacyLoss) -> None:
    with pytest.raises(InvalidParameter, match=r"none is proven for (a use known|discrete Gaussian)"):
        gdp(loss + accounting.gaussian(1))


def test_no_loss_is_no_loss_in_any_words() -> None:
    for nothing in (accounting.pure(0), accounting.gaussian(1) * 0):
        assert (rdp(nothing, 2), zcdp(nothing), gdp(nothing), advantage(nothing)) == (0, 0, 0, 0)
        assert success(nothing) == 0.5
        assert tradeoff(nothing, 0.25) == pytest.approx(0.75, abs=1e-12)


# Hockey sticks and attackers


@pytest.mark.parametrize("alpha", ["0", "0.001", "0.2", "0.999999", "1", "1.000001", "2", "7", "1e300"])
def test_a_hockey_stick_of_laplace_noise_is_the_integral(alpha: str) -> None:
    r, a = mpf(1.5), mpf(alpha)
    truth = max(1 - mp.exp((mp.log(a) - r) / 2), mpf(0)) if a > mp.exp(-r) else 1 - a
    assert just_above(hockey_stick(accounting.laplace(1, 1.5), alpha), truth, 1e-10)


@pytest.mark.parametrize("alpha", [Fraction(1, 50), Fraction(2, 3), Fraction(1), Fraction(3, 2), Fraction(30)])
def test_hockey_stick_and_success_are_the_best_of_all_events(alpha: Fraction) -> None:
    p, q = [Fraction(x, 10) for x in (5, 3, 2)], [Fraction(x, 10) for x in (1, 3, 6)]
    loss = accounting.from_pmfs(p, q)
    events = [s for n in range(4) for s in itertools.combinations(range(3), n)]
    both = [(p, q), (q, p)]
    best = max(sum(x[i] - alpha * y[i] for i in s) for s in events for x, y in both)
    assert just_above(hockey_stick(loss, alpha), mpf(best.numerator) / best.denominator, 1e-10)
    prior = 1 / (1 + alpha)
    right = max(
        prior * sum((x[i] for i in s), Fraction(0)) + (1 - prior) * (1 - sum((y[i] for i in s), Fraction(0)))
        for s in events
        for x, y in both
    )
    assert just_above(success(loss, prior), mpf(right.numerator) / right.denominator, 1e-10)


def test_the_advantage_of_gaussian_noise_is_the_total_variation() -> None:
    truth = 2 * mp.ncdf(mpf(1) / 2) - 1
    assert just_above(advantage(accounting.gaussian(1)), truth)
    assert just_above(success(accounting.gaussian(1)), (1 + truth) / 2)


def test_success_without_doubt_is_certain() -> None:
    loss = accounting.gaussian(1)
    assert success(loss, 0) == success(loss, 1) == 1
    assert success(loss, Fraction(1, 10**6)) >= 1 - 1e-6


def test_negative_alphas_and_priors_beyond_one_are_refused() -> None:
    loss = accounting.pure(1)
    with pytest.raises(InvalidParameter, match="alpha"):
        hockey_stick(loss, -1)
    with pytest.raises(InvalidParameter, match="prior"):
        success(loss, 1.5)


# The trade-off curve

LEVELS = ("1e-9", "0.001", "0.05", "0.3", "0.5", "0.8", "0.999")


@pytest.mark.parametrize("alpha", LEVELS)
@pytest.mark.parametrize("mu", ["0.01", "1", "6"])
def test_the_trade_off_of_gaussian_noise_is_the_closed_form(mu: str, alpha: str) -> None:
    truth = mp.ncdf(-quantile(mpf(alpha)) - mpf(mu))
    assert just_below(tradeoff(accounting.gdp(mu), alpha), truth, 1e-11)


@pytest.mark.parametrize("alpha", LEVELS)
@pytest.mark.parametrize("ratio", ["0.1", "1", "4"])
def test_the_trade_off_of_laplace_noise_is_the_closed_form(ratio: str, alpha: str) -> None:
    r, a = mpf(ratio), mpf(alpha)
    if a < mp.exp(-r) / 2:
        truth = 1 - mp.exp(r) * a
    else:
        truth = mp.exp(-r) / (4 * a) if a <= mpf(1) / 2 else mp.exp(-r) * (1 - a)
    assert just_below(tradeoff(accounting.laplace(1, ratio), alpha), truth, 1e-6)


@pytest.mark.parametrize("alpha", LEVELS)
def test_the_trade_off_of_an_epsilon_delta_use_is_the_broken_line(alpha: str) -> None:
    a, grown, d = mpf(alpha), mp.exp(mpf("0.7")), mpf("0.01")
    truth = max(1 - d - grown * a, (1 - d - a) / grown, mpf(0))
    assert just_below(tradeoff(accounting.approximate("0.7", "0.01"), alpha), truth, 1e-12)


def test_the_trade_off_of_a_composition_is_near_that_of_its_gaussian_twin() -> None:
    uses = accounting.discrete_gaussian(40, shift=20) * 16  # μ = 2; rounding hardly shows at σ = 40
    for alpha in (0.001, 0.1, 0.5):
        assert tradeoff(uses, alpha) == pytest.approx(tradeoff(accounting.gdp(2), alpha), rel=1e-3)


def test_the_trade_off_of_many_levels_takes_a_few_runs_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def transformed(*args: Any) -> tilted.TiltedSums | None:
        runs.append(args)
        return tilted.transformed(*args)

    monkeypatch.setattr(lattice, "transformed", transformed)
    uses = accounting.discrete_gaussian(40, shift=20) * 16  # μ = 2 as above
    levels = np.array([1e-9, 1e-4, *np.linspace(0.01, 0.99, 99), 1 - 1e-4])
    found, twin = tradeoff(uses, levels), tradeoff(accounting.gdp(2), levels)
    assert len(runs) <= 4
    assert np.all(found <= twin * (1 + 1e-3))
    assert np.all(found >= twin * (1 - 1e-3) - 1e-6)
    for alpha in (0.03, 0.5):
        assert tradeoff(uses, alpha) == pytest.approx(tradeoff(uses, np.array([alpha] * 9))[0], abs=1e-4)


def test_the_trade_off_from_one_curve_is_that_of_the_lines_asked_one_by_one() -> None:
    uses = accounting.zcdp("0.01") * 5 + accounting.discrete_gaussian(4) * 3 + accounting.approximate("0.1", "1e-4")
    levels = np.linspace(0, 1, 41)
    found = tradeoff(uses, levels)
    assert found[0] == pytest.approx(1 - 1e-4, abs=1e-12)
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        delta, grown = uses.delta(epsilon), math.exp(epsilon)
        lines = np.maximum(1 - delta - grown * levels, (1 - delta - levels) / grown)
        assert np.all(found >= lines - 2e-4)
    assert np.all(found <= 1 - levels)


def test_the_trade_off_of_randomised_responses_is_the_neyman_pearson_lemma() -> None:
    n, p = 6, mp.exp(mpf("0.5")) / (1 + mp.exp(mpf("0.5")))
    masses = [(mp.binomial(n, k) * p**k * (1 - p) ** (n - k)) for k in range(n + 1)]
    levels = [sum(masses[:k], mpf(0)) for k in range(n + 2)]  # at least n − k + 1 lies under Q
    powers = [sum(masses[::-1][:k], mpf(0)) for k in range(n + 2)]
    loss = accounting.pure("0.5") * n
    for alpha in (0.01, 0.2, 0.6):
        k = next(i for i in range(n + 1) if levels[i + 1] >= alpha)
        share = (mpf(alpha) - levels[k]) / masses[k]
        truth = 1 - powers[k] - share * masses[::-1][k]
        assert just_below(tradeoff(loss, alpha), truth, 1e-2)


@pytest.mark.exhaustive
def test_a_trade_off_of_many_levels_is_convex_falling_and_sound() -> None:
    levels = np.linspace(0, 1, 51)
    loss = accounting.laplace(2) * 12 + accounting.approximate("0.1", "1e-6")
    errors = tradeoff(loss, levels)
    assert (errors[0], errors[-1]) == (pytest.approx(1 - 1e-6, abs=1e-12), 0)
    assert (np.diff(errors) <= 0).all()
    assert (np.diff(errors, 2)[1:] >= -1e-13).all()
    assert (errors <= 1 - levels).all()
    one = tradeoff(loss, 0.1)
    assert errors[5] <= one * (1 + 1e-9)
    assert errors[5] >= one * 0.99


@pytest.mark.exhaustive
def test_a_known_mu_bounds_the_trade_off_of_many_uses() -> None:
    loss = accounting.laplace(4) * 20
    mu = mpf(gdp(loss))
    for alpha in (1e-4, 0.05, 0.5):
        floor = mp.ncdf(-quantile(mpf(alpha)) - mu)
        ceiling = mp.ncdf(-quantile(mpf(alpha)) - mp.sqrt(20) / 4 * mpf("0.9"))  # about its loss's deviation
        assert floor * (1 - mpf("1e-9")) <= tradeoff(loss, alpha) <= ceiling


def test_a_trade_off_is_below_the_truth_of_one_sampled_use() -> None:
    loss = accounting.gaussian(1).poisson("0.2")
    # Either way round, by the ratio test on one Gaussian observation: T((1−q)N + qN₁ against N).
    for alpha in (0.01, 0.1, 0.4):
        z = -quantile(mpf(alpha))
        power = mpf("0.8") * mpf(alpha) + mpf("0.2") * mp.ncdf(1 - z)
        assert tradeoff(loss, alpha) <= 1 - power
        assert tradeoff(loss, alpha) >= (1 - power) * mpf("0.99")


@pytest.mark.parametrize("alpha", [-0.1, 1.1, "nan", np.array([0.5, 2.0]), np.array([float("nan")])])
def test_a_level_outside_zero_to_one_is_refused(alpha: float) -> None:
    with pytest.raises(InvalidParameter, match="alpha"):
        tradeoff(accounting.pure(1), alpha)


def test_an_array_keeps_its_shape() -> None:
    loss = accounting.pure(1)
    assert tradeoff(loss, np.full((2, 3), 0.5)).shape == (2, 3)
    assert tradeoff(loss, np.array([])).shape == (0,)
    assert (tradeoff(loss, 0), tradeoff(loss, 1)) == (1, 0)
