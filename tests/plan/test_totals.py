"""ROLLUP, CUBE and GROUPING SETS: DuckDB's rows, totals that are the sums of their parts, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import measure
from discreet.engine.release import Release
from discreet.errors import InternalError, UnsupportedQuery
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.noise.entropy import SystemEntropy
from discreet.plan.planner import make_query
from discreet.privacy.unit import Relation
from tests.coverage import covers
from tests.plan.claims import check

ROWS = pd.DataFrame(
    {
        "id": range(60),
        "a": ["x", "y", "x", "y", None, "x"] * 10,
        "b": [1, 1, 2, 2, 1, 3] * 10,
        "v": [0.5 * (i % 9) for i in range(60)],
    }
)


@pytest.fixture(scope="module")
def session() -> dp.Session:
    """Declared keys, one of them with NULL; each row is a person; ε as large as one likes."""
    return dp.connect(
        {"t": ROWS},
        unit=dp.PrivacyUnit("id", max_groups=1, max_rows=1),
        columns={"a": dp.Values("x", "y", None), "b": dp.Values(1, 2, 3), "v": dp.Range(0, 4)},
        budget=dp.Budget(epsilon=10**9, delta="0.1", per_query=10**7),
        population="p",
        ledger=":memory:",
    )


def exact(sql: str) -> list[tuple[object, ...]]:
    with open_database() as db:
        db.register("t", ROWS)
        return db.execute(sql).fetchall()


def sorted_rows(rows: list[tuple[object, ...]]) -> list[str]:
    return sorted(repr(tuple(round(float(v), 3) if isinstance(v, int | float) else v for v in r)) for r in rows)


@pytest.mark.parametrize(
    "group",
    [
        "ROLLUP (a, b)",
        "CUBE (a, b)",
        "GROUPING SETS ((a, b), (b), ())",
        "a, ROLLUP (b)",
        "ROLLUP ((a, b))",
        "GROUPING SETS (ROLLUP (a, b), (a, b))",
    ],
)
def test_the_rows_are_those_of_the_database_where_no_group_is_empty(session: dp.Session, group: str) -> None:
    sql = (
        "SELECT a, b, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS m, GROUPING(a, b) AS g "
        f"FROM t GROUP BY {group} HAVING COUNT(*) > 0"
    )
    found = session.sql(sql, epsilon=10**6)
    assert sorted_rows(found.rows) == sorted_rows(exact(sql))


def test_totals_are_planned_where_an_epsilon_leaves_no_noise() -> None:
    keys: dict[str, Fact] = {"a": dp.Values(*range(6)), "b": dp.Values(*range(4))}
    t = TableSchema("t", dict.fromkeys(keys, Type.INT), keys, dp.PrivacyUnit.row(), Relation.ADD_REMOVE)
    sql = "SELECT a, b, COUNT(*) AS n FROM t GROUP BY ROLLUP (a, b)"
    assert make_query(sql, [t], population="p", version=None, epsilon=1000).allocation.levels == ()


def test_totals_are_the_sums_of_their_parts_whatever_the_noise(session: dp.Session) -> None:
    rows = session.sql(
        "SELECT a, b, COUNT(*) AS n, SUM(v) AS s, GROUPING(a) AS ga, GROUPING(b) AS gb FROM t GROUP BY CUBE (a, b)",
        epsilon=0.5,
    ).rows
    finest = [r for r in rows if not r[4] and not r[5]]
    assert len(rows) == 16
    for a, b, n, s, ga, gb in rows:
        parts = [r for r in finest if (ga or r[0] == a) and (gb or r[1] == b)]
        assert n == sum(r[2] for r in parts)
        assert s == pytest.approx(sum(r[3] for r in parts))


def test_totals_are_free_once_their_parts_are_known(session: dp.Session) -> None:
    session.sql("SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b", epsilon="0.7")
    again = session.sql("SELECT a, b, COUNT(*) AS n FROM t GROUP BY ROLLUP (a, b)", epsilon="0.7")
    assert again.stored
    assert again.charged.epsilon == 0


@pytest.mark.laws
def test_the_interval_of_a_total_covers_as_often_as_it_says(session: dp.Session) -> None:
    hits, narrow, runs = 0, 0, 150
    plan = session.plan("SELECT a, b, COUNT(*) AS n FROM t GROUP BY ROLLUP (a, b)", epsilon="0.3")
    secret, rng = session._desk._parameters(plan.query.needs_secret), SystemEntropy()
    for _ in range(runs):
        r = Release(plan, measure(plan.query, lambda text: session._desk.backend.rows(text, secret), rng))
        ends, half = (r.interval("n", Fraction(p, 10))[-1] for p in (9, 5))
        assert ends is not None and half is not None
        hits += ends[0] <= 60 <= ends[1]
        narrow += half[0] <= 60 <= half[1]
    assert covers(hits, runs, 0.9) and hits < runs
    assert not covers(narrow, runs, 0.9)


WARDS = pd.DataFrame(
    {
        "id": [i // 2 for i in range(480)],
        "a": [i % 6 for i in range(480)],
        "b": [i // 7 % 5 for i in range(480)],
        "c": [i // 31 % 4 for i in range(480)],
        "v": [0.5 * (i % 9) for i in range(480)],
    }
)
DECLARED: dict[str, Range | Values] = {
    "a": dp.Values(*range(6)),
    "b": dp.Values(*range(5)),
    "c": dp.Values(*range(4)),
    "v": dp.Range(0, 4),
}
MEASURED = "SELECT a, b, c, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS m, GROUPING(a, b, c) AS g FROM t GROUP BY "


def wards(relation: str = "add-remove") -> dp.Session:
    """Enough groups that totals are measured as well; two rows a person, both kept."""
    return dp.connect(
        {"t": WARDS},
        unit=dp.PrivacyUnit("id", max_groups=2, max_rows=2),
        columns=DECLARED,
        budget=dp.Budget(epsilon=10**9, delta="0.1", per_query=10**7),
        population="p",
        ledger=":memory:",
        relation=relation,
    )


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("group", ["ROLLUP (a, b, c)", "CUBE (a, b)", "GROUPING SETS ((a, b, c), (b), (c, a), ())"])
@pytest.mark.parametrize("asked", [{"noise": "laplace"}, {"noise": "gaussian", "delta": "1e-6"}], ids=str)
def test_measured_totals_are_sums_of_their_parts_and_the_database_s_own_with_little_noise(
    relation: str, group: str, asked: dict[str, Any]
) -> None:
    sql = MEASURED.replace("c, COUNT", "COUNT").replace("b, c) AS", "b) AS") if "CUBE" in group else MEASURED
    keys = 2 if "CUBE" in group else 3
    with wards(relation) as session, open_database() as db:
        db.register("t", WARDS)
        truth = {(r[:keys], r[-1]): r for r in db.execute(sql + group).fetchall()}
        small = session.sql(sql + group, epsilon=2, **asked)
        assert small.query.allocation.levels
        assert small.query.allocation.guarantee.epsilon == 2
        finest = [r for r in small.rows if r[-1] == 0]
        for row in small.rows:
            parts = [p for p in finest if all(k is None or k == x for k, x in zip(row[:keys], p[:keys], strict=True))]
            assert isinstance(row[keys], int)
            assert row[keys] == sum(p[keys] for p in parts)
            assert row[keys + 1] == pytest.approx(sum(p[keys + 1] for p in parts))
        for row in session.sql(sql + group, epsilon=3_000, **asked).rows:
            exactly = truth.get((row[:keys], row[-1]), (0,) * len(row))
            assert row[keys] == pytest.approx(exactly[keys], abs=9)
            assert row[keys + 1] == pytest.approx(exactly[keys + 1], abs=40)


def test_measured_totals_are_a_question_of_their_own_and_are_stored_whole() -> None:
    with wards() as session:
        totals = session.sql(MEASURED + "ROLLUP (a, b, c)", epsilon=1)
        plain = "SELECT a, b, c, COUNT(*) AS n, SUM(v) AS s, AVG(v) AS m FROM t GROUP BY a, b, c"
        assert totals.plan.identity != session.plan(plain, epsilon=1).identity
        other = session.plan(MEASURED + "GROUPING SETS ((a, b, c), ())", epsilon=1)
        assert other.identity != totals.plan.identity
        again = session.sql(MEASURED + "ROLLUP (a, b, c)", epsilon=1)
        assert again.stored
        assert again.rows == totals.rows
        assert again.interval("n") == totals.interval("n")
        assert "Totals are measured as well" in totals.explain()
        assert "the grand total: 1 of 120 finest groups each;" in totals.explain()
        assert any("Hay" in c for c in totals.citations())
        batched = session.batch({"x": MEASURED + "ROLLUP (a, b, c)", "y": "SELECT COUNT(*) FROM t"}, epsilon=2)
        assert (
            session.batch({"y": "SELECT COUNT(*) FROM t", "x": MEASURED + "ROLLUP (a, b, c)"}, epsilon=2)["x"].rows
            == batched["x"].rows
        )


@pytest.mark.exhaustive
def test_the_error_of_a_plan_with_measured_totals_is_that_of_its_widest_interval() -> None:
    with wards() as session:
        ways: list[dict[str, Any]] = [{"noise": "laplace"}, {"noise": "gaussian", "delta": "1e-6"}]
        for asked in ways:
            found = session.sql(MEASURED + "ROLLUP (a, b, c)", epsilon=1, **asked)
            widest = max((high - low) / 2 for low, high in found.interval("n"))
            assert found.plan.error("n") == pytest.approx(widest)
        wanted = session.plan(MEASURED + "ROLLUP (a, b, c)", error={"n": 60})
        assert wanted.error("n") <= 60
        assert session.plan(MEASURED + "ROLLUP (a, b, c)", epsilon=wanted.epsilon * Fraction(97, 100)).error("n") > 60


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("asked", [{"noise": "laplace"}, {"noise": "gaussian", "delta": "1e-6"}], ids=str)
def test_too_little_noise_on_totals_is_found_before_the_charge(relation: str, asked: dict[str, Any]) -> None:
    """The broken twins: totals of half the noise, and totals that nobody pays for."""
    with wards(relation) as session:
        plan = session.plan(MEASURED + "ROLLUP (a, b, c)", epsilon=1, **asked).query
        check(plan.sql, plan)
        a = plan.allocation
        last = a.levels[-1]
        half = tuple(
            DiscreteLaplaceNoise(z.scale / 2)
            if isinstance(z, DiscreteLaplaceNoise)
            else RoundedGaussianNoise(z.sigma / 2)
            for z in last.noises
            if isinstance(z, DiscreteLaplaceNoise | RoundedGaussianNoise)
        )
        alone = session.plan(
            "SELECT a, b, c, COUNT(*), SUM(v), AVG(v) FROM t GROUP BY a, b, c", epsilon=1, **asked
        ).query
        for broken in (
            replace(a, levels=(*a.levels[:-1], replace(last, noises=half))),
            replace(a, noises=alone.allocation.noises),
            replace(a, levels=(*a.levels, last)),
            replace(a, levels=(*a.levels[:-1], replace(last, kept=(0, 7)))),
            replace(a, levels=(*a.levels[:-1], replace(last, noises=last.noises[1:]))),
            replace(a, events=alone.allocation.events * 0),
        ):
            with pytest.raises(InternalError):
                check(plan.sql, replace(plan, allocation=broken))


def test_private_groups_are_added_up_over_those_that_are_shown(session: dp.Session) -> None:
    r = session.sql("SELECT v, COUNT(*) AS n FROM t GROUP BY ROLLUP (v)", epsilon=1000, delta="1e-6")
    counts = np.array([row[1] for row in r.rows])
    assert counts[-1] == counts[:-1].sum()


def test_a_total_over_no_groups_is_a_row_too(session: dp.Session) -> None:
    r = session.sql("SELECT v, COUNT(*) AS n FROM t WHERE v > 100 GROUP BY ROLLUP (v)", epsilon=1, delta="1e-9")
    assert r.rows == [(None, 0)]


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        (
            "SELECT a, COUNT(DISTINCT id) FROM t GROUP BY ROLLUP (a)",
            "A number of different people or values does not add up over groups, as totals (ROLLUP, CUBE) must.",
        ),
        (
            "SELECT a, MEDIAN(v) FROM t GROUP BY ROLLUP (a)",
            "Quantiles and the like do not add up over groups, as totals (ROLLUP, CUBE) must.",
        ),
        (
            "SELECT a, b, COUNT(*) FROM t GROUP BY GROUPING SETS ((a), (b))",
            "None of the GROUPING SETS has all keys, so that totals have no parts to be added up from.",
        ),
        ("SELECT a, COUNT(*) FROM t GROUP BY a WITH ROLLUP", "GROUP BY … WITH ROLLUP is not supported here."),
        ("SELECT a, GROUPING(v), COUNT(*) FROM t GROUP BY ROLLUP (a)", "GROUPING takes keys of GROUP BY."),
        (
            "SELECT COUNT(*) FROM t GROUP BY CUBE (a, b, v, a || 'x', b + 1, v + 1, b + 2)",
            "CUBE of 7 keys has more than 64 grouping sets.",
        ),
        (
            "SELECT COUNT(*) FROM t GROUP BY CUBE (a, b, v), CUBE (a, b), CUBE (b, v)",
            "GROUP BY has more than 64 grouping sets.",
        ),
        (
            "SELECT COUNT(*) FROM (SELECT id FROM t GROUP BY ROLLUP (id))",
            "ROLLUP, CUBE and GROUPING SETS are not supported inside a subquery.",
        ),
    ],
)
def test_what_has_no_totals_is_refused(session: dp.Session, sql: str, sentence: str) -> None:
    with pytest.raises(UnsupportedQuery) as refusal:
        session.plan(sql, epsilon=1, delta="1e-6")
    assert str(refusal.value).startswith(sentence)


@pytest.mark.parametrize("group", ["()", "(a), (b)", "(a, b)", "a, ()"])
def test_brackets_around_keys_change_nothing(session: dp.Session, group: str) -> None:
    plain = {"()": "", "a, ()": "GROUP BY a"}.get(group, "GROUP BY a, b")
    spelled = session.plan(f"SELECT COUNT(*) AS n FROM t GROUP BY {group}", epsilon=1)
    assert spelled.identity == session.plan(f"SELECT COUNT(*) AS n FROM t {plain}", epsilon=1).identity
    assert spelled.query.question.outer.sets is None
