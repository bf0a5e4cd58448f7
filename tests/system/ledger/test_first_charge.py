"""Real processes that open one account by their first charges, and a ledger that is locked under them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from discreet.accounting.filter import Charge
from discreet.errors import InvalidParameter, LedgerError
from discreet.ledger.account import Account
from discreet.ledger.chain import new_key
from discreet.ledger.joint_charge import foresee
from discreet.ledger.ledger import Ledger
from discreet.privacy.guarantee import Budget
from tests.crashes.tracer import Change, Fate, can_trace, run
from tests.postgres import Server
from tests.system.ledger.test_races import all_at_once

MakeCharge: TypeAlias = Callable[..., Charge]
Fork: TypeAlias = Callable[[Callable[[], object]], int]
Ended: TypeAlias = Callable[[int], int]


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, path: Path) -> str:
    """Where no ledger is yet."""
    if request.param == "file":
        return str(path)
    server: Server = request.getfixturevalue("postgres")
    return server.url()


def test_of_processes_with_different_budgets_one_opens_the_account_and_the_others_are_refused(
    place: str, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    """Each of them has connected while there was nothing, and sees the budget that it asks for."""

    def ask(i: int) -> bool:
        try:
            with Ledger.prepared(place) as ledger:
                account = ledger.prepared_account("p", Budget(3 + i % 2))
                foresee(account.pinning("t", {"columns": [["x", "BIGINT"]]}), account)
                account.charge(f"q{i}", pay("1/10"), note={})
        except InvalidParameter as error:
            assert (
                shlex.join(
                    ["discreet", "ledger", "budget", Ledger.existing(place)._log.store.place, "p", str(3 + i % 2)]
                )
                in error.hint
            )
            return True
        return False

    statuses = all_at_once(fork, ended, 8, ask)
    assert set(statuses) <= {0, 1}
    with Ledger.existing(place) as ledger:
        account = ledger.account("p")
        assert account is not None
        own = int(account.budget.epsilon) - 3
        assert [status == 0 for status in statuses] == [i % 2 == own for i in range(8)]
        assert [e.kind for e in account.history()] == ["account", "schema", *["charge"] * 4]
        assert ledger.verify().ok


def test_a_process_that_connected_before_the_lock_opens_no_account_after_it(
    path: Path, pay: MakeCharge, fork: Fork, ended: Ended, tmp_path: Path
) -> None:
    new_key(tmp_path / "owner.pem")
    new_key(tmp_path / "other.pem")
    connected, locked = os.pipe(), os.pipe()

    def early() -> bool:
        with Ledger.prepared(path) as ledger:
            account = ledger.prepared_account("p", Budget(1))
            os.write(connected[1], b"x")
            os.read(locked[0], 1)
            with pytest.raises(LedgerError, match="is locked"):
                account.charge("q", pay("1/10"), note={})
            for key in (None, tmp_path / "other.pem"):
                with pytest.raises(InvalidParameter, match="locked with a key"):
                    ledger.open_account("p", Budget(1), key=key)
            return False

    child = fork(early)
    os.read(connected[0], 1)
    with Ledger.open(path) as ledger:
        ledger.lock(key=tmp_path / "owner.pem", by="the board", reason="all are known")
        head = ledger.head
        os.write(locked[1], b"x")
        assert ended(child) == 0
        assert (ledger.head, ledger.populations()) == (head, [])
        assert ledger.verify().ok


@pytest.mark.skipif(not can_trace(), reason="ptrace as Linux on x86-64 has it")
def test_killed_at_any_change_of_a_file_there_is_no_account_or_one_with_its_tables_and_its_charge(
    tmp_path: Path, pay: MakeCharge
) -> None:
    """From an empty folder: between the store's making and the charge there is an empty ledger, and nothing is lost."""
    outcomes, ended, before = set(), False, 0
    while not ended:
        path = tmp_path / str(before) / "p.ledger"
        path.parent.mkdir()
        seen: list[Change] = []

        def decide(change: Change, seen: list[Change] = seen, before: int = before) -> Fate:
            seen.append(change)
            return Fate.KILLED if len(seen) > before else Fate.MADE

        def prepared(ledger: Ledger) -> Account:
            account = ledger.prepared_account("p", Budget(3))
            foresee(account.pinning("t", {"columns": [["x", "BIGINT"]]}), account)
            return account

        def work(tell: int, path: Path = path) -> None:
            with Ledger.prepared(path) as ledger:
                prepared(ledger).charge("q", pay(1), note={})
            os.write(tell, b"+")

        end = run(work, path.parent, decide)
        ended, before = end.status == 0, before + 1
        there, kinds = path.exists(), list[str]()
        if there:
            with Ledger.existing(path) as ledger:
                assert ledger.verify().ok
                account = ledger.account("p")
                kinds = [] if account is None else [e.kind for e in account.history()]
        assert kinds in ([], ["account", "schema", "charge"])
        assert kinds or end.said != b"+"
        outcomes.add((there, bool(kinds), end.said == b"+"))
        with Ledger.prepared(path) as ledger:
            account = prepared(ledger)
            assert account.remaining == Budget(2 if kinds else 3)
            account.charge("again", pay(1), note={})
            assert account.remaining == Budget(1 if kinds else 2)
            assert ledger.verify().ok
    assert outcomes == {(False, False, False), (True, False, False), (True, True, False), (True, True, True)}
