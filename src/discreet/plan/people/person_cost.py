"""What a charge costs each person in it: statements for the database, and the most that anybody pays.

The database counts in whole parts of a person's capacity, exactly in 128 bits and rounded up once; what could leave
them is charged the worst case.

A column is integers with independent noise of one law. A person who adds c_g to group g costs, by what adds up in the
filter, a multiple of Σ|c_g| or of Σc_g², and for totals beside the groups of (Σ|c_g|)², which no total's move exceeds.
All of it is proved in docs/proofs/people.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from discreet.accounting.filter import BasicFilter, Charge, Filter, GDPFilter, RenyiFilter, Tally, ZCDPFilter
from discreet.catalog.schema import TableSchema
from discreet.errors import InternalError, InvalidParameter, UnsupportedQuery
from discreet.ledger.people_table import BEYOND, CAPACITY, parts_of
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.bound import (
    BoundedQuery,
    bounded_sql,
    bounding,
    contribution_stages,
    needs_secret,
    scope_stages,
    tree_sql,
)
from discreet.plan.grouping_sets.moves import ColumnReach, level_moves
from discreet.plan.grouping_sets.split_budget import levels_of
from discreet.plan.query import Query, column_moves, statements
from discreet.plan.reports import report_sql
from discreet.privacy.event import Composed
from discreet.privacy.guarantee import Approximate
from discreet.query.bind import call
from discreet.query.expr import Expr, Fed, parameters_of, walk
from discreet.query.keys import GroupKeys

_MOST = 1 << 126
"""What the database's 128-bit numbers hold, and one bit less."""

_MOST_OF_64 = 1 << 62
"""The same of its 64-bit numbers, which are faster."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What one measurement costs its people.

    Attributes:
        sql: one row for each person with a row in the measurement: the id `u`, and the parts `p0` of the first sum.
        keyed: whether it has the `$secret` parameter.
        rest: the parts of the other sums, the same for everybody.
        least: the parts that everybody in it pays, whatever they add.
    """

    sql: str
    keyed: bool
    rest: tuple[int, ...]
    least: int


@dataclass(frozen=True, slots=True)
class PersonCost:
    """What a charge costs each person in it.

    Guarantee:
        For every person, the charge is, between the data with and without this person, a use of at most the cost that
        is counted: the person's own by contribution, or `worst` where that is less. It follows from that person's rows
        and from public facts. Who has no row in the charge's measurements does not move them (docs/proofs/people.md).

    Attributes:
        statements: one for each measurement.
        worst: the parts that the whole charge costs at most; a person is never charged more.
    """

    statements: tuple[Statement, ...]
    worst: tuple[int, ...]

    @property
    def keyed(self) -> bool:
        """Whether `sql` has the `$secret` parameter."""
        return any(s.keyed for s in self.statements)

    @property
    def sums(self) -> int:
        """How many sums are counted."""
        return len(self.worst)

    @property
    def hopeless(self) -> bool:
        """Whether nobody can ever pay it: a public fact."""
        return all(max(s.least, *s.rest, 0) > CAPACITY for s in self.statements)

    @property
    def sql(self) -> str:
        """One row for each person in the charge: the id `u`, and the parts `p0`, … of each sum."""
        shown = [
            f"SELECT u, p0{''.join(f', CAST({p} AS BIGINT) AS p{i}' for i, p in enumerate(s.rest, 1))} FROM ({s.sql}) t"
            for s in self.statements
        ]
        if len(shown) == 1:
            return shown[0]
        added = [f"CAST(least(sum(p{i}), {BEYOND}) AS BIGINT) AS p{i}" for i in range(self.sums)]
        return f"SELECT u, {', '.join(added)} FROM ({' UNION ALL '.join(shown)}) a GROUP BY u"


def person_cost_of(plans: Sequence[Query], charge: Charge, rule: Filter, capacity: Tally) -> PersonCost:
    """Return what a charge for these measurements costs each person, counted by a filter of this capacity.

    Raises:
        InvalidParameter: the filter cannot count the charge.
        UnsupportedQuery: each row is a unit of its own.
    """
    _check_people([p.question.table for p in plans])
    worst = rule.cost(charge)
    parts = tuple(parts_of(x, most) for x, most in zip(worst, capacity, strict=True))
    statements = tuple(_statement(p, rates_of(p, rule, worst), capacity, parts) for p in plans)
    return PersonCost(statements, parts)


def whole_cost(plan: Query, charge: Charge, rule: Filter, capacity: Tally) -> PersonCost:
    """Return what a charge costs each person where everybody in the scope of a query pays the worst case."""
    return everybody_cost([bounding(plan.question)], charge, rule, capacity)


def everybody_cost(scopes: Sequence[BoundedQuery], charge: Charge, rule: Filter, capacity: Tally) -> PersonCost:
    """Return what a charge costs each person where everybody in one of these scopes pays the worst case, once."""
    _check_people([b.table for b in scopes])
    worst = rule.cost(charge)
    parts = tuple(parts_of(x, most) for x, most in zip(worst, capacity, strict=True))
    different = {scope_stages(b): b for b in scopes}
    return PersonCost(tuple(_everybody(b, parts) for b in different.values()), parts)


def before_results(query: Query) -> BoundedQuery:
    """Return whose rows a query reads, whatever the results are that are fed back into it: without the conditions of
    WHERE that read one, and without keys where one reads one.

    Raises:
        UnsupportedQuery: a result is read before its WHERE.
    """
    b = bounding(query.question)
    parts = [] if b.where is None else b.where.args_of("and") or (b.where,)
    kept = [p for p in parts if not _reads_result(p)]
    where = None if not kept else kept[0] if len(kept) == 1 else call("and", kept)
    b = replace(b, where=where, keys=GroupKeys((), ()) if any(map(_reads_result, b.keys.exprs)) else b.keys)
    if parameters_of(scope_stages(b)):
        raise UnsupportedQuery(
            "Each person has a budget of their own, and who has a row in this query depends on a result that a join or "
            "a subquery reads.",
            hint="compare with the result in the outermost WHERE, or inside an aggregate",
        )
    return b


def _reads_result(expr: Expr) -> bool:
    return any(isinstance(e, Fed) for e in walk(expr))


def scope_of(query: Query) -> BoundedQuery:
    """Return whose rows a query reads that somebody else has planned: its statements are those of its query.

    Raises:
        InvalidParameter: they are others, whose people are not known.
    """
    question = query.question
    b = bounding(question)
    sql, distinct = statements(question, b)
    trees = [tree_sql(b, tree_read.shape) for tree_read in question.trees]
    reports = report_sql(b, query.reports) if query.truncation else ()
    if (query.sql, query.distinct, query.truncation) != (sql, distinct, reports) or [
        text for _, text in query.trees
    ] != trees:
        raise InvalidParameter(
            "The statements of this query are not those that were planned, so that it is not known whom it asks about, "
            "and each person has a budget of their own. Nothing was charged.",
            hint="ask it with session.sql or session.batch",
        )
    return b


def same_people(plan: Query, other: Query) -> bool:
    """Whether the same people have rows in both, whatever the data."""
    return scope_stages(bounding(plan.question)) == scope_stages(bounding(other.question))


def _statement(plan: Query, rates: Rates, capacity: Tally, worst: tuple[int, ...]) -> Statement:
    b = bounding(plan.question)
    rest = tuple(parts_of(x, most) for x, most in zip(rates.fixed[1:], capacity[1:], strict=True))
    if not rates.columns:
        return _everybody(b, worst)
    if bounded_sql(b) != plan.sql:
        raise InternalError("The contributions are not those of the query's SQL. Nothing was charged.")
    unit = Fraction(capacity[0], CAPACITY)
    wide = [max(-low, high) for low, high in (m.span(b.max_rows) for m in b.measures)]
    most = [(b.max_groups * m, b.max_groups * m * m) for m in wide]
    scaled = _Scaled.of(rates.columns, unit, rates.fixed[0], most)
    if scaled is None:
        return _everybody(b, worst)
    return Statement(
        f"{contribution_stages(b)},\n{scaled.sql(most, several=b.max_groups > 1)}",
        needs_secret(b),
        rest,
        scaled.fixed // scaled.divisor,
    )


def _everybody(b: BoundedQuery, parts: tuple[int, ...]) -> Statement:
    text = f'{scope_stages(b)}\nSELECT u, CAST({parts[0]} AS BIGINT) AS p0 FROM "unit rows" GROUP BY u'
    return Statement(text, False, parts[1:], parts[0])


def _check_people(tables: Sequence[TableSchema]) -> None:
    if any(table.unit.is_row for table in tables):
        raise UnsupportedQuery(
            "Each person has a budget of their own, and in this table each row is a unit: it has no person's id.",
            hint="connect it with a column that names the unit: dp.PrivacyUnit('person_id', …)",
        )


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Rates as whole numbers over one divisor, in parts of the capacity; no sum of them leaves 126 bits.

    Attributes:
        columns: for each column what Σ|c|, Σc² and (Σ|c|)² are multiplied by.
        fixed: is added once.
        divisor: of the sum, which is rounded up.
    """

    columns: tuple[tuple[int | None, int | None, int], ...]
    fixed: int
    divisor: int

    @classmethod
    def of(
        cls, rates: Sequence[Rate], unit: Fraction, fixed: Fraction, most: Sequence[tuple[int, int]]
    ) -> _Scaled | None:
        """Return the rates in parts of `unit`, exactly where they fit, else rounded up; None if that does not fit
        either.

        `most` is, for each column, what Σ|c| and Σc² are at most.
        """
        given = [x for r in rates for x in (r.linear, r.square, r.total) if x is not None]
        exact = math.lcm(*((x / unit).denominator for x in [*given, fixed]))
        for divisor in [exact, *(1 << t for t in range(_FINEST, -1, -_STEP))]:
            found = cls(
                tuple(
                    (_up(r.linear, unit, divisor), _up(r.square, unit, divisor), _up(r.total, unit, divisor) or 0)
                    for r in rates
                ),
                _up(fixed, unit, divisor) or 0,
                divisor,
            )
            if found._largest(most) < _MOST:
                return found
        return None

    def sql(self, most: Sequence[tuple[int, int]], *, several: bool) -> str:
        """Return the stage of each person's sums, and the person's parts: ⌈x⌉ as (x + d − 1) // d, with nothing below
        0.

        `several` says whether a person may add to several groups; else each has one row, and nothing is to be summed.
        """
        wide = "BIGINT" if self._largest(most) < _MOST_OF_64 else "HUGEINT"
        total_of, by = ("sum", " GROUP BY u") if several else ("", "")
        sums, terms = [], []
        for i, (linear, square, total) in enumerate(self.columns):
            sums.append(f"CAST({total_of}(abs(m{i})) AS {wide}) AS a{i}")
            if square is not None:
                product = f"CAST(m{i} AS {wide}) * CAST(m{i} AS {wide})"
                sums.append(f"CAST({total_of}({product}) AS {wide}) AS q{i}")
            terms.append(_least(i, linear, square, total, wide))
        due = " + ".join([*terms, f"CAST({self.fixed + self.divisor - 1} AS {wide})"])
        parts = due if self.divisor == 1 else f"({due}) // CAST({self.divisor} AS {wide})"
        return (
            f'"unit sums" AS (\n  SELECT {", ".join(["u", *sums])} FROM "unit bounded"{by}\n)\n'
            f'SELECT u, CAST(least({parts}, {BEYOND}) AS BIGINT) AS p0 FROM "unit sums"'
        )

    def _largest(self, most: Sequence[tuple[int, int]]) -> int:
        """At most so large is any number on the way."""
        total = self.fixed + self.divisor
        for (linear, square, both), (a, q) in zip(self.columns, most, strict=False):
            total += a + (linear or 0) * a + (q + square * q if square is not None else 0)
            total += (both + 1) * a * a if both else 0
        return total


_FINEST, _STEP = 80, 16
"""Powers of two that are tried as divisors: parts of a part, below which rounding up is nothing."""


def _least(i: int, linear: int | None, square: int | None, total: int, wide: str) -> str:
    ways = []
    if linear is not None:
        ways.append(f"a{i} * CAST({linear} AS {wide})")
    if square is not None:
        both = f" + a{i} * a{i} * CAST({total} AS {wide})" if total else ""
        ways.append(f"q{i} * CAST({square} AS {wide}){both}")
    return f"least({', '.join(ways)})" if len(ways) > 1 else ways[0]


def _up(x: Fraction | None, unit: Fraction, divisor: int) -> int | None:
    return None if x is None else math.ceil(x / unit * divisor)


@dataclass(frozen=True, slots=True)
class Rate:
    """What a column costs a person: the lesser of `linear`·Σ|c| and `square`·Σc² + `total`·(Σ|c|)², of those there are.

    Attributes:
        linear: None where nothing is linear.
        square: None where nothing is quadratic; `total` is 0 then.
        total: for totals that are measured beside the groups.
    """

    linear: Fraction | None
    square: Fraction | None
    total: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class Rates:
    """What a measurement costs each person with a row in it.

    Attributes:
        columns: one for each column of the plan's statement; none where each person is charged the worst case.
        fixed: what everything else costs, in the units of the filter: the worst case of one person.
    """

    columns: tuple[Rate, ...]
    fixed: Tally


def rates_of(plan: Query, rule: Filter, worst: Tally) -> Rates:
    """Return the rates of a plan under a person's filter; `worst` is what the whole charge costs under it.

    What is charged by contribution is the noise of sums. The rest of the plan's events, whatever they are of, is
    charged in full, the selection of groups at its (ε, δ) where these add up. Where all do not make up the plan's
    events, or one has no price of its own in this filter, everybody is charged `worst`.
    """
    columns = _noisy_columns(plan)
    own = sum((events for _, events in columns), Composed())
    chosen = plan.allocation.threshold
    apart = chosen.event() if chosen is not None and isinstance(rule, BasicFilter) else Composed()
    rest = _without(plan.allocation.events, own + apart)
    fixed = None if rest is None else _fixed(rest, rule)
    if fixed is not None and chosen is not None and apart:
        fixed = fixed[0] + chosen.epsilon, fixed[1] + chosen.delta
    found = [rate_of(noises, rule) for noises, _ in columns]
    if not columns or fixed is None or None in found:
        return Rates((), worst)
    return Rates(tuple(r for r in found if r is not None), fixed)


def rate_of(noises: Sequence[Additive], rule: Filter) -> Rate | None:
    """Return the rate of a column with the noise of its groups and then that of each level of totals; None if it has
    none.
    """
    laplace = [z.scale for z in noises if isinstance(z, DiscreteLaplaceNoise)]
    gaussian = [z.sigma**2 for z in noises if isinstance(z, RoundedGaussianNoise)]
    if (laplace and gaussian) or len(laplace) + len(gaussian) != len(noises):
        return None
    linear = sum((1 / b for b in laplace), Fraction(0))
    match rule, bool(laplace):
        case BasicFilter(), True:
            return Rate(linear, None)
        case ((ZCDPFilter() | RenyiFilter()), True):
            # one use costs D_α ≤ ε and D_α ≤ αε²/2, and ρ = ε²/2 or ρ = ε
            by = Fraction(1, 2) if isinstance(rule, ZCDPFilter) else rule.order / 2
            return Rate(linear, by / laplace[0] ** 2, sum((by / b**2 for b in laplace[1:]), Fraction(0)))
        case ((ZCDPFilter() | RenyiFilter() | GDPFilter()), False):
            by = Fraction(1, 2) if isinstance(rule, ZCDPFilter) else Fraction(1)
            by = rule.order / 2 if isinstance(rule, RenyiFilter) else by
            return Rate(None, by / gaussian[0], sum((by / s for s in gaussian[1:]), Fraction(0)))
        case _:
            return None


def _noisy_columns(plan: Query) -> list[tuple[list[Additive], Composed]]:
    """Of each column that is a sum over units, in the order of the plan's statement: its noises, and what they cost."""
    if not plan.sql:
        return []
    b, allocation, question = bounding(plan.question), plan.allocation, plan.question
    relation = question.table.relation
    levels = levels_of(question) if allocation.levels else None
    found = []
    for i, measure in enumerate(question.measures):
        if measure.is_apart:
            continue
        span = measure.span(b.max_rows)
        noises = [allocation.noises[i], *(level.noises[i] for level in allocation.levels)]
        if levels is None:
            moves = [column_moves(b, measure)]
        else:
            reach, kept = (
                ColumnReach(span, b.max_groups, relation),
                [levels.kept[0], *(m.kept for m in allocation.levels)],
            )
            moves = [level_moves(reach, levels.cells(s), levels.parts(s)) for s in kept]
        events = sum((z.event(m) for z, m in zip(noises, moves, strict=True)), Composed())
        found.append((noises, events))
    return found


def _without(events: Composed, own: Composed) -> Composed | None:
    """Return the events without some of them; None if these are not all among them."""
    left = Counter(dict(events.parts))
    for event, n in own:
        left[event] -= n
    return None if any(n < 0 for n in left.values()) else Composed([(e, n) for e, n in left.items() if n])


def _fixed(events: Composed, rule: Filter) -> Tally | None:
    """Return what these events cost in the units of the filter; None where they have no price there one by one."""
    if not isinstance(rule, BasicFilter):
        return rule.cost(Charge(events, Approximate(Fraction(0))))
    if any(e.pure is None for e, _ in events):
        return None
    pure = sum((n * (e.pure or Fraction(0)) for e, n in events), Fraction(0))
    return pure, sum((n * e.failure for e, n in events), Fraction(0))
