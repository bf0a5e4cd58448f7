"""What totals that are measured beside the finest groups cost, as events: recomputed from each level's own move."""

from __future__ import annotations

from fractions import Fraction

from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.sensitivity import Sensitivity
from discreet.rederive.claim import Column, Measurement
from discreet.rederive.levels import Tier, gaussian_cost, laplace_cost, tier_of
from discreet.rederive.shapes import disagree


def of_levels(m: Measurement, *, replace: bool) -> Composed:
    """The events of the columns of a measurement whose totals are measured as well: each level's noise for the most
    that one unit moves that level; or the ε of all levels of a column together, where that is less than their sum.

    Raises:
        InternalError: a level that is none of the question's.
    """
    found = Composed()
    for i, column in enumerate(m.columns):
        found += _of_column(m, i, column, replace=replace)
    return found


def _of_column(m: Measurement, place: int, column: Column, *, replace: bool) -> Composed:
    sizes = m.lists or ()
    kept = [tuple(range(len(sizes))), *(level.kept for level in m.levels)]
    noises = [column.noise, *(level.noises[place] for level in m.levels)]
    span, tiers, apart = (column.low, column.high), list[Tier](), Fraction(0)
    events = Composed()
    for keys, noise in zip(kept, noises, strict=True):
        scale = noise.scale if isinstance(noise, DiscreteLaplaceNoise) else Fraction(1)
        tier = tier_of(sizes, keys, scale)
        if tier is None:
            disagree("what totals are measured")
        moved = _moved(tier, span, m.groups, replace=replace)
        tiers.append(tier)
        apart += moved.l1 / scale
        events += noise.event(moved)
    if all(isinstance(noise, DiscreteLaplaceNoise) for noise in noises):
        together = laplace_cost(tiers, span, m.groups, replace=replace)
        if together < apart:
            return Composed([(ApproximateEvent(together), 1)])
    return events


def _moved(tier: Tier, span: tuple[int, int], k: int, *, replace: bool) -> Sensitivity:
    """The four norms of the worst change of one level, with the noise left out."""
    low, high = max(-span[0], 0), max(span[1], 0)
    one = [Tier(tier.cells, tier.parts, Fraction(1))]
    return Sensitivity(
        min((2 if replace else 1) * k, tier.cells),
        min(k, tier.parts) * (low + high if replace else max(low, high)),
        l1=int(laplace_cost(one, span, k, replace=replace)),
        l2_squared=int(gaussian_cost(one, span, k, replace=replace)),
    )
