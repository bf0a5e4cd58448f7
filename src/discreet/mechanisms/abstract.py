"""What every mechanism shows before it has seen any data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidParameter
from discreet.privacy.event import Composed
from discreet.privacy.guarantee import decimal
from discreet.privacy.guarantee import numbered as numbered

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss
    from discreet.finite.mechanism import Mechanism as FiniteMechanism


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

    def matrix(self, universe: Iterable[Any]) -> FiniteMechanism:
        """Return the mechanism on a finite universe as a stochastic matrix, for exact calculations with `dp.finite`.

        Raises:
            InvalidParameter: this mechanism has none.
        """
        raise InvalidParameter(
            f"{type(self).__name__} has no finite matrix.", hint="dp.finite.Mechanism takes any table of probabilities"
        )


def one_changed(cost: Fraction | str) -> str:
    """Return the step of a proof that says what a changed record costs at most, at twice this ε or as said."""
    most = cost if isinstance(cost, str) else f"2ε = {decimal(2 * cost)}"
    return (
        "Relation. The guarantee is for the neighbours for which Δ was computed. If these are add-remove, changing "
        f"one record is two steps and costs at most {most}."
    )
