"""A line on a terminal while something takes long: with a bar where there is a limit on time, and nothing in a file."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from discreet.cli import waiting as room
from discreet.cli.waiting import waiting


class Terminal(io.StringIO):
    """An stderr that says whether it is a terminal."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


class Ticks(threading.Event):
    """Two looks at the clock, and then it is done."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 2

    def wait(self, timeout: float | None = None) -> bool:
        self.left -= 1
        return self.left < 0


def shown(monkeypatch: pytest.MonkeyPatch, at: list[float], limit: float | None, what: str = "Auditing f") -> str:
    monkeypatch.setattr(sys, "stderr", Terminal(True))
    monkeypatch.setattr("discreet.cli.waiting.time.monotonic", iter([0.0, *at]).__next__)
    room._show(what, limit, Ticks())
    found: Terminal = sys.stderr  # type: ignore[assignment]
    return found.getvalue()


def test_a_bar_shows_the_part_of_the_limit_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown(monkeypatch, [5.0, 23.0], 20.0).split("\r")
    assert lines[1] == f"Auditing f [{'#' * 5}{'.' * 15}] 5 of about 20 s "
    assert lines[2] == f"Auditing f [{'#' * 20}] 23 of about 20 s ", "a test may end some seconds after its limit"
    assert lines[3] == "\x1b[K", "the line is taken away"


def test_without_a_limit_there_are_seconds_and_long_words_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    lines = shown(monkeypatch, [1.0, 2.0], None, "Auditing " + "x" * 100).split("\r")
    assert lines[1].startswith("Auditing xxx") and lines[1].endswith(" … 1 s ")
    assert len(lines[1]) < 40


@pytest.mark.parametrize(("terminal", "quiet"), [(False, False), (True, True)])
def test_nothing_is_shown_where_no_one_looks(monkeypatch: pytest.MonkeyPatch, terminal: bool, quiet: bool) -> None:
    stderr = Terminal(terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(room, "_show", lambda what, limit, done: stderr.write("shown"))
    with waiting("Auditing f", limit=20, quiet=quiet):
        pass
    assert stderr.getvalue() == ""
