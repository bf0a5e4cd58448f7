"""Planned uses of mechanisms: each takes exact numbers of what the meter reads, and gives noisy ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError

if TYPE_CHECKING:
    from discreet.noise.entropy import Entropy
    from discreet.plan.plan import Plan

T = TypeVar("T")

Read: TypeAlias = Callable[[str, bool], list[tuple[Any, ...]]]
"""Runs SQL on the data; with True, the text has the `$secret` parameter."""

ReadColumns: TypeAlias = Callable[[str, bool], "list[NDArray[np.int64]]"]
"""The same of whole numbers, by column."""


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
    """A planned use of a mechanism, which may be drawn once, or as often as it was paid for.

    Attributes:
        name: what a draw calls it; each has its own within a plan.
    """

    name: str

    @property
    def times(self) -> int:
        """How often it may be drawn."""
        return 1

    def read_ahead(self, exact: PrivateReads) -> None:
        """Read what its draws will need of people's rows, where it draws of these."""
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
    """What was set aside for a later stage, whose plan follows from noisy values.

    Attributes:
        uses: what that plan may draw; it refuses a plan that costs more, or that the second derivation refuses.
    """

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
        """Nothing is drawn of what is only reserved.

        Raises:
            InternalError: always.
        """
        raise InternalError(f"{self.name!r} is set aside for a later stage. The charge stands.")
