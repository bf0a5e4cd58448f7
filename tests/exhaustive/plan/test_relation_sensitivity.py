"""How far the integers of joins, subqueries and windows move between neighbouring databases, dirty keys included."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.plan.query import Query
from discreet.privacy.unit import Relation, Sensitivity
from tests.exhaustive.plan.test_relation_against_reference import DIRTY, asked
from tests.exhaustive.plan.test_sensitivity import colliding, norms, of_units, within
from tests.plan.relation_cases import RelationEngine, relation_plan
from tests.reference.relation import Database, JoinKind
from tests.reference.worlds import difference
from tests.strategies.database import neighbours
from tests.strategies.relation import RelationCase, relation_cases

ENGINE = RelationEngine.open()


def is_bounded(plan: Query, before: Database, after: Database, allowed: tuple[Sensitivity, ...]) -> bool:
    """Whether every column moves by at most what is allowed, in every norm."""
    moved = difference(ENGINE.cells(plan, before), ENGINE.cells(plan, after))
    found = norms([moved], len(allowed))
    return all(within(f, s) for f, s in zip(found, allowed, strict=True))


def assert_bounded(data: Any, case: RelationCase, relation: Relation) -> None:
    plan = relation_plan(case, relation)
    before, after = data.draw(neighbours(case.database, relation))
    allowed = (*plan.sensitivities, *([of_units(plan)] if plan.allocation.threshold else []))
    for p in [plan, *([colliding(plan)] if "ORDER BY hash(" in plan.sql else [])]:
        assert is_bounded(p, before, after, allowed)


@given(st.data(), relation_cases(), st.sampled_from(list(Relation)))
@settings(max_examples=40, derandomize=True, deadline=None)
def test_random_neighbours_move_no_question_further_than_planned(
    data: Any, case: RelationCase, relation: Relation
) -> None:
    assert_bounded(data, case, relation)


@pytest.mark.slow
@given(st.data(), relation_cases(max_size=6, depth=3), st.sampled_from(list(Relation)))
@settings(max_examples=400, deadline=None)
def test_random_neighbours_at_length(data: Any, case: RelationCase, relation: Relation) -> None:
    assert_bounded(data, case, relation)


@pytest.mark.parametrize("leaver", [7, 8])
def test_a_join_across_people_is_seen(leaver: int) -> None:
    plan = relation_plan(asked(JoinKind.INNER))
    assert is_bounded(plan, DIRTY, DIRTY.without(leaver), plan.sensitivities)
    across = replace(plan, sql=plan.sql.replace("l.u = r.u AND ", ""))
    assert across != plan
    assert not is_bounded(across, DIRTY, DIRTY.without(leaver), plan.sensitivities)
