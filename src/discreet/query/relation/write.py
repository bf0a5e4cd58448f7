"""A settled tree as nested SELECTs: the grammar of decision 0005, which `verify/owned.py` reads again."""

from __future__ import annotations

from discreet.catalog.types import Type
from discreet.query.expr import Column, Expr, Literal, constant, finite, quoted
from discreet.query.relation.node import (
    MOST_PARTS,
    Both,
    Constants,
    Distinct,
    Fold,
    Group,
    Join,
    JoinKind,
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


def write(node: Node) -> str:
    """Return the SELECT of a tree, its hidden column u first where the rows belong to units."""
    match node:
        case TableScan(table, columns):
            shown = [f"t.{quoted(there)} AS {c.name}" for c, there in columns]
            unit = [f"t.{quoted(table.unit.column or '')} AS u"] if has_unit(node) else []
            return f"SELECT {', '.join(unit + shown)} FROM main.{quoted(table.name)} t"
        case Constants(columns, rows):
            listed = ", ".join(
                f"({', '.join(constant(v, c.type) for v, c in zip(row, columns, strict=True))})" for row in rows
            )
            places = [f"a{i}" for i in range(len(columns))]
            shown = [f"v.{place} AS {c.name}" for place, c in zip(places, columns, strict=True)]
            return f"SELECT {', '.join(shown)} FROM (VALUES {listed}) v({', '.join(places)})"
        case Reach():
            return _reach(node)
        case Project(source, outputs, where):
            shown = [f"{_in_r(e)} AS {c.name}" for c, e in outputs]
            condition = "" if where is None else f" WHERE {_in_r(where)}"
            return f"SELECT {_with_u(node, 'r.u', shown)} FROM ({write(source)}) r{condition}"
        case Join():
            return _join(node)
        case Group():
            return _group(node)
        case Windows(source, kept, columns):
            every = fields(source)
            shown = [f"r.{there.name} AS {c.name}" for c, there in kept]
            shown += [f"{_over(o, every, owned=has_unit(node))} AS {c.name}" for c, o in columns]
            return f"SELECT {_with_u(node, 'r.u', shown)} FROM ({write(source)}) r"
        case TextParts(source, kept, part, text, separator):
            shown = [f"r.{there.name} AS {c.name}" for c, there in kept]
            listed = f"string_split(r.{text.name}, {constant(separator, Type.TEXT)})"
            shown.append(f"unnest(list_slice({listed}, 1, {MOST_PARTS})) AS {part.name}")
            return f"SELECT {_with_u(node, 'r.u', shown)} FROM ({write(source)}) r"
        case Distinct(source, pairs):
            shown = [f"r.{there.name} AS {c.name}" for c, there in pairs]
            return f"SELECT DISTINCT {_with_u(node, 'r.u', shown)} FROM ({write(source)}) r"
        case Both(left, right, triples):
            first = ", ".join([*_u(node), *(f"{x.name} AS {c.name}" for c, x, _ in triples)])
            second = ", ".join([*_u(node), *(y.name for _, _, y in triples)])
            return f"SELECT {first} FROM ({write(left)}) l UNION ALL SELECT {second} FROM ({write(right)}) r"


def _reach(node: Reach) -> str:
    shown = "".join(f", t.{quoted(there)} AS {c.name}" for c, there in node.columns)
    assert node.table.reached is not None
    owners = f"SELECT DISTINCT u, {node.key.name} FROM ({write(node.owners)}) k"
    on = f"t.{quoted(node.table.reached.column)} = o.{node.key.name}"
    return f"SELECT o.u AS u{shown} FROM main.{quoted(node.table.name)} t JOIN ({owners}) o ON {on}"


def _join(node: Join) -> str:
    left = {c.name for c in fields(node.left)}

    def place(name: str) -> str:
        return f"{'l' if name in left else 'r'}.{name}"

    both = has_unit(node.left) and has_unit(node.right)
    conditions = [*(["l.u = r.u"] if both else []), *([finite(node.on, place)] if node.on is not None else [])]
    unit = "coalesce(l.u, r.u)" if node.kind is JoinKind.FULL else "l.u"
    shown = _with_u(node, unit, [f"{place(there.name)} AS {c.name}" for c, there in node.columns])
    on = " AND ".join(conditions) or "TRUE"
    return f"SELECT {shown} FROM ({write(node.left)}) l {node.kind.value} ({write(node.right)}) r ON {on}"


def _group(node: Group) -> str:
    keys = [_in_r(e) for _, e in node.keys]
    shown = [f"{text} AS {c.name}" for text, (c, _) in zip(keys, node.keys, strict=True)]
    shown += [f"{_fold(f)} AS {c.name}" for c, f in node.folds]
    by = ", ".join([*(["r.u"] if has_unit(node) else []), *keys])
    grouped = f" GROUP BY {by}" if by else ""
    return f"SELECT {_with_u(node, 'r.u', shown)} FROM ({write(node.source)}) r{grouped}"


def _fold(fold: Fold) -> str:
    """Return a sum of reals adds in the order of its values, so that its last bit follows from them alone."""
    if fold.argument is None:
        return "count(*)"
    text = _in_r(fold.argument)
    name, _, distinct = fold.name.partition(" ")
    order = f" ORDER BY {text}" if name in ("sum", "avg") and fold.argument.type is Type.REAL else ""
    return f"{name}({'DISTINCT ' if distinct else ''}{text}{order})"


def _over(over: Over, every: tuple[Column, ...], *, owned: bool) -> str:
    partition = ", ".join([*(["r.u"] if owned else []), *(f"r.{c.name}" for c in over.partition)])
    terms = [
        f"r.{c.name} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"
        for c, descending, first in over.order
    ]
    if over.total:
        terms += [f"r.{c.name}" for c in every]
    parts = [f"PARTITION BY {partition}"] if partition else []
    parts += [f"ORDER BY {', '.join(terms)}"] if terms else []
    if over.frame is not None:
        first, last = over.frame
        parts.append(f"ROWS BETWEEN {_end(first, 'PRECEDING')} AND {_end(last, 'FOLLOWING')}")
    arguments = ", ".join(_argument(a, place) for place, a in enumerate(over.arguments))
    arguments = arguments or ("*" if over.name == "count" else "")
    return f"{over.name}({arguments}) OVER ({' '.join(parts)})"


def _end(rows: int | None, unbounded: str) -> str:
    if rows is None:
        return f"UNBOUNDED {unbounded}"
    return "CURRENT ROW" if rows == 0 else f"{abs(rows)} {'PRECEDING' if rows < 0 else 'FOLLOWING'}"


def _argument(e: Expr, place: int) -> str:
    """Return a column, or a constant: NTILE's number and offsets of LAG and LEAD are plain, a default has a type."""
    match e:
        case Column(name, _):
            return f"r.{name}"
        case Literal(int() as n, _) if place < _DEFAULT:
            return str(n)
        case Literal(value, kind):
            return constant(value, kind)
        case _:
            raise TypeError(f"{type(e).__name__} is no argument of a window")


_DEFAULT = 2  # its place among the arguments of LAG and LEAD


def _in_r(expr: Expr) -> str:
    return finite(expr, lambda name: f"r.{name}")


def _with_u(node: Node, unit: str, shown: list[str]) -> str:
    return ", ".join([*([f"{unit} AS u"] if has_unit(node) else []), *shown])


def _u(node: Node) -> list[str]:
    return ["u"] if has_unit(node) else []
