"""Bounds of values chosen privately: what the counts move by, what is charged and kept, and how good the bounds are."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import discreet as dp
from benchmarks.chosen_ranges import Seeded, choose, chosen_in, stages_of
from discreet.backends.connection import open_database
from discreet.errors import InternalError, MissingBounds, UnsupportedQuery
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.auto_bounds.queries import RangesQuery
from discreet.plan.auto_bounds.ranges import FINEST, PLACES, WIDEST, Stakes, Use, choose_range, value_place_sql
from discreet.plan.plan import Plan
from discreet.plan.query import source_of
from discreet.verify.census import derive_values

CAPS = dp.PrivacyUnit("uid", max_groups=3, max_rows=5)
ROW = dp.PrivacyUnit.row()


def connect(frame: pd.DataFrame, **options: Any) -> dp.Session:
    asked: dict[str, Any] = {
        "unit": CAPS,
        "bounds": "values",
        "budget": dp.Budget(epsilon=1000, delta="0.01"),
        "columns": {"region": dp.Values("a", "b", "c")},
        "population": "p",
        "ledger": ":memory:",
    }
    return dp.connect({"t": frame}, **{**asked, **options})


def staged(session: dp.Session, sql: str, **options: Any) -> Plan:
    plan = session.plan(sql, **{"epsilon": 1, **options})
    assert plan.stages is not None
    return plan


def ranges_query_of(plan: Plan) -> RangesQuery:
    look = stages_of(plan).of_values
    assert look is not None
    return look


def counts_of(look: RangesQuery) -> int:
    """In how many counts a unit is, as it is claimed and as they are drawn."""
    assert look.claim.counts == len(look.exprs) * len(look.ends)
    return look.claim.counts


def purchases(people: int = 4000) -> pd.DataFrame:
    """Prices with a long tail, whole numbers of pieces, temperatures far from 0, and debts."""
    rng = np.random.default_rng(20_261_121)
    n = 5 * people
    return pd.DataFrame(
        {
            "uid": rng.integers(0, people, n),
            "region": rng.choice(["a", "b", "c"], n),
            "price": rng.lognormal(3, 1, n),
            "pieces": rng.integers(1, 9, n),
            "kelvin": rng.normal(290, 3, n),
            "debt": -rng.exponential(100, n),
            "word": rng.choice(["1.5", "x", "2", ""], n),
        }
    )


def place_of(x: float | None) -> int | None:
    """The place of a value, from the exponent that Python reads off its bits."""
    if x is None or not math.isfinite(x):
        return None
    if x == 0:
        return 0
    exponent = min(max(math.frexp(x)[1] - 1, FINEST), WIDEST)
    return int(math.copysign(exponent - FINEST + 1, x))


ODD = [
    0.0,
    -0.0,
    5e-324,
    -5e-324,
    2.0**-33,
    2.0**-32,
    -(2.0**-32),
    1.0,
    -1.0,
    3.0,
    7.999,
    -1e18,
    2.0**62,
    1e308,
    -1e308,
]


def test_places_are_powers_of_two_for_every_number() -> None:
    powers = [s * 2.0**k * f for k in range(FINEST, WIDEST + 2) for s in (1, -1) for f in (1, 1.001, 1.999)]
    listed = ", ".join(f"(CAST({x!r} AS DOUBLE))" for x in [*ODD, *powers])
    found = open_database().execute(f"SELECT x, {value_place_sql('x')} FROM (VALUES {listed}) t(x)").fetchall()
    assert {int(p) for _, p in found} == set(PLACES)
    assert all(int(p) == place_of(x) for x, p in found)


@pytest.mark.parametrize("kind", ["BIGINT", "HUGEINT"])
def test_places_of_whole_numbers_are_those_of_reals(kind: str) -> None:
    most = 2**63 if kind == "BIGINT" else 2**127
    whole = [0, 1, -1, 2, 1023, -1024, most - 1, -most]
    listed = ", ".join(f"(CAST('{n}' AS {kind}))" for n in whole)
    found = open_database().execute(f"SELECT {value_place_sql('x')} FROM (VALUES {listed}) t(x)").fetchall()
    assert [int(p) for (p,) in found] == [place_of(float(n)) for n in whole]
    assert open_database().execute(f"SELECT {value_place_sql(f'CAST(NULL AS {kind})')}").fetchall() == [(None,)]


VALUES = (None, math.nan, -math.inf, -0.0, 0.0, -3.0, 5.0, 1e308)


World = list[tuple[int, str, float | None, int]]


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with open_database() as db:
        db.execute("CREATE TABLE t (uid BIGINT, region VARCHAR, v DOUBLE, w BIGINT)")
        yield db


def counted(db: duckdb.DuckDBPyConnection, text: str, world: World, each: int = 2) -> Counter[Any]:
    """(value, its places) → units: what the statement gives, without the units that have no value."""
    found: Counter[Any] = Counter()
    db.execute("DELETE FROM t")
    values = [f"({u}, '{r}', {'NULL' if v is None else repr(str(v))}, {w})" for u, r, v, w in world]
    db.execute(f"INSERT INTO t VALUES {', '.join(values)}")
    for *places, n in db.execute(text).fetchall():
        of = [places[i : i + each] for i in range(0, len(places), each)]
        known = [(i, tuple(map(int, pair))) for i, pair in enumerate(of) if None not in pair]
        assert len(known) <= 1 and sum(p is not None for p in places) == each * len(known)
        found.update(dict.fromkeys(known, int(n)))
    return found


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("relation", "most"), [("add-remove", 1), ("replace", 2)])
@pytest.mark.parametrize("unit", [CAPS, ROW], ids=["units", "rows"])
def test_one_unit_moves_each_count_by_what_is_paid_for(
    database: duckdb.DuckDBPyConnection, relation: str, most: int, unit: dp.PrivacyUnit
) -> None:
    """All sets of up to two values of a unit, among values of others: the move over the places of each column."""
    others: World = [(7, "a", 4.0, 1), (8, "b", None, -2)]
    frame = pd.DataFrame(others, columns=["uid", "region", "v", "w"])
    with connect(frame, unit=unit, relation=relation) as session:
        plan = staged(session, "SELECT SUM(v) AS s, AVG(w) AS m FROM t WHERE region <> 'z'")
    assert counts_of(ranges_query_of(plan)) == (2 if unit is ROW else 4)
    sizes = (0, 1) if unit is ROW else (0, 1, 2)
    worlds = [o for n in sizes for o in itertools.combinations_with_replacement(VALUES, n)]
    each = 1 if unit is ROW else 2
    found = [
        counted(database, plan.statements[0], [*others, *((1, "a", v, 10**6) for v in own)], each) for own in worlds
    ]
    moves = []
    for a, b in itertools.product(found, found if relation == "replace" else found[:1]):
        for value in range(2):
            moves.append(sum(abs(a[k] - b[k]) for k in {*a, *b} if k[0] == value))
    assert max(moves) == most


def test_a_unit_is_placed_by_its_largest_and_its_least_value(database: duckdb.DuckDBPyConnection) -> None:
    world: World = [
        (1, "a", 3.0, 0),
        (1, "a", -70.0, 0),
        (1, "a", math.nan, 0),
        (2, "a", math.inf, 0),
        (2, "a", None, 0),
    ]
    with connect(pd.DataFrame(world, columns=["uid", "region", "v", "w"])) as session:
        found = counted(database, staged(session, "SELECT SUM(v) AS s FROM t").statements[0], world)
    assert found == {(0, (place_of(3.0), place_of(-70.0))): 1}


def test_all_of_it_is_charged_before_the_first_look_and_kept() -> None:
    sql = "SELECT region, SUM(price) AS s FROM t GROUP BY region"
    with connect(purchases()) as session:
        plan = staged(session, sql)
        assert plan.cost.epsilon(delta=0) == 1
        release = session.sql(sql, epsilon=1)
        assert session.remaining.epsilon == 999
        assert release.cost.epsilon(delta=0) == 1
        again = session.sql(sql, epsilon=1)
        assert again.stored and again.rows == release.rows and again.notes == release.notes
        assert again.interval("s") == release.interval("s")
        assert session.remaining.epsilon == 999


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize(("bounds", "unit", "first"), [("values", CAPS, 1), ("auto", "uid", 2), ("auto", ROW, 1)])
def test_each_look_costs_a_tenth(relation: str, bounds: str, unit: Any, first: int) -> None:
    with connect(purchases(50), bounds=bounds, unit=unit, relation=relation) as session:
        plan = staged(session, "SELECT SUM(price) AS s, AVG(kelvin) AS k FROM t")
        assert len(plan.statements) == first
        assert stages_of(plan).last.epsilon == 1 - Fraction(first, 10)
        look, times = ranges_query_of(plan), 2 if relation == "replace" else 1
        assert (counts_of(look) * times / look.noise.scale, 2 * times / look.outside.scale) == (
            Fraction(3, 100),
            Fraction(7, 100),
        )


def test_what_was_chosen_is_said_in_the_release_and_the_derivation() -> None:
    with connect(purchases()) as session:
        release = session.sql("SELECT SUM(price * pieces) AS s, AVG(kelvin) AS k FROM t", epsilon=2)
        ranges = chosen_in(release.plan).ranges
        product, kelvin = ranges.values()
        assert list(ranges) == ["an expression of 'price' and 'pieces'", "'kelvin'"]
        assert kelvin.low <= 256 and kelvin.high >= 512
        assert release.notes[0] == (
            "Bounds of values were chosen privately, for ε = 0.2: "
            f"an expression of 'price' and 'pieces': {product!r}; 'kelvin': {kelvin!r}."
        )
        assert release.notes[0] in str(release)
        text = release.explain()
        assert "First stage (ε = 0.2): counts of units by the sign and the power of two of their largest value" in text
        assert f"from them was chosen {kelvin!r} for 'kelvin'." in text
        plan = session.plan("SELECT SUM(price) AS s FROM t", epsilon=2, bounds="values")
        assert "from which the bounds are chosen of 'price'." in plan.explain()
        assert "Second stage (ε = 1.8)" in plan.explain()


def test_whole_numbers_stay_whole() -> None:
    with connect(purchases()) as session:
        release = session.sql("SELECT SUM(pieces) AS s, SUM(pieces * pieces) AS q FROM t", epsilon=5)
        assert all(type(n) is int for n in release.rows[0])


def expected_error(frame: pd.DataFrame, column: str, bounds: tuple[float, float], epsilon: float, rows: int) -> float:
    """Of SUM, over the true sum: what the bounds and `rows` cut off, and the mean size of Laplace noise."""
    low, high = bounds
    each = frame.uid if rows > 1 else pd.Series(range(len(frame)))
    sums = frame[column].clip(low, high).groupby(each.to_numpy()).sum()
    kept = sums.clip(min(low, 0) * rows, max(high, 0) * rows).sum()
    noise = rows * max(abs(low), abs(high)) / epsilon
    return float((abs(kept - frame[column].sum()) + noise) / abs(frame[column].sum()))


@pytest.mark.laws
@pytest.mark.sampled(6)
@pytest.mark.parametrize("column", ["price", "pieces", "debt"])
@pytest.mark.parametrize(("unit", "rows"), [(CAPS, 5), (ROW, 1)], ids=["units", "rows"])
def test_chosen_bounds_are_nearly_as_good_as_the_best(column: str, unit: dp.PrivacyUnit, rows: int) -> None:
    """The best power of two is found with the data in hand, and spends nothing on being chosen; at ε = 4, since with
    fewer people bounds are wider than they need be.
    """
    frame, sign, epsilon = purchases(), -1 if column == "debt" else 1, 4.0
    best = min(
        expected_error(frame, column, (min(0, sign * 2.0**k), max(0, sign * 2.0**k)), epsilon, rows)
        for k in range(1, 15)
    )
    with connect(frame, unit=unit) as session:
        plan = staged(session, f"SELECT SUM({column}) AS s FROM t", epsilon=epsilon)
        text = {t: session._desk.backend.rows(t, {}) for t in plan.statements}
        rng = Seeded(np.random.default_rng(20_261_121))
        chosen = [choose(plan, text.__getitem__, rng).ranges[0] for _ in range(40)]
    errors = [expected_error(frame, column, (float(r.low), float(r.high)), 0.9 * epsilon, rows) for r in chosen]
    assert float(np.median(errors)) < max(2 * best, best + 0.005)


STAKES = Stakes(frozenset({Use.SUM}), 10.0, 1.0, Fraction(2**60))


def noisy(places: dict[int, int], noise: DiscreteLaplaceNoise, rng: Seeded) -> dict[int, int]:
    counts = noise.add([places.get(p, 0) for p in PLACES], rng)
    return dict(zip(PLACES, counts, strict=True))


@pytest.mark.laws
def test_noise_alone_hardly_ever_chooses_wide_bounds() -> None:
    """Of 100 empty censuses fewer than 6 have any bounds; hardly one goes beyond 2^20 times a true bound."""
    noise, rng = DiscreteLaplaceNoise(Fraction(20)), Seeded(np.random.default_rng(20_261_121))

    def chosen(places: dict[int, int], stakes: Stakes, *, whole: bool) -> list[dp.Range]:
        pairs = [(noisy(places, noise, rng), noisy(places, noise, rng)) for _ in range(100)]
        return [choose_range(high, low, noise, stakes, whole=whole) for high, low in pairs]

    empty = chosen({}, STAKES, whole=True)
    assert sum(r != dp.Range(0, 1, integer=True) for r in empty) < 6
    wide = Stakes(frozenset({Use.SPREAD}), 0.0, 1.0, Fraction(2**60))
    found = chosen({place_of(5.0) or 0: 10**5}, wide, whole=False)
    assert sum(r.high > 2**20 for r in found) < 6
    assert sum(r.low == 4 and r.high == 8 for r in found) > 50


@pytest.mark.parametrize(
    ("use", "value", "low", "high"),
    [
        (Use.SUM, 5.0, 0, 8),
        (Use.CENTRED, 5.0, 4, 8),
        (Use.SPREAD, 5.0, 4, 8),
        (Use.SUM, -5.0, -8, 0),
        (Use.SPREAD, -5.0, -8, -4),
        (Use.SPREAD, 2.0**62, 2**60 - 1, 2**60),
    ],
)
def test_a_million_people_at_one_value_are_all_within(use: Use, value: float, low: int, high: int) -> None:
    counts = {place_of(value) or 0: 10**6}
    stakes = Stakes(frozenset({use}), 10.0, 1.0, Fraction(2**60))
    found = choose_range(counts, counts, DiscreteLaplaceNoise(Fraction(1)), stakes, whole=True)
    if use is not Use.SUM:
        assert found == dp.Range(low, high, integer=True)
    assert max(abs(found.low), abs(found.high)) == max(abs(low), abs(high))


def test_a_few_strange_values_are_cut_off() -> None:
    """300 of a million values are a thousand times as large: to hold them would cost more noise than they are worth."""
    common, strange = place_of(5.0) or 0, place_of(5000.0) or 0
    counts = {common: 10**6, strange: 300}
    noise = DiscreteLaplaceNoise(Fraction(10))
    cheap = choose_range(counts, counts, noise, Stakes(frozenset({Use.SUM}), 10.0, 1.0, Fraction(2**60)), whole=False)
    dear = choose_range(counts, counts, noise, Stakes(frozenset({Use.SUM}), 2000.0, 1.0, Fraction(2**60)), whole=False)
    assert [int(r.high) for r in (cheap, dear)] == [8192, 8]


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT SUM(price) AS s, AVG(price) AS m, STDDEV(price) AS d FROM t", ["'price'"]),
        ("SELECT COVAR_POP(price, pieces) AS c FROM t", 2),
        ("SELECT SUM(price) FILTER (WHERE pieces > 3) AS s FROM t", ["'price'"]),
        ("SELECT MEDIAN(price) AS m, MAX(pieces) AS x FROM t", ["'price'", "'pieces'"]),
        ("SELECT SUM(CAST(word AS DOUBLE)) AS s FROM t", ["'word'"]),
        ("SELECT SUM(1 / (pieces - 4)) AS s FROM t", ["an expression of 'pieces'"]),
        ("SELECT AVG(s) AS m FROM (SELECT uid, SUM(price) AS s FROM t GROUP BY uid) x", ["'s'"]),
        ("SELECT a.region, SUM(b.debt) AS s FROM t a JOIN t b ON a.uid = b.uid GROUP BY a.region", ["'debt'"]),
        ("SELECT SUM(least(price, pieces)) AS s FROM t", ["an expression of 'price' and 'pieces'"]),
    ],
)
@pytest.mark.parametrize("bounds", ["values", "auto"])
def test_every_aggregate_has_its_missing_bounds_chosen(sql: str, names: list[str] | int, bounds: str) -> None:
    with connect(purchases(60), bounds=bounds) as session:
        found = chosen_in(session.sql(sql, epsilon=5).plan)
        assert list(found.ranges) == names or len(found.ranges) == names
        assert (found.caps is None) == (bounds == "values")


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, None])
def test_bad_values_fail_nothing(bad: float | None) -> None:
    sql = "SELECT region, SUM(v) AS s, AVG(v * v) AS m, SUM(n) AS k FROM t GROUP BY region"
    frame = pd.DataFrame(
        {"uid": range(6), "region": "a", "v": [bad, 1, 2, 3, 4, 5], "n": [2**63 - 1, -(2**63), 1, 2, 3, 4]}
    )
    for unit in (CAPS, ROW):
        with connect(frame, unit=unit) as session:
            assert len(session.sql(sql, epsilon=1).rows) == 3


def test_with_all_bounds_declared_the_whole_of_epsilon_is_the_answers() -> None:
    sql = "SELECT region, COUNT(*) AS n FROM t GROUP BY region"
    with connect(purchases(50)) as session, connect(purchases(50), bounds=None) as plain:
        plan = session.plan(sql, epsilon=1, bounds="values")
        assert plan.identity == plain.plan(sql, epsilon=1).identity
        assert plan.query.allocation == plain.plan(sql, epsilon=1).query.allocation
        assert session.sql(sql, epsilon=1).notes == plain.sql(sql, epsilon=1).notes


def test_both_ways_of_choosing_are_questions_of_their_own() -> None:
    sql = "SELECT SUM(price) AS s FROM t"
    with connect(purchases(50)) as session:
        plans = [staged(session, sql, bounds=b, epsilon=e) for b in ("values", "auto") for e in (1, 2)]
        assert len({p.identity for p in plans}) == 4
        assert staged(session, "select  sum(price) as s from t").identity == plans[0].identity


@pytest.mark.parametrize(
    ("sql", "options", "said"),
    [
        ("SELECT SUM_WITHIN(price, 0, 30) AS s FROM t", {}, "SUM_WITHIN needs declared bounds of its values."),
        ("SELECT SUM_WITHIN(price, 0, 30) AS s FROM t", {"unit": ROW}, "cannot be asked with every range"),
        ("SELECT MODE(pieces) AS m FROM t", {}, "MODE is supported for at most 65,536 whole numbers"),
    ],
)
def test_what_cannot_have_its_bounds_chosen_is_refused_before_the_charge(
    sql: str, options: dict[str, Any], said: str
) -> None:
    with connect(purchases(50), **options) as session:
        with pytest.raises(UnsupportedQuery, match=said):
            session.sql(sql, epsilon=1)
        assert session.remaining.epsilon == 1000


def test_ranges_are_chosen_under_declared_caps_only() -> None:
    with pytest.raises(MissingBounds, match="how many groups one 'uid' may enter"):
        connect(purchases(50), unit="uid")
    with connect(purchases(50), bounds=None) as session, pytest.raises(MissingBounds) as refusal:
        session.sql("SELECT SUM(price) AS s FROM t", epsilon=1)
    assert refusal.value.hint is not None
    assert refusal.value.hint.endswith("; or bounds='values', which chooses them privately")


@pytest.mark.exhaustive
@pytest.mark.sampled(10)
@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ("max(v0) AS h0", "sum(v0) AS h0"),
        ("max(v0) AS h0", "max(u) AS h0"),
        ("max(v0) AS h0", "max(v0) OVER () AS h0"),
        ("GROUP BY u\n", "GROUP BY u, v0\n"),
        ("SELECT u, max", "SELECT v0, max"),
        ("((p0, p1))", "((p0, p1), ())"),
        ("((p0, p1))", "((p0, p1), (p0, p1))"),
        ("((p0, p1))", "((p0, p0))"),
        ("((p0, p1))", "((p0), (p1))"),
        ("GROUPING SETS ((p0, p1))", "ROLLUP (p0, p1)"),
        ("count(*) AS VARCHAR", "sum(p0) AS VARCHAR"),
        ('FROM "unit totals"', 'FROM "unit rows"'),
        ('FROM "unit places"', 'FROM "unit totals"'),
        ("abs(CAST(h0 AS DOUBLE))", "abs(CAST(h0 AS BIGINT))"),
        ("abs(CAST(h0 AS DOUBLE))", "abs(length(CAST(h0 AS VARCHAR)))"),
        (' WHERE s."uid" IS NOT NULL', ""),
        ("p0, p1, CAST", "p0, p1, p1 AS p2, CAST"),
    ],
)
def test_counts_of_another_shape_are_refused(change: str, broken: str) -> None:
    with connect(purchases(50)) as session:
        plan = staged(session, "SELECT SUM(price) AS s FROM t")
        (text,), source = plan.statements, source_of(stages_of(plan).last.question)
        assert derive_values(text, source) == 2
        assert change in text
        with pytest.raises(InternalError):
            derive_values(text.replace(change, broken, 1), source)


@pytest.mark.parametrize("use", list(Use))
@pytest.mark.parametrize("whole", [True, False])
def test_values_that_are_all_zero_have_bounds(use: Use, whole: bool) -> None:
    noise = DiscreteLaplaceNoise(Fraction(10))
    counts = {p: 10**4 if p == 0 else 0 for p in PLACES}
    stakes = Stakes(frozenset({use}), 1.0, 1.0, Fraction(2**60))
    found = choose_range(counts, counts, noise, stakes, whole=whole)
    assert found.low <= 0 < found.high


@pytest.fixture
def hardly_ever_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look in a thousand takes an empty place for an inhabited one, and chooses bounds that are far too wide."""
    monkeypatch.setattr("discreet.plan.auto_bounds.ranges._SURE", 1e-12)


def test_a_column_of_zeros_is_answered(hardly_ever_wrong: None) -> None:
    frame = pd.DataFrame({"uid": range(3000), "region": "a", "v": -0.0, "n": 0})
    with connect(frame) as session:
        (row,) = session.sql("SELECT SUM(v) AS s, AVG(n) AS m FROM t", epsilon=10).rows
        assert all(abs(x) < 100 for x in row)


def test_an_answer_is_not_that_of_a_question_with_other_bounds_to_choose(
    tmp_path: Any, hardly_ever_wrong: None
) -> None:
    """Declared as what the least choice is, one column's bounds look like another's that are chosen."""
    frame = pd.DataFrame({"uid": range(3000), "x": 0.5, "y": 700.0})
    declared: list[dict[str, Any]] = [{"x": dp.Range(0, 1)}, {"y": dp.Range(0, 1)}, {}]
    for columns in declared:
        with connect(frame, columns=columns, ledger=tmp_path / "ledger") as session:
            release = session.sql("SELECT SUM(x) AS a, SUM(y) AS b FROM t", epsilon=10)
            assert not release.stored
            assert release.rows[0][0] == pytest.approx(1500, abs=200)


def test_the_least_epsilon_of_an_error_is_planned_where_no_bounds_are_chosen() -> None:
    with connect(pd.DataFrame({"uid": range(9), "x": 0.5}), columns={}) as session:
        assert session.plan("SELECT COUNT(*) AS n FROM t", error={"n": 50}).epsilon > 0
        with pytest.raises(MissingBounds):
            session.plan("SELECT SUM(x) AS s FROM t", error={"s": 50})


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("one", "other", "options"),
    [
        (
            "SELECT region, v, COUNT(*) AS n FROM t GROUP BY region, v",
            "SELECT region, v, COUNT(*) AS n FROM t GROUP BY ROLLUP (region, v)",
            {"epsilon": 1, "delta": "1e-6", "noise": "gaussian"},
        ),
        (
            "SELECT MEDIAN(y) AS m, COUNT(*) AS n FROM t",
            "SELECT MEDIAN(y) AS m, MAX(y) AS x, COUNT(*) AS n FROM t",
            {"epsilon": 1},
        ),
        (
            "SELECT MEDIAN(i) AS m, COUNT(*) AS n FROM t",
            "SELECT MEDIAN(i) AS m, MAX(i) AS x, COUNT(*) AS n FROM t",
            {"epsilon": 1},
        ),
    ],
)
def test_an_answer_is_not_that_of_a_question_that_measures_something_else(
    one: str, other: str, options: dict[str, Any]
) -> None:
    """Totals that are measured, and quantiles that are chosen by rank, do not show in the least choice."""
    frame = pd.DataFrame({"uid": range(600), "region": "a", "v": "b", "y": 500.0, "i": range(600)})
    known = {"region": dp.Values("a", "c"), "v": dp.Values("b", "d", "e"), "y": dp.Range(0, 1000)}
    for first, second in ((one, other), (other, one)):
        with connect(frame, columns=known, unit="uid", bounds="auto") as session:
            assert not session.sql(first, **options).stored
            assert not session.sql(second, **options).stored
            assert session.sql(first, **options).stored


def test_what_is_made_of_a_quantile_is_read_from_the_same_choice() -> None:
    frame = pd.DataFrame({"uid": range(600), "i": range(600)})
    with connect(frame, columns={}, unit="uid", bounds="auto") as session:
        first = session.sql("SELECT MEDIAN(i) AS m, COUNT(*) AS n FROM t", epsilon=1)
        again = session.sql("SELECT MEDIAN(i) + COUNT(*) AS s, COUNT(*) AS n FROM t", epsilon=1)
        assert again.stored and again.rows[0] == (sum(first.rows[0]), first.rows[0][1])
        (low, high), (least, most), (few, many) = (
            again.interval("s")[0],
            first.interval("m")[0],
            first.interval("n")[0],
        )
        assert low <= least + few + 1e-6 and high >= most + many - 1e-6  # of both at once
