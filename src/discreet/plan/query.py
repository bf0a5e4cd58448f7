"""A decided query: the SQL to run and the noise for each number, and what it claims of both. A value; nothing has
been touched.

A claim is what the second derivation and certificates take of a plan: the only bridge from a plan to `verify`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Never

from discreet.catalog.schema import Scalar, Values
from discreet.errors import InternalError, InvalidParameter, UnknownColumn
from discreet.mechanisms.additive import Additive
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.mechanisms.rounds import GaussianRounds
from discreet.mechanisms.summed import summed_noises
from discreet.plan.bound import (
    BoundedQuery,
    before_shown,
    bounded_sql,
    bounding,
    distinct_sql,
    needs_secret,
    tree_sql,
    weights_sql,
)
from discreet.plan.cost import Allocation, Kind, PlanTerms, allocate, sensitivity_of, tree_sensitivity
from discreet.plan.decided import FirstChoice
from discreet.plan.measures.measure import DistinctCount, DistinctTotal, Measure, RowCount
from discreet.plan.nodes.node import Node
from discreet.plan.nodes.noise import Laws
from discreet.plan.quantile_tree.shape import TreeRead
from discreet.plan.question import Question
from discreet.plan.reports import Report, report_moves, report_sql, reports_of
from discreet.privacy.exact import Real, exact
from discreet.privacy.unit import Relation, Sensitivity
from discreet.verify.claim import Cost, Level, Look, Measurement, NoisyColumn, PlanClaim, Tree
from discreet.verify.derive import PrivateRows
from discreet.verify.owned import PublicTable

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.plan.decided import Drawing
    from discreet.privacy.event import Composed
    from discreet.privacy.guarantee import Approximate


@dataclass(frozen=True, slots=True)
class Query:
    """A query that has been decided: what the database runs for it, and the noise on what that gives.

    Attributes:
        question: what is measured, and how the result is made from it.
        identity: the same for the same query (decision 0001).
        epsilon, delta: what was asked to be spent at most.
        sql: what the database will run; `$secret` stands for the account's key. Empty where no column is a sum over
            units and the groups are public.
        truncation: the statements that count units of which something is cut off, when such reports were asked for.
        sensitivities: of each integer column, exactly.
        allocation: noise, selection of groups, events and the guarantee to be charged.
        distinct: the place of each COUNT(DISTINCT x) among the columns, and the statement of its own that counts it.
        trees: for each tree that the query reads, how far one unit moves a level of it, and its statement.
        chosen: what a first stage chose for it, where it did.
    """

    question: Question
    identity: str
    epsilon: Fraction
    delta: Fraction
    sql: str
    truncation: tuple[str, ...]
    sensitivities: tuple[Sensitivity, ...]
    allocation: Allocation
    distinct: tuple[tuple[int, str], ...] = ()
    trees: tuple[tuple[Sensitivity, str], ...] = ()
    chosen: FirstChoice | None = None

    @property
    def statements(self) -> tuple[str, ...]:
        """Every text that the database will run."""
        texts = (*self.truncation, self.sql, *(own for _, own in (*self.distinct, *self.trees)), self.weights)
        return tuple(text for text in texts if text)

    @property
    def weights(self) -> str:
        """The statement of a round of selection, before any group is shown; empty where none selects in rounds."""
        chosen = isinstance(self.allocation.threshold, GaussianRounds)
        return weights_sql(bounding(self.question)) if chosen else ""

    @property
    def reports(self) -> tuple[Report, ...]:
        """What the statements of `truncation` count, in the order of their counts."""
        return reports_of(self.question) if self.truncation else ()

    @property
    def columns(self) -> list[str]:
        """The names of the result's columns."""
        return [n for n, _ in self.question.outer.columns]

    def is_unsure(self, expr: Node) -> bool:
        """Whether nothing is known of how far the truth may be from an output column: it is made of values that were
        clamped to bounds chosen privately, and too many of them may lie outside.
        """
        return self.chosen is not None and self.chosen.is_unsure(expr, self.question)

    @property
    def notes(self) -> tuple[str, ...]:
        """What its numbers leave out, in sentences: truncation bias, undeclared values, groups that may be missing.

        They follow from the plan alone, so that they are the same whatever the data hold.
        """
        from discreet.plan.notes import notes

        return notes(self)

    @property
    def needs_secret(self) -> bool:
        """Whether a statement has the `$secret` parameter."""
        return any(self.is_keyed(text) for text in self.statements)

    def is_keyed(self, text: str) -> bool:
        """Whether this statement has the `$secret` parameter; constants of the user may be spelled like it."""
        if text in [own for _, own in self.distinct]:
            return not self.question.table.unit.is_row
        keyed = text in (self.sql, *(own for _, own in self.trees))
        if not keyed and (weights := self.weights):
            keyed = text.startswith(before_shown(weights))  # of any round
        return keyed and needs_secret(self.question)

    def column(self, name: str) -> Node:
        """Return an output column's expression, by its name.

        Raises:
            UnknownColumn: no output column is called that.
        """
        found = [e for n, e in self.question.outer.columns if n == name]
        if not found:
            raise UnknownColumn(
                f"The result has no column {name!r}.", hint=f"its columns are: {', '.join(self.columns)}"
            )
        return found[0]

    def has_interval(self, name: str) -> bool:
        """Whether cells of an output column have intervals: it is noisy, and no end of another one's interval."""
        return self.column(name).has_interval and not self.is_end(name)

    def labels(self, name: str) -> dict[Scalar, str]:
        """Return the labels that the owner gave the values of an output column; none where it is no such key."""
        place = self.column(name).key
        keys, facts = self.question.keys, self.question.table.facts
        key = None if place is None or place >= len(keys.exprs) else keys.exprs[place]
        fact = None if key is None else keys.named.get(key) or facts.get(key.column or "")
        found = dict(fact.labels) if isinstance(fact, Values) else {}
        if self.question.outer.sets is not None:
            found.pop(None, None)  # there NULL is a total
        return found

    @property
    def row_noises(self) -> tuple[Additive, ...]:
        """The noise of each column in a row: with grouping sets, in the rows of the set in which it is largest.

        Raises:
            InvalidParameter: how many groups a row adds up is private.
        """
        sets, lists = self.question.outer.sets, self.question.keys.lists
        if sets is None:
            return self.allocation.noises
        if lists is None:
            raise InvalidParameter(
                "the error of a total depends on how many groups it adds up, which is private.",
                hint="declare the keys with dp.Values; the release itself has intervals",
            )
        if self.allocation.levels:
            from discreet.plan.grouping_sets.split_budget import agreements

            found = [[a.noise(kept) for kept in a.levels.kept] for a in agreements(self.question, self.allocation)]
            return tuple(max(noises, key=lambda z: z.variance) for noises in found)
        parts = max(math.prod(len(v) for i, v in enumerate(lists) if i not in kept) for kept in sets)
        return summed_noises(self.allocation.noises, parts)

    @property
    def laws(self) -> Laws:
        """The noise in each row of the result.

        Raises:
            InvalidParameter: see `row_noises`.
        """
        trees = (tree_read.shape for tree_read in self.question.trees)
        sources: dict[Hashable, Additive | ExponentialQuantile]
        sources = dict(zip(trees, self.allocation.trees, strict=True))
        return Laws(self.row_noises, sources, self.question.table.unit.is_row)

    def is_end(self, name: str) -> bool:
        """Whether an output column is an end of another one's interval."""
        return name in [self.columns[place] for place, _ in self.question.outer.ends]

    def error(
        self, column: str, confidence: Real = Fraction(19, 20), *, assuming: Mapping[str, Real] | None = None
    ) -> float:
        """Return the half-width t such that the noise moves the column by at most t with probability `confidence`.

        For counts, sums, what is affine in them and each count of a histogram it is known before the data. A mean's
        depends on how many rows it is over: give a public guess, `assuming={"rows": 10_000}` (the key is any name).

        Raises:
            InvalidParameter: a column whose error depends on the data, without an assumption that settles it.
        """
        expr, level = self.column(column), confidence_level(confidence)
        if self.is_end(column):
            raise InvalidParameter(
                f"{column!r} is an end of an interval, and has no error of its own.",
                hint="ask for the error of the column that the interval is of",
            )
        width = self._known_error(expr, level)
        if width is not None:
            return width
        from discreet.plan.assumed import Assumed

        return Assumed.of(self, assuming).error(column, level)

    def rank_error(self, column: str, confidence: Real = Fraction(19, 20)) -> float:
        """How many rows the rank of a quantile is off by, or less, with probability `confidence`, where values lie
        evenly about it: from the noise, before the data. `explain` has a bound whatever the data.

        Raises:
            InvalidParameter: a column that is no quantile of a share strictly between 0 and 1.
        """
        expr, level = self.column(column), confidence_level(confidence)
        found = expr.rank_error(self.laws, level) if expr.shares else None
        if found is None:
            raise InvalidParameter(f"{column!r} has no rank.", hint="SELECT MEDIAN(x) AS m has one: rank_error('m')")
        return found

    def _known_error(self, expr: Node, level: Fraction) -> float | None:
        """Return the error of a column that does not depend on the data, of a histogram that of each count; else None.

        Infinite where nothing is known of it.
        """
        return math.inf if self.is_unsure(expr) else expr.known_error(self.laws, level)

    @property
    def errors(self) -> list[str]:
        """How far the noise moves each column, in lines, as far as that is known before the data."""
        lines = []
        unknown = self.question.outer.sets is not None and self.question.keys.lists is None
        for name, expr in () if unknown else self.question.outer.columns:
            if self.is_end(name):
                continue
            width = self._known_error(expr, Fraction(19, 20))
            if width is not None:
                lines.append(f"  {name}: ± {width:,.6g} at 95 %".replace("± inf", "± ∞"))
            elif expr.mean_width is not None:
                example = expr.error_over(10_000, self.row_noises, Fraction(19, 20))
                lines.append(f"  {name}: ± {example:,.6g} at 95 % if it is over 10,000 rows")
            elif (off := expr.rank_error(self.laws, Fraction(19, 20))) is not None:
                lines.append(f"  {name}: of a rank that is off by {off:,.3g} rows or less at 95 %")
        if self.truncation:
            from discreet.plan.explain import report_lines

            lines += [f"  {line}" for line in report_lines(self)]
        return lines


def decided(question: Question, terms: PlanTerms) -> Query:
    """Return the decided form of a bound query, each of whose numbers is measured by itself."""
    b = bounding(question)
    sensitivities = tuple(column_moves(b, m) for m in question.measures)
    reports = reports_of(question) if terms.report_share else ()
    trees = tuple((tree_moves(b, s), tree_sql(b, s.shape)) for s in question.trees)
    allocation = _allocated(question, terms, sensitivities, [moved for moved, _ in trees], len(reports))
    text, distinct = statements(question, b)
    return Query(
        question,
        question.identity(terms, allocation),
        terms.epsilon,
        terms.delta,
        text,
        report_sql(b, reports) if reports else (),
        sensitivities,
        allocation,
        distinct,
        trees,
    )


def allocated(
    query: Query, terms: PlanTerms, by_rank: Mapping[int, ExponentialQuantile], *, composes: bool = False
) -> Query:
    """Return the query with noise chosen again: with leaves of the trees at these places chosen by rank, by a law
    given at any ε, and with Laplace columns that a δ lets compose, or not.
    """
    moves, reports = [moved for moved, _ in query.trees], len(query.allocation.reports)
    return with_allocation(
        query, terms, _allocated(query.question, terms, query.sensitivities, moves, reports, by_rank, composes=composes)
    )


def _allocated(
    question: Question,
    terms: PlanTerms,
    sensitivities: Sequence[Sensitivity],
    moves: Sequence[Sensitivity],
    reports: int,
    by_rank: Mapping[int, ExponentialQuantile] = MappingProxyType({}),
    *,
    composes: bool = False,
) -> Allocation:
    """Return the noise of columns and of trees, one of whose levels a unit moves so far each, and of reports."""
    table, selects = question.table, question.keys.count is None
    return allocate(
        sensitivities,
        epsilon=terms.epsilon,
        delta=terms.delta if composes or selects or terms.kind is Kind.GAUSSIAN else Fraction(0),
        kind=terms.kind,
        select=((table.unit.caps or (0, 0))[0], table.relation, table.min_people) if selects else None,
        reports=[report_moves(table.relation)] * reports if reports else [],
        report_share=terms.report_share,
        trees=[(m, s.shape.depth) for m, s in zip(moves, question.trees, strict=True)],
        by_rank=by_rank,
        shares=question.shares,
        width=question.width,
    )


def with_allocation(query: Query, terms: PlanTerms, allocation: Allocation) -> Query:
    """Return the query with another noise, and the identity that it has with it."""
    return replace(query, allocation=allocation, identity=query.question.identity(terms, allocation))


def column_moves(b: BoundedQuery, measure: Measure) -> Sensitivity:
    """Return how far one unit moves a column over all groups: the number of rows of a whole table not at all, where
    each row is a unit that another one replaces, and no reader of its source leaves a row out.
    """
    whole = b.where is None and b.rows is None and not b.keys.exprs and not _SHEDS.search(b.table.view or "")
    if whole and b.table.unit.is_row and b.table.relation is Relation.REPLACE and isinstance(measure, RowCount):
        return Sensitivity(0, 0)
    total = None if b.most is None else b.most * measure.of_one_row
    return sensitivity_of(measure.span(b.max_rows), b.max_groups, b.keys.count, b.table.relation, total)


_SHEDS = re.compile(r"ignore_errors = true|json_valid\(object\)")
"""What a view of text holds, whose reader leaves out what is no row."""


def tree_moves(b: BoundedQuery, tree_read: TreeRead) -> Sensitivity:
    """Return how far one unit moves each level of a tree; no level has more nodes than leaves."""
    shape, unit = tree_read.shape, b.table.unit
    total = shape.total(b.max_rows, is_row=unit.is_row)
    together = None if b.most is None else b.most * shape.steps(is_row=False)
    return tree_sensitivity(total, b.max_groups, b.keys.count, shape.leaves, b.table.relation, together)


def statements(question: Question, b: BoundedQuery) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Return `Query.sql` and `Query.distinct`: the sums over units, and what is counted apart."""
    apart = [(i, m) for i, m in enumerate(question.measures) if isinstance(m, DistinctCount | DistinctTotal)]
    return bounded_sql(b) if b.measures else "", tuple((i, distinct_sql(b, m)) for i, m in apart)


def confidence_level(confidence: Real) -> Fraction:
    """Return a confidence strictly between 0 and 1."""
    level = exact("confidence", confidence)
    if not 0 < level < 1:
        raise InvalidParameter(
            f"confidence must lie strictly between 0 and 1, not {confidence}.", hint="0.95, for instance"
        )
    return level


def kind_of(noise: str | None) -> Kind:
    """Return the kind of noise that a query asks for; Laplace where it is chosen and nothing is compared."""
    if is_chosen(noise):
        return Kind.LAPLACE
    try:
        return Kind(noise)
    except ValueError:
        raise InvalidParameter(f"noise must be 'auto', 'laplace' or 'gaussian', not {noise!r}.") from None


def is_chosen(noise: str | None) -> bool:
    """Return whether the planner chooses the kind of noise."""
    return noise is None or noise == "auto"


def claim_of(plan: Query) -> PlanClaim:
    """Return the claim of a query that is asked alone and at once.

    Raises:
        InternalError: the plan contradicts itself.
    """
    a = plan.allocation
    return claim_of_all([plan], a.events, a.guarantee)


def claim_of_all(
    measurements: Sequence[Query],
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


def claim_in_stages(looks: Sequence[Look], second: Query, events: Composed, guarantee: Approximate) -> PlanClaim:
    """Return the claim of a query whose caps or bounds are chosen by looks at the data before it; to the query
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


def measurement_of(plan: Query) -> Measurement:
    """One plan's statements, and the noise on what they give.

    Raises:
        InternalError: the plan contradicts itself.
    """
    q, a = plan.question, plan.allocation
    unit, lists = q.table.unit, q.keys.lists
    if len(plan.sensitivities) != len(q.measures) or len(a.noises) != len(q.measures):
        _disagree("the number of columns")
    if not len(plan.trees) == len(q.trees) == len(a.trees):
        _disagree("the number of columns")
    if unit.caps is None:
        _disagree("the groups of a unit, which are not bounded")
    max_groups, max_rows = unit.caps
    columns = [
        NoisyColumn(*m.span(max_rows), s, noise)
        for m, s, noise in zip(q.measures, plan.sensitivities, a.noises, strict=True)
    ]
    trees = [
        Tree(text, tree_read.shape.depth, tree_read.at, moves, noise, tree_read.shape.layers)
        for (moves, text), tree_read, noise in zip(plan.trees, q.trees, a.trees, strict=True)
    ]
    count = q.keys.count
    return Measurement(
        source_of(q),
        plan.sql,
        plan.distinct,
        plan.truncation,
        len(q.keys.exprs),
        None if lists is None else tuple(len(v) for v in lists),
        max_groups if count is None else min(max_groups, count),
        None if unit.is_row else max_rows,
        tuple(columns),
        tuple(trees),
        tuple(Level(v.kept, v.noises) for v in a.levels),
        a.threshold,
        a.reports,
        plan.weights,
    )


def source_of(question: Question) -> PrivateRows:
    """Return what the text may read: the query's one table, or the tables that its rows come from.

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
    return PrivateRows(None, frozenset(), None if question.table.unit.is_row else "u", tables)


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
