"""Enclosures of exp(−x) and ln x hold against mpmath at far higher precision, and are narrow."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from discreet.noise import fixedpoint
from tests.noise.reals import of_numpy

PRECISION = st.integers(1, 400)
HUGE = st.builds(Fraction, st.integers(0, 1 << 900), st.integers(1, 1 << 900))
NEAR = st.builds(
    lambda n, d, k: Fraction(n, d) + k, st.integers(0, 1 << 80), st.integers(1 << 70, 1 << 90), st.integers(0, 400)
)


def reference(function: str, x: Fraction, bits: int) -> mpmath.mpf:
    """2^bits·f(x), correct to far more than the last bit."""
    mpmath.mp.prec = bits + 2200
    value = mpmath.mpf(x.numerator) / x.denominator
    return mpmath.ldexp(mpmath.exp(-value) if function == "exp_neg" else mpmath.log(value), bits)


@settings(deadline=None)
@given(x=st.one_of(HUGE, NEAR, st.fractions(0, 300)), bits=PRECISION)
@example(x=Fraction(0), bits=1)
@example(x=Fraction(1, 1 << 5000), bits=64)
@example(x=Fraction(63) + Fraction(1, 3), bits=64)
@example(x=Fraction(64 * 10**400 - 1, 10**400), bits=64)
def test_exp_neg_is_enclosed_within_two(x: Fraction, bits: int) -> None:
    lo, hi = fixedpoint.exp_neg(x, bits)
    assert 0 <= lo <= reference("exp_neg", x, bits) <= hi <= 1 << bits
    assert hi - lo <= 2


@settings(deadline=None)
@given(x=st.one_of(HUGE, NEAR, st.fractions(0, 300)).filter(bool), bits=PRECISION)
@example(x=Fraction(1), bits=1)
@example(x=Fraction(1 << 5000), bits=64)
@example(x=Fraction(1, 1 << 5000), bits=64)
@example(x=1 + Fraction(1, 1 << 1000), bits=64)
@example(x=1 - Fraction(1, 1 << 1000), bits=64)
@example(x=Fraction(2), bits=100)
@example(x=2 - Fraction(1, 1 << 300), bits=100)
def test_ln_is_enclosed_within_two(x: Fraction, bits: int) -> None:
    lo, hi = fixedpoint.ln(x, bits)
    assert lo <= reference("ln", x, bits) <= hi
    assert hi - lo <= 2


@pytest.mark.parametrize("bits", [1, 64, 1000, 5000])
def test_high_precision_is_enclosed_too(bits: int) -> None:
    for x in (Fraction(1, 7), Fraction(22, 7), Fraction(bits) * Fraction(99, 100)):
        lo, hi = fixedpoint.exp_neg(x, bits)
        assert lo <= reference("exp_neg", x, bits) <= hi <= lo + 2
        lo, hi = fixedpoint.ln(x, bits)
        assert lo <= reference("ln", x, bits) <= hi <= lo + 2


def test_exact_values_are_exact() -> None:
    assert fixedpoint.exp_neg(Fraction(0), 64) == (1 << 64, 1 << 64)
    assert fixedpoint.ln(Fraction(1), 64) == (0, 0)


def test_a_vanishing_exponential_costs_nothing() -> None:
    assert fixedpoint.exp_neg(Fraction(10**4000), 64) == (0, 1)
    assert fixedpoint.exp_neg(Fraction(64), 64) == (0, 1)


def test_a_ratio_need_not_be_in_lowest_terms() -> None:
    assert fixedpoint.ln_ratio(6, 4, 64) == fixedpoint.ln(Fraction(3, 2), 64)


def test_fractions_of_integers_of_numpy_do_not_wrap() -> None:
    x = of_numpy(2**62, 2**61 - 1)
    assert fixedpoint.exp_neg(x, 64) == fixedpoint.exp_neg(Fraction(2**62, 2**61 - 1), 64)
    assert fixedpoint.ln(x, 64) == fixedpoint.ln(Fraction(2**62, 2**61 - 1), 64)


def test_arguments_outside_the_domain_are_refused() -> None:
    with pytest.raises(ValueError, match="x ≥ 0"):
        fixedpoint.exp_neg(Fraction(-1, 10), 64)
    for x in (Fraction(0), Fraction(-1)):
        with pytest.raises(ValueError, match="x > 0"):
            fixedpoint.ln(x, 64)
    with pytest.raises(ValueError, match="bits"):
        fixedpoint.exp_neg(Fraction(1), 0)
    with pytest.raises(ValueError, match="bits"):
        fixedpoint.ln(Fraction(1), 0)


def test_the_reference_would_notice_an_enclosure_moved_by_its_width() -> None:
    for x in (Fraction(1, 3), Fraction(5), Fraction(40)):
        for bits in (64, 200):
            for function, enclose in (("exp_neg", fixedpoint.exp_neg), ("ln", fixedpoint.ln)):
                lo, hi = enclose(x, bits)
                assert not lo + 3 <= reference(function, x, bits) <= hi + 3
