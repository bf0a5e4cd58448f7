"""What a claim's mechanisms cost, as events: recomputed from each column's move and noise, and composed."""

from __future__ import annotations

from fractions import Fraction

from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.unit import Sensitivity
from discreet.verify.claim import Measurement, NoisyColumn, PlanClaim
from discreet.verify.levels import Tier, gaussian_cost, laplace_cost, tier_of
from discreet.verify.shapes import reject


def of_measurements(claim: PlanClaim) -> Composed:
    """Return the events of what the measurements release."""
    other = claim.relation.value == "replace"
    return sum((_measured(m, replace=other) for m in claim.measurements), Composed())


def of_charge(claim: PlanClaim) -> Composed:
    """Return the events of the whole charge: of the first looks, and the measurements by their guarantee; the same as
    those of the measurements where nothing is looked at first and no run stays open.
    """
    if not claim.looks:  # of a run that stays open one event, which `check_charge` has judged
        return claim.charged.events if claim.open else claim.measured.events
    moved = _one_count(replace=claim.relation.value == "replace")
    looks = Composed()
    for look in claim.looks:
        looks += look.noise.event(moved) * look.moved
        looks += Composed() if look.outside is None else look.outside.event(moved) * look.values
    return looks + Composed([(ApproximateEvent(claim.measured.epsilon, claim.measured.delta), 1)])


def _measured(m: Measurement, *, replace: bool) -> Composed:
    if m.levels:
        found = of_levels(m, replace=replace)
    else:
        found = sum((c.noise.event(c.sensitivity) for c in m.columns), Composed())
    for tree in m.trees:
        if isinstance(tree.noise, ExponentialQuantile):
            found += tree.noise.events
        else:
            found += tree.noise.event(tree.sensitivity) * tree.depth
    if m.threshold is not None:
        found += m.threshold.event()
    return found + sum((z.event(_one_count(replace=replace)) for z in m.reports), Composed())


def _one_count(*, replace: bool) -> Sensitivity:
    """How far a unit moves counts of which it is in one: that one, and another where it is replaced."""
    return Sensitivity(2 if replace else 1, 1)


def of_levels(m: Measurement, *, replace: bool) -> Composed:
    """Return the events of the columns of a measurement whose totals are measured as well: each level's noise for the
    most that one unit moves that level; or the ε of all levels of a column together, where that is less than their sum.

    Raises:
        InternalError: a level that is none of the question's.
    """
    found = Composed()
    for i, column in enumerate(m.columns):
        found += _of_column(m, i, column, replace=replace)
    return found


def _of_column(m: Measurement, place: int, column: NoisyColumn, *, replace: bool) -> Composed:
    sizes = m.lists or ()
    kept = [tuple(range(len(sizes))), *(level.kept for level in m.levels)]
    noises = [column.noise, *(level.noises[place] for level in m.levels)]
    span, tiers, apart = (column.low, column.high), list[Tier](), Fraction(0)
    events = Composed()
    for keys, noise in zip(kept, noises, strict=True):
        scale = noise.scale if isinstance(noise, DiscreteLaplaceNoise) else Fraction(1)
        tier = tier_of(sizes, keys, scale)
        if tier is None:
            reject("what totals are measured")
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
    """Return the four norms of the worst change of one level, with the noise left out."""
    low, high = max(-span[0], 0), max(span[1], 0)
    one = [Tier(tier.cells, tier.parts, Fraction(1))]
    return Sensitivity(
        min((2 if replace else 1) * k, tier.cells),
        min(k, tier.parts) * (low + high if replace else max(low, high)),
        l1=int(laplace_cost(one, span, k, replace=replace)),
        l2_squared=int(gaussian_cost(one, span, k, replace=replace)),
    )
