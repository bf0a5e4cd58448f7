"""What makes two questions the same, and what is refused before anything is read."""

from __future__ import annotations

import pytest

from discreet.errors import InvalidParameter, MissingBounds, NotPrivate, PlanError, UnknownColumn, UnsupportedQuery
from discreet.plan.nodes.mean import Mean
from discreet.plan.nodes.node import Measured
from discreet.privacy.unit import PrivacyUnit
from tests.plan.tables import planned, visits


def same(a: str, b: str) -> bool:
    return planned(a).identity == planned(b).identity


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("SELECT COUNT(*) AS n FROM visits", "select count(*) as people from Visits"),
        ("SELECT COUNT(*) FROM visits", "SELECT 3 * COUNT(*) + 1 FROM visits"),
        ("SELECT COUNT(*) FROM visits", "SELECT COUNT(1) FROM visits v"),
        ("SELECT SUM(amount), COUNT(*) FROM visits", "SELECT COUNT(*), SUM(amount) FROM visits HAVING COUNT(*) > 3"),
        ("SELECT SUM(amount) / COUNT(*) FROM visits", "SELECT COUNT(*), SUM(visits.amount) FROM visits LIMIT 1"),
        (
            "SELECT region, COUNT(*) FROM visits GROUP BY region",
            "SELECT COUNT(*), region r FROM visits GROUP BY 2 ORDER BY 1",
        ),
        (
            "SELECT COUNT(*) FROM visits WHERE day > 3 AND flag AND amount < 5",
            "SELECT COUNT(*) FROM visits WHERE amount < 5 AND (day > 3 AND flag)",
        ),
        (
            "SELECT COUNT(*) FROM visits WHERE day BETWEEN 2 AND 3",
            "SELECT COUNT(*) FROM visits WHERE day >= 2 AND day <= 3",
        ),
    ],
)
def test_spellings_of_one_measurement_are_one_question(a: str, b: str) -> None:
    assert same(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("SELECT COUNT(*) FROM visits", "SELECT COUNT(amount) FROM visits"),
        ("SELECT COUNT(*) FROM visits", "SELECT COUNT(*) FROM visits WHERE day > 1"),
        ("SELECT COUNT(*) FROM visits WHERE day > 1", "SELECT COUNT(*) FROM visits WHERE day > 2"),
        ("SELECT COUNT(*) FROM visits WHERE region = '1'", "SELECT COUNT(*) FROM visits WHERE region = 1"),
        ("SELECT SUM(amount) FROM visits", "SELECT AVG(amount) FROM visits"),
        ("SELECT COUNT(*) FROM visits", "SELECT region, COUNT(*) FROM visits GROUP BY region"),
    ],
)
def test_different_measurements_are_different_questions(a: str, b: str) -> None:
    assert not same(a, b)


def test_every_parameter_is_part_of_the_question() -> None:
    text = "SELECT COUNT(*) FROM visits"
    plans = [
        planned(text),
        planned(text, epsilon=2),
        planned(text, delta="1e-6", noise="gaussian"),
        planned(text, delta="1e-7", noise="gaussian"),
        planned(text, population="others"),
        planned(text, version="2026-11"),
        planned(text, truncation="0.1"),
        planned(text, visits(PrivacyUnit("user_id", max_groups=3, max_rows=9))),
        planned(text, visits(PrivacyUnit.row())),
    ]
    assert len({p.identity for p in plans}) == len(plans)


def test_a_float_epsilon_means_its_shortest_decimal() -> None:
    assert (
        planned("SELECT COUNT(*) FROM visits", epsilon=0.1).identity
        == planned("SELECT COUNT(*) FROM visits", epsilon="1/10").identity
    )


def test_one_measure_is_measured_once() -> None:
    plan = planned("SELECT COUNT(amount) AS a, AVG(amount) AS b, COUNT(amount) + 1 AS c FROM visits")
    assert len(plan.question.measures) == 2
    a, b = plan.column("a"), plan.column("b")
    assert isinstance(a, Measured)
    assert isinstance(b, Mean)
    assert a.index == b.denominator.index


REFUSED = [
    ("", UnsupportedQuery, "empty"),
    ("SELEC 1", UnsupportedQuery, "cannot be read"),
    ("SELECT COUNT(* FROM visits", UnsupportedQuery, "cannot be read"),
    ("SELECT COUNT(*) FROM visits; SELECT COUNT(*) FROM visits", UnsupportedQuery, "One query at a time"),
    ("DROP TABLE visits", UnsupportedQuery, "Only SELECT"),
    ("INSERT INTO visits VALUES (1)", UnsupportedQuery, "Only SELECT"),
    ("COPY visits TO 'x.csv'", UnsupportedQuery, "Only SELECT"),
    ("SELECT * FROM visits", UnsupportedQuery, "rows of people"),
    ("SELECT region FROM visits", UnsupportedQuery, "GROUP BY"),
    ("SELECT COUNT(*) FROM nothing", UnknownColumn, "nothing"),
    ("SELECT COUNT(nothing) FROM visits", UnknownColumn, "nothing"),
    ("SELECT SUM(frob(amount)) FROM visits", UnknownColumn, "frob"),
    ("SELECT COUNT(blob) FROM visits", UnsupportedQuery, "nested"),
    ("SELECT HISTOGRAM(amount) FROM visits", UnsupportedQuery, "HISTOGRAM"),
    ("SELECT SUM(user_id) FROM visits", MissingBounds, "user_id"),
    ("SELECT SUM(amount) OVER () FROM visits", UnsupportedQuery, "Window"),
    ("SELECT COUNT(*) FILTER (WHERE day) FROM visits", UnsupportedQuery, "FILTER"),
    ("SELECT COUNT(*) FROM visits WHERE random() < 0.5", UnsupportedQuery, "random"),
    ("SELECT COUNT(*) FROM visits WHERE seen < current_date", UnsupportedQuery, "current date"),
    ("SELECT COUNT(*) FROM visits WHERE COUNT(*) > 1", UnsupportedQuery, "cannot stand here"),
    ("SELECT COUNT(*) FROM visits WHERE user_id IN (SELECT COUNT(*))", UnsupportedQuery, "ubquer"),
    ("SELECT COUNT(*) FROM visits WHERE amount", UnsupportedQuery, "condition"),
    ("SELECT COUNT(*) FROM visits JOIN visits w USING (day)", UnsupportedQuery, "units equal"),
    ("SELECT COUNT(*) FROM visits, visits w", UnsupportedQuery, "units equal"),
    ("SELECT COUNT(*) FROM 'visits.csv'", PlanError, ""),
    ("SELECT COUNT(*) FROM read_csv('visits.csv')", UnsupportedQuery, "FROM"),
    ("SELECT COUNT(*) FROM pg_catalog.visits", UnsupportedQuery, "FROM"),
    ("SELECT COUNT(*) FROM visits TABLESAMPLE 10%", UnsupportedQuery, ""),
    ("SELECT COUNT(*) FROM visits LIMIT 1 + 1", UnsupportedQuery, "LIMIT"),
    ("SELECT COUNT(*) FROM visits LIMIT 10%", UnsupportedQuery, "LIMIT"),
    ("SELECT region, COUNT(*) FROM visits GROUP BY region WITH ROLLUP", UnsupportedQuery, "ROLLUP"),
    ("SELECT region, COUNT(*) FROM visits GROUP BY ALL (region)", UnsupportedQuery, "GROUP BY ALL alone"),
    ("SELECT COUNT(*) AS (a, b) FROM visits", UnsupportedQuery, "expression AS name"),
    ("SELECT COUNT(*) AS n, SUM(amount) AS n FROM visits ORDER BY n", UnsupportedQuery, "Two output columns"),
    ("SELECT COUNT(*) FROM visits WHERE region = $1", UnsupportedQuery, "Parameters"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "kind", "word"), REFUSED)
def test_what_is_not_answered_is_refused_with_a_reason(sql: str, kind: type[PlanError], word: str) -> None:
    with pytest.raises(kind) as caught:
        planned(sql)
    assert word in str(caught.value) and caught.value.hint


def test_private_groups_and_gaussian_noise_say_that_they_need_a_delta() -> None:
    with pytest.raises(NotPrivate, match="δ"):
        planned("SELECT amount, COUNT(*) FROM visits GROUP BY amount")
    with pytest.raises(NotPrivate, match="δ"):
        planned("SELECT COUNT(*) FROM visits", noise="gaussian")


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), True, "much", None, "1e999999"])
def test_an_epsilon_that_is_no_positive_number_is_refused(epsilon: object) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        planned("SELECT COUNT(*) FROM visits", epsilon=epsilon)


@pytest.mark.parametrize("delta", [1, -0.1, float("nan"), "x"])
def test_a_delta_outside_the_unit_interval_is_refused(delta: object) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        planned("SELECT COUNT(*) FROM visits", delta=delta)


def test_the_secret_is_never_in_the_text_that_is_shown() -> None:
    assert "$secret" in planned("SELECT region, COUNT(*) FROM visits GROUP BY region").sql
    assert "$secret" not in planned("SELECT COUNT(*) FROM visits").sql


def test_declared_keys_of_an_expression_are_its_values() -> None:
    plan = planned("SELECT day % 2 AS odd, COUNT(*) FROM visits GROUP BY day % 2")
    assert plan.question.keys.all() == [(0,), (1,)]
    shouted = planned("SELECT UPPER(region) AS r, COUNT(*) FROM visits GROUP BY r")
    assert shouted.question.keys.all() == [("NORTH",), ("SOUTH",), ("EAST",), ("WEST",)]


def test_the_least_whole_number_is_a_whole_number() -> None:
    plan = planned("SELECT COUNT(*) FROM visits WHERE day = -9223372036854775808")
    assert "CAST(-9223372036854775808 AS BIGINT)" in plan.sql
