"""The claims of plans over the whole language: written as JSON and read again they are the same, and hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from discreet.catalog.schema import TableSchema
from discreet.errors import DiscreetError, InternalError
from discreet.ledger.chain import canonical, parse
from discreet.plan.planner import make_query
from discreet.plan.query import Query, claim_of
from discreet.privacy.unit import Relation
from discreet.verify.certificate.claim_checks import check_exact, of_measurements
from discreet.verify.certificate.seal import decode, encode
from discreet.verify.check import check, derived
from discreet.verify.claim import PlanClaim
from discreet.verify.failing import failure
from discreet.verify.price import fits
from tests.plan.test_check import SQL, plan
from tests.query.relations import tables
from tests.query.test_relation import QUESTIONS


def again(p: Query) -> PlanClaim:
    """A plan's claim, by way of its JSON."""
    claim = claim_of(p)
    text = canonical(encode(claim))
    read = decode(parse(text))
    assert isinstance(read, PlanClaim)
    assert canonical(encode(read)) == text
    return read


def judged(claim: PlanClaim, among: Sequence[TableSchema]) -> None:
    check(claim)
    types = {t.name: {c: None if k is None else k.value for c, k in t.columns.items()} for t in among}
    assert [failure(text, types) for text in claim.statements] == [None] * len(claim.statements)
    check_exact(claim, derived(claim))
    assert of_measurements(claim) == claim.measured.events
    assert fits(claim.measured)


@pytest.mark.exhaustive
@pytest.mark.sampled(12)
@pytest.mark.parametrize("sql", QUESTIONS)
def test_questions_over_several_tables_hold_as_they_are(sql: str) -> None:
    try:
        p = make_query(sql, tables(2, 3), population="p", version=None, epsilon=1, delta="1e-6")
    except DiscreetError as error:
        assert not isinstance(error, InternalError)
        pytest.skip("it needs wider caps")
    judged(again(p), tables(2, 3))


@pytest.mark.exhaustive
@pytest.mark.sampled(10)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", list(SQL))
def test_questions_over_one_table_hold_as_they_are(name: str, relation: Relation) -> None:
    for asked in ({}, {"noise": "gaussian", "delta": "1e-6"}, {"delta": "1e-6", "epsilon": "1/3"}):
        p = plan(name, relation, **asked)
        judged(again(p), [p.question.table])


def test_many_columns_that_compose_below_the_sum_of_their_epsilons_hold() -> None:
    from discreet.catalog.schema import Range
    from discreet.catalog.types import Type
    from discreet.privacy.unit import PrivacyUnit

    facts: dict[str, Any] = {"day": Range(1, 60, integer=True), "x": Range(0, 1, integer=True)}
    unit = PrivacyUnit("uid", max_groups=30, max_rows=1)
    t = TableSchema("t", {"uid": Type.INT, "day": Type.INT, "x": Type.INT}, facts, unit, Relation.ADD_REMOVE)
    p = make_query(
        "SELECT day, COUNT(*), SUM(x), COUNT(x) FROM t GROUP BY day",
        [t],
        population="p",
        version=None,
        epsilon=1,
        delta="1e-6",
    )
    claim = again(p)
    judged(claim, [t])
    assert sum((n * (e.pure or 0) for e, n in claim.measured.events), Fraction(0)) > claim.measured.epsilon
    cheaper = replace(claim.measured, epsilon=claim.measured.epsilon * Fraction(99, 100))
    assert not fits(cheaper)
