"""What is asked beside a question's text: how much it may cost, and what is to be chosen privately for it."""

from __future__ import annotations

from fractions import Fraction

from discreet.errors import InvalidParameter
from discreet.plan.least import LEAST_EPSILON
from discreet.privacy.exact import Real, positive, probability

_LONG = 10**60

_DECIMALS = 10**800
"""What the denominator of each decimal divides that is read: all decimals together have one denominator."""


def bounds_asked(bounds: str | None) -> str | None:
    """What a first stage chooses: "auto", "values", or nothing.

    Raises:
        InvalidParameter: anything else.
    """
    if bounds not in (None, "auto", "values"):
        raise InvalidParameter(
            f"bounds must be 'auto' or 'values' or left out, not {bounds!r:.60}.",
            hint="caps are declared with dp.PrivacyUnit(column, max_groups=…, max_rows=…), bounds with dp.Range",
        )
    return bounds


def epsilon_asked(epsilon: Real | None) -> Fraction:
    """The ε that a question may cost.

    Raises:
        InvalidParameter: none, or too little for any answer.
    """
    if epsilon is None:
        raise InvalidParameter(
            "A question needs epsilon=: what it may cost.",
            hint="epsilon=0.5, or epsilon=session.plan(sql, error={'n': 50}).epsilon for a wanted error",
        )
    x = _short("epsilon", positive("epsilon", epsilon))
    if x < LEAST_EPSILON:
        raise InvalidParameter(
            f"epsilon must be at least {float(LEAST_EPSILON):g}, not {epsilon!s:.40}.",
            hint="so little ε is drowned by its noise: over a million times what one person can change",
        )
    return x


def share_asked(name: str, share: Real) -> Fraction:
    """The δ that a question may cost, or the share of its ε that one part of it may.

    Raises:
        InvalidParameter: not in [0, 1), or a fraction of very long numbers.
    """
    return _short(name, probability(name, share))


def _short(name: str, x: Fraction) -> Fraction:
    """A number that can be added up with many others: of fractions with long denominators, the sum soon is too long."""
    if max(x.numerator, x.denominator) >= _LONG and _DECIMALS % x.denominator:
        raise InvalidParameter(
            f"{name} must be a decimal, or a fraction of numbers below 10^60: sums of others grow too long.",
            hint=f"give {name}=0.5 or {name}='1/3'",
        )
    return x
