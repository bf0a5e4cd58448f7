"""The statements over the tables of one schema; their values are parameters, apart from the text."""

from __future__ import annotations

from collections.abc import Iterator

from discreet.ledger.postgres.link import Step
from discreet.ledger.store import Row

DURABLE = "SELECT pg_logical_emit_message(true, 'discreet', '')"
"""Returns when all that was committed before is on the disk: the log is written in order, and this adds to its end."""

UNSAFE = "SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name"
"""The settings under which the server can lose what it has called durable."""

OUTCOME = """
SELECT CASE WHEN $1::xid8 < pg_snapshot_xmax(pg_current_snapshot()) THEN pg_xact_status($1::xid8) END
"""
"""What became of a transaction; null for a number that this server has not given out, or has forgotten."""

_WAITING = """
CASE WHEN pg_is_in_recovery() THEN false
ELSE pg_current_wal_insert_lsn() > pg_current_wal_flush_lsn() OR current_setting('synchronous_standby_names') <> '' END
"""
"""Whether something that can be seen may not be on the disk, or not on those of standbys that have to have it too; a
standby only receives what is on the primary's."""

FACTS, STATE = -1, 0
"""What stands in the place of an entry's number where a row of the start is none."""

_START = """
SELECT {facts}::bigint, format::text, {number}, ({waiting})::text, NULL, NULL FROM {schema}.ledger
UNION ALL SELECT {state}, name, value, NULL, NULL, NULL FROM {schema}.state WHERE name = ANY ($1::text[])
UNION ALL ({rows} ORDER BY seq DESC LIMIT 2)
UNION ALL {rows} WHERE seq = ANY ($2::bigint[])
"""
"""What nearly every transaction asks: its number, whether it must wait, some states, the last entries, some others."""


class Statements:
    """Each statement as text, and how rows and states are written."""

    def __init__(self, schema: str) -> None:
        rows = f'SELECT seq, population, kind, "key", body, hash FROM {schema}.entry'
        named = 'population = $1 AND kind = $2 AND "key" = $3 AND seq < $4'
        filtered = "($3::text IS NULL OR population = $3) AND ($4::text IS NULL OR kind = $4)"
        start = {"schema": schema, "rows": rows, "waiting": _WAITING, "facts": FACTS, "state": STATE}
        self._entry, self._state = f"INSERT INTO {schema}.entry", f"INSERT INTO {schema}.state"
        self._written: dict[tuple[int, int], str] = {}
        self.begin_read = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
        self.begin_write = (
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = off; "
            f"LOCK TABLE {schema}.ledger IN EXCLUSIVE MODE"
        )
        self.start_read = _START.format(number="NULL", **start)
        self.start_write = _START.format(number="pg_current_xact_id()::text", **start)
        self.exists = f"SELECT to_regclass('{schema}.ledger') IS NOT NULL"
        self.format = f"SELECT format FROM {schema}.ledger"
        self.row = f"{rows} WHERE seq = $1"
        self.latest = f"{rows} WHERE {named} ORDER BY seq DESC LIMIT 1"
        self.rows = f"{rows} WHERE seq > $1 AND {filtered} ORDER BY seq LIMIT $2"
        self.found = f"SELECT count(*) FROM {schema}.entry WHERE seq = $1 AND hash = $2"
        self.state = f"SELECT value FROM {schema}.state WHERE name = $1"
        self.states = f"SELECT name FROM {schema}.state"
        self.blob = f"SELECT value FROM {schema}.blob WHERE name = $1 ORDER BY part"
        self.blobs = f"SELECT DISTINCT name FROM {schema}.blob"
        self.add_to_blob = f"INSERT INTO {schema}.blob VALUES ($1, $2, $3)"
        self.remove_blob = f"DELETE FROM {schema}.blob WHERE name = $1"

    def written(self, rows: list[Row], states: dict[str, str]) -> Step:
        """One step that adds these rows and sets these states, at least one of either."""
        size = len(rows), len(states)
        if (text := self._written.get(size)) is None:
            text = self._written[size] = self._adding(*size)
        return (text, *(x for row in rows for x in row), *(x for pair in states.items() for x in pair))

    def _adding(self, rows: int, states: int) -> str:
        places = iter(range(1, 6 * rows + 2 * states + 1))
        add = f"{self._entry} VALUES {', '.join(_tuple(places, 6) for _ in range(rows))}"
        put = (
            f"{self._state} VALUES {', '.join(_tuple(places, 2) for _ in range(states))} "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )
        return put if not rows else add if not states else f"WITH added AS ({add}) {put}"


def _tuple(places: Iterator[int], size: int) -> str:
    """Return the next parameters; of six, the first is the number of an entry."""
    names = [f"${next(places)}" for _ in range(size)]
    if size == 6:
        names[0] += "::bigint"
    return f"({', '.join(names)})"
