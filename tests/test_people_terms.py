"""Budgets of people: ids that arrive one table at a time, caps on one query, times that tell nothing, curves."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import discreet as dp
from discreet.errors import InvalidParameter
from tests.test_people import CAPS, FACTS, frame, session


def test_the_cap_on_one_query_of_each_person_holds_beside_a_budget_for_all() -> None:
    each = dp.Budget(1, per_query="1/10")
    for whole in (None, dp.Budget(5)):
        options: dict[str, Any] = {"unit": CAPS, "columns": FACTS, "ledger": ":memory:", "population": "people"}
        s = dp.connect({"t": frame({1: [("a", 1)]})}, budget=whole, per_person=each, **options)
        with s, pytest.raises(InvalidParameter, match=r"0\.1"):
            s.sql("SELECT COUNT(*) FROM t", epsilon=Fraction(1, 2))


def test_no_entry_tells_how_long_the_data_took() -> None:
    """Whose rows are in an answer shows in the time it takes; entries after the charge have the charge's time."""
    with session({"t": frame({1: [("a", 1)], 2: [("b", 2)]})}) as s:
        s.sql("SELECT g, COUNT(*) AS n FROM t GROUP BY g", epsilon=Fraction(1, 2))
        charge, *later = [e for e in s.history() if e.kind in ("charge", "people", "release")]
        assert [e.kind for e in later] == ["people", "release"]
        assert {e.time for e in later} == {charge.time}


def test_a_curve_is_known_again_where_only_people_have_a_budget(tmp_path: Path) -> None:
    curve = dp.accounting.laplace(scale=10) * 3
    asked: dict[str, Any] = {"filter": "renyi-curve", "curve": curve, "ledger": tmp_path / "people.ledger"}
    for _ in range(2):
        with session({"t": frame({1: [("a", 1)]})}, budget=dp.Budget(1, "1e-6"), **asked) as s:
            s.sql("SELECT COUNT(*) FROM t", epsilon=Fraction(1, 100), fresh=True)
    with pytest.raises(InvalidParameter, match="another curve"):
        session({"t": frame({1: [("a", 1)]})}, budget=dp.Budget(1, "1e-6"), **{**asked, "curve": curve * 2})
