"""Chernoff bounds: δ(ε) ≤ M(c) e^(κ(c) − cε) for every c > 0, and the search for the best c.

Proof: docs/proofs/contour.md
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from discreet.privacy.law import Floats, Law

_CLOSE = 0.08  # in log c: any c is valid, and the bound is flat around the best
_WIDE = np.geomspace(1e-5, 1e9, 25)
_NEAR = np.geomspace(0.2, 5.0, 12)
_BETWEEN = np.geomspace(0.72, 1.4, 9)
_STEEP = 3.0  # of the logarithm from one place to the next: a parabola says little


def log_mgf(law: Law, c: float) -> float:
    """The logarithm of M(c), rounded up; infinite where it leaves the range of floats."""
    with np.errstate(all="ignore"):
        value, error = law.line(c, 0.0, 1)
        out = float(value[0].real + error[0])
    return math.inf if math.isnan(out) else out


def kernel(c: float) -> float:
    """The logarithm of the largest (1 − e^−l)·e^(−cl) over l ≥ 0."""
    return c * math.log(c) - (1 + c) * math.log1p(c)


def best(law: Law, goal: Callable[[Floats, Floats], Floats], start: float = 0.0) -> float:
    """About the c > 0 where goal(c, log M(c)) is least; both are arrays, and log M is rough.

    It is looked for around `start` first, if that is not 0.
    """

    def value(c: Floats) -> Floats:
        with np.errstate(all="ignore"):
            out = goal(c, law.rough(c))
        return np.where(np.isnan(out), math.inf, out)

    near = start * _NEAR
    found = value(near) if start else near
    if not 0 < int(np.argmin(found)) < near.size - 1:
        near = _WIDE[int(np.argmin(value(_WIDE)))] * _NEAR
        found = value(near)
    at, lost = _valley(near, found)
    if lost > _STEEP:  # a steep wall, where M begins to grow: look between
        near = at * _BETWEEN
        at, _ = _valley(near, value(near))
    return at


def _valley(c: Floats, found: Floats) -> tuple[float, float]:
    """Where a parabola through the least of the values and its neighbours is least; how much they are larger."""
    i = min(max(int(np.argmin(found)), 1), c.size - 2)
    left, at, right = found[i - 1 : i + 2].tolist()
    bend = left - 2 * at + right
    move = 0.5 * (left - right) / bend if 0 < bend < math.inf else 0.0
    ratio = float(c[1] / c[0])
    return float(c[i]) * ratio ** min(max(move, -1.0), 1.0), max(left, right) - at


def kernels(c: Floats) -> Floats:
    """`kernel` of several c."""
    return np.asarray(c * np.log(c) - (1 + c) * np.log1p(c))


def least(f: Callable[[float], float], start: float = 8.0) -> tuple[float, float]:
    """The least value found of a quasi-convex function of log c, and its place."""
    middle, step = math.log(start), math.log(4.0)
    at, left, right = f(start), f(start / 4), f(start * 4)
    while left < at and middle > -20:
        middle, right, at = middle - step, at, left
        left = f(math.exp(middle - step))
    while (right < at or at == math.inf) and middle < 20 and not (at == right == math.inf):
        middle, left, at = middle + step, at, right
        right = f(math.exp(middle + step))
    while at == math.inf and middle > -30:
        middle, right, at = middle - step, at, left
        left = f(math.exp(middle - step))
    low, high = middle - step, middle + step
    while high - low > _CLOSE and at < math.inf:
        to = _next((low, left), (middle, at), (high, right))
        value = f(math.exp(to))
        if value < at:
            low, left, high, right = (low, left, middle, at) if to < middle else (middle, at, high, right)
            middle, at = to, value
        elif to < middle:
            low, left = to, value
        else:
            high, right = to, value
    return math.exp(middle), at


def _next(low: tuple[float, float], middle: tuple[float, float], high: tuple[float, float]) -> float:
    """Where a parabola through three points is least if it may be trusted, else well inside the longer side."""
    (a, fa), (b, fb), (c, fc) = low, middle, high
    longer = b + 0.38 * (c - b) if c - b > b - a else b - 0.38 * (b - a)
    if not max(fa, fc) - fb < 12 * (min(fa, fc) - fb):
        return longer
    bend = (b - a) * (fb - fc) - (b - c) * (fb - fa)
    to = b - ((b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)) / (2 * bend) if bend else longer
    room = 0.35 * _CLOSE
    if abs(to - b) < room:  # on the other side of the longer interval, so that it shrinks
        to = b + room if c - b > b - a else b - room
    return to if a + room < to < c - room else longer
