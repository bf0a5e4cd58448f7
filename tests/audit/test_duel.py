"""Tests that a duel forgets what was drawn while the manner of drawing changed, and keeps what it knew."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.audit.claim import Claim
from discreet.audit.duel import Duel

ERROR = 0.05


class Scripted:
    """Fair bits; in some draws all are `turned` instead, and what `manner` says changes in some."""

    def __init__(self, seed: int, *, turned: tuple[int, ...], changes: tuple[int, ...], bit: int) -> None:
        self._random = np.random.default_rng(seed)
        self._turned, self._changes, self._bit = turned, changes, bit
        self.draws = 0
        self.manner = 0

    def draw(self, n: int) -> NDArray[np.int64]:
        """n bits."""
        self.draws += 1
        self.manner += self.draws in self._changes
        if self.draws in self._turned:
            return np.full(n, self._bit, dtype=np.int64)
        return self._random.integers(0, 2, n)


def duel(*, turned: tuple[int, ...], changes: tuple[int, ...], samples: int = 200_000) -> Duel:
    one = Scripted(1, turned=turned, changes=changes, bit=0)
    two = Scripted(2, turned=turned, changes=(), bit=1)
    claim = Claim.of(0.1)
    return Duel(one, two, claim, error=ERROR, samples=samples, until="end").run()


def draws(samples: int = 200_000) -> int:
    """The number of draws of a whole test."""
    one, two = (Scripted(s, turned=(), changes=(), bit=0) for s in (1, 2))
    Duel(one, two, Claim.of(0.1), error=ERROR, samples=samples, until="end").run()
    return one.draws


@pytest.mark.parametrize("changed", [True, False])
def test_a_batch_during_which_the_manner_changed_is_no_evidence(changed: bool) -> None:
    first = (1, 2)  # what is drawn at first is learned from, and convicts of nothing
    assert not duel(turned=(1,), changes=()).refuted
    found = duel(turned=first, changes=(2,) if changed else ())
    assert found.refuted is not changed  # the same outputs convict where nothing else was amiss


def test_what_was_refuted_before_stays_refuted() -> None:
    last = draws()
    found = duel(turned=tuple(range(1, last)), changes=(last,))
    assert found.refuted
    assert found.epsilon_lower > 1


def test_each_manner_has_a_part_of_the_error() -> None:
    found = duel(turned=(), changes=())
    parts = []
    for era in range(60):
        found._era = era
        parts.append(found._part())
    assert math.fsum(parts) <= 1
    assert min(parts) > 0
