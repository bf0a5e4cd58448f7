"""The final form of a tree: columns that nobody reads are left out, and each column gets a name of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import TypeAlias, TypeVar

from discreet.query.expr import Call, Column, Expr, cells_of
from discreet.query.relation.node import (
    Both,
    Constants,
    Distinct,
    Fold,
    Group,
    Join,
    Node,
    Over,
    Project,
    Reach,
    TableScan,
    TextParts,
    Windows,
    fields,
    has_unit,
)

_T = TypeVar("_T")

Renaming: TypeAlias = dict[Column, Column]
"""Column as it was bound → column as it is called now."""


def settle(node: Node, needed: Collection[Column]) -> tuple[Node, Renaming]:
    """Return the tree that gives the needed columns, and their names in it: `c0`, `c1`, … over the whole text."""
    numbers = count()
    return _settle(node, set(needed), lambda c: Column(f"c{next(numbers)}", c.type))


def renamed(expr: Expr, names: Mapping[Column, Column]) -> Expr:
    """Return the expression with its columns renamed."""
    match expr:
        case Column():
            return names.get(expr, expr)
        case Call(name, args, kind):
            return Call(name, tuple(renamed(a, names) for a in args), kind)
        case _:
            return expr


def columns_in(exprs: Iterable[Expr | None]) -> set[Column]:
    """Return the columns that the expressions read."""
    return {c for e in exprs if e is not None for c in cells_of(e)}


def _settle(node: Node, needed: set[Column], fresh: Callable[[Column], Column]) -> tuple[Node, Renaming]:
    match node:
        case TableScan(table, columns):
            kept = _some([c for c in columns if c[0] in needed], columns, owned=has_unit(node))
            names = {c: fresh(c) for c, _ in kept}
            return TableScan(table, tuple((names[c], there) for c, there in kept)), names
        case Constants(columns, rows):
            places = _some([i for i, c in enumerate(columns) if c in needed], tuple(range(len(columns))), owned=False)
            names = {columns[i]: fresh(columns[i]) for i in places}
            return Constants(tuple(names.values()), tuple(tuple(row[i] for i in places) for row in rows)), names
        case Reach(table, columns, owners, key):
            below, inner = _settle(owners, {key}, fresh)
            names = {c: fresh(c) for c, _ in columns if c in needed}
            chosen = tuple((names[c], there) for c, there in columns if c in needed)
            return Reach(table, chosen, below, inner[key]), names
        case Project(source, outputs, where):
            shown = _some([o for o in outputs if o[0] in needed], outputs, owned=has_unit(node))
            below, inner = _settle(source, columns_in([*(e for _, e in shown), where]), fresh)
            names = {c: fresh(c) for c, _ in shown}
            condition = None if where is None else renamed(where, inner)
            return Project(below, tuple((names[c], renamed(e, inner)) for c, e in shown), condition), names
        case Join():
            return _join(node, needed, fresh)
        case Group(source, keys, folds, _):
            wanted = [f for f in folds if f[0] in needed]
            wanted = wanted if keys or has_unit(node) else _some(wanted, folds, owned=False)
            reads = columns_in([*(e for _, e in keys), *(f.argument for _, f in wanted)])
            below, inner = _settle(source, reads, fresh)
            names = {c: fresh(c) for c, _ in (*keys, *wanted)}
            found = tuple((names[c], _fold(f, inner)) for c, f in wanted)
            return replace(
                node, source=below, keys=tuple((names[c], renamed(e, inner)) for c, e in keys), folds=found
            ), names
        case Windows():
            return _windows(node, needed, fresh)
        case TextParts():
            return _split(node, needed, fresh)
        case Distinct(source, all_columns):
            below, inner = _settle(source, {there for _, there in all_columns}, fresh)
            names = {c: fresh(c) for c, _ in all_columns}
            return Distinct(below, tuple((names[c], inner[there]) for c, there in all_columns)), names
        case Both(left, right, pairs):
            taken = _some([p for p in pairs if p[0] in needed], pairs, owned=has_unit(node))
            first, a = _settle(left, {x for _, x, _ in taken}, fresh)
            second, b = _settle(right, {y for _, _, y in taken}, fresh)
            names = {c: fresh(c) for c, _, _ in taken}
            return Both(first, second, tuple((names[c], a[x], b[y]) for c, x, y in taken)), names


def _join(node: Join, needed: set[Column], fresh: Callable[[Column], Column]) -> tuple[Node, Renaming]:
    shown = _some([c for c in node.columns if c[0] in needed], node.columns, owned=has_unit(node))
    reads = {there for _, there in shown} | columns_in([node.on])
    left, a = _settle(node.left, reads, fresh)
    right, b = _settle(node.right, reads, fresh)
    inner = a | b
    names = {c: fresh(c) for c, _ in shown}
    on = None if node.on is None else renamed(node.on, inner)
    columns = tuple((names[c], inner[there]) for c, there in shown)
    return replace(node, left=left, right=right, on=on, columns=columns), names


def _windows(node: Windows, needed: set[Column], fresh: Callable[[Column], Column]) -> tuple[Node, Renaming]:
    wanted = [w for w in node.columns if w[0] in needed]
    kept = [k for k in node.kept if k[0] in needed]
    kept = kept if wanted else _some(kept, node.kept, owned=has_unit(node))
    reads = {*fields(node.source)} if node.whole else {there for _, there in kept}
    for _, over in wanted:
        reads |= columns_in(over.arguments) | {*over.partition, *(c for c, _, _ in over.order)}
    below, inner = _settle(node.source, reads, fresh)
    names = {c: fresh(c) for c, _ in (*kept, *wanted)}
    shown = tuple((names[c], inner[there]) for c, there in kept)
    return Windows(below, shown, tuple((names[c], _over(o, inner)) for c, o in wanted)), names


def _split(node: TextParts, needed: set[Column], fresh: Callable[[Column], Column]) -> tuple[Node, Renaming]:
    kept = [k for k in node.kept if k[0] in needed]
    below, inner = _settle(node.source, {node.text, *(there for _, there in kept)}, fresh)
    names = {c: fresh(c) for c in (*(c for c, _ in kept), node.part)}
    shown = tuple((names[c], inner[there]) for c, there in kept)
    return replace(node, source=below, kept=shown, part=names[node.part], text=inner[node.text]), names


def _fold(fold: Fold, names: Renaming) -> Fold:
    return fold if fold.argument is None else replace(fold, argument=renamed(fold.argument, names))


def _over(over: Over, names: Renaming) -> Over:
    return Over(
        over.name,
        tuple(renamed(a, names) for a in over.arguments),
        tuple(names[c] for c in over.partition),
        tuple((names[c], descending, nulls_first) for c, descending, nulls_first in over.order),
        over.total,
        over.frame,
    )


def _some(kept: list[_T], columns: tuple[_T, ...], *, owned: bool) -> list[_T]:
    """Return a SELECT needs a column: an owned one has u."""
    return kept if kept or owned else list(columns[:1])
