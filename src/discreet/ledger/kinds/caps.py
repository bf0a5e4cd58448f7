"""The entries that cap what one analyst, or one group of analysts, may spend of the population's budget.

A cap is a budget with its own `per_query`, and a capacity in the units of the account's filter. A later entry of the
name replaces it; an analyst's group stays what it was at first, so that a group's spending stays with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from discreet.accounting.filter import Tally
from discreet.ledger import forms
from discreet.privacy.guarantee import Budget

_NAMES = frozenset({"name", "budget", "capacity", "by", "reason"})


@dataclass(frozen=True, slots=True)
class AnalystCapped:
    """This analyst, in this group or none, may spend this much."""

    kind: ClassVar[str] = "analyst"
    names: ClassVar[frozenset[str]] = _NAMES | {"group"}

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

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return {
            "name": self.name,
            "group": self.group,
            "budget": forms.budget_texts(self.budget),
            "capacity": forms.tally_texts(self.capacity),
            "by": self.by,
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> AnalystCapped:
        """The value of these fields."""
        return cls(
            forms.text(body["name"]),
            forms.optional(body["group"]),
            forms.budget(body["budget"]),
            forms.tally(body["capacity"]),
            forms.words(body["by"]),
            forms.words(body["reason"]),
        )


@dataclass(frozen=True, slots=True)
class GroupCapped:
    """All analysts of this group together may spend this much."""

    kind: ClassVar[str] = "group"
    names: ClassVar[frozenset[str]] = _NAMES

    name: str
    budget: Budget
    capacity: Tally
    by: str
    reason: str

    @property
    def key(self) -> str:
        """The group's name."""
        return self.name

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return {
            "name": self.name,
            "budget": forms.budget_texts(self.budget),
            "capacity": forms.tally_texts(self.capacity),
            "by": self.by,
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> GroupCapped:
        """The value of these fields."""
        return cls(
            forms.text(body["name"]),
            forms.budget(body["budget"]),
            forms.tally(body["capacity"]),
            forms.words(body["by"]),
            forms.words(body["reason"]),
        )
