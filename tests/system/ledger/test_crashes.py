"""A process is killed, at every step that it takes, and what it had acknowledged is still there."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from discreet.accounting.filter import Charge
from discreet.ledger import sqlite
from discreet.ledger.account import Account
from discreet.ledger.ledger import Ledger
from discreet.ledger.log import View
from discreet.ledger.sqlite import SQLiteStore, SQLiteTransaction
from discreet.privacy.guarantee import Budget
from tests.crashes.tracer import Change, Fate, can_trace, run

MakeCharge: TypeAlias = Callable[..., Charge]
Fork: TypeAlias = Callable[[Callable[[], object]], int]
Ended: TypeAlias = Callable[[int], int]

TENTH = Fraction(1, 10)


def spent(path: Path) -> Fraction:
    """What a new process finds spent, of a ledger that is whole and takes the next charge."""
    with Ledger.open(path) as ledger:
        report = ledger.verify()
        assert report.ok, report.problems
        account = ledger.account("p")
        assert account is not None
        return account.budget.epsilon - account.remaining.epsilon


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(function: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    def step(*args: Any, **kwargs: Any) -> Any:
        if not after:
            die()
        function(*args, **kwargs)
        die()

    return step


STEPS: list[tuple[type, str, bool]] = [
    (SQLiteStore, "_begun", False),
    (SQLiteStore, "_begun", True),
    (SQLiteTransaction, "last", True),
    (SQLiteTransaction, "get", True),
    (View, "append", False),
    (SQLiteTransaction, "append", False),
    (SQLiteTransaction, "append", True),
    (SQLiteTransaction, "put", False),
    (SQLiteTransaction, "put", True),
    (View, "seal", False),
    (View, "seal", True),
    (SQLiteStore, "_commit", False),
]


@pytest.mark.parametrize(("where", "step", "after"), STEPS, ids=lambda x: x if isinstance(x, str) else "")
def test_killed_at_a_step_before_the_commit_nothing_was_charged(
    path: Path, pay: MakeCharge, fork: Fork, ended: Ended, where: type, step: str, after: bool
) -> None:
    Ledger.open(path).open_account("p", Budget(1)).charge("before", pay(TENTH), note={})

    def work() -> None:
        account = Ledger.open(path).open_account("p", None)
        setattr(where, step, dying(getattr(where, step), after=after))
        account.charge("q", pay(TENTH), note={})

    assert ended(fork(work)) == -signal.SIGKILL
    assert spent(path) == TENTH
    Ledger.open(path).open_account("p", None).charge("q", pay(TENTH), note={})
    assert spent(path) == 2 * TENTH


def test_killed_right_after_the_commit_the_charge_is_there(
    path: Path, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    Ledger.open(path).open_account("p", Budget(1))

    class Dying(sqlite3.Connection):
        def rollback(self) -> None:  # called after the commit, and then undoes nothing
            die()

    def work() -> None:
        account = Ledger.open(path).open_account("p", None)
        sqlite.release()
        connect = sqlite3.connect
        sqlite.sqlite3.connect = lambda *a, **k: connect(*a, **k, factory=Dying)  # type: ignore[attr-defined]
        account.charge("q", pay(TENTH), note={})

    assert ended(fork(work)) == -signal.SIGKILL
    assert spent(path) == TENTH


@pytest.mark.skipif(not can_trace(), reason="ptrace as Linux on x86-64 has it")
def test_killed_at_any_change_of_a_file_a_charge_is_whole_or_not_there(path: Path, pay: MakeCharge) -> None:
    """Each kill is done to a copy of one ledger, in a folder of its own, so that every run makes the same changes."""
    Ledger.open(path).open_account("p", Budget(1)).charge("before", pay(TENTH), note={})
    outcomes, ended, before = set(), False, 0
    while not ended:
        copy = path.parent / str(before) / "p.ledger"
        copy.parent.mkdir()
        shutil.copy(path, copy)
        account = Ledger.open(copy).open_account("p", None)
        changes: list[Change] = []

        def decide(change: Change, changes: list[Change] = changes, before: int = before) -> Fate:
            changes.append(change)
            return Fate.KILLED if len(changes) > before else Fate.MADE

        def work(tell: int, account: Account = account) -> None:
            account.charge("q", pay(TENTH), note={})
            os.write(tell, b"+")

        end = run(work, copy.parent, decide)
        ended, before = end.status == 0, before + 1
        found = spent(copy)
        charged, acknowledged = found == 2 * TENTH, end.said == b"+"
        assert charged or found == TENTH  # all of it or nothing of it
        assert charged or not acknowledged
        account.charge("q", pay(TENTH), note={})  # what the crash left behind does not stand in the way
        assert spent(copy) == (3 if charged else 2) * TENTH
        outcomes.add((charged, acknowledged))
    # The kills fell before the commit and between the commit and its return: otherwise they would have
    # shown nothing.
    assert outcomes == {(False, False), (True, False), (True, True)}


def test_killed_at_any_time_what_was_acknowledged_is_never_lost(
    path: Path, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    Ledger.open(path).open_account("p", Budget(100_000))
    acknowledged = 0
    for kill in range(25):
        told, tell = os.pipe()

        def work(tell: int = tell) -> None:
            account = Ledger.open(path).open_account("p", None)
            while True:
                account.charge("q", pay(1), note={})
                os.write(tell, b"+")

        pid = fork(work)
        os.close(tell)
        os.read(told, 1)
        time.sleep(0.0017 * (kill % 12))
        os.kill(pid, signal.SIGKILL)
        assert ended(pid) == -signal.SIGKILL
        acknowledged += 1
        while more := os.read(told, 1 << 16):
            acknowledged += len(more)
        os.close(told)
        assert acknowledged <= spent(path) <= acknowledged + kill + 1  # at most one unheard charge for each kill
    assert acknowledged >= 25


def test_killed_while_a_ledger_is_made_there_is_a_whole_one_or_none(
    path: Path, fork: Fork, ended: Ended, pay: MakeCharge
) -> None:
    for step in ("open", "close", "link", "fsync"):

        def work(step: str = step) -> None:
            setattr(os, step, dying(getattr(os, step), after=True))
            Ledger.open(path)

        assert ended(fork(work)) == -signal.SIGKILL
        assert path.exists() == (step in ("link", "fsync"))
        Ledger.open(path).open_account("p", Budget(1))
        assert spent(path) == 0
        path.unlink()


def test_ctrl_c_while_the_file_is_looked_at_leaves_no_lock(
    path: Path, pay: MakeCharge, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Ledger.open(path).open_account("p", Budget(10))
    account.charge("q", pay(1), note={})
    real, kept = os.path.realpath, []

    def interrupted(name: object, **options: object) -> str:
        monkeypatch.setattr(os.path, "realpath", real)
        raise KeyboardInterrupt

    monkeypatch.setattr(os.path, "realpath", interrupted)
    try:
        account.charge("q", pay(1), note={})
    except KeyboardInterrupt as stop:
        kept.append(stop)  # with its traceback, and all that its frames name
    assert len(kept) == 1
    Ledger(SQLiteStore(path, patience=0.1)).open_account("p", None).charge("q", pay(1), note={})
    assert spent(path) == 2


def test_ctrl_c_at_any_time_leaves_a_ledger_that_works_at_once(
    path: Path, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    """Also while the tracebacks are kept, as an interactive session keeps the last one."""
    Ledger.open(path).open_account("p", Budget(100_000))
    told, tell = os.pipe()

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def work() -> None:
        account = Ledger(SQLiteStore(path, patience=1)).open_account("p", None)
        signal.signal(signal.SIGALRM, interrupt)
        took = []
        for _ in range(10):
            start = time.monotonic()
            account.charge("q", pay(1), note={})
            took.append(time.monotonic() - start)
        one = statistics.median(took)
        acknowledged, kept = 10, []
        for i in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + one * (i % 50) / 45)
                try:
                    account.charge("q", pay(1), note={})
                    acknowledged += 1
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt as interrupted:
                kept.append(interrupted)
        os.write(tell, f"{acknowledged} {len(kept)}".encode())

    assert ended(fork(work)) == 0
    acknowledged, interrupted = map(int, os.read(told, 100).split())
    os.close(told)
    os.close(tell)
    assert interrupted > 20
    assert acknowledged <= spent(path) <= acknowledged + interrupted
