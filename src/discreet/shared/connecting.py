"""From sources and what their owner says of two populations to a session that charges both."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from discreet.backends.duckdb import DuckDB
from discreet.errors import InvalidParameter
from discreet.ledger.entry import Analysts
from discreet.ledger.ledger import Ledger
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.shared.session import SharedSession
from discreet.tables.owners import find_both
from discreet.tables.shapes import attach_all, check_declared, find_shapes, pin_all, warn_of_alike

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.plan.schema import Fact
    from discreet.tables.shapes import Kept, Owners

T = TypeVar("T")


def open_both(
    source: object,
    units: Mapping[str, PrivacyUnit],
    *,
    place: str | os.PathLike[str],
    columns: Mapping[str, Fact],
    budget: Mapping[str, Budget],
    relation: Mapping[str, str | Relation | None],
    filter: Mapping[str, str | None],  # noqa: A002  # the field's word, and the front door's
    analyst: Mapping[str, str | None],
    version: str | None,
    names: Sequence[str] | None,
    known: Callable[[str | os.PathLike[str], str, Sequence[str]], Kept],
) -> SharedSession:
    """A session over tables each of whose rows is of a unit of either population.

    Args:
        source: as in `connect_both`.
        units: the unit of each population, by its name.
        place: of the ledger that holds both accounts.
        columns: as in `connect_both`.
        budget: for each population of which it is said.
        relation: the same.
        filter: the same.
        analyst: the same.
        version: as in `connect_both`.
        names: as in `connect_both`.
        known: what the account of a population in the ledger at a place knows of tables.

    Raises:
        SourceError, LedgerError, InvalidParameter: see `discreet.errors`; nothing has been charged.
    """
    wanted = {n: None if r is None else Relation.parse(r) for n, r in relation.items()}
    backend = DuckDB(source, names=names)
    try:
        owners = find_both(units, backend.tables, backend.views)
        kept = {name: known(place, name, backend.tables) for name in units}
        shapes = find_shapes(backend, list(owners.values()), list(kept.values()))
        check_declared({t: s.columns for t, s in shapes.items()}, columns)
        book = Ledger.prepared(place)
    except BaseException:
        backend.close()
        raise
    try:
        _check_budgets(book, units, budget)
        opened = [
            book.prepared_account(n, budget.get(n), relation=wanted.get(n), filter=filter.get(n))
            for n in units
        ]
        accounts = {n: a.asked_by(analyst.get(n)) for n, a in zip(units, opened, strict=True)}
        for account in accounts.values():
            _check_account(account)
        seen = {table for tables in kept.values() for table in tables}
        warn_of_alike(book, accounts.values(), shapes, next(iter(owners.values())), seen)
        both, (first, *_) = list(owners.values()), accounts.values()
        pinned = pin_all(backend, list(accounts.values()), shapes, both)
        unit = next(iter(units.values()))
        tables = attach_all(backend, pinned, both, unit=unit, facts=columns, account=first)
        return SharedSession(book, accounts, backend, tables, _units(owners, units), version)
    except BaseException:
        book.close()
        backend.close()
        raise


def _units(
    owners: Mapping[str, Owners], units: Mapping[str, PrivacyUnit]
) -> dict[str, tuple[PrivacyUnit, PrivacyUnit]]:
    """The two units of each table, by the column of it that holds their ids."""
    first, second = (
        {t: PrivacyUnit(own.column, unit.max_groups, unit.max_rows) for t, own in owners[name].items()}
        for name, unit in units.items()
    )
    return {table: (first[table], second[table]) for table in first}


def check_units(units: object) -> None:
    """Refuses what is no two populations, by their names.

    Raises:
        InvalidParameter: it is not.
    """
    if not isinstance(units, Mapping):
        raise InvalidParameter(
            f"units must be a dict from a population's name to its PrivacyUnit, not {type(units).__name__}.",
            hint="units={'patients': dp.PrivacyUnit('patient_id', max_rows=10), 'doctors': …}; one population is "
            "connected with dp.connect(source, unit=…)",
        )
    if len(units) != 2:
        raise InvalidParameter(
            f"units names two populations, not {len(units)}.",
            hint="one is connected with dp.connect(source, unit=…); rows of three kinds of units cannot be bounded",
        )
    for name, unit in units.items():
        if not isinstance(name, str) or not name:
            raise InvalidParameter(f"a population is named by a text, not {name!r:.60}.")
        if not isinstance(unit, PrivacyUnit):
            raise InvalidParameter(
                f"the unit of {name!r:.60} must be a PrivacyUnit, not {type(unit).__name__}.",
                hint=f"units={{{name!r:.60}: dp.PrivacyUnit('patient_id', max_rows=10), …}}",
            )


def for_each(
    name: str, given: T | Mapping[str, T] | None, populations: Collection[str], *, only_dict: str = ""
) -> dict[str, T]:
    """What is said for each population: the one thing for both, or a dict for those that it names.

    Raises:
        InvalidParameter: a population that is not there; one thing for both where `only_dict` says how to give a dict.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if only_dict:
            raise InvalidParameter(
                f"{name} must be a dict by the populations' names, not {type(given).__name__}.",
                hint=only_dict,
            )
        return dict.fromkeys(populations, given)
    unknown = sorted(repr(n) for n in given if n not in populations)
    if unknown:
        raise InvalidParameter(
            f"{name} names {unknown[0]:.60}, which is none of the populations {' and '.join(map(repr, populations))}."
        )
    return dict(given)


def _check_budgets(book: Ledger, units: Mapping[str, PrivacyUnit], budget: Mapping[str, Budget]) -> None:
    """Looks whether the accounts that are new can be opened."""
    for name in units:
        if name not in budget and book.account(name) is None:
            raise InvalidParameter(
                f"a new account for {name!r} needs a budget with ε above 0.",
                hint=f"budget={{{name!r}: dp.Budget(epsilon=3), …}}",
            )


def _check_account(account: Account) -> None:
    """Refuses accounts whose promises a question of two populations would not keep."""
    if account.people is not None:
        raise InvalidParameter(
            f"each person of {account.population!r} has an own budget, which is not charged where two populations are "
            "protected.",
            hint="use a population with one budget for all; tables of one population are asked in their own session",
        )
    if account.analysts is Analysts.APART:
        raise InvalidParameter(
            f"the analysts of {account.population!r} are kept apart, and a question that another population pays for "
            "as well would tell them what others have asked of that one.",
            hint="use another population; tables of one population are asked in their own session",
        )
