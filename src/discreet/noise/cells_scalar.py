"""One exact noise value of any scale: a standard real number, with as many digits as its rounding needs."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

from discreet.noise.entropy import Entropy
from discreet.noise.fixedpoint import exp_neg
from discreet.noise.table import LazyUniform, Table
from discreet.noise.table_decay import Decay, bell, exponential

_WORD = (1 << 64) - 1
_CELLS = 16  # cells per unit of the standard law: a table so short that all of it stays in the cache
_SQUARES = 2 * _CELLS * _CELLS
_FAR = 1 << 20  # farther than any cell in the table; a cell beyond has a chance below 2^−65000
_MARGIN = 2.0**-36  # a float decides only if it is farther than this from the truth it is compared with


@cache
def standard_exponential() -> Standard:
    """|X| for the Laplace law of scale 1."""
    return Standard(exponential(Fraction(1)))


@cache
def standard_normal() -> Standard:
    """|Z| for the standard normal law."""
    return Standard(bell(Fraction(1)))


class Standard:
    """A real number x > 0 whose density is proportional to f, times a rational scale, rounded to an integer.

    A cell c is drawn with weight f(c/16), a uniform place x in it is accepted with probability
    f(x)/f(c/16), and digits of x are drawn until they decide where scale·x falls. One table serves every
    scale. All proposals take the same work, and how many it takes does not depend on the accepted one.

    Guarantee:
        Exact in law given ideal bits: the float comparison decides only outside a margin of 2^−36, 8 times
        more than all roundings together if `math.exp` is right to 2^−40 relative; the rest is integers.

    References:
        docs/proofs/cells.md, "Scalars".
    """

    __slots__ = ("_decay", "_table")

    def __init__(self, decay: Decay) -> None:
        self._decay = decay
        self._table = Table(decay, Fraction(1, _CELLS), Fraction(1), prefix_bits=0, tail_bits=64)

    def floor(self, scale: Fraction, halves: int, rng: Entropy) -> tuple[int, int]:
        """⌊scale·x + halves/2⌋, and an independent fair bit for the sign."""
        p, q = scale.numerator, scale.denominator
        log2 = max(0, p.bit_length() - q.bit_length() + 1)
        digits = 64 + (log2 + 7 & ~7)
        while True:
            raw = int.from_bytes(rng.bytes(17 + (digits >> 3)), "little")
            cell = self._table.pick(raw & _WORD, rng)
            u, sign, place = raw >> 64 & _WORD, raw >> 128 & 1, raw >> 136
            at = (place >> digits - 53) * 2.0**-53
            exponent = (2 * cell + at) * at / _SQUARES if self._decay.power == 2 else at / _CELLS
            gap = math.exp(-exponent) - u * 2.0**-64
            if -_MARGIN <= gap <= _MARGIN or cell >= _FAR:
                height, lazy = LazyUniform(u, 64, rng), LazyUniform(place, digits, rng)
                if self.accepts(cell, height, lazy):
                    return floor_lazily(scale, halves, cell, lazy), sign
            elif gap > 0:
                break
        # The value is ⌊least/bottom⌋ for the least real number with these digits. `apart` is added before
        # the division and the cell is moved by _FAR, so that all numbers have the same length for every
        # value, and Python's arithmetic takes the same time.
        bottom, unit, apart = 2 * _CELLS * q << digits, 2 * p, 1 << log2 + 16
        level = (halves * _CELLS * q - (unit * _FAR) << digits) + apart * bottom
        value, beyond = divmod(unit * (((cell + _FAR) << digits) + place) + level, bottom)
        if beyond + unit <= bottom:
            return value - apart, sign
        return floor_lazily(scale, halves, cell, LazyUniform(place, digits, rng)), sign

    def accepts(self, cell: int, u: LazyUniform, place: LazyUniform) -> bool:
        """Return whether U < f(x)/f(cell/64), by big integers."""
        start = self._decay.exponent(Fraction(cell, _CELLS))
        while True:
            near = (cell + Fraction(place.value, 1 << place.bits)) / _CELLS
            far = (cell + Fraction(place.value + 1, 1 << place.bits)) / _CELLS
            if u.value + 1 <= exp_neg(self._decay.exponent(far) - start, u.bits)[0]:
                return True
            if u.value >= exp_neg(self._decay.exponent(near) - start, u.bits)[1]:
                return False
            u.extend()
            place.extend()


def floor_lazily(scale: Fraction, halves: int, cell: int, place: LazyUniform) -> int:
    """⌊scale·x + halves/2⌋ for x = (cell + place)/16, drawing digits of `place` until it is decided."""
    p, q = scale.numerator, scale.denominator
    while True:
        bottom = 2 * _CELLS * q << place.bits
        least = 2 * p * ((cell << place.bits) + place.value) + (halves * _CELLS * q << place.bits)
        value = least // bottom
        if value == (least + 2 * p - 1) // bottom:  # the place is below its upper bound
            return value
        place.extend()
