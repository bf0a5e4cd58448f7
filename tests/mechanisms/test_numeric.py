"""What goes into `release` and what comes out: types, shapes, the lattice, numbers of any size."""

from __future__ import annotations

import math
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, Numeric
from discreet.mechanisms.numeric import NoisyValue
from discreet.noise.entropy import SystemEntropy
from discreet.privacy.event import DiscreteLaplaceEvent
from discreet.testing import ReplayEntropy

SECRET = 123456789.5
FAR = sys.float_info.max

REFUSED = [
    None,
    True,
    np.True_,
    "12",
    b"12",
    1j,
    float("nan"),
    float("inf"),
    -float("inf"),
    np.float64("nan"),
    np.longdouble(1),
    Decimal("1.5"),
    Fraction(1, 2),
    [1, None],
    [True, 1],
    [[1, 2], [3, 4]],
    [2**53 + 1, 1.5],
    (1.5, 2.5),
    pd.Series([1, None]),
    pd.Series([1, None], dtype="Int64"),
    pd.Series([True, False]),
    pl.Series([1, None]),
    {1},
    np.array([True, False]),
    np.array(["a"]),
    np.array([1j]),
    np.array([1.0, np.nan]),
    np.array([np.inf]),
    np.array([None]),
    np.array([1, 2], dtype=object),
    np.array([1], dtype=np.longdouble),
    np.array(["2020-01-01"], dtype="datetime64[D]"),
]


@pytest.mark.parametrize("value", REFUSED, ids=repr)
def test_what_is_no_number_is_refused_without_quoting_it(value: object) -> None:
    for mechanism in (Laplace(epsilon=1), Gaussian(sigma=2), Geometric(epsilon=1), DiscreteGaussian(sigma=2)):
        with pytest.raises(InvalidParameter) as caught:
            mechanism.release(value)
        assert caught.value.hint


def test_no_refusal_quotes_the_value() -> None:
    said = []
    for mechanism, value in [
        (Laplace(epsilon=1), np.array([SECRET, np.nan])),
        (Laplace(epsilon=1), [SECRET]),
        (Laplace(epsilon=1), str(SECRET)),
        (Laplace(epsilon=1, dimension=2), np.array([SECRET])),
        (Laplace(epsilon=1), np.array([SECRET, 1])),
        (Laplace(epsilon=1, sensitivity=0.5), 123456789),
        (Geometric(epsilon=1), SECRET),
        (DiscreteGaussian(sigma=2), SECRET),
        (DiscreteGaussian(sigma=2, sensitivity=2), np.array([123456789, 1])),
    ]:
        with pytest.raises(InvalidParameter) as caught:
            mechanism.release(value)
        said.append(str(caught.value))
    assert not [s for s in said if "12345" in s]


SCALARS = [0, -5, np.int8(3), np.uint64(1 << 63), 10**60, 2.5, -0.0, np.float32(1.5), np.array(3), np.array(2.5)]


@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_an_integer_stays_an_integer_and_a_float_a_float(value: object) -> None:
    real = isinstance(value, float | np.floating) or (isinstance(value, np.ndarray) and value.dtype.kind == "f")
    noisy = Laplace(epsilon=1).release(value)
    assert type(noisy) is (float if real else int)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 1, 6)])
def test_integer_arrays_keep_their_shape(dtype: str, shape: tuple[int, ...]) -> None:
    noisy = Laplace(epsilon=1).release(np.ones(shape, dtype=dtype))
    assert noisy.shape == shape and noisy.dtype == np.int64


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_float_arrays_keep_their_shape(dtype: str) -> None:
    noisy = Laplace(epsilon=1, dimension=6).release(np.ones((2, 3), dtype=dtype))
    assert noisy.shape == (2, 3) and noisy.dtype == np.float64


def test_a_float_array_needs_its_dimension_and_that_length() -> None:
    with pytest.raises(InvalidParameter, match="dimension=") as caught:
        Laplace(epsilon=1).release(np.array([1.0, 2.0]))
    assert "dimension=2" in caught.value.hint
    with pytest.raises(InvalidParameter, match="must hold 3 numbers"):
        Laplace(epsilon=1, dimension=3).release(np.array([1.0, 2.0]))
    with pytest.raises(InvalidParameter, match="must hold 3 numbers"):
        Laplace(epsilon=1, dimension=3).release(np.array([1, 2]))
    with pytest.raises(InvalidParameter, match="must hold 3 numbers"):
        Laplace(epsilon=1, dimension=3).release(1.5)


@pytest.mark.parametrize("dimension", [0, -1, 1.5, True, "2"])
def test_a_dimension_is_a_positive_integer(dimension: object) -> None:
    with pytest.raises(InvalidParameter, match="dimension"):
        Laplace(epsilon=1, dimension=dimension)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [(1 << 63) - 1, -(1 << 63), 1 << 63, -(1 << 64), 10**400])
def test_large_integers_never_wrap(value: int) -> None:
    assert abs(Laplace(epsilon=1).release(value) - value) <= 800
    if value.bit_length() <= 64 and value >= -(1 << 63):
        dtype = np.uint64 if value > 0 else np.int64
        noisy = Laplace(epsilon=1).release(np.full(2000, value, dtype=dtype))
        assert all(abs(n - value) <= 800 for n in noisy.tolist())
        assert len(set(noisy.tolist())) > 2


@pytest.mark.parametrize("value", [0.0, 1e-300, 5e-324, 0.1, 1e15, 2.0**53 + 2, 1e300, -FAR, FAR])
@pytest.mark.parametrize("mechanism", [Laplace(epsilon=1), Gaussian(sigma=2)], ids=repr)
def test_floats_of_any_size_come_back_finite_and_near(mechanism: Numeric, value: float) -> None:
    noisy = mechanism.release(value)
    assert math.isfinite(noisy)
    assert abs(noisy - value) <= 800 + abs(value) * 2.0**-52
    assert np.isfinite(type(mechanism).release(_two(mechanism), np.array([value, -value]))).all()


def _two(mechanism: Numeric) -> Numeric:
    return Laplace(epsilon=1, dimension=2) if isinstance(mechanism, Laplace) else Gaussian(sigma=2, dimension=2)


@pytest.mark.parametrize("sensitivity", ["1e-24", "1e-9", "0.001", 1, "1/3", "1e12", "1e24"])
@pytest.mark.parametrize("epsilon", ["1e-9", "0.5", "30"])
def test_released_floats_are_multiples_of_the_step(sensitivity: object, epsilon: str) -> None:
    mechanism = Laplace(epsilon=epsilon, sensitivity=sensitivity, dimension=50)  # type: ignore[arg-type]
    value = float(mechanism.sensitivity) * np.linspace(-3, 3, 50)
    noisy = mechanism.release(value)
    step = mechanism.lattice.grid.step
    assert all((Fraction(x) / step).denominator == 1 for x in noisy.tolist())


@pytest.mark.parametrize("value", [0.3, 1e9 + 0.3, 1e300])
def test_the_same_randomness_gives_the_same_noise_whatever_the_value(value: float) -> None:
    # The noise is a function of the random bytes only, so the value's low-order bits are not in it.
    mechanism = Laplace(epsilon=1)
    data = bytes(range(1, 256)) * 8
    grid = mechanism.lattice.grid
    noise = Fraction(mechanism.release(0.0, rng=ReplayEntropy(data))) / grid.step
    shifted = Fraction(grid.snap(value) + noise) * grid.step
    assert mechanism.release(value, rng=ReplayEntropy(data)) == float(shifted)


reals = st.floats(allow_nan=False, allow_infinity=False)


@given(
    values=st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1, 1)), min_size=1, max_size=5),
    delta=st.fractions(min_value=Fraction(1, 1000), max_value=1000),
    epsilon=st.fractions(min_value=Fraction(1, 1000), max_value=50),
)
def test_rounding_never_moves_neighbours_beyond_the_calibrated_steps(
    values: list[tuple[float, float]], delta: Fraction, epsilon: Fraction
) -> None:
    # Neighbours in floats whose exact l1 (and l2) distance is at most Δ, by scaling the drawn differences.
    x = [a for a, _ in values]
    norm = sum(abs(Fraction(d)) for _, d in values)
    y = [a + float(Fraction(d) * delta / norm) * 0.999 if norm else a for a, d in values]
    exact = [Fraction(a) - Fraction(b) for a, b in zip(x, y, strict=True)]
    if sum(map(abs, exact)) > delta:
        return  # the float sum rounded beyond Δ: no neighbours
    laplace = Laplace(epsilon=epsilon, sensitivity=delta, dimension=len(x)).lattice
    gaussian = Gaussian(sigma=epsilon, sensitivity=delta, dimension=len(x)).lattice
    steps = [laplace.grid.snap(a) - laplace.grid.snap(b) for a, b in zip(x, y, strict=True)]
    squares = [(gaussian.grid.snap(a) - gaussian.grid.snap(b)) ** 2 for a, b in zip(x, y, strict=True)]
    assert sum(map(abs, steps)) <= laplace.steps
    assert sum(squares) <= gaussian.steps


@given(
    delta=st.fractions(min_value=Fraction(1, 10**6), max_value=10**6),
    epsilon=st.fractions(min_value=Fraction(1, 10**6), max_value=50),
    dimension=st.integers(1, 1000),
)
def test_the_lattice_keeps_epsilon_exactly_and_costs_little(delta: Fraction, epsilon: Fraction, dimension: int) -> None:
    mechanism = Laplace(epsilon=epsilon, sensitivity=delta, dimension=dimension)
    fine = mechanism.lattice
    assert fine.steps / fine.noise.scale == epsilon  # type: ignore[attr-defined]
    inflation = fine.noise.scale * fine.grid.step / mechanism.noise.scale  # type: ignore[attr-defined]
    assert 1 - Fraction(1, 1 << 19) <= inflation <= 1 + Fraction(1, 1 << 19)


@given(
    delta=st.fractions(min_value=Fraction(1, 10**6), max_value=10**6),
    sigma=st.fractions(min_value=Fraction(1, 10**6), max_value=10**6),
    dimension=st.integers(1, 1000),
)
def test_the_lattice_keeps_mu_and_costs_little(delta: Fraction, sigma: Fraction, dimension: int) -> None:
    mechanism = Gaussian(sigma=sigma, sensitivity=delta, dimension=dimension)
    fine = mechanism.lattice
    assert fine.steps / fine.noise.sigma**2 <= mechanism.mu_squared == (delta / sigma) ** 2  # type: ignore[attr-defined]
    most = 1 << (18 if sigma * 32 < delta * 2**34 else 10)
    assert fine.noise.sigma * fine.grid.step <= sigma * (1 + Fraction(1, most))  # type: ignore[attr-defined]


@pytest.mark.parametrize("mechanism", [Laplace(epsilon="1e-11", dimension=9), Gaussian(sigma="1e11", dimension=9)])
def test_the_lattice_is_not_too_fine_for_64_bits(mechanism: Numeric) -> None:
    fine = mechanism.lattice
    assert fine is not None and fine.noise.draw(9, SystemEntropy()).dtype == np.int64
    assert np.isfinite(mechanism.release(np.zeros(9))).all()


def test_integers_of_a_sensitivity_below_one_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="below 1"):
        Laplace(epsilon=1, sensitivity="0.5").release(3)
    assert isinstance(Laplace(epsilon=1, sensitivity="0.5").release(3.0), float)


def test_a_fractional_sensitivity_covers_integers_by_its_floor() -> None:
    mechanism = Laplace(epsilon=1, sensitivity="2.5")
    assert mechanism.noise.scale == Fraction(5, 2)
    assert DiscreteLaplaceEvent(2, mechanism.noise.scale).pure <= mechanism.epsilon


def test_only_geometric_and_discrete_gaussian_want_integers() -> None:
    with pytest.raises(InvalidParameter, match="integers only"):
        Geometric(epsilon=1).release(1.5)
    with pytest.raises(InvalidParameter, match="step="):
        DiscreteGaussian(sigma=2).release(1.5)


def test_an_array_of_discrete_gaussian_noise_needs_its_dimension() -> None:
    DiscreteGaussian(sigma=2).release(np.arange(5))  # Δ² < 2: only one entry can move
    with pytest.raises(InvalidParameter, match="dimension="):
        DiscreteGaussian(sigma=2, sensitivity=2).release(np.arange(5))
    assert DiscreteGaussian(sigma=2, sensitivity=2, dimension=5).release(np.arange(5)).shape == (5,)


def test_discrete_gaussian_puts_floats_on_the_named_lattice() -> None:
    mechanism = DiscreteGaussian(sigma=2, step="1/1024")
    assert (Fraction(mechanism.release(0.3)) * 1024).denominator == 1
    with pytest.raises(InvalidParameter, match="takes floats"):
        mechanism.release(3)
    for step in (0, -1, "1/3", 3, 0.1):
        with pytest.raises(InvalidParameter):
            DiscreteGaussian(sigma=2, step=step)


def test_empty_arrays_of_integers_come_back_empty() -> None:
    assert Laplace(epsilon=1).release(np.zeros(0, dtype=np.int64)).shape == (0,)


def test_noncontiguous_and_foreign_byte_orders_are_read_right() -> None:
    # ε so large that the noise is 0 with probability 1 − 1e-17 for integers.
    sharp = Laplace(epsilon=40)
    assert sharp.release(np.arange(10)[::-2]).tolist() == [9, 7, 5, 3, 1]
    assert sharp.release(np.arange(3, dtype=">i4")).tolist() == [0, 1, 2]
    assert sharp.release(np.asfortranarray(np.arange(6).reshape(2, 3))).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_the_argument_is_not_changed() -> None:
    value = np.arange(1000)
    Laplace(epsilon=1).release(value, rng=SystemEntropy())
    assert value.tolist() == list(range(1000))


@pytest.mark.parametrize("made", [list, tuple, np.array, pd.Series, pl.Series])
def test_lists_and_columns_are_arrays_of_their_numbers(made: Any) -> None:
    whole = Laplace(epsilon=10_000).release(made([3, 2, 1]))
    assert whole.dtype == np.int64 and whole.tolist() == [3, 2, 1]
    real = Laplace(epsilon=10_000, dimension=3).release(made([0.5, 2.25, 3.0]))
    assert real.dtype == np.float64 and np.allclose(real, [0.5, 2.25, 3], atol=0.01)


def test_an_answer_has_its_interval_and_its_cost() -> None:
    m = Laplace(epsilon=0.5)
    found = m.answer(42, confidence=0.9)
    assert found.interval == (found.value - m.error(0.9), found.value + m.error(0.9)) and found.cost.epsilon() == 0.5
    assert str(NoisyValue(42, (36, 48), Fraction(19, 20), m.loss)) == "42 ± 6 (95 %, ε = 0.5 (pure))"
    several = m.answer([1, 2])
    assert several.interval is not None
    assert list(several.interval[1] - several.interval[0]) == [2 * m.error()] * 2
