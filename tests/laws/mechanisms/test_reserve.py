"""Single releases have their mechanism's law, one after the other, and no law close by."""

from __future__ import annotations

import copy
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, Numeric, Staircase, numeric
from tests.noise.chi_square import accepts
from tests.noise.laws import Seeded

RELEASES = 100_000
Mass = Callable[[NDArray[np.float64], float], NDArray[np.float64]]


def laplace(k: NDArray[np.float64], stretch: float) -> NDArray[np.float64]:
    return np.exp(-np.abs(k) / (5 * stretch))


def rounded(k: NDArray[np.float64], stretch: float) -> NDArray[np.float64]:
    return np.asarray(np.diff(stats.norm.cdf(np.append(k, k[-1] + 1) - 0.5, scale=5 * stretch)))


def discrete(k: NDArray[np.float64], stretch: float) -> NDArray[np.float64]:
    return np.exp(-k * k / (2 * (5 * stretch) ** 2))


def staircase(k: NDArray[np.float64], stretch: float) -> NDArray[np.float64]:
    step, place = np.divmod(np.abs(k), 4)
    return np.exp(-(step + (place >= 2)) / stretch)


CASES: list[tuple[Numeric, Mass]] = [
    (Laplace(scale=5), laplace),
    (Geometric(epsilon="0.2"), laplace),
    (Gaussian(sigma=5), rounded),
    (DiscreteGaussian(sigma=5), discrete),
    (Staircase(epsilon=1, sensitivity=4, gamma="0.5"), staircase),
]


@pytest.fixture(autouse=True)
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Seeded(20_261_124)
    monkeypatch.setattr(numeric, "SystemEntropy", lambda: source)


def chances(mass: Mass, stretch: float) -> list[float]:
    """P(Z = −100), …, P(Z = 100)."""
    weights = mass(np.arange(-300.0, 301.0), stretch)
    return (weights / weights.sum())[200:401].tolist()  # type: ignore[no-any-return]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("mechanism", "mass"), CASES, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("value", [0, -(10**30)])
def test_single_integers_have_the_law_and_none_five_percent_away(mechanism: Any, mass: Mass, value: int) -> None:
    mechanism = copy.copy(mechanism)  # without what other tests drew ahead
    drawn = [min(max(mechanism.release(value) - value, -100), 100) + 100 for _ in range(RELEASES)]
    assert accepts(drawn, chances(mass, 1.0))
    assert not accepts(drawn, chances(mass, 1.05))
    assert not accepts(drawn, chances(mass, 0.95))
    assert not accepts([min(z + 1, 200) for z in drawn], chances(mass, 1.0))


REAL: list[tuple[Numeric, Any]] = [
    (Laplace(scale="0.25", sensitivity="0.1"), stats.laplace(scale=0.25)),
    (Gaussian(sigma="0.25", sensitivity="0.1"), stats.norm(scale=0.25)),
    (DiscreteGaussian(sigma="0.25", sensitivity="0.1", step=2**-20), stats.norm(scale=0.25)),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("mechanism", "law"), REAL, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("value", [0.0, 2.0**40])
def test_single_floats_have_the_law_and_none_five_percent_away(mechanism: Any, law: Any, value: float) -> None:
    mechanism = copy.copy(mechanism)
    noise = np.array([mechanism.release(value) - value for _ in range(RELEASES)])

    def fits(scaled: NDArray[np.float64]) -> bool:
        return accepts(np.minimum(law.cdf(scaled) * 32, 31).astype(int).tolist(), [1 / 32] * 32)

    assert fits(noise)
    assert not fits(noise * 1.05) and not fits(noise * 0.95) and not fits(noise + 0.02)


@pytest.mark.parametrize("lag", [1, 2, 512, 1023, 1024])
def test_releases_at_any_distance_are_independent(lag: int) -> None:
    """Pairs of quarters of the law are uniform; a block handed out twice, or mirrored, is found."""
    mechanism = Laplace(epsilon="1e-9")
    noise = np.array([mechanism.release(0) for _ in range(RELEASES)])
    quarter = np.minimum(stats.laplace(scale=1e9).cdf(noise) * 4, 3).astype(int)

    def independent(x: NDArray[np.int64]) -> bool:
        return accepts((4 * x[:-lag] + x[lag:]).tolist(), [1 / 16] * 16)

    assert independent(quarter)
    again = np.where(np.arange(RELEASES) // lag % 2 == 0, quarter, np.roll(quarter, lag))
    assert not independent(again)


def test_the_fraction_of_a_scale_is_kept() -> None:
    """ε = 1/3 and ε = 0.33 are two laws: 100,000 releases tell 3 from 3.15."""
    mechanism = Laplace(epsilon=Fraction(1, 3))
    drawn = [min(abs(mechanism.release(0)), 60) for _ in range(RELEASES)]
    p = np.exp(-np.arange(61) / 3)
    right = np.where(np.arange(61) == 0, 1, 2 * p)
    assert accepts(drawn, (right / right.sum()).tolist())
