"""What connecting two populations refuses, and what is said for each of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

from discreet.errors import InvalidParameter
from discreet.ledger.entry import Analysts
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import PrivacyUnit

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.ledger.ledger import Ledger
    from discreet.tables.shapes import Owners

T = TypeVar("T")


def units_of_tables(
    owners: Mapping[str, Owners], units: Mapping[str, PrivacyUnit]
) -> dict[str, tuple[PrivacyUnit, PrivacyUnit]]:
    """Return the two units of each table, by the column of it that holds their ids."""
    first, second = (
        {t: PrivacyUnit(own.column, unit.max_groups, unit.max_rows) for t, own in owners[name].items()}
        for name, unit in units.items()
    )
    return {table: (first[table], second[table]) for table in first}


def check_units(units: object) -> None:
    """Refuse what is no two populations, by their names.

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


def check_budgets(book: Ledger, units: Mapping[str, PrivacyUnit], budget: Mapping[str, Budget]) -> None:
    """Refuse a new account without a budget."""
    for name in units:
        if name not in budget and book.account(name) is None:
            raise InvalidParameter(
                f"a new account for {name!r} needs a budget with ε above 0.",
                hint=f"budget={{{name!r}: dp.Budget(epsilon=3), …}}",
            )


def check_account(account: Account) -> None:
    """Refuse accounts whose promises a question of two populations would not keep."""
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
