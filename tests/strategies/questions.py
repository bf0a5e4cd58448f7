"""Hypothesis strategies: tiny tables full of nasty values, questions about them, and their SQL.

A `Case` carries a question twice, as a value for the reference and as text for an engine, with everything
that an owner would declare. What the engine decides stays open: the order of a unit's groups, and the grids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

from hypothesis import strategies as st

from discreet.privacy.exact import exact
from discreet.privacy.unit import Relation
from tests.reference.expression import (
    And,
    Arithmetic,
    Between,
    Call,
    Cast,
    Column,
    Compare,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Row,
)
from tests.reference.expression import Case as CaseWhen
from tests.reference.functions import FIXED, Apply
from tests.reference.measures import Count, CountOf, CountUnits, Mean, Measure, Sum
from tests.reference.question import Key, Question, combinations
from tests.reference.sql import question_sql, table_sql
from tests.reference.values import GREATEST_INT, LEAST_INT, Kind, Value

TABLE = "t"
"""The name of every case's table."""

UNIT = "uid"
"""The name of the column that holds the unit."""

SCHEMA: Mapping[str, Kind] = MappingProxyType(
    {
        UNIT: Kind.INT,
        "x": Kind.INT,
        "y": Kind.INT,
        "v": Kind.REAL,
        "w": Kind.REAL,
        "region": Kind.TEXT,
        "level": Kind.INT,
        "flag": Kind.BOOL,
    }
)
"""The columns of every case. `x` and `v` have declared ranges; the last three can be keys."""

Declared: TypeAlias = tuple[Any, ...]
"""`("range", low, high)` or `("values", [...])`."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question over a tiny table, for the reference and for an engine.

    Attributes:
        question: for the reference; its grids are open until an engine decides them (`Question.on_lattice`).
        sql: for the engine; keys are named k0, k1, … and measures a0, a1, …
        rows: the private table.
        columns: what the owner declares: ("range", low, high) or ("values", [...]) by column.
    """

    question: Question
    sql: str
    rows: tuple[Row, ...]
    columns: Mapping[str, Declared]

    @property
    def unit(self) -> str | None:
        """The unit's column; None when each row is a unit."""
        return self.question.unit.name if self.question.unit is not None else None

    @property
    def max_groups(self) -> int:
        """The cap on a unit's groups."""
        return self.question.max_groups

    @property
    def max_rows(self) -> int:
        """The cap on a unit's rows in a group."""
        return self.question.max_rows

    @property
    def table(self) -> tuple[str, ...]:
        """DuckDB statements that create the table."""
        return table_sql(TABLE, SCHEMA, self.rows)


@cache
def ints() -> st.SearchStrategy[int]:
    """Integers of 64 bits, small ones and the ends."""
    corners = [0, 1, -1, 1 << 31, (1 << 53) + 1, GREATEST_INT, GREATEST_INT - 1, LEAST_INT, LEAST_INT + 1]
    return st.one_of(st.integers(-12, 12), st.integers(-12, 12), st.sampled_from(corners))


@cache
def reals() -> st.SearchStrategy[float]:
    """Doubles, with NaN, infinities, −0.0, the tiniest and the greatest."""
    ends = [sign * x for sign in (1, -1) for x in (float("nan"), float("inf"), 1.7976931348623157e308)]
    return st.one_of(eighths(), eighths(), st.sampled_from([0.0, -0.0, 0.1, 5e-324, 1e20, 2.0**53, *ends]))


@cache
def eighths() -> st.SearchStrategy[float]:
    """Tame doubles, exact in any arithmetic."""
    return st.integers(-100, 100).map(lambda n: n / 8)


@cache
def texts() -> st.SearchStrategy[str]:
    """Text: empty, in other letters, composed and decomposed, beyond the first plane, with quotes."""
    return st.sampled_from(
        ["a", "b", "", "A", " a", "é", "e\u0301", "🎈", "it's", "NULL", "nan", "a\nb", "ß", "\u200b"]
    )


@cache
def cells(kind: Kind) -> st.SearchStrategy[Value]:
    """What a column of that kind may hold, NULL included."""
    return st.one_of(_CELLS[kind](), _CELLS[kind](), _CELLS[kind](), st.none())


@cache
def units() -> st.SearchStrategy[Value]:
    """Unit ids: few, so that they repeat; NULL and the greatest integer among them."""
    return st.sampled_from([1, 2, 3, 1, 2, 3, -1, 0, GREATEST_INT, None])


@st.composite
def tables(draw: st.DrawFn, *, max_size: int = 8) -> tuple[Row, ...]:
    """Rows of `SCHEMA`: none, one, or a few, with whole rows repeated."""
    size = draw(st.integers(0, max_size))
    rows = draw(st.lists(_ANY_ROW, min_size=size, max_size=size))
    return (*rows[:1], *rows[:-1]) if draw(st.booleans()) else tuple(rows)


@cache
def expressions(kind: Kind, *, depth: int = 2) -> st.SearchStrategy[Expression]:
    """Row-level expressions of that kind over `SCHEMA`, of at most that depth."""
    leaves = st.one_of(
        st.sampled_from([Column(name, k) for name, k in SCHEMA.items() if k is kind and name != UNIT]),
        st.sampled_from([Column(name, k) for name, k in SCHEMA.items() if k is kind and name != UNIT]),
        _constants(kind),
    )
    return leaves if depth == 0 else st.one_of(leaves, *_NODES[kind](depth - 1), *_any_kind(kind, depth - 1))


@st.composite
def queries(draw: st.DrawFn, *, max_size: int = 8) -> Case:
    """Cases: one table, WHERE, GROUP BY, one to three aggregates; each row a unit, or each `uid`."""
    rows = draw(tables(max_size=max_size))
    columns: dict[str, Declared] = {"x": ("range", *draw(_int_bounds())), "v": ("range", *draw(_real_bounds()))}
    keys, declared = draw(_keys(columns))
    unit = draw(st.sampled_from([None, Column(UNIT, SCHEMA[UNIT]), Column(UNIT, SCHEMA[UNIT])]))
    caps = (draw(st.integers(1, 3)), draw(st.integers(1, 3))) if unit is not None else (1, 1)
    question = Question(
        measures=tuple(draw(st.lists(_measures(columns, unit), min_size=1, max_size=3))),
        keys=keys,
        declared_keys=declared,
        where=draw(st.one_of(st.none(), expressions(Kind.BOOL))),
        unit=unit,
        max_groups=caps[0],
        max_rows=caps[1],
    )
    return Case(question, question_sql(question, TABLE), rows, MappingProxyType(columns))


@st.composite
def random_neighbours(
    draw: st.DrawFn, case: Case, relation: Relation, *, max_rows: int = 4
) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """The case's table and a neighbour of it, in any order of rows.

    A person without a row is somebody: with a unit column, rows may become none, or none become some.
    Where each row is a unit, replacing keeps the number of rows.
    """
    rows = case.rows
    here = sorted({i for row in rows if isinstance(i := row[UNIT], int)}) if case.unit else list(range(len(rows)))
    leaver = draw(st.sampled_from([*here, None])) if here else None
    stay = tuple(row for i, row in enumerate(rows) if leaver is None or (row[UNIT] if case.unit else i) != leaver)
    free = [i for i in (1, 2, 3, 4, GREATEST_INT) if i not in here]
    newcomer = draw(st.sampled_from(free if leaver is None or not case.unit else [leaver, *free]))
    least = most = 0
    if relation is Relation.ADD_REMOVE:
        least, most = (1, max_rows) if leaver is None else (0, 0)
    elif case.unit or leaver is not None:
        most = max_rows
    if not case.unit and most:
        least = most = 1
    came = draw(st.lists(_rows(st.just(newcomer)), min_size=least, max_size=most))
    return rows, tuple(draw(st.permutations([*stay, *came])))


_CELLS: dict[Kind, Any] = {Kind.BOOL: st.booleans, Kind.INT: ints, Kind.REAL: reals, Kind.TEXT: texts}


def _rows(unit: st.SearchStrategy[Value]) -> st.SearchStrategy[Row]:
    few: dict[str, st.SearchStrategy[Value]] = {
        "region": st.one_of(st.sampled_from(["a", "b", None]), cells(Kind.TEXT)),
        "level": st.one_of(st.sampled_from([1, 2, None]), cells(Kind.INT)),
    }
    rest = {name: cells(kind) for name, kind in SCHEMA.items() if name not in (UNIT, *few)}
    return st.fixed_dictionaries({UNIT: unit, **rest, **few})


_ANY_ROW = _rows(units())


@cache
def _constants(kind: Kind) -> st.SearchStrategy[Expression]:
    tame: dict[Kind, st.SearchStrategy[Value]] = {
        Kind.BOOL: st.booleans(),
        Kind.INT: st.one_of(st.integers(-3, 9), ints()),
        Kind.REAL: st.one_of(eighths(), st.sampled_from([0.1, 1e20])),
        Kind.TEXT: texts(),
    }
    return tame[kind].map(Literal)


@cache
def _numbers(depth: int) -> st.SearchStrategy[Expression]:
    return st.one_of(expressions(Kind.INT, depth=depth), expressions(Kind.REAL, depth=depth))


def _arithmetic(ops: str, left: Any, right: Any) -> st.SearchStrategy[Expression]:
    return st.builds(Arithmetic, st.sampled_from(ops.split()), left, right)


def _calls(names: str, *operands: Any) -> st.SearchStrategy[Expression]:
    return st.builds(Call, st.sampled_from(names.split()), st.tuples(*operands))


def _applied(kind: Kind, depth: int) -> list[st.SearchStrategy[Expression]]:
    """Functions of fixed kinds, whose numbers are small constants half of the time: places in a text, days, months."""
    small = st.one_of(st.integers(-2, 13).map(Literal), expressions(Kind.INT, depth=depth))
    return [
        st.builds(
            Apply,
            st.just(name),
            st.tuples(*(small if k is Kind.INT else expressions(k, depth=depth) for k in f.wanted)),
        )
        for name, f in FIXED.items()
        if f.result is kind
    ]


def _any_kind(kind: Kind, depth: int) -> list[st.SearchStrategy[Expression]]:
    """Nodes that pass their operands through; numbers of both kinds may meet where the result is REAL."""
    conditions, same = expressions(Kind.BOOL, depth=depth), expressions(kind, depth=depth)
    mixed = st.one_of(same, expressions(Kind.INT, depth=depth)) if kind is Kind.REAL else same
    otherwise = st.one_of(mixed, st.just(Literal(None)))
    return [
        _calls("COALESCE LEAST GREATEST", same, mixed),
        _calls("NULLIF", same, mixed),
        st.builds(CaseWhen, st.tuples(st.tuples(conditions, same)), otherwise),
        st.one_of(_applied(kind, depth)),
    ]


def _int_nodes(depth: int) -> list[st.SearchStrategy[Expression]]:
    same = expressions(Kind.INT, depth=depth)
    return [
        _arithmetic("+ - * // %", same, same),
        _calls("ABS SIGN ROUND -", same),
        st.builds(Cast, st.one_of(_numbers(depth), expressions(Kind.BOOL, depth=depth)), st.just(Kind.INT)),
    ]


def _real_nodes(depth: int) -> list[st.SearchStrategy[Expression]]:
    same, numbers = expressions(Kind.REAL, depth=depth), _numbers(depth)
    return [
        _arithmetic("+ - * / %", same, numbers),
        _arithmetic("+ - * / %", numbers, same),
        _arithmetic("/", numbers, numbers),
        _calls("FLOOR CEIL SQRT", numbers),
        _calls("ABS ROUND -", same),
        st.builds(Cast, numbers, st.just(Kind.REAL)),
    ]


def _bool_nodes(depth: int) -> list[st.SearchStrategy[Expression]]:
    same, numbers, text = (expressions(Kind.BOOL, depth=depth), _numbers(depth), expressions(Kind.TEXT, depth=depth))
    compare = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
    options = st.lists(st.one_of(_constants(Kind.INT), st.just(Literal(None))), min_size=1, max_size=3).map(tuple)
    return [
        st.builds(Compare, compare, numbers, numbers),
        st.builds(Compare, compare, text, text),
        st.builds(Between, numbers, numbers, numbers),
        st.builds(In, numbers, options),
        st.builds(And, same, same),
        st.builds(Or, same, same),
        st.builds(Not, same),
        st.builds(IsNull, st.one_of(same, numbers, text)),
    ]


_NODES: dict[Kind, Any] = {
    Kind.BOOL: _bool_nodes,
    Kind.INT: _int_nodes,
    Kind.REAL: _real_nodes,
    Kind.TEXT: lambda depth: [],
}


@cache
def _int_bounds() -> st.SearchStrategy[tuple[int, int]]:
    return st.sampled_from([(0, 10), (-3, 5), (2, 7), (-9, -4), (0, 1), (-1, 0), (-(1 << 40), 1 << 40)])


@cache
def _real_bounds() -> st.SearchStrategy[tuple[float, float]]:
    return st.sampled_from([(0, 10), (-1.5, 2.25), (0.1, 0.7), (-4.0, -0.5), (0.0, 1e6)])


@st.composite
def _keys(draw: st.DrawFn, columns: dict[str, Declared]) -> tuple[tuple[Expression, ...], tuple[Key, ...] | None]:
    """No keys; columns with declared values (in `columns` too); or columns and expressions without."""
    how = draw(st.sampled_from(["none", "declared", "declared", "private"]))
    if how == "declared":
        names = draw(st.lists(st.sampled_from(list(_DOMAINS)), min_size=1, max_size=2, unique=True))
        for name in names:
            columns[name] = ("values", draw(st.sampled_from(_DOMAINS[name])))
        return tuple(Column(n, SCHEMA[n]) for n in names), combinations(*(columns[n][1] for n in names))
    if how == "private":
        plain = st.sampled_from([Column(n, SCHEMA[n]) for n in ("region", "level", "flag", "w")])
        derived = st.sampled_from([Kind.TEXT, Kind.INT, Kind.BOOL]).flatmap(lambda k: _with_column(k))
        return tuple(draw(st.lists(st.one_of(plain, derived), min_size=1, max_size=2, unique=True))), None
    return (), None


@cache
def _with_column(kind: Kind) -> st.SearchStrategy[Expression]:
    """A key that is no constant: engines may refuse to group by one."""
    column = st.sampled_from([Column(n, k) for n, k in SCHEMA.items() if k in (Kind.INT, Kind.REAL) and n != UNIT])
    cut = st.builds(Compare, st.sampled_from(["<", ">="]), column, _constants(Kind.INT))
    if kind is Kind.BOOL:
        return st.one_of(cut, st.builds(IsNull, column))
    if kind is Kind.INT:
        return _arithmetic("% //", st.just(Column("level", Kind.INT)), st.sampled_from([Literal(2), Literal(3)]))
    return st.builds(CaseWhen, st.tuples(st.tuples(cut, st.just(Literal("low")))), st.just(Literal("high")))


_DOMAINS: dict[str, list[list[Value]]] = {
    "region": [["a", "b"], ["a", "b", None], ["é", "🎈", "a", ""], ["b"]],
    "level": [[1, 2], [1, 2, 3, None], [GREATEST_INT, 0]],
    "flag": [[True, False], [True, False, None]],
}


def _measures(columns: Mapping[str, Declared], unit: Column | None) -> st.SearchStrategy[Measure]:
    kinds = st.sampled_from([Kind.BOOL, Kind.INT, Kind.REAL, Kind.TEXT])
    counted = kinds.flatmap(lambda k: st.one_of(expressions(k, depth=0), expressions(k, depth=1)))
    choices: list[st.SearchStrategy[Measure]] = [
        st.just(Count()),
        counted.filter(lambda e: not isinstance(e, Literal)).map(CountOf),
        st.builds(lambda s: Sum(*s), _bounded(columns)),
        st.builds(lambda s: Mean(*s), _bounded(columns)),
    ]
    return st.one_of(*choices, *([st.just(CountUnits())] if unit is not None else []))


@st.composite
def _bounded(draw: st.DrawFn, columns: Mapping[str, Declared]) -> tuple[Expression, Fraction, Fraction]:
    """A number with bounds that follow from one column's in only one way, wherever it is clamped."""
    name = draw(st.sampled_from(["x", "v"]))
    _, a, b = columns[name]
    low, high = exact("low", a), exact("high", b)
    column = Column(name, SCHEMA[name])
    how = draw(st.sampled_from(["plain", "plain", "plus", "times", "case", "coalesce"]))
    step = draw(st.sampled_from([Literal(2), Literal(-1), Literal(0.5), Literal(-0.25)]))
    c = Fraction(step.value) if not isinstance(step.value, str | None) else Fraction(0)
    if how == "plus":
        return Arithmetic("+", column, step), low + c, high + c
    if how == "times":
        return Arithmetic("*", column, step), min(low * c, high * c), max(low * c, high * c)
    if how == "case":
        condition = draw(expressions(Kind.BOOL, depth=1))
        return CaseWhen(((condition, column),), Literal(None)), low, high
    if how == "coalesce":
        inside: Value = int(low) if SCHEMA[name] is Kind.INT else float(low)
        return Call("COALESCE", (column, Literal(inside))), low, high
    return column, low, high
