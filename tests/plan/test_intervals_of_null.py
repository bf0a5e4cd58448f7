"""Intervals of what may be NULL: they follow the noise through NULLIF, CASE and comparisons."""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction
from itertools import product

import pytest

import discreet as dp
from discreet.catalog.types import Type
from discreet.plan.nodes.node import Applied, Constant, Measured
from tests.plan.tables import planned

LEVEL = Fraction(19, 20)
CELLS = range(-4, 13, 2)  # what each noisy integer may be

SURE = [  # never NULL while the two counts lie there
    "CASE WHEN COUNT(*) > 20 THEN NULL ELSE COUNT(day) END",
    "CASE WHEN COUNT(*) >= -4 THEN COUNT(day) END",
    "CASE WHEN NOT COUNT(*) < -4 AND COUNT(day) <= 12 THEN COUNT(day) * 2 END",
    "CASE WHEN COUNT(*) > 5 THEN COUNT(day) ELSE COUNT(*) - 1 END",
    "CASE WHEN COUNT(*) <> 40 THEN 3 * COUNT(*) END",
    "CASE WHEN 1 < 2 THEN COUNT(*) END",
    "COALESCE(NULLIF(COUNT(*), COUNT(day)), 7)",
    "COALESCE(SQRT(COUNT(*) - 3), SQRT(COUNT(day)), 0)",
    "NULLIF(COUNT(*), 13)",
    "NULLIF(COUNT(*), COUNT(day) + 20)",
    "SQRT(ABS(COUNT(*)))",
    "ROUND(COUNT(*) / 3, 1) + FLOOR(COUNT(day) / 2)",
    "COUNT(day) / NULLIF(COUNT(*) + 5, 0)",
    "CAST(COUNT(*) > COUNT(day) AS INTEGER)",
    "GREATEST(SQRT(COUNT(*) - 3), COUNT(day))",
    "MONTH(DATE '2024-02-01') + COUNT(*)",
    "CASE WHEN MONTH(DATE '2024-02-01') = 2 THEN COUNT(*) END",
]
UNSURE = [  # NULL somewhere there
    "NULLIF(COUNT(*), COUNT(*))",
    "NULLIF(COUNT(*), COUNT(day))",
    "NULLIF(COUNT(*), 12)",
    "NULLIF(7, COUNT(*) + 1)",
    "NULLIF(AVG(amount), AVG(amount))",
    "2 * NULLIF(COUNT(*), 4) + 1",
    "CASE WHEN COUNT(*) > 5 THEN COUNT(day) END",
    "CASE WHEN COUNT(*) > 20 THEN COUNT(day) WHEN COUNT(day) = 6 THEN NULL ELSE 2 END",
    "CASE WHEN COUNT(*) IN (1, 2) THEN 1 END",
    "CASE WHEN SQRT(COUNT(*)) >= 0 THEN COUNT(day) END",
    "SQRT(COUNT(*) - 3)",
    "LN(COUNT(*))",
    "ASIN(COUNT(*) / 12)",
    "ASIN(COUNT(*))",
    "COUNT(day) / COUNT(*)",
    "COUNT(day) / NULLIF(COUNT(*), 0)",
    "ABS(NULLIF(COUNT(*), 0))",
    "GREATEST(LN(COUNT(*)), SQRT(COUNT(day) - 13))",
    "COUNT(*) + MONTH(TRY_CAST('no date' AS DATE))",
]


@pytest.mark.parametrize("expression", [*SURE, *UNSURE])
def test_every_value_in_the_box_is_in_the_interval_and_none_is_null_where_it_is_sure(expression: str) -> None:
    """All integers in a box are tried: each value, which is computed and not bounded, must be as the bounds say."""
    plan = planned(f"SELECT {expression} AS d FROM visits")
    expr = plan.column("d")
    grid = list(product(CELLS, repeat=len(plan.question.measures)))
    terms = {a: [a.compiled()((), cells) for cells in grid] for a in expr.atoms()}
    box = {a: (float(min(values)), float(max(values))) for a, values in terms.items()}
    (low, high), sure = expr.bounded(box, ())
    values = [expr.compiled()((), cells) for cells in grid]
    assert all(low <= v <= high for v in values if v is not None)
    assert not (sure and None in values)
    if expression in SURE:
        assert sure
        assert not math.isinf(low)
        assert not math.isinf(high)
    if expression != "ASIN(COUNT(*) / 12)":
        assert sure == (expression in SURE)


def test_days_beyond_the_calendar_are_null() -> None:
    count = Measured(0, Fraction(1), Type.INT)
    for first, fits in ((dt.date(2024, 1, 1), True), (dt.date(9999, 12, 25), False), (dt.date(1, 1, 3), False)):
        day = Applied("date + days", (Constant(first, Type.DATE), count), Type.DATE)
        month = Applied("month", (day,), Type.INT)
        assert (None not in [month.compiled()((), [n]) for n in CELLS]) == fits
        assert month.bounded({count: (-4.0, 12.0)}, ()) == ((1, 12), fits)


@pytest.mark.parametrize("expression", UNSURE)
def test_an_answer_that_may_be_null_has_no_finite_interval(expression: str) -> None:
    plan = planned(f"SELECT {expression} AS d FROM visits")
    noises = plan.allocation.noises
    cells = [4] * len(noises)
    assert plan.column("d").number_interval(noises, LEVEL)((), cells) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("expression", "like"),
    [
        ("SUM(amount) / NULLIF(COUNT(*), 0)", "SUM(amount) / COUNT(*)"),
        ("CASE WHEN COUNT(*) > 50 THEN AVG(amount) END", "AVG(amount)"),
        ("CASE WHEN COUNT(*) <= 50 THEN AVG(amount) ELSE 3 END", "3"),
        ("CASE WHEN COUNT(*) > 50 OR COUNT(*) < 3 THEN COUNT(*) END", "COUNT(*)"),
    ],
)
def test_far_from_null_the_interval_is_that_of_the_value(expression: str, like: str) -> None:
    plan = planned(f"SELECT {expression} AS d, {like} AS e, COUNT(*) AS n, SUM(amount) AS s FROM visits")
    noises = plan.allocation.noises
    cells = [100_000] * len(noises)
    for level in (LEVEL, Fraction(1, 2)):
        assert plan.column("d").number_interval(noises, level)((), cells) == pytest.approx(
            plan.column("e").number_interval(noises, level)((), cells), rel=1e-3
        )


def test_a_condition_on_keys_is_decided_exactly() -> None:
    sql = "SELECT region, CASE WHEN region = 'north' THEN COUNT(*) END AS n, COUNT(*) AS m FROM visits GROUP BY region"
    plan = planned(sql)
    noises = plan.allocation.noises
    found = plan.column("n").number_interval(noises, LEVEL)
    assert found(("north",), [9]) == plan.column("m").number_interval(noises, LEVEL)(("north",), [9])
    assert found(("south",), [9]) == (-math.inf, math.inf)


def test_an_answer_that_is_null_is_shown_without_a_margin_and_planned_without_a_bound() -> None:
    frame = {"x": list(range(100))}
    pandas = pytest.importorskip("pandas")
    with dp.connect(
        {"t": pandas.DataFrame(frame)}, unit=dp.PrivacyUnit.row(), budget=dp.Budget(1), ledger=":memory:"
    ) as session:
        sql = "SELECT NULLIF(COUNT(*), COUNT(*)) AS d, COUNT(*) AS n FROM t"
        assert session.plan(sql, epsilon=1).error("d", assuming={"n": 100}) == math.inf
        release = session.sql(sql, epsilon=1)
        assert release.rows[0][0] is None
        assert release.interval("d") == [(-math.inf, math.inf)]
        assert "NULL ± ∞*" in str(release)
