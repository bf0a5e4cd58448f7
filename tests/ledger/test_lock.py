"""A locked ledger: no charge opens an account, its owner does, and the chain shows that it was the owner."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pytest

import discreet as dp
from discreet.accounting.filter import Charge
from discreet.errors import InvalidParameter, LedgerError
from discreet.ledger.chain import new_key
from discreet.ledger.entry import Entry, Locked, Opened
from discreet.ledger.export import verify_export
from discreet.ledger.forms import Act
from discreet.ledger.ledger import Ledger
from discreet.privacy.guarantee import Budget
from tests.ledger.test_verify import forge, problems

MakeCharge: TypeAlias = Callable[..., Charge]
Bodies: TypeAlias = list[dict[str, Any]]
BOARD: dict[str, Any] = {"by": "the data board", "reason": "all populations are known"}


@pytest.fixture
def key(tmp_path: Path) -> Path:
    new_key(tmp_path / "owner.pem")
    return tmp_path / "owner.pem"


def test_in_a_locked_ledger_no_charge_opens_an_account_and_its_owner_does(path: Path, pay: MakeCharge) -> None:
    with Ledger.open(path) as ledger:
        early = ledger.prepared_account("early", Budget(1))
        ledger.open_account("known", Budget(1))
        ledger.lock(**BOARD)
        assert ledger.is_locked
        with pytest.raises(LedgerError, match="is locked") as refused:
            ledger.prepared_account("new", Budget(1))
        assert f"discreet ledger open {path} new BUDGET" in refused.value.hint
        with pytest.raises(LedgerError, match="is locked"):  # it was prepared before
            early.charge("q", pay("1/2"), note={})
        assert ledger.populations() == ["known"]
        ledger.prepared_account("known", Budget(1)).charge("q", pay("1/2"), note={})
        ledger.open_account("new", Budget(1)).charge("q", pay("1/2"), note={})
        ledger.prepared_account("new", None).charge("q", pay("1/4"), note={})
        assert ledger.verify().ok
        assert ledger.verify().locked
        ledger.unlock(**BOARD)
        early.charge("q", pay("1/2"), note={})
        report = ledger.verify()
        assert report.ok
        assert not report.locked
        assert verify_export(ledger.export()) == report


def test_a_lock_is_one_at_a_time(path: Path) -> None:
    with Ledger.open(path) as ledger:
        with pytest.raises(InvalidParameter, match="is not locked"):
            ledger.unlock(**BOARD)
        for _ in range(2):
            ledger.lock(**BOARD)
            with pytest.raises(InvalidParameter, match="locked already"):
                ledger.lock(**BOARD)
            ledger.unlock(**BOARD)
        assert ledger.verify().ok


def test_a_lock_with_a_key_is_opened_by_this_key_alone(path: Path, key: Path, tmp_path: Path) -> None:
    new_key(tmp_path / "other.pem")
    with Ledger.open(path) as ledger:
        ledger.lock(key=key, **BOARD)
        for wrong in (None, tmp_path / "other.pem"):
            with pytest.raises(InvalidParameter, match="locked with a key"):
                ledger.open_account("p", Budget(1), key=wrong)
            with pytest.raises(InvalidParameter, match="locked with a key"):
                ledger.unlock(key=wrong, **BOARD)
        account = ledger.open_account("p", Budget(1), key=key)
        assert isinstance(opened := account.history()[0].content, Opened)
        assert opened.owner
        assert opened.signature is not None
        assert ledger.open_account("p", None).opened == opened  # what is there needs no key
        ledger.unlock(key=key, **BOARD)
        assert ledger.verify().ok


LOOSENED: dict[str, Callable[..., Entry]] = {
    "budget": lambda account, **signed: account.change_budget(Budget(3), **signed),
    "lower budget": lambda account, **signed: account.change_budget(Budget(1), **signed),
    "thaw": lambda account, **signed: account.thaw(**signed),
    "group": lambda account, **signed: account.cap_group("team", Budget(2), **signed),
    "analyst": lambda account, **signed: account.cap_analyst("ana", Budget(2), **signed),
    "another analyst": lambda account, **signed: account.cap_analyst("ben", Budget(1), **signed),
}


@pytest.mark.parametrize("name", LOOSENED)
@pytest.mark.parametrize("analysts", ["together", "apart"])
def test_under_a_lock_with_a_key_no_account_may_spend_more_without_it(
    path: Path, key: Path, tmp_path: Path, name: str, analysts: str
) -> None:
    new_key(tmp_path / "other.pem")
    with Ledger.open(path) as ledger:
        account = ledger.open_account("p", Budget(6 if name in ("group", "analyst") else 2), analysts=analysts)
        account.cap_group("team", Budget("1/4"), **BOARD)
        account.cap_analyst("ana", Budget("1/4"), **BOARD)
        account.freeze(**BOARD)
        ledger.lock(key=key, **BOARD)
        act, head = LOOSENED[name], ledger.head
        for wrong in (None, tmp_path / "other.pem"):
            with pytest.raises(InvalidParameter, match="locked with a key"):
                act(account, key=wrong, **BOARD)
        assert ledger.head == head
        content = act(account, key=key, **BOARD).content
        assert isinstance(content, Act)
        assert content.signature is not None
        report = ledger.verify()
        assert report.ok
        assert verify_export(ledger.export()) == report
        ledger.unlock(key=key, **BOARD)
        again = account.change_budget(Budget(7), **BOARD).content  # unlocked: no key, and no signature
        assert isinstance(again, Act)
        assert again.signature is None
        assert ledger.verify().ok


def test_what_gives_nobody_more_needs_no_key(path: Path, key: Path, pay: MakeCharge) -> None:
    with Ledger.open(path) as ledger:
        account = ledger.open_account("p", Budget(2))
        ledger.lock(key=key, **BOARD)
        account.charge("q", pay(1), note={})
        account.freeze(**BOARD)
        account.close(**BOARD)
        assert ledger.verify().ok


def test_a_lock_without_a_key_leaves_budgets_to_whoever_signs_off(path: Path) -> None:
    with Ledger.open(path) as ledger:
        account = ledger.open_account("p", Budget(2))
        ledger.lock(**BOARD)
        account.change_budget(Budget(3), **BOARD)
        assert ledger.verify().ok


def test_a_locked_ledger_takes_no_new_population_from_connect_and_asks_the_known_ones(path: Path, key: Path) -> None:
    frame = pd.DataFrame({"x": [1, 2]})

    def connect(population: str) -> dp.Session:
        terms: dict[str, Any] = {"unit": dp.PrivacyUnit.row(), "budget": dp.Budget(1), "ledger": path}
        return dp.connect({"t": frame}, population=population, **terms)

    with Ledger.open(path) as ledger, connect("early") as early:
        ledger.open_account("known", Budget(1))
        ledger.lock(key=key, **BOARD)
        before = ledger.head
        with pytest.raises(LedgerError, match="is locked"):
            connect("knwon")
        for look in (lambda: early.remaining, lambda: early.sql("SELECT COUNT(*) FROM t", epsilon="0.1")):
            with pytest.raises(LedgerError, match="is locked"):
                look()
        assert ledger.head == before
        with connect("known") as known:
            known.sql("SELECT COUNT(*) FROM t", epsilon="0.1")
        ledger.open_account("early", Budget(1), key=key)
        assert early.remaining == Budget(1)  # the owner's account has the same terms
        early.sql("SELECT COUNT(*) FROM t", epsilon="0.1")
        assert ledger.verify().ok


def test_a_signature_is_good_in_one_place_of_one_ledger(path: Path, key: Path, tmp_path: Path) -> None:
    """An owner's signed act is taken from one ledger, or an earlier time, and put where nobody has signed it."""
    signed: list[str] = []
    for place in (path, tmp_path / "other.ledger"):
        with Ledger.open(place) as ledger:
            ledger.open_account("a", Budget(1))
            for _ in range(2):
                ledger.lock(key=key, **BOARD)
                content = ledger.unlock(key=key, **BOARD).content
                assert isinstance(content, Locked)
                assert content.signature is not None
                signed.append(content.signature)
    assert len({*signed}) == 4
    assert problems(path) == []
    forge(path, lambda bodies: bodies[-1].update(signature=signed[0]))  # its own earlier unlocking
    assert any("lacks the signature" in p for p in problems(path))
    forge(path, lambda bodies: bodies[-1].update(signature=signed[3]))  # the other ledger's
    assert any("lacks the signature" in p for p in problems(path))


def test_a_lock_moves_with_its_ledger(path: Path, key: Path, tmp_path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.open_account("p", Budget(1))
        ledger.lock(key=key, **BOARD)
        with ledger.transfer(tmp_path / "new.ledger", **BOARD) as new:
            with pytest.raises(LedgerError, match="is locked"):
                new.prepared_account("q", Budget(1))
            new.open_account("q", Budget(1), key=key)
            assert new.verify().ok


def swapped(bodies: Bodies) -> None:
    """The signed opening one place later, after an entry of another account."""
    bodies[2], bodies[3] = bodies[3], bodies[2]


def change(seq: int, **changes: Any) -> Callable[[Bodies], None]:
    return lambda bodies: bodies[seq - 1].update(changes)


def again(seq: int) -> Callable[[Bodies], None]:
    return lambda bodies: bodies.append(dict(bodies[seq - 1]))


BUDGET = {"epsilon": "3/1", "delta": "0/1", "per_query": "20/1"}
FORGED: dict[str, tuple[Callable[[Bodies], None], str]] = {
    "an opening by a charge": (change(3, owner=False, signature=None), "opens an account by a charge in a"),
    "an opening without a signature": (change(3, signature=None), "lacks the signature of the ledger's owner"),
    "a signature of something else": (change(3, filter="zcdp"), "lacks the signature"),
    "a budget that was not signed": (change(3, capacity=["1/2", "0/1"]), "lacks the signature"),
    "another place in the chain": (swapped, "lacks the signature"),
    "a signature that is none": (change(3, signature="beef"), "the signature is 128 hexadecimal digits"),
    "a lock by another key": (change(2, public_key="ab" * 32), "lacks the signature"),
    "a lock whose key is left out": (change(2, public_key=None), "is signed, and no lock names a key"),
    "an unlocking without a signature": (change(9, signature=None), "lacks the signature"),
    "a lock twice": (lambda bodies: bodies.insert(2, dict(bodies[1])), "locks a ledger that was locked"),
    "an end without a lock": (again(9), "unlocks a ledger that was not locked"),
    "a lock of one account": (change(2, population="a"), "its kind is not"),
    "a thaw without a signature": (change(5, signature=None), "entry 5 of 'a' lacks the signature"),
    "a raise without a signature": (change(6, signature=None), "entry 6 of 'a' lacks the signature"),
    "a raise above what was signed": (change(6, budget=BUDGET, capacity=["3/1", "0/1"]), "entry 6 of 'a' lacks"),
    "a raise by another's words": (change(6, by="the board"), "entry 6 of 'a' lacks the signature"),
    "a raise once more": (lambda bodies: bodies.insert(6, dict(bodies[5])), "entry 7 of 'a' lacks"),
    "a raise of another account": (change(6, population="b"), "entry 6 of 'b' lacks the signature"),
    "a cap of a group without a signature": (change(7, signature=None), "entry 7 of 'a' lacks the signature"),
    "a cap of an analyst without one": (change(8, signature=None), "entry 8 of 'a' lacks the signature"),
    "a signature where no lock asks for one": (
        lambda bodies: bodies.append(bodies[5] | {"budget": BUDGET, "capacity": ["3/1", "0/1"]}),
        "entry 10 of 'a' is signed, and no lock names a key",
    ),
    "a freeze of the whole ledger": (change(4, population=""), "its kind is not"),
}


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FORGED)
def test_a_rewritten_lock_is_found(path: Path, key: Path, name: str) -> None:
    with Ledger.open(path) as ledger:
        a = ledger.open_account("a", Budget(1))  # 1
        ledger.lock(key=key, **BOARD)  # 2
        ledger.open_account("b", Budget(1), key=key)  # 3
        a.freeze(**BOARD)  # 4
        a.thaw(key=key, **BOARD)  # 5
        a.change_budget(Budget(2), key=key, **BOARD)  # 6
        a.cap_group("team", Budget(1), key=key, **BOARD)  # 7
        a.cap_analyst("ana", Budget(1), group="team", key=key, **BOARD)  # 8
        ledger.unlock(key=key, **BOARD)  # 9
    assert problems(path) == []
    damage, words = FORGED[name]
    forge(path, lambda bodies: (damage(bodies), None)[1])
    assert any(words in p for p in problems(path)), problems(path)


def test_a_lock_without_a_key_asks_for_no_signature_and_still_for_the_owner(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.lock(**BOARD)
        ledger.open_account("a", Budget(1))
    assert problems(path) == []
    forge(path, lambda bodies: bodies[1].update(owner=False))
    assert any("by a charge in a locked" in p for p in problems(path))


def test_a_lock_says_who_and_why(path: Path) -> None:
    with Ledger.open(path) as ledger:
        content = ledger.lock(**BOARD).content
        assert content == Locked(True, None, BOARD["by"], BOARD["reason"])
        with pytest.raises(InvalidParameter, match="by must be"):
            ledger.unlock(by="", reason="x")
