"""Certified enclosures of exp(−x) and ln x between integer multiples of 2^−bits."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from discreet.errors import InvalidParameter

_WIDTH = 2  # the promised hi − lo


def exp_neg(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers (lo, hi) with lo ≤ 2^bits·exp(−x) ≤ hi and hi − lo ≤ 2, for any rational x ≥ 0.

    >>> exp_neg(Fraction(1), 20)
    (385749, 385750)

    Guarantee:
        The enclosure is proved, not estimated: x/2^k ≤ 1/16 is summed by its alternating Taylor series in
        integers with the rounding of every term counted, and squared k times with lo rounded down and hi
        rounded up. The width is checked, and the sum repeated with more guard bits if it were too wide.
        x = 0 gives exactly 2^bits twice; x ≥ bits gives (0, 1) at once, since then 2^bits·exp(−x) < 1.

    References:
        docs/proofs/bernoulli.md, "The enclosure".
    """
    _check_bits(bits)
    p, q = int(x.numerator), int(x.denominator)  # a fraction may hold numpy's integers, which wrap
    if p < 0:
        raise InvalidParameter("exp_neg is for x ≥ 0.")
    if p == 0:
        return 1 << bits, 1 << bits
    if p >= bits * q:
        return 0, 1
    halvings = max(0, p.bit_length() - q.bit_length() + 1) + 4 + math.isqrt(bits) // 4  # x/2^halvings < 2^-4
    guard = halvings + bits.bit_length() + 6
    while True:
        lo, hi = _exp_neg_reduced(p, q << halvings, bits + guard)
        for _ in range(halvings):
            lo = lo * lo >> (bits + guard)
            hi = -(-hi * hi >> (bits + guard))
        lo, hi = lo >> guard, -(-hi >> guard)
        if hi - lo <= _WIDTH:
            return lo, hi
        guard *= 2


def _exp_neg_reduced(p: int, q: int, w: int) -> tuple[int, int]:
    """(lo, hi) around 2^w·exp(−p/q) for 0 < p/q ≤ 1/2.

    With r = p/q and τᵢ = 2^w rⁱ/i!, the integer term T is below τᵢ by eᵢ ≤ eᵢ₋₁/2 + 2 < 4. The sum stops at
    the first T = 0, where τᵢ < 4 bounds the alternating tail. So i terms err by less than 4i + 4 in all.
    """
    r = (p << w) // q
    term = total = 1 << w
    i = 0
    while term:
        i += 1
        term = (term * r >> w) // i
        total += -term if i & 1 else term
    slack = 4 * i + 4
    return max(0, total - slack), min(1 << w, total + slack)


def ln(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers (lo, hi) with lo ≤ 2^bits·ln(x) ≤ hi and hi − lo ≤ 2, for any rational x > 0.

    >>> ln(Fraction(10), 20)
    (2414435, 2414436)

    Guarantee:
        Proved in the same way as `exp_neg`: x = 2^e·m with 1/2 < m < 2, and both logarithms are series of
        atanh in integers whose every rounding is counted. ln(1) is exactly (0, 0).
    """
    return ln_ratio(int(x.numerator), int(x.denominator), bits)


def ln_ratio(a: int, b: int, bits: int) -> tuple[int, int]:
    """`ln` of a/b for integers a, b > 0, which need not be in lowest terms."""
    _check_bits(bits)
    if a <= 0 or b <= 0:
        raise InvalidParameter("ln is for x > 0.")
    e = a.bit_length() - b.bit_length()
    a, b = (a, b << e) if e >= 0 else (a << -e, b)
    guard = max(8, abs(e).bit_length()) + 8
    while True:
        w = bits + guard
        lo, hi = _ln_near_one(a, b, w) if a >= b else _negated(_ln_near_one(b, a, w))
        lo_2, hi_2 = _ln2(w)
        lo += e * (lo_2 if e >= 0 else hi_2)
        hi += e * (hi_2 if e >= 0 else lo_2)
        lo, hi = lo >> guard, -(-hi >> guard)
        if hi - lo <= _WIDTH:
            return lo, hi
        guard *= 2


def _ln_near_one(a: int, b: int, w: int) -> tuple[int, int]:
    """(lo, hi) around 2^w·ln(a/b) for b ≤ a ≤ 2b, as 2·atanh(z) with z = (a−b)/(a+b) ≤ 1/3.

    Horner's rule on Σ z²ⁱ/(2i+1), every operation rounded down. An inner sum s ≤ 9/8·2^w is short by
    d ≤ d/9 + 9/8·5/3 + 2, so d < 5 with the terms left out, and the product with z by less than 4.
    The number and the size of the operations do not depend on a/b, so the time says nothing about it.
    """
    if a == b:
        return 0, 0
    z = ((a - b) << w) // (a + b)
    square = z * z >> w
    inner = 0
    for coefficient in _odd_reciprocals(w):
        inner = coefficient + (inner * square >> w)
    total = inner * z >> w
    return 2 * total, 2 * total + 8


@lru_cache(maxsize=64)
def _odd_reciprocals(w: int) -> tuple[int, ...]:
    """2^w/(2i+1) rounded down, from the last i with 9^i ≤ 2^w to i = 0."""
    terms = w // 3 + 1  # 9 > 2^3
    return tuple((1 << w) // (2 * i + 1) for i in reversed(range(terms)))


@lru_cache(maxsize=64)
def _ln2(w: int) -> tuple[int, int]:
    return _ln_near_one(2, 1, w)


def _negated(enclosure: tuple[int, int]) -> tuple[int, int]:
    lo, hi = enclosure
    return -hi, -lo


def _check_bits(bits: int) -> None:
    if bits < 1:
        raise InvalidParameter("bits must be at least 1.")
