from __future__ import annotations

import json
from pathlib import Path

import pytest

import discreet as dp
from discreet.ledger.ledger import Ledger
from tests.cli.conftest import Call

WARDS = {"a": "SELECT COUNT(*) FROM t WHERE g = 'a'", "b": "SELECT COUNT(*) FROM t WHERE g = 'b'"}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger in which people with budgets of their own were asked about."""
    import pandas as pd

    path = tmp_path / "p.ledger"
    with dp.connect(
        {"t": pd.DataFrame({"id": range(200), "g": ["a", "b"] * 100})},
        unit=dp.PrivacyUnit("id", max_groups=1, max_rows=1),
        columns={"g": dp.Values("a", "b")},
        per_person=dp.Budget(1),
        population="patients",
        ledger=str(path),
    ) as session:
        session.sql(WARDS["a"], epsilon="0.55")
    return path


def test_a_summary_is_asked_for_by_name_and_charged_once(ledger: Path, call: Call) -> None:
    before = call("budget", str(ledger))
    assert "What people of" not in before.stdout and before.exit_code == 0
    shown = call("budget", str(ledger), "--people-summary", "0.4")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "What people of patients have used of ε = 1 each:" in shown.stdout
    assert "charged ε = 0.4 to each of them" in shown.stdout
    assert shown.stdout.splitlines()[2].split()[:5] == ["patients", "2", "ε", "=", "0.95"]
    again = call("budget", str(ledger), "--people-summary", "0.4")
    assert "and it is free; it cost each of them ε = 0.4" in again.stdout
    told = json.loads(call("budget", str(ledger), "--people-summary", "0.4", "--json").stdout)
    used = told["people_summary"]["used"]
    assert [row["up_to"] for row in used] == pytest.approx([i / 10 for i in range(1, 11)])
    assert abs(used[9]["people"] - 100) < 60 and abs(used[5]["people"]) < 60
    account = Ledger.open(ledger).account("patients")
    assert account is not None
    assert [e.kind for e in account.history()].count("charge") == 2


def test_the_history_names_it_and_the_forecast_passes_it_over(ledger: Path, call: Call) -> None:
    assert call("budget", str(ledger), "--people-summary", "0.1").exit_code == 0
    told = call("budget", str(ledger), "--history").stdout
    assert "a summary of what people have used" in told and WARDS["a"] in told
    (account,) = json.loads(call("budget", str(ledger), "--json").stdout)["populations"]
    assert account["questions"][-1]["summary"] == "people"
    assert call("ledger", "verify", str(ledger)).exit_code == 0


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        (["--people-summary", "2"], 3, "nobody would be left"),
        (["--people-summary", "x"], 2, "--people-summary must be a number"),
        (["--people-summary", "0"], 2, "above 0"),
        (["--analyst", "ana"], 2, "--analyst says who asks for --people-summary"),
        (["--people-summary", "0.1", "--analyst", "ana"], 2, "'ana' is no analyst"),
    ],
)
def test_what_cannot_be_summed_up_is_refused_and_charges_nothing(
    ledger: Path, call: Call, asked: list[str], code: int, words: str
) -> None:
    result = call("budget", str(ledger), *asked)
    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr
    assert "ε = 0.55" in call("budget", str(ledger)).stdout


def test_it_is_asked_of_one_account_with_people_in_it(ledger: Path, call: Call) -> None:
    with Ledger.open(ledger) as book:
        book.open_account("others", dp.Budget(1))
    both = call("budget", str(ledger), "--people-summary", "0.1")
    assert (both.exit_code, "--population NAME" in both.stderr) == (2, True)
    others = call("budget", str(ledger), "--people-summary", "0.1", "--population", "others")
    assert (others.exit_code, "has one budget for all" in others.stderr) == (2, True)
    assert call("budget", str(ledger), "--people-summary", "0.1", "--population", "patients").exit_code == 0


def test_where_there_are_analysts_one_of_them_asks(ledger: Path, call: Call) -> None:
    with Ledger.open(ledger) as book:
        account = book.account("patients")
        assert account is not None
        account.cap_analyst("ana", dp.Budget("0.3"), by="owner", reason="a study")
    nobody = call("budget", str(ledger), "--people-summary", "0.1")
    assert nobody.exit_code == 2
    assert call("budget", str(ledger), "--people-summary", "0.1", "--analyst", "ana").exit_code == 0
    assert call("budget", str(ledger), "--people-summary", "0.25", "--analyst", "ana").exit_code == 3
