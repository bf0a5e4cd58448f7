"""Running on private data so that a failure says nothing: the database's words may quote a cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from discreet.errors import BackendFailed

T = TypeVar("T")


def quietly(work: Callable[[], T]) -> T:
    """What the work returns.

    Raises:
        BackendFailed: it failed, for whatever reason.
        KeyboardInterrupt: it was interrupted.
    """
    interrupted = False
    try:
        return work()
    except (
        Exception
    ) as error:  # whatever it is: its words may quote a cell, and would stay reachable as the context
        interrupted = (
            type(error) is RuntimeError and str(error) == "Query interrupted"
        )  # Ctrl-C, by the database
    if interrupted:
        raise KeyboardInterrupt("The question was interrupted while it ran. Its charge stands.")
    raise BackendFailed(
        "The database failed while it ran the question. The charge stands: a failure may depend on the data.",
        hint="check that the source is still there and readable; the question can be asked again",
    )
