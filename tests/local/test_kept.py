"""With the system's randomness: what is kept is kept with its chance and no other, evenly among what is left."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet.local import CountMeanSketch, Duchi, HadamardSketch, HeavyHitters, LocalHashing, PrivUnit
from discreet.local.hashing import digests
from discreet.local.sketches import _parity
from tests.noise.chi_square import accepts, refuses

N = 60_000
ALARM = 1e-9


def lies(law: Any, reports: NDArray[np.int64], place: int) -> NDArray[np.int64]:
    """By how much each reported residue is off."""
    drawn, z = np.divmod(reports, law.prime)
    return np.asarray((z - law._product(drawn, np.full(reports.shape, place))) % law.prime)


def hashed() -> tuple[NDArray[Any], list[Fraction]]:
    oracle = LocalHashing(1000, epsilon=2)
    p, q = oracle.law.coin.chance, oracle.law.prime
    return lies(oracle.law, oracle.randomize(np.full(N, 77)), 77), [p] + [(1 - p) / (q - 1)] * (q - 1)


def found() -> tuple[NDArray[Any], list[Fraction]]:
    hitters = HeavyHitters(epsilon=2, length=6, alphabet="abcdefghijklmnopqrstuvwxyz")
    level, report = np.divmod(hitters.randomize(["rabbit"] * N), hitters.law.size * hitters.law.prime)
    at = [int(place[0]) for place in hitters._places(hitters.spelling.rows(["rabbit"]))]
    seen = [lies(hitters.law, report[level == i], place) + i * hitters.law.prime for i, place in enumerate(at)]
    p, q = hitters.law.coin.chance, hitters.law.prime
    return np.concatenate(seen), [c / len(at) for _ in at for c in [p] + [(1 - p) / (q - 1)] * (q - 1)]


def signed() -> tuple[NDArray[Any], list[Fraction]]:
    sketch = HadamardSketch(epsilon=1, rows=2, width=4)
    reports = sketch.randomize(["tree"] * N)
    rest, sign = np.divmod(reports, 2)
    row, column = np.divmod(rest, 4)
    turned = _parity(column & sketch.place(digests(["tree"], sketch._key), row)) ^ (sign == 1)
    p = sketch.coin.chance
    return rest + 8 * turned, [c / 8 for c in (p, 1 - p) for _ in range(8)]


def flagged() -> tuple[NDArray[Any], list[Fraction]]:
    sketch = CountMeanSketch(epsilon=1, rows=2, width=3)
    reports = sketch.randomize(["tree"] * N)
    row = reports[:, 0].astype(np.int64)
    bits = np.unpackbits(reports[:, 4:], axis=1, count=3)
    own = sketch.place(digests(["tree"], sketch._key), row)
    turned = np.array([np.roll(b, -k) for b, k in zip(bits, own, strict=True)])
    p, q = sketch.true.chance, sketch.false.chance
    chances = [
        Fraction(1, 2) * (p if a else 1 - p) * (q if b else 1 - q) * (q if c else 1 - q)
        for _ in range(2)
        for c in (0, 1)
        for b in (0, 1)
        for a in (0, 1)
    ]
    return row * 8 + turned @ np.array([1, 2, 4]), chances


def cornered() -> tuple[NDArray[Any], list[Fraction]]:
    duchi = Duchi(epsilon=1, dimension=3)
    corners = duchi.randomize(np.tile([1.0, -1.0, 1.0], (N, 1)))
    p = duchi.coin.chance
    signs = 2 * ((np.arange(8)[:, None] >> np.arange(3)) & 1) - 1
    return corners @ np.array([1, 2, 4]), [(p if s @ [1, -1, 1] > 0 else 1 - p) / 4 for s in signs]


def ranked() -> tuple[NDArray[Any], list[Fraction]]:
    privunit = PrivUnit(epsilon=1, dimension=3, candidates=8)
    reports = privunit.randomize(np.tile([0.0, 0.0, 1.0], (N, 1)))
    all_places = np.arange(8)
    each = np.column_stack([np.repeat(reports[:, 0], 8), np.tile(all_places, N)])
    inner = privunit._vectors(each)[:, 2].reshape(N, 8)
    rank = (inner > np.take_along_axis(inner, reports[:, 1:], axis=1)).sum(axis=1)
    p, k = privunit.coin.chance, privunit.nearest
    return rank, [p / k if r < k else (1 - p) / (8 - k) for r in all_places]


@pytest.mark.parametrize("look", [hashed, found, signed, flagged, cornered, ranked])
def test_reports_have_the_stated_law_and_no_other(look: Callable[[], tuple[NDArray[Any], list[Fraction]]]) -> None:
    seen, chances = look()
    assert sum(chances) == 1
    law = [float(c) for c in chances]
    assert accepts(seen.tolist(), law)
    sharper = np.array(law) ** 1.15
    assert refuses(seen.tolist(), (sharper / sharper.sum()).tolist(), law)


def test_the_public_number_of_privunit_is_uniform() -> None:
    privunit = PrivUnit(epsilon=1, dimension=3)
    numbers = privunit.randomize(np.ones((N, 3)))[:, 0]
    assert stats.kstest(numbers / 2.0**63, "uniform").pvalue > ALARM
    assert len(np.unique(numbers)) == N
