"""The entries that lock a ledger and unlock it: they are of no population, and stand under the empty name.

In a locked ledger an account is opened by its owner's act alone. Where the lock names the owner's public key, that act
and the unlocking carry a signature by it (`ledger/lock.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from discreet.ledger import forms

_SIGNED = frozenset({"by", "reason", "signature"})


@dataclass(frozen=True, slots=True)
class Locked:
    """From here on no charge opens an account."""

    kind: ClassVar[str] = "lock"
    key: ClassVar[str] = ""
    names: ClassVar[frozenset[str]] = _SIGNED | {"public_key"}

    public_key: str | None
    by: str
    reason: str
    signature: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return {
            "public_key": self.public_key,
            "by": self.by,
            "reason": self.reason,
            "signature": self.signature,
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Locked:
        """The value of these fields."""
        return cls(
            forms.optional(body["public_key"]),
            forms.words(body["by"]),
            forms.words(body["reason"]),
            forms.optional(body["signature"]),
        )


@dataclass(frozen=True, slots=True)
class Unlocked:
    """The end of a lock."""

    kind: ClassVar[str] = "unlock"
    key: ClassVar[str] = ""
    names: ClassVar[frozenset[str]] = _SIGNED

    by: str
    reason: str
    signature: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return {"by": self.by, "reason": self.reason, "signature": self.signature}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Unlocked:
        """The value of these fields."""
        return cls(forms.words(body["by"]), forms.words(body["reason"]), forms.optional(body["signature"]))
