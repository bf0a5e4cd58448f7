from __future__ import annotations

import copy
import math
import pickle
from decimal import Decimal
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import DiscreetError, InvalidParameter
from discreet.privacy.exact import above, below, coprime, count, exact, lowest, positive, probability


@pytest.mark.parametrize(
    ("given_value", "meant"),
    [
        (0.1, F(1, 10)),
        (1e-6, F(1, 10**6)),
        ("1/3", F(1, 3)),
        (" 0.5 ", F(1, 2)),
        ("1e-9", F(1, 10**9)),
        (Decimal("0.3"), F(3, 10)),
        (F(2, 7), F(2, 7)),
        (3, F(3)),
        (-0.0, F(0)),
        (5e-324, F(5, 10**324)),
        (np.float64(0.1), F(1, 10)),
        (np.int64(7), F(7)),
        (np.uint8(7), F(7)),
        (np.float32(0.5), F(1, 2)),
    ],
)
def test_a_number_means_what_was_written(given_value: Any, meant: F) -> None:
    assert exact("x", given_value) == meant


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_means_its_shortest_decimal(x: float) -> None:
    assert exact("x", x) == exact("x", np.float64(x)) == F(repr(x))


@given(st.integers(-(10**30), 10**30))
def test_an_integer_means_itself(n: int) -> None:
    assert exact("x", n) == n
    assert type(exact("x", n)) is F


BAD: list[Any] = [
    math.nan, math.inf, -math.inf, np.float64("nan"), np.float32("inf"), True, False, np.True_, np.False_,
    None, "", "nan", "inf", "-Infinity", "1e999999999", "1e-999999999", "1e99999999999999999999", "9" * 500,
    "1/0", "0/0", "1e5/3", "0x10", "one", b"1", Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"),
    Decimal("1e-99999999"), 10**5000, -(10**5000), 1j, [1], (1,), {}, np.array([1.0, 2.0]), object(),
]  # fmt: skip


@pytest.mark.parametrize(
    "bad", BAD, ids=lambda v: f"{type(v).__name__} {str(v)[:12] if not isinstance(v, int) else ''}"
)
@pytest.mark.parametrize("door", [exact, positive, probability])
def test_what_is_not_a_finite_number_is_refused_by_name(door: Any, bad: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"^epsilon ") as caught:
        door("epsilon", bad)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, DiscreetError)


@pytest.mark.parametrize("bad", [0, -1, 0.0, "-1e-9", F(-1, 3)])
def test_positive_refuses_zero_and_below(bad: Any) -> None:
    with pytest.raises(InvalidParameter, match="epsilon must be above 0"):
        positive("epsilon", bad)


@pytest.mark.parametrize("bad", [1, 1.0, "1", 2, -0.1, "1.0000000001"])
def test_probability_refuses_one_and_below_zero(bad: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"delta must lie in \[0, 1\)"):
        probability("delta", bad)


def test_probability_keeps_zero_and_the_smallest_numbers() -> None:
    assert probability("delta", 0) == 0
    assert probability("delta", "1e-300") == F(1, 10**300)


@pytest.mark.parametrize("bad", [0, -1, 1.0, "1", True, np.True_, None, math.nan, F(1), Decimal(1), [1]])
def test_count_takes_integers_only(bad: Any) -> None:
    with pytest.raises(InvalidParameter, match="n must be an integer of at least 1"):
        count("n", bad)


def test_count_takes_the_integers_of_numpy() -> None:
    n: Any = np.int32(3)
    assert count("n", n) == 3
    assert type(count("n", n)) is int
    assert count("n", 0, least=0) == 0


@given(st.fractions())
def test_above_and_below_are_the_neighbouring_floats(x: F) -> None:
    up, down = above(x), below(x)
    assert F(down) <= x <= F(up)
    assert up == down or math.nextafter(down, math.inf) == up


def test_above_and_below_survive_what_no_float_holds() -> None:
    assert above(F(10) ** 400) == math.inf
    assert F(below(F(10) ** 400)) <= F(10) ** 400
    assert below(-(F(10) ** 400)) == -math.inf
    assert above(F(1, 10**400)) == 5e-324
    assert below(F(1, 10**400)) == 0.0


@given(st.integers(-(10**40), 10**40), st.integers(1, 10**40))
def test_fractions_that_are_made_faster_are_fractions_like_any_other(whole: int, parts: int) -> None:
    made, plain = lowest(whole, parts), F(whole, parts)
    again = coprime(plain.numerator, plain.denominator)
    for x in (made, again, pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert type(x) is F
        assert (x.numerator, x.denominator, hash(x), repr(x)) == (
            plain.numerator,
            plain.denominator,
            hash(plain),
            repr(plain),
        )
        assert x == plain
        assert x + F(1, 3) == plain + F(1, 3)


def test_a_python_whose_fractions_look_different_gets_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.privacy.exact._KNOWN", False)
    assert lowest(6, 4) == F(3, 2)
    assert exact("x", 0.1) == F(1, 10)
