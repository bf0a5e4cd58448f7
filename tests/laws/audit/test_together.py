"""Outputs that one call gives together: what they share must not be taken for evidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from discreet.audit.outputs.sampling import Sampler, depend
from discreet.audit.sequential import distinguish

Random = np.random.Generator


def one_for_all(random: Random, n: int) -> Any:
    return np.full(n, random.laplace())


def shared_part(random: Random, n: int) -> Any:
    return 3 * random.laplace() + random.laplace(size=n)


def coin_of_the_call(random: Random, n: int) -> Any:
    return (random.random(n) < random.beta(3, 3)).astype(int)


def every_value_once(random: Random, n: int) -> Any:
    return random.permutation(n) % 8


def missing_numbers(random: Random, n: int) -> Any:
    """Integers without a missing one, floats with one."""
    values = [int(k) if u > 2e-3 else None for k, u in zip(random.integers(0, 3, n), random.random(n), strict=True)]
    return pd.Series(values, dtype="float64" if None in values else "int64")


def one_half(random: Random, n: int) -> Any:
    """The same with an array."""
    u = random.random(n)
    return np.array([int(k) if v > 2e-3 else 0.5 for k, v in zip(random.integers(0, 3, n), u, strict=True)])


def text_among_numbers(random: Random, n: int) -> Any:
    """All are texts where one is."""
    u = random.random(n)
    return np.array([int(k) if v > 2e-3 else "stop" for k, v in zip(random.integers(0, 3, n), u, strict=True)])


def padded(random: Random, n: int) -> Any:
    """Rows that stop, filled up to the longest of the call."""
    length = 1 + random.geometric(0.75, n)
    table = np.full((n, length.max()), np.nan)
    for row, stop in zip(table, length, strict=True):
        row[:stop] = random.integers(0, 2, stop)
    return table


def sometimes_raises(random: Random, n: int) -> Any:
    u = random.random(n)
    if (u < 3e-3).any():
        raise ValueError("bad luck")
    return (3 * u).astype(int)


@pytest.mark.parametrize("law", [one_for_all, shared_part, coin_of_the_call, every_value_once])
def test_outputs_that_share_something_are_drawn_one_by_one(law: Callable[[Random, int], Any]) -> None:
    random = np.random.default_rng(0)
    sampler = Sampler(lambda x, n=1: law(random, n), 0)
    sampler.examine()
    sampler.draw(10)
    assert any("depend on each other" in note for note in sampler.notes)


@pytest.mark.parametrize(
    "law",
    [
        lambda random, n: random.laplace(size=n),
        lambda random, n: random.integers(0, 2, n),
        lambda random, n: random.random(n) < 1e-3,
        lambda random, n: random.laplace(size=(n, 10)),
        lambda random, n: np.zeros(n),
        lambda random, n: ["a" if u < 0.1 else None for u in random.random(n)],
    ],
)
def test_independent_outputs_are_not_suspected(law: Callable[[Random, int], Any]) -> None:
    random = np.random.default_rng(0)
    suspected = [depend([law(random, 64) for _ in range(48)]) for _ in range(20)]
    assert not any(suspected)


@pytest.mark.parametrize(
    "law", [one_for_all, shared_part, missing_numbers, one_half, text_among_numbers, padded, sometimes_raises]
)
def test_what_a_call_as_a_whole_has_accuses_nobody(law: Callable[[Random, int], Any]) -> None:
    # Each of the audits of equal laws has an error of 1e-6; without care a third of them accused.
    random = np.random.default_rng(1)
    for _ in range(3):
        audit = distinguish(lambda x, n=1: law(random, n), 0, 1, claimed=0.3, samples=1500, error=1e-6, probes=False)
        assert not audit.violated


def test_an_array_that_is_written_again_by_the_next_call_does_not_hide_a_difference() -> None:
    random, kept = np.random.default_rng(2), np.zeros(1_000_000)

    def mechanism(x: float, n: int = 1) -> Any:
        kept[:n] = random.laplace(size=n) + 10 * x
        return kept[:n]

    assert distinguish(mechanism, 0, 1, claimed=1, samples=3000, probes=False).violated
