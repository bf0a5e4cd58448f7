"""SUM(x) beside a count of x: read as the sum of x − c, for the middle c of the bounds, and c times that count.

What one unit adds to a sum of x − c lies within half the width of the bounds, and AVG(x) measures such a sum anyhow.
The two sums are one where no unit has more than `max_rows` rows in a group. Where it may have more, AVG(x) counts
`max_rows` times the unit's own mean, and SUM(x) its clamped sum: then each has a column of its own, since what a sum
means does not depend on what is asked for beside it.

References: docs/proofs/bounding.md, "Sums read from two columns".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from discreet.catalog.types import Type
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.plan.bound import bounding
from discreet.plan.cost import PlanTerms
from discreet.plan.measures.measure import CentredTotal, KnownCount, Measure, RowCount, Total
from discreet.plan.nodes.node import Affine, Answer, Measured, Node
from discreet.plan.nodes.noise import Laws
from discreet.plan.query import Query, allocated, decided
from discreet.plan.question import Question
from discreet.plan.rules.composed import composed
from discreet.plan.rules.rule import Rule
from discreet.query.ranges import never_null
from discreet.query.relation.node import is_once


def _recentred(query: Query, terms: PlanTerms) -> Query | None:
    """Return the query with each sum that stands beside a count of its values read from two columns."""
    question = query.question
    if question.outer.sets is not None or terms.report_share:
        return None  # totals are of one column each, and truncation reports say what is cut off of one
    swapped = _swapped(question)
    if not swapped:
        return None
    kept = {m for i, m in enumerate(question.measures) if i not in swapped} | {c for c, _ in swapped.values()}
    measures = sorted(kept, key=lambda m: json.dumps(m.identity, sort_keys=True))

    def swap(m: Measured) -> Node:
        if m.index not in swapped:
            return replace(m, index=measures.index(question.measures[m.index]))
        centred, count = swapped[m.index]
        total = replace(m, index=measures.index(centred))
        known = Measured(measures.index(count), count.step, Type.INT)
        least = centred.value.low * m.step
        return Recentred(total, known, centred.centre * m.step, m.type, least) if centred.centre else total

    outer = question.outer.with_columns(swap)
    found = decided(replace(question, measures=tuple(measures), outer=outer), terms)
    laws = enumerate(query.allocation.trees)
    by_rank = {i: law for i, law in laws if isinstance(law, ExponentialQuantile)}
    found = allocated(found, terms, by_rank) if by_rank else found
    return composed(found, terms) or found


def _swapped(question: Question) -> dict[int, tuple[CentredTotal, Measure]]:
    """Return for the place of each sum beside a count of its values what it is read from."""
    found: dict[int, tuple[CentredTotal, Measure]] = {}
    for i, m in enumerate(question.measures):
        if not isinstance(m, Total):
            continue
        counts = [KnownCount(m.value.expr), *([RowCount()] if never_null(m.value.expr) else [])]
        count = next((c for c in counts if c in question.measures), None)
        centred = CentredTotal(m.value, of_sum=not _is_within_caps(question))
        if count is not None and (centred.centre or centred in question.measures):
            found[i] = centred, count
    return found


def _is_within_caps(question: Question) -> bool:
    """Return whether no unit can have more than `max_rows` rows in a group when its rows are tallied."""
    b, relation = bounding(question), question.relation
    once = question.table.unit.is_row or (relation is not None and is_once(relation.node))
    return once or (b.most is not None and b.most <= b.max_rows)


RECENTRED = Rule(name="recentred", of_one=_recentred, in_stages=False)
"""A second stage is rehearsed before it is known."""


@dataclass(frozen=True, slots=True)
class Recentred(Node):
    """`total` + `centre` · `count`, exactly.

    Attributes:
        total: the sum of x − centre.
        count: the number of values.
        centre: the middle of their bounds, a whole number of steps of `total`.
        type: that of the sum.
        least: the least value; where it is not below 0, neither is the exact sum.
    """

    total: Measured
    count: Measured
    centre: Fraction
    type: Type
    least: Fraction

    def with_columns(self, change: Callable[[Measured], Any]) -> Recentred:
        return replace(self, total=change(self.total), count=change(self.count))

    def compiled(self) -> Answer:
        i, j, step, centre = self.total.index, self.count.index, self.total.step, self.centre
        shown = int if self.type is Type.INT else float
        return lambda _keys, cells: shown(cells[i] * step + cells[j] * centre)

    def _affine(self) -> Affine:
        return Fraction(0), {self.total.index: self.total.step, self.count.index: self.centre}

    def raised(self, cells: Sequence[Any]) -> tuple[Any, ...]:
        found = list(cells)
        if self.least >= 0:
            floor = -found[self.count.index] * self.centre / self.total.step  # whole, as the centre is on the grid
            found[self.total.index] = max(found[self.total.index], int(floor))
        return tuple(found)

    def lowest(self, places: Sequence[bool]) -> float:
        return 0.0 if self.least >= 0 else super(Recentred, self).lowest(places)

    def noise_variance(self, laws: Laws) -> float:
        of_total, of_count = (laws.columns[m.index].variance for m in (self.total, self.count))
        return float(self.total.step) ** 2 * of_total + float(self.centre) ** 2 * of_count

    @property
    def said(self) -> str:
        step, middle = f"{float(self.total.step):,.6g}", f"{float(self.centre):,.6g}"
        total = f"column {self.total.index}" + ("" if self.total.step == 1 else f", in steps of {step},")
        return f"A sum is read from two columns: {total} plus {middle} times column {self.count.index}."
