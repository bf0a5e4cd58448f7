from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import duckdb
import pytest

from discreet.cli import doctor
from tests.cli.conftest import Call


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def states(call: Call, *args: str) -> dict[str, str]:
    return {f["check"]: f["state"] for f in json.loads(call("doctor", "--json", *args).stdout)["checks"]}


def test_a_healthy_machine_is_exit_code_0_and_nothing_is_left_behind(call: Call) -> None:
    result = call("doctor")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "All is well" in result.stdout
    assert set(states(call).values()) <= {"ok", "absent"}
    assert list(Path().iterdir()) == []


def test_every_extra_of_the_project_is_looked_at(call: Call) -> None:
    root = Path(__file__).parents[2]
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    extras = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    named = {line.partition(" =")[0] for line in extras.splitlines() if " = [" in line}
    assert doctor.EXTRAS.keys() == named - {"all", "test"}


def test_a_missing_extra_is_no_illness(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "polars" else find(n))
    assert states(call)["[polars]"] == "absent"
    result = call("doctor")
    assert result.exit_code == 0
    assert "pip install 'discreet[polars]'" in result.stdout


def test_a_missing_core_package_is_one(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "scipy" else find(n))
    result = call("doctor", "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["healthy"] is False
    assert states(call)["scipy"] == "FAILED"


def test_a_database_that_does_not_work_is_reported(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no thread can be started")

    monkeypatch.setattr(duckdb, "connect", fail)
    result = call("doctor")
    assert result.exit_code == 4
    assert "no thread can be started" in result.stdout


def test_randomness_that_repeats_is_reported(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.noise.entropy.SystemEntropy.bytes", lambda self, n: bytes(n))
    assert states(call)["randomness"] == "FAILED"


def test_a_folder_that_cannot_be_written_is_reported(call: Call) -> None:
    assert states(call, "--ledger", "no/such/folder/x.ledger")["ledger folder"] == "FAILED"
    if os.geteuid() != 0:  # root may write everywhere
        Path("locked").mkdir(mode=0o500)
        assert states(call, "--ledger", "locked/x.ledger")["ledger folder"] == "FAILED"
