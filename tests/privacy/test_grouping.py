"""Groups of units against closed forms, exact iteration of trade-off functions, and quadrature."""

from __future__ import annotations

import math
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.privacy.discrete_events import AtomsEvent, BoundedRangeEvent, RandomizedResponseEvent
from discreet.privacy.event import (
    ApproximateEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ZCDPEvent,
)
from discreet.privacy.grouping import GroupEvent, SampledGroupEvent, group, group_uses, textbook_group
from discreet.privacy.pair import ACCURACY, FLOOR, Pair
from discreet.privacy.pairs.additive import GaussianPair
from discreet.privacy.pairs.finite import AtomsPair
from discreet.privacy.pairs.group import GroupPair
from discreet.privacy.pairs.guaranteed import ApproximatePair
from discreet.privacy.sampling import PoissonEvent
from discreet.privacy.unit import Relation
from tests.privacy import curves, group_curves

POINTS = (-2.0, -0.5, -0.1, 0.0, 0.05, 0.3, 0.7, 1.0, 1.8, 3.0, 5.0)
LAWS = {
    "response": ((F(2, 3), F(1, 3)), (F(1, 3), F(2, 3))),
    "one-sided": ((F(1, 2), F(3, 10), F(1, 5)), (F(1, 5), F(7, 20), F(9, 20))),
    "leak": ((F(1, 1000), F(2, 3), F(1, 3) - F(1, 1000)), (F(0), F(1, 3), F(2, 3))),
    "leak behind": ((F(1, 2), F(1, 2), F(0)), (F(1, 4), F(1, 2), F(1, 4))),
}


def at(pair: Pair, epsilon: float) -> F:
    return F(float(pair.delta(np.array([epsilon]))[0]))


def is_above(found: F, true: F) -> bool:
    return found >= true * (1 - F(ACCURACY)) - F(FLOOR)


def is_near(found: F, true: F, apart: F) -> bool:
    return is_above(found, true) and found <= true * (1 + apart) + F(1, 10**200)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (GaussianEvent(F(1, 4)), GaussianEvent(F(9, 4))),
        (LaplaceEvent(F(1, 4)), LaplaceEvent(F(3, 4))),
        (DiscreteLaplaceEvent(2, F(5)), DiscreteLaplaceEvent(6, F(5))),
        (DiscreteGaussianEvent(2, F(5)), DiscreteGaussianEvent(6, F(5))),
        (ApproximateEvent(F(1, 2)), DiscreteLaplaceEvent(3, F(2))),
        (ApproximateEvent(F(0)), ApproximateEvent(F(0))),
        (ZCDPEvent(F(1, 4)), ZCDPEvent(F(9, 4))),
        (BoundedRangeEvent(F(1, 4)), BoundedRangeEvent(F(3, 4))),
        (PoissonEvent(GaussianEvent(F(1, 4)), F(1, 5)), SampledGroupEvent(F(1, 4), F(1, 5), 3)),
        (SampledGroupEvent(F(1, 4), F(1, 5), 2), SampledGroupEvent(F(1, 4), F(1, 5), 6)),
        (GroupEvent(AtomsEvent(*LAWS["leak"]), 2), GroupEvent(AtomsEvent(*LAWS["leak"]), 6)),
        (ApproximateEvent(F(1, 2), F(1, 100)), GroupEvent(ApproximateEvent(F(1, 2), F(1, 100)), 3)),
    ],
    ids=repr,
)
def test_a_group_of_three_is_the_event_of_its_family(event: Event, expected: Event) -> None:
    assert group(event, 3) == expected
    assert group(event, 1) is event


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_a_curve_is_the_iterated_trade_off_function_in_both_directions(
    law: tuple[tuple[F, ...], tuple[F, ...]], k: int
) -> None:
    p, q = law
    pair = group(AtomsEvent(p, q), k).pair()
    for x in POINTS:
        alpha = F(math.exp(x))
        for found, (a, b) in ((at(pair, x), (p, q)), (at(pair.reverse(), x), (q, p))):
            # The float e^x is off by a part in 2^53, and the curve falls by at most 1 for each 1 of α.
            true = group_curves.iterated(a, b, k, alpha * (1 + F(1, 2**52)))
            assert is_near(found, true, F(1, 10**9) * (1 + alpha)), x


@pytest.mark.parametrize("k", [2, 4, 7])
def test_k_steps_of_any_pure_use_cost_what_discrete_laplace_noise_moved_by_k_costs(k: int) -> None:
    closed = group(ApproximateEvent(F(1, 2)), k).pair()
    for x in (-1.0, 0.0, 0.2, 0.5, 0.75, 1.0, 1.6, 2.4):
        true = curves.discrete_laplace(k, F(2), x)
        assert is_near(at(closed, x), true, F(1, 10**10))
        assert is_near(at(GroupPair(ApproximatePair(0.5, 0.0), k), x), true, F(1, 10**9))


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("mu_squared", "k"), [(F(1), 2), (F(1, 4), 5), (F(1, 100), 8), (F(4), 3)])
def test_iterating_the_gaussian_curve_gives_the_gaussian_curve_of_k_mu(mu_squared: F, k: int) -> None:
    pair = GroupPair(GaussianPair(mu_squared), k)
    for x in POINTS:
        assert is_near(at(pair, x), curves.gaussian(mu_squared * k * k, x), F(1, 10**9)), x
    wrong = curves.gaussian(mu_squared * k * k * F(102, 100), 1.0)
    assert not is_above(at(pair, 1.0), wrong)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("removes", [True, False])
@pytest.mark.parametrize(
    ("mu_squared", "rate", "k"),
    [(F(1), F(1, 10), 3), (F(1, 25), F(1, 100), 5), (F(9), F(1, 3), 4), (F(1, 4), F(1, 1000), 16)],
)
def test_a_sampled_group_costs_what_a_binomial_mixture_costs(mu_squared: F, rate: F, k: int, removes: bool) -> None:
    pair = SampledGroupEvent(mu_squared, rate, k).pair()
    pair = pair if removes else pair.reverse()
    for x in (-0.3, 0.0, 0.001, 0.02, 0.4, 2.5, 6.0):
        true = group_curves.sampled(mu_squared, rate, k, x, removes)
        if x > pair.epsilon_max:
            assert at(pair, x) == 0
        elif true > F(1, 10**30):  # the truth itself cancels at the edge
            assert is_near(at(pair, x), true, F(1, 10**11)), x


@pytest.mark.exhaustive
@pytest.mark.sampled(12)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("removes", [True, False])
@pytest.mark.parametrize(
    ("mu_squared", "rate", "k"),
    [
        (F(1), F(999, 1000), 30),
        (F(400), F(1, 2), 12),
        (F(10**7), F(1, 2), 3),
        (F(1, 10**8), F(1, 10**6), 3),
        (F(1, 100), 1 - F(1, 10**9), 12),
        (F(100), F(1, 10**40), 9),
    ],
)
def test_extreme_samples_are_never_understated(mu_squared: F, rate: F, k: int, removes: bool) -> None:
    pair = SampledGroupEvent(mu_squared, rate, k).pair()
    pair = pair if removes else pair.reverse()
    for x in (-600.0, -1e-6, 0.5, 8.0):
        true = group_curves.sampled(mu_squared, rate, k, x, removes)
        assert at(pair, x) >= true * (1 - F(ACCURACY)) - F(1, 10**40), x
    far = pair.delta(np.array([-800.0, -690.0, 0.0, 100.0, 690.0, 800.0]))
    assert np.all((far >= 0) & (far <= 1))
    assert np.all(np.diff(far) <= 0)


@pytest.mark.parametrize("removes", [True, False])
def test_the_mixture_is_integrated_from_its_definition(removes: bool) -> None:
    ray = group_curves.sampled(F(1), F(1, 5), 3, 0.25, removes)
    area = group_curves.sampled_by_quadrature(F(1), F(1, 5), 3, 0.25, removes)
    assert abs(ray - area) <= F(1, 10**15)
    other = group_curves.sampled(F(1), F(21, 100), 3, 0.25, removes)
    assert abs(other - area) > F(1, 10**4)


def test_a_sampled_group_is_tighter_than_any_use_with_that_curve_and_grows_with_k() -> None:
    x = np.array([-0.5, 0.0, 0.1, 0.5, 1.0, 3.0])
    one = PoissonEvent(GaussianEvent(F(1)), F(1, 10))
    for back in (False, True):

        def both(pair: Pair, back: bool = back) -> Pair:
            return pair.reverse() if back else pair

        assert np.allclose(both(SampledGroupEvent(F(1), F(1, 10), 1).pair()).delta(x), both(one.pair()).delta(x))
        last = both(one.pair()).delta(x)
        for k in (2, 3, 4):
            tight, generic = both(group(one, k).pair()).delta(x), both(GroupEvent(one, k).pair()).delta(x)
            assert np.all(tight <= generic * (1 + 1e-8) + FLOOR)
            assert np.all(last <= tight * (1 + 1e-8) + FLOOR)
            last = tight


def test_a_vector_of_counts_cannot_be_grouped_count_by_count() -> None:
    """Two steps of a pair of responses cost more than two discrete Laplace noises moved by 2 each."""
    ratio = F(2)
    p, q = (ratio / (1 + ratio), 1 / (1 + ratio)), (1 / (1 + ratio), ratio / (1 + ratio))
    p_two, q_two = (tuple(a * b for a, b in product(law, law)) for law in (p, q))
    together = group(AtomsEvent(p_two, q_two), 2).pair()
    t = 1 / ratio
    moved = [(1 / (1 + t), t**2 / (1 + t)), (t * (1 - t) / (1 + t),) * 2, (t**2 / (1 + t), 1 / (1 + t))]
    apart = AtomsPair(*(tuple(a[i] * b[i] for a, b in product(moved, moved)) for i in (0, 1)))
    x = 0.5
    true = group_curves.iterated(p_two, q_two, 2, F(math.exp(x)))
    assert is_near(at(together, x), true, F(1, 10**9))
    assert true > at(apart, x) * F(101, 100)


def test_the_textbook_is_met_at_k_epsilon_and_is_an_upper_bound() -> None:
    e, d, k = F(1, 2), F(1, 10**5), 3
    said = textbook_group(e, d, k)
    true = d * (1 + F(math.exp(0.5)) + F(math.exp(1.0)))
    assert said.epsilon == k * e
    assert true * (1 - F(1, 10**15)) <= said.delta <= true * (1 + F(1, 10**13))
    assert said.delta <= k * F(math.exp(1.0)) * d
    event = group(ApproximateEvent(e, d), k)
    assert event.pure == said.epsilon
    assert event.failure == said.delta
    assert is_near(at(event.pair(), 1.5), true, F(1, 10**9))
    assert is_near(at(event.pair(), 40.0), true, F(1, 10**9))
    assert textbook_group(0, F(1, 100), 7).delta == F(7, 100)
    with pytest.raises(InvalidParameter, match="no guarantee"):
        textbook_group(1, F(1, 100), 7)
    with pytest.raises(InvalidParameter, match="epsilon"):
        textbook_group(-1, 0, 2)


def test_closed_forms_of_a_generic_group() -> None:
    leaks = group(ApproximateEvent(F(1, 2), F(1, 100)), 2)
    assert leaks.rho == F(1, 2)  # (2·1/2)²/2, and not 4ρ, which a failure does not allow
    sampled = group(PoissonEvent(LaplaceEvent(F(1)), F(1, 10)), 2)
    assert isinstance(sampled, GroupEvent)
    assert sampled.relation is Relation.ADD_REMOVE
    assert sampled.failure == 0
    assert sampled.pure is not None
    assert math.isclose(sampled.pure, 2 * math.log1p(0.1 * math.expm1(1)), rel_tol=1e-12)
    assert sampled.rho == sampled.pure**2 / 2
    assert sampled.mu_squared is None
    assert GroupEvent(GaussianEvent(F(1)), 2).mu_squared == 4
    mixture = SampledGroupEvent(F(1, 4), F(1, 10), 3)
    assert (mixture.rho, mixture.pure, mixture.relation) == (F(9, 8), None, Relation.ADD_REMOVE)


def test_uses_are_grouped_one_by_one_and_answers_of_k_units_are_k_answers() -> None:
    response = RandomizedResponseEvent(F(1), 4)
    events = Composed([(response, 2), (GaussianEvent(F(1)), 5)])
    assert group_uses(events, 3) == Composed([(response, 6), (GaussianEvent(F(9)), 5)])
    # Two answers that both change are one case of two steps of one answer each.
    x = np.array([0.0, 0.5, 1.0, 1.5])
    odds = math.exp(1.0)
    masses = [odds / (odds + 3), 1 / (odds + 3), 1 / (odds + 3), 1 / (odds + 3)]
    other = [masses[1], masses[0], *masses[2:]]
    pairs = [(a * c, b * d) for a, b in zip(masses, other, strict=True) for c, d in zip(masses, other, strict=True)]
    true = np.array([sum(max(a - math.exp(e) * b, 0.0) for a, b in pairs) for e in x])
    assert np.all(group(response, 2).pair().delta(x) >= true - 1e-12)


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_a_group_that_is_no_count_is_refused(k: int) -> None:
    for make in (
        lambda: group(GaussianEvent(F(1)), k),
        lambda: group_uses(Composed(), k),
        lambda: GroupEvent(GaussianEvent(F(1)), k),
        lambda: SampledGroupEvent(F(1), F(1, 2), k),
        lambda: textbook_group(1, 0, k),
    ):
        with pytest.raises(InvalidParameter):
            make()


def test_a_group_too_large_for_a_curve_is_refused_and_a_closed_form_takes_any() -> None:
    with pytest.raises(InvalidParameter, match="too large"):
        group(AtomsEvent(*LAWS["leak"]), 257)
    with pytest.raises(InvalidParameter, match="too large"):
        group(PoissonEvent(GaussianEvent(F(1)), F(1, 2)), 257)
    assert group(GaussianEvent(F(1)), 10**6) == GaussianEvent(F(10**12))
    for mu_squared, rate in ((F(-1), F(1, 2)), (F(1), F(0)), (F(1), F(1)), (1.0, F(1, 2))):
        with pytest.raises(InvalidParameter):
            SampledGroupEvent(mu_squared, rate, 2)  # type: ignore[arg-type]  # what a caller may slip
