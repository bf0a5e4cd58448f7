"""The budget of totals: each column's share, divided among the levels that are measured, which are then made to agree.

The noisy finest groups are corrected by what the noisy totals say of them; every total is then the sum of its parts.
Groups are a product of lists, so that least squares is a sum over the components of the analysis of variance, each a
weighed mean of what the levels know of it. In a ROLLUP that is the estimate of Hay et al.; in a CUBE no tree would do.

The corrections are rounded together: what is rounded is their running sum, along the groups in the order of the
ROLLUP, or along each key of a CUBE. So every total is off by half at each of its corners only, however many parts it
has.

References:
    Hay, Rastogi, Miklau, Suciu 2010, *Boosting the accuracy of differentially private histograms through consistency*,
    https://arxiv.org/abs/0904.0942. docs/proofs/totals.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.summed import Parts, SummedNoise, WeighedNoise
from discreet.plan.bound import bounding
from discreet.plan.cost import Allocation, LevelNoise, root_above
from discreet.plan.grouping_sets.moves import ColumnReach, joint_l1, level_moves
from discreet.plan.grouping_sets.weights import GroupingSet, LevelCosts, Levels, shares
from discreet.plan.reports import report_moves
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.unit import Relation, Sensitivity

if TYPE_CHECKING:
    from discreet.plan.question import Question


def weighed(question: Question, allocation: Allocation, *, plain: bool) -> Allocation | None:
    """Return the allocation with its columns' noise divided among levels; None where adding up the finest groups is
    better.

    Args:
        question: what is asked; only declared groups are weighed.
        allocation: noise for the finest groups alone.
        plain: whether each column has a share of its own; Laplace columns that a δ lets compose better have not.

    Guarantee:
        Each column costs what it did: the noise of all of its levels together is for the most that one unit moves them
        together. So the events of the result keep the guarantee of `allocation`.
    """
    levels, gaussian = levels_of(question), allocation.is_gaussian
    if levels is None or not allocation.noises or not (plain or gaussian):
        return None
    reaches = _reaches(question)
    if not all(r.most for r in reaches):
        return None
    moves = [_moves(levels, r) for r in reaches]
    costs = tuple(dict.fromkeys(_costs(r, m, gaussian=gaussian) for r, m in zip(reaches, moves, strict=True)))
    found = shares(levels, costs, gaussian=gaussian)
    if found is None:
        return None
    given = [Fraction(share, sum(found)) for share in found]
    columns = [
        _divided(levels, noise, reach, moved, given)
        for noise, reach, moved in zip(allocation.noises, reaches, moves, strict=True)
    ]
    measured = [i for i, share in enumerate(given) if share]
    if not all(z.variance for z in (*allocation.noises, *(z for own, _ in columns for z in own.values()))):
        return None
    others = sum((z.event(report_moves(question.table.relation)) for z in allocation.reports), Composed())
    events = sum((e for _, e in columns), others)
    divided = replace(
        allocation,
        noises=tuple(own[0] for own, _ in columns),
        events=events,
        levels=tuple(LevelNoise(levels.kept[i], given[i], tuple(own[i] for own, _ in columns)) for i in measured[1:]),
        undivided=allocation.noises,
    )
    return divided if all(map(_is_less, totals_noise(question, divided))) else None


def totals_noise(question: Question, allocation: Allocation) -> Iterator[tuple[LevelVariances, ...]]:
    """For each column how far its numbers are off on each level, where totals are measured."""
    for agreement, noise, reach in zip(
        agreements(question, allocation), allocation.undivided, _reaches(question), strict=True
    ):
        yield _level_variances(agreement, noise, reach)


class LevelVariances(NamedTuple):
    """How far noise in whole numbers, and rounding, move the numbers of one level: squares.

    Attributes:
        measured: where levels are measured and made to agree.
        added: where the finest groups are added up, with all of the column's budget.
        alone: where the level is asked alone, with its even part of that.
    """

    measured: float
    added: float
    alone: float


def _is_less(column: Sequence[LevelVariances]) -> bool:
    """Whether measured totals are closer in all, or added up some would have more noise than alone."""
    less = sum(math.log(v.measured / v.added) for v in column)
    return less < 0 or any(v.added > v.alone * _ALIKE for v in column)


_ALIKE = 1 + 1e-3


@lru_cache(maxsize=512)
def _level_variances(agreement: Agreement, noise: Additive, reach: ColumnReach) -> tuple[LevelVariances, ...]:
    levels = agreement.levels
    moves = _moves(levels, reach)
    return tuple(
        LevelVariances(
            agreement.variance(kept) + float(rounding(levels, kept)) ** 2 / 3,
            noise.variance * levels.parts(kept),
            _alone(noise, moves[0], moved, len(levels.kept)).variance,
        )
        for kept, moved in zip(levels.kept, moves, strict=True)
    )


def _reaches(question: Question) -> list[ColumnReach]:
    b = bounding(question)
    return [ColumnReach(m.span(b.max_rows), b.max_groups, b.table.relation) for m in question.measures]


def levels_of(question: Question) -> Levels | None:
    """Return the levels of a query's grouping sets; None where there are none, or its groups are private."""
    sets, lists = question.outer.sets, question.keys.lists
    if sets is None or lists is None or bounding(question).most is not None:
        return None  # under a cap on all rows of a unit the finest groups are added up
    levels = Levels.of([len(v) for v in lists], sets)
    return levels if levels.weighable else None


def agreements(question: Question, allocation: Allocation) -> tuple[Agreement, ...]:
    """For each column how its levels are combined; none where only the finest groups were measured."""
    levels = levels_of(question)
    if levels is None or not allocation.levels:
        return ()
    return tuple(
        Agreement(levels, ((levels.kept[0], finest), *((m.kept, m.noises[i]) for m in allocation.levels)))
        for i, finest in enumerate(allocation.noises)
    )


def _moves(levels: Levels, reach: ColumnReach) -> tuple[Sensitivity, ...]:
    return tuple(level_moves(reach, levels.cells(s), levels.parts(s)) for s in levels.kept)


def _costs(reach: ColumnReach, moves: Sequence[Sensitivity], *, gaussian: bool) -> LevelCosts:
    """Measured in what the finest groups move by, so that columns that differ by a factor only are alike."""
    if gaussian:
        return LevelCosts(tuple(float(Fraction(m.l2_squared, moves[0].l2_squared)) for m in moves), None)
    of = tuple(float(Fraction(m.l1, moves[0].l1)) for m in moves)
    if reach.relation is Relation.ADD_REMOVE:
        return LevelCosts(of, None)
    return LevelCosts(
        of,
        (
            float(Fraction(2 * reach.groups * reach.most, moves[0].l1)),
            float(Fraction(reach.groups * reach.width, moves[0].l1)),
        ),
    )


def _divided(
    levels: Levels, noise: Additive, reach: ColumnReach, moves: Sequence[Sensitivity], given: Sequence[Fraction]
) -> tuple[dict[int, Additive], Composed]:
    """Return the noise of each level that has a share, and what they cost together: what `noise` costs."""
    finest = moves[0]
    if isinstance(noise, RoundedGaussianNoise):
        variance = noise.sigma**2 / finest.l2_squared
        of: dict[int, Additive] = {
            i: RoundedGaussianNoise(root_above(variance * moves[i].l2_squared / share))
            for i, share in enumerate(given)
            if share
        }
        return of, sum((z.event(moves[i]) for i, z in of.items()), Composed())
    assert isinstance(noise, DiscreteLaplaceNoise)
    epsilon = finest.l1 / noise.scale
    rates = [share / m.l1 for share, m in zip(given, moves, strict=True)]
    together = joint_l1(reach, moves, [levels.cells(s) for s in levels.kept], rates)
    of = {i: DiscreteLaplaceNoise(together / (epsilon * rate)) for i, rate in enumerate(rates) if rate}
    if together < 1:  # less than the sum of what the levels cost apart
        return of, Composed([ApproximateEvent(epsilon)])
    return of, sum((z.event(moves[i]) for i, z in of.items()), Composed())


def _alone(noise: Additive, finest: Sensitivity, moved: Sensitivity, questions: int) -> Additive:
    """Return the noise of a level that is asked alone with its part of the column's budget."""
    if isinstance(noise, RoundedGaussianNoise):
        return RoundedGaussianNoise(root_above(noise.sigma**2 / finest.l2_squared * moved.l2_squared * questions))
    assert isinstance(noise, DiscreteLaplaceNoise)
    return DiscreteLaplaceNoise(noise.scale / finest.l1 * moved.l1 * questions)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the measurements of one column are combined.

    Attributes:
        levels: what was asked.
        measured: the levels that were measured, the finest first, each with its noise.
    """

    levels: Levels
    measured: tuple[tuple[GroupingSet, Additive], ...]

    def noise(self, kept: GroupingSet) -> Additive:
        """Return the law of what the numbers of a level are off by, each of them the same.

        Guarantee:
            `WeighedNoise`: its terms are what least squares adds up, its rounding what `adjusted` may be off by.
        """
        return _noise(self, kept)

    def variance(self, kept: GroupingSet) -> float:
        """Return the variance of the numbers of a level, before rounding."""
        return math.fsum(float(a) ** 2 * z.variance for a, z in _terms(self, kept))

    def precision(self, component: GroupingSet) -> float:
        inside = [(s, z) for s, z in self.measured if set(component) <= set(s)]
        return math.fsum(self.levels.parts(s) / z.variance for s, z in inside)


def rounding(levels: Levels, kept: GroupingSet) -> Fraction:
    """How far a total of this level may be from least squares: a half for each corner."""
    corners = 2 ** len(kept) if rollup_order(levels) is None else min(len(kept), 1) + 1
    return Fraction(corners, 2)


@lru_cache(maxsize=512)
def _noise(agreement: Agreement, kept: GroupingSet) -> Additive:
    return WeighedNoise(_terms(agreement, kept), rounding(agreement.levels, kept))


@lru_cache(maxsize=512)
def _terms(agreement: Agreement, kept: GroupingSet) -> Parts:
    """With what weight each measured number enters a number of this level: the same for all that agree with it in the
    same keys.
    """
    levels, found = agreement.levels, dict[tuple[Fraction, Additive], int]()
    for measured, noise in agreement.measured:
        common = tuple(i for i in kept if i in measured)
        outside = math.prod(n for i, n in enumerate(levels.sizes) if i not in kept and i not in measured)
        summed = math.prod(n for i, n in enumerate(levels.sizes) if i in measured and i not in kept)
        for same in subsets(common):
            times = summed * math.prod(levels.sizes[i] - 1 for i in common if i not in same)
            weight = 0.0
            for component in subsets(common):
                part = 1.0
                for i in common:
                    mean = 1 / levels.sizes[i]
                    part *= (float(i in same) - mean) if i in component else mean
                weight += part / agreement.precision(component)
            size = Fraction(abs(weight) * outside / noise.variance)
            if times and size:
                found[size, noise] = found.get((size, noise), 0) + times
    return tuple((a, z if n == 1 else SummedNoise(z, n)) for (a, z), n in found.items())


def rollup_order(levels: Levels) -> tuple[int, ...] | None:
    """Return the keys in an order in which every level keeps the first so many; None if there is none, as in a CUBE."""
    order: list[int] = []
    for kept in sorted(levels.kept, key=len):
        if kept and not set(order) <= set(kept):
            return None
        order += [i for i in kept if i not in order]
    return tuple(order)


def subsets(of: GroupingSet) -> Iterator[GroupingSet]:
    return (c for r in range(len(of) + 1) for c in combinations(of, r))
