"""`mechanism(...)`: the textbook's four arguments."""

from __future__ import annotations

import pytest

from discreet.errors import InvalidParameter
from discreet.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, mechanism


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
