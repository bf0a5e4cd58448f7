"""The summary of what people have used of their own budgets: what it tells, whom it counts, what it costs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet import spending
from discreet.engine.cells import Cells
from discreet.errors import BudgetExceeded, InvalidParameter, LedgerCorrupt
from discreet.ledger import people_table as summary
from discreet.ledger import person_budgets
from discreet.ledger.ledger import Ledger
from discreet.ledger.people_table import BEYOND, CAPACITY, PeopleTable, settle
from discreet.ledger.person_budgets import PersonBudgets
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.query import Query
from discreet.spending import spending_of
from tests.without_noise import without_noise

Rows: TypeAlias = Mapping[int, list[str]]
"""Person → the group of each row."""

Seen: TypeAlias = list[list[tuple[Additive, int]]]
"""Of each answer the exact numbers, each with the noise that it would have got."""


def session(rows: Rows, *, budget: dp.Budget | None = None, whole: dp.Budget | None = None, **asked: Any) -> dp.Session:
    flat = [(i, g) for i, own in rows.items() for g in own]
    frame = pd.DataFrame({"id": [r[0] for r in flat], "g": [r[1] for r in flat]})
    options: dict[str, Any] = {"ledger": ":memory:", "population": "people", **asked}
    return dp.connect(
        {"t": frame.astype({"id": "int64", "g": "str"})},
        unit=dp.PrivacyUnit("id", max_groups=2, max_rows=2),
        columns={"g": dp.Values("a", "b")},
        per_person=budget or dp.Budget(1),
        budget=whole,
        **options,
    )


# --- what it tells -----------------------------------------------------------------------------------------------

GROUP = "SELECT COUNT(*) FROM t WHERE g = '{}'"
STEPS: tuple[tuple[str, str], ...] = ((GROUP.format("a"), "3/5"), ("", "2/5"), (GROUP.format("b"), "1/2"), ("", "1/4"))
"""What an analyst may ask: a question, or a summary where there is none, and its ε."""
DEPTH = 4
PEOPLE: Rows = {1: ["a", "a", "b"], 2: ["b", "b"]}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Answers without noise are collected here."""
    found: Seen = []

    def told(query: Query, cells: Cells) -> None:
        found.append([(z, c[i]) for c in cells.values() for i, z in enumerate(query.allocation.noises)])

    def noisy(budgets: PersonBudgets, charge: int, cost: Any, noise: Additive, _rng: Any) -> tuple[int, ...]:
        counts = budgets.summarise(charge, cost)
        found.append([(noise, n) for n in counts])
        return counts

    without_noise(monkeypatch, told)
    monkeypatch.setattr(spending, "_noisy", noisy)
    return found


def play(rows: Rows, path: tuple[int, ...], found: Seen) -> Seen:
    """One question after another; which one, follows from the answers, which are far up or far down."""
    start = len(found)
    with session(rows) as s:
        for step in range(DEPTH):
            sql, epsilon = STEPS[(sum(path[:step]) + step) % len(STEPS)]
            if sql:
                s.sql(sql, epsilon=Fraction(epsilon), fresh=True)
            elif step:  # before the first question there is nothing to sum up
                spending_of(s._account, epsilon=Fraction(epsilon), fresh=True)
    return found[start:]


def losses(found: Seen) -> Iterator[Fraction]:
    """The most that all answers tell of each person, for each way in which the questions can go: numbers are far up or
    far down, where the logarithm of the ratio of their chances is greatest.
    """
    for path in itertools.product((0, 1), repeat=DEPTH - 1):
        whole = play(PEOPLE, path, found)
        for person in PEOPLE:
            rest = play({i: r for i, r in PEOPLE.items() if i != person}, path, found)
            moves = [
                abs(c - d) / z.scale
                for here, there in zip(whole, rest, strict=True)
                for (z, c), (_, d) in zip(here, there, strict=True)
                if isinstance(z, DiscreteLaplaceNoise)
            ]
            yield sum(moves, Fraction(0))


@pytest.mark.exhaustive
def test_summaries_and_answers_tell_no_more_of_anybody_than_the_own_budget(seen: Seen) -> None:
    assert Fraction(9, 10) <= max(losses(seen)) <= 1


def twin_that_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    summarise = PersonBudgets.summarise
    monkeypatch.setattr(
        PersonBudgets, "summarise", lambda self, c, cost: summarise(self, c, tuple(x / 1000 for x in cost))
    )


def twin_that_counts_who_cannot_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    def summarised(before: PeopleTable, due: Any) -> summary.Summary:
        found = summary.summarised(before, due)
        return summary.Summary(found.settled, summary.counted(before.after(found.settled.paid)))

    monkeypatch.setattr(person_budgets, "summarised", summarised)


def twin_that_counts_all_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person is in several counts."""
    counted = summary.counted
    monkeypatch.setattr(summary, "counted", lambda people: tuple(np.cumsum(counted(people)).tolist()))


@pytest.mark.parametrize("twin", [twin_that_is_free, twin_that_counts_who_cannot_pay, twin_that_counts_all_below])
def test_a_summary_that_errs_tells_more(
    seen: Seen, monkeypatch: pytest.MonkeyPatch, twin: Callable[[pytest.MonkeyPatch], None]
) -> None:
    twin(monkeypatch)
    assert any(loss > 1 for loss in losses(seen))


# --- one step, for all small tables ------------------------------------------------------------------------------

DUE = CAPACITY // 4
SPENT = [0, 1, CAPACITY // 10, CAPACITY // 10 + 1, CAPACITY // 2, CAPACITY - DUE, CAPACITY - DUE + 1, CAPACITY]


def table(spent: Mapping[int, tuple[int, ...]]) -> PeopleTable:
    """People with what they have spent; who has spent nothing is not there."""
    there = sorted(h for h, own in spent.items() if any(own))
    sums = len(next(iter(spent.values())))
    columns = np.array([spent[h] for h in there], np.int64).reshape(-1, sums).T
    return PeopleTable(np.array(there, np.uint64), columns)


def tenth(spent: tuple[int, ...]) -> int:
    """Which tenth of the budget somebody has used, by exact arithmetic."""
    share = max(Fraction(s, CAPACITY) for s in spent)
    return next(i for i in range(10) if share <= Fraction(i + 1, 10))


@pytest.mark.parametrize("due", [(DUE,), (DUE, 0), (1, DUE)])
def test_a_person_is_in_one_count_at_most_and_moves_nobody_else(due: tuple[int, ...]) -> None:
    column = np.array(due, np.int64)[:, None]
    for spent in itertools.product(SPENT, repeat=3):
        world = {7: (spent[0],) * len(due), 8: (spent[1],) * len(due), 9: (*due[:-1], spent[2])}
        whole = summary.summarised(table(world), column)
        paid = dict(zip(whole.settled.paid.hashes.tolist(), whole.settled.paid.spent.T.tolist(), strict=True))
        for person, own in world.items():
            rest = summary.summarised(table(world | {person: (0,) * len(due)}), column)
            after = tuple(a + b for a, b in zip(own, due, strict=True))
            counts = list(rest.counts)
            if any(own) and max(after) <= CAPACITY:
                counts[tenth(after)] += 1
                assert tuple(paid[person]) == after
            else:
                assert person not in paid
            assert list(whole.counts) == counts
            left = dict(zip(rest.settled.paid.hashes.tolist(), rest.settled.paid.spent.T.tolist(), strict=True))
            assert left == {h: s for h, s in paid.items() if h != person}


def test_what_nobody_can_pay_counts_nobody() -> None:
    found = summary.summarised(table({1: (1,), 2: (CAPACITY,)}), np.array([[BEYOND]]))
    assert found.counts == (0,) * 10 and not len(found.settled.paid)
    assert repr(found) == "Summary(…)"


def test_it_settles_as_a_question_about_everybody_in_the_table() -> None:
    before = table({1: (5,), 2: (CAPACITY,), 3: (CAPACITY - DUE,)})
    asked = settle(before, before.hashes, np.full((1, 3), DUE))
    found = summary.summarised(before, np.array([[DUE]])).settled
    assert found.out.tolist() == asked.out.tolist() == [2]
    assert found.paid.spent.tolist() == asked.paid.spent.tolist() == [[5 + DUE, CAPACITY]]


# --- through the front door --------------------------------------------------------------------------------------


def test_who_was_in_no_question_is_not_counted_and_pays_nothing(seen: Seen) -> None:
    with session({1: ["a"], 2: ["b"], 3: ["b"]}) as s:
        s.sql(GROUP.format("a"), epsilon="1/2")
        spending_of(s._account, epsilon="1/4")
        assert [n for _, n in seen[-1]] == [0, 0, 0, 0, 1, *[0] * 5]  # a half of ε for each of two rows, and a quarter
        s.sql(GROUP.format("b"), epsilon=1)
        assert [n for _, n in seen[-1]] == [2]
        s.sql(GROUP.format("a"), epsilon=1, fresh=True)
        assert [n for _, n in seen[-1]] == [1]
        s.sql(GROUP.format("a"), epsilon=1, fresh=True)
        assert [n for _, n in seen[-1]] == [0]


def test_the_same_summary_is_free_until_somebody_is_asked_about_again(tmp_path: Path) -> None:
    path = tmp_path / "l.ledger"
    with session({i: ["a"] for i in range(50)}, ledger=str(path)) as s:
        s.sql(GROUP.format("a"), epsilon="1/10")
        first, again = (spending_of(s._account, epsilon="1/10") for _ in range(2))
        assert (first.stored, again.stored, again.counts) == (False, True, first.counts)
        other = spending_of(s._account, epsilon="1/20")
        assert not other.stored
        assert spending_of(s._account, epsilon="1/10").stored  # a summary in between changes nothing
        assert not spending_of(s._account, epsilon="1/10", fresh=True).stored
        s.sql(GROUP.format("b"), epsilon="1/10")  # about nobody: whoever they are, it was settled
        assert not spending_of(s._account, epsilon="1/10").stored
    account = Ledger.open(path).account("people")
    assert account is not None and spending_of(account, epsilon="1/10").stored
    report = Ledger.open(path).verify()
    assert report.ok, report.problems


@pytest.mark.laws
def test_its_noise_has_the_law_that_is_paid_for() -> None:
    with session({1: ["a"]}, budget=dp.Budget(10**6)) as s:
        s.sql(GROUP.format("a"), epsilon=1)
        drawn = [spending_of(s._account, epsilon=1, fresh=True).counts for _ in range(250)]
    noise = np.array(drawn) - np.array([1, *[0] * 9])
    law = DiscreteLaplaceNoise(Fraction(1))
    shown = np.array([np.mean(noise == k) for k in range(-2, 3)])
    wanted = np.diff(law.cdf(np.arange(-3, 3).astype(float)))
    assert np.abs(shown - wanted).max() < 0.06  # 2,500 draws: six standard deviations
    narrow = np.diff(DiscreteLaplaceNoise(Fraction(3, 4)).cdf(np.arange(-3, 3).astype(float)))
    assert np.abs(shown - narrow).max() > 0.06


def test_the_population_s_budget_pays_as_well_and_may_refuse() -> None:
    with session({1: ["a"]}, whole=dp.Budget("0.3")) as s:
        s.sql(GROUP.format("a"), epsilon="0.1")
        found = spending_of(s._account, epsilon="0.1")
        assert s.remaining.epsilon == Fraction(1, 10)
        with pytest.raises(BudgetExceeded, match=r"needs ε = 0\.2, and ε = 0\.1 is left"):
            spending_of(s._account, epsilon="0.2")
        s._account.freeze(by="owner", reason="a pause")
        assert spending_of(s._account, epsilon="0.1").counts == found.counts
        with pytest.raises(BudgetExceeded, match="frozen"):
            spending_of(s._account, epsilon="0.05")


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("rule", ["zcdp", "renyi", "gdp"])
def test_every_filter_counts_it_in_its_own_units(rule: str, seen: Seen) -> None:
    noise: dict[str, Any] = {"noise": "gaussian", "delta": "1e-7"} if rule == "gdp" else {}
    with session({1: ["a"], 2: ["b"]}, budget=dp.Budget(1, "1e-6"), filter=rule) as s:
        s.sql(GROUP.format("a"), epsilon="1/10", **noise)
        if rule == "gdp":
            with pytest.raises(InvalidParameter):
                spending_of(s._account, epsilon="1/10")
        delta = "1e-7" if rule == "gdp" else None
        found = spending_of(s._account, epsilon="1/10", delta=delta)
        assert isinstance(found.noise, RoundedGaussianNoise if rule == "gdp" else DiscreteLaplaceNoise)
        assert sum(n for _, n in seen[-1]) == 1
        for _ in range(1000):
            spending_of(s._account, epsilon="1/10", delta=delta, fresh=True)
            if not sum(n for _, n in seen[-1]):
                break
        assert not sum(n for _, n in seen[-1])  # in the end nobody can pay
        assert s._account.person_budgets is not None


def test_refusals_charge_nothing() -> None:
    with session({1: ["a"]}) as s:
        with pytest.raises(InvalidParameter, match="nobody has used anything"):
            spending_of(s._account, epsilon="1/10")
        s.sql(GROUP.format("a"), epsilon="1/10")
        entries = len(s.history())
        with pytest.raises(BudgetExceeded, match="nobody would be left"):
            spending_of(s._account, epsilon="1.01")
        with pytest.raises(BudgetExceeded, match="nobody would be left"):
            spending_of(s._account, epsilon="0.1", delta="1e-6")
        with pytest.raises(InvalidParameter):
            spending_of(s._account, epsilon=0)
        assert len(s.history()) == entries
    with Ledger.open(":memory:") as book, pytest.raises(InvalidParameter, match="one budget for all"):
        spending_of(book.open_account("p", dp.Budget(1)), epsilon="0.1")


def test_a_crash_before_the_answer_leaves_it_charged_and_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with session({1: ["a"]}) as s:
        s.sql(GROUP.format("a"), epsilon="1/10")

        def failing(*_: object) -> None:
            raise OSError("the disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(DiscreteLaplaceNoise, "add", failing)
            with pytest.raises(OSError, match="full"):
                spending_of(s._account, epsilon="1/5")
        kinds = [e.kind for e in s.history()][-2:]
        assert kinds == ["charge", "people"]  # durable before the noise, and no release
        budgets = s._account.person_budgets
        assert budgets is not None
        again = spending_of(s._account, epsilon="1/5")
        assert not again.stored  # a new charge


def test_a_stored_summary_that_was_changed_is_refused() -> None:
    for release in ({}, {"format": 2, "people": ["1"] * 10}, {"format": 1, "people": ["1"] * 9}):
        with pytest.raises(LedgerCorrupt, match="summary"):
            spending._counts(release)


def test_it_says_what_it_counts() -> None:
    with session({i: ["a"] for i in range(5)}) as s:
        s.sql(GROUP.format("a"), epsilon="1/10")
        found = spending_of(s._account, epsilon="1/20")
    text = str(found)
    assert "What people of people have used of ε = 1 each:" in text
    assert "Who had less left is in no line" in text
    assert "charged ε = 0.05 to each of them" in text
    told = found.to_json()
    assert [row["people"] for row in told["used"]] == list(found.counts)
    assert sum(found.counts) == told["people"] and told["used"][-1]["up_to"] == 1
    assert told["margin"] > told["used"][0]["margin"] > 0
    law = DiscreteLaplaceNoise(Fraction(20))
    assert law.tail(found.margin) <= 0.05 < law.tail(found.margin - 1)
