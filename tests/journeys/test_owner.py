"""A hospital's data owner: a policy, a locked ledger, analysts, a certificate; and tries to get past them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import discreet as dp
from tests.journeys.walk import Journey

pytestmark = pytest.mark.system

PEOPLE = "SELECT ward, COUNT(DISTINCT person_id) AS people FROM clinic_visits GROUP BY ward"
WARDS = '"emergency", "maternity", "cardiology", "oncology", "surgery"'


def test_an_owner_meets_only_the_refusals_that_the_policy_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    owner = Journey("owner", tmp_path)
    monkeypatch.chdir(tmp_path)
    owner.run("discreet demo --save .")
    owner.run("discreet init clinic_visits.parquet --population patients")
    owner.edit(
        "discreet.toml",
        ('ledger = "discreet.ledger"', 'ledger = "hospital.ledger"'),
        ("# locked = true ", "locked = true "),
        ('# unit = "person_id"', 'unit = "person_id"'),
        ("# max_groups = 3", "max_groups = 2"),
        ("# max_rows = 10", "max_rows = 10"),
        ("# columns.cost = { range = [LOW, HIGH] }", "columns.cost = { range = [0, 2000] }"),
        ('# columns.ward = { values = ["A", "B"] }', f"columns.ward = {{ values = [{WARDS}] }}"),
        ("# [analyst.ana]", "[analyst.ana]"),
        ("# tables = [", "tables = ["),
        ("# budget = { epsilon = 1 }", "budget = { epsilon = 1 }"),
    )
    assert owner.run("discreet ledger key owner.pem")
    assert owner.run("discreet ledger open hospital.ledger patients 4,1e-6")
    assert owner.run('discreet ledger lock hospital.ledger --key owner.pem --by board --reason "plan of 2026"')
    assert owner.refusals == []

    # A ledger that is locked with a key has no analysts but those that its owner adds; the refusal has the command.
    assert owner.run(f'discreet sql "{PEOPLE}" --analyst ana --epsilon 0.5') == ""
    adding = owner.refusals[0].split("`")[1]
    owner.run(adding.replace("KEYFILE", "owner.pem").replace("NAME", "board").replace("WHY", "'plan of 2026'"))
    assert len(owner.refusals) == 1

    # An analyst asks in the policy's folder, and gives the release away with its certificate.
    assert "emergency" in owner.run(f'discreet sql "{PEOPLE}" --analyst ana --epsilon 0.5')
    assert owner.run(f'discreet sql "{PEOPLE}" --analyst ana --epsilon 0.5 --certificate release.json')
    assert owner.run("discreet verify release.json --ledger hospital.ledger")
    assert json.loads((tmp_path / "release.json").read_text(encoding="utf-8"))
    assert len(owner.refusals) == 1

    # Tries to get past the policy: each is refused, and the ledger stays as it is.
    with dp.Ledger.existing("hospital.ledger") as ledger:
        spent = ledger.account("patients")
        assert spent is not None
        before = spent.spent.epsilon(delta=0)
    count = '"SELECT COUNT(*) AS n FROM clinic_visits"'
    tries = {
        f"discreet sql {count} --analyst ana --epsilon 0.1 --max-rows 500": "max_rows 500 is not within the policy",
        f"discreet sql {count} --analyst bob --epsilon 0.1": "no analyst 'bob'",
        f"discreet sql {count} --epsilon 0.1": "each query needs the one who asks",
        f"discreet sql {count} --analyst ana --epsilon 0.9": "ε",
        f"discreet sql clinic_visits.parquet {count} --unit person_id --max-groups 1 --max-rows 1 --budget 9 "
        "--population others --ledger hospital.ledger --epsilon 0.1": "locked",
    }
    for line, words in tries.items():
        assert owner.run(line) == "", line
        assert words in owner.refusals[-1]
    with dp.Ledger.existing("hospital.ledger") as ledger:
        after = ledger.account("patients")
        assert after is not None
        assert after.spent.epsilon(delta=0) == before

    # The owner watches, signs the head, and checks the chain.
    assert "patients" in owner.run("discreet budget hospital.ledger")
    assert owner.run("discreet ledger head hospital.ledger --sign owner.pem --json")
    assert "whole" in owner.run("discreet ledger verify hospital.ledger")
    owner.end(most=1 + len(tries))
    assert f"owner: {1 + len(tries)} refusals met" in capsys.readouterr().out
