"""A settled tree as JSON: the part of a question's identity that says which rows it reads, and whose they are."""

from __future__ import annotations

from typing import Any

from discreet.plan.expr import Column, Expr, identity
from discreet.plan.relation.node import (
    Both,
    Distinct,
    Fold,
    Group,
    Join,
    Node,
    Over,
    Project,
    Reach,
    TableScan,
    Windows,
)
from discreet.plan.schema import TableSchema


def describe(node: Node) -> list[Any]:
    """Equal trees over tables that are resolved alike, equal lists."""
    match node:
        case TableScan(table, columns):
            return [
                "scan",
                table.name,
                _whose(table),
                _pairs(columns),
            ]
        case Reach(table, columns, owners, key):
            assert table.reached is not None
            way = [table.reached.column, table.reached.table, table.reached.key, key.name]
            return ["reach", table.name, way, _pairs(columns), describe(owners)]
        case Project(source, outputs, where):
            return ["project", [[c.name, identity(e)] for c, e in outputs], _maybe(where), describe(source)]
        case Join(kind, left, right, on, columns, _):
            return ["join", kind.name, _pairs(columns), _maybe(on), describe(left), describe(right)]
        case Group(source, keys, folds, _):
            told = [[c.name, _fold(f)] for c, f in folds]
            return ["group", [[c.name, identity(e)] for c, e in keys], told, describe(source)]
        case Windows(source, kept, columns):
            return ["windows", _pairs(kept), [[c.name, _over(o)] for c, o in columns], describe(source)]
        case Distinct(source, columns):
            return ["distinct", _pairs(columns), describe(source)]
        case Both(left, right, columns):
            return ["both", [[c.name for c in triple] for triple in columns], describe(left), describe(right)]


def _whose(table: TableSchema) -> Any:
    """The unit's column, or what a public table holds: with other rows there, it is another question."""
    if not table.public:
        return ["unit", table.unit.column]
    return "public" if table.digest is None else ["public", table.digest]


def _pairs(columns: tuple[tuple[Column, Column | str], ...]) -> list[list[str]]:
    return [[c.name, c.type.value, there if isinstance(there, str) else there.name] for c, there in columns]


def _maybe(expr: Expr | None) -> Any:
    return None if expr is None else identity(expr)


def _fold(fold: Fold) -> list[Any]:
    return [fold.name, _maybe(fold.argument)]


def _over(over: Over) -> list[Any]:
    order = [[c.name, descending, nulls_first] for c, descending, nulls_first in over.order]
    return [
        over.name,
        [identity(a) for a in over.arguments],
        [c.name for c in over.partition],
        order,
        over.total,
        *([list(over.frame)] if over.frame is not None else []),
    ]
