"""The engine's exact integers, cell by cell, against the referee's: the same question of the same rows."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.backends.duckdb import DuckDB
from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import exact_cells
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.plan.cases import SECRET, Engine, in_reference_order, plan_of, reference_cells
from tests.reference.expression import Column, Expression, Row
from tests.reference.measures import Count, CountOf, CountUnits, Mean, Measure, Sum
from tests.reference.question import Key, Question, combinations
from tests.reference.values import GREATEST_INT, LEAST_INT, Kind
from tests.strategies.questions import SCHEMA, TABLE, UNIT, Case, queries

ENGINE = Engine.open()
INF, NAN = float("inf"), float("nan")


def assert_same(case: Case, relation: Relation = Relation.ADD_REMOVE) -> None:
    plan = plan_of(case, relation)
    found = in_reference_order(ENGINE.cells(plan, case.rows), case, plan)
    assert found == reference_cells(case, plan, ENGINE.order(plan))


@given(queries(), st.sampled_from(list(Relation)))
@settings(max_examples=60, derandomize=True)
def test_every_cell_is_the_referees(case: Case, relation: Relation) -> None:
    assert_same(case, relation)


@pytest.mark.slow
@given(queries(max_size=14), st.sampled_from(list(Relation)))
@settings(max_examples=5_000)
def test_every_cell_is_the_referees_at_length(case: Case, relation: Relation) -> None:
    assert_same(case, relation)


NASTY: list[Row] = [
    {UNIT: u, "x": x, "y": 0, "v": v, "w": w, "region": region, "level": level, "flag": flag}
    for u, x, v, w, region, level, flag in [
        (1, 5, 1.0, 0.0, "a", 1, True),
        (1, GREATEST_INT, 1e308, -0.0, "a", 1, True),
        (1, LEAST_INT, -1e308, 0.0, "a", 2, None),
        (1, None, NAN, NAN, "é", 1, False),
        (1, 7, INF, INF, "e\u0301", 1, False),
        (1, 7, -INF, -INF, "🎈", None, False),
        (2, 0, 5e-324, -0.0, None, 1, True),
        (2, -1, 2.25, 1e20, "a", 1, True),
        (2, -1, 2.25, 1e20, "a", 1, True),
        (2, -1, -0.0, 1e20, "it's", GREATEST_INT, True),
        (None, 9, 9.0, 9.0, "a", 1, True),
        (None, None, None, None, None, None, None),
        (GREATEST_INT, 3, 0.1, 0.1, "a\nb", LEAST_INT, None),
        (-1, 2, 1.9999999999, 0.0, "", 0, True),
    ]
]
X, V = Column("x", Kind.INT), Column("v", Kind.REAL)
X_BOUNDS, V_BOUNDS = (-3, 8), ("-1.5", "2.25")
MEASURES: tuple[Measure, ...] = (
    Count(),
    CountOf(V),
    Sum(X, Fraction(-3), Fraction(8)),
    Mean(X, Fraction(-3), Fraction(8)),
    Sum(V, Fraction("-1.5"), Fraction("2.25")),
    Mean(V, Fraction("-1.5"), Fraction("2.25")),
)
ASKED = "COUNT(*), COUNT(v), SUM(x), AVG(x), SUM(v), AVG(v)"
COLUMNS = {"x": ("range", *X_BOUNDS), "v": ("range", *V_BOUNDS)}


def asked(keys: dict[str, list[Any] | None], caps: tuple[int, int] | None, *, rows: list[Row], where: str = "") -> Case:
    """The six measures by these keys (None for keys from the data)."""
    by = ", ".join(keys)
    lists = [v for v in keys.values() if v is not None]
    declared: tuple[Key, ...] | None = combinations(*lists) if len(lists) == len(keys) else None
    exprs: tuple[Expression, ...] = tuple(Column(k, SCHEMA[k]) for k in keys)
    unit = Column(UNIT, Kind.INT) if caps else None
    measures = (*MEASURES, CountUnits()) if caps else MEASURES
    groups, most = caps or (1, 1)
    question = Question(measures, exprs, declared if keys else None, None, unit, groups, most)
    text = ASKED + (f", COUNT(DISTINCT {UNIT})" if caps else "")
    sql = f"SELECT {by + ', ' if by else ''}{text} FROM {TABLE}{f' GROUP BY {by}' if by else ''}"
    columns = COLUMNS | {k: ("values", v) for k, v in keys.items() if v is not None}
    return Case(question, sql, tuple(rows), columns)


KEYS: list[dict[str, list[Any] | None]] = [
    {},
    {"region": ["a", "é", "e\u0301", "🎈", "it's", "a\nb", "", None]},
    {"region": ["a", "b"], "flag": [True, None]},
    {"level": [1, GREATEST_INT, LEAST_INT, None]},
    {"region": None},
    {"w": None},
    {"w": None, "level": None},
]


@pytest.mark.parametrize("caps", [None, (1, 1), (2, 1), (1, 3), (1 << 31, 1 << 31)])
@pytest.mark.parametrize("keys", KEYS, ids=lambda k: "+".join(k) or "whole")
def test_nasty_values_are_the_same_to_both(keys: dict[str, list[Any] | None], caps: tuple[int, int] | None) -> None:
    for rows in (NASTY, []) if caps is None else (NASTY,):
        assert_same(asked(keys, caps, rows=rows))


def test_the_referee_would_notice_a_cell_that_is_off_by_one() -> None:
    case = asked({"region": ["a", "b"]}, (1, 2), rows=NASTY)
    plan = plan_of(case)
    broken = replace(plan, sql=plan.sql.replace("least(n, 2)", "least(n, 1)"))
    assert broken.sql != plan.sql
    with pytest.raises(AssertionError):
        found = in_reference_order(ENGINE.cells(broken, case.rows), case, plan)
        assert found == reference_cells(case, plan, ENGINE.order(plan))


def test_a_unit_enters_the_groups_that_its_keyed_hash_puts_first_and_no_more() -> None:
    rows: list[Row] = [{**NASTY[0], UNIT: u, "level": level} for u in range(40) for level in range(1, 7)]
    for declared in ([1, 2, 3, 4, 5, 6], None):
        case = asked({"level": declared}, (2, 1), rows=rows)
        plan = plan_of(case)
        assert_same(case)
        units = in_reference_order(ENGINE.cells(plan, rows), case, plan)
        entered = [cell[8] for cell in units.values()]
        assert sum(entered) == 2 * 40
        assert max(entered) < 40  # the hash trees people over the groups: not all in the same two


def backend(frame: Any, schema: TableSchema) -> DuckDB:
    found = DuckDB({TABLE: frame})
    found.attach(TABLE, found.discover(TABLE))
    return found


def cells_of(plan: Query, source: DuckDB) -> dict[Any, list[int]]:
    return exact_cells(plan, lambda sql: source.rows(sql, {"secret": SECRET} if "$secret" in sql else {}))


def test_the_backend_reads_a_frame_as_the_referee_does() -> None:
    types = {Kind.INT: pa.int64(), Kind.REAL: pa.float64(), Kind.TEXT: pa.string(), Kind.BOOL: pa.bool_()}
    frame = pa.table({n: pa.array([r[n] for r in NASTY], types[k]) for n, k in SCHEMA.items()})
    for keys in KEYS:
        case = asked(keys, (9, 2), rows=NASTY)
        plan = plan_of(case)
        source = backend(frame, plan.question.table)
        found = in_reference_order({k: tuple(c) for k, c in cells_of(plan, source).items()}, case, plan)
        source.close()
        assert found == reference_cells(case, plan, lambda _unit, _key: 0)


CSV = """uid,x,v,region
1,5,1.0,a
1,9223372036854775807,1e308, a
1,seven,NaN,a
1,,inf,b
2,3,-inf,b
2,8,2.25,"b"
,4,1.0,a
 ,4,1.0,a
3,-1,-0.0,"it's"
"""


def test_a_csv_is_read_as_text_and_what_does_not_fit_is_null(tmp_path: Any) -> None:
    path = tmp_path / "t.csv"
    path.write_text(CSV, encoding="utf-8")
    source = DuckDB({TABLE: path})
    pinned = source.discover(TABLE)
    source.attach(TABLE, pinned)
    facts: dict[str, Fact] = {
        "x": Range(*X_BOUNDS, integer=True),
        "v": Range(*V_BOUNDS),
        "region": Values("a", "b", "it's"),
    }
    types = {n: Type(k) for n, k in pinned.columns.items() if k is not None}
    t = TableSchema(TABLE, types, facts, PrivacyUnit("uid", 9, 2), Relation.ADD_REMOVE)
    plan = make_query(f"SELECT region, {ASKED} FROM t GROUP BY region", [t], population="p", version=None, epsilon=1)
    rows: list[Row] = [
        {UNIT: 1, "x": 5, "v": 1.0, "region": "a"},
        {UNIT: 1, "x": GREATEST_INT, "v": 1e308, "region": "a"},
        {UNIT: 1, "x": None, "v": None, "region": "a"},
        {UNIT: 1, "x": None, "v": None, "region": "b"},
        {UNIT: 2, "x": 3, "v": None, "region": "b"},
        {UNIT: 2, "x": 8, "v": 2.25, "region": "b"},
        {UNIT: 3, "x": -1, "v": 0.0, "region": "it's"},
    ]
    case = asked({"region": ["a", "b", "it's"]}, (9, 2), rows=rows)
    case = replace(case, question=replace(case.question, measures=MEASURES))
    found = in_reference_order({k: tuple(c) for k, c in cells_of(plan, source).items()}, case, plan)
    source.close()
    assert found == reference_cells(case, plan, lambda _unit, _key: 0)


def test_dates_that_python_cannot_hold_are_null_and_never_two_groups_under_one_name() -> None:
    """DuckDB has infinite dates and the year 10000; as keys they all came back as the last day of 9999, or as text."""
    days = ["9999-12-31", "infinity", "-infinity", "0001-01-01", "10000-01-01", "0044-03-15 (BC)", "2024-02-29"]
    engine = Engine.open()
    engine.connection.execute("CREATE TABLE t (uid BIGINT, d DATE, s TIMESTAMP)")
    for i, day in enumerate(days):
        engine.connection.execute("INSERT INTO t SELECT ?, ?::DATE, ?::TIMESTAMP FROM range(?)", [i, day, day, i + 1])
    columns = {"uid": Type.INT, "d": Type.DATE, "s": Type.TIMESTAMP}
    for unit in (PrivacyUnit("uid", 1, 100), PrivacyUnit.row()):
        t = TableSchema(TABLE, columns, {}, unit, Relation.ADD_REMOVE)
        for key in ("d", "s", "date_trunc('day', s)", "CAST(CAST(d AS VARCHAR) AS DATE)", "coalesce(d, d)"):
            plan = make_query(
                f"SELECT {key}, COUNT(*) FROM t GROUP BY 1", [t], population="p", version=None, epsilon=1, delta="1e-6"
            )
            found = exact_cells(plan, engine.run)
            assert sum(c[0] for c in found.values()) == sum(range(1, len(days) + 1)), "no group overwrites another"
            named = {k[0].isoformat()[:10]: c[0] for k, c in found.items() if isinstance(k[0], dt.date)}
            assert named == {"9999-12-31": 1, "0001-01-01": 4, "2024-02-29": 7}
            assert found[None,][0] == 2 + 3 + 5 + 6


def test_an_error_on_somebodys_row_never_stops_the_query() -> None:
    """An error would be seen by the analyst, and would say that such a row is there."""
    t = TableSchema(TABLE, {n: Type(k.value) for n, k in SCHEMA.items()}, {}, PrivacyUnit.row(), Relation.ADD_REMOVE)
    text = "region"
    for e in (
        "CAST(v AS BIGINT) // CAST(w AS BIGINT)",
        "x // y", "v % w", "x % y", "v / w", "x + x", "x * x", "-x", "abs(x)", "sqrt(v)", "ln(v)", "log10(v)",
        "exp(v)", "power(v, w)", "round(v, x)", "round(x, 2)", "round(v, 2)", "floor(v)", "CAST(v AS BIGINT)",
        f"CAST({text} AS BIGINT)", f"CAST({text} AS DOUBLE)", f"CAST({text} AS DATE)", f"CAST({text} AS TIMESTAMP)",
        f"CAST({text} AS BOOLEAN)", f"substring({text}, x, y)", f"substring({text}, x)", f"length({text})",
        f"year(CAST({text} AS DATE))", f"date_trunc('week', CAST({text} AS DATE))", f"{text} LIKE {text}",
        f"{text} LIKE '%\\'", f"upper({text})", "greatest(x // y, x)", "CASE WHEN v / w > 1 THEN x // y END",
    ):  # fmt: skip
        plan = make_query(f"SELECT COUNT({e}) FROM t", [t], population="p", version=None, epsilon=1)
        (cell,) = ENGINE.cells(plan, NASTY).values()
        assert 0 <= cell[0] <= len(NASTY), e
    plan = make_query("SELECT COUNT(substring(region, level)) FROM t", [t], population="p", version=None, epsilon=1)
    assert ENGINE.cells(plan, NASTY) == {(): (sum(None not in (r["region"], r["level"]) for r in NASTY),)}


def test_the_cells_do_not_depend_on_where_an_integer_range_is_declared_whole() -> None:
    case = asked({"region": ["a", "b", None]}, (2, 2), rows=NASTY)
    plan = plan_of(case)
    whole = replace(plan.question.table, facts={**plan.question.table.facts, "x": Range(*X_BOUNDS, integer=True)})
    other = make_query(case.sql, [whole], population="p", version=None, epsilon=1)
    assert ENGINE.cells(other, NASTY) == ENGINE.cells(plan, NASTY)
