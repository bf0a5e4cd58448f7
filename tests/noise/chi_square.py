"""Pearson's test at rates that never flake, for whole numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

ALARM = 1e-9
"""The nominal chance that one test refuses a right sampler; a cell expects at least 200 draws."""

_LEAST = 200.0  # expected draws in a cell
_MOST = 32  # cells: few, so that a law moved as a whole shows


def accepts(draws: Iterable[int], chances: Sequence[float]) -> bool:
    """Whether draws agree with P(i) = chances[i]; what lies right of the list is one more cell."""
    seen, wanted = _cells(_counts(draws, len(chances)), chances)
    return bool(_distance(seen, wanted) <= _threshold(wanted))


def refuses(draws: Iterable[int], wrong: Sequence[float], truth: Sequence[float]) -> bool:
    """Whether draws from `truth` disagree with `wrong`, which must fail with chance ≤ `ALARM` only."""
    counts = _counts(draws, len(wrong))
    expected, wanted = _cells(counts.sum() * np.array([*truth, max(0.0, 1 - sum(truth))]), wrong)
    power = stats.ncx2.sf(_threshold(wanted), wanted.size - 1, _distance(expected, wanted))
    assert 1 - power <= ALARM, "too few draws, or too small a difference, to show"
    seen, wanted = _cells(counts, wrong)
    return bool(_distance(seen, wanted) > _threshold(wanted))


def _counts(draws: Iterable[int], length: int) -> NDArray[np.float64]:
    drawn = np.fromiter(draws, dtype=np.int64)
    assert drawn.min() >= 0
    return np.bincount(np.minimum(drawn, length), minlength=length + 1).astype(np.float64)


def _cells(counts: NDArray[np.float64], chances: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Counts and expected counts of neighbours taken together until a cell is full enough."""
    total = float(counts.sum())
    full = max(_LEAST, total / _MOST)
    cells = [[0.0, 0.0]]
    for count, chance in zip(counts, [*chances, max(0.0, 1 - sum(chances))], strict=True):
        if cells[-1][1] >= full:
            cells.append([0.0, 0.0])
        cells[-1][0] += float(count)
        cells[-1][1] += total * chance
    if cells[-1][1] < full:
        left = cells.pop()
        cells[-1] = [cells[-1][0] + left[0], cells[-1][1] + left[1]]
    assert len(cells) >= 2, "too few draws to say anything"
    seen, wanted = np.array(cells).T
    return seen, wanted


def _distance(seen: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
    return float(((seen - wanted) ** 2 / wanted).sum())


def _threshold(wanted: NDArray[np.float64]) -> float:
    return float(stats.chi2.isf(ALARM, wanted.size - 1))
