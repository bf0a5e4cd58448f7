"""All facts that a query lacks are named in one message, and a query without ε is told what three values would give."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import discreet as dp
from discreet.errors import MissingBounds, NotPrivate, UnsupportedQuery

VISITS = pl.DataFrame({"uid": [1, 2], "ward": ["a", "b"], "cost": [1.0, 2.0], "day": [1, 2]})
WARDS = "SELECT ward, AVG(cost) AS cost, COUNT(*) AS n FROM visits GROUP BY ward"


def session(**options: Any) -> dp.Session:
    unit = dp.PrivacyUnit("uid", max_groups=1, max_rows=2)
    return dp.connect({"visits": VISITS}, **{"unit": unit, "budget": dp.Budget(3), "ledger": ":memory:", **options})


def missing(error: pytest.ExceptionInfo[dp.errors.DiscreetError]) -> list[tuple[str, str]]:
    return [(fact.kind, fact.say) for fact in error.value.missing]


def test_connecting_names_the_unit_and_the_budget_together() -> None:
    with pytest.raises(MissingBounds) as caught:
        dp.connect({"visits": VISITS}, ledger=":memory:")
    assert caught.value.message == "2 public facts are missing: who is protected; the privacy budget of 'visits'."
    assert caught.value.hint == (
        "add unit=dp.PrivacyUnit('COLUMN', max_groups=3, max_rows=10) (or unit=dp.PrivacyUnit.row() where each row is "
        "a person); budget=dp.Budget(epsilon=3)"
    )


def test_unknown_columns_come_before_caps_and_budget() -> None:
    with pytest.raises(dp.errors.UnknownColumn, match="The unit's column 'row' is not in table"):
        dp.connect({"visits": VISITS}, unit="row", ledger=":memory:")
    with pytest.raises(dp.errors.UnknownColumn, match="perhaps cost is meant"):
        dp.connect({"visits": VISITS}, unit="uid", columns={"costs": dp.Range(0, 1)}, ledger=":memory:")
    with pytest.raises(MissingBounds) as caught:
        dp.connect({"visits": VISITS}, unit=dp.PrivacyUnit("uid", max_groups=2), ledger=":memory:")
    assert missing(caught) == [
        ("caps", "unit=dp.PrivacyUnit('uid', max_groups=2, max_rows=10)"),
        ("budget", "budget=dp.Budget(epsilon=3)"),
    ]


def test_a_query_names_bounds_groups_and_epsilon_together() -> None:
    with session() as s:
        with pytest.raises(MissingBounds) as caught:
            s.sql(WARDS)
        assert caught.value.message == (
            "3 public facts are missing: the bounds of 'cost'; the groups of 'ward'; ε, the privacy cost of the query."
        )
        assert caught.value.hint == (
            "add columns={'cost': dp.Range(LOW, HIGH), 'ward': dp.Values('A', 'B')}; epsilon=0.5"
        )
        with pytest.raises(MissingBounds) as caught:
            s.plan(WARDS, error={"n": 5})
        assert [kind for kind, _ in missing(caught)] == ["range", "groups"]
        with pytest.raises(MissingBounds, match=r"^SUM, AVG and the like need the bounds of 'cost'"):
            s.plan("SELECT AVG(cost) AS c FROM visits", epsilon=1)


def test_groups_are_named_and_a_delta_is_offered_where_the_account_has_one() -> None:
    with session(budget=dp.Budget(3, 1e-6)) as s:
        with pytest.raises(NotPrivate) as caught:
            s.sql("SELECT ward, day, COUNT(*) AS n FROM visits GROUP BY ward, day", epsilon=1)
        keys = "columns={'ward': dp.Values('A', 'B'), 'day': dp.Values('A', 'B')}"
        assert caught.value.hint == f"add delta=1e-07; or {keys}"
    with session(budget=dp.Budget(3, 1e-9)) as s:
        with pytest.raises(NotPrivate) as caught:
            s.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=1)
        assert missing(caught) == [("groups", "delta=1e-09")]


def test_the_facts_that_are_named_are_enough() -> None:
    facts = {"cost": dp.Range(0, 9), "ward": dp.Values("a", "b")}
    with session(columns=facts) as s:
        assert len(s.sql(WARDS, epsilon="0.5").rows) == 2


def test_what_no_fact_averts_comes_first() -> None:
    with session() as s:
        with pytest.raises(UnsupportedQuery):
            s.sql("SELECT ward, AVG(cost), STRING_AGG(ward) FROM visits GROUP BY ward")
        joined = "SELECT a.ward, AVG(a.cost) AS c FROM visits a JOIN visits b USING (uid) GROUP BY a.ward"
        with pytest.raises(MissingBounds) as caught:
            s.sql(joined, epsilon=1)
        assert next(kind for kind, _ in missing(caught)) == "range"


def test_an_answerable_query_without_epsilon_is_told_three_prices() -> None:
    with session(columns={"cost": dp.Range(0, 9)}) as s:
        with pytest.raises(dp.errors.InvalidParameter) as caught:
            s.sql("SELECT AVG(cost) AS cost, COUNT(*) AS n FROM visits")
        assert caught.value.message.count("epsilon=") == 4
        for epsilon in ("0.1", "0.5", "1"):
            plan = s.plan("SELECT AVG(cost) AS cost, COUNT(*) AS n FROM visits", epsilon=epsilon)
            assert f"epsilon={epsilon} gives cost ± {plan.error('cost', assuming={'rows': 10_000}):.3g} over" in str(
                caught.value
            )
            assert f"n ± {plan.error('n'):.3g}" in str(caught.value)
        assert caught.value.hint == "add epsilon=0.5; or error={'n': 50} for the least ε that gives this error"
        assert s.spent.epsilon(delta=0) == 0


def test_prices_are_what_the_account_has_left() -> None:
    with session(budget=dp.Budget("0.2")) as s, pytest.raises(dp.errors.InvalidParameter) as caught:
        s.sql("SELECT COUNT(*) AS n FROM visits")
    assert [word for word in ("epsilon=0.02 ", "epsilon=0.1 ", "epsilon=0.2 ") if word not in str(caught.value)] == []


def test_sql_plans_and_asks_at_the_least_epsilon_for_an_error() -> None:
    with session() as s:
        counted = "SELECT COUNT(*) AS n FROM visits"
        wanted = s.plan(counted, error={"n": 40}).epsilon
        release = s.sql(counted, error={"n": 40})
        assert release.charged.epsilon == wanted
        with pytest.raises(dp.errors.InvalidParameter, match="cannot both be given"):
            s.sql(counted, epsilon=1, error={"n": 40})
        with pytest.raises(dp.errors.InvalidParameter, match="assuming goes with error"):
            s.sql(counted, epsilon=1, assuming={"n": 40})


def test_a_batch_names_what_all_of_its_queries_lack() -> None:
    questions = {"a": WARDS, "b": "SELECT SUM(day) AS d, AVG(cost) AS c FROM visits"}
    with session() as s:
        with pytest.raises(MissingBounds) as caught:
            s.batch(questions)
        assert sorted(kind for kind, _ in missing(caught)) == ["epsilon", "groups", "range", "range"]
        assert caught.value.hint == (
            "add columns={'day': dp.Range(LOW, HIGH), 'cost': dp.Range(LOW, HIGH), 'ward': dp.Values('A', 'B')}; "
            "epsilon=0.5"
        )
        with pytest.raises(MissingBounds, match="3 public facts are missing"):
            s.batch(questions, epsilon=1)
        with pytest.raises(MissingBounds, match=r"need the bounds of 'day'"):
            s.batch({"a": "SELECT SUM(day) AS d FROM visits"}, epsilon=1)
        with pytest.raises(dp.errors.InvalidParameter, match="A query needs epsilon="):
            s.batch({"a": "SELECT COUNT(*) AS n FROM visits"})


def test_a_query_of_two_populations_names_all_that_it_lacks() -> None:
    rows = pl.DataFrame({"p": [1, 2], "d": [1, 2], "ward": ["a", "b"], "cost": [1.0, 2.0]})
    units = {"patients": dp.PrivacyUnit("p", max_rows=2), "doctors": dp.PrivacyUnit("d", max_rows=2)}
    query = "SELECT ward, SUM(cost) AS cost FROM visits GROUP BY ward"
    budget = {name: dp.Budget(3) for name in units}
    with dp.connect_both({"visits": rows}, units=units, budget=budget, ledger=":memory:") as s:
        with pytest.raises(MissingBounds) as caught:
            s.sql(query)
        assert caught.value.message.startswith(
            "3 public facts are missing: the bounds of 'cost'; the groups of 'ward'; "
        )
        assert caught.value.missing[-1].kind == "epsilon"
        with pytest.raises(MissingBounds, match="2 public facts are missing: the bounds of 'cost'"):
            s.sql(query, epsilon=1)
        with pytest.raises(dp.errors.InvalidParameter, match="A query needs epsilon="):
            s.sql("SELECT COUNT(*) AS n FROM visits")
