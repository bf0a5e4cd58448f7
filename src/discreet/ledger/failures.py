"""SQLite's errors in the ledger's words; it sees no private data, so they may stay chained as causes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from discreet.errors import LedgerBusy, LedgerCorrupt, LedgerError

KEEP = "keep the file as it is, look at it with `discreet ledger verify`, and go back to a good copy"
"""The hint for a broken ledger."""

ANOTHER = "another version of discreet wrote it: use that one, for what was spent still counts"
"""The hint for another format."""


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Turn every error of SQLite and of the file system inside the block into a `LedgerError`."""
    try:
        yield
    except sqlite3.Error as error:
        raise failure(error, place) from error
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise LedgerError(f"the ledger {place} cannot be used: {reason}.", hint=_away(place)) from error


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds the file."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def failure(error: sqlite3.Error, place: str) -> LedgerError:
    """Return what that error of SQLite means for the ledger at `place`."""
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return busy(place)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return LedgerError(
                f"the ledger {place} is read-only.",
                hint="its file and folder must be writable, since a charge is written before data is read",
            )
        case sqlite3.SQLITE_FULL:
            return LedgerError(f"the disk of the ledger {place} is full.", hint="make room and ask again")
        case sqlite3.SQLITE_NOTADB:
            return LedgerCorrupt(f"{place} is not a ledger.", hint="name the ledger's own file, or a new one")
        case sqlite3.SQLITE_CANTOPEN:
            return LedgerError(f"the ledger {place} cannot be opened.", hint=_away(place))
        case sqlite3.SQLITE_IOERR:
            return LedgerError(
                f"the disk failed under the ledger {place}; a charge in progress may have been recorded.",
                hint="look at the disk, its quota and the limits on the process, then at `discreet budget`",
            )
        case sqlite3.SQLITE_TOOBIG:
            return LedgerError(f"an entry is too large for the ledger {place}.", hint="ask for fewer groups at once")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_ERROR | sqlite3.SQLITE_SCHEMA | sqlite3.SQLITE_CONSTRAINT:
            return LedgerCorrupt(f"the file of the ledger {place} is damaged.", hint=KEEP)
        case _:
            return LedgerError(f"the ledger {place} cannot be used.", hint=_away(place))


def busy(place: str) -> LedgerBusy:
    """Return the refusal after waiting long enough for another process."""
    return LedgerBusy(
        f"the ledger {place} is held by another process; nothing was charged.",
        hint="ask again; if it stays so, a process that writes to it hangs",
    )


def _code(error: sqlite3.Error) -> int:
    """Return the primary code; SQLITE_ERROR when the module itself raised."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _away(place: str) -> str:
    """Why a file cannot be opened, as far as looking at it tells."""
    path = Path(place)
    if path.is_dir():
        return "it is a folder; name a file in it"
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist; make it first"
    if not path.exists():
        return "there is no such file; was it moved or deleted?"
    if not os.access(path.parent, os.W_OK):
        return f"the folder {path.parent} must be writable: SQLite keeps its journal beside the ledger"
    return "look at the permissions and limits (open files, disk) of this process"
