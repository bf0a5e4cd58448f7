"""Checkpoints: what is public of a run, and beside it a file that says how many steps were begun.

A checkpoint holds tensors and plain values, and reading it runs no code. It has no key, no place of a row, no noise.
What a run with correlated noise goes on with is private: it lies beside the checkpoint, readable by its owner alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from discreet.errors import InvalidParameter

VERSION = 1
AHEAD = 16
"""How many steps are noted as begun at once, before the first of them."""

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


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


def write_secret(path: Path, run: str, begun: int, content: Any) -> None:
    """Write what a run goes on with beside its checkpoint, in a file of mode 0600."""
    whole = {"version": VERSION, "run": run, "begun": begun, "content": _plain(content, np.ndarray, torch.from_numpy)}
    _durable(_secret(path), lambda file: torch.save(whole, file), mode=0o600)


def read_secret(path: Path, run: str, begun: int) -> Any:
    """Return what a run goes on with after the step it was written for.

    Raises:
        InvalidParameter: later steps were begun, or the file is missing, damaged, or of another step.
    """
    if noted(path, run) != begun:
        raise InvalidParameter(
            f"{path} is older than the last step that was begun: correlated noise cannot go on from there.",
            hint="begin a new run; save after each step that may be the last",
        )
    found: Any = None
    with contextlib.suppress(Exception):  # whatever a damaged file raises
        found = torch.load(_secret(path), weights_only=True)
    if not isinstance(found, dict) or [found.get(x) for x in ("version", "run", "begun")] != [VERSION, run, begun]:
        raise InvalidParameter(
            f"{_secret(path)} is missing, damaged, or of another step: correlated noise goes on with it.",
            hint="keep it beside the checkpoint, readable by you alone",
        )
    return _plain(found["content"], torch.Tensor, lambda x: x.numpy())


def forget_secret(path: Path) -> None:
    """Remove what a run goes on with, as it has gone on."""
    _secret(path).unlink(missing_ok=True)


def _plain(value: Any, kind: type, turned: Any) -> Any:
    """Return nested tuples with each array turned into what files hold, or back."""
    if isinstance(value, tuple):
        return tuple(_plain(x, kind, turned) for x in value)
    return turned(value) if isinstance(value, kind) else value


def _secret(path: Path) -> Path:
    return path.with_name(path.name + ".secret")


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".begun")


def _line(run: str, begun: int) -> str:
    text = f"{run} {begun}"
    return f"{text} {hashlib.sha256(text.encode()).hexdigest()}\n"


def _durable(path: Path, fill: Any, mode: int = 0o666) -> None:
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)  # an older one would keep its mode
    with os.fdopen(os.open(new, _FLAGS, mode), "wb") as file:
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
