"""Truncation reports: what they count, against plain Python, and how far one unit moves them in whole small worlds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.errors import InternalError, UnsupportedQuery
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.plan import alone
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.plan.reports import Part, Report, report_moves
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.plan.cases import Engine
from tests.plan.claims import check
from tests.reference.expression import Row
from tests.reference.values import Kind
from tests.reference.worlds import World

ENGINE = Engine.open()
SCHEMA = {"uid": Kind.INT, "region": Kind.TEXT, "x": Kind.INT, "v": Kind.REAL}
FACTS: dict[str, Fact] = {
    "x": Range(-2, 3, integer=True),
    "v": Range("-0.1", "0.7"),  # neither end is a point of the grid
    "region": Values("a", "b"),
}
ROWS: tuple[Row, ...] = (
    {"region": "a", "x": 3, "v": 0.7},
    {"region": "a", "x": 9, "v": -9.0},
    {"region": "b", "x": -9, "v": 9.0},
    {"region": "z", "x": -2, "v": -0.1},
    {"region": None, "x": None, "v": None},
    {"region": "a", "x": 1, "v": math.nan},
    {"region": "b", "x": 2, "v": math.inf},
)
ROW = PrivacyUnit.row()
MANY = PrivacyUnit("uid", max_groups=1, max_rows=1)
RARE = World(ROWS, units=(1, 2))
PERSON = World(ROWS, units=(1,), max_rows_per_unit=2, unit="uid")
COUPLE = World(ROWS[:4], units=(1, 2), max_rows_per_unit=1, unit="uid")
SQL = {
    "groups": "SELECT region, COUNT(*), SUM(x), AVG(v) FROM t GROUP BY region",
    "one": "SELECT SUM(x) FILTER (WHERE v > 0), VAR_POP(v), MEDIAN(x) FROM t",
    "lists": "SELECT MODE(region), COUNT(*) FROM t WHERE x > -5",
    "keys": "SELECT region, x, COUNT(*) FROM t GROUP BY region, x",
}


def planned(name: str, unit: PrivacyUnit, relation: Relation = Relation.ADD_REMOVE, **asked: Any) -> Query:
    kinds = {n: Type(k.value) for n, k in SCHEMA.items()}
    options = {"population": "p", "version": None, "epsilon": 1, "truncation": "1/2", **asked}
    return make_query(SQL[name], [TableSchema("t", kinds, FACTS, unit, relation)], **options)


def counts(plan: Query, rows: Sequence[Row]) -> list[tuple[int, ...]]:
    """What the engine counts on these rows, report by report."""
    ENGINE.fill([{"uid": 0, **r} for r in rows], SCHEMA)
    flat = [int(c) for text in plan.truncation for (row,) in [ENGINE.run(text)] for c in row]
    found = []
    for report in plan.reports:
        found.append(tuple(flat[: report.places]))
        del flat[: report.places]
    assert not flat
    return found


# --- what is counted ---

Told = Callable[[Row], Part | None]


def in_range(column: str, low: float, high: float, asked: Callable[[Row], bool] = lambda r: True) -> Told:
    def told(row: Row) -> Part | None:
        value: Any = row[column]
        if not asked(row):
            return None
        if value is None or not math.isfinite(value):
            return Part.NULL
        return Part.BELOW if value < low else Part.ABOVE if value > high else None

    return told


def in_list(column: str, *values: Any) -> Told:
    def told(row: Row) -> Part | None:
        value = row[column]
        return None if value in values else Part.NULL if value is None else Part.UNDECLARED

    return told


def positive(row: Row) -> bool:
    value: Any = row["v"]
    return value is not None and math.isfinite(value) and value > 0


X, V, REGION = in_range("x", -2, 3), in_range("v", -0.1, 0.7), in_list("region", "a", "b")
DAYS = in_list("x", *range(-2, 4))
TOLD: dict[str, dict[str, Told]] = {
    "groups": {"the key 'region'": REGION, "'v'": V, "'x'": X},
    "one": {"'x' (1)": in_range("x", -2, 3, positive), "'v'": V, "'x' (2)": X},
    "lists": {"'region'": REGION},
    "keys": {"the key 'region'": REGION, "the key 'x'": DAYS},
}


def asked_for(name: str, rows: Sequence[Row]) -> list[Row]:
    known: list[tuple[Row, Any]] = [(r, r["x"]) for r in rows]
    return [r for r, x in known if name != "lists" or (x is not None and x > -5)]


def expected(report: Report, name: str, rows: Sequence[Row], unit: PrivacyUnit) -> tuple[int, ...]:
    found = [0] * report.places
    people: dict[Any, list[Row]] = {}
    for i, row in enumerate(asked_for(name, rows)):
        people.setdefault(i if unit.is_row else row["uid"], []).append(row)
    for own in people.values():
        if report.of is None:
            keys = [n for n in ("region", "x") if f"the key {n!r}" in TOLD[name]]
            own = [r for r in own if all(TOLD[name][f"the key {n!r}"](r) is None for n in keys)]
            groups: dict[Any, int] = {}
            for r in own:
                key = tuple(r[n] for n in keys)
                groups[key] = groups.get(key, 0) + 1
            if groups:
                so = {Part.GROUPS: len(groups) > 1, Part.ROWS: max(groups.values()) > 1}
                found[sum(so[part] << i for i, part in enumerate(report.parts))] += 1
            continue
        parts = {TOLD[name][report.name](row) for row in own} - {None}
        places = [report.parts.index(p) for p in parts if p is not None]
        found[sum(p + 1 if unit.is_row else 1 << p for p in places)] += 1
    return tuple(found)


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("unit", [ROW, MANY], ids=["rows", "people"])
@pytest.mark.parametrize("name", SQL)
def test_reports_count_what_plain_python_counts(name: str, unit: PrivacyUnit) -> None:
    plan = planned(name, unit)
    told = sorted(r.name for r in plan.reports if r.of is not None)
    assert told == sorted(TOLD[name])
    world = RARE if unit.is_row else PERSON
    for table in world.tables(Relation.ADD_REMOVE):
        rows = world.rows(table)
        assert counts(plan, rows) == [expected(r, name, rows, unit) for r in plan.reports]


def test_the_parts_of_a_report_are_sums_of_its_counts() -> None:
    by_row, by_unit = (next(r for r in planned("groups", u).reports if r.name == "'v'") for u in (ROW, MANY))
    assert by_row.places == 4 and by_unit.places == 8
    assert by_row.counted([Part.ABOVE]) == (2,) and by_row.counted([Part.BELOW, Part.NULL]) == (1, 3)
    assert by_unit.counted([Part.ABOVE]) == (2, 3, 6, 7)
    assert by_unit.counted([Part.BELOW, Part.ABOVE]) == (1, 2, 3, 5, 6, 7)


# --- how far a unit moves them ---

WORLDS = [
    pytest.param("groups", ROW, RARE, id="rows"),
    pytest.param("keys", ROW, RARE, id="rows by two keys"),
    pytest.param("groups", MANY, PERSON, id="people"),
    pytest.param("one", MANY, PERSON, id="people, under conditions"),
    pytest.param("lists", MANY, PERSON, id="lists of values"),
]


def furthest(plan: Query, world: World, relation: Relation) -> list[tuple[int, int]]:
    """The largest ℓ∞ and ℓ1 by which each report moves between neighbours, over the whole world."""
    found = {t: counts(plan, world.rows(t)) for t in world.tables(relation)}
    best = [(0, 0)] * len(plan.reports)
    for table, own in found.items():
        for other in {n: found[n] for n in world.neighbours(table, relation)}.values():
            moves = [[abs(a - b) for a, b in zip(x, y, strict=True)] for x, y in zip(own, other, strict=True)]
            best = [(max(far, *m), max(total, sum(m))) for (far, total), m in zip(best, moves, strict=True)]
    return best


@pytest.mark.exhaustive
@pytest.mark.sampled(10)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(("name", "unit", "world"), WORLDS)
def test_no_unit_moves_a_report_further_than_planned_and_some_unit_moves_it_as_far(
    name: str, unit: PrivacyUnit, world: World, relation: Relation
) -> None:
    plan = planned(name, unit, relation)
    moved = report_moves(relation)
    assert furthest(plan, world, relation) == [(moved.linf, moved.l1)] * len(plan.reports)


@pytest.mark.parametrize("relation", list(Relation))
def test_people_who_are_there_together_move_nothing_further(relation: Relation) -> None:
    moved = report_moves(relation)
    found = furthest(planned("groups", MANY, relation), COUPLE, relation)
    assert all(far <= moved.linf and total <= moved.l1 for far, total in found)


BROKEN = [
    pytest.param("a row in two counts", "p0 = 1", "p0 <= 1", ROW, RARE),
    pytest.param("a row for each entry", 's."region" = k0.v', 's."region" >= k0.v', ROW, RARE),
    pytest.param("people counted by their parts", "count(*) FILTER", "2 * count(*) FILTER", MANY, PERSON),
    pytest.param("everybody is one", 's."uid" AS u', "1 AS u", MANY, COUPLE),
    pytest.param("people apart by their rows", "GROUP BY u\n", "GROUP BY u, y4\n", MANY, PERSON),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.parametrize(("what", "old", "new", "unit", "world"), BROKEN)
def test_a_broken_report_is_seen_in_a_world_and_by_the_second_derivation(
    what: str, old: str, new: str, unit: PrivacyUnit, world: World
) -> None:
    plan = planned("groups", unit)
    *caps, text = plan.truncation
    text = text.replace(old, new)
    assert text != plan.truncation[-1]
    broken = replace(plan, truncation=(*caps, text))
    found = furthest(broken, world, Relation.ADD_REMOVE)
    moved = report_moves(Relation.ADD_REMOVE)
    # who is counted as one person with others moves nothing, and everybody at once: a world of two shows neither
    assert any(f[1] > moved.l1 for f in found) or "everybody" in what
    with pytest.raises(InternalError):
        check(plan.sql, broken)


# --- noise and price ---


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("unit", [ROW, MANY], ids=["rows", "people"])
def test_the_share_is_divided_equally_and_spent_to_the_last(unit: PrivacyUnit, relation: Relation) -> None:
    plan = planned("groups", unit, relation, epsilon=3, truncation="1/3")
    reports, noises = plan.reports, plan.allocation.reports
    assert len(reports) == len(noises) == (3 if unit.is_row else 4)
    scales = {z.scale for z in noises if isinstance(z, DiscreteLaplaceNoise)}
    assert scales == {report_moves(relation).l1 * len(reports)}
    assert sum(n * (e.pure or 0) for e, n in plan.allocation.events) == plan.allocation.guarantee.epsilon == 3
    quiet = tuple(DiscreteLaplaceNoise(z.scale * 999 / 1000) for z in noises if isinstance(z, DiscreteLaplaceNoise))
    with pytest.raises(InternalError):
        check(plan.sql, replace(plan, allocation=replace(plan.allocation, reports=quiet)))


def test_noise_for_the_other_relation_is_refused() -> None:
    once, twice = (planned("groups", ROW, r) for r in Relation)
    with pytest.raises(InternalError):
        check(twice.sql, replace(twice, allocation=replace(twice.allocation, reports=once.allocation.reports)))


def test_where_nothing_can_be_cut_off_there_is_nothing_to_report() -> None:
    kinds = {n: Type(k.value) for n, k in SCHEMA.items()}
    table = TableSchema("t", kinds, FACTS, ROW, Relation.ADD_REMOVE)
    for sql in (
        "SELECT COUNT(*) FROM t",
        "SELECT SUM(least(3, greatest(-2, x))) FROM t",
        "SELECT COUNT_IF(x > 100) FROM t",
    ):
        with pytest.raises(UnsupportedQuery, match="Nothing is cut off"):
            make_query(sql, [table], population="p", version=None, epsilon=1, truncation="1/2")


def test_whole_numbers_that_the_question_bounds_one_beyond_the_range_are_reported() -> None:
    kinds = {n: Type(k.value) for n, k in SCHEMA.items()}
    table = TableSchema("t", kinds, FACTS, ROW, Relation.ADD_REMOVE)
    sql = "SELECT SUM(least(4, greatest(-2, x))) FROM t"  # x is in [-2, 3]
    plan = make_query(sql, [table], population="p", version=None, epsilon=1, truncation="1/2")
    assert counts(plan, [{"region": "a", "x": x, "v": 0.0} for x in (3, 4, 9)]) == [(1, 0, 2, 0)]


def test_a_question_with_reports_costs_what_was_asked_and_is_another_question() -> None:
    with_it, without = planned("groups", ROW), planned("groups", ROW, truncation=0)
    assert with_it.identity != without.identity and not without.truncation and not without.reports
    plan = alone(with_it, "p")
    assert plan.price == alone(without, "p").price
    assert "truncation of 'x': ± " in str(plan) and "Δ₁ = 1; ε = 0.5 together" in plan.explain()
