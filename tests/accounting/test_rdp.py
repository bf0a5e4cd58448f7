"""Rényi bounds against their formulas at 400 digits and closed forms of other laws."""

from __future__ import annotations

import math
from fractions import Fraction as F

import mpmath
import pytest
from mpmath import mpf

from discreet.accounting.divergence import order_for, renyi_epsilon, renyi_for, renyi_upper
from discreet.privacy.discrete_events import AtomsEvent, RandomizedResponseEvent
from discreet.privacy.event import (
    ApproximateEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    RenyiEvent,
    ZCDPEvent,
)
from discreet.privacy.pair import Pair
from discreet.privacy.sampling import PoissonEvent
from tests.privacy import curves

ORDERS = [F(10001, 10000), F(3, 2), F(2), F(9356, 1000), F(10**6)]


def randomised_response(epsilon: F, alpha: F) -> mpf:
    """Mironov 2017, Proposition 5."""
    e, a = curves.real(epsilon), curves.real(alpha)
    p, q = 1 / (1 + mpmath.exp(-e)), 1 / (1 + mpmath.exp(e))
    return mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)


def laplace(ratio: F, alpha: F) -> mpf:
    """Mironov 2017, Proposition 6."""
    r, a = curves.real(ratio), curves.real(alpha)
    up, down = mpmath.exp((a - 1) * r), mpmath.exp(-a * r)
    return mpmath.log(a / (2 * a - 1) * up + (a - 1) / (2 * a - 1) * down) / (a - 1)


@pytest.mark.parametrize("alpha", ORDERS)
@pytest.mark.parametrize("epsilon", [F(1, 10**9), F(1, 100), F(1, 3), F(1), F(5), F(300)])
def test_a_pure_use_has_the_divergence_of_randomised_response_rounded_up(epsilon: F, alpha: F) -> None:
    with mpmath.workdps(400):
        true = randomised_response(epsilon, alpha)
        found = renyi_upper(ApproximateEvent(epsilon), alpha)
        assert found is not None
        assert true <= curves.real(found) <= true * (1 + mpf(10) ** -15)
        least = renyi_upper(LaplaceEvent(epsilon), alpha)
        assert least is not None
        assert curves.real(least) >= laplace(epsilon, alpha)


def test_extreme_pure_uses_stay_between_nothing_and_their_epsilon() -> None:
    for epsilon in (F(0), F(1, 10**300), F(10**390)):
        for alpha in ORDERS:
            found = renyi_upper(ApproximateEvent(epsilon, F(1, 10)), alpha)
            assert found is not None
            assert found > 0 if epsilon else found == 0
            assert found <= epsilon


@pytest.mark.parametrize("event", [ZCDPEvent(F(1, 7)), GaussianEvent(F(2, 7))])
def test_other_uses_have_order_times_rho(event: Event) -> None:
    assert renyi_upper(event, F(7, 2)) == F(1, 2)


@pytest.mark.parametrize("delta", [F(9, 10), F(1, 10**6), F(1, 10**100)])
@pytest.mark.parametrize("epsilon", [F(1, 10**5), F(1), F(20)])
def test_a_divergence_converts_as_the_theorem_says_rounded_safely(epsilon: F, delta: F) -> None:
    with mpmath.workdps(80):
        for alpha in (*ORDERS, order_for(epsilon, delta)):
            a, e = curves.real(alpha), curves.real(epsilon)
            true = e + mpmath.log(curves.real(delta) * a) / (a - 1) - mpmath.log(1 - 1 / a)
            found = renyi_for(alpha, epsilon, delta)
            if true < 0:
                assert found == 0
                continue
            size = 1 + mpmath.fabs(e - true) + e
            assert true - size * mpf(10) ** -18 <= curves.real(found) <= true
            back = renyi_epsilon(alpha, found, delta)
            assert epsilon * (1 - F(1, 10**15)) <= back <= epsilon
            above = curves.real(renyi_epsilon(alpha, F(3), delta))
            assert above >= max(mpf(0), mpf(3) - (true - e))


@pytest.mark.parametrize(("epsilon", "delta"), [(F(1), F(1, 10**6)), (F(1, 10), F(1, 10**12)), (F(50), F(1, 3))])
def test_the_order_affords_as_much_rho_as_any(epsilon: F, delta: F) -> None:
    best = order_for(epsilon, delta)
    most = renyi_for(best, epsilon, delta) / best
    grid = [1 + F(k, 64) for k in range(1, 640)] + [F(k) for k in range(11, 1000, 3)]
    assert all(renyi_for(a, epsilon, delta) / a <= most * (1 + F(1, 10**6)) for a in grid)


def by_sum(p: list[mpf], q: list[mpf], alpha: F) -> mpf:
    """The definition, Mironov 2017, Definition 3."""
    a = curves.real(alpha)
    return mpmath.log(mpmath.fsum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True) if x and y)) / (a - 1)


@pytest.mark.parametrize("alpha", ORDERS)
@pytest.mark.parametrize("ratio", [F(1, 10**9), F(1, 100), F(1, 3), F(5), F(300)])
def test_laplace_noise_has_the_divergence_of_its_formula_rounded_up(ratio: F, alpha: F) -> None:
    with mpmath.workdps(400):
        true, found = laplace(ratio, alpha), renyi_upper(LaplaceEvent(ratio), alpha)
        assert found is not None
        assert true <= curves.real(found) <= true * (1 + mpf(10) ** -15)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("alpha", [F(10001, 10000), F(3, 2), F(2), F(9356, 1000)])
@pytest.mark.parametrize(("shift", "scale"), [(1, F(1, 20)), (4, F(3)), (7, F(1, 2)), (12, F(8))])
def test_discrete_laplace_noise_has_the_divergence_of_its_masses_rounded_up(shift: int, scale: F, alpha: F) -> None:
    with mpmath.workdps(60):
        t, far = mpmath.exp(-1 / curves.real(scale)), 60 + int(90 * scale)
        mass = [t ** abs(k) * (1 - t) / (1 + t) for k in range(-far, far + shift + 1)]
        moved = [t ** abs(k - shift) * (1 - t) / (1 + t) for k in range(-far, far + shift + 1)]
        true = by_sum(moved, mass, alpha)
        found = renyi_upper(DiscreteLaplaceEvent(shift, scale), alpha)
        assert found is not None
        assert true * (1 - mpf(10) ** -20) <= curves.real(found) <= true * (1 + mpf(10) ** -15)


@pytest.mark.parametrize("alpha", [F(3, 2), F(2), F(9356, 1000), F(300)])
@pytest.mark.parametrize(("epsilon", "categories"), [(F(1, 100), 2), (F(1), 3), (F(4), 1000)])
def test_randomised_response_and_finite_laws_have_the_divergence_of_their_masses(
    epsilon: F, categories: int, alpha: F
) -> None:
    with mpmath.workdps(60):
        e = mpmath.exp(curves.real(epsilon))
        z = e + categories - 1
        true = by_sum([e / z, 1 / z, (categories - 2) / z], [1 / z, e / z, (categories - 2) / z], alpha)
        found = renyi_upper(RandomizedResponseEvent(epsilon, categories), alpha)
        assert found is not None
        assert true <= curves.real(found) <= true * (1 + mpf(10) ** -15)
        p, q = (F(1, 2), F(1, 3), F(1, 6), F(0)), (F(1, 4), F(1, 4), F(1, 4), F(1, 4))
        both = [[curves.real(x) for x in masses[:3]] for masses in (p, q)]
        true = max(by_sum(both[0], both[1], alpha), by_sum(both[1], both[0], alpha), mpf(0))
        found = renyi_upper(AtomsEvent(p, q), alpha)
        assert found is not None
        assert true <= curves.real(found) <= true * (1 + mpf(10) ** -15)


def sampled(sigma: F, rate: F, alpha: F) -> tuple[mpf, mpf]:
    """By quadrature of the densities: removing a unit, and adding one."""
    s, q, a = curves.real(sigma), curves.real(rate), curves.real(alpha)

    def moment(power: mpf) -> mpf:
        def integrand(x: mpf) -> mpf:
            w = 1 - q + q * mpmath.exp((2 * x - 1) / (2 * s * s))
            return w**power * mpmath.npdf(x, 0, s)

        return mpmath.quad(integrand, [-40 * s, -8 * s, 0, 1, 4, 8, 8 * s + float(alpha), 60 * s + float(alpha)])

    return mpmath.log(moment(a)) / (a - 1), mpmath.log(moment(1 - a)) / (a - 1)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("alpha", [F(2), F(31)])
@pytest.mark.parametrize(("sigma", "rate"), [(F(1), F(1, 100)), (F(2), F(1, 5))])
def test_a_sampled_gaussian_has_at_whole_orders_the_divergence_of_removing_which_is_the_larger(
    sigma: F, rate: F, alpha: F
) -> None:
    with mpmath.workdps(20):
        removed, added = sampled(sigma, rate, alpha)
        found = renyi_upper(PoissonEvent(GaussianEvent(1 / sigma**2), rate), alpha)
        assert found is not None
        assert mpmath.almosteq(curves.real(found), removed, rel_eps=mpf(10) ** -12)
        assert added < removed


@pytest.mark.parametrize("alpha", [F(5, 4), F(5, 2), F(77, 10)])
def test_between_whole_orders_a_sampled_gaussian_stays_just_above_the_truth(alpha: F) -> None:
    with mpmath.workdps(20):
        found = renyi_upper(PoissonEvent(GaussianEvent(F(1)), F(1, 10)), alpha)
        assert found is not None
        assert max(sampled(F(1), F(1, 10), alpha)) <= curves.real(found) <= 2 * max(sampled(F(1), F(1, 10), alpha))


def test_sampling_any_symmetric_law_of_few_atoms_costs_most_when_removing() -> None:
    with mpmath.workdps(30):
        for epsilon, categories, rate, alpha in [
            (F(1), 2, F(1, 10), 5),
            (F(3), 4, F(1, 2), 2),
            (F(6), 2, F(1, 50), 20),
        ]:
            e, q = mpmath.exp(curves.real(epsilon)), curves.real(rate)
            z = e + categories - 1
            told, base = [e / z, 1 / z, (categories - 2) / z], [1 / z, e / z, (categories - 2) / z]
            mixed = [(1 - q) * b + q * t for b, t in zip(base, told, strict=True)]
            removed, added = by_sum(mixed, base, F(alpha)), by_sum(base, mixed, F(alpha))
            found = renyi_upper(PoissonEvent(RandomizedResponseEvent(epsilon, categories), rate), F(alpha))
            assert found is not None
            assert added < removed
            assert removed <= curves.real(found) <= removed * (1 + mpf(10) ** -15)


def test_a_sampled_use_never_costs_more_than_the_use_itself() -> None:
    whole = [GaussianEvent(F(400)), ZCDPEvent(F(1)), AtomsEvent((F(1, 3), F(2, 3)), (F(2, 3), F(1, 3)))]
    for event in whole:
        for alpha in (F(5, 4), F(7), F(256), F(10**6)):
            one, part = renyi_upper(event, alpha), renyi_upper(PoissonEvent(event, F(1, 3)), alpha)
            assert one is not None
            assert part is not None
            assert 0 < part <= one


def test_extreme_events_are_quick_and_finite() -> None:
    for event in (
        LaplaceEvent(F(10**30)),
        DiscreteLaplaceEvent(1, F(10**80)),
        DiscreteLaplaceEvent(10**9, F(1, 10**9)),
        RandomizedResponseEvent(F(10**9), 10**300),
        PoissonEvent(GaussianEvent(F(10**12)), F(1, 10**300)),
    ):
        for alpha in ORDERS:
            found = renyi_upper(event, alpha)
            assert found is not None
            assert found > 0


def test_a_bound_from_floats_is_the_same_where_its_last_digit_differs() -> None:
    class Computed(Event):
        rho = None
        mu_squared = None

        def __init__(self, pure: F) -> None:
            self._pure = pure

        @property
        def pure(self) -> F:
            return self._pure

        def pair(self) -> Pair:
            raise AssertionError

    one, other = math.log(3), math.nextafter(math.log(3), 9)
    for alpha in (F(3, 2), F(20)):
        found = renyi_upper(Computed(F(one)), alpha)
        assert found == renyi_upper(Computed(F(other)), alpha)
        assert found is not None
        exactly = renyi_upper(ApproximateEvent(F(other)), alpha)
        assert exactly is not None
        assert exactly <= found <= exactly * (1 + F(1, 10**7))


def test_a_curve_of_divergences_has_them_and_what_follows_from_them() -> None:
    event = RenyiEvent((F(2), F(4)), (F(1), F(3, 2)))
    assert renyi_upper(event, F(4)) == F(3, 2)
    assert renyi_upper(event, F(3)) == F(11, 8)
    assert renyi_upper(event, F(5)) is None
