"""Each person's own budget, through the front door: what anybody can learn of a person, whoever else is there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.accounting.filter import open_filter
from discreet.backends.person_filter import PersonFilter
from discreet.errors import BudgetExceeded, InvalidParameter, LedgerError
from discreet.ledger import people_table as table
from discreet.ledger import person_budgets
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.query import Query
from tests.engine.reachable import reachable
from tests.without_noise import without_noise
from tests.written import written

CAPS = dp.PrivacyUnit("id", max_groups=2, max_rows=3)
FACTS: dict[str, dp.Values | dp.Range] = {"g": dp.Values("a", "b"), "x": dp.Range(-4, 4, integer=True)}

Seen = list[tuple[Query, dict[tuple[Any, ...], list[int]]]]


def session(rows: Any, *, budget: dp.Budget | None = None, **asked: Any) -> dp.Session:
    frames = rows if isinstance(rows, dict) else {"t": rows}
    options: dict[str, Any] = {"unit": CAPS, "columns": FACTS, "ledger": ":memory:", "population": "people"}
    return dp.connect(frames, per_person=budget or dp.Budget(1), **{**options, **asked})


def frame(rows: Mapping[Any, list[tuple[str, int]]]) -> pd.DataFrame:
    """Rows of people: id → (group, x) of each row."""
    flat = [(i, g, x) for i, own in rows.items() for g, x in own]
    return pd.DataFrame({"id": [r[0] for r in flat], "g": [r[1] for r in flat], "x": [r[2] for r in flat]})


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """The plans that were measured, with the exact cells of those who took part, which are the answers."""
    found: Seen = []

    without_noise(monkeypatch, lambda query, cells: found.append((query, cells)))
    return found


def last(found: Seen) -> dict[Any, Any]:
    """The exact cells of the last question, by key; a single number where there is one."""
    return {k[0] if k else None: c[0] if len(c) == 1 else tuple(c) for k, c in found[-1][1].items()}


# --- what can be learned -----------------------------------------------------------------------------------------

PEOPLE: Mapping[Any, list[tuple[str, int]]] = {
    1: [("a", 4), ("a", 4), ("b", -4), ("a", 4), ("b", 1)],
    2: [("a", -1)],
    3: [("b", 2), ("b", 2), ("a", 1)],
}
QUESTIONS: list[tuple[str, str]] = [
    ("SELECT COUNT(*) FROM t", "3/5"),
    ("SELECT SUM(x) FROM t WHERE g = 'a'", "1/2"),
    ("SELECT g, COUNT(*), SUM(x) FROM t GROUP BY g", "2/5"),
    ("SELECT COUNT(DISTINCT id) FROM t WHERE x > 0", "1/3"),
]
DEPTH = 3


def play(rows: Mapping[Any, list[tuple[str, int]]], path: tuple[int, ...], found: Seen, **asked: Any) -> Seen:
    """An analyst asks one question after another; which one, follows from the answers, which are far up or far down."""
    start = len(found)
    with session(frame(rows), **asked.pop("opening", {})) as s:
        for step in range(DEPTH):
            sql, epsilon = QUESTIONS[(sum(2 * up + 1 for up in path[:step]) + step) % len(QUESTIONS)]
            s.sql(sql, epsilon=Fraction(epsilon), fresh=True, **asked)
    return found[start:]


def losses(one: Seen, other: Seen, path: tuple[int, ...]) -> tuple[Fraction, Fraction]:
    """What these answers tell two worlds apart by: the exact logarithm of the ratio of their chances, and, for noise
    that has no such bound, Σμ².
    """
    loss = square = Fraction(0)
    for (plan, here), (_, there), up in zip(one, other, path, strict=True):
        for key in here.keys() | there.keys():
            for noise, c, d in zip(
                plan.allocation.noises,
                here.get(key, itertools.repeat(0)),
                there.get(key, itertools.repeat(0)),
                strict=False,
            ):
                if isinstance(noise, DiscreteLaplaceNoise):
                    answer = 10**9 if up else -(10**9)
                    loss += (abs(answer - d) - abs(answer - c)) / noise.scale
                else:
                    square += Fraction((c - d) ** 2) / noise.sigma**2  # type: ignore[attr-defined]  # is one
    return loss, square


def every(found: Seen, rows: Mapping[Any, list[tuple[str, int]]], **asked: Any) -> Iterator[tuple[Fraction, Fraction]]:
    """What answers tell of anybody, for every way in which the analyst's questions can go."""
    for path in itertools.product((0, 1), repeat=DEPTH):
        whole = play(rows, path, found, **dict(asked))
        for person in rows:
            rest = play({i: r for i, r in rows.items() if i != person}, path, found, **dict(asked))
            for signs in itertools.product((0, 1), repeat=DEPTH):  # answers far up and far down
                loss, square = losses(whole, rest, signs)
                yield abs(loss), square


@pytest.mark.exhaustive
def test_no_answers_tell_more_of_anybody_than_the_own_budget(seen: Seen) -> None:
    loss = max(loss for loss, _ in every(seen, PEOPLE))
    assert Fraction(7, 10) < loss <= 1  # and the budget is used: more is asked than anybody can pay


@pytest.mark.slow
def test_gaussian_answers_tell_no_more_either(seen: Seen) -> None:
    budget = dp.Budget(1, "1e-6")
    opening = {"budget": budget, "filter": "gdp"}
    square = max(square for _, square in every(seen, PEOPLE, noise="gaussian", delta="1e-6", opening=opening))
    (capacity,) = open_filter("gdp", budget).capacity
    assert capacity / 3 < square <= capacity


def twin_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table.PeopleTable, "after", lambda self, _newer: self)


def twin_that_leaves_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    leave = PersonFilter.leave_out
    monkeypatch.setattr(PersonFilter, "leave_out", lambda self, hashes: leave(self, hashes[:0]))


def twin_that_leaves_all_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether one takes part then depends on what another has spent."""

    def settle(before: Any, hashes: Any, costs: Any) -> Any:
        found = table.settle(before, hashes, costs)
        everybody = table.Settled(found.paid, np.sort(hashes))
        return everybody if len(found.out) else found

    monkeypatch.setattr(person_budgets, "settle", settle)


def twin_that_charges_the_sum_and_not_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    people = PersonFilter.people
    monkeypatch.setattr(
        PersonFilter, "people", lambda self, sql, *rest: people(self, sql.replace("sum(abs(", "min(abs("), *rest)
    )


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "twin",
    [
        twin_that_forgets,
        twin_that_leaves_nobody_out,
        twin_that_leaves_all_out_together,
        twin_that_charges_the_sum_and_not_its_size,
    ],
)
def test_a_twin_that_errs_tells_more(
    seen: Seen, monkeypatch: pytest.MonkeyPatch, twin: Callable[[pytest.MonkeyPatch], None]
) -> None:
    twin(monkeypatch)
    assert any(loss > 1 for loss, _ in every(seen, PEOPLE))


# --- who takes part ----------------------------------------------------------------------------------------------


def test_who_has_paid_all_is_in_no_later_answer_and_questions_about_others_go_on(seen: Seen) -> None:
    with session(frame({1: [("a", 1)], 2: [("b", 1)], 3: [("b", 1)]}), unit=dp.PrivacyUnit("id", 1, 1)) as s:
        for _ in range(2):
            s.sql("SELECT COUNT(*) FROM t WHERE g = 'a'", epsilon=Fraction(1, 2), fresh=True)
        assert last(seen) == {None: 1}
        s.sql("SELECT COUNT(*) FROM t WHERE g = 'a'", epsilon=Fraction(1, 2), fresh=True)
        assert last(seen) == {None: 0}
        s.sql("SELECT g, COUNT(*) FROM t GROUP BY g", epsilon=Fraction(1, 2))
        assert last(seen) == {"a": 0, "b": 2}
        s.sql("SELECT COUNT(*) FROM t WHERE g = 'b'", epsilon=Fraction(1, 2))
        assert last(seen) == {None: 2}


def test_a_cheaper_question_has_those_who_can_still_pay_it(seen: Seen) -> None:
    with session(frame({1: [("a", 4)], 2: [("a", 1)]}), unit=dp.PrivacyUnit("id", 1, 1)) as s:
        s.sql("SELECT SUM(x) FROM t", epsilon=Fraction(3, 4))
        s.sql("SELECT SUM(x) FROM t", epsilon=Fraction(1, 2))
        assert last(seen) == {None: 1}  # person 2 adds a quarter of the most, and pays a quarter
        s.sql("SELECT SUM(x) FROM t", epsilon=Fraction(1, 4))
        assert last(seen) == {None: 5}


def test_the_same_question_is_answered_again_for_free_and_charged_to_nobody(seen: Seen) -> None:
    with session(frame({1: [("a", 1)]}), unit=dp.PrivacyUnit("id", 1, 1)) as s:
        for _ in range(5):
            assert s.sql("SELECT COUNT(*) FROM t", epsilon=1).rows == [(1,)]
        assert len(seen) == 1
        s.sql("SELECT COUNT(*) FROM t", epsilon=1, fresh=True)
        assert last(seen) == {None: 0}


def test_new_people_start_in_full_and_new_rows_of_old_ones_do_not(seen: Seen, tmp_path: Path) -> None:
    place = tmp_path / "people.ledger"
    one = dp.PrivacyUnit("id", 1, 1)
    with session(frame({1: [("a", 1)]}), unit=one, ledger=place, version="1") as s:
        s.sql("SELECT COUNT(*) FROM t", epsilon=1)
    grown = frame({1: [("a", 1), ("a", 2)], 2: [("a", 1)]})
    with session(grown, unit=one, ledger=place, version="2") as s:
        s.sql("SELECT COUNT(*) FROM t", epsilon=Fraction(1, 2))
        assert last(seen) == {None: 1}
        assert s._ledger.verify().ok


def test_a_cap_on_all_questions_may_stand_beside(seen: Seen) -> None:
    with dp.connect(
        {"t": frame(PEOPLE)}, unit=CAPS, columns=FACTS, ledger=":memory:", budget=dp.Budget(2), per_person=dp.Budget(1)
    ) as s:
        for _ in range(2):
            s.sql("SELECT COUNT(*) FROM t WHERE g = 'z'", epsilon=1, fresh=True)
        with pytest.raises(BudgetExceeded):
            s.sql("SELECT COUNT(*) FROM t", epsilon=1)


def test_threads_that_ask_at_once_let_nobody_pay_twice(seen: Seen) -> None:
    with session(frame({i: [("a", 1)] for i in range(5)}), unit=dp.PrivacyUnit("id", 1, 1)) as s:

        def ask(i: int) -> None:
            s.sql(f"SELECT COUNT(*) FROM t WHERE x > -{i + 1}", epsilon=Fraction(1, 4))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(ask, range(10)))
        counts = [next(iter(cells.values()))[0] for _, cells in seen]
        assert sorted(counts) == [0] * 6 + [5] * 4
        assert s._ledger.verify().ok


def test_without_a_cap_on_all_questions_the_promise_is_each_persons_and_nothing_runs_out() -> None:
    with session(frame(PEOPLE)) as s:
        for _ in range(4):
            s.sql("SELECT COUNT(*) FROM t WHERE x > 100", epsilon=1, fresh=True)
        assert s.budget == s.remaining == dp.Budget(1)
        assert s.spent.epsilon(delta=0) == 4  # what one who was in all of it at the most would have spent


# --- statements of every kind --------------------------------------------------------------------------------------


def test_a_batch_leaves_the_same_people_out_of_all_its_measurements(seen: Seen) -> None:
    both = {"n": "SELECT COUNT(*) FROM t WHERE g = 'a'", "s": "SELECT COUNT(*) FROM t WHERE x > 0"}
    with session(frame({1: [("a", 1)], 2: [("b", 1)]}), unit=dp.PrivacyUnit("id", 1, 1)) as s:
        s.batch(both, epsilon=Fraction(4, 5))  # person 1 is in both and pays all of it, person 2 half
        s.batch(both, epsilon=Fraction(2, 5), fresh=True)
        assert [next(iter(cells.values())) for _, cells in seen[-2:]] == [[0], [1]]


def test_quantiles_counts_of_values_and_chosen_bounds_charge_everybody_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.plan.auto_bounds.caps._SURE", 1e-12)  # nobody is seen where nobody is
    rows = frame({i: [("a", i % 4)] for i in range(40)})
    asked: list[tuple[str, dict[str, Any]]] = [
        ("SELECT MEDIAN(x) FROM t", {}),
        ("SELECT COUNT(DISTINCT x) FROM t", {}),
        ("SELECT COUNT(*), SUM(x) FROM t", {"bounds": "auto"}),
        ("SELECT COUNT(*) FROM t", {"truncation": "0.5"}),
    ]
    for sql, more in asked:
        with session(rows, budget=dp.Budget(20)) as s:
            s.sql("SELECT MEDIAN(x) FROM t", epsilon=15)
            answer = s.sql(sql, epsilon=10, fresh=True, **more).rows[0]  # nobody has so much any more
            assert all(v is None or abs(v) < 20 for v in answer), sql
            assert s._ledger.verify().ok


def test_who_is_left_out_takes_along_the_rows_that_lead_to_them(seen: Seen) -> None:
    orders = pd.DataFrame({"order_id": [10, 11, 12], "id": [1, 1, 2]})
    items = pd.DataFrame({"order_id": [10, 10, 12, 11], "x": [1, 2, 3, 4]})
    unit = dp.PrivacyUnit("id", 1, 9, tables={"items": "order_id -> orders.order_id"})
    with session({"orders": orders, "items": items}, unit=unit, columns={"x": FACTS["x"]}) as s:
        s.sql("SELECT COUNT(*) FROM orders WHERE order_id < 12", epsilon=1)  # 2 of at most 9 rows: 2/9
        s.sql("SELECT SUM(x) FROM items", epsilon=Fraction(8, 9))
        assert last(seen) == {None: 10}
        s.sql("SELECT COUNT(*) FROM orders o JOIN items i ON o.order_id = i.order_id", epsilon=2)
        assert last(seen) == {None: 1}  # person 1 would pay 3·2/9 and has less


# --- ids -------------------------------------------------------------------------------------------------------------

SAME: list[tuple[str, list[Any], list[Any]]] = [
    ("whole numbers of two widths", [np.int32(7), np.int32(8)], [7, 8]),
    ("whole numbers and text", [7, 8], ["7", "8"]),
    ("text", ["Zoë", "a b"], ["Zoë", "a b"]),
    ("negative", [-7, 0], ["-7", " 0 "]),
    ("long", ["x" * 3_000_000, "y" * 3_000_000 + "é"], ["x" * 3_000_000, "y" * 3_000_000 + "é"]),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.thinned(2)
@pytest.mark.parametrize(("first", "second"), [p[1:] for p in SAME], ids=[p[0] for p in SAME])
def test_one_person_is_one_person_in_every_table_and_type(
    seen: Seen, tmp_path: Path, first: list[Any], second: list[Any]
) -> None:
    place, one = tmp_path / "people.ledger", dp.PrivacyUnit("id", 1, 1)
    with session({"a": pd.DataFrame({"id": first[:1], "x": [1]})}, unit=one, ledger=place, columns={}) as s:
        s.sql("SELECT COUNT(*) FROM a", epsilon=1)
        assert last(seen) == {None: 1}
    with session({"b": pd.DataFrame({"id": second, "x": [1, 1]})}, unit=one, ledger=place, columns={}) as s:
        s.sql("SELECT COUNT(*) FROM b", epsilon=1)
        assert last(seen) == {None: 1}
        s.sql("SELECT COUNT(*) FROM b", epsilon=1, fresh=True)
        assert last(seen) == {None: 0}


def test_ids_that_are_told_apart_are_two_people_and_rows_of_nobody_are_in_nothing(seen: Seen) -> None:
    rows = pd.DataFrame({"id": ["7", "007", " 7", "7 ", "A", "a", "", None], "x": [1] * 8})
    with session({"t": rows}, unit=dp.PrivacyUnit("id", 1, 1), columns={}) as s:
        s.sql("SELECT COUNT(*) FROM t WHERE id = '7'", epsilon=1)
        s.sql("SELECT COUNT(*) FROM t", epsilon=1)
        assert last(seen) == {None: 3}  # 007, A and a: spaces around an id are no part of it


# --- what is not said ------------------------------------------------------------------------------------------------


class Spy:
    """A connection whose statements are written down."""

    def __init__(self, cursor: Any, said: list[str]) -> None:
        self._cursor, self._said = cursor, said

    def execute(self, sql: str, parameters: Any = None) -> Any:
        self._said.append(sql)
        return self._cursor.execute(sql, parameters) if parameters is not None else self._cursor.execute(sql)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


def test_nothing_tells_whether_somebody_was_left_out(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    said: list[str] = []
    opened = PersonFilter.__init__
    monkeypatch.setattr(PersonFilter, "__init__", lambda self, cursor, *rest: opened(self, Spy(cursor, said), *rest))

    def told(x: int) -> list[Any]:
        """All that is seen but the noisy numbers; person 1 has spent everything if x is 4, and little if it is 1."""
        said.clear()
        rows = frame({1: [("a", x)], **{i: [("b", 0)] for i in range(2, 9)}})
        with session(rows, unit=dp.PrivacyUnit("id", 1, 1)) as s:
            found: list[Any] = []
            for _ in range(3):
                release = s.sql("SELECT SUM(x) FROM t", epsilon=1, fresh=True)
                found += [release.notes, release.plan.explain(), len(str(release.interval("sum(x)"))) > 0, repr(s)]
            s.batch({"n": "SELECT COUNT(*) FROM t"}, epsilon=Fraction(1, 2))
            entries = [(e.seq, e.kind, e.content.to_json()) for e in s.history()]
            for _, _, content in entries:
                for hidden in ("commitment", "release", "secret_sha256"):
                    content.pop(hidden, None)
            found += [entries, s.remaining, s.budget, repr(s.spent), s._ledger.verify().entries, list(said)]
        return [*found, capsys.readouterr()]

    assert told(4) == told(1)


def test_every_release_says_over_whom_it_is() -> None:
    with session(frame(PEOPLE)) as s:
        line = (
            "Each person has a budget of their own here. People whose budget is used up are left out of later results: "
            "values and intervals are over the others."
        )
        assert s.sql("SELECT COUNT(*) FROM t", epsilon=1).notes[-1] == line
        assert line in str(s.sql("SELECT COUNT(*) FROM t", epsilon=1))  # from the ledger
        assert all(r.notes[-1] == line for r in s.batch({"n": "SELECT SUM(x) FROM t"}, epsilon=1).values())


def test_an_error_while_people_are_settled_holds_nothing_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*held: Any) -> Any:
        try:
            raise ValueError("outer")
        except ValueError:
            raise LedgerError("the disk is full.") from inner(*held)

    def inner(*held: Any) -> Exception:
        try:
            raise ValueError("inner")
        except ValueError as error:
            return error

    monkeypatch.setattr(person_budgets, "settle", fail)
    with session(frame(PEOPLE)) as s:
        with pytest.raises(LedgerError, match="the disk is full") as caught:
            s.sql("SELECT COUNT(*) FROM t", epsilon=1)
        for at in reachable(caught.value)[1]:
            assert not [v for v in at.f_locals.values() if isinstance(v, np.ndarray | table.PeopleTable)]
        # charged, and not answered
        assert [e.kind for e in s.history()][-1] == "charge" and s._ledger.verify().ok


# --- what is refused ------------------------------------------------------------------------------------------------


def test_people_who_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter) as caught:
        session(frame(PEOPLE), unit=dp.PrivacyUnit.row(), ledger=tmp_path / "l")
    assert not list(tmp_path.iterdir())
    assert caught.value.message == (
        "A budget for each person needs to know who is who, and here each row is a unit of its own."
    )


def test_rows_as_units_are_refused_of_an_account_that_was_opened_for_people(tmp_path: Path) -> None:
    place = tmp_path / "people.ledger"
    written(session(frame(PEOPLE), ledger=place)).close()
    other = frame(PEOPLE).rename(columns={"id": "no"})
    with pytest.raises(InvalidParameter, match="each row is a unit of its own"):
        dp.connect(
            {"u": other}, unit=dp.PrivacyUnit.row(), ledger=place, population="people", columns={"g": FACTS["g"]}
        )


def test_replacement_and_what_is_no_budget_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter) as caught:
        session(frame(PEOPLE), relation="replace", ledger=tmp_path / "l")
    assert caught.value.message == "a budget for each person holds for add-remove neighbours only."
    assert not list(tmp_path.iterdir())
    with pytest.raises(InvalidParameter) as caught:
        dp.connect({"t": frame(PEOPLE)}, unit=CAPS, ledger=":memory:", per_person=2)  # type: ignore[arg-type]
    assert caught.value.message == "per_person must be a Budget, not int."


def test_a_question_that_nobody_can_pay_is_refused_before_it_is_charged() -> None:
    with session(frame(PEOPLE)) as s:
        with pytest.raises(BudgetExceeded) as caught:
            s.sql("SELECT MEDIAN(x) FROM t", epsilon=Fraction(3, 2))
        assert caught.value.message == (
            "The query needs ε = 1.5 of everybody in it, and each person has ε = 1: nobody would be left to answer it."
        )
        assert [e.kind for e in s.history()] == []
        s.sql("SELECT SUM(x) FROM t", epsilon=Fraction(3, 2))  # some may add little


def test_a_question_that_the_filter_cannot_count_is_refused_before_it_is_charged() -> None:
    with session(frame(PEOPLE), budget=dp.Budget(1, "1e-6"), filter="gdp") as s:
        with pytest.raises(InvalidParameter, match="not Gaussian"):
            s.sql("SELECT COUNT(*) FROM t", epsilon=1)
        assert [e.kind for e in s.history()] == []
