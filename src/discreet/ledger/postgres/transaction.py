"""One moment of a ledger in PostgreSQL, with what has been added since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.errors import LedgerError
from discreet.ledger.postgres.link import Link, Step, Values
from discreet.ledger.postgres.statements import STATE, Statements
from discreet.ledger.store import Row

_PIECE = 4 << 20
"""Bytes of a blob in one row, far from the server's limit for a value."""

_HABITS = 8
"""How many states, and how many entries, are remembered to be asked for at once."""


@dataclass(frozen=True, slots=True)
class Habits:
    """What the last transaction asked for, and the next one will probably ask for too: states and entries."""

    states: frozenset[str] = frozenset()
    rows: frozenset[int] = frozenset()


class PostgresTransaction:
    """What the port calls a transaction. Rows and states are kept until the commit and sent with it.

    Attributes:
        added: the rows to add.
    """

    def __init__(
        self, link: Link, statements: Statements, place: str, habits: Habits, found: list[Values], *, writes: bool
    ) -> None:
        self._link = link
        self._statements = statements
        self._place = place
        self._writes = writes
        self._states: dict[str, str | None] = dict.fromkeys(habits.states)
        self._states.update((values[1], values[2]) for values in found if values[0] == STATE)
        self._rows = {row.seq: row for row in _rows(found) if row.seq > 0}
        self._last = max(self._rows, default=0)
        self._asked: set[str] = set()
        self._looked: set[int] = set()
        self._changed: dict[str, str] = {}
        self._blobs_changed = False
        self.added: list[Row] = []

    def last(self) -> Row | None:
        """Return the row with the highest number."""
        return self.added[-1] if self.added else self._rows.get(self._last)

    def row(self, seq: int) -> Row | None:
        """Return the row with that number."""
        for row in self.added:
            if row.seq == seq:
                return row
        self._looked.add(seq)
        return self._rows[seq] if seq in self._rows else self._one(self._statements.row, seq)

    def latest(self, population: str, kind: str, key: str, *, before: int) -> Row | None:
        """Return the last row with these three and a number below `before`."""
        for row in reversed(self.added):
            if row[1:4] == (population, kind, key) and row.seq < before:
                return row
        return self._one(self._statements.latest, population, kind, key, before)

    def rows(self, *, after: int, limit: int, population: str | None = None, kind: str | None = None) -> list[Row]:
        """At most `limit` rows with numbers above `after`, in order."""
        found = _rows(self._all(self._statements.rows, after, limit, population, kind))
        found += [
            row
            for row in self.added
            if row.seq > after and population in (None, row.population) and kind in (None, row.kind)
        ]
        return found[:limit]

    def append(self, row: Row) -> None:
        """Add a row at the end."""
        self._writing()
        self.added.append(row)

    def get(self, name: str) -> str | None:
        """Return the state of that name."""
        self._asked.add(name)
        if name in self._changed:
            return self._changed[name]
        if name not in self._states:
            found = self._all(self._statements.state, name)
            self._states[name] = str(found[0][0]) if found else None
        return self._states[name]

    def put(self, name: str, value: str) -> None:
        """Set the state of that name."""
        self._writing()
        self._changed[name] = value

    def names(self) -> list[str]:
        """Return the names of all states, sorted."""
        return sorted({str(name) for (name,) in self._all(self._statements.states)} | self._changed.keys())

    def blob(self, name: str) -> bytes | None:
        """Return the bytes of that name."""
        pieces = self._all(self._statements.blob, name)
        return b"".join(piece for (piece,) in pieces) if pieces else None

    def put_blob(self, name: str, value: bytes | None) -> None:
        """Set the bytes of that name; None removes them."""
        self._writing()
        self._blobs_changed = True
        self._all(self._statements.remove_blob, name)
        if value is not None:
            for part, start in enumerate(range(0, max(1, len(value)), _PIECE)):
                self._all(self._statements.add_to_blob, name, part, value[start : start + _PIECE])

    def blobs(self) -> list[str]:
        """Return the names of all blobs, sorted."""
        return sorted(str(name) for (name,) in self._all(self._statements.blobs))

    def changes(self) -> list[Step] | None:
        """Return the steps that write what was kept; None when nothing was written at all."""
        if self.added or self._changed:
            return [self._statements.written(self.added, self._changed)]
        return [] if self._blobs_changed else None

    def habits(self) -> Habits:
        """Return what the next transaction of this store will probably ask for: the last entries it gets unasked."""
        looked = {row.seq for row in self.added[-1:]} | {seq for seq in self._looked if seq < self._last - 1}
        return Habits(frozenset(sorted(self._asked)[:_HABITS]), frozenset(sorted(looked)[-_HABITS:]))

    def _one(self, statement: str, *values: Any) -> Row | None:
        found = _rows(self._all(statement, *values))
        return found[0] if found else None

    def _all(self, statement: str, *values: Any) -> list[Values]:
        return self._link.ask((statement, *values))[0]

    def _writing(self) -> None:
        if not self._writes:
            raise LedgerError(f"the ledger {self._place} is only being read.")


def _rows(found: list[Values]) -> list[Row]:
    return [Row(*values) for values in found]
