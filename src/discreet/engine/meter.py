"""The meter: the only holder of private data and of entropy between a charge and what leaves.

Guarantee:
    Every planned use is drawn at most once, and used up before anything is read. What is given is what its mechanism
    makes of the exact numbers; nothing else of them leaves, whether a draw succeeds or fails. After any failure the
    meter is closed: the charge stands, and the error says nothing of the data (docs/proofs/pipeline.md).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Never, TypeVar

from discreet.engine.uses import PlannedUse, PrivateReads, Reserved
from discreet.errors import DiscreetError, InternalError

if TYPE_CHECKING:
    from discreet.engine.recipe import Draw, Running
    from discreet.noise.entropy import Entropy

S = TypeVar("S")

Read = Callable[[str, bool], list[tuple[Any, ...]]]
"""Runs SQL on the data; with True, the text has the `$secret` parameter."""


class Meter:
    """Draws what was paid for, and no more."""

    __slots__ = ("_exact", "_left", "_lock", "_process", "_rng", "journal")

    def __init__(self, uses: Sequence[PlannedUse], read: Read, rng: Entropy) -> None:
        self._left = {use.name: use for use in uses}
        if len(self._left) != len(uses):
            raise InternalError("Two uses of one plan have the same name. The charge stands.")
        self._exact: PrivateReads | None = PrivateReads(read)
        self._rng = rng
        self._lock = threading.Lock()
        self._process = os.getpid()
        self.journal: list[str] = []
        """What was drawn, in its order: public."""

    def draw(self, draw: Draw) -> Any:
        """The noisy values of a planned use, which is used up.

        Raises:
            InternalError: it was not paid for, was drawn already, or the meter is closed; the charge stands.
            BackendFailed: the database failed; the charge stands.
        """
        failed: BaseException | None = None
        if os.getpid() != self._process:  # before the lock, which another thread may have held at the fork
            raise InternalError("What was paid for is drawn in the process that paid. The charge stands.")
        with self._lock:
            exact, use = self._exact, self._left.pop(draw.of, None)
            if exact is None:
                raise InternalError("Nothing can be drawn any more: this run has ended. The charge stands.")
            if use is None:
                self._close()
                raise InternalError(f"{draw.of!r} was not paid for, or drawn already. The charge stands.")
            try:
                if isinstance(use, Reserved):
                    found: Any = None
                    self._left |= {inner.name: inner for inner in use.open(draw.plan)}
                else:
                    found = use.draw(exact, draw.args, self._rng)
                self.journal.append(draw.of)
            except BaseException as error:  # raised below, without the frames that hold exact numbers
                failed = _bare(error)
            if failed is not None:
                self._close()
        if failed is not None:
            raise failed
        return found

    def close(self) -> None:
        """Forgets the data: nothing can be drawn any more."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._exact is not None:
            self._exact.forget()
        self._exact = None
        self._left.clear()

    def __reduce__(self) -> Never:
        raise TypeError("a meter holds private data and is not pickled")


def follow(running: Running[S], meter: Meter) -> S:
    """Takes a run to its end, and returns its state; the meter is closed then."""
    try:
        draw = next(running)
        while True:
            draw = running.send(meter.draw(draw))
    except StopIteration as end:
        state: S = end.value
        return state
    finally:
        meter.close()


def _bare(failed: BaseException) -> BaseException:
    """An error to be raised, from which no frame that held private numbers can be reached, nor its words."""
    if isinstance(failed, KeyboardInterrupt):
        return KeyboardInterrupt("The question was interrupted while it ran. Its charge stands.")
    if isinstance(failed, Exception) and not isinstance(failed, DiscreetError):  # its words may quote a cell
        return InternalError(
            "The measurement failed. The charge stands: a failure may depend on the data.",
            hint="please report the question",
        )
    failed.__traceback__ = failed.__cause__ = failed.__context__ = None
    return failed
