"""Tables with the columns of a new one that other accounts of the ledger have: two budgets, perhaps, for one people."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from discreet.ledger.entry import Analysts
from discreet.tables.owners import Owner

if TYPE_CHECKING:
    from discreet.backends.backend import Pinned
    from discreet.ledger.account import Account
    from discreet.ledger.ledger import Ledger


def warn_of_alike(
    book: Ledger,
    accounts: Collection[Account],
    shapes: Mapping[str, Pinned],
    owners: Mapping[str, Owner],
    known: Collection[str],
) -> None:
    """Say on stderr which other account has pinned a table of the same column names, for each table that is new here.

    Pins tell of charges. So an analyst who is kept apart is told nothing, and nobody is told of an account whose
    analysts are (docs/proofs/analysts.md).
    """
    if any(account.alone for account in accounts):
        return
    private = {t: _names(s.columns) for t, s in shapes.items() if t not in known and not owners[t].public}
    mine = {account.population for account in accounts}
    for population in book.populations() if private else []:
        other = None if population in mine else book.account(population)
        if other is None or other.analysts is Analysts.APART:
            continue
        pinned = {
            _names(n for n, _ in p["columns"]): t for t, p in other.pins().items() if not p.get("public")
        }
        for table in (t for t, names in private.items() if names in pinned):
            print(
                f"discreet: table {table!r} has the columns of {pinned[private[table]]!r} in the account "
                f"{population!r}. If they hold the same people, say population={population!r} (--population), or they "
                "have two budgets.",
                file=sys.stderr,
            )


def _names(columns: Iterable[str]) -> frozenset[str]:
    return frozenset(name.casefold() for name in columns)
