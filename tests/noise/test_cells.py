"""The cells of vector noise: what every word means, how far a float errs, and every exact path."""

from __future__ import annotations

import math
import threading
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.noise import cells as module
from discreet.noise.cells import Cells, Target, cells
from discreet.noise.entropy import SystemEntropy
from discreet.noise.table import Decay, LazyUniform, bell, exponential
from tests.noise.laws import MIXED, ONES, ZEROS, Script, lengthened, real, word

INTEGERS, ROUNDED = Target.INTEGERS, Target.ROUNDED
CASES: dict[str, tuple[Decay, Target]] = {
    "laplace 128": (exponential(Fraction(128)), INTEGERS),
    "laplace 1000/3": (exponential(Fraction(1000, 3)), INTEGERS),
    "laplace 2^56": (exponential(Fraction(1 << 56)), INTEGERS),
    "discrete 300": (bell(Fraction(90001)), INTEGERS),
    "discrete 2^56": (bell(Fraction(1 << 112)), INTEGERS),
    "rounded 1/10": (bell(Fraction(1, 100)), ROUNDED),
    "rounded 10/3": (bell(Fraction(100, 9)), ROUNDED),
    "rounded 20": (bell(Fraction(400)), ROUNDED),
    "rounded 40": (bell(Fraction(1600)), ROUNDED),
    "rounded 100": (bell(Fraction(10000)), ROUNDED),
    "rounded 10^6": (bell(Fraction(10**12)), ROUNDED),
    "rounded 2^56": (bell(Fraction(1 << 112)), ROUNDED),
}
PLAIN = {"laplace 10": (exponential(Fraction(10)), INTEGERS), "discrete 10": (bell(Fraction(100)), INTEGERS)}
PRECISION = 1000
WORDS = st.integers(0, (1 << 64) - 1)


def width(sampler: Cells) -> Fraction:
    return Fraction(2) ** sampler._width_log2


def value_at(target: Target, minus: int, x: Fraction) -> int:
    """The value whose place on its half line is x, from the definition of each law."""
    if target is INTEGERS:
        return -math.floor(x) - 1 if minus else math.floor(x)
    return -math.floor(x + Fraction(1, 2)) if minus else math.floor(x + Fraction(1, 2))


def height(decay: Decay, x: Fraction) -> mpmath.mpf:
    return mpmath.exp(-real(decay.exponent(x)))


@pytest.mark.parametrize("name", CASES)
def test_cells_are_a_power_of_two_near_a_hundredth_of_the_scale(name: str) -> None:
    decay, target = CASES[name]
    sampler = cells(decay, target)
    scale = 1 / decay.rate if decay.power == 1 else Fraction(1)
    if decay.power == 1:
        assert scale / 128 < width(sampler) <= scale / 64
    else:
        assert 1 / (2 * decay.rate) / 128**2 < width(sampler) ** 2 <= 1 / (2 * decay.rate) / 64**2
    assert not sampler._plain


@pytest.mark.parametrize("name", CASES)
def test_every_word_of_a_rectangle_spans_exactly_the_values_of_its_cell(name: str) -> None:
    decay, target = CASES[name]
    sampler = cells(decay, target)
    whole, w = sampler._table.whole, width(sampler)
    assert int(sampler._sure_end) == 2 * sum(whole[1:])
    assert int(sampler._wedge_end) == 2 * sum(whole)
    post = sampler._shift if sampler._offset_bits else 0
    first = sampler._entries[: int(sampler._sure_end)] >> post
    last = sampler._entries[: int(sampler._sure_end)] + ((1 << sampler._offset_bits) - 1) >> post
    at, tiny = 0, Fraction(1, 1 << 400)
    for c, count in enumerate(whole[1:]):
        for minus in (0, 1):
            ends = sorted((value_at(target, minus, c * w), value_at(target, minus, (c + 1) * w - tiny)))
            words = slice(at + minus, at + 2 * count, 2)
            assert (first[words] == ends[0]).all()
            assert (last[words] == ends[1]).all()
        at += 2 * count
    # A uniform offset then gives every place of the cell the same chance: 2^offset_bits of them, `post` finer
    # than the integers, of which each rounded value has two (or one at the border of two cells).
    assert Fraction(1 << sampler._offset_bits, 1 << sampler._shift) == w or not sampler._offset_bits


@pytest.mark.parametrize("name", PLAIN)
def test_every_word_of_a_small_scale_means_its_integer(name: str) -> None:
    sampler = cells(*PLAIN[name])
    whole = sampler._table.whole
    sure = sampler._entries[: int(sampler._sure_end)]
    assert len(sure) == int(sampler._wedge_end) == 2 * sum(whole)
    for k in range(-len(whole), len(whole) + 1):
        owned = (2 if k == 0 else 1) * whole[abs(k)] if abs(k) < len(whole) else 0
        assert int((sure == k).sum()) == owned


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CASES)
def test_the_float_estimate_is_right_to_2_to_the_minus_44_in_every_cell(name: str) -> None:
    decay, target = CASES[name]
    sampler = cells(decay, target)
    places = [0, 0xDEADBEEF12345678, (1 << 64) - 1]
    count = len(sampler._levels) + 1
    with mpmath.workprec(120):
        for f in places:
            for minus in (0, 1) if target is INTEGERS else (0,):
                estimate = sampler._estimate(
                    np.arange(count), np.full(count, f, np.uint64), np.full(count, minus, np.int64)
                )
                for c in range(count):
                    x = place_of(sampler, target, c, minus, f, 64)
                    assert abs(real_of(estimate[c]) - height(decay, x)) < mpmath.ldexp(1, -44)


def place_of(sampler: Cells, target: Target, cell: int, minus: int, f: int, bits: int) -> Fraction:
    """The least place with these digits; |value| itself for integers."""
    if target is ROUNDED:
        return (cell + Fraction(f, 1 << bits)) * width(sampler)
    return math.floor((cell + Fraction(f, 1 << bits)) * width(sampler)) + Fraction(minus)


def real_of(x: np.float64) -> mpmath.mpf:
    return mpmath.mpf(float(x))


@pytest.mark.parametrize("name", CASES)
def test_levels_are_below_the_true_ones_by_less_than_two_units(name: str) -> None:
    decay, target = CASES[name]
    sampler = cells(decay, target)
    n = len(sampler._levels)
    assert n == sampler._table.size
    with mpmath.workprec(300):
        for c, level in zip(range(n, 0, -1), map(int, sampler._levels), strict=True):
            assert level <= mpmath.ldexp(height(decay, c * width(sampler)), 64) < level + 2


def assert_settled(name: str, minus: int, v: LazyUniform, place: LazyUniform, value: int | None) -> None:
    """The value is right for every pair of reals that start with these digits."""
    decay, target = CASES[name]
    sampler = cells(decay, target)
    with mpmath.workprec(PRECISION + v.bits):
        low, high = mpmath.ldexp(v.value, -v.bits), mpmath.ldexp(v.value + 1, -v.bits)
        exponent = -mpmath.log(low) / real(decay.exponent(width(sampler)))
        cell = int(mpmath.floor(exponent if decay.power == 1 else mpmath.sqrt(exponent)))
        if low == height(decay, cell * width(sampler)) and cell:
            cell -= 1
        near = place_of(sampler, target, cell, minus, place.value, place.bits)
        far = near
        if target is ROUNDED:
            far = place_of(sampler, target, cell, minus, place.value + 1, place.bits)
        if value is None:
            assert low >= height(decay, near)
            return
        assert high <= height(decay, far)
        assert high <= height(decay, cell * width(sampler))
        assert low >= height(decay, (cell + 1) * width(sampler))
        inside = (cell + Fraction(2 * place.value + 1, 2 << place.bits)) * width(sampler)
        assert value == value_at(target, minus, inside)


@settings(max_examples=60)
@given(name=st.sampled_from([*CASES]), minus=st.integers(0, 1), v=WORDS, f=WORDS, small=st.integers(0, 60))
def test_any_height_and_place_are_settled_rightly(name: str, minus: int, v: int, f: int, small: int) -> None:
    height_, place = LazyUniform(v >> small, 64, Script()), LazyUniform(f, 64, Script())
    try:
        value = cells(*CASES[name]).settle(minus, height_, place)
    except OverflowError:
        assert "2^56" in name
        assert small > 40
        return
    assert_settled(name, minus, height_, place, value)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("pattern", [ZEROS, ONES, MIXED], ids=["zeros", "ones", "mixed"])
@pytest.mark.parametrize("name", CASES)
def test_heights_beside_the_curve_and_beside_cells_are_settled_rightly(name: str, pattern: bytes) -> None:
    decay, target = CASES[name]
    sampler = cells(decay, target)
    for cell in (0, 1, 17, len(sampler._levels) - 1, len(sampler._levels) + 3):
        for f in (0, 0xDEADBEEF12345678, (1 << 64) - 1):
            with mpmath.workprec(300):
                tops = [
                    int(mpmath.ldexp(height(decay, place_of(sampler, target, cell, 1, f, 64)), 64)),
                    int(mpmath.ldexp(height(decay, cell * width(sampler)), 64)),
                ]
            for v in {min(top + d, (1 << 64) - 1) for top in tops for d in (-1, 0, 1)}:
                # Endless zeros after the height 0 would be the height 0 itself, which has chance 0.
                script = Script(pattern=pattern if v else MIXED)
                height_, place = LazyUniform(v, 64, script), LazyUniform(f, 64, Script(pattern=pattern))
                value = sampler.settle(1, height_, place)
                assert_settled(name, 1, height_, place, value)


@pytest.mark.parametrize("name", CASES)
def test_float_decisions_are_the_exact_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = cells(*CASES[name])
    rng = np.random.default_rng(7)
    n = 150
    digits = rng.integers(0, 1 << 64, 2 * n, dtype=np.uint64).astype("<u8").tobytes()
    minus = rng.integers(0, 2, n)
    script = Script(digits)
    values, accepted = sampler._wedge(minus, script)
    assert len(script.used) == len(digits)  # nobody needed more
    assert 0 < accepted.sum() < n
    monkeypatch.setattr(module, "_MARGIN", 2.0)
    exact_values, exact_accepted = sampler._wedge(minus, Script(digits))
    assert (accepted == exact_accepted).all()
    assert (values[accepted] == exact_values[accepted]).all()


def test_levels_one_unit_lower_would_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    # A height whose first word is the level's own is above or below the level, as its further digits say.
    decay, target = CASES["rounded 10^6"]
    sampler = Cells(decay, target)
    c, minus = 20, np.zeros(1, np.int64)
    level = int(sampler._levels[-c])
    monkeypatch.setattr(sampler, "_levels", sampler._levels - np.uint64(1))
    for pattern, place, cell in ((ZEROS, 0, c), (ONES, 1 << 40, c - 1)):
        script = Script(word(level) + word(place), pattern)
        values, accepted = sampler._wedge(minus, script)
        assert len(script.used) > 16
        assert accepted.tolist() == [True]
        assert values.tolist() == [value_at(target, 0, (cell + Fraction(place + 1, 1 << 64)) * width(sampler))]
    sure = Script(word(level - 3) + word(1 << 63))
    sampler._wedge(minus, sure)
    assert len(sure.used) == 16


@pytest.mark.parametrize("name", ["rounded 10/3", "rounded 10^6", "discrete 300", "laplace 1000/3"])
def test_a_component_beyond_the_table_is_drawn_whole(name: str) -> None:
    decay, target = CASES[name]
    sampler = cells(decay, target)
    first = word((1 << 16) - 1, 2) + (word(0) if sampler._offset_bits else b"")  # a residual word, minus
    script = Script(first + b"\xff" * 16 + word(12345) + word(1 << 63))
    [value] = sampler.draw(1, script)
    u, bits = lengthened((1 << 64) - 1, 64, b"\xff" * 8 + word(12345))
    cell = sampler._table.resolve(LazyUniform(u, bits, Script())) - 1
    assert cell > sampler._table.size
    assert value == value_at(target, 1, (cell + Fraction(1, 2)) * width(sampler))


@pytest.mark.parametrize("name", ["laplace 2^56", "discrete 2^56", "rounded 2^56"])
def test_a_value_that_int64_cannot_hold_is_refused_and_never_wraps(name: str) -> None:
    sampler = cells(*CASES[name])
    zeros = 3 if "laplace" in name else 190  # words; so the value lies beyond 128 widths
    with pytest.raises(OverflowError, match="int64"):
        sampler.settle(0, LazyUniform(0, 64 * zeros, Script()), LazyUniform(0, 64, Script()))
    largest = sampler.settle(1, LazyUniform(3, 96, Script()), LazyUniform(0, 64, Script(pattern=ZEROS)))
    assert largest is not None
    assert -(1 << 63) <= largest < -(1 << 58)


def test_a_rejected_proposal_is_drawn_anew() -> None:
    sampler = cells(*CASES["rounded 10^6"])
    wedge = word(int(sampler._sure_end), 2) + word(0)
    top = word(int(sampler._levels[-2]) - 5)  # just below the top of cell 1 …
    script = Script(wedge + top + word((1 << 64) - 1) + word(0, 2) + word(0))  # … at its far end
    assert sampler.draw(1, script).tolist() == [0]
    assert len(script.used) == 2 * (2 + 8) + 16


def test_an_empty_vector_takes_no_entropy() -> None:
    script = Script()
    assert cells(*CASES["laplace 128"]).draw(0, script).shape == (0,)
    assert not script.used


def test_samplers_are_kept_by_law_and_shared_by_threads() -> None:
    decay, target = CASES["rounded 20"]
    assert cells(decay, target) is cells(bell(Fraction(400)), ROUNDED)
    assert cells(decay, target) is not cells(decay, INTEGERS)
    rng, out = SystemEntropy(), []
    threads = [threading.Thread(target=lambda: out.append(cells(decay, target).draw(30000, rng))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({x.tobytes() for x in out}) == 4
