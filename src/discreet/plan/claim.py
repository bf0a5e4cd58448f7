"""What a plan claims, as the second derivation and certificates take it: the only bridge from a plan to `verify`."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Never

from discreet.errors import InternalError
from discreet.verify.claim import Cost, Level, Look, Measurement, NoisyColumn, PlanClaim, Tree
from discreet.verify.derive import PrivateRows
from discreet.verify.owned import PublicTable

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.plan.decided import Decided, Drawing
    from discreet.plan.question import Question
    from discreet.privacy.event import Composed
    from discreet.privacy.guarantee import Approximate


def claim_of(plan: Decided) -> PlanClaim:
    """Return the claim of a question that is asked alone and at once.

    Raises:
        InternalError: the plan contradicts itself.
    """
    a = plan.allocation
    return claim_of_all([plan], a.events, a.guarantee)


def claim_of_all(
    measurements: Sequence[Decided],
    events: Composed,
    guarantee: Approximate,
    parts: Sequence[Drawing] = (),
    recipe: str = "",
) -> PlanClaim:
    """Return the claim of measurements, and of private parts of a recipe, that are charged together.

    Raises:
        InternalError: a plan contradicts itself.
    """
    cost = Cost(events, guarantee.epsilon, guarantee.delta)
    relations = {p.question.table.relation for p in measurements} | {p.relation for p in parts}
    if len(relations) != 1:
        _disagree("the relation")
    (relation,) = relations
    measured = tuple(measurement_of(p) for p in measurements)
    return PlanClaim(relation, (), measured, cost, cost, tuple(p.claim for p in parts), recipe)


def claim_in_stages(looks: Sequence[Look], second: Decided, events: Composed, guarantee: Approximate) -> PlanClaim:
    """Return the claim of a question whose caps or bounds are chosen by looks at the data before it; to the question
    itself goes what they leave of (ε, δ), which it need not use up.

    Raises:
        InternalError: the plan contradicts itself, or costs more than is left.
    """
    alone = claim_of(second)
    left = guarantee.epsilon - sum((look.epsilon for look in looks), Fraction(0))
    if alone.measured.epsilon > left or alone.measured.delta > guarantee.delta:
        _disagree("what the second stage costs")
    measured = Cost(alone.measured.events, left, guarantee.delta)
    charged = Cost(events, guarantee.epsilon, guarantee.delta)
    return PlanClaim(alone.relation, tuple(looks), alone.measurements, measured, charged)


def measurement_of(plan: Decided) -> Measurement:
    """One plan's statements, and the noise on what they give.

    Raises:
        InternalError: the plan contradicts itself.
    """
    q, a = plan.question, plan.allocation
    unit, lists = q.table.unit, q.keys.lists
    if len(plan.sensitivities) != len(q.measures) or len(a.noises) != len(q.measures):
        _disagree("the number of columns")
    if not len(plan.spreads) == len(q.spreads) == len(a.spreads):
        _disagree("the number of columns")
    if unit.max_groups is None or unit.max_rows is None:
        _disagree("the groups of a unit, which are not bounded")
    columns = [
        NoisyColumn(*m.span(unit.max_rows), s, noise)
        for m, s, noise in zip(q.measures, plan.sensitivities, a.noises, strict=True)
    ]
    trees = [
        Tree(text, looked.spread.depth, looked.at, moves, noise, looked.spread.layers)
        for (moves, text), looked, noise in zip(plan.spreads, q.spreads, a.spreads, strict=True)
    ]
    count = q.keys.count
    return Measurement(
        source_of(q),
        plan.sql,
        plan.distinct,
        plan.truncation,
        len(q.keys.exprs),
        None if lists is None else tuple(len(v) for v in lists),
        unit.max_groups if count is None else min(unit.max_groups, count),
        None if unit.is_row else unit.max_rows,
        tuple(columns),
        tuple(trees),
        tuple(Level(v.kept, v.noises) for v in a.levels),
        a.threshold,
        a.reports,
    )


def source_of(question: Question) -> PrivateRows:
    """Return what the text may read: the question's one table, or the tables that its rows come from.

    Raises:
        InternalError: what is known of the tables contradicts itself.
    """
    if question.relation is None:
        table = question.table
        if table.reached is not None or table.public:
            _disagree("whose the rows are")
        return PrivateRows(table.name, frozenset(table.columns), table.unit.column, view=table.view)
    tables: dict[str, PublicTable] = {}
    for t in question.relation.tables:
        if t.name in tables or (not t.public and t.relation is not question.table.relation):
            _disagree("what is known of the tables")
        tables[t.name] = public_table(t)
    return PrivateRows(None, frozenset(), "u", tables)


def public_table(t: TableSchema) -> PublicTable:
    """Return what the second derivation knows of a connected table."""
    columns = {n: None if kind is None else kind.value for n, kind in t.columns.items()}
    key = None if t.reached is None else (t.reached.column, t.reached.table, t.reached.key)
    unit = None if t.public or key is not None else t.unit.column
    return PublicTable(columns, unit, key, t.public, t.view)


def _disagree(what: str) -> Never:
    raise InternalError(
        f"The plan of this query contradicts itself about {what}. Nothing was charged.", hint="please report the query"
    )
