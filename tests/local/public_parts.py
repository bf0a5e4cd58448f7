"""The exact law of a report given what is public in it: all ways in which the coins can fall, fixed public draws."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.local.coins import Coin
from discreet.local.reals import BITS
from tests.local.branches import Branches, plain

MODULES = ("means", "local_hashing", "sketches", "heavy_hitters", "privunit")
MANY = 50
"""Among so many or more a uniform draw is public, and fixed: the same for all values, as the law of it is."""


class FixedBytes:
    """Public numbers that are the same on every course."""

    def __init__(self, start: int = 7) -> None:
        self._start = start

    def bytes(self, n: int, /) -> bytes:
        return bytes((self._start + 37 * i) % 256 for i in range(n))


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> Branches:
    """The coins of all randomizers follow the branches; uniform numbers too, where there are few."""
    found = Branches()

    def flips(coin: Coin, n: int, rng: object) -> NDArray[np.bool_]:
        return np.array([found.take([1 - coin.chance, coin.chance]) for _ in range(n)], dtype=np.bool_)

    def below_vector(k: int, size: int, rng: object) -> NDArray[np.int64]:
        if k >= MANY:
            return (np.arange(size, dtype=np.int64) + 12345) % k
        return np.array([found.take([Fraction(1, k)] * k) for _ in range(size)], dtype=np.int64)

    def rounded(steps: NDArray[np.int64], bits: int, rng: object) -> NDArray[np.int64]:
        grid = 1 << (BITS - bits)
        whole, rest = np.divmod(steps, grid)
        ups = [found.take([1 - Fraction(r, grid), Fraction(r, grid)]) for r in rest.reshape(-1).tolist()]
        return np.asarray(whole + np.array(ups, dtype=np.int64).reshape(whole.shape))

    monkeypatch.setattr(Coin, "flips", flips)
    for name in MODULES:
        module = sys.modules[f"discreet.local.{name}"]
        if hasattr(module, "below_vector"):
            monkeypatch.setattr(module, "below_vector", below_vector)
    monkeypatch.setattr(sys.modules["discreet.local.means"], "rounded_at_random", rounded)
    return found


def least_exp(epsilon: Fraction) -> Fraction:
    """A fraction below e^ε by a relative 1e-40."""
    with mp.workdps(80):
        value = mp.exp(mp.mpf(epsilon.numerator) / epsilon.denominator)
        return Fraction(int(value * mp.mpf(2) ** 200), 1 << 200) * (1 - Fraction(1, 10**40))


def law_of(randomizer: Any, x: object, tree: Branches, rng: Any = None) -> dict[Any, Fraction]:
    """The exact law of the report of `x`, given the public part."""
    source = FixedBytes() if rng is None else rng
    return dict(tree.law(lambda: plain(randomizer.randomize(x, rng=source))))


def largest_ratio(laws: Sequence[Mapping[Any, Fraction]]) -> Fraction:
    """Over all reports and ordered pairs of inputs; every report must be possible for every input."""
    reports = laws[0].keys()
    assert all(law.keys() == reports for law in laws)
    return max(max(law[r] for law in laws) / min(law[r] for law in laws) for r in reports)
