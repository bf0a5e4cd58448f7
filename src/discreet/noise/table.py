"""An exact table: which component of a countable mixture, from a short prefix and lazily more bits."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, chain, pairwise, repeat

import numpy as np
from numpy.typing import NDArray

from discreet.noise.entropy import Entropy, bits, words64
from discreet.noise.fixedpoint import exp_neg


@dataclass(frozen=True, slots=True)
class Decay:
    """f(x) = exp(−rate·x^power) for x ≥ 0, where power is 1 (Laplace) or 2 (Gaussian)."""

    rate: Fraction
    power: int

    def exponent(self, x: Fraction) -> Fraction:
        """q(x) = rate·x^power, so that f = exp(−q)."""
        return self.rate * x**self.power

    def width_log2(self) -> int:
        """⌊log₂ width⌋, the width being the scale s or the standard deviation σ."""
        width = 1 / self.rate if self.power == 1 else 1 / (2 * self.rate)
        log2 = width.numerator.bit_length() - width.denominator.bit_length()
        if width < Fraction(2) ** log2:
            log2 -= 1
        return log2 // self.power

    def reach(self, step: Fraction, bits: int) -> int:
        """Return some n ≥ 1 with f(n·step) ≤ 2^−bits: 7/10 stands for ln 2 < 0.694."""
        unit = self.exponent(step)
        n = bits * 7 * unit.denominator // (10 * unit.numerator) + 1
        return n if self.power == 1 else math.isqrt(n) + 1

    def heights(self, step: Fraction, n: int, bits: int) -> tuple[list[int], int]:
        """Integers h₀ … h_n and E with h_c ≤ 2^bits·f(c·step) ≤ h_c + E for every c.

        Guarantee:
            h_{c+1} = ⌊h_c·m_c⌋ with m_c = f((c+1)·step)/f(c·step), itself by a recurrence; everything is
            rounded down, and E = 3n² covers what all roundings lose (docs/proofs/table.md, Lemma 1).
        """
        multiplier, _ = exp_neg(self.exponent(step), bits)
        h = 1 << bits
        out = [h]
        if self.power == 1:
            for _ in range(n):
                h = h * multiplier >> bits
                out.append(h)
            return out, 3 * n * n
        growth = multiplier * multiplier >> bits
        for _ in range(n):
            h = h * multiplier >> bits
            multiplier = multiplier * growth >> bits
            out.append(h)
        return out, 3 * n * n

    def rest(self, step: Fraction, n: int, bits: int, height: tuple[int, int]) -> tuple[int, int]:
        """Bounds of 2^bits·Σ_{c>n} f(c·step), given bounds of 2^bits·f(n·step).

        The ratio ρ of neighbours does not grow with c, so the rest is at most f(n·step)·ρ/(1 − ρ). For the
        Laplace shape ρ is constant, and the rest is just that.
        """
        lo, hi = exp_neg(self.exponent(step) * ((n + 1) ** self.power - n**self.power), bits)
        most = -(-height[1] * hi // ((1 << bits) - hi))
        least = height[0] * lo // ((1 << bits) - lo) if self.power == 1 else 0
        return least, most


def exponential(scale: Fraction) -> Decay:
    """exp(−x/scale), the shape of the Laplace law."""
    return Decay(Fraction(1) / scale, 1)


def bell(sigma_squared: Fraction) -> Decay:
    """exp(−x²/2σ²), the shape of the Gaussian law."""
    return Decay(Fraction(1) / (2 * sigma_squared), 2)


_WORD = 64  # bits of a threshold that is compared as a machine word
_GROW = 64  # bits by which a number that could not be decided is extended


class LazyUniform:
    """A uniform real U of [0, 1) of which so many binary digits are drawn as a decision needs.

    value/2^bits ≤ U < (value + 1)/2^bits. Digits that were drawn are kept, never drawn again.
    """

    __slots__ = ("_rng", "bits", "value")

    def __init__(self, value: int, bits: int, rng: Entropy) -> None:
        self.value = value
        self.bits = bits
        self._rng = rng

    def extend(self) -> None:
        """Draws 64 more digits."""
        self.value = self.value << _GROW | bits(self._rng, _GROW)
        self.bits += _GROW


class Table:
    """Components 0, 1, 2, … with P(0) = first/T and P(c) = f(c·step)/T, T = first + Σ_{c≥1} f(c·step).

    The 2^k prefixes are shared out: component c owns `whole[c]` = ⌊2^k·P(c)⌋ of them or fewer, and the R that
    are left stand for the residual law, (2^k·P(c) − whole[c])/R. A caller who finds one of the owned prefixes
    is done; else he asks for the residual law, which is drawn from the inverse of its distribution function.

    Guarantee:
        Exact given ideal bits. `whole` is at most 2^k·P by a certified lower bound. A word decides between
        thresholds only if it is two units away from the certified floor of the one below; every other word,
        and every word beyond the last tabulated threshold, is extended and compared with enclosures of the
        thresholds that are as fine as the word is long. No float takes part.

    References:
        docs/proofs/table.md.
    """

    __slots__ = ("_decay", "_first", "_listed", "_step", "_thresholds", "prefix_bits", "residual", "size", "whole")

    def __init__(self, decay: Decay, step: Fraction, first: Fraction, *, prefix_bits: int, tail_bits: int) -> None:
        self._decay = decay
        self._step = step
        self._first = first
        self.prefix_bits = prefix_bits
        self.size = decay.reach(step, tail_bits)  # the last tabulated component
        sums, total = self._sums(_WORD, self.size)
        self.whole = self._share_out(sums, total)
        self.residual = (1 << prefix_bits) - sum(self.whole)
        lo = self._lower_bounds(_WORD, sums, total)
        self._listed = array("Q", lo)  # compact, so that a far component is found as fast as a near one
        self._thresholds: NDArray[np.uint64] = np.array(lo, dtype=np.uint64)

    def draw_residual(self, n: int, rng: Entropy) -> NDArray[np.int64]:
        """`n` independent components of the residual law (of the law itself when there is no prefix)."""
        u = words64(rng, n)
        index = np.searchsorted(self._thresholds, u, side="right").astype(np.int64)
        below = self._thresholds[np.maximum(index, 1) - 1]
        undecided = (index > self.size) | ((index > 0) & (u - below <= 1))
        for i in np.flatnonzero(undecided):
            index[i] = self.resolve(LazyUniform(int(u[i]), _WORD, rng))
        return index

    def pick(self, u: int, rng: Entropy) -> int:
        """Return the component of the residual law that a uniform 64-bit word `u` means."""
        index = bisect_right(self._listed, u)
        if index > self.size or (index and u - self._listed[index - 1] <= 1):
            return self.resolve(LazyUniform(u, _WORD, rng))
        return index

    def resolve(self, u: LazyUniform) -> int:
        """Return the component of the residual law that the real number `u` means, by big integers."""
        while True:
            last = self._decay.reach(self._step, u.bits + self.prefix_bits + 8)
            sums, total = self._sums(u.bits, last)
            lo = self._lower_bounds(u.bits, sums, total)
            index = bisect_right(lo, u.value)
            if index <= last and (not index or u.value - lo[index - 1] > 1):
                return index
            u.extend()

    def _share_out(self, sums: list[int], total: int) -> list[int]:
        """Return how many prefixes each component surely fills, up to the last one that fills any."""
        k = self.prefix_bits
        whole = [(sums[0] << k) // total]
        for before, after in pairwise(sums):
            count = (after - before << k) // total
            if not count:
                break
            whole.append(count)
        return whole

    def _lower_bounds(self, precision: int, sums: list[int], total: int) -> list[int]:
        """Increasing integers t with t ≤ 2^precision·P(residual component ≤ c) < t + 2, for c = 0, 1, …"""
        owned = chain(accumulate(self.whole), repeat(sum(self.whole)))
        up, per_prefix, divisor = self.prefix_bits + precision, total << precision, total * self.residual
        lo = [max(0, ((s << up) - n * per_prefix) // divisor) for s, n in zip(sums, owned, strict=False)]
        return list(accumulate(lo, max))  # the true ones increase, so a running maximum bounds them too

    def _sums(self, precision: int, last: int) -> tuple[list[int], int]:
        """Lower bounds of the weights' partial sums up to component `last`, and an upper bound of T.

        Their unit is so fine that `_lower_bounds` of this precision lose less than one unit of theirs: the
        assertion is Lemma 2 of docs/proofs/table.md.
        """
        k, far = self.prefix_bits, last
        if self._decay.power == 2:  # the rest is bounded but not known, so it must be small
            far = max(last, self._decay.reach(self._step, precision + k + 16))
        bits = precision + k + 3 * far.bit_length() + 24
        heights, error = self._decay.heights(self._step, far, bits)
        first = (self._first.numerator << bits) // self._first.denominator
        sums = list(accumulate(heights[1:], initial=first))
        rest = self._decay.rest(self._step, far, bits, (heights[-1], heights[-1] + error))
        slack = far * error + 1
        least, total = sums[-1] + rest[0], sums[-1] + slack + rest[1]
        assert (slack + total - least) << precision + k < least, "the enclosure is too wide"
        return sums[: last + 1], total
