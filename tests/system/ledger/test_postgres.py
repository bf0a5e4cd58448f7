"""A ledger in a real PostgreSQL server that is killed, restarted, full, read-only, or somebody else's."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pg8000 import native

import discreet as dp
from discreet.accounting.filter import Charge
from discreet.errors import BudgetExceeded, InvalidParameter, LedgerBusy, LedgerCorrupt, LedgerError
from discreet.ledger.account import Account
from discreet.ledger.chain import new_key
from discreet.ledger.entry import Rebudgeted
from discreet.ledger.forms import Terms, terms_name, terms_text
from discreet.ledger.ledger import Ledger
from discreet.ledger.log import View
from discreet.ledger.postgres import store as store_file
from discreet.ledger.postgres.link import Link
from discreet.ledger.postgres.store import PostgresStore
from discreet.ledger.postgres.url import address
from discreet.privacy.guarantee import Budget
from tests.postgres import Server

MakeCharge: TypeAlias = Callable[..., Charge]
Fork: TypeAlias = Callable[[Callable[[], object]], int]
Ended: TypeAlias = Callable[[int], int]

MINE = "application_name = 'discreet' AND pid <> pg_backend_pid()"


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.url()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url) as one:
        yield one


def at(url: str, *, patience: float = 2) -> Ledger:
    """A ledger that is there already, with another patience."""
    return Ledger(PostgresStore(address(url), patience=patience))


def opened(ledger: Ledger) -> Account:
    account = ledger.account("p")
    assert account is not None
    return account


def schema_of(url: str) -> str:
    return url.rpartition("=")[2]


@contextmanager
def refused(words: str, kind: type[LedgerError] = LedgerError) -> Iterator[pytest.ExceptionInfo[LedgerError]]:
    with pytest.raises(kind, match=words) as caught:
        yield caught
    assert type(caught.value) is kind
    assert caught.value.hint
    assert caught.value.message.endswith(".")


def terminate(server: Server, where: str = MINE) -> int:
    return len(server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {where}"))


def once(server: Server, condition: str) -> None:
    """Wait until some connection is as said."""
    for _ in range(400):
        if server.sql(f"SELECT 1 FROM pg_stat_activity WHERE {MINE} AND {condition}"):
            return
        time.sleep(0.01)
    raise AssertionError(condition)


@pytest.fixture
def settings(postgres: Server) -> Iterator[Callable[..., None]]:
    """Start the server anew with other settings, and as it was at the end."""

    def start(**given: str) -> None:
        postgres.stop()
        postgres.start(**given)

    yield start
    postgres.stop()
    (postgres.data / "standby.signal").unlink(missing_ok=True)
    postgres.start()


def test_a_ledger_by_url_is_used_from_the_front_door(url: str) -> None:
    rows = {"user_id": ["a", "a", "b", "c"], "age": [30, 31, 40, 50]}
    pandas = pytest.importorskip("pandas")

    def ask() -> Any:
        unit = dp.PrivacyUnit("user_id", max_groups=1, max_rows=2)
        with dp.connect({"people": pandas.DataFrame(rows)}, unit=unit, budget=dp.Budget(3), ledger=url) as session:
            return session.sql("SELECT COUNT(*) AS n FROM people", epsilon=1).rows

    assert ask() == ask()  # the second is the stored release
    with Ledger.existing(url) as ledger:
        account = ledger.account("people")
        assert account is not None
        assert account.remaining.epsilon == 2
        assert ledger.populations() == ["people"]
        assert ledger.verify(ledger.head).ok


def test_it_takes_up_what_another_process_wrote(ledger: Ledger, url: str, pay: MakeCharge) -> None:
    ledger.open_account("p", Budget(1)).charge("q", pay("1/4"), note={"größe": "客户 '\\ $$ %s :x"})
    with Ledger.open(url) as again:
        account = opened(again)
        account.charge("r", pay("1/4"), note={})
        assert account.remaining.epsilon * 2 == 1
        assert [entry.question for entry in account.history()[1:]] == ["q", "r"]
        assert again.verify().ok


def test_a_raise_in_a_locked_ledger_is_signed_or_refused_and_found(
    ledger: Ledger, url: str, pay: MakeCharge, tmp_path: Path
) -> None:
    signed: dict[str, Any] = {"by": "the board", "reason": "as agreed"}
    new_key(key := tmp_path / "owner.pem")
    account = ledger.open_account("p", Budget(1))
    ledger.lock(key=key, **signed)
    with pytest.raises(InvalidParameter, match="is locked with a key"):
        account.change_budget(Budget(3), **signed)
    account.charge("q", pay(1), note={})
    with Ledger.open(url) as again:
        opened(again).change_budget(Budget(3), key=key, **signed)
    for question in ("r", "s"):
        account.charge(question, pay(1), note={})  # in one message, after an entry with a signature
    assert account.remaining.epsilon == 0
    assert ledger.verify().ok

    def smuggle(view: View) -> None:
        entry = view.append("p", Rebudgeted(Budget(9), (Fraction(9), Fraction(0)), **signed))
        view.put(terms_name("p"), terms_text(Terms(entry.seq)))

    ledger._log.write(smuggle)
    assert ledger.verify().problems == ("entry 7 of 'p' lacks the signature of the ledger's owner.",)


def test_values_never_stand_in_the_text_of_a_statement(postgres: Server, ledger: Ledger, pay: MakeCharge) -> None:
    """Whoever may see what the server runs, or its log of slow and failed statements, learns no secret from it."""
    account = ledger.open_account("watched", Budget(1))
    account.charge("the query", pay("1/4"), note={})
    account.store("the query", 2, {"rows": [[271828182845904523]]})
    shown = str(postgres.sql("SELECT query FROM pg_stat_activity")) + postgres.log()
    for text in (account.secret.hex(), "watched", "the query", "271828182845904523"):
        assert text not in shown


# What is not there, or not for us


def test_where_there_is_no_ledger_none_is_opened_for_a_look(postgres: Server, url: str) -> None:
    with refused("there is no ledger at"):
        Ledger.existing(url)
    with refused("the database of the ledger .* does not exist"):
        Ledger.open(url.replace("/postgres?", "/nowhere?"))
    with refused("cannot be reached"):
        Ledger.open(postgres.url(port=1))
    with refused("cannot be reached"):
        Ledger.open("postgresql://postgres@no-such-host.invalid/postgres?sslmode=disable")


def test_a_user_who_may_not_make_tables_is_told(postgres: Server, url: str, pay: MakeCharge) -> None:
    postgres.sql("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN")
    as_guest = url.replace("postgres@", "guest@")
    with refused("may not use or make the tables"):
        Ledger.open(as_guest)
    schema = schema_of(url)
    with Ledger.open(url) as ledger:
        ledger.open_account("p", Budget(1)).charge("q", pay("1/4"), note={})
    with refused("may not use or make the tables"):
        Ledger.existing(as_guest)
    postgres.sql(f"GRANT USAGE ON SCHEMA {schema} TO guest; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO guest")
    with Ledger.existing(as_guest) as ledger:
        assert opened(ledger).remaining.epsilon * 4 == 3
        assert ledger.verify().ok
        with refused("may not use or make the tables"):
            opened(ledger).charge("r", pay("1/4"), note={})
    postgres.sql(f"DROP SCHEMA {schema} CASCADE; DROP ROLE guest")


def test_an_owner_may_make_the_schema_beforehand(postgres: Server, url: str, pay: MakeCharge) -> None:
    schema = schema_of(url)
    postgres.sql(f"CREATE ROLE tenant LOGIN; CREATE SCHEMA {schema} AUTHORIZATION tenant")
    with Ledger.open(url.replace("postgres@", "tenant@")) as ledger:
        ledger.open_account("p", Budget(1)).charge("q", pay("1/4"), note={})
        assert ledger.verify().ok
    postgres.sql(f"DROP SCHEMA {schema} CASCADE; DROP ROLE tenant")


def test_passwords_come_from_the_url_the_environment_or_the_file_and_from_no_message(
    postgres: Server, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    hba = postgres.data / "pg_hba.conf"
    before = hba.read_text()
    hba.write_text(f"host all locked all scram-sha-256\n{before}")
    postgres.sql("SET password_encryption = 'scram-sha-256'; CREATE ROLE locked SUPERUSER LOGIN PASSWORD 'open:sesame'")
    postgres.sql("SELECT pg_reload_conf()")
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "passwords"))
    locked = url.replace("postgres@", "locked@")
    try:
        for wrong in (locked, locked.replace("locked@", "locked:alibaba@")):
            with refused("refuses this user or password") as caught:
                Ledger.open(wrong)
            assert "alibaba" not in f"{caught.value} {caught.value.__cause__} {caught.value.__context__}"
        with Ledger.open(locked.replace("locked@", "locked:open%3Asesame@")) as ledger:
            ledger.open_account("p", Budget(1))
            assert "sesame" not in repr(ledger)
        with monkeypatch.context() as environment:
            environment.setenv("PGPASSWORD", "open:sesame")
            Ledger.existing(locked).close()
        (tmp_path / "passwords").write_text("*:*:other:*:x\n127.0.0.1:*:postgres:locked:open\\:sesame\n")
        (tmp_path / "passwords").chmod(0o644)
        with refused("refuses this user or password"):
            Ledger.existing(locked)
        (tmp_path / "passwords").chmod(0o600)
        Ledger.existing(locked).close()
    finally:
        hba.write_text(before)
        postgres.sql("SELECT pg_reload_conf()")
        postgres.sql("DROP OWNED BY locked CASCADE; DROP ROLE locked")


def test_tables_of_somebody_else_are_left_alone(postgres: Server, url: str) -> None:
    schema = schema_of(url)
    postgres.sql(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.entry (x int); INSERT INTO {schema}.entry VALUES (7)")
    with refused("holds tables that are not a ledger's"):
        Ledger.open(url)
    assert postgres.sql(f"SELECT * FROM {schema}.entry") == [[7]]
    assert postgres.sql(f"SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}'") == [[1]]


def test_tables_of_another_version_are_refused(postgres: Server, ledger: Ledger, url: str) -> None:
    ledger.open_account("p", Budget(1))
    schema = schema_of(url)
    postgres.sql(f"UPDATE {schema}.ledger SET format = 2")
    for look in (Ledger.open, Ledger.existing):
        with refused("has format 2, and this version of discreet knows format 1"):
            look(url)
    with refused("has format 2"):
        _ = opened(ledger)
    postgres.sql(f"ALTER TABLE {schema}.state RENAME value TO text")
    with refused("has format 2"):
        Ledger.existing(url)
    postgres.sql(f"UPDATE {schema}.ledger SET format = 1")
    with refused("are not as the ledger made them", LedgerCorrupt):
        Ledger.existing(url)
    postgres.sql(f"ALTER TABLE {schema}.state RENAME text TO value; DELETE FROM {schema}.ledger")
    with refused("has format None"):
        Ledger.existing(url)


def test_entries_cannot_be_changed_or_removed_by_a_mistake(postgres: Server, ledger: Ledger, url: str) -> None:
    ledger.open_account("p", Budget(1))
    entries = f"{schema_of(url)}.entry"
    for mistake in (f"UPDATE {entries} SET kind = 'x'", f"DELETE FROM {entries}", f"TRUNCATE {entries}"):
        with pytest.raises(native.DatabaseError, match="entries never change"):
            postgres.sql(mistake)
    assert ledger.verify().ok


def test_a_read_only_user_can_look_and_not_charge(postgres: Server, ledger: Ledger, url: str, pay: MakeCharge) -> None:
    ledger.open_account("p", Budget(1)).charge("q", pay("1/4"), note={})
    postgres.sql("CREATE ROLE reader SUPERUSER LOGIN; ALTER ROLE reader SET default_transaction_read_only = on")
    reading = url.replace("postgres@", "reader@")
    with refused("is read-only"):
        Ledger.open(reading)
    with refused("is read-only"):
        Ledger.open(postgres.url().replace("postgres@", "reader@"))
    with Ledger.existing(reading) as looking:
        assert opened(looking).remaining.epsilon * 4 == 3
        with refused("is read-only"):
            opened(looking).charge("r", pay("1/4"), note={})
    assert opened(ledger).remaining.epsilon * 4 == 3
    postgres.sql("DROP ROLE reader")


def test_a_hot_standby_can_be_looked_at_and_not_charged(
    postgres: Server, settings: Callable[..., None], url: str, pay: MakeCharge
) -> None:
    with Ledger.open(url) as ledger:
        ledger.open_account("p", Budget(1)).charge("q", pay("1/4"), note={})
    (postgres.data / "standby.signal").touch()
    os.chown(postgres.data / "standby.signal", postgres.data.stat().st_uid, postgres.data.stat().st_gid)
    settings()
    assert postgres.sql("SELECT pg_is_in_recovery()") == [[True]]
    with refused("is read-only"):
        Ledger.open(url)
    with Ledger.existing(url) as ledger:
        assert opened(ledger).remaining.epsilon * 4 == 3
        assert ledger.verify().ok
        with refused("is read-only"):
            opened(ledger).charge("r", pay("1/4"), note={})


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_can_lose_what_it_committed_is_refused(
    settings: Callable[..., None], url: str, setting: str
) -> None:
    settings(**{setting: "off"})
    with refused(f"runs with {setting} = off, and can lose a charge"):
        Ledger.open(url)
    with Ledger.existing(url) as ledger:
        assert f"The server runs with {setting} = off, and can lose a charge." in ledger.verify().problems


# Servers that stop, crash and come back


def test_connections_that_ended_while_nobody_used_them_are_replaced(
    postgres: Server, ledger: Ledger, pay: MakeCharge
) -> None:
    account = ledger.open_account("p", Budget(1))
    account.charge("q", pay("1/4"), note={})
    assert terminate(postgres) > 0
    account.charge("r", pay("1/4"), note={})
    postgres.stop()
    postgres.start()
    assert account.remaining.epsilon * 2 == 1
    account.charge("s", pay("1/4"), note={})
    postgres.stop(signal.SIGQUIT)
    with refused("cannot be reached"):
        account.charge("t", pay("1/4"), note={})
    postgres.start()
    assert account.remaining.epsilon * 4 == 1
    assert ledger.verify().ok


def test_terminated_before_its_commit_a_charge_did_not_take_place(
    postgres: Server, ledger: Ledger, pay: MakeCharge, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = ledger.open_account("p", Budget(1))
    append = View.append

    def dying(self: View, *args: Any) -> Any:
        entry = append(self, *args)
        assert terminate(postgres) > 0
        self._transaction.rows(after=0, limit=1)  # notices
        return entry

    with monkeypatch.context() as patched:
        patched.setattr(View, "append", dying)
        with refused("was lost; nothing was charged"):
            account.charge("q", pay("1/4"), note={})
    assert account.remaining.epsilon == 1
    account.charge("q", pay("1/4"), note={})
    assert ledger.verify().ok


def in_another_thread(work: Callable[[], object]) -> Callable[[], list[object]]:
    """Start the work; what is returned waits for it and returns what it returned or raised."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(work())
        except LedgerError as error:
            outcome.append(error.message)

    thread = threading.Thread(target=run)
    thread.start()

    def wait() -> list[object]:
        thread.join(60)
        return outcome

    return wait


def test_terminated_inside_its_commit_a_charge_is_said_not_to_have_taken_place(
    postgres: Server, ledger: Ledger, url: str, pay: MakeCharge
) -> None:
    """A trigger that waits until the commit holds it in the middle."""
    account, schema = ledger.open_account("p", Budget(1)), schema_of(url)
    postgres.sql(
        f"CREATE FUNCTION {schema}.slow() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN PERFORM pg_sleep(30); RETURN NULL; END'"
    )
    postgres.sql(
        f"CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON {schema}.entry DEFERRABLE INITIALLY DEFERRED "
        f"FOR EACH ROW EXECUTE FUNCTION {schema}.slow()"
    )
    wait = in_another_thread(lambda: account.charge("q", pay("1/4"), note={}))
    once(postgres, "query LIKE 'COMMIT%' AND state = 'active' AND wait_event = 'PgSleep'")
    terminate(postgres, f"{MINE} AND query LIKE 'COMMIT%'")
    (told,) = wait()
    assert str(told).endswith("was lost, and the charge was not recorded.")
    postgres.sql(f"DROP TRIGGER slow ON {schema}.entry")
    assert account.remaining.epsilon == 1
    assert ledger.verify().ok


def test_terminated_after_its_commit_a_charge_is_found_and_stands(
    postgres: Server, ledger: Ledger, pay: MakeCharge, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = ledger.open_account("p", Budget(1))
    monkeypatch.setattr(store_file, "DURABLE", "SELECT pg_sleep(30)")
    wait = in_another_thread(lambda: account.charge("q", pay("1/4"), note={}).question)
    once(postgres, "state = 'active' AND wait_event = 'PgSleep'")
    monkeypatch.undo()
    terminate(postgres, f"{MINE} AND wait_event = 'PgSleep'")
    assert wait() == ["q"]
    assert account.remaining.epsilon * 4 == 3
    assert ledger.verify().ok


def crash(server: Server) -> None:
    """What a power cut leaves: whatever the server had not written out is gone."""
    server.stop(signal.SIGQUIT)
    server.start(**LAZY)


LAZY = {"wal_writer_delay": "10000", "checkpoint_timeout": "1d", "autovacuum": "off"}
"""A server that writes its log out when it is made to, and hardly otherwise."""


def test_what_was_acknowledged_survives_a_crash_of_the_server(
    postgres: Server, settings: Callable[..., None], url: str, pay: MakeCharge
) -> None:
    settings(**LAZY)
    with Ledger.open(url) as ledger:
        account = ledger.open_account("p", Budget(1))
        for i in range(1, 3):
            account.charge(f"q{i}", pay("1/10"), note={})
            crash(postgres)
            assert account.remaining.epsilon * 10 == 10 - i
        assert ledger.verify().ok


def test_without_the_wait_for_the_disk_a_crash_forgets_so_the_test_before_shows_something(
    postgres: Server, settings: Callable[..., None], url: str, pay: MakeCharge, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(**LAZY)
    with Ledger.open(url) as ledger:
        ledger.open_account("p", Budget(10))
    monkeypatch.setattr(store_file, "DURABLE", "SELECT 1")
    for _ in range(10):  # the server may happen to write the log out
        with Ledger.existing(url) as ledger:
            account, before = ledger.open_account("p", None), ledger.head
            account.charge("q", pay("1/10"), note={})  # the first one of a ledger that is opened is a transaction
            crash(postgres)
        with Ledger.existing(url) as fresh:
            if fresh.head == before:
                return
    pytest.fail("nothing was forgotten")


def test_what_a_reader_or_a_refusal_has_told_survives_a_crash_though_its_writer_never_heard(
    postgres: Server, settings: Callable[..., None], url: str, pay: MakeCharge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a commit and its wait others can see it. Whoever has told what it saw has waited."""
    settings(**LAZY)
    with Ledger.open(url) as ledger, Ledger.open(url) as other:
        account, seen = ledger.open_account("p", Budget(1)), other.open_account("p", None)
        looks: list[Callable[[], object]] = [lambda: seen.remaining, lambda: seen.pinned("t")]
        for i, look in enumerate(looks, start=1):
            with monkeypatch.context() as hasty:
                hasty.setattr(store_file, "DURABLE", "SELECT 1")
                account.charge("q", pay("1/4"), note={})
            look()
            crash(postgres)
            assert seen.remaining.epsilon * 4 == 4 - i
        with monkeypatch.context() as hasty:
            hasty.setattr(store_file, "DURABLE", "SELECT 1")
            account.charge("q", pay("1/2"), note={})
        with pytest.raises(BudgetExceeded):
            seen.charge("r", pay("1/4"), note={})
        crash(postgres)
        assert seen.remaining.epsilon == 0
        assert other.verify().ok


# Others at the same server


def test_a_ledger_that_is_held_too_long_is_busy_and_nothing_is_charged(
    postgres: Server, ledger: Ledger, url: str, pay: MakeCharge
) -> None:
    ledger.open_account("p", Budget(1))
    where = str(postgres.folder / f".s.PGSQL.{postgres.port}")
    with at(url, patience=0.3) as hasty, native.Connection("postgres", unix_sock=where, ssl_context=False) as other:
        other.run("BEGIN")
        other.run(f"LOCK TABLE {schema_of(url)}.ledger IN EXCLUSIVE MODE")
        with refused("held by another client; nothing was charged", LedgerBusy):
            opened(hasty).charge("q", pay("1/4"), note={})
        assert opened(hasty).remaining.epsilon == 1  # one can look while another writes
        other.run("ROLLBACK")
        opened(hasty).charge("q", pay("1/4"), note={})
    assert ledger.verify().ok


def test_without_a_free_connection_one_waits_and_then_is_told(
    postgres: Server, ledger: Ledger, url: str, pay: MakeCharge
) -> None:
    ledger.open_account("p", Budget(1))
    postgres.sql("DROP ROLE IF EXISTS crowd")
    schema = schema_of(url)
    postgres.sql(
        "CREATE ROLE crowd LOGIN CONNECTION LIMIT 1; "
        f"GRANT USAGE ON SCHEMA {schema} TO crowd; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO crowd"
    )
    crowded = url.replace("postgres@", "crowd@")
    with at(crowded, patience=0.3) as first, at(crowded, patience=0.3) as second:
        opened(first).charge("q", pay("1/4"), note={})
        with refused("has no connection free; nothing was charged", LedgerBusy):
            opened(second)
        threading.Timer(0.3, first.close).start()
        with at(crowded, patience=20) as third:
            opened(third).charge("r", pay("1/4"), note={})
    assert opened(ledger).remaining.epsilon * 2 == 1
    postgres.sql("DROP OWNED BY crowd; DROP ROLE crowd")


def test_a_forked_child_uses_connections_of_its_own_and_keeps_none_of_its_parents(
    postgres: Server, ledger: Ledger, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    account = ledger.open_account("p", Budget(1))
    account.charge("q", pay("1/4"), note={})
    store = ledger._log.store
    assert isinstance(store, PostgresStore)
    of_the_parent = [str(link.ask("SELECT pg_backend_pid()")[0][0][0]) for _, link in store._pool._idle.links]
    assert of_the_parent
    told, tell = os.pipe()

    def child() -> None:
        account.charge("child", pay("1/4"), note={})
        os.read(told, 1)

    pid = fork(child)
    account.charge("parent", pay("1/4"), note={})
    ledger.close()
    for _ in range(200):
        if not postgres.sql(f"SELECT 1 FROM pg_stat_activity WHERE pid IN ({', '.join(of_the_parent)})"):
            break
        time.sleep(0.01)
    else:
        raise AssertionError("the parent's connection outlived it in the child")
    os.write(tell, b"+")
    assert ended(pid) == 0
    os.close(told)
    os.close(tell)


def test_a_child_that_is_forked_inside_a_transaction_cannot_end_it(
    postgres: Server, ledger: Ledger, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    account = ledger.open_account("p", Budget(1))

    def work(now: Any) -> int:
        def child() -> bool:
            try:
                now.rows(after=0, limit=1)
            except Exception as error:
                return type(error).__name__ != "Lost"
            return True

        now.put("x", "1")
        return ended(fork(child))

    assert ledger._log.store.write(work) == 0
    assert ledger._log.store.read(lambda now: now.get("x")) == "1"
    account.charge("q", pay("1/4"), note={})


def test_a_client_that_hangs_in_a_transaction_loses_it(
    postgres: Server, ledger: Ledger, url: str, pay: MakeCharge
) -> None:
    """The server ends it after a minute; here as soon as the test has set it so."""
    ledger.open_account("p", Budget(1))

    def work(now: Any) -> None:
        now._base._link.ask("SET LOCAL idle_in_transaction_session_timeout = '50ms'")
        time.sleep(2)
        now.put("x", "1")

    with at(url) as other:
        with refused("was lost, and the charge was not recorded"):
            ledger._log.store.write(work)
        opened(other).charge("q", pay("1/4"), note={})
        assert other.verify().ok


def test_a_closed_or_interrupted_ledger_leaves_no_transaction_open(
    ledger: Ledger, pay: MakeCharge, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = ledger.open_account("p", Budget(1))

    def interrupted(now: Any) -> None:
        if now is not None:
            now.put("x", "1")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        ledger._log.store.write(interrupted)
    account.charge("q", pay("1/4"), note={})  # while the traceback is held
    assert caught.value is not None
    assert ledger._log.store.read(lambda now: now.get("x")) is None
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt) as caught:
        patched.setattr(Link, "_answered", lambda *context: interrupted(None))
        account.charge("r", pay("1/4"), note={})  # in the middle of an answer
    account.charge("s", pay("1/4"), note={})
    assert caught.value is not None
    ledger.close()
    with pytest.raises(LedgerError, match="is closed"):
        _ = account.remaining


def test_of_processes_that_open_a_new_ledger_at_once_one_makes_it(
    url: str, fork: Fork, ended: Ended, pay: MakeCharge
) -> None:
    ready, go = os.pipe()

    def start() -> None:
        os.close(go)
        os.read(ready, 1)  # ends when the parent closes its end
        with Ledger.open(url) as mine:
            mine.open_account("p", Budget(1)).charge("q", pay("1/100"), note={})

    pids = [fork(start) for _ in range(6)]
    os.close(ready)
    os.close(go)
    assert [ended(pid) for pid in pids] == [0] * 6
    with Ledger.existing(url) as found:
        assert opened(found).remaining.epsilon * 100 == 94
        assert found.verify().ok
