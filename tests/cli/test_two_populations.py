"""`both`: one question of rows of two populations, as typed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pandas as pd
import pytest

from discreet.ledger.account import Account
from discreet.ledger.ledger import Ledger
from discreet.privacy.guarantee import Budget
from tests.cli.conftest import Call

PROTECT = ("--protect", "patients=patient_id:2", "--protect", "doctors=doctor_id:40")
BUDGET = ("--budget", "patients=3", "--budget", "doctors=60,1e-6")
COUNT = "SELECT COUNT(*) AS n FROM visits"
N = 3000


@pytest.fixture(autouse=True)
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    visits = pd.DataFrame({"patient_id": range(N), "doctor_id": [i % 150 for i in range(N)]})
    visits.assign(cost=10, ward=["a", "b"] * (N // 2)).to_parquet("visits.parquet")


def ask(call: Call, *args: str, query: str = COUNT, code: int = 0) -> str:
    done = call("both", "visits.parquet", query, *args)
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.output


def of(book: Ledger, population: str) -> Account:
    account = book.account(population)
    assert account is not None
    return account


def test_both_are_charged_each_by_its_own_cap_and_a_second_time_is_free(call: Call) -> None:
    for paid in (True, False):
        answer = json.loads(ask(call, *PROTECT, *BUDGET, "--epsilon", "20", "--json"))
        # Scale 2 for a doctor's 40 rows at ε = 20: 25 scales have a chance of 1e-11.
        assert abs(answer["rows"][0][0] - N) <= 50
        assert answer["cost"] == {"patients": {"epsilon": 1, "delta": 0}, "doctors": {"epsilon": 20, "delta": 0}}
        assert answer["stored"] is not paid
        assert [c["epsilon"] for c in answer["charged"].values()] == ([1, 20] if paid else [0, 0])
        assert [c["epsilon"] for c in answer["remaining"].values()] == [2, 40]
    with Ledger.existing("discreet.ledger") as book:
        assert set(book.populations()) == {"patients", "doctors"}


def test_groups_sums_and_what_differs_between_the_two(call: Call) -> None:
    said = ask(
        call,
        *(*PROTECT, *BUDGET, "--epsilon", "patients=0.5", "--epsilon", "doctors=10", "--range", "cost=0:20"),
        *("--values", "ward=a,b", "--csv", "--explain"),
        query="SELECT ward, COUNT(*) AS n, SUM(cost) AS cost FROM visits GROUP BY ward ORDER BY ward",
    )
    rows = list(csv.DictReader(said.splitlines()))
    assert [row["ward"] for row in rows] == ["a", "b"]
    assert all(float(row["n_low"]) <= float(row["n"]) <= float(row["n_high"]) for row in rows)
    table = ask(call, *PROTECT, "--epsilon", "patients=0.5", "--epsilon", "doctors=20", "--explain")
    assert "'patients' pays ε = 0.5" in table and "'doctors' pays ε = 10" in table


def test_a_plan_is_free_and_opens_nothing(call: Call) -> None:
    text = ask(call, *PROTECT, "--epsilon", "1", "--plan", "--explain")
    assert "ε = 0.05 of 'patients', ε = 1 of 'doctors'" in text
    assert "One unit of 'doctors'" in text
    planned = json.loads(ask(call, *PROTECT, "--epsilon", "1", "--plan", "--json"))
    assert planned["cost"]["doctors"] == {"epsilon": 1, "delta": 0} and "outlook" not in planned
    assert not Path("discreet.ledger").exists()
    ask(call, *PROTECT, *BUDGET, "--epsilon", "1")
    assert "free" in ask(call, *PROTECT, "--epsilon", "1", "--plan")
    assert "enough for" in json.loads(ask(call, *PROTECT, "--epsilon", "2", "--plan", "--json"))["outlook"]


def test_other_relations_filters_and_noise(call: Call) -> None:
    args: tuple[str, ...] = (*PROTECT, *BUDGET, "--relation", "patients=replace", "--filter", "doctors=zcdp")
    args = (*args, "--noise", "gaussian", "--epsilon", "5", "--delta", "patients=0", "--delta", "doctors=1e-7")
    assert "δ" in ask(call, *args, code=2)  # Gaussian noise needs a δ of each
    args = tuple("patients=1e-8" if a == "patients=0" else a for a in args)
    assert "δ" in ask(call, *args, code=3)  # and the account of patients has none
    args = tuple("patients=3,1e-6" if a == "patients=3" else a for a in args)
    ask(call, *args, "--ledger", "other.ledger")
    with Ledger.existing("other.ledger") as book:
        one, two = of(book, "patients"), of(book, "doctors")
        assert (one.relation.value, two.relation.value) == ("replace", "add-remove")
        assert (one.filter, two.filter) == ("basic", "zcdp")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--protect", "patients=patient_id", "--epsilon", "1"), "does not have the form NAME=COLUMN:ROWS"),
        (("--protect", "patients=patient_id:-1", "--epsilon", "1"), "does not have the form NAME=COLUMN:ROWS"),
        (("--protect", "patients=patient_id:0", *PROTECT[2:], "--epsilon", "1"), "max_rows"),
        (("--protect", "patients=patient_id:2", "--epsilon", "1"), "two populations, each once, not 1"),
        ((*PROTECT[:2], *PROTECT[:2], "--epsilon", "1"), "two populations, each once, not 1"),
        ((*PROTECT, *PROTECT[:2], "--epsilon", "1"), "two populations, each once"),
        ((*PROTECT, "--epsilon", "patients=1"), "--epsilon is missing for 'doctors'"),
        ((*PROTECT, "--epsilon", "1", "--epsilon", "doctors=1"), "--epsilon is given twice for 'doctors'"),
        ((*PROTECT, "--epsilon", "nurses=1"), "--epsilon names 'nurses'"),
        ((*PROTECT, "--epsilon", "-1"), "--epsilon must be above 0"),
        ((*PROTECT, "--epsilon", "1", "--delta", "2"), "--delta must lie in [0, 1)"),
        ((*PROTECT, "--epsilon", "1", "--relation", "both"), "add-remove or replace, not 'both'"),
        ((*PROTECT, "--epsilon", "1"), "needs a budget"),
        ((*PROTECT, *BUDGET, "--epsilon", "1", "--analyst", "ana"), "ana"),
        ((*PROTECT, *BUDGET, "--epsilon", "1", "--json", "--csv"), "cannot both be had"),
        ((*PROTECT, "--epsilon", "1", "--plan", "--csv"), "--csv does not go with --plan"),
        ((*PROTECT, "--epsilon", "1", "--plan", "--certificate", "a"), "--certificate does not go with --plan"),
        ((*PROTECT, *BUDGET, "--epsilon", "1", "--filter", "best"), "best"),
        ((*PROTECT, *BUDGET, "--epsilon", "1", "--plot", "visits.parquet"), "a picture is written"),
        ((*PROTECT, *BUDGET, "--epsilon", "1", "--certificate", "discreet.ledger"), "--certificate"),
        ((*PROTECT, *BUDGET, "--epsilon", "1", "--table", "visits=x.parquet"), "'visits' is given twice"),
    ],
)
def test_what_is_typed_wrong_is_refused_by_name_and_nothing_is_charged(
    call: Call, args: tuple[str, ...], words: str
) -> None:
    assert words in " ".join(ask(call, *args, code=2).split())
    if Path("discreet.ledger").exists():
        with Ledger.existing("discreet.ledger") as book:
            assert all(of(book, p).spent.epsilon() == 0 for p in book.populations())


def test_what_cannot_be_paid_is_charged_to_neither(call: Call) -> None:
    ask(call, *PROTECT, *BUDGET, "--epsilon", "1")
    assert "nothing was charged to either" in " ".join(ask(call, *PROTECT, "--epsilon", "61", code=3).split())
    left = json.loads(ask(call, *PROTECT, "--epsilon", "1", "--json"))["remaining"]
    assert [float(b["epsilon"]) for b in left.values()] == [2.95, 59]


def test_an_analyst_plans_and_asks_under_a_cap(call: Call) -> None:
    ask(call, *PROTECT, *BUDGET, "--epsilon", "0.01")
    with Ledger.existing("discreet.ledger") as book:
        of(book, "patients").cap_analyst("ana", Budget("0.1"), by="owner", reason="a study")
    question = (*PROTECT, "--analyst", "patients=ana")
    assert "needs the one who asks" in " ".join(ask(call, *PROTECT, "--epsilon", "1", code=2).split())
    assert "0.1" in ask(call, *question, "--epsilon", "1", "--plan")
    ask(call, *question, "--epsilon", "1")  # 0.05 of each patient
    assert "ana" in ask(call, *question, "--epsilon", "2", code=3)


def test_the_proof_is_written_and_holds(call: Call) -> None:
    ask(call, *PROTECT, *BUDGET, "--epsilon", "1", "--certificate", "proof.json")
    done = call("verify", "proof.json", "--ledger", "discreet.ledger")
    assert done.exit_code == 0, done.output


def test_a_picture_without_room_is_refused_before_the_charge(call: Call) -> None:
    many = "SELECT " + ", ".join(f"COUNT(*) FILTER (WHERE cost > {i}) AS n{i}" for i in range(40)) + " FROM visits"
    said = ask(call, *PROTECT, *BUDGET, "--epsilon", "1", "--plot", "a.svg", query=many, code=2)
    assert "paid" not in said
    assert not Path("discreet.ledger").exists()


def test_the_answer_is_drawn(call: Call) -> None:
    ask(call, *PROTECT, *BUDGET, "--epsilon", "5", "--plot", "answer.svg")
    assert Path("answer.svg").read_text().startswith("<svg")
