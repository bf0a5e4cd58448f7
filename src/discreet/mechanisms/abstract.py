"""What every mechanism shows before it has seen any data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from discreet.privacy.event import Composed

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss


class Mechanism(ABC):
    """A randomised release with public parameters, whose cost is known before the data is touched.

    Families add their own `release`: numbers (`Numeric`), one candidate of many (`Selection`), groups
    (`Threshold`).
    """

    __slots__ = ()

    @property
    @abstractmethod
    def events(self) -> Composed:
        """What one release costs, as events: valid for every value that `release` accepts."""

    @property
    def loss(self) -> PrivacyLoss:
        """What one release costs; `loss.epsilon(delta)`, `loss + loss`, `loss * 100`."""
        from discreet.accounting.loss import PrivacyLoss

        return PrivacyLoss(self.events)

    @abstractmethod
    def explain(self) -> str:
        """Return the steps of the privacy proof, with this mechanism's numbers in them."""


def numbered(title: str, *steps: str) -> str:
    """Return a title and its numbered steps, one a line."""
    return "\n".join((title, *(f"{i}. {step}" for i, step in enumerate(steps, start=1))))
