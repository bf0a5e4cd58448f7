"""The one place where private integers and noise meet."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from discreet.engine.cells import exact_cells, measure
from discreet.errors import BackendFailed
from discreet.noise.entropy import SystemEntropy
from tests.plan.tables import planned

PRIVATE = "SELECT user_id % 10 AS k, COUNT(*) AS n FROM visits GROUP BY user_id % 10"
GROUPED = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"


def test_declared_groups_that_the_database_did_not_return_are_zero() -> None:
    plan = planned(GROUPED)
    assert exact_cells(plan, lambda _: [(1, "5")]) == {("north",): [0], ("south",): [5], ("east",): [0], ("west",): [0]}


def test_a_group_that_comes_twice_is_refused_not_overwritten() -> None:
    with pytest.raises(BackendFailed, match="twice"):
        exact_cells(planned(GROUPED), lambda _: [(1, "5"), (1, "6")])
    private = planned(PRIVATE, delta="1e-6")
    with pytest.raises(BackendFailed, match="twice"):
        exact_cells(private, lambda _: [(0.0, "1", "1"), (-0.0, "1", "1")])


def test_the_order_of_the_rows_does_not_follow_that_of_the_database() -> None:
    private = planned(PRIVATE, delta="1e-6", epsilon=15)
    rows: list[tuple[Any, ...]] = [(k, "1000", "1000") for k in (9, 3, None, 5)]
    for order in (rows, rows[::-1]):
        assert measure(private, lambda _, o=order: o, SystemEntropy()).keys == ((3,), (5,), (9,), (None,))  # type: ignore[misc]


def test_no_exact_number_stays_in_the_frames_of_a_failure() -> None:
    plan = planned(GROUPED, truncation="0.1")

    def run(text: str) -> list[tuple[Any, ...]]:
        if text in plan.truncation:
            raise BackendFailed("gone")
        return [(1, "271828182845904523")]  # longer than an address

    with pytest.raises(BackendFailed) as caught:
        measure(plan, run, SystemEntropy())
    frames = traceback.walk_tb(caught.value.__traceback__)
    assert not any(
        "271828182845904523" in repr(f.f_locals) for f, _ in frames if f.f_code.co_filename.endswith("run.py")
    )
