"""The page about ledgers in PostgreSQL: its commands run, against a server, and print what is shown."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.house.test_docs import assert_agree, blocks, run
from tests.house.tree import ROOT, name_of
from tests.postgres import Server

PAGE = ROOT / "docs" / "how-to" / "keep-the-ledger-in-postgresql.md"


def test_the_commands_of_the_page_run_and_print_what_is_shown(
    postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LEDGER", postgres.url())
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    namespace: dict[str, Any] = {}
    printed, ran = None, 0
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        if block.language == "text" and block.follows and printed is not None:
            assert_agree(block.text, printed, f"{name_of(PAGE)}:{block.line}")
        printed = None
        if block.comment == "run with PostgreSQL":
            printed, ran = run(dataclasses.replace(block, comment="run"), PAGE, namespace), ran + 1
    assert ran == 3
