"""Analysts within a population's budget: caps that hold, and analysts kept apart who see nothing of each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet import accounting
from discreet.accounting.filter import Charge, Filter
from discreet.errors import BudgetExceeded, DiscreetError, InvalidParameter
from discreet.ledger.account import Account
from discreet.ledger.analysts import own_history
from discreet.ledger.entry import Entry
from discreet.ledger.joint_charge import foresee
from discreet.ledger.ledger import Ledger
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.guarantee import Approximate, Budget

MakeCharge: TypeAlias = Callable[..., Charge]
BOARD: dict[str, Any] = {"by": "the data board", "reason": "as agreed"}


def charge_of(epsilon: Fraction) -> Charge:
    return Charge(Composed([ApproximateEvent(epsilon, Fraction(0))]), Approximate(epsilon))


@pytest.fixture
def together(ledger: Ledger) -> Account:
    account = ledger.open_account("customers", Budget(3))
    account.cap_group("research", Budget(2), **BOARD)
    account.cap_analyst("ana", Budget("3/2", per_query=1), group="research", **BOARD)
    account.cap_analyst("ben", Budget("3/2"), group="research", **BOARD)
    account.cap_analyst("cleo", Budget(3), **BOARD)
    return account


@pytest.fixture
def apart(ledger: Ledger) -> Account:
    account = ledger.open_account("customers", Budget(3), analysts="apart")
    account.cap_analyst("ana", Budget(1), **BOARD)
    account.cap_analyst("ben", Budget(1), **BOARD)
    return account


def test_a_charge_is_taken_by_all_or_by_none(ledger: Ledger, together: Account, pay: MakeCharge) -> None:
    ana, ben, cleo = (together.seen_by(name) for name in ("ana", "ben", "cleo"))
    ana.charge("q1", pay(1), note={})
    ben.charge("q2", pay("3/4"), note={})
    with pytest.raises(BudgetExceeded, match=r"ε = 0\.25 is left of 2, the cap of the group 'research'"):
        ben.charge("q3", pay("1/2"), note={})
    assert ben.spent.epsilon(0) == 0.75
    assert ben.remaining.epsilon == Fraction(1, 4)
    with pytest.raises(BudgetExceeded, match=r"ε = 0\.5 is left of 1\.5, the cap of the analyst 'ana'"):
        ana.charge("q4", pay("3/4"), note={})
    cleo.charge("q5", pay("5/4"), note={})
    with pytest.raises(BudgetExceeded, match=r"ε = 0 is left of 3\."):
        ben.charge("q6", pay("1/8"), note={})
    assert [e.analyst for e in together.history() if e.kind == "charge"] == ["ana", "ben", "cleo"]
    assert ledger.verify().ok


def test_a_cap_on_one_query_is_the_narrowest_of_all(together: Account, pay: MakeCharge) -> None:
    with pytest.raises(InvalidParameter, match=r"one query of the analyst 'ana' may ask ε = 1 at most"):
        together.seen_by("ana").charge("q", pay("5/4"), note={})
    together.seen_by("ben").charge("q", pay("5/4"), note={})


def test_nobody_asks_without_a_name_once_there_are_analysts(together: Account, pay: MakeCharge) -> None:
    with pytest.raises(InvalidParameter, match="every query needs the one who asks"):
        together.charge("q", pay("1/8"), note={})
    with pytest.raises(InvalidParameter, match="'dan' is no analyst"):
        together.seen_by("dan")
    with pytest.raises(InvalidParameter, match="looks like 'ana'"):
        together.cap_analyst("\u0430na", Budget(1), **BOARD)
    with pytest.raises(InvalidParameter, match="only the owner"):
        together.seen_by("ana").cap_analyst("ana", Budget(3), **BOARD)


def test_together_a_cap_can_be_changed_but_not_below_what_is_spent(together: Account, pay: MakeCharge) -> None:
    ana = together.seen_by("ana")
    ana.charge("q", pay(1), note={})
    with pytest.raises(InvalidParameter, match="more than that is spent"):
        together.cap_analyst("ana", Budget("1/2"), **BOARD)
    with pytest.raises(InvalidParameter, match="more than that is spent"):
        together.cap_group("research", Budget("1/2"), **BOARD)
    together.cap_analyst("ana", Budget(1), **BOARD)
    assert ana.remaining.epsilon == 0
    with pytest.raises(InvalidParameter, match="stays there"):
        together.cap_analyst("cleo", Budget(1), group="research", **BOARD)
    with pytest.raises(InvalidParameter, match="no group 'sales'"):
        together.cap_analyst("dan", Budget(1), group="sales", **BOARD)


def test_together_stored_releases_are_for_everybody(together: Account, pay: MakeCharge) -> None:
    ana, ben = together.seen_by("ana"), together.seen_by("ben")
    ana.store("q", ana.charge("q", pay(1), note={}).seq, {"n": 1})
    assert ben.find("q") == {"n": 1}
    assert len(ben.history()) == len(together.history())


def test_apart_caps_are_reserved(ledger: Ledger, apart: Account) -> None:
    with pytest.raises(InvalidParameter, match=r"^The caps add up to ε = 3\.25; the budget of 'customers' is ε = 3\."):
        apart.cap_analyst("cleo", Budget("5/4"), **BOARD)
    with pytest.raises(InvalidParameter, match="is reserved, and is never lowered"):
        apart.cap_analyst("ana", Budget("1/2"), **BOARD)
    with pytest.raises(InvalidParameter, match="the caps of analysts kept apart reserve more"):
        apart.change_budget(Budget("3/2"), **BOARD)
    apart.cap_group("team", Budget(1), **BOARD)
    apart.cap_analyst("dan", Budget("1/2"), group="team", **BOARD)
    with pytest.raises(InvalidParameter, match=r"add up to ε = 1\.25; the cap of the group 'team' is ε = 1\."):
        apart.cap_analyst("eve", Budget("3/4"), group="team", **BOARD)
    with pytest.raises(InvalidParameter, match=r"add up to ε = 3\.25; the budget of"):
        apart.cap_group("team", Budget("5/4"), **BOARD)
    apart.change_budget(Budget(4), **BOARD)
    apart.cap_group("team", Budget("5/4"), **BOARD)
    apart.cap_analyst("eve", Budget("3/4"), group="team", **BOARD)
    assert ledger.verify().ok


def test_apart_nobody_can_be_charged_before_there_are_analysts(ledger: Ledger, pay: MakeCharge) -> None:
    account = ledger.open_account("p", Budget(1), analysts="apart")
    with pytest.raises(InvalidParameter, match="every query needs the one who asks"):
        account.charge("q", pay("1/8"), note={})


def test_apart_and_a_budget_for_each_person_do_not_go_together(ledger: Ledger) -> None:
    with pytest.raises(InvalidParameter, match="cannot be kept apart where each person has a budget"):
        ledger.open_account("p", Budget(1), analysts="apart", per_person=Budget(1))


def test_what_an_analyst_is_promised_is_said(apart: Account) -> None:
    (whole, own) = apart.seen_by("ana").promises()
    assert "ε = 3 differentially private" in whole
    assert "whatever analysts tell each other" in whole
    assert "What 'ana' alone has seen is ε = 1 differentially private" in own
    assumed = "rows that arrive later do not depend on what other analysts were told"
    assert assumed in own and assumed not in whole
    (_, of_each) = apart.promises()
    assert assumed in of_each


def test_threads_of_two_analysts_spend_exactly_what_their_group_has(ledger: Ledger, pay: MakeCharge) -> None:
    account = ledger.open_account("p", Budget(9))
    account.cap_group("team", Budget(1), **BOARD)
    views = []
    for name in ("ana", "ben"):
        account.cap_analyst(name, Budget("4/5"), group="team", **BOARD)
        views.append(account.seen_by(name))
    got = list[tuple[int, bool]]()

    def ask(i: int) -> None:
        try:
            views[i % 2].charge(f"q{i}", pay("1/10"), note={})
            got.append((i % 2, True))
        except BudgetExceeded:
            got.append((i % 2, False))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(done for _, done in got) == 10
    assert [sum(done for who, done in got if who == i) for i in (0, 1)] == [
        round(10 * view.spent.epsilon(0)) for view in views
    ]
    assert account.remaining.epsilon == 8
    assert ledger.verify().ok


def test_an_analyst_apart_cannot_look_through_others_eyes(apart: Account) -> None:
    ana = apart.seen_by("ana")
    with pytest.raises(InvalidParameter, match="does not see"):
        ana.standings()
    with pytest.raises(InvalidParameter, match="as 'ana' sees it"):
        ana.seen_by("ben")


def test_both_promises_and_no_third(ledger: Ledger) -> None:
    account = ledger.open_account("p", Budget(1))
    account.cap_analyst("ana", Budget(1), **BOARD)
    assert "no promise of its own" in account.seen_by("ana").promises()[1]


@pytest.mark.parametrize("rule", ["zcdp", "gdp", "renyi", "renyi-curve"])
def test_caps_count_in_the_units_of_the_populations_filter(ledger: Ledger, rule: str) -> None:
    curve: dict[str, Any] = {"curve": accounting.gaussian(4) * 6} if rule == "renyi-curve" else {}
    account = ledger.open_account("p", Budget(4, 1e-6), filter=rule, analysts="apart", **curve)
    # One order counts nothing for a cap whose ε is below what converting at that order takes.
    cap = Budget(3 if rule == "renyi" else "3/2", 4e-7)
    account.cap_analyst("ana", cap, **BOARD)
    ana, one = account.seen_by("ana"), Charge.of(accounting.gaussian(12), 1e-8)
    n = ana.times(one)
    assert n is not None
    for i in range(n):
        ana.charge(f"q{i}", one, note={})
    with pytest.raises(BudgetExceeded):
        ana.charge("q", one, note={})
    # The cap's promise holds for what was let through, by an accountant that is no filter.
    assert n > 0
    assert (accounting.gaussian(12) * n).epsilon(4e-7) <= cap.epsilon
    assert (accounting.gaussian(12) * n).epsilon(4e-7) > (0.3 if rule.startswith("renyi") else 0.7)
    with pytest.raises(InvalidParameter):
        account.cap_analyst("ben", Budget(4, 1e-6), **BOARD)
    assert ledger.verify().ok


# A reference model of a few lines, and the account against it, through any sequence of operations.

NAMES = ("ana", "ben", "cleo")
AMOUNTS = st.sampled_from([Fraction(n, 8) for n in range(1, 17)])
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(NAMES), AMOUNTS),
    st.tuples(st.just("cap"), st.sampled_from(NAMES), AMOUNTS),
    st.tuples(st.just("group"), st.just("team"), AMOUNTS),
    st.tuples(st.just("budget"), st.just(""), AMOUNTS),
    st.tuples(st.sampled_from(["freeze", "thaw"]), st.just(""), st.just(Fraction(1))),
)


class Model:
    """Basic composition with caps: ben is in the group, ana and cleo in none."""

    def __init__(self, *, apart: bool) -> None:
        self.apart, self.budget, self.frozen = apart, Fraction(2), False
        self.caps: dict[str, Fraction] = {}
        self.spent = dict.fromkeys(NAMES, Fraction(0))

    def sums(self, name: str) -> Fraction:
        members = {"": NAMES, "team": ("ben",)}.get(name, (name,))
        return sum((self.spent[m] for m in members), Fraction(0))

    def does(self, act: str, name: str, amount: Fraction) -> bool:
        if act in ("freeze", "thaw"):
            done = self.frozen != (act == "freeze")
            self.frozen = act == "freeze"
            return done
        if act == "ask":
            limits = [self.caps.get(name), self.budget]
            sums = [self.sums(name), self.sums("")]
            if name == "ben":
                limits, sums = [*limits, self.caps.get("team")], [*sums, self.sums("team")]
            fits = not self.frozen and all(m is not None and s + amount <= m for m, s in zip(limits, sums, strict=True))
            if fits:
                self.spent[name] += amount
            return fits
        if name == "ben" and "team" not in self.caps:
            return False
        caps = self.caps | ({name: amount} if name else {})
        budget = self.budget if name else amount
        fits = self.sums(name) <= amount and (bool(name) or amount != self.budget)
        if self.apart:
            top = sum((caps.get(n, Fraction(0)) for n in ("ana", "cleo", "team")), Fraction(0))
            fits = fits and top <= budget and caps.get("ben", Fraction(0)) <= caps.get("team", Fraction(0))
            fits = fits and (not name or amount >= self.caps.get(name, Fraction(0)))
        if fits:
            self.caps, self.budget = caps, budget
        return fits


def does(account: Account, act: str, name: str, amount: Fraction) -> bool:
    try:
        if act == "ask":
            account.seen_by(name).charge("q", charge_of(amount), note={})
        elif act == "cap":
            account.cap_analyst(name, Budget(amount), group="team" if name == "ben" else None, **BOARD)
        elif act == "group":
            account.cap_group(name, Budget(amount), **BOARD)
        elif act == "budget":
            account.change_budget(Budget(amount), **BOARD)
        else:
            getattr(account, act)(**BOARD)
    except (BudgetExceeded, InvalidParameter):
        return False
    return True


@given(st.lists(STEPS, max_size=14), st.booleans())
def test_any_sequence_of_operations_does_what_the_model_does(
    steps: list[tuple[str, str, Fraction]], apart: bool
) -> None:
    model = Model(apart=apart)
    with Ledger.open(":memory:") as ledger:
        account = ledger.open_account("p", Budget(2), analysts="apart" if apart else "together")
        for step in steps:
            assert does(account, *step) == model.does(*step), step
            assert account.spent.epsilon(0) == float(model.sums(""))
        for name in model.caps.keys() & set(NAMES):
            assert account.seen_by(name).spent.epsilon(0) == float(model.spent[name])
        assert ledger.verify().problems == ()


# What an analyst who is kept apart can see, as one value, and two worlds that differ in what the others do.

Doing: TypeAlias = list[tuple[str, Fraction]]


def seen(account: Account, doing: Doing) -> list[Any]:
    """All that ana sees of her own work while the others do theirs between her questions."""
    ana, shown = account.seen_by("ana"), list[Any]()
    for i, (who, amount) in enumerate(doing):
        mine = who == "ana"
        try:
            analyst = account.seen_by(who)
            question = f"q{amount}"
            foresee(analyst.pinning(question, {"columns": [["x", "BIGINT"]]}), analyst)
            stored = analyst.find(question)
            if stored is None:
                entry = analyst.charge(question, charge_of(amount), note={"sql": question})
                analyst.store(question, entry.seq, {"n": [i] if not mine else "hers"})
            said: Any = stored
        except DiscreetError as error:
            said = str(error)
        if mine:
            left, history = ana.remaining, [(e.seq, e.kind, e.content.to_json()) for e in ana.history()]
            shown += [said, repr(left), ana.spent.epsilon(0), history, ana.promises(), repr(ana)]
            shown += [ana.times(charge_of(amount)), ana.after(charge_of(amount)), str(ana.refusal(charge_of(amount)))]
            pinning = lambda: ana.pin(question, {})  # noqa: E731, B023  # called at once, as the next
            for look in (ana.pins, lambda: ana.pinned(question), pinning):  # noqa: B023
                try:
                    shown.append(look())
                except DiscreetError as error:
                    shown.append(str(error))
    return shown


DOINGS = st.lists(
    st.tuples(st.sampled_from(["ben", "cleo"]), st.sampled_from([Fraction(n, 4) for n in range(1, 6)])), max_size=6
)
HERS = st.lists(st.sampled_from([Fraction(n, 4) for n in range(1, 6)]), min_size=1, max_size=5)


def world(hers: list[Fraction], others: Doing, *, analysts: str) -> list[Any]:
    with Ledger.open(":memory:") as ledger:
        account = ledger.open_account("p", Budget(3), analysts=analysts)
        for name in NAMES:
            account.cap_analyst(name, Budget(1), **BOARD)
        mixed: Doing = []
        for i, amount in enumerate(hers):
            mixed += [*others[i :: len(hers)], ("ana", amount)]
        digest = account.history()[0].content.to_json()["secret_sha256"]
        return [str(x).replace(digest, "") for x in seen(account, mixed)]


@settings(max_examples=40)
@given(HERS, DOINGS)
def test_apart_nothing_that_an_analyst_sees_depends_on_what_the_others_do(hers: list[Fraction], others: Doing) -> None:
    assert world(hers, others, analysts="apart") == world(hers, [], analysts="apart")


OTHERS: Doing = [("ben", Fraction(1, 2)), ("cleo", Fraction(1)), ("ben", Fraction(1, 2))]


def with_pins(entries: list[Entry], analyst: str, units: Filter) -> list[Entry]:
    """As `own_history`, with the tables that others' charges have pinned."""
    pins = [e for e in entries if e.kind == "schema"]
    return [replace(e, seq=i) for i, e in enumerate([*own_history(entries, analyst, units), *pins], 1)]


def test_together_it_does() -> None:
    hers = [Fraction(1, 4), Fraction(1, 2)]
    assert world(hers, OTHERS, analysts="together") != world(hers, [], analysts="together")


@pytest.mark.parametrize(
    ("leak", "broken"),
    [
        ("pins", lambda self, what: None),  # tables that others' charges pinned
        ("schema", lambda entries, analyst, units: with_pins(entries, analyst, units)),
        ("find", lambda self, view, seq: True),  # everybody's releases
        ("history", lambda entries, analyst, units: list(entries)),  # everybody's entries
        ("number", lambda entries, analyst, units: [e for e in entries if e.analyst in (None, analyst)]),
        ("limits", lambda self: False),  # balances of all
    ],
)
def test_a_broken_twin_is_told_apart(leak: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way in which something of the others could show is seen by the test above."""
    where = {
        "find": "discreet.ledger.account.Account._is_mine",
        "pins": "discreet.ledger.account.Account._refuse_apart",
        "schema": "discreet.ledger.analysts.own_history",
        "history": "discreet.ledger.analysts.own_history",
        "number": "discreet.ledger.analysts.own_history",
        "limits": "discreet.ledger.account.Account.alone",
    }[leak]
    monkeypatch.setattr(where, property(broken) if leak == "limits" else broken)
    hers = [Fraction(1, 4), Fraction(1, 2)]
    assert world(hers, OTHERS, analysts="apart") != world(hers, [], analysts="apart")


def test_a_twin_that_does_not_reserve_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without reservation the others can use up the budget, and ana's refusal tells it."""
    monkeypatch.setattr("discreet.ledger.analysts._fits", lambda account, taken: None)

    def world(others: Doing) -> str:
        with Ledger.open(":memory:") as ledger:
            account = ledger.open_account("p", Budget(2), analysts="apart")
            for name in NAMES:
                account.cap_analyst(name, Budget(1), **BOARD)
            return str(seen(account, [*others, ("ana", Fraction(1))])[0])

    assert world([("ben", Fraction(1)), ("cleo", Fraction(1))]) != world([])


def test_the_digits_of_what_others_charged_refuse_nobody_who_is_apart(apart: Account) -> None:
    ana, ben = apart.seen_by("ana"), apart.seen_by("ben")
    for k in range(60):
        ben.charge("q", charge_of(Fraction(10**57, 10**59 + 7 * k + 9)), note={})
        assert ana.refusal(charge_of(Fraction(1, 3))) is None
    assert ben.remaining.epsilon < Fraction(41, 100)
    ana.charge("q", charge_of(Fraction(1, 3)), note={})
    assert ana.remaining.epsilon == Fraction(2, 3)
