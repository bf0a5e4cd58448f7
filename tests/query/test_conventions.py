"""BigQuery's clause and named bounds, Snowflake's functions: they tighten the owner's policy, or are refused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import time
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.catalog.schema import TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import exact_cells
from discreet.engine.session import Session
from discreet.errors import DiscreetError, InvalidParameter, UnknownColumn, UnsupportedQuery
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.query.dialects.prepared import prepare
from tests.exhaustive.plan.test_sensitivity import FACTS, ONE, SCHEMA, SHORT, as_tuple, observed
from tests.plan.tables import planned, visits

FRAME = pd.DataFrame(
    {"user_id": [1, 1, 1, 1, 2, 2, 3], "region": ["a", "a", "a", "b", "a", "b", "b"],
     "amount": [5.0, 6.0, 7.0, 8.0, 1.0, 2.0, -4.0]}
)  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with dp.connect(
        {"visits": FRAME},
        unit=dp.PrivacyUnit("user_id", max_groups=2, max_rows=3),
        columns={"amount": dp.Range(-10, 10), "region": dp.Values("a", "b")},
        budget=dp.Budget(10**6, "1e-2", per_query=10**6),
        ledger=":memory:",
    ) as opened:
        yield opened


CLAUSE = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5, delta = 1e-6, max_groups_contributed = 1, "
    "privacy_unit_column = user_id) region, COUNT(*) AS n FROM visits GROUP BY region"
)
PLAIN = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"


@pytest.mark.parametrize("dialect", ["duckdb", "bigquery"])
def test_the_clause_is_the_question_under_a_tighter_policy(dialect: str) -> None:
    prepared = prepare(CLAUSE, dialect, [visits()])
    assert (prepared.epsilon, prepared.delta) == (Fraction(1, 2), Fraction(1, 10**6))
    asked: dict[str, Any] = {"population": "customers", "version": None, "epsilon": 1}
    tight = visits(PrivacyUnit("user_id", max_groups=1, max_rows=10))
    mine = make_query(prepared.text, prepared.tables, **asked)
    assert mine.identity == planned(PLAIN, tight).identity
    assert mine.sensitivities == planned(PLAIN, tight).sensitivities


def test_the_clause_pays_and_is_answered(session: Session) -> None:
    first = session.sql(CLAUSE, dialect="bigquery")
    assert (first.charged.epsilon, first.query.delta) == (Fraction(1, 2), Fraction(1, 10**6))
    assert session.sql(CLAUSE, epsilon="1/2", delta=1e-6).stored
    assert session.plan(CLAUSE).epsilon == Fraction(1, 2)
    assert session.plan("SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) AS n FROM visits", epsilon=1).epsilon == 1
    assert session.plan(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(PRIVACY_UNIT_COLUMN=v.USER_ID, max_groups_contributed=2) "
        "COUNT(*) AS n FROM visits v", error={"n": 5},
    ).error("n") <= 5  # fmt: skip


# (with a convention, without)
ALIKE = [
    (("SELECT WITH ANONYMIZATION OPTIONS(epsilon=0.5, delta=1e-6, kappa=1, privacy_unit_column=user_id) region, "
     "ANON_COUNT(*) AS n FROM visits GROUP BY region"), CLAUSE),
    ("SELECT ANON_SUM(amount CLAMPED BETWEEN 0 AND 5) AS s, ANON_COUNT(* CLAMPED BETWEEN 0 AND 2) AS n FROM visits",
     ("SELECT SUM(amount, contribution_bounds_per_group => (0, 5)) AS s, "
     "COUNT(*, contribution_bounds_per_group => (0, 2)) AS n FROM visits")),
    ("SELECT ANON_AVG(amount CLAMPED BETWEEN -1 AND 5) AS a FROM visits",
     "SELECT AVG(CASE WHEN amount IS NOT NULL THEN greatest(-1, least(5, amount)) END) AS a FROM visits"),
    ("SELECT AVG(floor(amount), contribution_bounds_per_group => (0, 5)) AS a FROM visits",
     "SELECT AVG(DP_CLAMP(floor(amount), 0, 5)) AS a FROM visits"),
    ("SELECT ANON_PERCENTILE_CONT(amount, 0.5 CLAMPED BETWEEN 0 AND 5) AS q FROM visits",
     "SELECT PERCENTILE_CONT(amount, 0.5, contribution_bounds_per_row => (0, 5)) AS q FROM visits"),
    ("SELECT ANON_QUANTILES(amount, 4 CLAMPED BETWEEN 0 AND 5) AS q FROM visits",
     "SELECT APPROX_QUANTILES(DP_CLAMP(amount, 0, 5), 4) AS q FROM visits"),
    ("SELECT ANON_STDDEV_POP(amount CLAMPED BETWEEN 0 AND 5) AS s FROM visits",
     "SELECT STDDEV_POP(amount, contribution_bounds_per_row => (0, 5)) AS s FROM visits"),
    ("SELECT SUM(amount, contribution_bounds_per_group => (2, 9)) AS s FROM visits",
     "SELECT SUM(amount, contribution_bounds_per_group => (0, 9)) AS s FROM visits"),
    ("SELECT SUM(SAFE_MULTIPLY(SAFE_ADD(amount, 1), SAFE_NEGATE(SAFE_SUBTRACT(2, 1)))) AS s FROM visits",
     "SELECT SUM((amount + 1) * (-(2 - 1))) AS s FROM visits"),
]  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("sql", "plain"), ALIKE, ids=[sql for sql, _ in ALIKE])
def test_an_older_or_another_spelling_is_the_same_question(session: Session, sql: str, plain: str) -> None:
    epsilon = None if "OPTIONS" in plain else 1
    asked = session.plan(sql, dialect="bigquery", epsilon=epsilon)
    assert asked.query.identity == session.plan(plain, epsilon=epsilon).query.identity


def test_rows_of_a_person_can_be_capped_below_the_owners_cap(session: Session) -> None:
    tight = session.plan(clause("epsilon=1, max_rows_contributed=2"))
    assert [s.l1 for s in tight.query.sensitivities] == [2]
    assert [s.l1 for s in session.plan(clause("epsilon=1")).query.sensitivities] == [3]


def test_a_clamp_leaves_null_alone(session: Session) -> None:
    exact = session.plan("SELECT COUNT(DP_CLAMP(nullif(amount, 5), 0, 1)) AS n FROM visits", epsilon=1)
    assert "IS NULL" in exact.sql or "IS NOT NULL" in exact.sql


def test_known_groups_are_asked_for_with_a_join(session: Session) -> None:
    sql = CLAUSE.replace("privacy_unit_column = user_id", "group_selection_strategy = PUBLIC_GROUPS")
    assert session.plan(sql).query.question.keys.count == 2


def clause(options: str) -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) COUNT(*) AS n FROM visits"


@pytest.mark.parametrize(
    ("sql", "asked", "kind", "words"),
    [
        (clause("max_groups_contributed=3"), {"epsilon": 1}, InvalidParameter,
         "max_groups_contributed must be a whole number from 1 to the owner's 2, not 3."),
        (clause("max_groups_contributed=0"), {"epsilon": 1}, InvalidParameter,
         "max_groups_contributed must be a whole number from 1 to the owner's 2, not 0."),
        (clause("max_groups_contributed=NULL"), {"epsilon": 1}, InvalidParameter,
         "max_groups_contributed must be a whole number from 1 to the owner's 2, not NULL."),
        (clause("privacy_unit_column=region"), {"epsilon": 1}, InvalidParameter,
         "privacy_unit_column says 'region', and the owner protects 'user_id'."),
        (clause("epsilon=1"), {"epsilon": 2}, InvalidParameter,
         "the query's OPTIONS say epsilon = 1, and the call says 2."),
        (clause("epsilon=1, delta=0.001"), {"delta": 0.01}, InvalidParameter,
         "the query's OPTIONS say delta = 0.001, and the call says 0.01."),
        (clause("epsilon=1, epsilon=2"), {}, UnsupportedQuery, "OPTIONS say epsilon twice."),
        (clause("epsilon=1, k_threshold=5"), {}, UnsupportedQuery,
         "How many people a shown group has at least (k_threshold) is not an option of a query."),
        (clause("epsilon=1, max_rows_contributed=4"), {}, InvalidParameter,
         "max_rows_contributed must be a whole number from 1 to the owner's 3, not 4."),
        (clause("epsilon=1, kappa=1, max_groups_contributed=1"), {}, UnsupportedQuery,
         "OPTIONS say max_groups_contributed twice."),
        (clause("epsilon=1, group_selection_strategy=SAMPLE_AND_THRESHOLD"), {}, UnsupportedQuery,
         "OPTIONS have no group_selection_strategy 'SAMPLE_AND_THRESHOLD' here."),
        (("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=0.001, group_selection_strategy=PUBLIC_GROUPS) "
         "amount AS k, COUNT(*) AS n FROM visits GROUP BY k"), {}, UnsupportedQuery,
         "OPTIONS say that groups are public, and the groups of this query are not known."),
        (clause("epsilon"), {}, UnsupportedQuery, "OPTIONS are written name = value."),
        (clause("epsilon=1,"), {}, UnsupportedQuery, "OPTIONS are written name = value."),
        (clause("epsilon=-1"), {}, InvalidParameter, "epsilon must be above 0, not -1."),
        (clause("epsilon=x"), {}, InvalidParameter, "epsilon must be a number, not 'x'."),
        (clause("epsilon=1000001"), {}, InvalidParameter,
         "one query may ask ε = 1000000 at most, and this one asks ε = 1.00001e+06."),
        ("SELECT COUNT(*) FROM (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) * FROM visits) t", {"epsilon": 1},
         UnsupportedQuery, "WITH DIFFERENTIAL_PRIVACY stands behind the outermost SELECT, once."),
        ("SELECT COUNT(amount, contribution_bounds_per_row => (0, 5)) FROM visits", {"epsilon": 1}, UnsupportedQuery,
         "contribution_bounds_per_row is not supported for COUNT(AMOUNT …)."),
        ("SELECT ANON_SUM(amount CLAMPED BETWEEN 1) FROM visits", {"epsilon": 1}, UnsupportedQuery,
         "CLAMPED BETWEEN has two numbers, with AND between them."),
        ("SELECT COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 5)) FROM visits", {"epsilon": 1},
         UnsupportedQuery, "contribution_bounds_per_group stands beside DISTINCT."),
        ("SELECT SUM(amount, contribution_bounds_per_group => 5) FROM visits", {"epsilon": 1}, UnsupportedQuery,
         "contribution_bounds_per_group is the last argument of an aggregate, and has two numbers."),
        ("SELECT SUM(amount, contribution_bounds_per_group => (5)) FROM visits", {"epsilon": 1}, UnsupportedQuery,
         "contribution_bounds_per_group is the last argument of an aggregate, and has two numbers."),
        ("SELECT SUM(amount, contribution_bounds_per_group => (0, 31)) FROM visits", {"epsilon": 1}, InvalidParameter,
         "the query's bounds on what a unit adds to a group reach beyond the owner's."),
        ("SELECT COUNT(*, contribution_bounds_per_group => (0, 4)) FROM visits", {"epsilon": 1}, InvalidParameter,
         "the query's bounds on what a unit adds to a group reach beyond the owner's."),
        ("SELECT SUM(amount, contribution_bounds_per_group => (0, 0)) FROM visits", {"epsilon": 1}, InvalidParameter,
         "the bounds on what a unit adds to a group must hold 0, and differ: a unit may have nothing there."),
        ("SELECT SUM(amount, contribution_bounds_per_group => (0, user_id)) FROM visits", {"epsilon": 1},
         InvalidParameter, "the bounds on what a unit adds to a group must be two written numbers."),
        ("SELECT DP_INTERVAL_LOW(COUNT(*)) FROM visits", {"epsilon": 1}, UnsupportedQuery,
         "DP_INTERVAL_LOW and DP_INTERVAL_HIGH stand alone as output columns, and take the name of another one."),
        ("SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) + 1 FROM visits", {"epsilon": 1}, UnsupportedQuery,
         "DP_INTERVAL_LOW and DP_INTERVAL_HIGH stand alone as output columns, and take the name of another one."),
        ("SELECT SUM(DP_INTERVAL_LOW(amount)) FROM visits", {"epsilon": 1}, UnsupportedQuery,
         "DP_INTERVAL_LOW and DP_INTERVAL_HIGH stand alone as output columns, and take the name of another one."),
        ("SELECT COUNT(*) AS n FROM visits WHERE DP_INTERVAL_LOW(n) > 1", {"epsilon": 1}, UnsupportedQuery,
         "DP_INTERVAL_LOW and DP_INTERVAL_HIGH stand alone as output columns, and take the name of another one."),
        ("SELECT COUNT(*) AS n FROM visits HAVING DP_INTERVAL_LOW(n) > 1", {"epsilon": 1}, UnsupportedQuery,
         "DP_INTERVAL_LOW and DP_INTERVAL_HIGH stand alone as output columns, and take the name of another one."),
        ("SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS l FROM visits ORDER BY 2", {"epsilon": 1}, UnsupportedQuery,
         "DP_INTERVAL_LOW and DP_INTERVAL_HIGH stand alone as output columns, and take the name of another one."),
        ("SELECT COUNT(*) AS n, DP_INTERVAL_LOW(m) AS l FROM visits", {"epsilon": 1}, UnknownColumn,
         "There is no output column 'm' whose interval could be given."),
        ("SELECT region, COUNT(*) AS n, DP_INTERVAL_LOW(region) AS l FROM visits GROUP BY region", {"epsilon": 1},
         UnsupportedQuery,
         "DP_INTERVAL_LOW and DP_INTERVAL_HIGH stand alone as output columns, and take the name of another one."),
    ],
    ids=str,
)  # fmt: skip
def test_what_would_weaken_the_policy_or_has_no_meaning_is_refused(
    session: Session, sql: str, asked: dict[str, Any], kind: type[DiscreetError], words: str
) -> None:
    before = len(session.history())
    with pytest.raises(kind) as caught:
        session.sql(sql, **asked)
    assert caught.value.message == words
    assert len(session.history()) == before


def test_other_named_arguments_are_never_dropped(session: Session) -> None:
    for dialect in ("duckdb", "bigquery", "snowflake"):
        with pytest.raises(DiscreetError):
            session.plan("SELECT SUM(amount, bounds => (0, 1)) AS s FROM visits", epsilon=1, dialect=dialect)
        with pytest.raises(DiscreetError):
            session.plan(
                "SELECT SUM(amount, contribution_bounds_per_row => (0, 1), contribution_bounds_per_group => (0, 1)) "
                "AS s FROM visits", epsilon=1, dialect=dialect,
            )  # fmt: skip


def test_the_words_of_the_conventions_inside_texts_are_texts(session: Session) -> None:
    sql = "SELECT COUNT(*) AS n FROM visits WHERE region = 'WITH DIFFERENTIAL_PRIVACY contribution_bounds_per_group =>'"
    assert prepare(sql, "duckdb", []).text == sql


def cells(session: Session, sql: str) -> list[list[Any]]:
    """The exact bounded sums of the database, without noise, in the column's own units."""
    plan: Query = session.plan(sql, epsilon=1).query
    parameters = {"secret": 1} if plan.needs_secret else {}
    found = exact_cells(plan, lambda text: session._desk.backend.rows(text, parameters))
    return [[c * float(m.step) for c, m in zip(row, plan.question.measures, strict=True)] for row in found.values()]


def test_a_units_part_of_each_group_is_clamped_to_the_bounds(session: Session) -> None:
    # user 1 has 5 + 6 + 7 = 18 in a and 8 in b, user 2 has 1 and 2, user 3 has −4 in b
    sums = "SELECT region, SUM(amount, contribution_bounds_per_group => (-2, 10.5)) AS s FROM visits GROUP BY region"
    assert cells(session, sums) == [[pytest.approx(10.5 + 1)], [pytest.approx(8 + 2 - 2)]]
    rows = "SELECT region, COUNT(*, contribution_bounds_per_group => (0, 2)) AS n FROM visits GROUP BY region"
    assert cells(session, rows) == [[2 + 1], [1 + 1 + 1]]
    known = "SELECT COUNT(amount, contribution_bounds_per_group => (0, 1)) AS n FROM visits"
    assert cells(session, known) == [[3]]


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("keys", [None, "region"])
def test_one_unit_moves_what_is_within_bounds_as_far_as_planned_and_no_further(
    keys: str | None, relation: Relation
) -> None:
    """Over every pair of neighbours of a tiny world, by running the SQL on both."""
    asked = "SUM_WITHIN(v, -3, 4), SUM_WITHIN(x, -3, 5), COUNT_WITHIN(*, 0, 1), COUNT_WITHIN(x, -1, 1)"
    facts: dict[str, Any] = {**FACTS, "region": Values("a", "b", "c")}
    t = TableSchema("t", {n: Type(k.value) for n, k in SCHEMA.items()}, facts, ONE, relation)
    by = f" GROUP BY {keys}" if keys else ""
    plan = make_query(f"SELECT {asked} FROM t{by}", [t], population="p", version=None, epsilon=1, delta="1e-6")
    for found, planned_for in zip(observed(plan, SHORT, relation), plan.sensitivities, strict=True):
        assert found == as_tuple(planned_for)


def test_tighter_bounds_have_less_noise(session: Session) -> None:
    wide = session.plan("SELECT SUM(amount) AS s FROM visits", epsilon=1)
    tight = session.plan("SELECT SUM(amount, contribution_bounds_per_group => (-3, 2)) AS s FROM visits", epsilon=1)
    assert wide.error("s") == pytest.approx(10 * tight.error("s"), rel=1e-6)  # 30 against 3
    assert tight.identity != wide.identity


def test_where_each_row_is_a_unit_its_value_is_clamped() -> None:
    with dp.connect({"visits": FRAME}, unit=dp.PrivacyUnit.row(), columns={"amount": dp.Range(-10, 10)},
                    budget=dp.Budget(1), ledger=":memory:") as session:  # fmt: skip
        sql = "SELECT SUM(amount, contribution_bounds_per_group => (-2, 6)) AS s FROM visits"
        assert cells(session, sql) == [[pytest.approx(5 + 6 + 6 + 6 + 1 + 2 - 2)]]
        assert session.plan(sql, epsilon=1).error("s") < session.plan(
            "SELECT SUM(amount) AS s FROM visits", epsilon=1
        ).error("s")
        with pytest.raises(InvalidParameter, match="reach beyond the owner's"):
            session.plan("SELECT SUM(amount, contribution_bounds_per_group => (0, 11)) AS s FROM visits", epsilon=1)


@pytest.mark.parametrize("dialect", ["duckdb", "snowflake"])
def test_the_ends_of_an_interval_are_columns(session: Session, dialect: str) -> None:
    sql = (
        "SELECT region, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high, AVG(amount) AS a, "
        "DP_INTERVAL_HIGH(a) AS most FROM visits GROUP BY region ORDER BY n"
    )
    release = session.sql(sql, epsilon=1, dialect=dialect)
    assert release.columns == ["region", "n", "low", "high", "a", "most"]
    for row, n, a in zip(release.rows, release.interval("n"), release.interval("a"), strict=True):
        assert n is not None
        assert a is not None
        assert (row[2], row[3], row[5]) == (*n, a[1])
    assert release.interval("low") == [None, None]
    plain = "SELECT region, COUNT(*) AS n, AVG(amount) AS a FROM visits GROUP BY region"
    assert session.plan(plain, epsilon=1).identity == release.plan.identity
    assert "low" in str(release)
    with pytest.raises(InvalidParameter, match="'low' is an end of an interval, and has no error of its own"):
        release.plan.error("low")


def test_a_cap_on_groups_tightens_a_declared_one() -> None:
    undeclared = visits(PrivacyUnit("user_id"))
    with pytest.raises(InvalidParameter, match="max_groups_contributed tightens a declared cap"):
        prepare(clause("max_groups_contributed=1"), "duckdb", [undeclared])


def test_the_clause_has_no_place_in_a_batch(session: Session) -> None:
    with pytest.raises(UnsupportedQuery, match="in query 'a': WITH DIFFERENTIAL_PRIVACY stands in a query of its own"):
        session.batch({"a": CLAUSE, "b": PLAIN}, epsilon=1)
    bounds = "SELECT SUM(amount, contribution_bounds_per_group => (-3, 2)) AS s FROM visits"
    ends = "SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low FROM visits"
    releases = session.batch({"a": bounds, "b": ends}, epsilon=1)
    assert releases["b"].rows[0][1] < releases["b"].rows[0][0]
    assert releases["a"].query.question.measures


def test_a_time_of_day_in_text_is_cut_as_a_clock_is() -> None:
    hours = [(h, m) for h in range(24) for m in (0, 9, 59)]
    shown: list[tuple[str, str | None, str | None]]
    shown = [(time(h, m).strftime("%I:%M%p"), f"{h:02}:{m:02}:00", f"{h:02}:00:00") for h, m in hours]
    shown += [(text.lstrip("0").lower(), minute, hour) for text, minute, hour in shown]
    shown += [(text, None, None) for text in ("", "13:00PM", "9:60AM", "9:05", "0:10AM", "x9:05AM")]
    db = open_database()
    db.execute("CREATE TABLE visits (region VARCHAR)")
    db.executemany("INSERT INTO visits VALUES (?)", [(text,) for text, *_ in shown])
    for unit, place in (("MINUTE", 1), ("HOUR", 2)):
        sql = f"SELECT region, TIME_TRUNC(PARSE_TIME('%I:%M%p', region), {unit}) AS t FROM visits"
        read = prepare(sql, "bigquery", [visits()]).text
        assert sorted(db.execute(read).fetchall(), key=str) == sorted(((s[0], s[place]) for s in shown), key=str)


def test_casts_of_text_to_whole_numbers_are_of_whole_ones() -> None:
    read = prepare("SELECT CAST(region AS INT64) AS n FROM visits", "bigquery", [visits()]).text
    db = open_database()
    db.execute("CREATE TABLE visits AS SELECT unnest(['12', ' -3 ', '+4', '2.5', 'x', '', NULL]) AS region")
    assert db.execute(read).fetchall() == [(12,), (-3,), (4,), (None,), (None,), (None,), (None,)]
