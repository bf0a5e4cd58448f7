"""Every order in which several clients of one ledger can take their turns, with one of them dying anywhere, or not.

A run follows from one number: at each turn, what is left of it modulo the number of possibilities says which of them
comes to pass. So every run can be had again, and all of them can be counted through.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias, TypeVar

from discreet.errors import BudgetExceeded, InternalError
from discreet.ledger.account import Account
from discreet.ledger.ledger import Ledger
from discreet.ledger.memory import MemoryStore
from discreet.ledger.store import Transaction
from discreet.privacy.guarantee import Budget
from tests.crashes.workload import charge_of, spent_of

T = TypeVar("T")

Choose: TypeAlias = Callable[[int], int]
"""Picks one of so many possibilities."""

Client: TypeAlias = Callable[["Seen"], None]
"""What a client does, with what it has seen so far."""


class _Died(BaseException):
    """The client ends here, in the middle of what it does."""


class Choices:
    """The choices of one run, from a number; beyond it, the first possibility always."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.made: list[tuple[int, int]] = []

    def __call__(self, options: int) -> int:
        """The next choice."""
        self._left, choice = divmod(self._left, options)
        self.made.append((choice, options))
        return choice

    @property
    def number(self) -> int:
        """The number from which this run follows."""
        found = 0
        for choice, options in reversed(self.made):
            found = found * options + choice
        return found

    def following(self) -> int | None:
        """The number of the run after this one; None after the last."""
        made = list(self.made)
        while made and made[-1][0] + 1 == made[-1][1]:
            made.pop()
        if not made:
            return None
        choice, _ = made.pop()
        following, weight = 0, 1
        for taken, among in made:
            following, weight = following + taken * weight, weight * among
        return following + (choice + 1) * weight


@dataclass(slots=True)
class _Turn:
    """A client's place in the order: it runs only between `go` and `done`."""

    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    done: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    wants_alone: bool = False
    dies: bool = False
    ended: bool = False
    failed: BaseException | None = None


class Turns:
    """Lets one client run at a time, from one pause to the next."""

    def __init__(self, choose: Choose, *, deaths: int) -> None:
        self._choose = choose
        self._deaths = deaths
        self._turns: dict[int, _Turn] = {}
        self._alone: int | None = None

    def run(self, clients: Sequence[Callable[[], None]]) -> None:
        """Run all clients to their ends.

        Raises:
            InternalError: those that are left wait for each other.
        """
        turns = [_Turn() for _ in clients]
        threads = [
            threading.Thread(target=self._live, args=(turn, client), daemon=True)
            for turn, client in zip(turns, clients, strict=True)
        ]
        for thread in threads:
            thread.start()
        while left := [t for t in turns if not t.ended]:
            able = [t for t in left if not (t.wants_alone and self._alone is not None)]
            if not able:
                raise InternalError("all clients wait for each other.")
            # whoever is able goes on, or dies where it stands
            options = len(able) * (2 if self._deaths else 1)
            choice = self._choose(options) if options > 1 else 0
            turn = able[choice % len(able)]
            if choice >= len(able):
                turn.dies, self._deaths = True, self._deaths - 1
            turn.go.release()
            turn.done.acquire()
        for thread in threads:
            thread.join()
        for turn in turns:
            if turn.failed is not None:
                raise turn.failed

    def pause(self) -> None:
        """The client that runs waits for its next turn, and may die of it."""
        turn = self._turns.get(threading.get_ident())
        if turn is None:  # nobody's turn: what is looked at before and after
            return
        turn.done.release()
        turn.go.acquire()
        if turn.dies:
            raise _Died

    def alone(self, work: Callable[[], T]) -> T:
        """Work that no other client may do at the same time."""
        own = threading.get_ident()
        if own not in self._turns:
            return work()
        turn = self._turns[own]
        turn.wants_alone = True
        self.pause()
        turn.wants_alone, self._alone = False, own
        try:
            return work()
        finally:
            self._alone = None

    def _live(self, turn: _Turn, client: Callable[[], None]) -> None:
        self._turns[threading.get_ident()] = turn
        turn.go.acquire()
        try:
            if not turn.dies:
                client()
        except _Died:
            pass
        except BaseException as error:
            turn.failed = error
        finally:
            turn.ended = True
            turn.done.release()


class PausingStore(MemoryStore):
    """A store in memory whose clients pause before and after each transaction, and before each commit."""

    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns

    def read(self, work: Callable[[Transaction], T]) -> T:
        """What the work makes of one moment, before and after which others may have their turns."""
        self._turns.pause()
        return super().read(work)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """What the work returns; others may read before it becomes the store's, and do anything after."""

        def pausing(transaction: Transaction) -> T:
            result = work(transaction)
            self._turns.pause()
            return result

        result = self._turns.alone(lambda: super(PausingStore, self).write(pausing))
        self._turns.pause()
        return result


@dataclass(slots=True)
class Seen:
    """What clients were told.

    Attributes:
        account: of which they ask.
        charged: ε that was acknowledged.
        answered: the answers that were handed out: question and release.
    """

    account: Account
    charged: Fraction = Fraction(0)
    answered: list[tuple[str, object]] = field(default_factory=list)


def asks(question: str, epsilon: Fraction) -> Client:
    """A client that asks a question as a session does: the stored answer, or else charge, draw, store."""

    def client(seen: Seen) -> None:
        if (stored := seen.account.find(question)) is not None:
            seen.answered.append((question, stored))
            return
        try:
            entry = seen.account.charge(question, charge_of(epsilon), note={})
        except BudgetExceeded:
            return
        seen.charged += epsilon
        release = {"of": entry.seq}
        seen.account.store(question, entry.seq, release)
        seen.answered.append((question, release))

    return client


def twice(client: Client) -> Client:
    """A client that does the same again."""

    def again(seen: Seen) -> None:
        client(seen)
        client(seen)

    return again


HALF = Fraction(1, 2)

SCENARIOS: dict[str, tuple[Budget, tuple[Client, ...], int]] = {
    "two ask the same": (Budget(2), (asks("a", HALF), asks("a", HALF)), 1),
    "two ask, one can pay": (Budget("0.7"), (asks("a", HALF), asks("b", HALF)), 1),
    "one asks twice beside another": (Budget(2), (twice(asks("a", HALF)), asks("a", HALF)), 1),
    "three ask, two can pay": (Budget(1), (asks("a", HALF), asks("b", HALF), asks("a", HALF)), 0),
}
"""Name → the budget, the clients, and how many of them may die."""


def run(scenario: str, number: int) -> tuple[Choices, list[str]]:
    """One run of a scenario: the choices that were made, and what is wrong afterwards, in sentences."""
    budget, clients, deaths = SCENARIOS[scenario]
    choices = Choices(number)
    turns = Turns(choices, deaths=deaths)
    with Ledger(PausingStore(turns)) as ledger:
        seen = Seen(ledger.open_account("people", budget))
        turns.run([lambda client=client: client(seen) for client in clients])  # type: ignore[misc]
        return choices, list(_faults(ledger, seen))


def every_run(scenario: str, *, most: int | None = None) -> Iterator[tuple[int, list[str]]]:
    """All runs of a scenario, or the first so many: the number of each, and what is wrong after it."""
    number: int | None = 0
    for _ in itertools.count() if most is None else range(most):
        if number is None:
            return
        choices, wrong = run(scenario, number)
        yield choices.number, wrong
        number = choices.following()


def _faults(ledger: Ledger, seen: Seen) -> Iterator[str]:
    yield from ledger.verify().problems
    account = seen.account
    spent, budget = spent_of(account), account.budget
    if not seen.charged <= spent <= budget.epsilon:
        yield f"{seen.charged} was acknowledged, {spent} is told, and the budget is {budget.epsilon}"
    if account.remaining.epsilon != budget.epsilon - spent:
        yield "the tally is not the sum of the charges"
    paid = {entry.seq: entry.question for entry in account.history() if entry.kind == "charge"}
    for question, release in seen.answered:
        if not isinstance(release, dict) or paid.get(release.get("of", 0)) != question:
            yield f"a result to {question!r} was handed out that no charge paid for"
