"""Laws of losses with finitely many values, against the outcomes of the definitions at 55 digits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as F

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from discreet.privacy.law import AtomsLaw
from discreet.privacy.pair import Pair
from discreet.privacy.pairs.additive import DiscreteGaussianPair, DiscreteLaplacePair, GaussianPair, LaplacePair
from discreet.privacy.pairs.finite import MOST_ATOMS, AtomsPair, FiniteLaw, FinitePair, RandomizedResponsePair
from discreet.privacy.pairs.guaranteed import ApproximatePair
from discreet.privacy.sampling import PoissonPair
from tests.privacy.curves import DIGITS, Law, lattice_laplace, real, response

LOSS, MASS, ROUNDING = mpf(2) ** -44, mpf(2) ** -48, mpf(10) ** -45  # the last is that of the truth


def lattice_gaussian(shift: int, sigma_squared: F) -> Law:
    with mpmath.workdps(DIGITS):
        v = 2 * real(sigma_squared)
        reach = int(mpmath.ceil(38 * mpmath.sqrt(v / 2))) + 1
        whole = sum(mpmath.exp(-mpf(k * k) / v) for k in range(-2 * reach, 2 * reach + 1))
        window = range(-reach, reach + shift + 1)
        return [(mpmath.exp(-mpf(k * k) / v) / whole, mpmath.exp(-mpf((k - shift) ** 2) / v) / whole) for k in window]


def categories(epsilon: F, k: int) -> Law:
    with mpmath.workdps(DIGITS):
        odds = mpmath.exp(real(epsilon))
        whole = odds + k - 1
        return [(odds / whole, 1 / whole), (1 / whole, odds / whole), *[(1 / whole, 1 / whole)] * (k - 2)]


def fractions(p: tuple[F, ...], q: tuple[F, ...]) -> Law:
    with mpmath.workdps(DIGITS):
        return [(real(a), real(b)) for a, b in zip(p, q, strict=True)]


P, Q = (F(1, 2), F(1, 4), F(1, 8), F(1, 8), F(0)), (F(1, 4), F(1, 8), F(1, 3), F(0), F(7, 24))

CASES: list[tuple[FinitePair, Callable[[], Law]]] = [
    (ApproximatePair(0.75, 0.0), lambda: response(F(3, 4), F(0))),
    (ApproximatePair(0.125, 2.0**-70), lambda: response(F(1, 8), F(1, 2**70))),
    (ApproximatePair(16.0, 0.25), lambda: response(F(16), F(1, 4))),
    (RandomizedResponsePair(0.5, 2), lambda: categories(F(1, 2), 2)),
    (RandomizedResponsePair(3.0, 7), lambda: categories(F(3), 7)),
    (AtomsPair(P, Q), lambda: fractions(P, Q)),
    (AtomsPair(Q, P), lambda: fractions(Q, P)),
    (DiscreteLaplacePair(1, F(3)), lambda: lattice_laplace(1, F(3))),
    (DiscreteLaplacePair(7, F(22, 7)), lambda: lattice_laplace(7, F(22, 7))),
    (DiscreteLaplacePair(300, F(7)), lambda: lattice_laplace(300, F(7))),
    (DiscreteGaussianPair(1, F(9)), lambda: lattice_gaussian(1, F(9))),
    (DiscreteGaussianPair(3, F(2, 3)), lambda: lattice_gaussian(3, F(2, 3))),
]
RATES = [F(1, 1024), F(1, 4), F(127, 128)]


def sampled(outcomes: Law, rate: F, removes: bool) -> Law:
    q = real(rate)
    mixed = [((1 - q) * b + q * a, b) for a, b in outcomes]
    return mixed if removes else [(b, a) for a, b in mixed]


def true_law(outcomes: Law) -> tuple[list[tuple[mpf, mpf]], mpf]:
    """The losses of P in rising order with their masses, equal ones together, and the chance of an infinite one."""
    together: dict[mpf, mpf] = {}
    for a, b in outcomes:
        if a > 0 and b > 0:
            loss = mpmath.log(a / b)
            near = next(
                (x for x in (*list(together)[-1:], *together) if abs(x - loss) <= mpf(10) ** -40 * abs(loss)), loss
            )
            together[near] = together.get(near, mpf(0)) + a
    return sorted(together.items()), sum((a for a, b in outcomes if not b), mpf(0))


def agree(law: FiniteLaw, outcomes: Law) -> bool:
    """Whether the law is the true one, rounded as it says."""
    true, leak = true_law(outcomes)
    true = [(x, m) for x, m in true if m > mpf(10) ** -302]
    found = [(real(x), real(m)) for x, m in zip(law.loss.tolist(), law.mass.tolist(), strict=True) if m > 1e-302]
    if len(found) != len(true) or not leak <= real(law.leak) <= leak * (1 + MASS):
        return False
    return all(
        -ROUNDING <= y - x <= LOSS * abs(x) + ROUNDING and abs(n - m) <= MASS * m
        for (x, m), (y, n) in zip(true, found, strict=True)
    )


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("pair", "outcomes"), CASES)
def test_losses_are_rounded_up_and_masses_are_kept_to_a_few_units(
    pair: FinitePair, outcomes: Callable[[], Law]
) -> None:
    law = pair.law()
    assert law is not None
    with mpmath.workdps(DIGITS):
        assert agree(law, outcomes())
        assert not agree(FiniteLaw(law.loss, law.mass * (1 + 1e-9), law.leak), outcomes())
        assert not agree(FiniteLaw(law.loss * (1 + 1e-9), law.mass, law.leak), outcomes())
        assert not agree(FiniteLaw(-law.loss[::-1], law.mass[::-1], law.leak), outcomes())


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("removes", [True, False])
@pytest.mark.parametrize(("pair", "outcomes"), CASES)
def test_a_sample_mixes_the_masses(pair: FinitePair, outcomes: Callable[[], Law], removes: bool, rate: F) -> None:
    law = PoissonPair(pair, rate, removes).law()
    if pair.epsilon_max == np.inf or (isinstance(pair, DiscreteLaplacePair) and pair.shift == 300):
        return  # of the tails of the discrete Gaussian only those below FLOOR differ: see the curve below
    assert law is not None
    with mpmath.workdps(DIGITS):
        assert agree(law, sampled(outcomes(), rate, removes))
        assert not agree(law, sampled(outcomes(), rate, not removes))
        assert not agree(law, sampled(outcomes(), rate * F(10**9 + 1, 10**9), removes))


def curve(law: FiniteLaw, epsilon: float) -> float:
    return law.leak + float((law.mass * -np.expm1(np.minimum(epsilon - law.loss, 0.0))).sum())


def true_curve(outcomes: Law, epsilon: float) -> F:
    x = mpmath.exp(real(epsilon))
    value = sum((a - x * b for a, b in outcomes if a - x * b > mpf(10) ** -40 * a), mpf(0))
    return F(int(mpmath.nint(value * mpf(2) ** 1200)), 2**1200)


@pytest.mark.parametrize("sampling", [None, True, False])
@pytest.mark.parametrize(("pair", "outcomes"), CASES)
def test_the_curve_of_the_law_is_the_curve_of_the_outcomes(
    pair: FinitePair, outcomes: Callable[[], Law], sampling: bool | None
) -> None:
    whole = pair if sampling is None else PoissonPair(pair, F(1, 4), sampling)
    law = whole.law()
    if law is None:
        assert pair.law() is not None
        assert sampling is not None
        assert pair.epsilon_max > 32  # losses that a sample would round too coarsely
        return
    with mpmath.workdps(1200 // 3):
        truth = outcomes() if sampling is None else sampled(outcomes(), F(1, 4), sampling)
        for x in (-2.0, -0.28, -0.01, 0.0, 0.003, 0.1, 0.2, 0.7, 2.5):
            true = true_curve(truth, x)
            got = F(curve(law, x))
            assert abs(got - true) <= F(1, 10**12 if sampling is None else 10**11) * true + F(1, 10**15) * F(
                whole.epsilon_max < x
            )


def test_the_chance_of_an_infinite_loss_is_kept_where_the_masses_cannot_say_it() -> None:
    law = ApproximatePair(0.1, 1e-40).law()
    assert law is not None
    assert law.leak == 1e-40
    assert law.mass.sum() == 1
    both = PoissonPair(ApproximatePair(0.1, 1e-40), F(1, 2), True).law()
    assert both is not None
    assert both.leak == pytest.approx(5e-41, rel=1e-14)
    back = PoissonPair(ApproximatePair(0.1, 1e-40), F(1, 2), False).law()
    assert back is not None
    assert back.leak == 0


@pytest.mark.parametrize(
    "pair",
    [
        LaplacePair(1.0),
        GaussianPair(F(1)),
        DiscreteLaplacePair(MOST_ATOMS, F(1)),
        DiscreteLaplacePair(1, F(1, 10**400)),
        DiscreteGaussianPair(1, F(10**10)),
        DiscreteGaussianPair(1, F(1, 10**400)),
        ApproximatePair(900.0, 0.0),
        ApproximatePair(0.1, 1.0),
        PoissonPair(GaussianPair(F(1)), F(1, 2), True),
        PoissonPair(ApproximatePair(300.0, 0.0), F(1, 2), True),
        PoissonPair(ApproximatePair(0.1, 0.0), F(1), True),
    ],
)
def test_there_is_no_list_where_there_are_too_many_losses_or_no_floats(pair: Pair) -> None:
    assert not isinstance(pair.law(), AtomsLaw)


def test_no_shift_is_no_loss() -> None:
    for pair in (DiscreteLaplacePair(0, F(3)), DiscreteGaussianPair(0, F(3))):
        law = pair.law()
        assert law is not None
        assert (law.loss.tolist(), law.mass.tolist(), law.leak) == ([0.0], [1.0], 0.0)


def test_disjoint_outcomes_leave_nothing_but_infinite_losses() -> None:
    law = AtomsPair((F(1), F(0)), (F(0), F(1))).law()
    assert law is not None
    assert law.loss.size == 0
    assert law.leak == 1
