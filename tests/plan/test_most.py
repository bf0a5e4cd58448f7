from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.plan.least import most


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=20), st.fractions(min_value=1, max_value=1000))
def test_the_most_fits_and_a_percent_more_does_not(limit: Fraction, times: Fraction) -> None:
    found = most(lambda epsilon: epsilon <= limit, limit * times)
    if found is None:
        assert limit * times <= Fraction(1, 10**6)
        return
    assert found <= limit
    assert found * Fraction(103, 100) >= limit or found == Fraction(1, 10**6)


@pytest.mark.parametrize(("limit", "shown"), [("0.2", "0.2"), ("1/3", "0.333"), ("12.3456", "12.3")])
def test_it_is_told_in_three_digits(limit: str, shown: str) -> None:
    found = most(lambda epsilon: epsilon <= Fraction(limit), Fraction(50))
    assert found is not None
    assert abs(found - Fraction(shown)) <= Fraction(shown) / 100
    assert len(f"{float(found):g}".replace(".", "").lstrip("0")) <= 3


def test_nothing_is_told_when_nothing_fits() -> None:
    assert most(lambda epsilon: False, Fraction(1)) is None


def test_each_look_is_cheap() -> None:
    looks = list[Fraction]()

    def fits(epsilon: Fraction) -> bool:
        looks.append(epsilon)
        return epsilon <= Fraction(1, 50)

    most(fits, Fraction(20))
    assert len(looks) <= 26
