"""Noisy max with each noise, and monotonic selection: their laws by enumeration and integration, at twice the rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from discreet.errors import InvalidParameter
from discreet.mechanisms import Exponential, NoisyMax, PermuteAndFlip
from discreet.mechanisms.selection import Selection
from discreet.noise.entropy import SystemEntropy
from discreet.privacy.discrete_events import BoundedRangeEvent
from tests.mechanisms.test_selection import exponential, noisy_max, permute_and_flip

ALARM = 1e-9
RNG = SystemEntropy()


def by_integral(kind: str) -> Callable[[NDArray[np.float64], float], NDArray[np.float64]]:
    """P(uᵢ + Zᵢ is largest) for independent noise of rate `rate`, from its density and distribution alone."""
    law = {"exponential": stats.expon, "gumbel": stats.gumbel_r}[kind]

    def chances(u: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
        scaled = (u - u.max()) * rate

        def first(i: int) -> float:
            def joint(x: float) -> float:
                others = [law.cdf(x - scaled[j]) for j in range(len(u)) if j != i]
                return float(law.pdf(x - scaled[i]) * np.prod(others))

            return float(integrate.quad(joint, -8, 45, limit=400, points=[*sorted({*scaled.tolist(), 0.0})])[0])

        return np.array([first(i) for i in range(len(u))])

    return chances


NOISES: list[tuple[str, Callable[[NDArray[np.float64], float], NDArray[np.float64]]]] = [
    ("exponential", permute_and_flip),
    ("gumbel", exponential),
    ("laplace", noisy_max),
]


@pytest.mark.parametrize(("noise", "law"), NOISES[:2], ids=lambda x: x if isinstance(x, str) else "")
def test_noise_and_sampler_are_the_same_law(
    noise: str, law: Callable[[NDArray[np.float64], float], NDArray[np.float64]]
) -> None:
    # Ding, Kifer et al. 2021 for exponential noise, and the Gumbel trick: by integrals over the noise itself.
    for u in ([0.0, 0.0], [0.0, 1.5, 4.0], [3.0, 3.0, 0.5, 2.0]):
        for rate in (0.3, 1.0):
            assert by_integral(noise)(np.array(u), rate) == pytest.approx(law(np.array(u), rate), abs=1e-6)


@pytest.mark.laws
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("noise", "law"), NOISES, ids=lambda x: x if isinstance(x, str) else "")
@pytest.mark.parametrize("monotonic", [False, True])
def test_draws_follow_the_law_and_not_a_neighbouring_one(
    noise: str, law: Callable[[NDArray[np.float64], float], NDArray[np.float64]], monotonic: bool
) -> None:
    mechanism = NoisyMax(epsilon=1, sensitivity=2, noise=noise, monotonic=monotonic)  # type: ignore[arg-type]
    u, draws = np.array([0, 3, 5, 1]), 10_000
    counts = np.bincount([mechanism.release(range(4), u, rng=RNG) for _ in range(draws)], minlength=4)
    rate = 0.5 if monotonic else 0.25
    assert stats.chisquare(counts, draws * law(u, rate)).pvalue > ALARM
    assert stats.chisquare(counts, draws * law(u, rate * 1.3)).pvalue < ALARM
    assert stats.chisquare(counts, draws * law(u, rate * 0.6)).pvalue < ALARM


KINDS: list[tuple[Callable[..., Selection], Callable[[NDArray[np.float64], float], NDArray[np.float64]]]] = [
    (Exponential, exponential),
    (PermuteAndFlip, permute_and_flip),
    (NoisyMax, noisy_max),
]


@pytest.mark.parametrize(("kind", "law"), KINDS, ids=["exponential", "permute-and-flip", "noisy-max"])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_one_direction_allows_twice_the_rate_and_two_do_not(
    kind: Callable[..., Selection], law: Callable[[NDArray[np.float64], float], NDArray[np.float64]], epsilon: float
) -> None:
    mechanism = kind(epsilon=epsilon, monotonic=True)
    assert mechanism.rate == 2 * kind(epsilon=epsilon).rate
    rate = float(mechanism.rate)
    laws = {u: law(np.array(u), rate) for u in product(range(-1, 3), repeat=3)}

    def worst(steps: tuple[int, ...]) -> float:
        found = 0.0
        for u in product(range(2), repeat=3):
            for step in product(steps, repeat=3):
                v = tuple(a + b for a, b in zip(u, step, strict=True))
                found = max(found, float(np.abs(np.log(laws[u] / laws[v])).max()))
        return found

    assert worst((0, 1)) <= epsilon + 1e-9 and worst((0, -1)) <= epsilon + 1e-9
    assert worst((-1, 0, 1)) > epsilon * 1.05  # the enumeration tells the two apart


@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip, NoisyMax])
def test_monotonic_is_a_choice_that_shows(kind: type[Selection]) -> None:
    plain, better = kind(epsilon=0.5, sensitivity=3), kind(epsilon=0.5, sensitivity=3, monotonic=True)
    assert plain != better and plain == kind(epsilon=0.5, sensitivity=3, monotonic=False)
    assert repr(plain) == f"{kind.__name__}(epsilon=0.5, sensitivity=3)"
    assert eval(repr(better), {kind.__name__: kind}) == better
    assert better.events == plain.events
    assert better.error(candidates=5) <= 0.51 * plain.error(candidates=5)
    text = better.explain()
    assert "one direction" in text and "exp(0.5)" in text and "M is 0.5-DP" in text
    assert "one direction" not in plain.explain()
    for bad in (1, None, "yes"):
        with pytest.raises(InvalidParameter, match="monotonic"):
            kind(epsilon=1, monotonic=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", ["exponential", "gumbel"])
def test_these_noises_take_any_numbers_and_any_scale(noise: str) -> None:
    sharp = NoisyMax(epsilon=10**6, sensitivity="0.5", noise=noise)  # type: ignore[arg-type]
    assert sharp.release(["a", "b"], [0.25, 0.5]) == "b"
    assert NoisyMax(epsilon="1e-20", noise=noise).release(["a"], [1]) == "a"  # type: ignore[arg-type]
    mechanism = NoisyMax(epsilon=0.5, noise=noise)  # type: ignore[arg-type]
    assert eval(repr(mechanism), {"NoisyMax": NoisyMax}) == mechanism != NoisyMax(epsilon=0.5)
    assert "M is 0.5-DP" in mechanism.explain()


def test_the_error_of_each_noise_is_that_of_its_law() -> None:
    for confidence, n in ((0.9, 3), (0.99, 1000)):
        log = 2 * math.log(n / (1 - confidence))
        for noise in ("exponential", "gumbel"):
            error = NoisyMax(epsilon=1, noise=noise).error(confidence, candidates=n)
            assert error == pytest.approx(log)
            assert error < NoisyMax(epsilon=1).error(confidence, candidates=n)


def test_gumbel_noise_is_charged_as_bounded_range() -> None:
    ((event, count),) = NoisyMax(epsilon=1, noise="gumbel").events
    assert isinstance(event, BoundedRangeEvent) and count == 1
    assert NoisyMax(epsilon=1, noise="gumbel").loss.rho == Exponential(epsilon=1).loss.rho


@pytest.mark.parametrize("noise", ["gauss", None, 1, ""])
def test_other_noises_are_refused(noise: object) -> None:
    with pytest.raises(InvalidParameter, match="'laplace', 'exponential', 'gumbel'"):
        NoisyMax(epsilon=1, noise=noise)  # type: ignore[arg-type]
