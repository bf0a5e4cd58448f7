"""Groups of few people are left out: by the owner, by a query, at no further δ."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.errors import InvalidParameter, NotPrivate
from discreet.mechanisms.threshold import Threshold

ROWS = pd.DataFrame({"id": range(600), "k": ["a"] * 300 + ["b"] * 200 + ["c"] * 60 + ["d"] * 40})
SQL = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(min_privacy_units_per_group={}) k, COUNT(*) AS n FROM t GROUP BY k"


def opened(**given: Any) -> dp.Session:
    options: dict[str, Any] = {
        "unit": dp.PrivacyUnit("id", max_contributions=1),
        "budget": dp.Budget(1000, "1e-1", per_query=100),
        "population": "p",
        "ledger": ":memory:",
    }
    return dp.connect({"t": ROWS}, **{**options, **given})


def shown(session: dp.Session, sql: str = SQL, **asked: Any) -> list[str]:
    release = session.sql(sql, epsilon=50, delta="1e-4", **asked)
    assert release.charged.delta in (0, Fraction(1, 10**4))  # 0 where it is answered from the ledger
    release.certificate()
    return [k for k, _ in release.rows]


def test_a_query_raises_what_the_owner_says_and_never_lowers_it() -> None:
    with opened() as session:
        assert shown(session) == ["a", "b", "c", "d"]
        assert shown(session, min_people=100) == ["a", "b"]
        assert shown(session, CLAUSE.format(100), dialect="bigquery") == ["a", "b"]
        assert "none of fewer than 100" in session.plan(SQL, epsilon=1, delta="1e-4", min_people=100).explain()
    with opened(min_people=250) as session:
        assert shown(session) == shown(session, min_people=2) == ["a"]
        assert shown(session, CLAUSE.format(5), dialect="bigquery") == ["a"]
        assert shown(session, min_people=290) == ["a"]
        assert shown(session, min_people=310) == []
        assert len(session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1).rows) == 1


def test_declared_groups_are_selected_too_and_need_a_delta() -> None:
    with opened(columns={"k": dp.Values("a", "c", "e")}, min_people=80) as session:
        with pytest.raises(NotPrivate, match="Groups of fewer than 80 people are left out"):
            session.sql(SQL, epsilon=1)
        assert shown(session) == ["a"]
        identity = session.plan(SQL, epsilon=1, delta="1e-4").query.identity
        assert session.plan(SQL, epsilon=1, delta="1e-4", min_people=90).query.identity != identity
    keys = dp.Keys({"k": ["a", "c"], "id": [1, 2]})
    with opened(keys=keys, min_people=2) as session:
        plan = session.plan("SELECT k, id > 5 AS x, COUNT(*) AS n FROM t GROUP BY 1, 2", epsilon=1, delta="1e-4")
        assert plan.query.question.keys.lists is None


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "3"])
def test_what_is_no_number_of_people_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidParameter):
        opened(min_people=wrong)
    with opened() as session, pytest.raises(InvalidParameter):
        session.plan(SQL, epsilon=1, delta="1e-4", min_people=wrong)
    if wrong not in (True, "3"):
        with opened() as session, pytest.raises(InvalidParameter):
            session.plan(CLAUSE.format(wrong), epsilon=1, delta="1e-4", dialect="bigquery")


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("least", [1, 2, 7])
def test_chances_of_neighbours_differ_as_the_promise_allows(relation: str, least: int) -> None:
    """All pairs of neighbouring counts, by enclosures of the chances: each group has its part of ε and δ."""
    rule = Threshold("0.7", "1e-3", max_groups=2, relation=relation, min_people=least)
    epsilon, delta = rule.per_group
    factor = Fraction(str(2.718281828459045 ** float(epsilon))) + Fraction(1, 10**12)
    chances = [rule.enclosure(n, 80) for n in range(60)]
    assert all(high == 0 for _, high in chances[:least])
    assert chances[least][0] > 0
    assert chances[least:] == [
        Threshold("0.7", "1e-3", 2, relation=relation).enclosure(n, 80) for n in range(1, 61 - least)
    ]
    for (low, high), (other_low, other_high) in product(chances, repeat=2):
        if abs(chances.index((low, high)) - chances.index((other_low, other_high))) == 1:
            assert low <= factor * other_high + delta
            assert 1 - high <= factor * (1 - other_low) + delta
