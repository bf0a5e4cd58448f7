"""A line that moves while the data is asked, on a terminal, when it takes longer than a second."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

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
