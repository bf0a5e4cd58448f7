"""Pages on PyTorch are true: their blocks run here, where torch is installed."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.house.test_docs import assert_agree, blocks
from tests.house.tree import ROOT


@pytest.mark.system
@pytest.mark.parametrize("name", ["how-to/train-a-pytorch-model.md", "exercises.md"])
def test_the_page_runs_and_prints_what_is_shown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(1)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    page, printed = ROOT / "docs" / name, None
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "text" and block.follows and printed is not None:
            assert_agree(block.text, printed, f"{page.name}:{block.line}")
        if block.language == "python":
            printed = None
        if block.language == "python" and block.comment.startswith("not run: needs torch"):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(block.text, page.name, "exec", dont_inherit=True), namespace)
            printed = out.getvalue()
