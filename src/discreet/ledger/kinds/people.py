"""The entry that commits to the table of what each person has spent, which itself is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from discreet.ledger import forms


@dataclass(frozen=True, slots=True)
class PeopleCharged:
    """The person table after a charge, by a hiding commitment; or after a merge of its segments, with no charge.

    It is written for each charge, whoever and however many were touched.
    """

    kind: ClassVar[str] = "people"
    names: ClassVar[frozenset[str]] = frozenset({"charge", "commitment"})

    charge: int | None
    commitment: str

    @property
    def key(self) -> str:
        """The number of the charge; empty for a merge."""
        return "" if self.charge is None else str(self.charge)

    def to_json(self) -> dict[str, Any]:
        """The fields."""
        return {"charge": self.charge, "commitment": self.commitment}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> PeopleCharged:
        """The value of these fields."""
        charge = None if body["charge"] is None else forms.number(body["charge"])
        return cls(charge, forms.digest(body["commitment"]))
