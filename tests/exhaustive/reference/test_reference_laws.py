"""Laws of bounded answers, on random questions over random tables."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.privacy.unit import Relation
from tests.reference.expression import Row
from tests.reference.measures import Count, CountUnits, OnLattice, Sum
from tests.reference.question import Cells, Key, Order, Question, bounded_answers, bounded_cells, true_answers
from tests.reference.values import Value
from tests.reference.worlds import difference
from tests.strategies.questions import UNIT, Case, queries, random_neighbours


def hashed(unit: Value, key: Key) -> bytes:
    return hashlib.sha256(repr((unit, key)).encode()).digest()


def coarse(unit: Value, key: Key) -> int:
    """An order full of collisions."""
    return hashed(unit, key)[0] % 2


ORDERS: list[Order] = [hashed, coarse]


def decided(case: Case) -> Question:
    """The case's question on grids that an engine could have chosen."""
    return case.question.on_lattice(lambda m: 0 if m.low.denominator == m.high.denominator == 1 else -6)


def cells(case: Case, rows: tuple[Row, ...], order: Order = hashed) -> Cells:
    return bounded_cells(rows, decided(case), order)


@given(case=queries(), order=st.sampled_from(ORDERS), data=st.data())
def test_the_order_of_rows_means_nothing(case: Case, order: Order, data: st.DataObject) -> None:
    shuffled = tuple(data.draw(st.permutations(case.rows)))
    assert cells(case, shuffled, order) == cells(case, case.rows, order)
    assert true_answers(shuffled, case.question) == true_answers(case.rows, case.question)


@given(queries())
def test_rows_of_nobody_mean_nothing(case: Case) -> None:
    if case.unit is not None:
        owned = tuple(row for row in case.rows if row[UNIT] is not None)
        assert cells(case, owned) == cells(case, case.rows)
        assert true_answers(owned, case.question) == true_answers(case.rows, case.question)


@given(case=queries(), order=st.sampled_from(ORDERS))
def test_a_filter_is_the_same_as_leaving_the_other_rows_out_beforehand(case: Case, order: Order) -> None:
    where = case.question.where
    if where is not None:
        kept = tuple(row for row in case.rows if where.at(row) is True)
        everything = replace(decided(case), where=None)
        assert cells(case, case.rows, order) == bounded_cells(kept, everything, order)


@given(case=queries(), order=st.sampled_from(ORDERS))
def test_a_unit_never_enters_more_groups_or_adds_more_rows_than_its_caps(case: Case, order: Order) -> None:
    counting = replace(case.question, measures=(Count(), CountUnits()))
    for unit in {row[UNIT] for row in case.rows}:
        alone = bounded_cells([row for row in case.rows if row[UNIT] == unit], counting, order)
        if case.unit is not None:
            assert sum(units for _, units in alone.values()) <= case.max_groups
            assert all(rows <= case.max_rows for rows, _ in alone.values())


@given(case=queries(), order=st.sampled_from(ORDERS))
def test_wide_caps_and_bounds_give_the_truth(case: Case, order: Order) -> None:
    if case.unit is None:
        return
    measures = tuple(
        Sum(m.expression, Fraction(-(2**1200)), Fraction(2**1200), -1100) if isinstance(m, Sum) else m
        for m in case.question.measures
        if not isinstance(m, OnLattice) or isinstance(m, Sum)
    )
    question = replace(case.question, measures=measures, max_groups=99, max_rows=99)
    assert bounded_answers(case.rows, question, order) == true_answers(case.rows, question)


@given(case=queries(), order=st.sampled_from(ORDERS))
def test_cells_are_sums_over_units(case: Case, order: Order) -> None:
    question = decided(case)
    units: list[tuple[Row, ...]] = [(row,) for row in case.rows]
    if case.unit is not None:
        units = [tuple(r for r in case.rows if r[UNIT] == u) for u in {row[UNIT] for row in case.rows}]
    total: dict[Key, list[int]] = {}
    for rows in units:
        for key, cell in bounded_cells(rows, question, order).items():
            total[key] = [a + b for a, b in zip(total.get(key, [0] * len(cell)), cell, strict=True)]
    whole = bounded_cells(case.rows, question, order)
    assert {key: tuple(cell) for key, cell in total.items() if any(cell)} == {
        key: cell for key, cell in whole.items() if any(cell)
    }


@given(case=queries(), order=st.sampled_from(ORDERS), relation=st.sampled_from(Relation), data=st.data())
@settings(max_examples=120)
def test_neighbours_differ_by_no_more_than_the_table_of_decision_0001(
    case: Case, order: Order, relation: Relation, data: st.DataObject
) -> None:
    before, after = data.draw(random_neighbours(case, relation))
    question, k, m = decided(case), case.max_groups, case.max_rows
    moved = difference(cells(case, before, order), cells(case, after, order))
    twice = 1 if relation is Relation.ADD_REMOVE else 2
    groups = twice * k if question.groups is None else min(twice * k, len(question.groups))
    for column, (A, B) in zip(moved, _spans(question, m), strict=bool(moved)):
        assert len(column) <= groups
        widest = max(-A, B) if relation is Relation.ADD_REMOVE else B - A
        assert all(abs(d) <= widest for d in column)
        assert sum(map(abs, column)) <= twice * k * max(-A, B)


def _spans(question: Question, m: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for measure in question.measures:
        match measure:
            case CountUnits():
                spans += [(0, 1)]
            case OnLattice():
                c: Any = getattr(measure, "middle", None)
                low, high = measure.steps
                spans += (
                    [(m * min(low, 0), m * max(high, 0))] if c is None else [(m * (low - c), m * (high - c)), (0, m)]
                )
            case _:
                spans += [(0, m)]
    return spans
