"""The tree of a relation: what each row is made of. A node is owned, with a hidden column u, or public."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from discreet.catalog.schema import Scalar, TableSchema
from discreet.catalog.types import Type
from discreet.query.expr import Column, Expr


class JoinKind(Enum):
    """How two relations are joined; a RIGHT join is a LEFT one with its sides swapped."""

    INNER = "JOIN"
    LEFT = "LEFT JOIN"
    FULL = "FULL JOIN"
    SEMI = "SEMI JOIN"
    ANTI = "ANTI JOIN"

    @property
    def one_sided(self) -> bool:
        """Whether only the left side's columns come out."""
        return self in (JoinKind.SEMI, JoinKind.ANTI)


@dataclass(frozen=True, slots=True)
class TableScan:
    """A table that says itself whose its rows are, or a public one: (column here, column there)."""

    table: TableSchema
    columns: tuple[tuple[Column, str], ...]


@dataclass(frozen=True, slots=True)
class Reach:
    """A table whose rows belong to the units of the rows that their foreign key leads to."""

    table: TableSchema
    columns: tuple[tuple[Column, str], ...]
    owners: Node
    key: Column


@dataclass(frozen=True, slots=True)
class Project:
    """Expressions of each row that meets a condition."""

    source: Node
    outputs: tuple[tuple[Column, Expr], ...]
    where: Expr | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows; where both are owned, of one unit's. `columns`: (column here, column of either side).

    `single` where a row on the left meets one on the right at most.
    """

    kind: JoinKind
    left: Node
    right: Node
    on: Expr | None
    columns: tuple[tuple[Column, Column], ...]
    single: bool = False


@dataclass(frozen=True, slots=True)
class Fold:
    """An aggregate over the rows of one inner group; no argument for COUNT(*)."""

    name: str
    argument: Expr | None


@dataclass(frozen=True, slots=True)
class Group:
    """One row for each unit and key, one altogether where public rows have no key; `once` where the unit is all."""

    source: Node
    keys: tuple[tuple[Column, Expr], ...]
    folds: tuple[tuple[Column, Fold], ...]
    once: bool = False


Frame: TypeAlias = tuple[int | None, int | None]
"""ROWS from and to, counted from the current one, those before it below 0; None for no end."""


@dataclass(frozen=True, slots=True)
class Over:
    """A window function over the rows of one unit.

    Attributes:
        name: the function.
        arguments: columns of the source, then constants.
        partition: columns beside the unit.
        order: (column, descending, NULLs first).
        total: whether the order of ties shows, so that every column of the rows ends it.
        frame: the rows that are looked at, where it is not SQL's default.
    """

    name: str
    arguments: tuple[Expr, ...]
    partition: tuple[Column, ...]
    order: tuple[tuple[Column, bool, bool], ...]
    total: bool
    frame: Frame | None = None


@dataclass(frozen=True, slots=True)
class Windows:
    """The rows with window functions beside them: kept columns as (here, there).

    `whole` where every column of the source puts ties in order, also those that nobody reads above.
    """

    source: Node
    kept: tuple[tuple[Column, Column], ...]
    columns: tuple[tuple[Column, Over], ...]
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Distinct:
    """Each different row of a unit once: (column here, column there)."""

    source: Node
    columns: tuple[tuple[Column, Column], ...]


@dataclass(frozen=True, slots=True)
class Both:
    """The rows of two relations, one after the other: (column here, on the left, on the right)."""

    left: Node
    right: Node
    columns: tuple[tuple[Column, Column, Column], ...]


MOST_PARTS = 1000
"""Parts of one text that are rows."""


@dataclass(frozen=True, slots=True)
class TextParts:
    """A row for each part of a text, of which there are `MOST_PARTS` at most: kept columns as (here, there)."""

    source: Node
    kept: tuple[tuple[Column, Column], ...]
    part: Column
    text: Column
    separator: str


@dataclass(frozen=True, slots=True)
class Constants:
    """Public rows that the query writes out."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Scalar, ...], ...]


Node: TypeAlias = Constants | TableScan | Reach | Project | Join | Group | Windows | Distinct | Both | TextParts


def inputs(node: Node) -> tuple[Node, ...]:
    """Return the relations that it is made of; of an owned one the first says whose the rows are."""
    match node:
        case TableScan() | Constants():
            return ()
        case Reach():
            return (node.owners,)
        case Join() | Both():
            return node.left, node.right
        case _:
            return (node.source,)


def is_owned(node: Node) -> bool:
    """Whether the rows belong to units."""
    if isinstance(node, TableScan):
        return not node.table.public
    if isinstance(node, Constants):
        return False
    return isinstance(node, Reach) or is_owned(inputs(node)[0])


def has_unit(node: Node) -> bool:
    """Whether the rows have a column u: where each row is a unit there is none."""
    return is_owned(node) and not of_row_units(node)


def of_row_units(node: Node) -> bool:
    """Whether the rows are of units each of which is a row of a table."""
    first = next(scanned(node), None)
    return first is not None and not first.public and first.reached is None and first.unit.is_row


def is_once(node: Node) -> bool:
    """Whether a unit has one row at most."""
    match node:
        case Group():
            return node.once
        case Project(source, _, _) | Windows(source, _, _) | Distinct(source, _):
            return is_once(source)
        case Join(kind, left, right):
            alone = kind.one_sided or node.single or (is_owned(right) and is_once(right))
            return alone and is_once(left)
        case _:
            return False


def whole(node: Node) -> Node:
    """Return the same rows wherever they are read, whatever is read of them: ties of their windows come out alike."""
    match node:
        case TableScan() | Constants():
            return node
        case Reach():
            return replace(node, owners=whole(node.owners))
        case Join() | Both():
            return replace(node, left=whole(node.left), right=whole(node.right))
        case Windows():
            return replace(node, source=whole(node.source), whole=True)
        case _:
            return replace(node, source=whole(node.source))


def fields(node: Node) -> tuple[Column, ...]:
    """Return the columns of the rows, without u."""
    match node:
        case TableScan() | Reach() | Join() | Distinct() | Both():
            return tuple(c[0] for c in node.columns)
        case Project():
            return tuple(c for c, _ in node.outputs)
        case Group():
            return (*(c for c, _ in node.keys), *(c for c, _ in node.folds))
        case Constants():
            return node.columns
        case Windows():
            return (*(c for c, _ in node.kept), *(c for c, _ in node.columns))
        case TextParts():
            return (*(c for c, _ in node.kept), node.part)


def filtered(node: Node, where: Expr) -> Project:
    """Return the rows that meet a condition, with their columns as they are."""
    return Project(node, tuple((c, c) for c in fields(node)), where)


def unit_type(node: Node) -> Type | None:
    """Return the type of u; None for public rows, and where each row is a unit."""
    if isinstance(node, TableScan):
        return None if node.table.public else node.table.columns.get(node.table.unit.column or "")
    if isinstance(node, Constants):
        return None
    return unit_type(inputs(node)[0])


def nodes_in(node: Node) -> Iterator[Node]:
    """Yield the nodes of a tree, each before those that it is made of."""
    yield node
    for source in inputs(node):
        yield from nodes_in(source)


def scanned(node: Node) -> Iterator[TableSchema]:
    """Yield the tables that are read, in the order of the text, a table again for each place that reads it."""
    if isinstance(node, TableScan | Reach):
        yield node.table
    for source in inputs(node):
        yield from scanned(source)


def tables_of(node: Node) -> tuple[TableSchema, ...]:
    """Return the tables that are read, each once, in order."""
    return tuple({t.name: t for t in scanned(node)}.values())
