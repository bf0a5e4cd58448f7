"""Leaves that are chosen by their rank: when that is done instead of a noisy tree, and what is read from them.

Guarantee:
    Whether a quantile is chosen follows from the question, the schema and the kind of noise alone. What is read of the
    leaves that were named is post-processing (docs/proofs/exponential-quantile.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.exponential_quantile import CONFIDENCE, ExponentialQuantile
from discreet.plan.expr import Expr, Quantile, walk
from discreet.plan.intervals.interval import atoms
from discreet.plan.schema import Scalar
from discreet.mechanisms.rank_error import rank_error
from discreet.plan.types import Type
from discreet.privacy.sensitivity import Sensitivity

if TYPE_CHECKING:
    from discreet.plan.question import Question
    from discreet.plan.spreads.spread import Looked, Spread
    from discreet.plan.spreads.tree import Families

WIDER = Fraction(8, 5)
"""How much further the ends of the interval may aim than the tree's rank would be off, and the choice be made: the leaf
that it names is three times closer, and its interval a tenth wider on average (`benchmarks/quantiles.py`)."""


class ChosenLeaves:
    """The leaves that were named in one group: the quantile's, and the first and the last of the interval."""

    __slots__ = ("families", "spread")

    def __init__(self, spread: Spread, families: Families) -> None:
        self.spread = spread
        self.families = families

    def quantile(self, p: Fraction, kind: Type) -> Scalar:
        """The value that the named leaf stands for; `p` is the one that it was named for."""
        return self.spread.at(self.families[0, 0][0], kind)

    def interval(self, p: Fraction, confidence: Fraction) -> tuple[float, float]:
        """Where the bounded quantile lies with probability `confidence`: anywhere in its bounds, for more than 0.95."""
        _, low, high = self.families[0, 0]
        if confidence > CONFIDENCE:
            low, high = 0, self.spread.leaves - 1
        return self.spread.reach(low, high)


def named(leaves: tuple[int, int, int]) -> Families:
    """What was named, as the nodes of a tree are stored."""
    found: Mapping[tuple[int, int], tuple[int, ...]] = {(0, 0): leaves}
    return found


def is_chosen(
    question: Question, looked: Looked, moves: Sensitivity, choose: Callable[[Fraction], ExponentialQuantile]
) -> bool:
    """Whether one quantile, alone on its spread, is closer when its leaf is chosen by rank.

    Args:
        question: what else reads the spread, and which columns have other noise as well.
        looked: the spread.
        moves: how far one unit moves a level of its tree.
        choose: the mechanism that would choose, for an ε.
    """
    if not is_alone(question, looked):
        return False
    spread, (p,) = looked.spread, looked.at
    tree = _off(spread, p) * spread.depth * moves.l1
    return choose(Fraction(1)).error((1 + CONFIDENCE) / 2, cells=spread.leaves) <= float(WIDER) * tree


def is_alone(question: Question, looked: Looked) -> bool:
    """Whether one inner quantile is all that is read of the spread, and all that is uncertain in each column with it:
    the interval is for one confidence only.
    """
    if len(looked.at) != 1 or not 0 < looked.at[0] < 1:
        return False
    reading = [e for expr in question.outer.expressions for e in walk(expr) if _reads(e, looked.spread)]
    if not all(isinstance(e, Quantile) and e.type.is_number for e in reading):
        return False
    return all(
        len(atoms(column)) == 1
        for _, column in question.outer.columns
        if any(_reads(e, looked.spread) for e in walk(column))
    )


def _reads(expr: Expr, spread: Spread) -> bool:
    return getattr(expr, "spread", None) == spread


@lru_cache(maxsize=1024)
def _off(spread: Spread, p: Fraction) -> float:
    """How far the rank of the quantile's edge is off in a tree with Laplace noise of scale 1, at the level at which
    the interval tests it: it sums the root's children, and a quarter of a family on each level below.
    """
    fine = DiscreteLaplaceNoise(Fraction(_FINE))
    left = round(p * spread.fanout)
    side = max(spread.fanout // 4, 1) * (spread.depth - 1)
    terms: dict[Fraction, int] = {}
    for size, n in ((1 - p, left), (p, spread.fanout - left), (Fraction(1), side)):
        terms[size] = terms.get(size, 0) + n
    level = 1 - (1 - CONFIDENCE) / spread.depth
    return rank_error(fine, tuple(sorted(terms.items())), level) / _FINE


_FINE = 1000
