"""Recipes of somebody else: verified anew, charged what their events cost, and told noisy values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.catalog.schema import TableSchema
from discreet.engine.cells import measured, uses_of
from discreet.engine.meter import Meter
from discreet.engine.recipe import Draw, Receipt, Running
from discreet.engine.session import Session
from discreet.engine.sql_recipe import Questions
from discreet.errors import InternalError, InvalidParameter
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.noise.entropy import SystemEntropy
from discreet.plan.plan import Payer, Plan, alone
from discreet.plan.planner import make_query
from discreet.privacy.event import Composed
from discreet.privacy.guarantee import Approximate
from tests.plan.tables import planned

FRAME = pd.DataFrame({"who": [i // 2 for i in range(200)], "ward": ["a", "b"] * 100})
SQL = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


@dataclass(frozen=True)
class Totals:
    """A recipe: the noisy number of rows of each ward, and their sum."""

    epsilon: Fraction = Fraction(1)

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        query = make_query(SQL, tables, population="p", version=None, epsilon=self.epsilon * part)
        return alone(query, "p")

    def run(self, plan: Plan) -> Running[dict[str, Any]]:
        table = yield from measured(plan.query, "0 ")
        return {"n": [n for (n,) in table.cells]}

    def settled(self, plan: Plan, state: dict[str, Any]) -> Plan:
        return plan

    def keep(self, state: dict[str, Any]) -> dict[str, Any]:
        return state

    def restore(self, plan: Plan, kept: dict[str, Any]) -> dict[str, Any]:
        return {"n": kept["n"]}

    def build(self, plan: Plan, state: dict[str, Any], receipt: Receipt) -> tuple[int, bool]:
        return sum(state["n"]), receipt.stored

    def answers(self, plan: Plan, state: dict[str, Any], result: Any) -> dict[str, dict[str, Any]]:
        return {"": {"total": result[0]}}


def session() -> Session:
    return dp.connect(
        {"visits": FRAME},
        unit=dp.PrivacyUnit("who", max_groups=2, max_rows=2),
        columns={"ward": dp.Values("a", "b")},
        budget=dp.Budget(10, "1e-6"),
        population="p",
        ledger=":memory:",
    )


def test_a_recipe_of_ones_own_is_charged_once_and_then_answered_from_the_ledger() -> None:
    with session() as s:
        total, stored = s.perform(Totals(), trusted_code=True)
        assert abs(total - 200) < 400 and not stored
        assert s.perform(Totals(), trusted_code=True) == (total, True)
        assert s.remaining.epsilon == 9
        assert not s.sql(SQL, epsilon=1).stored  # its state is no answer to the question that it was made of


def test_it_needs_the_owners_word() -> None:
    with session() as s:
        for recipe in (Totals(), Questions(lambda tables, part: Totals().plan(tables))):
            with pytest.raises(InvalidParameter, match="recipe of your own"):
                s.perform(recipe)  # type: ignore[misc]  # recipes of two kinds
        assert s.history() == []


@dataclass(frozen=True)
class Forged(Totals):
    """The same with another plan."""

    slip: Any = None

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        found: Plan = self.slip(super().plan(tables, part))
        return found


def cheaper(plan: Plan) -> Plan:
    return replace(plan, payers=(replace(plan.payers[0], guarantee=Approximate(Fraction(1, 100))),))


def eventless(plan: Plan) -> Plan:
    return replace(plan, payers=(Payer("p", Composed(), Approximate(Fraction(0))),))


def quieter(plan: Plan) -> Plan:
    a = plan.query.allocation
    noises = tuple(DiscreteLaplaceNoise(z.scale / 10) for z in a.noises if isinstance(z, DiscreteLaplaceNoise))
    return replace(plan, measurements=(replace(plan.query, allocation=replace(a, noises=noises)),))


def other_text(plan: Plan) -> Plan:
    text = plan.query.sql.replace("least(n, 2)", "n")
    assert text != plan.query.sql
    return replace(plan, measurements=(replace(plan.query, sql=text),))


def others_pay(plan: Plan) -> Plan:
    return replace(plan, payers=(replace(plan.payers[0], population="q"),))


@pytest.mark.parametrize("slip", [cheaper, eventless, quieter, other_text, others_pay])
def test_a_plan_that_lies_is_refused_before_anything_is_charged(slip: Any) -> None:
    with session() as s:
        with pytest.raises(InternalError):
            s.perform(Forged(slip=slip), trusted_code=True)
        assert s.history() == []


def test_a_plan_of_another_class_is_refused() -> None:
    class Mine(Plan):
        """A plan with a claim of its own."""

    def mine(plan: Plan) -> Plan:
        return Mine(plan.identity, plan.measurements, plan.outputs, plan.payers)

    with session() as s, pytest.raises(InvalidParameter, match="plans private parts"):
        s.perform(Forged(slip=mine), trusted_code=True)


class Spy:
    """A key that would be compared with the exact ones."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def __hash__(self) -> int:
        return hash(("north",))

    def __eq__(self, other: object) -> bool:
        self.seen.append(other)
        return True


@pytest.mark.parametrize("use", ["column 0", "tree 0"])
def test_a_group_is_drawn_once_and_private_keys_meet_no_code(use: str) -> None:
    query = planned("SELECT region, COUNT(*) AS n, MEDIAN(amount) AS m FROM visits GROUP BY region")

    def meter() -> Meter:
        return Meter(uses_of(query), lambda text, keyed: [(0, 3, "41")], SystemEntropy())

    spy = Spy()
    inside: Any = (spy,)
    for keys in ([("north",)] * 2, [spy], [inside], spy, {("north",): 1}, [(True,), (1,)]):
        with pytest.raises(InternalError, match="each group once"):
            meter().draw(Draw(use, keys))
    assert spy.seen == []
    assert meter().draw(Draw(use, [("north",), ("south",)]))
