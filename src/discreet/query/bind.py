"""From syntax to typed trees over the cells of a row: names resolved, types inferred, constants read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp, parse_one

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.errors import InvalidParameter, UnknownColumn, UnsupportedQuery
from discreet.privacy.unit import PrivacyUnit
from discreet.query.expr import Call, Column, Expr, Fed, Literal
from discreet.query.functions import FUNCTIONS, HINTS, fitting
from discreet.query.keys import JointKeys
from discreet.query.parse import is_aggregate, is_fed, word
from discreet.query.scope import Scope, as_stored
from discreet.query.syntax import function_of
from discreet.query.syntax.moments import microseconds_of

DEEPEST = 60
"""Levels of nesting in one expression."""


def bind_row(node: exp.Expr, scope: Scope) -> Expr:
    """Return an expression over the cells of a row.

    Raises:
        UnknownColumn, UnsupportedQuery: see `discreet.errors`.
    """

    def leaf(e: exp.Expr, depth: int) -> Expr | None:
        if isinstance(e, exp.Column):
            return scope.column(e)
        if is_aggregate(e):
            raise UnsupportedQuery(
                f"{word(e)} cannot stand here.", hint="aggregates belong in SELECT, HAVING and ORDER BY"
            )
        return scope.other(e)

    return bind(node, leaf, 0)


def as_condition(expr: Expr, clause: str) -> Expr:
    """Return the expression, if it is true or false."""
    if expr.type not in (Type.BOOL, None):
        raise UnsupportedQuery(
            f"{clause} needs a condition, not {expr.type.word}.", hint=f"write {clause} x > 0, for instance"
        )
    return expr


def call(name: str, args: Sequence[Expr]) -> Expr:
    """Return a function applied to arguments, with the casts that its signature asks for."""
    if name == "nullif" and len({a.type for a in args}) == 2:  # the value is the first's, whatever it is compared with
        return call("case", [call("=", args), Literal(None, None), args[0]])
    args = _beside(name, args)
    found = fitting(name, [a.type for a in args])
    if found is None and name == "in" and len(args) == 1:
        raise UnsupportedQuery("IN () is an empty list.", hint="write at least one value")
    if found is None:
        words = ", ".join(a.type.word if a.type else "NULL" for a in args)
        raise UnsupportedQuery(
            f"{name.upper()} does not take ({words}).", hint=HINTS.get(name, "CAST the argument to what it takes")
        )
    name, wanted, result = found
    coerced = tuple(coerce(a, w) for a, w in zip(args, wanted, strict=True))
    _check_constants(name, coerced)
    return Call(name, coerced, result)


def _beside(name: str, args: Sequence[Expr]) -> Sequence[Expr]:
    """Texts that are written out, read as DuckDB does: beside whole numbers as whole ones, beside dates as dates."""
    kinds = [a.type for a in args]
    texts = [a.is_literal and a.type is Type.TEXT for a in args]
    plain = fitting(name, kinds)
    whole = fitting(name, [Type.INT if text else kind for kind, text in zip(kinds, texts, strict=True)])
    read = list(args)
    for i in (i for i, text in enumerate(texts) if text):
        wanted = None if plain is None else plain[1][i]
        if Type.INT in kinds and wanted in (Type.REAL, None) and whole is not None and whole[1][i] is Type.INT:
            read[i] = coerce(args[i], Type.INT)
        elif Type.DATE in kinds and wanted is Type.TIMESTAMP and Type.TIMESTAMP not in kinds:
            read[i] = coerce(args[i], Type.DATE)
    return read


def _check_constants(name: str, args: Sequence[Expr]) -> None:
    """Places that want a written constant hold one, and one that fits."""
    function = FUNCTIONS[name]
    values = []
    for place in function.constants:
        if place < len(args):
            arg = args[place]
            if not isinstance(arg, Literal):
                raise UnsupportedQuery(
                    f"{name.upper()} needs a written constant in place {place + 1}.",
                    hint="write the value itself, not a column or an expression",
                )
            values.append(arg.value)
    if function.check is not None:
        function.check(*values)


def coerce(expr: Expr, wanted: Type) -> Expr:
    """Return the expression read as another type; a constant is converted now, so that a bad one is an error."""
    if expr.type is wanted:
        return expr
    if isinstance(expr, Literal):
        return _literal_as(expr, wanted)
    return Call(f"as {wanted.value.lower()}", (expr,), wanted)


def bind(node: exp.Expr, leaf: Callable[[exp.Expr, int], Expr | None], depth: int) -> Expr:
    """Return a tree whose leaves, and whatever else `leaf` knows, are read by `leaf`."""
    if depth > DEEPEST:
        raise UnsupportedQuery(f"An expression nests more than {DEEPEST} levels.", hint="write it flatter")
    if isinstance(node, exp.Paren):
        return bind(node.this, leaf, depth)
    found = leaf(node, depth) or _constant(node) or _negative(node) or _fed(node) or _elapsed(node, leaf, depth)
    if found is not None:
        return found
    if node.key in ("and", "or"):  # a list of conditions is as flat as it looks
        name, parts = node.key, list(node.flatten())
    else:
        name, parts = function_of(node)
    args = [bind(p, leaf, depth + 1) for p in parts]
    if name in ("and", "or"):  # a AND (b AND c) is one conjunction, in one order
        args = [b for a in args for b in a.args_of(name) or (a,)]
        args.sort(key=repr)
    if name == "neg" and isinstance(args[0], Literal) and isinstance(args[0].value, int | float):
        return _number(0 - args[0].value)  # −0.0 is 0, as it is of a decimal
    return call(name, args)


def _elapsed(node: exp.Expr, leaf: Callable[[exp.Expr, int], Expr | None], depth: int) -> Expr | None:
    """Return what is asked of the time between two times, which is no value of its own: its days or seconds, or whether
    it is longer than an INTERVAL.
    """
    match node:
        case exp.Anonymous(expressions=[part, between]) if node.name.lower() in ("date_part", "datepart"):
            node = exp.Extract(this=part, expression=between)
    match node:
        case exp.Extract(this=part, expression=between):
            word = part.name.lower().removesuffix("s")
            if word == "year" and between.name.lower() == "age" and len(between.expressions) == 2:
                later, earlier = (f"({e.sql('duckdb')})" for e in between.expressions)
                return bind(parse_one(_AGE.format(a=later, b=earlier), dialect="duckdb"), leaf, depth + 1)
            ends = _ends(between, leaf, depth) if word in ("epoch", "day") else None
            if ends is None:
                return None
            if word == "day":
                return call("sub_day", ends)
            return call("/", [call("sub_microsecond", ends), Literal(1_000_000, Type.INT)])
        case exp.GT() | exp.GTE() | exp.LT() | exp.LTE() | exp.EQ() | exp.NEQ():
            sides = [node.this, node.expression]
            lengths = [microseconds_of(side) for side in sides]
            if lengths == [None, None] or None not in lengths:
                return None
            ends = _ends(sides[lengths.index(None)], leaf, depth)
            if ends is None:
                return None
            both = [call("sub_microsecond", ends) if n is None else _number(n) for n in lengths]
            return call(function_of(node)[0], both)
        case _:
            return None


_DAY_OF_YEAR = "strftime(CAST({} AS TIMESTAMP), '%m%d%H%M%S%f')"
_A_DAY, _B_DAY = _DAY_OF_YEAR.format("{a}"), _DAY_OF_YEAR.format("{b}")
_AGE = (
    "CASE WHEN {a} >= {b} "
    f"THEN year({{a}}) - year({{b}}) - CASE WHEN {_A_DAY} < {_B_DAY} THEN 1 ELSE 0 END "
    f"ELSE year({{a}}) - year({{b}}) + CASE WHEN {_A_DAY} > {_B_DAY} THEN 1 ELSE 0 END END"
)
"""Whole years from one time to another, as EXTRACT(YEAR FROM AGE(a, b)) counts them."""


def _ends(node: exp.Expr, leaf: Callable[[exp.Expr, int], Expr | None], depth: int) -> list[Expr] | None:
    """Return the earlier and the later end of a difference of two times; None of anything else."""
    inner = node.unnest()
    if not isinstance(inner, exp.Sub) or any(isinstance(e.unnest(), exp.Interval) for e in inner.iter_expressions()):
        return None
    ends = [bind(e, leaf, depth + 2) for e in (inner.expression, inner.this)]
    kinds = {e.type for e in ends}
    return ends if Type.TIMESTAMP in kinds and kinds <= {Type.TIMESTAMP, Type.DATE} else None


@dataclass(frozen=True, slots=True)
class TableScope:
    """One table, under its name or an alias; `keys` are the columns that declared foreign keys lead to."""

    table: TableSchema
    alias: str
    keys: frozenset[str] = frozenset()

    @property
    def facts(self) -> Mapping[str, Fact]:
        return self.table.facts

    @property
    def capped(self) -> Mapping[str, Fact]:
        return {}

    @property
    def unit(self) -> PrivacyUnit:
        return self.table.unit

    def column(self, node: exp.Column) -> Expr:
        table = self.table
        named = (self.alias.lower(), table.name.lower())
        if node.args.get("db") or (node.table and node.table.lower() not in named):
            raise UnknownColumn(
                f"There is no table {node.table!r} in this query.", hint=f"the table here is {self.alias}"
            )
        name = table.find(node.name)
        kind = table.columns[name]
        if kind is None:
            raise UnsupportedQuery(
                f"The column {name!r} holds a nested or binary value, which cannot be asked about.",
                hint="store the part that you need in a column of its own",
            )
        return declared(Column(name, kind), table.facts.get(name))

    def knows(self, node: exp.Column) -> bool:
        return not node.table and any(name.lower() == node.name.lower() for name in self.table.columns)

    def is_unit(self, expr: Expr) -> bool:
        (column, *_) = expr.children or (expr,)
        return column.column is not None and column.column == self.table.unit.column

    def joint(self, keys: Sequence[Expr]) -> list[JointKeys]:
        table, listed = self.table, self.table.listed
        if listed is None:
            return []
        kinds = [(n, kind) for n in listed.columns if (kind := table.columns[n]) is not None]
        named = {declared(Column(n, kind), table.facts.get(n)): n for n, kind in kinds}
        places = tuple(p for p, e in enumerate(keys) if e in named)
        rows = listed.of([named[keys[p]] for p in places])
        return [JointKeys(places, rows, listed.some)] if len(places) > 1 else []

    def unit_key(self, expr: Expr) -> str | None:
        column, own = as_stored(expr).column, {self.table.unit.column, *self.keys}
        return column if column in own else None

    def other(self, node: exp.Expr) -> Expr | None:
        return None


def declared(column: Column, fact: Fact | None) -> Expr:
    """Return a column read as what its declaration says, where the stored type says less."""
    if fact is None:
        return column
    match fact, fact.type, column.type:
        case Range(), Type.REAL, Type.INT:
            return column
        case Range(), wanted, kind if wanted.is_moment and kind.is_moment:
            return column  # bounds of either bound the other
        case Values(), Type.INT, Type.REAL:
            return column
        case _:
            return coerce(column, fact.type)


def _constant(node: exp.Expr) -> Literal | None:
    match node:
        case exp.Null():
            return Literal(None, None)
        case exp.Boolean():
            return Literal(bool(node.this), Type.BOOL)
        case exp.Literal(is_string=True):
            return Literal(node.name, Type.TEXT)
        case exp.Literal():
            digits = node.name.isdigit() and len(node.name) < _LONGEST
            try:
                value = int(node.name) if digits else float(node.name)
            except ValueError:  # the parser reads 1e300+1 as one number
                raise UnsupportedQuery(
                    f"{node.name!r:.60} is not a number.", hint="put spaces around + and - after an exponent: 1e3 + 1"
                ) from None
            return _number(value)  # its refusal is a ValueError too
        case _:
            return None


_LONGEST = 400  # digits; more are no number that a double holds


def _fed(node: exp.Expr) -> Fed | None:
    match node:
        case exp.Anonymous(expressions=[exp.Literal(name=number), exp.Literal(name=kind)]) if is_fed(node):
            return Fed(int(number), Type(kind))
        case _:
            return None


def _negative(node: exp.Expr) -> Literal | None:
    """Return a negative whole number, read at once: 2^63 alone would not be one."""
    match node:
        case exp.Neg(this=exp.Literal(is_string=False, name=digits)) if digits.isdigit():
            return _number(-int(digits)) if len(digits) < _LONGEST else None
        case _:
            return None


def _number(value: int | float) -> Literal:
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return Literal(value, Type.INT)
    try:
        real = float(value)
    except OverflowError:
        real = float("inf")
    if real - real != 0:
        raise InvalidParameter("a number in the query is too large.", hint="numbers reach to about 1.8e308")
    return Literal(real, Type.REAL)


def _literal_as(literal: Literal, wanted: Type) -> Literal:
    value = literal.value
    if value is None:
        return Literal(None, wanted)
    rounds = wanted is Type.INT and not _WHOLE.fullmatch(str(value))
    reader = f"as {wanted.value.lower()}"
    if wanted is not Type.BOOL and not rounds and fitting(reader, [literal.type]):
        read = Call(reader, (literal,), wanted).of_row({})  # as a cell is read
        if read is not None:
            return Literal(read, wanted)
    raise UnsupportedQuery(
        f"The constant {value!r:.60} in the query cannot be read as {wanted.word}.",
        hint=f"it stands where {wanted.word} is wanted; write {_EXAMPLES[wanted]}",
    )


_WHOLE = re.compile("[ ]*[+-]?[0-9]+[ ]*")
_EXAMPLES = {
    Type.BOOL: "TRUE or FALSE",
    Type.INT: "42, or a number without quotes",
    Type.REAL: "1.5",
    Type.TEXT: "'text'",
    Type.DATE: "'2024-12-31'",
    Type.TIMESTAMP: "'2024-12-31 12:00:00'",
}
