"""One canonical form of an id, whatever source holds it: the law of docs/proofs/ids.md against a parser of its own."""

from __future__ import annotations

import datetime as dt
import json
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.backends.duckdb import DuckDB
from discreet.catalog.types import TableShape
from discreet.errors import DiscreetError, InvalidParameter, LedgerError
from discreet.ledger.ledger import Ledger
from tests.backends.asking import answers, connected

ONE = dp.PrivacyUnit("id", max_groups=1, max_rows=1)


def text_of(cell: str | None) -> str | None:
    """The canonical text of a text: ASCII white space at both ends is no part of it."""
    if cell is None:
        return None
    while cell and cell[0] in " \t\n\r\x0b\x0c":
        cell = cell[1:]
    while cell and cell[-1] in " \t\n\r\x0b\x0c":
        cell = cell[:-1]
    return cell or None


def whole_of(cell: str | None) -> int | None:
    """The canonical whole number of a text, digit by digit."""
    text = text_of(cell)
    if text is None:
        return None
    digits = text[1:] if text[0] == "-" else text
    if not digits or any(c not in "0123456789" for c in digits):
        return None
    if digits[0] == "0" and text != "0":
        return None
    value = 0
    for c in digits:
        value = 10 * value + ord(c) - ord("0")
    value = -value if text[0] == "-" else value
    return value if -(2**63) <= value < 2**63 else None


def spellings() -> list[str | None]:
    plain = ["123", "1_23", "12_3", "1__23", "_123", "123_", "0123", "+123", "-123", "--123", "123.0", "123.", "1.23e2",
             "123e0", "1E2", "0x7b", "0b1", "0", "-0", "00", "+0", "0.0", "", "a", "A", "é", "e\u0301", "É", "ß", "SS",
             "１２３", "١٢٣", "1²", "12 3", "1,234", "NaN", "nan", "inf", "-inf", "null", "NULL", "true", "t",
             "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
             "9007199254740993", "9007199254740993.0", "0." + "0" * 17 + "1", "123." + "0" * 19 + "1", "1" * 40,
             "550e8400-e29b-41d4-a716-446655440000", "550E8400-E29B-41D4-A716-446655440000",
             "2020-01-01 00:00:00+00", "2020-01-01 01:00:00+01", "12:00:00", "12:00:00.0", "\u200b123", "123\ufeff",
             "\u00a0123", "123\u2003", "\u3000", "x" * 300, "'", '"', "\\", "%", "a;b", "\x1f7", "7\x7f"]  # fmt: skip
    around = [
        " 123",
        "123 ",
        "\t123",
        "123\t",
        "\n123",
        "123\r\n",
        "\x0b123\x0c",
        " \t 123 \t ",
        " ",
        "\t",
        " a",
        "a\t",
    ]
    rng = random.Random(20260101)
    letters = "0123456789-+_.eE \tabA\u00a0\u200b١"
    drawn = ["".join(rng.choice(letters) for _ in range(rng.randint(1, 6))) for _ in range(400)]
    return [None, *plain, *around, *drawn]


SPELLINGS = spellings()


def csv_file(folder: Path, cells: Sequence[str | None], mark: str, name: str) -> Path:
    lines = [f"i{mark}id"]
    for i, cell in enumerate(cells):
        quoted = "" if cell is None else '"' + cell.replace('"', '""') + '"'
        lines.append(f"{i}{mark}{quoted}")
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    return folder / name


def json_file(folder: Path, cells: Sequence[str | None], *, array: bool) -> Path:
    rows = [json.dumps({"i": i, "id": c}) for i, c in enumerate(cells)]
    file = folder / ("a.json" if array else "a.jsonl")
    file.write_text("[" + ",\n".join(rows) + "]" if array else "\n".join(rows) + "\n")
    return file


def database(folder: Path, table: pa.Table, kind: str) -> Path:
    file = folder / "a.duckdb"
    with closing(open_database(str(file))) as connection:
        connection.register("given", table)
        connection.execute(f"CREATE TABLE data AS SELECT i, CAST(id AS {kind}) AS id FROM given")
    return file


def arrow(cells: Sequence[Any], kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({"i": pa.array(range(len(cells)), pa.int64()), "id": pa.array(cells, kind)})


def parquet(folder: Path, table: pa.Table) -> Path:
    pq.write_table(table, folder / "a.parquet")
    return folder / "a.parquet"


TEXTS: dict[str, Callable[[Path, Sequence[str | None]], Any]] = {
    "csv": lambda p, c: csv_file(p, c, ",", "a.csv"),
    "csv without quotes": lambda p, c: unquoted(p, c),
    "tsv": lambda p, c: csv_file(p, c, "\t", "a.tsv"),
    "json lines": lambda p, c: json_file(p, c, array=False),
    "json array": lambda p, c: json_file(p, c, array=True),
    "parquet": lambda p, c: parquet(p, arrow(c, pa.string())),
    "parquet dictionary": lambda p, c: parquet(p, encoded(c)),
    "duckdb": lambda p, c: database(p, arrow(c, pa.string()), "VARCHAR"),
    "duckdb without case": lambda p, c: collated(p, c),
    "arrow": lambda p, c: arrow(c, pa.string()),
    "arrow large": lambda p, c: arrow(c, pa.large_string()),
    "pandas objects": lambda p, c: pd.DataFrame({"i": range(len(c)), "id": pd.Series(list(c), dtype=object)}),
    "pandas text": lambda p, c: pd.DataFrame({"i": range(len(c)), "id": pd.Series(list(c), dtype="string")}),
    "pandas categories": lambda p, c: pd.DataFrame({"i": range(len(c)), "id": pd.Categorical(list(c))}),
    "polars": lambda p, c: pl.DataFrame({"i": range(len(c)), "id": pl.Series(list(c), dtype=pl.String)}),
    "polars categories": lambda p, c: pl.DataFrame({"i": range(len(c)), "id": pl.Series(c, dtype=pl.Categorical)}),
}  # fmt: skip


def encoded(cells: Sequence[str | None]) -> pa.Table:
    return arrow(cells, pa.string()).set_column(1, "id", pa.array(cells).dictionary_encode())


def unquoted(folder: Path, cells: Sequence[str | None]) -> Path:
    plain = [c if c is None or not set(c) & set('\n\r",') else "skipped" for c in cells]
    cells_ = "".join(f"{i},{'' if c is None else c}\n" for i, c in enumerate(plain))
    (folder / "a.csv").write_text("i,id\n" + cells_, encoding="utf-8", newline="")
    return folder / "a.csv"


def collated(folder: Path, cells: Sequence[str | None]) -> Path:
    file = folder / "a.duckdb"
    with closing(open_database(str(file))) as connection:
        connection.register("given", arrow(cells, pa.string()))
        connection.execute("CREATE TABLE data (i BIGINT, id VARCHAR COLLATE NOCASE.NOACCENT)")
        connection.execute("INSERT INTO data SELECT * FROM given")
    return file


def ids(source: Any, kind: str) -> list[Any]:
    """The ids that the view of a source shows, pinned as this kind, by the numbers of its rows."""
    given = source if isinstance(source, Path) and source.suffix == ".duckdb" else {"data": source}
    with closing(DuckDB(given)) as backend:
        is_text = backend.discover("data").text
        mark = "\t" if isinstance(source, Path) and source.suffix == ".tsv" else ","
        pinned = TableShape({"i": "VARCHAR" if is_text else "BIGINT", "id": kind}, is_text, mark)
        backend.attach("data", pinned, ["id"])
        rows = backend.rows("SELECT CAST(i AS BIGINT), id FROM main.data", {})
    return [value for _, value in sorted(rows, key=lambda r: -1 if r[0] is None else r[0])]


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("source", TEXTS)
def test_a_text_is_an_id_as_the_law_has_it(source: str, tmp_path: Path) -> None:
    cells = SPELLINGS
    made = TEXTS[source](tmp_path, cells)
    if source == "csv without quotes":
        cells = [c if c is None or not set(c) & set('\n\r",') else "skipped" for c in cells]
    assert ids(made, "VARCHAR") == [text_of(c) for c in cells]
    assert ids(made, "BIGINT") == [whole_of(c) for c in cells]


def test_a_nul_is_a_character_like_any_other(tmp_path: Path) -> None:
    cells = ["a\0b", "a", "\0", "7\0", "7"]
    for source in ("parquet", "arrow", "polars", "pandas objects"):
        made = TEXTS[source](tmp_path, cells)
        assert ids(made, "VARCHAR") == cells
        assert ids(made, "BIGINT") == [None, None, None, None, 7]


EDGES = [
    0,
    1,
    7,
    127,
    -128,
    2**15,
    2**31,
    -(2**31),
    2**53 + 1,
    2**63 - 1,
    -(2**63),
    2**63,
    2**64 - 1,
    2**126,
    -(2**126),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        ("TINYINT", -(2**7), 2**7),
        ("SMALLINT", -(2**15), 2**15),
        ("INTEGER", -(2**31), 2**31),
        ("BIGINT", -(2**63), 2**63),
        ("UTINYINT", 0, 2**8),
        ("USMALLINT", 0, 2**16),
        ("UINTEGER", 0, 2**32),
        ("UBIGINT", 0, 2**64),
        ("HUGEINT", -(2**127), 2**127),
        ("UHUGEINT", 0, 2**128),
    ],
)
def test_a_whole_number_is_an_id_whatever_its_width(kind: str, low: int, high: int, tmp_path: Path) -> None:
    numbers = [n for n in EDGES if low <= n < high]
    made = database(tmp_path, arrow([str(n) for n in numbers]), kind)
    assert ids(made, "VARCHAR") == [str(n) for n in numbers]
    assert ids(made, "BIGINT") == [n if -(2**63) <= n < 2**63 else None for n in numbers]


def test_a_uuid_has_one_spelling(tmp_path: Path) -> None:
    own = "550e8400-e29b-41d4-a716-446655440000"
    assert ids(database(tmp_path, arrow([own.upper()]), "UUID"), "VARCHAR") == [own]
    frame = pd.DataFrame({"i": [0], "id": pd.Series([uuid.UUID(own)], dtype=object)})
    assert ids(frame, "VARCHAR") == [own]


@pytest.mark.parametrize("array", [False, True], ids=["by line", "array"])
def test_of_json_strings_and_whole_numbers_are_ids(array: bool, tmp_path: Path) -> None:
    cells = ["7", '"7"', '"\\u0037"', "7.0", "7e0", "70e-1", "-0", "0", "007", "true", "null", "[7]", '{"a": 7}',
             '"true"', "123456789012345678901234567890", "9007199254740993", "9007199254740993.0", '" 7"', '""',
             "1E400"]  # fmt: skip
    wanted = ["7", "7", "7", None, None, None, "0", "0", None, None, None, None, None, "true",
              "123456789012345678901234567890", "9007199254740993", None, "7", None, None]  # fmt: skip
    rows = [f'{{"i": {i}, "id": {c}}}' for i, c in enumerate(cells)]
    file = tmp_path / "a.json"
    file.write_text("[" + ",".join(rows) + "]" if array else "\n".join(rows))
    broken = cells.index("007")  # no JSON: the object is no row, or one without cells
    assert [x for x in ids(file, "VARCHAR") if x is not None] == [w for w in wanted if w is not None]
    assert len(ids(file, "VARCHAR")) in (len(cells), len(cells) - 1)
    assert wanted[broken] is None


def test_of_python_objects_texts_integers_and_uuids_are_ids() -> None:
    zone = dt.timezone(dt.timedelta(hours=1))
    instant = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    cells: list[Any] = ["7", 7, np.int64(7), np.uint64(2**64 - 1), 10**30, True, np.bool_(True), 7.0, 7.5,
                        Decimal(7), b"7", instant, instant.astimezone(zone), dt.date(2020, 1, 1), (7,), [7],
                        None, pd.NA, "\ud800"]  # fmt: skip
    frame = pd.DataFrame({"i": range(len(cells)), "id": pd.Series(cells, dtype=object)})
    known = ["7", "7", "7", str(2**64 - 1), str(10**30)]
    assert ids(frame, "VARCHAR") == known + [None] * (len(cells) - len(known))


REFUSED = {
    "DOUBLE": "7.0",
    "FLOAT": "7.0",
    "DECIMAL(9, 2)": "7.00",
    "BOOLEAN": "true",
    "DATE": "'2020-01-01'",
    "TIMESTAMP": "'2020-01-01 01:00:00'",
    "TIMESTAMPTZ": "'2020-01-01 01:00:00+01'",
    "TIME": "'12:00:00'",
    "INTERVAL": "INTERVAL 1 DAY",
    "BLOB": "'a'",
    "BIGINT[]": "[7]",
}


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", REFUSED)
def test_other_types_are_refused_with_the_line_that_mends_them(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    select = f"SELECT CAST({REFUSED[kind]} AS {kind}) AS id"
    with closing(open_database()) as connection:
        connection.execute(f"COPY ({select}) TO 'old.parquet'")
    with pytest.raises(InvalidParameter) as caught:
        connected("old.parquet", unit=ONE)
    assert "ids are whole numbers or text" in str(caught.value)
    with closing(open_database()) as connection:
        connection.execute(str(caught.value.hint))
    assert answers("new.parquet", "SELECT COUNT(*) FROM new", unit=ONE)[()] == [1]


def test_the_line_for_a_frame_mends_it() -> None:
    frame = pd.DataFrame({"id": [1, 2, None]})
    with pytest.raises(InvalidParameter) as caught:
        connected({"data": frame}, unit=ONE)
    exec(str(caught.value.hint), {"frame": frame})
    assert answers({"data": frame}, "SELECT COUNT(*) FROM data", unit=ONE)[()] == [2]


def test_what_stands_in_a_cell_refuses_nothing(tmp_path: Path) -> None:
    for i, cell in enumerate(["7.5", "[1]", "true", "\t"]):
        file = tmp_path / f"{i}.jsonl"
        file.write_text('{"id": 7, "x": 1}\n' * 3 + f'{{"id": {json.dumps(cell)}, "x": 1}}\n')
        with connected({"data": file}, unit=ONE):
            pass


@pytest.mark.parametrize("ending", ["parquet", "csv", "json"])
def test_the_name_of_a_folder_is_nobodys_id(ending: str, tmp_path: Path) -> None:
    folder = tmp_path / "id=5"
    folder.mkdir()
    with closing(open_database()) as connection:
        options = "(HEADER)" if ending == "csv" else ""
        connection.execute(f"COPY (SELECT i AS id, 1 AS x FROM range(3) r(i)) TO '{folder / f'a.{ending}'}' {options}")
    for source in (folder / f"a.{ending}", tmp_path / f"*/*.{ending}"):
        assert answers({"data": source}, "SELECT COUNT(*) FROM data", unit=ONE)[()] == [3]


def test_one_person_in_sources_of_every_kind_is_one_person(tmp_path: Path) -> None:
    tables: dict[str, Any] = {
        "a": parquet(tmp_path, arrow([7, 8])),
        "b": csv_file(tmp_path, ["7", " 7", "007", "1_0"], ",", "b.csv"),
        "c": json_file(tmp_path, ["7", "7.0"], array=False),
        "d": pd.DataFrame({"i": [0, 1], "id": pd.Series(["7", 7.0], dtype=object)}),
    }
    union = " UNION ALL ".join(f"SELECT id FROM {t}" for t in tables)
    found = answers(tables, f"SELECT COUNT(*) FROM ({union}) s", unit=ONE)
    assert found[()] == [2], "7 and 8, each once"


@pytest.mark.parametrize(
    ("one", "other"),
    [(arrow([7]), arrow(["7"])), (arrow([7]), arrow([2**64 - 1], pa.uint64()).append_column("s", pa.array(["x"])))],
)
def test_whole_numbers_beside_text_are_refused_and_beside_wide_ones_text(one: Any, other: Any) -> None:
    if other.schema.field("id").type == pa.string():
        with pytest.raises(InvalidParameter, match=r"a\.id holds whole numbers and b\.id text"):
            connected({"a": one, "b": other}, unit=ONE)
    else:
        with connected({"a": one, "b": other}, unit=ONE) as session:
            assert [t.columns["id"].value for t in session._desk.tables] == ["VARCHAR", "VARCHAR"]  # type: ignore[union-attr]


def sources_of_seven(folder: Path) -> Iterator[Any]:
    yield parquet(folder, arrow([7]))
    yield csv_file(folder, ["7"], ",", "b.csv")
    yield json_file(folder, ["7"], array=False)
    yield pd.DataFrame({"i": [0], "id": pd.Series([" 7"], dtype=object)})
    yield database(folder, arrow(["7"]), "USMALLINT")


@pytest.mark.parametrize("same", [True, False], ids=["same table", "other table"])
def test_a_person_has_one_budget_across_sessions_whatever_stores_the_id(same: bool, tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    for i, source in enumerate(sources_of_seven(tmp_path)):
        name, given = "t" if same else f"t{i}", source
        if isinstance(source, Path) and source.suffix == ".duckdb":
            with closing(open_database(str(source))) as connection:
                connection.execute(f"ALTER TABLE data RENAME TO {name}")
        else:
            given = {name: source}
        with dp.connect(
            given, unit=ONE, per_person=dp.Budget(epsilon=100), population="people", ledger=path
        ) as session:
            session.sql(f"SELECT COUNT(*) AS n FROM {name}", epsilon=i + 1)
    with Ledger.open(path) as ledger:
        account = ledger.account("people")
        assert account is not None and account.person_budgets is not None
        assert len(account._log.read(account.person_budgets._read).table) == 1


def test_a_shape_that_another_version_pinned_is_refused_and_not_read_anew() -> None:
    with pytest.raises(LedgerError, match="Another version of discreet"):
        TableShape.from_json({"columns": [["id", "VARCHAR"]], "text": False, "delimiter": ",", "made": ["id"]})


def test_a_refusal_of_ids_is_no_crash(tmp_path: Path) -> None:
    """Whatever a column of a database is called or holds, connecting it answers or refuses."""
    kinds = [
        *REFUSED,
        "BIT",
        "UUID",
        "VARCHAR",
        "STRUCT(a INT)",
        "MAP(INT, INT)",
        "UNION(a INT)",
        "BIGNUM",
        "TIMESTAMP_NS",
    ]
    for kind in kinds:
        file = tmp_path / f"{kinds.index(kind)}.duckdb"
        with closing(open_database(str(file))) as connection:
            connection.execute(f'CREATE TABLE t ("Id" {kind}, "a ""b" INT)')
        try:
            connected(file, unit=dp.PrivacyUnit("Id", max_groups=1, max_rows=1)).close()
        except DiscreetError as error:
            assert error.hint
