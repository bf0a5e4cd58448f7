"""On the command line all missing facts are named at once as options, with the command that would do."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.cli.conftest import Call

pytestmark = pytest.mark.usefixtures("samples")
AGES = "SELECT sex, AVG(age) AS age FROM adult GROUP BY sex"


def proposed(stderr: str) -> list[str]:
    """The words of the command that is proposed, after the program's name."""
    return shlex.split(stderr.strip().splitlines()[-1])[1:]


def test_the_first_refusal_names_everything_and_its_command_works(call: Call) -> None:
    refused = call("sql", "adult.parquet", AGES)
    assert refused.exit_code == 2
    assert (
        "Error: 5 public facts are missing: who is protected; the privacy budget of 'adult'; the bounds of 'age'; "
        "the groups of 'sex', or a δ; ε, the privacy cost of the query.\n"
    ) in refused.stderr
    assert "dp." not in refused.stderr
    assert "=dp" not in refused.stderr
    line = proposed(refused.stderr)
    at = line.index("--unit")
    decided = [*line[:at], "--each-row", *line[at + 6 :]]
    answered = call(*[word.replace("LOW:HIGH", "17:90") for word in decided])
    assert answered.exit_code == 0, answered.stderr
    assert "Female" in answered.stdout


def test_what_is_said_is_not_asked_for_again(call: Call) -> None:
    visits = "SELECT SUM(cost) AS cost FROM clinic_visits"
    refused = call("sql", "clinic_visits.parquet", visits, "--unit", "person_id", "--epsilon", "1", "--max-groups", "1")
    line = proposed(refused.stderr)
    assert line[-6:] == ["--max-rows", "10", "--budget", "3", "--range", "cost=LOW:HIGH"]
    answered = call(*[word.replace("LOW:HIGH", "0:2000") for word in line])
    assert answered.exit_code == 0, answered.stderr


def test_the_command_stands_in_json_too(call: Call) -> None:
    refused = call("sql", "adult.parquet", "SELECT COUNT(*) AS n FROM adult", "--each-row", "--budget", "3", "--json")
    told = json.loads(refused.stderr)
    assert told["message"].startswith("A query needs --epsilon, its privacy cost: --epsilon 0.1 gives n ± ")
    assert shlex.split(told["command"])[-2:] == ["--epsilon", "0.5"]


def test_what_no_option_averts_comes_first(call: Call) -> None:
    assert "There is no file" in call("sql", "adlt.parquet", AGES).stderr
    assert "no column 'agee'" in call("sql", "adult.parquet", AGES.replace("age)", "agee)")).stderr
    assert "no column 'pid'" in call("sql", "clinic_visits.parquet", "SELECT SUM(pid) FROM clinic_visits").stderr


def test_a_wanted_error_takes_the_place_of_an_epsilon(call: Call) -> None:
    counted = ("adult.parquet", "SELECT COUNT(*) AS n FROM adult", "--each-row")
    answered = call("sql", *counted, "--budget", "3", "--error", "n=20")
    assert answered.exit_code == 0, answered.stderr
    planned = json.loads(call("plan", *counted, "--error", "n=20", "--json").stdout)
    assert f"Charged ε = {planned['cost']['epsilon']:g};" in answered.stderr
