"""Expressions that the database computes on every row without failing, whatever its columns hold.

One row on which a function fails would fail the query, after the charge, and tell of itself. So what may fail stands
inside TRY, alone, over arguments that cannot; everything else is one of the forms below, over columns of known types.
Texts are held to a length: made anew in stage after stage, one person's text would use up the memory.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlglot import exp

from discreet.verify.kinds import NULL, Kind, is_real, kind_of, span_of, together
from discreet.verify.shapes import is_result, is_secret

ROWS = 40
"""There are fewer than 2^40 rows."""


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of an expression's values.

    Attributes:
        kind: as in `kinds`; None where it is not known.
        width: of whole numbers the bits, without the sign, that the type has at least in which the database computes;
            else 0.
        low, high: of whole numbers the least and the greatest.
    """

    kind: Kind
    width: int = 0
    low: int = 0
    high: int = 0


Columns: TypeAlias = Callable[[exp.Column], Value]


class MayFail(Exception):  # never leaves this package
    """What could fail on some row."""


def of_kind(kind: Kind) -> Value:
    """Return a value of which only the kind is known."""
    width = _WHOLES.get(kind or "", 0)
    return Value(kind, width, -(1 << width), (1 << width) - 1) if width else Value(kind)


def counted() -> Value:
    """Return a count of rows."""
    return Value("BIGINT", 63, 0, 1 << ROWS)


def one_of(values: Sequence[Value]) -> Value:
    """Return a value that is any one of these.

    Raises:
        MayFail: they are of different types, so that some of them would be cast.
    """
    kind = together([v.kind for v in values])
    if kind is None or any(v.kind is None for v in values):
        raise MayFail("values of two types for one")
    known = [v for v in values if v.kind != NULL]
    if not known or not all(v.width for v in known):
        return Value(kind)
    return Value(kind, max(v.width for v in known), min(v.low for v in known), max(v.high for v in known))


class TotalityChecker:
    """Reads expressions over columns of known types.

    Attributes:
        columns: what is known of a column.
        positive: the names of columns that are above 0 wherever the expression at hand is computed.
    """

    __slots__ = ("columns", "positive")

    def __init__(self, columns: Columns, positive: frozenset[str] = frozenset()) -> None:
        self.columns, self.positive = columns, positive

    def value(self, e: exp.Expr) -> Value:
        """Return what is known of the expression's values.

        Raises:
            MayFail: it is not known to have one on every row.
        """
        found = self._value(e)
        if not found.width or isinstance(e, exp.Column):
            return found
        low, high = span_of(e, frozenset())
        return Value(
            found.kind,
            found.width,
            found.low if math.isinf(low) else max(found.low, math.floor(low)),
            found.high if math.isinf(high) else min(found.high, math.ceil(high)),
        )

    def all(self, es: Sequence[exp.Expr | None]) -> list[Value]:
        """Return the values of those that are there."""
        return [self.value(e) for e in es if e is not None]

    def booleans(self, es: Sequence[exp.Expr | None]) -> None:
        """Read conditions, those that are there.

        Raises:
            MayFail: one may fail, or is no truth value.
        """
        if any(v.kind not in ("BOOLEAN", NULL) for v in self.all(es)):
            raise MayFail("a condition that is no truth value")

    def _value(self, e: exp.Expr) -> Value:
        _stays_short(e)
        match e:
            case exp.Column():
                return self.columns(e)
            case exp.Paren() | exp.Alias():
                return self.value(e.this)
            case exp.Literal():
                return _literal(e)
            case exp.Placeholder() if not is_secret(e) and not is_result(e):
                raise MayFail("a result of no known type")
            case exp.Null() | exp.Placeholder() | exp.Star():
                return Value(NULL)
            case exp.Boolean():
                return Value("BOOLEAN")
            case exp.Try():
                return self._attempted(e.this)
            case exp.TryCast():
                self.value(e.this)
                return _of_type(e)
            case exp.Cast():
                return self._cast(e)
            case exp.Neg() | exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.IntDiv() | exp.Mod():
                return self._computed(e)
            case exp.Case():
                return self._case(e)
            case exp.Coalesce():
                return one_of(self._chosen([e.this, *e.expressions]))
            case exp.Least() | exp.Greatest():
                return self._extreme(e)
            case exp.Nullif():
                first, second = self.all([e.this, e.expression])
                _comparable([first, second])
                return first
            case exp.And() | exp.Or() | exp.Not():
                self.booleans([e.this, e.args.get("expression")])
                return Value("BOOLEAN")
            case exp.Is():
                inner, told = self.value(e.this), e.expression
                if type(told) is not exp.Null and (
                    type(told) is not exp.Boolean or inner.kind not in ("BOOLEAN", NULL)
                ):
                    raise MayFail("a condition that is no truth value")
                return Value("BOOLEAN")
            case _:
                return self._function(e)

    def _function(self, e: exp.Expr) -> Value:
        kind, parts = type(e), self.all(_parts(e))
        if kind in _COMPARED and not e.args.get("query"):
            _comparable(parts)
            return Value("BOOLEAN")
        if kind is exp.Length and parts[0].kind in ("VARCHAR", NULL):
            return Value("BIGINT", 63, 0, _LONGEST)
        if kind in _OF_TEXT and all(v.kind in ("VARCHAR", NULL) for v in parts):
            return self._of_its_kind(e)
        if kind in _MATCHED and _is_text(e.expression) and all(v.kind is not None for v in parts):
            return self._of_its_kind(e)
        if kind in _OF_NUMBERS and all(map(_is_number, parts)) and not e.args.get("decimals"):
            return parts[0] if kind in _KEPT and parts[0].width else self._of_its_kind(e)
        if kind is exp.Abs and is_real(parts[0].kind):
            return parts[0]
        if kind is exp.Log and all(v.kind != NULL and _is_number(v) for v in parts) and _are_positive(e):
            return Value("DOUBLE")
        if kind is exp.ToDays and _is_short(parts[0]):
            return Value("INTERVAL")
        if isinstance(e, exp.Anonymous):
            return _named(e, parts)
        raise MayFail(f"{kind.__name__} outside of TRY")

    def _of_its_kind(self, e: exp.Expr) -> Value:
        if type(e) is exp.Sign:
            return Value("BIGINT", 7, -1, 1)
        found = of_kind(kind_of(e, lambda c: self.columns(c).kind))
        return replace(found, width=min(self._bits(e), found.width)) if found.width else found

    def _bits(self, e: exp.Expr) -> int:
        """How many bits the type of a whole number has at least, without the sign."""
        match e:
            case exp.Column():
                return self.columns(e).width
            case exp.Literal():
                return _literal(e).width
            case exp.Cast():
                return next((w for kind, (w, _) in _WIDTHS.items() if e.to.is_type(kind)), 0)
            case exp.Paren() | exp.Neg() | exp.Abs() | exp.Round() | exp.Trunc():
                return self._bits(e.this)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.IntDiv() | exp.Mod():
                return max(self._bits(e.this), self._bits(e.expression)) or 63  # of days
            case exp.Ascii() | exp.Unicode():
                return 31
            case exp.Length() | exp.StrPosition() | exp.DateDiff() | exp.Anonymous():
                return 63
            case _:
                return 7

    def _chosen(self, es: Sequence[exp.Expr]) -> list[Value]:
        """Return the values of expressions of which one is taken, or which are computed with each other."""
        values = self.all(es)
        _beside_reals(es, values)
        return values

    def _extreme(self, e: exp.Expr) -> Value:
        """LEAST and GREATEST pass over NULL: a constant, which is none, holds the result on its side."""
        es = [e.this, *e.expressions]
        values = self._chosen(es)
        found = one_of(values)
        sure = [v for part, v in zip(es, values, strict=True) if v.width and _is_constant(part)]
        if not found.width or not sure:
            return found
        if isinstance(e, exp.Least):
            return Value(found.kind, found.width, found.low, min(v.high for v in sure))
        return Value(found.kind, found.width, max(v.low for v in sure), found.high)

    def _attempted(self, e: exp.Expr) -> Value:
        """One operation that may fail, over arguments that cannot: the database may compute these elsewhere."""
        inner = e
        while isinstance(inner, exp.Paren | exp.Escape | exp.Neg) or (
            type(inner) is exp.Cast and not isinstance(inner.this, exp.Column | exp.Literal)
        ):
            inner = inner.this
        _stays_short(inner)
        self.all(_parts(inner))
        return self._of_its_kind(e)

    def _cast(self, e: exp.Cast) -> Value:
        target, inner = _told(e), self.value(e.this)
        if isinstance(e.this, exp.Literal) and e.this.is_string:
            return _written(e.this.name, target)
        if e.to.is_type(*_WIDTHS):
            return self._whole(e, inner)
        if inner.kind == NULL or (inner.kind is not None and target in ("VARCHAR", inner.kind)):
            return Value(target)
        if target == "DOUBLE" and (_is_number(inner) or inner.kind == _DECIMAL):
            return self._of_its_kind(e)
        raise MayFail("a cast outside of TRY")

    def _whole(self, e: exp.Cast, inner: Value) -> Value:
        """Return a cast to whole numbers, of what is known to be among them."""
        width, signed = next(w for kind, w in _WIDTHS.items() if e.to.is_type(kind))
        kind = "HUGEINT" if width > 64 else "BIGINT"
        low, high = inner.low, inner.high
        if is_real(inner.kind):
            ends = span_of(e.this, frozenset())
            if any(map(math.isinf, ends)):
                raise MayFail("a cast outside of TRY")
            low, high = math.floor(ends[0]), math.ceil(ends[1])
        elif inner.kind == "BOOLEAN":
            low, high = 0, 1
        elif not inner.width and inner.kind != NULL:
            raise MayFail("a cast outside of TRY")
        if not (-(1 << width) * signed <= low <= high < 1 << width):
            raise MayFail("a cast outside of TRY")
        return Value(kind, width, low, high) if signed else Value(None)  # which is not computed with

    def _computed(self, e: exp.Expr) -> Value:
        """Arithmetic on reals, which has a value always, and on whole numbers that cannot leave their type."""
        values = self._chosen([x for x in (e.this, e.args.get("expression")) if x is not None])
        one, other = values[0], values[-1]
        if type(e) is exp.Neg and one.kind == _DECIMAL:
            return one
        if not all(map(_is_number, values)):
            raise MayFail("arithmetic with what is no number")
        kind, width = self._of_its_kind(e).kind, max(one.width, other.width)
        real = any(is_real(v.kind) for v in values)
        if type(e) is exp.IntDiv or (type(e) is exp.Mod and not real):
            if real or not self._is_positive(e.expression, other):
                raise MayFail("a division by what may be 0")
            least = max(other.low, 1) if type(e) is exp.IntDiv else 1
            return Value(kind, width, *_divided(one, least))
        if type(e) is exp.Div or real:
            return Value(kind if is_real(kind) else "DOUBLE")
        ends = _ends(type(e), one, other)
        if min(ends) < -(1 << width) or max(ends) >= 1 << width:
            raise MayFail("arithmetic that may overflow")
        return Value(kind, width, min(ends), max(ends))

    def _is_positive(self, e: exp.Expr, value: Value) -> bool:
        named = isinstance(e, exp.Column) and not e.table and e.name in self.positive
        return bool(value.width) and (named or value.low >= 1)

    def _case(self, e: exp.Case) -> Value:
        ifs, default = e.args["ifs"], e.args.get("default")
        arms, reader = list[Value](), self
        if e.this is not None:
            _comparable(self.all([e.this, *(i.this for i in ifs)]))
        for arm in ifs:
            if e.this is None:
                reader.booleans([arm.this])
            arms.append(reader.value(arm.args["true"]))
            if e.this is None:
                reader = type(self)(self.columns, reader.positive | _above_zero_unless(arm.this))
        arms += reader.all([default])
        taken = [*(arm.args["true"] for arm in ifs), default]
        _beside_reals([x for x in taken if x is not None], arms)
        return one_of(arms)


def _stays_short(e: exp.Expr) -> None:
    if grows(e):
        raise MayFail("a text that may grow without bound")


def _named(e: exp.Anonymous, parts: Sequence[Value]) -> Value:
    """Return the functions that have no class of their own."""
    name = e.name.lower()
    if name == "hash":
        return Value(None)  # by which groups are ordered, and nothing else is made of it
    if name == "strlen" and parts[0].kind in ("VARCHAR", NULL):
        return of_kind("BIGINT")
    if name == "isfinite" and (is_real(parts[0].kind) or parts[0].kind in _TIMES):
        return Value("BOOLEAN")
    if name == "date_part" and _is_text(e.expressions[0]) and parts[1].kind in _TIMES:
        return of_kind("DOUBLE" if e.expressions[0].name == "epoch" else "BIGINT")
    if (name == "to_months" and _is_short(parts[0])) or (name == "to_microseconds" and parts[0].kind == "BIGINT"):
        return Value("INTERVAL")
    raise MayFail(f"{name} outside of TRY")


def _beside_reals(es: Sequence[exp.Expr], values: Sequence[Value]) -> None:
    """Beside a real, whole numbers become reals: the next ones, where they are none.

    Raises:
        MayFail: a bound of them would then be another than it is written.
    """
    if any(is_real(v.kind) for v in values):
        for e, v in zip(es, values, strict=True):
            if v.width and any(not math.isinf(x) and float(x) != x for x in span_of(e, frozenset())):
                raise MayFail("a whole number that no real is")


def _is_short(v: Value) -> bool:
    return bool(v.width) and -(1 << 31) <= v.low <= v.high < 1 << 31


def _are_positive(e: exp.Expr) -> bool:
    return all(span_of(p, frozenset())[0] > 0 for p in _parts(e))


def _ends(kind: type[exp.Expr], a: Value, b: Value) -> list[int]:
    """Where the sum, difference, product or negative of whole numbers lies at most."""
    if kind is exp.Neg:
        return [-a.low, -a.high]
    if kind is exp.Mul:
        return [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return [a.low + b.low, a.high + b.high] if kind is exp.Add else [a.low - b.high, a.high - b.low]


def _divided(a: Value, least: int) -> tuple[int, int]:
    """Where whole numbers lie when they are divided by `least` or more; what a division leaves lies where they do."""
    return min(a.low, 0), max(a.high // least if a.low >= 0 else a.high, 0)


def _above_zero_unless(condition: exp.Expr) -> frozenset[str]:
    """Return the column of `n <= c`, which is above 0 where this is false."""
    n = condition.this if type(condition) is exp.LTE else None
    if isinstance(n, exp.Column) and not n.table and _is_whole(condition.expression):
        return frozenset({n.name})
    return frozenset()


def _parts(e: exp.Expr) -> list[exp.Expr]:
    """Return the arguments of a function that are expressions, in order."""
    listed = [one for part in e.args.values() for one in (part if isinstance(part, list) else [part])]
    apart = exp.DataType | exp.Identifier | exp.Var
    return [one for one in listed if isinstance(one, exp.Expr) and not isinstance(one, apart)]


def _literal(e: exp.Literal) -> Value:
    if e.is_string:
        return Value("VARCHAR")
    n = int(e.name) if _is_whole(e) else 1 << 127
    width = next((w for w in (7, 15, 31, 63, 127) if n < 1 << w), 0)  # beside a narrow type it is one itself
    return Value("HUGEINT" if width == 127 else "BIGINT", width, n, n) if width else Value(_DECIMAL)


def _told(e: exp.Cast) -> Kind:
    """Return the kind of the type that a cast names."""
    if e.to.is_type(_KIND.DOUBLE):
        return "DOUBLE"
    return kind_of(exp.Cast(this=exp.Null(), to=e.to.copy()), lambda c: None)


def _of_type(e: exp.Cast) -> Value:
    """Any value of the type that a cast names."""
    found = _told(e)
    width, signed = next((w for kind, w in _WIDTHS.items() if e.to.is_type(kind)), (0, False))
    return Value(found, width, -(1 << width), (1 << width) - 1) if signed else of_kind(found)


def _written(text: str, target: Kind) -> Value:
    """Return a constant of a type that is written as text."""
    with suppress(ValueError):
        match target:
            case "VARCHAR":
                return Value(target)
            case "DATE":
                dt.date.fromisoformat(text)
                return Value(target)
            case "TIMESTAMP":
                dt.datetime.fromisoformat(text)
                return Value(target)
            case "DOUBLE":
                float(text)
                return Value(target)
    raise MayFail("a constant that is none of its type")


def _comparable(values: Sequence[Value]) -> None:
    """Values of one type, or numbers: no others are compared without a cast that may fail."""
    known = [v for v in values if v.kind != NULL]
    if any(v.kind is None or v.kind == _DECIMAL for v in known):
        raise MayFail("a comparison of unknown types")
    if len({"number" if _is_number(v) else v.kind for v in known}) > 1:
        raise MayFail("a comparison of two types")


def _is_number(v: Value) -> bool:
    return v.kind in _WHOLES or is_real(v.kind) or v.kind == NULL


def _is_constant(e: exp.Expr) -> bool:
    """Whether it is made of numbers that stand in the text, and so never NULL."""
    return all(type(node) in _CONSTANT for node in e.walk())


def _is_text(e: exp.Expr | None) -> bool:
    return isinstance(e, exp.Literal) and bool(e.is_string)


def _is_whole(e: exp.Expr) -> bool:
    return isinstance(e, exp.Literal) and not e.is_string and e.name.isdigit()


_KIND = exp.DataType.Type
_WIDTHS = {
    _KIND.TINYINT: (7, True),
    _KIND.SMALLINT: (15, True),
    _KIND.INT: (31, True),
    _KIND.BIGINT: (63, True),
    _KIND.INT128: (127, True),
    _KIND.UTINYINT: (8, False),
    _KIND.USMALLINT: (16, False),
    _KIND.UINT: (32, False),
    _KIND.UBIGINT: (64, False),
}
"""The bits of each type of whole numbers, without the sign, and whether it has one."""

_LONGEST = 1 << 32
"""Bytes that a text has at most."""

_WHOLES = {"BIGINT": 63, "HUGEINT": 127}
_DECIMAL = "DECIMAL"
_CONSTANT = frozenset({exp.Literal, exp.Cast, exp.DataType, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul})
_TIMES = ("DATE", "TIMESTAMP", NULL)
_COMPARED = frozenset({exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Between, exp.In})
_OF_TEXT = frozenset(
    {exp.Lower, exp.Upper, exp.Trim, exp.DPipe, exp.ConcatWs, exp.Contains, exp.StartsWith,
     exp.EndsWith, exp.Replace, exp.StrPosition, exp.Ascii, exp.Unicode}
)  # fmt: skip
_MATCHED = frozenset({exp.RegexpLike, exp.RegexpFullMatch, exp.RegexpExtract})
_KEPT = (exp.Round, exp.Trunc)
_OF_NUMBERS = frozenset({exp.Floor, exp.Ceil, exp.Round, exp.Trunc, exp.Sign, exp.Radians, exp.Degrees})


MOST = 1 << 16
"""Characters of a text that may be made of others, or be rewritten with longer parts."""

_FILLED = 1000
"""Characters to which a text may be filled up."""


def grows(e: exp.Expr) -> bool:
    """Whether the expression makes a text longer, and neither a guard nor its constants hold its length."""
    match e:
        case exp.DPipe():
            return not isinstance(e.parent, exp.DPipe) and not _holds(_guard_of(e), _of_all(e))
        case exp.ConcatWs():
            return not _holds(_guard_of(e), _of_parts(e))
        case exp.Replace() | exp.RegexpReplace():
            old, new = e.expression, e.args.get("replacement")
            if not isinstance(old, exp.Literal) or not isinstance(new, exp.Literal) or not old.name:
                return True
            place = len(old.name) if isinstance(e, exp.Replace) else 1  # a match is not empty
            most = MOST // max(-(-len(new.name) // place), 1)
            return not _holds(_guard_of(e), (_length(e.this), _whole(most)))
        case exp.Pad():
            size = e.expression
            while isinstance(size, exp.Cast):
                size = size.this
            return not isinstance(size, exp.Literal) or not size.name.isdigit() or int(size.name) > _FILLED
        case exp.Repeat() | exp.Space():
            return True
        case _:
            return False


def _guard_of(e: exp.Expr) -> exp.Expr | None:
    """Return the condition under which alone the expression is computed: CASE WHEN … THEN e."""
    inner, outer = e, e.parent
    while isinstance(outer, exp.Paren | exp.Try):
        inner, outer = outer, outer.parent
    if type(outer) is not exp.If or outer.args["true"] is not inner:
        return None
    case = outer.parent
    return outer.this if type(case) is exp.Case and case.this is None else None


def _holds(guard: exp.Expr | None, wanted: tuple[exp.Expr, exp.Expr]) -> bool:
    """Whether it says that the one is at most the other."""
    return type(guard) is exp.LTE and (guard.this, guard.expression) == wanted


def _of_all(e: exp.DPipe) -> tuple[exp.Expr, exp.Expr]:
    """Return the length of texts that follow each other, and the most that it may be."""
    return _sum([_length(p) for p in e.flatten(unnest=False)]), _whole(MOST)


def _of_parts(e: exp.ConcatWs) -> tuple[exp.Expr, exp.Expr]:
    """Return the same of texts with a separator between those that are not NULL, counted after the last one too."""
    separator, *parts = e.expressions
    each = [exp.Add(this=_length(p), expression=_length(separator)) for p in parts]
    counted = [exp.Coalesce(this=one, expressions=[_whole(0)]) for one in each]
    return _sum(counted), exp.Add(this=_whole(MOST), expression=_length(separator))


def _sum(terms: Sequence[exp.Expr]) -> exp.Expr:
    found = terms[0]
    for term in terms[1:]:
        found = exp.Add(this=found, expression=term)
    return found


def _length(e: exp.Expr) -> exp.Expr:
    return exp.Length(this=e.copy())


def _whole(n: int) -> exp.Expr:
    return exp.Literal.number(n)
