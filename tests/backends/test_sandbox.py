"""The sandbox of outer queries: what it holds, and that nothing else is read from it."""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from discreet.backends import sandbox as processes
from discreet.backends import sandbox as sandboxes
from discreet.backends.connection import open_database
from discreet.backends.sandbox import naming_failures, open_tables, rehearsed
from discreet.errors import BackendFailed, UnsupportedQuery

NOISY = [("k", "VARCHAR"), ("n", "BIGINT")]
ROWS = [("a", 3), ("b", 5), (None, None)]


def run(sql: str) -> list[tuple[object, ...]]:
    with open_tables({"part_1": (NOISY, ROWS)}) as sandbox:
        sandbox.check(sql)
        return sandbox.run(sql)[1]


def test_the_whole_language_runs_over_the_tables_that_are_there() -> None:
    assert run("SELECT k, n / SUM(n) OVER () FROM part_1 ORDER BY n") == [("a", 0.375), ("b", 0.625), (None, None)]
    assert run("WITH r AS (FROM PART_1) SELECT MAX(n), COUNT(*) FILTER (WHERE k = 'a') FROM r") == [(5, 1)]
    assert run("SELECT k FROM part_1 UNION ALL SELECT v FROM (VALUES ('z')) t(v) ORDER BY 1 NULLS FIRST LIMIT 2") == [
        (None,),
        ("a",),
    ]
    assert run("SELECT year(DATE '2024-02-03'), date_trunc('month', DATE '2024-02-03'), 1.5 * n FROM part_1 LIMIT 1")
    assert run("SELECT CAST(1.5 AS DECIMAL(4, 2)) * n FROM part_1 WHERE k = 'a'") == [(4.5,)]


@pytest.mark.parametrize(
    "sql",
    [
        *("SELECT now()", "SELECT random()", "SELECT uuid()", "SELECT current_date", "SELECT age(DATE '2020-01-01')"),
        *("SELECT current_setting('threads')", "SELECT getvariable('x')", "SELECT version()", "SELECT error('x')"),
        *("SELECT * FROM query('SELECT 1')", "SELECT * FROM query_table('part_1')", "SELECT * FROM range(3)"),
        *("SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM '/etc/passwd'", "SELECT * FROM duckdb_settings()"),
        *("SELECT * FROM information_schema.tables", "SELECT * FROM main.duckdb_tables", "SHOW TABLES"),
        *("SELECT * FROM part_1 TABLESAMPLE 10%", "SELECT n FROM part_1 USING SAMPLE 1", "SELECT nextval('s')"),
        *("WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT 1 FROM r) SELECT 1 FROM r", "PIVOT part_1 ON k"),
        *("SET threads = 2", "COPY part_1 TO 'x.csv'", "ATTACH 'x.db'", "SELECT 1; SELECT 2", "SELECT write_log('x')"),
        *(
            "SELECT range(3)",
            "SELECT repeat('x', n) FROM part_1",
            "SELECT lpad(k, 9, 'x') FROM part_1",
            "SELECT bar(1, 0, 2)",
        ),
        *(
            "SELECT json_serialize_plan('SELECT now()', optimize := true)",
            "SELECT list_aggregate([1, 2], 'reservoir_quantile', 0.5)",
        ),
        *("SELECT finalize(to_aggregate_state(1, 'sum', ['INTEGER']))", "SELECT aggregate([n], 'first') FROM part_1"),
        *("SELECT make_type('INTEGER')", "SELECT __internal_barrier(n) FROM part_1"),
        *("SELECT sleep_ms(1)", "SELECT reservoir_quantile(n, 0.5) FROM part_1", "SELECT main.now()"),
    ],
)
def test_what_reads_anything_else_is_refused_before_it_runs(sql: str) -> None:
    with pytest.raises(UnsupportedQuery):
        run(sql)


def test_a_private_frame_in_the_scope_of_the_caller_is_not_seen() -> None:
    private = pd.DataFrame({"x": [1, 2, 3]})
    # the broken twin: the database's own default reads the frame
    assert duckdb_default("SELECT COUNT(*) FROM private") == [(3,)]
    with pytest.raises(UnsupportedQuery, match="'private'"):
        run("SELECT COUNT(*) FROM private")
    with open_tables({}) as sandbox, pytest.raises(duckdb.CatalogException):  # nor where the check were passed over
        sandbox.run("SELECT COUNT(*) FROM private")
    del private


def duckdb_default(sql: str) -> list[tuple[object, ...]]:
    private = pd.DataFrame({"x": [1, 2, 3]})
    connection = open_database()
    connection.execute("SET GLOBAL python_enable_replacements = true")
    found: list[tuple[object, ...]] = connection.execute(sql).fetchall()
    del private
    return found


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('{file}')",
        "COPY (SELECT 1) TO '{file}'",
        "ATTACH '{file}.db'",
        "SET threads = 2",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "LOAD '{file}'",
    ],
)
def test_the_connection_itself_reaches_nothing(sql: str, tmp_path: Path) -> None:
    file = tmp_path / "private.txt"
    file.write_text("secret")
    with open_tables({}) as sandbox, pytest.raises(duckdb.Error):
        sandbox.process.execute(sql.format(file=file), seconds=10)
    assert file.read_text() == "secret"


def test_a_text_that_takes_too_long_is_stopped_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    many = " CROSS JOIN ".join(f"part_1 AS t{i}" for i in range(24))
    with monkeypatch.context() as patched, pytest.raises(BackendFailed, match="stands"), naming_failures():
        patched.setattr(sandboxes, "SECONDS", 0.05)
        run(f"SELECT SUM(t0.n) FROM {many}")
    with open_tables({"part_1": (NOISY, ROWS)}) as sandbox:
        sandbox.until = 0  # the time of many runs adds up
        with pytest.raises(duckdb.Error, match="seconds"):
            sandbox.run("SELECT 1")


def test_a_text_is_tried_on_empty_tables_and_gives_its_columns() -> None:
    assert rehearsed("SELECT *, n + 1 AS m FROM part_1", {"part_1": NOISY}) == ["k", "n", "m"]
    with pytest.raises(UnsupportedQuery, match="nowhere"):
        rehearsed("SELECT nowhere FROM part_1", {"part_1": NOISY})


def test_a_text_that_takes_too_much_memory_ends_alone_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_idle", [])
    monkeypatch.setattr(processes, "MEMORY", 5 << 28)
    made = "SELECT replace(s, 'a', s) AS s FROM"
    long = f"{made} (SELECT concat(k, '{'a' * 200}') AS s FROM part_1)"
    with pytest.raises(BackendFailed, match="stands"), naming_failures():
        run(f"{made} ({made} ({long}))")
    with open_tables({}) as sandbox:
        sandbox.process._child.kill()
        with pytest.raises(duckdb.Error, match="was ended"):
            sandbox.run("SELECT 1")
    assert run("SELECT MAX(n) FROM part_1") == [(5,)]
    while processes._idle:
        processes._idle.pop().close()


def test_what_one_query_made_is_not_there_for_the_next() -> None:
    with open_tables({"part_1": (NOISY, ROWS)}) as sandbox:
        process = sandbox.process
    with open_tables({}) as sandbox:
        assert sandbox.process is process
        with pytest.raises(duckdb.CatalogException):
            sandbox.run("SELECT COUNT(*) FROM part_1")


def test_a_process_that_cannot_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_idle", [])
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(BackendFailed, match="No process"), open_tables({}):
        pass


def test_functions_that_are_listed_are_known_and_none_is_volatile() -> None:
    listed = "SELECT function_name, list(stability) FROM duckdb_functions() GROUP BY 1"
    known = dict(open_database().execute(listed).fetchall())
    assert not sandboxes._FUNCTIONS - known.keys()
    assert not [name for name in sandboxes._FUNCTIONS if "VOLATILE" in known.get(name, [])]
