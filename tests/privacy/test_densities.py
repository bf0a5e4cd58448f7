"""Finite pairs from densities, against the curves of the densities themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction as F
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from numpy.typing import ArrayLike
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.privacy.densities import from_densities
from discreet.privacy.discrete_events import AtomsEvent
from discreet.privacy.pair import ACCURACY
from tests.privacy import curves
from tests.privacy.curves import exactly, real

X = (-6.0, -2.0, -0.7, -0.1, 0.0, 0.1, 0.45, 0.7, 0.95, 1.2, 2.0, 4.0, 7.0)


@exactly
def logistic(shift: F, epsilon: float) -> mpf:
    """The curve of logistic noise around 0 and around `shift`, from its best ray."""
    s, x = real(shift), real(epsilon)
    if x >= s:
        return mpf(0)
    if x <= -s:
        return -mpmath.expm1(x)
    low, high = mpf(-400), mpf(400)

    def loss(t: mpf) -> mpf:
        return _log_logistic(t) - _log_logistic(t - s)

    for _ in range(220):
        t = (low + high) / 2
        low, high = (t, high) if loss(t) > x else (low, t)
    return 1 / (1 + mpmath.exp(-low)) - mpmath.exp(x) / (1 + mpmath.exp(s - low))


def _log_logistic(t: mpf) -> mpf:
    return -t - 2 * mpmath.log1p(mpmath.exp(-t))


def both(event: AtomsEvent, epsilon: float) -> tuple[F, F]:
    x, pair = np.array([epsilon]), event.pair()
    return F(float(pair.delta(x)[0])), F(float(pair.reverse().delta(x)[0]))


def norm(mean: float, sd: float = 1.0) -> Any:
    return stats.norm(mean, sd)


EXAMPLES: dict[str, tuple[Any, Any, int | None, Callable[[float], F]]] = {
    "gaussian": (norm(1), norm(0), None, lambda x: curves.gaussian(F(1), x)),
    "gaussian falling": (norm(0), norm(0.5), None, lambda x: curves.gaussian(F(1, 4), x)),
    "laplace": (stats.laplace(0), stats.laplace(1), 1, lambda x: curves.laplace(F(1), x)),
    "laplace unbounded": (stats.laplace(0), stats.laplace(1), None, lambda x: curves.laplace(F(1), x)),
    "logistic": (stats.logistic(0), stats.logistic(1), 1, lambda x: logistic(F(1), x)),
}


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.thinned(2)
@pytest.mark.parametrize(("p", "q", "largest", "true"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_finite_pair_lies_above_the_densities_in_both_directions_and_near_them(
    p: Any, q: Any, largest: int | None, true: Any
) -> None:
    event = from_densities(p, q, points=512, largest=largest)
    for x in X:
        for found in both(event, x):
            assert found >= true(x) * (1 - F(ACCURACY)), x
            assert found <= true(x) * F(102, 100) + F(1, 10**20), x


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["gaussian", "laplace", "logistic"])
def test_more_points_bring_it_nearer(name: str) -> None:
    p, q, largest, true = EXAMPLES[name]
    off = []
    for n in (64, 256, 1024):
        event = from_densities(p, q, points=n, largest=largest)
        off.append(sum((both(event, x)[0] / true(x) - 1 for x in (0.05, 0.33, 0.52, 0.81)), F(0)))
    assert off[0] > 4 * off[1] > 16 * off[2] > 0
    assert off[2] < F(1, 1000)


@pytest.mark.laws
def test_a_law_that_is_a_percent_off_is_told_apart() -> None:
    event = from_densities(norm(1.01), norm(0), points=1024)
    assert both(event, 0.5)[0] > curves.gaussian(F(1), 0.5) * F(1005, 1000)
    less = from_densities(norm(0.99), norm(0), points=1024)
    assert both(less, 0.5)[0] < curves.gaussian(F(1), 0.5)


def test_a_bound_on_the_loss_leaves_no_failure() -> None:
    event = from_densities(stats.logistic(0), stats.logistic(1), points=256, largest=1)
    assert event.failure == 0
    assert 1 <= event.pure <= 1 + F(1, 10**14)
    assert 0 < from_densities(stats.logistic(0), stats.logistic(1), points=256).failure < F(1, 10**30)


def test_outcomes_of_one_law_only_are_a_failure() -> None:
    event = from_densities(stats.uniform(0, 1), stats.uniform(0.25, 1), points=64)
    assert F(1, 4) <= event.failure <= F(1, 4) + F(1, 10**11)
    for found in both(event, 0.5):
        assert F(1, 4) <= found <= F(1, 4) + F(1, 10**11)


def test_points_may_be_given_and_far_apart_ones_are_sound() -> None:
    for points in ([-1.0, 0.5, 2.0], np.array([0.0, 1.0]), (0.5, -3.0, 0.5, 4.0)):
        event = from_densities(norm(1), norm(0), points=points)
        for x in X:
            for found in both(event, x):
                assert found >= curves.gaussian(F(1), x) * (1 - F(ACCURACY))


def test_a_very_large_loss_is_a_failure_and_not_an_error() -> None:
    event = from_densities(norm(60), norm(0), points=[-30.0, 0.0, 20.0, 30.0, 40.0, 90.0])
    for x in (0.0, 5.0, 50.0):
        assert both(event, x)[0] >= curves.gaussian(F(3600), x) * (1 - F(ACCURACY))


@dataclass(frozen=True)
class Broken:
    """A normal law whose logarithm is no number beyond 1."""

    law: Any

    def logpdf(self, x: ArrayLike, /) -> ArrayLike:
        return np.where(np.asarray(x) > 1, np.nan, self.law.logpdf(x))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.law, name)


def test_what_is_no_such_pair_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="not monotone"):
        from_densities(stats.cauchy(0), stats.cauchy(1), points=64)
    with pytest.raises(InvalidParameter, match="not a number"):
        from_densities(Broken(norm(0)), norm(1), points=64)
    with pytest.raises(InvalidParameter, match="no point"):
        from_densities(stats.uniform(0, 1), stats.uniform(5, 1), points=64)
    for points in (1, 7, [0.0], [np.inf, 0.0], -3):
        with pytest.raises(InvalidParameter, match="points"):
            from_densities(norm(0), norm(1), points=points)
    with pytest.raises(InvalidParameter, match="largest"):
        from_densities(norm(0), norm(1), points=64, largest=-1)
