"""Tables with a place for each key: where they are worth it, and that they count as others do."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from discreet.backends.connection import LEAVES, bits_of_a_key, open_database, rows_about
from tests.backends.asking import connected

COUNTED = "SELECT u, count(*) AS n FROM t GROUP BY u"


@pytest.mark.parametrize(
    ("sql", "rows", "threads", "bits"),
    [
        (COUNTED, 10_000_000, 2, 21),
        (COUNTED, 100_000_000, 2, 24),
        (COUNTED, 10**12, 1, 24),
        (COUNTED, 3_000_000, 2, 19),
        (COUNTED, 100, 2, LEAVES),
        (COUNTED, 10**9, 64, 20),
        (COUNTED, 10**9, 8, 23),
        (COUNTED, 10**9, 2048, 17),
        (f"WITH a AS (\n{COUNTED}\n)\nSELECT sum(n) FROM a", 10**9, 2, 24),
        (f"WITH a AS (\n{COUNTED}\n)\nSELECT n AS b, sum(n) FROM a GROUP BY b", 10**9, 2, 24),
        (f"WITH a AS (\n{COUNTED}\n)\nSELECT n, sum(n) FROM a GROUP BY n", 10**9, 2, 22),
        ("SELECT " + ", ".join(f"sum(x{i})" for i in range(30)) + " FROM t GROUP BY u", 10_000_000, 2, 18),
        ("SELECT " + ", ".join(f"sum(x{i})" for i in range(10)) + " FROM t GROUP BY u", 10_000_000, 2, 19),
        ("SELECT 1", 10_000_000, 2, 21),
    ],
)
def test_a_place_for_each_key_where_rows_are_many_and_states_few(sql: str, rows: int, threads: int, bits: int) -> None:
    assert bits_of_a_key(sql, rows=rows, threads=threads) == bits


def test_rows_are_guessed_and_no_guess_is_no_failure(tmp_path: Path) -> None:
    with open_database() as connection:
        connection.execute('CREATE TABLE "o""dd" AS SELECT * FROM range(1234)')
        assert rows_about(connection, 'o"dd') == 1234
        assert rows_about(connection, "none") == 0


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("bits", "first"), [(20, 0), (20, -7), (20, 2**31 - 3), (20, -(2**62)), (24, -7), (24, 2**31 - 3)]
)
@pytest.mark.parametrize("more", [-3, -2, -1, 0, 1])
def test_people_are_counted_one_by_one_whichever_table_they_are_kept_in(
    bits: int, first: int, more: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids that just fit into such a table, and that just do not."""
    monkeypatch.setattr("discreet.backends.duckdb.bits_of_a_key", lambda sql, **_: bits)
    ids = (1 << bits) + more
    file, people = tmp_path / "t.parquet", min(ids, 1_500_000)
    with open_database() as connection:
        spread = f"SELECT {first} + i * {ids - 1} // {people - 1} AS uid FROM range({people}) r(i)"
        connection.execute(f"COPY ({spread} UNION ALL SELECT NULL) TO '{file}'")
    with connected({"t": str(file)}) as session:
        counted = 'SELECT uid AS u, count(*) AS n FROM main."t" GROUP BY uid'
        asked = f"SELECT count(*), sum(n), count(u) FROM ({counted})"
        assert session._desk.backend.rows(asked, {}) == [(people + 1, people + 1, people)]
        assert session._desk.backend.rows("SELECT current_setting('perfect_ht_threshold')", {}) == [(bits,)]


def test_only_tables_that_are_asked_for_are_looked_at_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def many(connection: object, table: str) -> int:
        looked.append(table)
        return 3_000_000

    monkeypatch.setattr("discreet.backends.duckdb.rows_about", many)
    rows = pd.DataFrame({"id": [1, 2, 2], "x": [1, 2, 3]})
    with connected({"t": rows, "other": rows}) as session:
        bits = """SELECT current_setting('perfect_ht_threshold') FROM main."t" LIMIT 1"""
        assert session._desk.backend.rows(bits, {}) == session._desk.backend.rows(bits, {}) == [(19,)]
        assert looked == ["t"]
