"""Disjoint parts and alternatives, against enumerated laws of every pair of neighbours."""

from __future__ import annotations

import math
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest

from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.discrete_events import AtomsEvent, BoundedRangeEvent
from discreet.privacy.event import (
    ApproximateEvent,
    Composed,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ZCDPEvent,
)
from discreet.privacy.pair import ACCURACY, FLOOR
from discreet.privacy.parallel import MOST, Alternatives, ParallelEvent, dominates
from discreet.privacy.sampling import PoissonEvent
from discreet.privacy.unit import Relation
from tests.privacy import curves, finite_curves

X = (-1.0, -0.2, 0.0, 0.1, 0.4, 0.69, 1.0, 2.0)
ONE_WAY = AtomsEvent((F(1, 2), F(3, 10), F(1, 5)), (F(1, 5), F(7, 20), F(9, 20)))
LEAK = AtomsEvent((F(1, 100), F(99, 100)), (F(0), F(1)))
A, B, C = ApproximateEvent(F(1, 2)), GaussianEvent(F(1, 4)), LaplaceEvent(F(3, 4))


def one(*events: Event) -> Alternatives:
    return Alternatives([Composed(events)])


def test_parts_cost_the_largest_curve_of_any_of_them_in_each_direction() -> None:
    event = ParallelEvent((A, B, ONE_WAY))
    forward, back = event.pair().delta(np.array(X)), event.pair().reverse().delta(np.array(X))
    for x, there, here in zip(X, forward, back, strict=True):
        common = max(curves.approximate(F(1, 2), F(0), x), curves.gaussian(F(1, 4), x))
        for found, p, q in ((there, ONE_WAY.p, ONE_WAY.q), (here, ONE_WAY.q, ONE_WAY.p)):
            true = max(common, finite_curves.atoms(p, q, x))
            assert abs(F(float(found)) - true) <= F(ACCURACY) * true + F(FLOOR)
    assert event.pair().reverse().reverse() == event.pair()
    assert not np.array_equal(forward, back)


def test_the_curve_is_convex_and_so_that_of_a_pair() -> None:
    alpha = np.linspace(0.2, 3.0, 400)
    curve = ParallelEvent((A, B, ONE_WAY)).pair().delta(np.log(alpha))
    assert np.all(np.diff(curve, 2) >= -1e-12)


def test_closed_forms_are_the_largest_and_none_where_a_part_has_none() -> None:
    event = ParallelEvent((A, LEAK, LaplaceEvent(F(3, 4))))
    assert event.pure == F(3, 4)
    assert event.rho == F(9, 32)
    assert event.failure == F(1, 100)
    assert event.mu_squared is None
    assert event.relation is Relation.ADD_REMOVE
    assert ParallelEvent((A, B)).pure is None
    assert ParallelEvent((GaussianEvent(F(1, 4)), GaussianEvent(F(1)))).mu_squared == 1


def test_no_parts_and_a_list_are_refused() -> None:
    for bad in ((), [A, B]):
        with pytest.raises(InvalidParameter, match="events"):
            ParallelEvent(bad)  # type: ignore[arg-type]  # what a caller may slip
    with pytest.raises(InvalidParameter, match="parts"):
        Alternatives.parallel([])
    with pytest.raises(InvalidParameter, match="choices"):
        Alternatives([])


def test_two_partitions_and_a_common_use_cost_the_worst_pair_of_neighbours() -> None:
    """Four kinds of units, each in a part of either partition: every product of laws is enumerated."""
    first = {"a": ((F(2, 3), F(1, 3)), (F(1, 3), F(2, 3))), "b": (ONE_WAY.p, ONE_WAY.q)}
    second = {"c": ((F(3, 5), F(2, 5)), (F(1, 2), F(1, 2))), "d": ((F(1, 10), F(9, 10)), (F(3, 10), F(7, 10)))}
    common = (F(4, 7), F(3, 7)), (F(3, 7), F(4, 7))
    loss = (
        Alternatives.parallel(one(AtomsEvent(*law)) for law in first.values())
        + Alternatives.parallel(one(AtomsEvent(*law)) for law in second.values())
        + one(AtomsEvent(*common))
    )
    assert len(loss) == 4
    assert loss.relation is Relation.ADD_REMOVE
    for x in (0.0, 0.2, 0.6):
        worst = F(0)
        for parts in product(first.values(), second.values(), [common]):
            p, q = ([math.prod(masses) for masses in product(*(law[i] for law in parts))] for i in (0, 1))
            worst = max(worst, finite_curves.either(p, q, x))  # type: ignore[arg-type]  # products of fractions
        found = max(F(PrivacyLoss(choice).delta(x)) for choice in loss)
        assert worst * (1 - F(1, 10**12)) <= found <= worst * F(102, 100)
        least = min(F(PrivacyLoss(choice).delta(x)) for choice in loss)
        assert least < worst * F(99, 100)  # a wrong alternative would be seen


def test_a_replaced_unit_that_changes_its_part_costs_more_than_the_largest_part() -> None:
    law = (F(2, 3), F(1, 3)), (F(1, 3), F(2, 3))
    p, q = ([a * b for a, b in product(x, y)] for x, y in ((law[0], law[1]), (law[1], law[0])))
    moved = finite_curves.either(p, q, 0.8)
    inside = finite_curves.either(*law, 0.8)
    assert moved > 0 == inside


def test_what_another_alternative_dominates_is_left_out() -> None:
    smaller, larger = Composed([(B, 2), A]), Composed([(B, 3), A])
    assert Alternatives([smaller, larger]).choices == frozenset([larger])
    assert Alternatives([larger, smaller]).choices == frozenset([larger])
    assert len(Alternatives([Composed([A]), Composed([B])])) == 2


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("larger", "smaller"),
    [
        (Composed([GaussianEvent(F(1))]), Composed([(B, 3)])),
        (Composed([LaplaceEvent(F(1)), A]), Composed([C, A])),
        (Composed([DiscreteLaplaceEvent(2, F(2))]), Composed([DiscreteLaplaceEvent(1, F(3))])),
        (Composed([ApproximateEvent(F(2))]), Composed([A, C, BoundedRangeEvent(F(3, 4))])),
        (Composed([ApproximateEvent(F(1), F(1, 50))]), Composed([(LEAK, 2), A])),
        (Composed([ZCDPEvent(F(1))]), Composed([(B, 2), ZCDPEvent(F(1, 2))])),
        (Composed([A, B, C]), Composed([C])),
        (Composed([A]), Composed()),
    ],
    ids=repr,
)
def test_dominance_means_a_larger_delta_everywhere(larger: Composed, smaller: Composed) -> None:
    assert dominates(larger, smaller)
    assert not dominates(smaller, larger) or larger == smaller
    for x in (0.0, 0.3, 1.0, 1.9):
        assert PrivacyLoss(smaller).delta(x) <= PrivacyLoss(larger).delta(x) * (1 + 1e-3) + 1e-12


@pytest.mark.parametrize(
    ("one_side", "other"),
    [
        (Composed([A]), Composed([B])),
        (Composed([DiscreteLaplaceEvent(2, F(3))]), Composed([DiscreteLaplaceEvent(1, F(2))])),
        (Composed([ZCDPEvent(F(1, 100))]), Composed([LEAK])),
        (Composed([(A, 2)]), Composed([ApproximateEvent(F(9, 10))])),
        (Composed([B, ApproximateEvent(F(3))]), Composed([GaussianEvent(F(1))])),
    ],
    ids=repr,
)
def test_what_is_not_seen_to_dominate_is_kept(one_side: Composed, other: Composed) -> None:
    assert not dominates(one_side, other)
    if len(one_side) == 1:
        assert len(Alternatives([one_side, other])) == 2


def test_the_relation_is_kept_even_when_the_event_that_asked_for_it_is_left_out() -> None:
    sampled = PoissonEvent(A, F(1, 10))
    loss = Alternatives([Composed([sampled]), Composed([ApproximateEvent(F(1))])])
    assert len(loss) == 1
    assert loss.relation is Relation.ADD_REMOVE
    assert (loss + one(B)).relation is Relation.ADD_REMOVE
    assert (loss * 2).relation is Relation.ADD_REMOVE


def test_many_uses_are_counted_and_too_many_alternatives_are_refused() -> None:
    both = Alternatives.parallel([one(A), one(B)])
    assert (both * 3).choices == {
        Composed([(A, 3)]), Composed([(A, 2), B]), Composed([A, (B, 2)]), Composed([(B, 3)])
    }  # fmt: skip
    assert (one(A) * 10**9).choices == {Composed([(A, 10**9)])}
    assert (both * 0).choices == {Composed()}
    with pytest.raises(InvalidParameter, match="alternatives"):
        both * (MOST + 1)
    for n in (-1, 1.5):
        with pytest.raises(InvalidParameter):
            both * n  # type: ignore[operator]  # what a caller may slip
