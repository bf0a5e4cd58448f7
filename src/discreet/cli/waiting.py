"""A line that moves while the data is asked, on a terminal, when it takes longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def waiting(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Show on stderr that `what` is going on, from the second second on; nothing where no one is looking."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_show, args=(what, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(what: str, done: threading.Event) -> None:
    start = time.monotonic()
    shown = False
    while not done.wait(1.0 if not shown else 0.25):
        shown = True
        sys.stderr.write(f"\r{what} … {time.monotonic() - start:.0f} s ")
        sys.stderr.flush()
    if shown:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
