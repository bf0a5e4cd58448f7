"""Where a falling quantity first reaches 0, in as few looks at it as can be: each look may be costly.

Positions are s = log x where the quantity falls in x, and s = −log x where it grows. The next look goes where
the inverse of the polynomial through the last ones sees the root, and never outside of what is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from discreet.errors import InvalidParameter

_FARTHEST = 277.0  # e^277 is 2^400: beyond that no parameter is looked for
_MOST_LOOKS = 200
_EDGE = 1e-6  # the rounding of a parameter at the ends


@dataclass(frozen=True, slots=True)
class Trial:
    """One value: at the position s the parameter x has this excess, at most 0 exactly where x will do."""

    s: float
    excess: float
    x: Fraction


@dataclass(slots=True)
class Search:
    """A search for the best x at which `excess` is at most 0, from `first` on, and at `most` at most.

    Attributes:
        excess: what is looked at; it falls in x, or grows if `increasing`.
        increasing: whether it grows, so that the largest x is wanted and not the smallest.
        first: where to look first.
        most: the largest x that may be looked at.
        slope: a guess of how fast the excess changes with log x.
    """

    excess: Callable[[Fraction], float]
    increasing: bool
    first: Fraction
    most: Fraction | None = None
    slope: float = 1.0
    looks: list[Trial] = field(default_factory=list)

    def look(self, x: Fraction) -> Trial:
        """Look at x, or remember having looked."""
        for known in self.looks:
            if known.x == x:
                return known
        found = Trial(self.place(x), self.excess(x), x)
        self.looks.append(found)
        return found

    def place(self, x: Fraction) -> float:
        """The position of x."""
        s = math.log(x.numerator) - math.log(x.denominator)
        return -s if self.increasing else s

    @property
    def miss(self) -> Trial | None:
        """The look nearest to the root of those beyond it that will not do."""
        best = self.hit
        beyond = [at for at in self.looks if at.excess > 0 and (best is None or at.s < best.s)]
        return max(beyond, key=lambda at: at.s, default=None)

    @property
    def hit(self) -> Trial | None:
        """The best look that will do."""
        return min((at for at in self.looks if at.excess <= 0), key=lambda at: at.s, default=None)

    def root(self) -> float:
        """Where the root should be; within what brackets it, when both sides are known."""
        miss, hit, last = self.miss, self.hit, self.looks[-1]
        if miss is not None and hit is not None:
            for many in (4, 3, 2):
                s = _inverse(self.looks, many)
                if s is not None and miss.s < s < hit.s:
                    return s
            return (miss.s + hit.s) / 2
        near = sorted(self.looks, key=lambda at: abs(at.s - last.s))[:2]
        step, slope = 0.0, self.slope
        if len(near) == 2:
            step = abs(near[0].s - near[1].s)
            if math.isfinite(near[0].excess) and math.isfinite(near[1].excess) and step:
                slope = (near[0].excess - near[1].excess) / (near[1].s - near[0].s)
        way = last.excess / slope if slope > 1e-3 and math.isfinite(last.excess) else math.inf
        way = max(min(abs(way), max(1.5, 3 * step)), 1e-12)
        return last.s + way if hit is None else last.s - way

    def stalled(self) -> bool:
        """Whether the last looks hardly narrowed the bracket, as at a jump: then halving is better."""
        return len(self.looks) > 8 and len(self.looks) % 3 == 0


def search_real(search: Search, tolerance: float) -> Fraction | None:
    """The best x to a relative tolerance; None where there is none between what will do and what will not."""
    digits = max(8, math.ceil(-math.log10(tolerance)) + 2)
    low, high = _range(search)
    search.look(search.first)
    while len(search.looks) < _MOST_LOOKS:
        miss, hit = search.miss, search.hit
        if hit is not None and hit.s <= low:
            return hit.x if search.increasing and search.most is not None else None
        if hit is not None and (
            _is_near(search, hit, tolerance) or (miss is not None and hit.s - miss.s <= tolerance)
        ):
            return hit.x
        if miss is not None and hit is None and miss.s >= high - _EDGE:
            return None
        s = search.root()
        if miss is not None and hit is not None:
            if search.stalled():
                s = (miss.s + hit.s) / 2
            elif hit.s - s <= 0.8 * tolerance:  # all that is missing is a miss close below
                s = max(hit.s - 0.9 * tolerance, (miss.s + hit.s) / 2)
            elif s - miss.s <= 0.8 * tolerance:
                s = min(miss.s + 0.9 * tolerance, (miss.s + hit.s) / 2)
            else:
                s += 0.3 * tolerance  # more often than not on the safe side
        else:
            s += 0.3 * tolerance
        before = len(search.looks)
        search.look(_at(search, min(max(s, low), high), low, high, digits))
        if len(search.looks) == before:  # the digits end here
            break
    return None if search.hit is None or search.miss is None else search.hit.x


def search_integer(search: Search, farthest: int) -> Fraction | None:
    """The best whole x exactly, if the excess is monotone; None as in `search_real`."""
    most = farthest if search.most is None else math.floor(search.most)
    if most < 1:
        raise InvalidParameter("most must be at least 1 for an integer parameter.")
    search.look(Fraction(min(max(round(search.first), 1), most)))
    best, worst = (most, 1) if search.increasing else (1, most)
    toward = 1 if search.increasing else -1  # from what will do towards what is better
    while True:
        miss, hit = search.miss, search.hit
        if miss is None and hit is not None and hit.x == best:
            return None if search.increasing and search.most is None else hit.x
        if hit is None and miss is not None and miss.x == worst:
            return None
        if hit is not None and miss is not None and abs(hit.x - miss.x) == 1:
            return hit.x
        s = search.root()
        if miss is not None and hit is not None and search.stalled():
            n = int(hit.x + miss.x) // 2
        else:
            size = math.exp(min(-s if search.increasing else s, math.log(most)))
            n = math.floor(size * (1 + 1e-12)) if search.increasing else math.ceil(size * (1 - 1e-12))
        # Strictly between what is known, and at least one away from what was looked at last.
        if hit is not None and (n - hit.x) * toward <= 0:
            n = int(hit.x) + toward
        if miss is not None and (n - miss.x) * toward >= 0:
            n = int(miss.x) - toward
        before = len(search.looks)
        search.look(Fraction(min(max(n, 1), most)))
        if len(search.looks) == before:  # rounding keeps a float from reaching the end
            search.look(Fraction(worst if hit is None else best))


def _is_near(search: Search, hit: Trial, tolerance: float) -> bool:
    """Whether the slope there says that the root is within the tolerance; at a steady slope that is enough."""
    others = [at for at in search.looks if at is not hit and math.isfinite(at.excess) and at.s != hit.s]
    if not others or not math.isfinite(hit.excess):
        return False
    near = min(others, key=lambda at: abs(at.s - hit.s))
    slope = (near.excess - hit.excess) / (hit.s - near.s)
    local = abs(hit.s - near.s) < 0.1
    return 0.02 < slope < 50 and -hit.excess <= (0.7 if local else 0.4) * tolerance * slope


def _inverse(looks: list[Trial], many: int) -> float | None:
    """The position of excess 0 on the polynomial s(excess) through the `many` looks with the least excess."""
    known = sorted((at for at in looks if math.isfinite(at.excess)), key=lambda at: abs(at.excess))[:many]
    known.sort(key=lambda at: at.s)
    if len(known) < many or any(a.excess <= b.excess for a, b in pairwise(known)):
        return None
    total = 0.0
    for a in known:
        weight = math.prod(b.excess / (b.excess - a.excess) for b in known if b is not a)
        total += weight * (a.s - known[0].s)
    return known[0].s + total


def _range(search: Search) -> tuple[float, float]:
    here = search.place(search.first)
    low, high = here - _FARTHEST, here + _FARTHEST
    if search.most is not None:
        end = search.place(search.most)
        return (end, high) if search.increasing else (low, end)
    return low, high


def _at(search: Search, s: float, low: float, high: float, digits: int) -> Fraction:
    """The parameter at s, with few digits, so that what is returned is what was looked at."""
    if search.most is not None and s == (low if search.increasing else high):
        return search.most
    return Fraction(f"{math.exp(-s if search.increasing else s):.{digits}e}")
