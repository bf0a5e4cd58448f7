"""Which bounds to give to values, chosen from noisy counts of units by the size of their largest and least value.

The places are public: the sign of a number and its power of two, from 2^-32 to 2^62. A unit is in one place by its
largest value and in one by its least, whatever else it has. What follows is post-processing of the noisy counts.

References:
    The bias and the noise of a bound traded off: Amin, Kulesza, Muñoz Medina, Vassilvitskii 2019, *Bounding user
    contributions*, https://proceedings.mlr.press/v97/amin19a.html; bounds from a noisy histogram of powers of two:
    Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo, Gipson 2020, section 5.1.1, https://arxiv.org/abs/1909.01917
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import accumulate, islice, takewhile

from discreet.catalog.schema import Range
from discreet.mechanisms.additive import DiscreteLaplaceNoise

FINEST, WIDEST = -32, 62
"""Powers of two that are told apart: smaller numbers count as 2^-32, larger ones as 2^62."""

PLACES = range(FINEST - WIDEST - 1, WIDEST - FINEST + 2)
"""0 for 0; ±1 for numbers up to 2^-31, ±2 from there to 2^-30, and so on."""

LARGEST = Fraction(1 << 60)
"""No bound is chosen beyond: sums of values between ±2^60 fit their integers."""

CONFIDENCE = Fraction(39, 40)
"""With what chance the true share outside the chosen bounds is at most the stated one (`share_outside`)."""

MOST_OUTSIDE = Fraction(1, 20)
"""What rests on bounds outside of which more than this share may lie has no finite interval."""

_GOAL = 0.005
"""The share of units that the choice aims to leave beyond each bound: far below `MOST_OUTSIDE`, so that it is shown."""

_SURE = 0.005
"""With what chance some window of empty places is taken for an inhabited one, where people are few."""

_NEAR = 0.1
"""With what chance the place next to an inhabited one is, where it is empty; windows further away have less."""

_WINDOWS = (1, 2, 4, 8)
"""Numbers of places that are looked at together: values may lie thinly over many."""

_FLATTEST = 0.6
"""The largest share of a place's units that the next place outwards is taken to hold, where that is not seen."""

_MANY = 100.0
"""From so many times the scale of the noise on, empty places are taken for inhabited ones less often."""


class Use(Enum):
    """What is made of the values, and so what their bounds cost."""

    SUM = "sum"
    """Noise grows with the larger bound."""
    CENTRED = "centred"
    """Sums of differences from the middle of the bounds: noise grows with half their width."""
    SPREAD = "spread"
    """Quantiles: the noise does not depend on the bounds, which hold all that can be seen."""


@dataclass(frozen=True, slots=True)
class Stakes:
    """What weighs against what.

    Attributes:
        uses: what is made of the values.
        noise: by how much the noise of all groups together grows with a bound.
        rows: how many of a unit's rows a bound is taken to cut.
        most: no bound may be larger.
    """

    uses: Collection[Use]
    noise: float
    rows: float
    most: Fraction


def value_place_sql(value: str) -> str:
    """Return SQL for the place of a finite number, NULL for NULL; it never fails, and a large one is not negated."""
    d = f"CAST({value} AS DOUBLE)"
    size = f"floor(log2(greatest(least(abs({d}), {_real(WIDEST)}), {_real(FINEST)}))) + {1 - FINEST}"
    return f"CASE WHEN {d} > 0 THEN {size} WHEN {d} < 0 THEN -({size}) WHEN abs({d}) < {_real(FINEST)} THEN 0 END"


def choose_range(
    highest: Mapping[int, int], lowest: Mapping[int, int], noise: DiscreteLaplaceNoise, stakes: Stakes, *, whole: bool
) -> Range:
    """Return the bounds with the least error expected, what they cut off and noise, among those that are expected to
    leave few units outside. Where the counts do not tell, they are wider: for places beyond the last one that is seen,
    and for the other sign.

    Args:
        highest: noisy counts of units by the place of their largest value.
        lowest: by that of their least; `highest` itself where these are the same.
        noise: what was added to each count.
        stakes: what weighs against what.
        whole: whether the values are whole numbers.
    """
    scale = max(float(noise.scale), 0.1)  # below, most of the noise is 0
    above, below = ([counts.get(p, 0) / scale for p in PLACES] for counts in (highest, lowest))
    both = above if lowest is highest else [a + b for a, b in zip(above, below, strict=True)]
    sure = _anchors(both, 1 if lowest is highest else 2)
    if not sure:  # nobody is seen
        return Range(0, 1, integer=whole)
    up, down = _Tail.of(above, max(sure), 1), _Tail.of(below, min(sure), -1)
    many = max(sum(above[down.end : up.end + 1]), 1.0)
    cuts = Use.SPREAD not in stakes.uses
    highs, lows = ([t.edge(d) for d in t.few_beyond(_GOAL * many, cuts=cuts)] for t in (up, down))
    negative = min(lows) >= 0 and _unseen(below, highs, -1) > _GOAL * many
    positive = max(highs) <= 0 and _unseen(above, lows, 1) > _GOAL * many
    pairs = {
        _snapped(*sorted((min(low, -high) if negative else low, max(high, -low) if positive else high)))
        for low in lows
        for high in highs
    }
    cost = _cost(_typical(above), _typical(below), scale, stakes)
    return _within(*min(sorted(pairs), key=cost), stakes.most, whole=whole)


def holds(bounds: Range, place: int) -> bool:
    """Whether all numbers of a place lie within bounds."""
    low, high = _edges(place)
    return bounds.low <= low and high <= bounds.high


def share_outside(outside: int, inside: int, noise: DiscreteLaplaceNoise) -> Fraction:
    """Return an upper limit of the share of units that have a value outside the chosen bounds.

    Guarantee:
        It is at least the true share with a probability of `CONFIDENCE` over the noise, whatever the bounds, where they
        were chosen before the noise of these two counts was drawn (docs/proofs/census.md, 6).

    Args:
        outside: the noisy number of units that have a value outside.
        inside: the noisy number of those whose values all lie within.
        noise: what was added to each of both.
    """
    error = 1 - CONFIDENCE  # nearly all of it is for `outside`, which decides
    most = max(outside + noise.quantile(1 - 2 * error * Fraction(24, 25)), 0)
    least = max(inside - noise.quantile(1 - 2 * error * Fraction(1, 25)), 0)
    return Fraction(most, most + least) if most + least else Fraction(1)


@dataclass(frozen=True, slots=True)
class _Tail:
    """Where inhabited places end on one side, and what may lie unseen beyond; numbers of units are in scales of noise.

    Attributes:
        counts: noisy numbers of units of the places.
        end: the outermost inhabited place.
        step: 1 upwards, -1 downwards.
        beyond: how many units may be unseen beyond it.
        ratio: the share of these that lies beyond the next place, and so on.
    """

    counts: list[float]
    end: int
    step: int
    beyond: float
    ratio: float

    @classmethod
    def of(cls, counts: list[float], start: int, step: int) -> _Tail:
        """Return the tail outwards from an inhabited place.

        Numbers of units are taken to fall outwards at least as fast as they do from the last three places that are seen
        to what may be unseen.
        """
        near = math.log(max(sum(counts) / _MANY, 1.0) / _NEAR)
        outwards = counts[start + 1 :] if step > 0 else counts[:start][::-1]
        reached = 0
        while found := _next_window(outwards[reached:], near):
            reached += found
        unseen = near - math.log(2)
        seen = [counts[start], *outwards[:reached]][:-4:-1]
        ratio = min(_FLATTEST, *((unseen / max(n, unseen)) ** (1 / (i + 1)) for i, n in enumerate(seen)))
        return cls(counts, start + step * reached, step, unseen / (1 - ratio), ratio)

    def edge(self, further: int) -> Fraction:
        """Return the bound that holds so many places beyond the last inhabited one, or cuts off so many of these (below
        0); none lies beyond 0 where values do not.
        """
        place = PLACES[self.end]
        if further > 0 and place * self.step <= 0:
            return Fraction(0)
        return _edges(place + self.step * further)[1 if self.step > 0 else 0]

    def few_beyond(self, most: float, *, cuts: bool) -> list[int]:
        """How many places further out a bound may lie so that at most so many units are expected beyond: the nearest
        that is wide enough, and what cuts off inhabited places, where it may.
        """
        if PLACES[self.end] == 0:
            return [0]
        further, widest = 0, len(PLACES) - 1 - self.end if self.step > 0 else self.end
        while self.beyond * self.ratio**further > most and further < widest:
            further += 1
        inwards = self.counts[self.end :: -self.step] if cuts and not further else []
        expected = accumulate((max(n, 0.0) for n in inwards), initial=self.beyond)
        cut = list(takewhile(lambda n: n <= most, islice(expected, 1, None)))
        return [further, *range(-1, -1 - len(cut), -1)]


def _anchors(counts: list[float], terms: int) -> list[int]:
    """Places that are inhabited beyond doubt: the fullest of each window that stands out from noise alone."""
    sums = list(accumulate(counts, initial=0.0))
    many = max(sums[-1] / terms / _MANY, 1.0)
    level = math.log(len(_WINDOWS) * len(counts) * many / _SURE)
    windows = [
        (surprise, i, i + w)
        for w in _WINDOWS
        for i in range(len(counts) - w + 1)
        if (surprise := _surprise(sums[i + w] - sums[i], w * terms)) > level
    ]
    found: list[tuple[int, int]] = []
    for _, i, j in sorted(windows, reverse=True):
        if all(j <= a or b <= i for a, b in found):
            found.append((i, j))
    return [max(range(i, j), key=counts.__getitem__) for i, j in found]


def _next_window(outwards: Sequence[float], near: float) -> int:
    """How many places outwards the next ones are inhabited; 0 where what is seen there may be noise."""
    total = 0.0
    for w, n in enumerate(outwards[: _WINDOWS[-1]], start=1):
        total += n
        if _surprise(total, w) > near + (w - 1) * math.log(4):
            return w
    return 0


def _surprise(total: float, terms: int) -> float:
    """Return a number s such that Laplace noise of scale 1, added up so many times, is above `total` with probability
    e^−s at most: Chernoff's bound, and exact for a single one.
    """
    if total <= 0:
        return 0.0
    if terms == 1:
        return total + math.log(2)
    best = min((math.hypot(terms, total) - terms) / total, 1 - 1e-12)
    return best * total + terms * math.log1p(-best * best)


def _unseen(counts: list[float], ends: Sequence[Fraction], sign: int) -> float:
    """How many units may have values of the other sign, up to the size of bounds."""
    size = max(abs(e) for e in ends)
    last = next((p for p in range(PLACES[-1], 0, -1) if _edges(p)[1] <= size), 0)
    window = [counts[PLACES.index(sign * p)] for p in range(max(last - 4, 1), last + 1)]
    return max(sum(window), 0.0) + math.sqrt(2 * len(window))


def _snapped(low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of which one is 0 where it is small beside the other: that costs little, and cuts less."""
    if 0 < 8 * low <= high:
        return Fraction(0), high
    return (low, Fraction(0)) if 0 < -8 * high <= -low else (low, high)


def _cost(
    above: Sequence[tuple[float, float]], below: Sequence[tuple[float, float]], scale: float, stakes: Stakes
) -> Callable[[tuple[Fraction, Fraction]], float]:
    """Return the error expected of bounds: what they cut off, and noise; else their width."""

    def cost(bounds: tuple[Fraction, Fraction]) -> float:
        low, high = map(float, bounds)
        size = 0.0
        if Use.SUM in stakes.uses:
            size += max(abs(low), abs(high))
        if Use.CENTRED in stakes.uses:
            size += (high - low) / 2
        cut = sum(n * max(v - high, 0.0) for v, n in above) + sum(n * max(low - v, 0.0) for v, n in below)
        return stakes.noise * size + stakes.rows * scale * cut if size else high - low

    return cost


def _within(low: Fraction, high: Fraction, most: Fraction, *, whole: bool) -> Range:
    """Return the bounds moved to where they can be planned: not beyond `most`, whole where values are, and apart."""
    low, high = max(min(low, most), -most), max(min(high, most), -most)
    if whole:
        low, high = Fraction(math.floor(low)), Fraction(math.ceil(high))
    if low == high:
        low, high = (low - 1, high) if high == most else (low, high + 1)
    return Range(low, high, integer=whole)


def _edges(place: int) -> tuple[Fraction, Fraction]:
    """Between which numbers a place lies."""
    if place == 0:
        return Fraction(0), Fraction(0)
    far = Fraction(2) ** (abs(place) + FINEST)
    near = far / 2 if abs(place) > 1 else Fraction(0)
    return (near, far) if place > 0 else (-far, -near)


def _typical(counts: Sequence[float]) -> list[tuple[float, float]]:
    """Two numbers of each place that stands out from the noise, each with half of its units."""
    found = []
    for place, n in zip(PLACES, counts, strict=True):
        if n > 3:
            a, b = map(float, _edges(place))
            found += [((3 * a + b) / 4, n / 2), ((a + 3 * b) / 4, n / 2)]
    return found


def _real(power: int) -> str:
    return f"CAST({float(2.0**power)!r} AS DOUBLE)"
