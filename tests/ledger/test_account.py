from __future__ import annotations

import json
import math
import random
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import accounting
from discreet.accounting.filter import ORDERS, BasicFilter, Charge
from discreet.errors import BudgetExceeded, InvalidParameter
from discreet.ledger.account import Account
from discreet.ledger.chain import canonical
from discreet.ledger.entry import Charged, Opened
from discreet.ledger.ledger import Ledger
from discreet.privacy.event import ApproximateEvent, Composed, ZCDPEvent
from discreet.privacy.guarantee import Approximate, Budget

MakeCharge: TypeAlias = Callable[..., Charge]


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.open_account("customers", Budget(3))


def test_charges_add_up_exactly_and_the_last_unit_can_be_spent(account: Account, pay: MakeCharge) -> None:
    for i in range(30):
        entry = account.charge(f"q{i}", pay("1/10"), note={})
        assert account.remaining.epsilon == 3 - Fraction(i + 1, 10)
        assert (entry.kind, entry.seq, entry.epsilon) == ("charge", i + 2, Fraction(1, 10))
    assert account.spent.epsilon(delta=0) == 3
    with pytest.raises(BudgetExceeded):
        account.charge("q", pay("1/1000000000000"), note={})


def test_a_refused_charge_leaves_no_trace(ledger: Ledger, account: Account, pay: MakeCharge) -> None:
    account.charge("q", pay("14/5"), note={})
    before = (ledger.head, account.history(), account.remaining)
    with pytest.raises(BudgetExceeded) as caught:
        account.charge("r", pay("1/2"), note={})
    assert caught.value.message == "'customers': the query needs ε = 0.5, and ε = 0.2 is left of 3."
    assert (caught.value.asked, caught.value.left) == ("ε = 0.5", "ε = 0.2")
    assert caught.value.hint
    assert (ledger.head, account.history(), account.remaining) == before


def test_a_refusal_never_looks_as_if_there_were_enough(ledger: Ledger, pay: MakeCharge) -> None:
    account = ledger.open_account("p", Budget(1))
    account.charge("q", pay(Fraction(9, 10) + Fraction(1, 10**12)), note={})
    with pytest.raises(BudgetExceeded) as caught:
        account.charge("r", pay("1/10"), note={})
    assert float(caught.value.left.removeprefix("ε = ")) < 0.1


def test_a_delta_is_spoken_of_when_it_matters(ledger: Ledger, pay: MakeCharge) -> None:
    account = ledger.open_account("p", Budget(1, 1e-6))
    with pytest.raises(BudgetExceeded) as caught:
        account.charge("r", pay("1/10", "1/500000"), note={})
    assert (caught.value.asked, caught.value.left) == ("ε = 0.1, δ = 2e-06", "ε = 1, δ = 1e-06")
    pure = ledger.open_account("pure", Budget(1))
    with pytest.raises(BudgetExceeded) as caught:
        pure.charge("r", pay("1/10", "1/500000"), note={})
    assert (caught.value.asked, caught.value.left) == ("ε = 0.1, δ = 2e-06", "ε = 1, δ = 0")


def test_more_than_the_owner_allows_for_one_query_is_refused_before_anything_is_written(
    ledger: Ledger, pay: MakeCharge
) -> None:
    account = ledger.open_account("p", Budget(10, per_query=2))
    with pytest.raises(InvalidParameter, match=r"ε = 2 at most.*ε = 3"):
        account.charge("r", pay(3), note={})
    account.charge("r", pay(2), note={})
    assert account.remaining.epsilon == 8


@pytest.mark.parametrize("note", [{"x": math.nan}, {1: 2}, {"x": object()}])
def test_a_note_that_cannot_be_written_charges_nothing(account: Account, pay: MakeCharge, note: dict[Any, Any]) -> None:
    with pytest.raises(InvalidParameter):
        account.charge("q", pay(1), note=note)
    assert account.remaining.epsilon == 3
    assert [e.kind for e in account.history()] == ["account"]


def test_the_history_tells_what_was_charged_in_order(account: Account, pay: MakeCharge) -> None:
    account.pin("visits", {"user_id": "BIGINT"})
    first = account.charge("q1", pay("1/2"), note={"sql": "SELECT COUNT(*) FROM visits", "é": [1, 2.5]})
    account.store("q1", first.seq, {"rows": [[7]]})
    account.charge("q2", pay("1/4"), note={})
    history = account.history()
    assert [e.kind for e in history] == ["account", "schema", "charge", "release", "charge"]
    assert [e.seq for e in history] == [1, 2, 3, 4, 5]
    assert [e.question for e in history] == [None, None, "q1", "q1", "q2"]
    assert history[2] == first
    assert history[2].note == {"sql": "SELECT COUNT(*) FROM visits", "é": [1, 2.5]}
    assert all(e.time.endswith("Z") and e.time[10] == "T" for e in history)


def test_the_history_of_one_population_does_not_show_another(ledger: Ledger, account: Account) -> None:
    ledger.open_account("others", Budget(1)).pin("t", {})
    assert {e.population for e in account.history()} == {"customers"}


RELEASES = [
    {"rows": [[1, 0.1, -0.0, 1e300, 5e-324, None, True, 'é🙂\u2028\\"', 2**200]], "z": {}, "a": []},
    {"b": {"y": [1, 1.0], "x": "1/3"}, "a": ""},
]


@pytest.mark.parametrize("release", RELEASES)
def test_a_stored_release_is_found_again_byte_for_byte(path: Path, pay: MakeCharge, release: dict[str, Any]) -> None:
    with Ledger.open(path) as ledger:
        account = ledger.open_account("p", Budget(1))
        account.store("q", account.charge("q", pay(1), note={}).seq, release)
    with Ledger.existing(path) as ledger:
        reopened = ledger.account("p")
        assert reopened is not None
        found = [reopened.find("q") for _ in range(2)]
    assert [canonical(f) for f in found] == [canonical(release)] * 2
    assert json.dumps(found[0], sort_keys=True) == json.dumps(release, sort_keys=True)


def test_a_question_without_a_release_is_not_found(ledger: Ledger, account: Account, pay: MakeCharge) -> None:
    paid = account.charge("q", pay(1), note={})
    assert account.find("q") is None
    account.store("q", paid.seq, {"rows": []})
    assert account.find("Q") is None
    assert ledger.open_account("others", Budget(1)).find("q") is None


def test_a_fresh_draw_is_found_instead_of_the_one_before(account: Account, pay: MakeCharge) -> None:
    charges = [account.charge("q", pay("1/10"), note={}) for _ in range(3)]
    account.store("q", charges[1].seq, {"n": 1})
    account.store("q", charges[2].seq, {"n": 2})
    assert account.find("q") == {"n": 2}
    account.store("q", charges[0].seq, {"n": 0})  # a slow one that ends last
    assert account.find("q") == {"n": 0}


def test_one_charge_pays_for_one_release(ledger: Ledger, account: Account, pay: MakeCharge) -> None:
    first, second = (account.charge("q", pay("1/10"), note={}) for _ in range(2))
    account.store("q", first.seq, {"n": 1})
    account.store("q", second.seq, {"n": 2})
    head = ledger.head
    account.store("q", first.seq, {"n": 1})  # the same again, say after a failure that was none
    assert ledger.head == head
    with pytest.raises(InvalidParameter, match="another release"):
        account.store("q", first.seq, {"n": 3})
    assert account.find("q") == {"n": 2}


def test_a_release_needs_a_charge_of_its_own_account_and_question(
    ledger: Ledger, account: Account, pay: MakeCharge
) -> None:
    paid = account.charge("q", pay(1), note={})
    other = ledger.open_account("others", Budget(1))
    for target, question, seq in [
        (account, "r", paid.seq),
        (other, "q", paid.seq),
        (account, "q", 1),
        (account, "q", 99),
        (account, "q", 0),
    ]:
        with pytest.raises(InvalidParameter, match="not a charge"):
            target.store(question, seq, {})
    assert ledger.verify().ok


def test_the_first_schema_is_pinned(ledger: Ledger, account: Account) -> None:
    assert account.pinned("visits") is None
    assert account.pin("visits", {"columns": [["a", "BIGINT"]]}) == {"columns": [["a", "BIGINT"]]}
    assert account.pin("visits", {"columns": []}) == {"columns": [["a", "BIGINT"]]}
    assert account.pinned("visits") == {"columns": [["a", "BIGINT"]]}
    assert account.pin("orders", {"columns": []}) == {"columns": []}
    assert ledger.open_account("others", Budget(1)).pinned("visits") is None
    assert ledger.verify().ok


@pytest.mark.parametrize("path", ["file", ":memory:"])
def test_many_threads_spend_exactly_what_there_is(tmp_path: Path, pay: MakeCharge, path: str) -> None:
    ledger = Ledger.open(path if path == ":memory:" else tmp_path / path)
    account, got = ledger.open_account("p", Budget(1)), list[bool]()

    def ask(i: int) -> None:
        try:
            account.charge(f"q{i}", pay("1/10"), note={})
            got.append(True)
        except BudgetExceeded:
            got.append(False)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (got.count(True), got.count(False)) == (10, 30)
    assert account.remaining.epsilon == 0
    assert ledger.verify().ok


AMOUNTS = st.tuples(
    st.fractions(min_value=0, max_value=1, max_denominator=1000), st.sampled_from([Fraction(0), Fraction(1, 10**7)])
)


@given(st.lists(AMOUNTS, max_size=12))
def test_the_ledger_admits_exactly_the_charges_whose_plain_sums_fit(amounts: list[tuple[Fraction, Fraction]]) -> None:
    epsilon, delta = Fraction(0), Fraction(0)
    with Ledger.open(":memory:") as ledger:
        account = ledger.open_account("p", Budget(2, 3e-7), filter="basic")
        for e, d in amounts:
            fits = epsilon + e <= 2 and delta + d <= Fraction(3, 10**7)
            try:
                account.charge("q", Charge(Composed([ApproximateEvent(e, d)]), Approximate(e, d)), note={})
                admitted = True
                epsilon, delta = epsilon + e, delta + d
            except BudgetExceeded:
                admitted = False
            assert admitted == fits
            assert (account.remaining.epsilon, account.remaining.delta) == (2 - epsilon, Fraction(3, 10**7) - delta)
        assert ledger.verify().ok


def test_an_account_by_zcdp_adds_up_rho_and_failures_apart(ledger: Ledger) -> None:
    account = ledger.open_account("p", Budget(1, 1e-6), filter="zcdp")
    opened = account.history()[0].content
    assert isinstance(opened, Opened)
    assert opened.capacity is not None
    most = opened.capacity[0]

    def of(rho: Fraction) -> Charge:
        return Charge(Composed([ZCDPEvent(rho)]), Approximate(Fraction(1), Fraction(1, 10**6)))

    account.charge("q1", of(most / 3), note={})
    account.charge("q2", of(most / 3), note={})
    with pytest.raises(BudgetExceeded):
        account.charge("q3", of(most / 3 + Fraction(1, 10**30)), note={})
    account.charge("q4", of(most / 3), note={})
    spent = [e.content.spent for e in account.history() if isinstance(e.content, Charged)]
    assert spent == [(most / 3, Fraction(0)), (most * 2 / 3, Fraction(0)), (most, Fraction(0))]
    assert ledger.verify().ok


def test_the_capacity_of_the_day_of_opening_holds_when_a_later_version_computes_a_larger_one(
    ledger: Ledger, pay: MakeCharge, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.open_account("p", Budget(1)).charge("q", pay("1/2"), note={})
    later = BasicFilter(Budget(2))
    monkeypatch.setattr("discreet.ledger.account_state.reopen_filter", lambda name, budget, capacity: later)
    account = ledger.open_account("p", None)
    with pytest.raises(BudgetExceeded):
        account.charge("q", pay("3/4"), note={})
    account.charge("q", pay("1/2"), note={})


WORK = accounting.gaussian(4) * 3 + accounting.laplace(10)


def test_an_account_under_a_curve_keeps_the_curve_of_its_opening(ledger: Ledger) -> None:
    account = ledger.open_account("p", Budget(3, 1e-6), filter="renyi-curve", curve=WORK)
    opened = account.history()[0].content
    assert isinstance(opened, Opened)
    assert opened.capacity is not None
    assert len(opened.capacity) == len(ORDERS) + 1
    account.charge("q1", Charge.of(accounting.gaussian(4) * 2, 1e-7), note={})
    for again in (ledger.open_account("p", None), ledger.open_account("p", None, curve=WORK)):
        assert again.filter == "renyi-curve"
    again.charge("q2", Charge.of(accounting.gaussian(4), 1e-7), note={})
    again.charge("q3", Charge.of(accounting.laplace(10)), note={})
    with pytest.raises(BudgetExceeded):
        again.charge("q4", Charge.of(accounting.laplace(10**6)), note={})
    assert again.remaining.epsilon == 0
    assert ledger.verify().ok
    with pytest.raises(InvalidParameter, match="another curve"):
        ledger.open_account("p", None, curve=WORK * 2)
    with pytest.raises(InvalidParameter, match="above the budget"):
        ledger.open_account("q", Budget(1, 1e-6), filter="renyi-curve", curve=WORK)
    with pytest.raises(InvalidParameter, match="needs a curve"):
        ledger.open_account("q", Budget(1, 1e-6), filter="renyi-curve")
    with pytest.raises(InvalidParameter, match="no curve"):
        ledger.open_account("q", Budget(3, 1e-6), filter="zcdp", curve=WORK)
    assert ledger.account("q") is None


def test_a_charge_for_other_neighbours_than_the_accounts_is_refused(ledger: Ledger) -> None:
    account = ledger.open_account("p", Budget(3, 1e-6), relation="replace", filter="zcdp")
    sampled = Charge.of(accounting.gaussian(4).poisson(Fraction(1, 10)), 1e-7)
    with pytest.raises(InvalidParameter, match="replace neighbours"):
        account.charge("q", sampled, note={})
    assert len(account.history()) == 1


def primes(count: int, bits: int) -> list[int]:
    """Numbers without a common divisor."""
    drawn, found = random.Random(count), list[int]()
    while len(found) < count:
        n = drawn.getrandbits(bits) | 1 | 1 << (bits - 1)
        if all(math.gcd(n, other) == 1 for other in found):
            found.append(n)
    return found


def test_sums_stay_short_whatever_is_charged_and_are_never_below_it(ledger: Ledger, pay: MakeCharge) -> None:
    account = ledger.open_account("p", Budget(1))
    charged = [Fraction(1, n) for n in primes(40, 499)]
    for epsilon in charged:
        account.charge("q", pay(epsilon), note={})
    for k in range(3):
        assert account.refusal(pay("1/3")) is None or k == 2
        if k < 2:
            account.charge("third", pay("1/3"), note={})
    tallies = [e.content.spent for e in account.history() if isinstance(e.content, Charged)]
    assert max(len(str(x)) for spent in tallies for x in spent) < 200
    exact = sum(charged) + Fraction(2, 3)
    left = account.remaining.epsilon
    assert 0 <= 1 - exact - left < Fraction(40, 10**60)
    assert ledger.verify().ok
    with pytest.raises(InvalidParameter, match="3000 digits"):
        account.charge("long", pay(Fraction(1, 10**5000)), note={})
