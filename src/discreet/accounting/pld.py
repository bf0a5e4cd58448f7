"""The privacy loss of a few events composed numerically, never understated.

Each event's curve is replaced by a curve above it that bends only at the points of a common grid ("connect
the dots"), which is a discrete distribution of the privacy loss. Distributions are convolved directly: every
product is positive, so the relative rounding error is bounded by the number of terms however small δ is, and
it is added. What falls off the grid above becomes an infinite loss, and below it is moved up.

For parameters that are fixed before the first answer, and only for those: it is not a filter.

References:
    Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022, *Connect the Dots*, https://arxiv.org/abs/2207.04380;
    Zhu, Dong, Wang 2022, Theorem 10 (products of pairs), https://arxiv.org/abs/2106.08567;
    the bounds on truncation and rounding: docs/proofs/composition.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.accounting.convert import invert, zcdp_epsilon
from discreet.privacy.event import Composed, Event
from discreet.privacy.exact import below
from discreet.privacy.pair import FLOOR, Curve, Pair

LONGEST = 64
"""How many events are composed numerically; more go through the closed conversions."""

_POINTS = 6400  # of the grid over the range of the whole composition, about
_FEWEST = 4  # grid steps to the largest loss of the event that decides the step
_WIDEST = 500.0  # beyond it e^loss would leave the range of floats
_TAIL = 1e-7  # the share of δ that may fall off the grid
_UNIT = 2.0**-52  # twice the rounding unit


def composed_epsilon(events: Composed, delta: Fraction, *, at_most: float) -> float | None:
    """The least ε found for which the events together are (ε, δ)-DP, rounded up; None when there is none.

    `at_most` is an ε that is known to do, for the size of the grid only.
    """
    target = below(delta)
    if len(events) == 1:
        return invert(lambda x: _single(events, x), target, high=at_most)
    worst = 0.0
    laws = _compose(events, target * _TAIL)
    if not laws:
        return None
    for law in laws:
        epsilon = law.epsilon(target)
        if epsilon is None:
            return None
        worst = max(worst, epsilon)
    return worst


def composed_delta(events: Composed, epsilon: Fraction, *, at_most: float) -> float:
    """A δ for which the events together are (ε, δ)-DP; `at_most` is one that is known to do."""
    e = below(epsilon)
    if len(events) == 1:
        return float(_single(events, np.array(e)))
    delta = at_most
    for _ in range(4):  # the tail that may fall off follows from δ, which is found on the way
        tail = max(delta * _TAIL, FLOOR)
        delta = min(delta, max((law.delta(e) for law in _compose(events, tail)), default=1.0))
        if delta * _TAIL >= tail / 100:
            break
    return delta


@dataclass(frozen=True, slots=True)
class LossDistribution:
    """Masses under P of the losses `step·(first + i)`, and of an infinite loss. Both may only be overstated.

    Guarantee:
        `delta` is at least the hockey-stick curve of what was composed, at every ε ≥ 0.
    """

    first: int
    step: float
    mass: Curve
    infinite: float

    def losses(self) -> Curve:
        """The points of the grid, exactly: `step` has few enough digits."""
        return self.step * np.arange(self.first, self.first + self.mass.size, dtype=np.float64)

    def delta(self, epsilon: float) -> float:
        """An upper bound of δ(ε)."""
        tail = float(np.dot(self.mass, -np.expm1(np.minimum(epsilon - self.losses(), 0.0))))
        return min((tail + self.infinite) * (1 + (self.mass.size + 16) * _UNIT), 1.0)

    def epsilon(self, delta: float) -> float | None:
        """An ε ≥ 0 with `delta(ε)` at most `delta`, within 1e-12 of the least; None when there is none."""
        low, high = 0.0, max(float(self.losses()[-1]), 0.0)
        if self.delta(high) > delta:
            return None
        if self.delta(low) <= delta:
            return 0.0
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def convolve(self, other: LossDistribution, tail: float) -> LossDistribution:
        """The law of the sum, with up to `tail` moved upwards at either end."""
        rounding = 1 + (min(self.mass.size, other.mass.size) + 16) * _UNIT
        mass = np.convolve(self.mass, other.mass) * rounding
        finite, total = float(self.mass.sum()), float(other.mass.sum()) + other.infinite
        infinite = (self.infinite * total + finite * other.infinite) * (1 + (mass.size + 16) * _UNIT)
        joined = LossDistribution(self.first + other.first, self.step, mass, infinite + FLOOR)
        return joined._truncated(tail)

    def power(self, n: int, tail: float) -> LossDistribution:
        """The law of the sum of n independent ones, by squaring."""
        square, out = self, None
        while n:
            if n & 1:
                out = square if out is None else out.convolve(square, tail)
            n >>= 1
            if n:
                square = square.convolve(square, tail)
        assert out is not None
        return out

    def _truncated(self, tail: float) -> LossDistribution:
        low = int(np.searchsorted(np.cumsum(self.mass), tail))
        from_above = np.cumsum(self.mass[::-1])
        cut = int(np.searchsorted(from_above, tail))
        end = self.mass.size - cut
        if low >= end or (low == 0 and cut == 0):
            return self
        mass = self.mass[low:end].copy()
        rounding = 1 + (self.mass.size + 16) * _UNIT
        mass[0] += float(self.mass[:low].sum()) * rounding
        above = float(self.mass[end:].sum()) * rounding
        return LossDistribution(self.first + low, self.step, mass, (self.infinite + above) * (1 + 2 * _UNIT))


def connect_the_dots(pair: Pair, step: float, reach: int) -> LossDistribution:
    """The law whose curve is the pair's at the losses −reach·step … reach·step, or above it.

    Guarantee:
        Its curve is at least the pair's at every real ε. This is checked on the result: the masses are
        scaled until the curve that they imply is nowhere below the dots.
    """
    x = step * np.arange(-reach, reach + 1, dtype=np.float64)
    y = pair.upper(x)
    drop = (
        y[:-1] - y[1:]
    )  # the curve falls from 1 at e^ε = 0, by `drop` between dots, and stays at its last value
    down = -math.expm1(-step)
    mass = np.append(1 - y[0], drop / down) - np.append(drop * math.exp(-step) / down, 0.0)
    mass = np.maximum(mass, 0.0)  # more mass is a higher curve
    infinite = float(y[-1])
    # The implied curve, by positive terms only: H at e^x_j is `infinite` + Σ_{m ≥ j} (e^x_{m+1} − e^x_m)
    # Q(loss > x_m).
    above = np.append(np.cumsum((mass * np.exp(-x))[:0:-1])[::-1], 0.0)
    implied = infinite + math.expm1(step) * np.cumsum((np.exp(x) * above)[::-1])[::-1]
    lacking = max(float(np.max(y / implied)), 1 / (float(mass.sum()) + infinite), 1.0)
    scale = lacking * (1 + (3 * x.size + 64) * _UNIT)
    return LossDistribution(-reach, step, mass * scale, infinite * scale)


def _single(events: Composed, epsilon: Curve) -> Curve:
    ((event, _),) = events.parts
    pair = event.pair()
    return np.maximum(pair.upper(epsilon), pair.reverse().upper(epsilon))


def _compose(events: Composed, tail: float) -> list[LossDistribution]:
    """The law of the loss, and of the reverse loss unless it is the same; empty when out of reach."""
    share = max(tail / (8 * LONGEST), FLOOR)
    parts = [(event.pair(), n, _reach(event, share)) for event, n in events]
    parts = [part for part in parts if part[2] or _reveals(part[0])]
    step = _step(events, parts, share)
    if not parts or math.isnan(step):
        return []
    laws = [_product([(pair, n, reach) for pair, n, reach in parts], step, share)]
    if any(pair.reverse() != pair for pair, _, _ in parts):
        laws.append(_product([(pair.reverse(), n, reach) for pair, n, reach in parts], step, share))
    return laws


def _reveals(pair: Pair) -> bool:
    """Whether the pair's distributions differ at all, in either direction."""
    zero = np.zeros(1)
    return bool(max(pair.upper(zero)[0], pair.reverse().upper(zero)[0]) > 2 * FLOOR)


def _product(parts: list[tuple[Pair, int, float]], step: float, share: float) -> LossDistribution:
    powers = [
        connect_the_dots(pair, step, max(math.ceil(reach / step), 1)).power(n, share)
        for pair, n, reach in parts
    ]
    out = powers[0]
    for law in powers[1:]:
        out = out.convolve(law, share)
    return out


def _reach(event: Event, share: float) -> float:
    """A loss that is exceeded with an excess δ of about `share` at most."""
    pair = event.pair()
    largest = max(pair.epsilon_max, pair.reverse().epsilon_max)
    if math.isfinite(largest):
        return largest
    assert event.rho is not None
    grid = np.linspace(0.0, zcdp_epsilon(event.rho, Fraction(share)), 257)
    small = np.flatnonzero(np.maximum(pair.upper(grid), pair.reverse().upper(grid)) <= share)
    return float(grid[small[0]]) if small.size else float(grid[-1])


def _step(events: Composed, parts: list[tuple[Pair, int, float]], share: float) -> float:
    """A step that divides the largest loss of the largest event; NaN when losses are too large for floats."""
    farthest = sum(n * reach for _, n, reach in parts)
    if not 0 < farthest <= _WIDEST:
        return math.nan
    rho = float(sum(((event.rho or 0) * n for event, n in events), Fraction(0)))
    wide = min(farthest, rho + 2 * math.sqrt(rho * math.log(1 / share)))
    _, _, largest = max(parts, key=lambda part: part[1] * part[2] ** 2)
    step = largest / max(_FEWEST, math.ceil(largest * _POINTS / (2 * wide)))
    # Rounded up to 30 binary digits: multiples up to 2^22 are then exact, and the largest loss is still
    # covered.
    mantissa, exponent = math.frexp(step)
    return math.ldexp(math.ceil(mantissa * 2**30), exponent - 30)
