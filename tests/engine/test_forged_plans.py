"""A recipe of one's own whose plan lies is refused before anything is read or charged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from benchmarks.chosen_ranges import stages_of
from discreet.engine.session import Session
from discreet.engine.sql_recipe import Questions
from discreet.errors import DiscreetError
from discreet.plan.plan import Plan
from discreet.privacy.event import Composed
from discreet.privacy.guarantee import Approximate

FRAME = pd.DataFrame({"uid": [1, 2, 3, 4], "doctor": [1, 1, 2, 2], "x": [1, 2, 3, 4], "g": ["a", "b", "a", "b"]})
FACTS: dict[str, Any] = {"x": dp.Range(0, 10), "g": dp.Values("a", "b")}
COUNT = "SELECT COUNT(*) AS n FROM t"
UNIT = dp.PrivacyUnit("uid", max_groups=1, max_rows=2)


@dataclass(frozen=True, slots=True)
class Own(Questions):
    """The package's own recipe by another name, so that its plan is verified anew."""


def one(**options: Any) -> Session:
    asked: dict[str, Any] = {"unit": UNIT, "budget": dp.Budget(10), "population": "p"}
    return dp.connect({"t": FRAME}, columns=FACTS, ledger=":memory:", **{**asked, **options})


def both() -> Session:
    units = {"patients": dp.PrivacyUnit("uid", max_rows=2), "doctors": dp.PrivacyUnit("doctor", max_rows=3)}
    budgets = {"patients": dp.Budget(10), "doctors": dp.Budget(10)}
    return dp.connect_both({"t": FRAME}, columns=FACTS, units=units, budget=budgets, ledger=":memory:")


def spent(session: Session) -> list[int]:
    return [len([e for e in a.history() if type(e.content).__name__ == "Charged"]) for a in session.accounts.values()]


def refused(session: Session, plan: Plan, monkeypatch: pytest.MonkeyPatch, own: type[Questions] = Own) -> None:
    read: list[str] = []
    backend = type(session._desk.backend)
    monkeypatch.setattr(backend, "rows", lambda self, text, *rest: read.append(text))
    with pytest.raises(DiscreetError):
        session.perform(own(lambda tables, part: plan), trusted_code=True)
    assert (spent(session), read) == ([0] * len(session.accounts), [])


def test_payers_of_two_populations_who_pay_less(monkeypatch: pytest.MonkeyPatch) -> None:
    session = both()
    plan = session.plan(COUNT, epsilon=1)
    tiny = replace(plan.payers[1], events=Composed(), guarantee=Approximate(Fraction(1, 10**6)))
    refused(session, replace(plan, payers=(plan.payers[0], tiny)), monkeypatch)


def test_a_plan_of_one_unit_that_two_populations_pay_for(monkeypatch: pytest.MonkeyPatch) -> None:
    session = both()
    plan = one().plan(COUNT, epsilon=5)
    tiny = Approximate(Fraction(1, 10**6))
    payers = (
        replace(plan.payers[0], population="patients"),
        replace(plan.payers[0], population="doctors", events=Composed(), guarantee=tiny),
    )
    refused(session, replace(plan, payers=payers), monkeypatch)


@pytest.mark.parametrize(
    "payers", [lambda p: replace(p, events=Composed()), lambda p: replace(p, guarantee=Approximate(Fraction(1, 99)))]
)
def test_one_payer_who_pays_less(payers: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    session = one()
    plan = session.plan(COUNT, epsilon=1)
    refused(session, replace(plan, payers=(payers(plan.payers[0]),)), monkeypatch)


def test_noise_for_another_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    session = one()
    plan, other = session.plan(COUNT, epsilon=1), session.plan(COUNT, epsilon=9)
    query = replace(plan.query, allocation=replace(plan.query.allocation, noises=other.query.allocation.noises))
    refused(session, replace(plan, measurements=(query,)), monkeypatch)


def test_looks_beside_several_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first measurement is in the claim of a plan with looks; all of them would be drawn."""
    session = one()
    staged = session.plan(COUNT, epsilon=1, bounds="auto")
    other = session.plan("SELECT SUM(x) AS s FROM t", epsilon=9)
    left = stages_of(staged).last
    forged = replace(staged, measurements=(left, other.query), stages=None)
    refused(session, forged, monkeypatch)


def test_a_unit_that_is_not_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    session = one(unit=dp.PrivacyUnit("doctor", max_groups=1, max_rows=2))
    refused(session, one().plan(COUNT, epsilon=1), monkeypatch)


def test_neighbours_that_are_not_the_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    session = one(relation="replace")
    refused(session, one().plan(COUNT, epsilon=1), monkeypatch)


def test_a_look_at_more_people_than_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    session = one(per_person=dp.Budget(2), budget=None)
    plan = session.plan(COUNT, epsilon=1, bounds="auto")
    few: Any = stages_of(session.plan(f"{COUNT} WHERE x > 3", epsilon=1, bounds="auto"))
    stages = replace(few, of_caps=stages_of(plan).of_caps)
    refused(session, replace(plan, stages=stages, measurements=(few.last,)), monkeypatch)


@pytest.mark.parametrize("sql", [COUNT, "SELECT MEDIAN(x) AS n FROM t", "SELECT COUNT(DISTINCT x) AS n FROM t"])
def test_a_query_of_more_people_than_pay(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = one(per_person=dp.Budget(2), budget=None)
    plan, few = session.plan(sql, epsilon=1), session.plan(f"{sql} WHERE x > 3", epsilon=1)
    forged = replace(plan, measurements=(replace(plan.query, question=few.query.question),))
    refused(session, forged, monkeypatch)


def test_counts_outside_a_range_with_less_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    session = dp.connect({"t": FRAME}, unit=UNIT, budget=dp.Budget(10), population="p", ledger=":memory:")
    plan = session.plan("SELECT SUM(x) AS s FROM t", epsilon=1, bounds="values")
    stages: Any = stages_of(plan)
    exact = replace(stages.of_values.outside, scale=Fraction(1, 1000))
    forged = replace(plan, stages=replace(stages, of_values=replace(stages.of_values, outside=exact)))
    refused(session, forged, monkeypatch)


def test_an_honest_plan_is_performed() -> None:
    session = one()
    plan = session.plan(COUNT, epsilon=1)
    assert session.perform(Own(lambda tables, part: plan), trusted_code=True)[""].columns == ["n"]
    grouped = session.plan("SELECT g, AVG(x) AS a FROM t GROUP BY g", epsilon=1)
    assert len(session.perform(Own(lambda tables, part: grouped), trusted_code=True)[""].rows) == 2
