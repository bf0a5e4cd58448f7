"""Sessions whose accounts and tables are in the ledger, as if something had been charged."""

from __future__ import annotations

from discreet.engine.session import Session


def written(session: Session) -> Session:
    """The session, once its ledger has what its first charge would write before itself."""
    accounts = list(session.accounts.values())
    accounts[0].log.write(lambda view: [account.brought(view) for account in accounts])
    for account in accounts:
        account.arrive()
    return session
