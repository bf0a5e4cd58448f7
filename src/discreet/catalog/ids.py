"""Ids of people: one canonical form, whatever source holds them.

An id is a whole number or a text, and is pinned as one of the two kinds with the first charged query:

- *whole*: an integer of 64 bits. Text is one where it is written `0` or `-?[1-9][0-9]*`: not `+7`, `007`, `7.0` or
  `1_000`.
- *text*: the exact code points. An integer is the text of its decimal digits; a UUID is written in lower case.

White space around a text (space, tab, line breaks; ASCII only) is no part of an id, and case always is. NULL, an empty
text, and a cell that is no id of the pinned kind belong to nobody: their rows are dropped.

Guarantee:
    The id that a view shows is one function of the canonical value, for every kind of source and every storage type,
    and it is injective where it is not NULL: of two cells with one canonical value, no two ids are made, and of two
    canonical values never one. Reals, decimals, dates, times, booleans and nested values are refused as ids, since no
    spelling of them is canonical. See docs/proofs/ids.md.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from enum import Enum
from typing import TypeAlias

import numpy as np

from discreet.errors import InvalidParameter

Place: TypeAlias = tuple[str, str]  # a table and a column of it
WHOLE, TEXT = "BIGINT", "VARCHAR"  # the two kinds, as the types that are pinned
DIGITS = "0|-?[1-9][0-9]*"  # how the text of a whole number is written
SPACE = " \t\n\r\v\f"  # white space around an id, which is no part of it
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
WIDE_INTEGERS = ("UBIGINT", "HUGEINT", "UHUGEINT")  # the database's types of whole numbers: of 64 bits, and wider


class Storage(Enum):
    """How a source stores ids now."""

    WHOLE = "whole numbers"
    WIDE = "whole numbers beyond 64 bits"
    TEXT = "text"
    CELLS = "cells of text"  # of a file or a frame that says nothing of their type

    @classmethod
    def of(cls, kind: str) -> Storage | None:
        """Return how the database's type stores ids; None where it stores none."""
        if kind in INTEGERS:
            return cls.WHOLE
        if kind in WIDE_INTEGERS:
            return cls.WIDE
        if kind == '"NULL"':
            return cls.CELLS
        return cls.TEXT if kind in ("VARCHAR", "UUID") or _is_enum(kind) else None


def _is_enum(kind: str) -> bool:
    return kind.startswith("ENUM(") and not kind.endswith("]")


def id_sql(cell: str, kind: str) -> str:
    """Return the SQL for the id in a cell, pinned as this kind.

    The text says itself which storage types it reads (`typeof` is a constant of the column), so that it stays right,
    and NULL elsewhere, when the source is rewritten with another type.
    """
    is_whole = f"typeof({cell}) IN ({_listed(INTEGERS + WIDE_INTEGERS)})"
    is_text = f"typeof({cell}) IN ('VARCHAR', 'UUID') OR starts_with(typeof({cell}), 'ENUM(')"
    text = trimmed(f"CAST({cell} AS VARCHAR)")
    if kind == WHOLE:
        read = f"CASE WHEN regexp_full_match({text}, '{DIGITS}') THEN TRY_CAST({text} AS BIGINT) END"
        return f"CASE WHEN {is_whole} THEN TRY_CAST({cell} AS BIGINT) WHEN {is_text} THEN {read} END"
    return f"CASE WHEN {is_whole} THEN CAST({cell} AS VARCHAR) WHEN {is_text} THEN {text} END"


def trimmed(text: str) -> str:
    """Return the SQL for a text without the white space around it, NULL where nothing is left.

    Most texts have none, which two characters tell; `trim` takes ten times as long.
    """
    bare = f"ascii({text}) > 32 AND ascii(({text})[-1]) > 32"
    return f"CASE WHEN {bare} THEN {text} ELSE nullif(trim({text}, '{SPACE}'), '') END"


def id_of(cell: object) -> str | None:
    """Return the text of an id in a cell of Python objects; None for what is no id."""
    try:
        if type(cell) is str:
            cell.encode()
            return cell
        if isinstance(cell, str | uuid.UUID):
            return str.__str__(cell) if isinstance(cell, str) else str(cell)
        if isinstance(cell, int | np.integer) and not isinstance(cell, bool):
            return str(int(cell))
    except Exception:  # noqa: S110  # a cell's own code may raise anything, and no cell may be heard
        pass
    return None


def one_kind(stored: Mapping[Place, Collection[Storage]], pinned: Mapping[Place, str]) -> str:
    """Return the common id type for columns that share a privacy unit.

    Raises:
        InvalidParameter: columns of different kinds.
    """
    for place, kind in pinned.items():
        if kind not in (WHOLE, TEXT):
            raise InvalidParameter(
                f"{_name(place)} was fixed as another type than ids have with its table's first charged query.",
                hint="ids are whole numbers or text: connect the table under another name",
            )
    by_storage = {s: place for place, found in reversed(list(stored.items())) for s in found}
    numbers = by_storage.get(Storage.WHOLE, by_storage.get(Storage.WIDE))
    if numbers is not None and Storage.TEXT in by_storage:
        raise InvalidParameter(
            f"{_name(numbers)} holds whole numbers and {_name(by_storage[Storage.TEXT])} text: ids of different "
            "types are not compared.",
            hint="store the ids in one type, all as whole numbers or all as text",
        )
    kinds = set(pinned.values()) or {WHOLE if Storage.WHOLE in by_storage and Storage.WIDE not in by_storage else TEXT}
    if len(kinds) > 1:
        one, other = (next(p for p, k in pinned.items() if k == kind) for kind in (WHOLE, TEXT))
        raise InvalidParameter(
            f"The ids of {_name(one)} were fixed as whole numbers and those of {_name(other)} as text.",
            hint="connect these tables one at a time",
        )
    if kinds == {WHOLE} and Storage.WIDE in by_storage:
        raise InvalidParameter(
            f"{_name(by_storage[Storage.WIDE])} holds whole numbers beyond 64 bits, and its ids were fixed as whole "
            "numbers of 64 bits.",
            hint="store the ids as BIGINT",
        )
    return kinds.pop()


def _name(place: Place) -> str:
    return f"{place[0]}.{place[1]}"


def _listed(kinds: Collection[str]) -> str:
    return ", ".join(f"'{k}'" for k in kinds)
