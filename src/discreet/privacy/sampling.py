"""A use on a random subset: a Poisson sample under add-remove, or one of fixed size under replacement."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from discreet.errors import InvalidParameter
from discreet.privacy.event import Event, common_relation
from discreet.privacy.exact import above, below, count
from discreet.privacy.pair import Curve, Pair
from discreet.privacy.pairs.additive import GaussianPair
from discreet.privacy.pairs.finite import FinitePair, Outcomes, logarithm
from discreet.privacy.shuffling import ShuffleEvent
from discreet.privacy.unit import Relation

_UNIT = 2.0**-52
_LARGEST = 128.0  # a loss that e^loss turns into a relative error of 2⁻⁴⁴


@dataclass(frozen=True, slots=True)
class PoissonEvent(Event):
    """One use of `event` on a sample that each unit enters independently with chance `rate`.

    Guarantee:
        It holds for add-remove neighbours, for which `event` was derived, and for no other: the sample is
        secret and its size is not fixed.

    References: Zhu, Dong, Wang 2022, Theorem 11, https://arxiv.org/abs/2106.08567; `pure` is Li, Qardaji, Su
    2012, Theorem 1, https://arxiv.org/abs/1101.2604; proof: docs/proofs/sampling.md
    """

    event: Event
    rate: Fraction
    relation: ClassVar[Relation] = Relation.ADD_REMOVE

    def __post_init__(self) -> None:
        rate: object = self.rate  # a float could not be stored exactly
        if not isinstance(rate, Fraction) or not 0 < rate < 1:
            raise InvalidParameter(f"rate must be a Fraction between 0 and 1, not {self.rate}.")
        if isinstance(self.event, PoissonEvent):
            raise InvalidParameter("a sample of a sample is one sample: multiply the rates.")
        common_relation(Relation.ADD_REMOVE, self.event.relation)

    @property
    def pure(self) -> Fraction | None:
        """log(1 + q(e^ε − 1)), rounded up; ε itself where e^ε is no float."""
        if self.event.pure is None:
            return None
        epsilon = above(self.event.pure)
        if epsilon > 600:
            return self.event.pure
        found = math.log1p(above(self.rate) * math.expm1(epsilon)) * (1 + 16 * _UNIT)
        return min(Fraction(found), self.event.pure)

    @property
    def rho(self) -> Fraction | None:
        """That of `event`: mixing in the other side lowers no divergence's bound."""
        return self.event.rho

    @property
    def failure(self) -> Fraction:
        return self.event.failure * self.rate

    def pair(self) -> Pair:
        return PoissonPair(self.event.pair(), self.rate, True)


@dataclass(frozen=True, slots=True)
class PoissonPair(FinitePair):
    """((1−q)Q + qP, Q) when a unit is removed; the two swapped when one is added."""

    base: Pair
    rate: Fraction
    removes: bool

    def delta(self, epsilon: Curve) -> Curve:
        """q·H(P‖Q) at log(1 + (e^ε − 1)/q), and its mirror (1 − e^ε(1−q))·H(Q‖P) at log(e^ε·q/(1 − e^ε(1−q)))."""
        q = above(self.rate)
        plain = -np.expm1(np.minimum(epsilon, 0.0))
        if self.removes:
            grown = np.expm1(np.minimum(epsilon, 600.0))  # a smaller ε has a larger δ
            with np.errstate(over="ignore"):  # a smaller point has a larger δ
                ratio = np.minimum(grown / q, 1e300)
            inside = ratio > -1 + 1e-9
            moved = np.log1p(np.where(inside, ratio, 0.0))
            # The rounding of the point moves it to the side where the curve is higher.
            moved = moved - 8 * _UNIT * (np.abs(moved) + 1 / (1 + np.where(inside, ratio, 0.0)))
            sampled = q * self.base.delta(moved)
            return np.where(inside, np.maximum(sampled, plain), np.minimum(plain * (1 + 1e-9) + q * 1e-9, 1.0))
        # ε + log(1 − q) with the logarithm in two floats: near its end the curve hangs on all of their digits.
        floor, more = logarithm(1 - self.rate)
        left = epsilon + floor + more
        rest = -np.expm1(np.minimum(left, 0.0)) * (1 + 8 * _UNIT)
        log_rest = np.log(np.where(rest > 0, rest, 1.0))
        near = math.log(q)
        moved = epsilon + near - log_rest - 2 * _UNIT * (np.abs(epsilon) + np.abs(log_rest) - near + 4)
        sampled = rest * self.base.reverse().delta(moved)
        return np.where(rest > 0, np.maximum(sampled, plain), 0.0)  # beyond it no loss is as large

    @property
    def exact(self) -> bool:
        """Whether that of the base is."""
        return self.base.exact

    @property
    def accuracy(self) -> float:
        """The base is asked at a rounded point, which matters where its curve is steep."""
        if not isinstance(self.base, GaussianPair):
            return math.inf  # other curves may end
        return max(self.base.accuracy, 1e-12 / math.sqrt(below(self.base.mu_squared)))

    def reverse(self) -> Pair:
        return PoissonPair(self.base, self.rate, not self.removes)

    @property
    def epsilon_max(self) -> float:
        base = self.base if self.removes else self.base.reverse()
        q = above(self.rate)
        if not self.removes and self.rate < 1:
            return math.nextafter(-sum(logarithm(1 - self.rate)) * (1 + 4 * _UNIT), math.inf)
        largest = base.epsilon_max
        return largest if largest > 600 else math.log1p(q * math.expm1(largest)) * (1 + 16 * _UNIT)

    def outcomes(self) -> Outcomes | None:
        """Those of `base` and, where only Q has mass, one more with the loss log(1 − q): docs/proofs/enumeration.md."""
        q = above(self.rate)
        base = self.base if self.removes else self.base.reverse()
        known = base.outcomes() if isinstance(base, FinitePair) else None
        if isinstance(base, PoissonPair):  # a sample of a sample, whose losses would be rounded too coarsely
            return None
        if known is None or q >= 1 or np.abs(known.loss).max(initial=0.0) > _LARGEST:
            return None
        if self.removes:
            loss, p = _mixed(known.loss, q), (1 - q) * known.q + q * known.p
            only = (math.log1p(-q) * (1 - 4 * _UNIT), (1 - q) * known.q_alone, known.q_alone)
            return _joined(only, loss, p, known.q, q * known.p_alone * (1 + _UNIT), 0.0)
        # Here P is the side without the unit. A larger loss of P against the other's is a smaller one back.
        loss, other = -_mixed(-known.loss, q, -1), (1 - q) * known.p + q * known.q
        only = (-math.log1p(-q) * (1 + 4 * _UNIT), known.p_alone, (1 - q) * known.p_alone)
        return _joined(only, loss, known.p, other, 0.0, q * known.q_alone * (1 + _UNIT))


def _mixed(loss: Curve, q: float, sign: int = 1) -> Curve:
    """log(1 − q + q e^loss), rounded up, or down where `sign` is −1."""
    x = q * np.expm1(loss)
    near = np.log1p(np.maximum(x, -0.5))
    far = np.log((1 - q) + q * np.exp(np.minimum(loss, 0.0)))
    value = np.where(x > -0.5, near, far)
    return value + sign * 16 * _UNIT * np.abs(value)


def _joined(
    only: tuple[float, float, float], loss: Curve, p: Curve, q: Curve, p_alone: float, q_alone: float
) -> Outcomes:
    if only[1] or only[2]:
        loss, p, q = (np.append(column, x) for column, x in zip((loss, p, q), only, strict=True))
    order = np.argsort(loss, kind="stable")
    return Outcomes(loss[order], p[order], q[order], p_alone, q_alone)


_MOST = 1 << 62  # units; keeps 1/rate far inside the floats
_LARGEST_EPSILON = 600.0  # an ε beyond it is taken to be this one, whose δ is larger


@dataclass(frozen=True, slots=True)
class FixedSizeEvent(Event):
    """One use of `event` on `sample` of `population` units, drawn uniformly without replacement.

    Guarantee:
        It holds for replaced units, for which `event` was derived, and for no others: both sizes are public. Every use
        draws a fresh subset that stays secret. It holds for each use whatever came before, so uses compose.

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

    No two data sets need to attain it: it bounds all of them at every ε, which is what composes. The worst data sets of
    one step need not be the worst of several (Lebeda, Regehr, Kamath, Steinke 2024, https://arxiv.org/abs/2405.20769).
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
        moved = np.log1p(np.expm1(np.minimum(epsilon, _LARGEST_EPSILON)) / self.rate)
        moved *= 1 - 16 * _UNIT  # rounded to the side where the curve is higher
        # Each of two units may be the replaced one, so the base has to hold in both orders.
        base, reverse = self.base.delta(moved), self.base.reverse()
        return self.rate * (base if reverse == self.base else np.maximum(base, reverse.delta(moved)))


def _amplified(epsilon: float, rate: float) -> float:
    """log(1 + rate(e^ε − 1)), rounded up."""
    if epsilon > _LARGEST_EPSILON:
        return epsilon
    return math.log1p(rate * math.expm1(epsilon)) * (1 + 16 * _UNIT)
