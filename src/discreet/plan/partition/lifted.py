"""Questions of a batch that count rows of one table under different conditions: read from one partition of its rows.

`SELECT COUNT(*) FROM t WHERE a` and `… WHERE b` are the counts of two conditions on the rows of t. They become such
where each row is a unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from discreet.catalog.types import Type
from discreet.plan.bound import bounding, spread_sql
from discreet.plan.cost import Kind
from discreet.plan.measures.measure import RowCount
from discreet.plan.needs import is_composed
from discreet.plan.nodes.within import Within
from discreet.plan.partition.choose import is_no_noisier
from discreet.plan.partition.joint import condition, in_ratios, joint_spread
from discreet.plan.quantile_tree.shape import TreeRead
from discreet.plan.query import Query, spread_moves
from discreet.privacy.sensitivity import Sensitivity
from discreet.query.bind import call
from discreet.query.expr import Expr, Literal
from discreet.query.keys import Keys


def lifted(alone: Mapping[str, Query], kind: Kind) -> dict[str, Query]:
    """The questions of a batch by their names, those that can be read from one partition rewritten so.

    What a rewritten plan costs is decided by the batch: its `allocation` is that of the question alone.
    """
    found = dict(alone)
    if any(is_composed(p) for p in alone.values()):
        return found  # where Laplace columns compose by a δ, each is given what it has alone
    over: dict[tuple[str, Keys], dict[str, Expr]] = {}
    for name, plan in alone.items():
        wanted = _condition(plan)
        if wanted is not None:
            over.setdefault((plan.question.table.name, plan.question.keys), {})[name] = wanted
    for conditions in over.values():
        first = alone[next(iter(conditions))]
        b = bounding(replace(first.question, where=None))
        joint = joint_spread(list(conditions.values()), b, gaussian=kind is Kind.GAUSSIAN)
        if joint is None:
            continue
        spread, leaves = joint
        measured = (spread_moves(b, TreeRead(spread, ())), spread_sql(b, spread))
        for name, own in zip(conditions, leaves, strict=True):
            found[name] = _read_from(alone[name], Within(spread, own), measured)
    return found


def keeps_to(plan: Query, alone: Query) -> bool:
    """Whether a question of a batch that is read from a partition only there has no more noise than alone."""
    return plan.question.measures == alone.question.measures or is_no_noisier(plan, alone)


def _condition(plan: Query) -> Expr | None:
    """The condition whose rows a question counts, if that is all that it measures and may be lifted."""
    q = plan.question
    if len(q.measures) != 1 or q.spreads or q.outer.sets is not None or q.relation is not None:
        return None
    if q.keys.count is None or not q.table.unit.is_row:
        return None
    if any(in_ratios(e) for e in q.outer.expressions):
        return None
    (measure,) = q.measures
    inner = condition(measure)
    if inner is None and not isinstance(measure, RowCount):
        return None
    parts = [c for c in (q.where, inner) if c is not None]
    if not parts:
        return Literal(True, Type.BOOL)
    return parts[0] if len(parts) == 1 else call("and", parts)


def _read_from(plan: Query, count: Within, measured: tuple[Sensitivity, str]) -> Query:
    outer = plan.question.outer.with_columns(lambda _: count)
    question = replace(plan.question, where=None, measures=(), outer=outer)
    return replace(plan, question=question, sql="", sensitivities=(), distinct=(), spreads=(measured,))
