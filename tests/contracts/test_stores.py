"""What every store of a ledger promises (the port in `ledger/store.py`)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from discreet.errors import LedgerError
from discreet.ledger.memory import MemoryStore
from discreet.ledger.places import prepared_store
from discreet.ledger.postgres.store import PostgresStore
from discreet.ledger.postgres.url import address
from discreet.ledger.sqlite import SQLiteStore
from discreet.ledger.store import Row, Store, Transaction
from tests.postgres import Server

END = 1 << 62


@pytest.fixture(params=["memory", "sqlite", "postgres", "unmade"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "postgres":
        server: Server = request.getfixturevalue("postgres")
        made = PostgresStore(address(server.url()), patience=2)
        made.create()
    elif request.param == "unmade":
        made = prepared_store(tmp_path / "a.ledger")
    else:
        SQLiteStore.create(tmp_path / "a.ledger")
        made = SQLiteStore(tmp_path / "a.ledger", patience=2)
    yield made
    made.close()


def row(seq: int, population: str = "p", kind: str = "charge", key: str = "k") -> Row:
    return Row(seq, population, kind, key, f'{{"seq":{seq}}}', f"{seq:064x}")


def fill(store: Store, *rows: Row) -> None:
    def work(now: Transaction) -> None:
        for one in rows:
            now.append(one)

    store.write(work)


def put(store: Store, name: str, value: str) -> None:
    store.write(lambda now: now.put(name, value))


def get(store: Store, name: str) -> str | None:
    return store.read(lambda now: now.get(name))


def last(store: Store) -> Row | None:
    return store.read(lambda now: now.last())


def test_a_new_store_is_empty(store: Store) -> None:
    def look(now: Transaction) -> None:
        assert now.last() is None
        assert now.row(1) is None
        assert now.rows(after=0, limit=9) == []
        assert now.latest("p", "charge", "k", before=END) is None
        assert now.get("head") is None
        assert now.names() == []

    store.read(look)
    store.write(look)
    assert store.faults() == []


def test_a_transaction_returns_what_its_work_returns(store: Store) -> None:
    assert store.read(lambda now: "x") == "x"
    assert store.write(lambda now: 7) == 7


def test_rows_come_back_as_they_were_and_in_order(store: Store) -> None:
    given = [row(1, "größe", "account", ""), row(2, "客户", key="🙂"), row(3, "quote\"'; DROP TABLE entry --"), row(4)]
    fill(store, *given)

    def look(now: Transaction) -> None:
        assert now.rows(after=0, limit=9) == given
        assert now.rows(after=1, limit=2) == given[1:3]
        assert [now.row(n) for n in range(6)] == [None, *given, None]
        assert now.last() == given[-1]
        assert now.rows(after=0, limit=9, population="客户") == given[1:2]
        assert now.rows(after=0, limit=9, kind="account") == given[:1]
        assert now.rows(after=1, limit=9, population="p", kind="charge") == given[3:]

    store.read(look)


def test_latest_is_the_last_with_its_three_names_below_a_number(store: Store) -> None:
    fill(store, row(1), row(2, key="other"), row(3), row(4, "q"), row(5, kind="release"))

    def look(now: Transaction) -> None:
        assert now.latest("p", "charge", "k", before=END) == row(3)
        assert now.latest("p", "charge", "k", before=3) == row(1)
        assert now.latest("p", "charge", "k", before=1) is None
        assert now.latest("p", "charge", "K", before=END) is None
        now.append(row(6))
        assert now.latest("p", "charge", "k", before=END) == row(6)

    store.write(look)


def test_states_are_set_and_set_again(store: Store) -> None:
    def work(now: Transaction) -> None:
        now.put("tally/p", "1")
        now.put("head", "x")
        now.put("tally/p", "2")
        assert now.get("tally/p") == "2"

    store.write(work)
    assert (get(store, "tally/p"), get(store, "head"), get(store, "tally/P")) == ("2", "x", None)
    assert store.read(lambda now: now.names()) == ["head", "tally/p"]


def test_what_is_asked_for_again_and_again_is_never_what_it_was_before(store: Store) -> None:
    fill(store, row(1), row(2))

    def begin(now: Transaction) -> None:
        for name in ("a", "b", "c"):
            now.put(name, "0")

    def fail(now: Transaction) -> None:
        now.put("a", "lost")
        raise ZeroDivisionError

    store.write(begin)

    def work(now: Transaction) -> None:  # the same in each transaction, so that a store may ask for it beforehand
        last = now.last()
        assert last is not None
        assert now.row(last.seq) == last
        assert now.row(last.seq - 1) == row(last.seq - 1)
        assert now.row(last.seq + 1) is None
        before = str(last.seq - 2)
        now.put("b", "mine")
        assert (now.get("a"), now.get("b"), now.get("c"), now.get("none")) == (before, "mine", before, None)
        now.append(row(last.seq + 1))
        assert now.last() == now.row(last.seq + 1) == row(last.seq + 1)
        assert now.row(last.seq) == last
        for name in ("a", "c"):
            now.put(name, str(last.seq - 1))
            assert now.get(name) == str(last.seq - 1)

    for _ in range(4):
        store.write(work)
        assert store.read(lambda now: now.get("b")) == "mine"
        store.write(lambda now: now.put("b", "0"))
    with pytest.raises(ZeroDivisionError):
        store.write(fail)
    store.write(work)
    assert store.read(lambda now: now.last()) == row(7)


def test_blobs_are_set_set_again_and_removed(store: Store) -> None:
    every = bytes(range(256)) * 3

    def work(now: Transaction) -> None:
        assert now.blobs() == []
        now.put_blob("people/p/2", every)
        now.put_blob("people/p/10", b"")
        now.put_blob("größe", b"old")
        now.put_blob("größe", b"new")
        now.put_blob("gone", b"at once")
        now.put_blob("gone", None)
        now.put_blob("never there", None)
        assert (now.blob("größe"), now.blob("gone")) == (b"new", None)
        assert now.blobs() == ["größe", "people/p/10", "people/p/2"]

    store.write(work)

    def look(now: Transaction) -> None:
        assert now.blobs() == ["größe", "people/p/10", "people/p/2"]
        assert (now.blob("people/p/2"), now.blob("people/p/10"), now.blob("größe")) == (every, b"", b"new")
        assert (now.blob("people/p/3"), now.blob("GRÖSSE"), now.names()) == (None, None, [])
        assert now.get("größe") is None

    store.read(look)

    def change(now: Transaction) -> None:
        now.put_blob("people/p/2", None)
        now.put_blob("größe", None)
        now.put_blob("größe", b"again")
        assert now.blobs() == ["größe", "people/p/10"]

    store.write(change)
    assert store.read(lambda now: [now.blob(name) for name in now.blobs()]) == [b"again", b""]


def test_a_blob_of_many_megabytes_is_stored_with_the_row_that_names_it_or_not_at_all(store: Store) -> None:
    large = bytes(range(256)) * (24 << 12)  # 24 MiB
    fill(store, row(1))

    def work(now: Transaction, error: type[BaseException] | None = None) -> None:
        now.append(row(2))
        now.put_blob("large", large)
        if error is not None:
            raise error

    with pytest.raises(ValueError):
        store.write(lambda now: work(now, ValueError))
    assert store.read(lambda now: (now.last(), now.blobs())) == (row(1), [])
    store.write(work)
    assert store.read(lambda now: (now.last(), now.blob("large"))) == (row(2), large)


def test_names_and_texts_may_have_any_characters(store: Store) -> None:
    names = [
        "plain",
        'analyst/["p,{q}","\\"]',
        "a'b",
        'a"b',
        "a\\b\\",
        "{}",
        "NULL",
        "a,b",
        "$1 :x %s ?1",
        " spaces ",
        "tab\tand\nline",
        "",
        "客户🙂",
    ]

    def fill(now: Transaction) -> None:
        for i, name in enumerate(names):
            now.append(Row(i + 1, name, name, name, name, name))
            now.put(name, f"value of {name}")
            now.put_blob(name, name.encode())

    store.write(fill)

    def look(now: Transaction) -> None:
        assert now.names() == now.blobs() == sorted(names)
        for i, name in enumerate(names):
            assert now.get(name) == f"value of {name}"
            assert now.blob(name) == name.encode()
            expected = Row(i + 1, name, name, name, name, name)
            assert now.row(i + 1) == now.latest(name, name, name, before=END) == expected
            assert now.rows(after=0, limit=99, population=name, kind=name) == [expected]

    store.read(look)
    store.read(look)  # a store may ask differently for what it was asked for before
    store.write(look)
    store.write(look)


class Interrupted(BaseException):
    """Stands for Ctrl-C."""


@pytest.mark.parametrize("error", [ValueError, Interrupted])
def test_a_write_that_raises_leaves_nothing_behind(store: Store, error: type[BaseException]) -> None:
    fill(store, row(1))
    put(store, "head", "1")
    store.write(lambda now: now.put_blob("kept", b"1"))

    def work(now: Transaction) -> None:
        now.append(row(2))
        now.put("head", "2")
        now.put_blob("people", b"2")
        now.put_blob("kept", None)
        raise error

    with pytest.raises(error) as caught:
        store.write(work)
    assert (last(store), get(store, "head")) == (row(1), "1")
    assert store.read(lambda now: (now.blobs(), now.blob("kept"))) == (["kept"], b"1")
    fill(store, row(2))  # while the traceback is still held
    assert caught.value is not None


def test_a_read_transaction_refuses_to_write(store: Store) -> None:
    with pytest.raises(LedgerError):
        store.read(lambda now: now.append(row(1)))
    with pytest.raises(LedgerError):
        store.read(lambda now: now.put("head", "1"))
    with pytest.raises(LedgerError):
        store.read(lambda now: now.put_blob("people", b"1"))
    with pytest.raises(LedgerError):
        store.read(lambda now: now.put_blob("people", None))
    assert last(store) is None


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
def test_of_a_write_inside_a_write_only_one_is_kept_and_the_other_is_told(store: Store) -> None:
    """A signal handler could do it."""
    done = []

    def outer(now: Transaction) -> None:
        now.append(row(1, "outer"))
        try:
            fill(store, row(1, "inner"))
            done.append("inner")
        except LedgerError:
            pass

    try:
        store.write(outer)
        done.append("outer")
    except LedgerError:
        pass
    assert [one.population for one in store.read(lambda now: now.rows(after=0, limit=9))] == done
    assert len(done) == 1


def test_what_one_thread_reads_before_it_writes_no_other_changes(store: Store) -> None:
    def count_up(now: Transaction) -> None:
        now.put("n", str(int(now.get("n") or "0") + 1))

    def keep_counting() -> None:
        for _ in range(10):
            store.write(count_up)

    threads = [threading.Thread(target=keep_counting) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert get(store, "n") == "80"


def test_a_closed_store_refuses(store: Store) -> None:
    store.close()
    with pytest.raises(LedgerError, match="closed"):
        last(store)
    with pytest.raises(LedgerError, match="closed"):
        fill(store, row(1))
