"""Laplace noise that is less where a δ lets columns compose better than their ε add up.

References: docs/proofs/composition.md.
"""

from __future__ import annotations

from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.plan.cost import Kind, PlanTerms
from discreet.plan.query import Query, allocated
from discreet.plan.rules.rule import Need, Rule


def composed(query: Query, terms: PlanTerms) -> Query | None:
    """Return the query with all of its scales smaller by one factor; None where adding up ε is as good."""
    if terms.kind is not Kind.LAPLACE or not terms.delta or query.question.keys.count is None:
        return None
    laws = enumerate(query.allocation.trees)
    by_rank = {i: law for i, law in laws if isinstance(law, ExponentialQuantile)}
    found = allocated(query, terms, by_rank, composes=True)
    return found if found.allocation.guarantee.delta else None


COMPOSED = Rule(name="composed", of_one=composed, needs=Need.DELTA)
