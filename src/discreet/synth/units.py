"""Units of a hierarchy from public values: nested columns or prefixes of one code, and how SQL finds a row's unit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from discreet.catalog.listed_keys import Keys
from discreet.catalog.schema import Scalar, TableSchema, Values, domain_values, find_table
from discreet.catalog.types import Type
from discreet.errors import InvalidParameter, MissingBounds
from discreet.query.expr import quoted
from discreet.synth.domain import OTHER, Integers, SynthColumn
from discreet.synth.tree import UnitTree

MOST_WORDS = 2048
"""The most values of a column of units whose values are no whole numbers: SQL compares them one by one."""

_DIGITS = 18  # of a whole number that 64 bits hold


@dataclass(frozen=True, eq=False)
class LevelUnits:
    """The units of all levels, and where a row of the table stands among those of the last level."""

    names: tuple[str, ...]  # the levels, from the coarsest to the finest
    code: bool  # whether units are prefixes of one code; else each level has a column
    sql: tuple[str, ...]  # for each column that is read, a whole number that follows from a row's value
    numbers: tuple[Integers, ...]  # for each column these numbers of the public values, in order
    # of each combination of these values the unit of the last level, as pairs of numbers in order
    leaves: tuple[Integers, Integers]
    # for each unit of the last level its own name at each level, in order of the tree
    paths: tuple[tuple[Scalar, ...], ...]
    filler: int  # the unit of a row whose values are not public ones

    @cached_property
    def places(self) -> list[Integers]:
        """For each level, of each unit of the last level the place of the unit that it lies in."""
        found, other = [], np.zeros(len(self.paths), np.bool_)
        for own in zip(*self.paths, strict=True):  # units of one name that lie in different ones are different
            other[1:] |= [a != b for a, b in pairwise(own)]
            found.append(np.cumsum(other, dtype=np.int64))
        return found

    @cached_property
    def tree(self) -> UnitTree:
        """The tree of all levels below the whole table."""
        parents, above = [], np.zeros(len(self.paths), np.int64)
        for own in self.places:
            first = np.unique(own, return_index=True)[1]
            parents.append(above[first])
            above = own
        return UnitTree(tuple(parents))

    @property
    def digest(self) -> str:
        """A SHA-256 of all of it: other units are another query."""
        said = repr((self.names, self.code, self.sql, self.paths, self.filler)).encode()
        return hashlib.sha256(b" ".join([said, *(n.tobytes() for n in (*self.numbers, *self.leaves))])).hexdigest()

    def path(self, leaf: tuple[Scalar, ...], level: int) -> tuple[Scalar, ...]:
        """Return what names the unit of a level: its own code, or the values of the columns down to its own."""
        return leaf[level : level + 1] if self.code else leaf[: level + 1]

    def columns(self, level: int) -> list[str]:
        """Return the names of the columns that name a unit of a level."""
        return [self.names[level]] if self.code else [*self.names[: level + 1]]

    def units(self, level: int) -> list[tuple[Scalar, ...]]:
        """Return the names of the units of a level, in their order."""
        return [self.path(self.paths[i], level) for i in np.unique(self.places[level], return_index=True)[1].tolist()]

    def find(self, columns: Sequence[Integers]) -> Integers:
        """Return the unit of the last level of each row, by the numbers that `sql` gives."""
        key = np.zeros(len(columns[0]), np.int64)
        for numbers, own in zip(self.numbers, columns, strict=True):
            key = key * (len(numbers) + 1) + _places(numbers, own)
        keys, leaves = self.leaves
        return np.asarray(np.append(leaves, self.filler)[_places(keys, key)])


def _places(ordered: Integers, wanted: Integers) -> Integers:
    """Return the places of numbers in an ordered list; its length for those that it has not."""
    at = np.searchsorted(ordered, wanted)
    known = ordered[np.minimum(at, len(ordered) - 1)] == wanted
    return np.where(known, at, len(ordered))


def level_units(
    own: TableSchema,
    tables: Sequence[TableSchema],
    levels: Sequence[str] | Mapping[str, int],
    code: str | None,
    units: object,
    filler: Mapping[str, Any],
) -> LevelUnits:
    """Return the units of a table's rows.

    Args:
        own: the table.
        tables: all connected tables.
        levels: columns from the coarsest to the finest; or for each level how long its prefix of `code` is.
        code: the column of codes.
        units: where the public values are: a frame, a path of a CSV file, or the name of a public table; None for
            what is declared of the table's columns.
        filler: for the columns of units, the values that stand for NULL and for what is not declared.

    Raises:
        UnknownColumn, MissingBounds, InvalidParameter: there are none, or they make no tree.
    """
    if isinstance(levels, str) or not levels or (code is not None) != isinstance(levels, Mapping):
        raise InvalidParameter(
            "levels= is a list of columns, or with code= the length of each level's prefix.",
            hint="levels=['county', 'tract']; or code='geoid', levels={'county': 5, 'tract': 11}",
        )
    lengths = [*levels.values()] if isinstance(levels, Mapping) else []
    if any(type(n) is not int or n < 1 for n in lengths) or sorted(set(lengths)) != lengths:
        raise InvalidParameter("levels= has lengths of prefixes that grow from level to level.")
    names = tuple(levels) if code is not None else tuple(own.find(name) for name in levels)
    columns = names if code is None else (own.find(code),)
    if len(set(names)) < len(names):
        raise InvalidParameter("levels= names a column twice.")
    rows = _public_rows(own, tables, columns, units)
    if code is not None and not all(isinstance(row[0], str) and len(row[0]) >= lengths[-1] for row in rows):
        raise InvalidParameter(f"Each public value of {code!r} is a text of at least {lengths[-1]} characters.")

    def path(row: tuple[Any, ...]) -> tuple[Scalar, ...]:
        return row if code is None else tuple(row[0][:n] for n in lengths)

    counts = [len({path(row)[: i + 1] for row in rows}) for i in range(len(names))]
    if len(names) > 1 and code is None and counts[0] == counts[-1] and len({row[-1] for row in rows}) < counts[0]:
        raise InvalidParameter(
            f"levels= goes from the coarsest to the finest, and each {names[0]!r} is in one {names[-1]!r}.",
            hint=f"levels={[*names[::-1]]!r}",
        )
    by_row = [path(row) for row in rows]
    paths = sorted({*by_row})
    place = {p: i for i, p in enumerate(paths)}
    fixed = tuple(filler[c] for c in columns if c in filler)
    if fixed and fixed not in rows:
        raise InvalidParameter(
            f"filler= needs public values of {', '.join(map(repr, columns))} together.",
            hint="name a unit that is listed",
        )
    if not fixed:  # a unit of its own, beside all others
        if any(OTHER in p for p in paths):
            raise InvalidParameter(
                f"{OTHER!r} is listed as a unit.", hint="filler=, with a unit for what is not listed"
            )
        paths.append(tuple(OTHER if isinstance(v, str) else None for v in paths[0]))
    sql, numbers, key = [], [], np.zeros(len(rows), np.int64)
    for i, name in enumerate(columns):
        text, of = _number_of(own, name, [row[i] for row in rows])
        ordered = np.unique(of)
        sql.append(text)
        numbers.append(ordered)
        key = key * (len(ordered) + 1) + np.searchsorted(ordered, of)
    if np.prod([float(len(n) + 1) for n in numbers]) >= 2.0**62:
        raise InvalidParameter("The columns of levels= have too many values together.", hint="one column of codes")
    order = np.argsort(key)
    leaves = np.array([place[p] for p in by_row], np.int64)
    at = place[path(fixed)] if fixed else len(paths) - 1
    found = (key[order], leaves[order])
    return LevelUnits(names, code is not None, tuple(sql), tuple(numbers), found, tuple(paths), at)


def _public_rows(
    own: TableSchema, tables: Sequence[TableSchema], columns: Sequence[str], units: object
) -> list[tuple[Any, ...]]:
    """Return the public combinations of the columns' values, without NULL."""
    source = own
    if isinstance(units, str) and any(t.public and t.name == units for t in tables):
        source = find_table(units, tables)
    elif units is not None:
        keys = units if isinstance(units, Keys) else Keys(units)
        kinds = {
            c: Values(*{r[i] for r in keys.rows}).type if own.columns.get(c) is None else own.columns[c]
            for i, c in enumerate(keys.columns)
        }
        listed = keys.facts(kinds)[1]
        if not {*columns} <= {*listed.columns}:
            raise InvalidParameter(f"units= needs columns named {', '.join(map(repr, columns))}.")
        return [row for row in listed.of(columns) if None not in row]
    if source.listed is not None and {*columns} <= {*source.listed.columns}:
        return [row for row in source.listed.of(columns) if None not in row]
    values = domain_values(own.facts.get(columns[0])) if len(columns) == 1 and source is own else None
    if values is None:
        raise MissingBounds(
            f"The units of {', '.join(map(repr, columns))} are not public: they must not be read from the data.",
            hint="units=, a frame or CSV file of them, or the name of a public table; or declare them with dp.Values "
            "or dp.Keys",
        )
    return [(v,) for v in values if v is not None]


def _number_of(own: TableSchema, name: str, values: Sequence[Any]) -> tuple[str, Integers]:
    """Return SQL for a whole number that follows from a row's value, and this number of each public value."""
    column = quoted(name)
    digits = all(isinstance(v, str) and v.isascii() and v.isdigit() and len(v) <= _DIGITS for v in values)
    if digits and len({int(v) for v in values}) == len(set(values)):
        values, column = [int(v) for v in values], f"TRY_CAST({column} AS BIGINT)"
    if all(type(v) is int for v in values) and max(map(abs, values)) < 10**_DIGITS:
        low, high = min(values) - 1, max(values) + 1
        text = f"LEAST(GREATEST(COALESCE({column}, {low}), {low}), {high})"
        return text, np.array(values, np.int64)
    words = Values(*dict.fromkeys(values))
    if len(words.values) > MOST_WORDS:
        raise InvalidParameter(
            f"{name!r} has {len(words.values):,} public values that are no whole numbers, and SQL compares at most "
            f"{MOST_WORDS:,}.",
            hint="a column of whole numbers, or of codes of digits",
        )
    place = {v: i for i, v in enumerate(words.values)}
    return SynthColumn.of(name, words, own.columns.get(name) or Type.TEXT, 1).sql, np.array([place[v] for v in values])
