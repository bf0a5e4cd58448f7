"""At which rates a person's contribution to a column is charged, in the units of a filter.

A column is integers with independent noise of one law. A person who adds c_g to group g costs, by what adds up in the
filter, a multiple of Σ|c_g| or of Σc_g², and for totals beside the groups of (Σ|c_g|)², which no total's move exceeds.
All of it is proved in docs/proofs/people.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.accounting.filter import BasicFilter, Charge, Filter, GDPFilter, RenyiFilter, Tally, ZCDPFilter
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.cost import sensitivity_of
from discreet.plan.levels.moves import Reach, level_moves
from discreet.plan.levels.weigh import levels_of
from discreet.plan.measures.distinct import Distinct
from discreet.plan.plan import Plan, bounding
from discreet.privacy.event import Composed
from discreet.privacy.guarantee import Approximate


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


def rates_of(plan: Plan, rule: Filter, worst: Tally) -> Rates:
    """The rates of a plan under a person's filter; `worst` is what the whole charge costs under it.

    What is charged by contribution is the noise of sums. The rest of the plan's events, whatever they are of, is
    charged in full; where the two do not make up the plan's events, or one has no price of its own in this filter,
    everybody is charged `worst`.
    """
    columns = _noisy_columns(plan)
    own = sum((events for _, events in columns), Composed())
    rest = _without(plan.allocation.events, own)
    fixed = None if rest is None else _fixed(rest, rule)
    found = [rate_of(noises, rule) for noises, _ in columns]
    if not columns or fixed is None or None in found:
        return Rates((), worst)
    return Rates(tuple(r for r in found if r is not None), fixed)


def rate_of(noises: Sequence[Additive], rule: Filter) -> Rate | None:
    """The rate of a column with the noise of its groups and then that of each level of totals; None if it has none."""
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


def _noisy_columns(plan: Plan) -> list[tuple[list[Additive], Composed]]:
    """Of each column that is a sum over units, in the order of the plan's statement: its noises, and what they cost."""
    if not plan.sql:
        return []
    b, allocation, question = bounding(plan.question), plan.allocation, plan.question
    relation, groups = question.table.relation, question.keys.count
    levels = levels_of(question) if allocation.levels else None
    found = []
    for i, measure in enumerate(question.measures):
        if isinstance(measure, Distinct):
            continue
        span = measure.span(b.max_rows)
        noises = [allocation.noises[i], *(level.noises[i] for level in allocation.levels)]
        if levels is None:
            moves = [sensitivity_of(span, b.max_groups, groups, relation)]
        else:
            reach, kept = (
                Reach(span, b.max_groups, relation),
                [levels.kept[0], *(m.kept for m in allocation.levels)],
            )
            moves = [level_moves(reach, levels.cells(s), levels.parts(s)) for s in kept]
        events = sum((z.event(m) for z, m in zip(noises, moves, strict=True)), Composed())
        found.append((noises, events))
    return found


def _without(events: Composed, own: Composed) -> Composed | None:
    """The events without some of them; None if these are not all among them."""
    left = Counter(dict(events.parts))
    for event, n in own:
        left[event] -= n
    return None if any(n < 0 for n in left.values()) else Composed([(e, n) for e, n in left.items() if n])


def _fixed(events: Composed, rule: Filter) -> Tally | None:
    """What these events cost in the units of the filter; None where they have no price there one by one."""
    if not isinstance(rule, BasicFilter):
        return rule.cost(Charge(events, Approximate(Fraction(0))))
    if any(e.pure is None for e, _ in events):
        return None
    pure = sum((n * (e.pure or Fraction(0)) for e, n in events), Fraction(0))
    return pure, sum((n * e.failure for e, n in events), Fraction(0))
