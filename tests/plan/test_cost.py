"""What one unit can move, against every pair of neighbouring vectors; and what noise costs, against the textbook."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from math import comb
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import NotPrivate
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.rounds import GaussianRounds
from discreet.plan.cost import Allocation, Kind, allocate, sensitivity_of
from discreet.privacy.unit import Relation, Sensitivity

SPANS = [(0, 1), (0, 3), (-2, 0), (-1, 2), (-2, 2), (-3, 1)]
ADD, REPLACE = Relation.ADD_REMOVE, Relation.REPLACE
MILLIONTH = Fraction(1, 10**6)


def vectors(span: tuple[int, int], k: int, groups: int) -> Iterator[tuple[int, ...]]:
    """Everything that one unit may add: in at most k groups, an integer of the span in each."""
    whole = range(span[0], span[1] + 1)
    values = sorted({*whole} if groups < 4 else {span[0], 0, span[1]})
    for entered in combinations(range(groups), min(k, groups)):
        for entries in product(values, repeat=len(entered)):
            yield tuple(entries[entered.index(g)] if g in entered else 0 for g in range(groups))


def observed(span: tuple[int, int], k: int, groups: int, relation: Relation) -> Sensitivity:
    """The largest difference between the sums of neighbours, in each norm, by trying all."""
    after = set(vectors(span, k, groups))
    before = after if relation is REPLACE else {(0,) * groups}
    moves = {tuple(a - b for a, b in zip(x, y, strict=True)) for x in after for y in before}
    return Sensitivity(
        max(sum(d != 0 for d in m) for m in moves),
        max(max(map(abs, m)) for m in moves),
        l1=max(sum(map(abs, m)) for m in moves),
        l2_squared=max(sum(d * d for d in m) for m in moves),
    )


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("span", SPANS)
def test_the_sensitivity_is_the_largest_move_of_all_neighbours(span: tuple[int, int], relation: Relation) -> None:
    for groups, k in product(range(1, 5), range(1, 6)):
        assert sensitivity_of(span, k, groups, relation) == observed(span, k, groups, relation), (groups, k)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("span", SPANS)
def test_unknown_groups_are_as_many_as_a_unit_could_ever_touch(span: tuple[int, int], relation: Relation) -> None:
    for k in (1, 2):
        assert sensitivity_of(span, k, None, relation) == observed(span, k, 2 * k, relation)


def test_a_column_that_cannot_move_has_no_sensitivity() -> None:
    for relation in Relation:
        s = sensitivity_of((0, 0), 3, 7, relation)
        assert (s.linf, s.l1, s.l2_squared) == (0, 0, 0)


@given(st.tuples(st.integers(-(1 << 40), 0), st.integers(0, 1 << 40)), st.integers(1, 1 << 31), st.integers(1, 1 << 33))
@settings(max_examples=200, derandomize=True)
def test_huge_caps_are_decided_at_once_and_known_groups_never_cost_more(
    span: tuple[int, int], k: int, groups: int
) -> None:
    for relation in Relation:
        free, bounded = sensitivity_of(span, k, None, relation), sensitivity_of(span, k, groups, relation)
        assert bounded.l0 <= free.l0
        assert bounded.l1 <= free.l1
        assert bounded.l2_squared <= free.l2_squared
        assert sensitivity_of(span, min(k, groups), groups, relation) == bounded


PRODUCT = Sensitivity(3, 10)
TIGHT = Sensitivity(6, 20, l1=60, l2_squared=1200)
STILL = Sensitivity(2, 0)


def spent(a: Allocation, sensitivities: list[Sensitivity], reports: int = 0) -> Fraction:
    """Σ ℓ1/b: what Laplace columns and reports cost together in pure ε (Dwork, Roth, Theorems 3.6 and 3.16)."""
    total = Fraction(0)
    for noise, s in zip((*a.noises, *a.reports), (*sensitivities, *[Sensitivity(1, 1)] * reports), strict=True):
        assert isinstance(noise, DiscreteLaplaceNoise)
        total += s.l1 / noise.scale
    return total


@pytest.mark.parametrize("sensitivities", [[PRODUCT], [PRODUCT, TIGHT], [TIGHT] * 5, [Sensitivity(1, 1)] * 7])
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), Fraction(19)])
def test_pure_columns_cost_what_was_asked_to_the_last_digit(
    sensitivities: list[Sensitivity], epsilon: Fraction
) -> None:
    for share in (Fraction(0), Fraction(1, 7)):
        reports = [Sensitivity(1, 1)] * 2 if share else []
        a = allocate(
            sensitivities,
            epsilon=epsilon,
            delta=Fraction(0),
            kind=Kind.LAPLACE,
            select=None,
            reports=reports,
            report_share=share,
        )
        assert spent(a, sensitivities, len(reports)) == epsilon
        assert sum((n * (e.pure or 0) for e, n in a.events), Fraction(0)) == epsilon
        assert (a.guarantee.epsilon, a.guarantee.delta) == (epsilon, Fraction(0))
        assert sum((1 / n.scale for n in a.reports), Fraction(0)) == share * epsilon  # type: ignore[attr-defined]


def test_a_still_column_costs_nothing_and_breaks_nothing() -> None:
    for kind, delta in ((Kind.LAPLACE, Fraction(0)), (Kind.GAUSSIAN, MILLIONTH)):
        for sensitivities in ([STILL], [STILL, PRODUCT]):
            a = allocate(sensitivities, epsilon=Fraction(1), delta=delta, kind=kind, select=None)
            assert len(a.noises) == len(sensitivities)
            assert len(a.events) == (0 if sensitivities == [STILL] else len(a.events))


def gaussian_delta(mu_squared: Fraction, epsilon: Fraction) -> mpmath.mpf:
    """Balle, Wang 2018, Theorem 8, to fifty digits."""
    with mpmath.workdps(50):
        mu = mpmath.sqrt(mpmath.mpf(mu_squared.numerator) / mu_squared.denominator)
        e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)


def mu_squared(a: Allocation, sensitivities: list[Sensitivity]) -> Fraction:
    total = Fraction(0)
    for noise, s in zip(a.noises, sensitivities, strict=True):
        assert isinstance(noise, RoundedGaussianNoise)
        total += s.l2_squared / noise.sigma**2
    return total


@pytest.mark.parametrize("sensitivities", [[PRODUCT], [PRODUCT, TIGHT, Sensitivity(1, 1)]])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(12)])
def test_gaussian_columns_cost_at_most_what_was_asked_and_hardly_less(
    sensitivities: list[Sensitivity], epsilon: Fraction
) -> None:
    a = allocate(sensitivities, epsilon=epsilon, delta=MILLIONTH, kind=Kind.GAUSSIAN, select=None)
    found = mu_squared(a, sensitivities)
    assert gaussian_delta(found, epsilon) <= MILLIONTH
    assert gaussian_delta(found * Fraction(1001, 1000), epsilon) > MILLIONTH
    assert sum((n * (e.mu_squared or 0) for e, n in a.events), Fraction(0)) == found
    assert (a.guarantee.epsilon, a.guarantee.delta) == (epsilon, MILLIONTH)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("k", [1, 3])
def test_the_selection_of_groups_and_the_columns_add_up(relation: Relation, k: int) -> None:
    epsilon, sensitivities = Fraction(2), [PRODUCT, TIGHT]
    pure = allocate(sensitivities, epsilon=epsilon, delta=MILLIONTH, kind=Kind.LAPLACE, select=(k, relation, 1))
    assert pure.threshold is not None
    assert pure.threshold.touched == (k if relation is ADD else 2 * k)
    assert pure.threshold.epsilon + spent(pure, sensitivities) == epsilon
    assert pure.threshold.delta == MILLIONTH == pure.guarantee.delta
    both = allocate(sensitivities, epsilon=epsilon, delta=MILLIONTH, kind=Kind.GAUSSIAN, select=(k, relation, 1))
    assert both.threshold is not None
    left, left_delta = epsilon - both.threshold.epsilon, MILLIONTH - both.threshold.delta
    assert left > 0
    assert left_delta == MILLIONTH / 2
    assert gaussian_delta(mu_squared(both, sensitivities), left) <= left_delta
    for a in (pure, both):
        failures = sum((n * e.failure for e, n in a.events), Fraction(0))
        assert a.threshold is not None
        gaussian = isinstance(a.threshold, GaussianRounds)
        assert gaussian == (k == 3 and relation is not ADD)
        assert failures == a.threshold.delta / (2 if gaussian else 1)  # half is that of the rounds' noise


def laplace_delta(n: int, scale: Fraction, epsilon: Fraction) -> mpmath.mpf:
    """δ(ε) of n counts that move by 1 each, exactly: a loss is 1/b with probability 1/(1 + e^(−1/b)), else −1/b."""
    with mpmath.workdps(60):
        b = mpmath.mpf(scale.numerator) / scale.denominator
        e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        up = 1 / (1 + mpmath.exp(-1 / b))
        terms = ((comb(n, i) * up**i * (1 - up) ** (n - i), (2 * i - n) / b) for i in range(n + 1))
        return mpmath.fsum(p * -mpmath.expm1(e - loss) for p, loss in terms if loss > e)


@pytest.mark.parametrize(("k", "columns"), [(12, 1), (20, 3), (40, 2), (100, 4)])
def test_many_counts_compose_to_what_was_asked_by_their_exact_law(k: int, columns: int) -> None:
    epsilon, sensitivities = Fraction(1, 2), [Sensitivity(k, 1)] * columns
    a = allocate(sensitivities, epsilon=epsilon, delta=MILLIONTH, kind=Kind.LAPLACE, select=None)
    assert isinstance(a.noises[0], DiscreteLaplaceNoise)
    assert set(a.noises) == {a.noises[0]}
    scale = a.noises[0].scale
    assert laplace_delta(k * columns, scale, epsilon) <= a.guarantee.delta <= MILLIONTH
    assert (a.guarantee.delta == 0) == (spent(a, sensitivities) <= epsilon)
    less = Fraction(99, 100) if k * columns <= 64 else Fraction(9, 10)  # beyond 64 numbers by zCDP, which is looser
    assert laplace_delta(k * columns, scale * less, epsilon) > MILLIONTH


@given(
    st.lists(
        st.tuples(
            st.integers(1, 50),
            st.tuples(st.integers(-1000, 0), st.integers(0, 1 << 50)),
            st.sampled_from(list(Relation)),
            st.sampled_from([None, 1, 2, 40]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.fractions(Fraction(1, 1000), 20, max_denominator=1000),
)
@settings(max_examples=100, derandomize=True)
def test_the_pure_price_is_exact_for_any_columns(columns: list[Any], epsilon: Fraction) -> None:
    sensitivities = [sensitivity_of(span, k, groups, relation) for k, span, relation, groups in columns]
    a = allocate(sensitivities, epsilon=epsilon, delta=Fraction(0), kind=Kind.LAPLACE, select=None)
    moving = [s for s in sensitivities if s.l1]
    assert spent(a, sensitivities) == epsilon * len(moving) / len(sensitivities)


def test_what_needs_a_delta_is_refused_without_one() -> None:
    with pytest.raises(NotPrivate, match="δ"):
        allocate([PRODUCT], epsilon=Fraction(1), delta=Fraction(0), kind=Kind.GAUSSIAN, select=None)
    with pytest.raises(NotPrivate, match="δ"):
        allocate([PRODUCT], epsilon=Fraction(1), delta=Fraction(0), kind=Kind.LAPLACE, select=(1, ADD, 1))
