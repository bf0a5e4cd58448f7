"""A second derivation of the cost, from the final SQL alone; it shares no code with the first.

`derive` reads off the text that the database will run how many groups a unit can enter and between which
integers its contribution lies; here it is recomputed how far that moves each column, and in `price` what the noise
then costs. A text that is not known to be bounded, a move that is further than was said, a cost above the promise, or
events that say less than the noise costs, is an InternalError before anything is charged.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.mechanisms.rounds import GaussianRounds
from discreet.mechanisms.threshold import Threshold
from discreet.privacy.event import Composed
from discreet.verify.census import check_price, derive_census, derive_reports, derive_values
from discreet.verify.claim import Cost, Look, Measurement, PlanClaim
from discreet.verify.derive import Derived, derive
from discreet.verify.distinct import derive_distinct
from discreet.verify.kinds import Spans
from discreet.verify.levels import gaussian_cost, laplace_cost, tier_of
from discreet.verify.parts import check_parts, events_of_parts
from discreet.verify.price import (
    Moves,
    PricedPart,
    check_charge,
    check_divergence,
    check_events,
    check_total,
    column_moves,
    fits,
    tree_moves,
)
from discreet.verify.quantile_tree import DerivedTree, derive_tree
from discreet.verify.shapes import reject
from discreet.verify.view import check_views
from discreet.verify.weights import derive_weights, rounds_cost


@dataclass(frozen=True, slots=True)
class Found:
    """What the statements of one measurement say of a unit.

    Attributes:
        groups: how many groups it enters.
        spans: for each column, the least and the greatest that it adds to a group.
        totals: for each column, how much it adds to all groups at most; None where only their number bounds it.
        trees: for each tree, what it adds to its leaves.
        reports: how many counts each truncation report has, of which a unit is in one at most.
        fixed: the columns to which every unit adds the same.
    """

    groups: int
    spans: Spans
    totals: tuple[int | None, ...]
    trees: tuple[DerivedTree, ...]
    reports: tuple[int, ...]
    fixed: frozenset[int] = frozenset()

    def moves(self, declared: int | None, *, replace: bool) -> list[Moves]:
        """Return how far a unit moves each column, where so many groups are declared."""
        return [
            Moves(0, 0, 0, 0, 0)
            if replace and i in self.fixed
            else column_moves(span, self.groups, declared, replace=replace, total=total)
            for i, (span, total) in enumerate(zip(self.spans, self.totals, strict=True))
        ]


def check(claim: PlanClaim) -> None:
    """Refuses a claim whose SQL does not bound what its noise was chosen for, or whose price is less than its noise's.

    Raises:
        InternalError: the two derivations disagree.
    """
    for source in claim.sources:
        check_views(source)
    found = derived(claim)
    check_moves(claim, found)
    parts, measured = priced(claim, found), without_parts(claim)
    check_total(parts, measured)
    check_events(parts, measured)
    check_divergence(parts, measured)
    check_charge(claim)


def without_parts(claim: PlanClaim) -> Cost:
    """Return what the measurements may cost beside the private parts: all of (ε, δ), and the events of none of these.

    Raises:
        InternalError: the events of the parts are not among those that are charged, or all cost more than (ε, δ).
    """
    measured = claim.measured
    if not claim.parts:
        return measured
    if claim.looks:
        reject("what is chosen first")
    check_parts(claim)
    left = Counter(dict(measured.events.parts))
    for event, n in events_of_parts(claim):
        left[event] -= n
        if left[event] < 0:
            reject("what the ledger is told")
    if not fits(measured):
        reject("the price of the private parts")
    return replace(measured, events=Composed([(e, n) for e, n in left.items() if n]))


def derived(claim: PlanClaim) -> tuple[Found, ...]:
    """Return what the statements of each measurement say of a unit, read from their texts.

    Raises:
        InternalError: a text that is not known to be bounded, or does not fit what is claimed of it.
    """
    for look in claim.looks:
        check_look(look)
    return tuple(_read(m) for m in claim.measurements)


def check_look(look: Look) -> None:
    """Refuses a first stage's statement that does not count each unit as often as is claimed.

    Raises:
        InternalError: it has another shape.
    """
    if look.kind not in ("caps", "values"):
        reject("what is chosen first")
    if (look.outside is None) != (look.kind == "caps"):
        reject("what is chosen first")
    read = derive_census if look.kind == "caps" else derive_values
    if read(look.sql, look.source) != look.counts:
        reject("the shape of the first stage")


def check_moves(claim: PlanClaim, found: Sequence[Found]) -> None:
    """Refuses a column or a level that one unit moves further than is claimed.

    Raises:
        InternalError: naming it.
    """
    other = claim.relation.value == "replace"
    for m, facts in zip(claim.measurements, found, strict=True):
        if facts.groups > m.groups:
            reject("how many groups a unit enters")
        moves = facts.moves(m.declared, replace=other)
        for column, (low, high), moved in zip(m.columns, facts.spans, moves, strict=True):
            if column.low > min(low, 0) or column.high < max(high, 0):
                reject("what a unit adds to a group")
            if not moved.within(column.sensitivity):
                reject("how far a unit moves a column")
        for tree, reach in zip(m.trees, facts.trees, strict=True):
            moved = tree_moves(reach, facts.groups, replace=other)
            if moved.l1 > tree.sensitivity.l1 or moved.l2_squared > tree.sensitivity.l2_squared:
                reject("how far a unit moves a tree")
    for look in claim.looks:
        check_price(look.spent, look.epsilon, replace=other)


def priced(claim: PlanClaim, found: Sequence[Found]) -> tuple[PricedPart, ...]:
    """For each measurement, the moves that its noise is for, and what costs a fixed price.

    Raises:
        InternalError: noise or a selection of an unknown kind, or for less than is derived.
    """
    other = claim.relation.value == "replace"
    return tuple(_part(m, facts, replace=other) for m, facts in zip(claim.measurements, found, strict=True))


def _read(m: Measurement) -> Found:
    apart = [(i, derive_distinct(text, m.source)) for i, text in m.distinct]
    trees = tuple(derive_tree(tree.sql, m.source) for tree in m.trees)
    others = [*(d for _, d in apart), *(d.reach for d in trees)]
    others += [derive_weights(m.weights, m.source)] if m.weights else []
    # without sums over units, what the groups are is said by the statements that count apart
    summed = derive(m.sql, m.source) if m.sql or not others else replace(others[0], spans=(), totals=())
    groups = max(_reach(d, m) for d in (summed, *others))
    reports = tuple(n for text in m.truncation for n in derive_reports(text, m.source))
    if len(reports) != len(m.reports):
        reject("the report of truncation")
    spans, totals = list(summed.spans), list(summed.totals or (None,) * len(summed.spans))
    if isinstance(m.threshold, GaussianRounds) != bool(m.weights):
        reject("the selection of groups")
    if m.threshold is not None:
        if spans[-1:] not in ([(1, 1)], [(0, 1)]):
            reject("the count of units by which groups are selected")
        spans, totals = spans[:-1], totals[:-1]
    fixed = summed.fixed
    for place, counted in apart:
        if not 0 <= place <= len(spans):
            reject("the number of columns")
        fixed = frozenset(i + (i >= place) for i in fixed)
        spans.insert(place, counted.spans[0])
        totals.insert(place, *(counted.totals or (None,)))
    if len(spans) != len(m.columns):
        reject("the number of columns")
    return Found(groups, tuple(spans), tuple(totals), trees, reports, fixed)


def _reach(facts: Derived, m: Measurement) -> int:
    """How many groups a unit can enter."""
    declared = m.declared
    if facts.keys != m.keys or facts.lists != m.lists:
        reject("what the groups are")
    if (declared is None) != (m.threshold is not None):
        reject("whether the groups are public")
    bounds = [n for n in (facts.groups, declared) if n is not None]
    if not bounds:
        reject("the groups of a unit, which are not bounded")
    return min(bounds)


def _part(m: Measurement, facts: Found, *, replace: bool) -> PricedPart:
    moves = facts.moves(m.declared, replace=replace)
    noises: list[Additive] = [c.noise for c in m.columns]
    by_rank: list[Fraction] = []
    _check_layers(m, facts)
    for tree, reach in zip(m.trees, facts.trees, strict=True):
        if isinstance(tree.noise, ExponentialQuantile):
            if tree.at != (tree.noise.p,):
                reject("which quantile is chosen")
            _check_chosen(tree.noise, reach, facts.groups, m.declared, replace=replace)
            by_rank.append(tree.noise.rate * reach.loss_range(tree.noise.p, facts.groups, replace=replace))
            # and two histograms of the same weights, whose parts lie apart as the nodes of a level do
            moves += [tree_moves(reach, facts.groups, replace=replace)] * 2
            noises += [tree.noise.near, tree.noise.counted]
            continue
        if tree.depth < 1:
            reject("the levels of a tree")
        moves += [tree_moves(reach, facts.groups, replace=replace)] * tree.depth
        noises += [tree.noise] * tree.depth
    sure = list(zip(moves, noises, strict=True))
    levelled = Fraction(0), Fraction(0)
    paid = sure
    if m.levels:
        levelled = _levelled(m, facts, replace=replace)
        paid = sure[len(m.columns) :]
        if not replace:
            sure += _totalled(m, facts)
    return PricedPart(
        tuple(paid),
        tuple(sure),
        levelled,
        tuple(by_rank),
        *_fixed(m, facts.groups, replace=replace),
        2 * facts.groups if replace else facts.groups,
        rounds_cost(m.threshold, facts.groups, replace=replace) if isinstance(m.threshold, GaussianRounds) else None,
    )


def _check_chosen(
    noise: ExponentialQuantile, reach: DerivedTree, groups: int, declared: int | None, *, replace: bool
) -> None:
    """Refuses a choice by rank for other units than those of the text: its events follow from what it says of them, and
    the same ε in more and narrower choices composes to less than it costs.
    """
    most = noise.max_groups if noise.groups is None else min(noise.max_groups, noise.groups)
    said = (noise.sensitivity, most, noise.groups, noise.relation.value == "replace")
    if said != (Fraction(reach.total), groups, declared, replace):
        reject("what a choice by rank is for")


def _check_layers(m: Measurement, facts: Found) -> None:
    """Refuses listed nodes of a level that share a leaf: one unit would move more of them than it has weight."""
    for tree, reach in zip(m.trees, facts.trees, strict=True):
        if tree.layers is None:
            continue
        if isinstance(tree.noise, ExponentialQuantile) or tree.at or len(tree.layers) != tree.depth:
            reject("the levels of a tree")
        for layer in tree.layers:
            below = [leaf for node in layer for leaf in node]
            if len(set(below)) != len(below) or not all(0 <= leaf < reach.leaves for leaf in below):
                reject("the nodes of a level, which overlap")


def _fixed(m: Measurement, groups: int, *, replace: bool) -> tuple[Fraction, Fraction]:
    """Return the (ε, δ) of the reports and of an optimal selection of groups."""
    epsilon, delta = Fraction(0), Fraction(0)
    for report in m.reports:
        if not isinstance(report, DiscreteLaplaceNoise):
            reject("a noise of unknown kind")
        epsilon += (2 if replace else 1) / report.scale  # a unit that is replaced leaves one count for another
    if m.threshold is not None:
        if m.threshold.max_groups < groups or m.threshold.touched < (2 * groups if replace else groups):
            reject("the selection of groups, which is for fewer groups")
        if isinstance(m.threshold, Threshold):
            epsilon, delta = epsilon + m.threshold.epsilon, m.threshold.delta
    return epsilon, delta


def _levelled(m: Measurement, facts: Found, *, replace: bool) -> tuple[Fraction, Fraction]:
    """Return the ε or μ² of columns whose totals are measured as well."""
    spans = facts.spans
    capped = any(total is not None for total in facts.totals)  # of which the levels' moves are not known
    if (
        capped
        or m.lists is None
        or m.distinct
        or m.threshold is not None
        or any(len(v.noises) != len(spans) for v in m.levels)
    ):
        reject("what totals are measured")
    pure, mu_squared = Fraction(0), Fraction(0)
    kept = [tuple(range(len(m.lists))), *(level.kept for level in m.levels)]
    if len({frozenset(k) for k in kept}) != len(kept):
        reject("what totals are measured")
    for i, (span, column) in enumerate(zip(spans, m.columns, strict=True)):
        noises = [column.noise, *(level.noises[i] for level in m.levels)]
        scales = [z.scale for z in noises if isinstance(z, DiscreteLaplaceNoise)]
        squares = [z.sigma**2 for z in noises if isinstance(z, RoundedGaussianNoise)]
        tiers = [tier_of(m.lists, k, z) for k, z in zip(kept, scales or squares, strict=False)]
        known = [t for t in tiers if t is not None]
        if len(known) != len(noises) or len(noises) not in (len(scales), len(squares)):
            reject("what totals are measured")
        if scales:
            pure += laplace_cost(known, span, facts.groups, replace=replace)
        else:
            mu_squared += gaussian_cost(known, span, facts.groups, replace=replace)
    return pure, mu_squared


def _totalled(m: Measurement, facts: Found) -> list[tuple[Moves, Additive]]:
    """Return what the unit that moves k of the finest groups by `far` each surely does to the other levels: k·far in
    sum, in k of a level's totals or in all of them. Divergences are convex, and at the least where these move alike.
    """
    found = []
    for level in m.levels:
        totals = min(math.prod((m.lists or ())[i] for i in level.kept), facts.groups)
        for (low, high), noise in zip(facts.spans, level.noises, strict=True):
            each = facts.groups * max(-low, high, 0) // max(totals, 1)
            found.append((Moves(totals * each, totals * each * each, totals, each, each), noise))
    return found
