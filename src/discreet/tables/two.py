"""Tables whose rows are of two populations at once: which column names whose, and what both accounts keep of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from discreet.backends.backend import Backend, Pinned
from discreet.errors import InvalidParameter
from discreet.ledger.first_charge import foresee
from discreet.plan.schema import Fact, TableSchema
from discreet.plan.types import Type
from discreet.privacy.unit import PrivacyUnit
from discreet.tables.facts import declared_facts
from discreet.tables.linked import id_columns, with_id_kinds
from discreet.tables.owners import Owner, check_same, find_owners
from discreet.tables.shapes import check_columns

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.ledger.log import View

Owners = Mapping[str, Mapping[str, Owner]]
"""Population → table → owner."""


def find_both(
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
        found[name] = find_owners(unit, (), tables, views)
    for table in tables:
        columns = {name: owners[table].column for name, owners in found.items()}
        for name, column in columns.items():
            if column is None:
                raise InvalidParameter(
                    f"A foreign key leads to {name!r} from table {table!r}, which is not answered where two "
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


def find_shapes_of_both(
    backend: Backend, owners: Owners, kept: Mapping[str, Mapping[str, tuple[Pinned, Owner]]]
) -> dict[str, Pinned]:
    """The shape of each table: as an account has it, else the present one, with ids in types that are compared.

    Raises:
        InvalidParameter, UnknownColumn: other owners than are known, or a column that is not there.
    """
    for name, known in kept.items():
        for table, (_, before) in known.items():
            check_same(table, before, owners[name][table])
    known_shapes = {t: shape for known in kept.values() for t, (shape, _) in known.items()}
    shapes = {t: known_shapes.get(t) or backend.discover(t) for t in backend.tables}
    for of_one in owners.values():
        check_columns(shapes, of_one)
        shapes = with_id_kinds(backend, shapes, of_one, known_shapes.keys())
    return shapes


def pin_both(
    backend: Backend, accounts: Mapping[str, Account], shapes: Mapping[str, Pinned], owners: Owners
) -> dict[str, Pinned]:
    """The shapes as both accounts keep them, or will from their next accepted charge on: the first by name says which,
    so that of two processes that pin different ones at once, one does and the other is refused.

    All are one transaction: with a table pinned in one account alone, it could be connected with the other left out.

    Raises:
        InvalidParameter: the accounts keep different ones; nothing was pinned.
    """

    def pin(view: View) -> dict[str, Pinned]:
        found: dict[str, Pinned] = {}
        for table, shape in shapes.items():
            for name in sorted(accounts):
                own = owners[name][table]
                given = {**found.get(table, shape).to_json(), **own.to_json()}
                kept = accounts[name].pinning(table.casefold(), given)(view)
                check_same(table, Owner.from_json(kept), own)
                pinned = Pinned.from_json(kept)
                if table in found and pinned != found[table]:
                    raise InvalidParameter(
                        f"The columns of table {table!r} were fixed in one way for one population and in another for "
                        f"{name!r}.",
                        hint="use another name for the table, or other populations",
                    )
                found[table] = pinned
        for of_one in owners.values():
            check_columns(found, of_one)
        return found

    found = foresee(pin, *accounts.values())
    for of_one in owners.values():
        with_id_kinds(backend, found, of_one, found.keys())
    return found


def attach_both(
    backend: Backend,
    shapes: Mapping[str, Pinned],
    owners: Owners,
    units: Mapping[str, PrivacyUnit],
    facts: Mapping[str, Fact],
    first: Account,
) -> tuple[list[TableSchema], dict[str, tuple[PrivacyUnit, PrivacyUnit]]]:
    """Makes every table answerable: what is public about each, under the first population's unit; and both units."""
    schemas, both = [], {}
    for table, shape in shapes.items():
        view = backend.attach(table, shape, _ids(owners, table))
        types = {n: None if k is None else Type(k) for n, k in shape.columns.items()}
        one, other = (
            PrivacyUnit(owners[name][table].column, unit.max_groups, unit.max_rows)
            for name, unit in units.items()
        )
        both[table] = (one, other)
        known = declared_facts(table, types, facts)
        schemas.append(TableSchema(table, types, known, one, first.relation, view=view, beside=backend.views))
    return schemas, both


def _ids(owners: Owners, table: str) -> set[str]:
    return {column for own in owners.values() for column in id_columns(own, table)}
