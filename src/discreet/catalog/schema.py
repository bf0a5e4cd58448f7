"""What is public about a table: its columns, their types, and the facts that the owner declares."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias

from discreet.catalog.types import TableShape, Type
from discreet.errors import InvalidParameter, MissingBounds, UnknownColumn
from discreet.privacy.exact import Real, exact
from discreet.privacy.unit import PrivacyUnit, Relation

Scalar: TypeAlias = bool | int | float | str | dt.date | dt.datetime | None  # what a cell, a key or a literal may be
MOST_KEYS = 1_000_000  # how many combinations of declared keys one query may have; each is a row of the result


@dataclass(frozen=True, slots=True, init=False)
class Range:
    """The public bounds of a number, a date or a time: values outside are clamped, never looked at.

    `integer=True` says that the column holds whole numbers: sums are then exact integers, and the numbers from `low` to
    `high` can serve as group keys. Dates and times are kept as microseconds since 1970; a date is its midnight.

    >>> Range(0, 200), Range(dt.date(2020, 1, 1), dt.date(2026, 1, 1))
    (Range(0, 200), Range(date(2020, 1, 1), date(2026, 1, 1)))
    """

    low: Fraction
    high: Fraction
    integer: bool
    type: Type

    def __init__(self, low: Real | dt.date, high: Real | dt.date, *, integer: bool = False) -> None:
        kind = _kind_of_bounds(low, high, integer=integer)
        a, b = (_bound(name, end) for name, end in (("low", low), ("high", high)))
        if a > b:
            raise InvalidParameter(f"a Range needs low ≤ high, not {low} and {high}.")
        if max(abs(a), abs(b)) > _LARGEST:
            raise InvalidParameter(
                f"the bounds of a Range must lie within ±2^62, not {low} and {high}.",
                hint="declare the range that values plausibly have; wide ranges drown the result in noise",
            )
        if integer and (a.denominator != 1 or b.denominator != 1):
            raise InvalidParameter(f"an integer Range needs whole bounds, not {low} and {high}.")
        object.__setattr__(self, "low", a)
        object.__setattr__(self, "high", b)
        object.__setattr__(self, "integer", bool(integer))
        object.__setattr__(self, "type", kind)

    def __repr__(self) -> str:
        if self.type.is_moment:
            low, high = (repr(_moment(end, self.type)).removeprefix("datetime.") for end in (self.low, self.high))
            return f"Range({low}, {high})"
        whole = ", integer=True" if self.integer else ""
        return f"Range({_short(self.low)}, {_short(self.high)}{whole})"

    def hull(self, other: Range) -> Range | None:
        """Return the narrowest range that holds both; None where one is of numbers and the other of dates."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        if self.type.is_moment and other.type.is_moment:
            kind = Type.DATE if self.type is other.type is Type.DATE else Type.TIMESTAMP
            return Range(_moment(low, kind), _moment(high, kind))
        if self.type.is_moment or other.type.is_moment:
            return None
        return Range(low, high, integer=self.integer and other.integer)


@dataclass(frozen=True, slots=True, init=False)
class Values:
    """The public list of values of a column: the keys by which it can be grouped without spending any budget on them.

    None stands for NULL. Rows with other values are in no group. A dict gives each value, such as a code, a label:
    queries compare the values, and results show the labels.

    >>> Values("north", "south"), Values({1: "Male", 2: "Female"})
    (Values('north', 'south'), Values({1: 'Male', 2: 'Female'}))
    """

    values: tuple[Scalar, ...]
    type: Type
    labels: tuple[tuple[Scalar, str], ...]

    def __init__(self, *values: Scalar | Mapping[Any, str]) -> None:
        first, given = values[0] if len(values) == 1 else None, values
        if isinstance(first, list | tuple | set | frozenset):
            raise InvalidParameter("Values takes its values one by one.", hint="write Values(*my_list)")
        object.__setattr__(self, "labels", _labels_of(first) if isinstance(first, Mapping) else ())
        if isinstance(first, Mapping):
            given = tuple(first)
        object.__setattr__(self, "values", self._read(given))
        types = {_type_of(v) for v in self.values if v is not None}
        object.__setattr__(self, "type", types.pop() if types else Type.TEXT)

    def _read(self, values: tuple[Any, ...]) -> tuple[Scalar, ...]:
        if not values:
            raise InvalidParameter("Values needs at least one value.")
        types = {_type_of(v) for v in values if v is not None}
        if types == {Type.INT, Type.REAL}:
            types = {Type.REAL}
            values = tuple(float(v) if isinstance(v, int) else v for v in values)
        if len(types) > 1:
            raise InvalidParameter("Values must all be of one kind (text, numbers, dates, ...), or None.")
        if len(set(values)) != len(values):
            raise InvalidParameter("Values must differ from each other.")
        return tuple(values)

    def listed(self, *values: Scalar) -> Values:
        """Return another list of values, in which these keep their labels."""
        found, labels = Values(*values), dict(self.labels)
        object.__setattr__(found, "labels", tuple((v, labels[v]) for v in found.values if v in labels))
        return found

    def __repr__(self) -> str:
        if self.labels:
            return f"Values({dict(self.labels)!r})"
        return f"Values({', '.join(repr(v) for v in self.values)})"


Fact: TypeAlias = Range | Values


def _labels_of(labels: Mapping[Any, object]) -> tuple[tuple[Scalar, str], ...]:
    """Return the labels of values, no two of which are the same.

    Raises:
        InvalidParameter: one is no text, or stands for two values.
    """
    if not all(isinstance(label, str) and label for label in labels.values()):
        raise InvalidParameter("Values takes a text as each label.", hint="dp.Values({1: 'Male', 2: 'Female'})")
    if len(set(labels.values())) < len(labels):
        raise InvalidParameter("Values gives two values one label.", hint="in SQL, CASE puts values together")
    return tuple((value, str(label)) for value, label in labels.items())


@dataclass(frozen=True, slots=True)
class Reached:
    """A foreign key by which a row finds its unit: `column` holds a value of `key` in `table`."""

    column: str
    table: str
    key: str


@dataclass(frozen=True, slots=True, eq=False)
class ListedRows:
    """The different combinations of some columns' values; `some`: rows of the table may have others."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]
    some: bool = False

    def of(self, columns: Sequence[str]) -> tuple[tuple[Scalar, ...], ...]:
        """Return the different rows of these of the columns."""
        places = [self.columns.index(c) for c in columns]
        return tuple(dict.fromkeys(tuple(row[p] for p in places) for row in self.rows))


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table as the planner sees it: names and types, pinned, and the owner's facts.

    Attributes:
        name: the table's name in SQL.
        columns: name → type, in order; a column whose type is None cannot be asked about.
        facts: name → what the owner declared; keys of output columns beside those of columns.
        text: whether the source is text (CSV, JSON), so that a column's type is what its place asks for.
        unit: who is protected, with caps; its column is this table's own, where the table has one.
        relation: which neighbours.
        reached: the foreign key that leads to the unit, where the table does not have the unit's column.
        links: further foreign keys, to rows of the same unit.
        public: whether the table holds no personal data.
        digest: of a public table, a SHA-256 of its rows, for the identity of queries that read it.
        rows: of a public table, how many it has; None where it is not known.
        alike: of a public table, column → in how many rows one value stands at most.
        listed: of which combinations of columns' values groups may be: of a public table's those that its rows have, of
            a private one's those that the owner lists; None where none are known.
        view: the text by which the table shows its source, for the second derivation; None where there is no source.
        beside: names of views that stand in its database and are not read.
        min_people: of how many units a group is at least that a query shows; 1 where the owner says nothing.
    """

    name: str
    columns: Mapping[str, Type | None]
    facts: Mapping[str, Fact]
    unit: PrivacyUnit
    relation: Relation
    reached: Reached | None = None
    public: bool = False
    digest: str | None = None
    rows: int | None = None
    alike: Mapping[str, int] = field(default_factory=dict)
    listed: ListedRows | None = field(default=None, repr=False, compare=False)
    view: str | None = None
    beside: Sequence[str] = ()
    min_people: int = 1
    links: tuple[Reached, ...] = ()

    def with_people(self, least: int) -> TableSchema:
        """Return the table where a shown group has at least so many people, or as many as the owner says."""
        return self if self.public or least <= self.min_people else replace(self, min_people=least)

    def find(self, name: str) -> str:
        """Return the column's own spelling; names match without regard to case when that is unambiguous.

        Raises:
            UnknownColumn: no such column; the hint lists near ones.
        """
        if name in self.columns:
            return name
        alike = [c for c in self.columns if c.lower() == name.lower()]
        if len(alike) == 1:
            return alike[0]
        is_text = any(isinstance(fact, Values) and name in fact.values for fact in self.facts.values())
        hint = f"text stands in single quotes: '{name}'" if is_text else near_columns(name, list(self.columns))
        raise UnknownColumn(f"There is no column {name!r} in {self.name}.", hint=hint)


def find_table(name: str, tables: Sequence[TableSchema]) -> TableSchema:
    """Return the connected table of that name; upper and lower case matter only between two of one spelling.

    Raises:
        UnknownColumn: there is none.
    """
    found = [t for t in tables if t.name == name] or [t for t in tables if t.name.lower() == name.lower()]
    if len(found) != 1:
        views = [v for t in tables[:1] for v in t.beside]
        raise unknown_table(f"There is no table {name!r:.60}.", name, [t.name for t in tables], views)
    return found[0]


def asked_table(name: str | None, tables: Sequence[TableSchema], why: str = "", hint: str = "") -> TableSchema:
    """Return the table of that name, or the one private table where none is named; otherwise as `find_table`."""
    private = [t.name for t in tables if not t.public]
    if name is None and len(private) != 1:
        raise InvalidParameter(f"table= must be one of {', '.join(map(repr, private))}{why}.", hint=hint)
    return find_table(private[0] if name is None else name, tables)


def refuse_undeclared(own: TableSchema, names: Sequence[str], more: str = "") -> None:
    """Refuse columns of a table of which nothing is declared; `more` ends the hint."""
    missing = [name for name in names if name not in own.facts]
    if missing:
        raise MissingBounds(
            f"Nothing is declared of the columns {', '.join(map(repr, missing))}.",
            hint=f"columns={{{missing[0]!r}: dp.Range(LOW, HIGH)}}, or dp.Values(…), when you connect{more}",
        )


def unknown_table(what: str, name: str, tables: Sequence[str], views: Sequence[str]) -> UnknownColumn:
    """Return the error for a name that no connected table has: `what` says so, where it is not a view's."""
    if view := next((v for v in views if v.casefold() == name.casefold()), None):
        return UnknownColumn(
            f"{view!r:.60} is a view of the database: views are not read, since they may be made of anything.",
            hint=f"make a table of it: CREATE TABLE new AS SELECT * FROM {view:.60}",
        )
    near = difflib.get_close_matches(name, tables, n=3, cutoff=0.5)
    beside = f"; views are not read: {', '.join(views[:_LISTED])}" if views else ""
    return UnknownColumn(what, hint=f"connected tables: {', '.join(near or tables[:_LISTED])}{beside}")


def near_columns(name: str, columns: Sequence[str]) -> str:
    """Return a hint at which column may be meant by a name that none has."""
    near = [c for c in difflib.get_close_matches(name, columns, n=3, cutoff=0.5) if is_near(name, c)]
    if near:
        return f"perhaps {' or '.join(near)} is meant"
    more = f", and {len(columns) - _LISTED} more" if len(columns) > _LISTED else ""
    nearest = sorted(columns, key=lambda c: -difflib.SequenceMatcher(None, name.lower(), c.lower()).ratio())
    return f"columns are: {', '.join((nearest if more else columns)[:_LISTED])}{more}"


def is_near(name: str, other: str) -> bool:
    """Return whether one of two names may be a slip of the other, or a part of it."""
    a, b = name.casefold(), other.casefold()
    return (len(a) > 2 and a in b) or (len(b) > 2 and b in a) or difflib.SequenceMatcher(None, a, b).ratio() >= _ALIKE


def looks_like(name: str, columns: Sequence[str]) -> str | None:
    """Return a column of which a name may be a slip; None where it is a name of its own."""
    return next(iter(difflib.get_close_matches(name.lower(), [c.lower() for c in columns], n=1, cutoff=_ALIKE)), None)


_ALIKE = 0.75  # likeness of two names from which on one is taken for a slip of the other
_LISTED = 12  # columns that are named where one is not found


def domain_values(fact: Fact | None) -> tuple[Scalar, ...] | None:
    """Return the finite list of values that a fact declares; None when it declares none."""
    match fact:
        case Values():
            return fact.values
        case Range(integer=True) if fact.high - fact.low < MOST_KEYS:
            return tuple(range(int(fact.low), int(fact.high) + 1))
        case _:
            return None


def outputs_of(*tables: TableSchema) -> dict[str, Values]:
    """Return the keys that are declared for names of output columns, which no table has, by these names in lower case.

    The first of several spellings counts.
    """
    found: dict[str, Values] = {}
    for table in tables:
        for name, fact in table.facts.items():
            if name not in table.columns and isinstance(fact, Values):
                found.setdefault(name.lower(), fact)
    return found


def output_facts(shapes: Mapping[str, TableShape], facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """Return the declarations for names that no table has, without the table's name that a policy puts before them."""
    columns = {n for t, shape in shapes.items() for c in shape.columns for n in (c, f"{t}.{c}")}
    unknown = {n: fact for n, fact in facts.items() if n not in columns}
    return {next((n[len(t) + 1 :] for t in shapes if n.startswith(f"{t}.")), n): fact for n, fact in unknown.items()}


def declared_facts(table: str, columns: Mapping[str, object], facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """Return the declarations for a table's columns: those by name, and above them those by `table.name`."""
    mine = {n: facts[n] for n in columns if n in facts}
    return mine | {n: facts[f"{table}.{n}"] for n in columns if f"{table}.{n}" in facts}


def check_declared(shapes: Mapping[str, TableShape], facts: Mapping[Any, Fact]) -> None:
    """Refuses a declaration that is neither a range nor values, and a range of a column that no table has.

    Values of a name that no table has are the keys of an output column; a name that looks like a column's is refused.
    """
    known = sorted({n for shape in shapes.values() for n in shape.columns})
    for name, fact in facts.items():
        outputs = output_facts(shapes, {name: fact}) if isinstance(name, str) else {name: fact}
        if any(not isinstance(fact, Values) or looks_like(str(n), known) for n in outputs):
            raise UnknownColumn(
                f"Public facts are declared of {name!r}, which no table has.", hint=near_columns(str(name), known)
            )
        if not isinstance(fact, Range | Values):
            raise InvalidParameter(
                f"columns={{{name!r}: …}} must be a Range or Values, not {type(fact).__name__}.",
                hint=f"columns={{{name!r}: dp.Range(0, 200)}} or dp.Values('a', 'b')",
            )


_LARGEST = 1 << 62
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def _kind_of_bounds(low: object, high: object, *, integer: bool) -> Type:
    """Return the type of a range with these ends: dates beside times are times."""
    moments = [isinstance(end, dt.date) for end in (low, high)]
    if not any(moments):
        return Type.INT if integer else Type.REAL
    if not all(moments) or integer:
        raise InvalidParameter(
            "a Range goes from one number to another, or from one date or time to another.",
            hint="dp.Range(date(2020, 1, 1), date(2026, 1, 1)), without integer=",
        )
    if any(isinstance(end, dt.datetime) and end.tzinfo is not None for end in (low, high)):
        raise InvalidParameter("the times of a Range have no time zone.", hint="give them in UTC, without tzinfo")
    return Type.TIMESTAMP if any(isinstance(end, dt.datetime) for end in (low, high)) else Type.DATE


def _bound(name: str, end: Real | dt.date) -> Fraction:
    """Return an end as an exact number: of a date or time, microseconds since 1970."""
    if not isinstance(end, dt.date):
        return exact(name, end)
    time = end if isinstance(end, dt.datetime) else dt.datetime.combine(end, dt.time())
    return Fraction((time - _EPOCH) // _MICROSECOND)


def _moment(microseconds: Fraction, kind: Type) -> dt.date:
    time = _EPOCH + int(microseconds) * _MICROSECOND
    return time.date() if kind is Type.DATE else time


def _type_of(value: Scalar) -> Type:
    match value:
        case bool():
            return Type.BOOL
        case int() if not -(1 << 63) <= value < 1 << 63:
            raise InvalidParameter("a whole number among Values must fit in 64 bits.")
        case int():
            return Type.INT
        case float() if value - value != 0:
            raise InvalidParameter("Values cannot hold NaN or infinity.", hint="use None for what is not a number")
        case float():
            return Type.REAL
        case str() if "\0" in value:
            raise InvalidParameter("text among Values cannot hold a NUL character.")
        case str():
            return Type.TEXT
        case dt.datetime() if value.tzinfo is not None:
            raise InvalidParameter("times among Values have no time zone.", hint="give them in UTC, without tzinfo")
        case dt.datetime():
            return Type.TIMESTAMP
        case dt.date():
            return Type.DATE
    raise InvalidParameter(f"Values cannot hold {type(value).__name__}.", hint="use text, numbers, booleans or dates")


def _short(x: Fraction) -> str:
    return str(x.numerator) if x.denominator == 1 else repr(float(x))
