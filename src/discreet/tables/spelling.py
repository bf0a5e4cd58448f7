"""How ids are spelled where each person has a budget, and is known by the text of the id.

A person whose id is '7' in one table and '7.00' in another would have two budgets, and be told apart by nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discreet.backends.backend import Pinned
from discreet.errors import InvalidParameter
from discreet.plan.types import Type
from discreet.tables.ids import id_columns
from discreet.tables.owners import Owner

if TYPE_CHECKING:
    from discreet.backends.backend import Backend
    from discreet.ledger.account import Account

_WHOLE, _REAL, _TEXT = Type.INT.value, Type.REAL.value, Type.TEXT.value
_PLAIN, _CELLS, _MADE = "text", "cells", "made"

_ALIKE = {
    frozenset(pair)
    for pair in ((_WHOLE, _REAL), (_WHOLE, _MADE), (_REAL, _MADE), (_WHOLE, _PLAIN), (_CELLS, _PLAIN))
}
"""Numbers have one spelling, however they are stored; text that stands beside whole numbers or a text file is taken at
its word. What spells 7.0 or 7.00 as text is not known of text, so it does not stand beside reals and decimals."""


def present_ids(
    backend: Backend, owners: Mapping[str, Owner], account: Account | None = None
) -> dict[str, Pinned]:
    """As what each table stores its ids now, whatever was pinned.

    Raises:
        SourceError: files that spell one id in several ways; and where people have budgets of their own, 32-bit reals,
            also in a table that is known and had another type when it was pinned.
    """
    if account is not None and account.people is not None:
        backend.check_ids({t: o.column for t, o in owners.items() if o.column is not None})
    return {table: backend.present(table, id_columns(owners, table)) for table in owners}


def check_spelling(
    pins: Mapping[str, Mapping[str, Any]],
    shapes: Mapping[str, Pinned],
    owners: Mapping[str, Owner],
    now: Mapping[str, Pinned],
) -> None:
    """Refuses a table whose ids another table of the account may hold in other words: a person would be two.

    Tables of one session have their ids in one type (`tables/ids.py`). Those that are connected one at a time meet
    here only, where a person is known by the text of the id; and so does a table with what it was when it was first
    connected, if its ids are text.

    Args:
        pins: the tables that the account knows.
        shapes: the tables of the session, as they are read.
        owners: whose their rows are.
        now: as what they store their ids now (`present_ids`).

    Raises:
        InvalidParameter: dates beside times, say, a text file's '007' beside whole numbers, or its '7.00' beside
            decimals.
    """
    known = {t: (Pinned.from_json(pin), Owner.from_json(pin)) for t, pin in pins.items()}
    for table, shape in shapes.items():
        own = owners[table].column
        if own is None:
            continue
        if table.casefold() in known:  # maybe only since this session has looked
            (before, _), present = known[table.casefold()], now.get(table, shape)
            text = before.columns.get(own) == _TEXT and own in present.columns
            if text and not _alike(_spelled(present, own), _spelled(before, own)):
                raise _two_budgets(f"{table!r} and were in another when it was first connected", "")
            continue
        for other, (pinned, owner) in known.items():
            if owner.column is not None and not _alike(_spelled(shape, own), _spelled(pinned, owner.column)):
                raise _two_budgets(
                    f"{table!r} and may be in another in {other!r}",
                    f"connect {table!r} together with {other!r} first, so that both are read alike, or ",
                )


def _two_budgets(where: str, first: str) -> InvalidParameter:
    return InvalidParameter(
        f"Ids are spelled in one way in {where}, and a person whose id is in both would have two budgets.",
        hint=f"{first}store the ids in one type",
    )


def _spelled(shape: Pinned, column: str) -> str:
    """How ids are spelled: their type; of text, whether it is as it stands, a text file's, or made of others."""
    kind = shape.columns[column]
    if column in shape.made:
        return _MADE
    if kind != _TEXT:
        return str(kind)
    return _CELLS if shape.text else _PLAIN


def _alike(one: str, other: str) -> bool:
    return one == other or frozenset((one, other)) in _ALIKE
