"""Every error a user can meet, in one tree.

::

    DiscreetError
    ├── PlanError                 the query cannot be answered as asked (exit code 2)
    │   ├── UnsupportedQuery      a construct that is not supported; the hint says what to write instead
    │   ├── UnknownColumn         a table, column or function that does not exist
    │   ├── MissingBounds         a public fact (range, values, caps) that the owner has to declare
    │   └── NotPrivate            no guarantee can hold for it as asked (no δ, no unit, no bound)
    ├── InvalidParameter          a parameter out of its range (also a ValueError; exit code 2)
    ├── MissingExtra              an optional package that is not installed (also an ImportError; exit code 2)
    ├── BudgetExceeded            the account cannot pay for it (exit code 3)
    ├── LedgerError               the ledger cannot be used (exit code 4)
    │   ├── LedgerBusy            another process holds it for too long
    │   └── LedgerCorrupt         its chain or its file is broken
    ├── SourceError               a data source cannot be opened; raised before anything is charged (exit code 4)
    ├── BackendFailed             the database failed after the charge (exit code 4)
    └── InternalError             two derivations of one cost disagree; nothing was charged (exit code 4)

An error is an output. After the charge its type and its text never depend on private values, and before
the charge nothing private has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MissingFact:
    """A public fact that a query needs and that nobody has said.

    Attributes:
        kind: "unit", "caps", "budget", "population", "range", "moments", "values", "groups", "delta" or "epsilon".
        what: the fact, in words.
        say: the argument that says it; capital letters stand for what a person decides.
        instead: other arguments that do as well.
        column: the column that it is about.
    """

    kind: str
    what: str
    say: str
    instead: str = ""
    column: str = ""


class DiscreetError(Exception):
    """The root of every error that this package raises on purpose: a sentence, and a hint what to do.

    `missing` names the facts that would help where some do.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, hint: str = "", missing: Sequence[MissingFact] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.missing = tuple(missing)

    def __str__(self) -> str:
        return f"{self.message}\nHint: {self.hint}" if self.hint else self.message

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows in place of the frames: the sentence and the hint."""
        return f"{type(self).__name__}: {self}".splitlines()


class PlanError(DiscreetError):
    """A query that cannot be answered as asked; nothing was charged."""


class UnsupportedQuery(PlanError):
    """A construct that is refused; `hint` says the way round."""


class UnknownColumn(PlanError):
    """A table, column or function that does not exist."""


class MissingBounds(PlanError):
    """A public fact (a range, a list of values, a cap) that the owner has to declare first."""

    @classmethod
    def of(cls, missing: Sequence[MissingFact]) -> MissingBounds:
        """Return the error that names all of these facts, each with what says it."""
        what = "; ".join(fact.what for fact in missing)
        listed = [fact.say.removeprefix("columns={")[:-1] for fact in missing if fact.say.startswith("columns={")]
        says = [
            f"{f.say} (or {f.instead})" if f.instead else f.say for f in missing if not f.say.startswith("columns={")
        ]
        hint = "; ".join(([f"columns={{{', '.join(listed)}}}"] if listed else []) + says)
        number = f"{len(missing)} public facts are" if len(missing) > 1 else "A public fact is"
        return cls(f"{number} missing: {what}.", hint=f"add {hint}", missing=missing)


class NotPrivate(PlanError):
    """A query to which no guarantee can be given as asked."""


class InvalidParameter(DiscreetError, ValueError):
    """A parameter outside its range; the message names it, says what came and what is wanted."""


class MissingExtra(DiscreetError, ImportError):
    """An optional package that this feature needs and that is not installed."""


class BudgetExceeded(DiscreetError):
    """A charge that the account cannot pay; nothing was charged and no data was read.

    `asked` and `left` are `(ε, δ)` in words, so that they can be shown as they are.
    """

    exit_code = 3

    def __init__(self, message: str, *, asked: str, left: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.asked = asked
        self.left = left


class LedgerError(DiscreetError):
    """A ledger that cannot be used: unreadable, read-only, of another account, out of disk."""

    exit_code = 4


class LedgerBusy(LedgerError):
    """A ledger that another process holds for longer than the time allowed; nothing was charged."""


class LedgerCorrupt(LedgerError):
    """A ledger whose file or hash chain is broken; it is refused, never repaired silently."""


class SourceError(DiscreetError):
    """A data source that cannot be opened; raised before anything is charged."""

    exit_code = 4


class BackendFailed(DiscreetError):
    """A database that failed after the charge; its own words are withheld, since they may quote data."""

    exit_code = 4


class InternalError(DiscreetError):
    """A contradiction inside the package, found before anything was charged. Please report it."""

    exit_code = 4


_WITHOUT_DATA = (DiscreetError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""Errors of which the words never follow from private values."""


def redacted(work: Callable[[], T], instead: Callable[[BaseException | None], BaseException]) -> T:
    """Return the result of work on private data; from an error that is raised nothing of it can be reached.

    Guarantee:
        The handlers make no call, so that no signal is handled in them: a second Ctrl-C is raised behind them, when
        neither the first error, its frames, its cause nor its context are within reach.

    Args:
        work: reads what is private.
        instead: the error to raise for that of the work, which has no frames any more; for None where its words may
            quote a cell.
    """
    failed: BaseException | None = None
    try:
        return work()
    except _WITHOUT_DATA as error:
        error.__traceback__ = error.__cause__ = error.__context__ = None
        failed = error
    except BaseException:
        failed = None
    raise instead(failed)


def __dir__() -> list[str]:
    return sorted(name for name, value in globals().items() if isinstance(value, type) and value.__module__ == __name__)
