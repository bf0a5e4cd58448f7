"""From sources to schemas: each table's shape, pinned with the way to its units, its ids, and what is public of it."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from discreet.backends.backend import Backend, Contents
from discreet.catalog.ids import Place, one_kind
from discreet.catalog.listed_keys import Keys
from discreet.catalog.owners import Owner, Owners, check_columns, check_same, id_columns
from discreet.catalog.schema import (
    Fact,
    ListedRows,
    Range,
    TableSchema,
    Values,
    declared_facts,
    near_columns,
    output_facts,
)
from discreet.catalog.types import TableShape, Type
from discreet.errors import InvalidParameter, UnknownColumn
from discreet.ledger.entry import Analysts
from discreet.ledger.joint_charge import foresee
from discreet.privacy.unit import PrivacyUnit

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.ledger.ledger import Ledger
    from discreet.ledger.log import View

Kept = Mapping[str, tuple[TableShape, Owner]]
"""What the account knows of tables by their names: the shape and the owner of each."""


def find_shapes(backend: Backend, owners: Sequence[Owners], kept: Sequence[Kept]) -> dict[str, TableShape]:
    """Return the shape of each table: the pinned one where there is one, else the present one, linked ids in one type.

    Raises:
        InvalidParameter, UnknownColumn: another owner than is known, a column that is not there, ids that cannot be
            compared.
    """
    for own, known in zip(owners, kept, strict=True):
        for table, (_, before) in known.items():
            check_same(table, before, own[table])
    pinned = {t: shape for known in kept for t, (shape, _) in known.items()}
    shapes = {t: pinned.get(t) or backend.discover(t) for t in backend.tables}
    for own in owners:
        check_columns(shapes, own)
        shapes = with_id_kinds(backend, shapes, own, pinned.keys())
    return shapes


def pin_all(
    backend: Backend, accounts: Sequence[Account], shapes: Mapping[str, TableShape], owners: Sequence[Owners]
) -> dict[str, TableShape]:
    """Return the shapes as the accounts keep them, or will from their next accepted charge on, which pins new ones.

    Another process may pin them meanwhile: then the charge is refused unless it comes to the same. Of two accounts the
    first by name says which shape it is, and all are one transaction: with a table pinned in one account alone, it
    could be connected with the other left out.

    Raises:
        InvalidParameter: another owner, kinds of ids that are not compared, or accounts that keep different shapes.
    """
    pairs = sorted(zip(accounts, owners, strict=True), key=lambda pair: pair[0].population)

    def pin(view: View) -> dict[str, TableShape]:
        found: dict[str, TableShape] = {}
        for table, shape in shapes.items():
            for account, own in pairs:
                schema = {**found.get(table, shape).to_json(), **own[table].to_json()}
                kept = account.pinning(table.casefold(), schema)(view)
                pinned = TableShape.from_json(kept)
                check_same(table, Owner.from_json(kept), own[table])
                if found.setdefault(table, pinned) != pinned:
                    raise InvalidParameter(
                        f"The columns of table {table!r} were fixed in one way for one population and in another for "
                        f"{account.population!r}.",
                        hint="use another name for the table, or other populations",
                    )
        for own in owners:
            check_columns(found, own)
        return found

    found = foresee(pin, *accounts)
    for own in owners:
        with_id_kinds(backend, found, own, found.keys())
    return found


def attach_all(
    backend: Backend,
    shapes: Mapping[str, TableShape],
    owners: Sequence[Owners],
    *,
    unit: PrivacyUnit,
    facts: Mapping[str, Fact],
    account: Account,
    keys: Keys | None = None,
    min_people: int = 1,
) -> list[TableSchema]:
    """Make every table answerable, and return what is public about each, under the first population's unit."""
    schemas = []
    for table, shape in shapes.items():
        view = backend.attach(table, shape, {c for own in owners for c in id_columns(own, table)})
        owner = owners[0][table]
        types = {n: None if k is None else Type(k) for n, k in shape.columns.items()}
        known, held = output_facts(shapes, facts) | declared_facts(table, types, facts), None
        if owner.public:
            held = backend.contents(table, shape, MOST_VALUES)
            known = found_facts(held) | known
        # a table that has no column of the unit's own keeps the unit's name: with none, each row would be a unit
        own = unit.capped_like(owner.column or unit.column)
        schema = TableSchema(
            table,
            types,
            known,
            own,
            account.relation,
            owner.reached,
            public=owner.public,
            view=view,
            beside=backend.views,
            min_people=1 if owner.public else min_people,
        )
        if held is not None:
            listed = ListedRows(tuple(held.values), held.listed) if held.listed else None
            schema = replace(schema, digest=held.digest, rows=held.rows, alike=held.alike, listed=listed)
        schemas.append(schema)
    return schemas if keys is None else _with_keys(schemas, keys, facts)


def _with_keys(schemas: Sequence[TableSchema], keys: Keys, facts: Mapping[str, Fact]) -> list[TableSchema]:
    """Return the tables, of which the one that has all columns of the listed keys has their values and combinations.

    Raises:
        UnknownColumn, InvalidParameter: no table has them, or several, or what they are is said twice.
    """
    having = [t for t in schemas if not t.public and set(keys.columns) <= t.columns.keys()]
    if not having:
        known = [n for t in schemas for n in t.columns]
        missing = next((c for c in keys.columns if c not in known), keys.columns[0])
        raise UnknownColumn(
            "keys= lists columns that no private table has together.", hint=near_columns(missing, known)
        )
    if len(having) > 1:
        raise InvalidParameter(
            f"keys= lists columns that {having[0].name!r} and {having[1].name!r} both have.",
            hint="rename a column in one of them: its keys belong to one table",
        )
    (table,) = having
    twice = [c for c in keys.columns if c in facts or f"{table.name}.{c}" in facts]
    if twice:
        raise InvalidParameter(f"columns= and keys= both declare {twice[0]!r}.", hint="leave it out of columns=")
    lists, listed = keys.facts(table.columns)
    if math.prod(len(v.values) for v in lists.values()) >= 1 << 62:
        raise InvalidParameter("keys= has columns of too many values together.", hint="list fewer columns")
    other = replace(table, facts={**table.facts, **lists}, listed=listed)
    return [other if t is table else t for t in schemas]


def with_id_kinds(
    backend: Backend, shapes: Mapping[str, TableShape], owners: Mapping[str, Owner], known: Collection[str]
) -> dict[str, TableShape]:
    """Return the shapes with each linked set of ids read as one kind (`catalog/ids.py`).

    Linked are all columns that hold the unit's id, and each foreign key with the key that it leads to. Tables that are
    `known` were pinned, and are left as they are.

    Raises:
        InvalidParameter: ids of a type that has none, or of kinds that are not compared.
    """
    stored = {
        (table, column): found
        for table in owners
        for column, found in backend.storages(table, id_columns(owners, table)).items()
    }
    read = dict(shapes)
    for group in _linked(owners):
        pinned = {(t, c): str(shapes[t].columns[c]) for t, c in group if t in known}
        kind = one_kind({place: stored[place] for place in group}, pinned)
        for table, column in group:
            if table not in known:
                read[table] = replace(read[table], columns={**read[table].columns, column: kind})
    return read


def _linked(owners: Mapping[str, Owner]) -> list[list[Place]]:
    """Return the sets of columns that are compared with each other, a column alone among them."""
    groups = [[(table, column)] for table in owners for column in sorted(id_columns(owners, table))]
    units = [(t, o.column) for t, o in owners.items() if o.column is not None]
    edges = [(units[0], other) for other in units[1:]]
    for table, owner in owners.items():
        if (key := owner.reached) is not None:
            edges.append(((table, key.column), (key.table, key.key)))
    for one, other in edges:
        touched = [g for g in groups if one in g or other in g]
        groups = [g for g in groups if g not in touched] + [[place for g in touched for place in g]]
    return groups


def check_alike(
    book: Ledger,
    accounts: Collection[Account],
    shapes: Mapping[str, TableShape],
    owners: Mapping[str, Owner],
    known: Collection[str],
    *,
    named: bool,
) -> None:
    """Say on stderr which other account has pinned a table of the same column names, for each table that is new here.

    In a locked ledger such a table is refused, as is one of the same account under another name. Pins tell of charges.
    So an analyst who is kept apart is told nothing, and nobody is told of an account whose analysts are
    (docs/proofs/analysts.md). Only where it may be `named` is the other table named: a policy may hide it.

    Raises:
        InvalidParameter: the ledger is locked, and the table is known by another population or name.
    """
    if any(account.alone for account in accounts):
        return
    names = {t: _column_names(s.columns) for t, s in shapes.items()}
    private = {t: n for t, n in names.items() if t not in known and not owners[t].public}
    mine, locked = {account.population for account in accounts}, bool(private) and book.is_locked
    for population in book.populations() if private else []:
        other = None if population in mine and not locked else book.account(population)
        if other is None or other.analysts is Analysts.APART:
            continue
        pins = {t: p for t, p in other.pins().items() if not p.get("public")}
        pinned = {_column_names(n for n, _ in p["columns"]): t for t, p in pins.items()}
        for table in (t for t, found in private.items() if found in pinned):
            there = pinned[private[table]]
            other_table = f"{there!r} in the account {population!r}" if named else "another table in the ledger"
            if locked:
                same = f"connect it as {there!r} with population={population!r}; " if named else ""
                raise InvalidParameter(
                    f"Table {table!r} has the columns of {other_table}, and the ledger is "
                    "locked: one table has one population and one name.",
                    hint=f"{same}its owner unlocks the ledger for the first query of another table",
                )
            say = f"say population={population!r} (--population), or they" if named else "they"
            print(
                f"discreet: table {table!r} has the columns of {other_table}. If they hold the same people, {say} "
                "have two budgets.",
                file=sys.stderr,
            )


def _column_names(columns: Iterable[str]) -> frozenset[str]:
    return frozenset(name.casefold() for name in columns)


MOST_VALUES = 10_000
"""Columns of a public table with at most so many distinct values are known by their values, others by their range."""


def found_facts(contents: Contents) -> dict[str, Fact]:
    """Return what a public table says itself; a column of nothing but NULL, or of numbers beyond every range, says
    nothing.
    """
    facts: dict[str, Fact] = {
        n: Values(*values) for n, values in contents.values.items() if any(v is not None for v in values)
    }
    for name, (low, high) in contents.bounds.items():
        try:
            facts[name] = Range(low, high, integer=isinstance(low, int) and isinstance(high, int))
        except InvalidParameter:  # beyond what a range may be, or empty
            continue
    return facts
