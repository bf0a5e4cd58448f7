"""Dates and times as values: MIN, MAX, MEDIAN, QUANTILE, MODE, HISTOGRAM of them, and their declared bounds."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import discreet as dp
from discreet.catalog.schema import Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import exact_leaves
from discreet.engine.session import Session
from discreet.errors import DiscreetError, InternalError, InvalidParameter, MissingBounds, UnsupportedQuery
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.coverage import covers
from tests.exhaustive.plan.test_tree_sql import norms
from tests.plan.cases import Engine
from tests.plan.claims import check
from tests.reference.expression import Row
from tests.reference.values import Kind
from tests.reference.worlds import World

FIRST, LAST = dt.date(2024, 1, 1), dt.date(2024, 12, 31)
DAYS = Range(FIRST, LAST)
USER = PrivacyUnit("u", max_groups=2, max_rows=3)


def planned(expression: str, tail: str = "", **facts: Any) -> Query:
    columns = {"u": Type.INT, "g": Type.TEXT, "d": Type.DATE, "t": Type.TIMESTAMP, "s": Type.TEXT}
    known = {"d": DAYS, "t": DAYS, "s": DAYS, "g": Values("a", "b"), **facts}
    table = TableSchema("v", columns, {k: f for k, f in known.items() if f}, USER, Relation.ADD_REMOVE)
    return make_query(f"SELECT {expression} FROM v {tail}", [table], population="p", version=None, epsilon=1)


def asked(expression: str, **facts: Any) -> Any:
    return planned(expression, **facts).question.outer.columns[0][1]


# --- declared bounds


@pytest.mark.parametrize(("form", "low", "high"), [("%Y%m%d", 20240101, 20241231), ("%Y%m", 202401, 202412)])
def test_digits_of_a_day_as_a_number_lie_between_those_of_its_bounds(form: str, low: int, high: int) -> None:
    for text in (f"CAST(strftime(d, '{form}') AS INT)", f"CAST(CAST(strftime(d, '{form}') AS TEXT) AS INT)"):
        (sensitivity,) = planned(f"SUM({text})").sensitivities
        assert sensitivity.linf == 3 * high
        (narrow,) = planned(f"SUM(greatest({low}, least({high}, {text})))").sensitivities
        assert narrow == sensitivity
    with pytest.raises(MissingBounds):
        planned("SUM(CAST(strftime(d, '%d%m%Y') AS INT))")


def test_a_range_of_dates_is_kept_as_microseconds_and_says_what_it_is() -> None:
    assert (DAYS.type, DAYS.integer) == (Type.DATE, False)
    assert DAYS.low == Fraction((FIRST - dt.date(1970, 1, 1)).days * 86_400_000_000)
    assert repr(DAYS) == "Range(date(2024, 1, 1), date(2024, 12, 31))"
    times = Range(dt.datetime(2024, 1, 1, 12, 30), dt.date(2024, 2, 1))
    assert times.type is Type.TIMESTAMP and times.high == Fraction(1_706_745_600_000_000)
    assert repr(times) == "Range(datetime(2024, 1, 1, 12, 30), datetime(2024, 2, 1, 0, 0))"
    assert Range(0, 1) != Range(dt.date(1970, 1, 1), dt.datetime(1970, 1, 1, microsecond=1))
    assert Range(dt.date.min, dt.date.max).type is Type.DATE


def test_the_hull_of_two_ranges_holds_both() -> None:
    later = Range(dt.date(2025, 1, 1), dt.date(2026, 1, 1))
    assert DAYS.hull(later) == Range(FIRST, dt.date(2026, 1, 1))
    assert DAYS.hull(Range(dt.datetime(2023, 1, 1), dt.datetime(2024, 1, 1))) == Range(dt.datetime(2023, 1, 1), LAST)
    assert DAYS.hull(Range(0, 1)) is None
    assert Range(0, 1, integer=True).hull(Range(-1, 0, integer=True)) == Range(-1, 1, integer=True)


BOTH = "a Range goes from one number to another, or from one date or time to another."


@pytest.mark.parametrize(
    ("low", "high", "options", "message"),
    [
        (LAST, FIRST, {}, "a Range needs low ≤ high, not 2024-12-31 and 2024-01-01."),
        (FIRST, 3, {}, BOTH),
        (FIRST, LAST, {"integer": True}, BOTH),
        (dt.datetime(2024, 1, 1, tzinfo=dt.UTC), LAST, {}, "the times of a Range have no time zone."),
    ],
)  # fmt: skip
def test_ends_that_are_no_bounds_are_refused(low: Any, high: Any, options: Any, message: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        Range(low, high, **options)
    assert caught.value.message == message


# --- what is measured


@pytest.mark.parametrize(
    ("text", "kind", "leaves"),
    [
        ("MIN(d)", Type.DATE, 366),
        ("MAX(d)", Type.DATE, 366),
        ("MEDIAN(d)", Type.DATE, 366),
        ("QUANTILE_CONT(d, 0.25)", Type.DATE, 366),
        ("PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY d)", Type.DATE, 366),
        ("MODE(d)", Type.DATE, 366),
        ("MIN(s)", Type.DATE, 366),
        ("MEDIAN(CAST(t AS DATE))", Type.DATE, 366),
        ("MEDIAN(t)", Type.TIMESTAMP, 65_408),
        ("MAX(d) FILTER (WHERE g = 'a')", Type.DATE, 366),
        ("MEDIAN(d + INTERVAL 1 DAY)", Type.TIMESTAMP, 65_408),
        ("MEDIAN(date_trunc('month', d))", Type.TIMESTAMP, 65_408),
        ("MIN(greatest(DATE '2024-01-01', least(DATE '2024-01-31', d)))", Type.DATE, 31),
    ],
)
def test_a_date_is_its_day_and_a_time_its_second(text: str, kind: Type, leaves: int) -> None:
    plan = planned(text)
    assert plan.question.outer.columns[0][1].type is kind
    (tree_read,) = plan.question.trees
    assert tree_read.shape.leaves <= 65_536 and abs(tree_read.shape.leaves - leaves) <= leaves // 100


def test_a_clamp_that_is_written_out_bounds_a_date_that_has_none() -> None:
    text = "MIN(greatest(DATE '2024-01-01', least(DATE '2024-01-31', d)))"
    assert planned(text, d=None).question.trees[0].shape.leaves == 31


def test_listed_dates_are_leaves_as_they_are() -> None:
    days = Values(dt.date(2024, 5, 1), dt.date(2024, 2, 1), None)
    assert asked("MODE(d)", d=days).shape.listed == (dt.date(2024, 2, 1), dt.date(2024, 5, 1))
    assert asked("HISTOGRAM(d)", d=days).of is Type.DATE
    assert planned("MEDIAN(d)", d=days).question.trees[0].shape.leaves == 2


TOO_MANY = (
    "More than 65,536 days or seconds lie between the bounds of a date or time, too many to be counted one by one."
)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("AVG(d)", UnsupportedQuery, "AVG of a date or time is not supported here."),
        ("SUM(t)", UnsupportedQuery, "SUM of a date or time is not supported here."),
        ("CORR(d, d)", UnsupportedQuery, "CORR of a date or time is not supported here."),
        ("MODE(t)", UnsupportedQuery, TOO_MANY),
        ("HISTOGRAM(t)", UnsupportedQuery, TOO_MANY),
        ("HISTOGRAM(d, ['2024-13-01'])", UnsupportedQuery,
         "The constant '2024-13-01' in the query cannot be read as a date."),
        ("HISTOGRAM(d, [3])", UnsupportedQuery,
         "HISTOGRAM with bins needs numbers, or dates and times, and ends of the same kind."),
        ("MAX(DISTINCT d)", UnsupportedQuery, "MAX with DISTINCT is not supported here."),
    ],
)  # fmt: skip
def test_what_has_no_answer_is_refused_with_a_way_round(text: str, error: type[DiscreetError], message: str) -> None:
    with pytest.raises(error) as caught:
        planned(text)
    assert caught.value.message == message and caught.value.hint


def test_the_way_round_of_an_average_of_dates_is_answered() -> None:
    planned("AVG(least(365, greatest(0, date_diff('day', DATE '2026-01-01', d))))")
    planned("AVG(date_diff('day', DATE '2024-01-01', d))")


@pytest.mark.parametrize("text", ["MIN(d)", "MEDIAN(t)", "MODE(d)", "APPROX_TOP_K(d, 2)", "HISTOGRAM(d)"])
def test_bounds_that_are_not_declared_are_asked_for_by_name(text: str) -> None:
    with pytest.raises(MissingBounds) as caught:
        planned(text, d=None, t=None)
    column = "t" if "(t)" in text else "d"
    assert caught.value.message == (
        f"Quantiles, MIN, MAX and MODE of a date or time need the bounds of '{column}', "
        "which must not be read from the data."
    )
    assert caught.value.hint == (
        f"declare what is publicly known: columns={{'{column}': dp.Range(date(2020, 1, 1), date(2026, 1, 1))}}"
    )


# --- what the database counts

ENGINE = Engine.open()
SCHEMA = {"uid": Kind.INT, "s": Kind.TEXT}
TEXTS = ("2024-01-05", "2024-02-29", "2023-06-01", "2025-06-01", "infinity", "no date", "0044-03-15 (BC)", None)


def text_plan(expression: str, unit: PrivacyUnit, relation: Relation, low: dt.date, high: dt.date) -> Query:
    columns = {"uid": Type.INT, "s": Type.TEXT}
    table = TableSchema("t", columns, {"s": Range(low, high)}, unit, relation)
    return make_query(f"SELECT {expression} FROM t", [table], population="p", version=None, epsilon=1)


def weights(plan: Query, rows: list[Row]) -> Counter[int]:
    ENGINE.fill(rows, SCHEMA)
    found: Counter[int] = Counter()
    for tree in exact_leaves(plan, 0, ENGINE.run).values():
        for leaf, a, b in zip(tree.leaves, tree.before, tree.before[1:], strict=False):
            found[leaf] += b - a
    return found


def test_cells_that_are_no_dates_are_not_counted_and_others_are_clamped() -> None:
    plan = text_plan("MEDIAN(s)", PrivacyUnit.row(), Relation.ADD_REMOVE, FIRST, LAST)
    rows: list[Row] = [{"uid": 0, "s": s} for s in TEXTS]
    assert weights(plan, rows) == {4: 1, 59: 1, 0: 1, 365: 1}


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("expression", ["MEDIAN(s)", "HISTOGRAM(s, [DATE '2024-01-02'])", "APPROX_TOP_K(s, 2)"])
def test_no_unit_moves_dates_further_than_planned(expression: str, relation: Relation) -> None:
    unit = PrivacyUnit("uid", max_groups=1, max_rows=2)
    plan = text_plan(expression, unit, relation, FIRST, dt.date(2024, 1, 5))
    rows: tuple[Row, ...] = tuple({"s": s} for s in ("2024-01-01", "2024-01-03", "infinity", "1999-01-01"))
    world = World(rows, units=(1,), max_rows_per_unit=3, unit="uid")
    found = {t: weights(plan, world.rows(t)) for t in world.tables(relation)}
    moves = [
        [other[k] - one[k] for k in {**one, **other}]
        for t, one in found.items()
        for other in (found[n] for n in world.neighbours(t, relation))
    ]
    allowed, _ = plan.trees[0]
    assert norms(moves)[1:] == (allowed.linf, allowed.l1, allowed.l2_squared)


def test_a_date_that_is_not_clamped_is_refused_by_the_second_reader() -> None:
    plan = text_plan("MEDIAN(s)", USER.row(), Relation.ADD_REMOVE, FIRST, LAST)
    ((moves, text),) = plan.trees
    clamp = "CAST(least(greatest("
    assert clamp in text
    with pytest.raises(InternalError):
        check(plan.sql, replace(plan, trees=((moves, text.replace(clamp, "CAST(greatest(greatest(")),)))


# --- end to end

N = 6_000
RNG = np.random.default_rng(11)
OFFSETS = np.minimum(RNG.gamma(2.0, 50.0, N).astype(int), 365)
FRAME = pd.DataFrame(
    {
        "u": np.arange(N) // 3,
        "g": RNG.choice(["a", "b"], N),
        "d": pd.Series(pd.Timestamp(FIRST) + pd.to_timedelta(OFFSETS, "D")),
        "t": pd.Series(pd.Timestamp(FIRST) + pd.to_timedelta(OFFSETS * 86_400 + RNG.integers(0, 86_400, N), "s")),
    }
)
FRAME["d"] = FRAME["d"].dt.date
TABLE = pa.table(
    {
        "u": FRAME.u.to_numpy(),
        "g": pa.array(FRAME.g.tolist()),
        "d": pa.array(FRAME.d.tolist(), pa.date32()),
        "t": pa.array(FRAME.t.tolist(), pa.timestamp("us")),
    }
)
QUESTION = """SELECT g, MIN(d) AS low, MAX(d) AS high, MEDIAN(d) AS m, QUANTILE_DISC(d, 0.9) AS q, MODE(d) AS o,
    MAX(d) - MIN(d) AS w, MEDIAN(t) AS mt, QUANTILE_CONT(d, [0.25, 0.75]) AS l FROM v GROUP BY g ORDER BY g"""


def opened() -> Session:
    return dp.connect(
        {"v": TABLE},
        unit=USER,
        columns={"d": DAYS, "t": DAYS, "g": Values("a", "b")},
        budget=dp.Budget(10**9, "0.1", per_query=10**8),
        ledger=":memory:",
    )


@pytest.mark.exhaustive
def test_with_hardly_any_noise_dates_are_those_of_numpy() -> None:
    with opened() as s:
        r = s.sql(QUESTION, epsilon=10**7)
    for g, low, high, m, q, o, w, mt, quartiles in r.rows:
        x = FRAME[FRAME.g == g]
        days = np.sort(np.array([(d - FIRST).days for d in x.d]))
        assert low == x.d.min() and high == x.d.max() and w == (high - low).days
        assert abs((m - FIRST).days - np.quantile(days, 0.5)) <= 1
        assert abs((q - FIRST).days - np.quantile(days, 0.9)) <= 1
        assert x.d.value_counts()[o] == x.d.value_counts().max()
        assert abs(mt - x.t.quantile(0.5)) < dt.timedelta(hours=6)
        assert quartiles == sorted(quartiles) and all(type(d) is dt.date for d in quartiles)
        assert type(m) is dt.date and type(mt) is dt.datetime


def test_intervals_are_pairs_of_dates_that_hold_the_answer() -> None:
    with opened() as s:
        r = s.sql(QUESTION, epsilon=1)
        for i, name in enumerate(r.columns[1:-1], 1):
            for row, (low, high) in zip(r.rows, r.interval(name), strict=True):
                assert low <= row[i] <= high and type(low) is type(row[i] if name != "w" else 0.0)
        for row, ends in zip(r.rows, r.interval("l"), strict=True):
            assert all(low <= d <= high for d, (low, high) in zip(row[-1], ends, strict=True))
        assert r.interval("g") == [None, None]
        text, arrow = str(r), r.to_arrow()
        assert str(arrow.schema.field("m").type) == "date32[day]"
        assert str(arrow.schema.field("mt").type) == "timestamp[us]"
        low, high = r.interval("m")[0]
        assert f"{r.rows[0][3]} ({low} to {high})" in text


def test_what_is_made_of_dates_has_intervals_too() -> None:
    text = """SELECT year(MAX(d)) AS y, MAX(d) + INTERVAL 1 DAY AS z, date_diff('day', MIN(d), MAX(d)) AS w,
        date_trunc('month', MEDIAN(d)) AS b, CASE WHEN MEDIAN(d) > DATE '2024-03-01' THEN 1 ELSE 0 END AS late FROM v"""
    with opened() as s:
        r = s.sql(text, epsilon=1)
        (row,) = r.rows
        for i, name in enumerate(r.columns):
            ((low, high),) = r.interval(name)
            assert low <= row[i] <= high
        assert r.interval("y") == [(2024.0, 2024.0)]
        assert r.interval("b")[0][0].day == 1


def test_dates_stand_in_having_and_order_the_rows() -> None:
    with opened() as s:
        by = s.sql("SELECT g, MEDIAN(d) AS m FROM v GROUP BY g HAVING m > DATE '2024-01-02' ORDER BY m DESC", epsilon=5)
        days = [row[1] for row in by.rows]
        assert len(days) == 2 and days == sorted(days, reverse=True)
        assert not s.sql("SELECT MEDIAN(d) AS m FROM v HAVING m > DATE '2024-12-31'", epsilon=5).rows


def test_bounds_of_dates_follow_into_subqueries_and_unions() -> None:
    with opened() as s:
        first = "SELECT MEDIAN(first) AS m FROM (SELECT u, MIN(d) AS first FROM v GROUP BY u) p"
        ((m,),) = s.sql(first, epsilon=10**6).rows
        truth = sorted(FRAME.groupby("u").d.min())
        assert abs((m - truth[len(truth) // 2]).days) <= 1
        both = "SELECT MAX(x) AS m FROM (SELECT u, d AS x FROM v UNION ALL SELECT u, d FROM v) p"
        assert s.sql(both, epsilon=10**6).rows == [(FRAME.d.max(),)]


@pytest.mark.slow
def test_intervals_of_dates_hold_the_bounded_quantile_as_often_as_they_say() -> None:
    days = sorted(FRAME.d)
    middle, low, runs = days[(N - 1) // 2], days[0], 300
    hits, narrow = [0, 0], 0
    with opened() as s:
        for _ in range(runs):
            r = s.sql("SELECT MEDIAN(d) AS m, MIN(d) AS low FROM v", epsilon="0.2", fresh=True)
            for i, (name, truth) in enumerate((("m", middle), ("low", low))):
                first, last = r.interval(name)[0]
                hits[i] += first <= truth <= last
            first, last = r.interval("m")[0]
            narrow += 16 * abs((middle - first) - (last - first) / 2) <= last - first
    assert covers(min(hits), runs, 0.95) and not covers(narrow, runs, 0.95)


def test_a_column_that_is_only_made_of_public_dates_has_no_interval() -> None:
    plan = planned("COUNT(*) AS n, DATE '2024-01-01' AS d")
    expr = plan.column("d")
    assert expr.number_interval(plan.allocation.noises, Fraction(1, 2))((), (3,)) is None
