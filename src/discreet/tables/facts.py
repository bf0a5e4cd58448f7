"""What is publicly known of the columns of a table: what its owner declares, and what a public table holds."""

from __future__ import annotations

from collections.abc import Mapping

from discreet.backends.contents import Contents
from discreet.errors import InvalidParameter, UnknownColumn
from discreet.plan.schema import Fact, Range, Values

MOST_VALUES = 10_000
"""Columns of a public table with at most so many distinct values are known by their values, others by their range."""


def declared_facts(table: str, columns: Mapping[str, object], facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """The declarations for a table's columns: those by name, and above them those by `table.name`."""
    mine = {n: facts[n] for n in columns if n in facts}
    return mine | {n: facts[f"{table}.{n}"] for n in columns if f"{table}.{n}" in facts}


def found_facts(contents: Contents) -> dict[str, Fact]:
    """What a public table says itself; a column of nothing but NULL, or of numbers beyond every range, says nothing."""
    facts: dict[str, Fact] = {
        n: Values(*values) for n, values in contents.values.items() if any(v is not None for v in values)
    }
    for name, (low, high) in contents.bounds.items():
        try:
            facts[name] = Range(low, high, integer=isinstance(low, int) and isinstance(high, int))
        except InvalidParameter:  # beyond what a range may be, or empty
            continue
    return facts


def check_declared(columns: Mapping[str, Mapping[str, object]], facts: Mapping[str, Fact]) -> None:
    """Refuses a declaration of a column that no table has, or that is neither a range nor values."""
    known = {n for names in columns.values() for n in names}
    qualified = {f"{t}.{n}" for t, names in columns.items() for n in names}
    for name, fact in facts.items():
        if name not in known | qualified:
            raise UnknownColumn(
                f"columns= declares {name!r}, which no table has.",
                hint=f"columns are: {', '.join(sorted(known)[:12])}",
            )
        if not isinstance(fact, Range | Values):
            raise InvalidParameter(
                f"columns={{{name!r}: …}} must be a Range or Values, not {type(fact).__name__}.",
                hint=f"columns={{{name!r}: dp.Range(0, 200)}} or dp.Values('a', 'b')",
            )
