"""What plans claim of several measurements and of two stages: judged as a whole before anything is charged."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from discreet.errors import InternalError
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.plan import Plan
from discreet.plan.planner import plan_batch
from discreet.plan.query import Query, claim_of, claim_of_all
from discreet.privacy.event import Composed
from discreet.privacy.unit import Relation
from discreet.verify.check import check
from discreet.verify.claim import PlanClaim
from tests.plan.test_check import SQL, plan, table


def batch(**asked: Any) -> Plan:
    options: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1, **asked}
    return plan_batch({"a": SQL["unit"], "b": SQL["whole"]}, [table("unit")], **options)


def check_whole(found: Plan) -> None:
    claim = found.claim
    assert isinstance(claim, PlanClaim)
    check(claim)


def events_of(plans: list[Query]) -> Composed:
    parts = ((n, s) for p in plans for n, s in zip(p.allocation.noises, p.sensitivities, strict=True))
    return sum((n.event(s) for n, s in parts), Composed())


def test_measurements_that_are_within_the_price_alone_and_not_together_are_refused() -> None:
    b = batch()
    check_whole(b)
    half = [
        replace(
            p,
            allocation=replace(
                p.allocation,
                noises=tuple(
                    DiscreteLaplaceNoise(n.scale / 2)
                    for n in p.allocation.noises
                    if isinstance(n, DiscreteLaplaceNoise)
                ),
            ),
        )
        for p in b.measurements
    ]
    promise = replace(b.charge.guarantee, epsilon=Fraction(3, 2))  # of the 2 that they cost together
    for p in half:
        check(claim_of_all([p], events_of([p]), promise))
    with pytest.raises(InternalError, match="the price of the columns"):
        check(claim_of_all(half, events_of(half), promise))


@pytest.mark.parametrize("asked", [{}, {"noise": "gaussian", "delta": "1e-6"}], ids=["laplace", "gaussian"])
def test_a_batch_whose_ledger_is_told_of_one_measurement_is_refused(asked: dict[str, Any]) -> None:
    b = batch(**asked)
    check_whole(b)
    with pytest.raises(InternalError, match="what the ledger is told"):
        check(claim_of_all(b.measurements, events_of([b.measurements[0]]), b.charge.guarantee))
    with pytest.raises(InternalError, match="price"):
        check(claim_of_all(b.measurements, b.charge.events, replace(b.charge.guarantee, epsilon=Fraction(9, 10))))


def test_a_batch_of_two_relations_is_refused() -> None:
    b = batch()
    first, second = b.measurements
    other = replace(second.question, table=replace(second.question.table, relation=Relation.REPLACE))
    with pytest.raises(InternalError, match="the relation"):
        claim_of_all([first, replace(second, question=other)], b.charge.events, b.charge.guarantee)


def test_a_sensitivity_that_is_too_small_by_one_is_refused() -> None:
    claim = claim_of(plan("unit"))
    (m,) = claim.measurements
    for i, column in enumerate(m.columns):
        s = column.sensitivity
        for small in (
            replace(column, high=column.high - 1),
            replace(column, sensitivity=type(s)(s.l0, s.linf, l1=s.l1 - 1, l2_squared=s.l2_squared)),
            replace(column, sensitivity=type(s)(s.l0, s.linf, l1=s.l1, l2_squared=s.l2_squared - 1)),
        ):
            columns = (*m.columns[:i], small, *m.columns[i + 1 :])
            with pytest.raises(InternalError, match=r"how far a unit moves|what a unit adds"):
                check(with_measurement(claim, columns=columns))
    with pytest.raises(InternalError, match="how many groups"):
        check(with_measurement(claim, groups=m.groups - 1))


def with_measurement(claim: PlanClaim, **changes: Any) -> PlanClaim:
    return replace(claim, measurements=(replace(claim.measurements[0], **changes),))
