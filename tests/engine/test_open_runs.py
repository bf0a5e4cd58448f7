"""Runs that stay open: charged whole when they open, asked while others are, ended as a result, and never resumed."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.engine.session import Session
from discreet.errors import BudgetExceeded, InternalError, InvalidParameter
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.sparse_vector import SparseVector
from discreet.recipes import (
    AboveOrBelow,
    AddedNoise,
    Draw,
    PeopleRows,
    PersonRecipe,
    Plan,
    Running,
    Sensitivity,
    TableSchema,
    Wait,
    person_part,
    person_rows,
    plan_recipe,
)
from discreet.verify.certificate.checker import check

PEOPLE = 200
FRAME = pd.DataFrame({"who": np.arange(PEOPLE), "n": np.arange(PEOPLE) % 10})
SPARSE = AboveOrBelow(SparseVector(epsilon=50, threshold=100, cutoff=2))


def session(**given: Any) -> Session:
    options: dict[str, Any] = {"budget": dp.Budget(100, "1e-4", per_query=100), "ledger": ":memory:"} | given
    return dp.connect(
        {"t": FRAME},
        unit=dp.PrivacyUnit("who", max_groups=1, max_rows=1),
        columns={"n": dp.Range(0, 9, integer=True)},
        population="p",
        **options,
    )


@dataclass(frozen=True)
class Online(PersonRecipe):
    """Says of one count after another whether it is large."""

    law: Any = SPARSE
    delta: str = "0"

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        rows = person_rows("SELECT n FROM t", tables)
        over = person_part("over", rows, width=1, norms=Sensitivity(1, 1), times=4, law=self.law)
        return plan_recipe([over], delta=self.delta)

    def run(self, plan: Plan) -> Running[Any]:
        said: list[Any] = []
        while True:
            given = yield Wait(said)
            if given == "end":
                return said
            said.append((yield Draw("over", given)))

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return (people.matrix <= args).astype(np.int64)

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["over"], [[x] for x in state]


def test_it_is_charged_when_it_opens_and_its_end_is_a_result() -> None:
    with session() as s, s.open(Online(), trusted_code=True) as run:
        assert s.spent.pure == 50 and run.is_open and run.first == []
        assert [run.ask(n) for n in (0, 9)] == [[False], [True]]
        assert not s.sql("SELECT COUNT(*) AS n FROM t", epsilon=1).stored  # asked meanwhile
        assert [run.ask(n) for n in (9, 9)] == [[True], [None]]  # exhausted: a result, no error
        assert run.ask("end") == [] and not run.is_open
        assert s.spent.pure == 51
        result = run.result
        assert result is not None and result.rows == [(False,), (True,), (True,), (None,)]
        document = json.loads(json.dumps(result.certificate()))
        verdict = check(document, s._ledger.export())
        assert verdict.broken is None, verdict.reason
        assert "stays open" in document["reasons"][0]
        forged = json.loads(json.dumps(document))
        forged["claim"]["open"] = False
        assert check(forged).broken is not None
        with pytest.raises(InvalidParameter, match="closed"):
            run.ask(1)


def test_what_it_had_when_it_is_closed_is_kept_and_it_is_never_found_again() -> None:
    with session() as s:
        with s.open(Online(), trusted_code=True) as run:
            run.ask(9)
        assert run.result is not None and run.result.rows == [(True,)]
        with s.open(Online(), trusted_code=True) as other:
            assert other.first == []
        assert s.spent.pure == 100
        with pytest.raises(BudgetExceeded):
            s.open(Online(), trusted_code=True)


def test_its_session_closes_it() -> None:
    with session() as s:
        run = s.open(Online(), trusted_code=True)
        run.ask(9)
    assert not run.is_open and run.result is not None and run.result.rows == [(True,)]


def test_more_draws_than_were_paid_for_close_it() -> None:
    law = AddedNoise(DiscreteLaplaceNoise(Fraction(1)))
    with session() as s, s.open(Online(law=law), trusted_code=True) as run:
        for _ in range(4):
            run.ask(9)
        with pytest.raises(InternalError, match="drawn already"):
            run.ask(9)
        assert not run.is_open and s.spent.pure == 4


def test_its_data_are_those_of_the_moment_when_it_opened(tmp_path: Any) -> None:
    path = tmp_path / "t.csv"
    FRAME.to_csv(path, index=False)
    with (
        dp.connect(
            {"t": str(path)},
            unit=dp.PrivacyUnit("who", max_groups=1, max_rows=1),
            columns={"n": dp.Range(0, 9, integer=True)},
            budget=dp.Budget(100, per_query=100),
            population="p",
            ledger=":memory:",
        ) as s,
        s.open(Online(), trusted_code=True) as run,
    ):
        FRAME[:1].to_csv(path, index=False)
        assert run.ask(9) == [True]


def test_it_cannot_be_pickled_asked_in_a_child_or_performed() -> None:
    with session() as s:
        with pytest.raises(InternalError, match="waits for inputs"):
            s.perform(Online(), trusted_code=True)
        with pytest.raises(InvalidParameter, match="trusted_code"):
            s.open(Online())
        with s.open(Online(), trusted_code=True) as run:
            with pytest.raises(TypeError):
                pickle.dumps(run)
            child = os.fork()
            if not child:
                try:
                    run.ask(9)
                except InvalidParameter:
                    os._exit(0)
                os._exit(1)
            assert os.waitpid(child, 0)[1] == 0
            assert run.ask(9) == [True]


@pytest.mark.parametrize("bad", [object(), {1, 2}, [Fraction(1)]])
def test_inputs_are_plain(bad: Any) -> None:
    with session() as s, s.open(Online(), trusted_code=True) as run:
        with pytest.raises(InternalError, match="plain values"):
            run.ask(bad)
        assert run.ask(9) == [True]


def test_noise_of_a_gdp_account_is_charged_by_its_mu() -> None:
    law = AddedNoise(RoundedGaussianNoise(Fraction(4)))
    recipe = Online(law=law, delta="1e-6")
    given: dict[str, Any] = {"budget": dp.Budget(3, "1e-6", per_query=3), "filter": "gdp"}
    with session(**given) as s, s.open(recipe, trusted_code=True) as run:
        assert len(run.ask(9)) == 1
        assert s.spent.mu_squared == Fraction(4, 16)
    with session() as s, s.open(replace(recipe, law=SPARSE, delta="0"), trusted_code=True):
        assert s.spent.pure == 50
