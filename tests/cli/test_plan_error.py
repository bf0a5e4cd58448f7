"""`discreet plan --error`, `--dialect`, `--per-query`: the least ε for an error, other spellings, the owner's cap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call

COUNT = ("plan", "adult.parquet", "SELECT COUNT(*) AS n, AVG(age) AS a FROM adult", "--each-row")
AGE = ("--range", "age=17:90")


@pytest.mark.usefixtures("samples")
def test_a_wanted_error_stands_in_the_place_of_epsilon(call: Call) -> None:
    answer = json.loads(call(*COUNT, *AGE, "--error", "n=20", "--json").stdout)
    assert 19 < answer["errors"]["n"] <= 20
    tighter = call(*COUNT, *AGE, "--error", "n=20", "--error", "a=1%", "--assuming", "a=40", "--rows", "3000", "--json")
    found = json.loads(tighter.stdout)
    assert found["errors"]["n"] <= 20
    assert found["errors"]["a"] <= 0.4
    relative = json.loads(call(*COUNT, *AGE, "--error", "n=1%", "--assuming", "n=2000", "--json").stdout)
    assert relative["cost"] == answer["cost"]
    shown = call(*COUNT, *AGE, "--error", "n=20")
    assert "It would cost ε = " in shown.stdout
    assert not Path("discreet.ledger").exists()


@pytest.mark.usefixtures("samples")
def test_a_plan_without_epsilon_and_error_says_what_it_needs(call: Call) -> None:
    result = call(*COUNT, *AGE)
    assert result.exit_code == 2
    assert "A query needs --epsilon, its privacy cost: --epsilon 0.1 gives n ± " in result.stderr
    assert "or --error n=50 for the least ε" in result.stderr
    wrong = call(*COUNT, *AGE, "--error", "20")
    assert wrong.exit_code == 2
    assert "--error '20' is not COLUMN=NUMBER." in wrong.stderr


@pytest.mark.usefixtures("samples")
def test_a_question_in_another_spelling_is_the_same_question(call: Call) -> None:
    asked = ("sql", "adult.parquet", "--each-row", *AGE, "--epsilon", "1", "--json")
    first = call(*asked, "SELECT COUNT(*) AS n FROM adult WHERE age // 10 = 3", "--budget", "3")
    assert first.exit_code == 0, first.stderr
    again = call(*asked, "SELECT COUNT(*) AS n FROM adult WHERE age / 10 = 3", "--dialect", "postgres")
    whole = call(*asked, "SELECT COUNT(*) AS n FROM adult WHERE DIV(age, 10) = 3", "--dialect", "bigquery")
    assert json.loads(again.stdout)["rows"] == json.loads(first.stdout)["rows"]
    assert json.loads(whole.stdout)["rows"] == json.loads(first.stdout)["rows"]


@pytest.mark.usefixtures("samples")
def test_the_owners_cap_on_one_question_is_set_with_the_budget(call: Call) -> None:
    asked = ("sql", "adult.parquet", "SELECT COUNT(*) AS n FROM adult", "--each-row", *AGE)
    alone = call(*asked, "--epsilon", "1", "--per-query", "25")
    assert alone.exit_code == 2
    assert "--per-query needs --budget" in alone.stderr
    low = call(*asked, "--epsilon", "2", "--budget", "30", "--per-query", "1.5")
    assert low.exit_code == 2
    assert "one query may ask ε = 1.5 at most, and this one asks ε = 2." in low.stderr
    high = call(*asked, "--epsilon", "1.5", "--budget", "30", "--per-query", "1.5")
    assert high.exit_code == 0, high.stderr
