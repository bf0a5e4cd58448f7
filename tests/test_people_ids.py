"""Ids that two tables hold in two types, connected one at a time: nobody has two budgets."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import discreet as dp
from discreet.ledger.ledger import Ledger
from discreet.plan.plan import Plan
from discreet.release import NoisyTable
from discreet.run import exact_cells

BIG = (1 << 53) + 1


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each answer was over."""
    found: list[int] = []

    def measure(plan: Plan, run: Any, _rng: Any) -> NoisyTable:
        cells = exact_cells(plan, run)
        found.append(sum(c[0] for c in cells.values()))
        return NoisyTable(tuple(cells), tuple(map(tuple, cells.values())))

    monkeypatch.setattr("discreet.run.measure", measure)
    return found


def ask(path: Path, table: str, ids: list[Any], times: int = 1) -> None:
    with dp.connect(
        {table: pd.DataFrame({"id": ids})},
        unit=dp.PrivacyUnit("id", max_groups=1, max_rows=1),
        per_person=dp.Budget(1),
        population="people",
        ledger=str(path),
    ) as session:
        for _ in range(times):
            session.sql(f"SELECT COUNT(*) FROM {table}", epsilon=1, fresh=True)


def people(path: Path) -> int:
    """How many people the ledger keeps a budget of."""
    with Ledger.open(path) as ledger:
        account = ledger.account("people")
        assert account is not None and account.person_budgets is not None
        known = account._log.read(account.person_budgets._read)
        return len(known.table)


@pytest.mark.parametrize("whole", [[BIG], [str(BIG)]], ids=["whole numbers", "text"])
def test_a_real_to_which_several_whole_numbers_are_rounded_is_nobodys_id(
    tmp_path: Path, seen: list[int], whole: list[Any]
) -> None:
    path = tmp_path / "l.ledger"
    ask(path, "a", whole, times=2)
    ask(path, "b", [float(BIG), 7.0, -float(BIG), float("inf"), float(1 << 53) - 1], times=2)
    assert seen == [1, 0, 2, 0]  # each pays once; the large ones are nobody, and not a second person
    assert people(path) == 3


def test_reals_below_are_the_whole_numbers_that_they_are(tmp_path: Path, seen: list[int]) -> None:
    path = tmp_path / "l.ledger"
    ask(path, "a", [(1 << 53) - 1, 7])
    ask(path, "b", [float((1 << 53) - 1), 7.0, -0.0, 0.5])
    assert seen == [2, 1]  # a decimal may have been rounded to 0.5
    assert people(path) == 3


STORED: dict[str, tuple[str, str]] = {
    **{
        kind: (kind, "parquet")
        for kind in ("BIGINT", "HUGEINT", "DOUBLE", "FLOAT", "VARCHAR", "DECIMAL(38,20)", "DECIMAL(18,0)")
    },
    "float64": ("DOUBLE", "frame"),
    "float32": ("FLOAT", "frame"),
    "csv": ("VARCHAR", "csv"),
}


def stored(folder: Path, table: str, how: str, value: str) -> dict[str, Any]:
    """A source with one row, of a person with this id, as far as the type holds it."""
    kind, place = STORED[how]
    file = folder / f"{table}-{how}.{place}"
    made = f"SELECT CAST('{value}' AS {kind}) AS id"
    with duckdb.connect() as db:
        if place == "frame":
            return {table: db.execute(made).df()}
        db.execute(f"COPY ({made}) TO '{file}' (FORMAT {place})")
    return {table: str(file)}


def ask_once(path: Path, source: dict[str, Any]) -> None:
    with dp.connect(
        source,
        unit=dp.PrivacyUnit("id", max_groups=1, max_rows=1),
        per_person=dp.Budget(1),
        population="people",
        ledger=str(path),
    ) as session:
        session.sql(f"SELECT COUNT(*) FROM {next(iter(source))}", epsilon=1, fresh=True)


@pytest.mark.parametrize("name", ["a", "b"], ids=["same table", "other table"])
@pytest.mark.parametrize(("value", "kinds"), [(str(BIG), tuple(STORED)), ("0.1", tuple(STORED)[2:6])])
@pytest.mark.parametrize("first", [how for how, (kind, _) in STORED.items() if kind != "FLOAT"])
def test_nobody_has_two_budgets_whatever_types_an_id_is_stored_in(
    tmp_path: Path, seen: list[int], first: str, value: str, kinds: tuple[str, ...], name: str
) -> None:
    if first not in kinds:
        return  # a decimal is no whole number
    ask_once(tmp_path / "first.ledger", stored(tmp_path, "a", first, value))
    charged = list(seen)
    for second in kinds:
        seen[:] = charged
        path = tmp_path / f"{second}.ledger"
        shutil.copy(tmp_path / "first.ledger", path)
        source = stored(tmp_path, name, second, value)
        try:
            ask_once(path, source)
        except dp.errors.SourceError as error:
            assert STORED[second][0] == "FLOAT" and "32 bits" in str(error)
        except dp.errors.InvalidParameter as error:
            assert "csv" in (first, second) and "spelled in one way" in str(error)
        assert sum(seen) <= 1, (first, second, value)


@pytest.mark.parametrize("how", ["FLOAT", "float32"])
def test_ids_that_are_32_bit_reals_are_refused_before_the_table_is_fixed(tmp_path: Path, how: str) -> None:
    path = tmp_path / "l.ledger"
    with pytest.raises(dp.errors.SourceError, match="32 bits"):
        ask_once(path, stored(tmp_path, "a", how, "7"))
    ask_once(path, stored(tmp_path, "a", "VARCHAR", "Zoë"))
    assert people(path) == 1
