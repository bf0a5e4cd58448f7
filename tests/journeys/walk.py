"""Journeys of users, scripted: commands and Python in one empty folder, with each refusal counted and kept."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from discreet.errors import DiscreetError

T = TypeVar("T")


@dataclass
class Journey:
    """One user's way, in a folder of their own.

    Attributes:
        name: who walks.
        folder: the working folder.
        refusals: what was refused so far, as it was said.
    """

    name: str
    folder: Path
    refusals: list[str] = field(default_factory=list)

    def run(self, line: str) -> str:
        """Run a command line as it is typed; return its output, or "" where it is refused."""
        program, *words = shlex.split(line)
        assert program == "discreet"
        done = subprocess.run(
            [sys.executable, "-m", "discreet", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        if done.returncode:
            self.refusals.append(done.stderr)
            return ""
        return done.stdout

    def ask(self, step: Callable[[], T]) -> T | None:
        """Return what a step in Python returns, or None where it is refused."""
        try:
            return step()
        except DiscreetError as refused:
            self.refusals.append(str(refused))
            return None

    def edit(self, file: str, *changes: tuple[str, str]) -> None:
        """Change a file as a person would, each text once."""
        place = self.folder / file
        text = place.read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new, 1)
        place.write_text(text, encoding="utf-8")

    def end(self, *, most: int) -> None:
        """Print how many refusals were met, with their first lines; fail where they are more than `most`."""
        print(f"{self.name}: {len(self.refusals)} refusals met")
        for refused in self.refusals:
            print("  " + refused.splitlines()[0])
        assert len(self.refusals) <= most
