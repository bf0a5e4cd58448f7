"""What is asked of the one pipeline: a public plan, a public run that draws, and what is made of the noisy values.

A recipe never holds private data. Its run is a generator of draws: each is sent the noisy values that the meter gave
for it, and what the run does next follows from these alone. So a run that is sent the same values makes the same
draws and the same result, whatever the data hold (docs/proofs/pipeline.md).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.engine.payers import Paid
    from discreet.plan.plan import Plan

S = TypeVar("S")
R = TypeVar("R", covariant=True)


@dataclass(frozen=True, slots=True)
class Draw:
    """The next noisy values that a run asks for, from public facts and noisy values alone.

    Attributes:
        of: the name of a planned use of a mechanism; it is used up.
        args: public arguments of it, such as the keys of the groups.
        plan: the plan of a later stage, for a use that was reserved for one.
    """

    of: str
    args: Any = None
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A run that stays open waits for the next input of its user, and is sent it (`open_run.py`).

    Attributes:
        state: what the ledger keeps where the run is closed while it waits; None where nothing is to be kept.
    """

    state: Any = None


Running: TypeAlias = Generator[Draw | Wait, Any, S]
"""A run: it yields draws, is sent their noisy values, and returns the state that the ledger keeps."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """When a release was drawn, and of which version of the data."""

    time: str  # the time of its charge, in UTC, as the ledger has it. It does not tell how long the data took.
    version: str | None  # the owner's label of the data; None where there was none

    def __str__(self) -> str:
        version = "without a version label" if self.version is None else f"version {self.version!r}"
        return f"drawn {self.time[:19].replace('T', ' ')} UTC, {version}"


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a result is handed with: when it was drawn, whether the ledger had it, and what proves it."""

    drawn: Drawn
    stored: bool
    paid: Paid


class Recipe(Protocol[S, R]):
    """What the pipeline needs of anything that is asked of private data."""

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        """Return the verified plan, free and without data; with `part`, at so large a part of the ε asked for.

        Raises:
            PlanError, InvalidParameter: it cannot be done as asked.
        """
        ...

    def run(self, plan: Plan) -> Running[S]:
        """Draws what was planned: public, a function of the plan and of the noisy values that it is sent."""
        ...

    def settled(self, plan: Plan, state: S) -> Plan:
        """Return the plan with what its first stage chose, where it has one."""
        ...

    def keep(self, state: S) -> dict[str, Any]:
        """Return the state as JSON, as the ledger keeps it."""
        ...

    def restore(self, plan: Plan, kept: dict[str, Any]) -> S:
        """Return what `keep` wrote.

        Raises:
            LedgerError: another version of discreet wrote it.
        """
        ...

    def build(self, plan: Plan, state: S, receipt: Receipt) -> R:
        """Return the result, from a settled plan and a state: post-processing, and all that a replay does."""
        ...

    def answers(self, plan: Plan, state: S, result: Any) -> Mapping[str, dict[str, Any]]:
        """Return the answers in a result as JSON, by name, of which the ledger keeps digests."""
        ...
