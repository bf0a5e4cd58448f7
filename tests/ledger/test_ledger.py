from __future__ import annotations

import pickle
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from discreet.accounting.filter import Charge
from discreet.errors import InvalidParameter, LedgerCorrupt, LedgerError
from discreet.ledger.chain import GENESIS
from discreet.ledger.ledger import Ledger
from discreet.ledger.sqlite import SQLiteStore
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import Relation


def test_a_new_ledger_is_a_file_of_its_owner_alone(path: Path) -> None:
    with Ledger.open(path) as ledger:
        assert ledger.populations() == []
        assert ledger.head == GENESIS
        assert ledger.account("customers") is None
        assert ledger.verify().ok
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["a ledger.db", "ä?mode=ro&x#y%41.ledger", "客户.ledger", "file:x", "-x"])
def test_any_name_of_a_file_is_a_path_and_nothing_else(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.open(name)
    ledger.open_account("p", Budget(1))
    assert [p.name for p in tmp_path.iterdir()] == [name]
    monkeypatch.chdir("/")
    assert ledger.populations() == ["p"]  # the place was fixed when it was opened


def test_an_account_keeps_what_it_was_opened_with(path: Path) -> None:
    budget = Budget(3, 1e-6, per_query=2)
    with Ledger.open(path) as ledger:
        first = ledger.open_account("customers", budget, relation=Relation.REPLACE, filter="basic")
    with Ledger.open(path) as ledger:
        for again in (
            ledger.open_account("customers", None),
            ledger.open_account("customers", budget, relation="replace", filter="basic"),
            ledger.account("customers"),
        ):
            assert again is not None
            assert (again.budget, again.relation, again.filter) == (budget, Relation.REPLACE, "basic")
            assert again.secret == first.secret
        assert ledger.populations() == ["customers"]


def test_a_new_account_is_add_remove_and_basic_unless_it_is_said(ledger: Ledger) -> None:
    account = ledger.open_account("customers", Budget(1))
    assert (account.relation, account.filter) == (Relation.ADD_REMOVE, "basic")


@pytest.mark.parametrize("budget", [None, Budget(0), Budget(0, 1e-6)])
def test_a_new_account_needs_a_budget(ledger: Ledger, budget: Budget | None) -> None:
    with pytest.raises(InvalidParameter, match="needs a budget") as caught:
        ledger.open_account("customers", budget)
    assert "Budget(epsilon=3)" in caught.value.hint
    assert ledger.populations() == []


def test_other_terms_are_refused_and_both_are_named(ledger: Ledger) -> None:
    ledger.open_account("customers", Budget(3))
    with pytest.raises(InvalidParameter, match="budget ε = 3, and this asks for budget ε = 4") as caught:
        ledger.open_account("customers", Budget(4))
    assert "leave budget= out" in caught.value.hint
    with pytest.raises(InvalidParameter, match="at most ε = 1 a query"):
        ledger.open_account("customers", Budget(3, per_query=1))
    with pytest.raises(InvalidParameter, match=r"add-remove.*replace"):
        ledger.open_account("customers", Budget(3), relation=Relation.REPLACE)
    with pytest.raises(InvalidParameter, match=r"basic.*zcdp"):
        ledger.open_account("customers", Budget(3), filter="zcdp")


def test_a_budget_written_in_another_way_is_the_same_budget(ledger: Ledger) -> None:
    ledger.open_account("customers", Budget(0.1, "1e-6"))
    assert ledger.open_account("customers", Budget("1/10", 1e-6)).budget.epsilon == Fraction(1, 10)


def test_an_unknown_filter_or_relation_opens_nothing(ledger: Ledger) -> None:
    with pytest.raises(InvalidParameter):
        ledger.open_account("customers", Budget(3), filter="moments")
    with pytest.raises(InvalidParameter):
        ledger.open_account("customers", Budget(3), relation="neighbours")
    assert ledger.populations() == []


def test_each_population_has_its_own_account(ledger: Ledger, pay: Callable[[str], Charge]) -> None:
    names = ["customers", "guests", "клиенты", "客户", "🙂", "it's; DROP TABLE entry", "a/b"]
    accounts = [ledger.open_account(name, Budget(i + 1)) for i, name in enumerate(names)]
    accounts[2].charge("q", pay("1/2"), note={})
    assert ledger.populations() == names
    assert [a.remaining.epsilon for a in accounts] == [1, 2, Fraction(5, 2), 4, 5, 6, 7]
    assert len({a.secret for a in accounts}) == len(names)
    assert ledger.verify().ok


def test_spellings_that_look_the_same_are_one_population(ledger: Ledger) -> None:
    first = ledger.open_account("caf\u00e9", Budget(1))
    assert ledger.open_account("cafe\u0301", None).secret == first.secret
    assert ledger.account("cafe\u0301") is not None
    assert ledger.populations() == ["caf\u00e9"]


@pytest.mark.parametrize("name", ["", " ", " a", "a\n", "a\u200b", "a\0", "\ud800", "x" * 401, None, 3])
def test_a_name_that_could_be_mistaken_is_refused(ledger: Ledger, name: str) -> None:
    with pytest.raises(InvalidParameter, match="population"):
        ledger.open_account(name, Budget(1))


def test_the_secret_key_is_shown_nowhere(ledger: Ledger, path: Path) -> None:
    account = ledger.open_account("customers", Budget(1))
    account.pin("t", {"a": "BIGINT"})
    with closing(sqlite3.connect(path)) as db:
        entries = str(db.execute("SELECT * FROM entry").fetchall())
    shown = [repr(account), str(account), repr(ledger), repr(account.history()), repr(ledger.verify()), entries]
    assert len(account.secret) == 32
    for text in shown:
        assert account.secret.hex() not in text
        assert repr(account.secret)[2:-1] not in text
    with pytest.raises(TypeError):
        pickle.dumps(account)


def test_a_memory_ledger_has_to_be_asked_for_and_has_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.open(":memory:")
    ledger.open_account("p", Budget(1))
    assert Ledger.open(":memory:").populations() == []
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(LedgerError, match="ends with its process"):
        Ledger.existing(":memory:")


def test_paths_that_cannot_be_ledgers_are_refused_with_the_reason(tmp_path: Path) -> None:
    cases: list[tuple[str | Path, str]] = [
        (tmp_path, "is a folder"),
        (tmp_path / "no" / "a.ledger", "does not exist"),
        ("postgresql://one,two/db", "several hosts"),
        ("", "path of a file"),
        ("a\0b", "path of a file"),
    ]
    for path, words in cases:
        with pytest.raises(LedgerError, match=words):
            Ledger.open(path)
    with pytest.raises(LedgerError, match="no such file"):
        Ledger.existing(tmp_path / "a.ledger")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_ledger_is_refused_and_not_touched(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("not a database, but long enough to have a header " * 40)
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE t (x)")
    for path in (text, other):
        before = path.read_bytes()
        for way in (Ledger.open, Ledger.existing):
            with pytest.raises(LedgerCorrupt, match="not a ledger"):
                way(path)
        assert path.read_bytes() == before


def test_an_empty_file_is_a_lost_ledger_and_not_a_new_one(path: Path) -> None:
    path.touch()
    with pytest.raises(LedgerCorrupt, match="empty"):
        Ledger.open(path)


def test_another_format_is_refused(ledger: Ledger, path: Path) -> None:
    account = ledger.open_account("customers", Budget(1))
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 2")
    for way in (lambda: Ledger.open(path), lambda: Ledger.existing(path), lambda: account.spent):
        with pytest.raises(LedgerError, match="format 2") as caught:
            way()
        assert "what was spent still counts" in caught.value.hint


def test_a_ledger_in_wal_mode_is_brought_back(ledger: Ledger, path: Path) -> None:
    ledger.open_account("customers", Budget(1))
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("SELECT * FROM entry").fetchall()
        with pytest.raises(LedgerError):
            SQLiteStore(path, patience=0.2).read(lambda now: None)
    assert Ledger.existing(path).verify().ok
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_ledger_that_is_gone_is_noticed_and_not_made_anew(
    ledger: Ledger, path: Path, pay: Callable[[str], Charge]
) -> None:
    account = ledger.open_account("customers", Budget(1))
    path.rename(path.with_name("moved"))
    with pytest.raises(LedgerError, match="cannot be opened") as caught:
        account.charge("q", pay("1/2"), note={})
    assert "moved or deleted" in caught.value.hint
    assert not path.exists()


def test_an_older_copy_put_back_is_noticed_by_a_running_process(
    ledger: Ledger, path: Path, pay: Callable[[str], Charge]
) -> None:
    account = ledger.open_account("customers", Budget(1))
    shutil.copy(path, path.with_name("copy"))
    account.charge("q", pay("1/2"), note={})
    shutil.copy(path.with_name("copy"), path)
    with pytest.raises(LedgerCorrupt, match="had before"):
        account.charge("q", pay("1/2"), note={})


def test_a_new_empty_ledger_in_the_place_of_another_is_noticed_by_a_running_process(ledger: Ledger, path: Path) -> None:
    ledger.open_account("customers", Budget(1))
    path.unlink()
    Ledger.open(path).close()
    with pytest.raises(LedgerCorrupt, match="had before"):
        ledger.open_account("customers", Budget(1))


def test_entries_cannot_be_changed_by_mistake(ledger: Ledger, path: Path) -> None:
    ledger.open_account("customers", Budget(1))
    with closing(sqlite3.connect(path)) as db:
        for sql in ("UPDATE entry SET population = 'x'", "DELETE FROM entry"):
            with pytest.raises(sqlite3.IntegrityError):
                db.execute(sql)


def test_a_closed_ledger_refuses(ledger: Ledger) -> None:
    account = ledger.open_account("customers", Budget(1))
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        _ = account.spent
