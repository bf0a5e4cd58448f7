"""Ids that two tables hold in two types, connected one at a time: nobody has two budgets."""

from __future__ import annotations

import shutil
import threading
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.ledger.ledger import Ledger
from discreet.plan.plan import Plan
from discreet.release import NoisyTable
from discreet.run import exact_cells
from discreet.tables import shapes

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


def test_a_real_to_which_several_whole_numbers_are_rounded_is_nobodys_id(
    tmp_path: Path, seen: list[int]
) -> None:
    path = tmp_path / "l.ledger"
    ask(path, "a", [BIG], times=2)
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
    with open_database() as db:
        if place == "frame":
            return {table: db.execute(made).df()}
        db.execute(f"COPY ({made}) TO '{file}' (FORMAT {place})")
    return {table: str(file)}


def ask_once(path: Path, source: dict[str, Any] | str) -> None:
    with dp.connect(
        source,
        unit=dp.PrivacyUnit("id", max_groups=1, max_rows=1),
        per_person=dp.Budget(1),
        population="people",
        ledger=str(path),
    ) as session:
        table = "t" if isinstance(source, str) else next(iter(source))
        session.sql(f"SELECT COUNT(*) FROM {table}", epsilon=1, fresh=True)


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
            assert {"csv", "VARCHAR"} & {first, second} and "spelled in one way" in str(error)
        assert sum(seen) <= 1, (first, second, value)


@pytest.mark.parametrize("how", ["FLOAT", "float32"])
def test_ids_that_are_32_bit_reals_are_refused_before_the_table_is_fixed(tmp_path: Path, how: str) -> None:
    path = tmp_path / "l.ledger"
    with pytest.raises(dp.errors.SourceError, match="32 bits"):
        ask_once(path, stored(tmp_path, "a", how, "7"))
    ask_once(path, stored(tmp_path, "a", "VARCHAR", "Zoë"))
    assert people(path) == 1


# --- one id, spelled by a text file and made into text here ----------------------------------------------------------


def written(folder: Path, table: str, how: str, value: str) -> dict[str, Any]:
    """A source with one row, whose id is this SQL, in a file or a frame."""
    if how == "decimals":
        return {table: pd.DataFrame({"id": [Decimal(value)]})}
    if how == "floats":
        return {table: pd.DataFrame({"id": [float(value), None]})}
    file = folder / f"{table}.{how}"
    with open_database() as db:
        db.execute(f"COPY (SELECT {value} AS id, 1 AS x) TO '{file}' (FORMAT {how})")
    return {table: str(file)}


TWICE: list[tuple[str, str, str, str]] = [
    ("parquet", "7::DECIMAL(10,2)", "csv", "7::DECIMAL(10,2)"),
    ("csv", "7::DECIMAL(10,2)", "parquet", "7::DECIMAL(10,2)"),
    ("decimals", "7.00", "csv", "'7.00'"),
    ("decimals", "7.00", "parquet", "7::DECIMAL(10,2)"),
    ("decimals", "7.00", "parquet", "7::BIGINT"),
    ("parquet", "7::UBIGINT", "csv", "'007'"),
    ("csv", "'7.0'", "floats", "7"),
    ("json", "7.0", "floats", "7"),
    ("json", "7", "floats", "7"),
    ("json", "'7.0'", "floats", "7"),
    ("csv", "'007'", "parquet", "7::BIGINT"),
    ("parquet", "'7.00'", "parquet", "7::DECIMAL(10,2)"),
    ("parquet", "'7.0'", "floats", "7"),
    ("parquet", "'k'", "csv", "' k'"),
    ("parquet", "' k'", "csv", "' k'"),
    ("csv", "' k'", "parquet", "' k'"),
    (
        "parquet",
        "'550E8400-E29B-41D4-A716-446655440000'::UUID",
        "csv",
        "'550E8400-E29B-41D4-A716-446655440000'",
    ),
    ("csv", "TRUE", "parquet", "TRUE"),
]


@pytest.mark.parametrize("name", ["a", "b"], ids=["same table", "other table"])
@pytest.mark.parametrize(("first", "one", "second", "other"), TWICE)
def test_a_spelling_of_a_text_file_gives_nobody_a_second_budget(
    tmp_path: Path, seen: list[int], first: str, one: str, second: str, other: str, name: str
) -> None:
    path, again = tmp_path / "l.ledger", tmp_path / "again"
    again.mkdir()
    try:
        ask_once(path, written(tmp_path, "a", first, one))
        ask_once(path, written(again, name, second, other))
    except (dp.errors.InvalidParameter, dp.errors.SourceError) as error:
        assert "spelled in one way" in str(error) or (first == "json" and "as real numbers" in str(error))
    assert sum(seen) <= 1


@pytest.mark.parametrize(("first", "one", "second", "other"), TWICE)
def test_a_person_in_two_tables_of_one_question_is_one_unit_or_the_tables_are_refused(
    tmp_path: Path, seen: list[int], first: str, one: str, second: str, other: str
) -> None:
    both = written(tmp_path, "a", first, one) | written(tmp_path, "b", second, other)
    try:
        with dp.connect(
            both,
            unit=dp.PrivacyUnit("id", max_groups=1, max_rows=1),
            budget=dp.Budget(1),
            population="people",
            ledger=str(tmp_path / "l.ledger"),
        ) as session:
            question = "SELECT COUNT(*) FROM (SELECT id FROM a UNION ALL SELECT id FROM b) q"
            session.sql(question, epsilon=1)
    except (dp.errors.InvalidParameter, dp.errors.SourceError) as error:
        words = ("spelled in two ways", "ids of different types", "as real numbers")
        assert any(w in str(error) for w in words)
    else:
        assert seen[0] <= 1


@pytest.mark.parametrize("column", ["id", "ID"])
def test_a_column_that_is_found_with_other_upper_and_lower_case_is_looked_at_as_well(
    tmp_path: Path, seen: list[int], column: str
) -> None:
    """It is read as the pinned one, so a person in it is one that the ledger knows."""
    path = tmp_path / "l.ledger"
    ask_once(path, written(tmp_path, "a", "csv", "'007'"))
    with pytest.raises(dp.errors.InvalidParameter, match="spelled in one way"):
        ask_once(path, {"a": pd.DataFrame({column: [7]})})
    assert seen == [1]


REALS: list[tuple[list[Any], list[Any]]] = [
    ([BIG], [float(BIG)]),
    ([Decimal("0.123456789012345678")], [0.123456789012345678]),
    ([7], [np.float32(7)]),
    ([(1 << 24) + 1], [np.float32((1 << 24) + 1)]),
    ([0], [Decimal("-0.0")]),
    ([1234567890123456789012345678901234567], [Decimal("1234567890123456789012345678901234567")]),
]


@pytest.mark.parametrize("name", ["a", "b"], ids=["same table", "other table"])
@pytest.mark.parametrize(("first", "second"), REALS)
def test_reals_and_decimals_among_python_objects_give_nobody_a_second_budget(
    tmp_path: Path, seen: list[int], first: list[Any], second: list[Any], name: str
) -> None:
    path = tmp_path / "l.ledger"
    ask_once(path, {"a": pd.DataFrame({"id": pd.Series(first, dtype=object)})})
    ask_once(path, {name: pd.DataFrame({"id": pd.Series(second, dtype=object)})})
    assert seen == [1, 0]


def test_the_digits_of_a_decimal_do_not_follow_the_decimal_context(tmp_path: Path, seen: list[int]) -> None:
    path, ids = tmp_path / "l.ledger", [Decimal("1234567.50"), Decimal("1234568.50")]
    ask(path, "a", ids)
    with localcontext(prec=3):
        ask(path, "a", ids)
    assert seen == [2, 0]
    assert people(path) == 2


def test_categories_that_are_32_bit_reals_are_32_bit_reals(tmp_path: Path) -> None:
    ids = pd.Series(np.array([(1 << 24) + 1], np.float32)).astype("category")
    with pytest.raises(dp.errors.SourceError, match="32 bits"):
        ask_once(tmp_path / "l.ledger", {"a": pd.DataFrame({"id": ids})})


@pytest.mark.parametrize(("name", "number"), [("b", "7::BIGINT"), ("a", "7::DECIMAL(9,2)")])
def test_two_tables_that_are_connected_at_once_are_looked_at_one_after_the_other(
    tmp_path: Path, seen: list[int], monkeypatch: pytest.MonkeyPatch, name: str, number: str
) -> None:
    path, barrier, real = tmp_path / "l.ledger", threading.Barrier(2), shapes.pin_all
    sources = [written(tmp_path, "a", "parquet", number), written(tmp_path, name, "csv", "'007'")]
    refused: list[str] = []

    def pin_all(*args: Any) -> Any:
        barrier.wait(60)  # neither has pinned anything yet
        return real(*args)

    def go(source: dict[str, Any]) -> None:
        try:
            ask_once(path, source)
        except dp.errors.InvalidParameter as error:
            refused.append(str(error))

    monkeypatch.setattr(shapes, "pin_all", pin_all)
    threads = [threading.Thread(target=go, args=(source,)) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1]
    assert len(refused) == 1 and "spelled in one way" in refused[0]


def test_bits_are_not_taken_for_the_numbers_that_they_spell(tmp_path: Path, seen: list[int]) -> None:
    """'1', '01' and '001' would be one person."""
    path, file = tmp_path / "l.ledger", tmp_path / "bits.duckdb"
    with open_database(file) as db:
        db.execute("CREATE TABLE t AS SELECT unnest(['1', '01', '001'])::BIT AS id")
    ask_once(path, {"t": pd.DataFrame({"id": [1, 2]})})
    ask_once(path, str(file))
    assert seen == [2, 0]
