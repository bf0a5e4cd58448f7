"""What a transaction would leave behind: one moment of a store, and what is written over it in memory."""

from __future__ import annotations

from discreet.ledger.store import Row, Transaction


class Overlay:
    """A transaction over another one, which it only reads.

    Attributes:
        added: the rows that were added.
        changed: the states that were set.
        stored: the bytes that were set; None for those that were removed.
    """

    def __init__(self, base: Transaction) -> None:
        self._base = base
        self.added: list[Row] = []
        self.changed: dict[str, str] = {}
        self.stored: dict[str, bytes | None] = {}

    def last(self) -> Row | None:
        """The row with the highest number."""
        return self.added[-1] if self.added else self._base.last()

    def row(self, seq: int) -> Row | None:
        """The row with that number; numbers are 1, 2, 3, …"""
        if self.added and seq >= self.added[0].seq:
            at = seq - self.added[0].seq
            return self.added[at] if at < len(self.added) else None
        return self._base.row(seq)

    def latest(self, population: str, kind: str, key: str, *, before: int) -> Row | None:
        """The last row with these three and a number below `before`."""
        for row in reversed(self.added):
            if row[1:4] == (population, kind, key) and row.seq < before:
                return row
        return self._base.latest(population, kind, key, before=before)

    def rows(
        self, *, after: int, limit: int, population: str | None = None, kind: str | None = None
    ) -> list[Row]:
        """At most `limit` rows with numbers above `after`, in order."""
        found = self._base.rows(after=after, limit=limit, population=population, kind=kind)
        more = (
            row
            for row in self.added
            if row.seq > after and population in (None, row.population) and kind in (None, row.kind)
        )
        return [*found, *(row for row, _ in zip(more, range(limit - len(found)), strict=False))]

    def append(self, row: Row) -> None:
        """Add a row at the end."""
        self.added.append(row)

    def get(self, name: str) -> str | None:
        """The state of that name."""
        return self.changed[name] if name in self.changed else self._base.get(name)

    def put(self, name: str, value: str) -> None:
        """Set the state of that name."""
        self.changed[name] = value

    def names(self) -> list[str]:
        """The names of all states, sorted."""
        return sorted({*self._base.names(), *self.changed})

    def blob(self, name: str) -> bytes | None:
        """The bytes of that name."""
        return self.stored[name] if name in self.stored else self._base.blob(name)

    def put_blob(self, name: str, value: bytes | None) -> None:
        """Set the bytes of that name; None removes them."""
        self.stored[name] = None if value is None else bytes(value)

    def blobs(self) -> list[str]:
        """The names of all blobs, sorted."""
        gone = {name for name, value in self.stored.items() if value is None}
        return sorted({*self._base.blobs(), *self.stored} - gone)
