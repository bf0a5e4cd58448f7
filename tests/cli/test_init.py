"""The draft of a policy: it follows from names and types alone, and a few decisions make it answer."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import polars as pl
import pytest

from discreet.backends.connection import open_database
from tests.cli.conftest import Call

pytestmark = pytest.mark.usefixtures("samples")


_LOOK = ["--private-bounds", "1", "--each-row", "--budget", "3"]


def decided(draft: str, *keys: str) -> str:
    """The draft with the lines of these keys in force, and bounds and values in their places."""
    for key in keys:
        assert f"# {key} = " in draft, key
        draft = draft.replace(f"# {key} = ", f"{key} = ", 1)
    return draft.replace("LOW, HIGH", "0, 100")


def test_a_draft_is_a_policy_that_waits_for_decisions(call: Call) -> None:
    drafted = call("init", "clinic_visits.parquet")
    assert drafted.exit_code == 0, drafted.stderr
    text = Path("discreet.toml").read_text(encoding="utf-8")
    assert set(tomllib.loads(text)) == {"population", "table"}
    assert '# unit = "person_id"' in text
    asked = re.search(r'discreet sql "(.*)" --epsilon 0.5', drafted.stdout)
    assert asked is not None
    refused = call("sql", asked[1], "--epsilon", "0.5")
    assert "2 public facts are missing: who is protected in table 'clinic_visits'; the privacy budget" in refused.stderr
    decisions = decided(text, "unit", "max_groups", "max_rows", "budget", "columns.cost")
    Path("discreet.toml").write_text(decisions, encoding="utf-8")
    for query in (asked[1], "SELECT AVG(cost) AS cost FROM clinic_visits"):
        answered = call("sql", query, "--epsilon", "0.5")
        assert answered.exit_code == 0, answered.stderr


def test_every_line_of_a_draft_is_one_that_a_policy_may_have(call: Call) -> None:
    text = call("init", "adult.parquet", "-o", "-").stdout
    keys = re.findall(r"^# ([\w.]+) = ", text, re.MULTILINE)
    at_odds = {"per_person", "locked", "max_groups", "max_rows", "max_contributions", "unit", "public", "tables"}
    text = decided(text, *(key for key in keys if key not in at_odds)).replace("# [analyst", "[analyst")
    Path("discreet.toml").write_text(text, encoding="utf-8")
    answered = call("sql", "SELECT AVG(age) AS age FROM adult", "--epsilon", "0.5", "--analyst", "ana")
    assert answered.exit_code == 0, answered.stderr


def test_a_draft_does_not_depend_on_rows(call: Call) -> None:
    drafts = []
    for rows in ("", "1,a,2020-01-01\n", "x,,\n9,b,z\n"):
        Path("t.csv").write_text("user_id,city name,day\n" + rows, encoding="utf-8")
        drafts.append(call("init", "t.csv", "-o", "-").stdout)
    assert drafts[0] == drafts[1] == drafts[2]
    assert '# columns."city name" = { range = [LOW, HIGH] }   # or { values = ["A", "B"] }' in drafts[0]


def test_ranges_and_values_are_found_by_a_charged_look(call: Call) -> None:
    look = ("clinic_visits.parquet", "--unit", "person_id", "--max-groups", "2", "--population", "patients")
    drafted = call("init", *look, "--private-bounds", "8", "--budget", "9,1e-4")
    assert drafted.exit_code == 0, drafted.stderr
    assert "Charged ε = 8, δ = 5e-05 to discreet.ledger for ranges and values." in drafted.stdout
    text = Path("discreet.toml").read_text(encoding="utf-8")
    assert "ranges and values cost ε = 8, δ = 5e-05 of the budget" in text
    said = tomllib.loads(text)["table"]["clinic_visits"]
    assert (said["unit"], said["max_groups"], said["max_rows"]) == ("person_id", 2, 10)
    assert set(said["columns"]["ward"]["values"]) >= {"emergency", "maternity"}
    assert "# DOUBLE, found through noise: at most " in text
    assert " of units have values outside, with 97.5 % confidence\n" in text
    low, high = said["columns"]["cost"]["range"]
    assert low <= 0 and high >= 1024
    answered = call("sql", "SELECT ward, AVG(cost) AS c FROM clinic_visits GROUP BY ward", "--epsilon", "0.5")
    assert answered.exit_code == 0, answered.stderr
    assert "left for 'patients' in discreet.ledger: ε = 0.5" in answered.stderr


def test_a_look_that_finds_no_sure_range_leaves_its_place(call: Call) -> None:
    pl.DataFrame({"user_id": range(5), "x": [1.0] * 5}).write_parquet("few.parquet")
    drafted = call("init", "few.parquet", "-o", "-", "--each-row", "--private-bounds", "0.1", "--budget", "3")
    assert drafted.exit_code == 0, drafted.stderr
    assert "# columns.x = { range = [LOW, HIGH] }" in drafted.stdout
    assert "\nbudget = { epsilon = 3 }" in drafted.stdout


def test_what_was_read_of_json_is_said(call: Call) -> None:
    Path("t.json").write_text('{"a": 1}\n', encoding="utf-8")
    drafted = call("init", "t.json")
    assert "of JSON the keys of objects were read" in drafted.stdout
    assert "of JSON the keys of objects were read, and no value" in Path("discreet.toml").read_text(encoding="utf-8")


def test_several_sources_are_one_population_and_paths_start_at_the_policy(call: Call) -> None:
    Path("policies").mkdir()
    with open_database(Path("shop.duckdb")) as connection:
        connection.execute("CREATE TABLE orders AS SELECT 1 AS id; CREATE TABLE items AS SELECT 1 AS id")
    pl.DataFrame({"city": ["a"]}).write_csv("regions.csv")
    place = "policies/p.toml"
    drafted = call("init", "shop.duckdb", "regions.csv", "-o", place, "--population", "our customers")
    assert drafted.exit_code == 0, drafted.stderr
    said = tomllib.loads(Path(place).read_text(encoding="utf-8"))
    assert list(said["population"]) == ["our customers"]
    assert {name: table["source"] for name, table in said["table"].items()} == {
        "items": "../shop.duckdb",
        "orders": "../shop.duckdb",
        "regions": "../regions.csv",
    }


@pytest.mark.parametrize(
    ("tables", "proposed"),
    [
        ({"visits": "visit_id,patient_id", "patients": "patient_id,age"}, ["patient_id", "patient_id"]),
        ({"visits": "visit_id,patient_id"}, ["patient_id"]),
        ({"stays": "stay_id,case_id", "labs": "lab_id,case_id"}, ["case_id", "case_id"]),
        ({"customers": "id,name", "orders": "id,customer_id"}, ["id", "customer_id"]),
    ],
)
def test_the_id_that_most_tables_have_is_proposed(call: Call, tables: dict[str, str], proposed: list[str]) -> None:
    for name, header in tables.items():
        Path(f"{name}.csv").write_text(header + "\n", encoding="utf-8")
    text = call("init", *(f"{name}.csv" for name in tables), "-o", "-").stdout
    assert re.findall('# unit = "(.*)"', text) == proposed


def test_foreign_keys_of_a_database_are_proposed_as_links(call: Call) -> None:
    with open_database(Path("hospital.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE visits (id BIGINT PRIMARY KEY, person BIGINT); "
            "CREATE TABLE drugs (id BIGINT, person BIGINT, visit BIGINT REFERENCES visits (id))"
        )
    text = call("init", "hospital.duckdb", "-o", "-").stdout
    assert '# links = ["visit -> visits.id"]   # with unit: joins along these keys' in text
    text = decided(text, "budget", "links").replace('# unit = "person"', 'unit = "person"')
    text = text.replace("# max_groups = 3 ", "max_groups = 3 ").replace("# max_rows = 10 ", "max_rows = 10 ")
    Path("discreet.toml").write_text(text, encoding="utf-8")
    answered = call("sql", "SELECT COUNT(*) AS n FROM drugs d JOIN visits v ON d.visit = v.id", "--epsilon", "0.5")
    assert answered.exit_code == 0, answered.stderr


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["adult.parquet", "-o", "adult.parquet"], "would be written over adult.parquet"),
        (["adult.parquet", "-o", "there.toml"], "there.toml is there already."),
        (["adult.parquet", "./adult.parquet"], "Two sources have a table 'adult'."),
        (["adlt.parquet"], "There is no file 'adlt.parquet'"),
        ([], "Missing argument"),
        (["adult.parquet", "--budget", "3"], "--budget goes with --private-bounds."),
        (
            ["adult.parquet", "--private-bounds", "1", "--each-row"],
            "it needs --budget, and either --unit or --each-row",
        ),
        (["adult.parquet", "--private-bounds", "1", "--budget", "3"], "either --unit or --each-row"),
        (["adult.parquet", "survey.parquet", *_LOOK], "--private-bounds looks at one table, and there are 2."),
        (["t.csv", *_LOOK], "finds nothing in 't'"),
        (["adult.parquet", *_LOOK[:-1], "0.5"], "left"),
    ],
)
def test_what_cannot_be_drafted_is_refused(call: Call, args: list[str], words: str) -> None:
    Path("there.toml").write_text("", encoding="utf-8")
    Path("t.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    refused = call("init", *args)
    assert refused.exit_code in (2, 3, 4)
    assert words in refused.stderr
    assert not Path("discreet.toml").exists()
    assert not Path("discreet.ledger").exists()


def test_no_name_brings_a_line_of_its_own_in_force(call: Call) -> None:
    plain = {"user_id": [1], "b_uid": [1], "n": [[1]], "v": [1]}
    for break_ in ("\n", "\r\n", "\x7f", "\u2028"):
        names = {n: f"{n}{break_}_uid{break_}public = true{break_}#" for n in ("b_uid", "n", "v")}
        pl.DataFrame(plain).rename(names).write_parquet("odd.parquet")
        drafted = call("init", "odd.parquet", "-o", "-")
        assert drafted.exit_code == 0, drafted.stderr
        said = tomllib.loads(drafted.stdout)["table"]
        assert said == {"odd": {"source": "odd.parquet"}}
        assert all(line.isprintable() for line in drafted.stdout.split("\n"))
