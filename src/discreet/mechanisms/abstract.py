"""What every mechanism shows before it has seen any data, and how one that answers as it goes is held to one run."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

from discreet.errors import InvalidParameter
from discreet.noise.entropy import process
from discreet.privacy.event import Composed
from discreet.privacy.guarantee import decimal
from discreet.privacy.guarantee import numbered as numbered

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss
    from discreet.finite.mechanism import Mechanism as FiniteMechanism


class Mechanism(ABC):
    """A randomised release with public parameters, whose cost is known before the data is touched.

    Families add their own `release`: numbers (`Numeric`), one candidate of many (`Selection`), groups (`Threshold`).
    """

    __slots__ = ()

    @property
    @abstractmethod
    def events(self) -> Composed:
        """What one release costs, as events: valid for every value that `release` accepts."""

    @property
    def loss(self) -> PrivacyLoss:
        """What one release costs; `loss.epsilon(delta)`, `loss + loss`, `loss * 100`."""
        from discreet.accounting.loss import PrivacyLoss

        return PrivacyLoss(self.events)

    @abstractmethod
    def explain(self) -> str:
        """Return the steps of the privacy proof, with this mechanism's numbers in them."""

    def matrix(self, universe: Iterable[Any]) -> FiniteMechanism:
        """Return the mechanism on a finite universe as a stochastic matrix, for exact calculations with `dp.finite`.

        Raises:
            InvalidParameter: this mechanism has none.
        """
        raise InvalidParameter(
            f"{type(self).__name__} has no finite matrix.", hint="dp.finite.Mechanism takes any table of probabilities"
        )


def one_changed(cost: Fraction | str) -> str:
    """Return the step of a proof that says what a changed record costs at most, at twice this ε or as said."""
    most = cost if isinstance(cost, str) else f"2ε = {decimal(2 * cost)}"
    return (
        "Relation. The guarantee is for the neighbours for which Δ was computed. If these are add-remove, changing "
        f"one record is two steps and costs at most {most}."
    )


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
        """One query at a time: other threads wait, and a signal handler in the middle of a query is refused.

        Raises:
            InvalidParameter: this thread is in the middle of another query.
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
