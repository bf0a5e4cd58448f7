"""Events on finitely many outcomes against enumeration, and the bounded range against every t."""

from __future__ import annotations

import json
import math
from fractions import Fraction as F

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.codec import decode, encode
from discreet.privacy.discrete_events import AtomsEvent, BoundedRangeEvent, RandomizedResponseEvent
from discreet.privacy.event import ApproximateEvent, Composed, Event
from discreet.privacy.pair import ACCURACY, FLOOR, Pair
from discreet.privacy.pairs.finite import AtomsPair, RandomizedResponsePair
from discreet.privacy.pairs.guaranteed import ApproximatePair, BoundedRangePair, ZCDPPair
from tests.privacy import finite_curves as truth
from tests.privacy.curves import approximate


def at(pair: Pair, epsilon: float) -> F:
    return F(float(pair.delta(np.array([epsilon]))[0]))


def is_near(found: F, true: F) -> bool:
    return abs(found - true) <= F(ACCURACY) * true + F(FLOOR)


LAWS = {
    "two": ((F(2, 3), F(1, 3)), (F(1, 3), F(2, 3))),
    "three": ((F(1, 2), F(3, 10), F(1, 5)), (F(1, 5), F(7, 20), F(9, 20))),
    "equal outcomes": ((F(1, 4),) * 4, (F(1, 8), F(1, 8), F(3, 8), F(3, 8))),
    "near": ((F(1, 2) + F(1, 10**14), F(1, 2) - F(1, 10**14)), (F(1, 2) - F(1, 10**14), F(1, 2) + F(1, 10**14))),
    "very near": ((F(1, 2) + F(1, 10**40), F(1, 2) - F(1, 10**40)), (F(1, 2), F(1, 2))),
    "close losses": ((F(1, 3), F(1, 3) + F(1, 10**18), F(1, 3) - F(1, 10**18)), (F(1, 6), F(1, 6), F(2, 3))),
    "leak": ((F(1, 10**6), F(1, 2), F(1, 2) - F(1, 10**6)), (F(0), F(1, 3), F(2, 3))),
    "leak behind": ((F(1, 2), F(1, 2), F(0)), (F(1, 4), F(1, 2), F(1, 4))),
    "tiny": ((F(1, 10**200), 1 - F(1, 10**200)), (F(1, 10**290), 1 - F(1, 10**290))),
    "apart": ((F(1), F(0)), (F(0), F(1))),
    "alike": ((F(1, 3), F(2, 3)), (F(1, 3), F(2, 3))),
    "one outcome": ((F(1),), (F(1),)),
}
named = pytest.mark.parametrize(("p", "q"), LAWS.values(), ids=LAWS)


@named
def test_the_curve_of_two_laws_is_the_sum_over_their_outcomes_also_next_to_a_loss(
    p: tuple[F, ...], q: tuple[F, ...]
) -> None:
    shared = [(a, b) for a, b in zip(p, q, strict=True) if a and b]
    losses = [math.log(a) - math.log(b) for a, b in shared]
    points = [-3.0, -0.5, 0.0, 1e-20, 1e-6, 0.4, 2.0, *losses]
    points += [math.nextafter(x, end) for x in losses for end in (-math.inf, math.inf)]
    for x in points:
        for pair, one, two in ((AtomsPair(p, q), p, q), (AtomsPair(p, q).reverse(), q, p)):
            true = truth.atoms(one, two, x)
            assert is_near(at(pair, x), true), x
            assert true <= F(float(pair.upper(np.array([x]))[0])), x


weights = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=6)


@given(weights, st.floats(-20, 20))
def test_the_curve_of_any_two_laws_is_the_sum_over_their_outcomes(rows: list[tuple[int, int]], x: float) -> None:
    p, q = ([F(n + (i == 0), sum(c) + 1) for i, n in enumerate(c)] for c in zip(*rows, strict=True))
    pair = AtomsEvent(tuple(p), tuple(q)).pair()
    assert is_near(at(pair, x), truth.atoms(p, q, x))
    assert is_near(at(pair.reverse(), x), truth.atoms(q, p, x))


@named
def test_pure_bounds_every_loss_from_above_and_closely(p: tuple[F, ...], q: tuple[F, ...]) -> None:
    event = AtomsEvent(p, q)
    if any((a == 0) != (b == 0) for a, b in zip(p, q, strict=True)):
        assert event.rho == event.pure**2 / 2
        assert truth.either(p, q, float(event.pure)) <= event.failure * (1 + F(1, 10**12))
        only_p = sum(a for a, b in zip(p, q, strict=True) if b == 0)
        only_q = sum(b for a, b in zip(p, q, strict=True) if a == 0)
        assert event.failure == max(only_p, only_q) > 0
        assert at(event.pair(), 900.0) == pytest.approx(only_p, rel=1e-15)
        return
    assert event.failure == 0
    with mpmath.workdps(400):
        true = max(
            abs(mpmath.log(mpmath.mpf(a.numerator) * b.denominator / (a.denominator * b.numerator)))
            for a, b in zip(p, q, strict=True)
        )
        assert event.pure is not None
        found = mpmath.mpf(event.pure.numerator) / event.pure.denominator
        assert true <= found <= true * (1 + mpmath.mpf(2) ** -51)
    assert event.rho == event.pure**2 / 2
    assert event.pure == F(max(event.pair().epsilon_max, event.pair().reverse().epsilon_max))


def test_two_categories_are_the_pair_of_every_pure_use() -> None:
    x = np.linspace(-3.0, 3.0, 121)
    for epsilon in (0.0, 0.125, 1.0, 2.5):
        two, known = RandomizedResponsePair(epsilon, 2), ApproximatePair(epsilon, 0.0)
        assert np.allclose(two.delta(x), known.delta(x), rtol=1e-14, atol=0.0)


@pytest.mark.parametrize("categories", [2, 3, 10, 300])
@pytest.mark.parametrize("epsilon", [F(1, 8), F(2), F(30)])
def test_randomized_response_is_the_sum_over_its_answers(epsilon: F, categories: int) -> None:
    event = RandomizedResponseEvent(epsilon, categories)
    top = float(epsilon)
    for x in (-1.5 * top, -top, -0.5 * top, 0.0, 0.3 * top, 0.999 * top, top, 2 * top):
        true = truth.randomized_response(epsilon, categories, x)
        assert is_near(at(event.pair(), x), true), x
    assert event.pure == epsilon
    assert event.rho == epsilon**2 / 2
    assert event.failure == 0


def test_randomized_response_as_two_laws_costs_the_same() -> None:
    # Odds of 3 to 1 in four categories; log 3 is irrational, so the event's ε is a little above it.
    p, q = (F(3, 6), F(1, 6), F(1, 6), F(1, 6)), (F(1, 6), F(3, 6), F(1, 6), F(1, 6))
    known = RandomizedResponsePair(math.log(3), 4)
    for x in (-2.0, -0.4, 0.0, 0.2, 1.0):
        assert float(at(AtomsPair(p, q), x)) == pytest.approx(float(at(known, x)), rel=1e-13)


@pytest.mark.parametrize("categories", [2**1001, 10**400])
def test_a_number_of_categories_beyond_floats_is_bounded_from_above(categories: int) -> None:
    pair = RandomizedResponseEvent(F(1), categories).pair()
    assert 0 < at(pair, 0.5) < F(1, 10**290)
    assert float(at(pair, -1.0)) == pytest.approx(-math.expm1(-1.0), rel=1e-12)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("reach", [F(1, 1000), F(1, 2), F(3), F(40)])
def test_no_two_outcomes_of_a_bounded_range_cost_more_and_the_best_cost_the_same(reach: F) -> None:
    pair = BoundedRangeEvent(reach).pair()
    top = float(reach)
    for x in np.linspace(-1.3, 1.3, 14) * top:
        found = at(pair, float(x))
        for i in range(41):
            assert truth.two_points(reach * i / 40, reach, float(x)) <= found * (1 + F(ACCURACY))
        if abs(x) <= top:
            assert is_near(found, truth.two_points((F(float(x)) + reach) / 2, reach, float(x)))
        assert is_near(found, truth.bounded_range(reach, float(x)))


def test_a_bounded_range_of_many_outcomes_never_costs_more_than_its_pair() -> None:
    # The exponential mechanism: weights 2^u on five outcomes, where each u moves by -1, 0 or 1.
    pair = BoundedRangePair(math.nextafter(2 * math.log(2), 2.0))
    u = (0, 3, 1, 2, 2)
    for moves in np.ndindex(3, 3, 3, 3, 3):
        one = [F(2) ** a for a in u]
        two = [F(2) ** (a + int(m) - 1) for a, m in zip(u, moves, strict=True)]
        p, q = tuple(a / sum(one) for a in one), tuple(b / sum(two) for b in two)
        x = np.linspace(-1.5, 1.5, 13)
        assert np.all(AtomsPair(p, q).delta(x) <= pair.upper(x))


def test_a_bounded_range_costs_less_than_a_pure_use_and_more_than_half_of_it() -> None:
    x = np.linspace(0.0, 0.9, 10)
    curve = BoundedRangePair(1.0).delta(x)
    assert np.all(curve < ApproximatePair(1.0, 0.0).delta(x))
    assert float(curve[0]) == pytest.approx(math.tanh(0.25), rel=1e-14)  # (1 − b)²/(1 − b²), b = e^(−1/2)
    assert float(curve[0]) > float(ApproximatePair(0.49, 0.0).delta(np.array([0.0]))[0])
    event = BoundedRangeEvent(F(1))
    assert (event.pure, event.rho, event.failure) == (F(1), F(1, 8), F(0))


@pytest.mark.parametrize("reach", [F(1, 100), F(1), F(6)])
def test_every_two_outcomes_of_a_bounded_range_obey_its_rho(reach: F) -> None:
    eta = float(reach)
    for t in np.linspace(0.01, 0.99, 25) * eta:
        p = math.expm1(t - eta) / math.expm1(-eta)
        for order in (1.0001, 1.5, 2.0, 5.0, 50.0):
            moment = p * math.exp((order - 1) * t) + (1 - p) * math.exp((order - 1) * (t - eta))
            assert math.log(moment) / (order - 1) <= order * eta * eta / 8 * (1 + 1e-6), t


def test_the_comparison_rejects_laws_that_are_slightly_wrong() -> None:
    p, q = LAWS["three"]
    wrong = (F(501, 1000), F(299, 1000), F(1, 5))
    assert not is_near(at(AtomsPair(wrong, q), 0.3), truth.atoms(p, q, 0.3))
    assert not is_near(at(AtomsPair(q, p), 0.3), truth.atoms(p, q, 0.3))
    for pair in (RandomizedResponsePair(2.002, 10), RandomizedResponsePair(2.0, 11)):
        assert not is_near(at(pair, 0.3), truth.randomized_response(F(2), 10, 0.3))
    assert at(BoundedRangePair(0.999), 0.3) < truth.two_points(0.65, F(1), 0.3)  # below a use of its kind
    assert not is_near(at(BoundedRangePair(1.001), 0.3), truth.bounded_range(F(1), 0.3))


PAIRS: list[Pair] = [
    *(AtomsPair(p, q) for p, q in LAWS.values()),
    RandomizedResponsePair(1.5, 5),
    RandomizedResponsePair(0.0, 3),
    BoundedRangePair(0.75),
    BoundedRangePair(0.0),
]


@pytest.mark.parametrize("pair", PAIRS, ids=[*LAWS, "answers", "no result", "range", "no range"])
def test_curves_fall_are_convex_and_obey_the_reversal_identity(pair: Pair) -> None:
    x = np.linspace(-2.0, 2.0, 401)
    y, t = pair.delta(x), np.exp(x)
    assert np.all((y >= 0) & (y <= 1))
    assert np.all(np.diff(y) <= 1e-11 * y[:-1])
    chord = y[:-2] + (y[2:] - y[:-2]) * (t[1:-1] - t[:-2]) / (t[2:] - t[:-2])
    assert np.all(y[1:-1] <= chord * (1 + 1e-10) + 1e-15)
    other = -np.expm1(x) + np.exp(x) * pair.reverse().delta(-x)
    assert np.allclose(y, other, rtol=1e-9, atol=1e-13)
    assert np.all(pair.delta(np.array([pair.epsilon_max, 800.0])) == pair.delta(np.array(900.0)))
    assert pair.delta(np.array(0.5)) == pair.delta(np.array([0.5]))[0]


@pytest.mark.parametrize("pair", [RandomizedResponsePair(0.0, 7), BoundedRangePair(0.0)])
def test_a_use_that_reveals_nothing_has_the_least_curve(pair: Pair) -> None:
    x = np.array([-3.0, -1e-3, 0.0, 1e-3, 3.0])
    assert np.allclose(pair.delta(x), np.maximum(-np.expm1(x), 0.0), rtol=1e-15, atol=0.0)


def test_parameters_beyond_floats_count_as_no_privacy() -> None:
    x = np.array([0.0, 1.0, 700.0])
    for event in (RandomizedResponseEvent(F(10) ** 400, 3), BoundedRangeEvent(F(10) ** 400)):
        assert np.all(event.pair().delta(x) == 1.0)
    assert float(at(BoundedRangePair(1e-200), 0.0)) == pytest.approx(2.5e-201, rel=1e-12)


def test_losses_are_composed_and_the_better_of_two_theorems_is_told() -> None:
    one = PrivacyLoss(Composed([RandomizedResponseEvent(F(1), 2)])) * 5
    known = PrivacyLoss(Composed([ApproximateEvent(F(1))])) * 5
    assert one.epsilon(F(1, 1000)) == pytest.approx(known.epsilon(F(1, 1000)), rel=1e-9)
    assert one.epsilon() == 5.0
    leaky = AtomsEvent(*LAWS["leak"])
    x = 0.25
    leaky_loss = PrivacyLoss(Composed([leaky]))
    assert truth.either(leaky.p, leaky.q, x) <= F(leaky_loss.delta(F(x)))
    with pytest.raises(InvalidParameter, match="spent apart"):
        leaky_loss.epsilon(F(1, 10**7))
    assert leaky_loss.epsilon(F(1, 100)) < 1
    ranged, x2 = PrivacyLoss(Composed([BoundedRangeEvent(F(1, 10))])), F(1, 10**6)
    assert (ranged * 50).epsilon(x2) < 0.8 * (PrivacyLoss(Composed([ApproximateEvent(F(1, 10))])) * 50).epsilon(x2)


def test_events_of_the_class_obey_the_curve_of_their_rho() -> None:
    x = np.linspace(0.0, 3.0, 31)
    events: list[Event] = [RandomizedResponseEvent(F(2), 4), BoundedRangeEvent(F(2)), AtomsEvent(*LAWS["three"])]
    for event in events:
        assert event.rho is not None
        assert np.all(event.pair().delta(x) <= ZCDPPair(float(event.rho)).delta(x) * (1 + 1e-9))


def test_the_stored_forms_are_pinned_and_come_back() -> None:
    composed = Composed(
        [
            (RandomizedResponseEvent(F(1, 2), 4), 3),
            AtomsEvent((F(1, 3), F(2, 3)), (F(1), F(0))),
            BoundedRangeEvent(F(1, 5)),
        ]
    )
    stored = [
        {"event": "atoms", "count": 1, "p": ["1/3", "2/3"], "q": ["1/1", "0/1"]},
        {"event": "bounded-range", "count": 1, "epsilon": "1/5"},
        {"event": "randomized-response", "count": 3, "epsilon": "1/2", "categories": 4},
    ]
    assert json.loads(json.dumps(encode(composed))) == stored
    assert decode(stored) == composed


@pytest.mark.parametrize(
    "change",
    [
        {"p": "1/1"}, {"p": ["1/3"]}, {"p": ["1/3", 1]}, {"p": ["1/3", "1/3"]}, {"p": None}, {"p": []},
        {"p": ["4/3", "-1/3"]}, {"p": {"0": "1/1"}}, {"p": [["1/3"], ["2/3"]]}, {"p": [0.5, 0.5]},
    ],
    ids=str,
)  # fmt: skip
def test_stored_masses_that_were_not_written_by_us_are_refused(change: dict[str, object]) -> None:
    good = {"event": "atoms", "count": 1, "p": ["1/3", "2/3"], "q": ["1/2", "1/2"]}
    assert decode([good])
    with pytest.raises(InvalidParameter, match="stored event"):
        decode([{**good, **change}])


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ((), (), r"p must have at least one outcome"),
        ((F(1),), (), r"q must have at least one outcome"),
        ((F(1),), (F(1, 2), F(1, 2)), r"p has 1 of them and q has 2"),
        ((F(1, 2), F(1, 3)), (F(1, 2), F(1, 2)), r"masses of p must sum to exactly 1, not 5/6"),
        ((F(1, 2), F(1, 2)), (F(3, 2), F(-1, 2)), r"q\[1\] must be at least 0"),
        ((0.5, 0.5), (F(1, 2), F(1, 2)), r"p\[0\] of an event must be a Fraction, not float"),
        ([F(1)], (F(1),), r"p of an event must be a tuple, not list"),
        ("1", (F(1),), r"p of an event must be a tuple, not str"),
    ],
)
def test_masses_that_are_no_law_are_refused_by_name(p: object, q: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        AtomsEvent(p, q)  # type: ignore[arg-type]  # what a caller may slip


@pytest.mark.parametrize("bad", [0.5, 1, "1/2", None, F(-1)])
def test_an_epsilon_that_is_no_fraction_of_at_least_zero_is_refused(bad: object) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        RandomizedResponseEvent(bad, 3)  # type: ignore[arg-type]  # what a caller may slip
    with pytest.raises(InvalidParameter, match="epsilon"):
        BoundedRangeEvent(bad)  # type: ignore[arg-type]  # as above


@pytest.mark.parametrize("bad", [1, 0, -2, 2.0, "2", True, None])
def test_fewer_than_two_categories_are_refused(bad: object) -> None:
    with pytest.raises(InvalidParameter, match="categories"):
        RandomizedResponseEvent(F(1), bad)  # type: ignore[arg-type]  # what a caller may slip


def test_the_truths_agree_with_one_another() -> None:
    assert truth.randomized_response(F(1), 2, 0.25) == pytest.approx(approximate(F(1), F(0), 0.25), rel=1e-40)
