"""A source that is written while a session is open: read as it is at one moment, by name, and no word tells of it."""

from __future__ import annotations

import gzip
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import discreet as dp
from discreet.backends import duckdb
from discreet.backends.connection import open_database
from discreet.backends.duckdb import DuckDB
from discreet.backends.source import projection
from discreet.errors import BackendFailed, DiscreetError, InvalidParameter, SourceError
from discreet.verify.view import read_view
from tests.backends.asking import connected, exact

PERSON = dp.PrivacyUnit("uid", max_groups=1, max_rows=1)
QUERY = "SELECT COUNT(*) AS n, SUM(x) AS s FROM t"
FACTS = {"x": dp.Range(0, 100)}
KINDS = ("csv", "csv.gz", "tsv", "parquet", "json", "array.json")


def save(file: Path, columns: dict[str, list[Any]], *, text: bool = False) -> Path:
    """Write the columns, by another inode, as the kind that the file's name says."""
    names = list(columns)
    rows = list(zip(*columns.values(), strict=True))
    new = file.with_name(f"new-{threading.get_ident()}-{file.name}")
    if file.name.endswith(".parquet"):
        shown = ", ".join(f"c{i} AS {n}" for i, n in enumerate(names))
        kind = "VARCHAR" if text else "BIGINT"
        values = ", ".join("(" + ", ".join(f"CAST({v} AS {kind})" for v in row) + ")" for row in rows)
        with open_database() as db:
            db.execute(
                f"COPY (SELECT {shown} FROM (VALUES {values}) v({', '.join(f'c{i}' for i in range(len(names)))})) "
                f"TO '{new}' (FORMAT parquet)"
            )
    elif file.name.endswith("json"):
        cells = ["{" + ", ".join(f'"{n}": {v}' for n, v in zip(names, row, strict=True)) + "}" for row in rows]
        new.write_text("[" + ", ".join(cells) + "]" if file.name.startswith("array") else "\n".join(cells))
    else:
        mark = "\t" if file.name.endswith("tsv") else ","
        lines = mark.join(names) + "\n" + "".join(mark.join(map(str, row)) + "\n" for row in rows)
        new.write_bytes(gzip.compress(lines.encode()) if file.name.endswith("gz") else lines.encode())
    new.replace(file)
    return file


def opened(source: Path, **options: Any) -> dp.Session:
    return connected({"t": source}, **{"unit": PERSON, "columns": FACTS, **options})


FIRST = {"uid": [1, 2, 3, 4], "x": [10, 10, 10, 10]}


@pytest.mark.parametrize("name", KINDS)
def test_columns_that_were_exchanged_are_read_by_their_names(name: str, tmp_path: Path) -> None:
    file = save(tmp_path / (name if name.startswith("array") else f"t.{name}"), FIRST)
    with opened(file) as session:
        before = exact(session, QUERY)
        save(file, {"x": FIRST["x"], "uid": FIRST["uid"]})
        assert exact(session, QUERY) == before
        save(file, {"x": [10] * 100, "y": [5] * 100, "uid": [7] * 100})
        assert exact(session, "SELECT COUNT(*) AS n FROM t")[()] == [1], "one person, whatever stands first"


@pytest.mark.parametrize("name", ["csv", "parquet", "json"])
def test_a_session_answers_by_what_the_file_holds_when_it_is_asked(name: str, tmp_path: Path) -> None:
    file = save(tmp_path / f"t.{name}", FIRST)
    with opened(file) as session:
        save(file, {"x": [10] * 1000, "uid": [7] * 1000})
        answer = session.sql("SELECT COUNT(*) AS n FROM t", epsilon=20)
        assert abs(answer.rows[0][0] - 1) <= 3
        assert answer.certificate() is not None


def test_a_parquet_file_with_another_type_is_read_in_the_pinned_one(tmp_path: Path) -> None:
    file = save(tmp_path / "t.parquet", FIRST)
    with opened(file) as session:
        before = exact(session, QUERY)
        save(file, FIRST, text=True)
        session._desk.backend.refresh()  # as each query does first
        assert exact(session, QUERY) == before
        with open_database() as db:
            db.execute(f"COPY (SELECT 7.0::DOUBLE AS uid, 10 AS x) TO '{file}' (FORMAT parquet)")
        with pytest.raises(InvalidParameter, match="ids are whole numbers or text"):
            session.sql(QUERY, epsilon=1)
        assert session.remaining == session.budget


def test_a_database_stays_the_one_that_was_opened(tmp_path: Path) -> None:
    file, new = tmp_path / "d.duckdb", tmp_path / "new.duckdb"
    for path, rows in ((file, "(1, 10), (2, 10)"), (new, "(7, 10)")):
        with open_database() as db:
            db.execute(f"ATTACH '{path}' AS d")
            db.execute(f"CREATE TABLE d.t AS FROM (VALUES {rows}) v(uid, x)")
    with connected(file, unit=PERSON, columns=FACTS) as session:
        new.replace(file)
        assert exact(session, QUERY)[()] == [2, 20]
    with connected(file, unit=PERSON, columns=FACTS) as session:
        assert exact(session, QUERY)[()] == [1, 10]


def test_files_that_join_or_leave_a_glob_are_read(tmp_path: Path) -> None:
    save(tmp_path / "a.csv", FIRST)
    with opened(tmp_path / "*.csv") as session:
        save(tmp_path / "b.csv", {"x": [10], "uid": [9]})
        assert exact(session, "SELECT COUNT(*) AS n FROM t")[()] == [5]
        (tmp_path / "a.csv").unlink()
        assert exact(session, "SELECT COUNT(*) AS n FROM t")[()] == [1]
        (tmp_path / "b.csv").unlink()
        with pytest.raises(SourceError, match="There is no file"):
            session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1)
        assert session.remaining == session.budget


class Writer:
    """Writes a file each time that the database has just read it, or is about to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, write: Callable[[], object], times: int, when: str) -> None:
        read, self.reads = DuckDB._read, 0

        def both(backend: DuckDB, *given: Any) -> Any:
            self.reads += 1
            if self.reads <= times and when == "before":
                write()
            found = read(backend, *given)
            if self.reads <= times and when == "after":
                write()
            return found

        monkeypatch.setattr(DuckDB, "_read", both)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_file_that_is_written_while_it_is_read_is_read_again(
    name: str, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save(tmp_path / (name if name.startswith("array") else f"t.{name}"), FIRST)
    with opened(file) as session:
        writer = Writer(monkeypatch, lambda: save(file, {"x": [10] * 9, "uid": [1, 2] * 4 + [3]}), 2, when)
        assert exact(session, "SELECT COUNT(*) AS n FROM t")[()] == [3]
        assert writer.reads == 3


@pytest.mark.parametrize("damage", ["written", "gone", "broken", "other ids", "times for pyarrow"])
def test_a_file_that_does_not_keep_still_is_answered_as_if_it_were_empty(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save(tmp_path / "t.parquet", FIRST)
    count = 0

    def write() -> None:
        nonlocal count
        count += 1
        match damage:
            case "written":
                save(file, {"x": [10] * (count + 9), "uid": list(range(count + 9))})
            case "gone":
                file.unlink(missing_ok=True)
            case "broken":
                file.write_bytes(b"x" * (100 + count))
            case "times for pyarrow":
                monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
                with open_database() as db:
                    db.execute(f"COPY (SELECT 7 AS uid, TIME '00:00:0{count % 9}' AS x) TO '{file}' (FORMAT parquet)")
            case _:
                with open_database() as db:
                    db.execute(f"COPY (SELECT 7.5::DOUBLE AS uid, {count} AS x) TO '{file}' (FORMAT parquet)")

    with opened(file) as session, warnings.catch_warnings():
        warnings.simplefilter("error")
        writer = Writer(monkeypatch, write, 9, "after")
        assert exact(session, QUERY)[()][0] == 0
        assert 1 <= writer.reads <= 3
        save(file, FIRST)
        left = session.remaining
        writer.reads = 0
        answer = session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1)  # no error, no word
        assert session.remaining.epsilon == left.epsilon - 1
        assert "changed" not in f"{answer} {answer.explain()}"


def test_a_database_that_fails_on_a_file_that_keeps_still_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("SECRET")

    with opened(save(tmp_path / "t.csv", FIRST)) as session:
        monkeypatch.setattr(DuckDB, "_read", fail)
        with pytest.raises(BackendFailed, match="The charge stands") as caught:
            session.sql(QUERY, epsilon=1)
        assert "SECRET" not in str(caught.value) and caught.value.__context__ is None


def test_a_failure_after_a_repeated_read_holds_nothing_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, read = save(tmp_path / "t.csv", FIRST), DuckDB._read
    found: list[Any] = []

    def write_then_fail(backend: DuckDB, *rest: Any) -> Any:
        if found:
            raise RuntimeError("SECRET")
        found.append(read(backend, *rest))
        save(file, {"x": [10] * 9, "uid": list(range(9))})
        return found[0]

    with opened(file) as session:
        monkeypatch.setattr(DuckDB, "_read", write_then_fail)
        with pytest.raises(BackendFailed) as caught:
            session.sql(QUERY, epsilon=1)
    assert found[0]
    for at, _ in traceback.walk_tb(caught.value.__traceback__):
        assert not any(held is found[0] or held == (found[0],) for held in at.f_locals.values())


def test_neither_size_nor_time_of_a_file_makes_another_query(tmp_path: Path) -> None:
    file = save(tmp_path / "t.csv", FIRST)
    with opened(file) as session:
        first = session.sql(QUERY, epsilon=1)
        save(file, {"x": [99] * 500, "uid": list(range(500))})
        again = session.sql(QUERY, epsilon=1)
        assert again.rows == first.rows, "the label of the version says which data it is, not the file"
        assert session.plan(QUERY, epsilon=1).sql == session.plan(QUERY, epsilon=1).sql


def test_with_budgets_for_each_person_only_who_was_charged_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save(tmp_path / "t.csv", FIRST)
    from discreet.backends.person_filter import PersonFilter

    leave_out = PersonFilter.leave_out
    with dp.connect(
        {"t": file}, unit=PERSON, per_person=dp.Budget(epsilon=50), population="p", ledger=":memory:"
    ) as session:
        counts = session.sql("SELECT COUNT(*) AS n FROM t", epsilon=20).rows[0][0]
        assert abs(counts - 4) <= 3

        def write(people: PersonFilter, hashes: Any) -> None:
            leave_out(people, hashes)
            save(file, {"x": [10] * 900, "uid": list(range(900))})

        monkeypatch.setattr(PersonFilter, "leave_out", write)
        counts = session.sql("SELECT COUNT(*) AS n FROM t", epsilon=20, fresh=True).rows[0][0]
        assert abs(counts) <= 3


def test_a_view_of_an_earlier_state_never_takes_the_place_of_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = save(tmp_path / "t.csv", FIRST)
    later: list[threading.Thread] = []
    found: list[Any] = []
    with opened(file) as session:
        backend = session._desk.backend
        assert isinstance(backend, DuckDB)

        def late(*rest: Any) -> str:
            """Another thread attaches the exchanged columns, once this one has read the header before."""
            if not later:
                save(file, {"x": [10] * 4, "uid": [1, 2, 3, 4]})
                later.append(threading.Thread(target=backend.refresh))
                later[0].start()
                later[0].join(0.3)  # or it waits until this one is done
            return projection(*rest)

        def ask(*rest: Any) -> Any:
            if later and not found and threading.current_thread() is threading.main_thread():
                found.append(None)
                found[0] = backend.rows('SELECT DISTINCT x FROM main."t" AS t', {})
            return read_view(*rest)

        monkeypatch.setattr(duckdb, "projection", late)
        monkeypatch.setattr(duckdb, "read_view", ask)
        save(file, FIRST)
        backend.refresh()
        later[0].join()
        assert found == [[("10",)]]
        assert backend.rows('SELECT DISTINCT x FROM main."t" AS t', {}) == [("10",)]


def test_many_threads_ask_while_the_file_is_written(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    file = save(tmp_path / "t.csv", FIRST)
    with opened(file) as session:

        def ask(i: int) -> int:
            if i % 5 == 0:
                save(file, {"x": [10] * 4, "uid": [1, 2, 3, 4]} if i % 2 else {"uid": [1, 2, 3, 4], "x": [10] * 4})
            try:
                return int(exact(session, f"SELECT COUNT(*) AS n FROM t WHERE x < {50 + i}")[()][0])
            except DiscreetError as error:  # its columns changed between planning and charging
                assert "changed while the query was planned" in str(error)
                return 4

        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(ask, range(40))) <= {0, 4}


@pytest.mark.parametrize("name", ["t.csv", "t*.csv"])
def test_a_relative_path_means_the_folder_where_it_was_connected(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "a[1]", tmp_path / "b"
    for folder, rows in ((here, 4), (there, 3)):
        folder.mkdir()
        save(folder / "t.csv", {"uid": list(range(rows)), "x": [10] * rows})
    monkeypatch.chdir(here)
    with opened(Path(name)) as session:
        monkeypatch.chdir(there)
        assert session.sql("SELECT COUNT(*) AS n FROM t", epsilon=400).value == 4
