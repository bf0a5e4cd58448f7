"""The entry that locks a ledger or unlocks it: it is of no population, and stands under the empty name.

In a locked ledger an account is opened by its owner's act alone. Where the lock names the owner's public key, that act
and the unlocking carry a signature by it (`ledger/lock.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from discreet.ledger import forms


@dataclass(frozen=True, slots=True)
class Locked:
    """Whether charges open accounts, from here on."""

    kind: ClassVar[str] = "lock"
    key: ClassVar[str] = ""
    names: ClassVar[frozenset[str]] = frozenset({"locked", "public_key", "by", "reason", "signature"})

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
        return cls(
            forms.truth(body["locked"]),
            forms.optional(body["public_key"]),
            forms.words(body["by"]),
            forms.words(body["reason"]),
            forms.optional(body["signature"]),
        )
