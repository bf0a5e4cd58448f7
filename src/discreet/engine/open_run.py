"""Runs that stay open or go on: charged whole when they open, and sent inputs by their user until they end, or broken
off and gone on with, by draws that are noted in the ledger.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Never, Protocol, TypeVar

from discreet.engine.meter import PlannedUse, PrivateReads
from discreet.engine.person_parts import plain
from discreet.engine.recipe import Wait
from discreet.errors import InvalidParameter

if TYPE_CHECKING:
    from discreet.engine.meter import Meter
    from discreet.engine.recipe import Running
    from discreet.ledger.account import Account
    from discreet.ledger.entry import Entry
    from discreet.noise.entropy import Entropy


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


AHEAD = 16  # how many draws are noted at once


class StepRecipe(Protocol):
    """What a recipe needs whose run can go on: one part, all of whose draws are independent of those before."""

    @property
    def goes_on(self) -> bool:
        """Whether it keeps what it needs to go on."""
        ...

    @property
    def together(self) -> int:
        """How many draws are priced together, as a pass of which each person is in one draw: no part of it is left."""
        ...

    def begin(self, charge: int, begun: int) -> None:
        """Take note, before `run`, of which charge pays, and how many of its draws were begun before.

        Raises:
            InvalidParameter: what is needed to go on is not there.
        """
        ...


@dataclass
class StepRun:
    """A run of many draws as the ledger knows it: they are noted there, in blocks, before they are made.

    Guarantee:
        Over all processes together a charged run makes no more draws than were charged: a block is noted durably before
        its first draw, and only by who knows all blocks before it.
    """

    account: Account  # who pays
    recipe: StepRecipe  # what runs
    charge: Entry | None = None  # what paid for it before, where it was broken off
    begun: int = 0  # how many draws were begun, or go together with those; they are not made again
    noted: int = 0  # how many the ledger has
    _made: int = field(default=0, init=False)

    @classmethod
    def of(cls, account: Account, recipe: Any, identity: str, *, fresh: bool) -> StepRun:
        """Return a new run, or the last one of this identity that has no release.

        Raises:
            InvalidParameter: it cannot go on; nothing was charged.
        """
        found = account.broken_off(identity) if recipe.goes_on and not fresh else None
        if found is None:
            return cls(account, recipe)
        if account.people is not None:
            raise InvalidParameter(
                "this run was broken off, and people with budgets of their own were charged for it: who takes part in "
                "the rest cannot be told.",
                hint="fresh=True, which is charged anew",
            )
        charge, noted = found
        begun = -(-noted // recipe.together) * recipe.together
        recipe.begin(charge.seq, begun)
        return cls(account, recipe, charge, begun, noted)

    def uses(self, planned: Sequence[PlannedUse], charge: Entry) -> list[PlannedUse]:
        """Return what may be drawn now that this charge pays: what was not begun before, and noted before it is."""
        (use,) = planned
        if self.charge is None:
            self.recipe.begin(charge.seq, 0)
        if not self.recipe.goes_on:
            return [use]
        self._made = self.begun
        return [NotedUse(use.name, use, self, charge.seq)] if use.times > self.begun else []

    def note(self, charge: int, times: int) -> None:
        """Note a draw before it is made, with those that follow."""
        if self._made >= self.noted:
            upto = min(self._made + AHEAD, times)
            self.account.begin(charge, self.noted, upto)
            self.noted = upto
        self._made += 1


@dataclass(frozen=True, slots=True)
class NotedUse(PlannedUse):
    """A use whose draws are noted before they are made."""

    inner: PlannedUse  # the use
    run: StepRun  # whose draws are counted
    charge: int  # the number of the charge that pays

    @property
    def times(self) -> int:
        return self.inner.times - self.run.begun

    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> Any:
        self.run.note(self.charge, self.inner.times)
        return self.inner.draw(exact, args, rng)
