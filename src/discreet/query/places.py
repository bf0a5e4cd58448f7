"""Conditions on a row's place in an order, read as the share of the rows at which they pick a value.

`nr = CEIL(0.25 * n)`, `nr IN (FLOOR((n + 1) / 2), CEIL((n + 1) / 2))` and `NTILE(4) … = 1` are functions of the place
and of the number of rows. They are tried for several numbers of rows: where the picked place is always beside share·n,
it is the quantile of that share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

from sqlglot import exp

Place: TypeAlias = Callable[[int, int], Any]
"""A value of the place of a row, from 1, and of the number of rows."""

_MANY = 200
"""Rows, from which number on one has to be picked; fewer have no place in some of that many buckets."""
_FEW = (5, 6, 7, 8, _MANY)
"""Numbers of rows of which all places are tried."""
_LARGE = tuple(10**5 + i for i in range(4))
"""Numbers of rows of which some places are tried."""


def place_of(window: exp.Window) -> Place | None:
    """Return what a window function over ordered rows says of a place; None where it says anything else."""
    match window.this:
        case exp.RowNumber():
            return lambda place, _: place
        case exp.CumeDist():
            return Fraction
        case exp.PercentRank():
            return lambda place, rows: Fraction(place - 1, max(rows - 1, 1))
        case exp.Ntile(this=exp.Literal(is_string=False, name=str(name))) if name.isdigit() and 1 < int(name) <= _MANY:
            return lambda place, rows: _bucket(place, rows, int(name))
        case exp.Sum(this=exp.Literal(name="1")) | exp.Count(this=exp.Star() | exp.Literal()) if _runs(window):
            return lambda place, _: place
    return None


def share_of(
    condition: exp.Expr, columns: Mapping[exp.Expr, Place], picks: str, *, down: bool = False
) -> tuple[Fraction, bool] | None:
    """Return the share of the rows beside which a condition picks a value, and whether that is always the quantile's.

    Args:
        condition: of the columns, and constants.
        columns: what each says.
        picks: "min" for the first of the rows that meet it, "max" for the last, "avg" and "one" for all of them.
        down: whether places count from the largest value; the share is from the least one.
    """
    holds = _compiled(condition, columns)
    if holds is None:
        return None
    picked = {rows: _picked(holds, range(1, rows + 1), rows, picks) for rows in _FEW}
    for share in _shares(condition, picked[_MANY]):
        tried = picked | {rows: _picked(holds, _some(share, rows), rows, picks) for rows in _LARGE}
        if all(_fits(places, share * rows, rows) for rows, places in tried.items()):
            from_least = 1 - share if down else share
            turned = {n: [n + 1 - p if down else p for p in places] for n, places in tried.items()}
            return from_least, all(_is_own(places, from_least, n, picks) for n, places in turned.items() if places)
    return None


def _is_own(places: Sequence[int], share: Fraction, rows: int, picks: str) -> bool:
    """Whether rows are those of the quantile itself: QUANTILE_CONT's of several rows, else QUANTILE_DISC's."""
    if picks == "avg":
        return Fraction(sum(places), len(places)) == share * (rows - 1) + 1
    return places == [max(math.ceil(share * rows), 1)]


def _picked(holds: Place, places: Iterable[int], rows: int, picks: str) -> list[int]:
    try:
        met = [place for place in places if holds(place, rows)]
    except (TypeError, ZeroDivisionError):
        return []
    return {"min": met[:1], "max": met[-1:]}.get(picks, met)


def _some(share: Fraction, rows: int) -> list[int]:
    """Return places beside that of a quantile, and some far from it, in order."""
    near = math.floor(share * rows)
    far = {1, 2, 3, near // 2, near - 50, near + 50, (near + rows) // 2, rows - 2, rows - 1, rows}
    return sorted(p for p in {*far, *range(near - 5, near + 6)} if 1 <= p <= rows)


def _fits(places: list[int], quantile: Fraction, rows: int) -> bool:
    """Whether the picked places are beside the quantile's, which lies between a row and the next."""
    return bool(places or rows < _MANY) and all(-1 <= p - quantile <= 2 for p in places)


def _shares(condition: exp.Expr, places: Sequence[int]) -> Sequence[Fraction]:
    """Return the shares that numbers of a condition may name, the nearest one to the places of many rows first."""
    if not places:
        return []
    found = Fraction(sum(places), len(places) * _MANY)
    named = {Fraction(1, 2)}
    for literal in condition.find_all(exp.Literal):
        number = Fraction(literal.name) if not literal.is_string else Fraction(0)
        named |= {number, number / 100, *([1 / number] if number else ())}
    named |= {Fraction(round(found * k), k) for k in (4, 5, 10, 20, 100)}
    near = (s for s in named if 0 < s < 1 and abs(s - found) * _MANY <= 2)
    return sorted(near, key=lambda s: (abs(s - found), s.denominator))


def _bucket(place: int, rows: int, of: int) -> int:
    """Return the bucket of NTILE(of)."""
    few, longer = divmod(rows, of)
    in_longer = longer * (few + 1)
    return (place - 1) // (few + 1) + 1 if place <= in_longer else longer + (place - in_longer - 1) // few + 1


def _runs(window: exp.Window) -> bool:
    """Whether a sum or count is over the rows so far, one by one."""
    spec = window.args.get("spec")
    ends = [] if spec is None else [spec.args.get(part) for part in ("kind", "start", "start_side", "end")]
    return [str(e).upper() for e in ends] == ["ROWS", "UNBOUNDED", "PRECEDING", "CURRENT ROW"]


def _rounded(x: Fraction) -> int:
    """Round halves away from zero, as casts of decimals to whole numbers do."""
    return int(math.copysign(math.floor(abs(x) + Fraction(1, 2)), x))


_MADE: dict[type[exp.Expr], Callable[..., Any]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
    exp.Div: lambda a, b: Fraction(a) / b,
    exp.IntDiv: lambda a, b: math.trunc(Fraction(a) / b),
    exp.Mod: lambda a, b: a % b,
    exp.Neg: lambda a: -a,
    exp.Abs: abs,
    exp.Floor: math.floor,
    exp.Ceil: math.ceil,
    exp.Trunc: math.trunc,
    exp.Round: _rounded,
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
    exp.GT: lambda a, b: a > b,
    exp.GTE: lambda a, b: a >= b,
    exp.Not: lambda a: not a,
    exp.And: lambda a, b: a and b,
    exp.Or: lambda a, b: a or b,
    exp.Between: lambda x, low, high: low <= x <= high,
    exp.In: lambda x, *listed: x in listed,
    exp.Paren: lambda a: a,
}
"""What of numbers and conditions is computed."""


def _compiled(e: exp.Expr, columns: Mapping[exp.Expr, Place]) -> Place | None:
    """Return an expression as a function of a place and the number of rows; None where it has anything else in it."""
    match e:
        case exp.Column():
            return columns.get(e)
        case exp.Literal(is_string=False):
            number = int(e.name) if e.name.isdecimal() else Fraction(e.name)
            return lambda place, rows: number
        case exp.Cast():
            inner = _compiled(e.this, columns)
            if inner is None or not e.to.is_type(*exp.DataType.NUMERIC_TYPES):
                return None
            whole = e.to.is_type(*exp.DataType.INTEGER_TYPES)
            return (lambda place, rows: _rounded(Fraction(inner(place, rows)))) if whole else inner
    made = _MADE.get(type(e))
    known = ("this", "expression", "expressions", "low", "high")
    if made is None or any(part for name, part in e.args.items() if name not in (*known, "typed", "safe")):
        return None
    parts = [_compiled(part, columns) for part in e.iter_expressions()]
    if None in parts:
        return None
    of = [p for p in parts if p is not None]
    if len(of) == 2:
        first, second = of
        return lambda place, rows: made(first(place, rows), second(place, rows))
    return lambda place, rows: made(*(p(place, rows) for p in of))
