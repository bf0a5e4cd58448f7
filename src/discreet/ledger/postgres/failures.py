"""PostgreSQL's errors in the ledger's words: by their five-character code alone.

A server's own text may quote what it was asked to store, and a driver's may quote the password; neither is passed on,
nor kept as a cause.

References: https://www.postgresql.org/docs/current/errcodes-appendix.html
"""

from __future__ import annotations

from discreet.errors import LedgerBusy, LedgerCorrupt, LedgerError

MAY_STAND = "look at `discreet budget` before asking again: a charge in progress may have been recorded"
"""The hint where it could not be found out whether a commit took place."""

LOCKED = "55P03"  # a lock was waited for as long as was allowed
CROWDED = ("53300", "57P03")  # no connection is free, or the server is only starting: worth asking again


class Refused(Exception):
    """An answer of the server that is an error, by its code; the connection can still be used."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Lost(Exception):
    """The connection ended before an answer was whole."""


def failure(code: str, place: str) -> LedgerError:
    """Return what that error of the server means for the ledger at `place`, when nothing was committed."""
    match code:
        case "55P03":
            return busy(place)
        case "53300":
            return LedgerBusy(
                f"the server of the ledger {place} has no connection free; nothing was charged.",
                hint="ask again; if it stays so, raise max_connections or end what holds them",
            )
        case "57P03":
            return LedgerError(
                f"the server of the ledger {place} is starting or stopping; nothing was charged.",
                hint="ask again when it runs",
            )
        case "57014":
            return LedgerError(
                f"the server of the ledger {place} stopped a statement; nothing was charged.",
                hint="somebody cancelled it, or a limit on time was reached; ask again",
            )
        case "28P01" | "28000":
            return LedgerError(
                f"the server of the ledger {place} refuses this user or password.",
                hint="give the password in PGPASSWORD or the password file, and look at the server's pg_hba.conf",
            )
        case "3D000":
            return LedgerError(
                f"the database of the ledger {place} does not exist.", hint="make it with `createdb` first"
            )
        case "25006":
            return LedgerError(
                f"the ledger {place} is read-only.",
                hint="name the primary and not a standby, and a user for whom default_transaction_read_only is off",
            )
        case "42501":
            return LedgerError(
                f"this user may not use or make the tables of the ledger {place}.",
                hint="let an owner run GRANT CREATE ON DATABASE for the first opening, or give this user the schema",
            )
        case "3F000" | "42P01":
            return LedgerError(
                f"there is no ledger at {place}.", hint="look at the database and at ?schema=, or open a new one"
            )
        case "42P07" | "42710" | "42723":
            return LedgerError(
                f"the schema of the ledger {place} holds tables that are not a ledger's.",
                hint="give the ledger a schema of its own with ?schema=",
            )
        case "53100":
            return LedgerError(f"the disk of the ledger {place} is full.", hint="make room and ask again")
        case "54000":
            return LedgerError(f"an entry is too large for the ledger {place}.", hint="ask for fewer groups at once")
        case "22P05" | "22021":
            return LedgerError(
                f"the database of the ledger {place} cannot hold every text.", hint="make it with ENCODING 'UTF8'"
            )
        case "42703" | "42804" | "23502" | "23505" | "P0001":
            return LedgerCorrupt(
                f"the tables of the ledger {place} are not as the ledger made them.",
                hint="keep them as they are, look with `discreet ledger verify`, and go back to a good copy",
            )
        case "XX001" | "XX002" | "58030":
            return LedgerCorrupt(
                f"the server finds the ledger {place} damaged.",
                hint="keep the database as it is, look at the server's log and disk, and go back to a good copy",
            )
        case _:
            return LedgerError(
                f"the server of the ledger {place} refused with its error {code}; nothing was charged.",
                hint="the server's log says more",
            )


def busy(place: str) -> LedgerBusy:
    """Return the refusal after waiting long enough for another client."""
    return LedgerBusy(
        f"the ledger {place} is held by another client; nothing was charged.",
        hint="ask again; if it stays so, a process that writes to it hangs",
    )


def lost(place: str) -> LedgerError:
    """Return the connection ended before COMMIT was sent, or again when the query was repeated."""
    return LedgerError(
        f"the connection to the ledger {place} was lost; nothing was charged.",
        hint="ask again when the server can be reached",
    )


def undone(place: str) -> LedgerError:
    """Return the connection ended while COMMIT was under way, and another one found that it did not take place."""
    return LedgerError(
        f"the connection to the ledger {place} was lost, and the charge was not recorded.",
        hint="ask again: nothing was charged",
    )


def unknown(place: str) -> LedgerError:
    """Return the connection ended while COMMIT was under way, and what became of it could not be found out."""
    return LedgerError(
        f"the connection to the ledger {place} was lost while a charge was recorded; the charge may stand.",
        hint=MAY_STAND,
    )


def unreachable(place: str) -> LedgerError:
    """No connection at all."""
    return LedgerError(
        f"the server of the ledger {place} cannot be reached.",
        hint="look at the host, the port and the network; the ledger is only ever on this server",
    )
