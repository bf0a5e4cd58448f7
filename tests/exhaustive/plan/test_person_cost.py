"""What a question is charged to each person, against how far the engine's own integers move without that person."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.filter import BasicFilter, Filter, GDPFilter, RenyiFilter, open_filter
from discreet.backends.person_filter import PersonFilter, hashed
from discreet.catalog.schema import Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import exact_cells, level_sums
from discreet.errors import InvalidParameter, UnsupportedQuery
from discreet.ledger.people_table import BEYOND, CAPACITY
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.people.person_cost import PersonCost, person_cost_of
from discreet.plan.plan import alone
from discreet.plan.planner import make_query, plan_batch
from discreet.plan.query import Query
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.plan.cases import SECRET, Engine, as_value
from tests.plan.relation_cases import RelationEngine, relation_plan
from tests.reference.expression import Row
from tests.reference.values import Kind, Value
from tests.strategies.relation import RelationCase, relation_cases

ENGINE = RelationEngine.open()
KEY = "00" * 16

Column = dict[tuple[Any, ...], list[int]]


def cost(plan: Query, rule: Filter) -> PersonCost:
    return person_cost_of([plan], alone(plan, "p").charge, rule, rule.capacity)


def charged(found: PersonCost, run: Any) -> dict[Value, tuple[int, ...]]:
    """What each person is charged, in parts."""
    rows = {as_value(u): tuple(parts) for u, *parts in run(found.sql)}
    return {u: found.worst if parts[0] > found.worst[0] else parts for u, parts in rows.items()}


def due(plan: Query, rule: Filter, moves: list[list[tuple[int, ...]]]) -> Fraction:
    """What such moves cost in the first unit of a filter, by the textbook, noise on other things apart."""
    total = Fraction(0)
    for i, levels in enumerate(moves):
        noises = [plan.allocation.noises[i], *(v.noises[i] for v in plan.allocation.levels)]
        total += sum(
            (price(noise, d, rule) for noise, moved in zip(noises, levels, strict=True) for d in moved), Fraction(0)
        )
    return total


def price(noise: Additive, moved: int, rule: Filter) -> Fraction:
    """What one number that moves costs."""
    if isinstance(noise, DiscreteLaplaceNoise):
        e = Fraction(abs(moved)) / noise.scale
        if isinstance(rule, RenyiFilter):
            return divergence(abs(moved), noise.scale, rule.order)
        return e if isinstance(rule, BasicFilter) else min(e * e / 2, e)
    assert isinstance(noise, RoundedGaussianNoise)
    square = Fraction(moved * moved) / noise.sigma**2
    if isinstance(rule, RenyiFilter):
        return square * rule.order / 2
    return square if isinstance(rule, GDPFilter) else square / 2


def divergence(m: int, b: Fraction, a: Fraction) -> Fraction:
    """That of discrete Laplace noise moved by m, from below: the closed form of docs/proofs/filters.md, in which most
    digits cancel where a lattice is fine and b is large.
    """
    with mpmath.workdps(60):
        scale, order = mpmath.mpf(b.numerator) / b.denominator, mpmath.mpf(a.numerator) / a.denominator
        t = mpmath.exp(-1 / scale)
        v = t ** (2 * order - 1)
        inner = (1 + v**m + (1 - t) * (v - v**m) / (1 - v)) / (1 + t)
        found = m / scale + mpmath.log(inner) / (order - 1)
        return Fraction(max(int(mpmath.floor(found * 10**30)), 0), 10**30)


def test_the_divergence_of_a_small_move_is_not_lost_in_rounding() -> None:
    # αε²/2 is above it (Bun, Steinke 2016, Proposition 1.4) and close to it where ε is small; floats give 1.07 times it
    found, most = divergence(10**8, Fraction(10**12), Fraction(6)), Fraction(3, 10**8)
    assert most * Fraction(999, 1000) < found < most


RULES = ("basic", "zcdp", "renyi")


def check(case: RelationCase, rule: Filter, **asked: Any) -> None:
    """Everybody is charged what the plan's integers move by, and who is not charged moves nothing."""
    plan = relation_plan(case, Relation.ADD_REMOVE, **asked)
    found = cost(plan, rule)
    ENGINE.fill(case.database)
    run = ENGINE.engine.run
    here, cells = charged(found, run), {t: run(t) for t in plan.statements}
    for unit in case.database.units():
        ENGINE.fill(case.database)
        before = moves_here(plan, run)
        ENGINE.fill(case.database.without(unit))
        moved = [
            [moved_by(a, b) for a, b in zip(x, y, strict=True)]
            for x, y in zip(before, moves_here(plan, run), strict=True)
        ]
        if unit not in here:
            assert {t: sorted(map(str, run(t))) for t in cells} == {t: sorted(map(str, r)) for t, r in cells.items()}
            continue
        parts = here[unit]
        needed = due(plan, rule, moved) * CAPACITY / rule.capacity[0]
        assert parts[0] >= min(needed, Fraction(found.worst[0]))
        assert (parts[0] <= found.worst[0] or parts == found.worst) and len(parts) == len(rule.capacity)


def moved_by(here: Column, there: Column) -> tuple[int, ...]:
    """By how much a column moves in each group."""
    return tuple(here.get(k, [0])[0] - there.get(k, [0])[0] for k in here.keys() | there.keys())


def moves_here(plan: Query, run: Any) -> list[list[Column]]:
    """The cells of each sum over people, and of its levels of totals; counts of different values are apart."""
    cells = exact_cells(plan, run)
    apart = {i for i, _ in plan.distinct}
    found = []
    for i in range(len(plan.allocation.noises)):
        side: Column = {k: [0 if i in apart else c[i]] for k, c in cells.items()}
        found.append([side, *(level_sums(v.kept, side) for v in plan.allocation.levels)])
    return found


@given(relation_cases(), st.sampled_from(RULES), st.sampled_from([Fraction(1, 100), Fraction(1), Fraction(50)]))
@settings(max_examples=30, derandomize=True, deadline=None)
def test_everybody_in_a_question_pays_for_what_the_integers_move_by(
    case: RelationCase, rule: str, epsilon: Fraction
) -> None:
    check(case, open_filter(rule, Budget(3, "1e-5")), epsilon=epsilon)


@given(relation_cases(), st.sampled_from(["gdp", "zcdp", "renyi"]))
@settings(max_examples=20, derandomize=True, deadline=None)
def test_everybody_pays_for_gaussian_noise(case: RelationCase, rule: str) -> None:
    try:
        check(case, open_filter(rule, Budget(3, "1e-5")), noise="gaussian")
    except InvalidParameter as error:  # a selection of groups has no μ
        assert "not Gaussian" in error.message


@pytest.mark.slow
@given(relation_cases(max_size=6, depth=3), st.sampled_from(RULES), st.sampled_from(["laplace", "gaussian"]))
@settings(max_examples=400, deadline=None)
def test_everybody_pays_at_length(case: RelationCase, rule: str, noise: str) -> None:
    check(case, open_filter(rule, Budget(3, "1e-5")), noise=noise)


@given(relation_cases(), st.data())
@settings(max_examples=30, derandomize=True, deadline=None)
def test_tables_without_a_person_are_those_of_the_neighbour(case: RelationCase, data: Any) -> None:
    plan = relation_plan(case, Relation.ADD_REMOVE)
    found = cost(plan, open_filter("basic", Budget(3, "1e-5")))
    ENGINE.fill(case.database)
    units = list(charged(found, ENGINE.engine.run))
    gone = data.draw(st.sets(st.sampled_from(units))) if units else set()
    with ENGINE.engine.connection.cursor() as cursor:
        own = {t.name: t.unit for t in case.database.tables if t.unit is not None and not t.public}
        person_filter = PersonFilter(cursor, own, lambda: True, lambda sql, given, fetch: [])
        parameters: dict[str, Any] = {"person": KEY} | ({"secret": SECRET} if found.keyed else {})
        hashes, costs = person_filter.people(hashed(found.sql, 2), parameters, 2)
        assert len(hashes) == len(units) == costs.shape[1]
        by_hash = dict(zip(units_in_order(cursor), hashes.tolist(), strict=True))
        out = [by_hash[u] for u in gone]
        person_filter.leave_out(np.array(sorted(out), np.uint64))
        left = exact_cells(plan, lambda t: person_filter.rows(t, {"secret": SECRET} if "$secret" in t else {}))
    rest = case.database
    for unit in gone:
        rest = rest.without(unit)
    ENGINE.fill(rest)
    assert left == exact_cells(plan, ENGINE.engine.run)


def units_in_order(cursor: Any) -> list[Value]:
    """The ids in the order of the hashes."""
    return [as_value(u) for (u,) in cursor.execute('SELECT u FROM temp.main."touched\x01"').fetchall()]


TABLE = TableSchema(
    "t",
    {"uid": Type.INT, "region": Type.TEXT, "x": Type.INT},
    {"x": Range(-5, 10, integer=True), "region": Values("a", "b", "c")},
    PrivacyUnit("uid", max_groups=2, max_rows=2),
    Relation.ADD_REMOVE,
)
KINDS: Mapping[str, Kind] = {"uid": Kind.INT, "region": Kind.TEXT, "x": Kind.INT}
ROWS: tuple[Row, ...] = (
    {"uid": 1, "region": "a", "x": 10},
    {"uid": 1, "region": "b", "x": -5},
    {"uid": 2, "region": "a", "x": -5},
    {"uid": 3, "region": "a", "x": 0},
    {"uid": None, "region": "a", "x": 7},
    {"uid": 4, "region": "z", "x": 7},
)


def paid(sql: str, rule: str = "basic", *, budget: Budget | None = None, **asked: Any) -> dict[Value, tuple[int, ...]]:
    plan = make_query(sql, [TABLE], **{"population": "p", "version": None, "epsilon": 1, **asked})
    return charged(cost(plan, open_filter(rule, budget or Budget(2, "1e-6"))), filled().run)


def filled() -> Engine:
    engine = Engine.open()
    engine.fill(ROWS, KINDS)
    return engine


def parts(cost: Fraction, of: Fraction) -> int:
    return min(math.ceil(cost * CAPACITY / of), BEYOND)


def test_a_sum_costs_each_person_what_it_adds() -> None:
    # one column, at most 10·2 rows in each of 2 groups: noise of scale 40 for ε = 1
    found = paid("SELECT region, SUM(x) FROM t GROUP BY region")
    assert found == {
        1: (parts(Fraction(15, 40), Fraction(2)), 0),
        2: (parts(Fraction(5, 40), Fraction(2)), 0),
        3: (0, 0),
    }


def test_who_has_no_row_in_the_question_is_not_charged() -> None:
    assert set(paid("SELECT COUNT(*) FROM t WHERE x > 0")) == {1, 4}
    assert set(paid("SELECT COUNT(*) FROM t WHERE x > 100")) == set()


@pytest.mark.parametrize("n", [2, 3, 7, 10, 13, 1000])
def test_parts_of_a_budget_add_up_to_it_exactly(n: int) -> None:
    # who has as many rows as the cap counts pays all of ε
    assert paid("SELECT COUNT(*) FROM t", epsilon=Fraction(2, n))[1][0] * n == CAPACITY


@pytest.mark.parametrize(
    ("sql", "asked"),
    [
        ("SELECT MEDIAN(x) FROM t", {}),
        ("SELECT region, MEDIAN(x), MAX(x) FROM t GROUP BY region", {}),
        ("SELECT COUNT(DISTINCT region) FROM t", {}),
        ("SELECT COUNT(*) FROM t", {"noise": "gaussian", "delta": "1e-7"}),
    ],
)
def test_other_mechanisms_cost_everybody_in_scope_the_worst_case(sql: str, asked: Any) -> None:
    found = paid(sql, **asked)
    delta = Fraction("1e-7") if asked else Fraction(0)
    one = (parts(Fraction(1), Fraction(2)), parts(delta, Fraction("1e-6")))
    assert set(found.values()) == {one} and set(found) == ({1, 2, 3} if "GROUP" in sql else {1, 2, 3, 4})


def test_a_report_and_a_selection_are_charged_in_full_beside_the_sums() -> None:
    plain = {"uid": TABLE.columns["uid"], "region": TABLE.columns["region"], "x": TABLE.columns["x"]}
    private = replace(TABLE, columns=plain, facts={"x": TABLE.facts["x"]})
    plan = make_query(
        "SELECT region, SUM(x) FROM t GROUP BY region",
        [private],
        population="p",
        version=None,
        epsilon=1,
        delta="1e-6",
        truncation="0.1",
    )
    rule = open_filter("basic", Budget(2, "1e-5"))
    found = charged(cost(plan, rule), filled().run)
    fixed, scale = Fraction("0.1") + Fraction("0.45"), 40 / Fraction("0.45")
    delta = parts(Fraction("1e-6"), Fraction("1e-5"))
    assert found[1] == (parts(fixed + 15 / scale, Fraction(2)), delta)
    assert found[3] == (parts(fixed, Fraction(2)), delta)


def test_totals_that_are_measured_as_well_are_charged_by_the_sums_of_parts() -> None:
    plan = make_query(
        "SELECT region, COUNT(*) FROM t GROUP BY ROLLUP (region)",
        [replace(TABLE, facts={**TABLE.facts, "region": Values(*"abcdefghijklmnopqrstuvwxyz")})],
        population="p",
        version=None,
        epsilon=1,
    )
    assert plan.allocation.levels
    rule = open_filter("basic", Budget(2))
    found = charged(cost(plan, rule), filled().run)
    scales = [plan.allocation.noises[0].scale, plan.allocation.levels[0].noises[0].scale]  # type: ignore[attr-defined]  # Laplace
    assert found[1] == (min(parts(sum(2 / b for b in scales), Fraction(2)), parts(Fraction(1), Fraction(2))), 0)
    assert found[2] == (parts(sum(1 / b for b in scales), Fraction(2)), 0)


def test_a_batch_costs_the_sum_of_its_measurements_and_never_more_than_all_of_it() -> None:
    batch = plan_batch(
        {"n": "SELECT COUNT(*) FROM t WHERE x > 0", "s": "SELECT region, SUM(x) FROM t GROUP BY region"},
        [TABLE],
        population="p",
        version=None,
        epsilon=1,
    )
    rule = open_filter("basic", Budget(2))
    found = charged(person_cost_of(batch.measurements, batch.charge, rule, rule.capacity), filled().run)
    assert set(found) == {1, 2, 3, 4}
    assert found[3] == (0, 0) and 0 < found[2][0] < found[1][0] < parts(Fraction(1), Fraction(2))
    assert found[4][0] > 0  # in the first measurement only: its region is in no group of the second


def test_wide_sums_are_charged_exactly_or_by_the_worst_case() -> None:
    wide = replace(TABLE, facts={"x": Range(-(2**60), 2**60, integer=True)})
    for rule, budget in (("basic", Budget(2)), ("zcdp", Budget(2, "1e-6")), ("renyi", Budget(2, "1e-6"))):
        plan = make_query("SELECT SUM(x) FROM t", [wide], population="p", version=None, epsilon=1)
        counted = open_filter(rule, budget)
        engine = Engine.open()
        engine.fill([{"uid": 1, "region": "a", "x": 2**60 - 1}, {"uid": 2, "region": "a", "x": 0}], KINDS)
        found = charged(cost(plan, counted), engine.run)
        least = Fraction(2**60 - 1, 2**61)
        assert found[1][0] >= parts(least if rule == "basic" else least**2 / 2, counted.capacity[0])


def test_a_charge_beyond_the_whole_budget_is_beyond_everybody() -> None:
    found = paid("SELECT MEDIAN(x) FROM t", epsilon=3)
    assert set(found.values()) == {(BEYOND, 0)}


def test_a_filter_that_cannot_count_a_question_refuses_it() -> None:
    with pytest.raises(InvalidParameter, match="not Gaussian"):
        paid("SELECT COUNT(*) FROM t", "gdp")


def test_rows_that_are_units_are_refused() -> None:
    rows = replace(TABLE, unit=PrivacyUnit.row())
    plan = make_query("SELECT COUNT(*) FROM t", [rows], population="p", version=None, epsilon=1)
    with pytest.raises(UnsupportedQuery, match="each row is a unit"):
        cost(plan, open_filter("basic", Budget(2)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("abs(m0)", "m0"),
        ("GROUP BY u\n)\nSELECT u, CAST(least", "GROUP BY u LIMIT 1\n)\nSELECT u, CAST(least"),
        ("sum(abs", "max(abs"),
    ],
)
def test_a_toll_that_errs_is_seen(old: str, new: str) -> None:
    plan = make_query("SELECT region, SUM(x) FROM t GROUP BY region", [TABLE], population="p", version=None, epsilon=1)
    rule = open_filter("basic", Budget(2))
    good, engine = cost(plan, rule), filled()
    bad = replace(good, statements=tuple(replace(s, sql=s.sql.replace(old, new)) for s in good.statements))
    assert bad != good

    def is_enough(found: PersonCost) -> bool:
        here = charged(found, engine.run)
        for unit in (1, 2, 3):
            engine.fill(ROWS, KINDS)
            before = moves_here(plan, engine.run)
            engine.fill([r for r in ROWS if r["uid"] != unit], KINDS)
            after = moves_here(plan, engine.run)
            engine.fill(ROWS, KINDS)
            moved = [[moved_by(a, b)] for (a,), (b,) in zip(before, after, strict=True)]
            if here.get(unit, (0,))[0] < due(plan, rule, moved) * CAPACITY / 2:
                return False
        return True

    assert is_enough(good) and not is_enough(bad)
