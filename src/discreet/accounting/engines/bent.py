"""How fast the transform of a loss falls along a vertical line, by a path of integration that bends.

E_Q[w^(p + iv)] is an integral over x, and the integrand is analytic: on x + iσ²θ(x) its modulus has the factor
e^(−v·arg w), while turning by θ costs e^(σ²θ²/2). Where w is nearly 1 a turn gains nothing, and most of the mass lies
there: so θ is near 0 on the left and rises. The best θ solves a linear equation; any θ gives a bound. Only what is
*gained* is summed, from below and by cells, so that it need not be known to many digits. Proofs: docs/proofs/contour.md
"""

from __future__ import annotations

import math
from functools import lru_cache, partial

import numpy as np

from discreet.accounting.engines.sampled_loss import UNIT
from discreet.accounting.engines.windows import valley
from discreet.privacy.nonuniform import Floats, dot

_STEP = 0.1  # of u in a cell, where the loss grows with it
_LEFT = 3.5  # deviations to the left beyond which cells may be wide
_RIGHT = 4.0  # of log r, beyond which they may be wider
_SHARES = (0.2, 0.35, 0.6, 1.0)  # of the best turn for small heights
_MOST = 1.4, 0.55  # turns: below π/2, and below 0.6 where there is a window
_FALLS = 9.0  # the integrand falls beyond the end like e^(−this·t/σ) at least
_CAPS = tuple(np.geomspace(0.02, 1.0, 9).tolist())  # of the largest turn: no point is turned by more
_NEARBY = 1.6  # heights whose ratio is smaller have much the same best path
_AROUND = np.append(np.linspace(-7.0, 7.0, 57), np.arange(8.0, 39.0))  # spreads of a window around its level
_CELLS = 4000
_NONE = 36.0  # spreads above a level: what has no mark there is not counted as gained
_FAINT = 1e-200
_KNOTS = 56  # between which the best turns are linear
_SLIP = 1e-11  # far more than angles and losses of modulus are off, relatively
_MANY = 700.0


class Bent:
    """E_Q[w^(p+iv) ψ] against the same at v = 0; ψ is the window of `level`, or 1 where that is infinite.

    Beyond `low` and `high` the integrand falls on all paths at least as the normal law does at 9 deviations.
    """

    def __init__(self, sigma: float, rate: float, p: float, low: float, high: float, level: float) -> None:
        self.sigma, self.p = sigma, p
        odds = math.log(rate) - math.log1p(-rate)
        tau = 1 / (1 / (0.07 * level) + 1 / 0.4) if level < math.inf else 0.0
        x = _grid(sigma, odds, p, low, high, level, tau)
        self.known = x.size > 2
        if not self.known:
            return
        self.width = width = np.diff(x)
        u = (2 * x - 1) / (2 * sigma**2)
        v = odds + u  # r = e^v, w = (1 − q)(1 + r)
        loss, self.inverse = np.logaddexp(0.0, v), np.exp(-v)
        share = 1 / (1 + self.inverse)
        bend = share * np.exp(-np.maximum(loss, 0.0))
        self.least_bend, self.most_bend = np.minimum(bend[1:], bend[:-1]), np.maximum(bend[1:], bend[:-1])
        self.most_bend[(v[1:] > 0) & (v[:-1] <= 0)] = 0.25
        self.first_bend = float(bend[0]) if v[0] < 0 else 0.25
        # The logarithm of the integrand is a convex function and a concave one: nearly the chord of both.
        ends = p * loss - x * x / (2 * sigma**2)
        rise = np.maximum(np.abs(np.diff(ends)), 1e-9)
        chord = np.maximum(ends[1:], ends[:-1]) + np.log(-np.expm1(-rise) / rise)
        chord += np.log(width / (sigma * math.sqrt(2 * math.pi)))
        least, most = chord.copy(), chord + (width / sigma) ** 2 / 8
        curved = abs(p) * self.most_bend * (width / sigma**2) ** 2 / 8
        least, most = (chord - curved, most) if p > 0 else (chord, most + curved)
        off = abs(p) * (share * (2 * np.abs(u) + 2 * abs(odds) + 8) + 4 * loss) + 4 * np.abs(x / sigma) ** 2
        worst = float(off.max()) * UNIT + 1e-8
        left = -(x[0] ** 2) / (2 * sigma**2) - math.log(2.0) + max(p * float(loss[0]), 0.0)
        right = float(ends[-1]) - math.log(2.0)
        weight = np.full(width.size, sigma**2)
        self.window = level < math.inf
        if self.window:
            self.tau, above = tau, (loss - level) / tau
            kept = _log_normal(-above)
            here = max(float(above[-1]), 0.0)
            moved = loss * (2 * np.abs(u) + 8) * (np.maximum(above, 0.0) + 1)
            worst += float(moved[above < _NONE].max(initial=0.0)) * 4 * UNIT / tau
            least, most = least + kept[0][1:], most + kept[1][:-1]
            self.hazard = np.maximum(above[1:], 0.0) + 1
            weight = weight + (share[1:] / tau) ** 2
            self.beyond = here, float(loss[-1]), level
        top = float(most.max())
        self.known = worst < 1e-2 and abs(top) < math.inf
        if not self.known:
            return
        self.least, self.most = np.exp(least - worst - top), np.exp(most + worst - top)
        self.log_left, self.log_right = left + worst - top, right + worst - top
        self.left = math.exp(min(self.log_left, _MANY))
        rest = math.exp(min(self.log_right - (self.beyond[0] ** 2 / 2 if self.window else 0.0), _MANY))
        self.whole = (float(self.most.sum()) + self.left + rest) * (1 + 1e-9)
        self.part = float(self.least.sum()) * (1 - 1e-9)
        self.known = self.part > 0
        self.bent = _turns(sigma, self.least, share, np.maximum(weight - p * bend[1:], 0.2 * sigma**2), x)
        self.at = len(_SHARES) - 2, len(_CAPS) // 2, 0.0  # the best path so far, and for which height

    def log(self, y: float) -> float:
        """Log |E[w^(p+iv) ψ] / E[w^p ψ]| is at most this for every v ≥ y; never above 0."""
        if not self.known or not y > 0:
            return 0.0
        best = self._least(y)
        return min(best * (1 - 1e-9) + 1e-12, 0.0) if best < 0 else 0.0

    def _least(self, y: float) -> float:
        """Return the least bound of several paths, looked for near the best one of a height nearby."""
        found: dict[tuple[int, int], float] = {}

        def value(i: int, j: int) -> float:
            if (i, j) not in found:
                turn = np.minimum(_SHARES[i] * y * self.bent, _CAPS[j] * _MOST[self.window])
                bound = self._bound(y, turn)
                found[i, j] = bound if bound < 0 else math.inf
            return found[i, j]

        def flipped(j: int, i: int) -> float:
            return value(i, j)

        i, j, height = self.at
        while j and value(i, j) == math.inf:
            j -= 1
        if not height / _NEARBY < y < height * _NEARBY:
            for _ in range(2):
                j = valley(partial(value, i), j, len(_CAPS) - 1)
                before, i = i, valley(partial(flipped, j), i, len(_SHARES) - 1)
                if i == before:
                    break
            self.at = i, j, y
        return value(i, j)

    def _bound(self, y: float, turn: Floats) -> float:
        """By what the integral of the modulus loses on that path; or, where that is nearly all, by what is left."""
        sigma, p = self.sigma, self.p
        less, more = turn[:-1], turn[1:]
        angle = np.arctan2(np.sin(turn), self.inverse + np.cos(turn))
        slope = sigma**2 * (more - less) / self.width
        half = np.sin(turn / 2) ** 2
        shorter = -np.log1p(-4 * half[1:] * self.most_bend)  # of log |w|², at most
        gains = p * np.log1p(-4 * half[:-1] * self.least_bend) if p > 0 else -p * shorter
        cost = (sigma * more) ** 2 + np.log1p(slope * slope)
        if self.window:
            cost += (angle[1:] / self.tau) ** 2 + shorter * self.hazard / self.tau
        fall = y * angle[:-1] * (1 - _SLIP) - (cost * (1 + _SLIP) + gains + _SLIP * np.abs(gains)) / 2 - 1e-13
        if bool(((fall < -_MANY) & (self.most > 0)).any()):
            return math.inf
        kept = np.exp(-np.maximum(fall, -_MANY))
        gain = -np.expm1(-np.maximum(fall, -_MANY))
        gained = dot(np.where(gain > 0, self.least, self.most), gain)
        first, last = float(turn[0]), float(turn[-1])
        before = (sigma * first) ** 2 / 2 + 1e-9
        before += max(-p, 0.0) / 2 * -math.log1p(-4 * float(half[0]) * self.first_bend)
        after = (sigma * last) ** 2 / 2 - y * float(angle[-1]) * (1 - _SLIP) + 1e-9
        after += max(-p, 0.0) / 2 * -math.log1p(-float(half[-1]))
        if self.window:
            _, loss, level = self.beyond
            before += (float(angle[0]) / self.tau) ** 2 / 2
            over = max(loss * math.cos(last) - level, 0.0) / self.tau
            after += (float(angle[-1]) / self.tau) ** 2 / 2 - over * over / 2
        left, right = (math.exp(min(self.log_left + before, _MANY)), math.exp(min(self.log_right + after, _MANY)))
        share = (gained * (1 - 1e-9) + self.left - left - right) / self.whole
        size = (dot(self.most, kept) + left + right) / self.part
        return min(math.log1p(-share) if share < 1 else 0.0, math.log(max(size, 1e-300)))


def _grid(sigma: float, odds: float, p: float, low: float, high: float, level: float, tau: float) -> Floats:
    """Return the ends of the cells, narrow around a level and where u raises the loss; none if they are too many."""
    fine = sigma * min(_STEP * sigma, 0.1)
    wide = sigma * min(sigma * min(max(1 / max(abs(p), 1e-9), _STEP), 0.4), 0.1)
    start, to = min(-_LEFT * sigma, high), 0.5 + sigma**2 * (_RIGHT - odds)
    low, to = min(low, -_FALLS * sigma), min(max(to, start), high)
    counts = (start - low) / (sigma / 4), (to - start) / fine, (high - to) / wide
    if not sum(counts) < _CELLS:
        return np.zeros(0)
    parts = [
        a + (b - a) * np.arange(n) / n
        for a, b, n in (
            (low, start, math.ceil(counts[0])),
            (start, to, math.ceil(counts[1])),
            (to, high, math.ceil(counts[2])),
        )
        if n
    ]
    x = np.append(np.concatenate(parts), high)
    if not tau:
        return x
    marks = level + tau * _AROUND
    more = sigma**2 * (np.log(-np.expm1(-marks)) + marks - odds) + 0.5
    x = np.sort(np.concatenate([x, more[(more > low) & (more < high)]]))
    return np.asarray(x[np.append(True, np.diff(x) > 1e-6 * fine)])


def _turns(sigma: float, mass: Floats, share: Floats, weight: Floats, x: Floats) -> Floats:
    """Return the turns that gain most at small heights, per height: rising, from 0 on the left.

    They make Σ mass·(θ·share − weight·θ²/2 − σ⁴θ'²/2) largest, over all θ that are linear between a few points.
    """
    ends = np.append(0, np.arange(x.size - 1, 0, -x.size // _KNOTS)[::-1])
    filled = np.maximum(np.add.reduceat(mass, ends[:-1]), _FAINT)
    stiff = sigma**4 * filled / np.diff(x[ends]) ** 2
    each = np.append(0.0, filled)
    diagonal = each * weight[np.maximum(ends - 1, 0)]
    diagonal[:-1] += stiff
    diagonal[1:] += stiff
    d, k, r = diagonal.tolist(), stiff.tolist(), (each * share[ends]).tolist()
    n = len(d)
    for i in range(n - 2, 0, -1):
        part = k[i] / d[i + 1]
        d[i] -= part * k[i]
        r[i] += part * r[i + 1]
    turns = [0.0] * n
    for i in range(1, n):
        turns[i] = (r[i] + k[i - 1] * turns[i - 1]) / d[i]
    known = np.nan_to_num(np.array(turns), nan=0.0, posinf=1e9)
    return np.asarray(np.interp(x, x[ends], np.maximum.accumulate(np.maximum(known, 0.0))))


def _log_normal(t: Floats) -> tuple[Floats, Floats]:
    """Lower and upper bounds of log Φ(t)."""
    at = t / math.sqrt(2)
    near = at > -_NONE / math.sqrt(2)
    half = 0.5 * np.fromiter(map(math.erfc, (-at[near]).tolist()), dtype=np.float64, count=int(near.sum()))
    low, high = np.full(t.size, -math.inf), -0.99 * at * at  # far more than it is off
    low[near] = high[near] = np.log(half)
    return low, high


@lru_cache(maxsize=16)
def bent(sigma: float, rate: float, p: float, low: float, high: float, level: float = math.inf) -> Bent:
    """Return the same, remembered for a few."""
    with np.errstate(all="ignore"):
        return Bent(sigma, rate, p, low, high, level)
