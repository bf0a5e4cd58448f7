"""Guarantees, sensitivities and units: what they take, what they refuse, how they print."""

from __future__ import annotations

import copy
import math
import pickle
from decimal import Decimal
from fractions import Fraction as F
from itertools import product
from typing import Any

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.privacy.guarantee import GDP, PER_QUERY, ZCDP, Approximate, Budget, decimal
from discreet.privacy.unit import PrivacyUnit, Relation, Sensitivity

NOT_NUMBERS: list[Any] = [math.nan, math.inf, True, np.True_, None, "x", "1e999999999", Decimal("NaN"), [1]]


def test_a_budget_keeps_exactly_what_was_written() -> None:
    b = Budget(0.3, "1e-6", per_query=np.float64(0.1))
    assert (b.epsilon, b.delta, b.per_query) == (F(3, 10), F(1, 10**6), F(1, 10))
    assert b.guarantee == Approximate(F(3, 10), F(1, 10**6))
    assert Budget(1).per_query == PER_QUERY
    assert Budget(0).epsilon == 0


@pytest.mark.parametrize("bad", NOT_NUMBERS)
@pytest.mark.parametrize("field", ["epsilon", "delta", "per_query"])
def test_a_budget_refuses_what_is_no_number_and_names_it(field: str, bad: Any) -> None:
    with pytest.raises(InvalidParameter, match=field):
        Budget(**{"epsilon": 1, field: bad})


@pytest.mark.parametrize(("field", "bad"), [("epsilon", -1), ("delta", 1), ("delta", -1e-9), ("per_query", 0)])
def test_a_budget_refuses_what_is_out_of_range(field: str, bad: Any) -> None:
    with pytest.raises(InvalidParameter, match=field):
        Budget(**{"epsilon": 1, field: bad})


def test_a_budget_prints_copies_and_pickles_as_itself() -> None:
    b = Budget(3, 1e-6, per_query=F(1, 3))
    assert repr(b) == "Budget(epsilon=3, delta=1e-06, per_query=0.333333)"
    assert pickle.loads(pickle.dumps(b)) == b == copy.deepcopy(b)
    assert hash(b) == hash(Budget("3", "0.000001", per_query="1/3"))


def test_a_guarantee_out_of_range_is_refused() -> None:
    for bad in (lambda: Approximate(F(-1)), lambda: Approximate(F(1), F(1)), lambda: ZCDP(F(-1)), lambda: GDP(F(-1))):
        with pytest.raises(InvalidParameter):
            bad()


def test_decimal_is_exact_when_short() -> None:
    assert [decimal(x) for x in (F(1, 2), F(3), F(1, 10**6), F(1, 8))] == ["0.5", "3", "1e-06", "0.125"]


def test_the_default_norms_are_the_largest_that_the_caps_allow() -> None:
    for n, m in product(range(3), range(4)):
        vectors = list(product(range(-m, m + 1), repeat=n))
        s = Sensitivity(n, m)
        assert s.l1 == max(sum(map(abs, v)) for v in vectors)
        assert s.l2_squared == max(sum(x * x for x in v) for v in vectors)
        assert s.is_product


def test_a_tighter_norm_is_kept_and_an_impossible_one_refused() -> None:
    s = Sensitivity(4, 10, l1=30, l2_squared=250)
    assert (s.l1, s.l2_squared, s.is_product) == (30, 250, False)
    for name, bad in (("l1", 41), ("l1", 9), ("l2_squared", 401), ("l2_squared", 99)):
        with pytest.raises(InvalidParameter, match=name):
            Sensitivity(4, 10, **{name: bad})


@pytest.mark.parametrize("bad", [-1, 1.0, 1.5, True, None, "3", math.nan, np.True_, F(3)])
def test_a_sensitivity_is_made_of_integers(bad: Any) -> None:
    for kwargs in ({"l0": bad, "linf": 1}, {"l0": 1, "linf": bad}):
        with pytest.raises(InvalidParameter):
            Sensitivity(**kwargs)


def test_a_sensitivity_is_never_wrapped() -> None:
    huge = Sensitivity(np.int64(2**40), np.int64(2**62))  # type: ignore[arg-type]  # what a user may write
    assert huge.l2_squared == 2**164


def test_a_relation_is_parsed_by_its_name_only() -> None:
    assert Relation.parse("replace") is Relation.REPLACE
    assert Relation.parse(Relation.ADD_REMOVE) is Relation.ADD_REMOVE
    for bad in ("REPLACE", "", None, 3, ["replace"]):
        with pytest.raises(InvalidParameter, match="'add-remove' or 'replace'"):
            Relation.parse(bad)  # type: ignore[arg-type]  # what a user may write


def test_a_unit_checks_its_column_and_its_caps() -> None:
    assert PrivacyUnit("id", 3, 10).is_row is False
    assert PrivacyUnit.row() == PrivacyUnit(None, 1, 1)
    assert PrivacyUnit.row().is_row
    for caps in ((1, 36), (2, 1), (None, 2)):
        with pytest.raises(InvalidParameter, match="each row has one row, in one group"):
            PrivacyUnit(None, *caps)
    for column in ("", 3, b"id", True):
        with pytest.raises(InvalidParameter, match="unit"):
            PrivacyUnit(column)  # type: ignore[arg-type]  # what a user may write
    for bad in (0, -1, 1.5, True, "3", math.nan, 2**40):
        with pytest.raises(InvalidParameter, match="max_groups"):
            PrivacyUnit("id", bad)  # type: ignore[arg-type]  # what a user may write
        with pytest.raises(InvalidParameter, match="max_rows"):
            PrivacyUnit("id", 1, bad)  # type: ignore[arg-type]  # what a user may write
