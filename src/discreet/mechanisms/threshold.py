"""Private selection of groups: which keys may be shown when the keys themselves come from people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import Mechanism, numbered
from discreet.mechanisms.parameters import read_confidence, read_delta, read_size
from discreet.noise.entropy import Entropy, SystemEntropy, words64
from discreet.noise.fixedpoint import exp_neg
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.exact import Real, count, first_whole, set_fields
from discreet.privacy.guarantee import called, decimal
from discreet.privacy.unit import Relation


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Threshold(Mechanism):
    """Keeps a group of n distinct units with the largest probability that (ε, δ)-privacy allows.

    The probability π(n) is the optimum itself, π(0) = 0 and π(n + 1) = min(e^ε π(n) + δ, 1 − e^−ε (1 − π(n) −
    δ), 1), in closed form. The truncated geometric threshold, "keep when n + Z > k", equals it only where
    (1/ε) ln((e^ε + 2δ − 1)/((e^ε + 1)δ)) is an integer, and keeps less elsewhere; so the optimum is drawn
    directly, as a coin whose bias is refined until it decides.

    Guarantee:
        The set of kept groups is (ε, δ)-DP when one unit enters at most `max_groups` = m groups, each count is of
        distinct units, and groups without units are not in the list. Under add-remove at most m counts change by one,
        and each group is given (ε/m, δ/m). Under replace a unit leaves up to m groups and joins up to m others, and
        each is given (ε/2m, δ/2m). A group of no units is never kept. The caller enforces `max_groups`. Each coin is
        exact: P(keep) = π(n), not near it. With `min_people` = k a group of n units is kept with π(max(n − k + 1, 0)).
        This number moves by no more than n does, so the promise holds, and a group of fewer than k units is never kept.

    References:
        Desfontaines, Voss, Gipson, Mandayam 2022, *Differentially private partition selection*, Section 3
        (the recurrence, its closed form, and when a truncated geometric law equals it),
        https://arxiv.org/abs/2006.03684; docs/proofs/threshold.md.

    >>> t = Threshold(epsilon=1, delta="1e-5", max_groups=1)
    >>> t.kept_from(0.5), t.kept_from(0.95)
    (12, 14)
    """

    epsilon: Fraction
    delta: Fraction
    max_groups: int
    relation: Relation
    min_people: int
    _each: tuple[Fraction, Fraction] = field(init=False)
    _turn: int = field(init=False)

    def __init__(
        self,
        epsilon: Real,
        delta: Real,
        max_groups: int = 1,
        *,
        relation: Relation | str = Relation.ADD_REMOVE,
        min_people: int = 1,
    ) -> None:
        set_fields(self, epsilon=read_size("epsilon", epsilon), delta=read_delta(delta, hint=_NO_DELTA))
        set_fields(self, max_groups=count("max_groups", max_groups), relation=Relation.parse(relation))
        set_fields(self, min_people=count("min_people", min_people))
        object.__setattr__(self, "_each", self.per_group)
        object.__setattr__(self, "_turn", _turn(*self._each))

    @property
    def touched(self) -> int:
        """How many groups one unit may change: m under add-remove, 2m under replace."""
        return self.max_groups * (2 if self.relation is Relation.REPLACE else 1)

    @property
    def per_group(self) -> tuple[Fraction, Fraction]:
        """The (ε, δ) that each group is given."""
        return self.epsilon / self.touched, self.delta / self.touched

    @property
    def events(self) -> Composed:
        epsilon, delta = self.per_group
        return Composed([(ApproximateEvent(epsilon, delta), self.touched)])

    def event(self) -> Composed:
        """Return what one selection costs, whatever the number of groups."""
        return self.events

    def keep_probability(self, n: int) -> Fraction:
        """π(n), the probability to keep a group of n units, rounded down by less than 2^-64."""
        return self.enclosure(n, 64)[0]

    def enclosure(self, n: int, bits: int) -> tuple[Fraction, Fraction]:
        """Return a certified interval around π(n), no wider than 2^-bits."""
        low, high, precision = self._interval(n, bits)
        return Fraction(low, 1 << precision), Fraction(high, 1 << precision)

    def keep(self, counts: Sequence[int] | NDArray[np.int64], rng: Entropy) -> list[bool]:
        """For each group, given its number of distinct units, whether it is kept: independent exact coins."""
        n = np.maximum(_counts(counts), 0)
        sizes, place = np.unique(n, return_inverse=True)
        cuts = [self._cut(int(size)) for size in sizes]
        sure = np.array([low for low, _ in cuts], dtype=np.uint64)[place]
        most = np.array([high for _, high in cuts], dtype=np.uint64)[place]
        u = words64(rng, len(n))
        kept = u < sure
        for i in np.flatnonzero((u >= sure) & (u <= most)):  # about one in 2^63: the next bits decide
            kept[i] = self._decide(int(n[i]), int(u[i]), rng)
        return [bool(k) for k in kept]

    def release(self, counts: Sequence[int] | NDArray[np.int64], *, rng: Entropy | None = None) -> list[bool]:
        """`keep` with the system's randomness."""
        return self.keep(counts, SystemEntropy() if rng is None else rng)

    def kept_from(self, confidence: Real = 0.95) -> int:
        """Return the least number of units at which a group is kept with at least this probability."""
        c = read_confidence(confidence)
        bits = 64 + math.ceil(1 / (1 - c)).bit_length()

        def is_kept(n: int) -> bool:
            return self.enclosure(n, bits)[0] >= c

        return first_whole(is_kept)

    def error(self, confidence: Real = 0.95) -> float:
        """`kept_from`: a group of this many units is shown with this probability."""
        return float(self.kept_from(confidence))

    def explain(self) -> str:
        epsilon, delta = self.per_group
        e, d = decimal(epsilon), decimal(delta)
        return numbered(
            repr(self),
            f"Touched. Under {self.relation.value} one unit changes at most {self.touched} "
            f"{'count' if self.touched == 1 else 'counts'} of distinct units, each by 1; each group is given "
            f"(ε, δ) = ({e}, {d}).",
            "Bound. A group of n + 1 units may differ from one of n only as (ε, δ)-DP allows: "
            "π(n + 1) ≤ e^ε π(n) + δ, and 1 − π(n) ≤ e^ε (1 − π(n + 1)) + δ.",
            f"Optimum. From π(0) = 0 both are met with equality in turn: π(1) = {d}, the first binds up to "
            f"n = {self._turn}, then the second, until π reaches 1.",
            *self._few,
            f"Sum. {self.touched} at ({e}, {d}) are ({decimal(self.epsilon)}, {decimal(self.delta)})-DP.",
            f"Error. A group is kept with probability ½ from {self.kept_from(0.5)} units, with 95% from "
            f"{self.kept_from(0.95)}.",
        )

    @property
    def _few(self) -> list[str]:
        k = self.min_people
        return [f"Few. A group of n units has the chance of n − {k - 1}, and none below {k}."] if k > 1 else []

    def __repr__(self) -> str:
        return called(self, "epsilon", "delta", "max_groups", relation=Relation.ADD_REMOVE, min_people=1)

    def _interval(self, n: int, bits: int) -> tuple[int, int, int]:
        """`enclosure` as integers (low, high) and a precision: low ≤ 2^precision·π(n) ≤ high."""
        n = max(n - self.min_people + 1, 0)
        epsilon, delta = self._each
        precision = bits + 64 + _digits(epsilon) + 2 * _digits(delta)  # enough for every n
        while n > 0:
            low, high = _Optimum.of(self._each, self._turn, precision).at(n)
            if high - low <= 1 << precision - bits:
                return low, high, precision
            precision *= 2
        return 0, 0, precision

    def _cut(self, n: int) -> tuple[int, int]:
        """(low, high): a 64-bit word below `low` keeps, above `high` does not; else more bits decide."""
        low, high, precision = self._interval(n, 80)
        return min(low >> precision - 64, _WORD), min(high >> precision - 64, _WORD)

    def _decide(self, n: int, u: int, rng: Entropy) -> bool:
        """Return whether the uniform number that begins with the 64 bits of u is below π(n)."""
        bits = 64
        while True:
            low, high = self.enclosure(n, bits + 16)
            if u + 1 <= low * (1 << bits):
                return True
            if u >= high * (1 << bits):
                return False
            u, bits = u << 64 | int(words64(rng, 1)[0]), bits + 64


_WORD = (1 << 64) - 1
_NO_DELTA = "take delta=1e-6; without δ no key of a private table can be shown: declare the keys instead"


def _counts(counts: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Whole counts as int64; anything that would be rounded or wrapped on the way is refused by its type."""
    array = np.asarray(counts)
    plain = not isinstance(counts, np.ndarray) or type(counts) is np.ndarray
    if array.size and (
        not plain or array.dtype.kind not in "iu" or (array.dtype.kind == "u" and array.dtype.itemsize == 8)
    ):
        raise InvalidParameter("counts must be whole numbers of at most 63 bits.", hint="use counts.astype(np.int64)")
    return array.reshape(-1).astype(np.int64)


def _power(epsilon: Fraction, n: int, precision: int) -> tuple[Fraction, Fraction]:
    """Return an interval around exp(−nε)."""
    low, high = exp_neg(n * epsilon, precision)
    return Fraction(low, 1 << precision), Fraction(high, 1 << precision)


def _turn(epsilon: Fraction, delta: Fraction) -> int:
    """Return the last n at which π(n) = e^ε π(n − 1) + δ.

    It is one more than the last m with δ(1 + q) ≤ q^m (1 − q + 2δq), where q = e^−ε.

    The two sides are never equal for m ≥ 1: q is transcendental (Lindemann) and δ rational, and as
    polynomials in q they differ. So refining the intervals ends.
    """
    return first_whole(lambda m: not _first_binds(epsilon, delta, m))  # it binds at 0 for every δ < 1


def _first_binds(epsilon: Fraction, delta: Fraction, m: int) -> bool:
    precision = 128
    while True:
        q_low, q_high = _power(epsilon, 1, precision)
        low, high = _power(epsilon, m, precision)
        if delta * (1 + q_high) <= low * (1 - q_high + 2 * delta * q_low):
            return True
        if delta * (1 + q_low) > high * (1 - q_low + 2 * delta * q_high):
            return False
        precision *= 2


def _digits(x: Fraction) -> int:
    """log₂ 1/x for x < 1, rounded up."""
    return max(x.denominator.bit_length() - x.numerator.bit_length() + 1, 0)


@dataclass(frozen=True, slots=True)
class _Optimum:
    """π of all group sizes at one precision, in integers that enclose what they stand for, times 2^precision.

    Attributes:
        each: the (ε, δ) of one group.
        turn: `_turn` of these.
        precision: the digits of all enclosures.
        ratio: around r = δ/(e^ε − 1) = δq/(1 − q) with q = exp(−ε), times 2^precision once more; None where so few
            digits do not tell q from 1.
        at_turn: around π(turn).
    """

    each: tuple[Fraction, Fraction]
    turn: int
    precision: int
    ratio: tuple[int, int] | None
    at_turn: tuple[int, int]

    @staticmethod
    @lru_cache(maxsize=64)
    def of(each: tuple[Fraction, Fraction], turn: int, precision: int) -> _Optimum:
        """Return the one of these parameters, which are public: nothing is kept of the size of a group."""
        (epsilon, delta), one = each, 1 << precision
        low, high = exp_neg(epsilon, precision)
        if high == one:
            return _Optimum(each, turn, precision, None, (0, one))
        up = delta.numerator << 2 * precision
        ratio = (up * low // (delta.denominator * (one - low)), -(-up * high // (delta.denominator * (one - high))))
        begun = _Optimum(each, turn, precision, ratio, (0, one))
        return _Optimum(each, turn, precision, ratio, begun.rising(turn))

    def at(self, n: int) -> tuple[int, int]:
        """Return an interval around π(n), for n ≥ 1."""
        if n <= self.turn:
            return self.rising(n)
        one, bits = 1 << self.precision, self.precision
        if self.ratio is None:
            return 0, one
        # 1 − π(turn + m) = q^m (1 − π(turn) + r) − r, which rises with q^m and falls with the other two.
        low, high = exp_neg((n - self.turn) * self.each[0], bits)
        least = one - _up(high * (one - self.at_turn[0]), bits) + (self.ratio[0] * (one - high) >> 2 * bits)
        most = one - (low * (one - self.at_turn[1]) >> bits) + _up(self.ratio[1] * (one - low), 2 * bits)
        return min(max(least, 0), one), min(most, one)

    def rising(self, n: int) -> tuple[int, int]:
        """Around δ (e^{nε} − 1)/(e^ε − 1) = r (1 − q^n)/q^n, for n ≥ 1; 1 where that is more."""
        (epsilon, delta), one = self.each, 1 << self.precision
        if n == 1:
            low, rest = divmod(delta.numerator << self.precision, delta.denominator)
            return low, low + (rest > 0)
        low, high = exp_neg(n * epsilon, self.precision)
        if self.ratio is None or not low:
            return 0, one
        least = self.ratio[0] * (one - high) // high >> self.precision
        most = _up(-(-self.ratio[1] * (one - low) // low), self.precision)
        return min(least, one), min(most, one)


def _up(x: int, bits: int) -> int:
    """x/2^bits, rounded up."""
    return -(-x >> bits)
