"""What the columns of a relation are called, and what is publicly known of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeAlias

from sqlglot import exp

from discreet.catalog.schema import Fact, ListedRows, Range, Values, near_columns
from discreet.errors import UnknownColumn, UnsupportedQuery
from discreet.privacy.unit import PrivacyUnit
from discreet.query.bind import declared
from discreet.query.expr import Call, Column, Expr, columns_of, uncast
from discreet.query.keys import JointKeys, domain
from discreet.query.narrowing import narrowed, passing, terms_of
from discreet.query.ranges import range_of
from discreet.query.scope import as_stored

HIDDEN = "\0"
"""How the alias begins of columns that stand for subqueries; no query can write it."""
CONSTANT = "\0="
"""How it begins where the subquery's value is the same for all rows."""

Key: TypeAlias = tuple[str, str]
"""The table and column that a declared foreign key leads to."""


@dataclass(frozen=True, slots=True)
class Item:
    """A named column of a relation.

    Attributes:
        name: what it is called in the query.
        expr: what it is; None for a nested or binary value.
        fact: what the owner declares of it, or what follows.
        is_unit: whether it is the unit's id on every row that belongs to somebody.
        keys: the declared keys whose values it holds.
        links: the keys whose values it holds by links: joins may hold units equal along them, nothing else.
        origin: the private table's column that it is, as it stands.
        capped: the range that the contribution bounds give it, used only where nothing else bounds it.
        listed: of a table's column as it stands, the known combinations of its columns' values.
    """

    name: str
    expr: Expr | None
    fact: Fact | None = None
    is_unit: bool = False
    keys: frozenset[Key] = frozenset()
    capped: Range | None = None
    links: frozenset[Key] = frozenset()
    origin: Key | None = None
    listed: ListedRows | None = None

    @property
    def read(self) -> Expr | None:
        """The column read as what its declaration says."""
        return declared(self.expr, self.fact) if isinstance(self.expr, Column) else self.expr

    @property
    def holds_unit(self) -> bool:
        """Whether rows with one value of it belong to one unit."""
        return self.is_unit or bool(self.keys)

    def narrowed(self, where: Expr) -> Item:
        """Return the column in rows that meet a condition, which narrows what is known of it.

        Guarantee:
            What is known of a column is a clamp or a list of keys in the text, so no sensitivity rests on it.
        """
        if self.read is None or not terms_of(self.read, where):
            return self
        match self.fact:
            case Values():
                kept = passing(self.read, self.fact.values, where)
                return self if kept is None else replace(self, fact=self.fact.listed(*kept))
            case Range() if self.fact.type.is_number:
                low, high = narrowed(self.read, (self.fact.low, self.fact.high), where)
                whole = self.fact.integer
                low, high = (math.ceil(low), math.floor(high)) if whole else (Fraction(low), Fraction(high))
                return replace(self, fact=Range(low, high, integer=whole))
            case None if (listed := passing(self.read, None, where)) is not None:
                return replace(self, fact=Values(*listed))
            case None if self.read.type is not None and self.read.type.is_number:
                low, high = narrowed(self.read, (-math.inf, math.inf), where)
                near = low >= -FARTHEST and high <= FARTHEST
                return replace(self, fact=Range(Fraction(low), Fraction(high))) if near else self
            case _:
                return self

    def nullable(self) -> Item:
        """Return the column on the side of an outer join that may have no row."""
        fact = self.fact
        if isinstance(fact, Values) and None not in fact.values:
            fact = fact.listed(*fact.values, None)
        return replace(self, fact=fact, is_unit=False, keys=frozenset(), links=frozenset())


@dataclass(frozen=True, slots=True)
class AliasColumns:
    """The columns that one alias stands for."""

    alias: str
    items: tuple[Item, ...]
    _alike: dict[str, list[Item]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def alike(self, name: str) -> Sequence[Item]:
        """Return the columns of a name that is given in lower case, in whatever case theirs are."""
        if not self._alike:
            found: dict[str, list[Item]] = {}
            for item in self.items:
                found.setdefault(item.name.lower(), []).append(item)
            self._alike.update(found)
        return self._alike.get(name, ())

    @property
    def hidden(self) -> bool:
        """Whether the columns stand for a subquery, and have no names that could be written."""
        return self.alias.startswith(HIDDEN)


@dataclass(frozen=True, slots=True)
class Names:
    """The scope of a relation's columns.

    Attributes:
        entries: alias by alias.
        unit: who is protected, as the query calls it.
        merged: the columns that USING has made one, found before others of their name.
        beyond: the names around a subquery, which its own hide.
        used: the columns that were asked for so far.
    """

    entries: tuple[AliasColumns, ...]
    unit: PrivacyUnit
    merged: tuple[Item, ...] = ()
    beyond: Names | None = None
    used: set[Column] = field(default_factory=set, compare=False)

    @property
    def facts(self) -> Mapping[str, Fact]:
        around = {} if self.beyond is None else self.beyond.facts
        own = {i.expr.name: i.fact for i in self.items() if isinstance(i.expr, Column) and i.fact is not None}
        return {**around, **own}

    @property
    def capped(self) -> Mapping[str, Fact]:
        around = {} if self.beyond is None else self.beyond.capped
        return {**around, **capped_in(self.items())}

    def items(self) -> Iterator[Item]:
        """All columns, merged ones once more."""
        yield from self.merged
        for entry in self.entries:
            yield from entry.items

    def column(self, node: exp.Column) -> Expr:
        item = self.find(node)
        found = item.read
        if found is None:
            raise UnsupportedQuery(
                f"The column {item.name!r} holds a nested or binary value, which cannot be asked about.",
                hint="store the part that you need in a column of its own",
            )
        self.used.update(c for c in (_columns(found)))
        return found

    def joint(self, keys: Sequence[Expr]) -> list[JointKeys]:
        found = []
        for entry in self.entries:
            columns = {i.read: i for i in entry.items if i.listed is not None and i.name in i.listed.columns}
            places = tuple(p for p, e in enumerate(keys) if e in columns)
            items = [columns[keys[p]] for p in places]
            if len(places) > 1 and (listed := items[0].listed) is not None:
                found.append(JointKeys(places, listed.of([i.name for i in items]), listed.some))
        return found

    def is_unit(self, expr: Expr) -> bool:
        return any(i.is_unit and i.read == expr for i in self.items())

    def unit_key(self, expr: Expr) -> str | None:
        column, own = as_stored(expr), [(i.name, i.read) for i in self.items() if i.holds_unit]
        return next((n for n, read in own if read is not None and as_stored(read) == column), None)

    def other(self, node: exp.Expr) -> Expr | None:
        return None

    def item(self, expr: Expr) -> Item | None:
        """Return the named column that an expression is, if it is one."""
        return next((i for i in self.items() if i.read == expr), None)

    def knows(self, node: exp.Column) -> bool:
        """Whether a name is one of these, those around a subquery aside."""
        return bool(self._found(node))

    def find(self, node: exp.Column) -> Item:
        """Return the column that a name stands for.

        Raises:
            UnknownColumn, UnsupportedQuery: none, or several.
        """
        found = self._found(node)
        if not found and self.beyond is not None:
            return self.beyond.find(node)
        if not found:
            self._refuse(node)
        if len(found) > 1:
            raise UnsupportedQuery(
                f"The column {node.name!r} is in several of the tables here.",
                hint=f"say which: {', '.join(sorted(f'{e.alias}.{node.name}' for e in self._with(node.name)))}",
            )
        return found[0]

    def _found(self, node: exp.Column) -> list[Item]:
        if node.args.get("db"):
            return []
        table, name = node.table, node.name
        if table:
            places = [e for e in self.entries if e.alias == table] or [
                e for e in self.entries if e.alias.lower() == table.lower()
            ]
            return _named(name, places)
        merged = _named(name, (AliasColumns("", self.merged),)) if self.merged else []
        return merged or _named(name, [e for e in self.entries if not e.hidden])

    def _with(self, name: str) -> list[AliasColumns]:
        return [e for e in self.entries if not e.hidden and e.alike(name.lower())]

    def _refuse(self, node: exp.Column) -> None:
        entries = [e for e in self.entries if not e.hidden]
        aliases = [e.alias for e in entries if e.alias]
        if node.args.get("db") or (node.table and node.table.lower() not in [a.lower() for a in aliases]):
            raise UnknownColumn(
                f"There is no table {node.table!r} in this query.", hint=f"the tables here: {', '.join(aliases)}"
            )
        names = list(dict.fromkeys(i.name for i in (*self.merged, *(i for e in entries for i in e.items))))
        where = f"in {node.table}" if node.table else f"in {', '.join(aliases)}" if aliases else "here"
        raise UnknownColumn(f"There is no column {node.name!r} {where}.", hint=near_columns(node.name, names))


def fact_of(expr: Expr, facts: Mapping[str, Fact]) -> Fact | None:
    """Return what is known of an expression's values where something is declared of its columns."""
    column = uncast(expr)
    if isinstance(column, Column) and column.name in facts and declared(column, facts[column.name]) == expr:
        return facts[column.name]
    if columns_of(expr):
        values = domain(expr, facts, _MOST_VALUES)
        if values is not None and any(v is not None for v in values):
            return Values(*values)
    if not expr.type or not expr.type.is_number:
        return None
    low, high = range_of(expr, facts)
    if math.isinf(low) or math.isinf(high) or not -FARTHEST <= low <= high <= FARTHEST:
        return None
    # not integer=True: that would declare its whole numbers as keys, which the owner did not
    return Range(Fraction(low), Fraction(high))


def capped_in(items: Iterable[Item]) -> Mapping[str, Fact]:
    """Return the ranges that the contribution bounds give these columns, by the names of the columns."""
    return {c.name: i.capped for i in items if i.capped is not None and i.expr is not None for c in _columns(i.expr)}


_MOST_VALUES = 1000  # of a derived list; longer ones are taken as ranges
FARTHEST = 1 << 62
"""The greatest end of a range that is kept of an expression."""


def _columns(expr: Expr) -> Iterable[Column]:
    match expr:
        case Column():
            yield expr
        case Call(_, args, _):
            for a in args:
                yield from _columns(a)


def _named(name: str, entries: Iterable[AliasColumns]) -> list[Item]:
    """Return the columns of that name; upper and lower case make no difference when that is unambiguous."""
    lower = name.lower()
    alike = [i for e in entries for i in e.alike(lower)]
    return [i for i in alike if i.name == name] or alike
