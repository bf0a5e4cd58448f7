"""How far the engine's own SQL moves between neighbours in whole tiny worlds, against what its noise is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from math import exp
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import measure
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.threshold import Threshold
from discreet.noise.entropy import SystemEntropy
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.post.noisy_table import NoisyTable
from discreet.privacy.unit import PrivacyUnit, Relation, Sensitivity
from tests.plan.cases import Engine, plan_of
from tests.reference.expression import Row
from tests.reference.question import Cells
from tests.reference.values import Kind
from tests.reference.worlds import Table, World, difference
from tests.strategies.questions import Case, queries, random_neighbours

ENGINE = Engine.open()
SCHEMA = {"uid": Kind.INT, "region": Kind.TEXT, "x": Kind.INT, "v": Kind.REAL}
FACTS: dict[str, Fact] = {"x": Range(-2, 3, integer=True), "v": Range(-2, 3), "region": Values("a", "b", "c")}
ROWS: tuple[Row, ...] = (
    {"region": "a", "x": 9, "v": 9.0},
    {"region": "a", "x": -9, "v": -9.0},
    {"region": "b", "x": 9, "v": 9.0},
    {"region": "b", "x": -9, "v": -9.0},
    {"region": "c", "x": 9, "v": 9.0},
    {"region": "c", "x": None, "v": None},
)
MEASURES = "COUNT(*), COUNT(x), SUM(x), AVG(x), SUM(v), AVG(v)"


def planned(keys: str | None, unit: PrivacyUnit, relation: Relation, *, private: bool = False, **asked: Any) -> Query:
    facts = {n: f for n, f in FACTS.items() if not private or n != "region"}
    t = TableSchema("t", {n: Type(k.value) for n, k in SCHEMA.items()}, facts, unit, relation)
    counted = "" if unit.is_row else f", COUNT(DISTINCT {unit.column})"
    text = f"SELECT {keys + ', ' if keys else ''}{MEASURES}{counted} FROM t{f' GROUP BY {keys}' if keys else ''}"
    options = {"population": "p", "version": None, "epsilon": 1, "delta": "1e-6", **asked}
    return make_query(text, [t], **options)


def norms(moves: Iterable[tuple[tuple[int, ...], ...]], width: int) -> list[tuple[int, int, int, int]]:
    """The largest move of each column in (ℓ0, ℓ∞, ℓ1, squared ℓ2)."""
    best = [[0, 0, 0, 0] for _ in range(width)]
    for columns in set(moves):
        for b, d in zip(best, columns, strict=False):
            size = (len(d), max(map(abs, d), default=0), sum(map(abs, d)), sum(x * x for x in d))
            b[:] = map(max, b, size)
    return [(b[0], b[1], b[2], b[3]) for b in best]


def observed(
    plan: Query, world: World, relation: Relation, schema: Mapping[str, Kind] = SCHEMA
) -> list[tuple[int, int, int, int]]:
    """The largest moves over every pair of neighbours in the world, by running the SQL on both."""

    def run(table: Table) -> Cells:
        rows = [{**r, "uid": 0} if world.unit is None else r for r in world.rows(table)]
        return ENGINE.cells(plan, rows, schema)

    cells = {t: run(t) for t in world.tables(relation)}
    width = len(plan.sensitivities) + (plan.allocation.threshold is not None)
    return norms((difference(c, cells[n]) for t, c in cells.items() for n in world.neighbours(t, relation)), width)


def as_tuple(s: Sensitivity) -> tuple[int, int, int, int]:
    return s.l0, s.linf, s.l1, s.l2_squared


def within(found: tuple[int, ...], allowed: Sensitivity) -> bool:
    return all(f <= a for f, a in zip(found, as_tuple(allowed), strict=True))


def of_units(plan: Query) -> Sensitivity:
    """What the selection of groups takes for granted of the counts of units."""
    assert plan.allocation.threshold is not None
    return Sensitivity(plan.allocation.threshold.touched, 1)


def colliding(plan: Query) -> Query:
    """The same plan in a world where every hash is the same."""
    found = replace(plan, sql=plan.sql.replace("ORDER BY hash(", "ORDER BY 0 * hash("))
    assert found.sql != plan.sql
    return found


ONE = PrivacyUnit("uid", max_groups=1, max_rows=2)
TWO = PrivacyUnit("uid", max_groups=2, max_rows=1)
# One person with every set of rows: that a cell is the sum of what people add alone is seen where there are two.
SHORT = World(ROWS, units=(1,), max_rows_per_unit=2, unit="uid")
LONG = World(ROWS[:-1], units=(1,), max_rows_per_unit=3, unit="uid")
COUPLE = World(ROWS[:3], units=(1, 2), max_rows_per_unit=1, unit="uid")
ROW_WORLD = World(ROWS, units=(1, 2))
CASES = [
    pytest.param(None, ONE, SHORT, False, id="whole"),
    pytest.param("region", ONE, SHORT, False, id="declared groups"),
    pytest.param("region", ONE, SHORT, True, id="private groups"),
    pytest.param("region", TWO, LONG, False, id="two declared groups"),
    pytest.param("region", TWO, LONG, True, id="two private groups"),
    pytest.param(None, PrivacyUnit.row(), ROW_WORLD, False, id="rows"),
    pytest.param("region", PrivacyUnit.row(), ROW_WORLD, False, id="rows in declared groups"),
    pytest.param("region", PrivacyUnit.row(), ROW_WORLD, True, id="rows in private groups"),
]


@pytest.mark.sampled(5)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(("keys", "unit", "world", "private"), CASES)
def test_no_unit_moves_the_engines_answer_further_than_planned_and_some_unit_moves_it_as_far(
    keys: str | None, unit: PrivacyUnit, world: World, private: bool, relation: Relation
) -> None:
    plan = planned(keys, unit, relation, private=private)
    found = observed(plan, world, relation)
    planned_for = [*plan.sensitivities, *([of_units(plan)] if private else [])]
    assert all(within(f, s) for f, s in zip(found, planned_for, strict=True))
    if private and unit is TWO and relation is Relation.REPLACE:
        return  # two groups left and two others entered: more than a world of three groups can show
    for f, s in zip(found, planned_for, strict=True):
        assert f == as_tuple(s)


@pytest.mark.thinned(2)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("private", [False, True])
def test_when_every_hash_collides_the_keys_alone_bound_a_units_groups(private: bool, relation: Relation) -> None:
    for unit, world in ((ONE, SHORT), (TWO, LONG), (ONE, COUPLE)):
        plan = colliding(planned("region", unit, relation, private=private))
        found = observed(plan, world, relation)
        assert all(within(f, s) for f, s in zip(found, plan.sensitivities, strict=False))
        assert not private or within(found[-1], of_units(plan))


@pytest.mark.parametrize("relation", list(Relation))
def test_people_who_are_there_together_move_nothing_further(relation: Relation) -> None:
    for keys, private in ((None, False), ("region", False), ("region", True)):
        plan = planned(keys, ONE, relation, private=private)
        found = observed(plan, COUPLE, relation)
        assert all(within(f, s) for f, s in zip(found, plan.sensitivities, strict=False))


RANK = "QUALIFY row_number() OVER (PARTITION BY u ORDER BY hash(u, g0, $secret), g0) <= 1"
BROKEN = [
    pytest.param(RANK, "", SHORT, id="no ranking"),
    pytest.param(RANK, "QUALIFY rank() OVER (PARTITION BY u ORDER BY 0 * hash(u, g0, $secret)) <= 1", SHORT, id="ties"),
    pytest.param("least(n, 2)", "n", LONG, id="no cap on rows"),
    pytest.param("-4), 6)", "-4), 60)", LONG, id="a wider bound"),
    pytest.param('s."uid" AS u', "1 AS u", COUPLE, id="everybody is one"),
    pytest.param('s."uid" AS u', 's."x" AS u', SHORT, id="another unit"),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("old", "new", "world"), BROKEN)
def test_a_broken_bound_is_seen(old: str, new: str, world: World) -> None:
    plan = planned("region", ONE, Relation.ADD_REMOVE)
    assert old in plan.sql
    found = observed(replace(plan, sql=plan.sql.replace(old, new)), world, Relation.ADD_REMOVE)
    assert not all(within(f, s) for f, s in zip(found, plan.sensitivities, strict=True))


FIRST = "QUALIFY dense_rank() OVER (PARTITION BY u ORDER BY hash(u, g0, $secret), g0) <= 1"
BROKEN_FIRST = [
    pytest.param(FIRST, "", id="no ranking"),
    pytest.param(FIRST, FIRST.replace("<= 1", "<= 2"), id="one group more"),
    pytest.param(FIRST, FIRST.replace("hash(u, g0, $secret), g0", "0 * hash(u, g0, $secret)"), id="ties"),
    pytest.param(FIRST, FIRST.replace("PARTITION BY u", "PARTITION BY u, g0"), id="ranked within each group"),
    pytest.param('FROM "unit kept"', 'FROM "unit rows"', id="tallies of all rows"),
]


@pytest.mark.parametrize(("old", "new"), BROKEN_FIRST)
def test_a_broken_cut_of_rows_is_seen(old: str, new: str) -> None:
    plan = planned("region", ONE, Relation.ADD_REMOVE, private=True)
    assert old in plan.sql
    found = observed(replace(plan, sql=plan.sql.replace(old, new)), SHORT, Relation.ADD_REMOVE)
    assert not within(found[-1], of_units(plan))


@given(st.data(), queries(max_size=6), st.sampled_from(list(Relation)))
@settings(max_examples=40, derandomize=True)
def test_random_neighbours_move_no_question_further_than_planned(data: Any, case: Case, relation: Relation) -> None:
    assert_bounded(data, case, relation)


@pytest.mark.slow
@given(st.data(), queries(max_size=10), st.sampled_from(list(Relation)))
@settings(max_examples=3_000)
def test_random_neighbours_at_length(data: Any, case: Case, relation: Relation) -> None:
    assert_bounded(data, case, relation)


def assert_bounded(data: Any, case: Case, relation: Relation) -> None:
    plan = plan_of(case, relation)
    before, after = data.draw(random_neighbours(case, relation))
    runs = [plan] + ([colliding(plan)] if "$secret" in plan.sql else [])
    for p in runs:
        moved = difference(ENGINE.cells(p, before), ENGINE.cells(p, after))
        allowed = [*plan.sensitivities, *([of_units(plan)] if plan.allocation.threshold else [])]
        found = norms([moved], len(allowed))
        assert all(within(f, s) for f, s in zip(found, allowed, strict=True))


# Releases, counted. An event is judged at α = 1e-10 on each side: a false alarm in 1e-9 of the runs of this file.
ALPHA, DRAWS = 1e-10, 8_000


def at_least(hits: int, n: int) -> float:
    """Clopper, Pearson: a lower bound on the probability of an event."""
    return float(beta.ppf(ALPHA, hits, n - hits + 1)) if hits else 0.0


def at_most(hits: int, n: int) -> float:
    return float(beta.ppf(1 - ALPHA, hits + 1, n - hits)) if hits < n else 1.0


def releases(plan: Query, rows: list[Row], draws: int) -> list[NoisyTable]:
    """Many releases of one table, whose exact integers are read once."""
    ENGINE.fill(rows, SCHEMA)
    kept = ENGINE.run(plan.sql)
    rng = SystemEntropy()
    return [measure(plan, lambda _: kept, rng) for _ in range(draws)]


def leaks(plan: Query, x: list[Row], y: list[Row], event: Callable[[NoisyTable], bool], draws: int = DRAWS) -> bool:
    """Whether the event is surely likelier on x than (ε, δ) allows, given how often it happens on y."""
    p, q = (sum(map(event, releases(plan, rows, draws))) for rows in (x, y))
    epsilon, delta = plan.allocation.guarantee.epsilon, plan.allocation.guarantee.delta
    return at_least(p, draws) > exp(epsilon) * at_most(q, draws) + delta


def all_at_least(exact: Mapping[Any, tuple[int, ...]]) -> Callable[[NoisyTable], bool]:
    """Every released integer is at least the exact one: as likely as noise allows where the unit is there."""

    def event(table: NoisyTable) -> bool:
        found = zip(table.keys, table.cells, strict=True)
        return all(n >= e for key, cells in found for n, e in zip(cells, exact[key], strict=True))

    return event


def short(plan: Query, factor: int) -> Query:
    """The broken twin: so much less noise at the same price."""
    noises = tuple(
        DiscreteLaplaceNoise(n.scale / factor)
        if isinstance(n, DiscreteLaplaceNoise)
        else RoundedGaussianNoise(n.sigma / factor)
        for n in plan.allocation.noises
        if isinstance(n, DiscreteLaplaceNoise | RoundedGaussianNoise)
    )
    return replace(plan, allocation=replace(plan.allocation, noises=noises))


OTHERS: list[Row] = [{"uid": u, "region": r, "x": 1, "v": 1.0} for u, r in product((5, 6), "ab")]
SOMEBODY: list[Row] = [{"uid": 1, "region": "a", "x": 9, "v": 9.0}] * 3


DOMAIN: dict[str, Fact] = {"x": Range(-3, 3, integer=True), "region": Values("a", "b")}


def small(text: str, relation: Relation, **asked: Any) -> Query:
    t = TableSchema("t", {n: Type(k.value) for n, k in SCHEMA.items()}, DOMAIN, ONE, relation)
    return make_query(text, [t], population="p", version=None, **asked)


@pytest.mark.parametrize("relation", list(Relation))
def test_releases_of_neighbours_are_as_alike_as_promised_and_those_of_a_broken_twin_are_not(relation: Relation) -> None:
    grouped = "SELECT region, COUNT(*), SUM(x) FROM t GROUP BY region"
    plan = small(grouped if relation is Relation.ADD_REMOVE else "SELECT SUM(x) FROM t", relation, epsilon=2)
    with_her = [*OTHERS, *SOMEBODY]
    without = OTHERS if relation is Relation.ADD_REMOVE else [*OTHERS, *({**r, "x": -9} for r in SOMEBODY)]
    event = all_at_least(ENGINE.cells(plan, with_her, SCHEMA))
    assert not leaks(plan, with_her, without, event)
    assert leaks(short(plan, 2), with_her, without, event)


def test_gaussian_releases_are_as_alike_as_promised_and_those_of_a_broken_twin_are_not() -> None:
    plan = small("SELECT COUNT(*), SUM(x) FROM t", Relation.ADD_REMOVE, epsilon=2, delta="1/1000", noise="gaussian")
    (there,) = ENGINE.cells(plan, [*OTHERS, *SOMEBODY], SCHEMA).values()
    (absent,) = ENGINE.cells(plan, OTHERS, SCHEMA).values()
    twin = short(plan, 3)
    rates = [
        (t - a) / float(n.sigma) ** 2
        for t, a, n in zip(there, absent, twin.allocation.noises, strict=True)
        if isinstance(n, RoundedGaussianNoise)
    ]
    middle = sum(w * (t + a) / 2 for w, t, a in zip(rates, there, absent, strict=True))

    def event(table: NoisyTable) -> bool:
        """The twin's own log-likelihood ratio is above ε."""
        return sum(w * n for w, n in zip(rates, table.cells[0], strict=True)) - middle > 2

    assert not leaks(plan, [*OTHERS, *SOMEBODY], OTHERS, event)
    assert leaks(twin, [*OTHERS, *SOMEBODY], OTHERS, event)


def test_a_group_of_one_unit_is_shown_as_seldom_as_promised_and_a_broken_twin_shows_it_too_often() -> None:
    t = TableSchema("t", {n: Type(k.value) for n, k in SCHEMA.items()}, {}, ONE, Relation.ADD_REMOVE)
    text = "SELECT region, COUNT(*) FROM t GROUP BY region"
    plan = make_query(text, [t], population="p", version=None, epsilon=1, delta="1/5")
    her: list[Row] = [{"uid": 1, "region": "c", "x": 1, "v": 1.0}]

    def event(table: NoisyTable) -> bool:
        return ("c",) in table.keys

    assert not leaks(plan, [*OTHERS, *her], OTHERS, event, 3000)
    threshold = plan.allocation.threshold
    assert threshold is not None
    loose = Threshold(threshold.epsilon, threshold.delta * 2, max_groups=threshold.max_groups)
    twin = replace(plan, allocation=replace(plan.allocation, threshold=loose))
    assert leaks(twin, [*OTHERS, *her], OTHERS, event, 3000)


CAPPED = [PrivacyUnit("uid", max_contributions=2), PrivacyUnit("uid", 2, 2, max_contributions=3)]
ORDERED = "hash(u, g0, v0, v1, $secret), g0, v0, v1"


@pytest.mark.sampled(4)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("unit", CAPPED, ids=["alone", "beside others"])
def test_a_cap_on_all_rows_bounds_what_a_unit_moves_whatever_the_hash(
    unit: PrivacyUnit, private: bool, relation: Relation
) -> None:
    plan = planned("region", unit, relation, private=private)
    assert '"unit capped"' in plan.sql
    for query, world in ((plan, LONG), (plan, COUPLE), (colliding(plan), LONG)):
        found = observed(query, world, relation)
        assert all(within(f, s) for f, s in zip(found, plan.sensitivities, strict=False))
        assert not private or within(found[-1], of_units(plan))
        if relation is Relation.ADD_REMOVE and world is LONG:
            assert all(f[2] == s.l1 for f, s in zip(found, plan.sensitivities, strict=False))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(f"QUALIFY row_number() OVER (PARTITION BY u ORDER BY {ORDERED}) <= 2", "", id="no cap"),
        pytest.param(f"{ORDERED}) <= 2", f"{ORDERED}) <= 3", id="one row more"),
        pytest.param("PARTITION BY u ORDER", "PARTITION BY u, g0 ORDER", id="in each group"),
        pytest.param('FROM "unit capped" GROUP', 'FROM "unit rows" GROUP', id="tallies of all rows"),
    ],
)
def test_a_broken_cap_on_all_rows_is_seen(old: str, new: str) -> None:
    plan = planned("region", CAPPED[0], Relation.ADD_REMOVE)
    assert old in plan.sql
    found = observed(replace(plan, sql=plan.sql.replace(old, new)), LONG, Relation.ADD_REMOVE)
    assert not all(within(f, s) for f, s in zip(found, plan.sensitivities, strict=True))
