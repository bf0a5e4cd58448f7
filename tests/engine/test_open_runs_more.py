"""Runs that stay open, further: filters, budgets of people, forged plans, copies, and what a session keeps of them."""

from __future__ import annotations

import copy
import json
import multiprocessing
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.accounting.filter import Charge
from discreet.engine.cells import measured
from discreet.engine.session import Session
from discreet.errors import BudgetExceeded, InternalError, InvalidParameter
from discreet.ledger.entry import Charged, Entry
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.sparse_vector import SparseVector
from discreet.plan.plan import alone
from discreet.plan.planner import make_query
from discreet.privacy.event import ApproximateEvent, Composed, GaussianEvent
from discreet.recipes import (
    AboveOrBelow,
    AddedNoise,
    Draw,
    OpenRun,
    PeopleRows,
    PersonRecipe,
    Plan,
    PoissonSampling,
    Running,
    Sensitivity,
    TableSchema,
    Wait,
    person_part,
    person_rows,
    plan_recipe,
)
from discreet.verify.certificate.checker import check

PEOPLE = 300
AGES = np.arange(PEOPLE) % 100


def session(frame: Any = None, **given: Any) -> Session:
    given = {"budget": dp.Budget(5000, "1e-3", per_query=5000), **given}
    return dp.connect(
        {"t": pd.DataFrame({"who": np.arange(PEOPLE), "age": AGES}) if frame is None else frame},
        unit=dp.PrivacyUnit("who", max_groups=1, max_rows=1),
        columns={"age": dp.Range(0, 99, integer=True)},
        population="p",
        ledger=":memory:",
        **given,
    )


LAPLACE = AddedNoise(DiscreteLaplaceNoise(Fraction(1, 50)))
GAUSSIAN = AddedNoise(RoundedGaussianNoise(Fraction(1, 8)))


@dataclass(frozen=True)
class Counts(PersonRecipe):
    """How many people are below each age that is asked, as often as was paid for."""

    law: Any = LAPLACE
    times: int = 3
    keeps: bool = True
    sampling: Any = None
    delta: str = "0"

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        rows = person_rows("SELECT age FROM t", tables)
        found = person_part(
            "below", rows, width=1, norms=Sensitivity(1, 1), times=self.times, law=self.law, sampling=self.sampling
        )
        return plan_recipe([found], delta=self.delta)

    def run(self, plan: Plan) -> Running[Any]:
        seen: list[Any] = []
        for _ in range(self.times):
            age = yield Wait(list(seen) if self.keeps else None)
            seen.append([age, (yield Draw("below", age))])
        return seen

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["age", "people"], [[age, noisy] for age, noisy in state]

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return (people.matrix < args).astype(np.int64)


def paid(entry: Entry) -> Charge:
    assert isinstance(entry.content, Charged)
    return entry.content.charge


def rows_of(run: OpenRun[Any, Any]) -> Any:
    """The rows of what the recipe made of its state."""
    assert run.result is not None
    return run.result.rows


def below(run: OpenRun[Any, Any], age: int) -> int:
    ((found,),) = run.ask(age)
    return int(found)


def test_inputs_are_answered_and_charged_once() -> None:
    with session() as s:
        with s.open(Counts(), trusted_code=True) as run:
            spent = s.spent.epsilon("1e-6")
            assert spent == pytest.approx(150)  # three draws of ε = 50, before the first
            assert run.first == [] and run.is_open and run.result is None
            assert below(run, 10) == 30
            assert s.sql("SELECT COUNT(*) AS n FROM t", epsilon=100).rows[0][0] == PEOPLE  # others, meanwhile
            assert below(run, 50) == 150
            assert below(run, 100) == PEOPLE  # and now it returns
            assert not run.is_open
            assert rows_of(run) == [(10, [30]), (50, [150]), (100, [300])]
            with pytest.raises(InvalidParameter, match="takes no input any more"):
                run.ask(3)
        assert s.spent.epsilon("1e-6") == pytest.approx(250)
        assert rows_of(run)[0] == (10, [30])


def test_the_same_recipe_is_charged_again_and_never_found() -> None:
    with session() as s:
        for n in (1, 2):
            run = s.open(Counts(), trusted_code=True)
            assert s.spent.epsilon("1e-6") == pytest.approx(150 * n)
            for age in (1, 2, 3):
                run.ask(age)
        charges = [e for e in s.history() if "sql" in e.note]
        assert [e.note["open"] for e in charges] == [True, True]
        assert charges[0].content.key != charges[1].content.key


@pytest.mark.parametrize("rule", ["basic", "zcdp", "gdp", "renyi"])
def test_a_run_is_charged_as_one_event(rule: str) -> None:
    with session(budget=dp.Budget(10**5, "1e-3", per_query=10**5), filter=rule) as s:
        s.open(Counts(law=GAUSSIAN, delta="1e-6"), trusted_code=True)
        charge = next(paid(e) for e in s.history() if e.note.get("open"))
        assert charge.events == Composed([GaussianEvent(Fraction(3 * 64))])
        if rule == "gdp":
            with pytest.raises(InvalidParameter):
                s.open(Counts(), trusted_code=True)
            return
        s.open(Counts(), trusted_code=True)
        charge = [paid(e) for e in s.history() if e.note.get("open")][-1]
        assert charge.events == Composed([ApproximateEvent(Fraction(150), charge.guarantee.delta)])


def test_a_run_without_mu_is_charged_by_its_epsilon_and_delta() -> None:
    sampled = Counts(law=GAUSSIAN, delta="1e-6", sampling=PoissonSampling(Fraction(1, 2)))
    with session() as s:
        s.open(sampled, trusted_code=True)
        charge = next(paid(e) for e in s.history() if e.note.get("open"))
        g = charge.guarantee
        assert charge.events == Composed([ApproximateEvent(g.epsilon, g.delta)]) and g.delta > 0


@pytest.mark.parametrize("change", [{"open": False}, {"parts": 9}, {"charged": 9}])
def test_its_certificate_is_verified_and_says_that_it_stayed_open(change: dict[str, Any]) -> None:
    with session() as s:
        run = s.open(Counts(), trusted_code=True)
        run.ask(7)
        run.close()
        result = run.result
        assert result is not None
        document = json.loads(json.dumps(result.certificate()))
        verdict = check(document, s._ledger.export())
        assert verdict.broken is None, verdict.reason
        assert "stays open for inputs" in document["reasons"][0]
        if "parts" in change:
            document["claim"]["parts"][0]["times"] = 9
        elif "charged" in change:
            document["claim"]["charged"]["events"] = document["claim"]["measured"]["events"]
        else:
            document["claim"] |= change
        assert check(document).broken is not None


def test_closing_keeps_the_state_of_the_last_wait() -> None:
    with session() as s:
        run = s.open(Counts(), trusted_code=True)
        run.ask(10)
        run.close()
        run.close()
        assert rows_of(run) == [(10, [30])]
        without = s.open(Counts(keeps=False), trusted_code=True)
        without.ask(10)
        without.close()
        assert without.result is None
        with pytest.raises(InvalidParameter, match="closed"):
            without.ask(11)


def test_a_session_closes_what_it_opened(tmp_path: Any) -> None:
    s = session()
    run = s.open(Counts(), trusted_code=True)
    run.ask(10)
    s.close()
    assert not run.is_open and rows_of(run) == [(10, [30])]


def test_rows_are_read_when_it_opens() -> None:
    with session() as s:
        run = s.open(Counts(), trusted_code=True)
        s._desk.backend.close()
        assert [below(run, age) for age in (10, 20)] == [30, 60]


@dataclass(frozen=True)
class OfQuery(Counts):
    """How many people there are, their median age, and truncation reports, when it is asked."""

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        sql = "SELECT COUNT(*) AS n, MEDIAN(age) AS m FROM t"
        given: dict[str, Any] = {"epsilon": Fraction(300), "truncation": Fraction(1, 3)}
        return alone(make_query(sql, tables, population="p", version=None, **given), "p")

    def run(self, plan: Plan) -> Running[Any]:
        yield Wait()
        found = yield from measured(plan.query, "0 ")
        return [[n, 0] for (n,) in found.cells]


def test_what_a_query_needs_is_read_when_it_opens() -> None:
    with session() as s:
        run = s.open(OfQuery(), trusted_code=True)
        s._desk.backend.close()
        reports, (count, *_), _ = run.ask()
        assert abs(count - PEOPLE) < 5 and len(reports) > 2
        assert run.result is not None and not run.is_open


def test_people_who_cannot_pay_are_left_out_of_all_of_it() -> None:
    each = dp.Budget(200, per_query=200)
    with session(budget=None, per_person=each) as s:
        with s.open(Counts(), trusted_code=True) as run:
            assert [below(run, age) for age in (10, 20)] == [30, 60]
        with s.open(Counts(), trusted_code=True) as run:
            assert [below(run, age) for age in (10, 20)] == [0, 0]


def test_the_end_of_a_sparse_vector_is_a_result() -> None:
    @dataclass(frozen=True)
    class Large(Counts):
        """Which counts are above 100, for ever."""

        def run(self, plan: Plan) -> Running[Any]:
            while True:
                yield Draw("below", (yield Wait()))

    law = AboveOrBelow(SparseVector(epsilon=100, threshold=100, cutoff=2))
    with session() as s, s.open(Large(law=law, times=10**6), trusted_code=True) as run:
        assert [run.ask(age) for age in (5, 60, 5, 70, 80, 5)] == [[False], [True], [False], [True], [None], [None]]
        assert s.spent.epsilon("1e-6") == pytest.approx(100)
        assert run.is_open


def test_draws_beyond_the_price_close_it() -> None:
    @dataclass(frozen=True)
    class Greedy(Counts):
        """Draws twice for each input."""

        def run(self, plan: Plan) -> Running[Any]:
            yield Draw("below", 1)
            while True:
                age = yield Wait()
                yield Draw("below", age)
                yield Draw("below", age)

    with session() as s:
        run = s.open(Greedy(), trusted_code=True)
        assert len(run.first) == 1 and len(run.ask(3)) == 2
        with pytest.raises(InternalError, match="drawn already"):
            run.ask(3)
        with pytest.raises(InvalidParameter, match="closed"):
            run.ask(3)
        assert s.spent.epsilon("1e-6") == pytest.approx(150)


@pytest.mark.parametrize("given", [object(), {1, 2}, np.array([object()])])
def test_inputs_are_plain_and_copied(given: Any) -> None:
    held: list[Any] = []

    @dataclass(frozen=True)
    class Looks(Counts):
        """Keeps what it is sent."""

        def run(self, plan: Plan) -> Running[Any]:
            while True:
                held.append((yield Wait()))
                held.append((yield Draw("below", 50)))

    with session() as s, s.open(Looks(), trusted_code=True) as run:
        with pytest.raises(InternalError, match="plain values"):
            run.ask(given)
        own = np.ones(2)
        (noisy,) = run.ask(own)
        noisy[0] = own[0] = 9
        assert held[0].tolist() == [1, 1] and held[1].tolist() == [150]


def test_what_fails_says_nothing_and_closes_it() -> None:
    class Tells(Counts):
        """Fails with words of the data, later."""

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            if args == 2:
                raise ValueError(f"a secret: {people.matrix}")
            return super().each(people, of, args)

    with session() as s:
        run = s.open(Tells(), trusted_code=True)
        run.ask(1)
        with pytest.raises(InternalError, match="code for people's rows failed") as raised:
            run.ask(2)
        assert raised.value.__cause__ is None and raised.value.__context__ is None
        assert not run.is_open and run.result is None


def test_it_is_never_pickled_or_copied() -> None:
    with session() as s:
        run = s.open(Counts(), trusted_code=True)
        for work in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="not pickled"):
                work(run)
        assert repr(run) == "OpenRun(waits for an input)"


def in_child(run: OpenRun[Any, Any], found: Any) -> None:
    try:
        run.ask(10)
    except InvalidParameter as error:
        run.close()
        found.put(error.message)


def test_a_forked_child_cannot_ask() -> None:
    fork = multiprocessing.get_context("fork")
    with session() as s:
        run = s.open(Counts(), trusted_code=True)
        found = fork.Queue()
        child = fork.Process(target=in_child, args=(run, found))
        child.start()
        assert "takes no input" in found.get(timeout=30)
        child.join()
        assert below(run, 10) == 30


def test_what_cannot_be_opened_is_refused_before_the_charge() -> None:
    with session(budget=dp.Budget(500, per_query=5000)) as s:
        with pytest.raises(InvalidParameter, match="beside the data"):
            s.open(Counts())
        with pytest.raises(BudgetExceeded):
            s.open(Counts(times=11), trusted_code=True)
        assert s.history() == []
        with pytest.raises(InternalError, match="waits for inputs"):
            s.perform(Counts(), trusted_code=True)


def test_a_plan_that_says_less_than_its_draws_is_refused() -> None:
    cheap = Composed([ApproximateEvent(Fraction(1))])

    class Forged(Counts):
        """Says that its draws cost an ε of 1."""

        def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
            plan = super().plan(tables, part)
            return replace(plan, payers=(replace(plan.payers[0], events=cheap),))

    class Named(Counts):
        """Names its own whole."""

        def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
            plan = super().plan(tables, part)
            payer = replace(plan.payers[0], events=cheap)
            return replace(plan, draws=plan.payers[0].events, payers=(payer,))

    with session() as s:
        with pytest.raises(InternalError):
            s.open(Forged(), trusted_code=True)
        for work in (s.open, s.perform):
            with pytest.raises(InternalError):
                work(Named(), trusted_code=True)
        assert s.history() == []


def test_a_session_keeps_no_run_that_is_closed() -> None:
    with session() as s:
        for _ in range(3):
            s.open(Counts(), trusted_code=True).close()
        last = s.open(Counts(), trusted_code=True)
        assert [*s._opened] == [last]


def test_a_plan_of_two_payers_is_refused_in_words() -> None:
    class Two(Counts):
        """Names its payer twice."""

        def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
            plan = super().plan(tables, part)
            return replace(plan, payers=plan.payers * 2)

    with session() as s:
        with pytest.raises(InvalidParameter, match="one population"):
            s.open(Two(), trusted_code=True)
        assert s.history() == []
