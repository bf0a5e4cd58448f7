"""What one person's cells and rows may use up: long cells are NULL, and what the threat model says of joins is so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from tests.backends.asking import connected, exact

MOST = 65_536
CELLS = ["x" * MOST, "é" * MOST, "x" * (MOST + 1), "é" * (MOST + 1), "a", None]


def sources(folder: Path) -> dict[str, Any]:
    """The cells in every kind of source."""
    table = pa.table({"x": CELLS, "z": range(len(CELLS))})
    rows = [{"x": x, "z": z} for z, x in enumerate(CELLS)]
    with open_database(folder / "t.duckdb") as db:
        db.register("cells", table)
        db.execute(f"CREATE TABLE t AS FROM cells; COPY cells TO '{folder / 't.parquet'}'")
        db.execute(f"COPY cells TO '{folder / 't.csv'}' (HEADER)")
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "t.json").write_text(json.dumps(rows))
    files = {n: folder / n for n in ("t.duckdb", "t.parquet", "t.csv", "t.jsonl", "t.json")}
    return {**files, "arrow": {"t": table}, "pandas": {"t": pd.DataFrame(rows)}}


def test_a_text_cell_of_more_than_65536_characters_is_null_whatever_holds_it(tmp_path: Path) -> None:
    for name, source in sources(tmp_path).items():
        with connected(source) as session:
            found = exact(session, "SELECT COUNT(x) AS n, COUNT(*) AS k FROM t")[()]
            assert sorted(found) == [3, 6], name
            longest = session._desk.backend.rows("SELECT max(length(x)) FROM main.t", {})
            assert longest == [(MOST,)], name


@pytest.mark.parametrize("tables", [2, 3])
def test_rows_of_one_person_multiply_in_joins_before_the_caps_as_the_threat_model_says(tables: int) -> None:
    """The statement of `What is not promised`: n rows are n^k in a join of k tables, and `max_rows` holds after it."""
    n = 12
    frame = pd.DataFrame({"uid": [1] * n, "x": range(n)})
    joins = "".join(f" JOIN t t{i} ON t{i}.uid = t0.uid" for i in range(1, tables))
    sql = f"SELECT COUNT(*) AS n FROM t t0{joins}"
    for most in (n**tables - 1, n**tables + 1):
        with connected({"t": frame}, unit=dp.PrivacyUnit("uid", max_groups=1, max_rows=most)) as session:
            assert exact(session, sql)[()] == [min(n**tables, most)]
    said = " ".join((Path(__file__).parents[2] / "docs" / "threat-model.md").read_text(encoding="utf-8").split())
    assert "a person with n rows has n² in a join with themselves and n^k in one of k tables" in said
