"""`discreet verify`: what it prints, and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.verify.asked import SINGLE, ask, visits
from tests.verify.asked_both import asked, both
from tests.verify.forging import forged, measurement, sealed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate, its ledger and the export of it; another ledger."""
    place = tmp_path_factory.mktemp("verify")
    with visits(place / "visits.ledger") as session:
        release = ask(session, *SINGLE["groups"])
        (place / "release.json").write_text(json.dumps(release.certificate()))
        (place / "ledger.jsonl").write_text("\n".join(session._ledger.export()) + "\n")
        (place / "head").write_text(session._ledger.head)
    with visits(place / "other.ledger") as session:
        ask(session, *SINGLE["groups"])
    return place


@pytest.fixture(autouse=True)
def _here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_a_release_is_verified_by_itself_and_with_its_ledger(call: Call) -> None:
    alone = call("verify", "release.json")
    assert (alone.exit_code, alone.stderr) == (0, "")
    assert "holds   bounds: each statement that ran" in alone.stdout
    assert "ε = 1 (add-remove), charged by entry 3." in alone.stdout
    assert "No ledger was compared" in alone.stdout
    head = Path("head").read_text()
    for ledger in ("visits.ledger", "ledger.jsonl"):
        for more in ((), ("--head", head)):
            found = call("verify", "release.json", "--ledger", ledger, *more)
            assert found.exit_code == 0, found.stdout
            assert "holds   ledger:" in found.stdout
            assert "No ledger" not in found.stdout


def test_the_first_step_that_is_broken_is_named_and_the_exit_code_is_2(call: Call) -> None:
    document = json.loads(Path("release.json").read_text())
    text = measurement(document)["sql"]
    wider = sealed(forged(document, lambda d: measurement(d).update(sql=text.replace("least(n, 3)", "n"))))
    Path("forged.json").write_text(json.dumps(wider))
    found = call("verify", "forged.json")
    assert found.exit_code == 2
    assert "holds   format" in found.stdout
    assert "BROKEN  bounds: the second derivation finds something else about a contribution" in found.stdout
    assert "NOT verified" in found.stdout
    other = call("verify", "release.json", "--ledger", "other.ledger")
    assert other.exit_code == 2
    assert "BROKEN  ledger: entry 1 is another one in the ledger, or not there" in other.stdout
    unknown = call("verify", "release.json", "--ledger", "visits.ledger", "--head", "ab" * 32)
    assert unknown.exit_code == 2
    assert "BROKEN  ledger: the published head is not in this ledger" in unknown.stdout


def test_json_says_the_same(call: Call) -> None:
    found = json.loads(call("verify", "release.json", "--json").stdout)
    assert (found["verified"], found["broken"], found["reason"]) == (True, None, None)
    assert found["holds"][:3] == ["format", "bounds", "sensitivity"]
    document = json.loads(Path("release.json").read_text())
    document["answer"]["rows"][0][1] += 1
    Path("forged.json").write_text(json.dumps(document))
    result = call("verify", "forged.json", "--json")
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert (found["verified"], found["broken"]) == (False, "release")
    assert found["reason"] == "the result is not the one that was stored"


def test_the_registry_is_printed_when_the_release_is_verified(call: Call) -> None:
    [found] = json.loads(call("verify", "release.json", "--registry").stdout)
    assert found["parameters"] == {"epsilon": "1/1", "delta": "0/1"}
    assert found["unit"]["is"] == ["all rows of visits with one value of uid"]
    assert found["unit"]["contribution"] == [{"groups": 2, "of_groups": 3}]
    assert found["flavor"]["definition"] == "pure differential privacy"
    assert found["life_cycle"]["data_version"] == "2026-01"
    assert len(found["out_of_scope"]) >= 5
    document = json.loads(Path("release.json").read_text())
    document["registry"][0]["parameters"]["epsilon"] = "1/10"
    Path("forged.json").write_text(json.dumps(document))
    result = call("verify", "forged.json", "--registry")
    assert result.exit_code == 2
    assert "1/10" not in result.stdout


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.json", None),
        ("text.json", b"not json"),
        ("binary.json", bytes(range(256))),
        ("twice.json", b'{"format": 1, "format": 2}'),
        ("nan.json", b'{"format": NaN}'),
        ("deep.json", b"[" * 100_000),
        ("long.json", b"9" * 5000),
    ],
)
def test_a_file_that_holds_no_certificate_is_a_wrong_request(call: Call, name: str, content: bytes | None) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    result = call("verify", name)
    assert result.exit_code == 2
    assert "json.dump(release.certificate(), file) writes one" in result.stderr


def test_a_head_without_a_ledger_and_a_ledger_that_is_none_are_said(call: Call) -> None:
    result = call("verify", "release.json", "--head", "ab" * 32)
    assert result.exit_code == 2
    assert "none was given" in result.stderr
    missing = call("verify", "release.json", "--ledger", "no.ledger")
    assert missing.exit_code == 4
    none = call("verify", "release.json", "--ledger", "release.json")
    assert none.exit_code == 4


def test_a_release_to_two_populations_says_what_each_paid(call: Call) -> None:
    with both(ledger="both.ledger") as session:
        document = asked(session, "groups")
    Path("both.json").write_text(json.dumps(document))
    found = call("verify", "both.json", "--ledger", "both.ledger")
    assert (found.exit_code, found.stderr) == (0, "")
    first, second = found.stdout.splitlines()[-2:]
    assert first.startswith("Verified: the release cost each unit of 'patients' ε = ")
    assert second == ("Verified: the release cost each unit of 'doctors' ε = 1 (add-remove), charged by entry 6.")
    assert "holds   charge: the ledger charged each population for this claim, together" in found.stdout
    entries = json.loads(call("verify", "both.json", "--registry").stdout)
    assert [entry["unit"]["protected_beside"] for entry in entries] == [["doctors"], ["patients"]]
    document["ledger"]["accounts"].reverse()
    Path("both.json").write_text(json.dumps(document))
    wrong = call("verify", "both.json", "--json")
    assert wrong.exit_code == 2
    assert json.loads(wrong.stdout)["broken"] == "account"
