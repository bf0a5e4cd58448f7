"""Planned uses of mechanisms: each takes exact numbers of what the meter reads, and gives noisy ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.errors import InternalError

if TYPE_CHECKING:
    from discreet.noise.entropy import Entropy
    from discreet.plan.plan import Plan

T = TypeVar("T")


class PrivateReads:
    """What is read of the data, each thing once. Private: only the meter and the uses that it draws hold it."""

    __slots__ = ("_kept", "read")

    def __init__(self, read: Callable[[str, bool], list[tuple[Any, ...]]]) -> None:
        self.read = read
        self._kept: dict[Hashable, Any] = {}

    def once(self, key: Hashable, find: Callable[[], T]) -> T:
        """What was found before under this key; else it is found now."""
        if key not in self._kept:
            self._kept[key] = find()
        found: T = self._kept[key]
        return found

    def forget(self) -> None:
        """Drops everything that was read, and reads no more."""
        self._kept.clear()
        self.read = _ended


def _ended(text: str, keyed: bool) -> list[tuple[Any, ...]]:
    raise InternalError("Nothing is read any more: this run has ended. The charge stands.")


@dataclass(frozen=True, slots=True)
class PlannedUse(ABC):
    """One planned use of a mechanism, which may be drawn once.

    Attributes:
        name: what a draw calls it; each has its own within a plan.
    """

    name: str

    @abstractmethod
    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> Any:
        """The noisy values of the exact ones; nothing else of these may leave, whatever they are.

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
        """The uses of the later stage's plan.

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
