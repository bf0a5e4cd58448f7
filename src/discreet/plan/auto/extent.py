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
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.schema import Range

FINEST, WIDEST = -32, 62
"""Powers of two that are told apart: smaller numbers count as 0, larger ones as 2^62."""

PLACES = range(FINEST - WIDEST - 1, WIDEST - FINEST + 2)
"""±1 for numbers from 2^-32 to 2^-31, ±2 up to 2^-30, and so on; 0 for what is nearer to 0."""

LARGEST = Fraction(1 << 60)
"""No bound is chosen beyond: sums of values between ±2^60 fit their integers."""

_SURE = 1e-3
"""With what chance some empty place is taken for an inhabited one."""

_NEAR = 0.05
"""With what chance the place next to an inhabited one is, where it is empty; places further away have less."""


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
    """SQL for the place of a finite number, NULL for NULL; it fails for no number, and a large one is not negated."""
    d = f"CAST({value} AS DOUBLE)"
    size = f"floor(log2(greatest(least(abs({d}), {_real(WIDEST)}), {_real(FINEST)}))) + {1 - FINEST}"
    return f"CASE WHEN abs({d}) < {_real(FINEST)} THEN 0 WHEN {d} > 0 THEN {size} WHEN {d} < 0 THEN -({size}) END"


def choose_range(
    highest: Mapping[int, int],
    lowest: Mapping[int, int],
    noise: DiscreteLaplaceNoise,
    stakes: Stakes,
    *,
    whole: bool,
) -> Range:
    """The bounds with the least error expected: what they cut off, and noise.

    Args:
        highest: noisy counts of units by the place of their largest value.
        lowest: by that of their least.
        noise: what was added to each count.
        stakes: what weighs against what.
        whole: whether the values are whole numbers.
    """
    above, below = _inhabited(highest, noise), _inhabited(lowest, noise)
    seen = {*above, *below}
    if seen <= {0}:  # nobody has a value, or nobody has one that is told apart from 0
        return Range(0, 1, integer=whole)
    if Use.SPREAD in stakes.uses:
        low, high = min(_edges(p)[0] for p in seen), max(_edges(p)[1] for p in seen)
    else:
        low, high = _best(above, below, seen, stakes)
    return _within(low, high, stakes.most, whole=whole)


def _best(
    above: Mapping[int, float], below: Mapping[int, float], seen: Collection[int], stakes: Stakes
) -> tuple[Fraction, Fraction]:
    ends = sorted({Fraction(0), *(e for p in seen for a, b in [_edges(p)] for e in (a, (a + b) / 2, b))})
    over = [stakes.rows * sum(n * max(float(v - e), 0.0) for v, n in _typical(above)) for e in ends]
    under = [stakes.rows * sum(n * max(float(e - v), 0.0) for v, n in _typical(below)) for e in ends]
    found: tuple[float, Fraction, Fraction] | None = None
    for i, low in enumerate(ends):
        for j in range(i + 1, len(ends)):
            high = ends[j]
            size = 0.0
            if Use.SUM in stakes.uses:
                size += float(max(abs(low), abs(high)))
            if Use.CENTRED in stakes.uses:
                size += float(high - low) / 2
            error = stakes.noise * size + under[i] + over[j]
            if found is None or error < found[0]:
                found = error, low, high
    assert found is not None
    return found[1:]


def _within(low: Fraction, high: Fraction, most: Fraction, *, whole: bool) -> Range:
    """The bounds moved to where they can be planned: not beyond `most`, whole where values are, and apart."""
    low, high = max(min(low, most), -most), max(min(high, most), -most)
    if whole:
        low, high = Fraction(math.floor(low)), Fraction(math.ceil(high))
    if low == high:
        low, high = (low - 1, high) if high == most else (low, high + 1)
    return Range(low, high, integer=whole)


def _inhabited(counts: Mapping[int, int], noise: DiscreteLaplaceNoise) -> dict[int, float]:
    """The places whose counts stand above the noise: far above it, or less far beside one that does.

    An empty place at a distance of d doublings is taken for an inhabited one with a chance of `_NEAR`·4^(1−d), so that
    it makes the bounds wider by at most a fifth on average.
    """
    scale = float(noise.scale)
    ranked = sorted(counts.items(), key=lambda c: (-c[1], c[0]))
    sure = [p for p, n in ranked if n > scale * math.log(len(PLACES) / (2 * _SURE))]
    if not sure and ranked and ranked[0][1] > scale * math.log(len(PLACES) / (2 * _NEAR)):
        sure = [ranked[0][0]]
    if not sure:
        return {}
    found = {}
    for place, n in counts.items():
        away = min(abs(place - s) for s in sure)
        if away == 0 or n > scale * (math.log(1 / (2 * _NEAR)) + (away - 1) * math.log(4)):
            found[place] = float(n)
    return found


def _edges(place: int) -> tuple[Fraction, Fraction]:
    """Between which numbers a place lies."""
    if place == 0:
        return Fraction(0), Fraction(0)
    end = Fraction(2) ** (abs(place) - 1 + FINEST)
    return (end, 2 * end) if place > 0 else (-2 * end, -end)


def _typical(counts: Mapping[int, float]) -> list[tuple[Fraction, float]]:
    """Two numbers of each place, each with half of its units."""
    found = []
    for place, n in counts.items():
        a, b = _edges(place)
        found += [((3 * a + b) / 4, n / 2), ((a + 3 * b) / 4, n / 2)]
    return found


def _real(power: int) -> str:
    return f"CAST({float(2.0**power)!r} AS DOUBLE)"
