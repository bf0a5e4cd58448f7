"""Every example runs as it is, in an empty folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT

# Scripts that want something from outside: what.
NEED_ARGUMENTS = {"make_sample_data.py": "the original file of the Adult data"}
SCRIPTS = sorted(p for p in (ROOT / "examples").glob("*.py") if p.name not in NEED_ARGUMENTS)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_example_runs(script: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
