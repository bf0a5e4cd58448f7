from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from discreet.backends.connection import open_database
from discreet.engine.cells import ColumnUse
from discreet.errors import BackendFailed
from tests.cli.conftest import Call

QUESTION = "SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM adult GROUP BY sex"
ASKED = ["sql", "adult.parquet", QUESTION, "--each-row", "--range", "age=17:90", "--values", "sex=Female,Male"]
ASKED += ["--epsilon", "0.5"]
EXACT = {"Female": (10_771, 36.858), "Male": (21_790, 39.434)}  # counted exactly, with DuckDB alone


def spent(call: Call, population: str = "adult") -> float:
    accounts = json.loads(call("budget", "discreet.ledger", "--json").stdout)["populations"]
    return float(next(a["spent"]["epsilon"] for a in accounts if a["population"] == population))


def test_the_json_answer_has_rows_intervals_cost_and_what_is_left(samples: Path, call: Call) -> None:
    result = call(*ASKED, "--budget", "3", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    answer = json.loads(result.stdout)
    assert answer["columns"] == ["sex", "n", "age"]
    assert answer["cost"] == answer["charged"] == {"epsilon": 0.5, "delta": 0}
    assert answer["remaining"] == {"epsilon": 2.5, "delta": 0}
    assert (answer["stored"], answer["confidence"], answer["population"]) == (False, 0.95, "adult")
    assert answer["intervals"]["sex"] == [None, None]
    for (sex, *values), *intervals in zip(
        answer["rows"], answer["intervals"]["n"], answer["intervals"]["age"], strict=True
    ):
        for exact, value, (low, high) in zip(EXACT[sex], values, intervals, strict=True):
            assert low <= value <= high
            assert abs(value - exact) < 4 * (high - low)  # 8 half-widths: below 1e-10 for Laplace noise


def test_the_same_question_gets_the_same_answer_free_in_every_form(samples: Path, call: Call) -> None:
    first = json.loads(call(*ASKED, "--budget", "3", "--json").stdout)
    again = json.loads(call(*ASKED, "--json").stdout)
    assert again["stored"]
    assert again["charged"] == {"epsilon": 0, "delta": 0}
    assert [again[k] for k in ("rows", "intervals", "cost")] == [first[k] for k in ("rows", "intervals", "cost")]

    as_csv = call(*ASKED, "--csv")
    rows = list(csv.DictReader(io.StringIO(as_csv.stdout)))
    assert list(rows[0]) == ["sex", "n", "n_low", "n_high", "age", "age_low", "age_high"]
    assert [(r["sex"], int(r["n"]), float(r["age"])) for r in rows] == [tuple(r) for r in first["rows"]]
    assert [[float(r["n_low"]), float(r["n_high"])] for r in rows] == first["intervals"]["n"]
    drawn, clamped, hidden, left = as_csv.stderr.splitlines()
    assert drawn.startswith("It was drawn 2") and "--fresh draws again and is charged" in drawn
    assert clamped == "Truncation bias, which ± does not cover: 'age' is clamped to [17, 90]."
    assert hidden == "In no group: rows in which 'sex' is NULL or undeclared."
    assert left == "Answered from the ledger, free; left for 'adult' in discreet.ledger: ε = 2.5."

    table = call(*ASKED)
    assert f"{first['rows'][0][1]:,} ± " in table.stdout
    assert spent(call) == 0.5


def test_a_fresh_answer_is_drawn_again_and_paid_again(samples: Path, call: Call) -> None:
    first = json.loads(call(*ASKED, "--budget", "3", "--json").stdout)
    again = json.loads(call(*ASKED, "--fresh", "--json").stdout)
    assert not again["stored"]
    assert again["rows"] != first["rows"]  # four equal draws: below 1e-8
    assert spent(call) == 1


def test_a_wider_confidence_is_a_wider_interval(samples: Path, call: Call) -> None:
    narrow = json.loads(call(*ASKED, "--budget", "3", "--json", "--confidence", "0.5").stdout)
    wide = json.loads(call(*ASKED, "--json", "--confidence", "0.999").stdout)
    for (a, b), (c, d) in zip(narrow["intervals"]["n"], wide["intervals"]["n"], strict=True):
        assert c < a < b < d


def test_the_explanation_comes_when_asked_for(samples: Path, call: Call) -> None:
    assert "Together: ε = 0.5" in call(*ASKED, "--budget", "3", "--explain").stdout
    assert "Together: ε = 0.5" in json.loads(call(*ASKED, "--explain", "--json").stdout)["explanation"]
    assert "Together" not in call(*ASKED).stdout


def test_a_csv_says_beside_it_how_many_values_their_margin_of_error_reaches(samples: Path, call: Call) -> None:
    sql = "SELECT sex, COUNT(*) AS n, LN(COUNT(*) - 1000000000) AS l FROM adult GROUP BY sex"
    done = call(*ASKED[:2], sql, *ASKED[3:], "--budget", "3", "--csv")
    said = "The margin of error is at least as large as the value in 2 of 2 rows of 'l'."
    assert [line for line in done.stderr.splitlines() if "margin" in line] == [said]
    assert list(csv.reader(io.StringIO(done.stdout)))[1][4:] == ["", "-inf", "inf"]


def test_many_rows_of_one_person_need_caps_and_report_truncation(samples: Path, call: Call) -> None:
    result = call(
        *("sql", "clinic_visits.parquet", "SELECT ward, SUM(cost) AS cost FROM clinic_visits GROUP BY ward"),
        *("--unit", "person_id", "--max-groups", "2", "--max-rows", "10", "--range", "cost=0:2000"),
        *("--epsilon", "1", "--delta", "1e-7", "--budget", "3,1e-6", "--population", "patients"),
        *("--truncation", "0.1"),
    )
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2 + 5
    assert "have more than 10 rows in one group" in result.stderr
    assert "Charged ε = 1, δ = 1e-07; left for 'patients' in discreet.ledger: ε = 2, δ = 9e-07." in result.stderr


def test_a_release_is_written_with_its_certificate_which_is_verified(samples: Path, call: Call) -> None:
    assert call(*ASKED, "--budget", "3", "--certificate", "release.json").exit_code == 0
    found = call("verify", "release.json", "--ledger", "discreet.ledger")
    assert (found.exit_code, found.stderr) == (0, ""), found.stdout
    lost = call(*ASKED, "--fresh", "--certificate", "nowhere/release.json")
    assert (lost.exit_code, "no such folder" in lost.stderr) == (2, True)
    assert len(json.loads(call("budget", "discreet.ledger", "--json").stdout)["populations"][0]["questions"]) == 1


def test_a_certificate_for_an_analyst_kept_apart_is_refused_before_the_charge(samples: Path, call: Call) -> None:
    assert call("ledger", "open", "discreet.ledger", "adult", "3,1e-6", "--analysts", "apart").exit_code == 0
    added = call(*("ledger", "analyst", "discreet.ledger", "adult", "ana", "1,1e-7", "--by", "b", "--reason", "r"))
    assert added.exit_code == 0, added.stderr
    asked = call(*ASKED, "--analyst", "ana", "--certificate", "release.json")
    assert asked.exit_code != 0
    assert "kept apart has no certificates" in asked.stderr
    assert not Path("release.json").exists()
    assert spent(call) == 0
    assert call(*ASKED, "--analyst", "ana").exit_code == 0


def test_each_person_can_have_a_budget_of_their_own(samples: Path, call: Call) -> None:
    asked = [
        *("sql", "clinic_visits.parquet", "SELECT COUNT(*) AS n FROM clinic_visits"),
        *("--unit", "person_id", "--max-groups", "1", "--max-rows", "2", "--epsilon", "1"),
    ]
    first = call(*asked, "--per-person", "1")
    assert first.exit_code == 0, first.stderr
    assert "budget of their own" in first.stderr
    again = call(*asked, "--per-person", "2", "--fresh")
    assert (again.exit_code, "per_person" in again.stderr) == (2, True)
    assert "write --per-person 3, or --per-person 3,1e-6" in call(*asked, "--per-person", "1,").stderr


def test_a_file_without_a_header_gets_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text("".join(f"{i % 2}, {i % 90}, a\n" for i in range(400)))
    result = call(
        *("sql", "people.csv", "SELECT kind, COUNT(*) AS n, SUM(age) AS s FROM people GROUP BY kind", "--each-row"),
        *("--names", "kind,age,x", "--values", "kind=0,1", "--range", "age=0:100:integer", "--json"),
        *("--epsilon", "20", "--budget", "20", "--population", "us", "--ledger", "us.ledger", "--version", "1"),
    )
    answer = json.loads(result.stdout)
    assert [row[0] for row in answer["rows"]] == [0, 1]
    assert all(abs(row[1] - 200) < 20 for row in answer["rows"])
    assert answer["population"] == "us"
    assert not Path("discreet.ledger").exists()
    assert Path("us.ledger").exists()


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("change", "code", "error"),
    [
        (["--epsilon", "3.5"], 3, "BudgetExceeded"),
        (["--budget", "4"], 2, "InvalidParameter"),
        (["--filter", "best"], 2, "InvalidParameter"),
        (["--relation", "replace"], 2, "InvalidParameter"),
        (["--range", "height=0:3"], 2, "UnknownColumn"),
        (["--ledger", "adult.parquet"], 4, "LedgerCorrupt"),
        (["--names", "a,b"], 2, "InvalidParameter"),
        (["--epsilon", "1e20"], 2, "InvalidParameter"),
    ],
)
def test_what_cannot_be_answered_has_its_exit_code_and_charges_nothing(
    samples: Path, call: Call, change: list[str], code: int, error: str
) -> None:
    assert call(*ASKED, "--budget", "3").exit_code == 0
    result = call(*ASKED, *change, "--json")
    found = json.loads(result.stderr)
    assert (result.exit_code, result.stdout, found["error"]) == (code, "", error)
    assert spent(call) == 0.5


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT AVG(hours) FROM adult", 2),
        ("SELECT COUNT(*) FROM children", 2),
        ("SELECT COUNT(*) FROM adult WHERE height > 2", 2),
        ("SELECT workclass, COUNT(*) FROM adult GROUP BY workclass", 2),
        ("DROP TABLE adult", 2),
        ("SELECT COUNT(*) FROM adult; SELECT COUNT(*) FROM adult", 2),
        ("SELECT COUNT(* FROM adult", 2),
        ("SELECT * FROM adult", 2),
        ("", 2),
    ],
)
def test_a_question_that_is_refused_charges_nothing(samples: Path, call: Call, query: str, code: int) -> None:
    result = call("sql", "adult.parquet", query, *ASKED[3:], "--budget", "3")
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert not Path("discreet.ledger").exists()


@pytest.mark.parametrize("source", ["nothing.parquet", ".", "people.exe", "https://example.org/people.csv"])
def test_a_source_that_cannot_be_opened_is_exit_code_4(samples: Path, call: Call, source: str) -> None:
    Path("people.exe").write_text("x")
    assert call("sql", source, *ASKED[2:], "--budget", "3").exit_code == 4


def test_a_plan_is_free_opens_no_account_and_needs_none(samples: Path, call: Call) -> None:
    planned = ["plan", *ASKED[1:]]
    result = call(*planned, "--json")
    assert result.exit_code == 0
    assert not Path("discreet.ledger").exists()
    plan = json.loads(result.stdout)
    # One count of two groups, each person in one of them, and three columns at ε/3: 1/b = 1/6, and P(|k| > t) < 0.05
    assert plan["errors"]["n"] == 18
    assert plan["errors"]["sex"] is None
    assert plan["cost"] == {"epsilon": 0.5, "delta": 0}
    assert call(*ASKED, "--budget", "3").exit_code == 0
    assert json.loads(call(*planned, "--json").stdout)["errors"] == plan["errors"]
    assert spent(call) == 0.5
    text = call(*planned, "--sql", "--explain").stdout
    assert [part for part in ("± at 95 %", "SELECT", "Together: ε = 0.5") if part not in text] == []


def test_keys_cannot_move_the_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.chdir(tmp_path)
    with open_database() as database:
        database.execute("COPY (SELECT chr(27) || '[2J' AS k FROM range(1000)) TO 'keys.parquet'")
    asked = ["sql", "keys.parquet", "SELECT k, COUNT(*) AS n FROM keys GROUP BY k", "--each-row"]
    asked += ["--epsilon", "1", "--delta", "1e-6", "--budget", "2,1e-5"]
    text = call(*asked).stdout
    assert r"\x1b[2J" in text
    assert "\x1b" not in text
    assert json.loads(call(*asked, "--json").stdout)["rows"][0][0] == "\x1b[2J"
    assert list(csv.reader(io.StringIO(call(*asked, "--csv").stdout)))[1][0] == "\x1b[2J"


def test_an_interrupt_after_the_charge_says_where_the_charge_is(
    samples: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise BackendFailed("The database failed.")  # what a database says when it is interrupted in its own code

    monkeypatch.setattr(ColumnUse, "draw", interrupted)
    before = signal.getsignal(signal.SIGINT)
    result = call(*ASKED, "--budget", "3")
    assert signal.getsignal(signal.SIGINT) is before
    assert result.exit_code == 130
    assert "the charge stays in discreet.ledger" in result.stderr
    assert spent(call) == 0.5


def test_a_failure_of_the_database_is_not_taken_for_an_interrupt(
    samples: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise BackendFailed("The database failed. The charge stands.")

    monkeypatch.setattr(ColumnUse, "draw", fail)
    result = call(*ASKED, "--budget", "3")
    assert result.exit_code == 4
    assert "The charge stands." in result.stderr


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("discreet.engine.cells.ColumnUse.draw", "InternalError"),
        ("discreet.engine.sql_recipe._part", "UnexpectedError"),
    ],
)
def test_an_unforeseen_failure_after_the_charge_says_nothing_of_the_data(
    broken: str, told: str, samples: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("77516 / 0")

    monkeypatch.setattr(broken, fail)
    result = call(*ASKED, "--budget", "3", "--json")
    assert result.exit_code == 4
    assert json.loads(result.stderr)["error"] == told
    assert "77516" not in result.output
    assert "ZeroDivision" not in result.output
    assert spent(call) == 0.5


@pytest.mark.system
def test_a_real_process_answers_and_a_real_ctrl_c_stops_it(samples: Path) -> None:
    command = [sys.executable, "-c", "from discreet.cli import main; main()"]
    done = subprocess.run([*command, *ASKED, "--budget", "3", "--json"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["cost"]["epsilon"] == 0.5

    os.mkfifo("slow.csv")  # opening it waits for a writer that never comes
    process = subprocess.Popen(
        [*command, "sql", "slow.csv", "SELECT COUNT(*) FROM slow", "--each-row", "--epsilon", "1", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell that runs the tests behind itself has them ignore the key, and what they start too
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )

    def press() -> None:  # a person presses again where the first came before the file was being opened
        while process.poll() is None:
            time.sleep(2)
            process.send_signal(signal.SIGINT)

    threading.Thread(target=press).start()
    out, err = process.communicate(timeout=240)
    assert (process.returncode, out) == (130, "")
    assert json.loads(err)["error"] == "Interrupted"


def test_rows_that_are_people_have_a_truncation_report(samples: Path, call: Call) -> None:
    asked = [
        *("sql", "adult.parquet", "SELECT sex, AVG(hours) AS h FROM adult GROUP BY sex", "--each-row"),
        *("--range", "hours=0:60", "--values", "sex=Female,Male", "--epsilon", "2", "--budget", "4"),
    ]
    result = call(*asked, "--truncation", "0.5", "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    key, hours = answer["truncation"]
    assert (key["of"], key["bounds"], key["counted"]) == ("the key 'sex'", None, "rows")
    assert (hours["of"], hours["bounds"]) == ("'hours'", "[0, 60]")
    assert list(key["shares"]) == ["undeclared", "null"] and list(hours["shares"]) == ["below", "above", "null"]
    above = hours["shares"]["above"]
    assert 0.03 < above["interval"][0] <= above["share"] <= above["interval"][1] < 0.04  # 1,113 of 32,561 rows
    assert any("Truncation bias of 'h' may exceed its margin of error" in note for note in answer["notes"])
    plan = ("plan", *asked[1:-2], "--truncation", "0.5")
    assert "truncation of 'hours': ± 6 rows at 95 %" in call(*plan).stdout
    assert json.loads(call(*plan, "--json").stdout)["truncation"]["the key 'sex'"] == "6 rows"
    staged = [word for word in plan if word not in ("--range", "hours=0:60")] + ["--bounds", "values"]
    assert "truncation of 'hours': ± 7 rows at 95 % or less" in call(*staged).stdout
    assert json.loads(call(*staged, "--json").stdout)["truncation"]["the key 'sex'"] == "7 rows"
    plain = call(*asked[:2], "SELECT COUNT(*) AS n FROM adult", "--each-row", "--epsilon", "1", "--truncation", "0.5")
    assert (plain.exit_code, "Nothing is cut off" in plain.stderr) == (2, True)
    assert "truncation" not in json.loads(call(*asked, "--json").stdout)


@pytest.mark.exhaustive
def test_sql_over_results_is_planned_answered_and_written_in_every_form(samples: Path, call: Call) -> None:
    question = (
        "WITH r AS (SELECT sex, COUNT(*) AS n FROM adult GROUP BY sex) SELECT sex, n / SUM(n) OVER () AS share FROM r"
    )
    given = (str(samples / "adult.parquet"), question, "--each-row", "--values", "sex=Female,Male", "--epsilon", "0.5")
    planned = json.loads(call("plan", *given, "--json").stdout)
    assert planned["columns"] == ["sex", "share"]
    found = json.loads(call("sql", *given, "--budget", "3", "--json").stdout)
    assert all(low < row[1] < high for row, (low, high) in zip(found["rows"], found["intervals"]["share"], strict=True))
    assert call("sql", *given, "--csv").stdout.startswith("sex,share,share_low,share_high\n")
