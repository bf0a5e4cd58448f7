"""The program as a test calls it, and the sample tables in an empty folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from discreet.cli import main

Call = Callable[..., Result]


@pytest.fixture
def call() -> Call:
    """Calls the program in this process."""

    def run(*args: str) -> Result:
        return CliRunner().invoke(main, list(args), prog_name="discreet")

    return run


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> Path:
    """An empty folder, which is the current one, with the sample tables in it."""
    monkeypatch.chdir(tmp_path)
    assert call("demo", "--save", ".").exit_code == 0
    return tmp_path
