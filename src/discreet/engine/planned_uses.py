"""Uses of mechanisms that a plan was charged for: of queries, of flows, of two stages, and of private parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.engine.cells import uses_of
from discreet.engine.meter import PlannedUse, Reserved

if TYPE_CHECKING:
    from discreet.engine.people import PeopleOf
    from discreet.plan.plan import Plan


def planned_uses(plan: Plan, recipe: object, people: PeopleOf | None) -> list[PlannedUse]:
    """Return every use of a mechanism that a plan was charged for.

    Args:
        plan: what was charged.
        recipe: what made it, whose private parts are called.
        people: the budgets of people, where each has one.
    """
    if plan.flows is not None:
        from discreet.engine.flows import flow_uses

        return flow_uses(plan)
    stages = plan.stages
    if stages is None:
        found = [use for i, query in enumerate(plan.measurements) for use in uses_of(query, f"{i} ")]
        if not plan.parts:
            return found
        from discreet.engine.person_parts import part_uses

        return [*found, *part_uses(plan.parts, recipe)]
    from discreet.engine.first_stage import SECOND, first_stage_uses

    def second(settled: Plan) -> list[PlannedUse]:
        """Return what the second stage may draw: its query was verified, and costs what was set aside at most."""
        query = settled.query
        stages.refuse_costlier(query)
        if people is not None:
            people.check_stages(stages.last, query)
        return uses_of(query, f"{SECOND} ")

    return [*first_stage_uses(stages), Reserved(SECOND, second)]
