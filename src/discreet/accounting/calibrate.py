"""How much noise a promise needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, positive, probability

_WIDEST = 400  # doublings before giving up


def calibrate(
    family: Callable[[Fraction], PrivacyLoss],
    *,
    epsilon: Real,
    delta: Real = 0,
    start: Real = 1,
    tolerance: float = 1e-6,
) -> Fraction:
    """The least parameter of `family` that was found to meet (ε, δ), within `tolerance` of the least.

    Guarantee:
        `family` at the returned parameter is (ε, δ)-DP: exactly that value was evaluated, in exact arithmetic
        where the loss has any. This holds for every family. That it is nearly the *least* such parameter
        needs a loss that never grows with it, as with a noise multiplier or a scale. (The discrete
        Gaussian's δ at one ε does grow with σ in places; so a larger parameter is to be asked again.)

    Args:
        family: the loss at a parameter above 0, decreasing in it.
        epsilon: the ε to meet, above 0.
        delta: the δ to meet.
        start: where the search begins; a good guess saves evaluations.
        tolerance: how far above the least parameter the answer may lie, relatively.

    Raises:
        InvalidParameter: no parameter meets it, or `family` has no finite ε at that δ.

    >>> from discreet.accounting import gaussian
    >>> float(calibrate(gaussian, epsilon=1, delta=1e-5))
    3.73063...
    """
    digits = max(8, math.ceil(-math.log10(tolerance)) + 2)
    wanted, d = positive("epsilon", epsilon), probability("delta", delta)

    def excess(log_parameter: float) -> tuple[float, Fraction]:
        """log(ε/wanted), at most 0 exactly when the promise is met, and the parameter as it was evaluated."""
        x = Fraction(
            f"{math.exp(log_parameter):.{digits}e}"
        )  # short, and what is returned is what was evaluated
        found = family(x).guarantee(d).epsilon
        if found <= wanted:
            return min(_log(found / wanted), 0.0), x
        return max(_log(found / wanted), 1e-300), x

    low, at_low, high, at_high, best = _bracket(excess, _log(positive("start", start)))
    # Illinois: regula falsi that halves the value of an end that was kept twice, so that neither end sticks.
    kept = ""
    for _ in range(100):
        if high - low <= tolerance:
            break
        root = high - at_high * (high - low) / (at_high - at_low)
        if high - root <= 0.8 * tolerance:  # all that is missing is a miss close below
            middle = high - 0.9 * tolerance
        elif root - low <= 0.8 * tolerance:
            middle = low + 0.9 * tolerance
        else:
            middle = root + 0.3 * tolerance  # more often than not on the safe side
        value, x = excess(middle)
        if value <= 0:
            high, at_high, best = middle, value, x
            at_low, kept = (at_low / 2 if kept == "low" else at_low), "low"
        else:
            low, at_low = middle, value
            at_high, kept = (at_high / 2 if kept == "high" else at_high), "high"
    return best


def _bracket(
    excess: Callable[[float], tuple[float, Fraction]], start: float
) -> tuple[float, float, float, float, Fraction]:
    """The logarithms of a parameter that misses the promise and of one that meets it, a factor 2 apart."""
    at, (value, x) = start, excess(start)
    step = math.log(2)
    for _ in range(_WIDEST):
        if value <= 0:
            below_value, below_x = excess(at - step)
            if below_value > 0:
                return at - step, below_value, at, value, x
            at, value, x = at - step, below_value, below_x
        else:
            above_value, above_x = excess(at + step)
            if above_value <= 0:
                return at, value, at + step, above_value, above_x
            at, value = at + step, above_value
    raise InvalidParameter(
        "no parameter of this family meets the promise.",
        hint="the loss has to fall below epsilon as the parameter grows, and to exceed it as it shrinks",
    )


def _log(x: Fraction) -> float:
    return math.log(x.numerator) - math.log(x.denominator) if x > 0 else -700.0
