"""The note on a table with the columns of another account's: whose it names, and who is not told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.ledger.ledger import Ledger

VISITS = pd.DataFrame({"id": [1, 2], "ward": ["a", "b"]})
COUNT = "SELECT COUNT(*) AS n FROM {}"


@pytest.fixture
def told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """What connecting says, and the first answer, so that the table is pinned."""

    def connect(table: str, frame: pd.DataFrame = VISITS, *, ask: bool = True, **terms: Any) -> str:
        given: dict[str, Any] = {"unit": dp.PrivacyUnit.row(), "budget": dp.Budget(1)} | terms
        capsys.readouterr()
        with dp.connect({table: frame}, ledger=tmp_path / "l", **given) as session:
            if ask:
                session.sql(COUNT.format(table), epsilon="0.1")
        return capsys.readouterr().err

    return connect


def test_it_names_the_account_that_has_such_a_table(told: Any) -> None:
    assert told("visits", ask=False) == ""
    assert told("visits") == ""
    assert told("visits") == ""
    said = told("copy", VISITS[["ward", "id"]].rename(columns=str.upper), ask=False)
    assert said == (
        "discreet: table 'copy' has the columns of 'visits' in the account 'visits'. If they hold the same people, say "
        "population='visits' (--population), or they have two budgets.\n"
    )
    assert told("copy", population="visits") == ""  # one account
    assert "account 'visits'" in told("visits", population="vists")
    assert told("visits", population="vists") == ""  # it has been asked all the same
    assert told("wider", VISITS.assign(more=1)) == ""


def test_public_tables_are_not_compared(told: Any, tmp_path: Path) -> None:
    tables = {"visits": VISITS, "wards": VISITS.rename(columns={"id": "bed"})}
    terms: dict[str, Any] = {"public": ["wards"], "budget": dp.Budget(1), "ledger": tmp_path / "l"}
    with dp.connect(tables, unit=dp.PrivacyUnit("id", 1, 1), **terms) as session:
        session.sql("SELECT COUNT(*) AS n FROM visits", epsilon="0.1")
    assert told("wards", tables["wards"]) == ""


def test_two_populations_are_told_of_a_third(told: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told("visits", population="everybody")
    frame = VISITS.rename(columns={"ward": "doctor"})
    assert told("other", frame) == ""
    capsys.readouterr()
    units = {"people": dp.PrivacyUnit("id", max_rows=1), "doctors": dp.PrivacyUnit("doctor", max_rows=1)}
    budget = dict.fromkeys(units, dp.Budget(1))
    for said in ("account 'other'", ""):
        with dp.connect_both({"t": frame}, units=units, budget=budget, ledger=tmp_path / "l") as session:
            err = capsys.readouterr().err
            assert said in err if said else err == ""
            session.sql(COUNT.format("t"), epsilon="0.1")


def test_neither_an_analyst_apart_is_told_nor_anybody_of_an_account_that_keeps_them_apart(
    told: Any, tmp_path: Path
) -> None:
    told("visits")
    with Ledger.open(tmp_path / "l") as ledger:
        account = ledger.open_account("apart", dp.Budget(1), analysts="apart")
        for name in ("ana", "ben"):
            account.cap_analyst(name, dp.Budget("1/2"), by="board", reason="plan")
    frame = VISITS.rename(columns={"ward": "clinic"})
    apart: dict[str, Any] = {"population": "apart", "analyst": "ana", "budget": None}
    assert told("visits", **apart) == ""
    assert told("clinics", frame, **apart) == ""
    assert told("others", frame) == ""
