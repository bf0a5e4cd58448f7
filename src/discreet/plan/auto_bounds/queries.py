"""The first stage's looks at the data: a statement that counts units, its noise, and what is chosen from the counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.auto_bounds.caps import EDGES, SHARES, Caps, beyond, choose
from discreet.plan.auto_bounds.ranges import LARGEST, PLACES, Stakes, Use, choose_range, holds
from discreet.plan.bound import census_sql, values_sql
from discreet.plan.claim import source_of
from discreet.plan.clamping import name_of
from discreet.plan.expr import Expr, walk
from discreet.plan.measures.measure import CentredTotal, Total
from discreet.plan.plan import Plan, bounding
from discreet.plan.schema import Range
from discreet.plan.types import Type
from discreet.privacy.event import Composed
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.unit import Relation
from discreet.verify.census import check_price
from discreet.verify.check import check_look
from discreet.verify.claim import Look

if TYPE_CHECKING:
    from discreet.noise.entropy import Entropy

OUTSIDE = Fraction(7, 10)
"""The part of what a choice of ranges costs that is for the share of units outside: its limit decides what is shown."""

Run: TypeAlias = Callable[[str], list[tuple[Any, ...]]]
"""Runs a statement."""


@dataclass(frozen=True, slots=True)
class CapsLook:
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

    def choose(self, run: Run, rng: Entropy) -> tuple[Caps, tuple[int, int]]:
        """The caps with the least error expected, and the noisy numbers of units that may exceed them and of all:
        functions of the noisy counts.
        """
        places = list(product(range(len(EDGES)), range(len(EDGES)), range(SHARES)))
        found = {(int(k), int(t), int(m)): int(n) for k, t, m, n in run(self.sql)}
        noisy = self.noise.add([found.get(place, 0) for place in places], rng)
        del found
        census = dict(zip(places, noisy, strict=True))
        advice = choose(census, self.noise, groups=self.groups, columns=self.columns, epsilon=self.epsilon)
        caps = Caps(min(advice.groups, self.most.groups), min(advice.rows, self.most.rows))
        return caps, beyond(census, caps, self.groups)


@dataclass(frozen=True, slots=True)
class ValuesLook:
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
    plan: Plan
    claim: Look

    @property
    def counts(self) -> int:
        """In how many counts a unit is."""
        return len(self.exprs) * _counted(self.plan)

    def choose(
        self, run: Run, rng: Entropy, caps: Caps | None
    ) -> tuple[tuple[Range, ...], tuple[tuple[int, int], ...]]:
        """The ranges with the least error expected, under these caps, and for each the noisy numbers of units that have
        a value outside, and of those that have none: functions of noisy counts.
        """
        exact: list[dict[tuple[int, int], int]] = [{} for _ in self.exprs]
        try:
            self._read(run, exact)
            found = [self._choose(i, counts, rng, caps) for i, counts in enumerate(exact)]
        except BaseException:
            for counts in exact:  # so that no exact number is in any frame of the traceback
                counts.clear()
            raise
        return tuple(r for r, _ in found), tuple(outside for _, outside in found)

    def _read(self, run: Run, exact: Sequence[dict[tuple[int, int], int]]) -> None:
        """Adds up the exact numbers of units of each value, by the places of their least value and of their largest."""
        each = _counted(self.plan)
        for *places, n in run(self.sql):
            for i, counts in enumerate(exact):
                of = places[i * each : (i + 1) * each]
                if all(
                    p is not None and int(p) in PLACES for p in of
                ):  # else another value's, or of no value
                    place = int(of[-1]), int(of[0])
                    counts[place] = counts.get(place, 0) + int(n)

    def _choose(
        self, i: int, counts: Mapping[tuple[int, int], int], rng: Entropy, caps: Caps | None
    ) -> tuple[Range, tuple[int, int]]:
        """The range of the i-th value, and the noisy numbers of units outside and inside."""
        noisy = [self._noisy(counts, end, rng) for end in (1, 0)[: _counted(self.plan)]]
        whole = self.exprs[i].type is Type.INT
        stakes = self._stakes(self.uses[i], caps, whole=whole)
        chosen = choose_range(noisy[0], noisy[-1], self.noise, stakes, whole=whole)
        outside, inside = self.outside.add(_sides(counts, chosen), rng)
        return chosen, (outside, inside)

    def _noisy(self, counts: Mapping[tuple[int, int], int], end: int, rng: Entropy) -> dict[int, int]:
        """Noisy numbers of units by the place of their least value (`end` 0) or their largest one (1)."""
        found = dict.fromkeys(PLACES, 0)
        for place, n in counts.items():
            found[place[end]] += n
        return dict(zip(PLACES, self.noise.add(list(found.values()), rng), strict=True))

    def _stakes(self, uses: frozenset[Use], caps: Caps | None, *, whole: bool) -> Stakes:
        """The noise of all groups together, and the rows of a unit that a bound may cut: the middle of one and all.

        A unit whose largest value is beyond a bound has at least one such row, and at most all that are kept.
        """
        unit, groups = self.plan.question.table.unit, self.plan.question.keys.count
        k, rows = (unit.max_groups or 1, unit.max_rows or 1) if caps is None else (caps.groups, caps.rows)
        k = k if groups is None else min(k, groups)
        noise = (groups or k) * math.sqrt(2) * _columns(self.plan) * k * rows / float(self.plan.epsilon)
        most = Fraction(int(LARGEST) // rows) if whole else LARGEST
        return Stakes(uses, noise, math.sqrt(k * rows), most)


def look_at_caps(plan: Plan, epsilon: Fraction, most: Caps) -> CapsLook:
    """The census of a question, as its second stage is planned for the largest caps.

    Raises:
        InternalError: the text does not say what was planned.
    """
    text, question = census_sql(bounding(plan.question)), plan.question
    noise, events = _noise(plan, 1, epsilon)
    claim = Look("caps", source_of(question), text, 3, noise, epsilon)
    check_look(claim)
    return CapsLook(text, noise, events, most, question.keys.count, _columns(plan), plan.epsilon, claim)


def look_at_values(plan: Plan, epsilon: Fraction, exprs: Sequence[Expr]) -> ValuesLook:
    """The counts by size of the values of some expressions.

    Raises:
        InternalError: the text does not say what was planned.
    """
    text, counts = values_sql(bounding(plan.question), exprs), len(exprs) * _counted(plan)
    noise, events = _noise(plan, counts, epsilon * (1 - OUTSIDE))
    outside, others = _noise(plan, len(exprs), epsilon * OUTSIDE)
    claim = Look("values", source_of(plan.question), text, counts, noise, epsilon, outside)
    check_look(claim)
    named = _distinct_names([name_of(e, plan.question) for e in exprs])
    return ValuesLook(
        text,
        noise,
        outside,
        events + others,
        tuple(exprs),
        named,
        tuple(_uses(e, plan) for e in exprs),
        plan,
        claim,
    )


def _noise(plan: Plan, counts: int, epsilon: Fraction) -> tuple[DiscreteLaplaceNoise, Composed]:
    """The noise of so many vectors of counts, in each of which a unit is counted once, and what it costs."""
    replaced = plan.question.table.relation is not Relation.ADD_REMOVE
    moved = Sensitivity(2 if replaced else 1, 1)
    noise = DiscreteLaplaceNoise(moved.l1 * counts / epsilon)
    check_price(counts / noise.scale, epsilon, replace=replaced)
    return noise, sum((noise.event(moved) for _ in range(counts)), Composed())


def _sides(counts: Mapping[tuple[int, int], int], chosen: Range) -> tuple[int, int]:
    """How many units have a value outside a range, and how many none. Private."""
    held = [all(holds(chosen, p) for p in place) for place in counts]
    inside = sum(n for n, within in zip(counts.values(), held, strict=True) if within)
    return sum(counts.values()) - inside, inside


def _counted(plan: Plan) -> int:
    """By how many of its values a unit is counted: where it has one, that is both the largest and the least."""
    return 1 if plan.question.table.unit.is_row else 2


def _columns(plan: Plan) -> int:
    """How many numbers of a group share the budget."""
    return max(len(plan.allocation.noises) + sum(s.spread.depth for s in plan.question.spreads), 1)


def _uses(expr: Expr, plan: Plan) -> frozenset[Use]:
    """What the question makes of the values of an expression."""
    found = set()
    if any(expr in walk(looked.spread.value.expr) for looked in plan.question.spreads):
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
