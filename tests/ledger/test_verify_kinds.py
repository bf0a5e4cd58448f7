"""Histories of the owner's entries, rewritten with all their hashes: each must still follow from the rules."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from discreet.accounting.filter import Charge
from discreet.errors import LedgerCorrupt
from discreet.ledger.entry import KINDS
from discreet.ledger.ledger import Ledger
from discreet.privacy.guarantee import Budget
from tests.ledger.test_lock import FORGED as LOCK_FORGED
from tests.ledger.test_verify import forge, opened, problems

MakeCharge: TypeAlias = Callable[..., Charge]
Bodies: TypeAlias = list[dict[str, Any]]
BOARD: dict[str, Any] = {"by": "the data board", "reason": "as agreed"}


@pytest.fixture
def owned(path: Path, pay: MakeCharge) -> Path:
    """An account with everything that an owner can do, and analysts apart in a second one."""
    with Ledger.open(path) as ledger:
        a = ledger.open_account("a", Budget(3, 1e-6))  # 1
        a.charge("q1", pay("1/2"), note={})  # 2
        a.change_budget(Budget(4, 1e-6), **BOARD)  # 3
        a.freeze(**BOARD)  # 4
        a.thaw(**BOARD)  # 5
        a.cap_group("team", Budget(2), **BOARD)  # 6
        a.cap_analyst("ana", Budget(1), group="team", **BOARD)  # 7
        a.seen_by("ana").charge("q2", pay("3/4"), note={})  # 8
        a.close(**BOARD)  # 9
        b = ledger.open_account("b", Budget(2), analysts="apart")  # 10
        b.cap_analyst("ben", Budget(1), **BOARD)  # 11
        b.cap_group("team", Budget(1), **BOARD)  # 12
        b.cap_analyst("cleo", Budget(1), group="team", **BOARD)  # 13
        b.seen_by("cleo").charge("q1", pay("1/2"), note={})  # 14
        assert ledger.verify().problems == ()
    return path


def at(seq: int, **changes: Any) -> Callable[[Bodies], None]:
    """Change the fields of one entry."""
    return lambda bodies: bodies[seq - 1].update(changes)


def append(seq: int, after: int | None = None, **changes: Any) -> Callable[[Bodies], None]:
    """A copy of one entry with other fields, at the end or after another one."""

    def change(bodies: Bodies) -> None:
        bodies.insert(len(bodies) if after is None else after, bodies[seq - 1] | changes)

    return change


def without(*seqs: int) -> Callable[[Bodies], None]:
    """Entries removed."""

    def change(bodies: Bodies) -> None:
        for seq in sorted(seqs, reverse=True):
            del bodies[seq - 1]

    return change


def budget(epsilon: str, delta: str = "0/1", per_query: str = "20/1") -> dict[str, str]:
    return {"epsilon": epsilon, "delta": delta, "per_query": per_query}


HASH = "ab" * 32
PEOPLE = {"budget": budget("1/1"), "filter": "basic", "capacity": ["1/1", "0/1"]}
MOVED = {"kind": "moved", "to": "elsewhere", "head": HASH, "population": "a", **BOARD, "time": "2026"}
BEGUN = {"kind": "begun", "charge": 2, "draws": 16, "population": "a", "time": "2026"}

FORGED: dict[str, tuple[Callable[[Bodies], None], str]] = {
    "a budget raised above its capacity's": (at(3, capacity=["9/1", "1/1000000"]), "a capacity above its budget"),
    "a budget below what was spent": (
        at(3, budget=budget("1/4", "1/1000000"), capacity=["1/4", "1/1000000"]),
        "lowers the budget below what was spent",
    ),
    "a budget without ε": (
        at(3, budget=budget("0/1"), capacity=["0/1", "0/1"]),
        "a budget or a cap needs an ε above 0",
    ),
    "a raise left out": (without(3), "the state 'terms/a' is not what the entries say"),
    "a budget after the close": (append(3), "changes an account that was closed"),
    "a budget that does not cover what is reserved": (
        append(3, population="b", budget=budget("3/2"), capacity=["3/2", "0/1"]),
        "reserves more than the budget",
    ),
    "a charge while frozen": (without(5), "is a charge to an account that was frozen"),
    "draws begun while frozen": (lambda b: b.insert(4, BEGUN), "begins draws of an account that was frozen"),
    "draws begun after the close": (lambda b: b.append(BEGUN), "begins draws of an account that was closed"),
    "draws begun twice": (lambda b: b.__setitem__(slice(2, 2), [BEGUN, BEGUN]), "begins draws that were begun"),
    "draws begun of no charge": (lambda b: b.insert(1, BEGUN), "begins draws that no charge pays for"),
    "a freeze twice": (append(4, 4), "freezes an account that was frozen"),
    "a thaw without a freeze": (without(4), "thaws an account that was not frozen"),
    "a charge after the close": (append(8), "is a charge to an account that was closed"),
    "a freeze after the close": (append(4), "changes an account that was closed"),
    "a close twice": (append(9), "changes an account that was closed"),
    "a close left out": (without(9), "the state 'terms/a' is not what the entries say"),
    "a cap above its capacity's": (at(7, capacity=["9/1", "0/1"]), "a capacity above its cap"),
    "a cap below what was spent": (
        append(7, 8, budget=budget("1/4"), capacity=["1/4", "0/1"]),
        "lowers the cap of 'ana' below what was spent",
    ),
    "a charge above an analyst's cap": (
        at(7, budget=budget("1/2"), capacity=["1/2", "0/1"]),
        "is a charge above the cap of 'ana'",
    ),
    "a charge above a group's cap": (
        at(6, budget=budget("1/2"), capacity=["1/2", "0/1"]),
        "is a charge above the cap of 'team'",
    ),
    "a charge above an analyst's cap on one query": (
        at(7, budget=budget("1/1", "0/1", "1/2")),
        "is a charge above the cap on one query",
    ),
    "a charge by nobody": (at(8, analyst=None), "is a charge that names no analyst"),
    "a charge by a stranger": (at(8, analyst="eve"), "is a charge by an analyst whom nobody added"),
    "a charge laid on another analyst": (at(14, analyst="ben"), 'the state \'analyst/["b","ben"]\''),
    "an analyst removed": (without(7), "is a charge by an analyst whom nobody added"),
    "a group removed": (without(6), "adds an analyst to a group without a cap"),
    "an analyst in another group": (append(7, 8, group=None), "moves an analyst to another group"),
    "a reserved cap lowered": (
        append(11, budget=budget("1/2"), capacity=["1/2", "0/1"]),
        "lowers the cap of 'ben', which was reserved",
    ),
    "caps above what there is": (append(11, name="dan"), "reserves more than the budget"),
    "caps above a group's": (append(13, name="dan"), "reserves more than the cap of 'team'"),
    "analysts who were apart": (at(10, analysts="together"), "the published head is not in this ledger"),
    "a budget for each person, and none kept": (
        append(8, 8, kind="people", charge=8, commitment=HASH),
        "unknown field",
    ),
    "people charged without budgets": (
        lambda bodies: bodies.insert(
            8, {"kind": "people", "population": "a", "time": "2026", "charge": 8, "commitment": HASH}
        ),
        "charges people who have no budgets",
    ),
    "people who share analysts kept apart": (at(10, people=PEOPLE), "keeps analysts apart who share"),
    "people under other neighbours": (
        at(1, people=PEOPLE, relation="replace"),
        "gives each person a budget for other neighbours",
    ),
    "people above their budget": (
        at(1, people=PEOPLE | {"capacity": ["2/1", "0/1"]}),
        "a capacity above each person's budget",
    ),
    "a move of one account only": (
        lambda bodies: bodies.append(MOVED),
        "the account of 'b' has not moved with the others",
    ),
    "a move from another head": (lambda bodies: bodies.append(MOVED), "moves elsewhere than its ledger"),
    "an entry after a move": (
        lambda bodies: bodies.extend([MOVED, MOVED | {"population": "b"}, bodies[8] | {"population": "b"}]),
        "comes after its ledger had moved",
    ),
    "a move twice": (lambda bodies: bodies.extend([MOVED, MOVED]), "moves an account that had moved"),
    "an unknown promise about analysts": (at(10, analysts="friends"), "cannot be read"),
    "a cap without a signature": (lambda bodies: bodies[6].pop("by"), "entry 7 of the ledger is damaged"),
    "a freeze without a reason": (lambda bodies: bodies[3].pop("reason"), "entry 4 of the ledger is damaged"),
    "an empty reason": (at(4, reason=" "), "entry 4 of the ledger is damaged"),
    "a cap signed by nobody": (at(7, by=""), "entry 7 of the ledger is damaged"),
    "a field of tomorrow": (at(7, expires="2031"), "unknown field 'expires'"),
}


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", FORGED)
def test_a_rewritten_history_of_the_owner_must_still_follow(owned: Path, name: str) -> None:
    change, words = FORGED[name]
    head = Ledger.existing(owned).head
    forge(owned, lambda bodies: (change(bodies), None)[1])
    said = problems(owned, head)
    assert any(words in p for p in said), said


def test_the_same_forgery_with_nothing_changed_is_whole(owned: Path) -> None:
    forge(owned, lambda bodies: None)
    assert problems(owned) == []


@pytest.fixture
def people(path: Path, pay: MakeCharge) -> Path:
    """An account where each person has a budget: opened, charged, people charged, released, merged."""
    with Ledger.open(path) as ledger:
        account = ledger.open_account("p", None, per_person=Budget(1))
        account.charge("q", pay("1/2"), note={})
    said: Bodies = [
        {"kind": "people", "population": "p", "time": "2026", "charge": 2, "commitment": HASH},
        {"kind": "release", "population": "p", "time": "2026", "question": "q", "charge": 2, "release": {}},
        {"kind": "people", "population": "p", "time": "2026", "charge": None, "commitment": HASH},
    ]
    forge(path, lambda bodies: bodies.extend(said))
    return path


PEOPLE_FORGED: dict[str, tuple[Callable[[Bodies], None], str]] = {
    "people not charged before the release": (without(3), "is a release whose people were not charged"),
    "people charged after the release": (
        lambda bodies: bodies.insert(3, bodies.pop(2)),
        "is a release whose people were not charged",
    ),
    "people charged twice": (append(3, 3), "charges people for no charge of theirs"),
    "people charged for nothing": (append(3, charge=1), "charges people for no charge of theirs"),
    "people charged for a later charge": (append(3, 1), "charges people for no charge of theirs"),
    "no commitment": (at(3, commitment="none"), "entry 3 of the ledger is damaged"),
    "a budget without a capacity": (at(1, capacity=["1/1", "0/1"]), "entry 1 of the ledger is damaged"),
    "a raise where there is no budget": (
        lambda bodies: bodies.append(
            {"kind": "budget", "population": "p", "time": "2026", "budget": budget("1/1"), **BOARD}
            | {"capacity": ["1/1", "0/1"], "signature": None}
        ),
        "gives a budget to a population without one",
    ),
    "another filter than its people's": (at(1, filter="zcdp"), "counts as its people are counted"),
}


@pytest.mark.parametrize("name", PEOPLE_FORGED)
def test_a_rewritten_history_of_people_must_still_follow(people: Path, name: str) -> None:
    def follow(path: Path) -> list[str]:
        return [p for p in problems(path) if p.startswith("entry")]

    assert follow(people) == []
    change, words = PEOPLE_FORGED[name]
    forge(people, lambda bodies: (change(bodies), None)[1])
    said = follow(people)
    assert any(words in p for p in said), said


def test_every_kind_is_forged_above() -> None:
    told = " ".join((*FORGED, *PEOPLE_FORGED, *LOCK_FORGED, "a release a schema an account"))
    words = {"account": "account", "budget": "budget", "freeze": "freeze", "thaw": "thaw", "close": "close"}
    words |= {"analyst": "analyst", "group": "group", "people": "people", "moved": "move", "charge": "charge"}
    words |= {"release": "release", "schema": "schema", "lock": "a lock", "begun": "begun"}
    assert words.keys() == KINDS.keys()
    assert all(word in told for word in words.values())


@pytest.mark.parametrize(
    "name", ["terms/a", "terms/b", 'analyst/["a","ana"]', 'group/["b","team"]', 'analyst/["b","ben"]']
)
def test_a_state_of_the_owner_that_was_edited_is_found_and_not_used(owned: Path, pay: MakeCharge, name: str) -> None:
    for value in ("", "{}", '{"seq":1,"spent":["0/1","0/1"]}', '{"analysts":{},"budget":1,"groups":{},"status":null}'):
        copy = owned.with_name("copy")
        shutil.copy(owned, copy)
        with opened(copy) as db:
            db.execute("UPDATE state SET value = ? WHERE name = ?", (value, name))
        assert f"the state {name!r} is not what the entries say." in problems(copy)
    with opened(owned) as db:
        db.execute("UPDATE state SET value = '{}' WHERE name = ?", (name,))
    with Ledger.existing(owned) as ledger, pytest.raises(LedgerCorrupt, match="contradicts itself"):
        account = ledger.account(name[-1] if "/" + name[-1] in name else name.split('"')[1])
        assert account is not None
        account.standings()
        account.refusal(pay("1/8"))
