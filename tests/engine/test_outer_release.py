"""SQL over results: what is measured of a query, and the rows of the outer query, against plain DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.engine.session import Session
from discreet.errors import BackendFailed, MissingBounds, UnknownColumn, UnsupportedQuery
from discreet.verify.certificate.checker import check

VISITS = pd.DataFrame(
    {
        "person": [1, 1, 2, 3, 3, 4, 5, 5, 6, 7],
        "ward": ["a", "b", "a", "a", "c", "b", "a", "c", "b", "a"],
        "cost": [10, 20, 30, 40, 50, 60, 70, 80, 90, 95],
        "room": [*"uvwxyzuvwx"],
    }
)
WARDS = pd.DataFrame({"code": ["a", "b", "c", "d"], "name": ["Ann", "Bob", "Cid", "Dot"], "beds": [4, 2, 1, 9]})


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with connected() as found:
        yield found


def connected(budget: dp.Budget | None = None) -> Session:
    return dp.connect(
        {"visits": VISITS, "wards": WARDS},
        unit=dp.PrivacyUnit("person", max_groups=3, max_rows=5),
        public=["wards"],
        columns={"ward": dp.Values("a", "b", "c"), "cost": dp.Range(0, 100, integer=True)},
        population="p",
        ledger=":memory:",
        budget=budget or dp.Budget(epsilon=10**22, delta="0.5", per_query=10**21),
    )


def exact(sql: str) -> list[tuple[Any, ...]]:
    database = open_database()
    database.register("visits", VISITS)
    database.register("wards", WARDS)
    return [tuple(row) for row in database.execute(sql).fetchall()]


ANSWERED = [
    (
        "WITH r AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT ward, n, n / SUM(n) OVER () FROM r "
        "ORDER BY n"
    ),
    "SELECT ward, COUNT(*) / (SELECT COUNT(DISTINCT person) FROM visits) AS x FROM visits GROUP BY ward ORDER BY ward",
    (
        "SELECT ward, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM visits GROUP BY 1 QUALIFY r <= 2 "
        "ORDER BY r"
    ),
    (
        "SELECT 'all' AS what, COUNT(*) AS n FROM visits UNION ALL SELECT ward, SUM(cost) FROM visits GROUP BY ward "
        "ORDER BY n"
    ),
    "SELECT ward FROM visits WHERE cost > 2 INTERSECT SELECT ward FROM visits WHERE cost < 90 ORDER BY ward",
    "SELECT code FROM wards EXCEPT SELECT ward FROM visits WHERE cost > 2 ORDER BY code",
    "SELECT MAX(n) - MIN(n) AS d FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) > 2)",
    (
        "SELECT name, n, n / beds AS x FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) r JOIN wards "
        "ON code = ward ORDER BY name"
    ),
    "SELECT name, (SELECT COUNT(*) FROM visits v WHERE v.ward = w.code) AS n FROM wards w ORDER BY name",
    "SELECT name, (SELECT SUM(cost) + 1 FROM visits WHERE ward = code) AS n FROM wards ORDER BY name",
    (
        "SELECT a.ward, a.n - b.n AS d FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) a JOIN "
        "(SELECT ward, COUNT(*) AS n FROM visits WHERE cost > 35 GROUP BY ward) b USING (ward) ORDER BY 1"
    ),
    (
        "WITH v AS (SELECT person, COUNT(*) AS n FROM visits GROUP BY person), r AS (SELECT n, COUNT(*) AS people "
        "FROM v WHERE n <= 2 GROUP BY n) SELECT SUM(people) AS people FROM r"
    ),
    (
        "SELECT upper(ward) AS w, COUNT(*) AS n FROM visits GROUP BY ward HAVING COUNT(*) > "
        "(SELECT MIN(n) FROM (SELECT COUNT(*) AS n FROM visits GROUP BY ward)) ORDER BY w"
    ),
    "SELECT DISTINCT COUNT(*) > 2 AS many FROM visits GROUP BY ward ORDER BY 1",
    (
        "SELECT string_agg(ward, '+' ORDER BY n DESC, ward) AS s FROM (SELECT ward, COUNT(*) AS n FROM visits "
        "GROUP BY ward)"
    ),
    "SELECT EXISTS (SELECT 1 FROM (SELECT COUNT(*) AS n FROM visits) WHERE n > 5) AS many",
    (
        "(SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC, ward LIMIT 1) UNION ALL "
        "SELECT 'b', COUNT(*) FROM visits WHERE ward = 'b'"
    ),
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT cost // 30 AS c FROM visits)",
    "WITH r AS (SELECT nullif(cost // 30, 1) AS c FROM visits GROUP BY c) SELECT COUNT(*) AS n, COUNT(c) FROM r",
]


LISTS = [
    "ward IN (SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 2)",
    "ward NOT IN (SELECT ward FROM visits GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 1) AND cost > 20",
    "cost NOT IN (SELECT 10 * COUNT(*) FROM visits GROUP BY ward)",
    "ward IN (SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 99)",
    "(nullif(ward, 'a') IN (SELECT nullif(ward, 'b') FROM visits GROUP BY ward)) IS NULL",
    "(nullif(ward, 'a') IN (SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 99)) IS NULL OR cost < 30",
    "cost / 10 IN (SELECT COUNT(*) FROM visits GROUP BY ward) AND ward IN (SELECT code FROM wards WHERE beds > 1)",
    "concat(ward, '|v~', ward) IN (SELECT concat(ward, '|v~', ward) FROM visits WHERE cost > 30 GROUP BY ward)",
    "concat('', nullif(ward, 'a')) IN (SELECT concat('', nullif(ward, 'a')) FROM visits WHERE cost < 20 GROUP BY ward)",
    "ward = ANY (SELECT ward FROM visits GROUP BY ward HAVING COUNT(*) > 2)",
    (
        "EXISTS (SELECT 1 FROM visits w WHERE w.person = visits.person AND w.ward IN (SELECT ward FROM visits GROUP BY "
        "1 HAVING AVG(cost) > 60))"
    ),
]
FED_BACK = [
    *(f"SELECT COUNT(*) AS n FROM visits WHERE {condition}" for condition in LISTS),
    (
        "SELECT v.ward, COUNT(*) AS n FROM visits v JOIN (SELECT ward FROM visits GROUP BY ward ORDER BY SUM(cost) "
        "DESC LIMIT 2) t ON v.ward = t.ward AND cost > 20 GROUP BY v.ward HAVING n > 0 ORDER BY 1"
    ),
    (
        "WITH a AS (SELECT ward, AVG(cost) AS m FROM visits GROUP BY ward), top AS (SELECT ward AS w FROM a WHERE m > "
        "50) SELECT top.w, name, COUNT(*) AS n FROM top, visits v JOIN wards ON code = v.ward WHERE v.ward = top.w "
        "GROUP BY top.w, name HAVING n > 0 ORDER BY 1"
    ),
    (
        "SELECT ward, COUNT(*) AS n FROM visits JOIN (SELECT DISTINCT ward FROM visits WHERE cost > 85) t USING (ward) "
        "CROSS JOIN (SELECT AVG(cost) AS a FROM visits) WHERE cost > a GROUP BY ward HAVING n > 0 ORDER BY 1"
    ),
    (
        "WITH top AS (SELECT ward FROM visits GROUP BY ward ORDER BY SUM(cost) DESC LIMIT 2) SELECT CASE WHEN ward IN "
        "(SELECT ward FROM top) THEN 'top' ELSE 'other' END AS k, COUNT(*) AS n FROM visits GROUP BY k ORDER BY k"
    ),
    "SELECT COUNT(*) AS n FROM visits, (SELECT AVG(cost) AS a, COUNT(*) AS c FROM visits) m WHERE cost > m.a AND c > 5",
    (
        "WITH m AS (SELECT AVG(cost) AS a FROM visits) SELECT ward, COUNT(*) AS n FROM m JOIN visits ON cost > a "
        "GROUP BY 1 ORDER BY 1"
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT v.*, a FROM visits v CROSS JOIN (SELECT AVG(cost) AS a FROM visits) m) r "
        "WHERE cost > a"
    ),
    "SELECT COUNT(*) AS n FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)",
    ("SELECT ward, COUNT(*) AS n FROM visits WHERE cost > (SELECT AVG(cost) FROM visits) GROUP BY ward ORDER BY ward"),
    (
        "SELECT SUM(CASE WHEN cost > (SELECT MAX(n) FROM (SELECT ward, 10 * COUNT(*) AS n FROM visits GROUP "
        "BY 1)) THEN 1 END) AS n, COUNT(*) AS m FROM visits"
    ),
    (
        "SELECT cost > (SELECT AVG(cost) FROM visits) AS above, COUNT(*) AS n FROM visits GROUP BY above "
        "HAVING n > 1 ORDER BY 1"
    ),
    (
        "WITH m AS (SELECT AVG(cost) AS a FROM visits) SELECT COUNT(*) / (SELECT COUNT(*) FROM visits) AS x "
        "FROM visits WHERE cost > (SELECT a * 1.1 FROM m)"
    ),
    (
        "SELECT COUNT(*) AS n FROM visits WHERE ward = (SELECT ward FROM visits GROUP BY ward ORDER BY "
        "COUNT(*) DESC LIMIT 1)"
    ),
    (
        "SELECT COUNT(*) AS n FROM visits WHERE ward = (SELECT name FROM wards WHERE beds = (SELECT COUNT(*) "
        "FROM visits) LIMIT 1)"
    ),
    (
        "SELECT COUNT(*) AS n FROM visits JOIN wards ON code = ward AND beds < (SELECT COUNT(DISTINCT "
        "person) - 3 FROM visits)"
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT person, SUM(cost) AS s FROM visits GROUP BY person HAVING "
        "SUM(cost) > (SELECT AVG(cost) FROM visits)) r"
    ),
    (
        "SELECT COUNT(*) AS n FROM visits v WHERE EXISTS (SELECT 1 FROM visits w WHERE w.person = v.person "
        "AND w.cost > (SELECT AVG(cost) FROM visits))"
    ),
    (
        "SELECT SUM(greatest(-9, least(9, cost - (SELECT AVG(cost) FROM visits)))) > 0 AS s FROM visits "
        "WHERE cost <> (SELECT COUNT(*) * 10 FROM visits)"
    ),
]


@pytest.mark.thinned(3)
@pytest.mark.exhaustive
@pytest.mark.sampled(9)
@pytest.mark.parametrize("sql", [*ANSWERED, *FED_BACK])
def test_without_noise_the_cells_are_those_of_plain_duckdb(session: Session, sql: str) -> None:
    release = session.sql(sql, epsilon=10**18, delta="1e-9")
    found = [tuple(row) for row in release.rows]
    assert found == [pytest.approx(row) for row in exact(sql)]
    assert release.plan.outer is not None


REFUSED = [
    (
        "SELECT v.cost FROM visits v JOIN (SELECT AVG(cost) AS m FROM visits) a ON v.cost > a.m",
        "single rows are never released",
    ),
    (
        "SELECT COUNT(*) FROM visits v JOIN (SELECT ward, AVG(cost) AS m FROM visits GROUP BY ward) a ON v.cost > a.m",
        "beside people's rows",
    ),
    (
        (
            "SELECT COUNT(*) FROM visits v JOIN (SELECT ward, AVG(cost) AS m FROM visits GROUP BY ward) a ON v.ward = "
            "a.ward WHERE cost > m"
        ),
        "beside people's rows",
    ),
    (
        (
            "SELECT AVG(a.m) FROM visits v JOIN (SELECT ward, AVG(cost) AS m FROM visits GROUP BY ward) a ON v.ward = "
            "a.ward"
        ),
        "beside people's rows",
    ),
    (
        (
            "SELECT COUNT(*) FROM visits v JOIN (SELECT ward, cost, COUNT(*) FROM visits GROUP BY 1, 2) a ON v.ward = "
            "a.ward"
        ),
        "beside people's rows",
    ),
    (
        (
            "SELECT COUNT(*) FROM visits v JOIN (SELECT ward FROM (SELECT ward FROM visits GROUP BY 1) b, wards) a ON "
            "v.ward = a.ward"
        ),
        "beside people's rows",
    ),
    (
        "SELECT n, (SELECT MAX(cost) FROM visits WHERE cost < n) AS m FROM (SELECT COUNT(*) AS n FROM visits)",
        "no GROUP BY",
    ),
    ("SELECT n FROM (SELECT COUNT(*) AS n FROM visits) WHERE n IN (SELECT cost FROM visits)", "single people"),
    ("SELECT n + random() FROM (SELECT COUNT(*) AS n FROM visits)", "random"),
    ("SELECT n, today() FROM (SELECT COUNT(*) AS n FROM visits)", "CURRENT_DATE"),
    ("SELECT m FROM (SELECT COUNT(*) AS n FROM visits)", '"m"'),
    ("SELECT n FROM (SELECT COUNT(*) AS n FROM visits), read_csv('x.csv')", "no files"),
    ("WITH RECURSIVE r AS (SELECT COUNT(*) AS n FROM visits) SELECT n FROM r", "RECURSIVE"),
    ("SELECT person, n FROM (SELECT person, COUNT(*) AS n FROM visits GROUP BY person)", "must be in GROUP BY"),
]


@pytest.mark.parametrize(("sql", "why"), REFUSED)
def test_what_is_refused_names_why_and_costs_nothing(session: Session, sql: str, why: str) -> None:
    before = session.remaining
    with pytest.raises((UnsupportedQuery, UnknownColumn), match=why):
        session.sql(sql, epsilon=1, delta="1e-9")
    assert session.remaining == before


def test_columns_of_one_name_are_numbered(session: Session) -> None:
    release = session.sql("SELECT n, n FROM (SELECT COUNT(*) AS n FROM visits)", epsilon=10**18)
    assert release.columns == ["n", "n_1"]


def test_a_part_that_lacks_bounds_says_so() -> None:
    with connected() as session, pytest.raises(MissingBounds, match="person"):
        session.plan(
            "WITH r AS (SELECT ward, SUM(person) AS s FROM visits GROUP BY ward) SELECT MAX(s) FROM r", epsilon=1
        )


def test_bounds_that_a_first_stage_would_choose_are_to_be_declared_for_parts(session: Session) -> None:
    sql = "SELECT MAX(s) FROM (SELECT ward, SUM({}) AS s FROM visits GROUP BY ward)"
    assert session.plan(sql.format("cost"), epsilon=1, bounds="values").outer is not None
    for column, bounds in (("person", "values"), ("cost", "auto")):
        with pytest.raises(UnsupportedQuery, match="one query at a time"):
            session.plan(sql.format(column), epsilon=1, bounds=bounds)
    with pytest.raises(UnsupportedQuery, match="pair people"):
        session.plan("SELECT COUNT(*) FROM visits a JOIN visits b ON a.cost = b.cost", epsilon=1, bounds="values")


SHARE = "WITH r AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT {} FROM r ORDER BY 1"


def test_a_replay_and_a_corrected_text_over_the_same_parts_are_free() -> None:
    with connected(dp.Budget(epsilon=3)) as session:
        first = session.sql(SHARE.format("ward, n"), epsilon=1)
        assert not first.stored
        again = session.sql(SHARE.format("ward, n"), epsilon=1)
        other = session.sql(SHARE.format("ward, n * 2 AS m"), epsilon=1)
        part = session.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=1)
        assert again.stored
        assert again.rows == first.rows == part.rows
        assert [(w, 2 * n) for w, n in first.rows] == other.rows
        assert session.remaining == dp.Budget(epsilon=2)


def test_a_failure_of_the_outer_query_is_named_and_the_charge_stands() -> None:
    with connected(dp.Budget(epsilon=3)) as session:
        with pytest.raises(BackendFailed, match="Conversion"):
            session.sql(SHARE.format("CAST(ward AS INTEGER) AS x"), epsilon=1)
        assert session.remaining == dp.Budget(epsilon=2)
        assert session.sql(SHARE.format("ward, n"), epsilon=1).stored


def test_parts_are_one_batch_and_the_same_measurement_is_made_once() -> None:
    with connected(dp.Budget(epsilon=3)) as session:
        sql = (
            "SELECT COUNT(*) / (SELECT COUNT(*) FROM visits) AS one, (SELECT AVG(cost) FROM visits) AS mean FROM visits"
        )
        plan = session.plan(sql, epsilon=1)
        assert len(plan.outputs) == 2
        assert len(plan.measurements) == 1
        release = session.sql(sql, epsilon=1)
        assert release["one"] == [1.0]
        assert session.remaining == dp.Budget(epsilon=2)
        assert "2 measured parts" in str(plan)
        assert plan.columns == release.columns == ["one", "mean"]


def test_the_certificate_of_a_part_has_the_outer_query_beside_it_and_verifies() -> None:
    with connected(dp.Budget(epsilon=3)) as session:
        release = session.sql(SHARE.format("ward, n"), epsilon=1)
        certificate = release.certificate()
        assert certificate["question"]["sql"] == 'SELECT ward AS "ward", COUNT(*) AS "n" FROM visits GROUP BY ward'
        assert certificate["question"]["outer"] == SHARE.format("ward, n")
        assert check(certificate).ok
        certificate["question"]["outer"] = SHARE.format("n")
        assert check(certificate).broken


@pytest.mark.exhaustive
def test_intervals_follow_from_those_of_the_parts_or_from_noise_that_is_drawn_again() -> None:
    with connected(dp.Budget(epsilon=3)) as session:
        release = session.sql(
            SHARE.format("ward, n, 2 * n + 1 AS m, n + SUM(n) OVER () AS s, MAX(n) OVER () AS x"), epsilon=1
        )
        [part] = release.parts.values()
        ends = part.interval("n")
        assert release.interval("n") == ends
        assert release.interval("m") == [(2 * low + 1, 2 * high + 1) for low, high in ends]
        assert all(low < value < high for (low, high), value in zip(release.interval("s"), release["s"], strict=True))
        assert release.interval("ward") == [None] * 3
        at_once = part.interval("n", 1 - Fraction(1, 60))  # of three numbers
        assert release.interval("x") == [tuple(max(pair[side] for pair in at_once) for side in (0, 1))] * 3
        again = session.sql(release.text, epsilon=1)
        assert again.interval("s") == release.interval("s")
        assert any("noise drawn again" in note for note in release.notes)
        assert any("'x' holds at once" in note for note in release.notes)
        assert [release.has_interval(n) for n in release.columns] == [False, True, True, True, True]
        assert release.interval("s", confidence=0.999) == [None] * 3  # more than 200 runs can tell
        rooted = session.sql(SHARE.format("sqrt(n - 100000) AS r"), epsilon=1)
        assert rooted.interval("r") == [None] * 3  # no number at either end


def test_rows_that_noise_chooses_or_orders_have_the_intervals_that_are_theirs() -> None:
    with connected(dp.Budget(epsilon=30)) as session:
        first = session.sql(SHARE.format("ward, n").replace("ORDER BY 1", "ORDER BY n DESC"), epsilon=1)
        part = first.parts["part_1"]
        ends = dict(zip(part["ward"], part.interval("n"), strict=True))
        assert first.interval("n") == [ends[ward] for ward in first["ward"]]
        cut = session.sql(SHARE.format("ward, n").replace("ORDER BY 1", "ORDER BY n DESC LIMIT 1"), epsilon=1)
        at_once = dict(zip(part["ward"], part.interval("n", 1 - Fraction(1, 60)), strict=True))
        assert cut.interval("n") == [at_once[cut["ward"][0]]]
        assert cut.stored
        assert any("'n' holds at once" in note for note in cut.notes)
        none = session.sql(SHARE.format("COUNT(*) AS c, SUM(n) AS s").replace("ORDER BY 1", "WHERE n > 0"), epsilon=1)
        assert none.interval("c") == none.interval("s") == [None]  # of the rows that are meant nothing is known
        assert any("No ± is known of 'c', 's'" in note for note in none.notes)


def test_an_average_over_groups_says_which_groups_are_meant(session: Session) -> None:
    sql = "SELECT AVG(n) FROM (SELECT {}, COUNT(*) AS n FROM visits GROUP BY 1)"
    assert any("without rows" in note for note in session.plan(sql.format("ward"), epsilon=1).notes)
    assert any("hidden ones" in note for note in session.plan(sql.format("room"), epsilon=1, delta="1e-6").notes)


def test_a_release_of_results_is_shown_and_handed_on_like_others(session: Session) -> None:
    release = session.sql(ANSWERED[0], epsilon=10**18)
    assert "measured part" in str(release)
    assert release.to_dict(intervals=True)["ward"] == ["c", "b", "a"]
    assert "<table" in release._repr_html_()
    with pytest.raises(UnknownColumn, match="'x'"):
        release["x"]
