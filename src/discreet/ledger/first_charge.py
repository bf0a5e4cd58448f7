"""What a session writes to a ledger with its first accepted charge: new accounts, and the tables that they lack.

A step is tried in memory when a session is connected, and looked at there until it is taken: the charge takes it in its
own transaction, or is refused. So who only connects, plans or is refused leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from discreet.errors import InvalidParameter
from discreet.ledger.account import Account
from discreet.ledger.log import View

T = TypeVar("T")


def foresee(step: Callable[[View], T], first: Account, *others: Account) -> T:
    """Return what a step of these accounts of one ledger, such as pinning tables, comes to now, and have the first
    charge of each take it.

    That charge is refused unless the step comes to the same then.
    """
    accounts = (first, *others)
    earlier = tuple(dict.fromkeys(before for account in accounts for before in account.pending))

    def look(view: View) -> tuple[T, bool, tuple[int, str] | None]:
        for before in earlier:
            before(view)
        head = view.head
        return step(view), view.head != head, view.imagined_at

    def again(view: View) -> None:
        if view.imagined_at is not None and view.imagined_at == at:
            return  # it comes to the same, and no budget follows from what it writes
        if step(view) != expected:
            raise InvalidParameter(
                "another session has asked these tables meanwhile, and they had other columns then; nothing was "
                "charged.",
                hint="connect again",
            )

    expected, writes, at = first.log.imagine(look)
    for account in accounts:
        account.pending = (*earlier, *([again] if writes else []))
    return expected
