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
from discreet.plan.nodes.node import Node

if TYPE_CHECKING:
    from discreet.plan.decided import Decided
    from discreet.plan.nodes.noise import Laws


def is_more_accurate(jointly: Decided, apart: Decided) -> bool:
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


def is_no_noisier(jointly: Decided, apart: Decided) -> bool:
    """Whether no number of a question that is read from a partition has more noise than apart."""
    return all(now <= before * _ALIKE for now, before in _numbers(jointly, apart))


_CONFIDENCE = Fraction(19, 20)


_ALIKE = 1 + 1e-3  # noise is in whole numbers


def _others(jointly: Decided, apart: Decided) -> Iterator[tuple[float, float]]:
    """The variances of what is not counted jointly, in both plans."""
    for measure, noise in zip(jointly.question.measures, jointly.allocation.noises, strict=True):
        yield noise.variance, apart.allocation.noises[apart.question.measures.index(measure)].variance
    for looked, law in zip(jointly.question.spreads, jointly.allocation.spreads, strict=True):
        if looked.spread.layers is None:
            before = apart.allocation.spreads[apart.question.spreads.index(looked)]
            assert not isinstance(law, ExponentialQuantile) and not isinstance(before, ExponentialQuantile)
            yield law.variance, before.variance


def _numbers(jointly: Decided, apart: Decided) -> Iterator[tuple[float, float]]:
    """How far noise moves each affine number that is read from a partition, and how far where each count has a column
    of its own; infinitely far where a law of both is not at hand.
    """
    laws = jointly.laws, apart.laws
    for one, other in zip(jointly.question.outer.expressions, apart.question.outer.expressions, strict=True):
        yield from _affine(*laws, one, other)


def _affine(jointly: Laws, apart: Laws, one: Node, other: Node) -> Iterator[tuple[float, float]]:
    if all(e.counts() is None for e in one.walk()):
        return
    now = one.known_error(jointly, _CONFIDENCE) if one.counts() is not None else None
    before = other.known_error(apart, _CONFIDENCE)
    if now is not None and before is not None:
        yield now, before
        alone, own = one.noise_variance(jointly), other.noise_variance(apart)
        if alone is not None and own is not None:
            yield alone, own
    elif now is not None or before is not None:  # counts beside other columns: their laws are not compared
        yield math.inf, 1.0
    else:
        for a, b in zip(one.children, other.children, strict=True):
            yield from _affine(jointly, apart, a, b)
