"""The meter and the planned uses that it draws: the only holder of private data and entropy after a charge.

Guarantee:
    Every planned use is drawn at most as often as it was charged, and used up before anything is read. What is given
    is what its mechanism makes of the exact numbers; nothing else of them leaves, whether a draw succeeds or fails.
    After any failure the meter is closed: the charge stands, and the error says nothing of the data
    (docs/proofs/pipeline.md).
"""

from __future__ import annotations

import datetime as dt
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Never, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.catalog.types import Type
from discreet.engine.payers import after_charge
from discreet.engine.recipe import Draw, Wait
from discreet.errors import InternalError

if TYPE_CHECKING:
    from discreet.catalog.schema import Scalar
    from discreet.engine.recipe import Running
    from discreet.noise.entropy import Entropy
    from discreet.plan.plan import Plan

S = TypeVar("S")
T = TypeVar("T")

Read: TypeAlias = Callable[[str, bool], list[tuple[Any, ...]]]
"""Runs SQL on the data; with True, the text has the `$secret` parameter."""

ReadColumns: TypeAlias = Callable[[str, bool], "list[NDArray[np.int64]]"]  # the same of whole numbers, by column


class PrivateReads:
    """What is read of the data, each thing once. Private: only the meter and the uses that it draws hold it."""

    __slots__ = ("_columns", "_kept", "read")

    def __init__(self, read: Read, columns: ReadColumns | None = None) -> None:
        """Read through these.

        Args:
            read: runs SQL, and gives its rows.
            columns: runs SQL of whole numbers, and gives its columns; left out, they are made of the rows.
        """
        self.read = read
        self._columns = columns
        self._kept: dict[Hashable, Any] = {}

    def once(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return what was found before under this key; else it is found now."""
        if key not in self._kept:
            self._kept[key] = find()
        found: T = self._kept[key]
        return found

    def columns(self, text: str, keyed: bool, width: int) -> list[NDArray[np.int64]]:
        """Return the `width` columns of a statement of whole numbers."""
        if self._columns is not None:
            return self._columns(text, keyed)
        rows = self.read(text, keyed)
        return list(np.array(rows, np.int64).reshape(len(rows), width).T)

    def forget(self) -> None:
        """Drop everything that was read, and read no more."""
        self._kept.clear()
        self.read, self._columns = _ended, None


def _ended(text: str, keyed: bool) -> list[tuple[Any, ...]]:
    raise InternalError("Nothing is read any more: this run has ended. The charge stands.")


@dataclass(frozen=True, slots=True)
class PlannedUse(ABC):
    """A planned use of a mechanism, which may be drawn once, or as often as it was paid for."""

    name: str  # what a draw calls it; each has its own within a plan

    @property
    def times(self) -> int:
        """How often it may be drawn."""
        return 1

    def read_ahead(self, exact: PrivateReads) -> None:
        """Read all that its draws will need, where a run stays open: the data of one moment."""
        return

    @abstractmethod
    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> Any:
        """Return the noisy values of the exact ones; nothing else of these may leave, whatever they are.

        Args:
            exact: what is read. Private.
            args: public.
            rng: the noise.
        """


@dataclass(frozen=True, slots=True)
class Reserved(PlannedUse):
    """What was set aside for a later stage, whose plan follows from noisy values."""

    # what that plan may draw; it refuses a plan that costs more, or that the second derivation refuses
    uses: Callable[[Plan], Sequence[PlannedUse]]

    def open(self, plan: Plan | None) -> Sequence[PlannedUse]:
        """Return the uses of the later stage's plan.

        Raises:
            InternalError: there is none, or it may not be run for what was set aside.
        """
        if plan is None:
            raise InternalError(f"{self.name!r} needs the plan of a later stage. The charge stands.")
        return self.uses(plan)

    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> Any:
        """Nothing is drawn of what is only reserved. Raises InternalError: always."""
        raise InternalError(f"{self.name!r} is set aside for a later stage. The charge stands.")


@dataclass(frozen=True, slots=True)
class FedUse(PlannedUse):
    """The value of a result, which the statements that are read from then on have as a parameter: no draw."""

    kind: Type  # its type
    values: dict[str, Scalar]  # the parameters of statements

    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> None:
        plain = args is None or type(args) is _CELLS[self.kind]  # another class would be handed private cells
        if not plain:
            raise InternalError("A result that is fed back is a plain value of its type. The charge stands.")
        self.values[self.name] = args


_CELLS: dict[Type, type] = {
    Type.BOOL: bool,
    Type.INT: int,
    Type.REAL: float,
    Type.TEXT: str,
    Type.DATE: dt.date,
    Type.TIMESTAMP: dt.datetime,
}


class Meter:
    """Draws what was paid for, and no more."""

    __slots__ = ("_exact", "_left", "_lock", "_process", "_rng", "journal")

    def __init__(
        self, uses: Sequence[PlannedUse], read: Read, rng: Entropy, columns: ReadColumns | None = None
    ) -> None:
        self._left: dict[str, tuple[PlannedUse, int]] = {}
        self._plan(uses)
        self._exact: PrivateReads | None = PrivateReads(read, columns)
        self._rng = rng
        self._lock = threading.Lock()
        self._process = os.getpid()
        self.journal: list[str] = []
        """What was drawn, in its order: public."""

    def draw(self, draw: Draw) -> Any:
        """Return the noisy values of a planned use, which is used up.

        Raises:
            InternalError: it was not paid for, was drawn already, or the meter is closed; the charge stands.
            BackendFailed: the database failed; the charge stands.
        """
        self._refuse_child()  # before the lock, which another thread may have held at the fork
        with self._lock:
            exact, (use, left) = self._exact, self._left.pop(draw.of, (None, 0))
            if exact is None:
                raise InternalError("Nothing can be drawn any more: this run has ended. The charge stands.")
            try:
                found = after_charge(lambda: self._drawn(use, left, exact, draw))
                self._refuse_child()  # code of a recipe may have forked in between
                self.journal.append(draw.of)
            except BaseException:  # by now it tells nothing
                self._close()
                raise
        return found

    def _refuse_child(self) -> None:
        if os.getpid() != self._process:
            raise InternalError("What was paid for is drawn in the process that paid. The charge stands.")

    def read_ahead(self) -> None:
        """Read what the draws will need of people's rows: the data of one moment, and none later.

        Raises:
            InternalError, BackendFailed: as `draw`.
        """
        with self._lock:
            exact = self._exact
            assert exact is not None
            try:
                after_charge(lambda: self._read_all(exact))
            except BaseException:
                self._close()
                raise

    def _read_all(self, exact: PrivateReads) -> None:
        for use, _ in self._left.values():
            use.read_ahead(exact)

    def _drawn(self, use: PlannedUse | None, left: int, exact: PrivateReads, draw: Draw) -> Any:
        if use is None:
            raise InternalError(f"{draw.of!r} was not paid for, or drawn already. The charge stands.")
        if left > 1:
            self._left[draw.of] = use, left - 1
        if isinstance(use, Reserved):
            self._plan(use.open(draw.plan))
            return None
        return use.draw(exact, draw.args, self._rng)

    def _plan(self, uses: Sequence[PlannedUse]) -> None:
        """Let these be drawn, each as often as it was planned."""
        for use in uses:
            if use.name in self._left:
                raise InternalError("Two uses of one plan have the same name. The charge stands.")
            self._left[use.name] = use, use.times

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


def drawn(draws: Iterable[Draw]) -> Running[list[Any]]:
    """Several draws, one after the other."""
    found = []
    for draw in draws:
        noisy = yield draw
        found.append(noisy)
    return found


def follow(running: Running[S], meter: Meter) -> S:
    """Take a run to its end, and returns its state; the meter is closed then."""
    try:
        step = next(running)
        while not isinstance(step, Wait):
            step = running.send(meter.draw(step))
        raise InternalError(
            "This run waits for inputs, and it was not opened for any. The charge stands.",
            hint="session.open(recipe, trusted_code=True)",
        )
    except StopIteration as end:
        state: S = end.value
        return state
    finally:
        meter.close()
