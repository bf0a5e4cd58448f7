"""What an engine answers: two numbers that the truth lies between."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """A certified interval: the truth lies in [lower, upper]."""

    lower: float
    upper: float
