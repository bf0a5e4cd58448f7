"""Every way of tampering that we could think of, done to the file itself, and what `verify` says."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from discreet import accounting
from discreet.accounting.filter import Charge
from discreet.errors import LedgerCorrupt, LedgerError
from discreet.ledger.chain import GENESIS, canonical, link
from discreet.ledger.entry import Charged
from discreet.ledger.forms import tally_name, tally_text
from discreet.ledger.ledger import Ledger
from discreet.ledger.log import View
from discreet.ledger.memory import MemoryStore
from discreet.privacy.codec import fraction_text
from discreet.privacy.guarantee import Budget

MakeCharge: TypeAlias = Callable[..., Charge]


@pytest.fixture
def full(path: Path, pay: MakeCharge) -> Path:
    """Two accounts: entries 1 and 2 open them, 3 pins a table, 4 to 9 are charges with their releases."""
    with Ledger.open(path) as ledger:
        a, b = ledger.open_account("customers", Budget(3, 1e-6)), ledger.open_account("staff", Budget(1))
        a.pin("visits", {"columns": [["user_id", "BIGINT"]]})
        for account, question in [(a, "q1"), (b, "q1"), (a, "q2")]:
            account.store(question, account.charge(question, pay("1/2"), note={"k": "v"}).seq, {"rows": [[1, 2.5]]})
        assert ledger.verify().ok
    return path


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """The bare file, without its guards."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DROP TRIGGER IF EXISTS entry_stays")
        db.execute("DROP TRIGGER IF EXISTS entry_remains")
        yield db


def problems(path: Path, head: str | None = None) -> list[str]:
    """What the ledger's own check says, or why it cannot be opened at all."""
    try:
        with Ledger.existing(path) as ledger:
            return list(ledger.verify(head).problems)
    except LedgerCorrupt as error:
        return [error.message]


def forge(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Rewrite history and recompute every hash, column and the head, as one who knows the format would."""
    with opened(path) as db:
        bodies = [json.loads(text) for (text,) in db.execute("SELECT body FROM entry ORDER BY seq")]
        change(bodies)
        db.execute("DELETE FROM entry")
        previous = GENESIS
        for n, body in enumerate(bodies, 1):
            body["seq"] = n
            text = canonical(body)
            previous = link(previous, text)
            key = key_of(body)
            db.execute(
                "INSERT INTO entry VALUES (?,?,?,?,?,?)", (n, body["population"], body["kind"], key, text, previous)
            )
        db.execute("UPDATE state SET value = ? WHERE name = 'head'", (f"{len(bodies)} {previous}",))


def key_of(body: dict[str, Any]) -> str:
    """By what an entry is found, as docs/ledger-format.md says."""
    match body["kind"]:
        case "schema":
            return str(body["table"])
        case "charge" | "release":
            return str(body["question"])
        case "analyst" | "group":
            return str(body["name"])
        case "people" | "begun":
            return "" if body["charge"] is None else str(body["charge"])
        case _:
            return ""


def test_a_whole_ledger_is_whole(full: Path) -> None:
    with Ledger.existing(full) as ledger:
        report = ledger.verify(ledger.head)
        assert (report.ok, report.problems, report.entries, report.accounts) == (True, (), 9, 2)
        assert report.head == ledger.head


def test_an_empty_ledger_is_whole(path: Path) -> None:
    report = Ledger.open(path).verify(GENESIS)
    assert (report.ok, report.entries, report.accounts, report.head) == (True, 0, 0, GENESIS)


def test_a_forgery_that_changes_nothing_is_whole(full: Path) -> None:
    head = Ledger.existing(full).head
    forge(full, lambda bodies: None)
    assert problems(full, head) == []


@pytest.mark.parametrize("seq", range(1, 10))
def test_a_flipped_bit_in_any_entry_is_found(full: Path, seq: int) -> None:
    with opened(full) as db:
        (body,) = db.execute("SELECT body FROM entry WHERE seq = ?", (seq,)).fetchone()
    for at in range(0, len(body), 7):
        with opened(full) as db:
            flipped = body[:at] + chr(ord(body[at]) ^ 1) + body[at + 1 :]
            db.execute("UPDATE entry SET body = ? WHERE seq = ?", (flipped, seq))
        assert any(f"entry {seq} " in p for p in problems(full)), at


def test_a_flipped_byte_anywhere_in_what_the_file_says_is_found(full: Path) -> None:
    """Each byte is either not content, or its change is found: what can still be read is the same."""
    whole, found = full.read_bytes(), 0

    def content() -> object:
        with closing(sqlite3.connect(full)) as db:
            return db.execute("SELECT * FROM entry").fetchall(), db.execute("SELECT * FROM state").fetchall()

    before = content()
    for at in range(100, len(whole), 211):
        full.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            silent = not problems(full)
        except LedgerError:  # the format's number was hit
            silent = False
        assert not silent or content() == before, at
        found += not silent
    assert found > 20


@pytest.mark.parametrize("seq", range(1, 10))
def test_a_removed_entry_is_found(full: Path, seq: int) -> None:
    with opened(full) as db:
        db.execute("DELETE FROM entry WHERE seq = ?", (seq,))
    assert problems(full)


def test_a_removed_end_is_noticed_at_the_next_use(full: Path) -> None:
    with opened(full) as db:
        db.execute("DELETE FROM entry WHERE seq = 9")
    with pytest.raises(LedgerCorrupt, match="does not end with the entry that its head names"):
        Ledger.open(full)


def test_exchanged_entries_are_found(full: Path) -> None:
    with opened(full) as db:
        db.execute("UPDATE entry SET seq = 100 WHERE seq = 4")
        db.execute("UPDATE entry SET seq = 4 WHERE seq = 8")
        db.execute("UPDATE entry SET seq = 8 WHERE seq = 100")
    assert any("entry 4" in p for p in problems(full))


def test_an_inserted_entry_is_found(full: Path) -> None:
    with opened(full) as db:
        db.execute("INSERT INTO entry SELECT 10, population, kind, key, body, hash FROM entry WHERE seq = 9")
    assert any("entry 10" in p for p in problems(full))


@pytest.mark.parametrize("column", ["population", "kind", "key"])
def test_a_column_that_hides_an_entry_from_the_index_is_found(full: Path, column: str) -> None:
    with opened(full) as db:
        db.execute(f"UPDATE entry SET {column} = 'x' WHERE seq = 8")
    assert "entry 8 of the ledger is damaged." in problems(full)


def test_an_edited_tally_is_found_and_not_used(full: Path, pay: MakeCharge) -> None:
    with opened(full) as db:
        db.execute("""UPDATE state SET value = '{"seq":8,"spent":["0/1","0/1"]}' WHERE name = 'tally/customers'""")
    assert problems(full) == ["the state 'tally/customers' is not what the entries say."]
    account = Ledger.open(full).account("customers")
    assert account is not None
    with pytest.raises(LedgerCorrupt, match="contradicts itself"):
        account.charge("q", pay("1/2"), note={})


@pytest.mark.parametrize(
    "value", ['{"seq":1,"spent":["0/1","0/1"]}', '{"seq":3,"spent":[]}', '{"seq":99,"spent":[]}', "", "{}", "[]"]
)
def test_a_tally_that_points_elsewhere_is_found(full: Path, value: str) -> None:
    with opened(full) as db:
        db.execute("UPDATE state SET value = ? WHERE name = 'tally/customers'", (value,))
    assert problems(full) == ["the state 'tally/customers' is not what the entries say."]


def test_a_removed_state_is_found(full: Path) -> None:
    for name in ("head", "tally/staff", "secret/staff"):
        copy = full.with_name("copy")
        shutil.copy(full, copy)
        with opened(copy) as db:
            db.execute("DELETE FROM state WHERE name = ?", (name,))
        assert len(problems(copy)) == 1, name


def test_a_state_of_no_account_is_found(full: Path) -> None:
    with opened(full) as db:
        db.execute("INSERT INTO state VALUES ('secret/nobody', '00')")
    assert problems(full) == ["the state 'secret/nobody' is not what the entries say."]


def test_an_exchanged_secret_key_is_found(full: Path) -> None:
    with opened(full) as db:
        db.execute("UPDATE state SET value = ? WHERE name = 'secret/customers'", ("ab" * 32,))
    assert problems(full) == ["the secret key of 'customers' is not the one it was opened with."]
    with pytest.raises(LedgerCorrupt, match="secret key"):
        Ledger.open(full).account("customers")


def test_an_older_copy_is_whole_in_itself_and_exposed_by_a_published_head(full: Path, pay: MakeCharge) -> None:
    older = full.with_name("older")
    shutil.copy(full, older)
    with Ledger.open(full) as ledger:
        account = ledger.account("customers")
        assert account is not None
        account.charge("q3", pay("1/2"), note={})
        published = ledger.head
        account.charge("q4", pay("1/2"), note={})
        assert ledger.verify(published).ok
        assert ledger.verify(f" {published.upper()}\n").ok
    assert problems(older) == []
    assert problems(older, published) == [
        "the published head is not in this ledger: it is an older copy, or another ledger."
    ]
    assert len(problems(full, "ab" * 32)) == 1


REWRITTEN: dict[str, tuple[Callable[[list[dict[str, Any]]], object], str]] = {
    "a lower sum": (lambda b: b[3].update(spent=["1/4", "0/1"]), "entry 4 of 'customers' does not tell what was spent"),
    "a lower charge": (lambda b: b[3].update(events=[], epsilon="0/1"), "does not tell what was spent"),
    "a charge removed": (lambda b: b.pop(3), "is a release that no charge of its query paid for"),
    "a release twice": (lambda b: b.append(b[8] | {"charge": 8}), "is a release that no charge"),
    "a release for another query": (lambda b: b[8].update(question="q3"), "is a release that no charge"),
    "a release of another account": (lambda b: b[4].update(population="staff"), "is a release that no charge"),
    "a larger budget": (lambda b: b.append(b[0]), "opens an account that was open"),
    "a smaller budget": (lambda b: b[1]["budget"].update(epsilon="1/4"), "a capacity above its budget"),
    "no budget": (lambda b: b[1]["budget"].update(epsilon="0/1"), "without an ε"),
    "a smaller cap": (lambda b: b[0]["budget"].update(per_query="1/4"), "above the cap on one query"),
    "a larger capacity": (lambda b: b[0].update(capacity=["4/1", "1/1"]), "a capacity above its budget"),
    "a capacity of another form": (lambda b: b[0].update(capacity=["1/1"]), "has 2 sums, and not 1"),
    "a smaller capacity": (lambda b: b[1].update(capacity=["1/4", "0/1"]), "entry 6 of 'staff' is a charge that its"),
    "no account": (lambda b: b.pop(1), "has no account"),
    "a schema again": (lambda b: b.append(b[2]), "pins a table that was pinned"),
    "a charge per unit": (lambda b: b[3].update(units="t"), "charged per unit, in an unknown form"),
    "an unknown kind": (lambda b: b[3].update(kind="discount"), "unknown kind 'discount'"),
    "an unknown filter": (lambda b: b[0].update(filter="moments"), "moments"),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_history_rewritten_with_all_its_hashes_must_still_add_up(full: Path, name: str) -> None:
    change, words = REWRITTEN[name]
    head = Ledger.existing(full).head
    forge(full, lambda bodies: (change(bodies), None)[1])
    said = problems(full)
    assert any(words in p for p in said), said
    assert len(problems(full, head)) == len(said) + (
        0 if name in ("a larger budget", "a release twice", "a schema again") else 1
    )


def test_a_curve_that_was_raised_above_its_budget_is_found(path: Path) -> None:
    work = accounting.gaussian(4) * 3
    with Ledger.open(path) as ledger:
        account = ledger.open_account("p", Budget(3, 1e-6), filter="renyi-curve", curve=work)
        account.charge("q", Charge.of(accounting.gaussian(4), 1e-7), note={})
        assert ledger.verify().ok

    def raised(bodies: list[dict[str, Any]]) -> None:
        capacity = bodies[0]["capacity"]
        capacity[:-1] = [fraction_text(Fraction(text) * 9) for text in capacity[:-1]]

    forge(path, raised)
    assert any("above the budget's 3" in problem for problem in problems(path))


def test_a_truncated_file_is_found(full: Path) -> None:
    whole = full.read_bytes()
    for length in (0, 10, 100, 512, 4096, 8192, len(whole) // 2, len(whole) - 4096):
        full.write_bytes(whole[:length])
        assert problems(full), length


def test_a_body_that_is_not_text_is_found(full: Path) -> None:
    for value in (b"\xff", 3, 2.5):
        with opened(full) as db:
            db.execute("UPDATE entry SET body = ? WHERE seq = 4", (value,))
        assert problems(full), value


def test_a_ledger_in_memory_is_checked_in_the_same_way(pay: MakeCharge) -> None:
    store = MemoryStore()
    with Ledger(store) as ledger:
        ledger.open_account("p", Budget(1)).charge("q", pay("1/2"), note={})
        assert ledger.verify(ledger.head).ok
        store.write(lambda now: now.put("tally/p", ""))
        assert not ledger.verify().ok


def test_ten_thousand_entries_are_checked_quickly(path: Path, pay: MakeCharge) -> None:
    with Ledger.open(path) as ledger:
        account = ledger.open_account("p", Budget(10))
        ledger._log.write(lambda view: _fill(view, pay, 10_000))  # in one transaction, since one by one takes a while
        start = time.process_time()
        report = ledger.verify()
        assert time.process_time() - start < 10  # about 1 s on a laptop
        assert (report.ok, report.entries) == (True, 10_001)
        assert account.remaining.epsilon == 0
        start = time.process_time()
        assert account.find("q") is None
        assert time.process_time() - start < 0.5


def _fill(view: View, pay: MakeCharge, n: int) -> None:
    for i in range(1, n + 1):
        spent = (Fraction(10 * i, n), Fraction(0))
        entry = view.append("p", Charged(f"q{i}", pay(Fraction(10, n)), spent, {}))
    view.put(tally_name("p"), tally_text(entry.seq, spent))
