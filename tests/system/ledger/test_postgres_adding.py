"""Charges in one message: the database adds up by itself, only where it may, and is not believed."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, TypeAlias

import pytest

from discreet.accounting.filter import Charge
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import BudgetExceeded, InvalidParameter, LedgerBusy, LedgerCorrupt, LedgerError
from discreet.ledger.account import Account
from discreet.ledger.ledger import Ledger
from discreet.ledger.postgres.adding import _TYPES, PROCEDURE, Adding
from discreet.ledger.postgres.link import Link
from discreet.ledger.postgres.store import PostgresStore, procedure
from discreet.ledger.postgres.url import address
from discreet.privacy.event import Composed, GaussianEvent
from discreet.privacy.guarantee import Approximate, Budget
from discreet.privacy.unit import Relation
from tests.postgres import Server

MakeCharge: TypeAlias = Callable[..., Charge]
Fork: TypeAlias = Callable[[Callable[[], object]], int]
Ended: TypeAlias = Callable[[int], int]

BOARD: dict[str, Any] = {"by": "the board", "reason": "a test"}


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.url()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url) as one:
        yield one


@pytest.fixture
def account(ledger: Ledger, pay: MakeCharge) -> Account:
    """One that knows its terms: its next charge goes in one message."""
    found = ledger.open_account("p", Budget(1))
    found.charge("first", pay("1/100"), note={})
    return found


def opened(ledger: Ledger) -> Account:
    account = ledger.account("p")
    assert account is not None
    return account


def schema_of(url: str) -> str:
    return url.rpartition("=")[2]


def added(server: Server, url: str) -> int:
    """How many entries the database has added by itself."""
    return int(server.sql(f"SELECT count(attempt) FROM {schema_of(url)}.entry")[0][0])


def replace(server: Server, url: str, old: str, new: str) -> None:
    """Another procedure in the place of the right one."""
    assert PROCEDURE.count(old) >= 1, old
    text = procedure(schema_of(url), PROCEDURE.replace(old, new))
    server.sql(text.replace("CREATE PROCEDURE", "CREATE OR REPLACE PROCEDURE"))


def as_it_was(server: Server, url: str) -> None:
    replace(server, url, "CREATE PROCEDURE", "CREATE PROCEDURE")


def gaussian(mu_squared: str) -> Charge:
    loss = PrivacyLoss(Composed([GaussianEvent(Fraction(mu_squared))]))
    return Charge(loss.events, Approximate(Fraction(loss.epsilon(1e-7)), Fraction(1e-7)))


def test_the_second_charge_of_an_account_is_added_by_the_database(
    postgres: Server, url: str, ledger: Ledger, account: Account, pay: MakeCharge
) -> None:
    assert added(postgres, url) == 0
    for i in range(3):
        entry = account.charge(f"q{i}", pay("1/7", "0"), note={"größe": '客户 \'\\ $$ %s :x "seq":0,"spent":[]'})
        assert entry == account.history()[-1]
    assert added(postgres, url) == 3
    assert account.remaining.epsilon == 1 - Fraction(1, 100) - Fraction(3, 7)
    assert ledger.verify().ok


def test_values_never_stand_in_the_text_of_a_statement(postgres: Server, account: Account, pay: MakeCharge) -> None:
    account.charge("the query", pay("1/4"), note={"sql": "SELECT wealth"})
    shown = str(postgres.sql("SELECT query FROM pg_stat_activity")) + postgres.log()
    assert "CALL" in shown
    for text in ("the query", "wealth", account.secret.hex()):
        assert text not in shown


@pytest.mark.parametrize("rule", ["basic", "zcdp", "gdp", "renyi", "renyi-curve"])
def test_it_adds_up_and_refuses_as_the_ordinary_way_does(
    postgres: Server, pay: MakeCharge, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The truth of each sum and each refusal is the ordinary way's, to the last digit."""
    curve = gaussian("1/2") if rule == "renyi-curve" else None
    budget = Budget(1) if rule == "basic" else Budget(4, Fraction(1, 10**6))

    def spent(url: str, sizes: list[int]) -> list[object]:
        found: list[object] = []
        with Ledger.open(url) as ledger:
            account = ledger.open_account(
                "p", budget, filter=rule, curve=None if curve is None else PrivacyLoss(curve.events)
            )
            for i, size in enumerate(sizes):
                cost = pay(Fraction(1, size)) if rule == "basic" else gaussian(f"1/{size}")
                try:
                    entry = account.charge(f"q{i}", cost, note={})
                except BudgetExceeded as refusal:
                    found.append(str(refusal))
                else:
                    found.append(entry.content.spent)  # type: ignore[union-attr]
            assert ledger.verify().ok
        return found

    sizes = random.Random(rule).choices([3, 7, 11, 30, 64, 100], k=25)
    quick, ordinary = postgres.url(), postgres.url()
    found = spent(quick, sizes)
    with monkeypatch.context() as never:
        never.setattr(Adding, "add", lambda *_: None)
        assert found == spent(ordinary, sizes)
    assert added(postgres, quick) >= 3
    assert added(postgres, ordinary) == 0
    assert any(isinstance(one, str) for one in found)


def test_the_last_of_a_budget_is_taken_and_not_more(
    postgres: Server, url: str, ledger: Ledger, pay: MakeCharge
) -> None:
    account = ledger.open_account("p", Budget(1))
    for i in range(3):
        account.charge(f"q{i}", pay("1/3"), note={})
    with pytest.raises(BudgetExceeded):
        account.charge("more", pay(Fraction(1, 10**12)), note={})
    assert added(postgres, url) == 2
    assert account.remaining.epsilon == 0


def test_what_changed_meanwhile_is_heeded(ledger: Ledger, url: str, account: Account, pay: MakeCharge) -> None:
    account.charge("q", pay("1/100"), note={})
    with Ledger.open(url) as other:
        owner = opened(other)
        owner.freeze(**BOARD)
        with pytest.raises(BudgetExceeded, match="is frozen"):
            account.charge("q", pay("1/100"), note={})
        owner.thaw(**BOARD)
        account.charge("q", pay("1/100"), note={})
        owner.change_budget(Budget(Fraction(1, 25)), **BOARD)
        with pytest.raises(BudgetExceeded):
            account.charge("q", pay("1/50"), note={})
        owner.change_budget(Budget(2, per_query=Fraction(3, 2)), **BOARD)
        account.charge("q", pay("3/2"), note={})
        owner.change_budget(Budget(3, per_query=Fraction(1, 2)), **BOARD)
        with pytest.raises(InvalidParameter, match="one query"):
            account.charge("q", pay("1"), note={})
        owner.cap_analyst("ana", Budget(1), **BOARD)
        with pytest.raises(InvalidParameter, match="has analysts"):
            account.charge("q", pay("1/100"), note={})
        opened(other).seen_by("ana").charge("q", pay("1/100"), note={})
        owner.close(**BOARD)
        with pytest.raises(BudgetExceeded, match="is closed"):
            opened(ledger).seen_by("ana").charge("q", pay("1/100"), note={})
        assert other.verify().ok


def test_after_a_move_nothing_is_added(
    postgres: Server, ledger: Ledger, url: str, account: Account, pay: MakeCharge
) -> None:
    account.charge("q", pay("1/100"), note={})
    with Ledger.open(url) as other:
        other.transfer(postgres.url(), **BOARD)
    with pytest.raises(LedgerError, match="moved"):
        account.charge("q", pay("1/100"), note={})
    assert ledger.verify().ok


def test_charges_for_other_neighbours_or_with_a_bad_note_are_refused_as_ever(account: Account, pay: MakeCharge) -> None:
    account.charge("q", pay("1/100"), note={})
    for wrong in ({"x": float("nan")}, {"x": {1: 2}}, {"x": object()}):
        with pytest.raises(InvalidParameter):
            account.charge("q", pay("1/100"), note=wrong)
    with pytest.raises(InvalidParameter, match="question"):
        account.charge(" q", pay("1/100"), note={})
    assert account.remaining.epsilon * 50 == 49
    assert account.relation is Relation.ADD_REMOVE


# A database that adds up wrongly

WRONG = {
    "less than the cost": ("amounts[2*i-1] * one[2]::numeric", "0"),
    "more than the cost": ("amounts[2*i-1] * one[2]::numeric", "2 * amounts[2*i-1] * one[2]::numeric"),
    "another body": ("its_body := before ||", "its_body := ' ' || before ||"),
    "not in lowest terms": ("common := gcd(above, below)", "common := 1"),
    "beyond the budget": ("above * most[2*i] > most[2*i-1] * below", "false"),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_database_that_adds_up_wrongly_is_not_believed(
    postgres: Server, url: str, account: Account, pay: MakeCharge, how: str
) -> None:
    account.charge("q", pay("1/100"), note={})
    replace(postgres, url, *WRONG[how])
    before = added(postgres, url)
    with pytest.raises(LedgerCorrupt, match=r"added up wrongly|broken chain"):
        account.charge("wrong", pay("99/100" if how == "beyond the budget" else "1/50"), note={})
    assert added(postgres, url) == before + 1  # it did something, and no release will follow


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("its_key, its_body, its_hash", "its_key, its_body || ' ', its_hash"),
        ("SELECT last.seq + 1", "SELECT last.seq + 2"),
    ],
)
def test_a_database_that_writes_other_than_it_tells_is_found_by_the_next_look(
    postgres: Server, url: str, ledger: Ledger, account: Account, pay: MakeCharge, old: str, new: str
) -> None:
    """What one message cannot show: another body than that of the hash, a number left out."""
    replace(postgres, url, old, new)
    account.charge("q", pay("1/100"), note={})
    assert not ledger.verify().ok
    with pytest.raises(LedgerCorrupt):
        _ = account.remaining
    with Ledger.existing(url) as other, pytest.raises(LedgerCorrupt):
        opened(other).charge("r", pay("1/100"), note={})


# A ledger that is damaged, or from another version

DAMAGE = {
    "the head": "UPDATE {s}.state SET value = '3 ' || repeat('a', 64) WHERE name = 'head'",
    "the sum": """UPDATE {s}.state SET value = replace(value, '1/50', '1/60') WHERE name = 'tally/p'""",
    "the sum's entry": """UPDATE {s}.state SET value = replace(value, '"seq":3', '"seq":2') WHERE name = 'tally/p'""",
    "the last entry": "UPDATE {s}.entry SET body = replace(body, 'other', 'mother') WHERE seq = 4",
    "the chain": """UPDATE {s}.entry SET hash = repeat('a', 64) WHERE seq = 4;
      UPDATE {s}.state SET value = '4 ' || repeat('a', 64) WHERE name = 'head'""",
    "an entry in the middle": """UPDATE {s}.entry SET hash = repeat('a', 64) WHERE seq = 3
      AND EXISTS (SELECT FROM {s}.entry WHERE seq = 4)""",
    "the sum and its entry": """UPDATE {s}.state SET value = replace(value, '1/50', '1/60') WHERE name = 'tally/p';
      UPDATE {s}.entry SET body = replace(body, '1/50', '1/60') WHERE seq = 3""",
    "the sum and its entry, before another": """
      UPDATE {s}.state SET value = replace(value, '3/100', '1/100') WHERE name = 'tally/p';
      UPDATE {s}.entry SET body = replace(body, '3/100', '1/100') WHERE seq = 4 AND EXISTS (
        SELECT FROM {s}.entry WHERE seq = 5)""",
    "an end": "DELETE FROM {s}.entry WHERE seq = 3",
    "more at the end": "INSERT INTO {s}.entry SELECT 4, population, kind, 'x', body, hash FROM {s}.entry WHERE seq = 3",
    "an older copy": """DELETE FROM {s}.entry WHERE seq = 3;
      UPDATE {s}.state SET value = (SELECT '2 ' || hash FROM {s}.entry WHERE seq = 2) WHERE name = 'head';
      UPDATE {s}.state SET value = '{{"seq":2,"spent":["1/100","0/1"]}}' WHERE name = 'tally/p'""",
}


@pytest.mark.parametrize("what", DAMAGE)
def test_to_a_damaged_ledger_nothing_is_added(
    postgres: Server, url: str, ledger: Ledger, account: Account, pay: MakeCharge, what: str
) -> None:
    account.charge("q", pay("1/100"), note={})
    s = schema_of(url)
    postgres.sql(f"ALTER TABLE {s}.entry DISABLE TRIGGER ALL")
    fresh = Ledger.existing(url)
    if "seq = 4" in DAMAGE[what]:  # an entry that only another client has seen
        charged = opened(fresh).charge("other", pay("1/100"), note={})
    if "seq = 5" in DAMAGE[what]:
        opened(fresh).store("other", charged.seq, {})
    postgres.sql(DAMAGE[what].format(s=s))
    before = postgres.sql(f"SELECT count(*) FROM {s}.entry")
    with pytest.raises(LedgerCorrupt):
        account.charge("x", pay("1/100"), note={})
    assert postgres.sql(f"SELECT count(*) FROM {s}.entry") == before
    fresh.close()


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("body", ['"kind":"refund"', '"units":null,"weight":1', '"scope":"half"', '"units":{}'])
def test_after_an_entry_of_a_newer_version_nothing_is_added(
    postgres: Server, url: str, account: Account, pay: MakeCharge, body: str, released: bool
) -> None:
    from discreet.ledger.chain import canonical, link, parse

    account.charge("q", pay("1/100"), note={})
    s = schema_of(url)
    ((last, previous),) = postgres.sql(f"SELECT body, hash FROM {s}.entry WHERE seq = 3")
    newer = parse(last) | {"seq": 4} | parse("{" + body + "}")
    text = canonical(newer)
    hashed = link(previous, text)
    postgres.sql(
        f"INSERT INTO {s}.entry VALUES (4, 'p', '{newer['kind']}', 'q', '{text}', '{hashed}'); "
        f"UPDATE {s}.state SET value = '4 {hashed}' WHERE name = 'head'"
    )
    if released and newer["kind"] == "charge":  # its sum is the new one, and a known kind of entry follows it
        facts = {"time": newer["time"], "population": "p", "kind": "release", "question": "q"}
        text = canonical(facts | {"seq": 5, "charge": 4, "release": {}})
        postgres.sql(
            f"INSERT INTO {s}.entry VALUES (5, 'p', 'release', 'q', '{text}', '{link(hashed, text)}'); "
            f"UPDATE {s}.state SET value = '5 {link(hashed, text)}' WHERE name = 'head'; "
            f"UPDATE {s}.state SET value = replace(value, '\"seq\":3', '\"seq\":4') WHERE name = 'tally/p'"
        )
    before = postgres.sql(f"SELECT max(seq) FROM {s}.entry")
    with pytest.raises(LedgerError, match="unknown"):
        account.charge("x", pay("1/100"), note={})
    assert postgres.sql(f"SELECT max(seq) FROM {s}.entry") == before


def test_tables_that_were_made_without_the_procedure_are_charged_in_the_ordinary_way(
    postgres: Server, url: str, ledger: Ledger, account: Account, pay: MakeCharge
) -> None:
    s = schema_of(url)
    postgres.sql(f"DROP PROCEDURE {s}.add; ALTER TABLE {s}.ledger DROP fence; ALTER TABLE {s}.entry DROP attempt")
    for i in range(3):
        account.charge(f"q{i}", pay("1/100"), note={})
    assert ledger.verify().ok


# Others who may make procedures

EVIL = """
CREATE PROCEDURE {s}.add({its_types}, {out} answer text) LANGUAGE plpgsql AS $$ BEGIN
  CREATE TABLE IF NOT EXISTS mallory.loot AS SELECT * FROM {s}.state;
  answer := 'no answer';
END $$
"""


@pytest.fixture
def mallory(postgres: Server, url: str, account: Account) -> Iterator[str]:
    """Somebody who may make a procedure in the ledger's schema, and has no right to the ledger."""
    s = schema_of(url)
    postgres.sql(
        f"CREATE ROLE mallory LOGIN; CREATE SCHEMA mallory AUTHORIZATION mallory; GRANT USAGE ON SCHEMA {s} TO mallory"
    )
    yield s
    postgres.sql("DROP OWNED BY mallory CASCADE; DROP ROLE mallory")


@pytest.mark.parametrize("whom", ["mallory", "PUBLIC"])
def test_where_others_may_make_procedures_none_is_called(
    postgres: Server, url: str, account: Account, pay: MakeCharge, mallory: str, whom: str
) -> None:
    postgres.sql(f"GRANT CREATE ON SCHEMA {mallory} TO {whom}")
    for k, (its_types, out) in enumerate([(["text"] * 15, "INOUT"), (_TYPES, "OUT")]):
        named = ", ".join(f"a{i} {one}" for i, one in enumerate(its_types))
        postgres.sql(EVIL.format(s=mallory, its_types=named, out=out), user="mallory")
        account.charge(f"q{k}", pay("1/100"), note={})
    assert added(postgres, url) == 0
    assert postgres.sql("SELECT to_regclass('mallory.loot')") == [[None]]
    assert account.remaining.epsilon * 100 == 97


def test_once_it_is_known_another_of_its_name_is_not_called_instead(
    postgres: Server, url: str, account: Account, pay: MakeCharge, mallory: str
) -> None:
    """The right to make one comes only after the look for it."""
    account.charge("q", pay("1/100"), note={})
    postgres.sql(f"GRANT CREATE ON SCHEMA {mallory} TO mallory")
    for its_types, out in [(["text"] * 15, "INOUT"), (_TYPES, "OUT")]:
        named = ", ".join(f"a{i} {one}" for i, one in enumerate(its_types))
        postgres.sql(EVIL.format(s=mallory, its_types=named, out=out), user="mallory")
        account.charge("r", pay("1/100"), note={})
    assert added(postgres, url) == 3
    with Ledger.open(url) as other:
        for question in "st":
            opened(other).charge(question, pay("1/100"), note={})
    assert added(postgres, url) == 3
    assert postgres.sql("SELECT to_regclass('mallory.loot')") == [[None]]


def test_a_procedure_of_somebody_else_is_not_called(
    postgres: Server, url: str, account: Account, pay: MakeCharge, mallory: str
) -> None:
    s = schema_of(url)
    postgres.sql(f"ALTER PROCEDURE {s}.add OWNER TO mallory")
    account.charge("q", pay("1/100"), note={})
    assert added(postgres, url) == 0


@pytest.mark.parametrize("answer", ["no", "x y z u v", "1 2 3 4 5"])
def test_an_answer_of_another_form_is_not_believed(
    postgres: Server, url: str, account: Account, pay: MakeCharge, answer: str
) -> None:
    replace(postgres, url, "    COMMIT;", f"    COMMIT; answer := '{answer}';")
    with pytest.raises(LedgerCorrupt):
        account.charge("q", pay("1/100"), note={})


# Connections and servers that are lost


@pytest.mark.parametrize("code", ["42501", "P0001", "22012", "2D000"])
def test_an_error_after_the_commit_is_looked_into(
    postgres: Server, url: str, account: Account, pay: MakeCharge, code: str
) -> None:
    replace(postgres, url, "    COMMIT;", f"    COMMIT; RAISE EXCEPTION 'no' USING ERRCODE = '{code}';")
    before = added(postgres, url)
    entry = account.charge("q", pay("1/100"), note={})
    assert added(postgres, url) == before + 1
    assert [one.question for one in account.history()].count("q") == 1
    account.charge("r", pay("1/100"), note={})
    assert added(postgres, url) == before + (1 if code in ("42501", "2D000") else 2)
    assert account.history()[-2] == entry


@pytest.mark.parametrize("how", ["less than the cost", "more than the cost"])
def test_a_wrong_sum_is_not_believed_after_a_lost_answer_either(
    postgres: Server, url: str, account: Account, pay: MakeCharge, how: str
) -> None:
    account.charge("q", pay("1/100"), note={})
    old, new = WRONG[how]
    text = PROCEDURE.replace(old, new).replace("    COMMIT;", "    COMMIT; RAISE EXCEPTION 'no';")
    replace(postgres, url, PROCEDURE, text)
    with pytest.raises(LedgerCorrupt, match="added up wrongly"):
        account.charge("r", pay("1/100"), note={})


def test_sums_stay_short_whatever_the_procedure_adds(
    postgres: Server, url: str, ledger: Ledger, account: Account, pay: MakeCharge
) -> None:
    for k in range(30):
        account.charge("q", pay(Fraction(1, 2**490 - 2 * k - 1)), note={})
    before = added(postgres, url)
    assert before >= 20
    spent = postgres.sql(f"SELECT max(length(value)) FROM {schema_of(url)}.state WHERE name LIKE 'tally/%'")
    assert spent[0][0] < 200
    account.charge("r", pay("1/100"), note={})
    assert added(postgres, url) == before + 1
    assert ledger.verify().ok


@pytest.mark.parametrize("fenced", [True, False])
def test_a_message_that_comes_after_it_was_given_up_does_nothing(
    postgres: Server,
    url: str,
    ledger: Ledger,
    account: Account,
    pay: MakeCharge,
    monkeypatch: pytest.MonkeyPatch,
    fenced: bool,
) -> None:
    """With a fence that is never raised it is carried out: then one charge was made twice."""
    account.charge("q", pay("1/100"), note={})
    store = ledger._log.store
    assert isinstance(store, PostgresStore)
    if not fenced:
        monkeypatch.setattr(store._adding, "_raise_fence", "SELECT $1::bigint")
    held_back: list[tuple[Any, ...]] = []
    ask = Link.ask

    def losing(link: Link, *steps: Any) -> Any:
        if isinstance(steps[0], tuple) and steps[0][0].startswith("CALL") and not held_back:
            held_back.append(steps[0])
            link.close()
        return ask(link, *steps)

    monkeypatch.setattr(Link, "ask", losing)
    account.charge("once", pay("1/100"), note={})  # in the ordinary way, after it was found that it was not made
    with Ledger.open(url) as other:  # the lost message arrives at last
        straight = Link(address(url), patience=2)
        (((answer,),),) = straight.ask(held_back[0])
        straight.close()
        assert (answer is None) == fenced
        made = [entry.question for entry in opened(other).history()].count("once")
        assert made == (1 if fenced else 2)


def in_another_thread(work: Callable[[], object]) -> Callable[[], list[object]]:
    told: list[object] = []

    def run() -> None:
        try:
            told.append(work())
        except Exception as error:
            told.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def wait() -> list[object]:
        thread.join(60)
        return told

    return wait


def once_asleep(server: Server) -> None:
    for _ in range(400):
        if server.sql("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'"):
            return
        time.sleep(0.01)
    raise AssertionError("nobody sleeps")


@pytest.mark.parametrize(
    ("where", "made_by_it"), [("    COMMIT;", 0), ("    nothing := pg_logical_emit_message(true, 'discreet', '');", 1)]
)
def test_terminated_before_or_after_its_commit_a_charge_is_made_once(
    postgres: Server, url: str, ledger: Ledger, account: Account, pay: MakeCharge, where: str, made_by_it: int
) -> None:
    replace(postgres, url, where, f"    PERFORM pg_sleep(30); {where}")
    wait = in_another_thread(lambda: account.charge("q", pay("1/4"), note={}).question)
    once_asleep(postgres)
    as_it_was(postgres, url)
    postgres.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
    assert wait() == ["q"]
    assert added(postgres, url) == made_by_it
    assert [entry.question for entry in account.history()].count("q") == 1
    assert ledger.verify().ok


def crash(server: Server) -> None:
    """What a power cut leaves: whatever the server had not written out is gone."""
    server.stop(signal.SIGQUIT)
    server.start(**LAZY)


LAZY = {"wal_writer_delay": "10000", "checkpoint_timeout": "1d", "autovacuum": "off"}


@pytest.fixture
def lazy(postgres: Server) -> Iterator[None]:
    postgres.stop()
    postgres.start(**LAZY)
    yield
    postgres.stop()
    postgres.start()


@pytest.mark.parametrize("waits", [True, False])
def test_what_was_told_survives_a_crash_and_without_the_wait_it_does_not(
    postgres: Server, url: str, lazy: None, pay: MakeCharge, waits: bool
) -> None:
    with Ledger.open(url) as ledger:
        account = ledger.open_account("p", Budget(1))
        account.charge("first", pay("1/100"), note={})
        account.charge("second", pay("1/100"), note={})
        if not waits:
            replace(postgres, url, "pg_logical_emit_message(true, 'discreet', '')", "''")
        forgotten = 0
        for _ in range(5):
            told = account.charge("q", pay("1/100"), note={}).seq
            crash(postgres)
            with Ledger.existing(url) as fresh:
                forgotten += len(opened(fresh).history()) < told
            if forgotten:
                break
            account.charge("again", pay("1/100"), note={})
        assert bool(forgotten) == (not waits)
    assert added(postgres, url) >= 1


def test_a_ledger_that_is_held_too_long_is_busy_and_nothing_is_charged(
    postgres: Server, url: str, ledger: Ledger, account: Account, pay: MakeCharge
) -> None:
    with Ledger(PostgresStore(address(url), patience=0.3)) as hasty, Ledger.open(url) as other:
        asking = opened(hasty)
        asking.charge("q", pay("1/100"), note={})
        before = added(postgres, url)

        def work(now: Any) -> None:
            with pytest.raises(LedgerBusy, match="held by another client; nothing was charged"):
                asking.charge("r", pay("1/100"), note={})

        other._log.store.write(work)
        assert added(postgres, url) == before
        asking.charge("s", pay("1/100"), note={})
        assert added(postgres, url) == before + 1


# Many at once


def test_of_many_at_once_none_is_lost_doubled_or_reordered(
    postgres: Server, url: str, ledger: Ledger, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    ledger.open_account("p", Budget(1))

    def some(process: int) -> None:
        with Ledger.open(url) as mine:
            account = opened(mine)
            for k in range(25):
                account.charge(f"{process} {k}", pay("1/200"), note={})

    assert [ended(pid) for pid in [fork(lambda i=i: some(i)) for i in range(4)]] == [0] * 4  # type: ignore[misc]
    found = [str(entry.question).split() for entry in opened(ledger).history()[1:]]
    for process in range(4):
        assert [int(k) for p, k in found if int(p) == process] == list(range(25))
    assert opened(ledger).remaining.epsilon * 2 == 1
    assert added(postgres, url) > 50
    assert ledger.verify().ok


def test_processes_that_race_for_the_end_of_a_budget_get_all_of_it_and_not_more(
    postgres: Server, url: str, ledger: Ledger, pay: MakeCharge, fork: Fork, ended: Ended
) -> None:
    ledger.open_account("p", Budget(1))

    def some() -> None:
        with Ledger.open(url) as mine:
            account = opened(mine)
            try:
                for k in range(50):  # more than all may have: whoever starts late may find nothing
                    account.charge(f"{os.getpid()} {k}", pay("1/49"), note={})
            except BudgetExceeded:
                return
            raise AssertionError("never refused")

    assert [ended(pid) for pid in [fork(some) for _ in range(4)]] == [0] * 4
    assert opened(ledger).remaining.epsilon == 0
    assert len(opened(ledger).history()) == 50
    assert ledger.verify().ok
