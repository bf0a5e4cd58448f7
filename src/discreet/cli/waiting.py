"""While the data is asked: a line that moves on a terminal, and Ctrl-C, which says what it means for the charge."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

from discreet.cli import output
from discreet.errors import BackendFailed

_WIDTH = 20  # characters of a bar


@contextmanager
def waiting(what: str, *, limit: float | None = None, quiet: bool = False) -> Iterator[None]:
    """Show on stderr that `what` is going on, from the second second on; nothing where no one is looking.

    Args:
        what: the words before the seconds.
        limit: the seconds that it may take, about: a bar shows how many of them are over.
        quiet: whether nothing is shown.
    """
    if quiet or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_show, args=(what, limit, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(what: str, limit: float | None, done: threading.Event) -> None:
    start = time.monotonic()
    shown = False
    while not done.wait(1.0 if not shown else 0.25):
        shown = True
        rest = _progress(time.monotonic() - start, limit)
        room = max(shutil.get_terminal_size().columns - len(rest) - 1, 0)
        sys.stderr.write(f"\r{what[:room]}{rest}")
        sys.stderr.flush()
    if shown:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _progress(seconds: float, limit: float | None) -> str:
    """Return the seconds, with a bar where there is a limit; a test may end before it, or some seconds after."""
    if limit is None:
        return f" … {seconds:.0f} s "
    full = round(_WIDTH * min(seconds / limit, 1.0))
    return f" [{'#' * full}{'.' * (_WIDTH - full)}] {seconds:.0f} of about {limit:g} s "


INTERRUPTED = 130  # 128 + SIGINT, as shells have it


@contextmanager
def charging(ledger: str, *, as_json: bool) -> Iterator[None]:
    """Where a charge may be written: Ctrl-C here says how to find out whether it was.

    A database that is interrupted in its own code reports a failure of its own in the place of
    KeyboardInterrupt, so the signal is noted beside it.
    """
    pressed = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()  # only there can signals be handled
    before = signal.signal(signal.SIGINT, note) if main else None
    try:
        yield
    except (KeyboardInterrupt, BackendFailed) as error:
        if isinstance(error, BackendFailed) and not pressed:
            raise
        output.failure(
            "Interrupted",
            f"Stopped; if the query was already charged, the charge stays in {ledger}.",
            f"`discreet budget {ledger} --history` shows what was charged.",
            as_json=as_json,
        )
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
