"""Ctrl-C while a question runs: what it means for the charge."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

from discreet.cli import output
from discreet.errors import BackendFailed

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
            f"Stopped; if the question was already charged, the charge stays in {ledger}.",
            f"`discreet budget {ledger} --history` shows what was charged.",
            as_json=as_json,
        )
        raise click.exceptions.Exit(INTERRUPTED) from None
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
