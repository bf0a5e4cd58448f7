"""From sources to schemas: each table's shape, pinned in the account with the way to its units, and its facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from discreet.backends.backend import Backend, Pinned
from discreet.errors import InvalidParameter, SourceError, UnknownColumn
from discreet.ledger.first_charge import foresee
from discreet.plan.schema import Fact, TableSchema
from discreet.plan.types import Type
from discreet.privacy.unit import PrivacyUnit
from discreet.tables.facts import MOST_VALUES, declared_facts, found_facts
from discreet.tables.linked import id_columns, with_id_kinds
from discreet.tables.owners import Owner, check_same, path

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.ledger.log import View

Kept = Mapping[str, tuple[Pinned, Owner]]
"""What the account knows of tables by their names: the shape and the owner of each."""


def find_shapes(backend: Backend, owners: Mapping[str, Owner], kept: Kept) -> dict[str, Pinned]:
    """The shape of each table: the pinned one where there is one, else the present one, with linked ids in one type.

    Raises:
        InvalidParameter, UnknownColumn: another owner than is known, a column that is not there, ids that cannot be
            compared.
    """
    for table, (_, before) in kept.items():
        check_same(table, before, owners[table])
    shapes = {t: kept[t][0] if t in kept else backend.discover(t) for t in backend.tables}
    check_columns(shapes, owners)
    return with_id_kinds(backend, shapes, owners, kept.keys())


def check_unit(unit: PrivacyUnit, shapes: Mapping[str, Pinned], owners: Mapping[str, Owner]) -> None:
    """Refuses a table with a column of the unit's name which is not how its units are found.

    The column would say one thing of whose the rows are, and the owner another; if the owner errs, people's rows are
    taken for nobody's or for others'.
    """
    name = unit.column
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


def pin_all(
    backend: Backend, account: Account, shapes: Mapping[str, Pinned], owners: Mapping[str, Owner]
) -> dict[str, Pinned]:
    """Return the shapes as the account keeps them, or will from its next accepted charge on, which pins new ones.

    Another process may pin them meanwhile: then the charge is refused unless it comes to the same.

    Raises:
        InvalidParameter: another owner, or kinds of ids that are not compared.
    """

    def pin(view: View) -> dict[str, Pinned]:
        found = {}
        for table, shape in shapes.items():
            schema = {**shape.to_json(), **owners[table].to_json()}
            kept = account.pinning(table.casefold(), schema)(view)
            check_same(table, Owner.from_json(kept), owners[table])
            found[table] = Pinned.from_json(kept)
        check_columns(found, owners)
        return found

    found = foresee(pin, account)
    return with_id_kinds(backend, found, owners, found.keys())


def attach_all(
    backend: Backend,
    shapes: Mapping[str, Pinned],
    owners: Mapping[str, Owner],
    *,
    unit: PrivacyUnit,
    facts: Mapping[str, Fact],
    account: Account,
) -> list[TableSchema]:
    """Make every table answerable, and return what is public about each."""
    schemas = []
    for table, shape in shapes.items():
        view = backend.attach(table, shape, id_columns(owners, table))
        owner = owners[table]
        types = {n: None if k is None else Type(k) for n, k in shape.columns.items()}
        known, held = declared_facts(table, types, facts), None
        if owner.public:
            held = backend.contents(table, shape, MOST_VALUES)
            known = found_facts(held) | known
        # a table that has no column of the unit's own keeps the unit's name: with none, each row would be a unit
        own = PrivacyUnit(owner.column or unit.column, unit.max_groups, unit.max_rows)
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
        )
        if held is not None:
            schema = replace(schema, digest=held.digest, rows=held.rows, alike=held.alike)
        schemas.append(schema)
    return schemas


def look_again(backend: Backend, tables: Sequence[TableSchema]) -> tuple[TableSchema, ...]:
    """Return the tables as they show their sources now: those whose files were written since are attached again.

    A source that is gone or broken is no reason to refuse a query that was answered before; `check_views` refuses it.
    """
    try:
        views = backend.refresh()
    except (SourceError, InvalidParameter):
        return tuple(tables)
    return tuple(t if t.view == views[t.name] else replace(t, view=views[t.name]) for t in tables)


def check_views(backend: Backend, tables: Sequence[TableSchema]) -> None:
    """Refuse, before anything is charged, sources that cannot be read as the query was planned.

    Raises:
        SourceError, InvalidParameter: one is gone, cannot be read, stores ids in a type that has none, or has other
            columns than just now.
    """
    views = backend.refresh()
    if any(t.view != views[t.name] for t in tables):
        raise SourceError(
            "The columns of a source changed while the query was planned. Nothing was charged.",
            hint="ask again",
        )


def check_columns(shapes: Mapping[str, Pinned], owners: Mapping[str, Owner]) -> None:
    """Refuses owners that name a column which is not there, or which holds no id."""
    for table, owner in owners.items():
        if owner.column is not None:
            _check_own(table, owner.column, shapes)
        if owner.reached is not None:
            key = owner.reached
            for t, column in ((table, key.column), (key.table, key.key)):
                if column not in shapes[t].columns:
                    raise UnknownColumn(
                        f"The foreign key {path(key)!r} of table {table!r} needs a column {column!r} in table {t!r}.",
                        hint=_listed(shapes[t]),
                    )


def _check_own(table: str, column: str, shapes: Mapping[str, Pinned]) -> None:
    columns = shapes[table].columns
    if column not in columns:
        hint = _listed(shapes[table])
        if len(shapes) > 1:
            hint += (
                f'; else say how its rows lead to a unit, tables={{{table!r}: "column -> table.key"}}, or name it in '
                "public= if its rows are nobody's"
            )
        raise UnknownColumn(f"The unit's column {column!r} is not in table {table!r}.", hint=hint)
    if columns[column] is None:
        raise InvalidParameter(
            f"The unit's column {column!r} holds a nested or binary value.", hint="use text or numbers"
        )


def _listed(shape: Pinned) -> str:
    return f"columns are: {', '.join(list(shape.columns)[:12])}"
