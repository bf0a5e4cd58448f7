"""The exact table against sums of mpmath exponentials at 700 bits, at every border of every decision."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.noise.table import Decay, LazyUniform, Table, bell, exponential
from tests.noise.laws import MIXED, ONES, ZEROS, Script, lengthened, real, word

HALF = Fraction(1, 2)
ODD = Fraction(10**30 + 1, 3 * 10**29)
CASES: dict[str, tuple[Decay, Fraction, Fraction, int]] = {
    "laplace 1": (exponential(Fraction(1)), Fraction(1), HALF, 15),
    "laplace 20": (exponential(Fraction(20)), Fraction(1), HALF, 15),
    "laplace 1/300": (exponential(Fraction(1, 300)), Fraction(1), HALF, 15),
    "laplace odd": (exponential(ODD), Fraction(1), HALF, 15),
    "gaussian 1/10": (bell(Fraction(1, 100)), Fraction(1), HALF, 15),
    "gaussian odd": (bell(ODD), Fraction(1), HALF, 15),
    "cells of laplace 2^40": (exponential(Fraction(1 << 40)), Fraction(1 << 35), Fraction(1), 15),
    "cells of gaussian 10/3": (bell(Fraction(100, 9)), Fraction(1, 16), Fraction(1), 15),
    "scalar exponential": (exponential(Fraction(1)), Fraction(1, 16), Fraction(1), 0),
    "scalar normal": (bell(Fraction(1)), Fraction(1, 16), Fraction(1), 0),
}
PRECISION = 700
POSITIVE = st.fractions(Fraction(1, 10**6), 10**6).filter(lambda x: x > 0)


@cache
def table(name: str) -> Table:
    decay, step, first, prefix_bits = CASES[name]
    return Table(decay, step, first, prefix_bits=prefix_bits, tail_bits=40)


@cache
def chances(name: str) -> list[mpmath.mpf]:
    """P(c) for every component that is not smaller than 2^−500 of the first."""
    mpmath.mp.prec = PRECISION
    decay, step, first, _ = CASES[name]
    weights, c = [real(first)], 1
    while len(weights) < 2 or weights[-1] > mpmath.ldexp(1, -500):
        weights.append(mpmath.exp(-real(decay.rate) * (c * real(step)) ** decay.power))
        c += 1
    total = mpmath.fsum(weights)
    return [w / total for w in weights]


@cache
def thresholds(name: str) -> list[mpmath.mpf]:
    """P(residual component ≤ c)."""
    mpmath.mp.prec = PRECISION
    t, out, acc = table(name), [], mpmath.mpf(0)
    for c, p in enumerate(chances(name)):
        acc += mpmath.ldexp(p, t.prefix_bits) - (t.whole[c] if c < len(t.whole) else 0)
        out.append(acc / t.residual)
    return out


@settings(max_examples=50)
@given(rate=POSITIVE, step=POSITIVE, power=st.sampled_from([1, 2]), n=st.integers(0, 50), bits=st.integers(64, 300))
def test_heights_are_certified(rate: Fraction, step: Fraction, power: int, n: int, bits: int) -> None:
    decay = Decay(rate, power)
    heights, error = decay.heights(step, n, bits)
    with mpmath.workprec(bits + 400):
        for c, h in enumerate(heights):
            true = mpmath.ldexp(mpmath.exp(-real(decay.exponent(c * step))), bits)
            assert h <= true <= h + error


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.parametrize("n", [1, 2, 10, 200])
@pytest.mark.parametrize("name", CASES)
def test_the_rest_is_bounded(name: str, n: int) -> None:
    decay, step, _, _ = CASES[name]
    with mpmath.workprec(PRECISION):
        height = mpmath.ldexp(mpmath.exp(-real(decay.exponent(n * step))), 200)
        rest = mpmath.fsum(chances(name)[n + 1 :]) / chances(name)[1] * mpmath.exp(-real(decay.exponent(step)))
        least, most = decay.rest(step, n, 200, (int(mpmath.floor(height)), int(mpmath.ceil(height))))
        assert least <= mpmath.ldexp(rest, 200) <= most
        assert decay.power == 2 or most - least < 1 << 24


@given(rate=POSITIVE, step=POSITIVE, power=st.sampled_from([1, 2]), bits=st.integers(1, 300))
def test_reach_is_far_enough_and_not_much_too_far(rate: Fraction, step: Fraction, power: int, bits: int) -> None:
    decay = Decay(rate, power)
    n = decay.reach(step, bits)
    ln2 = mpmath.log(2)
    assert real(decay.exponent(n * step)) >= bits * ln2
    assert n <= 2 or real(decay.exponent((n - 2) * step)) <= bits * ln2 * 1.02


@given(width=st.fractions(Fraction(1, 10**9), 10**9).filter(lambda x: x > 0))
def test_width_is_found_to_the_power_of_two(width: Fraction) -> None:
    for decay in (exponential(width), bell(width * width)):
        assert Fraction(2) ** decay.width_log2() <= width < Fraction(2) ** (decay.width_log2() + 1)


@pytest.mark.parametrize("name", CASES)
def test_prefixes_never_exceed_a_chance_and_none_is_wasted(name: str) -> None:
    t = table(name)
    assert t.residual == (1 << t.prefix_bits) - sum(t.whole) >= 1
    if not t.prefix_bits:
        return
    for c, p in enumerate(chances(name)):
        owned = t.whole[c] if c < len(t.whole) else 0
        assert owned <= mpmath.ldexp(p, t.prefix_bits) < owned + 1


@pytest.mark.parametrize("name", CASES)
def test_every_threshold_is_below_the_true_one_by_less_than_two_units(name: str) -> None:
    t, true = table(name), thresholds(name)
    assert len(t._thresholds) == t.size + 1
    for word_, exact in zip(map(int, t._thresholds), true, strict=False):
        assert word_ <= mpmath.ldexp(exact, 64) < word_ + 2


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("pattern", [ZEROS, ONES, MIXED], ids=["zeros", "ones", "mixed"])
def test_words_at_every_kind_of_border_mean_the_right_component(name: str, pattern: bytes) -> None:
    t = table(name)
    borders = {int(t._thresholds[c]) for c in {0, 1, 2, t.size // 3, t.size - 1, t.size} if c <= t.size}
    for u in {b + d for b in borders for d in (-1, 0, 1, 2)} | {0, 1, (1 << 64) - 2, (1 << 64) - 1}:
        if not 0 <= u < 1 << 64:
            continue
        head = b"\xff" * 16 if pattern is not ONES else b"\xff" * 32 + ZEROS * 8  # no endless run of ones
        script = Script(head if u == (1 << 64) - 1 else b"", MIXED if u == (1 << 64) - 1 else pattern)
        index = t.pick(u, script)
        assert_means(name, *lengthened(u, 64, script.used), index)
        again = Script(word(u) + script.used)
        assert t.draw_residual(1, again).tolist() == [index]


@pytest.mark.parametrize("name", CASES)
def test_many_words_mean_what_single_words_mean(name: str) -> None:
    rng = np.random.default_rng(1)
    u = rng.integers(0, 1 << 64, 3000, dtype=np.uint64)
    found = table(name).draw_residual(len(u), Script(u.astype("<u8").tobytes()))
    for a, index in zip(map(int, u), found, strict=True):
        assert_means(name, a, 64, int(index))


@pytest.mark.parametrize("name", ["scalar normal", "laplace odd"])
def test_bounds_one_unit_lower_would_do_no_harm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # What is promised of a bound is t ≤ the true one < t + 2; those computed are tighter, so loosen them.
    original = Table._lower_bounds

    def loosened(self: Table, precision: int, sums: list[int], total: int) -> list[int]:
        return [max(0, t - 1) for t in original(self, precision, sums, total)]

    monkeypatch.setattr(Table, "_lower_bounds", loosened)
    decay, step, first, prefix_bits = CASES[name]
    t = Table(decay, step, first, prefix_bits=prefix_bits, tail_bits=40)
    for c in (0, 1, t.size // 3, t.size - 1):
        true = int(table(name)._thresholds[c])
        for u in (true - 1, true, true + 1):
            script = Script(pattern=MIXED)
            index = t.pick(u, script)
            assert_means(name, *lengthened(u, 64, script.used), index)
            assert t.draw_residual(1, Script(word(u) + script.used)).tolist() == [index]
        for behind in (-1, 0, 1):  # 128 digits, beside the threshold of that precision
            with mpmath.workprec(PRECISION):
                u = int(mpmath.ldexp(thresholds(name)[c], 128)) + behind
            long = LazyUniform(u, 128, Script(pattern=MIXED))
            index = t.resolve(long)
            assert_means(name, long.value, long.bits, index)


def test_the_far_tail_is_found_on_demand() -> None:
    t = table("scalar normal")
    u = LazyUniform((1 << 300) - 12345, 300, Script())
    index = t.resolve(u)
    assert index > t.size
    assert_means("scalar normal", u.value, u.bits, index)


def test_digits_once_drawn_are_kept() -> None:
    script = Script(word(7) + word(9))
    u = LazyUniform(5, 3, script)
    u.extend()
    u.extend()
    assert (u.value, u.bits) == (5 << 128 | 7 << 64 | 9, 131)


def test_the_reference_would_see_a_threshold_that_is_wrong() -> None:
    name = "scalar normal"
    for c in (0, 10, 40):
        u = int(table(name)._thresholds[c])
        with pytest.raises(AssertionError):
            assert_means(name, u + 2, 64, c)
        with pytest.raises(AssertionError):
            assert_means(name, u - 1, 64, c + 1)


def assert_means(name: str, u: int, bits: int, index: int) -> None:
    """CDF(index − 1) ≤ U < CDF(index) for every real U that starts with the digits u."""
    with mpmath.workprec(PRECISION):
        true = thresholds(name)
        assert index == 0 or true[index - 1] <= mpmath.ldexp(u, -bits)
        assert mpmath.ldexp(u + 1, -bits) <= true[index]


def test_thresholds_increase() -> None:
    for name in CASES:
        assert all(a <= b for a, b in pairwise(map(int, table(name)._thresholds)))
