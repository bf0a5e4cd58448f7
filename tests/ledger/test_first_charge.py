"""What a first charge writes before itself, and that nothing is written without one."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pytest
from click.testing import CliRunner

import discreet as dp
from discreet.accounting.filter import Charge
from discreet.cli import main
from discreet.errors import BudgetExceeded, DiscreetError, InvalidParameter, LedgerError
from discreet.ledger.account import Account
from discreet.ledger.chain import new_key
from discreet.ledger.joint_charge import charge_together, find_together, foresee
from discreet.ledger.ledger import Ledger
from discreet.ledger.memory import EMPTY, MemoryStore
from discreet.ledger.places import Unmade, prepared_store
from discreet.ledger.sqlite import SQLiteStore
from discreet.privacy.guarantee import Budget
from tests.postgres import Server

MakeCharge: TypeAlias = Callable[..., Charge]


@pytest.fixture(params=["file", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where no ledger is yet."""
    if request.param == "file":
        return str(tmp_path / "a.ledger")
    server: Server = request.getfixturevalue("postgres")
    return server.url()


def is_there(place: str) -> bool:
    from discreet.ledger import places

    return places.is_there(place)


def pinned(account: Account, columns: str) -> dict[str, Any]:
    """What a session does to connect a table."""
    return foresee(account.pinning("t", {"columns": columns}), account)


def test_nothing_is_there_before_the_first_charge_and_all_of_it_after(place: str, pay: MakeCharge) -> None:
    with Ledger.prepared(place) as ledger:
        account = ledger.prepared_account("p", Budget(3))
        assert pinned(account, "a") == {"columns": "a"}
        assert (account.remaining, account.history(), account.pins()) == (Budget(3), [], {})
        assert account.after(pay("1/2")) == Budget("5/2")
        assert account.find("q") is None
        assert account.promises()
        for charge in (pay(4), pay(25)):
            with pytest.raises((BudgetExceeded, InvalidParameter)):
                account.charge("q", charge, note={})
        assert not is_there(place)
        account.charge("q", pay(1), note={})
        assert not account.pending
        assert [e.kind for e in account.history()] == ["account", "schema", "charge"]
        assert ledger.verify().ok
        account.charge("q2", pay(1), note={})
        assert account.remaining == Budget(1)
    with Ledger.existing(place) as other:
        again = other.account("p")
        assert again is not None
        assert (again.secret, again.remaining) == (account.secret, Budget(1))


def test_of_two_that_open_one_account_the_first_to_charge_does(place: str, pay: MakeCharge) -> None:
    with Ledger.prepared(place) as one, Ledger.prepared(place) as other, Ledger.prepared(place) as third:
        a, b = one.prepared_account("p", Budget(3)), other.prepared_account("p", Budget(3))
        c = third.prepared_account("p", Budget(5))
        for account in (a, b, c):
            pinned(account, "a")
        assert len({a.secret, b.secret, c.secret}) == 3
        a.charge("q", pay(1), note={})
        assert b.remaining == Budget(2)
        b.charge("q", pay(1), note={})
        assert b.secret == a.secret
        said = [e.kind for e in b.history()]
        for ask in (lambda: c.remaining, lambda: c.charge("q", pay(1), note={}), lambda: c.find("q")):
            with pytest.raises(InvalidParameter, match=r"has budget .*3.* and this asks for budget .*5") as no:
                ask()
        assert "discreet ledger budget" in no.value.hint
        assert "p 5 --by NAME --reason WHY" in no.value.hint
        assert [e.kind for e in a.history()] == said == ["account", "schema", "charge", "charge"]
        assert one.verify().ok


TERMS: dict[str, dict[str, Any]] = {
    "relation": {"relation": "replace"},
    "filter": {"filter": "zcdp", "budget": Budget(3, "1e-6")},
    "analysts": {"analysts": "apart"},
    "people": {"per_person": Budget(1)},
    "people alone": {"budget": None, "per_person": Budget(3)},
}


@pytest.mark.parametrize("terms", TERMS.values(), ids=list(TERMS))
@pytest.mark.parametrize("first", [True, False])
def test_an_account_that_came_meanwhile_with_other_terms_is_not_taken(
    terms: dict[str, Any], first: bool, pay: MakeCharge
) -> None:
    """Also where a term was left out: what was planned was planned for the default."""
    with Ledger.open(":memory:") as ledger:
        delta = {"budget": Budget(3, "1e-6")} if "filter" in terms else {"budget": Budget(3)}
        mine, other = (delta, {**delta, **terms})[:: 1 if first else -1]
        account = ledger.prepared_account("p", **mine)
        ledger.open_account("p", **other)
        with pytest.raises(InvalidParameter, match=r"has|another promise"):
            account.charge("q", pay(1), note={})
        with pytest.raises(InvalidParameter, match=r"has|another promise"):
            repr(account.remaining)


def test_a_table_that_came_meanwhile_with_other_columns_refuses_the_charge(place: str, pay: MakeCharge) -> None:
    with Ledger.prepared(place) as one, Ledger.prepared(place) as other:
        a, b = one.prepared_account("p", Budget(3)), other.prepared_account("p", Budget(3))
        pinned(a, "a")
        pinned(b, "b")
        a.charge("q", pay(1), note={})
        with pytest.raises(InvalidParameter, match="had other columns then"):
            b.charge("q", pay(1), note={})
        assert a.remaining == Budget(2)
        assert b.pins() == {"t": {"columns": "a"}}


def test_what_an_account_looked_like_in_memory_is_never_taken_for_what_was_written(path: Path, pay: MakeCharge) -> None:
    """The number of an entry that was imagined goes to another one."""
    with Ledger.prepared(path) as ledger:
        first, second = ledger.prepared_account("p", Budget(3)), ledger.prepared_account("q", Budget(4))
        assert (first.remaining, second.remaining) == (Budget(3), Budget(4))
        second.charge("q", pay(1), note={})  # entry 1 is of q now
        assert (first.remaining, second.remaining) == (Budget(3), Budget(3))
        first.charge("q", pay(1), note={})
        assert (first.remaining, second.remaining) == (Budget(2), Budget(3))
        assert ledger.verify().ok


def test_two_accounts_arrive_with_one_charge_or_not_at_all(path: Path, pay: MakeCharge) -> None:
    with Ledger.prepared(path) as ledger:
        accounts = [ledger.prepared_account(name, Budget(n)) for name, n in (("p", 3), ("q", 1))]

        def pin(view: Any) -> list[Any]:
            return [account.pinning("t", {"of": account.population})(view) for account in accounts]

        foresee(pin, *accounts)
        for costs in ((1, 2), (4, 1)):
            with pytest.raises(BudgetExceeded):
                charge_together([(a, pay(c)) for a, c in zip(accounts, costs, strict=True)], "x", note={"table": "t"})
            assert not path.exists()
        assert find_together(accounts, "x") is None
        charge_together([(a, pay(1)) for a in accounts], "x", note={"table": "t"})
        assert [a.remaining for a in accounts] == [Budget(2), Budget(0)]
        assert ledger.verify().ok


def test_threads_of_one_session_open_its_account_once(path: Path, pay: MakeCharge) -> None:
    failed: list[DiscreetError] = []

    def ask(i: int) -> None:
        try:
            account.charge(f"q{i}", pay(1), note={})
            assert account.remaining.epsilon <= 8
        except DiscreetError as error:
            failed.append(error)

    with Ledger.prepared(path) as ledger:
        account = ledger.prepared_account("p", Budget(8))
        pinned(account, "a")
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [type(error) for error in failed] == [BudgetExceeded]
        assert [e.kind for e in account.history()] == ["account", "schema", *["charge"] * 8]
        assert ledger.verify().ok


def test_a_charge_that_is_interrupted_once_it_is_durable_has_opened_the_account(
    path: Path, pay: MakeCharge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: Account) -> None:
        raise KeyboardInterrupt

    with Ledger.prepared(path) as ledger:
        account = ledger.prepared_account("p", Budget(3))
        with monkeypatch.context() as broken, pytest.raises(KeyboardInterrupt):
            broken.setattr(Account, "arrive", stop)
            account.charge("q", pay(1), note={})
        assert account.remaining == Budget(2)
        account.charge("q", pay(1), note={})
        found = ledger.account("p")
        assert found is not None
        assert (found.remaining, found.secret) == (Budget(1), account.secret)


def test_where_no_ledger_can_be_made_connecting_says_so(tmp_path: Path) -> None:
    with pytest.raises(LedgerError):
        Ledger.prepared(tmp_path / "no folder" / "a.ledger")
    assert list(tmp_path.iterdir()) == []
    Ledger.prepared(tmp_path / "a.ledger").close()
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_that_is_made_by_another_is_that_one(tmp_path: Path) -> None:
    store = prepared_store(tmp_path / "a.ledger")
    assert isinstance(store, Unmade)
    assert store.read(lambda now: now.names()) == []
    SQLiteStore.create(tmp_path / "a.ledger")
    SQLiteStore(tmp_path / "a.ledger").write(lambda now: now.put("x", "1"))
    assert store.read(lambda now: now.names()) == ["x"]
    assert store.faults() == []
    store.close()
    with pytest.raises(LedgerError, match="closed"):
        store.read(lambda now: None)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[dp.Session]:
    (tmp_path / "t.csv").write_text("x\n1\n2\n")
    with dp.connect(tmp_path / "t.csv", unit=dp.PrivacyUnit.row(), budget=Budget(3), ledger=tmp_path / "l") as opened:
        yield opened


def test_a_session_that_connects_plans_and_is_refused_leaves_no_file(session: dp.Session, tmp_path: Path) -> None:
    assert session.plan("SELECT COUNT(*) FROM t", epsilon=1).left == Budget(2)
    assert repr(session.remaining) in repr(session)
    for wrong in ({"epsilon": 4}, {"epsilon": 25}, {"epsilon": 1, "noise": "none"}):
        with pytest.raises(DiscreetError):
            session.sql("SELECT COUNT(*) FROM t", **wrong)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.csv"]
    assert session.history() == []
    session.sql("SELECT COUNT(*) FROM t", epsilon=1)
    assert [e.kind for e in session.history()] == ["account", "schema", "charge", "release"]


def test_a_refused_query_writes_nothing_to_a_ledger_that_there_is(session: dp.Session, tmp_path: Path) -> None:
    session.sql("SELECT COUNT(*) FROM t", epsilon=1)
    frame = pd.DataFrame({"y": [1, 2]})
    with Ledger.existing(tmp_path / "l") as ledger:
        head = ledger.head
        terms: dict[str, Any] = {"unit": dp.PrivacyUnit.row(), "budget": Budget(1), "ledger": tmp_path / "l"}
        with dp.connect({"u": frame}, **terms) as other:
            for epsilon in (2, 25, 0):
                with pytest.raises(DiscreetError):
                    other.sql("SELECT COUNT(*) FROM u", epsilon=epsilon)
            assert other.remaining == Budget(1)
        assert (ledger.head, ledger.populations()) == (head, ["t"])


@pytest.mark.parametrize(
    "budget", [Budget(5), Budget("16/3", "1e-6"), Budget("5.25", "1/3", per_query="1/2")], ids=repr
)
def test_the_hint_is_the_command_that_changes_the_budget(
    path: Path, pay: MakeCharge, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(path) as ledger:
        ledger.open_account("our people", Budget(3)).charge("q", pay(1), note={})
        with pytest.raises(InvalidParameter, match="has budget") as refused:
            ledger.prepared_account("our people", budget)
        command, python = refused.value.hint.split("`")[1:]
        words = shlex.split(command.replace("NAME", "board").replace("WHY", "more"))
        assert CliRunner().invoke(main, words[1:]).exit_code == 0
        assert ledger.prepared_account("our people", budget).budget == budget
        assert f"Ledger.open(…).account('our people').change_budget(dp.{budget!r}, by=…, reason=…)" in python
        new_key(path.with_name("FILE"))
        ledger.lock(key=path.with_name("FILE"), by="board", reason="all are known")
        with pytest.raises(InvalidParameter, match="has budget") as refused:
            ledger.prepared_account("our people", Budget(7))
        command, python = refused.value.hint.split("`")[1:]
        words = shlex.split(command.replace("NAME", "board").replace("WHY", "more"))
        monkeypatch.chdir(path.parent)
        assert CliRunner().invoke(main, words[1:]).exit_code == 0
        assert ledger.prepared_account("our people", Budget(7)).budget == Budget(7)
        assert "by=…, reason=…, key=…)" in python
    with Ledger.open(":memory:") as ledger:
        ledger.open_account("p", Budget(3))
        with pytest.raises(InvalidParameter) as refused:
            ledger.prepared_account("p", budget)
        assert "with account.change_budget(dp.Budget(" in refused.value.hint
        assert "discreet ledger" not in refused.value.hint
        ledger.open_account("q", None, per_person=Budget(3))
        with pytest.raises(InvalidParameter) as refused:
            ledger.prepared_account("q", budget)
        assert "it never changes" in refused.value.hint


def test_an_empty_store_in_memory_stays_empty() -> None:
    store = MemoryStore()
    store.write(lambda now: now.put("x", "1"))
    assert (EMPTY.added, EMPTY.changed, EMPTY.stored) == ([], {}, {})
    with pytest.raises(LedgerError, match="only being read"):
        EMPTY.put("x", "1")


def test_a_charge_that_began_before_its_account_arrived_is_counted_in_the_accounts_units(pay: MakeCharge) -> None:
    """An account that was opened at another budget and changed to this one has another order.

    The cost of a charge was computed at that of the prepared account when another thread's charge arrived.
    """
    now = Budget(3, 1e-6)
    with Ledger.open(":memory:") as ledger:
        account = ledger.prepared_account("p", now, filter="renyi")
        owned = ledger.open_account("p", Budget(1, 1e-6), filter="renyi")
        owned.change_budget(now, by="the board", reason="more")
        begun = account.charging("late", pay("1/4"), {})
        account.charge("early", pay("1/4"), note={})
        once = owned.limits()[0].spent
        account.log.write(begun)
        assert owned.limits()[0].spent == tuple(2 * x for x in once)
        assert ledger.verify().problems == ()
