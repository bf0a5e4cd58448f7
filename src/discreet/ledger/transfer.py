"""A ledger that goes on in another store: its end here is durable before anything begins there.

The order decides. If the copy came first, a crash between the two would leave two ledgers that both take charges, and
every budget could be spent twice. So all accounts end here first, with entries that name the other store and the head
up to which its copy goes; then everything is copied in one transaction. A crash between leaves a ledger that takes no
charge anywhere, and the same call again goes on where it stopped.

There is one copy at most, also where the first was taken away and something else stands in its place: before anything
ends here the empty store gets a mark, drawn at random, and what ends here names it. No other store has that mark. (Once
the copy is there, this is kept here too; ledgers that moved before there were marks have only that.)
"""

from __future__ import annotations

import os

from discreet.errors import LedgerError
from discreet.ledger import names
from discreet.ledger.entry import Moved, Opened
from discreet.ledger.log import HEAD, NO_END, Log, View
from discreet.ledger.states import ARRIVED, MARK, MARKED, MOVED, moved_text, read_moved
from discreet.ledger.store import Store, Transaction, rows_up_to


def transfer(old: Log, new: Store, *, by: str, reason: str) -> None:
    """End every account here and copy the ledger's chain, states and blobs into an empty store.

    Raises:
        LedgerError: nothing to move, the other store is not empty, or the ledger has moved to a third one, or has had
            its copy there.
    """
    signed, mark = (names.words("by", by), names.words("reason", reason)), ""
    if old.read(_unmoved):
        mark = new.write(lambda now: _marked(now, new.place))

    def end(view: View) -> tuple[str, int, str]:
        if (text := view.get(MOVED)) is not None:
            return read_moved(text)
        seq, head = view.head
        for row in view.rows(after=0, limit=NO_END, kind=Opened.kind):
            view.append(row.population, Moved(new.place, head, *signed))
        view.put(MOVED, moved_text(new.place, seq, head))
        view.put(MARKED, mark)
        return new.place, seq, head

    to, seq, head = old.write(end)
    if to != new.place:
        raise LedgerError(f"the ledger {old.store.place} has moved to another place.", hint=f"open it in {to}")
    new.write(lambda copy: _copy(old.store, copy, new.place, seq, head))
    old.write(lambda view: view.put(ARRIVED, moved_text(to, seq, head)))


def _unmoved(view: View) -> bool:
    """Whether a ledger has not moved; one without accounts never does, and marks no store."""
    if not view.rows(after=0, limit=1, kind=Opened.kind):
        raise LedgerError("there is no account in this ledger that could be moved.")
    return view.get(MOVED) is None


def _copy(old: Store, copy: Transaction, place: str, end: int, head: str) -> None:
    if (there := copy.row(end)) is not None and there.hash == head:
        return  # an earlier call has copied it
    arrived, mark = old.read(lambda now: (now.get(ARRIVED), now.get(MARKED)))
    if arrived is not None or (mark is not None and copy.get(MARK) != mark):
        raise LedgerError(
            f"the ledger {old.place} has moved to {place}, and what is there now is not that ledger.",
            hint="find the one that it went on in: a second copy would spend every budget twice",
        )
    _refuse_full(copy, place)
    for row in rows_up_to(old, end):
        copy.append(row)
    states = old.read(lambda now: {name: now.get(name) or "" for name in now.names()})
    for name, value in states.items():
        if name not in (HEAD, MOVED, ARRIVED, MARK, MARKED):
            copy.put(name, value)
    copy.put(HEAD, f"{end} {head}")
    for name in old.read(lambda now: now.blobs()):
        copy.put_blob(name, _blob(old, name))


def _blob(old: Store, name: str) -> bytes | None:
    return old.read(lambda now: now.blob(name))


def _marked(now: Transaction, place: str) -> str:
    """Return the mark of an empty store. One that it has is kept: a ledger may have named it already."""
    _refuse_full(now, place)
    mark = now.get(MARK)
    if mark is None:
        mark = os.urandom(16).hex()
        now.put(MARK, mark)
    return mark


def _refuse_full(now: Transaction, place: str) -> None:
    if now.last() is not None or set(now.names()) - {MARK} or now.blobs():
        raise LedgerError(f"the ledger {place} is not empty.", hint="move into a new one")
