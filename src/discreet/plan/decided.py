"""A decided question as other files read it: below the `Query` that offers what they make of it."""

from __future__ import annotations

from typing import Protocol

from discreet.errors import MissingBounds
from discreet.mechanisms.additive import Additive
from discreet.plan.bound import BoundedQuery
from discreet.plan.cost import Allocation, spread_sensitivity
from discreet.plan.expr import Expr
from discreet.plan.measures.measure import UnitCount
from discreet.plan.nodes.noise import Laws
from discreet.plan.quantile_tree.shape import TreeRead
from discreet.plan.question import Question
from discreet.plan.reports import Report
from discreet.privacy.sensitivity import Sensitivity


class FirstChoice(Protocol):
    """Bounds that a first stage chose, as a `Query` has them."""

    @property
    def sentences(self) -> tuple[str, ...]: ...
    def is_unsure(self, expr: Expr, question: Question) -> bool: ...
    def explain(self, second: str) -> str: ...


class Decided(Protocol):
    """A `Query`: what is measured of a question, and the noise on it."""

    @property
    def question(self) -> Question: ...
    @property
    def sql(self) -> str: ...
    @property
    def truncation(self) -> tuple[str, ...]: ...
    @property
    def sensitivities(self) -> tuple[Sensitivity, ...]: ...
    @property
    def allocation(self) -> Allocation: ...
    @property
    def distinct(self) -> tuple[tuple[int, str], ...]: ...
    @property
    def spreads(self) -> tuple[tuple[Sensitivity, str], ...]: ...
    @property
    def reports(self) -> tuple[Report, ...]: ...
    @property
    def laws(self) -> Laws: ...
    @property
    def row_noises(self) -> tuple[Additive, ...]: ...
    def column(self, name: str) -> Expr: ...
    def is_end(self, name: str) -> bool: ...


def bounding(question: Question) -> BoundedQuery:
    """Return the question as the writer of SQL takes it.

    Where groups are selected privately, their units are counted last.
    """
    unit = question.table.unit
    if unit.max_groups is None or unit.max_rows is None:
        raise MissingBounds(
            "How much of the data one unit may add has not been said.",
            hint=f"dp.PrivacyUnit({unit.column!r}, max_groups=3, max_rows=10) lets it enter 3 groups, 10 rows in each",
        )
    groups = question.keys.count
    k = unit.max_groups if groups is None else min(unit.max_groups, groups)
    sums = tuple(m for m in question.measures if not m.is_apart)
    measures = sums if groups is not None else (*sums, UnitCount())
    rows = None if question.relation is None else question.relation.sql
    return BoundedQuery(question.table, question.where, question.keys, measures, k, unit.max_rows, rows)


def spread_moves(b: BoundedQuery, looked: TreeRead) -> Sensitivity:
    """Return how far one unit moves each level of a spread; no level has more nodes than leaves."""
    spread, unit = looked.spread, b.table.unit
    total = spread.total(b.max_rows, is_row=unit.is_row)
    return spread_sensitivity(total, b.max_groups, b.keys.count, spread.leaves, b.table.relation)
