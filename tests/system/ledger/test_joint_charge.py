"""One question that two populations pay for: both are charged or none, whatever happens in between."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from discreet.accounting.filter import Charge
from discreet.errors import BudgetExceeded, DiscreetError, InternalError, InvalidParameter
from discreet.ledger.account import Account
from discreet.ledger.entry import TOGETHER, release_in
from discreet.ledger.export import verify_export
from discreet.ledger.joint_charge import charge_together, find_together, store_together
from discreet.ledger.ledger import Ledger
from discreet.ledger.log import View
from discreet.ledger.sqlite import SQLiteStore, SQLiteTransaction
from discreet.privacy.guarantee import Budget
from tests.crashes.tracer import Change, Fate, can_trace, run
from tests.postgres import Server

MakeCharge: TypeAlias = Callable[..., Charge]
Fork: TypeAlias = Callable[[Callable[[], object]], int]
Ended: TypeAlias = Callable[[int], int]

TENTH = Fraction(1, 10)
NOTHING = Fraction(0), Fraction(0)


def accounts(path: Path | str, *, second: Budget | None = None) -> tuple[Account, Account]:
    book = Ledger.open(path)
    return (book.open_account("patients", Budget(1)), book.open_account("doctors", second or Budget(1, "1e-6")))


def pair(path: Path | str, pay: MakeCharge) -> list[tuple[Account, Charge]]:
    first, second = accounts(path)
    return [(first, pay(TENTH)), (second, pay(2 * TENTH))]


def spent(path: Path) -> tuple[Fraction, Fraction]:
    """What a new process finds spent by each, of a ledger that is whole."""
    with Ledger.open(path) as book:
        report = book.verify()
        assert report.ok, report.problems
        found = [book.account(p) for p in ("patients", "doctors")]
        first, second = (a.budget.epsilon - a.remaining.epsilon for a in found if a is not None)
        return first, second


def test_both_are_charged_their_own_and_find_the_release(path: Path, pay: MakeCharge) -> None:
    charges = pair(path, pay)
    both = [account for account, _ in charges]
    entries = charge_together(charges, "q", note={"sql": "SELECT 1"})
    assert [e.population for e in entries] == ["patients", "doctors"]
    assert entries[1].seq == entries[0].seq + 1
    assert [e.epsilon for e in entries] == [TENTH, 2 * TENTH]
    assert all(e.note == {"sql": "SELECT 1", TOGETHER: ["patients", "doctors"]} for e in entries)
    assert find_together(both, "q") is None
    store_together(both, entries, "q", {"n": "7"})
    found = find_together(both, "q")
    assert found is not None and release_in(found) == {"n": "7"} and found.time == entries[0].time
    store_together(both, entries, "q", {"n": "7"})
    assert spent(path) == (TENTH, 2 * TENTH)
    assert verify_export(list(Ledger.open(path).export())).ok


def test_what_only_one_of_them_has_is_no_answer(path: Path, pay: MakeCharge) -> None:
    charges = pair(path, pay)
    both = [account for account, _ in charges]
    alone = both[0].charge("q", pay(TENTH), note={})
    both[0].store("q", alone.seq, {"n": "7"})
    assert find_together(both, "q") is None
    other = both[1].charge("q", pay(TENTH), note={})
    both[1].store("q", other.seq, {"n": "8"})
    assert find_together(both, "q") is None


@pytest.mark.parametrize("poor", [0, 1])
def test_a_refusal_by_either_leaves_both_as_they_were(path: Path, pay: MakeCharge, poor: int) -> None:
    both = accounts(path)
    head = Ledger.open(path).head
    costs = [pay(TENTH), pay(TENTH)]
    costs[poor] = pay(2)
    with pytest.raises(BudgetExceeded, match=repr(both[poor].population)):
        charge_together(list(zip(both, costs, strict=True)), "q", note={})
    both[poor].freeze(by="owner", reason="a look")
    frozen = Ledger.open(path).head
    with pytest.raises(BudgetExceeded, match="frozen"):
        charge_together([(a, pay(TENTH)) for a in both], "q", note={})
    assert Ledger.open(path).head == frozen != head
    both[poor].thaw(by="owner", reason="over")
    charge_together([(a, pay(TENTH)) for a in both], "q", note={})
    assert spent(path) == (TENTH, TENTH)


def test_caps_of_analysts_hold_in_each(path: Path, pay: MakeCharge) -> None:
    first, second = accounts(path)
    second.cap_analyst("ann", Budget(TENTH), by="owner", reason="new")
    with pytest.raises(DiscreetError, match="analyst"):
        charge_together([(first, pay(TENTH)), (second, pay(TENTH))], "q", note={})
    assert spent(path) == NOTHING
    hers = second.seen_by("ann")
    charge_together([(first, pay(TENTH)), (hers, pay(TENTH))], "q", note={})
    with pytest.raises(BudgetExceeded, match="ann"):
        charge_together([(first, pay(TENTH)), (hers, pay(TENTH))], "r", note={})
    assert spent(path) == (TENTH, TENTH)


def test_what_cannot_be_paid_together_is_refused(path: Path, pay: MakeCharge, tmp_path: Path) -> None:
    first, second = accounts(path)
    elsewhere = Ledger.open(tmp_path / "other").open_account("doctors", Budget(1))
    book = Ledger.open(path)
    apart = book.open_account("apart", Budget(1), analysts="apart")
    each = book.open_account("each", None, per_person=Budget(1))
    with pytest.raises(InternalError, match="several ledgers"):
        charge_together([(first, pay(TENTH)), (elsewhere, pay(TENTH))], "q", note={})
    with pytest.raises(InvalidParameter, match="of its own"):
        charge_together([(first, pay(TENTH)), (first, pay(TENTH))], "q", note={})
    with pytest.raises(InvalidParameter, match="of its own"):
        charge_together([(first, pay(TENTH))], "q", note={})
    for other, why in ((apart, "kept apart"), (each, "budget of their own")):
        with pytest.raises(InvalidParameter, match=why):
            charge_together([(book.account("patients"), pay(TENTH)), (other, pay(TENTH))], "q", note={})  # type: ignore[list-item]
    for wrong in (
        lambda n: first.charge("q", pay(TENTH), note=n),
        lambda n: charge_together([(first, pay(TENTH)), (second, pay(TENTH))], "q", note=n),
    ):
        with pytest.raises(InvalidParameter, match="note"):
            wrong({TOGETHER: ["patients", "doctors"]})
    assert spent(path) == NOTHING


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_at(function: Callable[..., Any], call: int) -> Callable[..., Any]:
    """Dies before the call of that number."""
    calls = []

    def step(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == call:
            die()
        return function(*args, **kwargs)

    return step


STEPS = [
    (View, "append", 1),
    (View, "append", 2),
    (SQLiteTransaction, "append", 2),
    (SQLiteTransaction, "put", 1),
    (SQLiteTransaction, "put", 2),
    (View, "seal", 1),
    (SQLiteStore, "_commit", 1),
]


@pytest.mark.parametrize(("where", "step", "call"), STEPS, ids=lambda x: x if isinstance(x, str) else "")
def test_killed_at_a_step_before_the_commit_neither_was_charged(
    path: Path, pay: MakeCharge, fork: Fork, ended: Ended, where: type, step: str, call: int
) -> None:
    accounts(path)

    def work() -> None:
        charges = pair(path, pay)
        setattr(where, step, dying_at(getattr(where, step), call))
        charge_together(charges, "q", note={})

    assert ended(fork(work)) == -signal.SIGKILL
    assert spent(path) == NOTHING
    charge_together(pair(path, pay), "q", note={})
    assert spent(path) == (TENTH, 2 * TENTH)


@pytest.mark.skipif(not can_trace(), reason="ptrace as Linux on x86-64 has it")
@pytest.mark.parametrize("what", ["charge", "store"])
def test_killed_at_any_change_of_a_file_both_are_there_or_none(path: Path, pay: MakeCharge, what: str) -> None:
    entries = charge_together(pair(path, pay), "before", note={})
    outcomes, ended, before = set(), False, 0
    while not ended:
        copy = path.parent / str(before) / "p.ledger"
        copy.parent.mkdir()
        shutil.copy(path, copy)
        charges = pair(copy, pay)
        both = [account for account, _ in charges]
        seen: list[Change] = []

        def decide(change: Change, seen: list[Change] = seen, before: int = before) -> Fate:
            seen.append(change)
            return Fate.KILLED if len(seen) > before else Fate.MADE

        def work(tell: int, charges: list[tuple[Account, Charge]] = charges) -> None:
            if what == "charge":
                charge_together(charges, "q", note={})
            else:
                store_together([a for a, _ in charges], entries, "before", {"n": "7"})
            os.write(tell, b"+")

        end = run(work, copy.parent, decide)
        ended, before = end.status == 0, before + 1
        found = spent(copy)
        if what == "charge":
            done = found == (2 * TENTH, 4 * TENTH)
            assert done or found == (TENTH, 2 * TENTH)
        else:
            assert found == (TENTH, 2 * TENTH)
            singly = [a.find("before") for a in both]
            assert singly in ([None, None], [{"n": "7"}] * 2)
            done = find_together(both, "before") is not None
            assert done == (singly[0] is not None)
        acknowledged = end.said == b"+"
        assert done or not acknowledged
        charge_together(charges, "again", note={})
        outcomes.add((done, acknowledged))
    assert outcomes == {(False, False), (True, False), (True, True)}


def forged(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> list[str]:
    """What the export says is wrong with the ledger, once its entries are changed and chained anew."""
    head, *bodies = (json.loads(line) for line in Ledger.open(path).export())
    change(bodies)
    for n, body in enumerate(bodies, 1):
        body["seq"] = n
    from discreet.ledger.chain import GENESIS, canonical, link

    last = GENESIS
    for body in bodies:
        last = link(last, canonical(body))
    lines = [canonical({**head, "entries": len(bodies), "head": last}), *map(canonical, bodies)]
    return list(verify_export(lines).problems)


def _without(place: int) -> Callable[[list[dict[str, Any]]], None]:
    return lambda bodies: bodies.__delitem__(place)


def _renamed(bodies: list[dict[str, Any]]) -> None:
    bodies[-1]["note"][TOGETHER] = ["patients", "nurses"]


def _asked_else(bodies: list[dict[str, Any]]) -> None:
    bodies[-1]["question"] = "another"


def _unnamed(bodies: list[dict[str, Any]]) -> None:
    del bodies[-1]["note"][TOGETHER]


def _no_list(bodies: list[dict[str, Any]]) -> None:
    bodies[-2]["note"][TOGETHER] = "patients"


def _apart(bodies: list[dict[str, Any]]) -> None:
    bodies.insert(-1, bodies.pop(0) | {"population": "other"})


@pytest.mark.parametrize("change", [_without(-1), _without(-2), _renamed, _asked_else, _unnamed, _no_list, _apart])
def test_a_charge_that_lacks_the_other_is_found(
    path: Path, pay: MakeCharge, change: Callable[[list[dict[str, Any]]], None]
) -> None:
    charge_together(pair(path, pay), "q", note={})
    assert forged(path, lambda bodies: None) == []
    found = forged(path, change)
    assert any("pay" in problem for problem in found), found


def test_charges_of_three_follow_each_other(path: Path, pay: MakeCharge) -> None:
    first, second = accounts(path)
    third = Ledger.open(path).open_account("nurses", Budget(1))
    book = Ledger.open(path)
    found = [book.account(a.population) for a in (first, second, third)]
    charge_together([(a, pay(TENTH)) for a in found if a is not None], "q", note={})
    charge_together([(a, pay(TENTH)) for a in found if a is not None], "q", note={})
    assert book.verify().ok


def asked_at_once(place: Path | str, pay: MakeCharge) -> None:
    """Pairs and single charges of several threads at once: no pair is parted, and all of it is counted."""
    small = pay(Fraction(1, 1000))
    accounts(place)

    def work(number: int) -> None:
        with Ledger.open(place) as book:
            both = [book.open_account(p, None) for p in ("patients", "doctors")]
            for n in range(5):
                charge_together([(a, small) for a in both], f"{number} {n}", note={})
                both[number % 2].charge(f"alone {number} {n}", small, note={})

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Ledger.open(place) as book:
        report = book.verify()
        assert report.ok, report.problems
        found = [book.account(p) for p in ("patients", "doctors")]
        assert [a.budget.epsilon - a.remaining.epsilon for a in found if a is not None] == [Fraction(30, 1000)] * 2


def test_pairs_and_single_charges_at_once(path: Path, pay: MakeCharge) -> None:
    asked_at_once(path, pay)


def test_both_are_charged_or_none_in_postgresql(postgres: Server, pay: MakeCharge) -> None:
    url = postgres.url()
    charges = pair(url, pay)
    both = [account for account, _ in charges]
    entries = charge_together(charges, "q", note={})
    store_together(both, entries, "q", {"n": "7"})
    found = find_together(both, "q")
    assert found is not None and release_in(found) == {"n": "7"}
    with pytest.raises(BudgetExceeded):
        charge_together([(both[0], pay(TENTH)), (both[1], pay(2))], "r", note={})
    assert [a.spent.epsilon() for a in both] == [0.1, 0.2]
    report = Ledger.open(url).verify()
    assert report.ok, report.problems
    asked_at_once(postgres.url(), pay)
