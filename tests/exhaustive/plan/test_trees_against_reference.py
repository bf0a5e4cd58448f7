"""Histograms, commonest values and lists of quantiles: exact leaves, and answers, against the referee."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import pytest

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import exact_leaves, measure
from discreet.engine.release import Release
from discreet.noise.entropy import SystemEntropy
from discreet.plan.plan import alone
from discreet.plan.planner import make_query
from discreet.plan.quantile_tree.tree import ExactLeaves
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.plan.cases import Engine
from tests.reference.expression import Column, Row
from tests.reference.question import Key, Question, combinations
from tests.reference.trees import bin_of, commonest, quantile, weights
from tests.reference.values import Kind

ENGINE = Engine.open()
SCHEMA = {"uid": Kind.INT, "region": Kind.TEXT, "x": Kind.INT, "v": Kind.REAL}
FACTS: dict[str, Fact] = {"x": Range(0, 5, integer=True), "v": Range(-4, 8), "region": Values("a", "b", "c")}
ENDS = [Fraction(-1), Fraction(0), Fraction(5, 2), Fraction(4)]
TEXT = """SELECT region, HISTOGRAM(x) AS h, HISTOGRAM(v, [4, -1, 0, 2.5]) AS b, APPROX_TOP_K(x, 3) AS k,
    QUANTILE_DISC(x, [0, 0.25, 0.5, 1]) AS q, COUNT(*) AS n FROM t GROUP BY region"""


def random_rows(rng: Random) -> list[Row]:
    return [
        {
            "uid": rng.choice((1, 2, 3, 4, None)),
            "region": rng.choice(("a", "b", "c", "d", None)),
            "x": rng.choice((-7, 0, 1, 2, 3, 5, 99, None)),
            "v": rng.choice((-9.0, -1.0, -0.5, 0.0, 2.5, 2.75, 4.0, 7.0, 99.0, None)),
        }
        for _ in range(rng.randint(0, 40))
    ]


def planned(unit: PrivacyUnit, epsilon: int = 1) -> Query:
    table = TableSchema("t", {n: Type(k.value) for n, k in SCHEMA.items()}, FACTS, unit, Relation.ADD_REMOVE)
    return make_query(TEXT, [table], population="p", version=None, epsilon=epsilon)


def clamped(row: Row) -> int | None:
    x = row["x"]
    return None if x is None else min(max(int(x), 0), 5)


def binned(row: Row) -> int | None:
    v = row["v"]
    return bin_of(None if v is None else Fraction(v), ENDS)


def truth(rows: list[Row], unit: PrivacyUnit, plan: Query, leaf: Any) -> dict[Key, dict[int, int]]:
    uid = None if unit.is_row else Column("uid", Kind.INT)
    caps = (1, 1) if unit.is_row else (unit.max_groups or 1, unit.max_rows or 1)
    question = Question(
        (),
        (Column("region", Kind.TEXT),),
        combinations(["a", "b", "c"]),
        unit=uid,
        max_groups=caps[0],
        max_rows=caps[1],
    )
    ENGINE.fill(rows, SCHEMA)
    return weights(rows, question, leaf, ENGINE.order(plan))


def counted(plan: Query, place: int) -> dict[Any, dict[int, int]]:
    def plain(e: ExactLeaves) -> dict[int, int]:
        return {leaf: b - a for leaf, a, b in zip(e.leaves, e.before, e.before[1:], strict=False)}

    return {key: plain(e) for key, e in exact_leaves(plan, place, ENGINE.run).items()}


UNITS = [PrivacyUnit("uid", max_groups=1, max_rows=2), PrivacyUnit("uid", max_groups=2, max_rows=3), PrivacyUnit.row()]


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_leaves_are_those_of_the_referee(unit: PrivacyUnit) -> None:
    rng, plan = Random(1), planned(unit)
    binned_first = [s.shape.listed is not None for s in plan.question.trees]
    assert sorted(binned_first) == [False, True]
    for _ in range(30):
        rows = random_rows(rng)
        for place, is_binned in enumerate(binned_first):
            expected = truth(rows, unit, plan, binned if is_binned else clamped)
            assert counted(plan, place) == {key: found for key, found in expected.items() if found}


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_with_hardly_any_noise_answers_are_those_of_the_referee(unit: PrivacyUnit) -> None:
    rng, plan = Random(2), planned(unit, 10**9)
    step = 1 if unit.is_row else 1 << 20
    for _ in range(15):
        rows = random_rows(rng)
        of_x, of_v = (truth(rows, unit, plan, leaf) for leaf in (clamped, binned))
        release = Release(alone(plan, "p"), measure(plan, ENGINE.run, SystemEntropy()))
        for region, h, b, k, q, _ in release.rows:
            found, bins = of_x[region,], of_v[region,]
            assert h == {x: round(Fraction(found.get(x, 0), step)) for x in range(6)}
            assert list(b.values()) == [round(Fraction(bins.get(i, 0), step)) for i in range(5)]
            weighty = [found.get(x, 0) for x in k]
            assert weighty == pytest.approx([found.get(x, 0) for x in commonest(found, 6, 3)], abs=1000)
            if sum(found.values()) >= 4 * step:
                near = [quantile(found, Fraction(p)) for p in ("0", "1/4", "1/2", "1")]
                assert q[0] == near[0] and q[3] == near[3] and q == sorted(q)
