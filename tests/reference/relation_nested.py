"""What the reference makes of subqueries in place of values, and of INTERSECT and EXCEPT."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from discreet.errors import InvalidParameter
from tests.reference.expression import Compare, Expression, Row
from tests.reference.relation import Database, Owned, Relation
from tests.reference.relation_parts import Aggregate, Output, row_key
from tests.reference.values import Kind, Value


@dataclass(frozen=True, slots=True)
class Nested:
    """A subquery over the rows of `of` that meet `on`, a condition on both rows.

    An aggregate of them; or, as 1, 0 or NULL for unknown: whether there is one, or whether `value` is `member` of one.

    Attributes:
        of: the subquery's rows: public, or those of the row's own unit.
        on: its WHERE.
        aggregate: what it gives, where it stands for a value.
        value, member: the sides of `value IN (SELECT member …)`.
        own: whether IN alone says whose the rows are: then nobody has a NULL.
    """

    of: Relation
    on: Expression
    aggregate: Aggregate | None = None
    value: Expression | None = None
    member: Expression | None = None
    own: bool = False

    @property
    def kind(self) -> Kind:
        """What it gives."""
        return Kind.INT if self.aggregate is None else self.aggregate.kind

    def at(self, row: Row, rows: Sequence[Row]) -> Value:
        """Its value on a row, given the subquery's rows that the row may see."""
        found = [{**row, **r} for r in rows if self.on.at({**row, **r}) is True]
        if self.aggregate is not None:
            return self.aggregate.over(found)
        if self.value is None or self.member is None:
            return int(bool(found))
        if self.own and self.value.at(row) is None:
            return None
        same = [Compare("=", self.value, self.member).at(r) for r in found]
        return 1 if True in same else None if None in same else 0


@dataclass(frozen=True, slots=True)
class Beside(Relation):
    """SELECT outputs, subqueries … FROM … WHERE … under an alias.

    `where` reads the rows below, and the subqueries as `alias.name`.
    """

    of: Relation
    alias: str
    outputs: tuple[Output, ...]
    nested: tuple[tuple[str, Nested], ...]
    where: Expression | None = None

    def __post_init__(self) -> None:
        if any(n.of.owned and not self.of.owned for _, n in self.nested):
            raise InvalidParameter("a subquery over people's rows beside public ones would tell of people.")

    @property
    def columns(self) -> Mapping[str, Kind]:
        kinds = [(n, e.kind) for n, e in self.outputs] + [(n, s.kind) for n, s in self.nested]
        return {f"{self.alias}.{name}": kind for name, kind in kinds}

    @property
    def owned(self) -> bool:
        return self.of.owned

    def rows(self, database: Database) -> list[Owned]:
        inner = [(f"{self.alias}.{name}", n, n.of.rows(database)) for name, n in self.nested]
        found: list[Owned] = []
        for unit, row in self.of.rows(database):
            values = {
                name: n.at(row, [r for owner, r in rows if owner == unit or not n.of.owned]) for name, n, rows in inner
            }
            if self.where is None or self.where.at({**row, **values}) is True:
                shown = {f"{self.alias}.{name}": e.at(row) for name, e in self.outputs}
                found.append((unit, {**shown, **values}))
        return found


@dataclass(frozen=True, slots=True)
class Matched(Relation):
    """left INTERSECT [ALL] right, or EXCEPT where `keeps` is False, under an alias; of each unit by itself."""

    left: Relation
    right: Relation
    alias: str
    keeps: bool
    every: bool = False

    def __post_init__(self) -> None:
        if list(self.left.columns.values()) != list(self.right.columns.values()):
            raise InvalidParameter("left and right must have columns of the same kinds.")
        if self.left.owned is not self.right.owned:
            raise InvalidParameter("left and right must both be people's rows, or both public.")

    @property
    def columns(self) -> Mapping[str, Kind]:
        return {f"{self.alias}.{n.partition('.')[2]}": kind for n, kind in self.left.columns.items()}

    @property
    def owned(self) -> bool:
        return self.left.owned

    def rows(self, database: Database) -> list[Owned]:
        left, right = (
            [(u, dict(zip(self.columns, r.values(), strict=True))) for u, r in side.rows(database)]
            for side in (self.left, self.right)
        )
        there = Counter(_key(u, r) for u, r in right)
        found: list[Owned] = []
        seen: Counter[Hashable] = Counter()
        for unit, row in left:
            key = _key(unit, row)
            seen[key] += 1
            among = seen[key] <= there[key] if self.every else there[key] > 0
            if among is self.keeps and (self.every or seen[key] == 1):
                found.append((unit, row))
        return found


def _key(unit: Value, row: Row) -> Hashable:
    return unit, row_key(row)
