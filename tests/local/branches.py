"""The exact law of a sampler, by running it once for every way in which its coins can fall."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.local.coins import Coin


class Branches:
    """Coins and dice that take every side in turn, and know how likely each course was."""

    def __init__(self) -> None:
        self._course: list[int] = []
        self._sides: list[int] = []
        self._at = 0
        self._chance = Fraction(1)

    def take(self, chances: list[Fraction]) -> int:
        """The side that is next on this course."""
        if self._at == len(self._course):
            self._course.append(0)
            self._sides.append(len(chances))
        side = self._course[self._at]
        self._at += 1
        self._chance *= chances[side]
        return side

    def law(self, run: Callable[[], Hashable]) -> dict[Hashable, Fraction]:
        """The chance of each outcome of `run`, exactly."""
        found: dict[Hashable, Fraction] = defaultdict(Fraction)
        self._course, self._sides = [], []
        while True:
            self._at, self._chance = 0, Fraction(1)
            found[run()] += self._chance
            assert self._at == len(self._course)
            while self._course and self._course[-1] + 1 == self._sides[-1]:
                self._course.pop()
                self._sides.pop()
            if not self._course:
                break
            self._course[-1] += 1
        assert sum(found.values()) == 1
        return {outcome: chance for outcome, chance in found.items() if chance}


class NoEntropy:
    """Nothing may be drawn but what is followed."""

    def bytes(self, n: int, /) -> bytes:
        raise AssertionError("randomness that the enumeration does not see")


@pytest.fixture
def branches(monkeypatch: pytest.MonkeyPatch) -> Branches:
    """The coins and uniform numbers of all randomizers follow the branches."""
    tree = Branches()

    def flips(coin: Coin, n: int, rng: object) -> NDArray[np.bool_]:
        sides = [1 - coin.chance, coin.chance]
        return np.array([tree.take(sides) for _ in range(n)], dtype=np.bool_)

    def below_vector(k: int, size: int, rng: object) -> NDArray[np.int64]:
        return np.array([tree.take([Fraction(1, k)] * k) for _ in range(size)], dtype=np.int64)

    monkeypatch.setattr(Coin, "flips", flips)
    for name in ("domain", "hadamard", "randomized_response", "rappor", "subset_selection"):
        monkeypatch.setattr(sys.modules[f"discreet.local.{name}"], "below_vector", below_vector)
    return tree


def plain(report: Any) -> Hashable:
    """A report as a value that can be counted."""
    return tuple(report.tolist()) if isinstance(report, np.ndarray) else report
