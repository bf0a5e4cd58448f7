"""Somebody cancels the wait for a synchronous standby, which the server answers with a warning and with success."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest

from discreet.accounting.filter import Charge
from discreet.errors import LedgerError
from discreet.ledger.account import Account
from discreet.ledger.ledger import Ledger
from discreet.ledger.postgres.adding import Adding
from discreet.ledger.postgres.link import Link
from discreet.ledger.postgres.store import PostgresStore
from discreet.ledger.postgres.url import address
from discreet.privacy.guarantee import Budget
from tests.postgres import Server

MakeCharge: TypeAlias = Callable[..., Charge]


def standbys(server: Server, names: str) -> None:
    server.sql(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
    server.sql("SELECT pg_reload_conf()")
    until(lambda: server.sql("SHOW synchronous_standby_names") == [[names]])
    if names:
        until(lambda: is_waited_for(server))


def until(true: Callable[[], bool]) -> None:
    for _ in range(400):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it never came true")


def is_waited_for(server: Server) -> bool:
    """Whether a commit waits: not so until the checkpointer has read the settings, whatever SHOW says."""
    commit = threading.Thread(target=server.sql, args=["COMMENT ON DATABASE postgres IS 'waits'"])
    commit.start()
    waited = False
    while commit.is_alive():
        for (pid,) in server.sql("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"):
            server.sql(f"SELECT pg_cancel_backend({pid})")
            waited = True
        commit.join(0.02)
    return waited


@pytest.fixture
def account(postgres: Server, pay: MakeCharge) -> Iterator[Account]:
    """One whose next charge waits for a standby that is not there."""
    with Ledger(PostgresStore(address(postgres.url()), patience=1)) as ledger:
        ledger._log.store.create()  # type: ignore[attr-defined]
        found = ledger.open_account("p", Budget(1))
        for question in "ab":
            found.charge(question, pay("1/100"), note={})
        standbys(postgres, "nobody")
        yield found
        standbys(postgres, "")


def cancelling(server: Server, work: Callable[[], object], *, then: Callable[[], None]) -> list[object]:
    """What the work returns or raises, with each of its waits cancelled; `then` is called after the first."""
    told: list[object] = []

    def run() -> None:
        try:
            told.append(work())
        except Exception as error:
            told.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    cancelled = 0
    while thread.is_alive():
        for (pid,) in server.sql("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"):
            server.sql(f"SELECT pg_cancel_backend({pid})")
            cancelled += 1
            if cancelled == 1:
                time.sleep(0.2)
                then()
        thread.join(0.02)
    assert cancelled
    return told


@pytest.fixture(params=["quick", "ordinary"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "ordinary":
        monkeypatch.setattr(Adding, "add", lambda *_: None)
    return str(request.param)


def test_while_every_wait_is_cancelled_a_charge_is_not_told(
    postgres: Server, account: Account, pay: MakeCharge, way: str
) -> None:
    (told,) = cancelling(postgres, lambda: account.charge("q", pay("1/100"), note={}), then=lambda: None)
    assert isinstance(told, LedgerError)
    assert "the charge may stand" in told.message


def test_once_the_wait_is_over_a_charge_is_told_and_made_once(
    postgres: Server, account: Account, pay: MakeCharge, way: str
) -> None:
    (told,) = cancelling(
        postgres, lambda: account.charge("q", pay("1/100"), note={}).question, then=lambda: standbys(postgres, "")
    )
    assert told == "q"
    assert [entry.question for entry in account.history()].count("q") == 1


def test_what_was_read_is_not_told_either(postgres: Server, account: Account) -> None:
    (told,) = cancelling(postgres, lambda: account.remaining, then=lambda: None)
    assert isinstance(told, LedgerError)
    assert "was lost" in told.message


def test_a_link_that_does_not_hear_warnings_is_told_of_success(
    postgres: Server, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin."""
    monkeypatch.setattr(Link, "_noticed", lambda *_: None)
    account.log.store.close()
    place = account.log.store.place
    with Ledger(PostgresStore(address(place), patience=1)) as deaf:
        (told,) = cancelling(postgres, lambda: deaf.account("p"), then=lambda: None)
    assert isinstance(told, Account)
