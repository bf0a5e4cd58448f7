"""A released value with the interval and the cost that belong to it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.privacy.guarantee import decimal
from discreet.table import measured

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss


@dataclass(frozen=True, slots=True)
class NoisyValue:
    """What `Mechanism.answer` and `Session.release` return.

    Attributes:
        value: the released value.
        interval: its two ends, of an array those of each number; None where no error is known before the data.
        confidence: with which the interval contains the value without noise, each number by itself.
        cost: what the release costs.
    """

    value: Any
    interval: tuple[Any, Any] | None
    confidence: Fraction
    cost: PrivacyLoss

    def __str__(self) -> str:
        scalar = isinstance(self.value, int | float)
        shown = measured(self.value, self.interval) if scalar else str(self.value)
        level = "" if self.interval is None or not scalar else f"{decimal(100 * self.confidence)} %, "
        return f"{shown} ({level}{str(self.cost).removeprefix('PrivacyLoss: ')})"
