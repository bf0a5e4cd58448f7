"""The SQL of trees: against plain Python, how far it moves between neighbours, and what its second reader refuses."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import exact_leaves
from discreet.errors import InternalError
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.planner import make_query
from discreet.plan.quantile_tree.shape import STEPS
from discreet.plan.quantile_tree.tree import ExactLeaves
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.verify.derive import PrivateRows
from discreet.verify.quantile_tree import derive_tree
from tests.plan.cases import Engine
from tests.plan.claims import check
from tests.reference.expression import Row
from tests.reference.values import Kind
from tests.reference.worlds import Table, World

ENGINE = Engine.open()
SCHEMA = {"uid": Kind.INT, "region": Kind.TEXT, "x": Kind.INT, "v": Kind.REAL}
FACTS: dict[str, Fact] = {"x": Range(0, 3, integer=True), "v": Range(0, 8), "region": Values("a", "b", "c")}
ONE = PrivacyUnit("uid", max_groups=1, max_rows=2)
TWO = PrivacyUnit("uid", max_groups=2, max_rows=1)
ROW = PrivacyUnit.row()


def planned(text: str, unit: PrivacyUnit, relation: Relation, *, private: bool = False, **asked: Any) -> Query:
    facts = {n: f for n, f in FACTS.items() if not private or n != "region"}
    t = TableSchema("t", {n: Type(k.value) for n, k in SCHEMA.items()}, facts, unit, relation)
    options = {"population": "p", "version": None, "epsilon": 1, "delta": "1e-6" if private else 0, **asked}
    return make_query(text, [t], **options)


def leaves(plan: Query, rows: list[Row], place: int = 0) -> dict[tuple[Any, ...], dict[int, int]]:
    """Group → leaf → weight, by running the SQL."""
    ENGINE.fill(rows, SCHEMA)
    return {k: plain(e) for k, e in exact_leaves(plan, place, ENGINE.run).items()}


def plain(e: ExactLeaves) -> dict[int, int]:
    return {leaf: b - a for leaf, a, b in zip(e.leaves, e.before, e.before[1:], strict=False)}


GROUPED = "SELECT region, MEDIAN(x) FROM t GROUP BY region"
WHOLE = "SELECT MEDIAN(x) FROM t"


def test_weights_are_what_plain_counting_gives() -> None:
    unit = PrivacyUnit("uid", max_groups=3, max_rows=3)
    rows: list[Row] = []
    for u in range(1, 6):
        for i in range(3 * u):
            x = None if i % 7 == 6 else (i * u) % 6 - 1  # some beyond their bounds
            rows.append({"uid": u, "region": "abcd"[(i + u) % 4], "x": x, "v": float(i)})
    rows.append({"uid": None, "region": "a", "x": 1, "v": 1.0})
    known: dict[tuple[Any, str], list[int]] = defaultdict(list)
    for r in rows:
        if r["uid"] is not None and r["region"] in ("a", "b", "c") and r["x"] is not None:
            known[r["uid"], str(r["region"])].append(min(max(int(r["x"]), 0), 3))
    expected: dict[tuple[str, int], int] = Counter()
    for (_, region), xs in known.items():
        for x in xs:
            expected[region, x] += 3 * STEPS // max(len(xs), 3)
    found = leaves(planned(GROUPED, unit, Relation.ADD_REMOVE), rows)
    assert {(k[0], leaf): w for k, ws in found.items() for leaf, w in ws.items()} == expected
    assert max(len(xs) for xs in known.values()) > 3


def test_a_tree_of_reals_has_each_value_in_the_part_that_holds_it() -> None:
    plan = planned("SELECT MEDIAN(v) FROM t", ROW, Relation.ADD_REMOVE)
    shape = plan.question.trees[0].shape
    values = [0.0, -5.0, 8.0, 99.0, 3.25, 7.999, 1e-9, None, float("nan"), float("inf")]
    rows: list[Row] = [{"uid": 0, "region": "a", "x": 0, "v": v} for v in values]
    found = leaves(plan, rows)[()]
    kept = [min(max(v, 0.0), 8.0) for v in values[:7] if v is not None]
    expected = Counter(int(round(v / float(shape.value.step)) - shape.value.low) // shape.width for v in kept)
    assert found == expected
    for v in kept:
        leaf = round(v / float(shape.value.step)) // shape.width
        low, high = shape.reach(leaf, leaf)
        assert low - 1e-8 <= v <= high + 1e-8
        assert abs(shape.at(leaf, Type.REAL) - v) <= 8 / 65_000  # type: ignore[operator]


def test_listed_values_are_leaves_and_others_are_not_counted() -> None:
    t = TableSchema(
        "t",
        {n: Type(k.value) for n, k in SCHEMA.items()},
        {"region": Values("c", "a", None), "v": Values(2.5, 0.5)},
        ROW,
        Relation.ADD_REMOVE,
    )
    plan = make_query("SELECT MODE(region), MAX(v) FROM t", [t], population="p", version=None, epsilon=1)
    rows: list[Row] = [
        {"uid": 0, "region": r, "x": 0, "v": v}
        for r, v in (("a", 0.5), ("a", 1.0), ("z", 2.5), (None, None), ("c", 2.5))
    ]
    by_list = {s.shape.listed: leaves(plan, rows, i)[()] for i, s in enumerate(plan.question.trees)}
    assert by_list == {("a", "c"): {0: 2, 1: 1}, (0.5, 2.5): {0: 1, 1: 2}}


ROWS: tuple[Row, ...] = tuple(
    {"region": region, "x": x, "v": 0.0} for region in ("a", "b", "c") for x in (0, 9)
)  # 9 is clamped to 3, the far leaf
SHORT = World((*ROWS[:4], {"region": "a", "x": None, "v": 0.0}), units=(1,), max_rows_per_unit=3, unit="uid")
LONG = World(ROWS, units=(1,), max_rows_per_unit=2, unit="uid")
COUPLE = World(ROWS[:3], units=(1, 2), max_rows_per_unit=2, unit="uid", max_units=2)
ROW_WORLD = World(ROWS, units=(1, 2))
CASES = [
    pytest.param(WHOLE, ONE, SHORT, False, id="whole"),
    pytest.param(GROUPED, ONE, SHORT, False, id="declared groups"),
    pytest.param(GROUPED, ONE, SHORT, True, id="private groups"),
    pytest.param(GROUPED, TWO, LONG, False, id="two declared groups"),
    pytest.param(GROUPED, TWO, LONG, True, id="two private groups"),
    pytest.param(GROUPED, ONE, COUPLE, False, id="people together"),
    pytest.param(GROUPED, ROW, ROW_WORLD, False, id="rows in declared groups"),
    pytest.param(GROUPED, ROW, ROW_WORLD, True, id="rows in private groups"),
]


def norms(moves: Iterable[list[int]]) -> tuple[int, int, int, int]:
    best = [0, 0, 0, 0]
    for move in moves:
        d = [x for x in move if x]
        size = (len(d), max(map(abs, d), default=0), sum(map(abs, d)), sum(x * x for x in d))
        best = [max(a, b) for a, b in zip(best, size, strict=True)]
    return best[0], best[1], best[2], best[3]


def level_moves(plan: Query, world: World, relation: Relation, level: int) -> list[list[int]]:
    """How a level of all trees moves, for every pair of neighbours in the world, by running the SQL on both."""
    shape = plan.question.trees[0].shape

    def nodes(table: Table) -> dict[tuple[Any, ...], int]:
        rows = [{**r, "uid": 0} if world.unit is None else r for r in world.rows(table)]
        ENGINE.fill(rows, SCHEMA)
        found: dict[tuple[Any, ...], int] = {}
        for key, exact in exact_leaves(plan, 0, ENGINE.run).items():
            for place in range(shape.fanout**level):
                for i, w in enumerate(exact.sums(shape, level, place)):
                    found[key, place, i] = w
        return found

    cells = {t: nodes(t) for t in world.tables(relation)}
    return [
        [cells[n].get(k, 0) - c.get(k, 0) for k in {**c, **cells[n]}]
        for t, c in cells.items()
        for n in world.neighbours(t, relation)
    ]


@pytest.mark.thinned(3)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(("text", "unit", "world", "private"), CASES)
def test_no_unit_moves_a_level_further_than_planned_and_some_unit_moves_it_as_far(
    text: str, unit: PrivacyUnit, world: World, private: bool, relation: Relation
) -> None:
    plan = planned(text, unit, relation, private=private)
    (planned_for, _), found = plan.trees[0], norms(level_moves(plan, world, relation, 0))
    allowed = (planned_for.l0, planned_for.linf, planned_for.l1, planned_for.l2_squared)
    assert all(f <= a for f, a in zip(found, allowed, strict=True))
    if world is COUPLE or (private and unit is TWO and relation is Relation.REPLACE):
        return  # too small a world to reach it
    assert found[1:] == allowed[1:]  # of ℓ0 there is only a bound


def test_every_level_of_a_deeper_tree_moves_no_further() -> None:
    t = {"x": Range(0, 80, integer=True), "region": FACTS["region"]}
    schema = TableSchema("t", {n: Type(k.value) for n, k in SCHEMA.items()}, t, TWO, Relation.REPLACE)
    plan = make_query(GROUPED, [schema], population="p", version=None, epsilon=1)
    shape, (allowed, _) = plan.question.trees[0].shape, plan.trees[0]
    assert shape.depth == 2
    rows: tuple[Row, ...] = tuple({"region": r, "x": x, "v": 0.0} for r in ("a", "b") for x in (0, 5, 79))
    world = World(rows, units=(1,), max_rows_per_unit=2, unit="uid")
    for level in range(2):
        assert norms(level_moves(plan, world, Relation.REPLACE, level))[1:] == (
            allowed.linf,
            allowed.l1,
            allowed.l2_squared,
        )


UNIT_TEXT = planned(GROUPED, ONE, Relation.ADD_REMOVE)
PRIVATE_TEXT = planned(GROUPED, ONE, Relation.ADD_REMOVE, private=True)
ROW_TEXT = planned(GROUPED, ROW, Relation.ADD_REMOVE)
HASH = "hash(u, g0, $secret)"
MUTANTS = [
    (UNIT_TEXT, "no ranking", f"QUALIFY row_number() OVER (PARTITION BY u ORDER BY {HASH}, g0) <= 1", ""),
    (UNIT_TEXT, "one group more", "<= 1\n)", "<= 2\n)"),
    (UNIT_TEXT, "a rank that repeats", "row_number()", "rank()"),
    (UNIT_TEXT, "a key left out of the order", f"{HASH}, g0)", f"{HASH})"),
    (UNIT_TEXT, "a heavier row", "2097152 // greatest", "4194304 // greatest"),
    (UNIT_TEXT, "a weight that does not shrink", "2097152 // greatest(n_v0, 2) AS w", "1048576 AS w"),
    (UNIT_TEXT, "the least instead of the greatest", "// greatest(n_v0, 2)", "// least(n_v0, 2)"),
    (UNIT_TEXT, "another count", "greatest(n_v0, 2)", "greatest(length(CAST(u AS VARCHAR)), 2)"),
    (UNIT_TEXT, "a divisor of 0", "greatest(n_v0, 2)", "greatest(n_v0, 0)"),
    (UNIT_TEXT, "a count of other rows", "count(v0) AS n_v0", "count(u) AS n_v0"),
    (UNIT_TEXT, "a count of distinct values", "count(v0) AS n_v0", "count(DISTINCT v0) AS n_v0"),
    (UNIT_TEXT, "a filtered count", "count(v0) AS n_v0", "count(v0) FILTER (WHERE v0 > 0) AS n_v0"),
    (UNIT_TEXT, "rows of everybody", "ON r.u = w.u AND r.g0 = w.g0", "ON r.g0 = w.g0"),
    (UNIT_TEXT, "rows of other groups", "ON r.u = w.u AND r.g0 = w.g0", "ON r.u = w.u"),
    (UNIT_TEXT, "an inequality", "r.g0 = w.g0", "r.g0 <= w.g0"),
    (UNIT_TEXT, "a join that keeps all", ' JOIN "unit weights"', ' LEFT JOIN "unit weights"'),
    (UNIT_TEXT, "rows without a value", "WHERE r.v0 IS NOT NULL", ""),
    (UNIT_TEXT, "another condition", "WHERE r.v0 IS NOT NULL", "WHERE r.u IS NOT NULL"),
    (UNIT_TEXT, "squares", "sum(w.w)", "sum(w.w * w.w)"),
    (UNIT_TEXT, "a sum of something else", "sum(w.w)", "sum(r.v0)"),
    (UNIT_TEXT, "distinct weights", "sum(w.w)", "sum(DISTINCT w.w)"),
    (UNIT_TEXT, "leaves by unit", "AS b,", "+ 0 * r.u AS b,"),
    (UNIT_TEXT, "the unit as a leaf", "CAST((r.v0 - CAST(0", "CAST((r.u - CAST(0"),
    (UNIT_TEXT, "a leaf beyond its kind", 'least(greatest(s."x", 0), 3)', 'least(greatest(s."x", 0), 256)'),
    (UNIT_TEXT, "a leaf of a kind with a sign", "AS UTINYINT) AS b", "AS TINYINT) AS b"),
    (UNIT_TEXT, "a leaf that turns into NULL", "CAST((r.v0", "TRY_CAST((r.v0"),
    (UNIT_TEXT, "a cast that fails on a row", "AS v0\n", 'AS v0, CAST(s."x" AS UTINYINT) AS z\n'),
    (UNIT_TEXT, "a cast of that name elsewhere", "AS v0\n", 'AS v0, CAST(s."x" AS UTINYINT) AS b\n'),
    (UNIT_TEXT, "grouped by less", "GROUP BY r.g0, b", "GROUP BY ALL"),
    (UNIT_TEXT, "a limit", "GROUP BY r.g0, b", "GROUP BY r.g0, b LIMIT 1"),
    (UNIT_TEXT, "a filter on exact sums", "GROUP BY r.g0, b", "GROUP BY r.g0, b HAVING sum(w.w) > 5"),
    (UNIT_TEXT, "an order of exact sums", "GROUP BY r.g0, b", "GROUP BY r.g0, b ORDER BY sum(w.w)"),
    (UNIT_TEXT, "another unit", 's."uid" AS u', 's."x" AS u'),
    (UNIT_TEXT, "rows of nobody", ' WHERE s."uid" IS NOT NULL', ""),
    (UNIT_TEXT, "an unbounded value", 'least(greatest(s."x", 0), 3)', 's."x"'),
    (UNIT_TEXT, "a value of others", 'AS v0\n', 'AS v0, (SELECT max(x) FROM main.t) AS z\n'),
    (UNIT_TEXT, "another table", 'main."t" s', "main.people s"),
    (UNIT_TEXT, "the data twice", 'FROM "unit rows" r', 'FROM "unit rows" r CROSS JOIN "unit rows" q'),
    (PRIVATE_TEXT, "a key that is the row", "SELECT r.g0 AS g0", "SELECT r.u AS g0"),
    (PRIVATE_TEXT, "no ranking", f"QUALIFY row_number() OVER (PARTITION BY u ORDER BY {HASH}, g0) <= 1", ""),
    (ROW_TEXT, "a heavier row", "count(*)", "2 * count(*)"),
    (ROW_TEXT, "a sum of values", "count(*)", "sum(r.v0)"),
    (ROW_TEXT, "a key that matches twice", 's."region" = k0.v', 's."region" <= k0.v'),
    (ROW_TEXT, "the rows twice", 'FROM "unit rows" r', 'FROM "unit rows" r CROSS JOIN "unit rows" q'),
    (ROW_TEXT, "a limit", "GROUP BY r.g0, b", "GROUP BY r.g0, b LIMIT 1"),
]  # fmt: skip


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("unit", [ONE, TWO, ROW], ids=repr)
@pytest.mark.parametrize("private", [False, True])
def test_what_the_writer_writes_is_accepted(unit: PrivacyUnit, private: bool, relation: Relation) -> None:
    for noise in ("laplace", "gaussian"):
        delta = "1e-6" if private or noise == "gaussian" else 0
        plan = planned(GROUPED, unit, relation, private=private, noise=noise, delta=delta)
        check(plan.sql, plan)
        leaves(plan, [])


def test_a_leaf_is_read_only_as_a_kind_that_holds_it() -> None:
    ((_, text),) = UNIT_TEXT.trees
    bound, source = 'least(greatest(s."x", 0), 3)', PrivateRows("t", frozenset(SCHEMA), "uid")
    for most, kind, is_held in ((255, "UTINYINT", True), (256, "UTINYINT", False), (256, "USMALLINT", True),
                                (65_535, "USMALLINT", True), (65_536, "USMALLINT", False)):  # fmt: skip
        changed = text.replace(bound, bound.replace("3)", f"{most})")).replace("UTINYINT", kind)
        if is_held:
            assert derive_tree(changed, source).leaves == most + 1
        else:
            with pytest.raises(InternalError, match="what the leaves are"):
                derive_tree(changed, source)


@pytest.mark.parametrize(("plan", "old", "new"), [pytest.param(p, o, n, id=what) for p, what, o, n in MUTANTS])
def test_no_changed_text_is_accepted(plan: Query, old: str, new: str) -> None:
    ((moves, text),) = plan.trees
    assert old in text
    with pytest.raises(InternalError):
        check(plan.sql, replace(plan, trees=((moves, text.replace(old, new)),)))


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("text", [WHOLE, GROUPED, "SELECT region, MAX(v), COUNT(*) FROM t GROUP BY region"])
def test_a_tree_with_less_noise_than_it_needs_is_refused(text: str, noise: str, relation: Relation) -> None:
    for unit in (ONE, ROW):
        plan = planned(text, unit, relation, noise=noise, delta="1e-6" if noise == "gaussian" else 0)
        (law,) = plan.allocation.trees
        assert isinstance(law, DiscreteLaplaceNoise | RoundedGaussianNoise)
        less = Fraction(999, 1000)
        short = (
            DiscreteLaplaceNoise(law.scale * less)
            if isinstance(law, DiscreteLaplaceNoise)
            else RoundedGaussianNoise(law.sigma * less)
        )
        with pytest.raises(InternalError):
            check(plan.sql, replace(plan, allocation=replace(plan.allocation, trees=(short,))))


def test_a_tree_or_its_noise_that_is_missing_is_refused() -> None:
    plan = UNIT_TEXT
    for broken in (
        replace(plan, trees=()),
        replace(plan, allocation=replace(plan.allocation, trees=())),
        replace(plan, trees=plan.trees * 2),
    ):
        with pytest.raises(InternalError):
            check(broken.sql, broken)
