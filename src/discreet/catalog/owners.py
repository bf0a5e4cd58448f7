"""Whose the rows of each table are: a unit's by a column of the table, a unit's by a foreign key, or none's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from discreet.catalog.schema import Reached, near_columns, unknown_table
from discreet.catalog.types import TableShape
from discreet.errors import InvalidParameter, UnknownColumn
from discreet.privacy.unit import PrivacyUnit

FORM = '"order_id -> orders.id": a column of this table, the table that it leads to, and the key there'
"""How a foreign key is written."""


@dataclass(frozen=True, slots=True)
class Owner:
    """How the unit of a table's rows is found."""

    column: str | None = None  # the table's own column that holds the unit's id
    reached: Reached | None = None  # else the foreign key that leads to it
    public: bool = False  # else whether it holds no personal data. With none of the three, each row is a unit.
    # the other populations that the table's rows belong to as well, each with the column of its ids. They are kept
    # beside its own columns, so that the table can never be connected with one of them left out, whose people's rows
    # would be read uncharged.
    others: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> str:
        """It in words, for messages."""
        if self.public:
            return "nobody, as a public table"
        if self.reached is not None:
            return f"the foreign key {path(self.reached)!r}"
        own = "each row" if self.column is None else f"the column {self.column!r}"
        return own + "".join(f" and, as {name!r}, the column {column!r}" for name, column in self.others)

    def to_json(self) -> dict[str, Any]:
        """Return the form in which the ledger keeps it beside a table's shape."""
        key = self.reached
        return {
            "unit": self.column,
            "reached": None if key is None else [key.column, key.table.casefold(), key.key],
            "public": self.public,
            "others": [list(other) for other in self.others],
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Owner:
        """Return what `to_json` wrote."""
        reached = None if kept["reached"] is None else Reached(*kept["reached"])
        others = tuple((name, column) for name, column in kept["others"])
        return cls(kept["unit"], reached, kept["public"], others)


Owners = Mapping[str, Owner]  # how one population's units are found in each table


def path(key: Reached) -> str:
    """Return a foreign key as it is written in `tables=`."""
    return f"{key.column} -> {key.table}.{key.key}"


def find_owners(
    unit: PrivacyUnit, public: Collection[str], tables: Sequence[str], views: Sequence[str] = ()
) -> dict[str, Owner]:
    """Each table's owner, as the unit and the list of public tables say it.

    Every chain of foreign keys ends in a table with a column of the unit's own: rows that can belong to nobody, or
    to whom only a circle leads, are not for guessing.

    Raises:
        UnknownColumn: a table that is not connected.
        InvalidParameter: a foreign key of no known form, a circle, a chain that ends in a public table, no private
            table, or a table that is said to be both.
    """
    named_public = {_connected(name, tables, views, "public=") for name in _names(public)}
    said = {_connected(name, tables, views, "tables="): how for name, how in unit.tables}
    both = sorted(named_public & said.keys())
    if both:
        raise InvalidParameter(
            f"Table {both[0]!r} is named public, and tables= says how its unit is found.",
            hint="a table is either: leave it out of public= if its rows are people's",
        )
    if len(named_public) == len(tables):
        raise InvalidParameter(
            "Every table is named public: there is nobody to protect.",
            hint="leave the tables with people's rows out of public=",
        )
    owners = {t: Owner(public=True) if t in named_public else _owner(t, unit, said, tables, views) for t in tables}
    for table in tables:
        _check_chain(table, owners)
    return owners


def find_two_owners(
    units: Mapping[str, PrivacyUnit], tables: Sequence[str], views: Sequence[str] = ()
) -> dict[str, dict[str, Owner]]:
    """How the unit of each population is found in each table: by a column of the table's own, each time another one.

    Raises:
        UnknownColumn, InvalidParameter: a unit that is each row, that a foreign key leads to, or one column for both.
    """
    found = {}
    for name, unit in units.items():
        if unit.is_row:
            raise InvalidParameter(
                f"The unit of {name!r} is each row, and a row is of a unit of the other population as well.",
                hint="name the column that holds the id: dp.PrivacyUnit('patient_id', max_rows=10)",
            )
        if unit.max_contributions is not None:
            raise InvalidParameter(
                f"The unit of {name!r} has max_contributions, which two populations do not support.",
                hint="cap the rows of each group: dp.PrivacyUnit('patient_id', max_rows=10)",
            )
        found[name] = find_owners(unit, (), tables, views)
    for table in tables:
        columns = {name: owners[table].column for name, owners in found.items()}
        for name, column in columns.items():
            if column is None:
                raise InvalidParameter(
                    f"A foreign key leads to {name!r} from table {table!r}, which is not supported where two "
                    "populations are protected.",
                    hint="store the ids of both in the table, or ask it in a session of one population",
                )
        if len({c.casefold() for c in columns.values() if c is not None}) < len(columns):
            raise InvalidParameter(
                f"Both populations have the ids of {table!r} in the column {next(iter(columns.values()))!r}.",
                hint="each needs a column of its own; one population needs no dict of units",
            )
        for name, owners in found.items():
            others = sorted((n, c) for n, c in columns.items() if n != name and c is not None)
            owners[table] = replace(owners[table], others=tuple(others))
    return found


def find_links(links: object, tables: Sequence[str], views: Sequence[str] = ()) -> dict[str, tuple[Reached, ...]]:
    """Return the foreign keys of each table along which it may be joined to rows of the same unit.

    Raises:
        UnknownColumn: a table that is not connected.
        InvalidParameter: no dict, or a key of no known form.
    """
    if not isinstance(links, Mapping):
        raise InvalidParameter("links must be a dict from a table's name to its foreign keys.", hint=_LINK)
    found: dict[str, tuple[Reached, ...]] = {}
    for name, said in links.items():
        keys = (said,) if isinstance(said, str) else said
        if not isinstance(name, str) or not isinstance(keys, list | tuple) or not all(isinstance(k, str) for k in keys):
            raise InvalidParameter("links must be a dict from a table's name to its foreign keys.", hint=_LINK)
        table = _connected(name, tables, views, "links=")
        found[table] = tuple(_foreign_key("links=", key, table, tables, views) for key in keys)
    return found


_LINK = 'links={"items": "ticket_id -> tickets.id"}, or a list of such keys'


def check_links(
    links: Mapping[str, Sequence[Reached]], shapes: Mapping[str, TableShape], owners: Mapping[str, Owner]
) -> None:
    """Refuse links that name a public table, a column that is not there, or columns of two types.

    Raises:
        UnknownColumn, InvalidParameter: then.
    """
    for table, key in ((t, k) for t, keys in links.items() for k in keys):
        for name in (table, key.table):
            if owners[name].public:
                raise InvalidParameter(
                    f"The link {path(key)!r} of table {table!r} names {name!r}, which is public.",
                    hint="leave it out: a public table may be joined on anything",
                )
            if owners[name].column is None and owners[name].reached is None:
                raise InvalidParameter(
                    f"The link {path(key)!r} of table {table!r} joins rows of one unit, and each row is a unit.",
                    hint="leave links= out, or name the column that holds the unit: dp.PrivacyUnit('person_id', …)",
                )
        kinds = []
        for name, column in ((table, key.column), (key.table, key.key)):
            if column not in shapes[name].columns:
                what = f"The link {path(key)!r} of table {table!r} needs a column {column!r} in table {name!r}."
                raise UnknownColumn(what, hint=near_columns(column, list(shapes[name].columns)))
            kinds.append(shapes[name].columns[column])
        if kinds[0] != kinds[1]:
            raise InvalidParameter(
                f"The link {path(key)!r} of table {table!r} compares {kinds[0]} with {kinds[1]}.",
                hint="store both as the same type",
            )


def check_same(table: str, before: Owner, now: Owner) -> None:
    """Refuses to find a known table's units in another way than it is pinned.

    Otherwise a table that is known to hold many rows per person could be read as if each row were one, by
    another id, by a way to other people, or as public.
    """
    if before.to_json() == now.to_json():
        return
    hint = "connect it with the same unit"
    if before.others:  # under another name nobody would know of them
        hint = "connect it with connect_both and the same units, so that both populations are charged"
    elif not now.others:
        hint += ", or use another population= for another promise"
    raise InvalidParameter(
        f"Who is protected in table {table!r} was fixed with its first charged query: {before.words}, not {now.words}.",
        hint=hint,
    )


def check_unit(
    unit: PrivacyUnit, shapes: Mapping[str, TableShape], owners: Mapping[str, Owner], *, by_policy: bool = False
) -> None:
    """Refuses a table with a column of the unit's name, here or elsewhere, which is not how its units are found.

    The column would say one thing of whose the rows are, and the owner another; if the owner errs, people's rows are
    taken for public or for others', or a visit is protected in the place of a person. Arguments can say which of two
    columns holds the unit, but not that the one does not which has the unit's name and holds it in another table. A
    policy names a column of each table, so that there none is a choice between two.
    """
    name = unit.column
    said = {table.casefold() for table, _ in unit.tables}
    holding = {o.column.casefold(): t for t, o in reversed([*owners.items()]) if o.column is not None}
    holding.pop("id", None)
    for table, owner in owners.items():
        if owner.column is None:
            continue
        for other in (c for c in shapes[table].columns if c.casefold() in holding.keys() - {owner.column.casefold()}):
            chosen = table.casefold() in said and not by_policy
            if chosen and (name is None or other.casefold() != name.casefold()):
                continue
            hint = f"say which: tables={{{table!r}: {owner.column!r}}} in the PrivacyUnit, or {other!r}"
            if by_policy:
                hint = f'`unit = "{other}"` under [table.{table}] in the policy'
            elif chosen:
                hint = f"leave {table!r} out of tables="
            raise InvalidParameter(
                f"Table {table!r} has two columns that may hold the unit: {owner.column!r}, as is said, and {other!r}, "
                f"which holds it in table {holding[other.casefold()]!r}.",
                hint=f"{hint}; rename {other!r} if it holds something else",
            )
    for table, owner in owners.items():
        if name is None or owner.column is not None:
            continue
        if any(c.casefold() == name.casefold() for c in shapes[table].columns):
            what = "it is named public" if owner.public else f"tables= says {path(owner.reached)!r}"  # type: ignore[arg-type]  # it is reached
            out = "public=" if owner.public else "tables="
            raise InvalidParameter(
                f"Table {table!r} has a column of the unit's name, {name!r}, and {what}.",
                hint=f"leave it out of {out} if the column holds the unit; else rename the column, or give the unit a "
                "name that no such table has and say each table's column in tables=",
            )


def check_columns(shapes: Mapping[str, TableShape], owners: Mapping[str, Owner]) -> None:
    """Refuse owners that name a column which is not there."""
    for table, owner in owners.items():
        key, needed = owner.reached, [(table, owner.column)]
        if key is not None:
            needed = [(table, key.column), (key.table, key.key)]
        for t, column in needed:
            if column is None or column in shapes[t].columns:
                continue
            hint = near_columns(column, list(shapes[t].columns))
            names = {o.column for o in owners.values() if o.column not in (None, "id")}
            if key is None and (elsewhere := [c for c in shapes[t].columns if c in names]):
                hint = (
                    f"tables={{{t!r}: {elsewhere[0]!r}}} in the PrivacyUnit, if that column holds it here as elsewhere"
                )
            elif key is None:
                hint += "; dp.PrivacyUnit.row() where each row is one person"
            if key is not None:
                what = f"The foreign key {path(key)!r} of table {table!r} needs a column {column!r} in table {t!r}."
                raise UnknownColumn(what, hint=hint)
            if len(shapes) > 1:
                hint += (
                    f'; else say how its rows lead to a unit, tables={{{table!r}: "column -> table.key"}}, or name it '
                    "in public= if it holds no personal data"
                )
            raise UnknownColumn(f"The unit's column {column!r} is not in table {table!r}.", hint=hint)


def id_columns(owners: Mapping[str, Owner], table: str) -> set[str]:
    """Return the columns of a table that hold ids: its unit's, another table's rows', or its own for others."""
    keys = {o.reached.key for o in owners.values() if o.reached is not None and o.reached.table == table}
    owner = owners[table]
    own = owner.reached.column if owner.reached is not None else owner.column
    return keys if own is None else keys | {own}


def _owner(
    table: str, unit: PrivacyUnit, said: Mapping[str, str], tables: Sequence[str], views: Sequence[str]
) -> Owner:
    how = said.get(table)
    if how is None:
        return Owner(unit.column)
    if "->" not in how:
        return Owner(how)
    return Owner(reached=_foreign_key("tables=", how, table, tables, views))


def _foreign_key(option: str, how: str, table: str, tables: Sequence[str], views: Sequence[str]) -> Reached:
    column, _, target = how.partition("->")
    splits = _splits(target)
    if not (column.strip() and splits):
        raise InvalidParameter(f"{option} says {how!r} of {table!r}, which is no foreign key.", hint=FORM)
    found = [(t, key) for t, key in splits if _match(t, tables) is not None]
    if not found:
        view = next((t for t, _ in splits if _match(t, views)), "")
        what = f"The foreign key {how!r} of table {table!r} leads to a table that is not connected."
        raise unknown_table(what, view, tables, views)
    name, key = found[-1]  # the longest name of a table, which may hold dots
    return Reached(column.strip(), _match(name, tables) or name, key)


def _splits(target: str) -> list[tuple[str, str]]:
    """Return the ways to read `table.key`, by each of its dots."""
    dots = [i for i, c in enumerate(target) if c == "."]
    splits = [(target[:i].strip(), target[i + 1 :].strip()) for i in dots]
    return [(table, key) for table, key in splits if table and key]


def _check_chain(table: str, owners: Mapping[str, Owner]) -> None:
    seen, at = [table], owners[table]
    while at.reached is not None:
        following = at.reached.table
        if owners[following].public:
            raise InvalidParameter(
                f"The foreign key {path(at.reached)!r} of table {seen[-1]!r} leads to the public table "
                f"{following!r}, which is public.",
                hint=f"say how the rows of {seen[-1]!r} lead to a unit, or name it public if it holds no personal data",
            )
        if following in seen:
            circle = ", ".join(repr(t) for t in seen[seen.index(following) :])
            raise InvalidParameter(
                f"The foreign keys of {circle} lead in a circle and to no unit.",
                hint="one table on the way needs a column that holds the unit's id",
            )
        seen.append(following)
        at = owners[following]


def _names(public: object) -> list[str]:
    if isinstance(public, str) or not isinstance(public, Collection) or not all(isinstance(p, str) for p in public):
        raise InvalidParameter("public must be a list of the names of tables.", hint='public=["regions"]')
    return [str(p) for p in public]


def _connected(name: str, tables: Sequence[str], views: Sequence[str], option: str) -> str:
    found = _match(name, tables)
    if found is None:
        what = f"{option} names the table {name!r:.80}, which is not connected."
        raise unknown_table(what, name, tables, views)
    return found


def _match(name: str, tables: Sequence[str]) -> str | None:
    """Return the connected table of that name; FROM makes no difference between upper and lower case, nor does this."""
    return next((t for t in tables if t.casefold() == name.casefold()), None)
