"""Rules of the planner, and the one comparison by which each of them is judged.

Guarantee:
    Of privacy none: a plan that a rule makes is verified as any other (`verify/check.py`). Whether it is taken follows
    from the query, the terms and declared facts alone, before any data is read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import TypeAlias

from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.plan.cost import PlanTerms
from discreet.plan.nodes.node import Node
from discreet.plan.nodes.noise import Laws
from discreet.plan.plan import Plan, alone
from discreet.plan.quantile_tree.chosen import rank_errors
from discreet.plan.query import Query


class Need(Enum):
    """What a query must have for a rule to change it."""

    TREES = "quantile trees"
    DELTA = "a δ to spend"
    ROW_UNITS = "rows that are privacy units"
    GROUPING_SETS = "grouping sets"

    def met(self, query: Query, terms: PlanTerms) -> bool:
        """Return whether a query has it."""
        match self:
            case Need.TREES:
                return bool(query.question.trees)
            case Need.DELTA:
                return bool(terms.delta)
            case Need.ROW_UNITS:
                return query.question.table.unit.is_row
            case Need.GROUPING_SETS:
                return query.question.outer.sets is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A way to measure what a plan measures with less noise.

    Guarantee:
        Its plan answers the same queries with the same meaning, for the same guarantee. It reads no data.

    Attributes:
        name: that of its file.
        of_one: what it would make of a query that is asked alone; None where it has nothing to offer.
        needs: what such a query must have; without it `of_one` is not tried.
        of_several: the plan that it would make of the queries of a batch, each of which is measured by itself.
        in_batches: whether it may change a query of a batch, before others share what is measured for it.
        in_stages: whether it may change a query whose bounds are chosen first, for each choice anew.
    """

    name: str
    of_one: Callable[[Query, PlanTerms], Query | None] | None = None
    needs: Need | None = None
    of_several: Callable[[Mapping[str, Query], PlanTerms], Plan | None] | None = None
    in_batches: bool = True
    in_stages: bool = True

    def apply(self, plan: Plan, terms: PlanTerms) -> Plan | None:
        """Return the plan that it would make of a plan for these terms; None where it has nothing to offer."""
        if all(output.is_apart for output in plan.outputs.values()):
            asked = {name: output.query for name, output in plan.outputs.items()}
            return None if self.of_several is None else self.of_several(asked, terms)
        if self.of_one is None or len(plan.outputs) > 1:
            return None
        if self.needs is not None and not self.needs.met(plan.query, terms):
            return None
        found = self.of_one(plan.query, terms)
        return None if found is None else alone(found, terms.population)


def improved(plan: Plan, terms: PlanTerms, rules: Sequence[Rule]) -> Plan:
    """Return the plan after all rules, each of which is kept to where no number has more noise by it."""
    for rule in rules:
        found = rule.apply(plan, terms)
        if found is not None and is_no_noisier(found, plan):
            plan = found
    return plan


def is_no_noisier(after: Plan, before: Plan) -> bool:
    """Whether no number of any result has more noise in one plan than in the other, to a thousandth."""
    pairs = ((after.outputs[name].query, output.query) for name, output in before.outputs.items())
    return after.outputs.keys() == before.outputs.keys() and all(has_no_more_noise(*pair) for pair in pairs)


def has_no_more_noise(after: Query, before: Query) -> bool:
    """Whether no number of a result has more noise in one query than in the other, to a thousandth.

    What both measure is compared by its law, totals with those that are asked alone, and numbers that are read from
    something else by the law of each that is affine in what is measured, rounding included. Of what is not affine, a
    ratio say, each affine part is compared.
    """
    one, other = after.allocation.threshold, before.allocation.threshold
    if (one is None) is not (other is None) or (one and other and one.epsilon < other.epsilon):
        return False
    return all(now <= was * _ALIKE for now, was in _compared(after, before))


_ALIKE = 1 + 1e-3  # noise is in whole numbers

_CONFIDENCE = Fraction(19, 20)

_Pairs: TypeAlias = Iterator[tuple[float, float]]
"""How far noise moves a number in both plans: the same measure of it in either."""


def _compared(after: Query, before: Query) -> _Pairs:
    yield from _measured(after, before)
    yield from _read(after, before)
    if after.allocation.levels and not before.allocation.levels:
        from discreet.plan.grouping_sets.split_budget import totals_noise

        for column in totals_noise(after.question, after.allocation):
            yield from ((v.measured - 1 / 4, v.alone) for v in column)  # rounding moves by 1/2 at most


def _measured(after: Query, before: Query) -> _Pairs:
    """Return the variances of columns and trees that both have, and the errors of ranks."""
    a, b, own = after.allocation, before.allocation, before.question
    for noise, was in zip(a.reports, b.reports, strict=True):
        yield noise.variance, was.variance
    for measure, noise in zip(after.question.measures, a.of_columns, strict=True):
        if measure in own.measures:
            yield noise.variance, b.of_columns[own.measures.index(measure)].variance
    for tree_read, law, (moves, _) in zip(after.question.trees, a.trees, after.trees, strict=True):
        if tree_read not in own.trees:
            continue
        other = b.trees[own.trees.index(tree_read)]
        match law, other:
            case ExponentialQuantile(), ExponentialQuantile():
                yield float(other.epsilon), float(law.epsilon)
            case ExponentialQuantile(), _:
                yield rank_errors(replace(law, epsilon=Fraction(1)), tree_read.shape, moves)
            case _, ExponentialQuantile():
                yield rank_errors(replace(other, epsilon=Fraction(1)), tree_read.shape, moves)[::-1]
            case _:
                yield law.variance, other.variance


def _read(after: Query, before: Query) -> _Pairs:
    """Return the errors and the variances of affine numbers that are read from something else."""
    pairs = zip(after.question.outer.expressions, before.question.outer.expressions, strict=True)
    changed = [(one, other) for one, other in pairs if one != other]
    if changed:
        laws = after.laws, before.laws
        for one, other in changed:
            yield from _affine(*laws, one, other)


def _affine(after: Laws, before: Laws, one: Node, other: Node) -> _Pairs:
    if all(e.counts() is None and not e.said for e in one.walk()):
        return
    now = one.known_error(after, _CONFIDENCE)
    was = other.known_error(before, _CONFIDENCE)
    if now is not None and was is not None:
        yield now, was
        alone, own = one.noise_variance(after), other.noise_variance(before)
        if alone is not None and own is not None:
            yield alone, own
    elif now is not None or was is not None:  # counts beside other columns: their laws are not compared
        yield math.inf, 1.0
    else:
        for a, b in zip(one.children, other.children, strict=True):
            yield from _affine(after, before, a, b)
