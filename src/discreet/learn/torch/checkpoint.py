"""Checkpoints: what is public of a run, and beside it a file that says how many steps were begun.

A checkpoint holds tensors and plain values, and reading it runs no code. It has no key, no place of a row, no noise.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import torch

from discreet.errors import InvalidParameter

VERSION = 1
AHEAD = 16
"""How many steps are noted as begun at once, before the first of them."""


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint, whole or not at all."""
    _durable(path, lambda file: torch.save({"version": VERSION, **content}, file))


def read(path: Path) -> dict[str, Any]:
    """Return the content of a checkpoint.

    Raises:
        InvalidParameter: there is none, or another version wrote it.
    """
    try:
        found = torch.load(path, weights_only=True)
    except Exception:
        raise InvalidParameter(f"{path} is no checkpoint that can be read.", hint="t.save(path) writes one") from None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise InvalidParameter(f"{path} is no checkpoint of this version of discreet.")
    return found


def note(path: Path, run: str, begun: int) -> None:
    """Note beside a checkpoint, durably, how many steps of a run were begun."""
    _durable(_beside(path), lambda file: file.write(_line(run, begun).encode()))


def noted(path: Path, run: str) -> int:
    """Return how many steps of a run were begun.

    Raises:
        InvalidParameter: the file beside the checkpoint is missing, damaged, or of another run.
    """
    beside = _beside(path)
    try:
        line = beside.read_text(encoding="utf-8")
        begun = int(line.split(" ")[1])
    except (OSError, ValueError, IndexError):
        begun = -1
        line = ""
    if begun < 0 or line != _line(run, begun):
        raise InvalidParameter(
            f"{beside} is missing, damaged, or of another run: it says how many steps were begun since.",
            hint="keep it beside the checkpoint",
        )
    return begun


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".begun")


def _line(run: str, begun: int) -> str:
    text = f"{run} {begun}"
    return f"{text} {hashlib.sha256(text.encode()).hexdigest()}\n"


def _durable(path: Path, fill: Any) -> None:
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        fill(file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
