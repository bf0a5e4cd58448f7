"""Row-level expressions of the reference: small typed trees with one meaning on every row.

An expression is total: an error on a row, a NaN or an infinity is NULL at the very node where it arises, so
that `COALESCE(1 / 0, 7)` is 7. Integers have 64 bits, every other number is a double. Kinds are checked when
a tree is built.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, TypeAlias

from discreet.errors import InvalidParameter
from tests.reference.values import ARITHMETIC, NUMERIC, Kind, Value, arithmetic, common, fit, half_away

Row: TypeAlias = Mapping[str, Value]


class Expression(ABC):
    """A typed tree that has a value on each row."""

    __slots__ = ()

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What its values are."""

    @abstractmethod
    def at(self, row: Row) -> Value:
        """Its value on a row."""


@dataclass(frozen=True, slots=True)
class Column(Expression):
    """A column of a pinned kind; a cell that does not fit it is NULL."""

    name: str
    of: Kind

    @property
    def kind(self) -> Kind:
        return self.of

    def at(self, row: Row) -> Value:
        return fit(row[self.name], self.of)


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A constant. A Python float is a double, also when SQL writes it as a decimal."""

    value: Value

    @property
    def kind(self) -> Kind:
        return Kind.NULL if self.value is None else _KIND_OF[type(self.value)]

    def at(self, row: Row) -> Value:
        return fit(self.value, self.kind)


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """`left op right` with op one of + − * / // %; // is of integers."""

    op: str
    left: Expression
    right: Expression

    def __post_init__(self) -> None:
        if self.op not in ARITHMETIC:
            raise InvalidParameter(f"op must be a known operation, not {self.op!r}.")
        _numeric(self.op, self.left, self.right)
        if self.op == "//" and Kind.REAL in (self.left.kind, self.right.kind):
            raise TypeError("// is of integers")

    @property
    def kind(self) -> Kind:
        return Kind.REAL if self.op == "/" else common((self.left.kind, self.right.kind))

    def at(self, row: Row) -> Value:
        return arithmetic(self.op, self.left.at(row), self.right.at(row), self.kind)


@dataclass(frozen=True, slots=True)
class Compare(Expression):
    """`left op right` with op one of = <> < <= > >=; NULL when a side is."""

    op: str
    left: Expression
    right: Expression

    def __post_init__(self) -> None:
        if self.op not in _COMPARE:
            raise InvalidParameter(f"op must be a known comparison, not {self.op!r}.")
        common((self.left.kind, self.right.kind))

    @property
    def kind(self) -> Kind:
        return Kind.BOOL

    def at(self, row: Row) -> Value:
        x, y = _together(row, self.left, self.right)
        return None if x is None or y is None else bool(_COMPARE[self.op](x, y))


@dataclass(frozen=True, slots=True)
class And(Expression):
    """False when a side is false, else NULL when a side is NULL."""

    left: Expression
    right: Expression

    def __post_init__(self) -> None:
        _boolean("AND", self.left, self.right)

    @property
    def kind(self) -> Kind:
        return Kind.BOOL

    def at(self, row: Row) -> Value:
        sides = self.left.at(row), self.right.at(row)
        return False if False in sides else None if None in sides else True


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """True when a side is true, else NULL when a side is NULL."""

    left: Expression
    right: Expression

    def __post_init__(self) -> None:
        _boolean("OR", self.left, self.right)

    @property
    def kind(self) -> Kind:
        return Kind.BOOL

    def at(self, row: Row) -> Value:
        sides = self.left.at(row), self.right.at(row)
        return True if True in sides else None if None in sides else False


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """NOT; NULL stays NULL."""

    operand: Expression

    def __post_init__(self) -> None:
        _boolean("NOT", self.operand)

    @property
    def kind(self) -> Kind:
        return Kind.BOOL

    def at(self, row: Row) -> Value:
        x = self.operand.at(row)
        return None if x is None else not x


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    """IS NULL, which is never NULL itself. NaN is NULL."""

    operand: Expression

    @property
    def kind(self) -> Kind:
        return Kind.BOOL

    def at(self, row: Row) -> Value:
        return self.operand.at(row) is None


@dataclass(frozen=True, slots=True)
class In(Expression):
    """`operand IN (options)`: an OR of equalities."""

    operand: Expression
    options: tuple[Expression, ...]

    def __post_init__(self) -> None:
        common((self.operand.kind, *(o.kind for o in self.options)))

    @property
    def kind(self) -> Kind:
        return Kind.BOOL

    def at(self, row: Row) -> Value:
        x, *options = _together(row, self.operand, *self.options)
        if x is None:
            return None
        return True if x in [o for o in options if o is not None] else None if None in options else False


@dataclass(frozen=True, slots=True)
class Between(Expression):
    """`operand BETWEEN low AND high`: an AND of two comparisons."""

    operand: Expression
    low: Expression
    high: Expression

    def __post_init__(self) -> None:
        common((self.operand.kind, self.low.kind, self.high.kind))

    @property
    def kind(self) -> Kind:
        return Kind.BOOL

    def at(self, row: Row) -> Value:
        x, low, high = (Literal(v) for v in _together(row, self.operand, self.low, self.high))
        return And(Compare(">=", x, low), Compare("<=", x, high)).at(row)


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """CASE WHEN … THEN … ELSE … END: the first branch whose condition is true."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression

    def __post_init__(self) -> None:
        _boolean("CASE WHEN", *(condition for condition, _ in self.branches))
        common(self._kinds)

    @property
    def _kinds(self) -> tuple[Kind, ...]:
        return (*(value.kind for _, value in self.branches), self.otherwise.kind)

    @property
    def kind(self) -> Kind:
        return common(self._kinds)

    def at(self, row: Row) -> Value:
        chosen = next((v for condition, v in self.branches if condition.at(row) is True), self.otherwise)
        return fit(chosen.at(row), self.kind)


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A function of the table `FUNCTIONS`; `-` is the sign."""

    name: str
    operands: tuple[Expression, ...]

    def __post_init__(self) -> None:
        if self.name not in FUNCTIONS:
            raise InvalidParameter(f"name must be one of FUNCTIONS, not {self.name!r}.")
        common(o.kind for o in self.operands)
        if self.name in _NUMERIC_FUNCTIONS:
            (operand,) = self.operands
            _numeric(self.name, operand)

    @property
    def kind(self) -> Kind:
        if self.name in ("FLOOR", "CEIL", "SQRT", "LN"):
            return Kind.REAL
        if self.name == "SIGN":
            return Kind.INT
        if self.name == "NULLIF":
            return self.operands[0].kind
        return common(o.kind for o in self.operands)

    def at(self, row: Row) -> Value:
        values = _together(row, *self.operands)
        if self.name in _NUMERIC_FUNCTIONS and values[0] is None:
            return None
        result = FUNCTIONS[self.name](*values)
        if self.name == "NULLIF" and result is not None:
            return self.operands[0].at(row)  # compared in the common kind, returned in its own
        return fit(result, self.kind)


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """CAST among numbers and Booleans; a real goes to the nearest integer, halves to even."""

    operand: Expression
    to: Kind

    def __post_init__(self) -> None:
        if Kind.TEXT in (self.operand.kind, self.to):
            raise TypeError("casts from and to text are no part of the reference")

    @property
    def kind(self) -> Kind:
        return self.to

    def at(self, row: Row) -> Value:
        x = self.operand.at(row)
        if x is None or isinstance(x, str):
            return None
        if self.to is Kind.BOOL:
            return bool(x)
        return fit(round(x) if self.to is Kind.INT else float(x), self.to)


_KIND_OF: dict[type, Kind] = {bool: Kind.BOOL, int: Kind.INT, float: Kind.REAL, str: Kind.TEXT}

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda x, y: x == y,
    "<>": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


def _round(x: int | float) -> int | float:
    return x if isinstance(x, int) else float(half_away(Fraction(x)))


FUNCTIONS: MappingProxyType[str, Callable[..., Value]] = MappingProxyType(
    {
        "COALESCE": lambda *xs: next((x for x in xs if x is not None), None),
        "NULLIF": lambda x, y: None if x == y else x,
        "LEAST": lambda *xs: min((x for x in xs if x is not None), default=None),
        "GREATEST": lambda *xs: max((x for x in xs if x is not None), default=None),
        "-": lambda x: -x,
        "ABS": abs,
        "FLOOR": math.floor,
        "CEIL": math.ceil,
        "ROUND": _round,
        "SIGN": lambda x: (x > 0) - (x < 0),
        "SQRT": lambda x: math.sqrt(x) if x >= 0 else None,
        "LN": lambda x: math.log(float(x)) if x > 0 else None,
    }
)
"""What each function does with values of the common kind. LEAST and GREATEST pass over NULL."""

_NUMERIC_FUNCTIONS = frozenset(FUNCTIONS) - {"COALESCE", "NULLIF", "LEAST", "GREATEST"}


def _together(row: Row, *operands: Expression) -> list[Value]:
    """The operands' values, all in their common kind: an integer beside a double becomes a double first."""
    kind = common(o.kind for o in operands)
    return [fit(o.at(row), kind) for o in operands]


def _numeric(what: str, *operands: Expression) -> None:
    if not all(o.kind in NUMERIC for o in operands):
        raise TypeError(f"{what} wants numbers, not {[o.kind.value for o in operands]}")


def _boolean(what: str, *operands: Expression) -> None:
    if not all(o.kind in (Kind.BOOL, Kind.NULL) for o in operands):
        raise TypeError(f"{what} wants truth values, not {[o.kind.value for o in operands]}")
