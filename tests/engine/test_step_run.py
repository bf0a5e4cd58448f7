"""Runs of many draws: whatever stops them, no more draws are made than were charged, and the rest is made later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.engine.open_run import AHEAD
from discreet.engine.session import Session
from discreet.errors import BudgetExceeded, InvalidParameter, MissingExtra
from discreet.ledger.entry import Begun
from discreet.ledger.ledger import Ledger
from discreet.mechanisms.additive import RoundedGaussianNoise
from discreet.recipes import (
    AddedNoise,
    Draw,
    PeopleRows,
    PersonRecipe,
    Plan,
    Running,
    Sensitivity,
    TableSchema,
    person_part,
    person_rows,
    plan_recipe,
)
from discreet.verify.certificate.checker import check

FRAME = pd.DataFrame({"who": range(30), "n": [i % 5 for i in range(30)]})
TIMES = 40


class Stopped(Exception):
    """What stops a run."""


@dataclass(frozen=True)
class Steps(PersonRecipe):
    """Draws a sum many times, and stops before one of them."""

    stops: int = field(default=TIMES, repr=False)
    goes_on: bool = field(default=True, repr=False)
    together: int = field(default=1, repr=False)
    begun: list[int] = field(default_factory=lambda: [0], repr=False)
    drawn: list[int] = field(default_factory=list, repr=False)

    def begin(self, charge: int, begun: int) -> None:
        self.begun[0] = begun

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        rows = person_rows("SELECT n FROM t", tables)
        law = AddedNoise(RoundedGaussianNoise(Fraction(50)))
        given: dict[str, Any] = {"norms": Sensitivity(1, 4), "times": TIMES, "law": law}
        return plan_recipe([person_part("sum", rows, width=1, **given)], delta="1e-6")

    def run(self, plan: Plan) -> Running[Any]:
        for i in range(self.begun[0], TIMES):
            if i == self.stops:
                raise Stopped
            yield Draw("sum")
            self.drawn.append(i)
        return len(self.drawn)

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return people.summed(people.matrix)

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["draws"], [[state]]


def connect(place: Path, **given: Any) -> Session:
    unit, columns = dp.PrivacyUnit("who", max_groups=1, max_rows=1), {"n": dp.Range(0, 4, integer=True)}
    given = {"budget": dp.Budget(9, "1e-4")} | given
    return dp.connect({"t": FRAME}, ledger=place, unit=unit, columns=columns, population="p", **given)


def perform(s: Session, recipe: Any, *, fresh: bool = False) -> Any:
    return s._desk.perform(recipe, fresh=fresh, ours=False, in_steps=True)


@pytest.mark.parametrize("stops", [0, 1, 16, 17, 39])
def test_a_run_that_was_stopped_goes_on_with_the_draws_that_were_not_begun(tmp_path: Path, stops: int) -> None:
    place = tmp_path / "a.ledger"
    first, second = Steps(stops=stops), Steps()
    with connect(place) as s:
        with pytest.raises(Stopped):
            perform(s, first)
        spent = s.remaining
    with connect(place) as s:
        found = perform(s, second)
        begun = min(-(-stops // AHEAD) * AHEAD, TIMES)
        assert first.drawn + second.drawn == [*range(stops), *range(begun, TIMES)]
        assert s.remaining == spent
        assert not found.stored
        assert perform(s, Steps(stops=0)).stored
        assert s.remaining == spent
        noted = [e.content.draws for e in s.history() if isinstance(e.content, Begun)]
        assert noted == sorted({*noted})
        assert noted[-1] == TIMES
        assert len({e.time for e in s.history() if e.kind in ("charge", "begun", "release")}) == 1
        assert check(found.certificate()).ok
        assert perform(s, Steps(), fresh=True).stored is False
        assert s.remaining.epsilon < spent.epsilon
    with Ledger.existing(place) as ledger:
        assert ledger.verify().ok


def test_draws_that_are_priced_together_are_not_made_in_two_runs(tmp_path: Path) -> None:
    first, second = Steps(stops=5, together=10), Steps(together=10)
    with connect(tmp_path / "a.ledger") as s:
        with pytest.raises(Stopped):
            perform(s, first)
        perform(s, second)
        assert second.drawn == [*range(20, TIMES)]  # 16 were noted, and four more go with them
        assert [e.content.draws for e in s.history() if isinstance(e.content, Begun)] == [16, 36, 40]
        assert s._ledger.verify().ok


def test_a_run_that_keeps_nothing_is_charged_anew_and_notes_nothing(tmp_path: Path) -> None:
    with connect(tmp_path / "a.ledger") as s:
        with pytest.raises(Stopped):
            perform(s, Steps(stops=3, goes_on=False))
        left = s.remaining.epsilon
        perform(s, Steps(goes_on=False))
        assert s.remaining.epsilon < left
        assert "begun" not in {e.kind for e in s.history()}


def test_of_two_processes_that_go_on_with_a_run_one_stops(tmp_path: Path) -> None:
    place, drawn = tmp_path / "a.ledger", []

    class Overtaken(Steps):
        def run(self, plan: Plan) -> Running[Any]:
            for i in range(TIMES):
                if i == 5:
                    with connect(place) as other:
                        drawn.extend(perform(other, Steps()).rows)
                yield Draw("sum")
                self.drawn.append(i)

    Overtaken.__qualname__, Overtaken.__module__ = Steps.__qualname__, Steps.__module__
    first = Overtaken()
    with connect(place) as s, pytest.raises(InvalidParameter, match="Another process goes on with this run"):
        perform(s, first)
    assert drawn == [(TIMES - AHEAD,)]
    assert len(first.drawn) == AHEAD


def test_a_run_whose_people_have_budgets_does_not_go_on(tmp_path: Path) -> None:
    with connect(tmp_path / "a.ledger", budget=None, per_person=dp.Budget(9, "1e-4")) as s:
        with pytest.raises(Stopped):
            perform(s, Steps(stops=3))
        charges = len(s.history())
        with pytest.raises(InvalidParameter, match="who takes part in the rest"):
            perform(s, Steps())
        assert len(s.history()) == charges


def test_a_run_of_a_frozen_account_waits_until_it_is_thawed(tmp_path: Path) -> None:
    with connect(tmp_path / "a.ledger") as s:
        with pytest.raises(Stopped):
            perform(s, Steps(stops=3))
        account, steps = s.accounts["p"], Steps()
        account.freeze(by="owner", reason="a doubt")
        with pytest.raises(BudgetExceeded, match="frozen"):
            perform(s, steps)
        assert not steps.drawn
        account.thaw(by="owner", reason="no doubt")
        assert perform(s, Steps()).rows == [(TIMES - AHEAD,)]
        assert s._ledger.verify().ok


def test_a_forged_block_is_found(tmp_path: Path) -> None:
    with connect(tmp_path / "a.ledger") as s:
        perform(s, Steps())
        account = s.accounts["p"]
        (charge,) = [e.seq for e in s.history() if e.kind == "charge"]
        account.begin(charge, TIMES, TIMES + 1)
        report = s._ledger.verify()
        assert not report.ok
        assert "begins draws that no charge pays for" in str(report.problems)


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_a_training_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with connect(tmp_path / "a.ledger") as s:
        for ask in (s.train, s.plan_train):
            with pytest.raises(MissingExtra, match=r"^Training PyTorch models needs torch, which is not installed\."):
                ask(None, trusted_code=True)
