"""Runs that stay open: charged whole when they open, and sent inputs by their user until they end.

Guarantee:
    All noisy values of a run together are (ε, δ)-DP at the price that was charged when it opened, whoever chooses its
    inputs, in sight of these values and of everything else that the session answers meanwhile: the run is charged as
    one event of this price, and concurrent filters are proved for such events (docs/proofs/pipeline.md). Its data are
    those of the moment when it opened.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar

from discreet.engine.person_parts import plain
from discreet.engine.recipe import Wait
from discreet.errors import InvalidParameter

if TYPE_CHECKING:
    from discreet.engine.meter import Meter
    from discreet.engine.recipe import Running

S = TypeVar("S")
R = TypeVar("R")


class OpenRun(Generic[S, R]):
    """A run that was charged and waits for inputs (`Session.open`); close it, or use it in a `with` statement.

    It is closed by an error, with its session, and in a forked child. It is not resumed after that, and its charge
    stands. Asking it is safe among threads, one after the other.

    Attributes:
        first: the noisy values that it drew before it waited for the first time.
        result: what the recipe made of its state when it ended; None before, and where it kept none.
    """

    __slots__ = ("_at_end", "_lock", "_meter", "_process", "_running", "_waiting", "first", "result")

    def __init__(self, running: Running[S], meter: Meter, at_end: Callable[[S], R]) -> None:
        self._running, self._meter, self._at_end = running, meter, at_end
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting: Wait | None = Wait()
        self.result: R | None = None
        self.first = self._sent(None)

    @property
    def is_open(self) -> bool:
        """Whether it takes inputs."""
        return self._waiting is not None and self._process == os.getpid()

    def ask(self, given: Any = None) -> list[Any]:
        """Send an input, and return the noisy values that are drawn until the run waits again, or ends.

        Args:
            given: plain values, which are copied: numbers, text, lists, dicts and arrays.

        Raises:
            InvalidParameter: the run is closed; nothing was drawn.
            InternalError, BackendFailed: a draw failed, which closes the run.
            LedgerError: the run ended, and its state could not be stored: there is no result.
        """
        self._refuse_closed()  # before the lock, which another thread may have held at a fork
        given = plain(given)
        with self._lock:
            self._refuse_closed()
            return self._sent(given)

    def close(self) -> None:
        """End the run; `result` is what is made of the state with which it waited, where it had one.

        Raises:
            LedgerError: the state could not be stored: there is no result.
        """
        if not self.is_open:
            return
        with self._lock:
            waited = self._shut()
            self._running.close()
            if waited is not None and waited.state is not None:
                self.result = self._at_end(waited.state)

    def _refuse_closed(self) -> None:
        if not self.is_open:
            raise InvalidParameter(
                "This run is closed, and takes no input any more. Its charge stands.",
                hint="look at .result; or open another run, which is charged anew",
            )

    def _sent(self, given: Any) -> list[Any]:
        """Return the noisy values until the run waits again, or ends; whatever fails closes it."""
        drawn: list[Any] = []
        ended: list[S] = []
        try:
            step = self._step(given, ended)
            while not ended and not isinstance(step, Wait):
                noisy = self._meter.draw(step)
                drawn.append(copy.deepcopy(noisy))
                step = self._step(noisy, ended)
            self._waiting = step
        except BaseException:
            self._shut()
            raise
        for state in ended:
            self._shut()
            self.result = self._at_end(state)
        return drawn

    def _step(self, given: Any, ended: list[S]) -> Any:
        """Return what the run yields next; None where it returned."""
        try:
            return self._running.send(given)
        except StopIteration as end:
            ended.append(end.value)
            return None

    def _shut(self) -> Wait | None:
        """Forgets the data: nothing can be drawn any more."""
        waited, self._waiting = self._waiting, None
        self._meter.close()
        return waited

    def __enter__(self) -> OpenRun[S, R]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Never:
        raise TypeError("an open run holds private data and is not pickled")

    def __repr__(self) -> str:
        return f"OpenRun({'waits for an input' if self.is_open else 'closed'})"
