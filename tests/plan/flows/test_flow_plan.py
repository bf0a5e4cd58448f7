"""What a question to two populations costs each, which are answered, and what a wrong claim is caught at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from discreet.accounting.loss import PrivacyLoss
from discreet.catalog.schema import Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.errors import (
    DiscreetError,
    InternalError,
    InvalidParameter,
    MissingBounds,
    NotPrivate,
    UnknownColumn,
    UnsupportedQuery,
)
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.cost import Kind
from discreet.plan.flows.network import FlowPayer
from discreet.plan.flows.plan import Flows, make_flow_plan
from discreet.plan.plan import Plan
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.verify.flows import FlowClaim, check_flows

HALF = Fraction(1, 2)
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE
WARDS = Values("a", "b", None)


def planned(
    sql: str,
    *,
    rows: tuple[int, int] = (3, 40),
    kind: Kind = Kind.LAPLACE,
    delta: Fraction = Fraction(0),
    relations: tuple[Relation, Relation] = (ADD, ADD),
    epsilons: tuple[Fraction, Fraction] = (HALF, HALF),
    facts: dict[str, Range | Values] | None = None,
    version: str | None = None,
) -> Plan:
    patients, doctors = PrivacyUnit("patient", max_rows=rows[0]), PrivacyUnit("doctor", max_rows=rows[1])
    kinds = {
        "patient": Type.INT,
        "doctor": Type.TEXT,
        "cost": Type.REAL,
        "days": Type.INT,
        "ward": Type.TEXT,
        "day": Type.DATE,
    }
    known: dict[str, Range | Values] = {
        "cost": Range(-10, 200),
        "days": Range(0, 30, integer=True),
        "ward": WARDS,
        **(facts or {}),
    }
    table = TableSchema("visits", kinds, known, patients, relations[0])
    return make_flow_plan(
        sql,
        [table],
        {"visits": (patients, doctors)},
        populations=("patients", "doctors"),
        relations=relations,
        version=version,
        epsilons=epsilons,
        deltas=(delta, delta),
        kind=kind,
    )


def flows_of(plan: Plan) -> Flows:
    """How numbers flow in a plan of two populations."""
    assert isinstance(plan.flows, Flows)
    return plan.flows


def parties_of(plan: Plan) -> tuple[FlowPayer, FlowPayer]:
    """Who pays for a plan."""
    return flows_of(plan).parties


def claim_of(plan: Plan) -> FlowClaim:
    """What the second derivation judges."""
    assert isinstance(plan.claim, FlowClaim)
    return plan.claim


def moves(plan: Plan) -> list[list[tuple[int, int]]]:
    """Of each population, ℓ1 and squared ℓ2 of each column."""
    return [[(s.l1, s.l2_squared) for s in p.side.sensitivities] for p in parties_of(plan)]


ALL = (
    "SELECT ward, COUNT(*) AS n, COUNT(cost) AS known, SUM(cost) AS total, SUM(days) AS days, "
    "COUNT(DISTINCT patient) AS p, COUNT(DISTINCT doctor) AS d, "
    "COUNT(DISTINCT CASE WHEN days > 3 THEN doctor END) AS long, "
    "COUNT(DISTINCT patient) FILTER (WHERE days > 3) AS stayed, SUM(cost) / COUNT(cost) AS mean "
    "FROM visits WHERE day > DATE '2026-01-01' GROUP BY ward"
)


@pytest.mark.parametrize("relations", [(ADD, ADD), (ADD, REPLACE), (REPLACE, ADD), (REPLACE, REPLACE)])
def test_each_population_is_moved_by_its_own_cap(relations: tuple[Relation, Relation]) -> None:
    for sql, caps in (
        ("SELECT COUNT(*) FROM visits", (3, 40)),
        ("SELECT COUNT(cost) FROM visits", (3, 40)),
        ("SELECT SUM(days) FROM visits", (90, 1200)),
        ("SELECT COUNT(DISTINCT patient) FROM visits", (1, 40)),
        ("SELECT COUNT(DISTINCT doctor) FROM visits", (3, 1)),
        ("SELECT COUNT(DISTINCT CASE WHEN days > 3 THEN doctor END) FROM visits", (3, 1)),
    ):
        assert moves(planned(sql, relations=relations)) == [[(c, c * c)] for c in caps]
        grouped = sql.replace(" FROM", " FROM", 1) + " GROUP BY ward"
        assert moves(planned(grouped, relations=relations)) == [[(3 * c, 3 * c * c)] for c in caps]


def test_signed_sums_move_by_one_side_or_by_both() -> None:
    plan = planned("SELECT SUM(cost) FROM visits", relations=(ADD, REPLACE), facts={"cost": Range(-32, 64)})
    step = plan.query.question.measures[0].step
    (patients,), (doctors,) = moves(plan)
    assert patients[0] * step == 3 * 64
    assert doctors[0] * step == 40 * 96


def test_nobody_pays_more_than_allowed_and_somebody_pays_just_that() -> None:
    plan = planned(ALL, epsilons=(HALF, Fraction(1)))
    paid = [p.side.cost.epsilon for p in parties_of(plan)]
    assert [p <= a for p, a in zip(paid, (HALF, Fraction(1)), strict=True)] == [True, True]
    assert paid[0] == HALF or paid[1] == 1
    for party in parties_of(plan):
        assert PrivacyLoss(party.side.cost.events).guarantee(0).epsilon <= party.side.cost.epsilon


def test_one_column_costs_each_by_its_own_sensitivity() -> None:
    plan = planned("SELECT COUNT(*) FROM visits")
    assert plan.query.allocation.noises == (DiscreteLaplaceNoise(Fraction(80)),)
    assert [p.side.cost.epsilon for p in parties_of(plan)] == [Fraction(3, 80), HALF]
    assert "ε = 0.0375 of 'patients', ε = 0.5 of 'doctors'" in str(plan)
    asked = planned("SELECT COUNT(*) FROM visits", epsilons=(Fraction(1, 80), HALF))
    assert [p.side.cost.epsilon for p in parties_of(asked)] == [Fraction(1, 80), Fraction(1, 6)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", list(Kind))
def test_with_a_delta_the_charge_holds_by_the_accountant(kind: Kind) -> None:
    delta = Fraction(1, 10**6)
    plan = planned(ALL, kind=kind, delta=delta, relations=(ADD, REPLACE), rows=(3, 4))
    for party in parties_of(plan):
        g = party.side.cost
        assert PrivacyLoss(party.side.cost.events).guarantee(g.delta).epsilon <= g.epsilon * (1 + Fraction(1, 10**9))
        assert g.epsilon <= HALF
    if kind is Kind.GAUSSIAN:
        assert max(p.side.cost.epsilon for p in parties_of(plan)) > HALF * Fraction(999, 1000)
        assert all(isinstance(z, RoundedGaussianNoise) for z in plan.query.allocation.noises)


def test_a_coarser_grid_holds_what_a_unit_adds() -> None:
    plan = planned("SELECT SUM(cost) AS s FROM visits", rows=(3, 100_000))
    assert max(cap for f in flows_of(plan).flows for cap in f.caps) < 1 << 31
    (measured,) = [e for _, e in plan.query.question.outer.columns]
    assert measured.step == plan.query.question.measures[0].step  # type: ignore[attr-defined]  # it is the sum
    assert parties_of(planned("SELECT SUM(days) FROM visits", rows=(3, 100_000)))
    with pytest.raises(InvalidParameter, match="beyond 2"):
        planned("SELECT SUM(days) FROM visits", rows=(3, 100_000_000))
    assert parties_of(planned("SELECT SUM(CAST(days AS DOUBLE)) FROM visits", rows=(3, 1_000_000)))
    for rows in (1 << 22, 100_000_000, 1_100_000_000, (1 << 31) - 1):
        with pytest.raises(InvalidParameter, match="too coarse a grid"):
            planned("SELECT SUM(CAST(days AS DOUBLE)) FROM visits", rows=(3, rows))
        with pytest.raises(InvalidParameter, match="too coarse a grid"):
            planned("SELECT SUM(cost) FROM visits", rows=(3, rows))
    near = {"cost": Range(3, 4)}
    steps = planned("SELECT SUM(cost) FROM visits", rows=(3, 1 << 20), facts={**near})
    assert flows_of(steps).flows[0].caps[0] // 3 == 1 << 10
    for bounds in (Range("-0.0001", 1000), Range(-1000, "0.0001")):  # one of them would become 0
        assert parties_of(planned("SELECT SUM(cost) FROM visits", facts={"cost": bounds}))
        with pytest.raises(InvalidParameter, match="too coarse a grid"):
            planned("SELECT SUM(cost) FROM visits", rows=(3, 100_000), facts={"cost": bounds})
    with pytest.raises(InvalidParameter, match="at most 2"):
        planned("SELECT COUNT(*) FROM visits", rows=(3, 1 << 31))
    with pytest.raises(InvalidParameter, match="at most 2"):
        planned("SELECT SUM(cost) FROM visits", rows=(3, 1 << 31))


def test_the_same_measurement_is_the_same_question_and_any_other_is_not() -> None:
    def of(sql: str = "SELECT COUNT(*) AS n FROM visits", **changed: Any) -> str:
        return planned(sql, **changed).identity

    assert of() == of("SELECT 2 * COUNT(*) AS twice FROM visits v")
    others = [
        of("SELECT COUNT(cost) FROM visits"),
        of("SELECT COUNT(*) FROM visits WHERE days > 3"),
        of("SELECT ward, COUNT(*) FROM visits GROUP BY ward"),
        of(rows=(4, 40)),
        of(rows=(3, 41)),
        of(relations=(REPLACE, ADD)),
        of(epsilons=(HALF, Fraction(1))),
        of(epsilons=(Fraction(1), HALF)),
        of(version="2"),
        of(kind=Kind.GAUSSIAN, delta=Fraction(1, 1000)),
        of("SELECT SUM(cost) FROM visits"),
        of("SELECT SUM(cost) FROM visits", facts={"cost": Range(0, 10)}),
    ]
    assert len({of(), *others}) == len(others) + 1


def test_an_explanation_has_both_and_says_that_all_groups_are_charged() -> None:
    told = planned(ALL).explain()
    for text in ("'patients' pays ε = ", "'doctors' pays ε = 0.5", "charged for all 3", "difference of two maximum"):
        assert text in told


@pytest.mark.parametrize(
    ("sql", "error", "match"),
    [
        ("SELECT AVG(cost) FROM visits", UnsupportedQuery, "AVG is not supported"),
        ("SELECT VAR_POP(cost) FROM visits", UnsupportedQuery, "VAR_POP is not supported"),
        ("SELECT regr_slope(cost, days) FROM visits WHERE ward <> 'avg(x)'", UnsupportedQuery, "REGR_SLOPE is not"),
        ("SELECT CORR(cost, days) FROM visits", UnsupportedQuery, "CORR is not supported"),
        ("SELECT MEDIAN(cost) FROM visits", UnsupportedQuery, "Quantiles"),
        ("SELECT MIN(days) FROM visits", UnsupportedQuery, "Quantiles"),
        ("SELECT MODE(ward) FROM visits", UnsupportedQuery, "Quantiles"),
        ("SELECT HISTOGRAM(ward) FROM visits", UnsupportedQuery, "Quantiles"),
        ("SELECT COUNT(DISTINCT ward) FROM visits", UnsupportedQuery, "anything but the two ids"),
        ("SELECT COUNT(DISTINCT doctor || 'x') FROM visits", UnsupportedQuery, "anything but the two ids"),
        ("SELECT COUNT(DISTINCT CAST(doctor AS DOUBLE)) FROM visits", UnsupportedQuery, "anything but the two ids"),
        (
            "SELECT COUNT(DISTINCT CASE WHEN days > 3 THEN CAST(doctor AS DOUBLE) END) FROM visits",
            UnsupportedQuery,
            "anything but the two ids",
        ),
        (
            "SELECT COUNT(DISTINCT CASE WHEN days > 3 THEN doctor ELSE 'x' END) FROM visits",
            UnsupportedQuery,
            "anything but the two ids",
        ),
        ("SELECT day, COUNT(*) FROM visits GROUP BY day", UnsupportedQuery, "Groups that are not declared"),
        ("SELECT patient, COUNT(*) FROM visits GROUP BY patient", UnsupportedQuery, "Each group would be"),
        ("SELECT ward, COUNT(*) FROM visits GROUP BY ROLLUP (ward)", UnsupportedQuery, "ROLLUP"),
        ("SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient = b.patient", UnsupportedQuery, "Joins"),
        ("SELECT COUNT(*) FROM (SELECT patient FROM visits) v", UnsupportedQuery, "Joins and subqueries"),
        ("SELECT COUNT(*) FROM visits WHERE cost > (SELECT 1)", UnsupportedQuery, "Joins|one row|subquer"),
        ("SELECT COUNT(*) FROM visits WHERE days IN (SELECT cost FROM visits)", UnsupportedQuery, "Joins|subquer"),
        ("SELECT COUNT(*) FROM doctors", UnknownColumn, "no table"),
        ("SELECT SUM(patient) FROM visits", MissingBounds, "bounds"),
        ("SELECT patient FROM visits", UnsupportedQuery, "GROUP BY"),
    ],
)
def test_what_no_flow_answers_is_refused_with_a_way_round(sql: str, error: type[DiscreetError], match: str) -> None:
    with pytest.raises(error, match=match) as refused:
        planned(sql)
    assert refused.value.hint


def test_gaussian_noise_needs_a_delta() -> None:
    with pytest.raises(NotPrivate):
        planned("SELECT COUNT(*) FROM visits", kind=Kind.GAUSSIAN)


CLAIM = claim_of(planned(ALL, relations=(ADD, REPLACE)))


def _sql(old: str, new: str) -> Callable[[FlowClaim], FlowClaim]:
    def change(claim: FlowClaim) -> FlowClaim:
        assert old in claim.sql, old
        return replace(claim, sql=claim.sql.replace(old, new, 1))

    return change


def _side(place: int, **changed: Any) -> Callable[[FlowClaim], FlowClaim]:
    def change(claim: FlowClaim) -> FlowClaim:
        sides = list(claim.sides)
        sides[place] = replace(sides[place], **changed)
        return replace(claim, sides=(sides[0], sides[1]))

    return change


def _caps(column: int, flow: int, caps: tuple[int, int]) -> Callable[[FlowClaim], FlowClaim]:
    def change(claim: FlowClaim) -> FlowClaim:
        measured = list(claim.measured)
        flows = list(measured[column].flows)
        flows[flow] = replace(flows[flow], caps=caps)
        measured[column] = replace(measured[column], flows=tuple(flows))
        return replace(claim, measured=tuple(measured))

    return change


def _negated(kind: str, least: int) -> Callable[[FlowClaim], FlowClaim]:
    """The number below 0 of a column of a narrow type, which has no negative of its least number."""

    def change(claim: FlowClaim) -> FlowClaim:
        narrow = _sql(
            'CAST(least(greatest(s."days", 0), 30) AS INTEGER)',
            f'CAST(least(greatest(s."days", {least}), 30) AS {kind})',
        )
        return _sql("greatest(v1, 0)", "greatest(-v1, 0)")(narrow(claim))

    return change


def _less_noise(claim: FlowClaim) -> FlowClaim:
    column = claim.measured[0]
    assert isinstance(column.noise, DiscreteLaplaceNoise)
    less = replace(column, noise=DiscreteLaplaceNoise(column.noise.scale * Fraction(99, 100)))
    return replace(claim, measured=(less, *claim.measured[1:]))


def _cheaper(place: int) -> Callable[[FlowClaim], FlowClaim]:
    def change(claim: FlowClaim) -> FlowClaim:
        cost = claim.sides[place].cost
        return _side(place, cost=replace(cost, epsilon=cost.epsilon * Fraction(999, 1000)))(claim)

    return change


def _exchanged(claim: FlowClaim) -> FlowClaim:
    return replace(claim, sides=(claim.sides[1], claim.sides[0]))


def _one_for_both(claim: FlowClaim) -> FlowClaim:
    return _side(1, cost=claim.sides[0].cost)(claim)


def _twice(claim: FlowClaim) -> FlowClaim:
    column = claim.measured[0]
    return replace(claim, measured=(replace(column, flows=column.flows * 2), *claim.measured[1:]))


@pytest.mark.parametrize(("kind", "least"), [("TINYINT", -127), ("SMALLINT", -32767), ("INTEGER", -(1 << 31) + 1)])
def test_a_number_that_has_a_negative_is_accepted(kind: str, least: int) -> None:
    check_flows(_negated(kind, least)(CLAIM))


def test_an_honest_claim_is_accepted() -> None:
    check_flows(CLAIM)
    check_flows(claim_of(planned("SELECT COUNT(*) FROM visits")))


SLIPS: list[Callable[[FlowClaim], FlowClaim]] = [
    _sql("GROUP BY g0, u, w", "GROUP BY g0, u"),
    _sql("GROUP BY g0, u, w", "GROUP BY u, w"),
    _sql("SELECT g0, u, w,", "SELECT g0, w, u,"),
    _sql("GROUP BY g0, u, w", "GROUP BY g0, v0.u, w"),  # a field of a column, which is not the column of that name
    _sql("GROUP BY g0, u, w", "GROUP BY g0, u, v1.w"),
    _sql("SELECT g0, u, w,", "SELECT g0, v0.u, w,"),
    _sql("WHERE NOT w IS NULL", "WHERE w IS NULL"),
    _sql(" WHERE NOT w IS NULL", ""),
    _sql("WHERE NOT w IS NULL", "WHERE NOT w IS NULL AND u > 3"),
    _sql('s."doctor" AS w', 's."ward" AS w'),
    _sql('s."doctor" AS w', 'lower(s."doctor") AS w'),
    _sql('s."patient" AS u', 's."days" AS u'),
    _sql('s."patient" AS u', 's."days" AS "U", s."patient" AS u'),  # of two such names the database takes the first
    _sql('s."patient" AS u', 's."days" AS "W", s."patient" AS u'),
    _sql('s."patient" AS u', 's."days" AS "G0", s."patient" AS u'),
    _sql('s."patient" AS u', 's."days" AS "V0", s."patient" AS u'),
    _sql('"unit rows" AS (', '"Unit Rows" AS (SELECT 1), "unit rows" AS ('),
    _negated("TINYINT", -128),
    _negated("SMALLINT", -32768),
    _negated("UTINYINT", 0),
    _sql(' AND s."patient" IS NOT NULL', ""),
    _sql("least(count(*), 3)", "count(*)"),
    _sql("least(count(*), 3)", "least(count(*), 3000000000)"),
    _sql("least(count(*), 3)", "least(-count(*), 3)"),
    _sql("least(count(*), 3)", "least(max(v0), 3)"),
    _sql("least(count(*), 3)", "least(count(*) OVER (PARTITION BY w), 3)"),
    _sql("least(count(*), 3)", "least(count(w), 3)"),
    _sql("greatest(v0, 0)", "v0"),
    _sql("greatest(v0, 0)", "greatest(v0, -5)"),
    _sql("greatest(-v0, 0)", "greatest(-v0 * 2, 0)"),
    _sql("sum(greatest(v0, 0))", "sum(DISTINCT greatest(v0, 0))"),
    _sql("CAST(-10.0 AS DOUBLE)", "CAST(-1e300 AS DOUBLE)"),
    _sql('FROM "unit rows" WHERE', 'FROM "unit rows", "unit rows" b WHERE'),
    _sql('JOIN "key 0" k0 ON s."ward" IS NOT DISTINCT FROM k0.v', 'JOIN "key 0" k0 ON s."ward" <> k0.v'),
    _sql("('a', 0), ('b', 1)", "('a', 0), ('b', 0)"),
    _sql("k0.g AS g0", 's."days" AS g0'),
    _sql('main."visits"', 'main."staff"'),
    _sql("SELECT g0, u, w,", "SELECT DISTINCT g0, u, w,"),
    lambda claim: replace(claim, sql=claim.sql + " LIMIT 5"),
    lambda claim: replace(claim, sql=claim.sql + " HAVING count(*) > 1"),
    lambda claim: replace(claim, sql="SELECT 1"),
    lambda claim: replace(claim, sql="not SQL at all ("),
    lambda claim: replace(claim, lists=(2,)),
    lambda claim: replace(claim, lists=()),
    lambda claim: replace(claim, lists=(3, 1)),
    lambda claim: replace(claim, columns=claim.columns - {"cost"}),
    lambda claim: replace(claim, measured=claim.measured[:-1]),
    _twice,
    _caps(0, 0, (4, 1)),
    _caps(0, 0, (3, 1 << 31)),
    _caps(0, 0, (-1, 1)),
    _side(0, relation=REPLACE, unit="doctor"),
    _side(1, unit="patient"),
    _less_noise,
    _cheaper(1),
    _exchanged,
    _one_for_both,
]


@pytest.mark.exhaustive
@pytest.mark.sampled(7)
@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_in_the_claim_is_found(slip: Callable[[FlowClaim], FlowClaim]) -> None:
    with pytest.raises(InternalError):
        check_flows(slip(CLAIM))


def test_a_replaced_unit_needs_the_noise_of_both_ends() -> None:
    added = claim_of(planned("SELECT SUM(cost) FROM visits", relations=(ADD, ADD)))
    check_flows(added)
    with pytest.raises(InternalError):
        check_flows(_side(1, relation=REPLACE)(added))
