"""The front door's first step: `connect`, from sources and what their owner says of them to a session."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from discreet.errors import InvalidParameter, MissingBounds
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import PrivacyUnit, Relation

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss
    from discreet.backends.duckdb import DuckDB
    from discreet.ledger.account import Account
    from discreet.ledger.ledger import Ledger
    from discreet.plan.schema import Fact, TableSchema
    from discreet.session import Session
    from discreet.shared.session import SharedSession
    from discreet.tables.shapes import Kept, Owners

DEFAULT_LEDGER = "discreet.ledger"
"""Where spending is kept unless `ledger=` says another place; connecting says so aloud."""


def connect(
    source: object,
    *,
    unit: PrivacyUnit | str,
    public: Collection[str] = (),
    columns: Mapping[str, Fact] | None = None,
    budget: Budget | None = None,
    per_person: Budget | None = None,
    population: str | None = None,
    ledger: str | os.PathLike[str] | None = None,
    version: str | None = None,
    names: Sequence[str] | None = None,
    relation: str | Relation | None = None,
    filter: str | None = None,  # noqa: A002  # the field's word, and the front door's
    curve: PrivacyLoss | None = None,
    analyst: str | None = None,
    analysts: str | None = None,
    bounds: str | None = None,
) -> Session:
    """A session over private tables, and public ones beside them.

    Args:
        source: a path or glob (Parquet, CSV, JSON, a DuckDB database), a data frame (pandas, polars,
            pyarrow), or a dict of table names to these.
        unit: who is protected, with caps: `PrivacyUnit("user_id", max_groups=3, max_rows=10)` or `PrivacyUnit.row()`.
            Its `tables` says of tables without that column which column holds the unit, or which foreign key leads
            to it. Ids are whole numbers or text (`catalog/ids.py`).
        public: the names of the tables whose rows are nobody's. They may be read freely: their values are known from
            connecting on. Whether a table is public, and how its units are found otherwise, is fixed with
            its first charged query.
        columns: public facts that the owner declares: column → `Range` or `Values` (`"table.column"` where two tables
            share a name). They go before what a public table says itself.
        budget: how much may ever be learned about each unit; needed when the population is new, unless each person has
            an own budget.
        per_person: each person's own budget: a question is charged to the people in it, by what each adds to it, and
            who has used the budget up is left out of later answers; fixed when the account is opened. It needs
            add-remove neighbours and a unit with a column. `budget` is then a cap on all questions besides, or none.
        population: whose budget it is; the private table's name unless said. The same population is the same account,
            whatever the file.
        ledger: where spending is kept: a path (SQLite), a `postgresql://` URL, or ":memory:" for one that ends with
            the process.
        version: a public label of the data's version; a new label makes old answers new questions.
        names: column names for CSV files without a header.
        relation: "add-remove" or "replace"; fixed when the account is opened.
        filter: "basic", "zcdp", "gdp", "renyi" or "renyi-curve"; fixed when the account is opened.
        curve: for "renyi-curve", the loss of the work that all questions together may not exceed at any order.
        analyst: who asks, by a name that the owner has added; needed once the account has analysts.
        analysts: for a new account "together" (the default) or "apart", which promises besides that one analyst alone
            learns no more than the own cap allows; fixed when the account is opened.
        bounds: "auto" to have the caps and missing ranges of every question chosen privately, "values" for missing
            ranges alone, as `Session.sql(…, bounds="auto")` does.

    Raises:
        SourceError, LedgerError, InvalidParameter, MissingBounds: see `discreet.errors`; nothing has been charged.
    """
    from discreet.session import Session
    from discreet.tables.owners import find_owners
    from discreet.tables.people import check_people

    who, facts, place = _unit(unit, bounds), columns or {}, _place(ledger)
    wanted = None if relation is None else Relation.parse(relation)
    _check_given(columns=facts, budget=budget, population=population, version=version)
    if per_person is not None:
        check_people(who, per_person, wanted)
    with ExitStack() as opened:
        backend = _backend(opened, source, names)
        owners = find_owners(who, public, backend.tables, backend.views)
        whose = population if population is not None else _only_private(owners)

        def accounts(book: Ledger) -> list[Account]:
            account = book.prepared_account(
                whose,
                budget,
                relation=wanted,
                filter=filter,
                curve=curve,
                per_person=per_person,
                analysts=analysts,
            )
            return [account.asked_by(analyst)]

        book, (account,), tables = _open(
            opened, backend, place, facts, {whose: who}, {whose: owners}, accounts
        )
        session = Session(book, account, backend, tables, version, bounds=bounds)
        opened.pop_all()
        return session


def connect_both(
    source: object,
    *,
    units: Mapping[str, PrivacyUnit],
    columns: Mapping[str, Fact] | None = None,
    budget: Mapping[str, Budget] | None = None,
    ledger: str | os.PathLike[str] | None = None,
    version: str | None = None,
    names: Sequence[str] | None = None,
    relation: str | Relation | Mapping[str, str | Relation] | None = None,
    filter: str | Mapping[str, str] | None = None,  # noqa: A002  # as in `connect`
    analyst: str | Mapping[str, str] | None = None,
) -> SharedSession:
    """A session over tables each of whose rows belongs to two populations at once, patients and doctors say.

    Each question is charged to both populations, or to none. A table that holds one of them only is asked in a session
    of its own (`connect`) with that population and the same ledger.

    Args:
        source: as in `connect`.
        units: for each of the two populations, by its name, the column of its ids and how many rows one unit may add
            to a group: {"patients": PrivacyUnit("patient_id", max_rows=10), "doctors": PrivacyUnit("doctor_id", …)}.
        columns: public facts that the owner declares, as in `connect`.
        budget: for each population that is new, how much may ever be learned about each of its units.
        ledger: where spending of both is kept, as in `connect`.
        version: a public label of the data's version, as in `connect`.
        names: column names for CSV files without a header.
        relation: as in `connect`, for both or for each.
        filter: as in `connect`, for both or for each.
        analyst: who asks, in both accounts or in each.

    Raises:
        SourceError, LedgerError, InvalidParameter, MissingBounds: see `discreet.errors`; nothing has been charged.
    """
    from discreet.shared.connecting import (
        check_account,
        check_budgets,
        check_units,
        for_each,
        units_of_tables,
    )
    from discreet.shared.session import SharedSession
    from discreet.tables.owners import find_both

    facts = columns or {}
    check_units(units)
    budgets: dict[str, Budget] = for_each(
        "budget", budget, units, only_dict="budget={'patients': dp.Budget(epsilon=3), 'doctors': …}"
    )
    for own in [None, *budgets.values()]:
        _check_given(columns=facts, budget=own, population=None, version=version)
    place = _place(ledger)
    said: Mapping[str, str | Relation | None] = for_each("relation", relation, units)
    filters: dict[str, str] = for_each("filter", filter, units)
    analysts: dict[str, str] = for_each("analyst", analyst, units)
    relations = {n: None if r is None else Relation.parse(r) for n, r in said.items()}

    def accounts(book: Ledger) -> list[Account]:
        check_budgets(book, units, budgets)
        prepared = [
            book.prepared_account(n, budgets.get(n), relation=relations.get(n), filter=filters.get(n))
            for n in units
        ]
        asked = [a.asked_by(analysts.get(n)) for n, a in zip(units, prepared, strict=True)]
        for account in asked:
            check_account(account)
        return asked

    with ExitStack() as opened:
        backend = _backend(opened, source, names)
        owners = find_both(units, backend.tables, backend.views)
        book, both, tables = _open(opened, backend, place, facts, units, owners, accounts)
        named = dict(zip(units, both, strict=True))
        session = SharedSession(book, named, backend, tables, units_of_tables(owners, units), version)
        opened.pop_all()
        return session


def _backend(opened: ExitStack, source: object, names: Sequence[str] | None) -> DuckDB:
    from discreet.backends.duckdb import DuckDB

    return opened.enter_context(closing(DuckDB(source, names=names)))


def _open(
    opened: ExitStack,
    backend: DuckDB,
    place: str | os.PathLike[str],
    facts: Mapping[str, Fact],
    units: Mapping[str, PrivacyUnit],
    owners: Mapping[str, Owners],
    accounts: Callable[[Ledger], list[Account]],
) -> tuple[Ledger, list[Account], list[TableSchema]]:
    """Open the ledger and the accounts of the populations, and make the tables answerable as the accounts keep them."""
    from discreet.ledger.ledger import Ledger
    from discreet.tables.shapes import (
        attach_all,
        check_declared,
        check_unit,
        find_shapes,
        pin_all,
        warn_of_alike,
    )

    whose = list(owners.values())
    kept = [_kept(place, name, backend.tables) for name in owners]
    shapes = find_shapes(backend, whose, kept)
    for unit, own in zip(units.values(), whose, strict=True):
        check_unit(unit, shapes, own)
    check_declared(shapes, facts)
    book = opened.enter_context(Ledger.prepared(place))
    found = accounts(book)
    warn_of_alike(book, found, shapes, whose[0], {table for known in kept for table in known})
    pinned = pin_all(backend, found, shapes, whose)
    unit = next(iter(units.values()))
    return book, found, attach_all(backend, pinned, whose, unit=unit, facts=facts, account=found[0])


def _place(ledger: object) -> str | os.PathLike[str]:
    if isinstance(ledger, str | os.PathLike):
        return ledger
    if ledger is not None:
        raise InvalidParameter(
            f"ledger must be a path, not {type(ledger).__name__}.", hint='ledger="customers.ledger"'
        )
    print(f"discreet: spending is kept in ./{DEFAULT_LEDGER} (ledger= names another place)", file=sys.stderr)
    return DEFAULT_LEDGER


def _unit(unit: PrivacyUnit | str, bounds: str | None) -> PrivacyUnit:
    if isinstance(unit, PrivacyUnit) and (unit.is_row or None not in (unit.max_groups, unit.max_rows)):
        return unit
    column = unit.column if isinstance(unit, PrivacyUnit) else unit
    if isinstance(column, Mapping):
        raise InvalidParameter(
            "unit is a dict, and connect protects one population.",
            hint="dp.connect_both(source, units={'patients': dp.PrivacyUnit('patient_id', max_rows=10), 'doctors': …})",
        )
    if not isinstance(column, str):
        raise InvalidParameter(
            f"unit must be a PrivacyUnit, not {type(unit).__name__}.",
            hint='dp.PrivacyUnit("user_id", max_groups=3, max_rows=10), or dp.PrivacyUnit.row()',
        )
    if bounds == "auto":
        return unit if isinstance(unit, PrivacyUnit) else PrivacyUnit(column)
    raise MissingBounds(
        f"How much of the data one {column!r} may add has not been said.",
        hint=f"unit=dp.PrivacyUnit({column!r}, max_groups=3, max_rows=10): at most 3 groups per query, 10 rows in each "
        "(--max-groups 3 --max-rows 10); or bounds='auto', which chooses them privately for a tenth of each ε",
    )


def _check_given(*, columns: object, budget: object, population: object, version: object) -> None:
    if not isinstance(columns, Mapping):
        raise InvalidParameter(
            f"columns must be a dict from a column's name to a Range or Values, not {type(columns).__name__}.",
            hint="columns={'age': dp.Range(0, 120)}",
        )
    if budget is not None and not isinstance(budget, Budget):
        raise InvalidParameter(
            f"budget must be a Budget, not {type(budget).__name__}.", hint="budget=dp.Budget(epsilon=3)"
        )
    for name, text in (("population", population), ("version", version)):
        if text is not None and not (isinstance(text, str) and 0 < len(text) <= 1000 and "\0" not in text):
            raise InvalidParameter(f"{name} must be a text of 1 to 1000 characters.")


def _kept(place: str | os.PathLike[str], population: str, tables: Sequence[str]) -> Kept:
    """What the population's account knows of the tables: of what a known table is now, ids alone are looked at."""
    from discreet.backends.backend import TableShape
    from discreet.ledger.ledger import Ledger
    from discreet.ledger.places import is_there
    from discreet.tables.owners import Owner

    if not is_there(place):
        return {}
    with Ledger.existing(place) as book:
        account = book.account(population)
        pins = {} if account is None else account.pins()
    found = {t: pins[t.casefold()] for t in tables if t.casefold() in pins}
    return {t: (TableShape.from_json(k), Owner.from_json(k)) for t, k in found.items()}


def _only_private(owners: Owners) -> str:
    private = [t for t, owner in owners.items() if not owner.public]
    if len(private) == 1:
        return private[0]
    raise InvalidParameter(
        "Several tables need the name of the population whose budget they share.",
        hint='population="customers"',
    )
