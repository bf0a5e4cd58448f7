"""A slice of benchmarks/fuzz/files.py: random files of every kind, rewritten between queries."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.fuzz import files


@pytest.mark.parametrize("block", range(3))
def test_nothing_breaks_on_random_files_that_are_rewritten(block: int, tmp_path: Path) -> None:
    assert [line for seed in range(20 * block, 20 * block + 20) for line in files.broken(seed, tmp_path)] == []


def test_a_laxer_reading_of_ids_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = files.canonical

    def lax(spelling: str | None, *, whole: bool) -> str | int | None:
        return plain((spelling or "").replace("_", ""), whole=whole)

    monkeypatch.setattr(files, "canonical", lax)
    assert any(line for seed in range(40) for line in files.broken(seed, tmp_path))
