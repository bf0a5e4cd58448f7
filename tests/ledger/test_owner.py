"""What an owner does to an account: it is recorded, holds at once, and cannot make spending less."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from discreet import accounting
from discreet.accounting.filter import Charge
from discreet.errors import BudgetExceeded, InvalidParameter, LedgerError
from discreet.ledger.account import Account
from discreet.ledger.account_state import Status
from discreet.ledger.ledger import Ledger
from discreet.ledger.memory import MemoryStore, Overlay
from discreet.ledger.store import Transaction
from discreet.privacy.guarantee import Budget

MakeCharge: TypeAlias = Callable[..., Charge]
BOARD: dict[str, Any] = {"by": "the data board", "reason": "decided on 21 November"}


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.open_account("customers", Budget(3, 1e-6))


def test_a_raised_budget_is_recorded_and_can_be_spent(ledger: Ledger, account: Account, pay: MakeCharge) -> None:
    account.charge("q1", pay(3), note={})
    with pytest.raises(BudgetExceeded):
        account.charge("q2", pay(1), note={})
    entry = account.change_budget(Budget(4, 1e-6), **BOARD)
    account.charge("q2", pay(1), note={})
    assert (account.budget, account.remaining.epsilon) == (Budget(4, 1e-6), Fraction(0))
    assert entry in account.history()
    assert [e.kind for e in account.history()] == ["account", "charge", "budget", "charge"]
    assert ledger.verify().ok
    with pytest.raises(BudgetExceeded):
        account.charge("q3", pay("1/1000"), note={})


def test_another_process_sees_the_change_at_its_next_charge(path: Path, account: Account, pay: MakeCharge) -> None:
    other = Ledger.open(path).account("customers")
    assert other is not None
    account.change_budget(Budget(1), **BOARD)
    assert other.budget == Budget(1)
    with pytest.raises(BudgetExceeded):
        other.charge("q", pay(2), note={})


def test_a_budget_is_never_lowered_below_what_is_spent(ledger: Ledger, account: Account, pay: MakeCharge) -> None:
    account.charge("q1", pay(2, "1/2000000"), note={})
    head = ledger.head
    for budget in (Budget(Fraction(199, 100), 1e-6), Budget(3), Budget(3, 4e-7)):
        with pytest.raises(InvalidParameter, match="more than that is spent"):
            account.change_budget(budget, **BOARD)
    assert ledger.head == head
    account.change_budget(Budget(2, 5e-7), **BOARD)
    assert account.remaining == Budget(0)
    assert ledger.verify().ok


@pytest.mark.parametrize(
    "signed", [{"by": "", "reason": "r"}, {"by": "b", "reason": " "}, {"by": "a\nb", "reason": "r"}]
)
def test_nothing_is_changed_silently(ledger: Ledger, account: Account, signed: dict[str, Any]) -> None:
    head = ledger.head
    with pytest.raises(InvalidParameter):
        account.change_budget(Budget(4, 1e-6), **signed)
    with pytest.raises(InvalidParameter):
        account.freeze(**signed)
    with pytest.raises(TypeError):
        account.close()  # type: ignore[call-arg]
    assert ledger.head == head


def test_a_frozen_account_takes_no_charge_and_hands_out_what_it_has(
    ledger: Ledger, account: Account, pay: MakeCharge
) -> None:
    paid = account.charge("q1", pay(1), note={})
    account.freeze(**BOARD)
    account.store("q1", paid.seq, {"rows": [[7]]})  # its charge was made before
    assert account.find("q1") == {"rows": [[7]]}
    with pytest.raises(BudgetExceeded, match="is frozen: no charge is taken") as caught:
        account.charge("q2", pay("1/2"), note={})
    assert (caught.value.asked, caught.value.left) == ("ε = 0.5", "ε = 2, δ = 1e-06")
    with pytest.raises(InvalidParameter, match="frozen already"):
        account.freeze(**BOARD)
    account.thaw(**BOARD)
    with pytest.raises(InvalidParameter, match="not frozen"):
        account.thaw(**BOARD)
    account.charge("q2", pay("1/2"), note={})
    assert ledger.verify().ok


def test_a_closed_account_never_opens_again(ledger: Ledger, account: Account, pay: MakeCharge) -> None:
    paid = account.charge("q1", pay(1), note={})
    account.store("q1", paid.seq, {"rows": []})
    account.close(**BOARD)
    assert account.status is Status.CLOSED
    assert account.find("q1") == {"rows": []}
    with pytest.raises(BudgetExceeded, match="is closed"):
        account.charge("q2", pay("1/2"), note={})
    for act in (account.freeze, account.thaw, account.close):
        with pytest.raises(InvalidParameter, match="closed"):
            act(**BOARD)
    with pytest.raises(InvalidParameter, match="closed"):
        account.change_budget(Budget(9, 1e-6), **BOARD)
    with pytest.raises(InvalidParameter, match="closed"):
        account.cap_analyst("ana", Budget(1), **BOARD)
    assert ledger.verify().ok


@pytest.mark.parametrize("rule", ["zcdp", "gdp", "renyi"])
@pytest.mark.parametrize("factor", [Fraction(1, 2), Fraction(3)])
def test_a_changed_budget_keeps_the_units_of_its_filter(ledger: Ledger, rule: str, factor: Fraction) -> None:
    """The sums of before and after are added: they must be of one order, whatever the new budget would choose."""
    account = ledger.open_account("p", Budget(2, 1e-6), filter=rule)
    one = Charge.of(accounting.gaussian(20), 1e-8)
    account.charge("q1", one, note={})
    account.change_budget(Budget(2 * factor, 1e-6), **BOARD)
    for i in range(3):
        account.charge(f"r{i}", one, note={})
    assert ledger.verify().ok
    spent = account.spent.epsilon(1e-6)
    truth = (accounting.gaussian(20) * 4).epsilon(5e-7)
    assert truth * 0.9 < spent < 2 * factor
    most = accounting.gaussian(4) * 100
    with pytest.raises((BudgetExceeded, InvalidParameter)):
        account.charge("big", Charge.of(most, 1e-8), note={})


def test_a_curve_is_scaled_with_its_budget_or_given_anew(ledger: Ledger) -> None:
    work = accounting.gaussian(4) * 3
    account = ledger.open_account("p", Budget(3, 1e-6), filter="renyi-curve", curve=work)
    one = Charge.of(accounting.gaussian(4), 1e-8)
    for i in range(3):
        account.charge(f"q{i}", one, note={})
    with pytest.raises(BudgetExceeded):
        account.charge("q3", one, note={})
    with pytest.raises(InvalidParameter, match="more than that is spent"):
        account.change_budget(Budget(1, 1e-6), **BOARD)
    account.change_budget(Budget(8, 1e-6), **BOARD)
    account.charge("q3", one, note={})
    with pytest.raises(InvalidParameter, match="above the budget"):
        account.change_budget(Budget(2, 1e-6), curve=accounting.gaussian(4) * 9, **BOARD)
    account.change_budget(Budget(9, 1e-6), curve=accounting.gaussian(4) * 5, **BOARD)
    account.charge("q4", one, note={})
    with pytest.raises(BudgetExceeded):
        account.charge("q5", one, note={})
    assert ledger.verify().ok


def test_the_clock_is_told_and_never_used(
    ledger: Ledger, account: Account, pay: MakeCharge, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datetime import UTC, datetime

    class Clock:
        years = iter([2031, 1999, 2026, 1970])

        @classmethod
        def now(cls, zone: object) -> datetime:
            return datetime(next(cls.years), 1, 1, tzinfo=UTC)

    monkeypatch.setattr("discreet.ledger.log.datetime", Clock)
    account.charge("q1", pay(1), note={})
    account.charge("q2", pay(1), note={})
    account.freeze(**BOARD)
    account.thaw(**BOARD)
    monkeypatch.undo()
    account.charge("q3", pay(1), note={})
    with pytest.raises(BudgetExceeded):
        account.charge("q4", pay("1/100"), note={})
    assert [e.time[:4] for e in account.history()[1:5]] == ["2031", "1999", "2026", "1970"]
    assert ledger.verify().ok


def test_names_that_look_alike_do_not_get_two_budgets(ledger: Ledger) -> None:
    ledger.open_account("customers", Budget(1))
    for twin in (
        "\u0441ustomers",
        "Customers",
        "\uff43ustomers",
        "cust\u03bfmers",
        "custorners".replace("rn", "m").upper(),
    ):
        with pytest.raises(InvalidParameter, match="looks like 'customers'"):
            ledger.open_account(twin, Budget(1))
    for unseen in ("customers\u200b", "customers\u3164", "cust\u00adomers", "customers\ufe0f", "\u202ecustomers"):
        with pytest.raises(InvalidParameter, match="printable"):
            ledger.open_account(unseen, Budget(1))
    for other in ("customer", "клиенты", "küsten", "customers 2"):
        ledger.open_account(other, Budget(1))
    assert ledger.populations() == ["customers", "customer", "клиенты", "küsten", "customers 2"]


def test_a_refusal_says_the_smallest_change_that_would_fit(account: Account, pay: MakeCharge) -> None:
    account.charge("q", pay("14/5"), note={})
    with pytest.raises(BudgetExceeded) as caught:
        account.charge("r", pay("1/2"), note={})
    assert caught.value.hint.startswith("epsilon=0.2 would fit; ")
    with pytest.raises(BudgetExceeded) as caught:
        account.charge("r", pay("1/2", "1/500000"), note={})
    assert caught.value.hint.startswith("epsilon=0.2 and delta=1e-06 would fit; ")
    account.charge("s", pay("1/5"), note={})
    with pytest.raises(BudgetExceeded) as caught:
        account.charge("r", pay("1/2"), note={})
    assert caught.value.hint.startswith("nothing is left: ")


def test_a_closed_ledger_can_still_be_shown(ledger: Ledger, account: Account) -> None:
    assert "Budget(epsilon=3" in repr(account)
    ledger.close()
    assert "cannot be read" in repr(account)


def test_what_would_be_left_is_told_without_charging(ledger: Ledger, account: Account, pay: MakeCharge) -> None:
    head = ledger.head
    assert account.after(pay("1/2")) == Budget("5/2", 1e-6)
    assert account.times(pay("1/2")) == 6
    assert account.times(pay("4/5")) == 3
    assert account.after(pay(4)) is None
    assert account.times(pay(4)) == 0
    assert isinstance(account.refusal(pay(4)), BudgetExceeded)
    assert account.refusal(pay(3)) is None
    assert ledger.head == head


def test_what_was_read_and_then_lost_with_its_server_is_not_remembered(pay: MakeCharge) -> None:
    class Server(MemoryStore):
        loses: Overlay | None = None

        def read(self, work: Callable[[Transaction], Any]) -> Any:
            found = super().read(work)
            if self.loses is None:
                return found
            self._now, self.loses = self.loses, None
            raise LedgerError("the server ended before what was read was on its disk.")

    store = Server()
    owner, reader = Ledger(store).open_account("p", Budget(1)), Ledger(store).account("p")
    assert reader is not None
    assert reader.budget == Budget(1)
    before = store._now
    owner.change_budget(Budget(10), **BOARD)
    store.loses = before
    with pytest.raises(LedgerError, match="the server ended"):
        _ = reader.budget
    again = Ledger(store).account("p")
    assert again is not None
    again.change_budget(Budget(2), **BOARD)  # the entry of the same number
    assert reader.budget == Budget(2)
    with pytest.raises(BudgetExceeded):
        reader.charge("q", pay(5), note={})
