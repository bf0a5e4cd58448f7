"""A whole number that was pinned, read from a source that stores it otherwise now: the same number, or NULL."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from discreet.backends.backend import Pinned
from discreet.backends.duckdb import DuckDB
from tests.backends.test_files import write_parquet

WHOLE = Pinned({"uid": "BIGINT"}, text=False)
TEXT = Pinned({"uid": "VARCHAR"}, text=False)


@pytest.mark.parametrize(
    ("kind", "cell", "whole", "text"),
    [
        ("DOUBLE", "7", 7, "7"),
        ("DOUBLE", "'-0.0'", 0, "0"),
        ("DOUBLE", "7.5", None, "7.5"),
        ("DOUBLE", "-9007199254740991", -9007199254740991, "-9007199254740991"),
        ("DOUBLE", "9007199254740992", None, "9007199254740992"),
        ("DOUBLE", "-9223372036854775808", None, "-9223372036854775808"),
        ("DOUBLE", "'nan'", None, "nan"),
        ("FLOAT", "16777215", 16777215, "16777215"),
        ("FLOAT", "16777216", None, "16777216"),
        ("DECIMAL(38, 1)", "'9007199254740993.0'", 9007199254740993, "9007199254740993"),
        ("DECIMAL(38, 1)", "'9007199254740993.4'", None, "9007199254740993.4"),
        ("DECIMAL(38, 0)", "'9223372036854775808'", None, "9223372036854775808"),
        ("DECIMAL(38, 37)", "'0.5'", None, "0.5"),
        ("DECIMAL(10, 3)", "'-100.500'", None, "-100.5"),
        ("DECIMAL(10, 3)", "'100.000'", 100, "100"),
        ("VARCHAR", "'007'", 7, "007"),
        ("VARCHAR", "'9007199254740993'", 9007199254740993, "9007199254740993"),
        ("VARCHAR", "'9007199254740993.4'", None, "9007199254740993.4"),
        ("VARCHAR", "'0x10'", None, "0x10"),
        ("VARCHAR", "'seven'", None, "seven"),
        ("UBIGINT", "18446744073709551615", None, "18446744073709551615"),
        ("HUGEINT", "7", 7, "7"),
    ],
)
def test_an_id_is_itself_or_null(kind: str, cell: str, whole: int | None, text: str, tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "t.parquet", f"SELECT CAST({cell} AS {kind}) AS uid")
    for pinned, value in ((WHOLE, whole), (TEXT, text)):
        with closing(DuckDB(file)) as backend:
            backend.attach("t", pinned)
            assert backend.rows("SELECT uid FROM main.t", {}) == [(value,)]


FROM_CSV = {
    "BIGINT": Pinned({"uid": "BIGINT"}, text=True),
    "VARCHAR": Pinned({"uid": "VARCHAR"}, text=True),
}


@pytest.mark.parametrize(
    ("kind", "cells", "read"),
    [
        ("VARCHAR", ["a", " a", "a ", "", None, "ä"], ["a", None, None, None, None, "ä"]),
        ("BIGINT", ["7", "007", "7.0", " 7", "+7", "x"], [7, None, None, None, None, None]),
    ],
)
def test_ids_that_only_a_typed_source_tells_apart_are_never_one(
    kind: str, cells: list[str | None], read: list[object], tmp_path: Path
) -> None:
    rows = ", ".join(f"({i}, {'NULL' if c is None else repr(c)})" for i, c in enumerate(cells))
    file = write_parquet(tmp_path / "t.parquet", f"SELECT * FROM (VALUES {rows}) v(i, uid)")
    with closing(DuckDB(file)) as backend:
        backend.attach("t", Pinned({"i": "BIGINT", **FROM_CSV[kind].columns}, text=True), ids=["uid"])
        assert backend.rows("SELECT uid FROM main.t ORDER BY i", {}) == [(x,) for x in read]
    text = tmp_path / "t.csv"
    text.write_text("i,uid\n" + "".join(f"{i},{c or ''}\n" for i, c in enumerate(cells)), encoding="utf-8")
    with closing(DuckDB(text)) as backend:
        backend.attach("t", Pinned({"i": "BIGINT", **FROM_CSV[kind].columns}, text=True), ids=["uid"])
        found = [x for (x,) in backend.rows("SELECT uid FROM main.t ORDER BY i", {})]
    stripped = [c.strip() if c else None for c in cells]
    if kind == "BIGINT":
        stripped = [None if c is None or c == "x" else int(float(c)) for c in stripped]  # type: ignore[misc]
    assert found == stripped, "spaces and zeros mean nothing there"


def test_ids_that_differ_by_a_nanosecond_are_two(tmp_path: Path) -> None:
    nanos = [f"(CAST('2024-01-01 00:00:00.12345678{i}' AS TIMESTAMPTZ_NS))" for i in range(2)]
    file = write_parquet(tmp_path / "t.parquet", f"SELECT * FROM (VALUES {', '.join(nanos)}) v(uid)")
    with closing(DuckDB(file)) as backend:
        pinned = backend.discover("t", ids=["uid"])
        backend.attach("t", pinned, ids=["uid"])
        ids = [x for (x,) in backend.rows("SELECT uid FROM main.t", {})]
    assert len(set(ids) - {None}) in (0, 2), ids
    assert pinned.columns == {"uid": "VARCHAR"}
