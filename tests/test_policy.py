"""A policy file: what it says, what is refused of it, and that arguments tighten it and never widen it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.errors import DiscreetError, InvalidParameter, LedgerError, MissingBounds, SourceError, UnknownColumn
from discreet.ledger.ledger import Ledger
from discreet.policy import Policy

POLICY = """
[population.customers]
ledger = "customers.ledger"
budget = { epsilon = 3, delta = 1e-6 }

[table.visits]
source = "visits.parquet"
population = "customers"
unit = "user_id"
max_groups = 2
max_rows = 4
columns.amount = { range = [0, 200] }
columns.region = { values = ["north", "south"], null = true }
columns.day = { range = [2020-01-01, 2026-01-01] }

[table.regions]
source = "regions.csv"
public = true
"""
ANALYSTS = """
[analyst.ana]
tables = ["visits", "regions"]
budget = { epsilon = 1, delta = 1e-7 }

[analyst.ben]
token_sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
budget = { epsilon = 2 }
"""
OTHERS = """
[population.others]
budget = { epsilon = 1 }

[table.more]
source = "visits.parquet"
population = "others"
each_row = true
"""
COUNT = "SELECT COUNT(*) AS n FROM visits"
BOARD: dict[str, Any] = {"by": "board", "reason": "test"}


@pytest.fixture
def policy(tmp_path: Path) -> Any:
    """Writes a policy in a folder with its sources, and returns its path."""
    days = [dt.date(2021, 1, 1 + i % 28) for i in range(40)]
    visits = {"user_id": [i // 2 for i in range(40)], "region": ["north", "south"] * 20, "amount": [5.0] * 40}
    pl.DataFrame({**visits, "day": days}).write_parquet(tmp_path / "visits.parquet")
    pl.DataFrame({"region": ["north"], "people": [7]}).write_csv(tmp_path / "regions.csv")

    def write(text: str = POLICY) -> Path:
        (tmp_path / "discreet.toml").write_text(text, encoding="utf-8")
        return tmp_path / "discreet.toml"

    return write


def refusal(work: Any) -> str:
    with pytest.raises(DiscreetError) as caught:
        work()
    return str(caught.value)


def test_it_gives_the_arguments_that_connect_takes(policy: Any, tmp_path: Path) -> None:
    found = Policy.read(policy()).connection()
    assert found.arguments == {
        "source": {"visits": str(tmp_path / "visits.parquet"), "regions": str(tmp_path / "regions.csv")},
        "unit": dp.PrivacyUnit("user_id", max_groups=2, max_rows=4),
        "public": ["regions"],
        "columns": {
            "visits.amount": dp.Range(0, 200),
            "visits.region": dp.Values("north", "south", None),
            "visits.day": dp.Range(dt.date(2020, 1, 1), dt.date(2026, 1, 1)),
        },
        "population": "customers",
        "ledger": str(tmp_path / "customers.ledger"),
        "analyst": None,
        "names": None,
        "budget": dp.Budget(3, 1e-6),
    }


def test_a_session_over_it_answers_from_any_folder(
    policy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = policy()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with dp.connect(place) as session:
        rows = session.sql("SELECT region, SUM(amount) AS s FROM visits GROUP BY region", epsilon=1).rows
        assert [key for key, _ in rows] == ["north", "south", None]
        assert session.budget == dp.Budget(3, 1e-6)
    assert (tmp_path / "customers.ledger").exists()
    assert not Path("discreet.ledger").exists()


def test_its_places_stay_where_they_were_when_it_was_read(
    policy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = policy()
    monkeypatch.chdir(tmp_path)
    read = Policy.read(Path(place).name)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert read.tables["visits"].source == str(tmp_path / "visits.parquet")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("unit = ", "unitt = ", "[table.visits] has no key 'unitt'.\nHint: perhaps unit is meant"),
        ("[population.customers]", "[populations.customers]", "perhaps population is meant"),
        ("range = [0", "rnge = [0", "[table.visits] columns.amount has no key 'rnge'.\nHint: perhaps range is meant"),
        ("epsilon = 3", "epsilon = 3, gamma = 1", "budget of [population.customers] has no key 'gamma'"),
        ("epsilon = 3, ", "", "budget of [population.customers] has no epsilon"),
        ('population = "customers"', 'population = "custmers"', "no population 'custmers'.\nHint: perhaps customers"),
        ("[0, 200]", "[200, 0]", "[table.visits] columns.amount: a Range needs low ≤ high"),
        ("[0, 200]", '["a", "b"]', "[table.visits] columns.amount: "),
        ("[0, 200]", "[0]", "[table.visits] columns.amount needs a list"),
        ("[0, 200] }", '[0, 200], values = ["a"] }', "needs a range or values"),
        ("[0, 200] }", "[0, 200], null = true }", "says null without values"),
        ("null = true", 'labels = ["North"]', "columns.region: labels and values differ in number"),
        ("null = true", 'labels = ["N", "N"]', "columns.region: Values gives two values one label"),
        ("public = true", 'public = true\nunit = "region"', "[table.regions] is public, and says unit as well"),
        ("public = true", 'population = "customers"\neach_row = true', "say each_row and a unit with a column"),
        ('unit = "user_id"', "each_row = true", "says each_row, and max_groups as well"),
        ("max_rows = 4", "max_rows = 0", "max_rows of [table.visits] must be a whole number of at least 1"),
        ("public = true", 'public = "yes"', "public of [table.regions] must be true or false"),
        ('source = "regions.csv"\n', "", "[table.regions] does not say its source"),
        ("[table.visits]", "[table.visits", "is not TOML"),
        ('source = "visits.parquet"', "source = 5", "source of [table.visits] must be a text in quotes"),
        ("[table.regions]", "[table]\nregions = 5\n[table.x]", "table is not a section of the policy"),
    ],
)
def test_what_is_wrong_in_it_is_refused_by_name(policy: Any, before: str, after: str, words: str) -> None:
    assert before in POLICY
    assert words in refusal(lambda: Policy.read(policy(POLICY.replace(before, after, 1))).connection())


def test_no_file_and_no_private_table_are_refused(policy: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        dp.connect(tmp_path / "none.toml")
    assert "no table with personal data" in refusal(lambda: Policy.read(policy("[population.x]\n")))
    shared = (
        POLICY + '[table.more]\nsource = "visits.parquet"\npopulation = "customers"\nunit = "user_id"\nmax_rows = 5\n'
    )
    assert "says max_rows = 5, and another table of the population says 4" in refusal(
        lambda: Policy.read(policy(shared)).connection()
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"unit": dp.PrivacyUnit("user_id", max_rows=5)}, "max_rows 5 is not within the policy, which says 4."),
        ({"unit": dp.PrivacyUnit("user_id", max_groups=3)}, "max_groups 3 is not within the policy"),
        ({"unit": "region"}, "The policy protects 'user_id', and this asks for another unit."),
        ({"unit": dp.PrivacyUnit.row()}, "The policy protects 'user_id', and this asks for another unit."),
        ({"unit": dp.PrivacyUnit("user_id", tables={"regions": "region"})}, "asks for another unit"),
        ({"columns": {"amount": dp.Range(-1, 200)}}, "which says columns={'amount': dp.Range(0, 200)}"),
        ({"columns": {"visits.amount": dp.Range(0, 201)}}, "is not within the policy"),
        ({"columns": {"amount": dp.Values(5.0)}}, "is not within the policy"),
        ({"columns": {"region": dp.Values("north", "west")}}, "is not within the policy"),
        ({"columns": {"day": dp.Range(0, 1)}}, "is not within the policy"),
        ({"bounds": "auto"}, "The policy fixes max_groups and max_rows, and bounds='auto' would choose it."),
        ({"population": "others"}, "The policy has no population 'others'"),
        *(
            ({name: value}, f"{name}= is fixed by the policy.")
            for name, value in {
                "budget": dp.Budget(9),
                "per_person": dp.Budget(1),
                "ledger": ":memory:",
                "public": ["visits"],
                "names": ["a"],
                "relation": "replace",
                "filter": "zcdp",
                "analysts": "apart",
            }.items()
        ),
    ],
)
def test_no_argument_widens_it(policy: Any, given: dict[str, Any], words: str) -> None:
    assert words in refusal(lambda: dp.connect(policy(), **given))


def test_arguments_tighten_it(policy: Any) -> None:
    narrower: dict[str, Any] = {"amount": dp.Range(0, 50), "visits.region": dp.Values("north")}
    with dp.connect(policy(), unit=dp.PrivacyUnit("user_id", max_rows=1), columns=narrower) as session:
        (table,) = (t for t in session._desk.tables if t.name == "visits")
        assert (table.unit.max_groups, table.unit.max_rows) == (2, 1)
        assert table.facts["amount"] == dp.Range(0, 50)
        assert table.facts["region"] == dp.Values("north")
        assert table.facts["day"] == dp.Range(dt.date(2020, 1, 1), dt.date(2026, 1, 1))


def test_what_it_leaves_open_may_be_said(policy: Any) -> None:
    some = POLICY.replace("columns.amount = { range = [0, 200] }\n", "").replace("max_rows = 4\n", "")
    with pytest.raises(MissingBounds, match="how many rows"):
        dp.connect(policy(some))
    with dp.connect(
        policy(some), unit=dp.PrivacyUnit("user_id", max_rows=3), columns={"amount": dp.Range(0, 9)}
    ) as session:
        assert session.plan("SELECT SUM(amount) AS s FROM visits", epsilon=1).error("s") < 100


def test_what_it_lacks_is_named_at_once_in_its_own_words(policy: Any) -> None:
    draft = POLICY.replace('unit = "user_id"\nmax_groups = 2\nmax_rows = 4\n', "").replace("budget = {", "# budget = {")
    assert refusal(lambda: dp.connect(policy(draft))) == (
        "2 public facts are missing: who is protected in table 'visits'; the privacy budget of 'customers'.\n"
        'Hint: add `unit = "COLUMN"` or `each_row = true` or `public = true` under [table.visits] in the policy; '
        "`budget = { epsilon = 3, delta = 1e-6 }` under [population.customers] in the policy"
    )


def test_analysts_have_their_tables_and_their_budgets(policy: Any, tmp_path: Path) -> None:
    place = policy(POLICY + ANALYSTS.replace('["visits", "regions"]', '["visits"]'))
    assert "names analysts: each query needs the one who asks" in refusal(lambda: dp.connect(place))
    assert "no analyst 'anna'.\nHint: perhaps ana is meant" in refusal(lambda: dp.connect(place, analyst="anna"))
    with dp.connect(place, analyst="ana") as session:
        assert session.tables == ["visits"]
        assert session.remaining == dp.Budget(1, 1e-7)
        session.plan(COUNT, epsilon=1)
        assert not (tmp_path / "customers.ledger").exists()  # who plans leaves nothing behind
        session.sql(COUNT, epsilon="0.75")
        with pytest.raises(dp.errors.BudgetExceeded, match="the cap of the analyst 'ana'"):
            session.sql(COUNT, epsilon="0.5")
    with dp.connect(place, analyst="ben") as session:
        assert session.tables == ["visits", "regions"]
        session.sql(COUNT, epsilon=2)
    with dp.connect(place, analyst="ana") as session:
        assert session.remaining.epsilon == dp.Budget("0.25").epsilon
    place = policy(POLICY + ANALYSTS.replace("epsilon = 1,", "epsilon = 2,"))
    assert "the cap of 'ana' is ε = 1, δ = 1e-07 in the ledger, and this asks for ε = 2" in refusal(
        lambda: dp.connect(place, analyst="ana")
    )


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("budget = { epsilon = 2 }", "", "[analyst.ben] has no budget"),
        ('token_sha256 = "0', 'token_sha256 = "x', "token_sha256 of [analyst.ben] is not a SHA-256 hash"),
        ('["visits", "regions"]', '["visit"]', "The policy has no table 'visit'.\nHint: perhaps visits is meant"),
        ('["visits", "regions"]', '["regions"]', "lets 'ana' query no table of 'customers'"),
    ],
)
def test_what_is_wrong_of_analysts_is_refused(policy: Any, before: str, after: str, words: str) -> None:
    place = policy(POLICY + ANALYSTS.replace(before, after))
    assert words in refusal(lambda: dp.connect(place, analyst="ana"))


def test_several_populations_are_chosen_by_name_and_share_public_tables(policy: Any) -> None:
    place = policy(POLICY + OTHERS)
    assert "several populations: 'customers', 'others'.\nHint: population='customers'" in refusal(
        lambda: dp.connect(place)
    )
    with dp.connect(place, population="others") as session:
        assert session.tables == ["regions", "more"]
        assert session.budget == dp.Budget(1)


def test_tables_of_a_database_are_those_that_it_names(policy: Any, tmp_path: Path) -> None:
    with open_database(tmp_path / "shop.duckdb") as connection:
        connection.execute("CREATE TABLE visits AS SELECT 1 AS user_id; CREATE TABLE secrets AS SELECT 1 AS user_id")
    plain = POLICY.replace("visits.parquet", "shop.duckdb")
    text = "\n".join(line for line in plain.splitlines() if not line.startswith("columns."))
    with dp.connect(policy(text)) as session:
        assert session.tables == ["visits", "regions"]
        assert len(session.sql(COUNT, epsilon=1).rows) == 1
        with pytest.raises(UnknownColumn):
            session.sql("SELECT COUNT(*) FROM secrets", epsilon=1)
    absent = text.replace("[table.visits]", "[table.sales]")
    assert "has no table 'sales'" in refusal(lambda: dp.connect(policy(absent)))


def test_a_lock_that_it_says_has_to_be_there(policy: Any, tmp_path: Path) -> None:
    place, book = (
        policy(POLICY.replace("delta = 1e-6 }", "delta = 1e-6 }\nlocked = true")),
        tmp_path / "customers.ledger",
    )
    with pytest.raises(LedgerError, match="is locked, and it is not") as caught:
        dp.connect(place)
    assert "discreet ledger lock" in caught.value.hint
    with Ledger.open(book) as ledger:
        ledger.open_account("customers", dp.Budget(3, 1e-6))
        ledger.lock(**BOARD)
    with dp.connect(place) as session:
        session.sql(COUNT, epsilon=1)


def test_a_locked_ledger_has_one_population_and_one_name_for_a_table(policy: Any, tmp_path: Path) -> None:
    book = tmp_path / "customers.ledger"
    with dp.connect(policy()) as session:
        session.sql(COUNT, epsilon=1)
    with Ledger.open(book) as ledger:
        ledger.open_account("friends", dp.Budget(3))
        ledger.lock(**BOARD)
    unit, source = dp.PrivacyUnit("user_id", max_groups=1, max_rows=1), tmp_path / "visits.parquet"
    for table, population in (("visits", "friends"), ("copy", "customers"), ("copy", "friends")):
        with pytest.raises(InvalidParameter, match="the ledger is locked: one table has one population and one name"):
            dp.connect({table: source}, unit=unit, population=population, ledger=book)
    with dp.connect({"visits": source}, unit=unit, population="customers", ledger=book) as session:
        session.sql(COUNT, epsilon="0.5")


def test_no_refusal_names_a_table_that_the_policy_hides(
    policy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = policy().read_text(encoding="utf-8")
    hidden = text.replace("[table.visits]", "[table.secret]")
    with dp.connect(policy(hidden)) as session:
        session.sql("SELECT COUNT(*) AS n FROM secret", epsilon="0.1")
    others = OTHERS.replace("each_row = true", 'unit = "user_id"\nmax_groups = 1\nmax_rows = 1').replace(
        "budget", 'ledger = "customers.ledger"\nbudget', 1
    )
    place = policy(hidden + others + '[analyst.ana]\ntables = ["more"]\nbudget = { epsilon = 1 }\n')
    with dp.connect(place, analyst="ana", population="others"):
        said = capsys.readouterr().err
    assert "has the columns of another table in the ledger" in said and "secret" not in said
    with Ledger.open(tmp_path / "customers.ledger") as ledger:
        ledger.open_account("others", dp.Budget(1))
        ledger.lock(**BOARD)
    refused = refusal(lambda: dp.connect(place, analyst="ana", population="others"))
    assert "one table has one population and one name" in refused and "secret" not in refused


def test_values_have_labels(policy: Any) -> None:
    labelled = 'values = ["north", "south"], null = true, labels = ["North", "South"]'
    place = policy(POLICY.replace('values = ["north", "south"], null = true', labelled))
    fact = Policy.read(place).tables["visits"].columns["region"]
    assert fact == dp.Values({"north": "North", "south": "South"}).listed("north", "south", None)
    with dp.connect(place) as session:
        release = session.sql("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", epsilon=1)
    assert [key for key, _ in release.rows] == ["North", "South", None]


def test_the_example_of_the_reference_is_read(tmp_path: Path) -> None:
    text = (
        POLICY.replace("delta = 1e-6 }", "delta = 1e-6 }\nlocked = true\nper_person = { epsilon = 2, delta = 1e-6 }")
        + ANALYSTS
    )
    (tmp_path / "p.toml").write_text(text, encoding="utf-8")
    found = Policy.read(tmp_path / "p.toml").connection(analyst="ana")
    assert found.locked and found.cap == dp.Budget(1, 1e-7)
    assert found.arguments["per_person"] == dp.Budget(2, 1e-6)


def test_no_query_has_caps_chosen_that_the_policy_fixes(policy: Any) -> None:
    words = "The policy fixes max_groups and max_rows, and bounds='auto' would choose it."
    with dp.connect(policy()) as session:
        assert words in refusal(lambda: session.sql(COUNT, epsilon=1, bounds="auto"))
        assert words in refusal(lambda: session.plan(COUNT, epsilon=1, bounds="auto"))
        assert session.remaining == session.budget
    uncapped = POLICY.replace("max_groups = 2\nmax_rows = 4\n", "")
    with dp.connect(policy(uncapped), bounds="auto") as session:
        session.plan(COUNT, epsilon=1)


def test_no_query_has_ranges_chosen_that_the_policy_says(policy: Any) -> None:
    total = "SELECT SUM(amount) AS s FROM visits"
    with dp.connect(policy()) as session:
        declared = session.plan(total, epsilon=1)
        assert session.plan(total, epsilon=1, bounds="values").query == declared.query


def test_caps_hold_for_analysts_who_cannot_reach_the_table_that_says_them(policy: Any) -> None:
    other = '[table.more]\nsource = "visits.parquet"\nunit = "user_id"\n'
    text = ANALYSTS.replace('"visits", "regions"', '"more"')
    limited = Policy.read(policy(POLICY + other + text)).connection(analyst="ana")
    assert set(limited.arguments["source"]) == {"more"}
    assert limited.arguments["unit"] == dp.PrivacyUnit("user_id", max_groups=2, max_rows=4)
    wider = dp.PrivacyUnit("user_id", max_groups=4, max_rows=50)
    read = Policy.read(policy(POLICY + other + text))
    assert "not within the policy" in refusal(lambda: read.connection(analyst="ana", unit=wider))
    assert "The policy fixes max_groups" in refusal(lambda: read.connection(analyst="ana", bounds="auto"))
    apart = Policy.read(policy(POLICY + other + "max_rows = 5\n" + text))
    assert "give all tables of a population the same caps" in refusal(lambda: apart.connection(analyst="ana"))


def test_a_ledger_in_memory_is_refused(policy: Any) -> None:
    place = policy(POLICY.replace('"customers.ledger"', '":memory:"'))
    words = "[population.customers] keeps its ledger in memory: the budget would begin anew at each connect."
    assert words in refusal(lambda: dp.connect(place))


def test_caps_that_bigquery_options_say_tighten_the_policy_and_never_widen_it(policy: Any) -> None:
    def asked(said: str) -> str:
        return (
            f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.5, delta=1e-8, {said}) "
            "region, COUNT(*) AS n FROM visits GROUP BY region"
        )

    with dp.connect(policy()) as session:
        own = session.plan(asked("max_groups_contributed=2"), dialect="bigquery")
        less = session.plan(asked("max_groups_contributed=1"), dialect="bigquery")
        assert less.query.sensitivities[0].l1 < own.query.sensitivities[0].l1
        for said in ("max_groups_contributed=3", "max_rows_contributed=5", "privacy_unit_column=region"):
            assert "owner" in refusal(lambda said=said: session.plan(asked(said), dialect="bigquery"))


@pytest.mark.parametrize(
    ("line", "said", "words"),
    [
        ('source = "visits.parquet"', r'source = "data\visits.parquet"', "write a path with /, or in single quotes"),
        ("epsilon = 3", 'epsilon = "ten"', "budget of [population.customers]: epsilon must be a number, not 'ten'."),
    ],
)
def test_a_policy_that_cannot_be_read_says_where_and_what_to_write(
    policy: Any, line: str, said: str, words: str
) -> None:
    assert line in POLICY
    assert words in refusal(lambda: dp.connect(policy(POLICY.replace(line, said, 1))))
