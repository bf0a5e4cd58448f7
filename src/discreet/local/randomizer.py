"""What every local randomizer shows: one report of one device, and what a server makes of many."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.local.domain import is_many
from discreet.local.hashing import text
from discreet.local.reals import floats
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import numbered as numbered

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss
    from discreet.local.estimate import Estimate
    from discreet.noise.entropy import Entropy

_WHOLE = 1 << 53  # below it a float holds every whole number


class Randomizer(ABC):
    """A law by which a device answers with noise of its own, before anything leaves it.

    Subclasses are frozen values of public parameters: equal on the device and on the server.

    Guarantee:
        For any two values x, x' of one device and every set of reports E, P(E | x) ≤ e^ε·P(E | x'): one report is
        ε-DP whatever else is known, and nobody needs to be trusted. Each report draws fresh coins; k reports about
        one value cost k·ε, unless they are memoised.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def epsilon(self) -> Fraction:
        """The ε of one report."""

    @property
    def events(self) -> Composed:
        """What one report costs the device that makes it, for any two values that it may hold."""
        return Composed([ApproximateEvent(self.epsilon)])

    @property
    def loss(self) -> PrivacyLoss:
        """What one report costs; `loss * 100` for as many, `loss.shuffle(n)` behind a trusted shuffle of n devices."""
        from discreet.accounting.loss import PrivacyLoss

        return PrivacyLoss(self.events)

    @abstractmethod
    def randomize(self, x: Any, *, rng: Entropy | None = None) -> Any:
        """Return the report of one device that holds `x`; for an array or a list, one report for each, as one array."""

    @abstractmethod
    def estimate(self, reports: Any, *, domain: Sequence[Hashable] | None = None) -> Estimate:
        """Return what the reports of many devices say about them together, as unbiased numbers."""

    @abstractmethod
    def error(self, users: int, confidence: Real = 0.95) -> float:
        """Return how far an estimate from so many users is off at most, with that confidence, at the worst data."""

    @property
    def lifetime(self) -> Fraction:
        """The ε of all reports ever made of one value once it is memoised."""
        return self.epsilon

    def key(self, x: Any) -> str:
        """Return a text by which equal values are known to `Memoised`: 1 and 1.0 are equal, and a list is an array."""
        if is_many(x):
            known = floats(x)
            return hashlib.sha256((np.where(np.isnan(known), np.nan, known) + 0.0).tobytes()).hexdigest()
        if isinstance(x, int | float | np.floating | np.integer):
            number = int(x) if isinstance(x, int | np.integer) else float(x)
            if abs(number) < _WHOLE:
                return repr(float(number) + 0.0)  # −0.0 is 0
        return text(x).hex()

    def fix(self, x: Any, rng: Entropy) -> Any:
        """Return what is drawn once for a value and kept for ever by `Memoised`: the report itself, as a rule."""
        return self.randomize(x, rng=rng)

    def repeat(self, fixed: Any, rng: Entropy) -> Any:
        """Return a report from what was kept: the same one again, as a rule."""
        return fixed

    @abstractmethod
    def explain(self) -> str:
        """Return the steps of the privacy proof, with this randomizer's numbers in them."""
