"""The budget of totals: each column's share, divided among the levels that are measured.

References: docs/proofs/totals.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.cost import Allocation, LevelNoise, root_above
from discreet.plan.levels.least_squares import Agreement, rounding
from discreet.plan.levels.moves import Reach, joint_l1, level_moves
from discreet.plan.levels.weights import LevelCosts, Levels, shares
from discreet.plan.reports import report_moves
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.unit import Relation

if TYPE_CHECKING:
    from discreet.plan.question import Question


def weighed(
    question: Question, allocation: Allocation, reaches: Sequence[Reach], *, plain: bool
) -> Allocation:
    """The allocation with its columns' noise divided among levels, where that is better; else as it is.

    Args:
        question: what is asked; only declared groups are weighed.
        allocation: noise for the finest groups alone.
        reaches: for each column what one unit can do to it.
        plain: whether each column has a share of its own; Laplace columns that a δ lets compose better have not.

    Guarantee:
        Each column costs what it did: the noise of all of its levels together is for the most that one unit moves them
        together. So the events of the result keep the guarantee of `allocation`.
    """
    levels = levels_of(question)
    gaussian = any(isinstance(z, RoundedGaussianNoise) for z in allocation.noises)
    if levels is None or not allocation.noises or not (plain or gaussian) or not all(r.most for r in reaches):
        return allocation
    moves = [_moves(levels, r) for r in reaches]
    costs = tuple(dict.fromkeys(_costs(r, m, gaussian=gaussian) for r, m in zip(reaches, moves, strict=True)))
    found = shares(levels, costs, gaussian=gaussian)
    if found is None:
        return allocation
    given = [Fraction(share, sum(found)) for share in found]
    columns = [
        _divided(levels, noise, reach, moved, given)
        for noise, reach, moved in zip(allocation.noises, reaches, moves, strict=True)
    ]
    measured = [i for i, share in enumerate(given) if share]
    for noise, moved, (own, _) in zip(allocation.noises, moves, columns, strict=True):
        agreement = Agreement(levels, tuple((levels.kept[i], own[i]) for i in measured))
        if not _is_better(agreement, noise, moved):
            return allocation
    others = sum((z.event(report_moves(question.table.relation)) for z in allocation.reports), Composed())
    events = sum((e for _, e in columns), others)
    return replace(
        allocation,
        noises=tuple(own[0] for own, _ in columns),
        events=events,
        levels=tuple(
            LevelNoise(levels.kept[i], given[i], tuple(own[i] for own, _ in columns)) for i in measured[1:]
        ),
    )


def levels_of(question: Question) -> Levels | None:
    """The levels of a question's grouping sets; None where there are none, or its groups are private."""
    sets, lists = question.outer.sets, question.keys.lists
    if sets is None or lists is None:
        return None
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


def _moves(levels: Levels, reach: Reach) -> tuple[Sensitivity, ...]:
    return tuple(level_moves(reach, levels.cells(s), levels.parts(s)) for s in levels.kept)


def _costs(reach: Reach, moves: Sequence[Sensitivity], *, gaussian: bool) -> LevelCosts:
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
    levels: Levels, noise: Additive, reach: Reach, moves: Sequence[Sensitivity], given: Sequence[Fraction]
) -> tuple[dict[int, Additive], Composed]:
    """The noise of each level that has a share, and what they cost together: what `noise` costs."""
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


def _is_better(agreement: Agreement, noise: Additive, moves: Sequence[Sensitivity]) -> bool:
    """Whether no level has more noise than alone, which adding up the finest groups does not keep to or keeps to with
    more noise in all: with the variances of noise in whole numbers and of rounding, which matter where there is little.
    """
    levels = agreement.levels
    if any(not z.variance for _, z in agreement.measured):
        return False
    less, kept_to = 0.0, True
    for kept, moved in zip(levels.kept, moves, strict=True):
        found = agreement.variance(kept) + float(rounding(levels, kept)) ** 2 / 3
        added_up = noise.variance * levels.parts(kept)
        alone = _alone(noise, moves[0], moved, len(levels.kept)).variance * (1 + _TOLERANCE)
        if found > alone + 1 / 4:
            return False
        less += math.log(found / added_up)
        kept_to = kept_to and added_up <= alone
    return less < 0 or not kept_to


_TOLERANCE = 1e-3


def _alone(noise: Additive, finest: Sensitivity, moved: Sensitivity, questions: int) -> Additive:
    """The noise of a level that is asked alone with its part of the column's budget."""
    if isinstance(noise, RoundedGaussianNoise):
        return RoundedGaussianNoise(
            root_above(noise.sigma**2 / finest.l2_squared * moved.l2_squared * questions)
        )
    assert isinstance(noise, DiscreteLaplaceNoise)
    return DiscreteLaplaceNoise(noise.scale / finest.l1 * moved.l1 * questions)
