"""Whether counting jointly gives less noise, by the laws of two plans: of each number that an answer shows, orders or
filters by, rounding included.

What is affine in counts and sums is compared as it stands. Of what is not, a ratio say, each affine part is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.plan.expr import Call, Expr, Measured, Several, Within, walk
from discreet.plan.intervals.interval import half_width
from discreet.plan.partition.counted import combined

if TYPE_CHECKING:
    from discreet.mechanisms.additive import Additive
    from discreet.plan.plan import Plan
    from discreet.plan.quantile_tree.shape import Spread


def is_more_accurate(jointly: Plan, apart: Plan) -> bool:
    """Whether no number of a question has more noise when some are counted jointly, and all together have less."""
    spreads = (*jointly.allocation.spreads, *apart.allocation.spreads)
    if any(isinstance(noise, ExponentialQuantile) for noise in spreads):
        return False
    one, other = jointly.allocation.threshold, apart.allocation.threshold
    if one is not None and other is not None and one.epsilon < other.epsilon:
        return False
    if any(now > before * _ALIKE for now, before in _others(jointly, apart)):
        return False
    less = False
    for now, before in _numbers(jointly, apart):
        if now > before * _ALIKE:
            return False
        less = less or now < before / _ALIKE
    return less


def is_no_noisier(jointly: Plan, apart: Plan) -> bool:
    """Whether no number of a question that is read from a partition has more noise than apart."""
    return all(now <= before * _ALIKE for now, before in _numbers(jointly, apart))


_CONFIDENCE = Fraction(19, 20)


_ALIKE = 1 + 1e-3  # noise is in whole numbers


def _others(jointly: Plan, apart: Plan) -> Iterator[tuple[float, float]]:
    """The variances of what is not counted jointly, in both plans."""
    for measure, noise in zip(jointly.question.measures, jointly.allocation.noises, strict=True):
        yield noise.variance, apart.allocation.noises[apart.question.measures.index(measure)].variance
    for looked, law in zip(jointly.question.spreads, jointly.allocation.spreads, strict=True):
        if looked.spread.layers is None:
            before = apart.allocation.spreads[apart.question.spreads.index(looked)]
            assert not isinstance(law, ExponentialQuantile) and not isinstance(before, ExponentialQuantile)
            yield law.variance, before.variance


def _numbers(jointly: Plan, apart: Plan) -> Iterator[tuple[float, float]]:
    """How far noise moves each affine number that is read from a partition, and how far where each count has a column
    of its own; infinitely far where a law of both is not at hand.
    """
    for one, other in zip(jointly.question.outer.expressions, apart.question.outer.expressions, strict=True):
        yield from _affine(jointly, apart, one, other)


def _affine(jointly: Plan, apart: Plan, one: Expr, other: Expr) -> Iterator[tuple[float, float]]:
    if not any(isinstance(e, Within) for e in walk(one)):
        return
    now, before = (
        joint_error(jointly, one, _CONFIDENCE),
        half_width(other, apart.allocation.noises, _CONFIDENCE),
    )
    if now is not None and before is not None:
        yield now, before
        if isinstance(one, Within) and isinstance(other, Measured):
            yield variance_of(jointly, one), apart.allocation.noises[other.index].variance
    elif now is not None or before is not None:  # counts beside other columns: their laws are not compared
        yield math.inf, 1.0
    else:
        parts, own = (_parts(e) for e in (one, other))
        for a, b in zip(parts, own, strict=True):
            yield from _affine(jointly, apart, a, b)


def _parts(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Call(_, args, _):
            return args
        case Several(items, _):
            return items
    raise TypeError("a count in what is not made of parts")


def variance_of(plan: Plan, expr: Within) -> float:
    """The variance of a count that is read from a partition, rounding included."""
    found = combined(expr)
    assert found is not None
    return found.variance(_noise_of(plan, expr.spread))


def joint_error(plan: Plan, expr: Expr, confidence: Fraction) -> float | None:
    """How far noise moves a column that is affine in counts from one partition; None for any other."""
    found = combined(expr)
    if found is None:
        return None
    return found.error(_noise_of(plan, found.spread), confidence)


def _noise_of(plan: Plan, spread: Spread) -> Additive:
    """The noise of the sums from which counts are read."""
    place = [looked.spread for looked in plan.question.spreads].index(spread)
    noise = plan.allocation.spreads[place]
    assert not isinstance(noise, ExponentialQuantile)
    return noise
