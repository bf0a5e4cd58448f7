"""The documentation site builds from a copy of the repository, without a warning, and has its pages and its search."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from discreet.cli.program import COMMANDS
from tests.house.tree import ROOT


def test_the_site_builds_without_a_warning_and_has_its_references_and_search(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "docs.site", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    commands = (tmp_path / "reference" / "commands.html").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"discreet {name}" not in commands] == []
    api = (tmp_path / "reference" / "python" / "discreet.html").read_text(encoding="utf-8")
    assert 'id="discreet.connect"' in api
    assert "Parameters" in api  # the Args section of a docstring
    assert "clinic_visits" in (tmp_path / "searchindex.js").read_text(encoding="utf-8")
    for page in ("index", "analysts", "owners", "engineers", "students", "glossary", "comparison"):
        text = (tmp_path / f"{page}.html").read_text(encoding="utf-8")
        assert not re.search(r'<(script|link)[^>]* (src|href)="https?://', text), "the site works offline"
