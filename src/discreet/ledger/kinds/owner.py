"""The entries that an owner writes about a whole account: its budget, a freeze and its end, the account's end, a move;
and about a whole ledger: a lock and its end.

Each is signed off: `by` says by whom and `reason` why, in public words. None can be taken back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from discreet.accounting.filter import Tally
from discreet.ledger import forms
from discreet.privacy.guarantee import Budget

_SIGNED = frozenset({"by", "reason"})


@dataclass(frozen=True, slots=True)
class Rebudgeted:
    """The population's budget, and the capacity that follows from it in the filter's units, is now this."""

    kind: ClassVar[str] = "budget"
    key: ClassVar[str] = ""
    names: ClassVar[frozenset[str]] = _SIGNED | {"budget", "capacity"}

    budget: Budget
    capacity: Tally
    by: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return {
            "budget": forms.budget_texts(self.budget),
            "capacity": forms.tally_texts(self.capacity),
            "by": self.by,
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Rebudgeted:
        """The value of these fields."""
        return cls(forms.budget(body["budget"]), forms.tally(body["capacity"]), *_signed(body))


@dataclass(frozen=True, slots=True)
class Decision:
    """What is said by its kind alone."""

    names: ClassVar[frozenset[str]] = _SIGNED
    key: ClassVar[str] = ""

    by: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return {"by": self.by, "reason": self.reason}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Self:
        """The value of these fields."""
        return cls(*_signed(body))


@dataclass(frozen=True, slots=True)
class Frozen(Decision):
    """No charge is taken until the account is thawed; stored releases are still handed out."""

    kind: ClassVar[str] = "freeze"


@dataclass(frozen=True, slots=True)
class Thawed(Decision):
    """The end of a freeze."""

    kind: ClassVar[str] = "thaw"


@dataclass(frozen=True, slots=True)
class Closed(Decision):
    """No charge is ever taken again; stored releases are still handed out."""

    kind: ClassVar[str] = "close"


@dataclass(frozen=True, slots=True)
class Moved:
    """The account goes on in the store `to`, whose chain begins as a copy of this one up to `head`; here it has ended.

    A ledger moves as a whole: one such entry for each account, all with the same `to` and `head`, and nothing after.
    """

    kind: ClassVar[str] = "moved"
    key: ClassVar[str] = ""
    names: ClassVar[frozenset[str]] = _SIGNED | {"to", "head"}

    to: str
    head: str
    by: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return {"to": self.to, "head": self.head, "by": self.by, "reason": self.reason}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Moved:
        """The value of these fields."""
        return cls(forms.text(body["to"]), forms.digest(body["head"]), *_signed(body))


@dataclass(frozen=True, slots=True)
class Locked:
    """Whether charges open accounts from here on: of the whole ledger, under the empty name, which no population has.

    In a locked ledger an account is opened by its owner's act alone. Where the lock names the owner's public key, that
    act and the unlocking carry a signature by it (`ledger/lock.py`).
    """

    kind: ClassVar[str] = "lock"
    key: ClassVar[str] = ""
    names: ClassVar[frozenset[str]] = _SIGNED | {"locked", "public_key", "signature"}

    locked: bool
    public_key: str | None
    by: str
    reason: str
    signature: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return {name: getattr(self, name) for name in self.names}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Locked:
        """The value of these fields."""
        public_key, signature = forms.optional(body["public_key"]), forms.optional(body["signature"])
        return cls(forms.truth(body["locked"]), public_key, *_signed(body), signature)


def _signed(body: dict[str, Any]) -> tuple[str, str]:
    return forms.words(body["by"]), forms.words(body["reason"])
