"""Counts of rows under conditions that overlap: the cells, what is measured of them, and how counts are read."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import exact_leaves, measure
from discreet.engine.release import Release
from discreet.errors import UnsupportedQuery
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.noise.entropy import SystemEntropy
from discreet.plan.explain import explain
from discreet.plan.nodes.node import Measured
from discreet.plan.nodes.of_tree import Within
from discreet.plan.partition import joint as regions
from discreet.plan.partition.joint import condition
from discreet.plan.partition.strategy import PARTS, Layers, _candidates, chosen, squared, weights
from discreet.plan.plan import alone
from discreet.plan.planner import make_query, plan_batch
from discreet.plan.quantile_tree.shape import TreeShape
from discreet.plan.query import Query
from discreet.plan.question import read_question
from discreet.plan.rules import RULES
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.query.expr import Literal, walk
from tests.coverage import covers
from tests.plan.cases import Engine
from tests.reference.expression import Row
from tests.reference.question import Question
from tests.reference.trees import weights as referee_weights
from tests.reference.values import Kind

ENGINE = Engine.open()
SCHEMA = {"uid": Kind.INT, "x": Kind.INT, "v": Kind.REAL, "region": Kind.TEXT, "flag": Kind.BOOL}
FACTS: dict[str, Fact] = {"region": Values("a", "b"), "x": Range(0, 100), "v": Range(0, 10)}
UNITS = [PrivacyUnit("uid", max_groups=1, max_rows=2), PrivacyUnit("uid", max_groups=2, max_rows=3), PrivacyUnit.row()]
ASKED: list[dict[str, Any]] = [{}, {"noise": "gaussian", "delta": "1e-6"}]
CONDITIONS = (
    "x < 3", "x <= 2", "x BETWEEN 1 AND 4", "NOT x < 2", "2 >= x", "x IN (1, 3, 5)", "x <> 2", "x < 2.5", "x >= 2.5",
    "v < 0.5", "v BETWEEN -1 AND 2", "v = 2", "x IS NULL", "x IS NOT NULL AND v > 1", "region = 'a'", "flag",
    "region IN ('b', 'c')", "region <> 'a' OR x > 4", "day < DATE '2020-01-02'", "NOT (flag AND x = 1)",
    "x + 1 < 4", "region LIKE 'a%'", "(x < 3) = flag", "v / x > 1", "x > 3 AND x < 4", "x < 3 OR NULL",
)  # fmt: skip


def table(unit: PrivacyUnit = UNITS[2], relation: Relation = Relation.ADD_REMOVE) -> TableSchema:
    return TableSchema("t", {n: Type(k.value) for n, k in SCHEMA.items()}, dict(FACTS), unit, relation)


def table_with_days() -> TableSchema:
    columns = {**{n: Type(k.value) for n, k in SCHEMA.items()}, "day": Type.DATE}
    return TableSchema("t", columns, dict(FACTS), UNITS[2], Relation.ADD_REMOVE)


def planned(sql: str, unit: PrivacyUnit = UNITS[2], relation: Relation = Relation.ADD_REMOVE, **asked: Any) -> Query:
    options: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1, **asked}
    return make_query(sql, [table(unit, relation)], **options)


def counting(conditions: Any, rest: str = "") -> str:
    return f"SELECT {', '.join(f'COUNT_IF({c}) AS c{i}' for i, c in enumerate(conditions))} FROM t{rest}"


def random_rows(rng: Random, n: int) -> list[Row]:
    return [
        {
            "uid": rng.choice((1, 2, 3, 4, None)),
            "x": rng.choice((0, 1, 2, 3, 4, 5, 99, None)),
            "v": rng.choice((-1.0, 0.0, 0.5, 1.5, 2.0, 2.25, 9.0, None)),
            "region": rng.choice(("a", "b", "c", "ab", None)),
            "flag": rng.choice((True, False, None)),
        }
        for _ in range(n)
    ]


def bound(conditions: Any) -> list[Any]:
    found = []
    for c in conditions:
        (measured,) = read_question(counting([c]), [table_with_days()], None).measures
        found.append(condition(measured))
    return found


def shape_of(plan: Query) -> TreeShape:
    (tree_read,) = [s for s in plan.question.trees if s.shape.layers is not None]
    return tree_read.shape


def counts_of(plan: Query) -> list[Within]:
    return [e for expr in plan.question.outer.expressions for e in walk(expr) if isinstance(e, Within)]


def is_joint(plan: Query) -> bool:
    return bool(counts_of(plan))


def test_a_row_is_in_the_cells_of_exactly_the_conditions_that_it_fulfils() -> None:
    rng = Random(3)
    for _ in range(60):
        named = rng.sample(CONDITIONS, rng.randint(1, 5))
        conditions = bound(named)
        cut = regions.partition(conditions)
        assert cut is not None, named
        for row in random_rows(rng, 40):
            day = rng.choice((dt.date(2020, 1, 1), dt.date(2020, 1, 2), None))
            place = cut.place.of_row({**row, "day": day})
            fulfilled = [c.of_row({**row, "day": day}) is True for c in conditions]
            assert [place in inside for inside in cut.inside] == fulfilled, (named, row)
            assert (place is None) == (not any(fulfilled))


def test_only_cells_that_are_told_apart_are_cells() -> None:
    cut = regions.partition(bound(["x < 3", "x BETWEEN 0 AND 2", "x < 3 AND x <= 2"]))
    assert cut is not None
    assert (cut.cells, cut.inside) == (2, ((0, 1), (1,), (0, 1)))
    disjoint = regions.partition(bound([f"x BETWEEN {a} AND {a + 9}" for a in range(0, 90, 10)]))
    assert disjoint is not None
    assert disjoint.inside == tuple((i,) for i in range(9))


def test_too_many_cells_are_none() -> None:
    assert regions.partition(bound([f"x < {i} AND v < {i}" for i in range(40)])) is None
    assert regions.partition([Literal(True, Type.BOOL)]) is None
    assert regions.partition(bound([f"x < {i}" for i in range(regions.MOST_CELLS)])) is not None
    assert regions.partition(bound([f"x < {i}" for i in range(regions.MOST_CELLS + 1)])) is None


def random_counts(rng: Random, cells: int, n: int) -> list[tuple[int, ...]]:
    if rng.random() < 0.3:
        return [tuple(range(rng.randint(1, cells))) for _ in range(n)]
    ends = [sorted(rng.sample(range(cells + 1), 2)) for _ in range(n)]
    return [tuple(range(a, b)) for a, b in ends]


def sums(layers: Layers, count: tuple[int, ...]) -> dict[int, Fraction]:
    found: dict[int, Fraction] = {}
    for level, place, w in weights(layers, count):
        for cell in layers[level][place]:
            found[cell] = found.get(cell, Fraction(0)) + Fraction(w, PARTS)
    return {cell: w for cell, w in found.items() if w}


@pytest.mark.exhaustive
def test_every_estimate_is_unbiased_and_nearly_that_of_least_squares() -> None:
    rng = Random(5)
    for cells, n in ((2, 2), (5, 4), (17, 9), (60, 25)):
        counts = random_counts(rng, cells, n)
        for layers in _candidates(counts, cells):
            for layer in layers:
                below = [c for node in layer for c in node]
                assert len(below) == len(set(below))
            matrix = np.array([[float(c in node) for c in range(cells)] for layer in layers for node in layer])
            inverse = np.linalg.pinv(matrix.T @ matrix)
            for count in counts:
                assert sums(layers, count) == dict.fromkeys(count, Fraction(1))
                wanted = np.isin(np.arange(cells), count).astype(float)
                best = float(wanted @ inverse @ wanted)
                least = squared(weights(layers, count))
                assert least >= best - 1e-9
                if len(layers[0]) == cells:
                    assert least <= best * (1.02 + 0.03 * len(layers))


@pytest.mark.exhaustive
@pytest.mark.parametrize("gaussian", [False, True])
def test_no_count_has_more_noise_than_its_own_part_would_give_it(gaussian: bool) -> None:
    """Of the worst possible move of a layer: with cells alone, wide counts among many would have more."""
    rng, better = Random(8), 0
    for _ in range(60):
        counts = sorted(set(random_counts(rng, rng.randint(2, 40), rng.randint(2, 30))))
        cells = 1 + max(c for count in counts for c in count)
        for moved in ((1.0, 1.0), (2.0, 2.0)):
            layers = chosen(counts, cells, moved, gaussian=gaussian)
            if layers is None:
                continue
            better += 1
            part = len(layers) / len(counts)
            cost = moved[1] * part if gaussian else (moved[0] * part) ** 2
            found = [squared(weights(layers, count)) * cost for count in counts]
            assert max(found) <= 1 + 1e-9
            assert np.mean(np.log(found)) < math.log(0.951)
    assert better > 60
    wide = [tuple(range(9)), *((i,) for i in range(0, 9, 2))]
    alone = squared(weights((tuple((i,) for i in range(9)),), wide[0])) / len(wide)
    layers = chosen(wide, 9, (1.0, 1.0), gaussian=True)
    assert alone > 1 and layers is not None and len(layers) > 1


RANGES = [f"x < {i}" for i in range(1, 8)]
QUESTIONS = {
    "prefixes": counting(RANGES),
    "by group": counting(RANGES, " GROUP BY region"),
    "beside others": f"{counting(RANGES)[:-7]}, SUM(v), AVG(v), COUNT(DISTINCT uid) FROM t".replace(
        "SELECT", "SELECT COUNT(*) AS n,"
    ),
    "two columns": counting(["x < 30", "region = 'a'", "x < 30 AND region = 'a'"]),
}


@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_with_many_counts_has_less_noise_in_each_and_no_more_elsewhere(
    name: str, asked: dict[str, Any]
) -> None:
    unit = UNITS[2]
    sql = QUESTIONS[name].replace(", COUNT(DISTINCT uid)", "")
    plan = planned(sql, unit, **asked)
    assert is_joint(plan)
    question = read_question(sql, [table(unit)], None)
    m = len(question.measures)
    for (_, now), (_, before) in zip(plan.question.outer.columns, question.outer.columns, strict=True):
        if not isinstance(before, Measured):
            continue
        moved = question.measures[before.index].span(unit.max_rows or 1)[1]
        k = min(unit.max_groups or 1, question.keys.count or 1)
        alone = DiscreteLaplaceNoise(Fraction(m * moved * k)).variance
        if asked:
            (event, _), *_ = planned("SELECT COUNT(*) FROM t", unit, **asked).allocation.events.parts
            alone = m * moved**2 * k / float(event.mu_squared or 0)
        if isinstance(now, Within):
            assert now.noise_variance(plan.laws) <= alone * 1.001
        else:
            variance, step = now.noise_variance(plan.laws), float(before.step)
            assert variance is not None and variance <= alone * step**2 * 1.001


def test_what_is_measured_alone_stays_so() -> None:
    assert not is_joint(planned("SELECT COUNT_IF(x < 3) FROM t", UNITS[0]))
    for unit in UNITS[:2]:  # what counts of a person's rows must not follow from what else is asked
        assert not is_joint(planned(counting(RANGES), unit))
    assert is_joint(planned("SELECT COUNT(*), COUNT_IF(x < 3) FROM t", UNITS[2]))
    assert not is_joint(planned("SELECT COUNT_IF(x < 3), COUNT_IF(x > 3 AND x < 4) FROM t"))
    assert not is_joint(planned(counting(RANGES, " GROUP BY ROLLUP (region)"), UNITS[0]))
    assert not is_joint(planned("SELECT AVG(x), COUNT(x), COUNT(*) FROM t"))
    nested = ["x < 9", "x < 6"]
    assert is_joint(planned(counting(nested), UNITS[2]))
    assert not is_joint(planned(counting(nested), UNITS[2], Relation.REPLACE))  # apart each moves by one row, not two


def test_beside_a_quantile_that_is_chosen_by_rank_nothing_is_counted_jointly() -> None:
    plan = planned(f"{counting(RANGES)[:-7]}, MEDIAN(v) FROM t")
    assert is_joint(plan) == all(hasattr(z, "variance") for z in plan.allocation.trees)


def test_leaves_are_those_of_the_referee() -> None:
    """Rows of no cell are not counted."""
    rng, unit = Random(1), UNITS[2]
    for named in (RANGES, CONDITIONS[:3], CONDITIONS[9:12], ("region = 'a'", "x < 3", "flag")):
        plan = planned(counting(named), unit)
        if not is_joint(plan):
            continue
        place = shape_of(plan).value.expr

        def leaf(row: Row, place: Any = place) -> int | None:
            found = place.of_row(row)
            assert found is None or isinstance(found, int)
            return found

        asked = Question((), unit=None, max_groups=1, max_rows=1)
        for _ in range(10):
            rows = random_rows(rng, rng.randint(0, 30))
            ENGINE.fill(rows, SCHEMA)
            (leaves,) = exact_leaves(plan, 0, ENGINE.run).values() or [None]
            found = {} if leaves is None else dict(zip(leaves.leaves, np.diff(leaves.before), strict=True))
            truth = referee_weights(rows, asked, leaf, lambda _u, _g: 0)[()]
            assert found == {k: w for k, w in truth.items() if w}


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_with_hardly_any_noise_counts_are_those_of_the_rows(asked: dict[str, Any]) -> None:
    rng = Random(2)
    named = ("x < 3", "x BETWEEN 1 AND 4", "x <> 2", "x < 2.5" if asked else "v < 0.5")
    sql = counting(named).replace(" FROM", f", COUNT_IF(x < 3) - 2 * COUNT_IF({named[3]}) + 1 AS d, COUNT(*) AS n FROM")
    plan = planned(sql, **asked)
    assert is_joint(plan)
    tiny = Fraction(1, 100)  # with which each count would have a column of its own
    least = RoundedGaussianNoise(tiny) if asked else DiscreteLaplaceNoise(tiny)
    plan = replace(plan, allocation=replace(plan.allocation, trees=(least,)))
    for _ in range(10):
        rows = random_rows(rng, 40)
        ENGINE.fill(rows, SCHEMA)
        release = Release(alone(plan, "p"), measure(plan, ENGINE.run, SystemEntropy()))
        truth = [sum(c.of_row(row) is True for row in rows) for c in bound(named)]
        assert release.rows == [(*truth, truth[0] - 2 * truth[3] + 1, len(rows))]
        assert release.interval("d") == [(pytest.approx(release.rows[0][4], abs=0.3),) * 2]


@pytest.mark.laws
@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_intervals_of_counts_hold_as_often_as_they_say(asked: dict[str, Any]) -> None:
    """Of each count and of sums of counts; half an interval, the broken twin, holds less often."""
    sql = counting([f"x < {i}" for i in range(1, 31, 2)]).replace(
        " FROM", ", COUNT_IF(x < 21) - COUNT_IF(x < 7) AS d FROM"
    )
    plan = planned(sql, **asked)
    ENGINE.fill([], SCHEMA)
    held = np.zeros((16, 2))
    n = 150
    for _ in range(n):
        release = Release(alone(plan, "p"), measure(plan, ENGINE.run, SystemEntropy()))
        for i, name in enumerate(release.columns):
            ((low, high),) = release.interval(name)
            x, t = (low + high) / 2, (high - low) / 2
            held[i] += abs(x) <= t, abs(x) <= t / 2
            assert t <= plan.error(name) + 1e-6
    assert all(covers(hits, n, 0.95) for hits in held[:, 0])
    assert not any(covers(hits, n, 0.95) for hits in held[:, 1])


def test_a_difference_of_counts_has_the_noise_of_what_lies_between() -> None:
    plan = planned("SELECT COUNT_IF(x < 9) AS a, COUNT_IF(x < 3) AS b, COUNT_IF(x < 9) - COUNT_IF(x < 3) AS d FROM t")
    assert shape_of(plan).layers == (((0,), (1,)),)
    (noise,) = plan.allocation.trees
    assert isinstance(noise, DiscreteLaplaceNoise)
    assert plan.error("d") == plan.error("b") == noise.quantile(Fraction(19, 20)) < plan.error("a")


def test_counts_are_made_non_negative_ordered_and_filtered() -> None:
    ENGINE.fill([], SCHEMA)
    plan = planned(
        counting(RANGES, " GROUP BY region HAVING COUNT_IF(x < 3) > -1000 ORDER BY c2 DESC").replace(
            "SELECT", "SELECT region,"
        )
    )
    assert is_joint(plan)
    below = False
    for _ in range(20):
        release = Release(alone(plan, "p"), measure(plan, ENGINE.run, SystemEntropy()))
        assert [row[3] for row in release.rows] == sorted((row[3] for row in release.rows), reverse=True)
        below = below or any(x < 0 for row in release.rows for x in row[1:])
        raised = release.nonnegative()
        assert all(x >= 0 for row in raised.rows for x in row[1:])
        for name in raised.columns[1:]:
            for low, high in raised.interval(name):
                assert 0 <= low <= high
    assert below


def test_errors_that_combine_counts_can_be_assumed() -> None:
    plan = planned(
        "SELECT COUNT_IF(x < 9) AS a, COUNT_IF(x < 3) AS b, 100.0 * COUNT_IF(x < 3) / COUNT_IF(x < 9) AS p FROM t"
    )
    assert is_joint(plan)
    assert 0 < plan.error("p", assuming={"a": 1000, "b": 500}) < 5
    explained = explain(plan, "")
    assert "least squares" in explained and "standard deviation" in explained


def test_nodes_of_a_level_that_overlap_are_refused() -> None:
    from discreet.errors import InvalidParameter

    shape = shape_of(planned(counting(RANGES)))
    assert shape.layers is not None
    with pytest.raises(InvalidParameter, match="apart"):
        replace(shape, layers=(((0, 1), (1,)), *shape.layers[1:]))
    with pytest.raises(InvalidParameter, match="each level"):
        replace(shape, depth=shape.depth + 1)


WHERE = {f"below {i}": f"SELECT COUNT(*) AS n FROM t WHERE x < {10 * i}" for i in range(1, 11)}


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_questions_of_a_batch_that_count_rows_of_one_table_are_read_from_one_partition(asked: dict[str, Any]) -> None:
    unit = UNITS[2]
    others = {"sum": "SELECT SUM(v) AS s FROM t", "group": "SELECT region, COUNT(*) AS n FROM t GROUP BY region"}
    options: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1, **asked}
    batch = plan_batch({**WHERE, **others}, [table(unit)], **options)
    m = len(batch.outputs)
    part = {"epsilon": Fraction(1, m), "delta": Fraction(options.get("delta", 0)) / m}
    gains = []
    for name, output in batch.outputs.items():
        plan = output.query
        apart = planned({**WHERE, **others}[name], unit, **{**asked, **part}).allocation.noises[0].variance
        assert output.alone is not None
        if name in WHERE:
            (count,) = counts_of(plan)
            assert count.noise_variance(plan.laws) <= apart * 1.001
            gains.append(count.noise_variance(plan.laws) / apart)
            assert "an even part of the batch" in batch.explain(name)
        else:
            assert plan.allocation.noises[0].variance <= apart * 1.001
    assert np.mean(gains) < (0.6 if asked else 0.1)
    measured = [p for p in batch.measurements if any(s.shape.layers for s in p.question.trees)]
    assert len(measured) == 1


def test_questions_about_people_with_many_rows_are_not_counted_jointly() -> None:
    options: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1}

    def joint(questions: dict[str, str], unit: PrivacyUnit) -> set[bool]:
        planned = plan_batch(questions, [table(unit)], **options)
        return {is_joint(output.query) for output in planned.outputs.values()}

    by_group = {n: f"{q} GROUP BY region" for n, q in WHERE.items()}
    assert joint(by_group, UNITS[1]) == {False}
    assert joint(by_group, UNITS[2]) == {True}
    assert joint(WHERE, UNITS[0]) == {False}
    people = {n: q.replace("COUNT(*)", "COUNT(DISTINCT uid)") for n, q in WHERE.items()}
    assert joint(people, UNITS[1]) == {False}


SUMS = {
    "a sum": " + ".join(f"COUNT_IF(x < {i})" for i in range(1, 7)),
    "a sum in a ratio": "(" + " + ".join(f"COUNT_IF(x < {i})" for i in range(1, 7)) + ") / COUNT_IF(v < 2)",
    "beside another column": " + ".join(["COUNT_IF(x < 1)", "SUM(v)", "COUNT_IF(x < 4)"]),
}


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("rest", ["", " HAVING {} > 3", " ORDER BY {}"])
@pytest.mark.parametrize("name", SUMS)
def test_a_sum_of_counts_has_no_more_noise_than_apart(name: str, rest: str, asked: dict[str, Any]) -> None:
    """Counts that are read from the same sums share their noise, which adds up where columns' would not."""
    read = counting(RANGES) if rest else f"SELECT {SUMS[name]} AS s, COUNT_IF(x < 3) AS c FROM t"
    sql = read + rest.format(SUMS[name])
    plan = planned(sql, **asked)
    other = make_query(sql, [table()], population="p", version=None, epsilon=1, rules=(), **asked)
    if asked or name == "beside another column":
        assert not is_joint(plan)
    for column in plan.columns:
        if name == "a sum" or rest or column == "c":
            assert plan.error(column) <= other.error(column) * 1.001


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("n", [2, 10, 40])
def test_rounding_is_part_of_the_error(n: int, asked: dict[str, Any]) -> None:
    joint, sql = 0, counting([f"x < {i}" for i in range(1, n + 1)])
    for epsilon in ("0.1", "1", "8", "30"):
        plan, other = (
            make_query(sql, [table()], population="p", version=None, epsilon=epsilon, rules=rules, **asked)
            for rules in (RULES, ())
        )
        joint += is_joint(plan)
        for column in plan.columns:
            assert plan.error(column) <= other.error(column) * 1.001
    assert joint >= 2


def test_the_same_batch_is_the_same_measurement_in_any_order() -> None:
    options: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1}
    turned = dict(reversed(list(WHERE.items())))
    assert plan_batch(WHERE, [table()], **options).identity == plan_batch(turned, [table()], **options).identity


def test_totals_keep_refusing_what_does_not_add_up() -> None:
    with pytest.raises(UnsupportedQuery):
        planned("SELECT COUNT(DISTINCT uid) FROM t GROUP BY ROLLUP (region)", UNITS[0])


@pytest.mark.exhaustive
def test_noise_of_both_kinds_is_on_every_level() -> None:
    for asked, law in zip(ASKED, (DiscreteLaplaceNoise, RoundedGaussianNoise), strict=True):
        plan = planned(counting([f"x < {i}" for i in range(1, 60)]), **asked)
        (noise,) = plan.allocation.trees
        assert isinstance(noise, law)
        assert shape_of(plan).depth > 1
        table_ = measure(plan, lambda _sql: [], SystemEntropy())
        (families,) = itertools.chain.from_iterable(table_.trees)
        layers = shape_of(plan).layers
        assert layers is not None
        assert {at: len(w) for at, w in families.items()} == {(i, 0): len(x) for i, x in enumerate(layers)}
