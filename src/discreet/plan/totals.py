"""ROLLUP, CUBE and GROUPING SETS: which keys each of their rows keeps, and how totals are added up.

A total is the sum of the noisy integers of the finest groups, so that totals equal the sum of their parts. Where the
groups are declared, totals are measured as well if that is better (`levels/`), and the finest groups are corrected by
them; else totals are post-processing of the finest groups alone, and cost nothing. What does not add up over groups,
such as a number of people, is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from discreet.errors import UnsupportedQuery
from discreet.mechanisms.additive import Additive
from discreet.mechanisms.summed import SummedNoise

if TYPE_CHECKING:
    from discreet.catalog.schema import Scalar

Nodes: TypeAlias = tuple[exp.Expr, ...]
Sets: TypeAlias = tuple[tuple[int, ...], ...]
"""For each grouping set, the places of its keys among those of the finest groups."""

MOST_SETS = 64
"""Grouping sets in one question: CUBE of six keys."""


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


def grouping_sets(elements: Sequence[exp.Expr]) -> tuple[Nodes, ...] | None:
    """The sets of key expressions that GROUP BY names, in order; None for a plain GROUP BY.

    Raises:
        UnsupportedQuery: more than `MOST_SETS`.
    """
    if not any(isinstance(e, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple) for e in elements):
        return None
    found: list[Nodes] = [()]
    for element in elements:
        found = [(*a, *b) for a in found for b in _expanded(element)]
        if len(found) > MOST_SETS:
            raise UnsupportedQuery(
                f"GROUP BY has more than {MOST_SETS} grouping sets.", hint="name the ones that you need"
            )
    return tuple(found)


def totals(
    keys: Sequence[tuple[Scalar, ...]],
    cells: Sequence[tuple[int, ...]],
    sets: Sets,
    *,
    width: int,
    columns: int,
) -> list[TotalRow]:
    """The rows of all grouping sets, set by set, each in the order in which its first group comes.

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
        rows += [
            TotalRow((*key, *flags), tuple(summed), parts, kept) for key, (summed, parts) in found.items()
        ]
    return rows


def summed_noises(noises: Sequence[Additive], parts: int) -> tuple[Additive, ...]:
    """The noise of each column in a row that adds up so many groups."""
    return tuple(noises) if parts < 2 else tuple(SummedNoise(z, parts) for z in noises)


def _expanded(element: exp.Expr) -> list[Nodes]:
    """The sets of one element of GROUP BY."""
    match element:
        case exp.Rollup():
            parts = [_listed(e) for e in element.expressions]
            return [_joined(parts[:n]) for n in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [_listed(e) for e in element.expressions]
            if 2 ** len(parts) > MOST_SETS:
                raise UnsupportedQuery(
                    f"CUBE of {len(parts)} keys has more than {MOST_SETS} grouping sets.",
                    hint="name the ones that you need with GROUPING SETS",
                )
            sizes = range(len(parts), -1, -1)
            return [_joined(chosen) for n in sizes for chosen in itertools.combinations(parts, n)]
        case exp.GroupingSets():
            return [s for e in element.expressions for s in _expanded(e)]
        case _:
            return [_listed(element)]


def _listed(e: exp.Expr) -> Nodes:
    """A key, or several in brackets."""
    if isinstance(e, exp.Tuple):
        return tuple(e.expressions)
    return (e.this,) if isinstance(e, exp.Paren) else (e,)


def _joined(parts: Sequence[Nodes]) -> Nodes:
    return tuple(e for part in parts for e in part)
