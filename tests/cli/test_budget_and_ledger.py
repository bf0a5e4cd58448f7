from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from discreet.ledger.ledger import Ledger
from tests.cli.conftest import Call

COUNT = "SELECT COUNT(*) AS n FROM adult WHERE age > {}"


@pytest.fixture
def ledger(samples: Path, call: Call) -> Path:
    """A ledger with two accounts: one pure and one with δ, three questions."""
    row = ["--each-row", "--ledger", "ours.ledger"]
    for age in (30, 40):
        asked = ["sql", "adult.parquet", COUNT.format(age), "--epsilon", "0.1", "--budget", "1", *row]
        assert call(*asked).exit_code == 0
    asked = ["sql", "adult.parquet", COUNT.format(50), "--epsilon", "1", "--delta", "1e-7", "--noise", "gaussian"]
    asked += ["--budget", "3,1e-6", "--population", "others", "--filter", "zcdp", *row]
    assert call(*asked).exit_code == 0
    return samples / "ours.ledger"


def test_the_budget_is_shown_for_every_population(ledger: Path, call: Call) -> None:
    result = call("budget", str(ledger))
    assert (result.exit_code, result.stderr) == (0, "")
    head, _, adult, others = result.stdout.splitlines()[:4]
    assert head.split() == ["population", "queries", "spent", "left", "budget"]
    assert adult.split() == ["adult", "2", *["ε", "=", "0.2", "ε", "=", "0.8", "ε", "=", "1"]]
    assert others.startswith("others")
    assert "ε = 3, δ = 1e-06" in others


def test_the_budget_as_json_adds_up(ledger: Path, call: Call) -> None:
    adult, others = json.loads(call("budget", str(ledger), "--json").stdout)["populations"]
    assert adult["budget"] == {"epsilon": 1, "delta": 0}
    assert adult["spent"] == {"epsilon": 0.2, "delta": 0}
    assert adult["remaining"] == {"epsilon": 0.8, "delta": 0}
    assert [question["sql"] for question in adult["questions"]] == [COUNT.format(30), COUNT.format(40)]
    assert (others["filter"], others["relation"]) == ("zcdp", "add-remove")
    assert 0 < others["spent"]["epsilon"] < 3
    assert others["spent"]["delta"] == 1e-6


def test_one_population_and_its_history_can_be_asked_for(ledger: Path, call: Call) -> None:
    text = call("budget", str(ledger), "--population", "adult", "--history").stdout
    assert "others" not in text
    assert text.index(COUNT.format(30)) < text.index(COUNT.format(40))
    missing = call("budget", str(ledger), "--population", "nobody")
    assert missing.exit_code == 2
    assert "it has 'adult', 'others'" in missing.stderr


def test_a_ledger_that_is_not_there_is_exit_code_4_and_is_not_made(tmp_path: Path, call: Call) -> None:
    for command in (["budget"], ["ledger", "verify"]):
        assert call(*command, str(tmp_path / "none.ledger")).exit_code == 4
    assert list(tmp_path.iterdir()) == []


def test_a_whole_ledger_is_verified_and_tells_its_head(ledger: Path, call: Call) -> None:
    result = call("ledger", "verify", str(ledger))
    assert result.exit_code == 0
    assert "unbroken chain" in result.stdout
    report = json.loads(call("ledger", "verify", str(ledger), "--json").stdout)
    assert (report["ok"], report["accounts"], report["problems"]) == (True, 2, [])
    assert result.stdout.splitlines()[-1] == report["head"]
    assert call("ledger", "verify", str(ledger), "--head", report["head"]).exit_code == 0


def test_an_older_copy_is_found_out_by_the_published_head(ledger: Path, call: Call) -> None:
    shutil.copyfile(ledger, "older.ledger")
    again = ["sql", "adult.parquet", COUNT.format(60), "--epsilon", "0.1", "--each-row", "--ledger", str(ledger)]
    assert call(*again).exit_code == 0
    head = json.loads(call("ledger", "verify", str(ledger), "--json").stdout)["head"]
    assert call("ledger", "verify", str(ledger), "--head", head).exit_code == 0
    result = call("ledger", "verify", "older.ledger", "--head", head)
    assert result.exit_code == 4
    assert result.stdout.startswith("Wrong: ")
    assert result.stderr.startswith("Error: The ledger older.ledger is not what it must be.")


def test_a_changed_ledger_is_found_out(ledger: Path, call: Call) -> None:
    with sqlite3.connect(ledger) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f'DROP TRIGGER "{trigger}"')
        for table in tables:
            columns = {row[1] for row in database.execute(f'PRAGMA table_info("{table}")')}
            if "body" in columns:
                database.execute(f"UPDATE \"{table}\" SET body = replace(body, '1/10', '1/90')")
    database.close()
    result = call("ledger", "verify", str(ledger), "--json")
    assert result.exit_code == 4
    if result.stdout:
        assert json.loads(result.stdout)["ok"] is False
    assert json.loads(result.stderr)["error"] == "LedgerCorrupt"


SIGNED = ["--by", "the data board", "--reason", "as agreed"]


def test_the_budget_tells_how_many_more_questions_fit(ledger: Path, call: Call) -> None:
    assert "At this rate: 8 more queries like the last of adult." in call("budget", str(ledger)).stdout
    adult, _ = json.loads(call("budget", str(ledger), "--json").stdout)["populations"]
    assert (adult["more_like_the_last"], adult["status"], adult["caps"]) == (8, "open", [])


def test_a_budget_keeps_what_is_not_said_and_is_given_in_one_of_two_places(tmp_path: Path, call: Call) -> None:
    place = str(tmp_path / "new.ledger")
    assert call("ledger", "open", place, "people", "--budget", "8,1e-6", "--per-query", "25").exit_code == 0
    for said, now in (("9", "ε = 9, δ = 1e-06"), ("9,0", "ε = 9")):
        changed = call("ledger", "budget", place, "people", said, *SIGNED)
        assert changed.stdout == f"The budget of people is now {now}.\n"
    with Ledger.existing(place) as book:
        account = book.account("people")
        assert account is not None
        assert account.budget.per_query == 25
    for more in ((), ("8", "--budget", "8")):
        refused = call("ledger", "open", place, "others", *more)
        assert f"`discreet ledger open {place} others 3,1e-6`" in refused.stderr


def test_a_slip_in_a_population_is_named_before_a_budget_is_asked_for(samples: Path, call: Call, ledger: Path) -> None:
    asked = ["sql", "adult.parquet", COUNT.format(70), "--epsilon", "0.1", "--each-row", "--ledger", str(ledger)]
    refused = call(*asked, "--population", "adlut")
    assert "the privacy budget of 'adlut'; the ledger has 'adult'" in refused.stderr
    assert "Hint: add --population adult (or --budget 3 for other people)" in refused.stderr
    other = call(*asked, "--population", "survey")
    assert "the privacy budget of 'survey'.\nHint: add --budget 3." in other.stderr


def test_an_owner_changes_an_account_and_the_history_tells(ledger: Path, call: Call) -> None:
    place = str(ledger)
    assert call("ledger", "budget", place, "adult", "2", *SIGNED).stdout == "The budget of adult is now ε = 2.\n"
    low = call("ledger", "budget", place, "adult", "0.1", *SIGNED)
    assert (low.exit_code, "more than that is spent" in low.stderr) == (2, True)
    assert call("ledger", "budget", place, "adult", "3").exit_code == 2  # nobody signs it off
    assert call("ledger", "freeze", place, "adult", *SIGNED).exit_code == 0
    asked = ["sql", "adult.parquet", COUNT.format(70), "--epsilon", "0.1", "--each-row", "--ledger", place]
    refused = call(*asked)
    assert (refused.exit_code, "is frozen" in refused.stderr) == (3, True)
    shown = call("budget", place, "--history").stdout
    assert "adult is frozen by the data board: as agreed. No charge is taken." in shown
    assert "the budget is ε = 2 by the data board: as agreed" in shown
    assert call("ledger", "thaw", place, "adult", *SIGNED).exit_code == 0
    assert call(*asked).exit_code == 0
    assert call("ledger", "close", place, "adult", *SIGNED).exit_code == 0
    assert call(*asked).exit_code == 0  # stored
    assert call("ledger", "thaw", place, "adult", *SIGNED).exit_code == 2
    assert call("ledger", "verify", place).exit_code == 0


def test_under_a_lock_with_a_key_the_commands_that_allow_more_ask_for_it(ledger: Path, call: Call) -> None:
    place, key = str(ledger), str(ledger.with_name("owner.pem"))
    call("ledger", "key", key)
    assert call("ledger", "freeze", place, "adult", *SIGNED).exit_code == 0
    assert call("ledger", "lock", place, "--key", key, *SIGNED).exit_code == 0
    for command, *words in (["budget", "2"], ["thaw"], ["group", "team", "0.5"], ["analyst", "ana", "0.4"]):
        asked = ["ledger", command, place, "adult", *words, *SIGNED]
        refused = call(*asked)
        assert (refused.exit_code, "is locked with a key, and this names none" in refused.stderr) == (2, True)
        assert "--key" in refused.stderr
        assert call(*asked, "--key", key).exit_code == 0
        assert "--key KEYFILE" in call("ledger", command, "--help").stdout
    assert call("ledger", "close", place, "adult", *SIGNED).exit_code == 0
    assert call("ledger", "verify", place).exit_code == 0


def test_analysts_are_added_capped_and_shown(ledger: Path, call: Call) -> None:
    place = str(ledger)
    assert call("ledger", "group", place, "adult", "team", "0.5", *SIGNED).exit_code == 0
    said = call("ledger", "analyst", place, "adult", "ana", "0.4", "--group", "team", *SIGNED)
    assert "'ana' may spend ε = 0.4 of it" in said.stdout
    asked = ["sql", "adult.parquet", COUNT.format(70), "--epsilon", "0.3", "--each-row", "--ledger", place]
    nobody = call(*asked)
    assert (nobody.exit_code, "every query needs the one who asks" in nobody.stderr) == (2, True)
    assert call(*asked, "--analyst", "ana").exit_code == 0
    asked[2] = COUNT.format(71)
    refused = call(*asked, "--analyst", "ana")
    assert (refused.exit_code, "--epsilon 0.1 would fit" in refused.stderr) == (3, True)
    planned = call("plan", *asked[1:], "--analyst", "ana").stdout
    assert "It would be refused now: 'adult': the query needs ε = 0.3, and ε = 0.1 is left of 0.4" in planned
    asked[4] = "0.1"
    assert (
        "it leaves ε = 0 of ε = 0.4, enough for no more like it." in call("plan", *asked[1:], "--analyst", "ana").stdout
    )
    lines = [line.split() for line in call("budget", place).stdout.splitlines()]
    assert ["team", "1", *["ε", "=", "0.3", "ε", "=", "0.2", "ε", "=", "0.5"]] in lines
    assert ["ana", "team", "1", *["ε", "=", "0.3", "ε", "=", "0.1", "ε", "=", "0.4"]] in lines
    adult, _ = json.loads(call("budget", place, "--json").stdout)["populations"]
    assert [(c["kind"], c["name"], c["remaining"]["epsilon"]) for c in adult["caps"]] == [
        ("group", "team", 0.2),
        ("analyst", "ana", 0.1),
    ]


def test_an_account_is_opened_and_an_export_with_a_signed_head_verified(tmp_path: Path, call: Call) -> None:
    place, key, file = (str(tmp_path / name) for name in ("a.ledger", "owner.pem", "export.jsonl"))
    opened = call("ledger", "open", place, "customers", "3,1e-6", "--analysts", "apart", "--filter", "zcdp")
    assert "as long as analysts tell each other nothing" in opened.stdout
    public = call("ledger", "key", key).stdout.strip()
    assert call("ledger", "key", key).exit_code == 4
    signed = json.loads(call("ledger", "head", place, "--sign", key, "--json").stdout)
    assert (signed["public_key"], signed["head"]) == (public, call("ledger", "head", place).stdout.strip())
    Path(file).write_text(call("ledger", "export", place).stdout)
    check = ["--head", signed["head"], "--signature", signed["signature"], "--public-key", public]
    for what in (place, file):
        assert "its signature is by that key" in call("ledger", "verify", what, *check).stdout
    assert call("ledger", "verify", file, *check[:4]).exit_code == 2
    forged = call("ledger", "verify", file, *check[:3], "00" * 64, *check[4:])
    assert (forged.exit_code, "not by that key" in forged.stderr) == (4, True)
    Path(file).write_text(Path(file).read_text().replace("zcdp", "renyi"))
    assert call("ledger", "verify", file).exit_code == 4


def test_one_population_in_several_ledgers_is_told(ledger: Path, tmp_path: Path, call: Call) -> None:
    place, other, copy = str(ledger), str(tmp_path / "other.ledger"), str(tmp_path / "copy.ledger")
    shutil.copyfile(ledger, copy)
    assert call("ledger", "open", other, "Adult", "2").exit_code == 0
    two = call("budget", place, other)
    assert "'adult' has a budget in each of" in two.stderr
    assert "is the sum of all: ε = 3." in two.stderr
    assert "are copies of one ledger: use one of them" in call("budget", place, copy).stderr
    asked = ["sql", "adult.parquet", COUNT.format(70), "--epsilon", "0.1", "--each-row", "--ledger"]
    assert call(*asked, place).exit_code == 0
    assert f"{copy} is an older copy of {place}" in call("budget", copy, place).stderr
    assert call(*asked, copy).exit_code == 0
    assert "both went on" in call("budget", copy, place).stderr


def test_a_ledger_moves_and_goes_on(ledger: Path, tmp_path: Path, call: Call) -> None:
    place, new = str(ledger), str(tmp_path / "new.ledger")
    moved = call("ledger", "transfer", place, new, *SIGNED)
    assert "2 accounts go on in new.ledger" in moved.stdout
    asked = ["sql", "adult.parquet", COUNT.format(70), "--epsilon", "0.1", "--each-row", "--ledger"]
    refused = call(*asked, place)
    assert (refused.exit_code, "has moved" in refused.stderr, new in refused.stderr) == (4, True, True)
    assert call(*asked, new).exit_code == 0
    assert "goes on there alone" in call("budget", place, new).stderr
    assert call("ledger", "verify", place).exit_code == 0


def test_one_population_in_two_ledgers_is_drawn_twice(ledger: Path, tmp_path: Path, call: Call) -> None:
    other, file = tmp_path / "other.ledger", tmp_path / "spending.svg"
    other.write_bytes(ledger.read_bytes())
    assert call("budget", str(ledger), str(other), "--plot", str(file)).exit_code == 0
    image = file.read_text(encoding="utf-8")
    assert f"in {ledger}" in image and f"in {other}" in image


def test_spending_is_drawn(ledger: Path, tmp_path: Path, call: Call) -> None:
    file = tmp_path / "spending.png"
    assert call("budget", str(ledger), "--plot", str(file)).exit_code == 0
    assert file.read_bytes().startswith(b"\x89PNG")
    assert call("budget", str(ledger), "--plot", str(tmp_path / "spending.txt")).exit_code == 2


def test_a_lock_says_whether_a_key_opens_it(tmp_path: Path, call: Call) -> None:
    place, owner = str(tmp_path / "a.ledger"), str(tmp_path / "owner.pem")
    public = call("ledger", "key", owner).stdout.strip()
    assert call("ledger", "open", place, "people", "3").exit_code == 0
    for key, locked, found in (
        ((), "without a key: anybody unlocks it", "is locked without a key:"),
        (("--key", owner), "with this key: without it nobody unlocks it", f"is locked by the key {public}:"),
    ):
        assert f"is locked {locked}" in call("ledger", "lock", place, *SIGNED, *key).stdout
        assert found in call("ledger", "verify", place).stdout
        assert "unlock it first" in call("ledger", "lock", place, *SIGNED, *key).stderr
        assert call("ledger", "unlock", place, *SIGNED, *key).exit_code == 0
