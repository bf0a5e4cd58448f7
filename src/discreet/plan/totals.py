"""Rows of ROLLUP, CUBE and GROUPING SETS, added up from the noisy groups.

A total is the sum of the noisy integers of the finest groups, so that totals equal the sum of their parts. Where the
groups are declared, totals are measured as well if that is better (`plan/grouping_sets/`), and the finest groups are
corrected by them; else totals are post-processing of the finest groups alone, and cost nothing. What does not add up
over groups, such as a number of people, is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from discreet.mechanisms.additive import Additive
from discreet.mechanisms.summed import SummedNoise

if TYPE_CHECKING:
    from discreet.catalog.schema import Scalar
    from discreet.query.grouping_sets import Sets


@dataclass(frozen=True, slots=True)
class TotalRow:
    """One row of the answer before its columns are computed.

    Attributes:
        keys: the keys, None where they are added up; after them, for each key, 1 if it is added up and else 0.
        cells: the noisy integers, added up.
        parts: how many noisy groups were added.
        kept: the places of the keys that are not added up.
    """

    keys: tuple[Scalar, ...]
    cells: tuple[int, ...]
    parts: int
    kept: tuple[int, ...]


def totals(
    keys: Sequence[tuple[Scalar, ...]], cells: Sequence[tuple[int, ...]], sets: Sets, *, width: int, columns: int
) -> list[TotalRow]:
    """Return the rows of all grouping sets, set by set, each in the order in which its first group comes.

    Args:
        keys: those of the finest groups.
        cells: their noisy integers.
        sets: which keys each set keeps.
        width: the number of keys.
        columns: the number of noisy integers in a row.
    """
    rows: list[TotalRow] = []
    for kept in sets:
        flags = tuple(int(i not in kept) for i in range(width))
        found: dict[tuple[Scalar, ...], tuple[list[int], int]] = {}
        if not kept:  # a total over no groups is a row as well
            found[(None,) * width] = [0] * columns, 0
        for key, row in zip(keys, cells, strict=True):
            shown = tuple(v if i in kept else None for i, v in enumerate(key))
            summed, parts = found.get(shown, ([0] * len(row), 0))
            found[shown] = [a + b for a, b in zip(summed, row, strict=True)], parts + 1
        rows += [TotalRow((*key, *flags), tuple(summed), parts, kept) for key, (summed, parts) in found.items()]
    return rows


def summed_noises(noises: Sequence[Additive], parts: int) -> tuple[Additive, ...]:
    """Return the noise of each column in a row that adds up so many groups."""
    return tuple(noises) if parts < 2 else tuple(SummedNoise(z, parts) for z in noises)
