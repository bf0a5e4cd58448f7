"""What is asked beside a question's text."""

from __future__ import annotations

from fractions import Fraction

import pytest

from discreet.engine.sql_recipe import epsilon_parameter, share_parameter
from discreet.errors import InvalidParameter


@pytest.mark.parametrize("x", [0.1, "1/3", Fraction(10**60 - 2, 10**60 - 1), "0." + "3" * 300, 5e-5])
def test_short_numbers_and_decimals_are_taken_as_they_are(x: float | str | Fraction) -> None:
    assert epsilon_parameter(x) == Fraction(str(x))


def test_a_tiny_delta_is_a_decimal() -> None:
    assert share_parameter("delta", 1e-300) == Fraction(1, 10**300)


def test_fractions_of_long_numbers_are_refused() -> None:
    """Forty such questions would make a sum that nobody could read again."""
    long = Fraction(2**220, 3**150)
    with pytest.raises(InvalidParameter, match=r"10\^60"):
        epsilon_parameter(long)
    with pytest.raises(InvalidParameter, match=r"10\^60"):
        share_parameter("delta", Fraction(1, 3**150))
