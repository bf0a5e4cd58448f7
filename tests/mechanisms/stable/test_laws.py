"""The laws' privacy by brute force over densities from scipy, and by integrals; their quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from discreet.mechanisms.stable.smooth_sensitivity import Calibration, LogNormal, Quartic, SmoothLaw, StudentT

EPSILONS = [Fraction(1, 20), Fraction(1), Fraction(4)]
Z = np.tan(np.linspace(-math.pi / 2, math.pi / 2, 12_003)[1:-1])
"""Places of outputs, from far left to far right."""

Floats = NDArray[np.float64]


def log_density(law: SmoothLaw, z: Floats) -> Floats:
    if isinstance(law, StudentT):
        return np.asarray(stats.t.logpdf(z, law.degrees))
    assert isinstance(law, Quartic)
    return np.asarray(-np.log1p(z**4) - math.log(math.pi / math.sqrt(2)))


def moves(c: Calibration) -> Iterator[tuple[float, float]]:
    """Ratios of scales, and shifts in units of the second scale: all that |f(x) − f(y)| ≤ min(S(x), S(y)) allows."""
    base, alpha = float(c.base), float(c.alpha)
    for power in np.linspace(-1, 1, 5):
        ratio = base**power
        for part in (0.0, 0.4, 1.0):
            yield ratio, part * alpha * min(1.0, ratio)


def worst(law: SmoothLaw, c: Calibration) -> float:
    """The largest log ratio of two densities, over all outputs and moves."""
    return max(
        float(np.max(log_density(law, Z) - log_density(law, ratio * Z + sign * shift))) - math.log(ratio)
        for ratio, shift in moves(c)
        for sign in (1, -1)
    )


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("law", [StudentT(1), StudentT(2), StudentT(3), StudentT(7), Quartic()], ids=str)
def test_no_ratio_of_densities_exceeds_epsilon(law: SmoothLaw, epsilon: Fraction) -> None:
    c = law.calibrate(epsilon)
    assert worst(law, c) <= float(epsilon) * (1 + 1e-12) + 1e-12


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("degrees", [1, 2, 3, 7])
def test_student_t_uses_all_of_epsilon_and_a_little_less_noise_is_not_private(degrees: int, epsilon: Fraction) -> None:
    law = StudentT(degrees)
    c = law.calibrate(epsilon)
    assert worst(law, c) >= float(epsilon) * (1 - 1e-5)
    assert worst(law, Calibration(c.base, c.alpha * Fraction(51, 50))) > float(epsilon) * 1.001


@pytest.mark.parametrize("base", [Fraction(101, 100), Fraction(5, 4), Fraction(3)])
@pytest.mark.parametrize("degrees", [1, 2, 5])
def test_student_t_with_a_given_smoothness_uses_all_of_epsilon(degrees: int, base: Fraction) -> None:
    law, epsilon = StudentT(degrees), Fraction(degrees * 12, 10)
    c = Calibration(base, law.alpha(epsilon, base))
    if c.alpha:
        assert float(epsilon) * (1 - 1e-5) <= worst(law, c) <= float(epsilon) * (1 + 1e-12)
    else:  # the change of scale alone costs more
        assert degrees * math.log(base) >= float(epsilon)


def test_student_t_needs_less_noise_than_by_the_published_bound() -> None:
    """α(d + 1)/(2√d) + d·ln B = ε, with the same B (Bun, Steinke 2019, Section 3)."""
    for d in (1, 2, 3, 4):
        c = StudentT(d).calibrate(Fraction(1, 2))
        published = (0.5 - d * math.log(c.base)) * 2 * math.sqrt(d) / (d + 1)
        assert float(c.alpha) > 1.3 * published


def test_the_quartic_laws_cost_of_place_is_its_steepest_slope() -> None:
    steepest = float(np.max(4 * np.abs(Z) ** 3 / (1 + Z**4)))
    c = Quartic().calibrate(Fraction(1))
    assert 3 * math.log(c.base) + steepest * float(c.alpha) == pytest.approx(1, rel=1e-6)


def density(law: LogNormal) -> tuple[Floats, Floats]:
    """Places z, evenly spaced in their inverse hyperbolic sine, and the density there: a mean of Laplace densities."""
    z = np.sinh(np.linspace(-7, 7, 2001))
    y = np.linspace(-9, 9, 361)
    rate = np.exp(-float(law.sigma) * y)
    weight = stats.norm.pdf(y) * (y[1] - y[0]) * rate / 2
    return z, (weight * np.exp(-rate * np.abs(z[:, None]))).sum(axis=1)


def divergence(law: LogNormal, order: float, ratio: float, shift: float) -> float:
    """The Rényi divergence of Z from what is Z on the other side, by the trapezoidal rule."""
    z, h = density(law)
    y = np.linspace(-9, 9, 361)
    rate = np.exp(-float(law.sigma) * y)
    weight = stats.norm.pdf(y) * (y[1] - y[0]) * rate / 2 * ratio
    other = (weight * np.exp(-rate * np.abs(ratio * z + shift)[:, None])).sum(axis=1)
    return math.log(float(integrate.trapezoid(h**order * other ** (1 - order), z))) / (order - 1)


@pytest.mark.parametrize("rho", [Fraction(1, 200), Fraction(1, 2)], ids=str)
def test_laplace_log_normal_is_concentrated(rho: Fraction) -> None:
    law = LogNormal.best(rho)
    c = law.calibrate(rho)
    base, alpha = float(c.base), float(c.alpha)
    for order in (1.05, 2.0, 6.0):
        for ratio in (base, 1.0, 1 / base):
            shift = alpha * min(1.0, ratio)
            assert divergence(law, order, ratio, shift) <= float(rho) * order
    # with four times less noise it would not be
    assert divergence(law, 2.0, base, 4 * alpha) > 2 * float(rho)


def test_laplace_log_normal_is_steepest_in_the_middle() -> None:
    law = LogNormal(Fraction(1, 2))
    z, h = density(law)
    slopes = np.abs(np.gradient(np.log(h), z))
    assert slopes.max() <= math.exp(1.5 * 0.25) + 1e-9
    assert slopes[1001 - 20 : 1001].max() == pytest.approx(math.exp(1.5 * 0.25), rel=0.05)


def test_laplace_log_normals_sum_of_costs_is_what_was_asked() -> None:
    for rho in (Fraction(1, 1000), Fraction(1), Fraction(8)):
        law = LogNormal.best(rho)
        c = law.calibrate(rho)
        s = float(law.sigma)
        total = math.log(c.base) / s + math.exp(1.5 * s * s) * float(c.alpha)
        assert total == pytest.approx(math.sqrt(2 * float(rho)), rel=1e-9)


@pytest.mark.parametrize("confidence", [Fraction(1, 2), Fraction(19, 20), 1 - Fraction(1, 10**6)], ids=str)
def test_quantiles_are_those_of_the_laws(confidence: Fraction) -> None:
    c = float(confidence)
    for d in (1, 2, 5):
        assert StudentT(d).quantile(confidence) == pytest.approx(stats.t.isf((1 - c) / 2, d), rel=1e-9)
    with mp.workdps(30):
        z = Quartic().quantile(confidence)
        inside = mp.quad(lambda t: 1 / (1 + t**4), [0, 1, z]) / (mp.pi / mp.sqrt(8))
        assert float(1 - inside) == pytest.approx(1 - c, rel=1e-6)
        law = LogNormal(Fraction(7, 16))
        z = law.quantile(confidence)
        tail = mp.quad(lambda y: mp.npdf(y) * mp.exp(-z * mp.exp(-mp.mpf(7) / 16 * y)), [-12, -4, 0, 4, 12])
        assert float(tail) == pytest.approx(1 - c, rel=1e-6)


def test_nothing_is_promised_beyond_the_digits_of_a_tail() -> None:
    assert Quartic().quantile(1 - Fraction(1, 10**30)) == math.inf


def test_tiny_and_huge_epsilons_are_calibrated() -> None:
    for epsilon in (Fraction(1, 10**12), Fraction(1, 10**24), Fraction(10**24)):
        for law in (StudentT(2), Quartic(), LogNormal.best(epsilon)):
            c = law.calibrate(epsilon)
            assert c.base > 1 and c.alpha > 0
