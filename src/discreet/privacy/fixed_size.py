"""A use on a random subset of fixed size, for neighbours by replacing one unit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from discreet.errors import InvalidParameter
from discreet.privacy.event import Event
from discreet.privacy.exact import above, count
from discreet.privacy.pair import Curve, Pair
from discreet.privacy.shuffling import ShuffleEvent
from discreet.privacy.unit import Relation

_UNIT = 2.0**-52
_MOST = 1 << 62  # units; keeps 1/rate far inside the floats
_LARGEST = 600.0  # an ε beyond it is taken to be this one, whose δ is larger


@dataclass(frozen=True, slots=True)
class FixedSizeEvent(Event):
    """One use of `event` on `sample` of `population` units, drawn uniformly without replacement.

    Guarantee:
        It holds for replaced units, for which `event` was derived, and for no others: both sizes are public.
        Every use draws a fresh subset that stays secret. It holds for each use whatever came before, so
        uses compose.

    References: Zhu, Dong, Wang 2022, Proposition 30, https://arxiv.org/abs/2106.08567; `pure` is its curve's
    zero; proofs of all that is claimed here: docs/proofs/fixed-size.md
    """

    event: Event
    sample: int
    population: int
    relation: ClassVar[Relation] = Relation.REPLACE

    def __post_init__(self) -> None:
        count("sample", self.sample)
        if not self.sample < count("population", self.population) <= _MOST:
            raise InvalidParameter(
                f"population must lie between sample + 1 = {self.sample + 1} and {_MOST}, not {self.population}.",
                hint="a sample of everybody needs no event of its own",
            )
        if isinstance(self.event, FixedSizeEvent):
            raise InvalidParameter("a sample of a sample is one sample: give the sizes of the last and the first.")
        if isinstance(self.event, ShuffleEvent) and self.event.users > self.sample:
            raise InvalidParameter(
                f"a sample of {self.sample} units cannot hold the {self.event.users} users that are shuffled."
            )
        if self.event.relation not in (None, Relation.REPLACE):
            raise InvalidParameter(
                f"a sample of fixed size is for replaced units, and this use for {self.event.relation.value} ones.",
                hint="derive the noise for replaced units, or sample each unit independently (Poisson)",
            )

    @property
    def rate(self) -> Fraction:
        """The chance that a unit is in the sample."""
        return Fraction(self.sample, self.population)

    @property
    def pure(self) -> Fraction | None:
        """log(1 + q(e^ε − 1)), rounded up; ε itself where e^ε is no float."""
        if self.event.pure is None:
            return None
        epsilon = above(self.event.pure)
        return min(Fraction(_amplified(epsilon, above(self.rate))), self.event.pure)

    @property
    def rho(self) -> Fraction | None:
        """That of `event`: mixing in what both sides share lowers no divergence's bound."""
        return self.event.rho

    @property
    def failure(self) -> Fraction:
        return self.event.failure * self.rate

    def pair(self) -> Pair:
        return FixedSizePair(self.event.pair(), above(self.rate))


@dataclass(frozen=True, slots=True)
class FixedSizePair(Pair):
    """The pair whose curve is that of ((1−q)Q + qP, Q) for ε ≥ 0, and is mirrored for ε < 0; symmetric.

    No two data sets need to attain it: it bounds all of them at every ε, which is what composes. The worst
    data sets of one step need not be the worst of several (Lebeda, Regehr, Kamath, Steinke 2024,
    https://arxiv.org/abs/2405.20769).
    """

    base: Pair
    rate: float
    exact: ClassVar[bool] = False  # the two halves of the curve belong to different orders of two data sets

    def delta(self, epsilon: Curve) -> Curve:
        """q·H(P‖Q) at log(1 + (e^ε − 1)/q) for ε ≥ 0, and 1 − e^ε + e^ε·δ(−ε) below."""
        x = np.minimum(epsilon, 0.0)
        positive = self._positive(np.abs(epsilon))
        return np.where(epsilon >= 0, positive, -np.expm1(x) + np.exp(x) * positive)

    @property
    def work(self) -> float:
        return self.base.work

    @property
    def epsilon_max(self) -> float:
        return _amplified(max(self.base.epsilon_max, self.base.reverse().epsilon_max), self.rate)

    def _positive(self, epsilon: Curve) -> Curve:
        moved = np.log1p(np.expm1(np.minimum(epsilon, _LARGEST)) / self.rate)
        moved *= 1 - 16 * _UNIT  # rounded to the side where the curve is higher
        # Each of two units may be the replaced one, so the base has to hold in both orders.
        base, reverse = self.base.delta(moved), self.base.reverse()
        return self.rate * (base if reverse == self.base else np.maximum(base, reverse.delta(moved)))


def _amplified(epsilon: float, rate: float) -> float:
    """log(1 + rate(e^ε − 1)), rounded up."""
    if epsilon > _LARGEST:
        return epsilon
    return math.log1p(rate * math.expm1(epsilon)) * (1 + 16 * _UNIT)
