"""Whether a part of a query is surely a whole number, another number, a text or a time: what spellings differ on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never, Protocol

from sqlglot import exp

from discreet.catalog.schema import TableSchema
from discreet.catalog.types import Type
from discreet.query.bind import declared
from discreet.query.expr import Column

_REAL = (exp.Avg, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop, exp.Median, exp.Round,
         exp.Floor, exp.Ceil, exp.Trunc, exp.Sqrt, exp.Ln, exp.Log, exp.Exp, exp.Pow, exp.Sign, exp.Extract,
         exp.SafeDivide, exp.Corr, exp.CovarPop, exp.CovarSamp)  # fmt: skip
_INT = (exp.Count, exp.CountIf, exp.Length, exp.IntDiv, exp.Year, exp.Quarter, exp.Month, exp.Day, exp.DayOfMonth,
        exp.DayOfYear, exp.WeekOfYear, exp.DayOfWeek, exp.Hour, exp.Minute, exp.StrPosition)  # fmt: skip
_TEXT = (exp.Lower, exp.Upper, exp.Trim, exp.Substring, exp.Left, exp.Right, exp.Concat, exp.DPipe, exp.Replace)
_BOOL = (exp.Boolean, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.And, exp.Or, exp.Not, exp.Is, exp.In,
         exp.Between, exp.Like, exp.ILike, exp.LogicalOr, exp.LogicalAnd)  # fmt: skip
_KINDS = ((_REAL, Type.REAL), (_INT, Type.INT), (_TEXT, Type.TEXT), (_BOOL, Type.BOOL))
_TARGETS = {
    **dict.fromkeys(("INT", "BIGINT", "SMALLINT", "TINYINT"), Type.INT),
    **dict.fromkeys(("DOUBLE", "FLOAT", "DECIMAL"), Type.REAL),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR"), Type.TEXT),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"), Type.TIMESTAMP),
    "DATE": Type.DATE,
    "BOOLEAN": Type.BOOL,
}


class Kinds:
    """The kinds of a query's parts, as the other database sees them; None for what is not sure."""

    def __init__(self, dialect: str, tables: Sequence[TableSchema], tree: exp.Expr) -> None:
        self._whole_division = dialect == "postgres"
        self._columns: dict[str, set[Type | None]] = {}
        for table in tables:
            for name, kind in table.columns.items():
                seen = None if kind is None else declared(Column(name, kind), table.facts.get(name)).type
                self._columns.setdefault(name.lower(), set()).add(seen)
        self._outputs: dict[str, list[exp.Expr]] = {}
        for alias in tree.find_all(exp.Alias):
            self._outputs.setdefault(alias.alias.lower(), []).append(alias.this)

    def of(self, node: exp.Expr | None, depth: int = 0) -> Type | None:
        """Return the kind of a part; None where it is not sure."""
        if node is None or depth > 50:
            return None
        kind = self._leaf(node, depth)
        if kind is not None:
            return kind
        match node:
            case exp.Anonymous() if node.name.lower() == "dp_clamp":
                return self._number(node.expressions, depth)
            case (
                exp.Add() | exp.Sub() | exp.Mul() | exp.Mod() | exp.SafeAdd() | exp.SafeSubtract() | exp.SafeMultiply()
            ):
                return self._number([node.this, node.expression], depth)
            case exp.Div():
                both = self._number([node.this, node.expression], depth)
                return both if self._whole_division else Type.REAL
            case exp.DateAdd() | exp.DateSub() | exp.TsOrDsAdd() if self.of(node.this, depth + 1) is Type.TIMESTAMP:
                return Type.TIMESTAMP
            case exp.Neg() | exp.SafeNegate() | exp.SafeFunc() | exp.Abs() | exp.Paren() | exp.Min() | exp.Max():
                return self.of(node.this, depth + 1)
            case exp.Sum():  # of whole numbers it is one or not, after their width
                return Type.REAL if self.of(node.this, depth + 1) is Type.REAL else None
            case exp.Coalesce() | exp.Least() | exp.Greatest():
                return self._common([node.this, *node.expressions], depth)
            case exp.Case():
                arms = [arm.args["true"] for arm in node.args["ifs"]]
                return self._common([*arms, node.args.get("default")], depth)
            case exp.If():
                return self._common([node.args["true"], node.args.get("false")], depth)
            case _:
                return None

    def is_number(self, node: exp.Expr) -> bool:
        """Whether its values are numbers, whole or not."""
        inner = node.unnest()
        kinds = self._found(inner, 0) if isinstance(inner, exp.Column) else {self.of(inner)}
        return bool(kinds) and kinds <= {Type.INT, Type.REAL}

    def is_whole(self, node: exp.Expr) -> bool:
        """Whether its values are whole, so that no cast rounds them."""
        inner = node.unnest()
        match inner:
            case exp.Round():
                digits = inner.args.get("decimals")
                return digits is None or digits == exp.Literal.number(0)
            case exp.Floor() | exp.Ceil() | exp.Trunc():
                return True
        return self.of(inner) in (Type.INT, Type.BOOL)

    def _leaf(self, node: exp.Expr, depth: int) -> Type | None:
        match node:
            case exp.Column():
                return self._column(node, depth)
            case exp.Literal():
                return Type.TEXT if node.is_string else Type.INT if node.name.isdigit() else Type.REAL
            case exp.Cast():
                word = node.to.this.value if isinstance(node.to.this, exp.DataType.Type) else ""
                return _TARGETS.get(word)
            case exp.Date() | exp.TsOrDsToDate():
                return Type.DATE
            case exp.Timestamp() | exp.TimestampTrunc() | exp.DatetimeTrunc():
                return Type.TIMESTAMP
        return next((kind for types, kind in _KINDS if isinstance(node, types)), None)

    def _column(self, column: exp.Column, depth: int) -> Type | None:
        """One kind, if all that could have this name agree on it."""
        found = self._found(column, depth)
        return found.pop() if len(found) == 1 else None

    def _found(self, column: exp.Column, depth: int) -> set[Type | None]:
        """Return the kinds of all that could have this name."""
        name = column.name.lower()
        found = set(self._columns.get(name, ()))
        for e in self._outputs.get(name, ()):
            own = isinstance(e, exp.Column) and e.name.lower() == name
            if not own:
                found.add(self.of(e, depth + 10))
        return found

    def _number(self, parts: Sequence[exp.Expr | None], depth: int) -> Type | None:
        kinds = [self.of(p, depth + 1) for p in parts]
        if Type.REAL in kinds:
            return Type.REAL
        return Type.INT if kinds == [Type.INT] * len(kinds) else None

    def _common(self, parts: Sequence[exp.Expr | None], depth: int) -> Type | None:
        known = [p for p in parts if p is not None and not isinstance(p, exp.Null)]
        kinds = {self.of(p, depth + 1) for p in known}
        if kinds == {Type.INT, Type.REAL}:
            return Type.REAL
        return kinds.pop() if len(kinds) == 1 else None


class DialectQuery(Protocol):
    """A query of another dialect, as the rules that rewrite its nodes read it."""

    dialect: str
    kinds: Kinds

    def read(self, node: exp.Expr) -> exp.Expr: ...
    def rebuilt(self, node: exp.Expr) -> exp.Expr: ...
    def refuse(self, node: exp.Expr, why: str = "", hint: str = "") -> Never: ...
