from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Call

COUNT = "SELECT COUNT(*) AS n FROM adult WHERE age > {}"


@pytest.fixture
def ledger(samples: Path, call: Call) -> Path:
    """A ledger with two accounts: one pure and one with δ, three questions."""
    row = ["--each-row", "--ledger", "ours.ledger"]
    for age in (30, 40):
        asked = ["sql", "adult.parquet", COUNT.format(age), "--epsilon", "0.1", "--budget", "1", *row]
        assert call(*asked).exit_code == 0
    asked = [
        "sql",
        "adult.parquet",
        COUNT.format(50),
        "--epsilon",
        "1",
        "--delta",
        "1e-7",
        "--noise",
        "gaussian",
    ]
    asked += ["--budget", "3,1e-6", "--population", "others", "--filter", "zcdp", *row]
    assert call(*asked).exit_code == 0
    return samples / "ours.ledger"


def test_the_budget_is_shown_for_every_population(ledger: Path, call: Call) -> None:
    result = call("budget", str(ledger))
    assert (result.exit_code, result.stderr) == (0, "")
    head, _, adult, others = result.stdout.splitlines()
    assert head.split() == ["population", "questions", "spent", "left", "budget"]
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
    again = [
        "sql",
        "adult.parquet",
        COUNT.format(60),
        "--epsilon",
        "0.1",
        "--each-row",
        "--ledger",
        str(ledger),
    ]
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
        for (trigger,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
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
