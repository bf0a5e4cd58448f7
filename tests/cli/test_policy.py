"""Commands over a policy: found in the folder or named, tightened by options and never widened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Call

pytestmark = pytest.mark.usefixtures("samples")
POLICY = """
[population.patients]
budget = { epsilon = 3 }
[table.visits]
source = "clinic_visits.parquet"
population = "patients"
unit = "person_id"
max_groups = 1
max_rows = 4
columns.cost = { range = [0, 2000] }
"""
TOTAL = "SELECT SUM(cost) AS cost FROM visits"


def test_a_query_needs_no_source_in_the_folder_of_a_policy(call: Call) -> None:
    assert "there is no policy discreet.toml in this folder" in call("sql", TOTAL, "--epsilon", "1").stderr
    Path("discreet.toml").write_text(POLICY, encoding="utf-8")
    planned = call("plan", TOTAL, "--epsilon", "1")
    assert planned.exit_code == 0, planned.stderr
    assert not Path("discreet.ledger").exists()
    answered = call("sql", TOTAL, "--epsilon", "1")
    assert answered.exit_code == 0, answered.stderr
    assert "left for 'patients' in discreet.ledger: ε = 2." in answered.stderr
    Path("discreet.toml").rename("other.toml")
    for named in (("--policy", "other.toml", TOTAL), ("other.toml", TOTAL)):
        again = call("sql", *named, "--epsilon", "1")
        assert (again.exit_code, again.stdout) == (0, answered.stdout)
    both = call("sql", "clinic_visits.parquet", TOTAL, "--policy", "other.toml", "--epsilon", "1")
    assert "--policy names the tables, and SOURCE another one." in both.stderr


def test_options_tighten_it_and_never_widen_it(call: Call) -> None:
    Path("discreet.toml").write_text(POLICY, encoding="utf-8")
    asked = ("sql", TOTAL, "--epsilon", "1")
    assert call(*asked, "--max-rows", "2", "--range", "cost=0:1000").exit_code == 0
    for options, words in {
        ("--max-rows", "5"): "max_rows 5 is not within the policy, which says 4.",
        ("--range", "cost=0:9999"): "--range cost=0:9999 is not within the policy, which says --range cost=0:2000.",
        ("--each-row",): "The policy protects 'person_id', and this asks for another unit.",
        ("--budget", "9"): "--budget is fixed by the policy discreet.toml.",
        ("--ledger", "other"): "--ledger is fixed by the policy discreet.toml.",
        ("--public", "visits"): "--public is fixed by the policy discreet.toml.",
    }.items():
        refused = call(*asked, *options)
        assert (refused.exit_code, words in refused.stderr) == (2, True), refused.stderr


def test_what_policy_and_query_lack_is_named_at_once(call: Call) -> None:
    draft = POLICY.split("unit =")[0].replace("budget =", "# budget =")
    Path("discreet.toml").write_text(draft, encoding="utf-8")
    refused = call("sql", TOTAL)
    assert refused.exit_code == 2
    assert (
        "Error: 4 public facts are missing: who is protected in table 'visits'; the privacy budget of 'patients'; "
        "the bounds of 'cost'; ε, the privacy cost of the query.\n"
    ) in refused.stderr
    assert refused.stderr.endswith(f"  discreet sql '{TOTAL}' --range cost=LOW:HIGH --epsilon 0.5\n")
