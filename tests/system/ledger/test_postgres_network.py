"""The connection is cut at each message of a charge: what was said of the charge is true, and the ledger verifies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeAlias

import pytest

from discreet.accounting.filter import Charge
from discreet.errors import LedgerError
from discreet.ledger.ledger import Ledger
from discreet.ledger.postgres.adding import Adding
from discreet.ledger.postgres.store import PostgresStore
from discreet.ledger.postgres.url import address
from discreet.privacy.guarantee import Budget
from tests.ledger.proxy import Proxy
from tests.postgres import Server

MakeCharge: TypeAlias = Callable[..., Charge]


@pytest.fixture
def proxy(postgres: Server) -> Iterator[Proxy]:
    with Proxy(postgres.port) as one:
        yield one


WORDS = {
    "nothing was charged.": "not charged",
    "cannot be reached.": "not charged",
    "the charge was not recorded.": "undone",
    "the charge may stand.": "unknown",
}


def said(work: Callable[[], object]) -> str:
    """What a charge is said to have become."""
    try:
        work()
    except LedgerError as error:
        assert error.hint
        (answer,) = [word for end, word in WORDS.items() if error.message.endswith(end)]
        return answer
    return "charged"


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charges by a transaction, and not in one message."""
    monkeypatch.setattr(Adding, "add", lambda *_: None)


def test_cut_at_any_message_of_a_charge_what_is_said_of_it_is_true(
    postgres: Server, proxy: Proxy, pay: MakeCharge, ordinary: None
) -> None:
    """The next connection works again, so that the truth is always found."""
    url = postgres.url()
    schema = url.rpartition("=")[2]
    straight = Ledger.open(url)
    watched = straight.open_account("p", Budget(1000))
    store = PostgresStore(address(postgres.url(schema, port=proxy.port)), patience=5)
    account = Ledger(store).open_account("p", None)
    heard: list[str] = []
    for cut_at in count(1):
        account.charge("before", pay("1/100"), note={})  # a connection is there, and knows the statements
        proxy.arm(cut_at)
        answer = said(lambda cut_at=cut_at: account.charge(f"q{cut_at}", pay("1/100"), note={}))  # type: ignore[misc]
        reached = proxy.has_cut
        proxy.arm(None)
        found = [entry.question for entry in watched.history()].count(f"q{cut_at}")
        assert found == (answer == "charged"), (cut_at, answer)
        heard.append(answer)
        if not reached:
            break
    # A connection that is cut before it has begun is replaced; later cuts fall before and behind the commit.
    assert len(heard) > 24
    first = heard.index("undone")
    assert set(heard[:first]) == set(heard[-3:]) == {"charged"}
    assert set(heard) == {"charged", "undone"}
    assert straight.verify().ok
    store.close()
    straight.close()


def test_where_the_server_stays_away_after_the_cut_the_charge_may_stand_once_its_commit_was_sent(
    postgres: Server, proxy: Proxy, pay: MakeCharge, ordinary: None
) -> None:
    url = postgres.url()
    schema = url.rpartition("=")[2]
    straight = Ledger.open(url)
    watched = straight.open_account("p", Budget(1000))
    store = PostgresStore(address(postgres.url(schema, port=proxy.port)), patience=1)
    account = Ledger(store).open_account("p", None)
    heard: list[tuple[str, int]] = []
    for cut_at in count(1):
        account.charge("before", pay("1/100"), note={})
        proxy.arm(cut_at, dead_after=True)
        answer = said(lambda cut_at=cut_at: account.charge(f"q{cut_at}", pay("1/100"), note={}))  # type: ignore[misc]
        reached = proxy.has_cut
        proxy.arm(None)
        found = [entry.question for entry in watched.history()].count(f"q{cut_at}")
        heard.append((answer, found))
        if not reached:
            break
    assert heard.pop() == ("charged", 1)
    assert set(heard) == {("not charged", 0), ("unknown", 0), ("unknown", 1)}
    assert straight.verify().ok
    store.close()
    straight.close()


@pytest.mark.parametrize("away", [False, True])
def test_cut_at_any_message_of_a_charge_in_one_message_what_is_said_of_it_is_true(
    postgres: Server, proxy: Proxy, pay: MakeCharge, away: bool
) -> None:
    """One that was not made is made in the ordinary way, where the server can be reached."""
    url = postgres.url()
    schema = url.rpartition("=")[2]
    straight = Ledger.open(url)
    watched = straight.open_account("p", Budget(1000))
    store = PostgresStore(address(postgres.url(schema, port=proxy.port)), patience=1 if away else 5)
    account = Ledger(store).open_account("p", None)
    account.charge("before", pay("1/100"), note={})
    heard: list[tuple[str, int]] = []
    for cut_at in count(1):
        for _ in range(2):
            account.charge("before", pay("1/100"), note={})
        proxy.arm(cut_at, dead_after=away)
        answer = said(lambda cut_at=cut_at: account.charge(f"q{cut_at}", pay("1/100"), note={}))  # type: ignore[misc]
        reached = proxy.has_cut
        proxy.arm(None)
        found = [entry.question for entry in watched.history()].count(f"q{cut_at}")
        assert answer == "unknown" or found == (answer == "charged"), (cut_at, answer)
        heard.append((answer, found))
        if not reached:
            break
    assert heard.pop() == ("charged", 1)
    assert len(heard) == 7  # Bind, Execute, Sync, and what answers them
    assert set(heard) == ({("unknown", 0), ("unknown", 1)} if away else {("charged", 1)})
    assert straight.verify().ok
    store.close()
    straight.close()


def test_a_read_that_is_cut_off_is_told_and_the_next_one_works(postgres: Server, proxy: Proxy, pay: MakeCharge) -> None:
    url = postgres.url()
    schema = url.rpartition("=")[2]
    straight = Ledger.open(url)
    straight.open_account("p", Budget(1)).charge("q", pay("1/4"), note={})
    store = PostgresStore(address(postgres.url(schema, port=proxy.port)), patience=5)
    account = Ledger(store).open_account("p", None)
    for cut_at in count(1):
        assert account.remaining.epsilon * 4 == 3
        proxy.arm(cut_at)
        try:
            assert account.remaining.epsilon * 4 == 3
        except LedgerError as error:
            assert "lost" in error.message
        reached = proxy.has_cut
        proxy.arm(None)
        if not reached:
            break
    assert cut_at > 8
    store.close()
    straight.close()
