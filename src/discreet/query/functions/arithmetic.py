"""Numbers: arithmetic, rounding, binning, least and greatest.

Functions whose last bit depends on the machine's mathematical library: no declared key may pass through them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.functions.function import (
    EVERYTHING,
    Bound,
    Function,
    Interval,
    Signature,
    alike,
    exactly,
    numbers,
    template,
    unbounded,
)

_ONE_REAL: Signature = numbers(1, wanted=Type.REAL)
_TWO_REALS: Signature = numbers(2, wanted=Type.REAL)
Bounds: TypeAlias = Callable[[Sequence[Interval]], Interval]
_HALF_TURN = (-3.1415926535897936, 3.1415926535897936)  # a bit beyond π on either side, as a double may be


def _int_or_real(symbol: str) -> Callable[[Sequence[str], Sequence[Type]], str]:
    def sql(args: Sequence[str], types: Sequence[Type]) -> str:
        text = f"({args[0]} {symbol} {args[1]})"
        return f"TRY({text})" if types[0] is Type.INT else text  # 64-bit overflow is an error, hence NULL

    return sql


def _modulo_sql(args: Sequence[str], types: Sequence[Type]) -> str:
    a, b = args
    if types[0] is not Type.INT:
        return f"({a} % {b})"
    if b.strip("()").lstrip("-").isdecimal():
        return f"TRY({a} % {'1' if b.strip('()') == '-1' else b})"
    # −2^63 % −1 is an error in DuckDB 2.0.0 and 0 in 2.0.1; by 1 every whole number has the remainder 0
    return f"TRY({a} % CASE WHEN {b} = -1 THEN 1 ELSE {b} END)"


def _plus(i: Sequence[Interval]) -> Interval:
    return _sum(i[0][0], i[1][0], -math.inf), _sum(i[0][1], i[1][1], math.inf)


def _minus(i: Sequence[Interval]) -> Interval:
    return _plus([i[0], (-i[1][1], -i[1][0])])


def _times(i: Sequence[Interval]) -> Interval:
    ends = [_product(a, b) for a in i[0] for b in i[1]]
    return min(ends), max(ends)  # exact among fractions, of any size, and infinite floats


def _over(i: Sequence[Interval]) -> Interval:
    low, high = i[1]
    if low <= 0 <= high:
        return EVERYTHING
    return _times([i[0], (_inverse(high), _inverse(low))])


def _sum(a: Bound, b: Bound, undecided: float) -> Bound:
    total = a + b
    return undecided if total != total else total


def _product(a: Bound, b: Bound) -> Bound:
    return 0.0 if a == 0 or b == 0 else a * b


def _inverse(a: Bound) -> Bound:
    return 0.0 if math.isinf(a) else 1 / a


def _absolute(i: Sequence[Interval]) -> Interval:
    low, high = i[0]
    if low >= 0:
        return low, high
    if high <= 0:
        return -high, -low
    return 0, (-low if -low > high else high)


def rising(f: Callable[[float], float], least: float = -math.inf) -> Callable[[Sequence[Interval]], Interval]:
    """Return the image of an interval under a nondecreasing function defined from `least` up."""

    def bounds(i: Sequence[Interval]) -> Interval:
        low, high = i[0]
        if high < least:
            return EVERYTHING  # every value is an error, hence NULL: anything bounds it
        return _end(f, max(float(low), least), -math.inf), _end(f, float(high), math.inf)

    return bounds


def _end(f: Callable[[float], float], x: float, otherwise: float) -> Bound:
    try:
        return f(x) if not math.isinf(x) else otherwise
    except (ValueError, OverflowError):
        return otherwise


def _divide(a: float, b: float) -> float | None:
    return a / b if b else None


def _whole_divide(a: int, b: int) -> int | None:
    if not b:
        return None
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _two_wholes(types: Sequence[Type | None]) -> tuple[list[Type], Type] | None:
    """Whole numbers alone: what `//` makes of doubles is another thing in another database."""
    return numbers(2)(types) if all(t in (Type.INT, None) for t in types) else None


def _remainder(a: float, b: float) -> float | None:
    if not b:
        return None
    if isinstance(a, int) and isinstance(b, int):
        r = abs(a) % abs(b)
        return r if a >= 0 else -r
    return math.fmod(a, b)


def _round(x: float, digits: int = 0) -> float:
    """Half away from zero, as SQL rounds."""
    if not -(1 << 31) <= digits < 1 << 31:
        raise OverflowError
    if isinstance(x, int):
        size: int = 10 ** min(max(-digits, 0), 20)
        rounded = (2 * abs(x) + size) // (2 * size) * size
        return -rounded if x < 0 else rounded
    if abs(digits) > 308:
        return x if digits > 0 else 0.0
    scale = math.pow(10.0, abs(digits))  # as the database computes it: 10²³ is not the nearest number then
    y = abs(x) * scale if digits >= 0 else abs(x) / scale
    if math.isinf(y):
        return x
    whole = math.floor(y)
    whole += y - whole >= 0.5
    return math.copysign(whole / scale if digits >= 0 else whole * scale, x)


def _sign(a: float) -> int:
    return int(a > 0) - int(a < 0)


def _extreme(name: str, pick: Callable[..., Any]) -> Function:
    def sql(args: Sequence[str], _types: Sequence[Type]) -> str:
        return f"{name}({', '.join(args)})"

    def value(*args: Any) -> Any:
        return pick((a for a in args if a is not None), default=None)

    def bounds(i: Sequence[Interval]) -> Interval:
        return pick(x[0] for x in i), pick(x[1] for x in i)

    return Function(name, alike, sql, value, bounds, takes_null=True)


def _round_signature(types: Sequence[Type | None]) -> tuple[list[Type], Type] | None:
    if len(types) == 1:
        return numbers(1)(types)
    found = numbers(1)(types[:1])
    if len(types) != 2 or found is None or types[1] is not Type.INT:
        return None
    return [*found[0], Type.INT], found[1]


def _round_sql(args: Sequence[str], types: Sequence[Type]) -> str:
    if len(args) == 1:
        return f"TRY(round({args[0]}))"
    # a plain cast could fail too, and the database may compute it outside the TRY; more than 32 bits of digits is NULL
    return f"TRY(round({args[0]}, TRY_CAST({args[1]} AS INTEGER)))"


def _round_bounds(i: Sequence[Interval]) -> Interval:
    digits = float(i[1][0]) if len(i) == 2 else 0.0
    if not (math.isfinite(digits) and abs(digits) < 300):
        return EVERYTHING
    half = 0.5 * 10.0**-digits
    return i[0][0] - half, i[0][1] + half


def _floor(x: float) -> float:
    return math.copysign(math.floor(x), x)  # −0.0 is written so in text


def _ceil(x: float) -> float:
    return math.copysign(math.ceil(x), x)


def _cut(x: float) -> float:
    return x if isinstance(x, int) else math.copysign(math.trunc(x), x)


def _bucket(x: float, low: float, high: float, n: int) -> int:
    """0 below, n + 1 from `high` on, and the place among n equal parts between: the same steps as in SQL."""
    if x < low:
        return 0
    return n + 1 if x >= high else 1 + min(math.floor((x - low) / (high - low) * n), n - 1)


def _bucket_sql(args: Sequence[str], _types: Sequence[Type]) -> str:
    x, low, high, n = args
    place = f"TRY_CAST(floor(({x} - {low}) / ({high} - {low}) * {n}) AS BIGINT)"
    return (
        f"CASE WHEN {x} < {low} THEN 0 WHEN {x} >= {high} THEN {n} + 1 "
        f"WHEN {x} IS NOT NULL THEN 1 + least({place}, {n} - 1) END"
    )


def _bucket_bounds(i: Sequence[Interval]) -> Interval:
    low, high, n = float(i[1][0]), float(i[2][0]), int(i[3][0])
    least, most = (float(end) for end in i[0])
    return (0 if least < low else _bucket(least, low, high, n), n + 1 if most >= high else _bucket(most, low, high, n))


def _check_buckets(low: float | None, high: float | None, n: int | None) -> None:
    if low is None or high is None or n is None or not low < high or math.isinf(high - low):
        raise UnsupportedQuery(
            "WIDTH_BUCKET needs a lower end below the upper one.", hint="width_bucket(x, 0, 100, 10)"
        )
    if not 1 <= n <= _MOST_BUCKETS:
        raise UnsupportedQuery(f"WIDTH_BUCKET needs 1 to {_MOST_BUCKETS} buckets.", hint="width_bucket(x, 0, 100, 10)")


_MOST_BUCKETS = 1_000_000

ARITHMETIC = (
    Function("+", numbers(2), _int_or_real("+"), lambda a, b: a + b, _plus, fragile=True, stubborn=True),
    Function("-", numbers(2), _int_or_real("-"), lambda a, b: a - b, _minus, fragile=True, stubborn=True),
    Function("*", numbers(2), _int_or_real("*"), lambda a, b: a * b, _times, fragile=True, stubborn=True),
    Function("/", _TWO_REALS, template("({0} / {1})"), _divide, _over, fragile=True),
    Function("//", _two_wholes, template("TRY({0} // {1})"), _whole_divide, unbounded),
    Function("%", numbers(2), _modulo_sql, _remainder, unbounded, fragile=True),
    Function(
        "neg",
        numbers(1),
        template("TRY(-({0}))"),
        lambda a: -a,
        lambda i: (-i[0][1], -i[0][0]),
        fragile=True,
        stubborn=True,
    ),
    Function("abs", numbers(1), template("TRY(abs({0}))"), abs, _absolute, fragile=True, stubborn=True),
    Function("floor", _ONE_REAL, template("floor({0})"), _floor, rising(math.floor)),
    Function("ceil", _ONE_REAL, template("ceil({0})"), _ceil, rising(math.ceil)),
    Function("trunc", numbers(1), template("trunc({0})"), _cut, rising(_cut)),
    Function("round", _round_signature, _round_sql, _round, _round_bounds, fragile=True),
    Function("sign", numbers(1, result=Type.INT), template("TRY(CAST(sign({0}) AS BIGINT))"), _sign, lambda i: (-1, 1)),
    Function("sqrt", _ONE_REAL, template("TRY(sqrt({0}))"), math.sqrt, rising(math.sqrt, 0.0), fragile=True),
    Function("radians", _ONE_REAL, template("radians({0})"), math.radians, rising(math.radians), fragile=True),
    Function("degrees", _ONE_REAL, template("degrees({0})"), math.degrees, rising(math.degrees), fragile=True),
    Function(
        "width_bucket",
        exactly([Type.REAL, Type.REAL, Type.REAL, Type.INT], Type.INT),
        _bucket_sql,
        _bucket,
        _bucket_bounds,
        constants=(1, 2, 3),
        check=_check_buckets,
    ),
    _extreme("least", min),
    _extreme("greatest", max),
)


def _log(base: float, x: float) -> float | None:
    """Return the decimal logarithms' ratio; to base 0 it is −0.0, as that of 0 is −∞."""
    if base < 0 or x < 0:
        return None
    below, above = (math.log10(y) if y else -math.inf for y in (base, x))
    return above / below if below else None


def _inexact(
    name: str, sql: str, value: Callable[..., Any], bounds: Bounds, signature: Signature = _ONE_REAL
) -> Function:
    """Return a function whose last bit depends on the machine's mathematical library."""
    return Function(name, signature, template(f"TRY({sql})"), value, bounds, fragile=True, inexact=True)


TRANSCENDENTAL = (
    _inexact("ln", "ln({0})", math.log, rising(math.log, 0.0)),
    _inexact("log10", "log10({0})", math.log10, rising(math.log10, 0.0)),
    _inexact("log", "log({0}, {1})", _log, unbounded, _TWO_REALS),
    _inexact("exp", "exp({0})", math.exp, rising(math.exp)),
    _inexact("power", "pow({0}, {1})", math.pow, unbounded, _TWO_REALS),
    _inexact("cbrt", "cbrt({0})", math.cbrt, rising(math.cbrt)),
    _inexact("sin", "sin({0})", math.sin, lambda _: (-1, 1)),
    _inexact("cos", "cos({0})", math.cos, lambda _: (-1, 1)),
    _inexact("tan", "tan({0})", math.tan, unbounded),
    _inexact("asin", "asin({0})", math.asin, lambda _: _HALF_TURN),
    _inexact("acos", "acos({0})", math.acos, lambda _: _HALF_TURN),
    _inexact("atan", "atan({0})", math.atan, rising(math.atan)),
    _inexact("atan2", "atan2({0}, {1})", math.atan2, lambda _: _HALF_TURN, _TWO_REALS),
)
