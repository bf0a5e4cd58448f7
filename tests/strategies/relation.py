"""Hypothesis strategies: questions of what joins and nesting make of several tables.

A `RelationCase` carries a question twice, as trees for the reference and as text for an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from hypothesis import strategies as st

from tests.reference.expression import And, Call, Column, Compare, Expression, Literal
from tests.reference.measures import Count, CountOf, CountUnits, Mean, Measure, Sum
from tests.reference.question import Question, combinations
from tests.reference.relation import (
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
from tests.reference.relation_nested import Beside, Matched, Nested
from tests.reference.relation_parts import Aggregate, Frame, Window
from tests.reference.relation_sql import Spelling, relation_question_sql
from tests.reference.values import Value
from tests.strategies.database import INT, RANGES, REAL, TEXT, VALUES, databases
from tests.strategies.questions import Declared
from tests.strategies.source import (
    Source,
    conditions,
    holder_of,
    is_filtered,
    outputs_of,
    pairs_of,
    passed_on,
    where_of,
)


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


@st.composite
def sources(draw: st.DrawFn, tables: tuple[Table, ...], *, depth: int = 2) -> Source:
    """An owned relation over these tables."""
    return draw(_Maker(tables).owned(depth))


@st.composite
def relation_cases(draw: st.DrawFn, *, max_size: int = 4, depth: int = 2, clean: bool = False) -> RelationCase:
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
    text = relation_question_sql(question, relation, units[0] if units else None, draw(st.sampled_from(list(Spelling))))
    facts = {
        t.name: {
            **{n: ("range", *RANGES[n]) for n in t.columns if n in RANGES},
            **{n: ("values", list(VALUES[n])) for n in t.columns if n in VALUES and declare},
        }
        for t in database.tables
    }
    return RelationCase(database, relation, question, text, facts)


FRAMES: tuple[Frame, ...] = ((-1, 0), (None, 0), (0, None), (None, None), (-2, -1), (0, 1), (-1, 1))
"""Frames of windows: ROWS from and to, None for no end."""


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
            self._beside,
            self._matched,
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
        meets = [(right, pair) for right in rights for pair in pairs_of(left, right)]
        meets = [(right, pair) for right, pair in meets if not isinstance(right.relation, Join)]
        if not meets:
            return left
        right, (a, b) = draw(st.sampled_from(meets))
        on: Expression = Compare("=", Column(a, INT), Column(b, INT))
        if draw(st.booleans()):
            on = And(on, draw(conditions([*left.columns, *right.columns], depth=0)))
        kinds = [k for k in JoinKind if not (is_filtered(left.relation) and k in (JoinKind.RIGHT, JoinKind.FULL))]
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
        holder = holder_of(draw, of)
        if holder is None:
            return of
        others = [c for c in of.columns if c.name != holder.name]
        more = draw(st.lists(st.sampled_from(others), max_size=1)) if others else []
        alias = self._alias("g")
        keys = tuple((f"c{i}", c) for i, c in enumerate([holder, *more]))
        names = draw(
            st.lists(st.sampled_from(["COUNT", "COUNT DISTINCT", "SUM", "AVG", "MIN", "MAX", "*"]), max_size=2)
        )
        aggregates = []
        for i, name in enumerate(names):
            if name == "*":
                aggregates.append((f"n{i}", Aggregate("COUNT")))
                continue
            over = of.numbers if name in ("SUM", "AVG") else of.columns
            aggregates.append((f"n{i}", Aggregate(name, draw(st.sampled_from(over)))))
        group = Group(where_of(draw, of), alias, keys, tuple(aggregates))
        if draw(st.integers(0, 2)) == 0:
            shown = [Column(n, k) for n, k in group.columns.items()]
            group = replace(group, having=draw(conditions(shown, depth=0)))
        free = [name for name, a in aggregates if a.name in ("COUNT", "COUNT DISTINCT", "SUM")]
        return passed_on(of, group, alias, keys, free)

    def _projected(self, draw: st.DrawFn, depth: int) -> Source:
        of = self._any(draw, depth)
        outputs = outputs_of(draw, of)
        alias = self._alias("p")
        wanted: bool = draw(st.booleans())
        distinct = wanted and any(isinstance(e, Column) and e.name in of.roles for _, e in outputs)
        return passed_on(of, Project(where_of(draw, of), alias, outputs, distinct), alias, outputs)

    def _union(self, draw: st.DrawFn, depth: int) -> Source:
        """The same columns of two relations, or the same relation twice."""
        of = self._any(draw, depth)
        outputs = outputs_of(draw, of)
        left = Project(of.relation, self._alias("p"), outputs)
        right = Project(where_of(draw, of), self._alias("p"), outputs)
        alias = self._alias("u")
        both = passed_on(of, left, left.alias, outputs)
        distinct = draw(st.booleans()) and bool(both.roles)
        rename = {n: f"{alias}.{n.partition('.')[2]}" for n in both.relation.columns}
        return Source(
            Union(left, right, alias, distinct),
            {rename[n]: role for n, role in both.roles.items()},
            {rename[n]: name for n, name in both.base.items()},
            frozenset(rename[n] for n in both.absent),
            frozenset(rename[n] for n in both.free),
        )

    def _matched(self, draw: st.DrawFn, depth: int) -> Source:
        """INTERSECT and EXCEPT of the same columns, filtered on one side."""
        of = self._any(draw, depth)
        outputs = outputs_of(draw, of)
        left = Project(where_of(draw, of), self._alias("p"), outputs)
        right = Project(where_of(draw, of), self._alias("p"), outputs)
        both = passed_on(of, left, left.alias, outputs)
        if not both.roles:
            return both
        keeps, every = draw(st.booleans()), draw(st.booleans())
        alias = self._alias("m")
        matched = Matched(left, right, alias, keeps, every)
        shown = tuple((n.partition(".")[2], Column(n, k)) for n, k in left.columns.items())
        return passed_on(both, matched, alias, shown)

    def _beside(self, draw: st.DrawFn, depth: int) -> Source:
        """Subqueries in place of values, in SELECT and in any part of WHERE."""
        of = self._any(draw, depth)
        outputs, alias = outputs_of(draw, of), self._alias("s")
        nested = tuple((f"v{i}", self._nested(draw, of)) for i in range(draw(st.integers(1, 2))))
        shown = [Column(f"{alias}.{name}", n.kind) for name, n in nested]
        where = draw(conditions([*of.columns, *shown])) if draw(st.booleans()) else None
        relation = Beside(of.relation, alias, outputs, nested, where)
        return passed_on(of, relation, alias, outputs, [name for name, n in nested if n.kind in (INT, REAL)])

    def _nested(self, draw: st.DrawFn, of: Source) -> Nested:
        """A subquery over the public table, or over rows of the same unit."""
        bases = [self._base(t) for t in self._tables]
        (public,) = (b for b in bases if not b.relation.owned)
        meets = [(b, pair) for b in bases for pair in pairs_of(of, b)]
        if not meets or draw(st.integers(0, 2)) == 0:
            inner, on = public, draw(conditions(public.columns, depth=0))
        else:
            inner, (a, b) = draw(st.sampled_from(meets))
            if draw(st.integers(0, 3)) == 0:
                on = draw(conditions(inner.columns, depth=0))
                return Nested(inner.relation, on, value=Column(a, INT), member=Column(b, INT), own=True)
            on = Compare("=", Column(a, INT), Column(b, INT))
        if draw(st.booleans()):
            on = And(on, draw(conditions([*of.columns, *inner.columns], depth=0)))
        pairs = [(x, y) for x in of.columns for y in inner.columns if x.kind is y.kind]
        how = draw(st.sampled_from(["exists", "exists", "value", "value", *(["in", "in"] if pairs else [])]))
        if how == "exists":
            return Nested(inner.relation, on)
        if how == "in":
            value, member = draw(st.sampled_from(pairs))
            return Nested(inner.relation, on, value=value, member=member)
        name = draw(st.sampled_from(["COUNT", "COUNT DISTINCT", "SUM", "AVG", "MIN", "MAX", "*"]))
        over = inner.numbers if name in ("SUM", "AVG") else inner.columns
        aggregate = Aggregate("COUNT") if name == "*" else Aggregate(name, draw(st.sampled_from(over)))
        return Nested(inner.relation, on, aggregate)

    def _windows(self, draw: st.DrawFn, depth: int) -> Source:
        of = self._any(draw, depth)
        holder = holder_of(draw, of)
        if holder is None:
            return of
        outputs = outputs_of(draw, of)
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
        kinds = ["COUNT", "MAX", "LAST_VALUE", "LAST_VALUE", *(["SUM"] if whole else [])]
        name = draw(st.sampled_from(kinds))
        of_frame = draw(st.sampled_from(whole if name == "SUM" else of.columns))
        choices += [Window(name, of_frame, (holder,), order, draw(st.sampled_from(FRAMES)))] * 2
        alias = self._alias("w")
        windows = tuple(
            (f"n{i}", w) for i, w in enumerate(draw(st.lists(st.sampled_from(choices), min_size=1, max_size=2)))
        )
        free = [name for name, w in windows if w.kind in (INT, REAL)]
        return passed_on(of, Windowed(where_of(draw, of), alias, outputs, windows), alias, outputs, free)


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
