"""The entries that an owner writes: of a whole account, of what an analyst or a group may spend of it, of a ledger.

Each is signed off: `by` says by whom and `reason` why, in public words. None can be taken back.

A cap is a budget with its own `per_query`, and a capacity in the units of the account's filter. A later entry of the
name replaces it; an analyst's group stays what it was at first, so that a group's spending stays with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from discreet.accounting.filter import Tally
from discreet.ledger.forms import ACT, BUDGET, DIGEST, NAME, SIGNED, TALLY, TEXT, TRUTH, Act, Fields, Form
from discreet.privacy.guarantee import Budget


@dataclass(frozen=True, slots=True)
class Rebudgeted(Act):
    """The population's budget, and the capacity that follows from it in the filter's units, is now this."""

    kind: ClassVar[str] = "budget"
    forms: ClassVar[Mapping[str, Form[Any]]] = {"budget": BUDGET, "capacity": TALLY, **ACT}

    budget: Budget
    capacity: Tally
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Decision(Fields):
    """What is said by its kind alone."""

    forms: ClassVar[Mapping[str, Form[Any]]] = SIGNED

    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Frozen(Decision):
    """No charge is taken until the account is thawed; stored releases are still handed out."""

    kind: ClassVar[str] = "freeze"


@dataclass(frozen=True, slots=True)
class Thawed(Act):
    """The end of a freeze."""

    kind: ClassVar[str] = "thaw"
    forms: ClassVar[Mapping[str, Form[Any]]] = ACT

    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Closed(Decision):
    """No charge is ever taken again; stored releases are still handed out."""

    kind: ClassVar[str] = "close"


@dataclass(frozen=True, slots=True)
class Moved(Fields):
    """The account goes on in the store `to`, whose chain begins as a copy of this one up to `head`; here it has ended.

    A ledger moves as a whole: one such entry for each account, all with the same `to` and `head`, and nothing after.
    """

    kind: ClassVar[str] = "moved"
    forms: ClassVar[Mapping[str, Form[Any]]] = {"to": TEXT, "head": DIGEST, **SIGNED}

    to: str
    head: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class GroupCapped(Act):
    """All analysts of this group together may spend this much."""

    kind: ClassVar[str] = "group"
    forms: ClassVar[Mapping[str, Form[Any]]] = {"name": TEXT, "budget": BUDGET, "capacity": TALLY, **ACT}

    name: str
    budget: Budget
    capacity: Tally
    by: str
    reason: str

    @property
    def key(self) -> str:
        """The group's name."""
        return self.name


@dataclass(frozen=True, slots=True)
class AnalystCapped(Act):
    """This analyst, in this group or none, may spend this much."""

    kind: ClassVar[str] = "analyst"
    forms: ClassVar[Mapping[str, Form[Any]]] = {**GroupCapped.forms, "group": NAME}

    name: str
    group: str | None
    budget: Budget
    capacity: Tally
    by: str
    reason: str

    @property
    def key(self) -> str:
        """The analyst's name."""
        return self.name


@dataclass(frozen=True, slots=True)
class Locked(Act):
    """Whether charges open accounts, from here on: of no population, it stands under the empty name.

    In a locked ledger an account is opened by its owner's act alone. Where the lock names the owner's public key, each
    `Act` carries a signature by it (`ledger/lock.py`).
    """

    kind: ClassVar[str] = "lock"
    key: ClassVar[str] = ""
    forms: ClassVar[Mapping[str, Form[Any]]] = {"locked": TRUTH, "public_key": NAME, **ACT}

    locked: bool
    public_key: str | None
    by: str
    reason: str
