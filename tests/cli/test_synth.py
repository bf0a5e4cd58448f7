"""`discreet synth` writes rows and models, says sizes free, and refuses before anything is charged."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import discreet as dp

Call = Callable[..., Any]
ASKED = (
    "synth",
    "adult.parquet",
    "--each-row",
    "--range",
    "age=17:90",
    "--values",
    "sex=Female,Male",
    "--epsilon",
    "1",
)
BUDGET = ("--budget", "3,1e-5")


def test_a_plan_is_free_and_opens_no_account(samples: Path, call: Call) -> None:
    plain = call(*ASKED, "--plan")
    assert plain.exit_code == 0
    assert plain.stdout.startswith("A synthesis that costs ε = 1, δ = 1e-06\n")
    bias = "Truncation bias, beside the noise: 'age' is clamped to [17, 90]; undeclared values of 'sex' become 'other'"
    assert bias in plain.stdout
    said = json.loads(call(*ASKED, "--plan", "--json").stdout)
    assert said["cells"] == 75 + 3
    assert said["pairs"] == [1, 1]
    assert not (samples / "discreet.ledger").exists()


def test_rows_and_models_are_written_and_the_second_time_is_free(samples: Path, call: Call) -> None:
    alone = (*ASKED, "--method", "independent")
    first = call(*alone, *BUDGET, "-o", "a.csv", "--rows", "50")
    assert first.exit_code == 0, first.output
    assert "Charged ε = 1, δ = 1e-06; left for 'adult'" in first.stderr
    with (samples / "a.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["age", "sex"]
    assert len(rows) == 51
    assert {sex for _, sex in rows[1:]} <= {"Female", "Male", "other"}
    assert "'age' is clamped to [17, 90]" in first.stdout
    again = call(*alone, "-o", "a.model", "--json")
    assert json.loads(again.stdout)["report"]["tables"][0]["columns"] == ["age"]
    assert dp.synth.load(samples / "a.model").columns == ["age", "sex"]
    third = call(*alone, "-o", "a.parquet", "--rows", "7")
    assert "Answered from the ledger, free" in third.stderr
    assert pyarrow.parquet.read_table(samples / "a.parquet").num_rows == 7


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("-o", "a.txt", *BUDGET), ".csv, .parquet, .model"),
        (BUDGET, "-o must name a file"),
        (("-o", "adult.parquet", *BUDGET), "would be written over"),
        (("-o", "none/a.csv", *BUDGET), "no such folder"),
        (("-o", "a.csv"), "add --budget 3,1e-5."),
        (("-o", "a.csv", *BUDGET, "--label", "age1"), "--label age1 is none of the columns"),
        (("-o", "a.csv", *BUDGET, "--delta", "0"), "δ above 0"),
    ],
)
def test_what_cannot_be_made_is_refused_before_a_charge(
    samples: Path, call: Call, more: tuple[str, ...], words: str
) -> None:
    refused = call(*ASKED, *more)
    assert refused.exit_code == 2
    assert words in refused.stderr
    assert not list(samples.glob("a.*"))


def test_columns_that_are_not_declared_are_not_read(samples: Path, call: Call) -> None:
    refused = call("synth", "adult.parquet", "--each-row", "--epsilon", "1", *BUDGET, "-o", "a.csv")
    assert refused.exit_code == 2
    assert "--range" in refused.stderr or "--values" in refused.stderr
    assert "when you connect" not in refused.stderr


def test_hints_name_options_that_the_command_has(samples: Path, call: Call) -> None:
    refused = call("synth", "clinic_visits.parquet", "--range", "cost=0:2000", "--epsilon", "1", "-o", "a.csv")
    assert refused.exit_code == 2
    assert "add --unit COLUMN --max-rows 10 (or --each-row" in refused.stderr
    assert "--max-groups" not in refused.stderr


def test_a_budget_without_delta_is_told_to_have_some(samples: Path, call: Call) -> None:
    refused = call(*ASKED, "--budget", "3", "-o", "a.csv")
    assert refused.exit_code == 3
    assert "Hint: what is drawn needs a budget with δ: --budget 3,1e-6." in refused.stderr


def test_of_a_policy_the_columns_are_read_that_it_declares(samples: Path, call: Call) -> None:
    Path("a.toml").write_text(
        """
        [population.p]
        budget = { epsilon = 3, delta = 1e-5 }
        [table.adult]
        source = "adult.parquet"
        population = "p"
        each_row = true
        columns.age = { range = [17, 90] }
        """
    )
    said = call("synth", "a.toml", "--epsilon", "1", "--plan", "--json")
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout)["cells"] == 75


def test_of_a_policy_with_several_tables_one_is_named_and_its_caps_are_asked_for(samples: Path, call: Call) -> None:
    draft = """
        [population.p]
        budget = { epsilon = 3, delta = 1e-5 }
        [table.clinic_visits]
        source = "clinic_visits.parquet"
        unit = "person_id"
        columns.cost = { range = [0, 2000] }
        [table.more]
        source = "clinic_visits.parquet"
        unit = "person_id"
        """
    Path("discreet.toml").write_text(draft)
    several = call("synth", "--epsilon", "1", "--plan")
    assert "The policy has several tables.\nHint: --from clinic_visits." in several.stderr
    lacking = call("synth", "--from", "clinic_visits", "--epsilon", "1", "--plan")
    assert "how many rows of one person are read, 1 where each has one.\nHint: add --max-rows 10." in lacking.stderr
    made = call("synth", "--from", "clinic_visits", "--epsilon", "1", "--plan", "--max-rows", "10")
    assert made.exit_code == 0, made.stderr
    nobody = call("synth", "clinic_visits.parquet", "--max-rows", "1", "--epsilon", "1", "-o", "a.csv")
    assert "who is protected" in nobody.stderr
    asked = call("sql", "SELECT COUNT(*) AS n FROM more", "--epsilon", "1", "--max-rows", "2")
    assert "Hint: add --max-groups 3 (or --bounds auto" in asked.stderr
