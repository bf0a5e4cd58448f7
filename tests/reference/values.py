"""The scalars of the reference: four kinds of value, NULL, and total arithmetic on them as DuckDB does it.

Nothing here raises for a value: what DuckDB answers with an error, NaN or an infinity is NULL (None).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import TypeAlias

Value: TypeAlias = bool | int | float | str | None
"""A cell or the value of an expression; None is NULL."""

LEAST_INT, GREATEST_INT = -(1 << 63), (1 << 63) - 1


class Kind(Enum):
    """What a column or an expression holds. NULL is the kind of the bare literal NULL."""

    BOOL = "BOOLEAN"
    INT = "BIGINT"
    REAL = "DOUBLE"
    TEXT = "VARCHAR"
    NULL = "NULL"


NUMERIC = frozenset({Kind.INT, Kind.REAL, Kind.NULL})


def fit(value: object, kind: Kind) -> Value:
    """The value as one of that kind; NULL when it does not: another type, beyond 64 bits, NaN or infinite.

    >>> fit(3, Kind.REAL), fit(-0.0, Kind.REAL), fit(float("nan"), Kind.REAL), fit(2**63, Kind.INT)
    (3.0, 0.0, None, None)
    """
    match kind, value:
        case Kind.BOOL, bool():
            return value
        case Kind.INT, int() if not isinstance(value, bool):
            return value if LEAST_INT <= value <= GREATEST_INT else None
        case Kind.REAL, int() | float() if not isinstance(value, bool):
            return _real(value)
        case Kind.TEXT, str():
            return value
    return None


def common(kinds: Iterable[Kind]) -> Kind:
    """The kind to which values are brought before they are compared or returned from branches.

    >>> common([Kind.INT, Kind.NULL, Kind.REAL])
    <Kind.REAL: 'DOUBLE'>

    Raises:
        TypeError: kinds that have nothing in common.
    """
    seen = set(kinds) - {Kind.NULL}
    if not seen:
        return Kind.NULL
    if seen == {Kind.INT, Kind.REAL}:
        return Kind.REAL
    if len(seen) > 1:
        raise TypeError(f"kinds do not mix: {sorted(k.value for k in seen)}")
    return seen.pop()


def rank(value: Value) -> tuple[bool, bool | int | float | str]:
    """A sort key within one kind: text by code points, NULL last."""
    return (value is None, 0 if value is None else value)


def add(x: int | float, y: int | float) -> int | float:
    return x + y


def subtract(x: int | float, y: int | float) -> int | float:
    return x - y


def multiply(x: int | float, y: int | float) -> int | float:
    return x * y


def divide(x: int | float, y: int | float) -> float | None:
    """`/`: always the division of doubles."""
    return float(x) / float(y) if y else None


def whole_divide(x: int | float, y: int | float) -> int | None:
    """`//`: truncates toward zero, of integers alone."""
    assert isinstance(x, int) and isinstance(y, int)
    return _toward_zero(x, y) if y else None


def remainder(x: int | float, y: int | float) -> int | float | None:
    """`%`: the sign of the dividend. −2⁶³ % −1 is 0, though its quotient overflows."""
    if not y:
        return None
    if isinstance(x, float) or isinstance(y, float):
        return math.fmod(x, y)
    return 0 if y == -1 else x - y * (_toward_zero(x, y) or 0)


ARITHMETIC: MappingProxyType[str, Callable[[int | float, int | float], int | float | None]] = MappingProxyType(
    {"+": add, "-": subtract, "*": multiply, "/": divide, "//": whole_divide, "%": remainder}
)


def arithmetic(op: str, x: Value, y: Value, kind: Kind) -> Value:
    """The result, of that kind; NULL when an operand is NULL or the result does not exist or does not fit."""
    if x is None or y is None:
        return None
    assert not isinstance(x, str) and not isinstance(y, str)
    try:
        return fit(ARITHMETIC[op](x, y), kind)
    except OverflowError:
        return None


def half_away(x: Fraction) -> int:
    """The nearest integer; halves go away from zero, as in SQL's ROUND.

    >>> [half_away(Fraction(n, 2)) for n in (-3, -1, 1, 3)]
    [-2, -1, 1, 2]
    """
    nearest = math.floor(abs(x) + Fraction(1, 2))
    return nearest if x >= 0 else -nearest


def toward_zero(x: Fraction) -> int:
    """The integer part.

    >>> toward_zero(Fraction(-7, 2))
    -3
    """
    return _toward_zero(x.numerator, x.denominator)


def _toward_zero(x: int, y: int) -> int:
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


def _real(value: int | float) -> float | None:
    try:
        x = float(value) + 0.0  # −0.0 + 0.0 is 0.0
    except OverflowError:
        return None
    return x if math.isfinite(x) else None
