"""Bounds of what is summed: derived, rounded inward, and never so wide that a row could fail."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from discreet.catalog.schema import Range, TableSchema
from discreet.errors import InternalError, InvalidParameter, UnsupportedQuery
from discreet.plan.measures.measure import Total
from discreet.privacy.unit import PrivacyUnit
from tests.plan.claims import check
from tests.plan.tables import COLUMNS, USER, planned, visits


def test_bounds_follow_from_those_of_the_columns() -> None:
    (measure,) = planned("SELECT SUM(2 * day - 3) FROM visits").question.measures
    assert isinstance(measure, Total)
    assert (measure.value.low, measure.value.high, measure.value.step) == (-1, 11, Fraction(1))


def test_a_real_value_is_rounded_to_at_most_2_to_the_minus_31_of_its_bound() -> None:
    (measure,) = planned("SELECT SUM(amount) FROM visits").question.measures
    assert isinstance(measure, Total)
    assert measure.value.step == Fraction(1, 2**22)
    assert measure.value.high * measure.value.step == 200


@pytest.mark.parametrize(
    "aggregate",
    ["AVG((day + 1000) * 10000000000000000)", "SUM(day * 4611686018427387904)", "AVG(amount * 1e308 * 1e10)"],
)
def test_bounds_that_no_64_bits_or_float_hold_are_refused(aggregate: str) -> None:
    """A value clamped to them could not be cast, so that one person's row would decide whether the question fails."""
    with pytest.raises(InvalidParameter, match="too wide"):
        planned(f"SELECT {aggregate} FROM visits")


@pytest.mark.parametrize("unit", [USER, PrivacyUnit.row()], ids=["user", "row"])
def test_the_second_derivation_refuses_a_clamp_beyond_the_type_that_it_is_cast_to(unit: PrivacyUnit) -> None:
    plan = planned("SELECT AVG(day) FROM visits", visits(unit))
    wider = plan.sql.replace(", 1), 7)", ", 10000000000000000000), 10000000000000000007)")
    unclamped = re.sub(r"least\(greatest\((s\.\"day\"), 1\), 7\)", r"\1", plan.sql)
    for broken in (wider, unclamped):
        assert broken != plan.sql
        with pytest.raises(InternalError):
            check(broken, plan)


def test_a_range_without_a_whole_number_is_refused_for_a_whole_column() -> None:
    table = TableSchema("visits", COLUMNS, {"day": Range("0.2", "0.8")}, USER, visits().relation)
    with pytest.raises(InvalidParameter, match="No whole number"):
        planned("SELECT SUM(day) FROM visits", table)


def test_a_number_that_the_parser_misreads_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedQuery, match="is not a number"):
        planned("SELECT COUNT(*) FROM visits WHERE amount < 1e300+1")
