"""What any table of probabilities and its neighbours say exactly: ε, δ, trade-off, worst event."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Self

from discreet.accounting.decimals import log
from discreet.errors import InvalidParameter
from discreet.finite.rows import ProbabilityTable
from discreet.privacy.exact import Real, above, below, count, exact, probability

_SHOWN = 6
_LONG = 4096  # bits; far longer integers are refused as text by Python itself

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class OutputEvent:
    """An event with its exact probabilities under two neighbours.

    Attributes:
        x: the input under which it is the likelier.
        x_neighbour: its neighbour.
        outputs: the outputs that make up the event.
        under_x: the probability under x.
        under_neighbour: that under the neighbour.
    """

    x: object
    x_neighbour: object
    outputs: tuple[Hashable, ...]
    under_x: Fraction
    under_neighbour: Fraction

    @property
    def epsilon(self) -> float:
        """The logarithm of the ratio of the two probabilities, rounded to a float; 0 for the empty event."""
        if not self.under_x:
            return 0.0
        return log_above(self.under_x / self.under_neighbour) if self.under_neighbour else math.inf

    def __str__(self) -> str:
        shown = ", ".join(repr(o) for o in self.outputs[:_SHOWN])
        more = f" and {len(self.outputs) - _SHOWN} more" if len(self.outputs) > _SHOWN else ""
        p, q = in_words(self.under_x), in_words(self.under_neighbour)
        return f"output {shown}{more}: {p} under {self.x!r}, {q} under {self.x_neighbour!r}"


@dataclass(frozen=True, slots=True, repr=False)
class ComparedTable(ABC):
    """A table of probabilities and the pairs of its inputs that are compared.

    Attributes:
        table: the inputs, the outputs and the probabilities.
        pairs: the pairs of inputs, as indices, that are compared.
        edges: the pairs that differ by one unit.
    """

    table: ProbabilityTable
    pairs: Pairs
    edges: Pairs

    @abstractmethod
    def group(self, k: int) -> Self:
        """Return the privacy of inputs that are at most k steps of neighbours apart."""

    @property
    def inputs(self) -> tuple[object, ...]:
        """The inputs, in order."""
        return self.table.inputs

    @property
    def outputs(self) -> tuple[Hashable, ...]:
        """The outputs, in order."""
        return self.table.outputs

    def ratio(self, delta: Real = 0) -> Fraction | None:
        """e^ε for the least ε ≥ 0 at δ, exactly; None where no finite ε exists."""
        d = probability("delta", delta) * self.table.whole
        greatest = Fraction(1)
        for p, q in self.all_rows():
            ratio = least_ratio(p, q, d)
            if ratio is None:
                return None
            greatest = max(greatest, ratio)
        return greatest

    def epsilon(self, delta: Real = 0) -> float:
        """Return the least ε at δ, rounded up to a float; infinite where there is none."""
        ratio = self.ratio(delta)
        return math.inf if ratio is None else log_above(ratio)

    def delta_bounds(self, epsilon: Real) -> tuple[Fraction, Fraction]:
        """Return the least δ at ε, from below and from above: equal where e^ε matters not, else within 10⁻³⁶."""
        e = exact("epsilon", epsilon)
        if e < 0:
            raise InvalidParameter(f"epsilon must be at least 0, not {epsilon}.")
        low, high = self.bracket(e)
        most_low = most_high = 0
        for p, q in self.all_rows():
            event = likelier(p, q, e)
            over, under = sum(p[k] for k in event), sum(q[k] for k in event)
            most_low = max(most_low, over * high.denominator - under * high.numerator)
            most_high = max(most_high, over * low.denominator - under * low.numerator)
        whole = self.table.whole
        return Fraction(most_low, high.denominator * whole), Fraction(most_high, low.denominator * whole)

    def delta(self, epsilon: Real) -> float:
        """Return the least δ at ε, rounded up to a float."""
        return above(self.delta_bounds(epsilon)[1])

    @property
    def failure(self) -> Fraction:
        """The δ that is left however large ε is: the chance of outputs that a neighbour never gives."""
        return Fraction(max((impossible(p, q) for p, q in self.all_rows()), default=0), self.table.whole)

    def tradeoff(self, alpha: Real) -> Fraction:
        """Return the least type II error of any test of two neighbours with type I error α, exactly.

        References: Dong, Roth, Su 2019, Definition 2.1, https://arxiv.org/abs/1905.02383
        """
        a = exact("alpha", alpha)
        if not 0 <= a <= 1:
            raise InvalidParameter(f"alpha must lie in [0, 1], not {alpha}.")
        whole = self.table.whole
        return min((type_two(p, q, whole, a) for p, q in self.all_rows()), default=1 - a)

    def ordered(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs that are compared, as indices of inputs, in both orders."""
        for i, j in self.pairs:
            yield i, j
            yield j, i

    def rows_of(self, i: int, j: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the laws of two inputs, in integers over the table's `whole`."""
        return self.table.rows[i], self.table.rows[j]

    def all_rows(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return the laws of all pairs that are compared, in both orders."""
        return (self.rows_of(i, j) for i, j in self.ordered())

    def bracket(self, e: Fraction) -> tuple[Fraction, Fraction]:
        """Bounds of e^ε; any, where no ratio of two probabilities comes near it."""
        return (Fraction(1), Fraction(1)) if beyond(e, self.table.whole) else exponential(e, 40)

    def excess(self, i: int, j: int, e: Fraction) -> Fraction:
        """P(E) − e^ε Q(E) for the event E where that is largest, to forty digits."""
        p, q = self.rows_of(i, j)
        event = likelier(p, q, e)
        over, under = sum(p[k] for k in event), sum(q[k] for k in event)
        return (over - self.bracket(e)[1] * under) / self.table.whole

    def largest(self) -> OutputEvent | None:
        """Return the outputs with the largest ratio of their probabilities; the impossible ones, if there are any."""
        best: tuple[int, Fraction, int, int] | None = None
        for i, j in self.ordered():
            p, q = self.rows_of(i, j)
            found = impossible(p, q), largest_ratio(p, q)
            if best is None or found > best[:2]:
                best = *found, i, j
        if best is None:
            return None
        lost, ratio, i, j = best
        both = list(enumerate(zip(*self.rows_of(i, j), strict=True)))
        if lost:
            return self.event(i, j, [k for k, (a, b) in both if a and not b])
        return self.event(i, j, [k for k, (a, b) in both if b and a == ratio * b])

    def event(self, i: int, j: int, event: Sequence[int]) -> OutputEvent:
        """Return the event of these outputs under two inputs, all as indices."""
        p, q = self.rows_of(i, j)
        whole = self.table.whole
        chances = Fraction(sum(p[k] for k in event), whole), Fraction(sum(q[k] for k in event), whole)
        return OutputEvent(self.inputs[i], self.inputs[j], tuple(self.outputs[k] for k in event), *chances)


def within(edges: Pairs, many: int, steps: int) -> Pairs:
    """Return the pairs of `many` inputs that are at most so many steps of neighbours apart, and not equal."""
    count("k", steps)
    near: dict[int, set[int]] = {}
    for i, j in edges:
        near.setdefault(i, set()).add(j)
        near.setdefault(j, set()).add(i)
    pairs = []
    for start in range(many):
        reached, ahead = {start}, {start}
        for _ in range(steps):
            ahead = {j for i in ahead for j in near.get(i, ())} - reached
            reached |= ahead
            if not ahead:
                break
        pairs += [(start, j) for j in sorted(reached) if j > start]
    return tuple(pairs)


def log_above(ratio: Fraction) -> float:
    """Return the logarithm of a ratio ≥ 1, rounded up: the sixty digits are off by far less than what is added."""
    return above(log(ratio) * (1 + Fraction(1, 10**50))) if ratio > 1 else 0.0


def in_words(x: Fraction) -> str:
    """Return a fraction as such where it is short, and as a decimal."""
    near = f"{float(x) if x < 10**300 else below(x):.6g}"
    if x.numerator.bit_length() + x.denominator.bit_length() > _LONG:
        return near
    short = f"{x.numerator}/{x.denominator}" if x.denominator > 1 else str(x.numerator)
    return short if short == near else f"{near} ({short})" if len(short) < 20 else near


def likelier(p: Sequence[int], q: Sequence[int], epsilon: Fraction) -> list[int]:
    """Return the outputs with P > e^ε Q, decided exactly: the event of the largest P − e^ε Q."""
    if beyond(epsilon, max(p)):
        return [k for k in range(len(p)) if p[k] and not q[k]]
    low, high = exponential(epsilon, 40)
    found = []
    for k, (a, b) in enumerate(zip(p, q, strict=True)):
        if a * high.denominator > b * high.numerator or (
            a * low.denominator > b * low.numerator and exceeds(a, b, epsilon)
        ):
            found.append(k)
    return found


def least_ratio(p: Sequence[int], q: Sequence[int], delta: Fraction) -> Fraction | None:
    """Return the least a ≥ 1 with Σ (P − aQ)⁺ ≤ δ; None where no a is enough.

    The sum is convex, falling and piecewise linear in a, with bends at the ratios P/Q.
    """
    lost = impossible(p, q)
    if lost > delta:
        return None
    if not delta:
        return max(Fraction(1), largest_ratio(p, q))
    over, under = lost, 0
    bends = [(Fraction(a, b), a, b) for a, b in zip(p, q, strict=True) if b > 0]
    for bend, a, b in sorted(bends, reverse=True):  # at this bend, exactly the outputs before it count
        if over - bend * under > delta:
            break
        over, under = over + a, under + b
    return max(Fraction(1), (over - delta) / under)


def largest_ratio(p: Sequence[int], q: Sequence[int]) -> Fraction:
    """Return the largest P/Q among the outputs that Q gives.

    Where many outputs have it, as in the geometric mechanism, it is a ratio of much smaller integers than the
    probabilities are; so it is reduced at the first tie.
    """
    over, under, is_reduced = 0, 1, True
    for a, b in zip(p, q, strict=True):
        if not b:
            continue
        mine, best = a * under, over * b
        if mine > best:
            over, under, is_reduced = a, b, False
        elif mine == best and not is_reduced:
            shared = math.gcd(over, under)
            over, under, is_reduced = over // shared, under // shared, True
    return Fraction(over, under)


def impossible(p: Sequence[int], q: Sequence[int]) -> int:
    """Return how much of P lies on outputs that Q never gives."""
    return sum(a for a, b in zip(p, q, strict=True) if not b)


def type_two(p: Sequence[int], q: Sequence[int], whole: int, alpha: Fraction) -> Fraction:
    """1 − Q(E) for the most powerful randomised test E with P(E) = α.

    References: Neyman, Pearson 1933, https://doi.org/10.1098/rsta.1933.0009
    """
    left, found = alpha * whole, Fraction(sum(b for a, b in zip(p, q, strict=True) if not a))
    both = [(Fraction(b, a), a, b) for a, b in zip(p, q, strict=True) if a]
    for _, a, b in sorted(both, reverse=True):
        if a > left:
            found += Fraction(b) * left / a
            break
        left, found = left - a, found + b
    return 1 - found / whole


_WIDE = 425_000_000  # the largest exponent that every build of the library takes


@lru_cache(maxsize=256)
def exponential(epsilon: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Rationals below and above e^ε, ε ≥ 0, that agree in about `digits` digits; both 1 for ε = 0.

    The library rounds a quotient and an exponential correctly, so each is off by at most one unit of its last
    place; the error of the quotient, relative to it, is multiplied by ε.
    """
    if not epsilon:
        return Fraction(1), Fraction(1)
    more = len(str(int(epsilon))) + 3
    context = Context(prec=digits + more, rounding=ROUND_HALF_EVEN, Emin=-_WIDE, Emax=_WIDE)
    power = context.exp(context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    middle, slack = Fraction(power), Fraction(1, 10 ** (digits + 1))
    return middle * (1 - slack), middle * (1 + slack)


def exceeds(p: Fraction | int, q: Fraction | int, epsilon: Fraction) -> bool:
    """Return whether p > e^ε q, for p, q ≥ 0 and a rational ε ≥ 0: decided exactly.

    For ε ≠ 0 the number e^ε is irrational (Lindemann 1882), so p = e^ε q only where both are 0, and enough
    digits decide.
    """
    if not q or not p:
        return p > 0 and not q
    if not epsilon:
        return p > q
    ratio = Fraction(p) / Fraction(q)
    if ratio <= 1:
        return False
    if beyond(epsilon, ratio.numerator):  # a huge power would fill the memory
        return False
    digits = 20
    while True:
        low, high = exponential(epsilon, digits)
        if ratio > high:
            return True
        if ratio < low:
            return False
        digits *= 2


def beyond(epsilon: Fraction, most: int) -> bool:
    """Return whether e^ε surely exceeds an integer: most < 2^bits < e^(7 bits/10)."""
    return epsilon * 10 >= 7 * most.bit_length()
