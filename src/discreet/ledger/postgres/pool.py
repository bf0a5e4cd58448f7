"""The connections of one store that wait for their next use, in this process."""

from __future__ import annotations

import os
import time
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field

from discreet.ledger.postgres.failures import CROWDED, Refused
from discreet.ledger.postgres.link import Link
from discreet.ledger.postgres.url import Address

_TRUSTED = 30.0
"""Seconds after which a connection that was not used is not believed to be there still."""

_KEPT = 4
"""How many connections wait at most, for as many threads."""

_PAUSE = 0.05
"""Seconds between two tries to get a connection from a server that has none free."""


@dataclass(slots=True)
class _Idle:
    """Connections with the time of their last use, and the process that may use them."""

    links: deque[tuple[float, Link]] = field(default_factory=deque)
    pid: int = field(default_factory=os.getpid)

    def close(self) -> None:
        with suppress(IndexError):
            while True:
                self.links.pop()[1].close()


class Pool:
    """Connections that are taken by any thread and given back; a forked child begins with none."""

    def __init__(self, address: Address, *, patience: float) -> None:
        self._address = address
        self._patience = patience
        self._idle = _Idle()
        weakref.finalize(self, self._idle.close)

    def waiting(self) -> Link | None:
        """Return a connection that was used before, if there is one; whether it still works is not known."""
        if self._idle.pid != os.getpid():
            self._idle.links.clear()
            self._idle.pid = os.getpid()
        with suppress(IndexError):
            while True:
                used, link = self._idle.links.pop()
                if time.monotonic() - used < _TRUSTED:
                    return link
                link.close()
        return None

    def fresh(self, deadline: float) -> Link:
        """Return a new connection; while the server has none free, it is asked again until the deadline.

        Raises:
            Refused: it refuses, or had none free for so long.
            LedgerError: it cannot be reached.
        """
        while True:
            try:
                return Link(self._address, patience=self._patience)
            except Refused as refused:
                if refused.code not in CROWDED or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE)

    def give_back(self, link: Link) -> None:
        """Keep the connection for its next use; one inside a transaction is ended, and the transaction with it."""
        if link.idle and len(self._idle.links) < _KEPT and self._idle.pid == os.getpid():
            self._idle.links.append((time.monotonic(), link))
        else:
            link.close()

    def close(self) -> None:
        """End all that wait."""
        if self._idle.pid == os.getpid():
            self._idle.close()
