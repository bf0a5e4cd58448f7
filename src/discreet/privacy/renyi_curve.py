"""A use that is known by its Rényi divergences at some orders, as papers and other accountants report it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from discreet.errors import InvalidParameter
from discreet.privacy.event import Event
from discreet.privacy.pair import Pair

MOST = 10**6
"""The largest order; beyond it a divergence says hardly more than an ε."""


@dataclass(frozen=True, slots=True)
class RenyiEvent(Event):
    """Any use whose Rényi divergence of each order α > 1 in `orders` is at most the one in `divergences`.

    Guarantee:
        For neighbours in both directions. Of any other order it says what follows by monotonicity and
        convexity: see `divergence`.

    References: Mironov 2017, Definition 4, https://arxiv.org/abs/1702.07476; docs/proofs/renyi-curve.md

    >>> event = RenyiEvent((Fraction(2), Fraction(4)), (Fraction(1), Fraction(3, 2)))
    >>> event.divergence(Fraction(3))
    Fraction(11, 8)
    """

    orders: tuple[Fraction, ...]
    divergences: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        given: tuple[tuple[str, object], ...] = (("orders", self.orders), ("divergences", self.divergences))
        for name, values in given:
            # A list could change after it was checked, and a float could not be stored exactly.
            if not isinstance(values, tuple) or not all(isinstance(x, Fraction) for x in values):
                raise InvalidParameter(f"{name} of an event must be a tuple of Fractions.")
        if not self.orders or len(self.orders) != len(self.divergences):
            raise InvalidParameter(
                f"there must be one divergence for each order, and at least one: orders has {len(self.orders)} "
                f"and divergences has {len(self.divergences)}."
            )
        if not 1 < self.orders[0] <= self.orders[-1] <= MOST or any(a >= b for a, b in pairwise(self.orders)):
            raise InvalidParameter(f"orders must be above 1, at most {MOST} and strictly rising.")
        if min(self.divergences) < 0:
            raise InvalidParameter(f"a divergence must be at least 0, not {min(self.divergences)}.")

    @property
    def pure(self) -> Fraction | None:
        """None: finitely many orders bound no ε, unless a divergence is 0 and so nothing is told."""
        return None if min(self.divergences) else Fraction(0)

    @property
    def rho(self) -> Fraction | None:
        """None: they bound no ρ either, which is about every order."""
        return self.pure

    def divergence(self, alpha: Fraction) -> Fraction | None:
        """Return what the divergence of order α > 1 is at most; None above the largest order.

        The least of what monotonicity says (D_α ≤ D_β for α ≤ β) and what convexity says: (α − 1)D_α is convex
        in α and 0 at α = 1, so that it lies below its chords.

        References: van Erven, Harremoës 2014, Theorem 3 and Corollary 2, https://arxiv.org/abs/1206.2459
        """
        if alpha <= 1:
            raise InvalidParameter(f"alpha must be above 1, not {alpha}.")
        if min(self.divergences) == 0:
            return Fraction(0)
        known = list(zip(self.orders, self.divergences, strict=True))
        above = [(a, t) for a, t in known if a >= alpha]
        below = [(Fraction(1), Fraction(0)), *((a, t) for a, t in known if a < alpha)]
        chords = (
            ((b - alpha) * (a - 1) * s + (alpha - a) * (b - 1) * t) / ((b - a) * (alpha - 1))
            for a, s in below
            for b, t in above
        )
        return min([t for _, t in above] + list(chords), default=None)

    def pair(self) -> Pair:
        from discreet.privacy.pairs.guaranteed import RenyiPair

        return RenyiPair(self.orders, self.divergences)
