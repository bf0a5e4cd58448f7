"""The public parameters of randomizers, checked at the door and exact from then on."""

from __future__ import annotations

from fractions import Fraction

from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, count, positive
from discreet.privacy.exact import read_confidence as read_confidence
from discreet.privacy.guarantee import decimal

_LEAST = Fraction(1, 10**6)
_LARGEST = Fraction(1000)
_MOST_USERS = 1 << 53


def read_epsilon(value: Real, name: str = "epsilon") -> Fraction:
    """Return the ε of one report: between 1e-6 and 1000, so that chances of 64 bits can show it."""
    x = positive(name, value)
    if not _LEAST <= x <= _LARGEST:
        raise InvalidParameter(
            f"{name} of one report must lie between 1e-6 and 1000, not {decimal(x)}.",
            hint="reports with a smaller ε say nothing about any number of users there could be",
        )
    return x


def read_users(users: int) -> int:
    """Return a number of users."""
    n = count("users", users)
    if n > _MOST_USERS:
        raise InvalidParameter("users must be at most 2^53.")
    return n
