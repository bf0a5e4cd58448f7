"""Counts of rows under conditions that are read from one partition of the rows, in place of a column for each: those of
one query, or those of a batch's queries `SELECT COUNT(*) FROM t WHERE a`, `… WHERE b`.

Where a unit has many rows there is none: what counts of its rows under a cap then depended on which other conditions
are asked for.

References: docs/proofs/partition.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from discreet.catalog.types import Type
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.plan.bound import bounding, tree_sql
from discreet.plan.cost import Kind, PlanTerms
from discreet.plan.measures.measure import RowCount
from discreet.plan.needs import is_composed
from discreet.plan.nodes.node import Measured, Node
from discreet.plan.nodes.of_tree import Within
from discreet.plan.partition.joint import condition, in_ratios, joint_tree
from discreet.plan.plan import Plan
from discreet.plan.quantile_tree.shape import TreeRead
from discreet.plan.query import Query, decided, tree_moves
from discreet.plan.rules.common import together
from discreet.plan.rules.composed import composed
from discreet.plan.rules.rule import Need, Rule
from discreet.privacy.unit import Sensitivity
from discreet.query.bind import call
from discreet.query.expr import Expr, Literal
from discreet.query.keys import GroupKeys

_EVERY = Literal(True, Type.BOOL)


def _jointly(query: Query, terms: PlanTerms) -> Query | None:
    """Return the query with its counts under conditions read from one partition; None where that is not better."""
    question = query.question
    by_rank = any(isinstance(law, ExponentialQuantile) for law in query.allocation.trees)
    if question.outer.sets is not None or by_rank:
        return None
    elsewhere = {m.index for e in question.outer.expressions for m in in_ratios(e)}
    places = {
        i: found
        for i, m in enumerate(question.measures)
        if (found := _EVERY if isinstance(m, RowCount) else condition(m)) and i not in elsewhere
    }
    gaussian = terms.kind is Kind.GAUSSIAN
    joint = joint_tree(list(places.values()), bounding(question), gaussian=gaussian)
    if joint is None:
        return None
    shape, leaves = joint
    of_place = dict(zip(places, leaves, strict=True))
    left = [i for i in range(len(question.measures)) if i not in places]

    def swap(m: Measured) -> Node:
        if m.index in of_place:
            return Within(shape, of_place[m.index])
        return replace(m, index=left.index(m.index))

    measures = tuple(question.measures[i] for i in left)
    outer = question.outer.with_columns(swap)
    joined = decided(replace(question, measures=measures, outer=outer), terms)
    return composed(joined, terms) or joined


def _lifted(asked: Mapping[str, Query], terms: PlanTerms) -> Plan | None:
    """Return the queries of a batch, those that can be read from one partition rewritten so; None where none can."""
    if any(is_composed(q) for q in asked.values()):
        return None  # where Laplace columns compose by a δ, each is given what it has alone
    over: dict[tuple[str, GroupKeys], dict[str, Expr]] = {}
    for name, query in asked.items():
        wanted = _condition(query)
        if wanted is not None:
            over.setdefault((query.question.table.name, query.question.keys), {})[name] = wanted
    found: dict[str, Query] = {}
    for conditions in over.values():
        first = asked[next(iter(conditions))]
        b = bounding(replace(first.question, where=None))
        joint = joint_tree(list(conditions.values()), b, gaussian=terms.kind is Kind.GAUSSIAN)
        if joint is None:
            continue
        shape, leaves = joint
        measured = (tree_moves(b, TreeRead(shape, ())), tree_sql(b, shape))
        for name, own in zip(conditions, leaves, strict=True):
            found[name] = _read_from(asked[name], Within(shape, own), measured)
    return together({**asked, **found}, asked, terms) if found else None


def _condition(query: Query) -> Expr | None:
    """Return the condition whose rows a query counts, if that is all that it measures and may be lifted."""
    q = query.question
    if len(q.measures) != 1 or q.trees or q.outer.sets is not None or q.relation is not None:
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
        return _EVERY
    return parts[0] if len(parts) == 1 else call("and", parts)


def _read_from(query: Query, count: Within, measured: tuple[Sensitivity, str]) -> Query:
    outer = query.question.outer.with_columns(lambda _: count)
    question = replace(query.question, where=None, measures=(), outer=outer)
    return replace(query, question=question, sql="", sensitivities=(), distinct=(), trees=(measured,))


ONE_PARTITION = Rule(name="one_partition", of_one=_jointly, needs=Need.ROW_UNITS, of_several=_lifted, in_stages=False)
"""A second stage is rehearsed before it is known."""
