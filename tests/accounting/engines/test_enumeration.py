"""The enumeration against sums over outcomes at 55 digits, which share nothing with it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from fractions import Fraction as F

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from discreet.accounting.bounds import Bounds
from discreet.accounting.engines.enumeration import MOST_OUTCOMES, delta_bounds, epsilon_bounds, outcomes
from discreet.privacy.law import AtomsLaw
from discreet.privacy.pairs.additive import DiscreteGaussianPair, DiscreteLaplacePair
from discreet.privacy.pairs.finite import AtomsPair, FiniteLaw, FinitePair, RandomizedResponsePair
from discreet.privacy.pairs.guaranteed import ApproximatePair
from discreet.privacy.sampling import PoissonPair
from tests.privacy import curves
from tests.privacy.curves import DIGITS, Law, exactly, lattice_laplace, real, response

TIGHT = 1e-10  # of δ, and of ε


def law(pair: FinitePair) -> FiniteLaw:
    found = pair.law()
    assert found is not None
    return found


def holds(bounds: Bounds, true: F) -> bool:
    return F(bounds.lower) <= min(true, F(1)) <= F(bounds.upper)  # a truth near 1 is rounded too


def tight(bounds: Bounds, width: float = TIGHT) -> bool:
    return bounds.upper - bounds.lower <= width * bounds.upper


@exactly
def binomial_curve(epsilon_zero: F, n: int, epsilon: float) -> mpf:
    """δ of n pure ε₀-DP uses, by the recurrence of the binomial masses from the first excess on."""
    e, x = real(epsilon_zero), real(epsilon)
    p = 1 / (1 + mpmath.exp(-e))
    k = int(mpmath.floor((x / e + n) / 2)) + 1
    if k > n:
        return mpf(0)
    term = mpmath.exp(
        mpmath.loggamma(n + 1)
        - mpmath.loggamma(k + 1)
        - mpmath.loggamma(n - k + 1)
        + k * mpmath.log(p)
        + (n - k) * mpmath.log(1 - p)
    )
    total, odds = mpf(0), p / (1 - p)
    while k <= n and (not total or term > total * mpf(10) ** -30):
        total += term * -mpmath.expm1(x - (2 * k - n) * e)
        term *= odds * (n - k) / (k + 1)
        k += 1
    return total


@exactly
def tallied_curve(parts: Sequence[tuple[Law, int]], epsilon: float) -> mpf:
    """δ by expanding the product use by use, the outcomes with one ratio together."""
    together: dict[int, tuple[mpf, mpf]] = {0: (mpf(1), mpf(1))}
    alone = mpf(1)
    for outcomes_of, n in parts:
        both = [(a, b) for a, b in outcomes_of if a and b]
        alone *= (1 - sum((a for a, b in outcomes_of if not b), mpf(0))) ** n
        for _ in range(n):
            grown: dict[int, tuple[mpf, mpf]] = {}
            for a, b in together.values():
                for c, d in both:
                    key = int(mpmath.nint(mpmath.log(a * c / (b * d)) * mpf(10) ** 30))
                    more, less = grown.get(key, (mpf(0), mpf(0)))
                    grown[key] = more + a * c, less + b * d
            together = grown
    x = mpmath.exp(real(epsilon))
    return 1 - alone + sum((a - x * b for a, b in together.values() if a > x * b), mpf(0))


@pytest.mark.parametrize("epsilon_zero", [F(1, 8), F(3, 4), F(4)])
@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_pure_uses_are_the_optimal_composition(epsilon_zero: F, n: int) -> None:
    parts = [(law(ApproximatePair(float(epsilon_zero), 0.0)), n)]
    for share in (-0.9, -0.1, 0.0, 0.05, 0.3, 0.62, 0.99):
        x = share * n * float(epsilon_zero)
        bounds = delta_bounds(parts, x)
        assert holds(bounds, curves.composed_response(epsilon_zero, n, x))
        assert tight(bounds)
    assert delta_bounds(parts, n * float(epsilon_zero) * (1 + 1e-12)).lower == 0


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-15, 1e-40, 1e-150])
@pytest.mark.parametrize(("epsilon_zero", "n"), [(F(1, 8), 500), (F(1, 2), 2000), (F(1, 1024), 3000)])
def test_epsilon_lies_between_the_bounds_and_they_are_close(epsilon_zero: F, n: int, delta: float) -> None:
    bounds = epsilon_bounds([(law(ApproximatePair(float(epsilon_zero), 0.0)), n)], delta)
    assert bounds is not None
    assert binomial_curve(epsilon_zero, n, bounds.upper) <= F(delta)
    assert bounds.lower == 0 or binomial_curve(epsilon_zero, n, bounds.lower) >= F(delta)
    assert tight(bounds, 1e-11)


def test_a_million_uses_are_as_certain() -> None:
    parts = [(law(ApproximatePair(0.125, 0.0)), 10**6)]
    for delta in (1e-5, 1e-12):
        bounds = epsilon_bounds(parts, delta)
        assert bounds is not None
        assert binomial_curve(F(1, 8), 10**6, bounds.upper) <= F(delta)
        assert binomial_curve(F(1, 8), 10**6, bounds.lower) >= F(delta)
        assert tight(bounds, 1e-11)


def test_a_slightly_wrong_law_is_told_apart() -> None:
    right = law(ApproximatePair(0.125, 0.0))
    x, true = 6.0, binomial_curve(F(1, 8), 500, 6.0)
    assert holds(delta_bounds([(right, 500)], x), true)
    heavier = right.mass * np.array([1 - 1e-9, 1 + 1e-9])
    for wrong in (
        FiniteLaw(right.loss, heavier / heavier.sum(), 0.0),
        FiniteLaw(right.loss * (1 + 1e-10), right.mass, 0.0),
        FiniteLaw(-right.loss, right.mass, 0.0),
        FiniteLaw(right.loss, right.mass * (1 - 1e-9), 1e-9),
    ):
        assert not holds(delta_bounds([(wrong, 500)], x), true)
    assert not holds(delta_bounds([(right, 501)], x), true)


@pytest.mark.parametrize("delta", [F(1, 2**20), F(1, 2**80)])
def test_an_infinite_loss_counts_in_full_and_once(delta: F) -> None:
    outcomes_of, n = response(F(1, 4), delta), 9
    parts = [(law(ApproximatePair(0.25, float(delta))), n)]
    for x in (-0.3, 0.0, 0.6, 1.9):
        bounds = delta_bounds(parts, x)
        assert holds(bounds, tallied_curve([(outcomes_of, n)], x))
        assert tight(bounds)
    with mpmath.workdps(DIGITS):
        exact = F(1) - (1 - delta) ** n
    beyond = delta_bounds(parts, 3.0)
    assert F(beyond.lower) <= exact <= F(beyond.upper)
    assert tight(beyond)
    assert epsilon_bounds(parts, float(exact) * (1 - 1e-9)) is None
    enough = epsilon_bounds(parts, float(exact) * (1 + 1e-9))
    assert enough is not None
    assert 2.2 < enough.lower <= enough.upper <= 2.25 * (1 + 1e-12)


def test_several_laws_and_both_directions() -> None:
    p, q = (F(1, 2), F(1, 4), F(1, 4), F(0)), (F(1, 3), F(1, 2), F(1, 12), F(1, 12))
    with mpmath.workdps(DIGITS):
        there = [(real(a), real(b)) for a, b in zip(p, q, strict=True)]
        odds = mpmath.exp(mpf(3) / 8)
        whole = odds + 2
        three = [(odds / whole, 1 / whole), (1 / whole, odds / whole), (1 / whole, 1 / whole)]
    noise = lattice_laplace(3, F(4))
    pairs = [(AtomsPair(p, q), 4), (RandomizedResponsePair(0.375, 3), 3), (DiscreteLaplacePair(3, F(4)), 2)]
    forward = [(law(pair), n) for pair, n in pairs]
    backward = [(law(pair.reverse()), n) for pair, n in pairs]  # type: ignore[arg-type]
    back = [(b, a) for a, b in there]
    for x in (-1.0, 0.1, 0.4, 1.5, 3.0):
        true = tallied_curve([(there, 4), (three, 3), (noise, 2)], x)
        mirrored = tallied_curve([(back, 4), (three, 3), (noise, 2)], x)
        assert holds(delta_bounds(forward, x), true)
        assert holds(delta_bounds(backward, x), mirrored)
        assert tight(delta_bounds(forward, x))
        assert not holds(delta_bounds(backward, x), true)


@pytest.mark.parametrize("removes", [True, False])
def test_samples_of_pure_uses(removes: bool) -> None:
    n, q = 12, F(1, 16)
    with mpmath.workdps(DIGITS):
        mixed = [((1 - real(q)) * b + real(q) * a, b) for a, b in response(F(1, 2), F(0)) if a]
        outcomes_of = mixed if removes else [(b, a) for a, b in mixed]
    parts = [(law(PoissonPair(ApproximatePair(0.5, 0.0), q, removes)), n)]
    for x in (-0.2, 0.0, 0.11, 0.3):
        bounds = delta_bounds(parts, x)
        true = tallied_curve([(outcomes_of, n)], x)
        assert holds(bounds, true) or true < F(1, 10**50)
        assert tight(bounds) or true < F(1, 10**50)
    found = epsilon_bounds(parts, 1e-5)
    assert found is not None
    upper, lower = (tallied_curve([(outcomes_of, n)], x) for x in (found.upper, found.lower))
    assert upper <= F(1e-5) <= lower


def test_two_uses_of_discrete_gaussian_noise() -> None:
    with mpmath.workdps(DIGITS):
        masses = {k: mpmath.exp(-mpf(k * k) / 2) for k in range(-45, 46)}
        whole = sum(masses.values())
        noise = [(masses[k] / whole, masses[k - 1] / whole) for k in range(-40, 41)]
    parts = [(law(DiscreteGaussianPair(1, F(1))), 2)]
    for x in (-0.4, 0.2, 1.3, 9.1, 20.3):
        bounds = delta_bounds(parts, x)
        assert holds(bounds, tallied_curve([(noise, 2)], x))
        assert tight(bounds)


def test_a_law_that_does_not_say_what_it_leaks_is_taken_at_its_masses() -> None:
    half = AtomsLaw(np.array([0.5]), np.array([0.75]))
    bounds = delta_bounds([(half, 2)], 5.0)
    assert bounds.lower <= 1 - 0.75**2 <= bounds.upper
    assert tight(bounds, 1e-12)
    whole = AtomsLaw(np.array([-0.5, 0.5]), np.array([0.25, 0.75]))
    assert 0 < delta_bounds([(whole, 1)], 5.0).upper < 1e-13  # rounding could hide as much


def test_delta_at_the_ends() -> None:
    parts = [(law(ApproximatePair(0.5, 0.0)), 4)]
    exact = epsilon_bounds(parts, 1e-280)
    assert exact is not None
    assert exact.upper == pytest.approx(2.0, rel=1e-12)
    assert epsilon_bounds(parts, 0.0) is None  # masses below 1e-300 are not looked at
    assert epsilon_bounds(parts, 0.99) == Bounds(0.0, 0.0)
    assert epsilon_bounds([], 1e-6) == Bounds(0.0, 0.0)
    assert delta_bounds([], 0.5).upper == 0
    assert delta_bounds([], -math.log(2)).lower == pytest.approx(0.5)
    never = law(AtomsPair((F(1), F(0)), (F(0), F(1))))
    assert delta_bounds([(never, 3)], 7.0).upper == 1
    assert delta_bounds([(never, 3)], 7.0).lower > 0.99
    assert epsilon_bounds([(never, 3)], 0.5) is None


def test_epsilon_of_large_steps_is_between_its_bounds() -> None:
    for epsilon_zero, n, delta in [(20.0, 3, 0.3), (45.0, 2, 1e-9), (45.0, 2, 0.5), (8.0, 40, 1e-30)]:
        bounds = epsilon_bounds([(law(ApproximatePair(epsilon_zero, 0.0)), n)], delta)
        assert bounds is not None
        assert curves.composed_response(F(epsilon_zero), n, bounds.upper) <= F(delta)
        assert curves.composed_response(F(epsilon_zero), n, bounds.lower) >= F(delta)


def test_the_number_of_outcomes_is_known_before() -> None:
    two, six = law(ApproximatePair(0.5, 0.0)), law(DiscreteLaplacePair(5, F(3)))
    assert outcomes([(two, 10), (six, 3)]) == 11 * math.comb(8, 3)
    assert outcomes([]) == 1
    with pytest.raises(OverflowError):
        delta_bounds([(two, MOST_OUTCOMES)], 1.0)


def test_five_hundred_uses_take_milliseconds_and_a_million_a_third_of_a_second() -> None:
    pure = law(ApproximatePair(0.1, 0.0))
    for n, most in ((500, 0.003), (10**6, 0.3)):
        taken = []
        for _ in range(5):
            start = time.process_time()
            epsilon_bounds([(pure, n)], 1e-6)
            taken.append(time.process_time() - start)
        assert min(taken) < most
