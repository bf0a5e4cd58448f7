"""Parameters as floats for other libraries, rounded to the side of more loss."""

from __future__ import annotations

import math
from fractions import Fraction

from discreet.errors import InvalidParameter
from discreet.privacy.exact import above


def root(x: Fraction) -> Fraction:
    """√x, exactly where it is a fraction, and otherwise rounded down by less than 2^−100 of it."""
    n, d = math.isqrt(x.numerator), math.isqrt(x.denominator)
    if n * n == x.numerator and d * d == x.denominator:
        return Fraction(n, d)
    bits = max(0, 110 + (x.denominator.bit_length() - x.numerator.bit_length()) // 2)
    return Fraction(math.isqrt((x.numerator << 2 * bits) // x.denominator), 1 << bits)


def up(x: Fraction) -> float:
    """The least float whose shortest decimal, as which it will be read, is at least x."""
    near = above(x)
    for f in (math.nextafter(near, -math.inf), near, math.nextafter(near, math.inf)):
        if math.isfinite(f) and Fraction(repr(f)) >= x:
            return f
    raise InvalidParameter("a parameter of this loss is too large for a float.")


def down(x: Fraction) -> float:
    """The greatest float whose shortest decimal is at most x, for x > 0."""
    found = -up(-x)
    if found <= 0:
        raise InvalidParameter("a parameter of this loss is too small for a float.")
    return found
