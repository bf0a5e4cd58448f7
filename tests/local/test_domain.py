"""Which values are in a domain, and that what is outside is never refused."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from discreet.errors import InvalidParameter
from discreet.local import Domain
from discreet.noise.entropy import SystemEntropy

RNG = SystemEntropy()


def places(domain: Domain, x: Any) -> list[int]:
    found: list[int] = domain.read(x, RNG)[0].tolist()
    return found


@pytest.mark.parametrize(
    "x",
    [
        [0, 1, 2],
        np.array([0, 1, 2]),
        np.array([0, 1, 2], dtype=np.uint8),
        np.array([0.0, 1.0, 2.0]),
        [0, True, 2.0],
        np.array([0, 1, 2], dtype=object),
        pd.Series([0, 1, 2]),
        pl.Series([0, 1, 2]),
    ],
    ids=lambda x: type(x).__name__,
)
def test_equal_values_have_equal_places(x: Any) -> None:
    assert places(Domain(3), x) == [0, 1, 2] == places(Domain([0, 1, 2]), x)
    assert [places(Domain(3), v) for v in (0, 1.0, np.int8(2), True)] == [[0], [1], [2], [1]]
    exact = [Decimal(2), Fraction(4, 2), np.float32(2), np.array(2), np.bool_(True)]
    assert [places(Domain(3), v) for v in exact] == [[2], [2], [2], [2], [1]]


def test_labels_may_be_any_values_that_can_be_hashed() -> None:
    domain = Domain(["a", ("b", 1), None, 2.5])
    assert places(domain, ["a", ("b", 1), None, 2.5]) == [0, 1, 2, 3]
    assert domain.read(("b", 1), RNG)[1] is False and places(domain, np.str_("a")) == [0]
    assert places(Domain(np.array(["x", "y"])), np.array(["y", "x", "y"])) == [1, 0, 1]


OUTSIDE = [-1, 3, 1.5, math.nan, math.inf, "a", None, 1 << 70, (), {}, np.float32("nan"), object()]
OUTSIDE += [
    Decimal("NaN"),
    Decimal("Infinity"),
    Decimal("0.5"),
    Fraction(1, 2),
    1 + 1j,
    np.complex128(1j),
    "1",
    np.str_("1"),
]


@pytest.mark.parametrize("value", OUTSIDE, ids=lambda v: "object" if type(v) is object else repr(v))
def test_a_value_outside_is_never_refused(value: Any) -> None:
    for domain in (Domain(3), Domain([0, 1, 2])):
        assert all(0 <= places(domain, value)[0] < 3 for _ in range(5))
        assert all(0 <= p < 3 for p in places(domain, [value, 1, value]))
        assert places(Domain(3, other=2), [value]) == [2] == places(Domain(3, other=2), value)
    assert places(Domain(["a", "b"], other="none of them"), [value if value != "a" else "c"]) == [2]


def test_arrays_with_values_outside_are_never_refused() -> None:
    domain = Domain(3, other=0)
    for array in (
        np.array([math.nan, math.inf, -math.inf, 1e300, 2]),
        np.array([-5, 1 << 40, 7, 9, 2]),
        np.array([1 << 63, (1 << 64) - 1, 3, 4, 2], dtype=np.uint64),
        np.array(["a", "b", "c", "d", 2], dtype=object),
    ):
        assert places(domain, array) == [0, 0, 0, 0, 2]
    assert places(domain, np.array(["0", "1"])) == [0, 0]


def test_a_value_outside_stands_for_all_values_alike() -> None:
    drawn = np.bincount(Domain(4).read(np.full(40_000, 9), RNG)[0], minlength=4)
    assert np.abs(drawn - 10_000).max() < 600  # seven standard deviations
    assert np.bincount(Domain(4).read(np.full(1_000, 3), RNG)[0])[3] == 1_000


def test_a_server_asks_for_some_values_in_its_order() -> None:
    labels, found = Domain(["a", "b", "c"]).find(["c", "a"])
    assert labels == ("c", "a") and found.tolist() == [2, 0]
    assert Domain(3).find(None)[0] == (0, 1, 2)
    for bad in ([], ["d"], ["a", "a"], "a"):
        with pytest.raises(InvalidParameter, match="domain="):
            Domain(["a", "b", "c"]).find(bad)


@pytest.mark.parametrize(
    "bad",
    [0, 1, -4, [], ["a"], ["a", "a"], [1, True], [0.0, 0], [math.nan, 1], "abc", b"ab", 2.5, None, True, [[1], [2]]],
    ids=repr,
)
def test_what_is_no_domain_is_refused_in_a_sentence(bad: Any) -> None:
    with pytest.raises(InvalidParameter, match="domain"):
        Domain(bad)


def test_too_large_a_domain_and_an_impossible_other_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="2\\^40"):
        Domain(1 << 41)
    with pytest.raises(InvalidParameter, match="other must be"):
        Domain(3, other=3)


def test_arrays_of_another_shape_are_refused() -> None:
    for bad in (np.zeros((2, 2)), np.ma.masked_array([1, 2], [True, False])):
        with pytest.raises(InvalidParameter, match="x must be"):
            Domain(3).read(bad, RNG)


def test_keys_name_equal_values_alike() -> None:
    domain = Domain(["a", "b"], other="c")
    assert domain.key("a") == "0" and domain.key("zzz") == domain.key("c") == "2"
    assert Domain(3).key(2.0) == "2" and Domain(3).key("?") == "-1" == Domain(3).key([1])


def test_a_domain_shows_itself_and_is_a_value() -> None:
    assert repr(Domain(9)) == "9" and repr(Domain(["a", "b"])) == "['a', 'b']"
    assert repr(Domain([str(i) for i in range(100)])) == "<100 values>"
    assert Domain(3) == Domain(3) and hash(Domain(["a", "b"])) == hash(Domain(["a", "b"])) and len(Domain(3)) == 3
