"""Sampled Gaussian noise in windows of its loss: what its integrals are at most along turned paths.

What depends on a path is found for one turn at a time, and only for those that are asked: the best turn changes
little from one height to the next. Proofs: docs/proofs/contour.md
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from discreet.accounting.engines.sampled_loss import UNIT, few_digits
from discreet.privacy.nonuniform import Floats

FAR = 14.0  # deviations of the normal law that are summed; what is left out is bounded and added
BEYOND = 3.0  # levels at which the integrand falls for good, on every path that is used
LARGEST = 700.0  # e to this is a float

SMOOTH, WIDEST = 0.07, 0.4  # κ and τ₀
_FARTHEST = 200.0  # deviations: a level that is reached only beyond is not divided at
_TURNS = (0.02, 0.05, 0.1, 0.16, 0.22, 0.3, 0.38, 0.46, 0.53, 0.6)  # a path turns by at most 0.6
_GOOD = 43.0  # the rule is good to about e^-40 of what it measures
_TWICE = math.log(2.0)
_Arrays = tuple[Floats, ...]


def spread(level: float) -> float:
    """τ."""
    return 1 / (1 / (SMOOTH * level) + 1 / WIDEST)


def farthest(sigma: float) -> float:
    """Return the last point at which a level may lie: so that e^u is a float."""
    return min(_FARTHEST * sigma, 600 * sigma**2)


def place(sigma: float, rate: float, level: float) -> float:
    """Return the x at which λ has that value."""
    odds = math.log(rate) - math.log1p(-rate)
    return sigma**2 * (math.log(-math.expm1(-level)) + level - odds) + 0.5


def log_sum(exponent: Floats) -> float:
    """Return the logarithm of Σ e^exponent."""
    top = float(exponent.max())
    return top + math.log(float(np.exp(exponent - top).sum())) if abs(top) < math.inf else top


@lru_cache(maxsize=16)
def cells(sigma: float, rate: float, p: float, low: float, high: float) -> CellBounds | None:
    """Return the cells for a power p of w; None where the numbers leave the range of floats."""
    widest = high if high < math.inf else low
    more = max(p, 0.0) * spread(widest) ** 2
    if high < math.inf:  # cells for larger powers serve as well
        more = widest * 2.0 ** max(math.ceil(math.log2(max(more / widest, 1e-9))), -2)
    end = _end(sigma, rate, BEYOND * (widest + more))
    if high == math.inf:
        end = max(end, max(p, 0.0) + FAR * sigma)
    if not end < farthest(sigma) + max(p, 0.0):
        return None
    with np.errstate(all="ignore"):
        return CellBounds(_paths(sigma, rate, low, high, BEYOND * (widest + more), end), p)


def _end(sigma: float, rate: float, level: float) -> float:
    return max(FAR * sigma, place(sigma, rate, level)) if level < LARGEST / 2 else math.inf


def valley(value: Callable[[int], float], start: int, last: int) -> int:
    """Where, going from `start`, the value is least: any place is valid, and it has one valley."""
    at = start
    for step in (-1, 1):
        while 0 <= at + step <= last and value(at + step) < value(at):
            at += step
        if at != start:
            break
    return at


class _Paths:
    """Cells along paths that are turned: what a power of w is multiplied by in each of them, and its ends."""

    def __init__(self, sigma: float, rate: float, low: float, high: float, level: float, end: float) -> None:
        self.sigma, self.rate, self.low, self.high = sigma, rate, low, high
        self.start, self.end = -FAR * sigma, end
        near = place(sigma, rate, 0.1 * (low or high))
        far = min(place(sigma, rate, level), end)
        width = sigma / 8
        if sigma < 2 and far > near:
            fine = np.arange(max(near, self.start), far, sigma * min(sigma / 16, 0.125))
            left = np.arange(self.start, fine[0] - width / 8, width)
            right = np.linspace(far, end, math.ceil((end - far) / width) + 1)
            x = np.concatenate([left, fine, right[right > fine[-1]]])
        else:
            x = np.linspace(self.start, end, math.ceil((end - self.start) / width) + 1)
        self.x = np.append(x, end) if x[-1] < end else x
        x = self.x
        u = (2 * x - 1) / (2 * sigma**2)
        self.scale = np.maximum(u, 0.0)
        self.one, self.two = (1 - rate) * np.exp(-self.scale), rate * np.exp(u - self.scale)
        nearest = np.where(x[:-1] * x[1:] < 0, 0.0, np.minimum(np.abs(x[:-1]), np.abs(x[1:])))
        inner = np.log(np.diff(x) / (sigma * math.sqrt(2 * math.pi))) - nearest**2 / (2 * sigma**2)
        self.bare = np.concatenate([inner, math.log(0.5) - x[[0, -1]] ** 2 / (2 * sigma**2)])
        self.turns = (0.0, *(t * min(1.0, 8 / sigma) for t in _TURNS))
        self.levels = np.log1p(self.two / self.one)
        self.known: dict[int, _Arrays] = {}

    def path(self, i: int) -> _Arrays:
        """Log |w| at the points; for each cell and end the least and largest arg w, and log bounds of the rest.

        That is what a power of w is multiplied by, below the lower window and between the two.
        """
        if i not in self.known:
            self.known[i] = self._path(self.turns[i])
        return self.known[i]

    def _path(self, t: float) -> _Arrays:
        if t:
            real, imaginary = self.one + self.two * math.cos(t), self.two * math.sin(t)
            size = np.log(np.hypot(real, imaginary)) + self.scale
            angle = np.arctan2(imaginary, real)
        else:
            size, angle = np.log(self.one + self.two) + self.scale, np.zeros(self.x.size)
        level = np.maximum(size - math.log1p(-self.rate), 0.0) if t else self.levels
        least, most = np.append(angle[:-1], (0.0, angle[-1])), np.append(angle[1:], (angle[0], angle[-1]))
        lower, upper = np.append(level[:-1], level[[0, -1]]), np.append(level[1:], level[[0, -1]])
        bare = self.bare + (self.sigma * t) ** 2 / 2

        def kept(at: float) -> tuple[Floats, Floats]:
            """Bounds of log |ψ| and log |1 − ψ|, each at most 1 plus the other."""
            turned = most * most if t else 0.0
            inside = (turned - np.maximum(lower - at, 0.0) ** 2) / (2 * spread(at) ** 2)
            outside = (turned - np.maximum(at - upper, 0.0) ** 2) / (2 * spread(at) ** 2)
            return (
                np.minimum(inside, np.maximum(outside, 0.0) + _TWICE),
                np.minimum(outside, np.maximum(inside, 0.0) + _TWICE),
            )

        in_low, out_low = kept(self.low or self.high)
        calm = band = bare + in_low
        if self.low:
            in_high, out_high = kept(self.high) if self.high < math.inf else (np.zeros(1), np.full(1, -math.inf))
            band = bare + _TWICE + np.minimum(np.maximum(in_high, in_low), np.maximum(out_low, out_high))
        return size, least, most, calm, band


@lru_cache(maxsize=8)
def _paths(sigma: float, rate: float, low: float, high: float, level: float, end: float) -> _Paths:
    return _Paths(sigma, rate, low, high, level, end)


class CellBounds:
    """Upper bounds of ∫ |integrand| over paths that are turned by an angle, from the largest value in each cell."""

    def __init__(self, paths: _Paths, p: float) -> None:
        self.paths, self.p = paths, p
        self.start, self.end = paths.start, paths.end
        self.last = len(paths.turns) - 1
        self.rounding = 16 * UNIT * (1 + abs(p) * (1 + float(paths.scale[-1])))
        self.at = self.last  # the best turn so far

    def _exponents(self, i: int) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the least and the largest arg w, and the logarithms below the lower window and between."""
        size, least, most, calm, band = self.paths.path(i)
        p = self.p
        # On each factor the worse end: |w| and its angle rise with x.
        first = p * float(size[0]) if p > 0 else p * math.log1p(-self.paths.rate)
        grown = np.append(p * size[1:] if p > 0 else p * size[:-1], (first, p * float(size[-1])))
        grown += self.rounding
        return least, most, calm + grown, band + grown

    def _falls(self, i: int) -> float:
        """Up to this height the worse side falls beyond the end as well."""
        paths, t = self.paths, self.paths.turns[i]
        if paths.high == math.inf:
            return 0.0
        square = spread(paths.high) ** 2
        spare = float(paths.levels[-1]) * (math.cos(t) - t * math.tan(t)) - paths.high - max(self.p, 0.0) * square
        return spare / (math.tan(t) * square + 1e-300)

    def bound(self, y: float) -> float:
        """Return an upper bound of log |∫ e^(ivl)…|, between the windows, for every v ≥ y."""
        found: dict[int, float] = {}

        def value(i: int) -> float:
            if i not in found:
                least, _, _, band = self._exponents(i)
                found[i] = log_sum(band - y * least)
            return found[i]

        self.at = valley(value, self.at, self.last)
        return found[self.at]

    def rule(self, y: float) -> tuple[float, float, float]:
        """Return a spacing of the rule up to the height y, and what it may be off: without marks, and between."""
        sigma, divided = self.paths.sigma, bool(self.paths.low)
        _, _, calm, band = self._exponents(0)
        plain = (log_sum(calm), log_sum(band) if divided else 0.0)
        found: dict[int, tuple[float, float]] = {}

        def grown(i: int) -> tuple[float, float]:
            if i not in found:
                _, most, calm, band = self._exponents(i)
                if y:
                    more = y * most
                    if self._falls(i) < y:
                        more[-1] = y * self.paths.turns[i]
                    calm, band = calm + more, band + more
                found[i] = log_sum(calm), log_sum(band) if divided else 0.0
            return found[i]

        def turned(i: int) -> float:
            return 2 * math.pi * sigma**2 * self.paths.turns[i]

        spacing = sigma / 4
        best: list[int] = []
        for k in (0, 1) if divided else (0,):

            def value(i: int, k: int = k) -> float:  # minus the spacing
                return -turned(i + 1) / (_GOOD + max(grown(i + 1)[k] - plain[k], 0.0))

            at = valley(value, best[0] if best else self.last - 1, self.last - 1)
            best.append(at)
            spacing = min(spacing, -value(at))
        # Few spacings, so that points are used again for other powers.
        spacing = few_digits(sigma * 2 ** (math.floor(6 * math.log2(spacing / sigma)) / 6)) if spacing > 0 else 0.0
        if not spacing:
            return 0.0, math.inf, math.inf
        off = [4 * math.exp(min(grown(i + 1)[k] - turned(i + 1) / spacing, LARGEST)) for k, i in enumerate(best)]
        return spacing, off[0], off[-1]
