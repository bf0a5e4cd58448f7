"""Runs of many draws that go on where they were broken off: the draws are noted in the ledger, in blocks, before they
are made.

Guarantee:
    Over all processes together a charged run makes no more draws than were charged: a block is noted durably before its
    first draw, and only by who knows all blocks before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from discreet.engine.meter import PlannedUse, PrivateReads
from discreet.errors import InvalidParameter

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.ledger.entry import Entry
    from discreet.noise.entropy import Entropy

AHEAD = 16
"""How many draws are noted at once."""


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
    """A run as the ledger knows it.

    Attributes:
        account: who pays.
        recipe: what runs.
        charge: what paid for it before, where it was broken off.
        begun: how many draws were begun, or go together with those; they are not made again.
        noted: how many the ledger has.
    """

    account: Account
    recipe: StepRecipe
    charge: Entry | None = None
    begun: int = 0
    noted: int = 0
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
    """A use whose draws are noted before they are made.

    Attributes:
        inner: the use.
        run: whose draws are counted.
        charge: the number of the charge that pays.
    """

    inner: PlannedUse
    run: StepRun
    charge: int

    @property
    def times(self) -> int:
        return self.inner.times - self.run.begun

    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> Any:
        self.run.note(self.charge, self.inner.times)
        return self.inner.draw(exact, args, rng)
