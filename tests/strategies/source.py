"""What random questions over several tables are drawn from: relations on their way, and conditions on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from hypothesis import strategies as st

from tests.reference.expression import And, Arithmetic, Column, Compare, Expression, In, IsNull, Literal, Not, Or
from tests.reference.relation import Filter, Join, JoinKind, Relation
from tests.reference.relation_parts import Output
from tests.reference.values import Kind, Value
from tests.strategies.database import INT, REAL, TEXT, VALUES

Pair: TypeAlias = tuple[str, str]
"""Two columns, one of each side of a join."""


@dataclass(frozen=True, slots=True)
class Source:
    """A relation on the way to a question.

    Attributes:
        relation: what it is.
        roles: the columns that tell the unit: "unit", or "key …" and "link …" of a declared foreign key.
        base: column → the table's column that it shows unchanged.
        absent: the columns that are NULL where a join found no row; their lists of values hold NULL too.
        free: the columns of which it is not known how large they can be: a question clamps them.
    """

    relation: Relation
    roles: Mapping[str, str]
    base: Mapping[str, str]
    absent: frozenset[str] = frozenset()
    free: frozenset[str] = frozenset()

    def values(self, column: Column) -> tuple[Value, ...]:
        """The public values of a column; none where they are not declared."""
        listed = VALUES.get(self.base.get(column.name, ""), ())
        return (*listed, None) if listed and column.name in self.absent and None not in listed else listed

    @property
    def numbers(self) -> list[Column]:
        """Its columns of numbers."""
        return [c for c in self.columns if c.kind in (INT, REAL)]

    @property
    def columns(self) -> list[Column]:
        """Its columns."""
        return [Column(name, kind) for name, kind in self.relation.columns.items()]


@st.composite
def conditions(draw: st.DrawFn, columns: Sequence[Column], *, depth: int = 1) -> Expression:
    """A condition on these columns."""
    if depth and draw(st.integers(0, 2)) == 0:
        sides = draw(conditions(columns, depth=depth - 1)), draw(conditions(columns, depth=depth - 1))
        return draw(st.sampled_from([And(*sides), Or(*sides), Not(sides[0])]))
    column = draw(st.sampled_from(list(columns)))
    how = draw(st.sampled_from(["null", "compare", "compare", "compare", "in"]))
    if how == "null":
        return Not(IsNull(column)) if draw(st.booleans()) else IsNull(column)
    if how == "in":
        return In(column, tuple(Literal(v) for v in draw(st.lists(_constants(column.kind), min_size=1, max_size=2))))
    alike = [c for c in columns if c.kind is column.kind and c != column]
    other = draw(st.one_of(_constants(column.kind).map(Literal), *([st.sampled_from(alike)] if alike else [])))
    return Compare(draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="])), column, other)


def pairs_of(left: Source, right: Source) -> list[Pair]:
    """The pairs of columns that are equal only within a unit."""
    return [
        (a, b)
        for a, x in left.roles.items()
        for b, y in right.roles.items()
        if x == y == "unit" or {x, y} in [{f"key {key}", f"link {key}"} for key in ("customers.id", "orders.id")]
    ]


def holder_of(draw: st.DrawFn, of: Source) -> Column | None:
    """A column that tells the unit, if there is one."""
    names = [n for n in of.roles if n in of.relation.columns]
    return Column(draw(st.sampled_from(names)), INT) if names else None


def where_of(draw: st.DrawFn, of: Source) -> Relation:
    """Its relation, filtered or not."""
    return Filter(of.relation, draw(conditions(of.columns))) if draw(st.booleans()) else of.relation


def is_filtered(relation: Relation) -> bool:
    """Whether conditions on it stand in the WHERE of the SELECT that it is in."""
    if isinstance(relation, Join):
        return relation.how in (JoinKind.SEMI, JoinKind.ANTI) or is_filtered(relation.left)
    return isinstance(relation, Filter)


def outputs_of(draw: st.DrawFn, of: Source) -> tuple[Output, ...]:
    """A column that tells the unit where there is one, others, and perhaps an expression."""
    holder = holder_of(draw, of)
    others = [c for c in of.columns if c != holder]
    chosen: list[Expression] = [] if holder is None else [holder]
    some: list[Column] = draw(st.lists(st.sampled_from(others), min_size=1, max_size=3, unique=True)) if others else []
    chosen += some
    computed: bool = draw(st.booleans())
    if of.numbers and computed:
        chosen.append(Arithmetic("+", draw(st.sampled_from(of.numbers)), Literal(1)))
    return tuple((f"c{i}", e) for i, e in enumerate(chosen))


def passed_on(
    of: Source, relation: Relation, alias: str, outputs: tuple[Output, ...], free: Iterable[str] = ()
) -> Source:
    """The new relation, with what its columns keep of those below."""
    kept = [(f"{alias}.{name}", e.name) for name, e in outputs if isinstance(e, Column)]
    return Source(
        relation,
        {new: of.roles[old] for new, old in kept if old in of.roles},
        {new: of.base[old] for new, old in kept if old in of.base},
        frozenset(new for new, old in kept if old in of.absent),
        frozenset(new for new, old in kept if old in of.free) | frozenset(f"{alias}.{name}" for name in free),
    )


def _constants(kind: Kind) -> st.SearchStrategy[Value]:
    if kind is TEXT:
        return st.sampled_from(["a", "b", "p", "x"])
    return st.integers(-1, 5) if kind is INT else st.sampled_from([0.0, 0.5, 1.0])
