"""The number of rows where it is public: under replacement, of a whole table of which each row is a unit."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.errors import InternalError
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.explain import explain
from discreet.plan.planner import make_query
from discreet.plan.query import Query, claim_of
from discreet.privacy.unit import PrivacyUnit, Relation, Sensitivity
from discreet.verify.check import check, derived
from discreet.verify.shapes import keeps_rows

COLUMNS = 'TRY_CAST("x" AS DOUBLE) AS "x", CAST("g" AS VARCHAR) COLLATE C AS "g"'
FRAME = f'SELECT {COLUMNS} FROM "frame\x01t"'
CSV = (
    f"SELECT {COLUMNS} FROM read_csv($files, auto_detect = false, header = true, columns = $header, delim = ',', "
    "quote = '\"', escape = '\"', null_padding = true, ignore_errors = true, strict_mode = false, parallel = false, "
    "hive_partitioning = false, union_by_name = false, filename = false)"
)
STILL = Sensitivity(0, 0)
ROWS = PrivacyUnit.row()
MEAN = "SELECT AVG(coalesce(x, 50)) AS m FROM t"


def asked(
    sql: str = MEAN, unit: PrivacyUnit = ROWS, relation: Relation = Relation.REPLACE, view: str = FRAME, **more: Any
) -> Query:
    own: dict[str, Type | None] = {} if unit.is_row else {"uid": Type.INT}
    columns: dict[str, Type | None] = {"x": Type.REAL, "g": Type.TEXT, **own}
    facts: dict[str, Fact] = {"x": Range(0, 100), "g": Values("a", "b")}
    shown = view if unit.is_row else None
    t = TableSchema("t", columns, facts, unit, relation, view=shown)
    return make_query(sql, [t], population="p", version=None, epsilon=1, **more)


def scale(plan: Query, place: int) -> Fraction:
    noise = plan.allocation.noises[place]
    assert isinstance(noise, DiscreteLaplaceNoise)
    return noise.scale


@pytest.mark.parametrize("value", ["coalesce(x, 50)", "CASE WHEN x > 50 THEN 100 ELSE 0 END"])
def test_a_mean_of_all_rows_has_the_noise_of_its_width_over_their_number(value: str) -> None:
    plan = asked(f"SELECT AVG({value}) AS m FROM t")
    total, rows = plan.sensitivities
    assert rows == STILL
    step = plan.question.measures[0].step
    assert total.l1 * step == 100
    assert scale(plan, 0) * step == 100  # Laplace noise of width/ε on the sum, so width/(n·ε) on the mean
    assert plan.allocation.noises[1].tail(0) < 1e-300
    assert "It is public, and has no noise" in explain(plan)
    check(claim_of(plan))


def test_the_number_of_all_rows_costs_nothing() -> None:
    plan = asked("SELECT COUNT(*) AS n FROM t")
    assert plan.sensitivities == (STILL,)
    assert plan.allocation.guarantee.epsilon == 0
    check(claim_of(plan))


TWINS: dict[str, dict[str, Any]] = {
    "a filter": {"sql": MEAN + " WHERE g = 'a'"},
    "a group": {"sql": "SELECT g, AVG(coalesce(x, 50)) AS m FROM t GROUP BY g"},
    "a value that may be NULL": {"sql": "SELECT AVG(x) AS m FROM t"},
    "add-remove": {"relation": Relation.ADD_REMOVE},
    "units of many rows": {"unit": PrivacyUnit("uid", max_groups=1, max_rows=1)},
    "lines that are skipped": {"view": CSV},
}


@pytest.mark.parametrize("twin", TWINS)
def test_elsewhere_the_number_of_rows_has_noise_and_to_claim_otherwise_is_refused(twin: str) -> None:
    plan = asked(**TWINS[twin])
    place = len(plan.sensitivities) - 1
    assert plan.sensitivities[place].l1 >= 1
    assert scale(plan, place) >= 2
    claim = claim_of(plan)
    (m,) = claim.measurements
    check(claim)
    assert not derived(claim)[0].fixed or claim.relation is Relation.ADD_REMOVE
    column = replace(m.columns[place], sensitivity=STILL, noise=DiscreteLaplaceNoise(Fraction(1, 1024)))
    lied = replace(m, columns=(*m.columns[:place], column))
    with pytest.raises(InternalError, match="how far a unit moves a column"):
        check(replace(claim, measurements=(lied,)))


def test_the_text_of_a_filter_under_the_claim_of_a_whole_table_is_refused() -> None:
    whole, filtered = claim_of(asked()), claim_of(asked(**TWINS["a filter"]))
    lied = replace(whole.measurements[0], sql=filtered.measurements[0].sql)
    with pytest.raises(InternalError, match="how far a unit moves a column"):
        check(replace(whole, measurements=(lied,)))


@pytest.mark.parametrize(
    "clause", ["WHERE x > 0", "LIMIT 5", "QUALIFY row_number() OVER () < 9", "GROUP BY x", "JOIN u ON true"]
)
def test_a_view_that_leaves_rows_out_does_not_keep_their_number(clause: str) -> None:
    assert keeps_rows('SELECT x FROM "t"')
    assert not keeps_rows(f'SELECT x FROM "t" {clause}')
    assert not keeps_rows('SELECT DISTINCT x FROM "t"')
