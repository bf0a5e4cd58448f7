"""Ratios of uniforms: the region is decided rightly, the laws are those of scipy, rounding waits for its digits."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet.noise.entropy import SystemEntropy, bits
from discreet.noise.ratio import (
    LaplaceLogNormal,
    NormalShape,
    QuarticShape,
    Quotient,
    Ratio,
    Shape,
    StudentShape,
    digits_for,
    rounded,
)

RNG = SystemEntropy()
ALARM = 1e-9
SHAPES: dict[str, Shape] = {
    "t1": StudentShape(1),
    "t2": StudentShape(2),
    "t5": StudentShape(5),
    "t32": StudentShape(32),
    "quartic": QuarticShape(),
    "normal": NormalShape(),
}


def height(name: str, z: mp.mpf) -> mp.mpf:
    if name == "quartic":
        return 1 / (1 + z**4)
    if name == "normal":
        return mp.exp(-z * z / 2)
    d = int(name[1:])
    return (1 + z * z / d) ** (-mp.mpf(d + 1) / 2)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SHAPES)
def test_a_square_is_decided_only_if_all_of_it_is_in_or_out(name: str) -> None:
    shape, k = SHAPES[name], 6
    seen = {True: 0, False: 0, None: 0}
    with mp.workdps(40):
        for u in range(1 << k):
            for v in range(0, 1 << k, 3):
                found = shape.holds(u, v, k)
                seen[found] += 1
                corners = [
                    a > 0 and mp.mpf(a) / 64 <= mp.sqrt(height(name, mp.mpf(b) / a))
                    for a in (u, u + 1)
                    for b in (v, v + 1)
                ]
                if found and u:
                    assert all(corners)
                elif found is False:
                    assert not any(corners)
    assert seen[True] > 200 and seen[False] > 50 and seen[None] < 1000


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SHAPES)
def test_the_region_lies_in_the_square(name: str) -> None:
    z = np.linspace(0, 60, 6001)
    with mp.workdps(30):
        assert max(float(mp.mpf(x) ** 2 * height(name, mp.mpf(x))) for x in z) < 1


def test_for_all_degrees_that_are_taken_the_region_lies_in_the_square() -> None:
    largest = [2 * d / (d - 1) * ((d - 1) / (d + 1)) ** ((d + 1) / 2) for d in range(2, 33)]
    assert max(largest) < 0.78 and min(largest) > 2 / math.e


def magnitudes(draw: list[Quotient]) -> NDArray[np.float64]:
    return np.array([n / d for n, d in draw])


@pytest.mark.parametrize("name", SHAPES)
def test_ratios_follow_their_law_and_no_other(name: str) -> None:
    z = magnitudes([Ratio(SHAPES[name], 80, RNG).least() for _ in range(5000)])
    if name == "quartic":
        r = math.sqrt(2.0)
        log = np.log((z * z + r * z + 1) / (z * z - r * z + 1))
        u = (log + 2 * (np.arctan(r * z + 1) + np.arctan(r * z - 1))) / (2 * math.pi)
        wrong = u**1.35
    else:
        law = stats.norm() if name == "normal" else stats.t(int(name[1:]))
        u, wrong = 2 * law.cdf(z) - 1, 2 * law.cdf(1.35 * z) - 1
    assert stats.kstest(u, "uniform").pvalue > ALARM
    assert stats.kstest(wrong, "uniform").pvalue < ALARM


def test_laplace_log_normal_follows_its_law_and_no_other() -> None:
    sigma = Fraction(1, 2)
    z = magnitudes([LaplaceLogNormal(sigma, 80, RNG).least() for _ in range(4000)])
    y = np.linspace(-9, 9, 721)

    def cdf(z: NDArray[np.float64], s: float) -> NDArray[np.float64]:
        weight = stats.norm.pdf(y) * (y[1] - y[0])
        return np.asarray(1 - np.exp(-z[:, None] * np.exp(-s * y)) @ weight)

    assert stats.kstest(cdf(z, 0.5), "uniform").pvalue > ALARM
    assert stats.kstest(cdf(z * 1.35, 0.5), "uniform").pvalue < ALARM
    assert stats.kstest(cdf(z, 1.2), "uniform").pvalue < ALARM


@pytest.mark.parametrize("kind", ["ratio", "log-normal"])
def test_more_digits_narrow_the_interval_and_never_leave_it(kind: str) -> None:
    for _ in range(50):
        z = Ratio(StudentShape(2), 8, RNG) if kind == "ratio" else LaplaceLogNormal(Fraction(1, 2), 8, RNG)
        low, high = Fraction(0), None
        for _ in range(3):
            least, most = Fraction(*z.least()), z.most()
            assert least >= low
            if most is not None:
                assert Fraction(*most) >= least and (high is None or Fraction(*most) <= high)
                high = Fraction(*most)
            low = least
            z.extend()
        assert high is not None and high - low < Fraction(1, 1 << 40) * (1 + high * high)


class Slow:
    """A number of which each call gives one more decimal digit."""

    def __init__(self, value: Fraction) -> None:
        self.value, self.width = value, Fraction(8)

    def least(self) -> Quotient:
        return (x := max(self.value - self.width, Fraction(0))).numerator, x.denominator

    def most(self) -> Quotient | None:
        if self.width > 1:
            return None
        return (x := self.value + self.width).numerator, x.denominator

    def extend(self) -> None:
        self.width /= 10


@pytest.mark.parametrize("negative", [False, True])
def test_rounding_waits_until_it_is_decided(negative: bool) -> None:
    for value in (Fraction(1, 3), Fraction(149999, 100000), Fraction(150001, 100000), Fraction(77, 10)):
        for scale in (Fraction(1), Fraction(2, 7), Fraction(0)):
            z = Slow(value)
            moved = 5 + (-1 if negative else 1) * scale * value
            assert rounded(z, negative, scale, 5, -100, 100) == math.floor(moved + Fraction(1, 2))


def test_what_is_beyond_an_end_is_cut_off_without_all_of_its_digits() -> None:
    z = Slow(Fraction(10**9))
    assert rounded(z, False, Fraction(1), 0, -3, 3) == 3
    assert rounded(z, True, Fraction(1), 0, -3, 3) == -3
    assert z.width == 8  # an upper end is not waited for


def test_digits_depend_on_the_range_alone() -> None:
    assert digits_for(1 << 40) == 64 + 41 + 8


def test_rounded_noise_has_the_chances_of_the_continuous_law() -> None:
    """Chances of the cells of a coarse grid, for t with 2 degrees of freedom."""
    n, scale = 6000, Fraction(5, 2)
    drawn = np.array([rounded(Ratio(StudentShape(2), 72, RNG), bits(RNG, 1) == 1, scale, 0, -4, 4) for _ in range(n)])
    edges = np.array([-np.inf, *np.arange(-3.5, 4), np.inf])
    seen = np.bincount(drawn + 4, minlength=9)
    for stretch, right in ((1.0, True), (1.25, False)):
        chances = np.diff(stats.t.cdf(edges / (float(scale) * stretch), 2))
        p = float(stats.chisquare(seen, n * chances).pvalue)
        assert (p > ALARM) is right
