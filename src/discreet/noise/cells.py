"""Exact noise: vectors by cells (a table, a uniform place in a cell, a rare exact test), and one value of any scale."""

from __future__ import annotations

import math
from enum import Enum
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.noise.entropy import Entropy, words16, words64
from discreet.noise.fixedpoint import exp_neg
from discreet.noise.table import Decay, LazyUniform, Table, bell, exponential

_WORD = (1 << 64) - 1
_CELLS = 16  # cells per unit of the standard law: a table so short that all of it stays in the cache
_SQUARES = 2 * _CELLS * _CELLS
_FAR = 1 << 20  # farther than any cell in the table; a cell beyond has a chance below 2^−65000


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


_PREFIX = 15  # bits of the prefix; the 16th bit of the word is the sign
_TAIL = 40  # components are tabulated until the height is 2^−40; later ones are found on demand
_CHUNK = 1 << 14  # words that stay in the cache while they are worked on
_FINE = 6  # a cell is 2^−7 to 2^−6 of the scale wide
_MARGIN = 2.0**-36  # a float decides only if it is farther than this from the truth it is compared with
_INT64 = 1 << 63


class Target(Enum):
    """What the weight f(|x|) is put on."""

    INTEGERS = "integers"  # P(k) ∝ f(|k|)
    ROUNDED = "rounded"  # the density of a real number is ∝ f(|x|); its nearest integer is returned


@lru_cache(maxsize=16)
def cells(decay: Decay, target: Target) -> Cells:
    """Return the sampler of one law, made once (a few milliseconds) and kept while it is among the last 16 used."""
    return Cells(decay, target)


class Cells:
    """The law of noise of one shape and scale, drawn as vectors.

    |x| is split into cells [cW, (c+1)W), W = 2^j. The area under f over a cell is the rectangle below its
    right end, f((c+1)W), which is nearly all and needs no test, and a part of the wedge above it. The wedges
    of all cells together are 0 ≤ V < 1: V means the cell with f((c+1)W) ≤ V < f(cW), and a uniform place x
    in this cell is accepted if V < f(x), else everything is drawn anew. So the table has component 0 for
    the wedges, of weight 1, and component c + 1 for the rectangle of cell c, of weight f((c+1)W). Integers of
    small scale need no cells: component c is the integer c.

    Guarantee:
        Exact in law given ideal bits. Cells come from `Table`. Floats only compare V with f(x), and only when
        they are 2^−36 apart, 8 times more than all roundings together if `numpy.exp` is right to 2^−40
        relative; else V and the place are extended bit by bit and compared by big integers. No value
        is cut off: one that int64 cannot hold raises OverflowError (below chance 2^−180 at scale 2^56).

    References:
        docs/proofs/cells.md.
    """

    __slots__ = (
        "_decay",
        "_entries",
        "_half",
        "_kappa",
        "_levels",
        "_offset_bits",
        "_plain",
        "_shift",
        "_sure_end",
        "_table",
        "_target",
        "_wedge_end",
        "_width_log2",
    )

    def __init__(self, decay: Decay, target: Target) -> None:
        self._decay = decay
        self._target = target
        j = decay.width_log2() - _FINE
        self._plain = target is Target.INTEGERS and j < 1
        if self._plain:
            j = 0
        self._width_log2 = j
        # A place on the half line is kept as a multiple of 2^−shift, whose lowest `offset_bits` are uniform.
        self._shift = max(1, -j) if target is Target.ROUNDED else 0
        self._half = 1 << self._shift >> 1
        self._offset_bits = j + self._shift
        step = Fraction(2) ** j
        first = Fraction(1, 2) if self._plain else Fraction(1)
        self._table = Table(decay, step, first, prefix_bits=_PREFIX, tail_bits=_TAIL)
        self._fill_entries()
        if not self._plain:
            self._kappa = float(decay.exponent(step))
            self._levels = self._wedge_levels(step)

    def draw(self, size: int, rng: Entropy) -> NDArray[np.int64]:
        """`size` independent values."""
        out = np.empty(size, dtype=np.int64)
        left_places, left_words = [np.empty(0, np.int64)], [np.empty(0, np.uint16)]
        for start in range(0, size, _CHUNK):
            chunk = out[start : start + _CHUNK]
            words = words16(rng, len(chunk))
            np.take(self._entries, words, out=chunk, mode="clip")
            if self._offset_bits:
                chunk += self._offsets(words64(rng, len(chunk)))
                if self._shift:
                    chunk >>= self._shift
            left = np.flatnonzero(words >= self._sure_end)
            left_places.append(left + start)
            left_words.append(words[left])
        self._finish(out, np.concatenate(left_places), np.concatenate(left_words), rng)
        return out

    def _finish(
        self, out: NDArray[np.int64], places: NDArray[np.int64], words: NDArray[np.uint16], rng: Entropy
    ) -> None:
        """Settles the values whose word is none of the rectangles' own."""
        minus = (words & 1).astype(np.int64)
        residual = np.flatnonzero(words >= self._wedge_end)
        component = np.zeros(len(words), dtype=np.int64)
        component[residual] = self._table.draw_residual(len(residual), rng)
        if self._plain:
            out[places] = np.where(minus == 1, -component, component)
            return
        boxes = np.flatnonzero(component)
        offsets = self._offsets(words64(rng, len(boxes)))
        out[places[boxes]] = self._values(component[boxes] - 1, offsets, minus[boxes])
        wedges = np.flatnonzero(component == 0)
        values, accepted = self._wedge(minus[wedges], rng)
        out[places[wedges]] = values
        rejected = places[wedges[~accepted]]
        if len(rejected):
            out[rejected] = self.draw(len(rejected), rng)

    def _wedge(self, minus: NDArray[np.int64], rng: Entropy) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Proposals of the wedges' law and whether each is accepted."""
        v, f = words64(rng, len(minus)), words64(rng, len(minus))
        n = len(self._levels)
        passed = np.searchsorted(self._levels, v, side="right")
        below = self._levels[np.maximum(passed, 1) - 1]
        undecided = (passed == 0) | (v - below <= 1)
        cell, offset = n - passed, self._offsets(f)
        gap = self._estimate(cell, f, minus) - v * 2.0**-64
        undecided |= np.abs(gap) <= _MARGIN
        values, accepted = self._values(cell, offset, minus), gap > 0
        for i in np.flatnonzero(undecided):
            value = self.settle(int(minus[i]), LazyUniform(int(v[i]), 64, rng), LazyUniform(int(f[i]), 64, rng))
            accepted[i] = value is not None
            values[i] = value or 0
        return values, accepted

    def _estimate(
        self, cell: NDArray[np.int64], f: NDArray[np.uint64], minus: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """f(x) at the place that the first 64 digits `f` mean, as a float."""
        if self._target is Target.ROUNDED:
            at = cell + f * 2.0**-64
        else:
            at = cell + (self._offsets(f) + minus) * 2.0**-self._width_log2
        estimate: NDArray[np.float64] = np.exp(-self._kappa * at**self._decay.power)
        return estimate

    def settle(self, minus: int, v: LazyUniform, place: LazyUniform) -> int | None:
        """Return the value that height `v` and `place` in its cell mean, or None if rejected; by big integers."""
        step = Fraction(2) ** self._width_log2
        cell = self._cell(v, step)
        while True:
            if self._target is Target.ROUNDED:
                near = (cell + Fraction(place.value, 1 << place.bits)) * step
                far = (cell + Fraction(place.value + 1, 1 << place.bits)) * step
            else:
                near = far = Fraction((cell << self._width_log2) + self._offset(place) + minus)
            if v.value + 1 <= exp_neg(self._decay.exponent(far), v.bits)[0]:
                return self._value(cell, self._offset(place), minus)
            if v.value >= exp_neg(self._decay.exponent(near), v.bits)[1]:
                return None
            v.extend()
            place.extend()

    def _cell(self, v: LazyUniform, step: Fraction) -> int:
        """Return the cell c with f((c+1)W) ≤ V < f(cW)."""
        while True:
            while not v.value:
                v.extend()
            exponent = v.bits * math.log(2) - math.log(v.value)
            guess = int((exponent / self._kappa) ** (1 / self._decay.power))
            for c in range(max(0, guess - 1), guess + 2):
                top = exp_neg(self._decay.exponent(c * step), v.bits)[0]
                bottom = exp_neg(self._decay.exponent((c + 1) * step), v.bits)[1]
                if bottom <= v.value < top:
                    return c
            v.extend()

    def _wedge_levels(self, step: Fraction) -> NDArray[np.uint64]:
        """⌊2^64·f(cW)⌋ or one less, for c = n … 1 (so that they increase)."""
        heights, error = self._decay.heights(step, self._table.size, 192)
        assert error < 1 << 128
        return np.array([h >> 128 for h in heights[:0:-1]], dtype=np.uint64)

    def _fill_entries(self) -> None:
        """Fill in the 2^16 words' values: rectangles first, then the wedges' own words, then the residual ones."""
        whole = self._table.whole
        if self._plain:
            component = np.repeat(np.arange(len(whole)), whole)
            signed = np.stack([component, -component], axis=1)
        else:
            cell = np.repeat(np.arange(len(whole) - 1), whole[1:])
            signed = (np.stack([cell, ~cell], axis=1) << self._offset_bits) + self._half
            if not self._offset_bits:  # nothing will be added, so that the value is known here
                signed >>= self._shift
        self._entries = np.zeros(1 << (_PREFIX + 1), dtype=np.int64)
        self._entries[: signed.size] = signed.ravel()
        self._entries.setflags(write=False)
        self._sure_end = np.uint16(signed.size)
        self._wedge_end = np.uint16(2 * sum(whole))

    def _offsets(self, f: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the place's leading digits, as many as there are uniform bits in a value."""
        if not self._offset_bits:
            return np.zeros(len(f), dtype=np.int64)
        return (f >> np.uint64(64 - self._offset_bits)).view(np.int64)

    def _offset(self, place: LazyUniform) -> int:
        return place.value >> (place.bits - self._offset_bits)

    def _values(
        self, cell: NDArray[np.int64], offset: NDArray[np.int64], minus: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        if len(cell) and int(cell.max()) > self._table.size:  # found on demand, beyond the table
            return np.array([self._value(*map(int, t)) for t in zip(cell, offset, minus, strict=True)], np.int64)
        return (((cell << self._offset_bits) + offset ^ -minus) + self._half) >> self._shift

    def _value(self, cell: int, offset: int, minus: int) -> int:
        value = (((cell << self._offset_bits) + offset ^ -minus) + self._half) >> self._shift
        if not -_INT64 <= value < _INT64:
            raise OverflowError("noise that int64 cannot hold was drawn; this has a chance below 2^-180")
        return value
