"""The second derivation of what the ledger is told: more than a sum of ε."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from discreet.catalog.schema import Fact, Range, TableSchema
from discreet.catalog.types import Type
from discreet.errors import InternalError
from discreet.plan.planner import make_query
from discreet.privacy.discrete_events import BoundedRangeEvent
from discreet.privacy.event import Composed
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.verify.price import _divergence
from tests.plan.claims import check

COLUMNS = {"uid": Type.INT, "x": Type.INT, "day": Type.INT}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM t",
        "SELECT MEDIAN(x) AS m FROM t",
        "SELECT day, COUNT(*) AS n FROM t GROUP BY ROLLUP (day)",
        "SELECT MEDIAN(x) AS m, MAX(x) AS n FROM t",
    ],
)
@pytest.mark.parametrize("relation", list(Relation))
def test_events_with_the_right_sum_of_epsilons_and_too_small_a_rho_are_refused(sql: str, relation: Relation) -> None:
    facts: dict[str, Fact] = {"day": Range(1, 40, integer=True), "x": Range(0, 1000)}
    t = TableSchema("t", COLUMNS, facts, PrivacyUnit("uid", max_groups=2, max_rows=3), relation)
    p = make_query(sql, [t], population="p", version=None, epsilon=2, delta=0)
    check(p.sql, p)
    many = Composed([(BoundedRangeEvent(Fraction(1, 500)), 1000)])  # 2-DP, and 0.0005-zCDP
    with pytest.raises(InternalError, match="what the ledger is told"):
        check(p.sql, replace(p, allocation=replace(p.allocation, events=many)))


@pytest.mark.parametrize(("far", "scale"), [(1, 1.0), (3, 0.5), (10, 100.0), (40, 40.0), (1, 2000.0), (7, 0.01)])
def test_the_divergence_of_laplace_noise_is_that_of_its_masses_or_just_below(far: int, scale: float) -> None:
    reach = int(60 * scale) + far + 5
    masses = [math.exp(-abs(k) / scale) for k in range(-reach, reach + 1)]
    moved = [abs(k - far) - abs(k) for k in range(-reach, reach + 1)]
    true = sum(m * d for m, d in zip(masses, moved, strict=True)) / sum(masses) / scale
    assert true * (1 - 1e-3) <= _divergence(far, Fraction(scale)) <= true * (1 + 1e-9)


def test_the_divergence_has_no_end() -> None:
    assert _divergence(1, Fraction(1, 10**400)) == math.inf
    assert _divergence(1, Fraction(1, 10**20)) == 1e20
    assert _divergence(1, Fraction(10**400)) == 0.0
    assert _divergence(2**62, Fraction(2**62, 3)) == pytest.approx(2 + math.exp(-3))
