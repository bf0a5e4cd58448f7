"""Permute-and-flip against the curve of Laplace noise: never above it, and met by two candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations, product

import numpy as np

from discreet.privacy.pair import Curve
from discreet.privacy.pairs.additive import LaplacePair
from discreet.privacy.pairs.guaranteed import BoundedRangePair

GRID = np.linspace(-1.2, 1.2, 25)


def law(exponents: Sequence[float]) -> Curve:
    """The chance of each candidate, through every order (McKenna, Sheldon 2020, Algorithm 1)."""
    bias = np.exp(np.array(exponents) - max(exponents))
    out = np.zeros(bias.size)
    for order in permutations(range(bias.size)):
        left = 1.0
        for i in order:
            out[i] += left * bias[i]
            left *= 1 - bias[i]
    return out / math.factorial(bias.size)


def curve(p: Curve, q: Curve) -> Curve:
    return np.asarray(np.maximum(p - np.exp(GRID)[:, None] * q, 0).sum(axis=1))


def test_no_neighbours_exceed_laplace_noise_with_the_ratio_epsilon() -> None:
    most, bounded = LaplacePair(1.0).delta(GRID), BoundedRangePair(1.0).delta(GRID)
    above_bounded = False
    for n in (2, 3, 4):
        for rest in product((-2.0, -0.5, 0.0, 0.3, 1.0), repeat=n - 1):
            utilities = (0.0, *rest)
            before = law(utilities)
            for moves in product((-0.5, 0.5), repeat=n):  # ε = 1: each exponent moves by at most ε/2
                found = curve(before, law([u + d for u, d in zip(utilities, moves, strict=True)]))
                assert (found <= most + 1e-14).all()
                above_bounded |= bool((found > bounded + 0.01).any())
    assert above_bounded  # so it has not the range of the exponential mechanism


def test_two_candidates_have_that_curve_at_every_epsilon() -> None:
    most = LaplacePair(1.0).delta(GRID)
    best = np.zeros_like(GRID)
    for gap in np.linspace(-3, 3, 1201):
        best = np.maximum(best, curve(law((0.0, gap)), law((-0.5, gap + 0.5))))
        best = np.maximum(best, curve(law((0.0, gap)), law((0.5, gap - 0.5))))
    np.testing.assert_allclose(best, most, atol=2e-5)
