"""Analysts and budgets through the front door: who asks, what is left, what would fit, what is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pytest

import discreet as dp
from discreet.engine.session import Session
from discreet.errors import BudgetExceeded, InvalidParameter
from discreet.ledger.ledger import Ledger

Connect: TypeAlias = Callable[..., Session]
BOARD: dict[str, Any] = {"by": "the data board", "reason": "as agreed"}
COUNT = "SELECT COUNT(*) AS n FROM data"
SUM = "SELECT SUM(x) AS s FROM data"


@pytest.fixture
def connect(tmp_path: Path) -> Connect:
    def connect(analyst: str | None = None, **terms: Any) -> Session:
        frame = pd.DataFrame({"x": range(100)})
        return dp.connect(
            {"data": frame},
            unit=dp.PrivacyUnit.row(),
            columns={"x": dp.Range(0, 100)},
            ledger=tmp_path / "our.ledger",
            population="people",
            analyst=analyst,
            **terms,
        )

    return connect


@pytest.fixture
def apart(tmp_path: Path, connect: Connect) -> Connect:
    with Ledger.open(tmp_path / "our.ledger") as ledger:
        account = ledger.open_account("people", dp.Budget(3), analysts="apart")
        for name in ("ana", "ben"):
            account.cap_analyst(name, dp.Budget(1), **BOARD)
    return connect


def test_analysts_apart_do_not_share_answers_and_pay_each(apart: Connect) -> None:
    with apart("ana") as ana, apart("ben") as ben:
        first = ana.sql(COUNT, epsilon=0.5)
        assert ana.sql(COUNT, epsilon=0.5).stored
        second = ben.sql(COUNT, epsilon=0.5)
        assert not second.stored
        assert (ana.remaining, ben.remaining, ana.budget) == (dp.Budget("1/2"), dp.Budget("1/2"), dp.Budget(1))
        assert ben.sql(COUNT, epsilon=0.5).rows == second.rows
        assert ana.sql(COUNT, epsilon=0.5).rows == first.rows
        assert [e.seq for e in ben.history()] == list(range(1, len(ben.history()) + 1))
        assert {e.analyst for e in ben.history()} == {None, "ben"}
        assert "analyst='ana'; kept apart from the others" in repr(ana)
        assert len(ana.promises) == 2


def test_analysts_together_share_answers(connect: Connect, tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "our.ledger") as ledger:
        account = ledger.open_account("people", dp.Budget(3))
        for name in ("ana", "ben"):
            account.cap_analyst(name, dp.Budget(1), **BOARD)
    with connect("ana") as ana, connect("ben") as ben:
        assert ana.sql(COUNT, epsilon=0.5).rows == ben.sql(COUNT, epsilon=0.5).rows
        assert ben.remaining == dp.Budget(1)
        assert "kept apart" not in repr(ben)


def test_who_asks_must_be_said_and_known(apart: Connect) -> None:
    with pytest.raises(InvalidParameter, match="every query needs the one who asks"):
        apart()
    with pytest.raises(InvalidParameter, match="'eve' is no analyst of 'people'"):
        apart("eve")
    with pytest.raises(InvalidParameter, match="has analysts apart, and this asks for analysts together"):
        apart("ana", analysts="together")


def anas_transcript(folder: Path, *, others: bool) -> list[str]:
    """All that ana's session shows, but for noise and times, where others ask before her and between, or do not."""
    said: list[str] = []
    frame = pd.DataFrame({"x": range(100)})
    terms: dict[str, Any] = {"unit": dp.PrivacyUnit.row(), "columns": {"x": dp.Range(0, 100)}}
    terms |= {"ledger": folder / "our.ledger"}
    folder.mkdir()
    with Ledger.open(folder / "our.ledger") as ledger:
        account = ledger.open_account("people", dp.Budget(3), analysts="apart")
        for name in ("ana", "ben"):
            account.cap_analyst(name, dp.Budget(1), **BOARD)

    def ask_as_ben(table: str) -> None:
        if others:
            with dp.connect({table: frame}, population="people", analyst="ben", **terms) as ben:
                ben.sql(f"SELECT COUNT(*) AS n FROM {table}", epsilon="0.25")

    def show(session: Session) -> None:
        said.extend([repr(session), repr(session.remaining), *session.promises])
        said.append(session.plan(COUNT, epsilon="0.5").explain())
        with pytest.raises(BudgetExceeded) as refused:
            session.sql(SUM, epsilon="1.5")
        said.append(f"{refused.value} {refused.value.hint}")
        for entry in session.history():
            fields = entry.content.to_json() | {"release": "", "secret_sha256": ""}
            said.append(f"{entry.seq} {entry.kind} {fields}")

    if others:
        with dp.connect({"data": frame}, population="others", budget=dp.Budget(1), **terms) as other:
            other.sql(COUNT, epsilon=1)
    ask_as_ben("data")
    ask_as_ben("more")
    with dp.connect({"data": frame}, population="people", analyst="ana", **terms) as ana:
        show(ana)
        ask_as_ben("later")
        said.append(str(ana.sql(COUNT, epsilon="0.5").stored))
        show(ana)
    with dp.connect({"data": frame, "later": frame}, population="people", analyst="ana", **terms) as ana:
        show(ana)
    return [line.replace(str(folder), "") for line in said]


def test_the_session_of_an_analyst_apart_shows_nothing_of_what_others_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = anas_transcript(tmp_path / "a", others=False), capsys.readouterr()
    assert (anas_transcript(tmp_path / "b", others=True), capsys.readouterr()) == alone
    assert any("1 account" in line for line in alone[0])


def test_an_analyst_apart_has_no_certificate(apart: Connect) -> None:
    with apart("ana") as ana, pytest.raises(InvalidParameter, match="kept apart"):
        ana.sql(COUNT, epsilon=0.5).certificate()


def test_a_plan_tells_what_would_be_left(connect: Connect) -> None:
    with connect(budget=dp.Budget(3)) as s:
        plan = s.plan(COUNT, epsilon="0.5")
        assert plan.left == dp.Budget("5/2")
        assert plan.outlook == "Asked now, it leaves ε = 2.5 of ε = 3, enough for 5 more like it."
        assert plan.outlook in plan.explain()
        s.sql(COUNT, epsilon="0.5")
        again = s.plan(COUNT, epsilon="0.5")
        assert (again.left, again.outlook[:22]) == (dp.Budget("5/2"), "It has been answered: ")
        big = s.plan(COUNT, epsilon=5)
        assert big.left is None
        assert big.outlook.startswith("It would be refused now: 'people': the query needs ε = 5")
        assert s.plan(SUM, error={"s": 500}).left is not None
        assert s.remaining == dp.Budget("5/2")


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("rule", ["basic", "zcdp", "renyi"])
def test_a_refusal_says_the_largest_epsilon_that_fits(connect: Connect, rule: str) -> None:
    with connect(budget=dp.Budget(3, 1e-6), filter=rule) as s:
        s.sql(COUNT, epsilon="0.3")
        asked = 6
        with pytest.raises(BudgetExceeded) as caught:
            s.sql(SUM, epsilon=asked)
        said = caught.value.hint
        assert " would fit; or ask again" in said
        epsilon = float(said.removeprefix("epsilon=").split(" ")[0])
        assert 0 < epsilon < asked
        with pytest.raises(BudgetExceeded):
            s.sql(SUM, epsilon=f"{epsilon * 1.02:.6f}")
        s.sql(SUM, epsilon=epsilon)


def test_a_charge_that_never_fits_is_said_by_the_plan(connect: Connect) -> None:
    with connect(budget=dp.Budget(3, 1e-6), filter="gdp") as s:
        plan = s.plan(COUNT, epsilon=1)
        assert plan.left is None
        assert "not Gaussian" in plan.outlook
