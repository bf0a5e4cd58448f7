"""The trade-off curve: which error an attacker has to accept for the other (f-DP).

Each (ε, δ) that holds gives two straight lines that the curve cannot go below, so any finite choice of ε is
sound, and a good one is nearly exact. Proofs: docs/proofs/questions.md
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import overload

import numpy as np

from discreet.accounting.bounds import Loss
from discreet.accounting.engines.closed import known_mu_squared
from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, above, below, exact
from discreet.privacy.pair import Curve

_POINTS = 49  # of ε for an array; an error of the order of their distance squared
_MANY = 257  # where a point costs next to nothing
_CLOSED = 17  # of which closed forms are asked as well
_FEW = 8  # levels that are each optimised
_ROUNDS = 22  # evaluations for one level, at most
_LARGEST = 700.0  # beyond it e^ε leaves the range of floats
_SLACK = 2.0**-50  # a few roundings of terms of at most 1 + e^ε·α


@overload
def tradeoff(loss: Loss, alpha: Real) -> float: ...
@overload
def tradeoff(loss: Loss, alpha: Curve) -> Curve: ...
def tradeoff(loss: Loss, alpha: Real | Curve) -> float | Curve:
    """Return the least type II error that any test of level α has: the chance to miss a unit that is in the data.

    Guarantee:
        A lower bound, rounded down, for tests between any two neighbours' outputs, either way round. Over one
        array it is non-increasing and convex. For Gaussian losses it is the curve itself; else the largest of
        the curve of a known μ (see `gdp`) and of the lines at finitely many ε, which are chosen for each of up
        to eight levels and shared by the levels of a longer array.

    Raises:
        InvalidParameter: a level outside [0, 1].

    References: Dong, Roth, Su 2019, section 2, https://arxiv.org/abs/1905.02383, after Wasserman, Zhou 2010,
    https://arxiv.org/abs/0811.2501; docs/proofs/questions.md
    """
    if not isinstance(alpha, np.ndarray):
        return float(_errors(loss, np.array([_level(alpha)]))[0])
    levels = np.asarray(alpha, dtype=np.float64)
    if not bool(((levels >= 0) & (levels <= 1)).all()):
        raise InvalidParameter("every alpha must lie in [0, 1].")
    return _errors(loss, levels.ravel()).reshape(levels.shape)


def _level(alpha: Real) -> float:
    level = exact("alpha", alpha)
    if not 0 <= level <= 1:
        raise InvalidParameter(f"alpha must lie in [0, 1], not {alpha}.", hint="it is the level of a test")
    return above(level)  # the error falls with the level


def _errors(loss: Loss, levels: Curve) -> Curve:
    if levels.size == 0:
        return levels.copy()
    if loss.mu_squared is not None:
        return _gaussian(above(loss.mu_squared), levels)
    curve = _Curve(loss, levels)
    if levels.size <= _FEW:
        for level in np.unique(levels[(levels > 0) & (levels < 1)]):
            curve.optimise(float(level))
    else:
        curve.fill()
    curve.ask_closed_forms()
    found = curve.lines(levels)
    mu_squared = None if loss.failure else known_mu_squared(loss.events)
    if mu_squared is not None:
        found = np.maximum(found, _gaussian(above(mu_squared), levels))
    # With no false alarm only what is spent apart can be told; the bound for α > 0 holds there as well.
    certain = max(1 - above(loss.failure), 0.0)
    return np.where(levels == 0, np.maximum(found, certain * (1 - _SLACK) if loss.failure else 1.0), found)


def _gaussian(mu_squared: float, levels: Curve) -> Curve:
    """Φ(Φ⁻¹(1 − α) − μ), with the errors of both functions taken off."""
    from scipy import special

    mu = math.sqrt(mu_squared) * (1 + 2.0**-52)
    # From the smaller of α and 1 − α, which is exact.
    z = np.where(levels <= 0.5, -special.ndtri(levels), special.ndtri(1 - levels))
    x = np.clip(z - mu, -1e3, 1e3)
    found = special.ndtr(x) * np.maximum(1 - 1e-14 * (1 + np.square(np.abs(x) + mu)), 0.0)
    return np.where(levels == 0, 1.0, np.where(levels == 1, 0.0, np.minimum(found, 1 - levels)))


class _Curve:
    """What is known so far of δ(ε), and the lines that follow from it."""

    def __init__(self, loss: Loss, levels: Curve) -> None:
        self.loss = loss
        self.known: dict[float, float] = {}
        inner = np.minimum(levels, 1 - levels)
        inner = inner[inner > 0]
        least = float(inner.min()) if inner.size else 1e-3
        pure = _sum_of_pure(loss)
        small = Fraction(max(least * 1e-3, 1e-15))
        self.curve = _upper_curve(loss, small)
        farthest = _farthest(loss, small) if self.curve is None else _fallen(self.curve, loss.failure + small)
        self.top = min(farthest, pure, _LARGEST)
        for epsilon in (0.0, self.top, pure):
            if epsilon <= _LARGEST:
                self.delta(epsilon)

    def delta(self, epsilon: float) -> float:
        if epsilon not in self.known:
            self.known[epsilon] = self._delta(epsilon)
        return self.known[epsilon]

    def _delta(self, epsilon: float) -> float:
        if self.curve is None:
            return self.loss.delta(Fraction(epsilon))
        if self.loss.pure_apart is not None and self.loss.pure_apart <= Fraction(epsilon):
            return above(min(self.loss.failure, Fraction(1)))
        return self.curve(epsilon)

    def fill(self) -> None:
        """Enough points for an array of levels."""
        for epsilon in np.linspace(0.0, self.top, _POINTS if self.curve is None else _MANY):
            self.delta(float(epsilon))

    def ask_closed_forms(self) -> None:
        """Ask the closed forms: those of a class of uses may say more than the composition of its largest curve."""
        if self.curve is None:  # they were asked
            return
        from discreet.accounting.engines.closed import deltas

        for epsilon in list(self.known)[:: max(len(self.known) // _CLOSED, 1)]:
            closed = (delta for delta, _ in deltas(self.loss.events, Fraction(epsilon)))
            self.known[epsilon] = min(self.known[epsilon], *closed)

    def optimise(self, level: float) -> None:
        """Look where the best line at this level is; on the curve's steep half its slope is −e^ε, else −e^−ε."""
        from scipy import optimize

        if not self.top:
            return
        steep = level < (1 - self.delta(0.0)) / 2

        def missed(epsilon: float) -> float:
            delta = self.delta(float(epsilon))
            return -(1 - delta - math.exp(epsilon) * level if steep else math.exp(-epsilon) * (1 - delta - level))

        optimize.minimize_scalar(
            missed, bounds=(0.0, self.top), method="bounded", options={"xatol": self.top * 1e-4, "maxiter": _ROUNDS}
        )

    def lines(self, levels: Curve) -> Curve:
        """Return the largest of the lines at each level, rounded down, and at least 0."""
        best = np.zeros_like(levels)
        for epsilon, delta in self.known.items():
            grown = math.exp(epsilon) * (1 + _SLACK)
            steep = 1 - delta - grown * levels
            flat = (1 - delta - levels) / grown
            best = np.maximum(best, np.maximum(steep - _SLACK * (1 + grown * levels), flat - _SLACK / grown))
        return best


def _farthest(loss: Loss, small: Fraction) -> float:
    """Return an ε beyond which no line matters at levels far above `small`."""
    apart = loss.failure + small
    return loss.epsilon(apart) if apart < 1 else 0.0


def _upper_curve(loss: Loss, small: Fraction) -> Callable[[float], float] | None:
    """All of δ(ε) at once, where one engine's run for each point would take long."""
    from discreet.accounting.engines.choice import upper_curve

    apart = loss.failure + small
    return upper_curve(loss.events, below(apart)) if apart < 1 else None


def _fallen(curve: Callable[[float], float], delta: Fraction) -> float:
    """About the least ε at which the curve has fallen to δ."""
    low, high = 0.0, _LARGEST
    if curve(0.0) <= delta:
        return 0.0
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if curve(middle) <= delta else (middle, high)
    return high


def _sum_of_pure(loss: Loss) -> float:
    """Return the sum of the events' ε, whatever is spent apart; infinite when an event is not pure."""
    return math.inf if loss.pure_apart is None else above(loss.pure_apart)
