"""A charge in one message: a procedure in the database adds to a sum and to the chain under the ledger's lock.

Between the lock and the commit nothing waits for a client, so that others wait for the server's work alone. The
procedure knows one case, in which it adds; in all others it does nothing, and a transaction finds out why. It ends as a
transaction does: with a commit that ends the lock, and then the wait for the disk.

A connection that is lost in the middle leaves open whether the message was carried out, or still will be. Another one
takes the lock, raises the fence, which turns away every message that was written before, and looks for the attempt's
number: what is found then stands, and what is not found will never be.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any
from weakref import WeakSet

from discreet.errors import LedgerCorrupt, LedgerError
from discreet.ledger.failures import KEEP
from discreet.ledger.postgres import failures
from discreet.ledger.postgres.failures import Lost, Refused
from discreet.ledger.postgres.link import Link, Pool, Step
from discreet.ledger.store import Added, Addition, Row

PROCEDURE = r"""
  CREATE PROCEDURE "{schema}".add(
    its_attempt bigint, its_fence bigint, its_population text, its_kind text, its_key text, before text, after text,
    its_state text, amounts numeric[], most numeric[], its_terms text, terms_text text, seen bigint, seen_hash text,
    known text[], INOUT answer text
  ) LANGUAGE plpgsql AS $add$
  DECLARE
    number bigint; previous text; told text; fine boolean; its_body text; its_hash text; nothing text;
    sums text[]; one text[]; added_up text;
    above numeric; below numeric; common numeric;
  BEGIN
    nothing := set_config('synchronous_commit', 'off', true);
    LOCK TABLE "{schema}".ledger IN EXCLUSIVE MODE;
    SELECT last.seq + 1, last.hash, total.value,
        ledger.format = {format} AND ledger.fence = its_fence
        AND head.value = last.seq || ' ' || last.hash AND terms.value = terms_text AND last.kind <> 'moved'
        AND paid.population = its_population AND paid.kind = its_kind
        AND right(paid.body, length(after)) LIKE ',"time":"%' AND right(paid.body, 14) = right(after, 14)
        AND left(right(paid.body, length(after) + length(total.value) - 2), length(total.value) - 2)
          = substr(total.value, 2, length(total.value) - 2)
        AND paid.kind || ':' || (SELECT string_agg(k, ',') FROM json_object_keys(paid.body::json) k) = ANY (known)
        AND paid.hash = encode(sha256(
          'discreet ledger entry, format 1\000'::bytea
          || decode((SELECT hash FROM "{schema}".entry WHERE seq = paid.seq - 1), 'hex')
          || convert_to(paid.body, 'UTF8')), 'hex')
        AND (last.kind <> its_kind OR right(last.body, 14) = right(after, 14))
        AND CASE WHEN last.seq = seen THEN last.hash = seen_hash ELSE
          (SELECT hash FROM "{schema}".entry WHERE seq = seen) = seen_hash
          AND last.kind || ':' || (SELECT string_agg(k, ',') FROM json_object_keys(last.body::json) k) = ANY (known)
          AND last.hash = encode(sha256(
            'discreet ledger entry, format 1\000'::bytea
            || decode((SELECT hash FROM "{schema}".entry WHERE seq = last.seq - 1), 'hex')
            || convert_to(last.body, 'UTF8')), 'hex')
        END
      INTO number, previous, told, fine
      FROM "{schema}".ledger, "{schema}".state head, "{schema}".state terms, "{schema}".state total,
        "{schema}".entry last, "{schema}".entry paid
      WHERE head.name = 'head' AND terms.name = its_terms AND total.name = its_state
        AND last.seq = split_part(head.value, ' ', 1)::bigint
        AND paid.seq = split_part(substr(total.value, 8), ',', 1)::bigint;
    IF fine IS NOT TRUE THEN RETURN; END IF;
    sums := string_to_array(rtrim(split_part(told, '[', 2), ']}}'), ',');
    IF cardinality(sums) * 2 <> cardinality(amounts) OR cardinality(most) <> cardinality(amounts) THEN RETURN; END IF;
    FOR i IN 1 .. cardinality(sums) LOOP
      one := string_to_array(btrim(sums[i], '"'), '/');
      above := one[1]::numeric * amounts[2*i] + amounts[2*i-1] * one[2]::numeric;
      below := one[2]::numeric * amounts[2*i];
      IF above * most[2*i] > most[2*i-1] * below THEN RETURN; END IF;
      common := gcd(above, below);
      sums[i] := '"' || div(above, common) || '/' || div(below, common) || '"';
    END LOOP;
    added_up := '"seq":' || number || ',"spent":[' || array_to_string(sums, ',') || ']';
    its_body := before || added_up || after;
    its_hash := encode(sha256(
      'discreet ledger entry, format 1\000'::bytea || decode(previous, 'hex') || convert_to(its_body, 'UTF8')), 'hex');
    WITH added AS (
      INSERT INTO "{schema}".entry
        VALUES (number, its_population, its_kind, its_key, its_body, its_hash, its_attempt)
    )
    UPDATE "{schema}".state
      SET value = CASE name WHEN 'head' THEN number || ' ' || its_hash ELSE '{{' || added_up || '}}' END
      WHERE name IN ('head', its_state);
    answer := number || ' ' || previous || ' ' || its_hash || ' ' || told || ' ' || added_up;
    COMMIT;
    nothing := set_config('synchronous_commit', 'on', true);
    nothing := pg_logical_emit_message(true, 'discreet', '');
  END $add$;
"""
"""What the store's `add` calls. `most` is null where there is no limit: no comparison with null holds."""

_TYPES = (*2 * ["bigint"], *6 * ["text"], *2 * ["numeric[]"], *2 * ["text"], "bigint", "text", "text[]")
"""Of the parameters. All are named in the call: it means this procedure and no other one of the same name."""

_CHECK = """
SELECT fence::text, coalesce((
  SELECT add.proowner = owner.oid AND add.prokind = 'p' AND NOT add.prosecdef
    AND has_function_privilege(add.oid, 'EXECUTE') AND (space.nspowner = owner.oid OR maker.rolsuper)
    AND NOT EXISTS (
      SELECT FROM aclexplode(coalesce(space.nspacl, acldefault('n', space.nspowner))) granted
        LEFT JOIN pg_roles other ON other.oid = granted.grantee
        WHERE granted.privilege_type = 'CREATE' AND granted.grantee <> owner.oid AND other.rolsuper IS NOT TRUE)
  FROM pg_class its JOIN pg_namespace space ON space.oid = its.relnamespace
    JOIN pg_roles owner ON owner.oid = its.relowner JOIN pg_roles maker ON maker.oid = space.nspowner
    JOIN pg_proc add ON add.oid = to_regprocedure('{schema}.add({types},text)')
  WHERE its.oid = '{schema}.ledger'::regclass
), false)::text
FROM {schema}.ledger
"""
"""The fence, and whether nobody but the ledger's owner can have put a procedure there: it runs with the rights of
whoever calls it."""

_UNABLE = ("2D", "3F", "42")
"""Classes of errors after which it is not tried again: no such procedure, or not for this user; no commit in it."""


_LOOK = """
SELECT e.seq, e.population, e.kind, e."key", e.body, e.hash, b.hash, (
  SELECT body FROM {schema}.entry
    WHERE population = e.population AND kind = e.kind AND seq < e.seq ORDER BY seq DESC LIMIT 1)
FROM {schema}.entry e LEFT JOIN {schema}.entry b ON b.seq = e.seq - 1 WHERE e.seq > $1 AND e.attempt = $2
"""
"""An attempt's row, the hash before it, and the body of the row that had the sum before it."""


class Adding:
    """Additions to the ledger of one store; see `Adds`."""

    def __init__(self, pool: Pool, statements: Statements, schema: str, place: str, patience: float) -> None:
        self._pool = pool
        self._statements = statements
        self._place = place
        self._patience = patience
        self._able = True
        self._fence: str | None = None
        self._checked: WeakSet[Link] = WeakSet()
        places = ", ".join(f"${i}::{its_type}" for i, its_type in enumerate(_TYPES, 1))
        self._call = f"CALL {schema}.add({places}, NULL::text)"
        self._check = _CHECK.format(schema=schema, types=",".join(_TYPES))
        self._raise_fence = f"UPDATE {schema}.ledger SET fence = greatest(fence, $1::bigint) + 1"
        self._look = _LOOK.format(schema=schema)

    def add(self, addition: Addition) -> Added | None:
        """Return the row, durable; None when nothing was added.

        Raises:
            Refused: the lock could not be had.
            LedgerError: it could not be found out whether something was added, or it is not what was asked for.
        """
        if not self._able:
            return None
        held: list[Link] = []  # filled before anything is asked: Ctrl-C at any time ends the connection
        try:
            attempt = int.from_bytes(os.urandom(8)) >> 2
            if (fence := self._ready(held)) is None:
                return None
            answer: Any = None
            try:
                answer = held[0].ask((self._call, attempt, fence, *_values(addition)))[0][0][0]
                lost = False
            except Refused as refused:
                if refused.code == failures.LOCKED:
                    raise
                if refused.code[:2] in _UNABLE:
                    self._able = False
                lost = True  # an error does not say whether it came before the commit
            except Lost:
                lost = True
            if lost:
                self._fence = None
                held.pop().close()
                return self._found(addition, attempt, fence)
            if answer is None:
                self._fence = None  # it may have been raised
                return None
            return _added(addition, str(answer), self._place)
        finally:
            for link in held:
                self._pool.give_back(link)

    def _ready(self, held: list[Link]) -> str | None:
        """Return the fence, when `held` has a connection that knows the procedure and was asked nothing yet."""
        link = self._pool.waiting()
        if link is None:
            return None  # a transaction makes one, and says what is wrong if it cannot
        held.append(link)
        if not link.silent:
            link.close()
            return None
        try:
            link.prepare(self._call)  # from here on it means the procedure that is looked at next
            fence = self._fence
            if fence is None or link not in self._checked:
                ((fence, ours),) = link.ask(self._check)[0]
                if ours != "true":
                    self._able = False
                    return None
                self._fence = fence
                self._checked.add(link)
        except Refused as refused:
            self._able = self._able and refused.code[:2] not in _UNABLE
            return None
        except ValueError:  # more than one row, or none
            return None
        except Lost:
            return None
        return fence

    def _found(self, addition: Addition, attempt: int, fence: str) -> Added | None:
        """Return what became of an attempt whose answer was lost: the row, or None, and then it never will be there."""
        deadline = time.monotonic() + self._patience
        while True:
            link, locked = None, False
            try:
                link = self._pool.fresh(deadline)
                rows = link.ask(
                    self._statements.begin_write,
                    (self._look, addition.seen[0], attempt),
                    (self._raise_fence, fence),
                    f"COMMIT; {DURABLE}",
                )[1]
            except (Refused, Lost, LedgerError) as error:
                locked = isinstance(error, Refused) and error.code == failures.LOCKED
            else:
                return _read(addition, rows[0], self._place) if rows else None
            finally:
                if link is not None:
                    self._pool.give_back(link)
            if locked or time.monotonic() > deadline:
                raise failures.unknown(self._place)
            time.sleep(0.1)


def _values(addition: Addition) -> tuple[object, ...]:
    """Return what the procedure takes, after the attempt and the fence."""
    a = addition
    most = None if a.most is None else _numbers(a.most)
    how = (a.state, _numbers(a.amounts), most, *a.terms, *a.seen, _texts(a.known))
    return (a.population, a.kind, a.key, a.before, a.after, *how)


@lru_cache(maxsize=8)
def _texts(texts: tuple[str, ...]) -> str:
    """Return an array of texts without quotes in them."""
    return "{" + ",".join(f'"{text}"' for text in texts) + "}"


@lru_cache(maxsize=64)
def _numbers(fractions: tuple[Fraction, ...]) -> str:
    """Return an array of numerators and denominators."""
    return "{" + ",".join(f"{x.numerator},{x.denominator}" for x in fractions) + "}"


def _added(addition: Addition, answer: str, place: str) -> Added:
    """Return the row that the server says it has written; that its hash follows from it is for others to look at."""
    try:
        number, previous, hashed, told, added = answer.split(" ", 4)
        seq = int(number)
    except ValueError:
        raise LedgerCorrupt(
            f"the server of the ledger {place} has answered a charge with something else; it may stand.", hint=KEEP
        ) from None
    return Added(Row(seq, *addition[:3], addition.before + added + addition.after, hashed), previous, told)


def _read(addition: Addition, found: list[Any], place: str) -> Added:
    """Return the row that an attempt has left."""
    row, previous, before = Row(*found[:6]), found[6], found[7]
    if (
        row[1:4] != addition[:3]
        or not row.body.startswith(addition.before)
        or not row.body.endswith(addition.after)
        or before is None
    ):
        raise LedgerCorrupt(f"entry {row.seq} of the ledger {place} is not as it was written.", hint=KEEP)
    return Added(row, str(previous), str(before))


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

FACTS, STATE = -1, 0  # what stands in the place of an entry's number where a row of the start is none

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
