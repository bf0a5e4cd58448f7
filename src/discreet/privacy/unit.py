"""Who is protected, which two datasets are neighbours, and how far one unit can move numbers, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from discreet.errors import InvalidParameter
from discreet.privacy.exact import count


class Relation(Enum):
    """Which two populations are neighbours; fixed for a population when its account is opened.

    ADD_REMOVE: one unit with all its rows is there or is not.
    REPLACE: one unit with all its rows becomes another unit with any rows; the number of units is public.
    """

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"

    @classmethod
    def parse(cls, text: str | Relation) -> Relation:
        """Return the relation of that name; refuses any other."""
        try:
            return cls(text)
        except ValueError:
            names = " or ".join(repr(r.value) for r in cls)
            raise InvalidParameter(f"relation must be {names}, not {text!r}.") from None


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PrivacyUnit:
    """Who is protected: all the rows that carry one value of `column`, or that lead to one by foreign keys.

    Guarantee:
        In one query a unit's rows enter at most `max_groups` groups, and in each of them its COUNT is capped
        at `max_rows` and its SUM clamped to `max_rows` times the declared bounds. With `max_contributions`, at most so
        many of its rows enter the query in all. The caps are enforced by the engine, never assumed. Rows whose unit is
        NULL, or that lead to no unit, belong to nobody and are dropped.

    Attributes:
        column: the column that holds the unit's id; None when each row is one unit (see `row`).
        max_groups: how many groups of one query a unit may enter; None when it has not been said.
        max_rows: how many rows a unit may add to each group; None when it has not been said.
        tables: (table, how) for each table whose unit is found in another way than by `column`: the name of its own
            column that holds the unit's id, or a foreign key that leads to it, `"order_id -> orders.id"`. Given
            as a dict, kept in the order of names.
        max_contributions: how many rows of one query a unit may add in all, alone or beside the other two caps.

    >>> PrivacyUnit("customer_id", max_groups=2, max_rows=5, tables={"items": "order_id -> orders.id"})
    PrivacyUnit('customer_id', max_groups=2, max_rows=5, tables={'items': 'order_id -> orders.id'})
    """

    column: str | None
    max_groups: int | None
    max_rows: int | None
    tables: tuple[tuple[str, str], ...]
    max_contributions: int | None

    def __init__(
        self,
        column: str | None,
        max_groups: int | None = None,
        max_rows: int | None = None,
        tables: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        *,
        max_contributions: int | None = None,
    ) -> None:
        given: object = column  # what came need not be what was annotated
        if given is not None and (not isinstance(given, str) or not given):
            raise InvalidParameter(f"unit must be the name of a column, not {given!r}.")
        given_caps = (("max_groups", max_groups), ("max_rows", max_rows), ("max_contributions", max_contributions))
        for name, value in given_caps:
            if value is not None and count(name, value) > _MOST:
                raise InvalidParameter(f"{name} must be at most {_MOST}, not {value}.")
            if given is None and value not in (None, 1):
                raise InvalidParameter(
                    f"A unit that is each row has one row, in one group, so {name} cannot be {value}.",
                    hint="name the column that holds the unit's id: dp.PrivacyUnit('customer_id', …)",
                )
        pairs = _pairs(tables)
        if given is None and pairs:
            raise InvalidParameter(
                "tables= needs a unit with a column.",
                hint=f"PrivacyUnit('customer_id', …, tables={{{pairs[0][0]!r}: {pairs[0][1]!r}}})",
            )
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "max_groups", max_groups)
        object.__setattr__(self, "max_rows", max_rows)
        object.__setattr__(self, "tables", pairs)
        object.__setattr__(self, "max_contributions", max_contributions)

    def __repr__(self) -> str:
        caps = f"max_groups={self.max_groups!r}, max_rows={self.max_rows!r}"
        if self.max_contributions is not None:
            caps += f", max_contributions={self.max_contributions!r}"
        tables = f", tables={dict(self.tables)!r}" if self.tables else ""
        return f"PrivacyUnit({self.column!r}, {caps}{tables})"

    @classmethod
    def row(cls) -> PrivacyUnit:
        """Return the unit for a table in which each row is one person."""
        return cls(None, max_groups=1, max_rows=1)

    @property
    def is_row(self) -> bool:
        """Whether each row is a unit of its own."""
        return self.column is None

    @property
    def caps(self) -> tuple[int, int] | None:
        """In how many groups of a query a unit can be, and with how many rows in each; None where nothing bounds one of
        them. K rows in all are in at most K groups, and at most K of them in one.
        """
        groups = [n for n in (self.max_groups, self.max_contributions) if n is not None]
        rows = [n for n in (self.max_rows, self.max_contributions) if n is not None]
        return (min(groups), min(rows)) if groups and rows else None

    def capped_like(self, column: str | None) -> PrivacyUnit:
        """Return the unit of another column, under the same caps."""
        return PrivacyUnit(column, self.max_groups, self.max_rows, max_contributions=self.max_contributions)


_MOST = 1 << 31  # a cap beyond it bounds nothing, and would let a product of caps leave 64 bits


def _pairs(tables: object) -> tuple[tuple[str, str], ...]:
    """Return the entries of `tables`, sorted, so that equal ones are equal in any order."""
    if isinstance(tables, str) or not isinstance(tables, Iterable):
        raise _no_tables()
    entries = [_entry(e) for e in (tables.items() if isinstance(tables, Mapping) else tables)]
    names = [table.casefold() for table, _ in entries]
    twins = sorted({table for table, _ in entries if names.count(table.casefold()) > 1})
    if twins:
        raise InvalidParameter(
            f"tables= says twice how the unit of table {twins[0]!r} is found, upper and lower case aside.",
            hint="say it once",
        )
    return tuple(sorted(entries))


def _entry(entry: object) -> tuple[str, str]:
    match entry:
        case (str(table), str(how)) if table and how:
            return table, how
    raise _no_tables()


def _no_tables() -> InvalidParameter:
    return InvalidParameter(
        "tables= must be a dict from a table's name to its unit's column or to a foreign key that leads to it.",
        hint='tables={"customers": "id", "items": "order_id -> orders.id"}',
    )


@dataclass(frozen=True, slots=True, init=False)
class Sensitivity:
    """The largest difference f(x) − f(y) of a vector of integers over all neighbours x, y, in four norms.

    Attributes:
        l0: how many coordinates may differ.
        linf: by how much each of them may.
        l1: the sum of the absolute differences; `l0 * linf` unless a tighter one is given.
        l2_squared: the sum of the squared differences; `l0 * linf**2` unless a tighter one is given
            (the norm itself is seldom a fraction).

    >>> Sensitivity(l0=3, linf=10)
    Sensitivity(l0=3, linf=10, l1=30, l2_squared=300)
    """

    l0: int
    linf: int
    l1: int
    l2_squared: int

    def __init__(self, l0: int, linf: int, *, l1: int | None = None, l2_squared: int | None = None) -> None:
        n, m = count("l0", l0, least=0), count("linf", linf, least=0)
        one = n * m if l1 is None else count("l1", l1, least=0)
        two = n * m * m if l2_squared is None else count("l2_squared", l2_squared, least=0)
        # Consistent norms: each bound must be implied by or tighter than (l0, linf), and at least one coordinate's.
        if not (min(n, 1) * m <= one <= n * m):
            raise InvalidParameter(f"l1 must lie between linf and l0·linf = {n * m}, not {one}.")
        if not (min(n, 1) * m * m <= two <= n * m * m):
            raise InvalidParameter(f"l2_squared must lie between linf² and l0·linf² = {n * m * m}, not {two}.")
        for name, value in (("l0", n), ("linf", m), ("l1", one), ("l2_squared", two)):
            object.__setattr__(self, name, value)

    @property
    def is_product(self) -> bool:
        """Whether any vector of at most `l0` entries up to `linf` is possible, so that no norm is tighter."""
        return self.l1 == self.l0 * self.linf
