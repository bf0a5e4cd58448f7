"""Totals of ROLLUP, CUBE and GROUPING SETS that are measured beside the finest groups, where these are declared.

References: docs/proofs/totals.md.
"""

from __future__ import annotations

from discreet.plan.cost import Allocation, PlanTerms
from discreet.plan.query import Query, with_allocation
from discreet.plan.rules.rule import Need, Rule


def measured_totals(query: Query, *, plain: bool) -> Allocation | None:
    """Return the allocation of a query with its columns' noise divided among levels; None where that is no better.

    Args:
        query: what is asked, with noise for the finest groups alone.
        plain: whether each column has a share of its own; Laplace columns that a δ lets compose better have not.
    """
    if query.question.outer.sets is None or query.question.keys.lists is None:
        return None
    from discreet.plan.grouping_sets.split_budget import weighed

    return weighed(query.question, query.allocation, plain=plain)


def _totals(query: Query, terms: PlanTerms) -> Query | None:
    found = measured_totals(query, plain=not query.allocation.guarantee.delta)
    return None if found is None else with_allocation(query, terms, found)


TOTALS = Rule(name="totals", of_one=_totals, needs=Need.GROUPING_SETS)
