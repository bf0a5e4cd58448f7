"""`mechanism(...)`: the textbook's four arguments."""

from __future__ import annotations

import math
from typing import Any

import pytest

from discreet.errors import InvalidParameter
from discreet.mechanisms import DiscreteGaussian, Exponential, Gaussian, Geometric, Laplace, Staircase, mechanism


def test_the_four_arguments_give_the_mechanism() -> None:
    assert mechanism(noise="laplace", sensitivity=2, epsilon=0.5) == Laplace(epsilon=0.5, sensitivity=2)
    assert mechanism(noise="laplace", sensitivity=2, epsilon=0.5, delta=0) == Laplace(epsilon=0.5, sensitivity=2)
    assert mechanism(noise="geometric", sensitivity=2, epsilon=0.5) == Geometric(epsilon=0.5, sensitivity=2)
    assert mechanism(noise="gaussian", sensitivity=2, epsilon=0.5, delta=1e-6) == Gaussian(
        epsilon=0.5, delta=1e-6, sensitivity=2
    )
    assert mechanism(noise="discrete-gaussian", sensitivity=2, epsilon=0.5, delta=1e-6) == DiscreteGaussian(
        epsilon=0.5, delta=1e-6, sensitivity=2
    )
    assert mechanism(noise="laplace", sensitivity=1, epsilon=1, dimension=3).dimension == 3


def test_the_kind_of_noise_is_read_as_people_write_it() -> None:
    for name in ("Laplace", "LAPLACE", "laplace ", "lap"):
        assert mechanism(name, sensitivity=2, epsilon=0.5) == Laplace(epsilon=0.5, sensitivity=2)
    for name in ("Gauss", "normal", "Gaussian"):
        assert isinstance(mechanism(name, sensitivity=2, epsilon=0.5, delta=1e-6), Gaussian)
    for name in ("discrete_gaussian", "Discrete Gaussian", "discrete-normal"):
        assert isinstance(mechanism(name, sensitivity=2, epsilon=0.5, delta=1e-6), DiscreteGaussian)
    for name in ("geometric", "discrete_laplace", "two-sided geometric"):
        assert isinstance(mechanism(name, sensitivity=2, epsilon=0.5), Geometric)


def test_a_proof_says_what_changing_one_record_costs_under_add_remove() -> None:
    for m in (Laplace(epsilon=0.5), Geometric(epsilon=0.5), Staircase(epsilon=0.5), Exponential(epsilon=0.5)):
        assert "changing one record is two steps and costs at most 2ε = 1." in m.explain()
    assert "twice μ, 0.5-GDP" in Gaussian(sigma=4).explain()
    assert "four times ρ, 0.5-zCDP" in DiscreteGaussian(sigma=2).explain()


def test_a_matrix_has_the_probabilities_and_the_cost_of_its_mechanism() -> None:
    for m in (Laplace(epsilon=1, sensitivity=2), Geometric(epsilon=1, sensitivity=2)):
        table, a = m.matrix(range(-3, 5)), math.exp(-0.5)
        assert table.epsilon() == pytest.approx(1, abs=1e-12) and table.delta(epsilon=1) == pytest.approx(0, abs=1e-12)
        inner = table.law(0)
        assert all(float(inner[k]) == pytest.approx((1 - a) / (1 + a) * a ** abs(k)) for k in range(-2, 4))
        assert float(inner[4]) == pytest.approx(a**4 / (1 + a))
    few = Laplace(epsilon=1).matrix([2, 7, 3])
    assert few.inputs == (2, 7, 3) and few.outputs == (2, 3, 4, 5, 6, 7) and few.epsilon() == pytest.approx(1)
    chosen = Exponential(epsilon=1, sensitivity=2).matrix([(0, 4), (2, 2), (4, 4)])
    assert float(chosen.law((0, 4))[1]) == pytest.approx(1 / (1 + math.exp(-1)))
    assert len(chosen.pairs) == 2  # of (0, 4) and (4, 4) the first utility differs by more than 2
    one_way = Exponential(epsilon=1, monotonic=True).matrix([(0, 1), (1, 0), (1, 1)])
    assert len(one_way.pairs) == 2 and float(one_way.law((0, 1))[1]) == pytest.approx(1 / (1 + math.exp(-1)))
    for other in (Gaussian(sigma=2), DiscreteGaussian(sigma=2), Staircase(epsilon=1)):
        with pytest.raises(InvalidParameter, match="has no finite matrix"):
            other.matrix(range(3))
    refused: list[Any] = [[1], [1.5, 2], []]
    for bad in refused:
        with pytest.raises(InvalidParameter, match="universe"):
            Laplace(epsilon=1).matrix(bad)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({}, "noise must be one of"),
        ({"noise": "uniform", "sensitivity": 1, "epsilon": 1}, "noise must be one of"),
        ({"noise": None, "sensitivity": 1, "epsilon": 1}, "noise must be one of"),
        ({"noise": "laplace", "epsilon": 1}, "needs sensitivity"),
        ({"noise": "laplace", "sensitivity": 1}, "needs epsilon"),
        ({"noise": "laplace", "sensitivity": 1, "epsilon": 1, "delta": 1e-6}, "needs no delta"),
        ({"noise": "geometric", "sensitivity": 1, "epsilon": 1, "delta": 1e-6}, "needs no delta"),
        ({"noise": "laplace", "sensitivity": 1, "epsilon": 1, "delta": "x"}, "delta"),
        ({"noise": "gaussian", "sensitivity": 1, "epsilon": 1}, "needs a delta"),
        ({"noise": "gaussian", "sensitivity": 1, "epsilon": 1, "delta": 0}, "delta must lie"),
        ({"noise": "discrete-gaussian", "sensitivity": 1, "epsilon": 1}, "needs a delta"),
        ({"noise": "laplace", "sensitivity": 0, "epsilon": 1}, "sensitivity must be above 0"),
        ({"noise": "laplace", "sensitivity": 1, "epsilon": float("nan")}, "epsilon"),
    ],
)
def test_what_is_missing_or_impossible_is_a_clear_error(arguments: dict[str, object], word: str) -> None:
    with pytest.raises(InvalidParameter, match=word):
        mechanism(**arguments)  # type: ignore[arg-type]


def test_refusals_say_what_to_do() -> None:
    for arguments in ({}, {"noise": "gaussian", "sensitivity": 1, "epsilon": 1}, {"noise": "laplace"}):
        with pytest.raises(InvalidParameter) as caught:
            mechanism(**arguments)
        assert caught.value.hint
