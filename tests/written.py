"""Sessions whose accounts and tables are in the ledger, as if something had been charged."""

from __future__ import annotations

from typing import TypeVar

from discreet.session import Session
from discreet.shared.session import SharedSession

S = TypeVar("S", bound=Session | SharedSession)


def written(session: S) -> S:
    """The session, once its ledger has what its first charge would write before itself."""
    accounts = [session._account] if isinstance(session, Session) else list(session._accounts.values())
    accounts[0].log.write(lambda view: [account.brought(view) for account in accounts])
    for account in accounts:
        account.arrive()
    return session
