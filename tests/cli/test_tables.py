"""What is public of tables, on the command line and in a session: free, and no row is read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import discreet as dp
from discreet.cli.program import COMMANDS
from tests.cli.conftest import Call

POLICY = """
[population.patients]
[table.visits]
source = "clinic_visits.parquet"
unit = "person_id"
columns.cost = { range = [0, 2000] }
columns.ward = { values = ["a", "b", "c", "d", "e", "f"] }
[table.people]
source = "adult.parquet"
each_row = true
[table.trips]
source = "trips.parquet"
public = true
"""


@pytest.mark.usefixtures("samples")
def test_tables_are_described_without_a_unit_or_a_budget(call: Call) -> None:
    shown = call("tables", "clinic_visits.parquet", "adult.parquet", "--json")
    rows = json.loads(shown.stdout)["rows"]
    assert ["clinic_visits", "cost", "DOUBLE", ""] in rows
    assert {row[0] for row in rows} == {"clinic_visits", "adult"}
    described = call("sql", "clinic_visits.parquet", "describe Clinic_Visits;")
    assert described.exit_code == 0, described.stderr
    assert [line.split()[0] for line in described.stdout.splitlines()[2:]] == ["person_id", "ward", "month", "cost"]
    assert call("sql", "clinic_visits.parquet", "DESC visits").exit_code == 2
    assert "There is no policy discreet.toml" in call("tables").stderr
    assert not Path("discreet.ledger").exists()


@pytest.mark.usefixtures("samples")
def test_a_policy_says_what_is_known_and_whose_rows_are(call: Call) -> None:
    Path("discreet.toml").write_text(POLICY, encoding="utf-8")
    for args in ((), ("discreet.toml",)):
        rows = json.loads(call("tables", *args, "--json").stdout)["rows"]
        assert ["visits", "cost", "DOUBLE", "Range(0, 2000)"] in rows
        assert ["visits", "ward", "VARCHAR", "Values('a', 'b', 'c', 'd', 'e', … (6 values))"] in rows
    listed = json.loads(call("sql", "show tables", "--json").stdout)["rows"]
    assert [(name, owner) for name, _, owner in listed] == [
        ("visits", "unit person_id"),
        ("people", "unit: each row"),
        ("trips", "public"),
    ]
    assert "A policy names all its tables." in call("tables", "discreet.toml", "adult.parquet").stderr


def test_a_session_describes_its_tables_free(samples: Path) -> None:
    unit = dp.PrivacyUnit("person_id", max_groups=1, max_rows=1)
    with dp.connect(
        str(samples / "clinic_visits.parquet"),
        unit=unit,
        columns={"cost": dp.Range(0, 9)},
        budget=dp.Budget(1),
        ledger=":memory:",
    ) as s:
        assert s.schema.columns == ("table", "column", "type", "known")
        assert ("clinic_visits", "cost", "DOUBLE", "Range(0, 9)") in s.schema
        assert list(s.sql('DESCRIBE TABLE "clinic_visits"')) == [row[1:] for row in s.schema]
        assert list(s.sql(" SHOW  TABLES ; ")) == [("clinic_visits", "4", "unit person_id")]
        assert "person_id" in repr(s.schema)
        with pytest.raises(dp.errors.UnknownColumn, match="no table 'visits'"):
            s.sql("DESCRIBE visits")
        assert s.spent.epsilon(delta=0) == 0


def test_an_unknown_command_names_the_near_one(call: Call) -> None:
    assert "No such command 'slq'. Did you mean sql?" in call("slq").stderr
    assert "Did you mean" not in call("xyzzy").stderr


def test_the_help_of_a_query_is_grouped_and_complete(call: Call) -> None:
    for name in ("sql", "plan"):
        shown = call(name, "--help").stdout
        titles = ["Data:", "Who is protected:", "Public facts:", "Cost and noise:", "Budget:", "Result:"]
        places = [shown.index(f"\n{title}\n") for title in titles]
        assert places == sorted(places)
        for option in ("--unit", "--epsilon", "--error", "--policy", "--json", "--help"):
            assert f"  {option}" in shown or f", {option}" in shown


def test_the_module_is_the_program() -> None:
    done = subprocess.run([sys.executable, "-m", "discreet"], capture_output=True, text=True, check=True)
    assert [name for name in COMMANDS if f"  {name} " not in done.stdout] == []
