"""Bounded answers that were computed by hand, one rule of decision 0001 after another."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest

from discreet.errors import InvalidParameter
from tests.reference.expression import Arithmetic, Case, Column, Compare, Literal, Row
from tests.reference.measures import Count, CountOf, CountUnits, Mean, Measure, Sum
from tests.reference.question import (
    Cells,
    Key,
    Order,
    Question,
    bounded_answers,
    bounded_cells,
    combinations,
    true_answers,
)
from tests.reference.values import Kind, Value

UID, X, V = Column("uid", Kind.INT), Column("x", Kind.INT), Column("v", Kind.REAL)
REGION = Column("region", Kind.TEXT)


def first_come(unit: Value, key: Key) -> int:
    """Equal hashes everywhere: only the group itself can decide."""
    return 0


def hashes(table: Mapping[tuple[Value, Value], int]) -> Order:
    return lambda unit, key: table[unit, key[0]]


def visits(*rows: tuple[Value, Value, Value]) -> list[Row]:
    return [{"uid": u, "region": r, "x": x} for u, r, x in rows]


def ask(*measures: Measure, max_rows: int = 1, max_groups: int = 1, keyed: bool = True) -> Question:
    return Question(measures, keys=(REGION,) if keyed else (), unit=UID, max_groups=max_groups, max_rows=max_rows)


def exact(*numbers: int | None) -> tuple[Fraction | None, ...]:
    return tuple(None if n is None else Fraction(n) for n in numbers)


def of(lo: int, hi: int) -> tuple[Column, Fraction, Fraction, int]:
    return X, Fraction(lo), Fraction(hi), 0


def test_the_first_groups_by_hash_are_kept() -> None:
    rows = visits((1, "a", 0), (1, "b", 0), (1, "c", 0), (2, "a", 0), (2, "b", 0))
    order = hashes({(1, "a"): 30, (1, "b"): 20, (1, "c"): 10, (2, "a"): 5, (2, "b"): 6})
    # Unit 1 keeps c (10) and b (20) and loses a (30); unit 2 has only two groups.
    assert bounded_cells(rows, ask(CountUnits(), max_groups=2), order) == {("a",): (1,), ("b",): (2,), ("c",): (1,)}
    # With one place: unit 1 keeps c, unit 2 keeps a; nobody is left in b.
    assert bounded_cells(rows, ask(CountUnits()), order) == {("a",): (1,), ("c",): (1,)}


@pytest.mark.parametrize("k", [1, 2, 3])
def test_equal_hashes_still_leave_at_most_k_groups_by_the_group_itself(k: int) -> None:
    rows = visits((1, "c", 0), (1, None, 0), (1, "a", 0), (1, "b", 0))
    kept = [("a",), ("b",), ("c",)][:k]  # text by code points; NULL comes last
    assert bounded_cells(rows, ask(CountUnits(), max_groups=k), first_come) == dict.fromkeys(kept, (1,))


def test_equal_hashes_of_two_keys_fall_back_on_the_second_one() -> None:
    rows = [{**row, "flag": f} for row in visits((1, "a", 0)) for f in (None, True, False)]
    question = Question((Count(),), keys=(REGION, Column("flag", Kind.BOOL)), unit=UID, max_groups=2)
    assert list(bounded_cells(rows, question, first_come)) == [("a", False), ("a", True)]


def test_count_is_capped_for_each_unit_and_group() -> None:
    rows = visits(*[(1, "a", None)] * 5, (1, "b", None), (2, "a", None))
    # a: min(5, 3) of unit 1 and 1 of unit 2; b: 1.
    got = bounded_cells(rows, ask(Count(), max_rows=3, max_groups=2), first_come)
    assert got == {("a",): (4,), ("b",): (1,)}


def test_count_of_x_passes_over_null_and_errors_before_the_cap() -> None:
    rows = visits((1, "a", 0), (1, "a", None), (1, "a", 4), (1, "a", 5), (2, "a", None))
    # 12 // x is NULL on x = 0 (division by zero) and on NULL: two values of unit 1, none of unit 2.
    question = ask(CountOf(Arithmetic("//", Literal(12), X)), Count(), CountUnits(), max_rows=2)
    assert bounded_cells(rows, question, first_come) == {("a",): (2, 2 + 1, 2)}


@pytest.mark.parametrize(
    ("values", "bounds", "max_rows", "wanted"),
    [
        ((3, 9), (0, 5), 2, 3 + 5),  # 9 is clamped to 5
        ((3, 9, 9), (0, 5), 2, 10),  # 3 + 5 + 5 = 13 is clamped to 2 · 5
        ((-4, -9), (-5, -2), 1, -5),  # −4 − 5 = −9 is clamped to 1 · −5
        ((-4, 9), (-5, -2), 2, -4 + -2),  # 9 is clamped to −2
        ((9,), (2, 7), 1, 7),
        ((0,), (2, 7), 1, 2),  # a value below is clamped up, not dropped
        ((-3,), (-5, -2), 2, -3),  # one value below zero, fewer than max_rows: no clamp to 2 · −2
        ((None,), (2, 7), 1, 0),  # no value adds nothing, though 0 lies outside
        ((7, 7, -3, -3), (-3, 7), 1, 7),  # 7 + 7 − 3 − 3 = 8 is clamped to 7: the sum, not each row
        ((2**63 - 1, 2**63 - 1), (0, 2**63 - 1), 2, 2**64 - 2),  # sums are wider than 64 bits
    ],
)
def test_sum_clamps_each_value_and_then_each_units_sum(
    values: tuple[Value, ...], bounds: tuple[int, int], max_rows: int, wanted: int
) -> None:
    rows = visits(*((1, "a", x) for x in values))
    assert bounded_cells(rows, ask(Sum(*of(*bounds)), max_rows=max_rows), first_come) == {("a",): (wanted,)}


@pytest.mark.parametrize(
    ("values", "bounds", "max_rows", "wanted", "mean"),
    [
        ((2, 10), (0, 10), 2, (-3 + 5, 2), Fraction(6)),  # c = 5
        ((10, 10, 0), (0, 10), 2, (3, 2), Fraction(13, 2)),  # 2 · (5 + 5 − 5)/3 = 10/3 → 3; 5 + 3/2
        ((0, 0, 10), (0, 10), 2, (-3, 2), Fraction(7, 2)),  # −10/3 → −3, toward zero
        ((5, 5), (0, 5), 2, (3 + 3, 2), Fraction(5)),  # c = 5 / 2 rounded down: 2; 5 − 2 = 3 each
        ((None, 7), (0, 10), 2, (2, 1), Fraction(7)),  # NULL is not counted
        ((None,), (0, 10), 2, (0, 0), Fraction(5)),  # nothing at all: the middle
        ((99,), (-4, -1), 1, (2, 1), Fraction(-1)),  # c = −5 / 2 rounded down: −3; −1 − −3
    ],
)
def test_mean_is_centred_and_rescaled(
    values: tuple[Value, ...], bounds: tuple[int, int], max_rows: int, wanted: tuple[int, int], mean: Fraction
) -> None:
    rows = visits(*((1, "a", x) for x in values))
    question = ask(Mean(*of(*bounds)), max_rows=max_rows)
    assert bounded_cells(rows, question, first_come) == {("a",): wanted}
    assert bounded_answers(rows, question, first_come) == {("a",): (mean,)}


def test_people_with_many_rows_do_not_pull_the_mean() -> None:
    # Unit 1 has ten rows at 10, unit 2 one at 0. With two rows each at most: (2 · 10 + 0)/3.
    rows = visits(*[(1, "a", 10)] * 10, (2, "a", 0))
    assert bounded_answers(rows, ask(Mean(*of(0, 10)), max_rows=2), first_come) == {("a",): (Fraction(20, 3),)}


def test_reals_are_rounded_to_the_grid_and_bounds_inward() -> None:
    # Grid 1/4. Bounds 0.1 and 1.1 are 0.4 and 4.4 steps: inward 1 and 4. The values in steps:
    # 0.3 → 1.2 → 1;  0.375 → 1.5 → 2 (away from zero);  7 → 28 → 4 (clamped);  −7 → −28 → 1;  others: NULL.
    total = Sum(V, Fraction(1, 10), Fraction(11, 10), -2)
    assert total.steps == (1, 4)
    rows: list[Row] = [{"uid": 1, "v": v} for v in (0.3, 0.375, 7.0, -7.0, float("nan"), float("inf"), None)]
    question = Question((total, CountOf(V)), unit=UID, max_rows=100)
    assert bounded_cells(rows, question, first_come) == {(): (1 + 2 + 4 + 1, 4)}
    assert bounded_answers(rows, question, first_come) == {(): exact(2, 4)}


def test_halves_of_a_step_go_away_from_zero_on_both_sides() -> None:
    question = Question((Sum(V, Fraction(-9), Fraction(9), 0),), unit=UID, max_rows=9)
    cases: list[tuple[tuple[float, ...], int]] = [
        ((0.5, 1.5, 2.5), 1 + 2 + 3),
        ((-0.5, -1.5, -2.5), -6),
        ((0.49999999999999994,), 0),
    ]
    for values, wanted in cases:
        assert bounded_cells([{"uid": 1, "v": v} for v in values], question, first_come) == {(): (wanted,)}


def test_huge_reals_are_clamped_and_not_lost() -> None:
    question = Question((Sum(V, Fraction(-3), Fraction(5), -40),), unit=UID, max_rows=9)
    rows: list[Row] = [{"uid": 1, "v": v} for v in (1.7976931348623157e308, -1.7976931348623157e308, 5e-324)]
    assert bounded_answers(rows, question, first_come) == {(): exact(2)}


def test_a_mean_on_a_grid_has_its_middle_on_the_grid() -> None:
    # Grid 1/2, bounds −1.5 … 2.25: steps −3 … 4, middle ⌊1/2⌋ = 0.
    # 2.25 → 4.5 → 5 → 4; −9 → −3. The answer is (4 − 3)/2 · 1/2.
    mean = Mean(V, Fraction(-3, 2), Fraction(9, 4), -1)
    question = Question((mean,), unit=UID, max_rows=9)
    rows: list[Row] = [{"uid": 1, "v": 2.25}, {"uid": 2, "v": -9.0}]
    assert (mean.steps, mean.middle) == ((-3, 4), 0)
    assert bounded_cells(rows, question, first_come) == {(): (1, 2)}
    assert bounded_answers(rows, question, first_come) == {(): (Fraction(1, 4),)}


def test_where_comes_before_the_caps_and_drops_what_is_null() -> None:
    rows = visits((1, "a", 1), (1, "b", 9), (1, "b", None), (2, "b", 9))
    order = hashes({(1, "a"): 1, (1, "b"): 2, (2, "b"): 1})
    # x > 5 leaves unit 1 only its row in b: a, which has the smaller hash, is no group of unit 1 any more.
    question = Question((Count(),), (REGION,), None, Compare(">", X, Literal(5)), UID, max_rows=2)
    assert bounded_cells(rows, question, order) == {("b",): (2,)}


def test_undeclared_groups_do_not_use_up_a_units_places() -> None:
    rows = visits((1, "z", 0), (1, "b", 0), (1, None, 0), (2, None, 0))
    order = hashes({(1, "z"): 0, (1, "b"): 7, (1, None): 1, (2, None): 1})
    declared = Question((Count(),), (REGION,), combinations(["a", "b"]), None, UID)
    # z and NULL are not declared: unit 1's only place goes to b; a is a declared group without rows.
    assert bounded_cells(rows, declared, order) == {("a",): (0,), ("b",): (1,)}
    # Declared NULL is a key like others, and is first by hash.
    with_null = Question((Count(),), (REGION,), combinations(["a", "b", None]), None, UID)
    assert bounded_cells(rows, with_null, order) == {("a",): (0,), ("b",): (0,), (None,): (2,)}
    # Undeclared, groups are what there is, NULL included.
    private = Question((Count(),), (REGION,), None, None, UID)
    assert bounded_cells(rows, private, order) == {("z",): (1,), (None,): (1,)}


def test_every_combination_of_declared_keys_is_there_even_for_an_empty_table() -> None:
    question = Question((Count(), Mean(*of(0, 10))), (REGION, X), combinations(["a", None], [1, 2]), None, UID)
    assert bounded_cells([], question, first_come) == dict.fromkeys(combinations(["a", None], [1, 2]), (0, 0, 0))
    assert bounded_cells([], Question((Count(),)), first_come) == {(): (0,)}
    assert bounded_cells([], Question((Count(),), (REGION,)), first_come) == {}


def test_rows_of_nobody_are_dropped() -> None:
    rows = visits((None, "a", 1), (1, "a", 1), (None, "b", 1))
    question = ask(Count(), CountUnits(), max_groups=2)
    assert bounded_cells(rows, question, first_come) == {("a",): (1, 1)}
    assert true_answers(rows, question) == {("a",): exact(1, 1)}


def test_each_row_can_be_a_unit() -> None:
    rows = visits((1, "a", 3), (1, "a", 99), (None, "b", -4))
    question = Question((Count(), CountUnits(), Sum(*of(0, 10)), Mean(*of(0, 10))), (REGION,))
    assert bounded_cells(rows, question, first_come) == {("a",): (2, 2, 13, -2 + 5, 2), ("b",): (1, 1, 0, -5, 1)}


def test_keys_are_expressions_and_minus_zero_is_the_group_of_zero() -> None:
    size = Case(((Compare(">=", X, Literal(5)), Literal("high")),), Literal("low"))
    rows = visits((1, "a", 5), (2, "a", 4), (3, "a", None))
    assert bounded_cells(rows, Question((Count(),), (size,), unit=UID), first_come) == {("high",): (1,), ("low",): (2,)}
    zeros: list[Row] = [{"uid": i, "v": v} for i, v in enumerate((0.0, -0.0, float("nan"), None))]
    assert bounded_cells(zeros, Question((Count(),), (V,), unit=UID), first_come) == {(0.0,): (2,), (None,): (2,)}


def test_true_answers_have_no_caps_and_no_bounds() -> None:
    rows = visits((1, "a", 99), (1, "a", 99), (1, "b", -1), (2, "a", None), (2, "c", None))
    measures = (Count(), CountOf(X), CountUnits(), Sum(*of(0, 10)), Mean(*of(0, 10)))
    assert true_answers(rows, ask(*measures)) == {
        ("a",): exact(3, 2, 2, 198, 99),
        ("b",): exact(1, 1, 1, -1, -1),
        ("c",): exact(1, 0, 1, 0, None),
    }


def test_an_open_grid_is_refused_until_it_is_decided() -> None:
    question = Question((Sum(V, Fraction(0), Fraction(1)), Count()))
    with pytest.raises(InvalidParameter, match="grid_exponent"):
        bounded_cells([{"v": 0.5}], question, first_come)
    decided = question.on_lattice(lambda measure: -3)
    assert bounded_cells([{"v": 0.5}], decided, first_come) == {(): (4, 1)}
    assert decided.on_lattice(lambda measure: 7) == decided


def test_questions_that_mean_nothing_are_refused() -> None:
    for wrong in (
        lambda: Question((Count(),), max_rows=2),  # each row is a unit
        lambda: Question((Count(),), unit=UID, max_groups=0),
        lambda: Question((Count(),), (REGION,), ((1, 2),)),
        lambda: Sum(V, Fraction(1), Fraction(0)),
        lambda: Sum(V, Fraction(1, 10), Fraction(2, 10), 0),  # no whole number between
    ):
        with pytest.raises(InvalidParameter):
            wrong()


def test_cells_do_not_depend_on_the_order_of_the_declared_keys() -> None:
    rows = visits((1, "b", 1), (1, "a", 1))
    cells: list[Cells] = [
        bounded_cells(rows, Question((Count(),), (REGION,), combinations(values), None, UID), first_come)
        for values in (["a", "b"], ["b", "a"])
    ]
    assert cells[0] == cells[1] == {("a",): (1,), ("b",): (0,)}
