"""The tail of right guesses is never below the best mechanism there is, and it is the published one or better."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import sparse, stats
from scipy.optimize import linprog
from scipy.special import ndtr

from discreet.accounting import gaussian, pure
from discreet.audit import Claim
from discreet.audit.played import epsilon_lower, ladder, p_value, promises, tail


def published(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The p-value of Steinke, Nasr, Jagielski 2023, Appendix D, https://arxiv.org/abs/2305.08846."""
    q = 1 / (1 + math.exp(-epsilon))
    i = np.arange(1, v + 1)
    between = np.cumsum(stats.binom.pmf(v - i, r, q))
    return min(1.0, float(stats.binom.sf(v - 1, r, q) + 2 * m * delta * np.max(between / i)))


def published_lower(m: int, r: int, v: int, delta: float, error: float) -> float:
    low, high = 0.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if published(m, r, v, middle, delta) < error else (low, middle)
    return low


def best_mechanism(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The largest chance of v right guesses that an (ε, δ)-DP mechanism with r guesses reaches, by a linear program."""
    inputs = list(itertools.product((0, 1), repeat=m))
    outputs = [
        dict(zip(chosen, bits, strict=True))
        for chosen in itertools.combinations(range(m), r)
        for bits in itertools.product((0, 1), repeat=r)
    ]
    n, k = len(inputs), len(outputs)
    pairs = [
        (a, b)
        for a in range(n)
        for b in range(n)
        if sum(x != y for x, y in zip(inputs[a], inputs[b], strict=True)) == 1
    ]
    unknown = n * k + len(pairs) * k  # P(output | input), then the excess of each output over each ordered pair
    value = np.zeros(unknown)
    for a, bits in enumerate(inputs):
        for t, guess in enumerate(outputs):
            value[a * k + t] = -(sum(bits[i] == bit for i, bit in guess.items()) >= v) / n
    excess: list[tuple[int, int, float]] = []
    for row, ((a, b), t) in enumerate(itertools.product(pairs, range(k))):
        excess += [(row, a * k + t, 1.0), (row, b * k + t, -math.exp(epsilon)), (row, n * k + row, -1.0)]
    rows = len(pairs) * k
    budget = [(rows + p, n * k + p * k + t, 1.0) for p in range(len(pairs)) for t in range(k)]
    found = linprog(
        value,
        A_ub=matrix(excess + budget, rows + len(pairs), unknown),
        b_ub=np.concatenate([np.zeros(rows), np.full(len(pairs), delta)]),
        A_eq=matrix([(a, a * k + t, 1.0) for a in range(n) for t in range(k)], n, unknown),
        b_eq=np.ones(n),
    )
    assert found.fun is not None
    return -float(found.fun)


def matrix(entries: list[tuple[int, int, float]], rows: int, columns: int) -> Any:
    i, j, x = zip(*entries, strict=True)
    return sparse.csr_array((x, (i, j)), shape=(rows, columns))


@pytest.mark.parametrize(("m", "r"), [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3)])
def test_no_private_mechanism_guesses_better_than_the_tail_says(m: int, r: int) -> None:
    for epsilon, delta, v in itertools.product((0.0, 0.7, 2.0), (0.0, 0.01, 0.2), range(1, r + 1)):
        best, bound = best_mechanism(m, r, v, epsilon, delta), tail(m, r, v, epsilon, delta)
        assert best <= bound * (1 + 1e-6), (epsilon, delta, v)
        if r == m and (delta == 0 or v == r):  # there it is what the best mechanism reaches
            assert bound <= min(1.0, best + delta) * (1 + 1e-6), (epsilon, delta, v)


def test_without_delta_the_tail_is_that_of_the_binomial_law() -> None:
    with mpmath.workdps(40):
        for m, v, epsilon in ((100, 80, 1.0), (1000, 740, 1.0), (50, 50, 6.0), (1000, 1000, 30.0)):
            q = 1 / (1 + mpmath.exp(-epsilon))
            truth = mpmath.fsum(mpmath.binomial(m, k) * q**k * (1 - q) ** (m - k) for k in range(v, m + 1))
            assert 1 <= tail(m, m, v, epsilon, 0.0) / float(truth) <= 1 + 1e-8


def test_the_numbers_printed_in_the_paper_come_out_of_its_formula_and_are_not_above_ours() -> None:
    for case, printed in (((1000, 100, 75, 1e-4), 0.673), ((100_000, 1510, 1439, 1e-5), 2.675)):
        paper = published_lower(*case, 0.05)
        assert paper == pytest.approx(printed, abs=1e-3)
        assert epsilon_lower(*case, 0.05) > paper + 0.02


@pytest.mark.parametrize("m", [20, 200, 2000])
def test_the_tail_is_never_above_the_published_one_where_it_matters(m: int) -> None:
    for r, epsilon, delta in itertools.product((m, m // 4, m // 5), (0.0, 0.3, 1.0, 3.0), (1e-6, 1e-4, 1e-2)):
        for v in range(1, r + 1, max(1, r // 20)):
            ours, theirs = tail(m, r, v, epsilon, delta), published(m, r, v, epsilon, delta)
            assert ours <= theirs * (1 + 2e-9) or theirs > 0.5


def test_far_tails_neither_overflow_nor_vanish() -> None:
    assert tail(10**6, 10**6, 10**6, 1.0, 1e-6) == pytest.approx(1e-6, rel=1e-6)  # the chance to reveal all
    assert 0 < tail(10**5, 10**5, 99_000, 0.0, 1e-9) < 1e-8
    assert tail(10, 10, 0, 1.0, 0.0) == 1.0
    assert tail(10, 10, 5, 100.0, 0.1) == 1.0


def test_the_lower_bound_is_where_the_tail_meets_the_error() -> None:
    low = epsilon_lower(1000, 1000, 800, 0.0, 1e-3)
    assert tail(1000, 1000, 800, low, 0.0) <= 1e-3 < tail(1000, 1000, 800, low + 1e-6, 0.0)
    assert epsilon_lower(1000, 1000, 500, 0.0, 1e-3) == 0.0


def test_a_curve_is_as_sharp_as_its_best_point() -> None:
    claim = Claim.of(gaussian(1))
    points = promises(claim)
    assert len(points) > 20
    for epsilon, delta in points:  # the curve of a Gaussian of μ = 1: Balle, Wang 2018, Theorem 8
        truth = ndtr(-epsilon + 0.5) - math.exp(epsilon) * ndtr(-epsilon - 0.5)
        assert delta == pytest.approx(truth, rel=1e-6, abs=1e-12)
    assert p_value(100, 100, 95, points) == min(tail(100, 100, 95, e, d) for e, d in points)
    assert promises(Claim.of(pure(1)))[0] == (1.0, 0.0)


def test_a_curve_holds_for_the_gaussian_mechanism_whose_noise_is_shared() -> None:
    """A law far from independent guesses: with chance 1/10 all coins are told by N(2S, 1), else nothing is.

    Its trade-off curve is at least that of δ = P[told] at the ε of each told coin; the tail of the mixture is exact.
    """
    told, m, mu = 0.1, 50, 2.0
    hit = float(ndtr(mu / 2))
    grid = np.linspace(0, 12, 200)
    curve = told * (ndtr(-grid / mu + mu / 2) - np.exp(grid) * ndtr(-grid / mu - mu / 2))
    points = [(float(e), float(d)) for e, d in zip(grid, curve, strict=True)]
    for v in range(1, m + 1):
        truth = told * stats.binom.sf(v - 1, m, hit) + (1 - told) * stats.binom.sf(v - 1, m, 0.5)
        assert truth <= p_value(m, m, v, points)


@pytest.mark.parametrize("m", [1, 2, 3, 5, 17, 100, 10_001])
def test_the_default_numbers_of_guesses_fit(m: int) -> None:
    tries = ladder(m)
    assert 1 <= len(tries) <= 8
    assert len(set(tries)) == len(tries)
    assert all(1 <= sum(t) <= m for t in tries)
    assert sum(tries[0]) == m
