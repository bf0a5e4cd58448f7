"""People are settled in one transaction: kept, committed to, found again, and refused when they were changed."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest

from discreet.accounting.filter import Charge
from discreet.errors import InvalidParameter, LedgerCorrupt
from discreet.ledger.account import Account
from discreet.ledger.entry import PeopleCharged
from discreet.ledger.ledger import Ledger
from discreet.ledger.log import View
from discreet.ledger.people_table import CAPACITY
from discreet.ledger.person_budgets import MERGED, PersonBudgets
from discreet.ledger.sqlite import SQLiteStore, SQLiteTransaction
from discreet.privacy.guarantee import Budget
from tests.system.ledger.test_crashes import dying

MakeCharge: TypeAlias = Callable[..., Charge]
Fork: TypeAlias = Callable[[Callable[[], object]], int]
Ended: TypeAlias = Callable[[int], int]

QUARTER = CAPACITY // 4


def opened(path: Path) -> tuple[Account, PersonBudgets]:
    account = Ledger.open(path).open_account("p", None, per_person=Budget(1))
    assert account.person_budgets is not None
    return account, account.person_budgets


def settle(path: Path, pay: MakeCharge, people: list[int], cost: int = QUARTER, *, release: bool = True) -> list[int]:
    """Who cannot pay a question of these people."""
    account, budgets = opened(path)
    entry = account.charge("q", pay(Fraction(1, 10)), note={})
    out = budgets.settle(entry.seq, np.array(people, np.uint64), np.array([[cost] * len(people), [0] * len(people)]))
    if release:
        account.store("q", entry.seq, {"answer": 1})
    return [int(h) for h in out]


def test_people_pay_until_they_cannot_and_new_ones_start_in_full(path: Path, pay: MakeCharge) -> None:
    for _ in range(4):
        assert settle(path, pay, [7, 8]) == []
    assert settle(path, pay, [9, 8, 7]) == [7, 8]
    assert settle(path, pay, [7], cost=0) == []
    assert [settle(path, pay, [9]) for _ in range(4)] == [[], [], [], [9]]
    assert Ledger.open(path).verify().ok


def test_each_question_has_one_entry_whoever_is_in_it_and_segments_are_merged_by_number(
    path: Path, pay: MakeCharge
) -> None:
    counts = []
    for i in range(2 * MERGED + 3):
        settle(path, pay, [] if i % 3 else [i, i + 1])
        with closing(sqlite3.connect(path)) as connection:
            counts.append(connection.execute("SELECT count(*) FROM blob").fetchone()[0])
    assert counts == [*range(1, MERGED), *range(1, MERGED), *range(1, 6)]
    account, _ = opened(path)
    entries = [e for e in account.history() if isinstance(e.content, PeopleCharged)]
    assert len(entries) == len(counts) and len({e.content.to_json()["commitment"] for e in entries}) == len(counts)
    assert Ledger.open(path).verify().ok


def test_entries_tell_nothing_of_the_people(path: Path, pay: MakeCharge, tmp_path: Path) -> None:
    other = tmp_path / "other.ledger"
    for place, people in ((path, []), (other, [1, 2, 3])):
        settle(place, pay, people)
    shapes = []
    for place in (path, other):
        account, _ = opened(place)
        shapes.append(
            [
                (e.seq, e.kind, sorted(e.content.to_json()), len(str(e.content.to_json().get("commitment"))))
                for e in account.history()
            ]
        )
    assert shapes[0] == shapes[1]


def test_a_release_whose_people_were_not_charged_is_not_stored(path: Path, pay: MakeCharge) -> None:
    from discreet.errors import InternalError

    account, _ = opened(path)
    entry = account.charge("q", pay(Fraction(1, 10)), note={})
    with pytest.raises(InternalError, match="before its people were charged"):
        account.store("q", entry.seq, {"answer": 1})


def test_people_are_settled_once_and_for_a_charge_of_theirs(path: Path, pay: MakeCharge) -> None:
    account, budgets = opened(path)
    entry = account.charge("q", pay(Fraction(1, 10)), note={})
    nobody = np.empty(0, np.uint64), np.empty((2, 0), np.int64)
    budgets.settle(entry.seq, *nobody)
    with pytest.raises(InvalidParameter, match="have been charged already"):
        budgets.settle(entry.seq, *nobody)
    with pytest.raises(InvalidParameter, match="is not a charge"):
        budgets.settle(1, *nobody)


TAMPERED = [
    "UPDATE blob SET value = zeroblob(length(value)) WHERE name = (SELECT max(name) FROM blob)",
    "DELETE FROM blob WHERE name = (SELECT max(name) FROM blob)",
    "DELETE FROM blob WHERE name = (SELECT min(name) FROM blob)",
    "DELETE FROM blob",
    "INSERT INTO blob SELECT replace(name, '/0000', '/0001'), value FROM blob",
    "UPDATE blob SET value = (SELECT value FROM blob ORDER BY name LIMIT 1)",
    "UPDATE blob SET name = replace(name, '00000000000000', '00000000000009')",
]


@pytest.mark.parametrize("sql", TAMPERED)
def test_a_changed_table_is_found_and_no_question_is_settled_with_it(path: Path, pay: MakeCharge, sql: str) -> None:
    for people in ([1, 2], [2, 3], [3]):
        settle(path, pay, people)
    assert Ledger.open(path).verify().ok
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql)
        connection.commit()
    report = Ledger.open(path).verify()
    assert (
        not report.ok and "what the people of 'p' have spent is not what the ledger's chain says" in report.problems[0]
    )
    with pytest.raises(LedgerCorrupt, match="what the people of 'p' have spent"):
        settle(path, pay, [1])


def test_an_older_table_put_back_is_found(path: Path, pay: MakeCharge, tmp_path: Path) -> None:
    settle(path, pay, [1])
    old = tmp_path / "old"
    shutil.copy(path, old)
    settle(path, pay, [1])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("ATTACH ? AS old", (str(old),))
        connection.execute("DELETE FROM blob")
        connection.execute("INSERT INTO blob SELECT * FROM old.blob")
        connection.commit()
    assert not Ledger.open(path).verify().ok


def test_a_process_that_knows_an_older_table_reads_what_others_wrote(path: Path, pay: MakeCharge) -> None:
    account, budgets = opened(path)

    def here(people: list[int]) -> list[int]:
        entry = account.charge("q", pay(Fraction(1, 100)), note={})
        costs = np.array([[QUARTER] * len(people), [0] * len(people)])
        return [int(h) for h in budgets.settle(entry.seq, np.array(people, np.uint64), costs)]

    assert here([1, 2]) == []
    settle(path, pay, [1, 3])  # another connection to the same file
    assert here([1]) == []
    for i in range(MERGED):
        settle(path, pay, [100 + i])  # merged meanwhile
    assert here([1, 2]) == [] and here([1, 2, 3]) == [1]


STEPS: list[tuple[type, str, bool]] = [
    (PersonBudgets, "_read", False),
    (PersonBudgets, "_read", True),
    (SQLiteTransaction, "blobs", True),
    (SQLiteTransaction, "put_blob", False),
    (SQLiteTransaction, "put_blob", True),
    (View, "append", False),
    (View, "append", True),
    (View, "seal", True),
    (SQLiteStore, "_commit", False),
    (SQLiteStore, "_commit", True),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("where", "step", "after", "before"),
    [*((*s, 1) for s in STEPS), *((*s, MERGED - 1) for s in STEPS if "blob" in s[1] or "commit" in s[1])],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_killed_at_any_step_the_question_is_charged_and_not_answered_and_people_never_get_anything_back(
    path: Path, pay: MakeCharge, fork: Fork, ended: Ended, where: type, step: str, after: bool, before: int
) -> None:
    for _ in range(before):
        settle(path, pay, [1, 2], cost=CAPACITY // 20)
    account, budgets = opened(path)
    entry = account.charge("q", pay(Fraction(1, 100)), note={})

    def work() -> None:
        setattr(where, step, dying(getattr(where, step), after=after))
        budgets.settle(entry.seq, np.array([1, 5], np.uint64), np.array([[CAPACITY // 20] * 2, [0, 0]]))

    assert ended(fork(work)) == -signal.SIGKILL
    report = Ledger.open(path).verify()
    assert report.ok, report.problems
    again, kept = opened(path)
    stored = [e for e in again.history() if isinstance(e.content, PeopleCharged)]
    taken = before + ((step, after) == ("_commit", True))
    assert len(stored) == taken
    assert again.find("q") == {"answer": 1} and sum(e.kind == "release" for e in again.history()) == before
    # what is left of person 1 is just what was not taken
    left = 20 - taken
    next_entry = again.charge("q", pay(Fraction(1, 100)), note={})
    most = np.array([[CAPACITY // 20 * left], [0]])
    assert not len(kept.settle(next_entry.seq, np.array([1], np.uint64), most))
    last = again.charge("q", pay(Fraction(1, 100)), note={})
    assert len(kept.settle(last.seq, np.array([1], np.uint64), np.array([[1], [0]])))


def test_processes_that_settle_at_once_never_let_a_person_pay_twice(
    path: Path, pay: MakeCharge, fork: Fork, ended: Ended, tmp_path: Path
) -> None:
    opened(path)

    def work(i: int) -> Callable[[], None]:
        def run() -> None:
            paid = sum(settle(path, pay, [1, 100 + i], cost=CAPACITY // 20, release=False) == [] for _ in range(8))
            (tmp_path / str(i)).write_text(str(paid))

        return run

    assert [ended(pid) for pid in [fork(work(i)) for i in range(4)]] == [0] * 4
    assert sum(int((tmp_path / str(i)).read_text()) for i in range(4)) == 20
    assert Ledger.open(path).verify().ok
