"""Two laws on finitely many outputs, as rows of integers with one sum: how well a test tells them apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from discreet.finite.comparisons import beyond, exceeds, exponential


def likelier(p: Sequence[int], q: Sequence[int], epsilon: Fraction) -> list[int]:
    """The outputs with P > e^ε Q, decided exactly: the event of the largest P − e^ε Q."""
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
    """The least a ≥ 1 with Σ (P − aQ)⁺ ≤ δ; None where no a is enough.

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
    """The largest P/Q among the outputs that Q gives.

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
    """How much of P lies on outputs that Q never gives."""
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
