"""What every mechanism that answers as it goes has in common: its run goes on in one place only."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from discreet.errors import InvalidParameter
from discreet.noise.entropy import process


class Run:
    """A release that is under way, with noise in it that later answers use again.

    Guarantee:
        It is charged whole when it starts. It cannot be copied or pickled, and in the child of a fork it
        refuses: two continuations of one run would answer twice from the same noise, which nothing has paid
        for. One thread at a time is answered.

    References:
        docs/proofs/sparse-vector.md, Section "One run".
    """

    __slots__ = ("_busy", "_home", "_lock")

    def __init__(self) -> None:
        self._home = process()
        self._lock = threading.RLock()
        self._busy = False

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One question at a time: other threads wait, and a signal handler in the middle of a question is refused.

        Raises:
            InvalidParameter: this thread is in the middle of another question.
        """
        with self._lock:
            if self._busy:
                raise InvalidParameter(
                    f"this {type(self).__name__} is in the middle of another query.",
                    hint="ask again when that one has ended; a signal handler cannot",
                )
            self._busy = True
            try:
                yield
            finally:
                self._busy = False

    def _stay(self) -> None:
        """Refuses where this is not the process that started the run.

        Raises:
            InvalidParameter: a fork lies in between.
        """
        if process() != self._home:
            raise InvalidParameter(
                f"this {type(self).__name__} was started by another process, which alone may go on with it.",
                hint="start a run after the fork; it is charged anew",
            )

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled; start another one, charged anew")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()
