"""As which types ids are read that are compared across tables, so that one id is one id in all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from discreet.backends.backend import Pinned
from discreet.errors import InvalidParameter
from discreet.plan.types import Type
from discreet.tables.owners import Owner

Place: TypeAlias = tuple[str, str]
"""A table and a column of it."""

_WHOLE, _REAL, _TEXT = Type.INT.value, Type.REAL.value, Type.TEXT.value


def id_columns(owners: Mapping[str, Owner], table: str) -> set[str]:
    """The columns of a table that hold ids: of its unit, of another table's rows, or that other tables lead to."""
    keys = {o.reached.key for o in owners.values() if o.reached is not None and o.reached.table == table}
    owner = owners[table]
    own = owner.reached.column if owner.reached is not None else owner.column
    return keys if own is None else keys | {own}


def read_alike(
    shapes: Mapping[str, Pinned], owners: Mapping[str, Owner], known: Collection[str]
) -> dict[str, Pinned]:
    """The shapes with each linked set of ids in one type.

    Linked are all columns that hold the unit's id, and each foreign key with the key that it leads to.
    Ids are equal when they are equal in that type, and in no other case:

    - whole numbers beside whole numbers, and text beside text, are read as they are. Text is compared character by
      character ('7' is not '007', 'a' is not 'A', whatever a column's collation says); cells of text files lose the
      spaces around them, as everywhere, and beside them an id in a typed source that has spaces around it is nobody's.
      Decimals, and whole numbers beyond 64 bits, are text: their shortest spelling. Beside them stands no other text,
      which may spell the same number in another way ('7.00').
    - whole numbers beside reals are whole numbers: 7.0 is 7 and −0.0 is 0. A real that is no whole number,
      NaN, an infinity, and a real so large that several whole numbers may have been rounded to it (2^53 and beyond) is
      nobody's id; of 32-bit reals those from 2^24 on are. The same holds of reals beside reals, of 32-bit reals and of
      reals whose column was pinned as text, or whose files differ in its type, also in a table that is alone.
    - cells of text files beside whole numbers are whole numbers: '007' and '7.0' are 7, and what is no whole number is
      nobody's id.
    - a table that was pinned from a text file and comes from a typed source later has the ids that the text file could
      have held, as they stand: there ' a' is another id than 'a', and '007' as text another than '7', so ' a' and
      '007' are nobody's rather than taken for the others.
    - ids that were pinned as text stand beside each other as they are stored now (`check_present`): text beside text,
      and text that is made here, also of whole numbers, beside text that is made here.
    - the columns of the unit may also be dates, times or booleans, all of one type.

    Anything else is refused, since it could make one person two (whose rows then count twice over the caps) or
    two people one. Types are never changed in a table that is `known`: they were pinned.

    Raises:
        InvalidParameter: ids of types that are not compared.
    """
    read = dict(shapes)
    for group, by_key in _linked(owners):
        kinds = {place: read[place[0]].columns[place[1]] for place in group}
        wanted = _one_type(kinds, read, by_key, known)
        for table, column in group:
            read[table] = replace(read[table], columns={**read[table].columns, column: wanted})
    return read


def check_present(
    pinned: Mapping[str, Pinned], owners: Mapping[str, Owner], now: Mapping[str, Pinned]
) -> None:
    """Refuses linked ids that were pinned as text where one table makes text of something else now, and another has it
    as it stands: the shapes that were pinned do not tell, and a person whose ids are '7' and '7.00' would be two.

    Args:
        pinned: the shapes as which the tables are read.
        owners: whose their rows are.
        now: as what ids are stored now (`Backend.present`); a column that is not there is nobody's.

    Raises:
        InvalidParameter: one id may be spelled in two ways.
    """
    for group, _ in _linked(owners):
        there = [(t, c) for t, c in group if pinned[t].columns[c] == _TEXT and c in now[t].columns]
        if len({_stored(now[t], c) for t, c in there}) > 1:
            raise _spelled_apart(there, now)


def _stored(shape: Pinned, column: str) -> str:
    """How the ids of a column are spelled once they are text: as they stand, as numbers are, or as their type is."""
    kind = shape.columns[column]
    if kind == _TEXT:
        return "made" if column in shape.made else "text"
    return "made" if kind in (_WHOLE, _REAL) else str(kind)


def beside_text_files(shapes: Mapping[str, Pinned], owners: Mapping[str, Owner]) -> set[str]:
    """The tables with ids that are compared with those of a text file."""
    groups = (group for group, _ in _linked(owners) if any(shapes[t].text for t, _ in group))
    return {table for group in groups for table, _ in group}


def _one_type(
    kinds: Mapping[Place, str | None], shapes: Mapping[str, Pinned], by_key: bool, known: Collection[str]
) -> str | None:
    found = set(kinds.values())
    typed = {k for (t, _), k in kinds.items() if not (k == _TEXT and shapes[t].text)}
    if found == {_REAL} and not by_key and any(t in known for t, _ in kinds):
        return _REAL  # units that were pinned as reals, each of which drops NaN from its ids
    if found == {_WHOLE} or (typed and typed <= {_WHOLE, _REAL}):
        changed = [(t, c) for (t, c), k in kinds.items() if k != _WHOLE and t in known]
        if changed:
            raise _pinned_apart(kinds, changed[0])
        return _WHOLE
    if found == {_TEXT} and len({c in shapes[t].made for t, c in kinds}) > 1:
        raise _spelled_apart(kinds, shapes)
    if len(found) == 1 and (found == {_TEXT} or not by_key):
        return found.pop()
    if len(found) == 1:
        (table, column), kind = next(iter(kinds.items()))
        raise InvalidParameter(
            f"The foreign key or key {table}.{column} holds {_word(kind)}.",
            hint="ids that lead from table to table are whole numbers or text",
        )
    raise _apart(kinds)


def _linked(owners: Mapping[str, Owner]) -> list[tuple[list[Place], bool]]:
    """The sets of two and more columns that are compared with each other, and whether a foreign key is among them."""
    edges: list[tuple[Place, Place, bool]] = []
    units = [(t, o.column) for t, o in owners.items() if o.column is not None]
    edges += [(units[0], other, False) for other in units[1:]]
    for table, owner in owners.items():
        if owner.reached is not None:
            edges.append(((table, owner.reached.column), (owner.reached.table, owner.reached.key), True))
    groups: list[tuple[list[Place], bool]] = []
    for a, b, by_key in edges:
        touched = [g for g in groups if a in g[0] or b in g[0]]
        places = list(dict.fromkeys([p for g in touched for p in g[0]] + [a, b]))
        groups = [g for g in groups if g not in touched]
        groups.append((places, by_key or any(g[1] for g in touched)))
    return groups


def _apart(kinds: Mapping[Place, str | None]) -> InvalidParameter:
    (one, first), *others = kinds.items()
    other, second = next((p, k) for p, k in others if k != first)
    return InvalidParameter(
        f"{_name(one)} holds {_word(first)} and {_name(other)} {_word(second)}: ids of different types are "
        "not compared.",
        hint="store them in one type, or connect these tables one at a time",
    )


def _pinned_apart(kinds: Mapping[Place, str | None], place: Place) -> InvalidParameter:
    other = next(p for p, k in kinds.items() if k == _WHOLE or p != place)
    return InvalidParameter(
        f"{_name(place)} was fixed as {_word(kinds[place])} when it was first connected, and cannot be "
        f"read as a whole number now, to be compared with {_name(other)}.",
        hint="store the ids of the other tables in that type, or connect these tables one at a time",
    )


def _spelled_apart(places: Iterable[Place], shapes: Mapping[str, Pinned]) -> InvalidParameter:
    ways = {p: _stored(shapes[p[0]], p[1]) for p in places}
    made = next(p for p, how in ways.items() if how != "text")
    plain = next(p for p, how in ways.items() if how != ways[made])
    other = "text as it stands" if ways[plain] == "text" else "such of another type"
    return InvalidParameter(
        f"{_name(made)} holds ids of which text is made here, such as decimals, and {_name(plain)} {other}: "
        "one id may be spelled in two ways ('7' and '7.00').",
        hint="store the ids of both in one type, as whole numbers or as text",
    )


def _name(place: Place) -> str:
    return f"{place[0]}.{place[1]}"


def _word(kind: str | None) -> str:
    return "a nested or binary value" if kind is None else Type(kind).word
