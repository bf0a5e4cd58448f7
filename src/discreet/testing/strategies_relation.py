"""Hypothesis strategies: questions of what joins and nesting make of several tables.

A `RelationCase` carries a question twice, as trees for the reference and as text for an engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from hypothesis import strategies as st

from discreet.testing.reference import Question, combinations
from discreet.testing.reference_expression import (
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
)
from discreet.testing.reference_measures import Count, CountOf, CountUnits, Mean, Measure, Sum
from discreet.testing.reference_relation import (
    UNIT,
    Base,
    Database,
    Filter,
    Group,
    Join,
    JoinKind,
    Project,
    Relation,
    Table,
    Union,
    Windowed,
)
from discreet.testing.reference_relation_parts import Aggregate, Output, Window
from discreet.testing.reference_relation_sql import Spelling, relation_question_sql
from discreet.testing.reference_values import Kind, Value
from discreet.testing.strategies import Declared
from discreet.testing.strategies_database import INT, RANGES, REAL, TEXT, VALUES, databases


@dataclass(frozen=True, slots=True)
class RelationCase:
    """A question over several tables, for the reference and for an engine.

    Attributes:
        database: tables and rows.
        relation: what is asked about.
        question: what is asked of its rows; the grids of reals are open until an engine decides them.
        sql: the same for the engine; keys are named k0, k1, … and measures a0, a1, …
        facts: table → column → what its owner declares.
    """

    database: Database
    relation: Relation
    question: Question
    sql: str
    facts: Mapping[str, Mapping[str, Declared]]


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
def sources(draw: st.DrawFn, tables: tuple[Table, ...], *, depth: int = 2) -> Source:
    """An owned relation over these tables."""
    return draw(_Maker(tables).owned(depth))


@st.composite
def relation_cases(
    draw: st.DrawFn, *, max_size: int = 4, depth: int = 2, clean: bool = False
) -> RelationCase:
    """A database, and a question of the rows of a random relation over it."""
    database = draw(databases(max_size=max_size, clean=clean))
    source = draw(sources(database.tables, depth=depth))
    relation = source.relation
    if draw(st.booleans()):
        relation = Filter(relation, draw(conditions(source.columns)))
    declare = draw(st.booleans())
    keys, declared = draw(_keys(source, declare=declare))
    units = [name for name, role in source.roles.items() if role == "unit"]
    question = Question(
        measures=tuple(draw(st.lists(_measures(source, counts_units=bool(units)), min_size=1, max_size=3))),
        keys=keys,
        declared_keys=declared,
        unit=Column(UNIT, INT),
        max_groups=draw(st.integers(1, 3)),
        max_rows=draw(st.integers(1, 3)),
    )
    text = relation_question_sql(
        question, relation, units[0] if units else None, draw(st.sampled_from(list(Spelling)))
    )
    facts = {
        t.name: {
            **{n: ("range", *RANGES[n]) for n in t.columns if n in RANGES},
            **{n: ("values", list(VALUES[n])) for n in t.columns if n in VALUES and declare},
        }
        for t in database.tables
    }
    return RelationCase(database, relation, question, text, facts)


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
        return In(
            column, tuple(Literal(v) for v in draw(st.lists(_constants(column.kind), min_size=1, max_size=2)))
        )
    alike = [c for c in columns if c.kind is column.kind and c != column]
    other = draw(
        st.one_of(_constants(column.kind).map(Literal), *([st.sampled_from(alike)] if alike else []))
    )
    return Compare(draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="])), column, other)


_Pair: TypeAlias = tuple[str, str]


class _Maker:
    """Makes sources; every alias of a relation is different."""

    __slots__ = ("_aliases", "_tables")

    def __init__(self, tables: tuple[Table, ...]) -> None:
        self._tables = tables
        self._aliases = 0

    @st.composite
    @staticmethod
    def _drawn(draw: st.DrawFn, maker: _Maker, depth: int) -> Source:
        return maker._any(draw, depth)

    def owned(self, depth: int) -> st.SearchStrategy[Source]:
        return _Maker._drawn(self, depth)

    def _alias(self, prefix: str) -> str:
        self._aliases += 1
        return f"{prefix}{self._aliases}"

    def _any(self, draw: st.DrawFn, depth: int) -> Source:
        if depth == 0:
            return self._base(draw(st.sampled_from([t for t in self._tables if not t.public])))
        ways = [
            self._join,
            self._join,
            self._with_public,
            self._grouped,
            self._projected,
            self._union,
            self._windows,
        ]
        return draw(st.sampled_from(ways))(draw, depth - 1)

    def _base(self, table: Table) -> Source:
        alias = self._alias(table.name[0])
        roles = {}
        for name in table.columns:
            if table.link is not None and name == table.link.column:
                roles[f"{alias}.{name}"] = f"link {table.link.table}.{table.link.key}"
            elif name == table.unit:
                roles[f"{alias}.{name}"] = "unit"
            elif any(t.link and (t.link.table, t.link.key) == (table.name, name) for t in self._tables):
                roles[f"{alias}.{name}"] = f"key {table.name}.{name}"
        return Source(Base(table, alias), roles, {f"{alias}.{n}": n for n in table.columns})

    def _join(self, draw: st.DrawFn, depth: int) -> Source:
        """Two private relations, by columns that tell the unit."""
        left = self._any(draw, depth)
        rights = [self._base(t) for t in self._tables if not t.public]
        if depth and draw(st.booleans()):
            rights.append(self._any(draw, depth - 1))
        meets = [(right, pair) for right in rights for pair in _pairs(left, right)]
        meets = [(right, pair) for right, pair in meets if not isinstance(right.relation, Join)]
        if not meets:
            return left
        right, (a, b) = draw(st.sampled_from(meets))
        on: Expression = Compare("=", Column(a, INT), Column(b, INT))
        if draw(st.booleans()):
            on = And(on, draw(conditions([*left.columns, *right.columns], depth=0)))
        kinds = [
            k for k in JoinKind if not (_filtered(left.relation) and k in (JoinKind.RIGHT, JoinKind.FULL))
        ]
        return _joined(left, right, draw(st.sampled_from(kinds)), on)

    def _with_public(self, draw: st.DrawFn, depth: int) -> Source:
        """A private relation and the public table, on anything."""
        left = self._any(draw, depth)
        (regions,) = (self._base(t) for t in self._tables if t.public)
        public = regions
        if draw(st.booleans()):
            alias = self._alias("d")
            name = next(iter(regions.relation.columns))
            outputs = (("name", Column(name, TEXT)),)
            count = ("n", Aggregate("COUNT"))
            group = Group(regions.relation, alias, outputs, (count,))
            public = Source(group, {}, {}, free=frozenset({f"{alias}.n"}))
        kinds = [JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI]
        texts = [c for c in left.columns if c.kind is TEXT]
        (name_column, *_) = public.columns
        on: Expression = draw(conditions([*left.columns, *public.columns], depth=0))
        by_name: bool = draw(st.sampled_from([True, True, False]))
        if texts and by_name:
            on = Compare("=", draw(st.sampled_from(texts)), name_column)
        return _joined(left, public, draw(st.sampled_from(kinds)), on)

    def _grouped(self, draw: st.DrawFn, depth: int) -> Source:
        """GROUP BY a column that tells the unit, and perhaps another one."""
        of = self._any(draw, depth)
        holder = _holder(draw, of)
        if holder is None:
            return of
        others = [c for c in of.columns if c.name != holder.name]
        more = draw(st.lists(st.sampled_from(others), max_size=1)) if others else []
        alias = self._alias("g")
        keys = tuple((f"c{i}", c) for i, c in enumerate([holder, *more]))
        names = draw(
            st.lists(
                st.sampled_from(["COUNT", "COUNT DISTINCT", "SUM", "AVG", "MIN", "MAX", "*"]), max_size=2
            )
        )
        aggregates = []
        for i, name in enumerate(names):
            if name == "*":
                aggregates.append((f"n{i}", Aggregate("COUNT")))
                continue
            over = of.numbers if name in ("SUM", "AVG") else of.columns
            aggregates.append((f"n{i}", Aggregate(name, draw(st.sampled_from(over)))))
        group = Group(_where(draw, of), alias, keys, tuple(aggregates))
        if draw(st.integers(0, 2)) == 0:
            shown = [Column(n, k) for n, k in group.columns.items()]
            group = replace(group, having=draw(conditions(shown, depth=0)))
        free = [name for name, a in aggregates if a.name in ("COUNT", "COUNT DISTINCT", "SUM")]
        return _passed(of, group, alias, keys, free)

    def _projected(self, draw: st.DrawFn, depth: int) -> Source:
        of = self._any(draw, depth)
        outputs = _outputs(draw, of)
        alias = self._alias("p")
        wanted: bool = draw(st.booleans())
        distinct = wanted and any(isinstance(e, Column) and e.name in of.roles for _, e in outputs)
        return _passed(of, Project(_where(draw, of), alias, outputs, distinct), alias, outputs)

    def _union(self, draw: st.DrawFn, depth: int) -> Source:
        """The same columns of two relations, or the same relation twice."""
        of = self._any(draw, depth)
        outputs = _outputs(draw, of)
        left = Project(of.relation, self._alias("p"), outputs)
        right = Project(_where(draw, of), self._alias("p"), outputs)
        alias = self._alias("u")
        both = _passed(of, left, left.alias, outputs)
        distinct = draw(st.booleans()) and bool(both.roles)
        rename = {n: f"{alias}.{n.partition('.')[2]}" for n in both.relation.columns}
        return Source(
            Union(left, right, alias, distinct),
            {rename[n]: role for n, role in both.roles.items()},
            {rename[n]: name for n, name in both.base.items()},
            frozenset(rename[n] for n in both.absent),
            frozenset(rename[n] for n in both.free),
        )

    def _windows(self, draw: st.DrawFn, depth: int) -> Source:
        of = self._any(draw, depth)
        holder = _holder(draw, of)
        if holder is None:
            return of
        outputs = _outputs(draw, of)
        shuffled: list[Column] = draw(st.permutations(of.columns))
        order = tuple((c, draw(st.sampled_from([False, True]))) for c in shuffled)
        some = order[: draw(st.integers(1, len(order)))]
        whole = [c for c in of.columns if c.kind is INT]
        choices = [Window("ROW_NUMBER", None, (holder,), order), Window("RANK", None, (holder,), some)]
        choices += [
            Window("COUNT", None, (holder,), some),
            Window("LAG", draw(st.sampled_from(of.columns)), (holder,), order),
        ]
        choices += [Window("SUM", draw(st.sampled_from(whole)), (holder,), some)] if whole else []
        alias = self._alias("w")
        windows = tuple(
            (f"n{i}", w)
            for i, w in enumerate(draw(st.lists(st.sampled_from(choices), min_size=1, max_size=2)))
        )
        free = [name for name, w in windows if w.name != "LAG"]
        return _passed(of, Windowed(_where(draw, of), alias, outputs, windows), alias, outputs, free)


def _joined(left: Source, right: Source, how: JoinKind, on: Expression) -> Source:
    """The join; columns of a side that may be missing tell the unit no longer."""
    roles: dict[str, str] = {}
    if how not in (JoinKind.RIGHT, JoinKind.FULL):
        roles |= left.roles
    if how in (JoinKind.INNER, JoinKind.RIGHT):
        roles |= right.roles
    shown = how not in (JoinKind.SEMI, JoinKind.ANTI)
    base = {**left.base, **(right.base if shown else {})}
    absent = left.absent | (right.absent if shown else frozenset())
    if how in (JoinKind.LEFT, JoinKind.FULL):
        absent |= right.relation.columns.keys()
    if how in (JoinKind.RIGHT, JoinKind.FULL):
        absent |= left.relation.columns.keys()
    free = left.free | (right.free if shown else frozenset())
    return Source(Join(left.relation, right.relation, how, on), roles, base, absent, free)


def _pairs(left: Source, right: Source) -> list[_Pair]:
    """The pairs of columns that are equal only within a unit."""
    return [
        (a, b)
        for a, x in left.roles.items()
        for b, y in right.roles.items()
        if x == y == "unit"
        or {x, y} in [{f"key {key}", f"link {key}"} for key in ("customers.id", "orders.id")]
    ]


def _holder(draw: st.DrawFn, of: Source) -> Column | None:
    names = [n for n in of.roles if n in of.relation.columns]
    return Column(draw(st.sampled_from(names)), INT) if names else None


def _where(draw: st.DrawFn, of: Source) -> Relation:
    return Filter(of.relation, draw(conditions(of.columns))) if draw(st.booleans()) else of.relation


def _filtered(relation: Relation) -> bool:
    """Whether conditions on it stand in the WHERE of the SELECT that it is in."""
    if isinstance(relation, Join):
        return relation.how in (JoinKind.SEMI, JoinKind.ANTI) or _filtered(relation.left)
    return isinstance(relation, Filter)


def _outputs(draw: st.DrawFn, of: Source) -> tuple[Output, ...]:
    """A column that tells the unit where there is one, others, and perhaps an expression."""
    holder = _holder(draw, of)
    others = [c for c in of.columns if c != holder]
    chosen: list[Expression] = [] if holder is None else [holder]
    some: list[Column] = (
        draw(st.lists(st.sampled_from(others), min_size=1, max_size=3, unique=True)) if others else []
    )
    chosen += some
    computed: bool = draw(st.booleans())
    if of.numbers and computed:
        chosen.append(Arithmetic("+", draw(st.sampled_from(of.numbers)), Literal(1)))
    return tuple((f"c{i}", e) for i, e in enumerate(chosen))


def _passed(
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


@st.composite
def _keys(
    draw: st.DrawFn, of: Source, *, declare: bool
) -> tuple[tuple[Expression, ...], tuple[tuple[Value, ...], ...] | None]:
    known = [c for c in of.columns if of.values(c)]
    if declare:
        keys = draw(st.lists(st.sampled_from(known), max_size=2, unique=True)) if known else []
        return tuple(keys), combinations(*map(of.values, keys)) if keys else None
    plain = [c for c in of.columns if c.kind is not REAL] or of.columns
    keys = draw(st.lists(st.sampled_from(plain), max_size=2, unique=True))
    return tuple(keys), None


@st.composite
def _measures(draw: st.DrawFn, of: Source, *, counts_units: bool) -> Measure:
    how = draw(st.sampled_from(["rows", "known", "sum", "mean", *(["units"] if counts_units else [])]))
    if how in ("rows", "units"):
        return Count() if how == "rows" else CountUnits()
    known = [c for c in of.numbers if c.name in of.free or of.base.get(c.name) in RANGES]
    if how == "known" or not known:
        return CountOf(draw(st.sampled_from(of.columns)))
    column = draw(st.sampled_from(known))
    low, high = RANGES.get(of.base.get(column.name, ""), (1, 4))
    expression: Expression = column
    if column.name in of.free:
        expression = Call("GREATEST", (Call("LEAST", (column, Literal(high))), Literal(low)))
    bounds = Fraction(low), Fraction(high)
    return Sum(expression, *bounds) if how == "sum" else Mean(expression, *bounds)


def _constants(kind: Kind) -> st.SearchStrategy[Value]:
    if kind is TEXT:
        return st.sampled_from(["a", "b", "p", "x"])
    return st.integers(-1, 5) if kind is INT else st.sampled_from([0.0, 0.5, 1.0])
