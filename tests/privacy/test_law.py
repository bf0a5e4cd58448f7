"""Laws along a line, and divided into parts, against numbers computed elsewhere."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from discreet.privacy.law import AtomsLaw, GaussianLaw, SumLaw, TimesLaw
from discreet.privacy.sampled_gaussian import SampledGaussianLaw


def test_a_line_holds_the_numbers_of_each_of_its_points() -> None:
    loss, mass = np.array([-0.4, 0.1, 1.3]), np.array([0.3, 0.5, 0.1])
    laws = (AtomsLaw(loss, mass), TimesLaw(AtomsLaw(loss, mass), 3), SumLaw((AtomsLaw(loss, mass),) * 2))
    for law, power in zip(laws, (1, 3, 2), strict=True):
        value, error = law.line(0.8, 0.5, 20)
        z = 0.8 + 0.5j * np.arange(20)
        truth = (np.exp(np.multiply.outer(z, loss)) @ mass) ** power
        assert np.all(np.abs(np.exp(value) / truth - 1) <= np.expm1(error) + 1e-13)
        assert float(error.max()) < 1e-10


def _mean(sigma: float, rate: float, z: complex, high: float | None, tau: float) -> mp.mpc:
    """E_Q[w^(1+z)] with each x kept with the chance Φ((high − x)/τ)."""

    def integrand(x: mp.mpf) -> mp.mpc:
        w = 1 - mp.mpf(rate) + rate * mp.exp((2 * x - 1) / (2 * mp.mpf(sigma) ** 2))
        kept = 1 if high is None else mp.ncdf((high - x) / tau)
        return mp.npdf(x, 0, sigma) * w ** (1 + z) * kept

    ends = (-12 * sigma, 1 + z.real + 12 * sigma)
    n = int((ends[1] - ends[0]) / (tau if high is not None else sigma) * 5)
    h = mp.mpf(ends[1] - ends[0]) / n
    return h * mp.fsum(integrand(ends[0] + i * h) for i in range(n + 1))


@pytest.mark.parametrize(("sigma", "rate"), [(0.5, 1e-3), (1.0, 0.1), (3.0, 0.02)])
def test_the_parts_of_a_divided_law_are_their_integrals(sigma: float, rate: float) -> None:
    steps = 3
    law = SampledGaussianLaw(sigma, rate, steps, True)
    divided = law.calm(0.1)
    assert divided is not None
    (part,), rest = divided
    assert isinstance(rest, SampledGaussianLaw)
    for z in (0.7 + 0j, 2 + 5j):
        with mp.workdps(40):
            whole = _mean(sigma, rate, z, None, 1.0) ** steps
            calm = _mean(sigma, rate, z, rest.at, 0.1 * min(sigma**2, sigma)) ** steps
            parted = whole - calm
        for one, truth in ((law, whole), (rest, calm), (part, parted)):
            value, error = one.log_mgf(np.array([z]))
            assert abs(complex(mp.exp(complex(value[0])) / truth) - 1) <= math.expm1(float(error[0])) + 1e-12
            assert float(error[0]) < 1e-8


@pytest.mark.parametrize("c", [1.0, 30.0, 120.0])
def test_no_height_is_above_the_bound_of_the_decay(c: float) -> None:
    law = SumLaw((SampledGaussianLaw(1.0, 1e-4, 100, True), GaussianLaw(1e-9)))
    for level in (0.01, 0.05):
        divided = law.calm(level)
        assert divided is not None
        for one in (*divided[0], divided[1]):
            value, error = one.line(c, 3.0, 60)
            if not value[0].real < math.inf:
                continue
            for k in (1, 5, 20, 59):
                known = np.where(error[k:] < 0.1, value[k:].real, -math.inf)
                highest = float(known.max() - value[0].real)
                assert highest <= one.decay(c, 3.0 * k) + 1e-8


@pytest.mark.parametrize(("sigma", "rate"), [(0.5, 1e-3), (1.0, 0.1), (3.0, 0.02)])
def test_a_mirrored_law_is_that_of_the_negative_loss_under_the_other_side(sigma: float, rate: float) -> None:
    law = SampledGaussianLaw(sigma, rate, 3, True)
    divided = law.calm(0.1)
    assert divided is not None
    tau = 0.1 * min(sigma**2, sigma)
    (part,), rest = divided
    assert isinstance(rest, SampledGaussianLaw)
    for z in (2 + 5j,):
        with mp.workdps(40):
            whole = _mean(sigma, rate, -1 - z, None, 1.0) ** 3
            calm = _mean(sigma, rate, -1 - z, rest.at, tau) ** 3
        for one, truth in ((law, whole), (part, whole - calm)):
            mirror = one.mirror()
            assert mirror is not None
            value, error = mirror.log_mgf(np.array([z]))
            assert abs(complex(mp.exp(complex(value[0])) / truth) - 1) <= math.expm1(float(error[0])) + 1e-12
    with mp.workdps(40):
        for at, side in ((0, 0), (-1, 1)):
            none = _mean(sigma, rate, at, rest.at, tau) ** 3
            for one, truth in ((part, 1 - none), (rest, none)):
                masses = one.masses()
                assert abs(masses[side] / truth - 1) <= masses[2] < 1e-11


def test_what_lies_beyond_the_floats_of_the_mark_is_not_forgotten() -> None:
    # The mark at 5.88 leaves e^-15500 of a peak at 26.7 that e^(c·l) raises by more than that.
    divided = SampledGaussianLaw(1.18, 1.22e-5, 259, True).calm(0.25 * 0.00227)
    assert divided is not None
    value, error = divided[1].line(4.79 / 0.00227, 0.0, 1)
    assert float(value[0].real + error[0]) >= 259 * 10.5


def test_many_laws_of_atoms_together_are_their_sum() -> None:
    generator = np.random.default_rng(3)
    laws = []
    for size in (2, 3, 3, 3, 2, 3, 3, 2, 2):
        mass = generator.dirichlet(np.ones(size))
        laws.append(TimesLaw(AtomsLaw(generator.normal(0, 0.3, size), mass), int(generator.integers(1, 9))))
    value, error = SumLaw(tuple(laws)).line(1.3, 0.7, 25)
    z = 1.3 + 0.7j * np.arange(25)
    truth = np.ones(25, dtype=complex)
    for law in laws:
        assert isinstance(law.law, AtomsLaw)
        truth *= (np.exp(np.multiply.outer(z, law.law.loss)) @ law.law.mass) ** law.times
    assert np.all(np.abs(np.exp(value) / truth - 1) <= np.expm1(error) + 1e-12)
    assert float(error.max()) < 1e-9
