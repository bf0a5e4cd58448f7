"""Answers about a loss: bounds on each side of the truth, and the part of a loss that questions read."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from discreet.privacy.event import Composed
from discreet.privacy.exact import Real


@dataclass(frozen=True, slots=True)
class Bounds:
    """A certified interval: the truth lies in [lower, upper]."""

    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class AccountingEngine:
    """What answered, and the theorem that says so."""

    name: str
    theorem: str


@dataclass(frozen=True, slots=True)
class Answer:
    """An ε or a δ: at most `upper`; the least that holds for the worst such uses is at least `lower`."""

    lower: float
    upper: Fraction
    engine: AccountingEngine


class Loss(Protocol):
    """A `PrivacyLoss` of one composition, as the questions about it read it."""

    @property
    def events(self) -> Composed: ...
    @property
    def pure(self) -> Fraction | None: ...
    @property
    def pure_apart(self) -> Fraction | None: ...
    @property
    def mu_squared(self) -> Fraction | None: ...
    @property
    def failure(self) -> Fraction: ...
    def epsilon(self, delta: Real = 0) -> float: ...
    def delta(self, epsilon: Real) -> float: ...
