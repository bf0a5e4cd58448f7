"""Further functions of the reference: each with its own kinds, its text, and its meaning written out plainly.

Text is a list of code points, counted from 1. Days are counted by the rules of the calendar alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from discreet.errors import InvalidParameter
from tests.reference.expression import Expression, Row
from tests.reference.values import Kind, Value, fit


@dataclass(frozen=True, slots=True)
class Fixed:
    """One function: what kinds it wants and gives, how it is written, and what it does; NULL in, NULL out.

    Attributes:
        wanted: the kinds of its operands.
        result: the kind of its values.
        text: SQL with {0}, {1}, …
        meaning: None for an error.
        total: the meaning in DuckDB's terms, where the text as it stands has another.
    """

    wanted: tuple[Kind, ...]
    result: Kind
    text: str
    meaning: Callable[..., Value]
    total: str = ""


@dataclass(frozen=True, slots=True)
class Apply(Expression):
    """A function of the table `FIXED`."""

    name: str
    operands: tuple[Expression, ...]

    def __post_init__(self) -> None:
        if self.name not in FIXED:
            raise InvalidParameter(f"name must be one of FIXED, not {self.name!r}.")
        wanted = FIXED[self.name].wanted
        kinds = tuple(o.kind for o in self.operands)
        if len(kinds) != len(wanted) or any(k not in (w, Kind.NULL) for k, w in zip(kinds, wanted, strict=True)):
            raise TypeError(f"{self.name} wants {[w.value for w in wanted]}, not {[k.value for k in kinds]}")

    @property
    def kind(self) -> Kind:
        return FIXED[self.name].result

    def at(self, row: Row) -> Value:
        values = [fit(o.at(row), k) for o, k in zip(self.operands, FIXED[self.name].wanted, strict=True)]
        return None if None in values else fit(FIXED[self.name].meaning(*values), self.kind)

    def sql(self, operands: Sequence[str]) -> str:
        """The call as an analyst writes it."""
        return FIXED[self.name].text.format(*operands)

    def total_sql(self, operands: Sequence[str]) -> str:
        """The call with the meaning that it has for an analyst, in DuckDB's terms."""
        found = FIXED[self.name]
        return (found.total or found.text).format(*operands)


def _position(text: str, part: str) -> int:
    starts = (i for i in range(len(text) - len(part) + 1) if text[i : i + len(part)] == part)
    return next(starts, -1) + 1


def _last(text: str, n: int) -> str:
    first = len(text) - n if n >= 0 else -n
    return "".join(c for i, c in enumerate(text) if i >= first)


def _filled(text: str, size: int, fill: str) -> str:
    shown = list(text[:size])
    missing = size - len(shown)
    return "".join([fill[i % len(fill)] for i in range(missing)] + shown)


def _replaced(text: str, old: str, new: str) -> str:
    out, i = "", 0
    while i < len(text):
        if text[i : i + len(old)] == old:
            out, i = out + new, i + len(old)
        else:
            out, i = out + text[i], i + 1
    return out


def _joined(one: str, other: str) -> str | None:
    both = [*one, *other]
    return "".join(both) if len(both) <= _LONGEST else None


def _cut(x: float) -> float:
    return math.fmod(x, 1.0) * -1 + x if abs(x) < 2.0**53 else x


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _length(year: int, month: int) -> int:
    return [31, 29 if _leap(year) else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]


def _day_of_year(month: int, day: int) -> int | None:
    """Days since 1 January 2023, which is no leap year."""
    if not 1 <= month <= 12 or not 1 <= day <= _length(2023, month):
        return None
    return sum(_length(2023, m) for m in range(1, month)) + day - 1


def _after_months(month: int, day: int, n: int) -> int | None:
    """The day of the month, n months after that day of 2024: the last one, where there is no such day."""
    if not 1 <= month <= 12 or not 1 <= day <= _length(2024, month):
        return None
    months = 2024 * 12 + month - 1 + n
    year, other = months // 12, months % 12 + 1
    return min(day, _length(year, other)) if 1 <= year <= 9999 else None


def _one_or_two(text: str) -> bool:
    """One character that ends no line, after an a or a b at most."""
    return text[-1:] != "\n" and (len(text) == 1 or (len(text) == 2 and text[0] in "ab"))


_T, _I, _R, _B = Kind.TEXT, Kind.INT, Kind.REAL, Kind.BOOL
_LONGEST = 65536  # characters of a text that is made of others
_LONG = f"replace(lpad('', 655, 'a'), 'a', '{'b' * 100}') || lpad('', 35, 'c')"  # one character less
_DATE = "make_date({year}, {{0}}, {{1}})"
FIXED: MappingProxyType[str, Fixed] = MappingProxyType(
    {
        "LENGTH": Fixed((_T,), _I, "length({0})", lambda t: sum(1 for _ in t)),
        "STRPOS": Fixed((_T, _T), _I, "strpos({0}, {1})", _position),
        "RIGHT": Fixed((_T, _I), _T, "right({0}, {1})", _last),
        "STARTS": Fixed((_T, _T), _B, "starts_with({0}, {1})", lambda t, p: t[: len(p)] == p),
        "LPAD": Fixed((_T,), _T, "lpad({0}, 3, 'xy')", lambda t: _filled(t, 3, "xy")),
        "REPLACE": Fixed((_T,), _T, "replace({0}, 'a', 'ba')", lambda t: _replaced(t, "a", "ba")),
        "JOIN": Fixed((_T, _T), _T, "({0} || {1})", _joined),
        "AFTER MANY": Fixed(
            (_T,),
            _I,
            f"length({_LONG} || {{0}})",
            lambda t: 65535 + len(t) if len(t) < 2 else None,
            "CASE WHEN length({0}) < 2 THEN 65535 + length({0}) END",
        ),
        "PATTERN": Fixed((_T,), _B, "regexp_matches({0}, '^[a-b]?.$')", _one_or_two),
        "TRUNC": Fixed((_R,), _R, "trunc({0})", _cut),
        "DAYS": Fixed((_I, _I), _I, f"({_DATE.format(year=2023)} - DATE '2023-01-01')", _day_of_year),
        "MONTHS ON": Fixed((_I, _I, _I), _I, f"day({_DATE.format(year=2024)} + INTERVAL ({{2}}) MONTH)", _after_months),
    }
)
"""The functions, by names of their own."""
