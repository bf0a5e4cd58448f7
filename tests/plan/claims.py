"""A plan with another text, as the second derivation takes it."""

from __future__ import annotations

from dataclasses import replace

from discreet.plan.query import Query, claim_of
from discreet.verify import check as again


def check(sql: str, plan: Query) -> None:
    """Derives the cost of a plan a second time, as if this were its main statement."""
    again.check(claim_of(replace(plan, sql=sql)))
