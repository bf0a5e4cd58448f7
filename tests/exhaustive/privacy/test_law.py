"""Laws along a line, and divided into parts, against numbers computed elsewhere."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from discreet.accounting.engines.sampled_gaussian import SampledGaussianLaw
from discreet.accounting.engines.sampled_loss import difference, half_erfc
from discreet.privacy.law import AtomsLaw, Complex, GaussianLaw, LaplaceLaw, Law, SumLaw, TimesLaw, TwoPointLaw


def test_a_line_holds_the_numbers_of_each_of_its_points() -> None:
    loss, mass = np.array([-0.4, 0.1, 1.3]), np.array([0.3, 0.5, 0.1])
    laws = (AtomsLaw(loss, mass), TimesLaw(AtomsLaw(loss, mass), 3), SumLaw((AtomsLaw(loss, mass),) * 2))
    for law, power in zip(laws, (1, 3, 2), strict=True):
        value, error = law.line(0.8, 0.5, 20)
        z = 0.8 + 0.5j * np.arange(20)
        truth = (np.exp(np.multiply.outer(z, loss)) @ mass) ** power
        assert np.all(np.abs(np.exp(value) / truth - 1) <= np.expm1(error) + 1e-13)
        assert float(error.max()) < 1e-10


def _kept(sigma: float, rate: float, x: mp.mpf, level: float) -> mp.mpf:
    """The chance of no mark at that level: Φ((a − λ)/τ), 1/τ = 1/0.07a + 1/0.4, λ = log(1 + q/(1−q)·e^u)."""
    share = mp.mpf(rate) / (1 - mp.mpf(rate))
    loss = mp.log1p(share * mp.exp((2 * x - 1) / (2 * mp.mpf(sigma) ** 2)))
    return mp.ncdf((level - loss) * (1 / (mp.mpf("0.07") * level) + 1 / mp.mpf("0.4")))


def _mean(sigma: float, rate: float, z: complex, level: float | None) -> mp.mpc:
    """E_Q[w^(1+z)] with each use kept where it has no mark at the level."""

    def integrand(x: mp.mpf) -> mp.mpc:
        w = 1 - mp.mpf(rate) + rate * mp.exp((2 * x - 1) / (2 * mp.mpf(sigma) ** 2))
        return mp.npdf(x, 0, sigma) * w ** (1 + z) * (1 if level is None else _kept(sigma, rate, x, level))

    ends = (-11 * sigma, min(max(1 + z.real, 1), 20) + 11 * sigma)
    n = int((ends[1] - ends[0]) / min(sigma, sigma**2) * 20)
    h = mp.mpf(ends[1] - ends[0]) / n
    return h * mp.fsum(integrand(ends[0] + i * h) for i in range(n + 1))


def _agrees(law: Law, z: complex, truth: mp.mpc, wrong: float = 1.0) -> bool:
    value, error = law.log_mgf(np.array([z]))
    assert float(error[0]) < 1e-8
    gap = abs(complex(mp.exp(complex(value[0])) / (truth * wrong)) - 1)
    return gap <= math.expm1(float(error[0])) + 1e-12


@pytest.mark.parametrize(("sigma", "rate"), [(0.6, 1e-3), (3.0, 0.02)])
def test_the_parts_of_a_divided_law_are_their_integrals(sigma: float, rate: float) -> None:
    steps, levels = 3, (0.05, 0.2)
    law = SampledGaussianLaw(sigma, rate, steps, True)
    calm, (band,), (top,) = law.under(levels[0]), law.over(*levels), law.over(levels[1], math.inf)
    for z in (0.7 + 0j, 2 + 5j):
        with mp.workdps(25):
            whole = _mean(sigma, rate, z, None) ** steps
            low, high = (_mean(sigma, rate, z, level) ** steps for level in levels)
            parts = ((law, whole), (calm, low), (band, high - low), (top, whole - high))
        for one, truth in parts:
            assert _agrees(one, z, truth)
            assert not _agrees(one, z, truth, 1 + 1e-7)


def test_far_above_a_large_power_the_rule_still_meets_the_integral() -> None:
    # Paths may be turned by little more than c/y there: by more the integrand would grow at once.
    c, y = 1180.0, 6e4
    sigma, rate, steps = 0.45806, 5.349e-05, 33
    law = SampledGaussianLaw(sigma, rate, steps, False)
    value, error = law.line(c, y / 3, 4)
    with mp.workdps(30):
        s, q = mp.mpf(sigma), mp.mpf(rate)
        step = s * s * mp.mpf(c) / y / 14  # the plain sum: what it is off falls like e^(−2πσ²·turn/step)
        first, last = int(-11 * s / step), int(11 * s / step)
        power, total = mp.mpc(-c, -y), mp.mpc(0)
        for x in (step * i for i in range(first, last + 1)):
            total += mp.exp(power * mp.log1p(q * mp.expm1((2 * x - 1) / (2 * s * s))) - x * x / (2 * s * s))
        truth = (total * step / (s * mp.sqrt(2 * mp.pi))) ** steps
    gap = abs(complex(mp.exp(complex(value[3])) / truth) - 1)
    assert float(error[3]) < 1e-3  # of what is e^-16 of the height 0
    assert gap <= math.expm1(float(error[3]))
    assert abs(complex(mp.exp(complex(value[3])) / (truth * (1 + 2 * float(error[3])))) - 1) > math.expm1(
        float(error[3])
    )


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("sigma", "rate", "level"), [(0.6, 1e-3, 0.05), (0.6, 1e-3, 2.0), (3.0, 0.02, 0.1), (1.2, 1e-5, 0.01)]
)
def test_the_chance_of_a_mark_is_at_most_what_is_said_and_not_far_from_it(
    sigma: float, rate: float, level: float
) -> None:
    steps = 3
    (top,) = SampledGaussianLaw(sigma, rate, steps, True).over(level, math.inf)
    with mp.workdps(40):  # P has the density w under Q
        truth = 1 - (1 - _marked(sigma, rate, level)) ** steps
    assert truth <= top.p_most() <= 2 * truth
    assert SampledGaussianLaw(sigma, rate, steps, True).under(level).p_most() == 1.0
    about = SampledGaussianLaw(sigma, rate, steps, True).marks(np.array([level]))
    assert 0.8 * truth <= float(about[0]) <= 1.3 * truth


def _marked(sigma: float, rate: float, level: float) -> mp.mpf:
    """E_P[1 − ψ] of one use, P being the side with the unit."""
    tau = 1 / (1 / (0.07 * level) + 1 / 0.4)
    s, q = mp.mpf(sigma), mp.mpf(rate)

    def term(x: mp.mpf) -> mp.mpf:
        e = mp.exp((2 * x - 1) / (2 * s * s))
        loss = mp.log1p(q / (1 - q) * e)
        density = mp.exp(-x * x / (2 * s * s)) / (s * mp.sqrt(2 * mp.pi))
        return (1 - q + q * e) * density * mp.erfc((level - loss) / (tau * mp.sqrt(2))) / 2

    return mp.quad(term, mp.linspace(-12 * s, 12 * s + 1, 60))


@pytest.mark.parametrize(("sigma", "rate"), [(0.8, 1e-3), (3.0, 0.02)])
def test_a_mirrored_law_is_that_of_the_negative_loss_under_the_other_side(sigma: float, rate: float) -> None:
    levels = (0.05, 0.2)
    law = SampledGaussianLaw(sigma, rate, 3, True)
    calm, (band,), (top,) = law.under(levels[0]), law.over(*levels), law.over(levels[1], math.inf)
    z = 2 + 5j
    with mp.workdps(25):
        whole = _mean(sigma, rate, -1 - z, None) ** 3
        low, high = (_mean(sigma, rate, -1 - z, level) ** 3 for level in levels)
    for one, truth in ((law, whole), (calm, low), (band, high - low), (top, whole - high)):
        mirror = one.mirror()
        assert mirror is not None
        assert _agrees(mirror, z, truth)
    with mp.workdps(25):
        for at, side in ((0, 0), (-1, 1)):
            low, high = (_mean(sigma, rate, at, level) ** 3 for level in levels)
            for one, truth in ((calm, low), (band, high - low), (top, 1 - high)):
                masses = one.masses()
                assert abs(masses[side] / truth - 1) <= masses[2] < 1e-10


def test_the_parts_of_a_sum_add_up_to_it() -> None:
    laws = (SampledGaussianLaw(0.8, 1e-3, 5, True), GaussianLaw(1e-3), SampledGaussianLaw(2.0, 1e-2, 40, True))
    whole, levels = SumLaw(laws), (0.02, 0.1)
    parts = (whole.under(levels[0]), *whole.over(*levels), *whole.over(levels[1], math.inf))
    assert len(parts) == 5
    for c, step in ((1.5, 2.0), (4.0, 11.0)):
        value, _ = whole.line(c, step, 6)
        found = sum(np.exp(part.line(c, step, 6)[0]) for part in parts)
        assert np.all(np.abs(found / np.exp(value) - 1) < 1e-11)
        assert np.any(np.abs(found - np.exp(parts[-1].line(c, step, 6)[0]) - np.exp(value)) > 1e-9)
    assert GaussianLaw(1.0).over(0.1, math.inf) == ()
    assert GaussianLaw(1.0).under(0.1) == GaussianLaw(1.0)


@pytest.mark.parametrize("c", [1.0, 30.0, 120.0, 1000.0])
def test_no_height_is_above_the_bound_of_the_decay(c: float) -> None:
    law = SumLaw((SampledGaussianLaw(1.0, 1e-4, 100, True), GaussianLaw(1e-9)))
    for level in (0.01, 0.05):
        parts = (law.under(level), *law.over(level / 4, level), *law.over(level, 9 * level))
        for part in (*parts, *law.over(level, math.inf)):
            for one in (part, part.mirror()):
                assert one is not None
                value, error = one.line(c, 20.0, 60)
                if not value[0].real < math.inf:
                    continue
                for k in (1, 5, 20, 59):
                    known = np.where(error[k:] < 0.1, value[k:].real, -math.inf)
                    highest = float(known.max() - value[0].real)
                    assert highest <= one.decay(c, 20.0 * k) + 1e-8


@pytest.mark.parametrize("removes", [True, False])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 6.0])
def test_a_rough_answer_is_near_the_exact_one(sigma: float, removes: bool) -> None:
    law = SampledGaussianLaw(sigma, 1e-3, 7, removes)
    c = np.geomspace(0.1, 30, 9)
    laws = [law]
    if removes:
        laws += [law.under(0.05), *law.over(0.05, 0.2), *law.over(0.2, math.inf)]  # type: ignore[list-item]
    for one in laws:
        exact = np.array([float(one.line(x, 0.0, 1)[0][0].real) for x in c.tolist()])
        known = np.abs(exact) < 40  # what is beyond is not asked for
        assert np.all(np.abs(one.rough(c) - exact)[known] < 0.2 + 0.03 * np.abs(exact[known]))


def test_what_lies_beyond_the_floats_of_the_mark_is_not_forgotten() -> None:
    # The mark leaves nearly nothing of a peak that e^(c·l) raises by more than that.
    level = 0.25 * 0.00227
    for c in (4.79 / 0.00227, 300 / 0.00227):
        value, error = SampledGaussianLaw(1.18, 1.22e-5, 259, True).under(level).line(c, 0.0, 1)
        with mp.workdps(30):
            truth = 259 * mp.log(_mean(1.18, 1.22e-5, complex(c), level).real)
        assert float(value[0].real + error[0]) >= truth * (1 - 1e-12)


def test_what_is_no_number_stays_none() -> None:
    found = half_erfc(np.array([math.nan, -math.inf, 0.0, math.inf]))
    assert math.isnan(found[0])
    assert found[1:].tolist() == [1.0, 0.5, 0.0]


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


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("sigma", "rate", "c", "y"), [(0.8, 1e-3, 2.0, 30.0), (3.0, 0.3, 1.0, 20.0), (0.3, 0.999, 3.0, 9.0)]
)
@pytest.mark.parametrize("removes", [True, False])
def test_nothing_above_a_height_exceeds_its_bound(sigma: float, rate: float, c: float, y: float, removes: bool) -> None:
    law = SampledGaussianLaw(sigma, rate, 1, removes)

    def size(z: complex) -> float:
        with mp.workdps(20):
            return float(mp.log(abs(_mean(sigma, rate, z if removes else -1 - z, None))))

    most = max(size(complex(c, v)) for v in (y, 1.3 * y)) - size(complex(c))
    assert most <= law.decay(c, y) + 1e-12
    assert law.decay(c, y) < 0.15 * most  # the bound is of use


@pytest.mark.parametrize(("c", "y", "level"), [(3.0, 10.0, 0.3), (0.5, 60.0, 0.05)])
def test_nothing_above_a_height_exceeds_its_bound_where_no_use_has_a_mark(c: float, y: float, level: float) -> None:
    calm = SampledGaussianLaw(0.9, 0.01, 1, True).under(level)
    with mp.workdps(20):
        sizes = [mp.log(abs(_mean(0.9, 0.01, complex(c, v), level))) for v in (0, y, 1.3 * y)]
    most = float(max(sizes[1:]) - sizes[0])
    assert most <= calm.decay(c, y) + 1e-12
    assert calm.decay(c, y) < 0.05 * most


def test_a_difference_that_is_smaller_than_its_error_stays_within_what_is_said() -> None:
    # Of w = 1 ± 0.001 and a = 1 nothing is known of w^1 - a^1 but that it lies in ±0.002 around -0.0009.
    one = np.array([0j])
    known = (one, np.zeros(1))
    value, error = difference(1, (np.array([-0.0009 + 0j]), np.array([1e-3])), known, (one, np.array([0.6])))
    found, share = float(np.exp(value[0]).real), float(np.expm1(error[0]))
    for truth in (-0.0019, 0.0001):
        assert abs(truth - found) <= share * found


def test_many_uses_leave_the_digits_of_what_lies_between_two_levels() -> None:
    # Nearly no use is marked: what a window is off may count for the marked ones only, or T times it is lost.
    sigma, rate, steps, low, high = 0.76961, 3.672e-05, 119163, 0.21385, 3.12
    (part,) = SampledGaussianLaw(sigma, rate, steps, True).over(low, high)
    p, q, off = part.masses()
    with mp.workdps(30):
        for z, found in ((0, p), (-1, q)):
            truth = _mean(sigma, rate, complex(z), high) ** steps - _mean(sigma, rate, complex(z), low) ** steps
            assert abs(found / truth - 1) <= off
            assert not abs(found * (1 + 1e-10) / truth - 1) <= off
    assert off < 1e-11


@pytest.mark.parametrize("size", [64, 301])
def test_many_losses_that_come_once_are_the_sum_of_each(size: int) -> None:
    loss = np.sort(np.random.default_rng(size).uniform(0.01, 0.9, size))
    z: Complex = np.asarray(0.7 + 9.1j * np.arange(4), dtype=np.complex128)
    for law in (LaplaceLaw(loss, np.ones(size)), TwoPointLaw(loss, np.ones(size))):
        value, error = law.log_mgf(z)
        assert float(error.max()) < 1e-9
        assert np.all(np.abs(law.rough(np.array([0.7])) - value.real[:1]) < 0.01)
        for at, found, off in zip(z.tolist(), value.tolist(), error.tolist(), strict=True):
            with mp.workdps(30):
                truth = mp.fprod(_of_one(law, mp.mpf(x), mp.mpc(at)) for x in loss.tolist())
                gap = abs(mp.exp(mp.mpc(found)) / truth - 1)
                assert gap <= mp.expm1(off)
                assert abs(mp.exp(mp.mpc(found)) / (truth * (1 + 1e-8)) - 1) > mp.expm1(off)


@pytest.mark.parametrize(("size", "least", "most"), [(128, 0.01, 0.09), (301, 0.01, 0.9), (1100, 0.02, 0.05)])
def test_along_a_line_many_losses_that_come_once_are_the_sum_of_each(size: int, least: float, most: float) -> None:
    loss = np.sort(np.random.default_rng(size).uniform(least, most, size))
    c, step, count = 0.7, 1.3, 40
    for law in (LaplaceLaw(loss, np.ones(size)), TwoPointLaw(loss, np.ones(size))):
        value, error = law.line(c, step, count)
        assert float(error[:9].max()) < 2e-10
        for k in (0, 1, 15, 16, 17, 39):  # on both sides of where a block of heights ends
            with mp.workdps(30):
                at = mp.mpc(c, step * k)
                truth = mp.fprod(_of_one(law, mp.mpf(x), at) for x in loss.tolist())
                gap = abs(mp.exp(mp.mpc(complex(value[k]))) / truth - 1)
                assert gap <= mp.expm1(float(error[k]))
                if error[k] < 1e-9:  # and a wrong one is told apart
                    wrong = truth * mp.exp(3e-9 * mp.mpc(0, 1))
                    assert abs(mp.exp(mp.mpc(complex(value[k]))) / wrong - 1) > mp.expm1(float(error[k]))


def test_a_factor_of_nearly_nothing_along_a_line_is_left_to_the_way_that_keeps_its_digits() -> None:
    # M of two points vanishes nearly where their turns are opposite and their masses equal.
    loss = np.full(200, 1e-3)
    loss[0] = 0.25
    law = TwoPointLaw(loss, np.ones(loss.size))
    step = math.pi / (2 * 0.25) / 8
    value, error = law.line(0.05, step, 9)
    with mp.workdps(30):
        truth = mp.fprod(_of_one(law, mp.mpf(x), mp.mpc(0.05, 8 * step)) for x in loss.tolist())
        assert abs(_of_one(law, mp.mpf(0.25), mp.mpc(0.05, 8 * step))) < 0.15
        assert abs(mp.exp(mp.mpc(complex(value[8]))) / truth - 1) <= mp.expm1(float(error[8]))
    assert np.all(np.isfinite(value))


def _of_one(law: LaplaceLaw | TwoPointLaw, x: mp.mpf, z: mp.mpc) -> mp.mpc:
    """E[e^(zL)] of one use: by its two losses, or by those at both ends and between."""
    if isinstance(law, TwoPointLaw):
        return (mp.exp((1 + z) * x) + mp.exp(-z * x)) / (1 + mp.exp(x))
    return mp.exp(z * x) / 2 + mp.exp(-(1 + z) * x) / 2 + (mp.exp(z * x) - mp.exp(-(1 + z) * x)) / (2 * (1 + 2 * z))


@pytest.mark.parametrize(("sigma", "rate", "c"), [(1.0, 0.01, 5.0), (5.0, 0.01, 40.0), (0.6, 1e-3, 0.8)])
def test_a_rough_height_is_near_the_exact_one(sigma: float, rate: float, c: float) -> None:
    whole = SampledGaussianLaw(sigma, rate, 900, True)
    heights = np.geomspace(0.3, 20, 6)
    for law in (whole, SampledGaussianLaw(sigma, rate, 900, False), whole.under(0.5)):
        value = np.array([law.line(c, y, 2)[0][1].real - law.line(c, y, 2)[0][0].real for y in heights.tolist()])
        known = value > -40
        assert np.all(np.abs(law.falls(c, heights) - value)[known] < 0.02 + 0.03 * np.abs(value[known]))
