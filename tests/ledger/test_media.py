"""Disks that are full, read-only or broken: a clear refusal, nothing lost, and later all is well."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from discreet.accounting.filter import Charge
from discreet.errors import LedgerBusy, LedgerCorrupt, LedgerError
from discreet.ledger import sqlite
from discreet.ledger.failures import failure
from discreet.ledger.ledger import Ledger
from discreet.privacy.guarantee import Budget

MakeCharge: TypeAlias = Callable[..., Charge]
Fork: TypeAlias = Callable[[Callable[[], object]], int]
Ended: TypeAlias = Callable[[int], int]

CANNOT = 77
"""The exit status of a child that is not allowed to set its stage."""


@contextmanager
def refused(words: str) -> Iterator[None]:
    with pytest.raises(LedgerError, match=words) as caught:
        yield
    assert caught.value.hint
    assert caught.value.exit_code == 4


@pytest.fixture
def no_growth(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Let SQLite believe that the disk has no further page, or let it be again."""
    connect = sqlite._connect

    def small(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("PRAGMA max_page_count = 1")  # SQLite takes the present size instead, if that is more
        return connection

    def set_full(full: bool) -> None:
        monkeypatch.setattr(sqlite, "_connect", small if full else connect)
        sqlite.release()

    return set_full


def test_a_full_disk_refuses_the_charge_and_loses_nothing(
    ledger: Ledger, pay: MakeCharge, no_growth: Callable[[bool], None]
) -> None:
    account = ledger.open_account("p", Budget(1))
    paid = account.charge("q", pay("1/4"), note={})
    no_growth(True)
    with refused("the disk of the ledger .* is full"):
        account.charge("r", pay("1/4"), note={"long": "x" * 10_000})
    with refused("is full"):
        account.store("q", paid.seq, {"rows": [[i, i] for i in range(2000)]})
    assert account.remaining.epsilon == 1 - paid.epsilon  # type: ignore[operator]  # a charge has an ε
    no_growth(False)
    account.charge("r", pay("1/4"), note={"long": "x" * 10_000})
    account.store("q", paid.seq, {"rows": [[i, i] for i in range(2000)]})
    assert account.remaining.epsilon * 2 == 1
    assert ledger.verify().ok


def test_a_limit_on_the_size_of_files_refuses_the_charge_and_loses_nothing(
    path: Path, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    with Ledger.open(path) as ledger:
        ledger.open_account("p", Budget(1)).charge("q", pay("1/4"), note={})
    for limit in (0, 100, 4096, path.stat().st_size, path.stat().st_size + 4096):

        def work(limit: int = limit) -> None:
            account = Ledger.open(path).open_account("p", None)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            with refused("the disk"):
                account.charge("r", pay("1/4"), note={"long": "x" * 20_000})
            assert account.remaining.epsilon * 4 == 3
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            account.store("q", 2, {"after": limit}) if limit == 0 else account.pin(f"t{limit}", {})

        assert ended(fork(work)) == 0, limit
    with Ledger.open(path) as ledger:
        assert ledger.verify().ok
        account = ledger.account("p")
        assert account is not None
        assert account.remaining.epsilon * 4 == 3


def mount(where: Path, kind: bytes | None, flags: int, options: bytes | None) -> None:
    """Mount something in a namespace of this process alone, or end with CANNOT."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_namespace, private_below = 0x20000, 0x4000 | 0x40000
    if "apart" not in _STAGE:
        if libc.unshare(new_namespace) or libc.mount(b"none", b"/", None, private_below, None):
            os._exit(CANNOT)
        _STAGE.add("apart")
    if libc.mount(kind, os.fsencode(where), kind, flags, options):
        os._exit(CANNOT)


_STAGE: set[str] = set()


def on_a_stage(status: int) -> None:
    if status == CANNOT:
        pytest.skip("this user may not mount")
    assert status == 0


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "unshare"), reason="mount namespaces are Linux's")
def test_a_file_system_that_runs_full_refuses_and_goes_on_when_there_is_room(
    path: Path, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    def work() -> None:
        mount(path.parent, b"tmpfs", 0, b"size=256k")
        ledger = Ledger.open(path)
        account, charged = ledger.open_account("p", Budget(1)), 0
        fill = path.with_name("fill")
        with pytest.raises(LedgerError, match="disk"):
            for _ in range(1000):
                account.charge("q", pay("1/1000"), note={"long": "x" * 3000})
                charged += 1
        assert charged > 5
        for left in range(60, 0, -4):  # less and less room, below a page at last
            with suppress(OSError), fill.open("ab", buffering=0) as file:
                file.write(b"x" * 4096)
            with suppress(LedgerError):
                account.charge("q", pay("1/1000"), note={"left": left})
                charged += 1
            assert account.remaining.epsilon * 1000 == 1000 - charged
        fill.unlink()
        mount(path.parent, b"tmpfs", 32, b"size=4m")
        account.charge("q", pay("1/1000"), note={"long": "x" * 3000})
        assert account.remaining.epsilon * 1000 == 999 - charged
        assert ledger.verify().ok

    on_a_stage(ended(fork(work)))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "unshare"), reason="mount namespaces are Linux's")
def test_on_a_read_only_file_system_one_can_look_and_not_charge(
    path: Path, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    def work() -> None:
        mount(path.parent, b"tmpfs", 0, b"size=1m")
        with Ledger.open(path) as ledger:
            account = ledger.open_account("p", Budget(1))
            account.charge("q", pay("1/4"), note={})
            sqlite.release()  # nothing becomes read-only while a file is open for writing
            mount(path.parent, b"tmpfs", 32 | 1, None)
            with refused("is read-only"):
                account.charge("q", pay("1/4"), note={})
        with refused("is read-only"):
            Ledger.open(path)
        with refused("read-only file system"):
            Ledger.open(path.with_name("new.ledger"))
        with Ledger.existing(path) as ledger:
            account = ledger.account("p")  # type: ignore[assignment]  # it is there
            assert account.remaining.epsilon * 4 == 3
            assert ledger.verify().ok
            with refused("is read-only"):
                account.charge("q", pay("1/4"), note={})

    on_a_stage(ended(fork(work)))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind this user")
def test_without_permission_to_write_a_ledger_is_refused(path: Path, pay: MakeCharge) -> None:
    account = Ledger.open(path).open_account("p", Budget(1))
    path.chmod(0o400)
    with refused("is read-only"):
        Ledger.open(path)
    path.chmod(0o600)
    path.parent.chmod(0o500)
    try:
        with refused("is read-only"):
            account.charge("q", pay("1/4"), note={})
        with refused("permission denied"):
            Ledger.open(path.with_name("new.ledger"))
    finally:
        path.parent.chmod(0o700)
    path.chmod(0)
    with refused("cannot be opened"):
        Ledger.existing(path)


def test_without_a_journal_nothing_is_charged(ledger: Ledger, path: Path, pay: MakeCharge) -> None:
    """A folder in the journal's place stands for whatever keeps SQLite from making one."""
    account = ledger.open_account("p", Budget(1))
    journal = path.with_name(path.name + "-journal")
    journal.mkdir()
    with refused("ledger"):
        account.charge("q", pay("1/4"), note={})
    journal.rmdir()
    assert account.remaining.epsilon == 1


def test_without_file_handles_nothing_is_charged(path: Path, pay: MakeCharge, fork: Fork, ended: Ended) -> None:
    account = Ledger.open(path).open_account("p", Budget(1))

    def work() -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        for most in range(3, 40):  # from none at all to enough
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            try:
                account.charge("q", pay("1/100"), note={})
                break
            except LedgerError:
                continue
        else:
            raise AssertionError("never enough")
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert most > 4
        assert account.remaining.epsilon * 100 == 99

    assert ended(fork(work)) == 0
    assert account.remaining.epsilon * 100 == 99


class Failing(sqlite3.Connection):
    """A connection whose chosen statement fails as a broken disk does."""

    statement = ""
    code = sqlite3.SQLITE_IOERR_FSYNC

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if sql.startswith(self.statement):
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = self.code
            raise error
        return super().execute(sql, *args)


@pytest.mark.parametrize(
    "statement",
    ["PRAGMA journal", "BEGIN", "PRAGMA user", "SELECT seq", "INSERT INTO entry", "INSERT INTO state", "COMMIT"],
)
def test_a_disk_that_fails_at_any_statement_charges_nothing(
    ledger: Ledger, pay: MakeCharge, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    account = ledger.open_account("p", Budget(1))
    connect = sqlite3.connect
    with monkeypatch.context() as broken:
        broken.setattr(Failing, "statement", statement)
        broken.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Failing))
        sqlite.release()
        with refused("the disk failed"):
            account.charge("q", pay("1/4"), note={})
    sqlite.release()
    assert account.remaining.epsilon == 1
    account.charge("q", pay("1/4"), note={})
    assert ledger.verify().ok


def test_a_kept_connection_that_fails_is_not_kept(
    ledger: Ledger, pay: MakeCharge, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = ledger.open_account("p", Budget(1))
    connect = sqlite3.connect
    for statement in ("BEGIN", "PRAGMA user", "INSERT INTO entry", "COMMIT"):
        with monkeypatch.context() as broken:
            broken.setattr(Failing, "statement", "nothing")
            broken.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Failing))
            sqlite.release()
            assert account.remaining.epsilon == 1
            broken.setattr(Failing, "statement", statement)
            with refused("the disk failed"):
                account.charge("q", pay("1/4"), note={})
        assert account.remaining.epsilon == 1  # over another connection
    account.charge("q", pay("1/4"), note={})
    assert ledger.verify().ok


def test_a_kept_connection_is_not_used_for_another_file_or_journal(ledger: Ledger, path: Path, pay: MakeCharge) -> None:
    account = ledger.open_account("p", Budget(1))
    account.charge("q", pay("1/4"), note={})
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    account.charge("r", pay("1/4"), note={})
    copy.replace(path)  # an older copy, under the path of the open file
    with pytest.raises(LedgerCorrupt, match="lacks an entry that it had before"):
        account.charge("s", pay("1/4"), note={})
    with Ledger.open(path) as again:
        account = again.open_account("p", None)
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
        account.charge("s", pay("1/4"), note={})
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert again.verify().ok


def test_a_file_that_a_link_leads_to_now_is_opened_by_its_own_name(ledger: Ledger, path: Path, pay: MakeCharge) -> None:
    account = ledger.open_account("p", Budget(1))
    account.charge("q", pay("1/4"), note={})
    (path.parent / "archive").mkdir()
    moved = path.parent / "archive" / path.name
    path.rename(moved)
    path.symlink_to(moved)
    account.charge("r", pay("1/4"), note={})
    store = ledger._log.store
    assert isinstance(store, sqlite.SQLiteStore)
    (kept,) = store._kept
    ((*_, opened),) = kept.connection.execute("PRAGMA database_list").fetchall()
    assert opened == os.path.realpath(moved)  # beside which its journal is looked for
    with Ledger.open(moved) as other:
        assert other.verify(ledger.head).ok


def test_a_charge_asks_for_everything_at_once_and_for_nothing_twice(
    ledger: Ledger, path: Path, pay: MakeCharge
) -> None:
    account = ledger.open_account("p", Budget(1))
    with Ledger.open(path) as other:
        there = other.open_account("p", None)
        for k in range(2):  # in turns, so that the last entry is always somebody else's
            account.charge(f"a {k}", pay("1/100"), note={})
            there.charge(f"b {k}", pay("1/100"), note={})
    store = ledger._log.store
    assert isinstance(store, sqlite.SQLiteStore)
    asked: list[str] = []
    store._kept[0].connection.set_trace_callback(asked.append)
    account.charge("c", pay("1/100"), note={})
    sent = [text for text in asked if not text.startswith("--")]  # what triggers do is no statement of ours
    assert sum(text.startswith("SELECT") for text in sent) <= 3
    assert sum(text.startswith("INSERT") for text in sent) == 3
    assert not any("query_only" in text for text in sent)
    assert ledger.verify().ok


KINDS = {
    sqlite3.SQLITE_BUSY: LedgerBusy,
    sqlite3.SQLITE_LOCKED: LedgerBusy,
    sqlite3.SQLITE_CORRUPT: LedgerCorrupt,
    sqlite3.SQLITE_NOTADB: LedgerCorrupt,
    sqlite3.SQLITE_ERROR: LedgerCorrupt,
    sqlite3.SQLITE_READONLY: LedgerError,
    sqlite3.SQLITE_FULL: LedgerError,
    sqlite3.SQLITE_IOERR: LedgerError,
    sqlite3.SQLITE_CANTOPEN: LedgerError,
    sqlite3.SQLITE_PROTOCOL: LedgerError,
    sqlite3.SQLITE_NOLFS: LedgerError,
}


@pytest.mark.parametrize("code", range(1, 29))
def test_every_code_of_sqlite_has_an_error_with_a_sentence_and_a_hint(code: int, path: Path) -> None:
    for extended in (code, code | 256, code | 12 << 8):
        error = sqlite3.OperationalError("its own words")
        error.sqlite_errorcode = extended
        told = failure(error, str(path))
        assert type(told) is KINDS.get(code, type(told))
        assert told.message.endswith(".")
        assert told.message.count(". ") == 0
        assert str(path) in told.message
        assert told.hint
        assert "its own words" not in str(told)


def test_an_error_without_a_code_is_told_too(path: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as db, pytest.raises(sqlite3.Error) as caught:
        db.execute("SELECT 1; SELECT 2")
    assert isinstance(failure(caught.value, str(path)), LedgerError)
