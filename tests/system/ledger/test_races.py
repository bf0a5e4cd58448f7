"""Many real processes at one ledger."""

from __future__ import annotations

import ast
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from discreet.accounting.filter import Charge
from discreet.errors import BudgetExceeded, InvalidParameter, LedgerBusy, LedgerError
from discreet.ledger.ledger import Ledger
from discreet.ledger.sqlite import SQLiteStore
from discreet.ledger.store import Transaction
from discreet.privacy.guarantee import Budget

MakeCharge: TypeAlias = Callable[..., Charge]
Fork: TypeAlias = Callable[[Callable[[], object]], int]
Ended: TypeAlias = Callable[[int], int]


def all_at_once(fork: Fork, ended: Ended, n: int, work: Callable[[int], object]) -> list[int]:
    """The exit statuses of n children that start together."""
    ready, go = os.pipe()

    def start(i: int) -> object:
        os.close(go)
        os.read(ready, 1)  # ends when the parent closes its end
        return work(i)

    pids = [fork(lambda i=i: start(i)) for i in range(n)]  # type: ignore[misc]  # the loop's own i
    os.close(ready)
    os.close(go)
    return [ended(pid) for pid in pids]


def test_fifty_processes_that_race_for_the_last_units_get_exactly_what_there_is(
    path: Path, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    def ask(i: int) -> bool:
        with Ledger.open(path) as ledger:
            account = ledger.open_account("p", Budget(1))
            try:
                entry = account.charge(f"q{i}", pay("1/10"), note={})
            except BudgetExceeded:
                return True
            account.store(f"q{i}", entry.seq, {"n": i})
            return False

    with Ledger.open(path) as ledger:
        account = ledger.open_account("p", Budget(1))
    statuses = all_at_once(fork, ended, 50, ask)
    assert (statuses.count(0), statuses.count(1)) == (10, 40)
    with Ledger.open(path) as ledger:
        account = ledger.open_account("p", None)
        assert account.remaining.epsilon == 0
        assert ledger.verify().ok
        charged = {e.question for e in account.history() if e.kind == "charge"}
        assert charged == {f"q{i}" for i, status in enumerate(statuses) if status == 0}


def test_fifty_processes_that_open_the_account_at_once_open_one(path: Path, fork: Fork, ended: Ended) -> None:
    def start(i: int) -> bool:
        with Ledger.open(path) as ledger:  # the file is not there yet either
            secret = ledger.open_account("p", Budget(1)).secret
        (path.parent / f"secret-{i}").write_bytes(secret)
        return False

    assert set(all_at_once(fork, ended, 50, start)) == {0}
    assert len({(path.parent / f"secret-{i}").read_bytes() for i in range(50)}) == 1
    with Ledger.existing(path) as ledger:
        assert ledger.verify().entries == 1
        assert ledger.verify().ok
    assert list(path.parent.glob(".*")) == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_eight_processes_that_charge_at_once_lose_double_and_reorder_no_charge(
    kind: str, request: pytest.FixtureRequest, path: Path, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    """A short slice of `python -m benchmarks.ledger`, where each makes 1,000."""
    place = str(path) if kind == "sqlite" else request.getfixturevalue("postgres").url()
    each = 12
    Ledger.open(place).open_account("p", Budget(1000))

    def keep_charging(i: int) -> bool:
        with Ledger.open(place) as ledger:
            account = ledger.open_account("p", None)
            numbers = [account.charge(f"{i} {k}", pay("1/100"), note={}).seq for k in range(each)]
        (path.parent / f"numbers-{i}").write_text(repr(numbers))
        return False

    assert set(all_at_once(fork, ended, 8, keep_charging)) == {0}
    with Ledger.open(place) as ledger:
        account = ledger.open_account("p", None)
        history = account.history()
        assert account.budget.epsilon - account.remaining.epsilon == Fraction(8 * each, 100)
        assert ledger.verify().ok
    assert [entry.seq for entry in history] == list(range(1, 8 * each + 2))
    for i in range(8):
        charged = [(entry.seq, entry.question) for entry in history[1:] if str(entry.question).startswith(f"{i} ")]
        numbers = ast.literal_eval((path.parent / f"numbers-{i}").read_text())
        assert charged == [(seq, f"{i} {k}") for k, seq in enumerate(numbers)]


def test_of_processes_that_want_different_budgets_one_wins_and_the_others_are_told(
    path: Path, fork: Fork, ended: Ended
) -> None:
    def start(i: int) -> bool:
        try:
            return Ledger.open(path).open_account("p", Budget(i + 1)).budget != Budget(i + 1)
        except InvalidParameter:
            return True

    statuses = all_at_once(fork, ended, 10, start)
    assert (statuses.count(0), statuses.count(1)) == (1, 9)
    account = Ledger.open(path).account("p")
    assert account is not None
    assert account.budget == Budget(statuses.index(0) + 1)


def test_processes_that_pin_a_table_at_once_agree(ledger: Ledger, path: Path, fork: Fork, ended: Ended) -> None:
    account = ledger.open_account("p", Budget(1))

    def pin(i: int) -> bool:
        (path.parent / f"pinned-{i}").write_text(str(account.pin("t", {"from": i})["from"]))
        return False

    assert set(all_at_once(fork, ended, 10, pin)) == {0}
    assert len({(path.parent / f"pinned-{i}").read_text() for i in range(10)}) == 1
    assert ledger.verify().ok


def test_a_forked_child_and_its_parent_spend_one_budget(
    ledger: Ledger, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    account = ledger.open_account("p", Budget(1))
    account.charge("q", pay("1/4"), note={})
    pids = [fork(lambda: account.charge("q", pay("1/4"), note={}) is None) for _ in range(2)]
    assert [ended(pid) for pid in pids] == [0, 0]
    account.charge("q", pay("1/4"), note={})
    with pytest.raises(BudgetExceeded):
        account.charge("q", pay("1/4"), note={})
    assert ledger.verify().ok


def test_a_fork_while_threads_are_charging_gives_children_that_can_charge(
    ledger: Ledger, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    account, stop = ledger.open_account("p", Budget(1000)), threading.Event()

    def keep_charging() -> None:
        while not stop.is_set():
            account.charge("thread", pay("1/100"), note={})
            time.sleep(0.002)

    threads = [threading.Thread(target=keep_charging) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(8):
            assert ended(fork(lambda: account.charge("child", pay("1/100"), note={}) is None)) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [e.question for e in account.history()].count("child") == 8
    assert ledger.verify().ok


def test_a_memory_ledger_is_refused_in_a_forked_child_even_while_the_parent_uses_it(
    pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    ledger = Ledger.open(":memory:")
    account = ledger.open_account("p", Budget(1))

    def child() -> bool:
        try:
            account.charge("q", pay(1), note={})
        except LedgerError as error:
            return "forked child" not in error.message
        return True

    assert ledger._log.store.write(lambda now: ended(fork(child))) == 0
    account.charge("q", pay(1), note={})


def test_a_ledger_that_is_held_too_long_is_busy_and_nothing_is_charged(path: Path, pay: MakeCharge) -> None:
    SQLiteStore.create(path)
    ledger = Ledger(SQLiteStore(path, patience=0.3))
    account = ledger.open_account("p", Budget(1))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerBusy, match="held by another process"):
            account.charge("q", pay(1), note={})
        assert account.remaining.epsilon == 1  # one can look while another writes
        other.execute("ROLLBACK")
        other.execute("BEGIN")
        other.execute("SELECT * FROM entry").fetchall()
        with pytest.raises(LedgerBusy):  # a reader that never ends keeps the commit waiting
            account.charge("q", pay(1), note={})
        other.execute("ROLLBACK")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerBusy):
            _ = account.remaining
    assert account.remaining.epsilon == 1
    account.charge("q", pay(1), note={})


def test_an_entry_that_another_thread_adds_while_one_begins_to_read_is_no_missing_one(
    monkeypatch: pytest.MonkeyPatch, pay: MakeCharge
) -> None:
    with Ledger.open(":memory:") as ledger:
        account = ledger.open_account("p", Budget(1))
        store, inside = account.log.store, False
        read = store.read

        def late(work: Callable[[Transaction], Any]) -> Any:
            def then(transaction: Transaction) -> Any:
                nonlocal inside
                if not inside:  # the moment that is read is fixed, and now somebody else charges
                    inside = True
                    other = threading.Thread(target=account.charge, args=("q", pay("1/10")), kwargs={"note": {}})
                    other.start()
                    other.join()
                return work(transaction)

            return read(then)

        monkeypatch.setattr(store, "read", late)
        assert account.remaining.epsilon == 1
        assert inside
        assert account.remaining.epsilon == Fraction(9, 10)
