"""Densities, beliefs and errors, against closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet import accounting, mechanisms, plots
from discreet.errors import InvalidParameter
from discreet.plots.beliefs import odds
from tests.plots.seen import marks, parts, rows, words


def column(points: list[dict[str, Any]], name: str) -> Any:
    return np.array([p[name] for p in points])


def test_integers_have_the_masses_of_the_discrete_laplace_law_on_both_neighbours() -> None:
    points = rows(plots.densities(mechanisms.Laplace(epsilon=1), 10, 11), "o", "p", "q")
    o, a = column(points, "o"), math.exp(-1)
    assert set(np.diff(o)) == {1}
    for name, centre in (("p", 10), ("q", 11)):
        assert column(points, name) == pytest.approx((1 - a) / (1 + a) * a ** np.abs(o - centre), rel=1e-9)
    assert (column(points, "p") <= column(points, "high") * (1 + 1e-9)).all()
    assert (column(points, "p") >= column(points, "low") * (1 - 1e-9)).all()


def test_floats_have_densities_with_their_peaks() -> None:
    points = rows(plots.densities(mechanisms.Laplace(epsilon=2, sensitivity=3), -1.5, 1.5), "o", "p", "q")
    o = column(points, "o")
    assert column(points, "p") == pytest.approx(stats.laplace.pdf(o, -1.5, 1.5), rel=0.02)
    assert {-1.5, 1.5} <= set(o)


def test_a_pure_mechanism_has_no_witness_and_another_has_one() -> None:
    pure = plots.densities(mechanisms.Laplace(epsilon=1), 10, 11)
    assert "yellow" not in words(pure) and marks(pure).count("area") == 1
    sound = plots.densities(mechanisms.Gaussian(epsilon=1, delta="1e-3"), 0.0, 1.0)
    assert "δ = P(S) − e^ε·Q(S) = 0.001" in words(sound) and marks(sound).count("area") == 2
    # Balle, Wang 2018, Theorem 8, at another ε than that of the mechanism
    mu = 1 / mechanisms.Gaussian(epsilon=1, delta="1e-3").sigma
    truth = stats.norm.cdf(mu / 2 - 0.5 / mu) - math.exp(0.5) * stats.norm.cdf(-mu / 2 - 0.5 / mu)
    half = plots.densities(mechanisms.Gaussian(epsilon=1, delta="1e-3"), 0.0, 1.0, epsilon="0.5")
    assert f"= {truth:.3g}" in words(half)


def test_too_little_noise_is_seen() -> None:
    bad = plots.densities(mechanisms.Laplace(epsilon=2), 10, 11, epsilon=1)
    # P(o ≤ 10) − e·Q(o ≤ 10) for the discrete law at ε = 2
    a = math.exp(-2)
    below = 1 / (1 + a)
    assert f"= {below - math.e * a * below:.3g}" in words(bad)


@pytest.mark.parametrize(
    ("mechanism", "x", "y", "word"),
    [
        (mechanisms.Exponential(epsilon=1), 1, 2, "add noise to a number"),
        (mechanisms.Laplace(epsilon=1), 1, 2.5, "two integers or two"),
        (mechanisms.Laplace(epsilon=1), 1.0, math.nan, "finite"),
        (mechanisms.Laplace(epsilon=1), True, False, "two integers or two"),
        (mechanisms.Geometric(epsilon=1), 1.0, 2.0, "integers only"),
        (mechanisms.Gaussian(sigma=1), 1, 2, "without an ε"),
        (mechanisms.Laplace(epsilon=1000), 1, 2, "between 0 and 100"),
    ],
    ids=str,
)
def test_what_has_no_densities_is_refused(mechanism: Any, x: float, y: float, word: str) -> None:
    with pytest.raises(InvalidParameter, match=word):
        plots.densities(mechanism, x, y)


def test_neighbours_that_short_numbers_do_not_tell_apart_have_names_of_their_own() -> None:
    chart = plots.densities(mechanisms.Laplace(epsilon=1), 1_000_000, 1_000_001)
    named = {t["title"] for p in parts(chart) for t in p.get("encoding", {}).get("tooltip", [])}
    assert {"answers on 1000000", "answers on 1000001"} < named


def test_neighbours_far_apart_have_both_peaks_and_a_delta_of_at_most_one() -> None:
    chart = plots.densities(mechanisms.Laplace(epsilon=1), 0, 10**8)
    held = rows(chart, "o", "p", "q")
    peak = math.tanh(0.5)  # of P(Z = 0)
    assert max(r["p"] for r in held) == pytest.approx(peak, rel=1e-6)
    assert max(r["q"] for r in held) == pytest.approx(peak, rel=1e-6)
    assert "e^ε·Q(S) = 1" in words(chart)
    assert "e^ε·Q(S) = 1" in words(plots.densities(mechanisms.Laplace(epsilon="0.001"), -3, 2**70))


def test_many_posteriors_have_a_line_each() -> None:
    few, many = (plots.posterior({f"{i}": i for i in range(n)}, prior=0.1).to_dict() for n in (3, 5))
    assert (len(few["title"]["subtitle"]), len(many["title"]["subtitle"])) == (2, 6)


def test_beliefs_move_by_bayes_rule_at_most() -> None:
    chart = plots.posterior({"low": "0.5", "high": accounting.pure(2)}, prior="0.1")
    for point in rows(chart, "prior", "low", "high"):
        e, p = {"low": 0.5, "high": 2.0}[point["series"]], point["prior"]
        for name, factor in (("low", math.exp(-e)), ("high", math.exp(e))):
            assert point[name] == pytest.approx(p * factor / (1 - p + p * factor), abs=1e-12)
    assert "from 10% to: 6.3% to 15.5% (low), 1.5% to 45.1% (high)" in words(chart)


def test_a_loss_with_a_delta_is_held_to_what_gaussian_noise_does() -> None:
    # L ~ N(1/8, 1/4) for noise of deviation 2: its own quantile is below the bound, which is not far above.
    found = odds(accounting.gaussian(2), 1e-4)
    truth = float(stats.norm.isf(5e-5, 0.125, 0.5))
    assert truth < found < truth * 1.35
    assert found > accounting.gaussian(2).epsilon("1e-4")


@pytest.mark.parametrize(
    ("loss", "asked", "word"),
    [
        ({}, {}, "needs an ε"),
        (-1, {}, "between 0 and 700"),
        (math.nan, {}, "epsilon"),
        (1, {"prior": 0}, "prior must lie"),
        (1, {"prior": "1.5"}, "prior must lie"),
        (accounting.gaussian(1), {}, "not pure"),
    ],
    ids=str,
)
def test_a_picture_of_beliefs_refuses_what_it_cannot_draw(loss: Any, asked: Any, word: str) -> None:
    with pytest.raises(InvalidParameter, match=word):
        plots.posterior(loss, **asked)


def test_errors_are_those_of_the_mechanisms_and_gaps_where_one_refuses() -> None:
    makers: Any = {
        "Laplace": mechanisms.Laplace,
        "classical": lambda e: mechanisms.Gaussian(epsilon=e, delta="1e-6", calibration="classical"),
    }
    chart = plots.error(makers, epsilons=["0.1", "0.5", 2], confidence="0.9", unit="people")
    found = {(p["series"], p["epsilon"]): p["error"] for p in rows(chart, "series", "epsilon", "error")}
    assert found.keys() == {
        ("Laplace", 0.1),
        ("Laplace", 0.5),
        ("Laplace", 2.0),
        ("classical", 0.1),
        ("classical", 0.5),
    }
    # P(|Z| > t) = 2a^(t + 1)/(1 + a) for the discrete Laplace law
    a = math.exp(-0.1)
    t = next(t for t in range(1000) if 2 * a ** (t + 1) / (1 + a) <= 0.1)
    assert found["Laplace", 0.1] == pytest.approx(max(t, 10 * math.log(10)), rel=1e-4)  # floats alike
    assert "90 % interval" in words(chart)


def test_errors_of_nothing_are_refused() -> None:
    for given, word in (
        ({}, "labels with classes"),
        ({"x": 3}, "labels with classes"),
        ({"x": mechanisms.Exponential}, "more than a confidence"),
    ):
        with pytest.raises(InvalidParameter, match=word):
            plots.error(given)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="at least one ε"):
        plots.error({"x": mechanisms.Laplace}, epsilons=[])
    with pytest.raises(InvalidParameter, match="confidence"):
        plots.error({"x": mechanisms.Laplace}, confidence=1)
