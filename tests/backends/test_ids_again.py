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
