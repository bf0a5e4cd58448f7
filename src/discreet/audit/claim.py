"""A claimed guarantee, as the promises that an auditor tests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.accounting.loss import PrivacyLoss
from discreet.audit.places import Floats
from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, exact
from discreet.privacy.guarantee import Approximate, Budget, words

_CURVE = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""The δ at which the curve of a loss is tested, beside its pure ε and ε = 0."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Promises P(E) ≤ e^ε Q(E) + δ for all events E and both orders of two neighbours.

    Attributes:
        points: the promises that are tested, as pairs (ε, δ); the first is the one that is reported on.
        text: the claim in words.
        loss: the whole curve, where the claim was a `PrivacyLoss`.
    """

    points: tuple[tuple[float, float], ...]
    text: str
    loss: PrivacyLoss | None = None

    @classmethod
    def of(cls, claimed: Budget | Approximate | PrivacyLoss | Claim | Real) -> Claim:
        """Return the claim that a `Budget`, a guarantee, a `PrivacyLoss` or a bare ε stands for.

        Raises:
            InvalidParameter: something else, or no finite ε at any δ.
        """
        if isinstance(claimed, Claim):
            return claimed
        if isinstance(claimed, PrivacyLoss):
            return cls._curve(claimed)
        if isinstance(claimed, Budget):
            claimed = claimed.guarantee
        if not isinstance(claimed, Approximate):
            try:
                claimed = Approximate(exact("claimed", claimed))
            except TypeError:
                raise InvalidParameter(
                    f"claimed must be a Budget, a PrivacyLoss or an ε, not {type(claimed).__name__}.",
                    hint="claimed=discreet.Budget(epsilon=1)",
                ) from None
        point = (_above(claimed.epsilon), _above(claimed.delta))
        return cls((point,), words(claimed.epsilon, claimed.delta))

    @classmethod
    def _curve(cls, loss: PrivacyLoss) -> Claim:
        pure = [] if loss.pure is None else [(_above(loss.pure), 0.0)]
        curve = [(loss.epsilon(d), d) for d in (*_CURVE, *_above_failure(loss)) if d > loss.failure]
        points = dict.fromkeys([*pure, *curve, (0.0, loss.delta(0))])
        return cls(tuple(points), repr(loss), loss)

    @property
    def epsilon(self) -> float:
        """The ε of the promise that is reported on."""
        return self.points[0][0]

    @property
    def delta(self) -> float:
        """The δ of the promise that is reported on."""
        return self.points[0][1]

    def tradeoff(self, alpha: Floats) -> Floats:
        """Return the least type II error that the claim allows a test of that type I error.

        References: Dong, Roth, Su 2019, Proposition 2.4 (points), https://arxiv.org/abs/1905.02383
        """
        if self.loss is not None:
            return np.asarray(self.loss.tradeoff(alpha), dtype=np.float64)
        beta = np.zeros_like(alpha)
        for epsilon, delta in self.points:
            grown = math.exp(min(epsilon, 700.0))
            beta = np.maximum(beta, np.maximum(1 - delta - grown * alpha, (1 - delta - alpha) / grown))
        return np.asarray(beta, dtype=np.float64)


def _above_failure(loss: PrivacyLoss) -> list[float]:
    """Return a δ at which a loss that fails with a larger chance than those of the curve still has an ε."""
    return [float(loss.failure + (1 - loss.failure) / 8)] if loss.failure >= _CURVE[0] else []


def _above(x: Fraction) -> float:
    """Return a float that is at least x: an auditor tests what was claimed, or less."""
    near = float(x)
    return near if Fraction(near) >= x else math.nextafter(near, math.inf)
