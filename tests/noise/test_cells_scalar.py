"""The lazy standard numbers behind scalar noise: every decision against mpmath, at its borders."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from discreet.noise.cells import Standard, floor_lazily, standard_exponential, standard_normal
from discreet.noise.table import LazyUniform, bell, exponential
from tests.noise.laws import MIXED, ONES, ZEROS, Script, real, word

LAWS = {"exponential": (standard_exponential, exponential(Fraction(1))), "normal": (standard_normal, bell(Fraction(1)))}
SCALES = [
    Fraction(1, 1000),
    Fraction(1, 10),
    Fraction(1),
    Fraction(16),
    Fraction(10**30 + 1, 3 * 10**29),
    Fraction(1 << 40),
    Fraction(10**40, 7),
]
WORDS = st.integers(0, (1 << 64) - 1)


def digits_of(scale: Fraction) -> int:
    """How many digits of the place are drawn at first."""
    log2 = max(0, scale.numerator.bit_length() - scale.denominator.bit_length() + 1)
    return 64 + (log2 + 7) // 8 * 8


def proposal(scale: Fraction, cell_word: int, u: int, sign: int, place: int) -> bytes:
    return word(cell_word) + word(u) + word(sign, 1) + word(place, digits_of(scale) // 8)


def word_for(law: str, cell: int) -> int:
    """A word that means this cell."""
    listed = LAWS[law][0]()._table._listed
    return (int(listed[cell - 1]) if cell else 0) // 2 + int(listed[cell]) // 2


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("halves", [0, 1])
@given(cell=st.integers(0, 90), place=st.integers(0, 1), sign=st.integers(0, 1), low=st.integers(0, (1 << 200) - 1))
def test_an_accepted_place_is_scaled_and_floored(
    law: str, scale: Fraction, halves: int, cell: int, place: int, sign: int, low: int
) -> None:
    digits = digits_of(scale)
    place = (place << digits - 1) | low % (1 << digits - 1)
    script = Script(proposal(scale, word_for(law, cell), 0, sign, place))
    value, drawn_sign = LAWS[law][0]().floor(scale, halves, script)
    x = (cell + Fraction(2 * place + 1, 2 << digits)) / 16
    assert value == math.floor(scale * x + Fraction(halves, 2))
    assert drawn_sign == sign


@pytest.mark.parametrize("law", LAWS)
@given(cell=st.integers(0, 90), place=WORDS, d=st.integers(-2, 2), pattern=st.sampled_from([ZEROS, ONES, MIXED]))
def test_acceptance_beside_the_curve_is_decided_rightly(
    law: str, cell: int, place: int, d: int, pattern: bytes
) -> None:
    standard, decay = LAWS[law][0](), LAWS[law][1]
    with mpmath.workprec(1000):
        border = int(mpmath.ldexp(ratio(decay.power, cell, place, 64), 64))
    u = min(max(border + d, 0), (1 << 64) - 1)
    height, where = (LazyUniform(u, 64, Script(pattern=pattern)), LazyUniform(place, 64, Script(pattern=pattern)))
    accepted = standard.accepts(cell, height, where)
    with mpmath.workprec(1000):
        if accepted:
            assert mpmath.ldexp(height.value + 1, -height.bits) <= ratio(decay.power, cell, where.value + 1, where.bits)
        else:
            assert mpmath.ldexp(height.value, -height.bits) >= ratio(decay.power, cell, where.value, where.bits)


@pytest.mark.parametrize("law", LAWS)
@given(cell=st.integers(0, 90), place=WORDS, u=WORDS)
def test_a_proposal_is_accepted_in_the_float_path_as_by_integers(law: str, cell: int, place: int, u: int) -> None:
    scale = Fraction(16)  # so that the value shows the cell
    standard = LAWS[law][0]()
    digits = digits_of(scale)
    following = proposal(scale, word_for(law, cell + 1), 0, 0, 0)
    script = Script(proposal(scale, word_for(law, cell), u, 1, place << digits - 64) + following)
    value, _ = standard.floor(scale, 0, script)
    exact = standard.accepts(cell, LazyUniform(u, 64, Script()), LazyUniform(place << digits - 64, digits, Script()))
    assert value == (cell if exact else cell + 1)


@pytest.mark.parametrize("law", LAWS)
def test_a_float_that_is_too_near_hands_over_to_integers(law: str) -> None:
    scale, cell = Fraction(16), 5
    digits = digits_of(scale)
    place = 0x9E3779B97F4A7C15
    with mpmath.workprec(300):
        border = int(mpmath.ldexp(ratio(LAWS[law][1].power, cell, place, 64), 64))
    for u, accepted in ((border - 2, True), (border + 2, False)):
        following = proposal(scale, word_for(law, cell + 1), 0, 0, 0)
        script = Script(proposal(scale, word_for(law, cell), u, 1, place << digits - 64) + following)
        value, sign = LAWS[law][0]().floor(scale, 0, script)
        assert (value, sign) == ((cell, 1) if accepted else (cell + 1, 0))


def ratio(power: int, cell: int, place: int, bits: int) -> mpmath.mpf:
    """f(x)/f(cell/16) at the place that the digits mean."""
    x = (cell + Fraction(place, 1 << bits)) / 16
    if power == 1:
        return mpmath.exp(-real(x - Fraction(cell, 16)))
    return mpmath.exp(-real(x * x - Fraction(cell, 16) ** 2) / 2)


@given(
    scale=st.fractions(Fraction(1, 1000), 10**30).filter(lambda s: s > 0),
    halves=st.integers(0, 1),
    cell=st.integers(0, 200),
    k=st.integers(0, 15),
    pattern=st.sampled_from([ONES, MIXED, bytes(7) + b"\x01"]),
)
@example(scale=Fraction(3), halves=0, cell=5, k=1, pattern=ONES)
def test_a_place_across_an_integer_gets_digits_until_it_is_decided(
    scale: Fraction, halves: int, cell: int, k: int, pattern: bytes
) -> None:
    # the place of an integer, or of a half-integer, with its first 16 digits only
    base = math.ceil(scale * cell / 16) + k
    at = (base - Fraction(halves, 2)) * 16 / scale - cell
    if not 0 <= at < 1:
        at = Fraction(k, 16)
    place = LazyUniform(math.floor(at * (1 << 16)), 16, Script(pattern=pattern))
    value = floor_lazily(scale, halves, cell, place)
    least = scale * (cell + Fraction(place.value, 1 << place.bits)) / 16 + Fraction(halves, 2)
    beyond = scale * (cell + Fraction(place.value + 1, 1 << place.bits)) / 16 + Fraction(halves, 2)
    assert value <= least < beyond <= value + 1


def test_a_place_across_an_integer_is_found_in_a_whole_draw() -> None:
    scale, cell = Fraction(10, 3), 9
    digits = digits_of(scale)
    at = Fraction(2) * 16 / scale - cell  # scale·x = 2 just there
    assert 0 < at < 1
    place = math.floor(at * (1 << digits))
    for pattern, value in ((ONES, 2), (ZEROS, 1)):
        script = Script(proposal(scale, word_for("exponential", cell), 0, 1, place), pattern)
        assert standard_exponential().floor(scale, 0, script) == (value, 1)
        assert len(script.used) == 17 + digits // 8 + 8


@pytest.mark.parametrize("law", LAWS)
def test_the_last_word_of_all_leads_into_the_far_tail(law: str) -> None:
    scale = Fraction(16)
    script = Script(proposal(scale, (1 << 64) - 1, 0, 0, 0) + b"\xff" * 8 + word(7))
    value, _ = LAWS[law][0]().floor(scale, 0, script)
    with mpmath.workprec(400):
        left = mpmath.ldexp((1 << 64) - 7, -192)
        standard: Standard = LAWS[law][0]()
        decay, n = LAWS[law][1], 4000
        weights = [mpmath.exp(-real(decay.exponent(Fraction(c, 16)))) for c in range(n)]
        total = mpmath.fsum(weights)
        assert mpmath.fsum(weights[value:]) / total >= left >= mpmath.fsum(weights[value + 1 :]) / total
    assert value > standard._table.size
