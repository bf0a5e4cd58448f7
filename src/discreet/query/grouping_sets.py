"""ROLLUP, CUBE and GROUPING SETS: the keys of GROUP BY that each of their rows keeps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeAlias

from sqlglot import exp

from discreet.errors import UnsupportedQuery

Nodes: TypeAlias = tuple[exp.Expr, ...]
Sets: TypeAlias = tuple[tuple[int, ...], ...]
"""For each grouping set, the places of its keys among those of the finest groups."""

MOST_SETS = 64
"""Grouping sets in one query: CUBE of six keys."""


def grouping_sets(elements: Sequence[exp.Expr]) -> tuple[Nodes, ...] | None:
    """Return the sets of key expressions that GROUP BY names, in order; None for a plain GROUP BY.

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


def _expanded(element: exp.Expr) -> list[Nodes]:
    """Return the sets of one element of GROUP BY."""
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
    """Return a key, or several in brackets."""
    if isinstance(e, exp.Tuple):
        return tuple(e.expressions)
    return (e.this,) if isinstance(e, exp.Paren) else (e,)


def _joined(parts: Sequence[Nodes]) -> Nodes:
    return tuple(e for part in parts for e in part)
