"""Sensitivities of elements that are some steps apart, by enumeration; bands of least error."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.binary_tree import BlockTree
from discreet.mechanisms.square_root import Banded, Factorization, SquareRoot


def matrix(f: Factorization) -> NDArray[Any]:
    """R, from what a release measures: its answers follow from R·x alone."""
    if isinstance(f, BlockTree):
        rows = [(h, k) for h in range(f.levels) for k in range(f.steps >> h)]
        return np.array([[int(k << h <= i < (k + 1) << h) for i in range(f.steps)] for h, k in rows]) << f.bits
    column = f.column if isinstance(f, Banded) else f._right.tolist()  # type: ignore[attr-defined]
    column = [*column, *[0] * f.steps]
    return np.array([[column[i - j] if i >= j else 0 for j in range(f.steps)] for i in range(f.steps)])


def enumerated(f: Factorization, participations: int, separation: int) -> int:
    found, r = 0, matrix(f)
    for k in range(1, participations + 1):
        for places in itertools.combinations(range(f.steps), k):
            if all(b - a >= separation for a, b in itertools.pairwise(places)):
                found = max(found, int((r[:, places].sum(axis=1) ** 2).sum()))
    return found


def factorizations(steps: int) -> list[Factorization]:
    bands = [Banded.best(steps, b) for b in range(1, steps + 1)]
    return [SquareRoot(steps, 9), *bands, *(BlockTree(steps, h) for h in range(steps.bit_length()))]


@pytest.mark.parametrize(
    "steps", [3, 8, *(pytest.param(t, marks=pytest.mark.exhaustive) for t in (1, 2, 4, 5, 6, 7, 9, 10, 11, 12))]
)
def test_no_participation_moves_more_and_some_move_as_much(steps: int) -> None:
    for f in factorizations(steps):
        for separation in range(1, steps + 1):
            for k in range(1, -(-steps // separation) + 1):
                found = enumerated(f, k, separation)
                if isinstance(f, BlockTree) and (separation & (separation - 1) or steps % (1 << f.height)):
                    assert found <= f.sensitivity(k, separation)
                else:
                    assert found == f.sensitivity(k, separation)


def test_columns_that_overlap_move_more_than_each_alone() -> None:
    # what a wrong law says: k columns of one length, whatever their distance
    for f in (SquareRoot(12, 9), Banded.best(12, 6), BlockTree(12, 3)):
        assert enumerated(f, 3, 2) > 3 * f.sensitivity(1)
    wide = Banded.best(12, 4)
    assert enumerated(wide, 3, 4) == 3 * wide.sensitivity(1)
    assert enumerated(wide, 3, 3) > 3 * wide.sensitivity(1)


@pytest.mark.parametrize(("steps", "bands"), [(50, 2), (200, 7), (200, 200)])
def test_the_bands_have_least_error(steps: int, bands: int) -> None:
    def error(column: NDArray[np.float64]) -> float:
        whole = np.concatenate((column, np.zeros(steps - len(column))))
        inverse = np.linalg.inv(np.array([[whole[i - j] if i >= j else 0 for j in range(steps)] for i in range(steps)]))
        return float(column @ column) * float((np.cumsum(inverse, axis=0) ** 2).sum())

    best = Banded.best(steps, bands)
    column = np.array(best.column) / 2.0**best.bits
    least = error(column)
    assert least == pytest.approx(float(column @ column) * best.mean_squares() * steps * 4.0**best.bits, rel=1e-6)
    rng = np.random.default_rng(1)
    for _ in range(20):
        other = np.minimum.accumulate(np.abs(column * (1 + 0.05 * rng.standard_normal(len(column)))))
        assert error(other) > least * (1 - 1e-5)


def test_a_column_that_rises_is_refused() -> None:
    for column in ((1, 2), (), (3, 0), (3, -1), (3, 2, 1)):
        with pytest.raises(InvalidParameter, match="do not rise"):
            Banded(2, column, 0)


def still(size: int) -> NDArray[Any]:
    return np.zeros(size, dtype=np.int64)


@pytest.mark.parametrize("f", [Banded.best(13, 4), BlockTree(13, 2), BlockTree(13, 0)], ids=["bands", "tree", "flat"])
def test_vectors_are_summed_number_by_number(f: Factorization) -> None:
    values = np.arange(13 * 3).reshape(13, 3) % 11 - 5
    run, single = f.begin(still, 3), f.begin(still)
    found = [run.add(row) for row in values]
    assert np.allclose(found, np.cumsum(values, axis=0))
    assert np.allclose([single.add(int(v)) for v in values[:, 1]], np.cumsum(values[:, 1]))
    assert run.taken == 13


@pytest.mark.parametrize("f", [Banded.best(40, 5), BlockTree.best(40)], ids=["bands", "tree"])
def test_the_noise_of_a_vectors_answers_is_as_large_as_said(f: Factorization) -> None:
    rng = np.random.default_rng(2)
    run = f.begin(lambda n: np.rint(rng.standard_normal(n) * 1000).astype(np.int64), 4000)
    for t in range(1, 41):
        answer = run.add(np.zeros(4000, np.int64))
        # 4,000 numbers: the variance is known to 2.2 %
        assert float((answer**2).mean()) / 1e6 / f.squares(t) == pytest.approx(1, abs=0.15)
