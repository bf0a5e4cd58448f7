"""The crash campaign: a slice of it finds nothing, and what would be a fault is found."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet.ledger import sqlite
from discreet.ledger.account import Account
from discreet.ledger.ledger import Ledger
from discreet.privacy.guarantee import Budget
from tests.crashes import campaign, interleavings
from tests.crashes.__main__ import main
from tests.crashes.campaign import MEANS, Log, crash, swarm
from tests.crashes.interleavings import Seen, asks, every_run
from tests.crashes.powercut import Record, states
from tests.crashes.tracer import Change, Fate, can_trace, run
from tests.crashes.workload import NAME, Step, Told, charge_of, spent_of, workload

traced = pytest.mark.skipif(not can_trace(), reason="ptrace as Linux on x86-64 has it")

POINTS = {"kill": 60, "error": 50, "power": 300, "lie": 60}


@traced
@pytest.mark.parametrize("way", MEANS)
def test_a_slice_of_the_campaign_finds_nothing(way: str) -> None:
    log = Log()
    crash(20, log, most=POINTS[way], means=(way,))
    assert log.points(way) == POINTS[way]
    assert log.found == []


def test_random_kills_among_several_workers_lose_nothing() -> None:
    log = Log()
    swarm(3, log, kills=15)
    assert log.points("random kill") == 15
    assert log.found == []


@traced
def test_without_syncs_a_power_cut_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite._connect

    def careless(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    monkeypatch.setattr(sqlite, "_connect", careless)
    log = Log()
    crash(20, log, most=400, means=("power",), first=True)
    assert log.found


@traced
def test_without_a_journal_a_kill_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite._connect

    def careless(path: Path) -> sqlite3.Connection:
        connection = connect(path)
        connection.execute("PRAGMA journal_mode = OFF")
        return connection

    monkeypatch.setattr(sqlite, "_connect", careless)
    log = Log()
    crash(20, log, most=80, means=("kill",), first=True)
    assert log.found


@traced
def test_a_charge_that_is_told_before_it_is_made_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(path: Path, tell: int) -> None:
        with Ledger.open(path) as ledger:
            account = ledger.open_account("people", None)
            Told(ledger.head, "people", spent_of(account) + 1, None).say(tell)
            account.charge("q", charge_of(Fraction(1)), note={})

    def steps(rng: random.Random, *, steps: int) -> Any:
        yield from list(workload(rng, steps=0))[:2]
        yield Step("tell, then charge", hasty)

    monkeypatch.setattr(campaign, "workload", steps)
    log = Log()
    crash(20, log, most=1000, means=("kill",), first=True)
    assert "tell, then charge" in log.found[0]
    assert "less is told now" in log.found[0]


@traced
def test_two_accounts_that_are_charged_one_after_the_other_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def split(charges: Any, question: str, *, note: dict[str, Any]) -> list[Any]:
        told = {**note, "together": [account.population for account, _ in charges]}
        return [account.log.write(account.charging(question, charge, told)) for account, charge in charges]

    monkeypatch.setattr("tests.crashes.workload.charge_together", split)
    rng, nobody = random.Random(20), os.open(os.devnull, os.O_WRONLY)
    step = next(s for s in workload(rng, steps=500) if s.name.startswith("charge two"))
    with campaign._folders() as (good, copy):
        for before in workload(rng, steps=0):
            before.work(good / NAME, nobody)
        kills = campaign._kills(step, good, copy, rng)
        assert any("did not pay for as well" in text for _, _, wrong in kills for text in wrong)
    os.close(nobody)


@traced
def test_the_tracer_sees_each_change_and_spoils_the_one_that_it_is_told_to(tmp_path: Path) -> None:
    def work(tell: int) -> None:
        fd = os.open(tmp_path / "a", os.O_CREAT | os.O_WRONLY)
        os.write(fd, b"abcd")
        os.write(tell, b"!")
        try:
            os.pwrite(fd, b"efgh", 2)
        except OSError as error:
            os.write(tell, str(error.errno).encode())
        os.fsync(fd)
        (tmp_path / "a").rename(tmp_path / "b")
        os.link(tmp_path / "b", tmp_path / "c")
        (tmp_path / "b").unlink()

    def decided(fate: Fate) -> tuple[list[Change], bytes, bytes]:
        seen: list[Change] = []
        for path in tmp_path.iterdir():
            path.unlink()

        def decide(change: Change) -> Fate:
            seen.append(change)
            return fate if change.call == "pwrite" else Fate.MADE

        end = run(work, tmp_path, decide)
        assert end.status == 0
        return seen, end.said, (tmp_path / "c").read_bytes()

    a, b, c = (str(tmp_path / name) for name in "abc")
    seen, said, left = decided(Fate.MADE)
    assert seen == [
        Change("create", a),
        Change("write", a, 0, b"abcd"),
        Change("pwrite", a, 2, b"efgh"),
        Change("fsync", a),
        Change("rename", a, target=b),
        Change("link", b, target=c),
        Change("unlink", b),
    ]
    assert (said, left) == (b"!", b"abefgh")
    assert decided(Fate.FULL)[1:] == (b"!28", b"abcd")
    assert decided(Fate.BROKEN)[1:] == (b"!5", b"abcd")
    assert decided(Fate.SHORT)[1:] == (b"!", b"abef")


def test_a_power_cut_leaves_what_was_synchronised_and_any_part_of_the_rest() -> None:
    changes = [
        Change("create", "/d/new"),
        Change("pwrite", "/d/new", 0, b"x" * 4),
        Change("fsync", "/d/new"),
        Change("fsync", "/d"),
        Change("pwrite", "/d/new", 2, b"yy"),
        Change("unlink", "/d/old"),
        Change("fsync", "/d"),
    ]
    record = Record("/d", {"old": b"o"}, changes)

    def found(end: int) -> set[tuple[tuple[str, bytes], ...]]:
        rng = random.Random(1)
        return {tuple(sorted(f.items())) for f in states(record, end, draws=200, rng=rng)}

    old = ("old", b"o")
    assert found(0) == {(old,)}
    assert found(1) == {(old,), (("new", b""), old)}
    assert found(3) == {(old,), (("new", b"xxxx"), old)}
    assert found(4) == {(("new", b"xxxx"), old)}
    assert found(6) == {(("new", a), *b) for a in (b"xxxx", b"xxyy") for b in ((old,), ())}
    assert found(7) == {(("new", b"xxxx"),), (("new", b"xxyy"),)}


def test_a_write_can_be_cut_between_sectors_only() -> None:
    data = b"a" * 600 + b"b" * 600
    record = Record("/d", {"f": bytes(1200)}, [Change("pwrite", "/d/f", 0, data)])
    rng = random.Random(1)
    found = {f["f"] for f in states(record, 1, draws=400, rng=rng)}
    sectors = [slice(0, 512), slice(512, 1024), slice(1024, 1200)]
    for content in found:
        assert all(content[s] in (data[s], bytes(len(data[s]))) for s in sectors)
    assert len(found) == 8


@pytest.mark.parametrize("scenario", interleavings.SCENARIOS)
def test_no_order_of_clients_breaks_a_promise(scenario: str) -> None:
    assert [(number, wrong) for number, wrong in every_run(scenario, most=250) if wrong] == []


def test_every_order_is_tried_once_and_can_be_had_again() -> None:
    numbers = [number for number, _ in every_run("two ask, one can pay")]
    assert len(numbers) == len(set(numbers)) > 500
    for number in numbers[::97]:
        choices, wrong = interleavings.run("two ask, one can pay", number)
        assert (choices.number, wrong) == (number, [])


def test_a_charge_that_reads_before_it_locks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tally is read in one transaction and written in another: two clients can spend the same rest."""
    careful = Account._limits

    def charge(self: Account, question: str, charge: Any, **kwargs: Any) -> Any:
        known = self._log.read(lambda view: careful(self, self._standing(view)))
        monkeypatch.setattr(Account, "_limits", lambda self, now: known)
        try:
            return whole(self, question, charge, **kwargs)
        finally:
            monkeypatch.setattr(Account, "_limits", careful)

    whole: Callable[..., Any] = Account.charge
    monkeypatch.setattr(Account, "charge", charge)
    assert any(wrong for _, wrong in every_run("two ask, one can pay", most=1500))


def test_an_answer_that_nobody_paid_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def thief(seen: Seen) -> None:
        seen.answered.append(("a", {"of": 2}))

    scenario = (Budget(2), (asks("b", interleavings.HALF), thief), 0)
    monkeypatch.setitem(interleavings.SCENARIOS, "theft", scenario)
    assert all(wrong for _, wrong in every_run("theft"))


def test_the_command_runs_a_short_campaign(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    only = "kill,interleaving" if can_trace() else "interleaving"
    assert main(["--points", "5", "--only", only, "--log", str(tmp_path / "log")]) == 0
    assert "faults: 0" in capsys.readouterr().out
    assert (tmp_path / "log").exists()
    assert main(["--replay", "two ask the same", "5"]) == 0
    assert "choices:" in capsys.readouterr().out
    assert main(["--replay", "nobody asks", "5"]) == 2
