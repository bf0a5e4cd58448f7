"""Variances, covariances, least squares, conditions and FILTER: against DuckDB's own, the referee and enumeration."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet.catalog.schema import Range
from discreet.engine.cells import measure
from discreet.errors import InvalidParameter, MissingBounds, UnsupportedQuery
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.noise.entropy import SystemEntropy
from discreet.plan.aggregates.read import BY_NAME, BY_NODE
from discreet.plan.planner import make_query
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.query.parse import AGGREGATE_NAMES, is_aggregate
from tests.exhaustive.plan.test_sensitivity import as_tuple, observed, within
from tests.plan.cases import Engine
from tests.plan.people import LEVEL, SCHEMA, engine_of, plan, rows_of, table
from tests.plan.tables import planned
from tests.reference.expression import Column, Row
from tests.reference.measures import CountUnitsWhere
from tests.reference.question import Question, bounded_cells, combinations, true_answers
from tests.reference.sql import question_sql
from tests.reference.values import GREATEST_INT, LEAST_INT, Kind, half_away, toward_zero
from tests.reference.worlds import World

ENGINE = Engine.open()
INF, NAN = float("inf"), float("nan")
NUMBERS = [
    *(f"{f}({x})" for f in ("VAR_POP", "VAR_SAMP", "VARIANCE", "STDDEV_POP", "STDDEV_SAMP", "STDDEV") for x in "xvw"),
    *(f"{f}(v, x)" for f in ("COVAR_POP", "COVAR_SAMP", "CORR")),
    *(f"{f}(w, v)" for f in ("COVAR_POP", "CORR")),
    *(f"REGR_{f}(w, x)" for f in ("SLOPE", "INTERCEPT", "R2", "COUNT", "AVGX", "AVGY", "SXX", "SXY", "SYY")),
    *("REGR_SLOPE(x, v)", "COVAR_SAMP(x, x)", "VAR_SAMP(v * 2 - x)", "CORR(v, v + 1)"),
    *("COUNT_IF(x > 3)", "COUNTIF(flag)", "MEAN(v)", "AVG(flag)", "SUM(flag)"),
    *("VAR_POP(CASE WHEN flag THEN 1 ELSE 0 END)", "AVG(IF(flag, v, w))"),
    *("COUNT(*) FILTER (WHERE flag)", "COUNT(v) FILTER (WHERE x > 2)", "SUM(v) FILTER (WHERE flag)"),
    *("AVG(x) FILTER (WHERE v > 0 AND flag)", "STDDEV(w) FILTER (WHERE flag)", "CORR(w, x) FILTER (WHERE flag)"),
    *("COUNT(DISTINCT uid) FILTER (WHERE x > 9)", "COUNT(DISTINCT uid) FILTER (WHERE w > 170 AND flag)"),
    *("SUM(x) FILTER (WHERE flag) / COUNT(*) FILTER (WHERE flag)", "STDDEV(v) / AVG(w)"),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(10)
@pytest.mark.parametrize("aggregate", NUMBERS)
def test_with_next_to_no_noise_the_answer_is_the_databases_own(aggregate: str) -> None:
    """The caps do not bite here, so that DuckDB's own aggregates over the raw rows are the truth."""
    asked = plan(f"SELECT region, {aggregate} AS a FROM t GROUP BY region", epsilon=10**9)
    found = measure(asked, engine_of(300).run, SystemEntropy())
    value = asked.column("a").compiled()
    spelled = aggregate.replace("COUNTIF", "COUNT_IF").replace("(flag)", "(CAST(flag AS INTEGER))")
    spelled = spelled.replace("COUNT_IF(CAST(flag AS INTEGER))", "COUNT_IF(flag)")
    truth = dict(engine_of(300).run(f"SELECT region, {spelled} FROM t GROUP BY region"))
    for key, cells in zip(found.keys, found.cells, strict=True):
        if key[0] in truth:
            assert value(key, cells) == pytest.approx(truth[key[0]], rel=2e-6, abs=2e-6)


@pytest.mark.parametrize(
    ("aggregate", "truth"),
    [
        ("BOOL_OR(x > 50)", False),
        ("BOOL_OR(x > 9)", True),
        ("BOOL_AND(x > 9)", False),
        ("BOOL_AND(x < 50)", True),
        ("EVERY(x < 50)", True),
        ("LOGICAL_OR(flag)", True),
        ("BOOL_OR(flag) FILTER (WHERE x > 50)", False),
        ("BOOL_AND(x > 9) FILTER (WHERE x > 10)", True),
    ],
)
def test_some_and_every_with_next_to_no_noise(aggregate: str, truth: bool) -> None:
    asked = plan(f"SELECT {aggregate} AS a FROM t", epsilon=10**6)
    (cells,) = measure(asked, engine_of(300).run, SystemEntropy()).cells
    assert asked.column("a").compiled()((), cells) is truth
    assert asked.column("a").number_interval(asked.allocation.noises, LEVEL)((), cells) is None


def test_some_is_wrong_about_nobody_and_about_one_person_as_often_as_it_says() -> None:
    """1/(1 + exp(1/b)), counted in 20 000 draws; a false alarm in 1e-9 of runs."""
    asked = plan("SELECT BOOL_OR(flag) AS a FROM t", PrivacyUnit("uid", max_groups=1, max_rows=9))
    (noise,) = asked.allocation.noises
    assert isinstance(noise, DiscreteLaplaceNoise)
    rate = 1 / (1 + math.exp(1 / noise.scale))
    assert 0.26 < rate < 0.28  # scale 1: a person adds 1, whatever max_rows is
    draws, value = 20_000, asked.column("a").compiled()
    for truth, wrong in ((0, True), (1, False)):
        hits = sum(value((), [c]) is wrong for c in noise.add([truth] * draws, SystemEntropy()))
        assert stats.binomtest(hits, draws, rate).pvalue > 1e-9
        assert stats.binomtest(hits, draws, rate * 1.2).pvalue < 1e-9


SAME = [
    ("COUNT(*) FILTER (WHERE flag)", "COUNT(CASE WHEN flag THEN 1 END)"),
    ("COUNT(1) FILTER (WHERE flag)", "COUNT(CASE WHEN flag THEN 1 END)"),
    ("COUNT(v) FILTER (WHERE x > 1)", "COUNT(CASE WHEN x > 1 THEN v END)"),
    ("SUM(v) FILTER (WHERE x > 1 AND flag)", "SUM(CASE WHEN flag AND x > 1 THEN v END)"),
    ("SUM(1) FILTER (WHERE flag)", "SUM(CASE WHEN flag THEN 1 END)"),
    ("SUM(flag) FILTER (WHERE x > 1)", "SUM(CASE WHEN x > 1 THEN flag END)"),
    ("AVG(x) FILTER (WHERE flag)", "AVG(CASE WHEN flag THEN x ELSE NULL END)"),
    ("AVG(x) FILTER (WHERE flag)", "AVG(IF(flag, x))"),
    ("AVG(x) FILTER (WHERE flag)", "MEAN(x) FILTER (WHERE flag)"),
    ("VAR_POP(v) FILTER (WHERE flag)", "VAR_POP(CASE WHEN flag THEN v END)"),
    ("STDDEV(v) FILTER (WHERE flag)", "STDDEV(CASE WHEN flag THEN v END)"),
    ("CORR(v, x) FILTER (WHERE flag)", "CORR(CASE WHEN flag THEN v END, CASE WHEN flag THEN x END)"),
    ("REGR_COUNT(v, x) FILTER (WHERE flag)", "REGR_COUNT(IF(flag, v, NULL), IF(flag, x, NULL))"),
    ("COUNT_IF(x > 1)", "COUNT(*) FILTER (WHERE x > 1)"),
    ("COUNT_IF(flag) FILTER (WHERE x > 1)", "COUNT_IF(CASE WHEN x > 1 THEN flag END)"),
    ("BOOL_OR(flag) FILTER (WHERE x > 1)", "BOOL_OR(CASE WHEN x > 1 THEN flag END)"),
    ("BOOL_OR(x > 1)", "COUNT(DISTINCT uid) FILTER (WHERE x > 1)"),
    ("COUNT(DISTINCT uid) FILTER (WHERE flag)", "COUNT(DISTINCT CASE WHEN flag THEN uid END)"),
    ("EVERY(flag)", "BOOL_AND(flag)"),
    ("AVG(IIF(flag, x, 0))", "AVG(CASE WHEN flag THEN x ELSE 0 END)"),
    ("VARIANCE(v)", "VAR_POP(v)"),
    ("STDDEV(v)", "AVG(v) + VAR_SAMP(v) + COUNT(v)"),
    ("COVAR_POP(v, v)", "VAR_POP(v)"),
    ("CORR(v, x)", "CORR(x, v)"),
    ("CORR(v, x)", "REGR_SLOPE(v, x) + REGR_INTERCEPT(x, v) + REGR_COUNT(v, x) + REGR_AVGX(v, x) + REGR_SYY(v, x)"),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_spellings_of_one_measurement_are_one_question(one: str, other: str) -> None:
    assert plan(f"SELECT {one} AS a FROM t").identity == plan(f"SELECT {other} AS b FROM t").identity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("COUNT(*) FILTER (WHERE flag)", "COUNT(*)"),
        ("COUNT(*) FILTER (WHERE flag)", "COUNT(flag)"),
        ("COUNT(DISTINCT uid) FILTER (WHERE flag)", "COUNT(DISTINCT uid)"),
        ("COUNT(DISTINCT uid) FILTER (WHERE flag)", "COUNT(*) FILTER (WHERE flag)"),
        ("VAR_POP(v)", "VAR_POP(w)"),
        ("VAR_POP(v)", "VAR_POP(v) FILTER (WHERE flag)"),
        ("CORR(v, x)", "COVAR_POP(v, x)"),
        ("BOOL_OR(flag)", "BOOL_AND(flag)"),
    ],
)
def test_different_measurements_are_different_questions(one: str, other: str) -> None:
    assert plan(f"SELECT {one} AS a FROM t").identity != plan(f"SELECT {other} AS a FROM t").identity


def test_a_variance_costs_one_column_more_than_the_mean_of_the_same() -> None:
    assert len(plan("SELECT AVG(v), COUNT(v) FROM t").sensitivities) == 2
    assert len(plan("SELECT AVG(v), VAR_POP(v), STDDEV(v), COUNT(v) FROM t").sensitivities) == 3
    every = "COVAR_POP(v, x), CORR(v, x), REGR_SLOPE(v, x), REGR_R2(x, v), REGR_INTERCEPT(v, x), REGR_AVGY(v, x)"
    assert len(plan(f"SELECT {every} FROM t").sensitivities) == 6


PUBLIC = {
    "VAR_POP(x)": (0, 56.25),
    "VAR_SAMP(x)": (0, 112.5),
    "STDDEV_POP(w)": (0, 50),
    "STDDEV(v)": (0, math.sqrt(12.5)),
    "COVAR_POP(v, x)": (-18.75, 18.75),
    "COVAR_SAMP(v, x)": (-37.5, 37.5),
    "CORR(v, x)": (-1, 1),
    "REGR_R2(v, x)": (0, 1),
    "REGR_SLOPE(v, x)": (-1024 / 3, 1024 / 3),
    "REGR_INTERCEPT(v, x)": (-2 - 1024 * 4, 3 + 1024 * 4),
    "REGR_AVGX(v, x)": (-3, 12),
    "REGR_AVGY(v, x)": (-2, 3),
    "AVG(v) FILTER (WHERE flag)": (-2, 3),
}


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("aggregate", PUBLIC)
def test_empty_groups_are_finite_numbers_inside_public_bounds_whatever_the_noise(aggregate: str) -> None:
    asked = plan(f"SELECT region, {aggregate} AS a FROM t GROUP BY region", epsilon="0.1")
    value, (low, high) = asked.column("a").compiled(), PUBLIC[aggregate]
    interval = asked.column("a").number_interval(asked.allocation.noises, LEVEL)
    for _ in range(15):
        found = measure(asked, lambda _: [], SystemEntropy())
        assert len(found.keys) == 3
        for key, cells in zip(found.keys, found.cells, strict=True):
            a = value(key, cells)
            assert isinstance(a, float)
            assert low <= a <= high
            ends = interval(key, cells)
            assert ends is not None
            assert ends[0] <= a <= ends[1]
    for hostile in ([0] * 6, [-(10**30)] * 6, [10**30] * 6, [10**30, -(10**30)] * 3, [1] * 6, [2] * 6):
        assert low <= value(("a",), hostile) <= high


@pytest.mark.parametrize("aggregate", ["STDDEV(x)", "CORR(x, v)", "REGR_SLOPE(v, x)", "REGR_INTERCEPT(v, x)"])
def test_a_column_whose_bounds_are_one_point_does_not_vary(aggregate: str) -> None:
    constant = table(x=Range(5, 5, integer=True))
    asked = make_query(f"SELECT {aggregate} AS a FROM t", [constant], population="p", version=None, epsilon=1)
    (cells,) = measure(asked, engine_of(300).run, SystemEntropy()).cells
    a = asked.column("a").compiled()((), cells)
    assert a == 0 if "INTERCEPT" not in aggregate else -2 <= a <= 3


BAD: list[Row] = [
    {"uid": u, "region": "a", "x": x, "v": v, "w": w, "flag": flag}
    for u, x, v, w, flag in [
        (1, 3, 0.5, 130.0, True),
        (1, GREATEST_INT, 1e308, 1e308, True),
        (2, LEAST_INT, -1e308, -1e308, False),
        (2, None, NAN, 150.0, None),
        (3, 7, INF, -INF, True),
        (3, -1, 5e-324, -0.0, None),
        (3, 4, None, NAN, False),
        (4, 4, 2.0, 120.0, True),
        (None, 4, 1.0, 140.0, True),
    ]
]


def tame(value: Any, low: float, high: float) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return min(max(float(value), low), high)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("a", "b"), [("x", "v"), ("v", "w"), ("w", "x")])
def test_a_hostile_row_is_clamped_or_null_in_every_column_alike(a: str, b: str) -> None:
    """Statistics of the tamed pairs by numpy; the last row belongs to nobody."""
    bounds = {"x": (-3, 12), "v": (-2, 3), "w": (100, 200)}
    pairs = [(tame(r[a], *bounds[a]), tame(r[b], *bounds[b])) for r in BAD if r["uid"] is not None]
    known = np.array([p for p in pairs if None not in p], dtype=float)
    alone = np.array([p for p, _ in pairs if p is not None], dtype=float)
    y, x = known.T
    truth = {
        f"VAR_POP({a})": alone.var(),
        f"COVAR_POP({a}, {b})": ((y - y.mean()) * (x - x.mean())).mean(),
        f"CORR({a}, {b})": np.corrcoef(y, x)[0, 1],
        f"REGR_SLOPE({a}, {b})": np.polyfit(x, y, 1)[0],
        f"REGR_COUNT({a}, {b})": len(known),
        f"REGR_AVGX({a}, {b})": x.mean(),
    }
    ENGINE.fill(BAD, SCHEMA)
    for aggregate, expected in truth.items():
        asked = plan(f"SELECT {aggregate} AS a FROM t", epsilon=10**9)
        (cells,) = measure(asked, ENGINE.run, SystemEntropy()).cells
        assert asked.column("a").compiled()((), cells) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_a_unit_beyond_the_cap_enters_squares_and_products_with_its_own_means() -> None:
    """With fractions: max_rows of 2 meets units of up to 5 rows, on the finest grids that hold the bounds."""
    rows = [r for r in rows_of(60) if r["v"] is not None and r["w"] is not None]
    asked = plan("SELECT VAR_POP(v), COVAR_POP(v, w) FROM t", PrivacyUnit("uid", max_groups=1, max_rows=2))
    (cells,) = ENGINE.cells(asked, rows, SCHEMA).values()
    units: dict[Any, list[tuple[Fraction, Fraction]]] = {}
    for r in rows:
        v, w = Fraction(r["v"]), Fraction(r["w"])  # type: ignore[arg-type]  # both are numbers
        units.setdefault(r["uid"], []).append((v - Fraction(1, 2), w - 150))
    sums = {"v": 0, "w": 0, "v²": 0, "vw": 0, "n": 0}
    for pairs in units.values():
        n = len(pairs)
        sums["n"] += min(n, 2)
        for name, exponent, centre, of in (
            ("v", -28, Fraction(0), [d for d, _ in pairs]),
            ("w", -22, Fraction(0), [e for _, e in pairs]),
            ("v²", -27, Fraction(25, 8), [d * d for d, _ in pairs]),
            ("vw", -23, Fraction(0), [d * e for d, e in pairs]),
        ):
            total = sum(half_away(x / Fraction(2) ** exponent) - centre / Fraction(2) ** exponent for x in of)
            sums[name] += toward_zero(Fraction(total) * min(n, 2) / n)
    assert max(map(len, units.values())) > 2
    assert sorted(cells) == sorted([*sums.values(), sums["n"], sums["v"]])  # v and n, alone and of pairs


# A unit moves each column as far as its noise is for, and no further, in every tiny world.
UNIVERSE: tuple[Row, ...] = (
    {"region": "a", "x": 0, "v": -9.0, "w": 150.0, "flag": True},
    {"region": "a", "x": 90, "v": 9.0, "w": 999.0, "flag": None},
    {"region": "b", "x": -90, "v": 9.0, "w": -9.0, "flag": True},
    {"region": "b", "x": None, "v": NAN, "w": 150.0, "flag": False},
)
MOMENTS = "VAR_POP(x), COVAR_POP(v, w), COUNT(DISTINCT uid) FILTER (WHERE flag)"


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("keys", "relation"),
    [
        (None, Relation.ADD_REMOVE),
        ("region", Relation.REPLACE),
        pytest.param("region", Relation.ADD_REMOVE, marks=pytest.mark.slow),
        pytest.param(None, Relation.REPLACE, marks=pytest.mark.slow),
    ],
)
def test_no_unit_moves_squares_products_or_units_further_than_planned_and_some_unit_moves_units_as_far(
    keys: str | None, relation: Relation
) -> None:
    text = f"SELECT {keys + ', ' if keys else ''}{MOMENTS} FROM t{f' GROUP BY {keys}' if keys else ''}"
    caps = PrivacyUnit("uid", max_groups=1, max_rows=2)
    asked = make_query(text, [table(caps, relation)], population="p", version=None, epsilon=1)
    world = World(UNIVERSE, units=(1,), max_rows_per_unit=3, unit="uid")
    found = observed(asked, world, relation, SCHEMA)
    assert all(within(f, s) for f, s in zip(found, asked.sensitivities, strict=True))
    places = [i for i, m in enumerate(asked.question.measures) if m.identity[0] == "known units"]
    assert all(found[i] == as_tuple(asked.sensitivities[i]) for i in places)
    reached = sum(f == as_tuple(s) for f, s in zip(found, asked.sensitivities, strict=True))
    assert reached >= (6 if keys is None else 3)  # of 8; no group here can have every row


def test_enumeration_sees_a_square_that_is_not_clamped() -> None:
    caps = PrivacyUnit("uid", max_groups=1, max_rows=2)
    asked = plan("SELECT VAR_POP(x) FROM t", caps)
    broken = replace(asked, sql=asked.sql.replace("least(greatest", "coalesce(greatest", 1))
    broken = replace(broken, sql=broken.sql.replace(", 2) AS m", ", 3) AS m"))
    assert broken.sql != asked.sql
    world = World(UNIVERSE, units=(1,), max_rows_per_unit=3, unit="uid")
    found = observed(broken, world, Relation.ADD_REMOVE, SCHEMA)
    assert not all(within(f, s) for f, s in zip(found, asked.sensitivities, strict=True))


def test_the_referee_counts_the_same_units() -> None:
    unit, region = Column("uid", Kind.INT), Column("region", Kind.TEXT)
    question = Question(
        (CountUnitsWhere(Column("flag", Kind.BOOL)),),
        (region,),
        combinations(["a", "b", "c"]),
        None,
        unit,
        max_groups=3,
        max_rows=2,
    )
    rows = rows_of(80)
    asked = plan(question_sql(question, "t"), PrivacyUnit("uid", max_groups=3, max_rows=2))
    assert ENGINE.cells(asked, rows, SCHEMA) == bounded_cells(rows, question, lambda _unit, _key: 0)
    truth = true_answers(rows, question)
    counted = dict(ENGINE.run("SELECT region, count(DISTINCT uid) FILTER (WHERE flag) FROM t GROUP BY region"))
    assert {k: n for (k,), (n,) in truth.items() if n} == counted


REFUSED = {
    "VAR_POP(DISTINCT day)": "VAR_POP with DISTINCT is not supported here.",
    "COUNT_IF(DISTINCT flag)": "COUNT_IF needs one condition.",
    "COUNT_IF(day)": "COUNT_IF needs a condition.",
    "BOOL_OR(day)": "BOOL_OR needs a condition.",
    "BOOL_AND(NULL)": "BOOL_AND needs a condition.",
    "STDDEV(seen)": "STDDEV of a date or time is not supported here.",
    "STDDEV(NULL)": "STDDEV needs a number.",
    "CORR(amount, seen)": "CORR of a date or time is not supported here.",
    "VARIANCE(*)": "VARIANCE needs one number.",
    "MEAN(amount, day)": "This form of MEAN is not supported here.",
    "EVERY()": "This form of EVERY is not supported here.",
    "COUNT(NULL) FILTER (WHERE flag)": "COUNT(NULL) is always 0.",
    "SUM(NULL) FILTER (WHERE flag)": "SUM needs a number.",
    "COUNT(*) FILTER (WHERE amount)": "FILTER (WHERE …) needs a condition, not a number.",
    "COUNT(*) FILTER (WHERE COUNT(*) > 1)": "COUNT cannot stand here.",
    "LOWER(region) FILTER (WHERE flag)": "FILTER (WHERE …) stands behind an aggregate.",
    "SUM(amount) FILTER (WHERE flag) OVER ()": "Window functions are not supported over all people's rows.",
    "VAR_POP(amount ORDER BY day)": "VAR_POP does not depend on an order.",
    "KURTOSIS(amount)": "KURTOSIS is not supported here.",
    "SKEWNESS(amount)": "SKEWNESS is not supported here.",
    "BIT_AND(day)": "BIT_AND is not supported here.",
}


@pytest.mark.parametrize("aggregate", REFUSED)
def test_what_is_not_answered_is_refused_by_name(aggregate: str) -> None:
    with pytest.raises(UnsupportedQuery) as caught:
        planned(f"SELECT {aggregate} FROM visits")
    assert caught.value.message == REFUSED[aggregate]
    assert caught.value.hint


def test_both_columns_need_bounds() -> None:
    for aggregate in ("COVAR_POP(amount, user_id)", "CORR(user_id, amount)", "STDDEV(user_id)"):
        with pytest.raises(MissingBounds, match="'user_id'"):
            planned(f"SELECT {aggregate} FROM visits")


def test_bounds_too_narrow_to_divide_by_are_refused() -> None:
    narrow = table(v=Range(0, "1e-200"))
    with pytest.raises(InvalidParameter, match=r"too (narrow|close to 0)"):
        make_query("SELECT CORR(v, x) FROM t", [narrow], population="p", version=None, epsilon=1)


def test_names_that_the_parser_does_not_know_are_aggregates_wherever_they_stand() -> None:
    assert plan("SELECT region, MEAN(x) AS m, EVERY(flag) AS e FROM t GROUP BY ALL").columns == ["region", "m", "e"]
    for text, words in (
        ("SELECT COUNT(*) FROM t WHERE MEAN(x) > 1", "MEAN cannot stand here."),
        ("SELECT COUNT(*) FROM t WHERE COUNT(*) FILTER (WHERE flag) > 1", "COUNT cannot stand here."),
        ("SELECT COUNT(*) FROM t GROUP BY EVERY(flag)", "An aggregate cannot be a group key."),
    ):
        with pytest.raises(UnsupportedQuery) as caught:
            plan(text)
        assert caught.value.message == words


def test_every_name_of_an_aggregate_is_read() -> None:
    assert set(BY_NAME) == AGGREGATE_NAMES
    assert all(is_aggregate(kind()) for kind in BY_NODE)
