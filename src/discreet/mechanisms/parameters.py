"""The public parameters of mechanisms, checked at the door and exact from then on."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction
from types import MappingProxyType

from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, count, exact, positive
from discreet.privacy.exact import read_confidence as read_confidence

_LARGEST = Fraction(10**24)
_SMALLEST_DELTA = Fraction(1, 10**280)  # below it a float bound of a tail says nothing
_HINTS = MappingProxyType(
    {
        "epsilon": "epsilon=1; at 0 a result could say nothing about the data",
        "sensitivity": "give values a public range first: one unit then changes a sum by no more than its ends allow",
    }
)


def read_size(name: str, value: Real) -> Fraction:
    """Return an ε, a sensitivity or a width of noise: between 1e-24 and 1e24, so that reports of it fit in floats."""
    try:
        x = positive(name, value)
    except InvalidParameter as refused:
        if refused.hint or name not in _HINTS:
            raise
        raise InvalidParameter(refused.message, hint=_HINTS[name]) from None
    if not 1 / _LARGEST <= x <= _LARGEST:
        raise InvalidParameter(f"{name} must lie between 1e-24 and 1e24.", hint="use other units for the value")
    return x


def read_whole(name: str, value: Real) -> Fraction:
    """Return a size that must be an integer."""
    x = read_size(name, value)
    if x.denominator != 1:
        raise InvalidParameter(
            f"{name} must be an integer, since the values are, not {value}.",
            hint="use Laplace for numbers that are not integers, PermuteAndFlip for such utilities",
        )
    return x


def read_dimension(value: int | None) -> int | None:
    """Return how many numbers an array holds; None where it has not been said."""
    return None if value is None else count("dimension", value)


def read_delta(value: Real, *, hint: str) -> Fraction:
    """Return a δ strictly between 0 and 1."""
    d = exact("delta", value)
    if not 0 < d < 1:
        raise InvalidParameter(f"delta must lie between 0 and 1, not {value}.", hint=hint)
    if d < _SMALLEST_DELTA:
        raise InvalidParameter("delta must be at least 1e-280.", hint=hint)
    return d


def read_guarantee(
    name: str, epsilon: Real | None, delta: Real | None, sigma: Real | None
) -> tuple[Fraction, Fraction] | None:
    """(ε, δ) as asked, or None where σ was given instead."""
    if sigma is not None:
        if epsilon is not None or delta is not None:
            raise InvalidParameter("give either epsilon and delta, or sigma.", hint=f"{name}(sigma=2)")
        return None
    if epsilon is None or delta is None:
        raise InvalidParameter(
            f"{name} needs epsilon and delta, or sigma.", hint=f"{name}(epsilon=0.5, delta=1e-6); without δ use Laplace"
        )
    return read_size("epsilon", epsilon), read_delta(delta, hint="take delta=1e-6; without δ use Laplace")


def read_choice(name: str, value: object, choices: Collection[str]) -> str:
    """One of a few names."""
    if not isinstance(value, str) or value not in choices:
        quoted = [repr(c) for c in choices]
        listed = " or ".join(quoted) if len(quoted) == 2 else f"one of {', '.join(quoted)}"
        given = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
        raise InvalidParameter(f"{name} must be {listed}, not {given}.", hint=f"{name}={quoted[0]}")
    return value


def read_flag(name: str, value: bool) -> bool:
    """Return a choice that is True or False, and no number or text that stands for one."""
    if not isinstance(value, bool):
        raise InvalidParameter(f"{name} must be True or False, not {value!r}.")
    return value
