"""What leaves the ledger: an export that strangers verify, a signed head, and the whole of it into another store."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from discreet.accounting.filter import Charge
from discreet.errors import BudgetExceeded, InvalidParameter, LedgerCorrupt, LedgerError
from discreet.ledger.chain import GENESIS, canonical, is_signed, new_key, sign_head
from discreet.ledger.entry import Entry, Opened, to_row
from discreet.ledger.export import transfer, verify_export
from discreet.ledger.ledger import Ledger
from discreet.ledger.log import Log
from discreet.ledger.memory import MemoryStore
from discreet.ledger.store import Transaction
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import Relation
from tests.postgres import Server

MakeCharge: TypeAlias = Callable[..., Charge]
BOARD: dict[str, Any] = {"by": "the data board", "reason": "as agreed"}


@pytest.fixture
def full(ledger: Ledger, pay: MakeCharge) -> Ledger:
    """Two accounts and most kinds of entries."""
    account = ledger.open_account("customers", Budget(3, 1e-6))
    account.pin("visits", {"columns": [["user_id", "BIGINT"]]})
    account.store("q1", account.charge("q1", pay("1/2"), note={"sql": "SELECT 1"}).seq, {"n": [1, 2.5]})
    account.change_budget(Budget(4, 1e-6), **BOARD)
    account.freeze(**BOARD)
    account.thaw(**BOARD)
    account.cap_group("team", Budget(2), **BOARD)
    account.cap_analyst("ana", Budget(1), group="team", **BOARD)
    account.seen_by("ana").charge("q2", pay("1/4"), note={})
    ledger.open_account("staff", Budget(1)).close(**BOARD)
    assert ledger.verify().ok
    return ledger


def test_a_stranger_follows_the_chain_with_sha_256_alone(full: Ledger) -> None:
    header, *bodies = full.export()
    said, head = json.loads(header), bytes(32)
    for body in bodies:
        head = hashlib.sha256(b"discreet ledger entry, format 1\0" + head + body.encode("ascii")).digest()
    assert said == {"discreet": "ledger export", "format": 1, "entries": len(bodies), "head": head.hex()}
    assert full.head == head.hex()
    assert [json.loads(body)["seq"] for body in bodies] == list(range(1, len(bodies) + 1))


def test_an_export_verifies_and_tells_no_secret(full: Ledger) -> None:
    lines = list(full.export())
    report = verify_export([f"{line}\n" for line in lines], full.head)
    assert (report.ok, report.accounts, report.head) == (True, 2, full.head)
    secrets = [account.secret for name in full.populations() if (account := full.account(name)) is not None]
    assert not any(secret.hex() in line for secret in secrets for line in lines)


def test_every_change_of_an_export_is_found(full: Ledger) -> None:
    lines, head = list(full.export()), full.head
    assert verify_export(lines).ok
    changed: list[list[str]] = [lines[:i] + lines[i + 1 :] for i in range(1, len(lines))]
    changed += [[*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]] for i in range(1, len(lines) - 1)]
    for i, line in enumerate(lines[1:], 1):
        for at in range(0, len(line), 11):
            flipped = line[:at] + chr(ord(line[at]) ^ 1) + line[at + 1 :]
            changed.append([*lines[:i], flipped, *lines[i + 1 :]])
    changed += [[*lines, "rubbish"], [*lines, "{}"], [*lines, "[" * 100_000], [*lines, lines[-1]], lines[:1]]
    for forged in changed:
        assert not verify_export(forged).ok
    # One who also writes a first line that fits is found out by the head that was published.
    shorter = json.loads(lines[0]) | {"entries": len(lines) - 2, "head": verify_export(lines[:-1]).head}
    cut = [json.dumps(shorter, sort_keys=True, separators=(",", ":")), *lines[1:-1]]
    assert verify_export(cut).ok
    assert verify_export(cut, head).problems == (
        "the published head is not in this ledger: it is an older copy, or another ledger.",
    )


@pytest.mark.parametrize("first", ["", "{}", "[]", "SQLite format 3", '{"discreet":"a release"}', "[" * 100_000])
def test_what_is_no_export_is_refused(first: str) -> None:
    with pytest.raises(LedgerError, match="no export"):
        verify_export([first])


def test_an_export_of_a_newer_version_is_refused(full: Ledger) -> None:
    header, *bodies = full.export()
    with pytest.raises(LedgerError, match="format 2") as caught:
        verify_export([header.replace('"format":1', '"format":2'), *bodies])
    assert not isinstance(caught.value, LedgerCorrupt)
    with pytest.raises(LedgerCorrupt, match="first line"):
        verify_export([header.replace('"entries":12', '"entries":"x"'), *bodies])


def test_a_signed_head_is_the_owners_and_no_other(full: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "owner.pem"
    public = new_key(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    signed = full.sign_head(file)
    assert (signed.head, signed.public_key) == (full.head, public)
    assert is_signed(signed.head.upper(), signed.signature, public)
    flipped = f"{int(signed.signature[0], 16) ^ 1:x}{signed.signature[1:]}"
    assert not is_signed(signed.head, flipped, public)
    assert not is_signed("ab" * 32, signed.signature, public)
    assert not is_signed(signed.head, signed.signature, new_key(tmp_path / "other.pem"))
    for head, signature, key in [
        ("ab", signed.signature, public),
        (signed.head, "", public),
        (signed.head, signed.signature, "x"),
    ]:
        with pytest.raises(InvalidParameter, match="hexadecimal digits"):
            is_signed(head, signature, key)


def test_a_key_is_never_written_over_and_other_keys_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "owner.pem"
    new_key(file)
    with pytest.raises(LedgerError, match="exists"):
        new_key(file)
    with pytest.raises(LedgerError, match="cannot be read"):
        sign_head("ab" * 32, tmp_path / "nothing.pem")
    (tmp_path / "text").write_text("no key")
    with pytest.raises(InvalidParameter, match="no Ed25519"):
        sign_head("ab" * 32, tmp_path / "text")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="OpenSSL checks the signature")
def test_openssl_agrees(full: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "owner.pem"
    made = subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", file], check=False)
    if made.returncode:
        pytest.skip("this OpenSSL has no Ed25519")
    signed = full.sign_head(file)
    (tmp_path / "message").write_bytes(b"discreet ledger head, format 1\0" + bytes.fromhex(full.head))
    (tmp_path / "signature").write_bytes(bytes.fromhex(signed.signature))
    check = ["openssl", "pkeyutl", "-verify", "-inkey", str(file), "-rawin", "-in", "message", "-sigfile", "signature"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Verified Successfully" in done.stdout


def standing(ledger: Ledger) -> list[Any]:
    """All that accounts know and keep."""
    found = [ledger.account(name) for name in ledger.populations()]
    accounts = [account for account in found if account is not None]
    return [
        (a.population, a.budget, a.remaining, a.secret, a.status, a.find("q1"), [str(s) for s in a.standings()])
        for a in accounts
    ]


@pytest.mark.parametrize("place", ["file", "memory"])
def test_a_ledger_goes_on_elsewhere_and_ends_here(full: Ledger, tmp_path: Path, pay: MakeCharge, place: str) -> None:
    before, head, lines = standing(full), full.head, list(full.export())
    new = full.transfer(tmp_path / "new.ledger" if place == "file" else Ledger(MemoryStore()), **BOARD)
    assert standing(new) == before
    assert (new.head, list(new.export())) == (head, lines)
    assert new.verify(head).ok
    assert full.verify(head).ok
    moved = [e for name in full.populations() if (a := full.account(name)) for e in a.history() if e.kind == "moved"]
    assert [e.content.to_json()["head"] for e in moved] == [head, head]
    old, account = full.account("customers"), new.account("customers")
    assert old is not None
    assert account is not None
    for act in (
        lambda: old.seen_by("ana").charge("q3", pay("1/8"), note={}),
        lambda: old.store("q2", 10, {}),
        lambda: old.pin("orders", {}),
        lambda: old.change_budget(Budget(9, 1e-6), **BOARD),
        lambda: full.open_account("guests", Budget(1)),
    ):
        with pytest.raises(LedgerError, match="has moved"):
            act()
    assert old.find("q1") == {"n": [1, 2.5]}
    account.seen_by("ana").charge("q3", pay("3/4"), note={})
    with pytest.raises(BudgetExceeded):
        account.seen_by("ana").charge("q4", pay("1/8"), note={})
    assert new.verify(head).ok
    assert verify_export(full.export(), head).ok


def test_a_transfer_that_was_cut_off_takes_no_charge_anywhere_and_is_finished_later(
    full: Ledger, tmp_path: Path, pay: MakeCharge
) -> None:
    class Cut(MemoryStore):
        writes, fails = 0, True

        def write(self, work: Callable[[Transaction], Any]) -> Any:
            self.writes += 1
            if self.fails and self.writes > 1:  # the mark arrives, and the copy does not
                raise LedgerError("the disk failed.")
            return super().write(work)

    store, before, head = Cut(), standing(full), full.head
    with pytest.raises(LedgerError, match="the disk failed"):
        full.transfer(Ledger(store), **BOARD)
    old = full.account("customers")
    assert old is not None
    with pytest.raises(LedgerError, match="has moved"):
        old.seen_by("ana").charge("q3", pay("1/8"), note={})
    assert Ledger(store).populations() == []
    assert full.verify().ok
    with pytest.raises(LedgerError, match="has moved to another place"):
        full.transfer(tmp_path / "third.ledger", **BOARD)
    assert Ledger.open(tmp_path / "third.ledger").populations() == []
    store.fails = False
    new = full.transfer(Ledger(store), **BOARD)
    assert (standing(new), new.head) == (before, head)
    again = full.transfer(Ledger(store), **BOARD)  # and once more does nothing
    assert again.head == head


@pytest.mark.parametrize("place", ["file", "memory", "postgres"])
def test_a_store_that_a_ledger_is_to_move_into_takes_nothing_else(
    full: Ledger, tmp_path: Path, pay: MakeCharge, place: str, request: pytest.FixtureRequest
) -> None:
    """Between its mark and its copy the store is empty, and an entry there would leave the ledger nowhere to go."""
    path = request.getfixturevalue("postgres").url() if place == "postgres" else tmp_path / "new.ledger"
    store = MemoryStore() if place == "memory" else Ledger.open(path)._log.store
    write, calls = store.write, []

    def cut(work: Callable[[Transaction], Any]) -> Any:
        calls.append(work)
        if len(calls) > 1:  # the mark arrives, and the copy does not
            raise LedgerError("the disk failed.")
        return write(work)

    store.write = cut  # type: ignore[method-assign]
    early = Ledger(store).prepared_account("early", Budget(1))  # before the mark
    with pytest.raises(LedgerError, match="the disk failed"):
        full.transfer(Ledger(store), **BOARD)
    store.write = write  # type: ignore[method-assign]
    waiting = Ledger(store)
    for act in (
        lambda: waiting.open_account("p", Budget(1)),
        lambda: waiting.prepared_account("p", Budget(1)),
        lambda: waiting.lock(**BOARD),
        lambda: early.charge("q", pay("1/2"), note={}),
        lambda: early.remaining,
    ):
        with pytest.raises(LedgerError, match="waits for another one that moves into it") as refused:
            act()
        assert "the same `discreet ledger transfer`" in refused.value.hint
    assert waiting.verify().ok
    assert full.transfer(waiting, **BOARD).populations() == full.populations()
    waiting.open_account("p", Budget(1))
    assert waiting.verify().ok


def test_a_ledger_without_accounts_marks_no_store(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no account"):
        Ledger.open(":memory:").transfer(tmp_path / "new.ledger", **BOARD)
    with Ledger.open(tmp_path / "new.ledger") as new:
        new.open_account("p", Budget(1))


def test_a_transfer_copies_what_is_private_too() -> None:
    old, new = MemoryStore(), MemoryStore()
    with Ledger(old) as ledger:
        ledger.open_account("p", Budget(1))
        old.write(lambda now: now.put_blob("people/p/1", b"\0private"))
        transfer(Log(old), new, **BOARD)
        assert new.read(lambda now: (now.blobs(), now.blob("people/p/1"))) == (["people/p/1"], b"\0private")
        assert new.read(lambda now: now.names()) == ["head", "mark", "secret/p", "tally/p", "terms/p"]


def test_what_is_not_empty_or_not_whole_is_not_moved_into_or_from(full: Ledger, tmp_path: Path) -> None:
    other = Ledger.open(tmp_path / "other.ledger")
    with pytest.raises(LedgerError, match="no account"):
        other.transfer(tmp_path / "new.ledger", **BOARD)
    other.open_account("p", Budget(1))
    head = full.head
    with pytest.raises(LedgerError, match="is not empty"):
        full.transfer(other, **BOARD)
    assert full.head == head
    other._log.store.write(lambda now: now.put("tally/p", ""))
    with pytest.raises(LedgerCorrupt, match="is not moved"):
        other.transfer(tmp_path / "new.ledger", **BOARD)


def test_the_amounts_in_the_export_are_exact(full: Ledger) -> None:
    charges = [json.loads(line) for line in full.export() if '"kind":"charge"' in line]
    assert [Fraction(c["epsilon"]) for c in charges] == [Fraction(1, 2), Fraction(1, 4)]
    assert [c["analyst"] for c in charges] == [None, "ana"]


def test_a_ledger_moves_to_postgresql_and_back(full: Ledger, postgres: Server, tmp_path: Path, pay: MakeCharge) -> None:
    before, head = standing(full), full.head
    with full.transfer(postgres.url(), **BOARD) as server:
        assert (standing(server), server.head) == (before, head)
        account = server.account("customers")
        assert account is not None
        account.seen_by("ana").charge("q3", pay("1/8"), note={})
        before, head = standing(server), server.head
        with server.transfer(tmp_path / "back.ledger", **BOARD) as back:
            assert (standing(back), back.head) == (before, head)
            assert back.verify(head).ok
        assert server.verify(head).ok
    assert full.verify().ok


@pytest.mark.parametrize("place", ["new.ledger", ":memory:"])
def test_a_second_copy_is_never_made_where_the_first_was_taken_away(
    full: Ledger, tmp_path: Path, pay: MakeCharge, place: str
) -> None:
    to = place if place == ":memory:" else tmp_path / place
    new = full.transfer(to, **BOARD)
    account = new.account("customers")
    assert account is not None
    account.seen_by("ana").charge("q3", pay("3/4"), note={})
    if place != ":memory:":
        new.close()
        (tmp_path / place).rename(tmp_path / "elsewhere.ledger")
    with pytest.raises(LedgerError, match="is not that ledger"):
        full.transfer(to, **BOARD)
    assert full.verify().ok
    if place != ":memory:":
        assert Ledger.open(tmp_path / place).populations() == []


class Crash(BaseException):
    """The end of a process."""


class Crashes(MemoryStore):
    """A store whose process ends before, or just after, one of its writes."""

    def __init__(self, at: int, *, after: bool) -> None:
        super().__init__()
        self.at, self.after, self.writes = at, after, 0

    def write(self, work: Callable[[Transaction], Any]) -> Any:
        self.writes += 1
        if self.writes != self.at:
            return super().write(work)
        if self.after:
            super().write(work)
        raise Crash


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("old_at", "new_at"), [(0, 1), (2, 0), (0, 2), (3, 0)])  # the opening is the first of `old`
def test_a_transfer_that_ends_anywhere_leaves_one_ledger_whatever_stands_in_its_place(
    old_at: int, new_at: int, after: bool, pay: MakeCharge
) -> None:
    old, new = Crashes(old_at, after=after), Crashes(new_at, after=after)
    with Ledger(old) as ledger:
        ledger.open_account("p", Budget(1))
        with pytest.raises(Crash):
            transfer(Log(old), new, **BOARD)
        account = ledger.account("p")
        assert account is not None
        ended = old.read(lambda now: now.get("moved")) is not None
        assert ended == ((old_at, after) == (2, True) or new_at == 2 or old_at == 3)
        assert ledger.verify().ok
        copied = new.read(lambda now: now.last()) is not None
        assert copied == ((new_at, after) == (2, True) or old_at == 3)
        # Another store stands in its place.
        if ended:
            other = MemoryStore()
            with pytest.raises(LedgerError, match="is not that ledger"):
                transfer(Log(old), other, **BOARD)
            assert other.read(lambda now: now.names()) == []
        # The same one goes on.
        transfer(Log(old), new, **BOARD)
        assert ledger.verify().ok
        assert Ledger(new).verify().ok
        with pytest.raises(LedgerError, match="has moved"):
            account.charge("q", pay("1/8"), note={})


def test_a_mark_that_was_left_behind_is_no_ledger_and_waits_for_the_transfer() -> None:
    new = Crashes(1, after=True)
    with Ledger(MemoryStore()) as ledger:
        ledger.open_account("p", Budget(1))
        with pytest.raises(Crash):
            transfer(ledger._log, new, **BOARD)
        assert ledger.verify().ok
        assert Ledger(new).populations() == []
        assert Ledger(new).verify().ok
        with pytest.raises(LedgerError, match="waits for another one"):  # it does not know whether that has ended
            Ledger(new).open_account("other", Budget(1))
        transfer(ledger._log, new, **BOARD)
    Ledger(new).open_account("other", Budget(1))
    assert Ledger(new).verify().ok


def test_a_ledger_that_has_marked_a_store_without_having_moved_does_not_verify(full: Ledger) -> None:
    full._log.store.write(lambda now: now.put("marked", "00"))
    assert full.verify().problems == ("the state 'marked' is not what the entries say.",)


def test_a_ledger_that_says_it_has_arrived_without_having_moved_does_not_verify(full: Ledger) -> None:
    full._log.store.write(lambda now: now.put("arrived", "{}"))
    assert full.verify().problems == ("the state 'arrived' is not what the entries say.",)


def test_an_export_with_a_budget_beyond_all_bounds_is_wrong_and_not_an_error() -> None:
    budget = Budget(Fraction(10**400), Fraction(1, 10))
    opened = Opened(budget, Relation.ADD_REMOVE, "gdp", (Fraction(1),), "0" * 64)
    row = to_row(Entry(1, "2026-11-21T00:00:00.000Z", "p", opened), GENESIS)
    header = canonical({"discreet": "ledger export", "format": 1, "entries": 1, "head": row.hash})
    assert verify_export([header, row.body]).problems == (
        "entry 1 of 'p' is impossible: its amounts are beyond all bounds.",
    )
