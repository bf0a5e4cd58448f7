"""The Laplace and the geometric mechanism: scales, errors, parameters."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.mechanisms import Geometric, Laplace
from discreet.privacy.event import ApproximateEvent, Composed, DiscreteLaplaceEvent


def test_the_scale_is_sensitivity_over_epsilon_exactly() -> None:
    assert Laplace(epsilon=0.1, sensitivity=3).noise.scale == 30
    assert Laplace(epsilon="1/3").noise.scale == 3
    assert Laplace(epsilon=0.5).scale == 2.0
    assert Geometric(epsilon=0.1, sensitivity=3).noise.scale == 30
    assert Laplace(scale=2, sensitivity=3).epsilon == Fraction(3, 2)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"epsilon": 1, "scale": 1},
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": True},
        {"epsilon": "one"},
        {"epsilon": None},
        {"scale": 0},
        {"scale": float("inf")},
        {"epsilon": 1, "sensitivity": 0},
        {"epsilon": 1, "sensitivity": -1},
        {"epsilon": 1, "sensitivity": float("nan")},
        {"epsilon": 1, "sensitivity": None},
        {"epsilon": 1, "sensitivity": False},
    ],
)
def test_impossible_parameters_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidParameter):
        Laplace(**arguments)  # type: ignore[arg-type]


def test_arguments_are_named() -> None:
    with pytest.raises(TypeError):
        Laplace(1)  # type: ignore[call-arg]


@pytest.mark.parametrize("sensitivity", ["0.5", "1.5", "1/3"])
def test_geometric_refuses_a_sensitivity_that_is_no_integer(sensitivity: str) -> None:
    with pytest.raises(InvalidParameter, match="must be an integer"):
        Geometric(epsilon=1, sensitivity=sensitivity)


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", 1, 7])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_error_on_floats_is_that_of_the_continuous_law(epsilon: object, confidence: float) -> None:
    # P(|Z| > t) = exp(−t/b) for continuous Laplace noise. Sensitivity below 1, so that only floats count.
    mechanism = Laplace(epsilon=epsilon, sensitivity="0.25")  # type: ignore[arg-type]
    assert mechanism.error(confidence) == pytest.approx(-mechanism.scale * math.log(1 - confidence), rel=1e-5)


def test_the_error_on_integers_is_the_least_that_covers() -> None:
    # P(|Z| ≤ t) = 1 − 2p^(t+1)/(1+p), p = exp(−1/2): 0.9244 at 5 and 0.9542 at 6.
    assert Geometric(epsilon=0.5).error(0.95) == 6.0
    p = math.exp(-0.5)
    assert 1 - 2 * p**6 / (1 + p) < 0.95 <= 1 - 2 * p**7 / (1 + p)


def test_the_costs_are_pure() -> None:
    assert Laplace(epsilon=0.3, sensitivity=7).events == Composed([ApproximateEvent(Fraction(3, 10))])
    assert Geometric(epsilon=0.3, sensitivity=7).events == Composed([ApproximateEvent(Fraction(3, 10))])
    one = Geometric(epsilon=0.3, sensitivity=7, dimension=1)
    assert one.events == Composed([DiscreteLaplaceEvent(7, Fraction(70, 3))])
    assert one.loss.delta(0.1) <= Geometric(epsilon=0.3, sensitivity=7).loss.delta(0.1)


@pytest.mark.parametrize("sensitivity", [1, 2, 5])
def test_every_event_keeps_the_ratio_on_integers(sensitivity: int) -> None:
    # By enumeration of the mass functions around two neighbours, in floats.
    mechanism = Laplace(epsilon="0.7", sensitivity=sensitivity)
    k = np.arange(-400, 401)
    mass = np.exp(-np.abs(k) / mechanism.scale)
    mass /= mass.sum()
    for shift in range(1, sensitivity + 1):
        ratio = mass[:-shift] / mass[shift:]
        assert math.log(max(ratio.max(), (1 / ratio).max())) <= 0.7 + 1e-12
    assert math.log((mass[:-sensitivity] / mass[sensitivity:]).max()) == pytest.approx(0.7)


def test_explain_fills_in_the_numbers() -> None:
    text = Laplace(epsilon=0.5, sensitivity=3).explain()
    for piece in ("Δ = 3", "b = Δ/ε = 3/0.5 = 6", "Triangle inequality", "exp(3/6) = exp(0.5)", "M is 0.5-DP"):
        assert piece in text
    text = Geometric(epsilon=0.5, sensitivity=2).explain()
    for piece in ("Δ = 2", "exp(−0.25)", "Triangle inequality", "M is 0.5-DP"):
        assert piece in text


@pytest.mark.parametrize(
    "mechanism",
    [Laplace(epsilon=0.5, sensitivity=3), Laplace(epsilon=2, dimension=4), Geometric(epsilon="0.25")],
    ids=repr,
)
def test_repr_reads_back(mechanism: object) -> None:
    assert eval(repr(mechanism), {"Laplace": Laplace, "Geometric": Geometric}) == mechanism
