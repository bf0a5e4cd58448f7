"""DuckDB databases as sources, and what the backend does when it is closed, forked, interrupted, or fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import discreet as dp
from discreet.backends import duckdb as backend_module
from discreet.backends.connection import open_database
from discreet.backends.duckdb import DuckDB
from discreet.errors import BackendFailed, InternalError, InvalidParameter, SourceError, UnknownColumn
from discreet.ledger.ledger import Ledger
from tests.backends.asking import answers, connected
from tests.written import written


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "shop.duckdb"
    with open_database(file) as connection:
        connection.execute("CREATE TABLE visits AS SELECT i AS uid, i % 3 AS ward FROM range(30) r(i)")
        connection.execute('CREATE SCHEMA "se;lf"; CREATE TABLE "se;lf"."o""dd" AS SELECT 1 AS uid')
        connection.execute("CREATE VIEW aside AS SELECT 42 AS uid")
    return file


def test_a_database_brings_all_its_tables_and_is_only_read(database: Path) -> None:
    with connected(database) as session:
        assert session.tables == ["visits", 'se;lf.o"dd']
        assert session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=100).rows == [(30,)]
        assert session.sql('SELECT COUNT(*) AS n FROM "se;lf.o""dd"', epsilon=100).rows == [(1,)]
    with open_database(database) as connection:  # nothing holds it
        connection.execute("INSERT INTO visits VALUES (1, 1)")


def test_a_database_that_another_process_writes_is_said_to_be_held(database: Path) -> None:
    code = f"""
        import duckdb, sys
        connection = duckdb.connect({str(database)!r})
        print("held", flush=True)
        sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(SourceError, match="cannot be opened as a DuckDB database") as caught:
            connected(database)
        assert "no other process" in caught.value.hint
        holder.stdin.close()
    assert answers(database, "SELECT COUNT(*) FROM visits")[()] == [30]


@pytest.mark.parametrize("content", [b"", b"DUCK", b"SQLite format 3\0" + bytes(4096), b"uid,ward\n1,2\n"])
def test_what_is_no_database_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    file.write_bytes(content)
    with pytest.raises(SourceError, match=r"'x\.duckdb'") as caught:
        connected(file)
    assert caught.value.hint and str(tmp_path) not in str(caught.value)


def test_a_database_among_other_tables_is_refused_with_the_way_round(database: Path) -> None:
    with pytest.raises(SourceError, match="has no table 'shop'"):
        connected({"shop": database})
    with pytest.raises(SourceError, match="One DuckDB database at a time"):
        (database.parent / "b.duckdb").write_bytes(database.read_bytes())
        connected(str(database.parent / "*.duckdb"))


def test_two_tables_that_would_have_one_name_are_refused(tmp_path: Path) -> None:
    with open_database(tmp_path / "t.duckdb") as connection:
        connection.execute('CREATE SCHEMA a; CREATE TABLE a.b AS SELECT 1 AS x; CREATE TABLE "a.b" AS SELECT 2 AS x')
    with pytest.raises(InvalidParameter, match="Two tables have the same name"):
        connected(tmp_path / "t.duckdb")


@pytest.fixture
def views(database: Path) -> Path:
    """The database with views of a file that is gone, of random numbers, and in another schema."""
    file = database.parent / "gone.csv"
    file.write_text("uid\n1\n")
    with open_database(database) as connection:
        connection.execute(f"CREATE VIEW \"a file\" AS SELECT * FROM read_csv('{file}')")
        connection.execute("CREATE VIEW drawn AS SELECT random() AS uid")
        connection.execute('CREATE VIEW "se;lf".part AS SELECT uid FROM visits WHERE uid > 3')
    file.unlink()
    return database


@pytest.mark.parametrize("view", ["aside", "a file", "drawn", "DRAWN", "se;lf.part"])
def test_a_view_is_refused_by_its_name_with_the_line_that_makes_a_table_of_it(view: str, views: Path) -> None:
    person = dp.PrivacyUnit("uid", max_groups=1, max_rows=1)
    with connected(views, unit=person) as session:
        assert session.tables == ["visits", 'se;lf.o"dd']
        for sql in (
            f'SELECT COUNT(*) FROM "{view}"',
            f'SELECT COUNT(*) FROM visits JOIN "{view}" v ON visits.uid = v.uid',
            f'SELECT COUNT(*) FROM (SELECT * FROM "{view}") v',
        ):
            with pytest.raises(UnknownColumn, match="is a view of the database") as caught:
                session.sql(sql, epsilon=1)
            assert caught.value.hint.startswith("make a table of it: CREATE TABLE new AS SELECT * FROM")
        assert session.remaining == session.budget
    for options in (
        {"public": [view]},
        {"unit": dp.PrivacyUnit("uid", 1, 1, tables={view: "uid"})},
        {"unit": dp.PrivacyUnit("uid", 1, 1, tables={"visits": f"uid -> {view}.uid"})},
    ):
        with pytest.raises(UnknownColumn, match="is a view of the database"):
            connected(views, **{"unit": person, **options})
    with pytest.raises(UnknownColumn, match="is a view of the database"):
        both = {"a": person, "b": dp.PrivacyUnit("ward", 1, 1, tables={view: "ward"})}
        dp.connect_both(views, units=both, budget=dict.fromkeys(both, dp.Budget(1)), ledger=":memory:")


def test_views_are_told_where_no_table_has_the_name_or_none_is_there(views: Path) -> None:
    with connected(views) as session, pytest.raises(UnknownColumn, match="There is no table") as caught:
        session.plan("SELECT COUNT(*) FROM nothing", epsilon=1)
    assert caught.value.hint.endswith("; views are not read: a file, aside, drawn, se;lf.part")
    with open_database(views) as connection:
        connection.execute('DROP TABLE visits; DROP TABLE "se;lf"."o""dd"')
    with pytest.raises(SourceError, match="has no tables") as empty:
        connected(views)
    assert "CREATE TABLE" in empty.value.hint


def test_a_table_that_became_a_view_is_refused_by_name_and_its_budget_stays(views: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "a.ledger"
    connected(views, ledger=ledger).close()
    with open_database(views) as connection:
        connection.execute("DROP VIEW aside; ALTER TABLE visits RENAME TO other")
        connection.execute("CREATE VIEW visits AS SELECT 1 AS uid, 2 AS ward")
    with connected(views, ledger=ledger) as session, pytest.raises(UnknownColumn, match="is a view"):
        session.sql("SELECT COUNT(*) FROM visits", epsilon=1)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[DuckDB]:
    (tmp_path / "t.csv").write_text("secret\nSECRET\n17\n")
    with closing(DuckDB(tmp_path / "t.csv")) as backend:
        backend.attach("t", backend.discover("t"))
        yield backend


FAILING = [
    "SELECT CAST(secret AS BIGINT) FROM main.t",
    "SELECT error(secret) FROM main.t",
    "SELECT 1 // (length(secret) - 2) + CAST(secret AS INT) FROM main.t",
    "SELECT nothing FROM main.t",
    "SELECT $missing FROM main.t",
    "nonsense",
    "SELECT '290000-01-01'::TIMESTAMPTZ, error(secret) FROM main.t",
]


@pytest.mark.parametrize("sql", FAILING)
def test_a_failure_says_nothing_of_the_data_nor_do_its_causes_and_traces(sql: str, backend: DuckDB) -> None:
    with pytest.raises(BackendFailed) as caught:
        backend.rows(sql, {})
    error = caught.value
    assert error.__cause__ is None and error.__context__ is None
    shown = "".join(traceback.format_exception(error)) + repr(error) + str(error) + repr(error.args)
    assert "SECRET" not in shown and "Conversion" not in shown
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == backend_module.__file__:
            assert "SECRET" not in repr(frame.f_locals) and "Conversion" not in repr(frame.f_locals)
    assert backend.rows("SELECT count(*) FROM main.t", {}) == [(2,)]  # and it goes on


def test_a_rehearsal_runs_on_empty_tables_and_finds_what_cannot_run(backend: DuckDB) -> None:
    backend.rehearse("SELECT CAST(secret AS BIGINT) FROM main.t", {})
    with pytest.raises(InternalError, match="Nothing was charged"):
        backend.rehearse("SELECT nothing FROM main.t", {})
    backend.rehearse("SELECT count(*) FROM main.t", {})


def test_a_names_meaning_is_never_looked_for_outside_the_connected_tables(backend: DuckDB, tmp_path: Path) -> None:
    import pandas as pd

    mine = pd.DataFrame({"x": [1]})
    assert len(mine) == 1
    with pytest.raises(BackendFailed):
        backend.rows("SELECT * FROM mine", {})


def test_every_connection_has_the_same_settings(backend: DuckDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    asked = "SELECT current_setting('TimeZone'), current_setting('python_enable_replacements')"
    assert backend.rows(asked, {}) == [("UTC", False)]
    assert backend.rows("SELECT current_setting('autoload_known_extensions')", {}) == [(False,)]


def test_a_closed_session_says_so(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    session = connected(tmp_path / "t.csv")
    session.sql("SELECT COUNT(*) FROM t", epsilon=1)
    session.close()
    session.close()
    for question in ("SELECT COUNT(*) FROM t", "SELECT COUNT(a) FROM t"):
        with pytest.raises(SourceError, match="The session is closed"):
            session._desk.backend.rehearse("SELECT 1", {})
        with pytest.raises(dp.errors.DiscreetError, match="closed"):
            session.sql(question, epsilon=2)
    assert "Session(" in repr(session)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_refused_before_any_charge_and_may_read_stored_answers(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    ledger = tmp_path / "ledger"
    with connected(tmp_path / "t.csv", ledger=ledger) as session:
        kept = session.sql("SELECT COUNT(*) FROM t", epsilon=1).rows
        spent = session.remaining
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert session.sql("SELECT COUNT(*) FROM t", epsilon=1).rows == kept
                with pytest.raises(SourceError, match="forked child"):
                    session.sql("SELECT COUNT(a) FROM t", epsilon=1)
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert session.remaining == spent
        session.sql("SELECT COUNT(a) FROM t", epsilon=1)


INTERRUPTED = """
import discreet as dp
from discreet.ledger.account import Account

session = dp.connect(
    "t.parquet", unit=dp.PrivacyUnit("uid", max_groups=1, max_rows=1), budget=dp.Budget(10, "1e-3"), ledger="ledger"
)
charge = Account.charge


def loudly(self, *args, **options):
    entry = charge(self, *args, **options)
    print("charged", flush=True)
    return entry


Account.charge = loudly
try:
    session.sql("SELECT t, COUNT(*) AS n FROM t GROUP BY t", epsilon=1, delta="1e-6")
except KeyboardInterrupt as error:
    print("interrupted", error.__context__, error.__cause__, session.remaining.epsilon)
print(round(session.sql("SELECT COUNT(*) FROM t", epsilon=5).rows[0][0], -2))
"""


@pytest.mark.system
def test_ctrl_c_in_a_long_question_ends_it_and_the_charge_stands(tmp_path: Path) -> None:
    with open_database() as connection:
        rows = "SELECT i AS uid, repeat('x', 40) || i AS t FROM range(1500000) r(i)"
        connection.execute(f"COPY ({rows}) TO '{tmp_path / 't.parquet'}'")
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell that runs the tests behind itself has them ignore the key, and what they start too
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "charged\n", process.communicate()[1]
    time.sleep(0.2)  # in the middle: the question takes more than a second
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=240)
    assert out.splitlines() == ["interrupted None None 9", "charged", "1500000"], out + err


@pytest.mark.parametrize("source", ["t.csv", "t.parquet"])
def test_an_error_while_connecting_leaves_no_ledger_and_no_account(source: str, tmp_path: Path) -> None:
    (tmp_path / source).write_bytes(b"")
    with pytest.raises(SourceError):
        connected(tmp_path / source, ledger=tmp_path / "ledger")
    (tmp_path / "u.csv").write_text("a\n1\n")
    for wrong in ({"unit": dp.PrivacyUnit("b", max_groups=1, max_rows=1)}, {"columns": {"b": dp.Range(0, 1)}}):
        with pytest.raises(dp.errors.UnknownColumn):
            connected(tmp_path / "u.csv", ledger=tmp_path / "ledger", **wrong)
    assert not (tmp_path / "ledger").exists()


def test_a_table_that_the_ledger_knows_is_not_looked_at_before_it_is_asked(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    options: dict[str, Any] = {"ledger": tmp_path / "ledger"}
    written(connected(tmp_path / "t.csv", **options)).close()
    (tmp_path / "t.csv").write_text("")
    with connected(tmp_path / "t.csv", **options) as session:
        assert session.sql("SELECT COUNT(a) AS n FROM t", epsilon=100).rows == [(0,)]
    with Ledger.existing(tmp_path / "ledger") as book:
        account = book.account("people")
        assert account is not None
        pinned = account.pinned("t")
        assert pinned is not None and [c[0] for c in pinned["columns"]] == ["a", "b"]


def test_another_file_of_the_population_shares_its_budget(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.csv").write_text("y\n1\n2\n")
    options: dict[str, Any] = {"ledger": tmp_path / "ledger", "budget": dp.Budget(3)}
    with connected(tmp_path / "a.csv", **options) as session:
        session.sql("SELECT COUNT(*) FROM a", epsilon=2)
    with connected(tmp_path / "b.csv", **options) as session:
        assert session.remaining == dp.Budget(1)
        with pytest.raises(dp.errors.BudgetExceeded):
            session.sql("SELECT COUNT(*) FROM b", epsilon=2)
    with pytest.raises(InvalidParameter, match="budget"):
        connected(tmp_path / "a.csv", **{**options, "budget": dp.Budget(4)})
