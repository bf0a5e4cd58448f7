"""Compositions of losses with finitely many values, by going through all that their sums can be.

The n uses of one law with k losses end in one of C(n+k−1, k−1) tallies: how often each loss came. A tally's
chance is proportional to Π λ_i^(n_i)/n_i!, computed by products from the likeliest n_i outwards, and the chances
add up to 1 − leak. Every term of δ(ε) = leak + Σ mass·(1 − e^(ε − loss))₊ is positive, so relative errors of the
terms are relative errors of δ, however small; they are bounded outcome by outcome, and added or taken off.

For parameters that are fixed before the first answer, and only for those: it is not a filter.

References: Zhu, Dong, Wang 2022, Theorem 10, https://arxiv.org/abs/2106.08567; for two losses ±ε it is Kairouz,
Oh, Viswanath 2015, Theorem 3.3, https://arxiv.org/abs/1311.0776; proof: docs/proofs/enumeration.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet.accounting.bounds import Bounds
from discreet.privacy.exact import first_whole
from discreet.privacy.law import AtomsLaw
from discreet.privacy.pair import FLOOR, Curve
from discreet.privacy.pairs.finite import FiniteLaw

MOST_OUTCOMES = 4_000_000
"""More outcomes than this are not gone through."""

_UNIT = 2.0**-52
_MASS = 2.0**-48  # how far a mass may be off, relatively; see `FiniteLaw`
_LOSS = 2.0**-44  # by how much a loss may exceed the truth, relatively
_SUM = 2.0**-46  # the rounding of a pairwise sum, and of the terms in it
_CUT = 1e-300  # relative to the likeliest: what is left out

Parts = Sequence[tuple[AtomsLaw, int]]
"""Laws of losses, each with the number of its uses. A law that is no `FiniteLaw` leaks what its masses leave to 1."""


def outcomes(parts: Parts) -> int:
    """Return how many tallies the composition can end in: what an answer costs."""
    return math.prod(math.comb(n + law.loss.size - 1, n) for law, n in parts if law.loss.size and n)


def epsilon_bounds(parts: Parts, delta: float) -> Bounds | None:
    """Bounds of the least ε ≥ 0 with δ(ε) ≤ delta; None when a loss is infinite too often for any ε.

    Raises:
        OverflowError: more than `MOST_OUTCOMES` outcomes.
    """
    table = _table(parts)
    upper = table.upper.least(delta)
    return None if upper is None else Bounds(min(table.lower.greatest(delta), upper), upper)


def delta_bounds(parts: Parts, epsilon: float) -> Bounds:
    """Bounds of δ(ε), for any real ε.

    Raises:
        OverflowError: more than `MOST_OUTCOMES` outcomes.
    """
    table = _table(parts)
    upper = min(table.upper.delta(epsilon) * (1 + _SUM), 1.0)
    return Bounds(min(table.lower.delta(epsilon) * (1 - _SUM), upper), upper)


@dataclass(frozen=True, slots=True, eq=False)
class _Curve:
    """One side of the truth: losses in rising order and their masses, all rounded to that side."""

    loss: Curve
    mass: Curve
    leak: float

    def delta(self, epsilon: float) -> float:
        first = int(np.searchsorted(self.loss, epsilon, side="right"))
        return self.leak + self._beyond(first, epsilon)

    def least(self, delta: float) -> float | None:
        """Return an ε ≥ 0 with δ(ε) ≤ delta, next to the least; None when there is none."""
        if not self.leak <= delta:
            return None
        if not self.loss.size:
            return 0.0
        rest = (delta - self.leak) * (1 - _UNIT)
        i = self._segment(rest, 1 + _SUM)
        # On the segment below this loss δ(ε) = beyond + slope·(1 − e^(ε − loss)); both are taken too large.
        share = (rest - self._beyond(i) * (1 + _SUM)) / (self._slope(i) * (1 + _SUM)) * (1 - 4 * _UNIT)
        # The formula ends where the segment does.
        found = max(self._below(i, share), float(self.loss[i - 1]) if i else -math.inf)
        return math.nextafter(found + 8 * _UNIT * self._scale(i, found), math.inf) if found > 0 else 0.0

    def greatest(self, delta: float) -> float:
        """Return an ε ≥ 0 below which δ exceeds delta, next to the greatest; 0 when there is none."""
        if not self.loss.size:
            return 0.0
        rest = max(delta - self.leak, 0.0) * (1 + _UNIT)
        i = self._segment(rest, 1 - _SUM)
        # Beyond the segment the formula is too low, so that its ε is below the truth there as well.
        share = (rest - self._beyond(i) * (1 - _SUM)) / (self._slope(i) * (1 - _SUM)) * (1 + 4 * _UNIT)
        found = self._below(i, share)
        return max(math.nextafter(found - 8 * _UNIT * self._scale(i, found), 0.0), 0.0) if found > 0 else 0.0

    def _segment(self, rest: float, factor: float) -> int:
        """Return the first loss at which δ, rounded by the factor, is at most leak + rest; at most the last."""
        return first_whole(lambda i: self._beyond(i) * factor <= rest, -1, self.loss.size - 1)

    def _below(self, i: int, share: float) -> float:
        """Return the ε with 1 − e^(ε − loss_i) = share."""
        return float(self.loss[i]) + math.log1p(-max(share, 0.0)) if share < 1 else -math.inf

    def _scale(self, i: int, found: float) -> float:
        """Return the size of what was added to find it."""
        return abs(found) + 2 * abs(float(self.loss[i]))

    def _beyond(self, i: int, epsilon: float | None = None) -> float:
        """δ − leak at an ε, if not at the loss i, where the losses from i on are those that exceed it."""
        x = self.loss[i] if epsilon is None else epsilon
        return float((self.mass[i:] * -np.expm1(x - self.loss[i:])).sum())

    def _slope(self, i: int) -> float:
        """Σ mass·e^(loss_i − loss) from i on."""
        return float((self.mass[i:] * np.exp(self.loss[i] - self.loss[i:])).sum())


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    lower: _Curve
    upper: _Curve


@dataclass(frozen=True, slots=True, eq=False)
class _Tallies:
    """Tallies with their summed losses, Σ|loss|, weights relative to the likeliest, and the errors of these."""

    loss: Curve
    size: Curve
    weight: Curve
    off: Curve

    def kept(self) -> _Tallies:
        """Those that matter."""
        few = self.weight > _CUT
        return self if few.all() else _Tallies(*(x[few] for x in self._columns()))

    def times(self, other: _Tallies) -> _Tallies:
        """Return the tallies of both together."""
        return _Tallies(
            np.add.outer(self.loss, other.loss).ravel(),
            np.add.outer(self.size, other.size).ravel(),
            np.multiply.outer(self.weight, other.weight).ravel(),
            np.add.outer(self.off, other.off).ravel() + _UNIT,
        ).kept()

    def in_order(self) -> _Tallies:
        order = np.argsort(self.loss, kind="stable")
        return _Tallies(*(x[order] for x in self._columns()))

    def _columns(self) -> tuple[Curve, Curve, Curve, Curve]:
        return self.loss, self.size, self.weight, self.off


def _table(parts: Parts) -> _Table:
    number = outcomes(parts)
    if number > MOST_OUTCOMES:
        raise OverflowError(f"{number:.3g} outcomes are more than can be gone through, {MOST_OUTCOMES}.")
    uses = [(law, n) for law, n in parts if n]
    lower_leak, upper_leak = _leaks(uses)
    if any(not law.loss.size for law, _ in uses):  # nothing but infinite losses
        nothing = np.zeros(0)
        return _Table(_Curve(nothing, nothing, lower_leak), _Curve(nothing, nothing, 1.0))
    joined = _Tallies(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1))
    for law, n in uses:
        joined = joined.times(_by_loss(law, n) if n >= law.loss.size else _by_use(law, n))
    terms = 4 + sum(2 * min(law.loss.size, n) + 1 for law, n in uses)  # adding 0 rounds nothing
    joined = joined.in_order()
    low, high = joined.weight * np.exp(-2 * joined.off), joined.weight * np.exp(2 * joined.off)
    # What was left out: tallies with less than the cut each, and less than FLOOR of mass of a law, in each use.
    out = 2 * (number - joined.weight.size) * _CUT
    missing = out / float(low.sum()) * (1 + _SUM) + sum(n for _, n in uses) * FLOOR
    rounding = terms * _UNIT * joined.size
    lower = _Curve(
        np.minimum.accumulate((joined.loss - rounding - _LOSS * joined.size)[::-1])[::-1],
        low * ((1 - upper_leak) / (float(high.sum()) + out) * (1 - _SUM)),
        lower_leak,
    )
    upper = _Curve(
        np.maximum.accumulate(joined.loss + rounding),
        high * ((1 - lower_leak) / float(low.sum()) * (1 + _SUM)),
        min(upper_leak + missing, 1.0),
    )
    return _Table(lower, upper)


def _by_loss(law: AtomsLaw, n: int) -> _Tallies:
    """Return how often each loss of the law came in n uses; the weights are Π λ_i^(n_i)/n_i!, up to a common factor."""
    share = law.mass / math.fsum(law.mass)
    left = np.array([n])
    found = _Tallies(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1))
    last = law.loss.size - 1
    # The likeliest loss takes what is left, so that few are gone through.
    order = np.argsort(share, kind="stable")
    for place, i in enumerate(order):
        loss = float(law.loss[i])
        start, weight, off = _powers(n, float(share[i]), abs(loss))
        if place == last:
            fits = (left >= start) & (left < start + weight.size)
            row, count = np.flatnonzero(fits), left[fits]
        else:
            room = np.clip(np.minimum(left + 1, start + weight.size) - start, 0, None)
            row = np.repeat(np.arange(left.size), room)
            count = start + np.arange(row.size) - np.repeat(np.cumsum(room) - room, room)
        grown = found.weight[row] * weight[count - start]
        few = grown > _CUT
        row, count = row[few], count[few]
        found = _Tallies(
            found.loss[row] + count * loss,
            found.size[row] + count * abs(loss),
            grown[few],
            found.off[row] + off[count - start] + _UNIT,
        )
        left = left[row] - count
    return found


def _by_use(law: AtomsLaw, n: int) -> _Tallies:
    """Return the same for fewer uses than losses: use after use, each with a loss that is not before the last one.

    The weights are n!/Π n_i! · Π mass_i^(n_i); the factor of a use is how many uses there are, over how often its
    loss came.
    """
    share = law.mass / math.fsum(law.mass)
    wrong = _MASS * (1 + np.abs(law.loss)) + 4 * _UNIT
    last, run = np.zeros(1, dtype=np.intp), np.zeros(1)
    found = _Tallies(np.zeros(1), np.zeros(1), np.ones(1), np.zeros(1))
    for use in range(1, n + 1):
        room = law.loss.size - last
        row = np.repeat(np.arange(last.size), room)
        atom = last[row] + np.arange(row.size) - np.repeat(np.cumsum(room) - room, room)
        again = np.where(atom == last[row], run[row] + 1, 1.0)
        grown = found.weight[row] * share[atom] * (use / again)
        few = grown > _CUT * 2.0**-n  # what is to come multiplies it by less than 2ⁿ
        row, atom, run = row[few], atom[few], again[few]
        last = atom
        found = _Tallies(
            found.loss[row] + law.loss[atom],
            found.size[row] + np.abs(law.loss[atom]),
            grown[few],
            found.off[row] + wrong[atom],
        )
    return found.kept()


def _powers(n: int, share: float, size: float) -> tuple[int, Curve, Curve]:
    """λ^j/j! for λ = n·share, relative to the largest, from the first j that matters on; and relative errors.

    They fall on both sides of the largest, so that those after the first below the cut are below it too.
    """
    rate = n * share
    mode = min(math.floor(rate), n)
    reach = math.ceil(math.sqrt(1400 * (rate + 1))) + 1400  # more than matter; see the proof
    up = np.cumprod(rate / np.arange(mode + 1.0, min(mode + reach, n) + 1))
    down = np.cumprod(np.arange(float(mode), max(mode - reach, 0), -1) / rate) if mode else np.zeros(0)
    up, down = up[up > _CUT], down[down > _CUT]
    weight = np.concatenate([down[::-1], [1.0], up])
    steps = np.abs(np.arange(weight.size) - float(down.size))
    return mode - down.size, weight, steps * (4 * _UNIT + _MASS * (1 + size))


def _leaks(uses: Parts) -> tuple[float, float]:
    """Bounds of the chance that any loss is infinite: 1 − Π(1 − leak)^n."""
    known = [(_leak(law), n) for law, n in uses]
    lower = -math.expm1(math.fsum(n * _log_rest(low) for (low, _), n in known))
    upper = -math.expm1(math.fsum(n * _log_rest(high) for (_, high), n in known))
    return max(lower * (1 - _SUM), 0.0), min(upper * (1 + _SUM), 1.0)


def _log_rest(leak: float) -> float:
    return math.log1p(-leak) if leak < 1 else -math.inf


def _leak(law: AtomsLaw) -> tuple[float, float]:
    rest, off = 1 - math.fsum(law.mass), (law.mass.size + 4) * _MASS
    if isinstance(law, FiniteLaw):
        assert abs(rest - law.leak) <= off  # or the law is of something else
        return law.leak * (1 - _MASS), law.leak
    return max(rest - off, 0.0), min(max(rest + off, 0.0), 1.0)
