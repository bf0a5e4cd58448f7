"""What every event keeps, whichever law it is of. A new tag gets a row in EXAMPLES, or the first test fails."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction as F
from itertools import pairwise

import mpmath
import numpy as np
import pytest

from discreet.accounting.engines import choice
from discreet.accounting.engines.closed import epsilons
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.allocation import AllocationEvent
from discreet.privacy.codec import TAGS, decode, encode
from discreet.privacy.discrete_events import AtomsEvent, BoundedRangeEvent, EitherOrderEvent, RandomizedResponseEvent
from discreet.privacy.event import (
    ApproximateEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    RenyiEvent,
    ZCDPEvent,
)
from discreet.privacy.grouping import GroupEvent, SampledGroupEvent
from discreet.privacy.pair import ACCURACY
from discreet.privacy.pairs.guaranteed import ZCDPPair
from discreet.privacy.parallel import ParallelEvent
from discreet.privacy.sampling import FixedSizeEvent, PoissonEvent
from discreet.privacy.shuffling import ShuffleEvent
from discreet.privacy.staircase import StaircaseEvent
from tests.privacy import curves, finite_curves, group_curves
from tests.privacy.test_staircase import curve as staircase_curve


@dataclass(frozen=True)
class Example:
    """An event of moderate cost, one that costs more, and its law's true curve at ε where there is one.

    The discrete Gaussian costs more at a larger shift; at a smaller σ only its ρ does, not δ at every ε.
    """

    event: Event
    dearer: Event
    curve: Callable[[float], F] | None


@curves.exactly
def power(x: F | float) -> mpmath.mpf:
    """e^x."""
    return mpmath.exp(curves.real(x))


def response(epsilon: F, delta: F) -> tuple[tuple[F, ...], tuple[F, ...]]:
    """The pair of (ε, δ)-DP, its irrational chances to 55 digits."""
    rest = (1 - delta) / (1 + power(epsilon))
    return (delta, 1 - delta - rest, rest, F(0)), (F(0), rest, 1 - delta - rest, delta)


def sampled_response(epsilon: F, delta: F, rate: F, x: float) -> F:
    p, q = response(epsilon, delta)
    return finite_curves.either(tuple(rate * a + (1 - rate) * b for a, b in zip(p, q, strict=True)), q, x)


@curves.exactly
def sampled_curve(mu_squared: F, rate: F, epsilon: float) -> mpmath.mpf:
    """The rate times the Gaussian curve at log(1 + (e^ε − 1)/rate): a sample of fixed size, for ε ≥ 0."""
    mu, q = mpmath.sqrt(curves.real(mu_squared)), curves.real(rate)
    x = mpmath.log(1 + mpmath.expm1(curves.real(epsilon)) / q)
    return q * (mpmath.ncdf(mu / 2 - x / mu) - mpmath.exp(x) * mpmath.ncdf(-mu / 2 - x / mu))


EXAMPLES: dict[str, list[Example]] = {
    "approximate": [
        Example(
            ApproximateEvent(F(1, 2), F(1, 10**6)),
            ApproximateEvent(F(51, 100), F(1, 10**6)),
            lambda x: curves.approximate(F(1, 2), F(1, 10**6), x),
        ),
        Example(ApproximateEvent(F(1, 10)), ApproximateEvent(F(1, 9)), lambda x: curves.approximate(F(1, 10), F(0), x)),
    ],
    "zcdp": [Example(ZCDPEvent(F(1, 8)), ZCDPEvent(F(1, 7)), None)],
    "laplace": [Example(LaplaceEvent(F(1, 3)), LaplaceEvent(F(2, 5)), lambda x: curves.laplace(F(1, 3), x))],
    "discrete-laplace": [
        Example(
            DiscreteLaplaceEvent(2, F(5)),
            DiscreteLaplaceEvent(2, F(9, 2)),
            lambda x: curves.discrete_laplace(2, F(5), x),
        ),
        Example(
            DiscreteLaplaceEvent(1, F(3)), DiscreteLaplaceEvent(2, F(3)), lambda x: curves.discrete_laplace(1, F(3), x)
        ),
    ],
    "gaussian": [
        Example(GaussianEvent(F(1, 4)), GaussianEvent(F(2, 7)), lambda x: curves.gaussian(F(1, 4), x)),
        Example(GaussianEvent(F(1, 10**4)), GaussianEvent(F(1, 9999)), lambda x: curves.gaussian(F(1, 10**4), x)),
    ],
    "discrete-gaussian": [
        Example(
            DiscreteGaussianEvent(1, F(2)),
            DiscreteGaussianEvent(2, F(2)),
            lambda x: curves.discrete_gaussian(1, F(2), x),
        ),
        Example(
            DiscreteGaussianEvent(4, F(100)),
            DiscreteGaussianEvent(5, F(100)),
            lambda x: curves.discrete_gaussian(4, F(100), x),
        ),
    ],
    "randomized-response": [
        Example(
            RandomizedResponseEvent(F(1, 3), 4),
            RandomizedResponseEvent(F(2, 5), 4),
            lambda x: finite_curves.randomized_response(F(1, 3), 4, x),
        )
    ],
    "atoms": [
        Example(
            AtomsEvent((F(3, 5), F(2, 5)), (F(1, 2), F(1, 2))),
            AtomsEvent((F(13, 20), F(7, 20)), (F(1, 2), F(1, 2))),
            lambda x: finite_curves.either((F(3, 5), F(2, 5)), (F(1, 2), F(1, 2)), x),
        ),
        Example(
            AtomsEvent((F(1, 2), F(3, 10), F(1, 5)), (F(1, 3), F(1, 3), F(1, 3))),
            AtomsEvent((F(3, 5), F(1, 4), F(3, 20)), (F(1, 3), F(1, 3), F(1, 3))),
            lambda x: finite_curves.either((F(1, 2), F(3, 10), F(1, 5)), (F(1, 3),) * 3, x),
        ),
    ],
    "bounded-range": [
        Example(
            BoundedRangeEvent(F(1, 3)), BoundedRangeEvent(F(2, 5)), lambda x: finite_curves.bounded_range(F(1, 3), x)
        )
    ],
    "poisson": [
        Example(
            PoissonEvent(GaussianEvent(F(1, 4)), F(1, 5)),
            PoissonEvent(GaussianEvent(F(1, 4)), F(2, 9)),
            lambda x: curves.sampled_gaussian(F(1, 4), F(1, 5), x),
        ),
        Example(
            PoissonEvent(ApproximateEvent(F(2), F(1, 10**6)), F(1, 5)),
            PoissonEvent(ApproximateEvent(F(2), F(1, 10**6)), F(1, 4)),
            lambda x: sampled_response(F(2), F(1, 10**6), F(1, 5), x),
        ),
    ],
    "staircase": [
        Example(
            StaircaseEvent(F(1, 3), F(2, 5)),
            StaircaseEvent(F(2, 5), F(2, 5)),
            lambda x: staircase_curve(F(1, 3), F(2, 5), F(1), x),
        )
    ],
    "renyi": [
        Example(
            RenyiEvent((F(2), F(8), F(32)), (F(1, 50), F(2, 25), F(8, 25))),
            RenyiEvent((F(2), F(8), F(32)), (F(1, 40), F(1, 10), F(2, 5))),
            None,
        )
    ],
    "group": [
        Example(
            GroupEvent(ApproximateEvent(F(1, 9), F(1, 10**7)), 2),
            GroupEvent(ApproximateEvent(F(1, 9), F(1, 10**7)), 3),
            lambda x: group_curves.iterated(*response(F(1, 9), F(1, 10**7)), 2, power(x)),
        )
    ],
    "sampled-group": [
        Example(
            SampledGroupEvent(F(1, 4), F(1, 5), 2),
            SampledGroupEvent(F(1, 4), F(1, 5), 3),
            lambda x: max(group_curves.sampled(F(1, 4), F(1, 5), 2, x, removes) for removes in (True, False)),
        )
    ],
    "parallel": [
        Example(
            ParallelEvent((LaplaceEvent(F(1, 4)), GaussianEvent(F(1, 9)))),
            ParallelEvent((LaplaceEvent(F(1, 3)), GaussianEvent(F(1, 8)))),
            lambda x: max(curves.laplace(F(1, 4), x), curves.gaussian(F(1, 9), x)),
        )
    ],
    "fixed-size": [
        Example(
            FixedSizeEvent(GaussianEvent(F(1, 4)), 20, 100),
            FixedSizeEvent(GaussianEvent(F(1, 4)), 22, 100),
            lambda x: sampled_curve(F(1, 4), F(1, 5), x),
        )
    ],
    "either-order": [
        Example(
            EitherOrderEvent(AtomsEvent((F(3, 5), F(2, 5)), (F(1, 2), F(1, 2)))),
            EitherOrderEvent(AtomsEvent((F(13, 20), F(7, 20)), (F(1, 2), F(1, 2)))),
            lambda x: finite_curves.either((F(3, 5), F(2, 5)), (F(1, 2), F(1, 2)), x),
        )
    ],
    "shuffle": [Example(ShuffleEvent(F(2), 500), ShuffleEvent(F(2), 400), None)],
    "allocation": [Example(AllocationEvent(F(1), 10), AllocationEvent(F(1), 9), None)],
}
FLAT = [(tag, i) for tag, examples in EXAMPLES.items() for i in range(len(examples))]
every = pytest.mark.parametrize("example", [EXAMPLES[t][i] for t, i in FLAT], ids=[f"{t}-{i}" for t, i in FLAT])
LAWFUL = [(t, i) for t, i in FLAT if EXAMPLES[t][i].curve]  # the others are classes: tests/privacy/test_pairs.py
lawful = pytest.mark.parametrize("example", [EXAMPLES[t][i] for t, i in LAWFUL], ids=[f"{t}-{i}" for t, i in LAWFUL])


def loss(event: Event, n: int = 1) -> PrivacyLoss:
    return PrivacyLoss(Composed([(event, n)]))


def test_every_stored_tag_has_an_example_here() -> None:
    assert EXAMPLES.keys() == TAGS.keys()
    assert all(type(x.event) is TAGS[tag] for tag, examples in EXAMPLES.items() for x in examples)


@every
def test_an_event_comes_back_from_its_stored_form(example: Example) -> None:
    composed = Composed([(example.event, 3)])
    assert decode(json.loads(json.dumps(encode(composed)))) == composed
    assert encode(composed)[0].keys() > {"event", "count"}


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.thinned(3)
@every
def test_n_uses_cost_what_an_event_composed_n_times_costs(example: Example) -> None:
    n, d = 7, F(1, 10**5)
    one, many = loss(example.event), loss(example.event, n)
    summed = sum((one for _ in range(n - 1)), one)
    assert many == summed == one * n == n * one
    assert many.epsilon(d) == summed.epsilon(d)
    assert many.failure == n * one.failure
    assert many.rho == (None if one.rho is None else n * one.rho)
    assert (many.pure is None) == (one.pure is None)
    # And what it costs grows with n (a well-known accountant charged 100 uses as one).
    assert many.epsilon(d) > 1.5 * one.epsilon(d)
    assert loss(example.event, 1000).epsilon(F(1, 100)) > many.epsilon(F(1, 100))


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.thinned(4)
@every
def test_less_noise_never_costs_less(example: Example) -> None:
    for n, d, e in ((1, F(1, 100), F(0)), (1, F(1, 5000), F(1, 20)), (5, F(1, 5000), F(1)), (100, F(1, 100), F(0))):
        cheap, dear = loss(example.event, n), loss(example.dearer, n)
        larger = dear.epsilon(d)
        assert cheap.epsilon(d) < larger or larger == 0
        assert cheap.delta(e) <= dear.delta(e) * (1 + 1e-9)


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.thinned(3)
@every
def test_epsilon_falls_with_delta_and_delta_with_epsilon(example: Example) -> None:
    for n in (1, 6):
        one = loss(example.event, n)
        smallest = one.failure or F(1, 10**15)
        found = [one.epsilon(smallest * F(10) ** k) for k in (0, 4)]
        assert all(a >= b * (1 - 1e-6) for a, b in pairwise(found))
        deltas = [one.delta(F(k, 10)) for k in (0, 7, 56)]
        assert all(a >= b * (1 - 1e-6) for a, b in pairwise(deltas))


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.thinned(3)
@every
def test_delta_and_epsilon_answer_each_other(example: Example) -> None:
    one = loss(example.event, 3)
    for d in (F(1, 1000), F(1, 20000)):
        epsilon = one.guarantee(d).epsilon
        assert one.delta(epsilon) <= float(d) * (1 + 1e-5)
        assert one.delta(epsilon) > 0.9 * float(d)


@lawful
def test_a_single_use_costs_what_its_law_says_and_never_less(example: Example) -> None:
    assert example.curve is not None
    one = loss(example.event)
    points = [0.0, 0.01, 0.09, 0.3, 0.6, 2.0]
    for x in points:
        true, found = example.curve(x), F(repr(one.delta(x)))
        assert true * (1 - F(1, 10**40)) <= found <= true * (1 + F(1, 10**9)) + F(1, 10**299), x


@lawful
def test_epsilon_is_sound_and_tight_down_to_a_delta_of_1e_15(example: Example) -> None:
    assert example.curve is not None
    one = loss(example.event)
    for d in (F(1, 10**3), F(1, 10**5), F(1, 10**10), F(1, 10**15)):
        if d < one.failure:
            with pytest.raises(InvalidParameter, match="spent apart"):
                one.epsilon(d)
            continue
        epsilon = one.epsilon(d)
        assert example.curve(epsilon) <= d
        if epsilon > 1e-9:
            assert example.curve(epsilon * (1 - 1e-8)) > d * (1 - F(1, 10**6))


@lawful
def test_the_comparison_rejects_a_cost_that_is_off_by_a_percent(example: Example) -> None:
    assert example.curve is not None
    d = F(1, 10**5)
    epsilon = loss(example.event).epsilon(d)
    if epsilon:
        assert example.curve(epsilon * 0.99) > d * (1 + F(1, 10**4))
        assert (
            example.curve(epsilon * 1.01) < d * (1 - F(1, 10**6))
            or example.curve(epsilon * 1.01) == loss(example.event).failure
        )


@pytest.mark.exhaustive
@pytest.mark.sampled(7)
@every
def test_all_engines_agree_on_a_composition_and_no_closed_form_falls_below_them(example: Example) -> None:
    n, d = 8, F(1, 10**5)
    one = loss(example.event, n)
    found = [(engine, ask()) for engine, ask in choice._engines(one.events, choice._Question(delta=d))]
    known = [bounds for _, bounds in found if bounds is not None]
    assert known
    lower, upper = max(b.lower for b in known), min(b.upper for b in known)
    assert lower <= upper
    closed = [float(epsilon) for epsilon, _ in epsilons(one.events, d)]
    assert all(epsilon >= lower * (1 - 1e-12) for epsilon in closed)
    # The router stops at the first engine that certifies 1e-6; another one may be lower by as much.
    assert float(one.guarantee(d).epsilon) <= min([upper, *closed]) * (1 + 1e-6)


@every
def test_the_closed_forms_are_true_of_the_pair(example: Example) -> None:
    event = example.event
    pair = event.pair()
    x = np.linspace(0.0, 4.0, 41)
    curve = pair.delta(x)
    if event.pure is not None:
        assert np.all(curve[x >= float(event.pure)] <= float(event.failure) * (1 + ACCURACY))
        largest = max(pair.epsilon_max, pair.reverse().epsilon_max)
        assert math.isclose(largest, float(event.pure), rel_tol=1e-15)
    if event.rho is not None:
        apart = float(event.failure) * (1 + ACCURACY)
        assert np.all(curve <= apart + ZCDPPair(float(event.rho)).delta(x) * (1 + 1e-9))


@pytest.mark.parametrize("bad", [0.5, 1, "1/2", math.nan, None])
def test_an_event_takes_fractions_only_since_a_float_could_not_be_stored(bad: object) -> None:
    makers: list[Callable[[], Event]] = [
        lambda: ApproximateEvent(bad),  # type: ignore[arg-type]  # what a caller may slip
        lambda: ApproximateEvent(F(1), bad),  # type: ignore[arg-type]
        lambda: ZCDPEvent(bad),  # type: ignore[arg-type]
        lambda: LaplaceEvent(bad),  # type: ignore[arg-type]
        lambda: DiscreteLaplaceEvent(1, bad),  # type: ignore[arg-type]
        lambda: GaussianEvent(bad),  # type: ignore[arg-type]
        lambda: DiscreteGaussianEvent(1, bad),  # type: ignore[arg-type]
    ]
    for make in makers:
        with pytest.raises(InvalidParameter):
            make()


def test_an_event_out_of_range_is_refused() -> None:
    makers: list[Callable[[], Event]] = [
        lambda: ApproximateEvent(F(-1)),
        lambda: ApproximateEvent(F(1), F(1)),
        lambda: ZCDPEvent(F(-1)),
        lambda: LaplaceEvent(F(-1)),
        lambda: DiscreteLaplaceEvent(-1, F(1)),
        lambda: DiscreteLaplaceEvent(1, F(0)),
        lambda: GaussianEvent(F(-1)),
        lambda: DiscreteGaussianEvent(1, F(0)),
        lambda: DiscreteGaussianEvent(-1, F(1)),
    ]
    for make in makers:
        with pytest.raises(InvalidParameter):
            make()


def test_equal_events_have_equal_hashes_and_others_hardly_ever() -> None:
    def made(k: int) -> list[Event]:
        x, y = F(k, 70), F(2 * k, 140)
        assert x == y
        return [
            *(ApproximateEvent(x), ApproximateEvent(x, F(1, k + 1)), LaplaceEvent(y), GaussianEvent(y)),
            *(DiscreteLaplaceEvent(k, x), RandomizedResponseEvent(y, k + 2), ZCDPEvent(x)),
        ]

    every = [event for k in range(1, 200) for event in made(k)]
    again = [pickle.loads(pickle.dumps(event)) for event in every]
    assert every == again
    assert [hash(event) for event in every] == [hash(event) for event in again]
    assert len(set(every)) == len(every)
    assert len({hash(event) for event in every}) > 0.4 * len(every)  # classes may share theirs


def test_a_tree_of_sums_is_counted_in_the_order_in_which_events_first_came() -> None:
    a, b, c = GaussianEvent(F(1, 4)), ApproximateEvent(F(1, 2)), LaplaceEvent(F(1, 3))
    one, two, three = Composed.of(a), Composed.of(b), Composed([c, (a, 2)])
    assert one == Composed([a])
    assert one.parts == ((a, 1),)
    assert (((one + two) * 2 + three) * 3).parts == ((a, 12), (b, 6), (c, 3))
    assert (two + (one + three * 5) * 1).parts == ((b, 1), (a, 11), (c, 5))
    assert ((one + two) * 0).parts == ()
    assert one * 1 == one
    assert sum(n for _, n in (one * 10**20).parts) == 10**20
    deep = one
    for k in range(5000):
        deep = deep + Composed.of(LaplaceEvent(F(1, k + 1)))
    assert [event for event, _ in deep] == [a, *(LaplaceEvent(F(1, k + 1)) for k in range(5000))]
    assert pickle.loads(pickle.dumps(three + one)) == three + one


def test_composed_is_one_multiset_in_any_order() -> None:
    a, b = GaussianEvent(F(1, 4)), ApproximateEvent(F(1, 2))
    assert Composed([a, b, a]) == Composed([b, (a, 2)]) == Composed([a, a]) + Composed([b])
    assert hash(Composed([a, b])) == hash(Composed([b, a]))
    assert len(Composed([(a, 10**9), b])) == 10**9 + 1
    assert Composed([(a, 0)]) == Composed() == Composed([a]) * 0
    for n in (-1, 1.5, True):
        with pytest.raises(InvalidParameter):
            Composed([(a, n)])  # type: ignore[list-item]  # what a caller may slip
