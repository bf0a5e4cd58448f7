"""Results fed back into people's rows: `WHERE x > (SELECT AVG(x) …)`. Plain DuckDB's answers to them are compared in
`test_outer_release.py`.
"""

from __future__ import annotations

import copy
import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.catalog.types import Type
from discreet.engine.meter import FedUse, Meter
from discreet.engine.perform import planned_uses
from discreet.engine.recipe import Draw
from discreet.engine.session import Session
from discreet.errors import DiscreetError, InternalError, UnknownColumn, UnsupportedQuery
from discreet.noise.entropy import SystemEntropy
from discreet.plan.bound import bounding, scope_stages
from discreet.plan.people import person_cost
from discreet.plan.plan import Plan
from discreet.plan.query import Query
from discreet.query.expr import parameters_of
from discreet.verify.certificate.checker import check
from discreet.verify.derive import PrivateRows, derive
from tests.without_noise import without_noise

N = 40
ROWS = pd.DataFrame(
    {
        "id": np.arange(N) // 2,
        "x": np.arange(N) % 20,
        "k": np.where(np.arange(N) % 3, "a", "b"),
        "day": [dt.date(2024, 1, 1 + i % 28) for i in range(N)],
    }
)
FACTS: dict[str, Any] = {
    "x": dp.Range(0, 20, integer=True),
    "k": dp.Values("a", "b"),
    "day": dp.Range(dt.date(2024, 1, 1), dt.date(2024, 12, 31)),
}
ABOVE = "SELECT COUNT(*) AS n FROM t WHERE x > (SELECT AVG(x) FROM t)"


def connected(frame: pd.DataFrame = ROWS, **asked: Any) -> Session:
    options: dict[str, Any] = {"unit": dp.PrivacyUnit("id", max_groups=2, max_rows=2), "population": "p"}
    options |= {"budget": dp.Budget(1000, "1e-2")} if "per_person" not in asked else {}
    return dp.connect({"t": frame}, columns=FACTS, ledger=":memory:", **options | asked)


def fed_query(plan: Plan) -> Query:
    """The measurement that reads a result."""
    (found,) = [q for q in plan.measurements if any(map(parameters_of, q.statements))]
    return found


def test_both_parts_are_one_charge_shown_before_and_free_again() -> None:
    session = connected()
    plan = session.plan(ABOVE, epsilon=2)
    shown = str(plan)
    assert "costs ε = 2 for the 2 measured parts" in shown
    assert "n: ± 6 at 95 %" in shown
    assert '$fed_1, read by what is measured after it: SELECT "avg(x)" AS "avg(x)" FROM part_1' in shown
    release = session.sql(ABOVE, epsilon=2)
    again = session.sql(ABOVE, epsilon=2)
    assert (again.stored, again.rows, again.notes) == (True, release.rows, release.notes)
    assert session.remaining.epsilon == 998
    (told,) = [note for note in release.notes if note.startswith("$fed_1 = ")]
    assert 0 < float(told.split()[2].rstrip(",")) < 20
    other = session.sql(ABOVE.replace("AVG(x)", "AVG(x) + 1"), epsilon=2)  # the same measurements, another value
    assert not other.stored
    assert session.remaining.epsilon == 996


NARROWING = [
    ("SELECT SUM(x) AS s FROM t WHERE x <= (SELECT AVG(x) FROM t)", "SELECT SUM(x) AS s FROM t WHERE x <= {}"),
    (
        "SELECT k, COUNT(*) AS n FROM t WHERE k = (SELECT MAX(k) FROM t GROUP BY k LIMIT 1) GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM t WHERE k = '{}' GROUP BY k",
    ),
]


@pytest.mark.parametrize(("sql", "written"), NARROWING)
def test_a_value_narrows_neither_bounds_nor_keys_as_a_constant_does(sql: str, written: str) -> None:
    session = connected()
    query = fed_query(session.plan(sql.replace("MAX(k)", "k"), epsilon=1))
    free = session.plan(written.partition(" WHERE")[0] + (" GROUP BY k" if "GROUP" in written else ""), epsilon=1).query
    assert (query.sensitivities, query.question.keys.lists) == (free.sensitivities, free.question.keys.lists)
    narrow = session.plan(written.format("a" if "'" in written else 5), epsilon=1).query  # the twin
    assert (narrow.sensitivities, narrow.question.keys.lists) != (free.sensitivities, free.question.keys.lists)


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.parametrize("value", [None, -1e300, 0.0, 9.5, 1e300])
def test_for_every_value_one_person_moves_the_second_part_as_far_as_is_said(value: float | None) -> None:
    sql = "SELECT k, COUNT(*) AS n, SUM(CASE WHEN x > (SELECT AVG(x) FROM t) THEN x END) AS s FROM t GROUP BY k"
    with connected() as session:
        query = fed_query(session.plan(sql, epsilon=1))
        cells = [_cells(query, frame, value) for frame in (ROWS, ROWS[ROWS.id != 7])]
    for i, sensitivity in enumerate(query.sensitivities):
        moves = [abs(cells[0][key][i] - cells[1][key][i]) for key in cells[0]]
        assert sum(moves) <= sensitivity.l1 and max(moves) <= sensitivity.linf


def _cells(query: Query, frame: pd.DataFrame, value: Any) -> dict[Any, list[int]]:
    from discreet.engine.cells import exact_all

    with connected(frame) as session:
        backend = session._desk.backend
        given: Any = {"secret": 1, "fed_1": value}
        names = ("secret", "fed_1")
        return exact_all(query, lambda text: backend.rows(text, {n: given[n] for n in names if f"${n}" in text}))[0]


def test_a_subquery_that_names_the_table_around_it_is_no_value() -> None:
    with connected() as session, pytest.raises(UnsupportedQuery, match="aggregates over people"):
        session.plan("SELECT COUNT(*) AS n FROM t WHERE x > (SELECT AVG(x) FROM t o WHERE o.k = t.k)", epsilon=1)


def test_everybody_before_the_condition_pays_whatever_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    without_noise(monkeypatch, lambda query, cells: seen.append(cells))
    with connected(per_person=dp.Budget(1)) as session:
        assert session.sql(
            "SELECT COUNT(*) AS n FROM t WHERE k = 'a' AND x > (SELECT 19 * COUNT(*) / COUNT(*) FROM t)", epsilon=1
        ).rows == [(0,)]
        session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1)
        assert seen[-1] == {(): [0]}  # nobody has anything left


def test_groups_by_a_value_are_charged_to_everybody_and_a_part_to_those_before_the_value() -> None:
    keyed = "SELECT x > (SELECT AVG(x) FROM t) AS above, COUNT(*) AS n FROM t GROUP BY above"
    with connected(per_person=dp.Budget(3)) as session:
        assert len(session.sql(keyed, epsilon=1).rows) == 3
        plan = session.plan(
            "SELECT k, COUNT(*) FROM t WHERE x < 3 AND x > (SELECT MIN(x) FROM t) GROUP BY k", epsilon=1
        )
        scope = scope_stages(person_cost.before_results(fed_query(plan)))
        assert "< CAST(3 AS" in scope and "fed_1" not in scope


def test_who_pays_is_never_asked_for_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = "SELECT COUNT(*) FROM (SELECT id, x FROM t WHERE x > (SELECT AVG(x) FROM t)) r"
    with connected(per_person=dp.Budget(1)) as session:
        with pytest.raises(UnsupportedQuery, match="who has a row in this query depends on a result"):
            session.sql(joined, epsilon=1)
        monkeypatch.setattr(person_cost, "before_results", lambda query: bounding(query.question))
        with pytest.raises(InternalError, match="Nothing was charged"):  # the twin reads the value before it is there
            session.sql(ABOVE, epsilon=1)
        assert [type(e.content).__name__ for e in session.history()].count("Charged") == 0


def test_the_second_part_is_read_once_its_value_is_known_and_for_one_value() -> None:
    with connected() as session:
        plan = session.plan(ABOVE, epsilon=1)
        place = plan.measurements.index(fed_query(plan))
        fed: dict[str, Any] = {}

        def read(text: str, keyed: bool) -> list[Any]:
            given = {name: fed[name] for name in parameters_of(text)} | ({"secret": 1} if keyed else {})
            return session._desk.backend.rows(text, given)

        def meter() -> Meter:
            fed.clear()
            return Meter(planned_uses(plan, None, None, fed), read, SystemEntropy())

        with pytest.raises(InternalError, match="The charge stands"):
            meter().draw(Draw(f"{place} column 0", [()]))
        with pytest.raises(InternalError, match="a plain value of its type"):
            meter().draw(Draw("fed_1", 3))
        run = meter()
        run.draw(Draw("fed_1", 9.5))
        assert len(run.draw(Draw(f"{place} column 0", [()]))) == 1
        with pytest.raises(InternalError, match="drawn already"):
            run.draw(Draw("fed_1", 3.5))


def test_a_value_of_another_class_is_not_bound() -> None:
    class Number(float):
        pass

    use, values = FedUse("fed_1", Type.REAL, {}), [True, 1, Number(1), "1"]
    for value in values:
        with pytest.raises(InternalError):
            use.draw(None, value, None)  # type: ignore[arg-type]  # neither is looked at
    assert use.values == {}


def test_certificates_hold_both_parts_and_the_value() -> None:
    with connected() as session:
        release = session.sql(ABOVE, epsilon=1)
        for part in release.parts.values():
            certificate = part.certificate()
            assert check(certificate).ok
            assert any("It reads $fed_1" in reason for reason in certificate["reasons"])
        ledger = certificate["ledger"]["accounts"][0]["release"]
        assert '"fed":[{"real":' in ledger["body"]
        forged = copy.deepcopy(certificate)
        forged["ledger"]["accounts"][0]["release"]["body"] = ledger["body"].replace('"fed":[{', '"led":[{')
        assert not check(forged).ok


SOURCE = PrivateRows("t", frozenset({"id", "x", "k", "day"}), "id")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("TRY_CAST($fed_1 AS DOUBLE)", "$fed_1"),  # of no known type: it may fail
        ("TRY_CAST($fed_1 AS DOUBLE)", "CAST($fed_1 AS DOUBLE)"),
        ("TRY_CAST($fed_1 AS DOUBLE)", "TRY_CAST($secret AS DOUBLE)"),  # rows that follow from the key
        ("$secret", "$fed_1"),  # groups that are kept as a value says
        ("least(n, 2)", "least(n, TRY_CAST($fed_1 AS BIGINT))"),  # caps that a value says
    ],
)
def test_a_text_that_uses_a_value_for_anything_but_a_value_is_refused(before: str, after: str) -> None:
    session = connected(unit=dp.PrivacyUnit("id", max_groups=1, max_rows=2))
    text = fed_query(session.plan(ABOVE.replace("COUNT(*) AS n", "k, COUNT(*) AS n") + " GROUP BY k", epsilon=1)).sql
    assert derive(text, SOURCE).spans
    assert before in text
    with pytest.raises(InternalError):
        derive(text.replace(before, after), SOURCE)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT COUNT(*) FROM t WHERE x > (SELECT AVG(x) FROM t GROUP BY k)", "its result may have several rows"),
        ("SELECT COUNT(*) FROM t WHERE x > (SELECT AVG(x) FROM t WHERE x > (SELECT AVG(x) FROM t))", "depends itself"),
        ("SELECT SUM(x - (SELECT AVG(x) FROM t)) FROM t", "none follow for a value that reads a result"),
        ("SELECT COUNT(*) FROM t WHERE x > (SELECT AVG(x), 1 FROM t)", "something else than one value"),
        ("SELECT COUNT(*) FROM t WHERE x > dp_fed(1, 'DOUBLE')", "There is no function 'dp_fed'"),
        ("SELECT COUNT(*) FROM t WHERE x > (SELECT AVG(x) + dp_fed(1, 'DOUBLE') FROM t)", "no function 'dp_fed'"),
        ("SELECT * FROM t, (SELECT AVG(x) AS a FROM t) m", "A result stands beside people's rows"),
        ("SELECT COUNT(*) FROM t LEFT JOIN (SELECT AVG(x) AS a FROM t) m ON x > a", "A result stands beside"),
        ("SELECT COUNT(*) FROM t, (SELECT AVG(x) AS a FROM t HAVING COUNT(*) > 3) m WHERE x > a", "A result stands"),
        ("SELECT COUNT(*) FROM t, (SELECT AVG(x) AS x FROM t) m WHERE x > m.x", "A result stands beside"),  # whose x?
        ("SELECT x AS a, COUNT(*) FROM t, (SELECT AVG(x) AS a FROM t) m GROUP BY a", "A result stands beside"),
        ("SELECT COUNT(*) FROM t WHERE k IN (SELECT AVG(x) FROM t)", "IN compares VARCHAR with a result of DOUBLE"),
        (
            "SELECT COUNT(*) FROM t WHERE (k, x) IN (SELECT k, COUNT(*) FROM t GROUP BY k)",
            "something else than one value",
        ),
        ("SELECT COUNT(*) FROM t WHERE k IN (SELECT k FROM t o GROUP BY k HAVING COUNT(*) > t.x)", "aggregates over"),
    ],
)
def test_what_is_refused_names_why_and_costs_nothing(sql: str, why: str) -> None:
    with connected() as session:
        with pytest.raises((UnsupportedQuery, UnknownColumn), match=why) as refusal:
            session.sql(sql, epsilon=1)
        assert refusal.value.hint and session.remaining.epsilon == 1000


def test_a_batch_and_two_populations_refuse_it() -> None:
    with connected() as session, pytest.raises(DiscreetError, match="in query 'a'"):
        session.batch({"a": ABOVE, "b": "SELECT COUNT(*) FROM t"}, epsilon=1)
