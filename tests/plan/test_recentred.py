"""Sums that are read from two columns are the sums of the clamped values, whatever the rows and the caps."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import inf, nan
from typing import Any

import pytest

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import exact_cells
from discreet.errors import InvalidParameter
from discreet.plan.explain import explain
from discreet.plan.measures.measure import CentredTotal, Total
from discreet.plan.planner import make_query, plan_batch
from discreet.plan.query import Query
from discreet.plan.rules import RULES
from discreet.plan.rules.recentred import RECENTRED
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.plan.cases import Engine
from tests.reference.values import Kind

UNITS = {
    "rows": PrivacyUnit.row(),
    "caps": PrivacyUnit("uid", max_groups=2, max_rows=2),
    "all": PrivacyUnit("uid", max_contributions=3),
    "both": PrivacyUnit("uid", max_groups=2, max_rows=2, max_contributions=3),
}
SCHEMA = {"uid": Kind.INT, "x": Kind.REAL, "v": Kind.INT, "region": Kind.TEXT}
ENGINE = Engine.open()
ASKED = "SELECT region, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m, SUM(v) AS w, COUNT(v) AS k FROM t GROUP BY region"


def rows(most: int = 5) -> list[dict[str, Any]]:
    """People with up to so many rows in a group, of values below, within and beyond the bounds, and of none."""
    numbers = [-7.0, 3.0, 10.0, 19.7, 500.0, nan, inf, None]
    found = []
    for unit, (many, region) in enumerate(product((1, 2, 3, 5), "ab")):
        for i in range(min(many, most)):
            x, v = numbers[(3 * unit + i) % 8], [None, -4, 2, 9, 30][(unit + 2 * i) % 5]
            found.append({"uid": unit, "x": x, "v": v, "region": region})
    return found


def planned(unit: str, relation: Relation = Relation.ADD_REMOVE, sql: str = ASKED, *, rule: bool = True) -> Query:
    facts: dict[str, Fact] = {"x": Range(3, 20), "v": Range(0, 10, integer=True), "region": Values("a", "b")}
    schema = TableSchema("t", {n: Type(k.value) for n, k in SCHEMA.items()}, facts, UNITS[unit], relation)
    rules = [r for r in RULES if rule or r is not RECENTRED]
    return make_query(sql, [schema], population="p", version=None, epsilon=1, rules=rules)


def exact(query: Query) -> dict[Any, list[Any]]:
    """Each group's sums without noise."""
    cells = exact_cells(query, ENGINE.run)
    shown = [query.column(name).compiled() for name in "nswk"]
    return {keys: [of(keys, row) for of in shown] for keys, row in cells.items()}


@pytest.mark.parametrize("unit", UNITS)
def test_sums_are_what_they_are_in_columns_of_their_own(unit: str) -> None:
    # which rows a cap on all of them keeps follows from a hash of what is read, in the order in which it is read
    ENGINE.fill(rows(5 if unit in ("rows", "caps") else 3), SCHEMA)
    one, other = planned(unit), planned(unit, rule=False)
    assert not any(isinstance(m, Total) for m in one.question.measures)
    # where a unit may have more rows than count, the mean's sum is another than the sum's
    assert sum(isinstance(m, CentredTotal) and m.of_sum for m in one.question.measures) == 2 * (
        unit in ("caps", "both")
    )
    assert exact(one) == exact(other)


def test_a_sum_of_means_is_not_the_sum_where_caps_bind() -> None:
    """The broken twin: the mean's own column read for the sum."""
    ENGINE.fill(rows(), SCHEMA)
    query = planned("caps")
    places = enumerate(query.question.measures)
    (_, of_sum), (_, of_mean) = sorted(
        (not m.of_sum, i) for i, m in places if isinstance(m, CentredTotal) and m.value.expr.column == "x"
    )
    swapped = query.question.outer.with_columns(lambda c: replace(c, index=of_mean if c.index == of_sum else c.index))
    twin = replace(query, question=replace(query.question, outer=swapped))
    assert exact(twin) != exact(planned("caps", rule=False))


@pytest.mark.parametrize("relation", list(Relation))
def test_a_cap_on_all_rows_bounds_it_by_what_one_row_adds(relation: Relation) -> None:
    """`planned` has it derived again from the text."""
    query = planned("both", relation)
    for measure, moved in zip(query.question.measures, query.sensitivities, strict=True):
        assert moved.l1 <= 3 * measure.of_one_row * (2 if relation is Relation.REPLACE else 1)
        assert relation is Relation.REPLACE or moved.l1 == 3 * measure.of_one_row


def test_it_keeps_off_where_a_number_would_have_more_noise() -> None:
    sql = "SELECT SUM(v) AS w, COUNT(v) AS k FROM t"
    assert (
        planned("rows", Relation.REPLACE, sql).question == planned("rows", Relation.REPLACE, sql, rule=False).question
    )
    beside = planned("rows", Relation.REPLACE, "SELECT SUM(v) AS w, AVG(v) AS m FROM t")
    assert len(beside.question.measures) == 2


def test_the_plan_says_what_a_sum_is_read_from() -> None:
    query = planned("rows", sql="SELECT SUM(v) AS w, COUNT(v) AS k FROM t")
    assert "A sum is read from two columns: column 0 plus 5 times column 1." in explain(query)


def test_what_is_assumed_of_sums_and_counts_is_enough_for_what_is_made_of_them() -> None:
    query = planned(
        "rows", sql="SELECT SUM(v) AS w, COUNT(v) AS k, (2 * SUM(v) - COUNT(v)) / (COUNT(v) + 1) AS r FROM t"
    )
    assert query.error("r", assuming={"w": 4000, "k": 1000}) < 1
    with pytest.raises(InvalidParameter, match="depends on the values"):
        query.error("r", assuming={"w": 4000})


def test_no_sum_of_numbers_from_0_on_is_below_0_where_none_is_to_be() -> None:
    query = planned("rows", sql="SELECT SUM(v) AS w, COUNT(v) AS k FROM t")
    node = query.column("w")
    for cells in product((-60, -3, 0, 40), (0, 1, 9)):
        raised = node.raised(cells)
        assert node.compiled()((), raised) == max(node.compiled()((), cells), 0) and raised[1] == cells[1]
    assert node.lowest((False, True)) == 0
    signed = planned("rows", sql="SELECT SUM(v - 3) AS w, COUNT(v - 3) AS k FROM t").column("w")
    assert signed.raised((-60, 1)) == (-60, 1) and signed.lowest((False, True)) == -inf


def test_questions_of_a_batch_share_what_sums_and_means_are_read_from() -> None:
    facts: dict[str, Fact] = {"v": Range(0, 10, integer=True)}
    schema = TableSchema("t", {"v": Type.INT}, facts, PrivacyUnit.row(), Relation.ADD_REMOVE)
    asked = {"s": "SELECT SUM(v) AS w, COUNT(v) AS k FROM t", "m": "SELECT AVG(v) AS m FROM t"}
    plan = plan_batch(asked, [schema], population="p", version=None, epsilon=1)
    (measured,) = plan.measurements
    assert len(measured.question.measures) == 2
