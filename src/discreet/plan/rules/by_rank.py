"""Quantiles whose leaf is chosen by its rank, in place of a noisy tree, where that is closer.

References: docs/proofs/exponential-quantile.md.
"""

from __future__ import annotations

from fractions import Fraction

from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.plan.bound import bounding
from discreet.plan.cost import Kind, PlanTerms
from discreet.plan.quantile_tree.chosen import is_alone, rank_errors
from discreet.plan.query import Query, allocated
from discreet.plan.rules.rule import Need, Rule


def _by_rank(query: Query, terms: PlanTerms) -> Query | None:
    """Return the query with each quantile chosen by rank that is alone on its tree and closer so."""
    question = query.question
    if terms.kind is not Kind.LAPLACE:
        return None
    b, found = bounding(question), dict[int, ExponentialQuantile]()
    is_row = b.table.unit.is_row
    for i, (tree_read, (moves, _)) in enumerate(zip(question.trees, query.trees, strict=True)):
        if not is_alone(question.outer.expressions, tree_read):
            continue
        law = ExponentialQuantile(
            epsilon=Fraction(1),
            p=tree_read.at[0],
            sensitivity=tree_read.shape.total(b.max_rows, is_row=is_row),
            relation=b.table.relation,
            max_groups=b.max_groups,
            groups=b.keys.count,
            row=tree_read.shape.steps(is_row=is_row),
        )
        named, read = rank_errors(law, tree_read.shape, moves)
        if named <= read:
            found[i] = law
    return allocated(query, terms, found) if found else None


BY_RANK = Rule(name="by_rank", of_one=_by_rank, needs=Need.TREES, in_batches=False)
"""Queries cannot share what was chosen for one of them."""
