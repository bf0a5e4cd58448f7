"""How far questions really move on whole tiny worlds, beside the table of decision 0001."""

from __future__ import annotations

from fractions import Fraction
from itertools import count, product
from math import comb

import pytest

from discreet.privacy.unit import Relation, Sensitivity
from tests.reference.expression import Arithmetic, Column, Compare, Literal, Row
from tests.reference.measures import Count, CountOf, CountUnits, Mean, Measure, Sum
from tests.reference.question import Key, Question, combinations
from tests.reference.values import Kind, Value
from tests.reference.worlds import World, is_additive, observed_sensitivity, observed_sensitivity_by_unit

UID, X, REGION = Column("uid", Kind.INT), Column("x", Kind.INT), Column("region", Kind.TEXT)
ADD_REMOVE, REPLACE = Relation
REGIONS = "abcdef"


def scrambled(unit: Value, key: Key) -> int:
    """A fixed order that differs from unit to unit."""
    assert isinstance(unit, int)
    return sum((i + 1) * ord(str(part)[0]) * (7 + 5 * unit) for i, part in enumerate(key)) % 11


def planned(relation: Relation, k: int, G: int | None, A: int, B: int) -> Sensitivity:
    """The table of decision 0001, with G = None where groups come from the data."""
    m = max(-A, B)
    if relation is ADD_REMOVE:
        return Sensitivity(k if G is None else min(k, G), m)
    if G == 1:
        return Sensitivity(1, B - A)
    most = 2 * k if G is None else G
    kk = min(k, most)
    shared = [j for j in range(kk + 1) if 2 * kk - j <= most]
    return Sensitivity(
        min(2 * k, most),
        B - A,
        l1=max(j * (B - A) + 2 * (kk - j) * m for j in shared),
        l2_squared=max(j * (B - A) ** 2 + 2 * (kk - j) * m * m for j in shared),
    )


def question(measures: tuple[Measure, ...], regions: int, k: int, m: int, *, private: bool = False) -> Question:
    declared = None if private else combinations(REGIONS[:regions])
    return Question(measures, (REGION,), declared, None, UID, max_groups=k, max_rows=m)


def total(lo: int, hi: int) -> Sum:
    return Sum(X, Fraction(lo), Fraction(hi), 0)


def mean(lo: int, hi: int) -> Mean:
    return Mean(X, Fraction(lo), Fraction(hi), 0)


def world(regions: int, rows: int, values: tuple[Value, ...], *, units: int = 2) -> World:
    return World(visits(*product(REGIONS[:regions], values)), tuple(range(1, units + 1)), rows, unit="uid")


def visits(*rows: tuple[Value, Value]) -> tuple[Row, ...]:
    return tuple({"region": r, "x": x} for r, x in rows)


def test_tables_and_neighbours_are_all_there() -> None:
    w = world(2, 2, (0,))  # two possible rows, at most two for each of two units
    blocks = comb(2 + 2, 2)  # multisets of at most two of two: the empty one among them
    assert len(w.blocks(ADD_REMOVE)) == blocks - 1 == 5
    assert len(w.blocks(REPLACE)) == blocks
    assert len(list(w.tables(ADD_REMOVE))) == 1 + 2 * 5 + 5**2
    tables = list(w.tables(REPLACE))
    assert len(tables) == 1 + 2 * 6 + 6**2
    assert [len(list(w.neighbours(t, ADD_REMOVE))) for t in tables if len(t) == 0] == [2 * 5]
    # One unit of two: its rows may be 5 others, or the other id may take its place with any of 6.
    assert {len(list(w.neighbours(t, REPLACE))) for t in tables if len(t) == 1} == {5 + 6}
    assert {len(list(w.neighbours(t, REPLACE))) for t in tables if len(t) == 2} == {2 * 5}


def test_neighbours_are_mutual() -> None:
    w = world(2, 1, (0, 1))
    for relation in Relation:
        pairs = {(t, n) for t in w.tables(relation) for n in w.neighbours(t, relation)}
        assert pairs == {(n, t) for t, n in pairs}
        assert all(t != n for t, n in pairs)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("private", [False, True])
def test_cells_are_sums_over_units_so_the_fast_way_is_the_slow_way(relation: Relation, private: bool) -> None:
    measures = (Count(), CountUnits(), CountOf(X), total(-1, 2), mean(0, 2))
    rows = visits(("a", -5), ("a", 5), ("b", 5), ("b", None))
    w = World(rows, (1, 2, 3), 2, "uid", max_units=2)
    for k, m in ((1, 2), (2, 1)):
        q = question(measures, 2, k, m, private=private)
        assert is_additive(q, w, relation, scrambled)
        slow = observed_sensitivity(q, w, relation, scrambled)
        assert slow == observed_sensitivity_by_unit(q, w, relation, scrambled)


SHAPES = [(1, 1, 1), (1, 2, 2), (2, 1, 1), (2, 1, 2), (2, 2, 1), (3, 1, 1), (3, 2, 1), (3, 3, 1), (4, 2, 1), (4, 3, 1)]


@pytest.mark.thinned(4)
@pytest.mark.parametrize(("G", "k", "m"), SHAPES)
@pytest.mark.parametrize("bounds", [(0, 3), (-2, 3), (-3, 0), (1, 3), (-3, -1), (-3, 3)])
@pytest.mark.parametrize("relation", Relation)
def test_the_table_of_decision_0001_is_attained_with_declared_keys(
    G: int, k: int, m: int, bounds: tuple[int, int], relation: Relation
) -> None:
    lo, hi = bounds
    w = world(G, min(k, G) * m, (-9, 9), units=1)
    q = question((Count(), CountUnits(), CountOf(X), total(lo, hi), mean(lo, hi)), G, k, m)
    c = (lo + hi) // 2
    spans = [(0, m), (0, 1), (0, m), (m * min(lo, 0), m * max(hi, 0)), (m * (lo - c), m * (hi - c)), (0, m)]
    observed = observed_sensitivity_by_unit(q, w, relation, scrambled)
    assert observed == tuple(planned(relation, k, G, A, B) for A, B in spans)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("relation", Relation)
def test_the_table_is_attained_when_groups_come_from_the_data(k: int, relation: Relation) -> None:
    w = world(2 * k, k, (-9, 9), units=1)
    q = question((Count(), CountUnits(), total(-2, 3)), 2 * k, k, 1, private=True)
    observed = observed_sensitivity_by_unit(q, w, relation, scrambled)
    assert observed == tuple(planned(relation, k, None, A, B) for A, B in ((0, 1), (0, 1), (-2, 3)))


@pytest.mark.parametrize("relation", Relation)
def test_rows_outside_the_declared_keys_and_errors_never_move_more(relation: Relation) -> None:
    where = Compare("<", Arithmetic("%", X, Literal(4)), Literal(3))
    q = Question(
        (Count(), total(-2, 3), mean(-2, 3)), (REGION,), combinations("ab"), where, UID, max_groups=1, max_rows=2
    )
    rows = visits(("a", 2**63 - 1), ("a", -(2**63)), ("b", 6), ("b", None), ("z", 1), (None, 1))
    w = World(rows, (None, 1, 2), 3, "uid")
    observed = observed_sensitivity_by_unit(q, w, relation, scrambled)
    # 2⁶³ − 1 leaves 3 and is filtered, −2⁶³ leaves 0 and is clamped to −2, 6 to 3. The middle is 0.
    spans = [(0, 2), (-4, 6), (-4, 6), (0, 2)]
    for seen, (A, B) in zip(observed, spans, strict=True):
        limit = planned(relation, 1, 2, A, B)
        assert (seen.l0, seen.l1) <= (limit.l0, limit.l1)
        assert (seen.linf, seen.l2_squared) <= (limit.linf, limit.l2_squared)
    assert observed[0] == planned(relation, 1, 2, 0, 2)


@pytest.mark.parametrize("relation", Relation)
def test_each_row_a_unit_attains_the_table_where_a_row_may_be_filtered_or_null(relation: Relation) -> None:
    w = World(visits(("a", -9), ("b", 9), ("b", -9), ("a", 9), ("a", None), ("z", 9)), (1, 2))
    q = Question((Count(), CountOf(X), total(-2, 3), mean(-2, 3)), (REGION,), combinations("ab"))
    spans = [(0, 1), (0, 1), (-2, 3), (-2, 3), (0, 1)]
    observed = observed_sensitivity(q, w, relation, scrambled)
    assert observed == observed_sensitivity_by_unit(q, w, relation, scrambled)
    assert observed == tuple(planned(relation, 1, 2, A, B) for A, B in spans)


def test_where_every_row_counts_replacing_one_moves_less_than_the_table_says() -> None:
    # One group, no filter, no NULL: the number of rows is public, and a value in [1, 3] moves by 2, not 3.
    q = Question((Count(), total(1, 3)))
    w = World(visits(("a", -9), ("a", 9)), (1, 2))
    assert observed_sensitivity(q, w, REPLACE, scrambled) == (Sensitivity(0, 0), Sensitivity(1, 2))
    assert (planned(REPLACE, 1, 1, 0, 1), planned(REPLACE, 1, 1, 0, 3)) == (Sensitivity(1, 1), Sensitivity(1, 3))


def test_a_claim_that_is_too_small_is_seen() -> None:
    w = world(3, 2, (-9, 9), units=1)
    q = question((Count(), total(-2, 3)), 3, 2, 1)
    for relation in Relation:
        for seen, (A, B) in zip(
            observed_sensitivity_by_unit(q, w, relation, scrambled), ((0, 1), (-2, 3)), strict=True
        ):
            too_small = planned(relation, 1, 3, A, B)  # as if a unit entered one group only
            assert seen.l0 > too_small.l0
            assert seen.l1 > too_small.l1
            assert seen.l2_squared > too_small.l2_squared


def test_replacing_may_change_who_it_is() -> None:
    # Both units have the same two rows, and keep different groups of them.
    q = question((CountUnits(),), 2, 1, 1, private=True)
    w = World(visits(("a", 0), ("b", 0)), (1, 2), 2, "uid", max_units=1)
    apart = {unit: scrambled(unit, ("a",)) < scrambled(unit, ("b",)) for unit in w.units}
    assert set(apart.values()) == {True, False}
    full = ((1, (0, 1)),)
    assert ((2, (0, 1)),) in w.neighbours(full, REPLACE)
    assert observed_sensitivity(q, w, REPLACE, scrambled) == (Sensitivity(2, 1),)


def test_what_is_no_sum_over_units_is_seen() -> None:
    turn = count()
    q = question((CountUnits(),), 2, 1, 1)
    w = World(visits(("a", 0), ("b", 0)), (1, 2), 2, "uid")
    assert not is_additive(q, w, ADD_REMOVE, lambda unit, key: next(turn) % 3)  # an order that is no function
