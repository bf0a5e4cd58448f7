"""Selection of groups in rounds of Gaussian noise: weights, failures, price, and when it is taken."""

from __future__ import annotations

import math
from fractions import Fraction as F

import mpmath
import pytest

from discreet.accounting.loss import PrivacyLoss
from discreet.mechanisms.rounds import WHOLE, GaussianRounds, selection, weight
from discreet.mechanisms.threshold import Threshold
from discreet.privacy.event import Composed
from discreet.privacy.unit import Relation

ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE
PRICES = [(F(1), F(1, 10**6)), (F(1, 10), F(1, 10**9)), (F(8), F(1, 10**5))]


def test_the_squares_of_a_persons_weights_add_up_to_the_whole_at_most() -> None:
    assert all(n * weight(n) ** 2 <= WHOLE**2 for n in range(1, 3000))


def test_weights_that_are_rounded_up_would_add_up_to_more() -> None:
    assert any(n * (weight(n) + 1) ** 2 > WHOLE**2 for n in range(1, 100))


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize(("epsilon", "delta"), PRICES)
def test_groups_of_one_person_alone_are_shown_as_seldom_as_is_said(relation: Relation, epsilon: F, delta: F) -> None:
    for m in (5, 20, 70):
        for one in GaussianRounds(epsilon, delta, m, relation).rounds:
            sigma = mpmath.mpf(one.noise.sigma.numerator) / one.noise.sigma.denominator
            most = mpmath.mpf(0)
            for n in range(1, m + 1):
                seen = mpmath.erfc((one.least - weight(n) - mpmath.mpf("0.5")) / (sigma * mpmath.sqrt(2))) / 2
                most = max(most, -mpmath.expm1(n * mpmath.log1p(-seen)))
            assert most <= one.failure < 1.1 * most  # and no more is given away


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize(("epsilon", "delta"), PRICES)
def test_all_rounds_together_cost_what_they_are_given(relation: Relation, epsilon: F, delta: F) -> None:
    for m in (5, 20, 70):
        rounds = GaussianRounds(epsilon, delta, m, relation)
        assert PrivacyLoss(rounds.events).epsilon(delta=delta) <= epsilon
        assert _rho(rounds.events) <= _rho(Threshold(epsilon, delta, m, relation=relation).events) * (1 + F(1, 10**9))


def test_under_replace_each_round_may_fail_for_either_person_and_moves_further() -> None:
    one, other = (GaussianRounds(F(1), F(1, 10**6), 8, r) for r in (ADD, REPLACE))
    for events, times in ((one.events, 1), (other.events, 2)):
        assert [n for e, n in events if e.failure] == [2 * times]  # of two rounds
    assert [r.failure for r in other.rounds] == [r.failure / 2 for r in one.rounds]
    both = [zip(s.rounds, _gaussian(s), strict=True) for s in (one, other)]
    squares = [[e.mu_squared * r.noise.sigma**2 for r, e in rounds] for rounds in both]
    assert squares == [[WHOLE**2] * 2, [2 * WHOLE**2] * 2]


def test_the_selection_follows_from_public_facts_and_is_never_worse_than_the_threshold() -> None:
    e, d = F(1), F(1, 10**6)
    assert isinstance(selection(e, d, 1, ADD, 1), Threshold)
    assert isinstance(selection(e, d, 2, ADD, 1), Threshold)
    assert isinstance(selection(e, d, 20, ADD, 2), Threshold)  # weights count no people
    assert isinstance(selection(e, d, 20, ADD, 1), GaussianRounds)
    for m in range(2, 12):
        chosen, known = selection(e, d, m, ADD, 1), Threshold(e, d, m)
        assert all(chosen.kept_from(c) <= known.kept_from(c) for c in (F(1, 2), F(19, 20)))


def test_a_group_is_shown_with_the_chance_of_a_round() -> None:
    one = GaussianRounds(F(1), F(1, 10**6), 20, ADD).rounds[0]
    sigma = float(one.noise.sigma)
    for total in (0, one.least - 1, one.least, one.least + round(sigma)):
        assert one.chance(total) == pytest.approx(math.erfc((one.least - total - 0.5) / sigma / 2**0.5) / 2, rel=1e-8)


def _rho(events: Composed) -> F:
    return sum((n * (e.rho or F(0)) for e, n in events), F(0))


def _gaussian(rounds: GaussianRounds) -> list:  # type: ignore[type-arg]
    """The events of the rounds, from the first one on, whose noise is the largest."""
    return sorted((e for e, _ in rounds.events if e.mu_squared), key=lambda e: e.mu_squared)
