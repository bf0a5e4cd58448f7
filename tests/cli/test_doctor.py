from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
from collections.abc import Callable
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
    assert doctor.EXTRAS.keys() == named - {"all", "docs", "test"}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have packages of other versions than there are; None is not installed."""
    true = importlib.metadata.version

    def pretend(**versions: str | None) -> None:
        def version(name: str) -> str:
            found = versions.get(name.replace("-", "_"), "")
            if found is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return found or true(name)

        monkeypatch.setattr(importlib.metadata, "version", version)

    return pretend


def test_a_missing_extra_is_no_illness(call: Call, installed: Callable[..., None]) -> None:
    installed(polars=None)
    assert states(call)["[polars]"] == "absent"
    result = call("doctor")
    assert result.exit_code == 0
    assert "pip install 'discreet[polars]'" in result.stdout


def test_a_missing_core_package_is_one(call: Call, installed: Callable[..., None]) -> None:
    installed(scipy=None)
    result = call("doctor", "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["healthy"] is False
    assert states(call)["scipy"] == "FAILED"


def test_a_checkout_that_is_not_installed_is_named(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    true = importlib.metadata.distribution

    def distribution(name: str) -> importlib.metadata.Distribution:
        if name == "discreet":
            raise importlib.metadata.PackageNotFoundError(name)
        return true(name)

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    found = {"discreet": "FAILED", "randomness": "ok", "database": "ok", "ledger folder": "ok"}
    assert states(call) == found
    result = call("doctor")
    assert result.exit_code == 4
    assert "pip install ." in result.stdout


def test_every_version_is_compared_with_what_the_package_declares(
    call: Call, installed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = {line.partition(";")[0] for line in importlib.metadata.requires("discreet") or []}
    extras = {"altair": "plots", "vl-convert-python": "plots", "pandas": "pandas", "polars": "polars"}
    extras |= {"pg8000": "postgres", "pyarrow": "arrow", "scikit-learn": "learn"}
    for name in ("click", "cryptography", "duckdb", "numpy", "scipy", "sqlglot", *extras):
        installed(**{name.replace("-", "_"): "0.9.rc1"})
        (line,) = {x for x in declared if re.match(rf"{name}[<>=]", x)}
        (bound,) = re.findall(r">=[\d.]+", line)
        check = f"[{extras[name]}]" if name in extras else name
        assert states(call)[check] == ("unfit" if name in extras else "FAILED")
        result = call("doctor")
        assert result.exit_code == (0 if name in extras else 4)
        assert f"0.9.rc1, not {bound}: pip install '{line}'" in result.stdout
    installed(pg8000="2.0")
    assert states(call)["[postgres]"] == "unfit"
    monkeypatch.setattr(platform, "python_version", lambda: "3.10.14")
    assert "3.10.14, not >=3.11: make an environment with Python >=3.11" in call("doctor").stdout


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("2.0.0", ">=2.0", True),
        ("2", ">=2.0", True),
        ("2.0.post1", ">=2.0", True),
        ("2.0.0rc1", ">=2.0", False),
        ("2.1.dev3", ">=2.0", True),
        ("1.10", ">=1.9", True),
        ("1.9.9", ">=1.10", False),
        ("0.9", ">=0.10", False),
        ("10", ">=9.9", True),
        ("1.31.6", ">=1.31,<2", True),
        ("2.0", ">=1.31,<2", False),
        ("1.30.9", "<2,>=1.31", False),
        ("2.4.6+cpu", ">=2.4.6", True),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, wanted: str, fits: bool) -> None:
    assert (doctor._unfit(version, wanted) == "") is fits


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
    said = " ".join(call("doctor", "--ledger", "no/such/folder/x.ledger").stdout.split())
    assert f"there is no folder {Path('no/such/folder').absolute()}: make it, or name another one with --ledger" in said
    assert "FileNotFoundError" not in said
    assert list(Path().iterdir()) == []
    if os.geteuid() != 0:  # root may write everywhere
        Path("locked").mkdir(mode=0o500)
        assert states(call, "--ledger", "locked/x.ledger")["ledger folder"] == "FAILED"
