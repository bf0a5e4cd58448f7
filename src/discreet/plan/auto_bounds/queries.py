"""The first stage's looks at the data: a statement that counts units, its noise, and what is chosen from the counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

from discreet.catalog.schema import Range
from discreet.catalog.types import Type
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.auto_bounds.caps import EDGES, SHARES, Caps, beyond, choose
from discreet.plan.auto_bounds.ranges import LARGEST, PLACES, Stakes, Use, choose_range
from discreet.plan.bound import bounding, census_sql, values_sql
from discreet.plan.clamping import name_of
from discreet.plan.measures.measure import CentredTotal, Total
from discreet.plan.query import Query, source_of
from discreet.privacy.event import Composed
from discreet.privacy.unit import Relation, Sensitivity
from discreet.query.expr import Expr, walk
from discreet.verify.census import check_price
from discreet.verify.check import check_look
from discreet.verify.claim import Look

if TYPE_CHECKING:
    pass

OUTSIDE = Fraction(7, 10)
"""The part of what a choice of ranges costs that is for the share of units outside: its limit decides what is shown."""

CENSUS = tuple(product(range(len(EDGES)), range(len(EDGES)), range(SHARES)))
"""The places of the census of caps."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the first stage chose.

    Attributes:
        caps: how much a unit may add; None where that is declared.
        ranges: of the values that had none.
        outside: for each range, the noisy numbers of units that have a value outside, and of those that have none.
        beyond: of chosen caps, the noisy numbers of units that may exceed them, and of all.
    """

    caps: Caps | None
    ranges: tuple[Range, ...] = ()
    outside: tuple[tuple[int, int], ...] = ()
    beyond: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class CapsQuery:
    """The census from which caps are chosen.

    Guarantee:
        A unit is counted in one place at most, once, and each place has Laplace noise (docs/proofs/census.md, 1).

    Attributes:
        sql: counts units by place.
        noise: what is added to each count.
        events: what it costs.
        most: the largest caps that may be chosen.
        groups: how many groups there are, None if that is private.
        columns: how many numbers of a group share the second stage's budget.
        epsilon: what the second stage spends.
        claim: what it reads and costs, for the second derivation.
    """

    sql: str
    noise: DiscreteLaplaceNoise
    events: Composed
    most: Caps
    groups: int | None
    columns: int
    epsilon: Fraction
    claim: Look

    def choose(self, noisy: Sequence[int]) -> tuple[Caps, tuple[int, int]]:
        """Return the caps with the least error expected, and the noisy numbers of units that may exceed them and of
        all.

        Args:
            noisy: the number of units in each of `CENSUS`.
        """
        census = dict(zip(CENSUS, noisy, strict=True))
        advice = choose(census, self.noise, groups=self.groups, columns=self.columns, epsilon=self.epsilon)
        total = None if advice.total is None else min(advice.total, self.most.rows)
        caps = Caps(min(advice.groups, self.most.groups), min(advice.rows, self.most.rows), total)
        return caps, beyond(census, caps, self.groups)


@dataclass(frozen=True, slots=True)
class RangesQuery:
    """The counts from which ranges are chosen.

    Guarantee:
        A unit is in one count by the largest value that it has, and in one by the least, for each expression: in
        `counts` counts, each of which has Laplace noise; and for each expression it is within the chosen range or not,
        two counts with noise of their own (docs/proofs/census.md, 4).

    Attributes:
        sql: counts units by place, for one column of places at a time.
        noise: what is added to each count.
        outside: what is added to the numbers of units within a chosen range, and not.
        events: what it costs.
        exprs: whose ranges are chosen.
        named: what they are called.
        uses: what is made of each.
        plan: a plan of the second stage, for all that does not depend on the choice.
        claim: what it reads and costs, for the second derivation.
    """

    sql: str
    noise: DiscreteLaplaceNoise
    outside: DiscreteLaplaceNoise
    events: Composed
    exprs: tuple[Expr, ...]
    named: tuple[str, ...]
    uses: tuple[frozenset[Use], ...]
    plan: Query
    claim: Look

    @property
    def ends(self) -> tuple[int, ...]:
        """By which of its values a unit is counted: the largest (1) and the least (0), or by its only one."""
        return (1, 0)[: _counted(self.plan)]

    def choose(self, i: int, noisy: Sequence[Sequence[int]], caps: Caps | None) -> Range:
        """Return the range of the i-th value with the least error expected, under these caps.

        Args:
            i: which value.
            noisy: for each of `ends`, the number of units in each of `PLACES`.
            caps: those that were chosen; None where they are declared.
        """
        found = [dict(zip(PLACES, counts, strict=True)) for counts in noisy]
        whole = self.exprs[i].type is Type.INT
        return choose_range(found[0], found[-1], self.noise, self._stakes(self.uses[i], caps, whole=whole), whole=whole)

    def _stakes(self, uses: frozenset[Use], caps: Caps | None, *, whole: bool) -> Stakes:
        """Return the noise of all groups together, and the rows of a unit that a bound may cut: the middle of one and
        all.

        A unit whose largest value is beyond a bound has at least one such row, and at most all that are kept.
        """
        unit, groups = self.plan.question.table.unit, self.plan.question.keys.count
        k, rows = unit.caps or (1, 1) if caps is None else (caps.groups, caps.rows)
        k = k if groups is None else min(k, groups)
        total = unit.max_contributions if caps is None else caps.total
        counted = k * rows if total is None else min(k * rows, total)
        noise = (groups or k) * math.sqrt(2) * _columns(self.plan) * counted / float(self.plan.epsilon)
        most = Fraction(int(LARGEST) // rows) if whole else LARGEST
        return Stakes(uses, noise, math.sqrt(counted), most)


def caps_query(plan: Query, epsilon: Fraction, most: Caps) -> CapsQuery:
    """Return the census of a query, as its second stage is planned for the largest caps.

    Raises:
        InternalError: the text does not say what was planned.
    """
    text, question = census_sql(bounding(plan.question)), plan.question
    noise, events = _noise(plan, 1, epsilon)
    claim = Look("caps", source_of(question), text, 3, noise, epsilon)
    check_look(claim)
    return CapsQuery(text, noise, events, most, question.keys.count, _columns(plan), plan.epsilon, claim)


def ranges_query(plan: Query, epsilon: Fraction, exprs: Sequence[Expr]) -> RangesQuery:
    """Return the counts by size of the values of some expressions.

    Raises:
        InternalError: the text does not say what was planned.
    """
    text, counts = values_sql(bounding(plan.question), exprs), len(exprs) * _counted(plan)
    noise, events = _noise(plan, counts, epsilon * (1 - OUTSIDE))
    outside, others = _noise(plan, len(exprs), epsilon * OUTSIDE)
    claim = Look("values", source_of(plan.question), text, counts, noise, epsilon, outside)
    check_look(claim)
    named = _distinct_names([name_of(e, plan.question) for e in exprs])
    return RangesQuery(
        text, noise, outside, events + others, tuple(exprs), named, tuple(_uses(e, plan) for e in exprs), plan, claim
    )


def _noise(plan: Query, counts: int, epsilon: Fraction) -> tuple[DiscreteLaplaceNoise, Composed]:
    """Return the noise of so many vectors of counts, in each of which a unit is counted once, and what it costs."""
    replaced = plan.question.table.relation is not Relation.ADD_REMOVE
    moved = Sensitivity(2 if replaced else 1, 1)
    noise = DiscreteLaplaceNoise(moved.l1 * counts / epsilon)
    check_price(counts / noise.scale, epsilon, replace=replaced)
    return noise, sum((noise.event(moved) for _ in range(counts)), Composed())


def _counted(plan: Query) -> int:
    """By how many of its values a unit is counted: where it has one, that is both the largest and the least."""
    return 1 if plan.question.table.unit.is_row else 2


def _columns(plan: Query) -> int:
    """How many numbers of a group share the budget."""
    return max(len(plan.allocation.noises) + sum(s.shape.depth for s in plan.question.trees), 1)


def _uses(expr: Expr, plan: Query) -> frozenset[Use]:
    """Return what the query makes of the values of an expression."""
    found = set()
    if any(expr in walk(tree_read.shape.value.expr) for tree_read in plan.question.trees):
        found.add(Use.SPREAD)
    for m in plan.question.measures:
        if isinstance(m, Total) and m.value.expr == expr:
            found.add(Use.SUM)
        elif isinstance(m, CentredTotal) and expr in walk(m.value.expr):
            found.add(Use.CENTRED)
    return frozenset(found)


def _distinct_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names with a number behind those that others have as well."""
    return tuple(f"{n} ({names[:i].count(n) + 1})" if names.count(n) > 1 else n for i, n in enumerate(names))
