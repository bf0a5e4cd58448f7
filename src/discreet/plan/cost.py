"""What a query costs: the exact sensitivity of each integer column, and the noise that makes them cost
what was asked.

References: the table in docs/decisions/0001-meanings.md, proved in docs/proofs/bounding.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

from discreet.accounting.calibrate import calibrate
from discreet.accounting.convert import mu_squared_for
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter, MissingFact, NotPrivate
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.mechanisms.rounds import Selection, selection
from discreet.privacy.event import Composed
from discreet.privacy.guarantee import Approximate
from discreet.privacy.unit import Relation, Sensitivity


class Kind(Enum):
    """Which noise is added to the integer columns."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """What a plan may spend, and on which noise.

    Attributes:
        population: whose account pays.
        version: the owner's public label of the data.
        epsilon, delta: what may be spent at most.
        kind: of the noise.
        report_share: the part of ε that truncation reports have.
    """

    population: str
    version: str | None
    epsilon: Fraction
    delta: Fraction
    kind: Kind
    report_share: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True)
class LevelNoise:
    """The noise of totals that are measured beside the finest groups.

    Attributes:
        kept: the places of the keys that are not added up.
        share: the part of each column's budget that they got.
        noises: for each column.
    """

    kept: tuple[int, ...]
    share: Fraction
    noises: tuple[Additive, ...]


@dataclass(frozen=True, slots=True)
class Allocation:
    """One budget, spent: a noise for each column, the selection of groups, and what all of it costs together.

    Guarantee:
        `events` composed are (ε, δ)-DP for `guarantee`, in the relation that the sensitivities are for.

    Attributes:
        noises: for each column.
        threshold: the selection of groups, where they are private.
        reports: for each truncation report, the noise of each of its counts.
        events: what all of it costs.
        guarantee: what is promised.
        trees: for each quantile tree, the noise of every node, or what chooses a leaf of it by rank.
        levels: where totals are measured as well, their noise; `noises` is then that of the finest groups.
        undivided: where they are, each column's noise before its budget was divided among levels.
    """

    noises: tuple[Additive, ...]
    threshold: Selection | None
    reports: tuple[Additive, ...]
    events: Composed
    guarantee: Approximate
    trees: tuple[Additive | ExponentialQuantile, ...] = ()
    levels: tuple[LevelNoise, ...] = ()
    undivided: tuple[Additive, ...] = ()

    @property
    def of_columns(self) -> tuple[Additive, ...]:
        """The noise of each column with all of its budget, before any totals have a part of it."""
        return self.undivided or self.noises

    @property
    def is_gaussian(self) -> bool:
        """Whether columns or trees have Gaussian noise."""
        return any(isinstance(z, RoundedGaussianNoise) for z in (*self.noises, *self.trees))


def sensitivity_of(
    span: tuple[int, int], max_groups: int, groups: int | None, relation: Relation, total: int | None = None
) -> Sensitivity:
    """How far one unit can move a column over all groups, when it adds to at most `max_groups` of them an
    integer in `span`, and to all of them together integers whose sizes add up to at most `total`.

    `groups` is the number of groups, None when it is not known; `total` is None where nothing else bounds the sum.

    >>> sensitivity_of((0, 10), 3, 20, Relation.REPLACE)
    Sensitivity(l0=6, linf=10, l1=60, l2_squared=600)
    >>> sensitivity_of((0, 10), 3, 20, Relation.REPLACE, 12)
    Sensitivity(l0=6, linf=10, l1=24, l2_squared=208)

    Guarantee:
        With m = `max_groups` and w the larger end of `span`, a unit's integers a have ℓ∞ ≤ w, ℓ1 ≤ `total`, and at most
        m are not 0. So ℓ2² ≤ S = q·w² + r², where q, r = divmod(`total`, w), and m·w² if q ≥ m: a sum of squares is
        convex, and largest at a corner of these bounds. Under replacement |a − b|₁ ≤ |a|₁ + |b|₁, and |a − b|₂² ≤ 2S
        where a·b ≥ 0, as of numbers that are all at least 0; of others (|a|₂ + |b|₂)² ≤ 4S. The bounds without `total`
        hold as well, so the lesser of both does (docs/proofs/bounding.md, 2).
    """
    low, high = span
    assert low <= 0 <= high
    if total is not None:
        return _within_total(sensitivity_of(span, max_groups, groups, relation), span, max_groups, relation, total)
    most, k = max(-low, high), max_groups if groups is None else min(max_groups, groups)
    if relation is Relation.ADD_REMOVE:
        return Sensitivity(k, most)
    width = high - low
    reach = 2 * k if groups is None else min(2 * k, groups)
    # Old and new rows share j groups, and 2(k − j) more have one of the two. At least `least` are shared where room is
    # short. As width lies between most and 2·most, ℓ1 is greatest there; ℓ2 there or where all are shared.
    least = 2 * k - reach
    return Sensitivity(
        reach,
        width,
        l1=least * width + 2 * (k - least) * most,
        l2_squared=max(least * width**2 + 2 * (k - least) * most**2, k * width**2),
    )


def _within_total(
    loose: Sensitivity, span: tuple[int, int], groups: int, relation: Relation, total: int
) -> Sensitivity:
    """Return the sensitivity where the sizes of what a unit adds are at most `total` together as well."""
    most = max(-span[0], span[1])
    if most == 0:
        return loose
    assert total >= most
    times = 1 if relation is Relation.ADD_REMOVE else 2
    signed = 2 if relation is Relation.REPLACE and 0 not in span else 1
    squares = times * signed * squares_within(total, most, groups)
    return Sensitivity(loose.l0, loose.linf, l1=min(loose.l1, times * total), l2_squared=min(loose.l2_squared, squares))


def squares_within(total: int, most: int, groups: int) -> int:
    """Return the largest sum of squares of at most `groups` numbers, each at most `most` and all at most `total`."""
    full, rest = divmod(total, most)
    return groups * most**2 if full >= groups else full * most**2 + rest**2


def tree_sensitivity(
    total: int, max_groups: int, groups: int | None, cells: int, relation: Relation, together: int | None = None
) -> Sensitivity:
    """How far one unit can move one level of a tree over all groups, when in at most `max_groups` of them it
    adds to the `cells` nodes of the level weights, none below 0, of at most `total` in a group, and of at most
    `together` in all groups (None: nothing else bounds them).

    >>> tree_sensitivity(10, 3, 20, 16, Relation.ADD_REMOVE)
    Sensitivity(l0=30, linf=10, l1=30, l2_squared=300)
    >>> tree_sensitivity(10, 3, 20, 16, Relation.ADD_REMOVE, 12)
    Sensitivity(l0=12, linf=10, l1=12, l2_squared=104)
    """
    k = max_groups if groups is None else min(max_groups, groups)
    # both are reached by replacement in leaves apart: |o − n|₁ ≤ |o|₁ + |n|₁, and |o − n|² ≤ |o|² + |n|² as o·n ≥ 0
    times = 1 if relation is Relation.ADD_REMOVE else 2
    one = k * total if together is None else min(k * total, together)
    squares = k * total**2 if together is None else squares_within(together, total, k)
    nodes = times * one  # each node that moves does so by a whole step
    if groups is not None:
        nodes = min(nodes, groups * cells)
    return Sensitivity(
        nodes, total, l1=min(times * one, nodes * total), l2_squared=min(times * squares, nodes * total**2)
    )


def allocate(
    sensitivities: Sequence[Sensitivity],
    *,
    epsilon: Fraction,
    delta: Fraction,
    kind: Kind,
    select: tuple[int, Relation, int] | None,
    reports: Sequence[Sensitivity] = (),
    report_share: Fraction = Fraction(0),
    trees: Sequence[tuple[Sensitivity, int]] = (),
    by_rank: Mapping[int, ExponentialQuantile] = MappingProxyType({}),
    shares: Sequence[Fraction] = (),
    width: int | None = None,
) -> Allocation:
    """Noise scales such that everything that leaves costs (ε, δ) together.

    Each column gets the same share of the budget, measured against its own sensitivity; so do the selection of groups
    (`select`: how many groups a unit may enter, the relation, and how many units a shown group has at least), each
    level of a tree (`trees`: of one level, and how many there are) and, within `report_share`, the reports. Places of
    `trees` that are chosen `by_rank` have the share of all of their levels. With `shares`, 1 together, columns and then
    each level of each tree have those; the selection then has one part beside `width` such.

    Raises:
        NotPrivate: the query needs a δ and none was given.
    """
    _check_delta(delta, kind, select)
    for_reports = epsilon * report_share
    left = epsilon - for_reports
    own = len(sensitivities)
    levels = [0 if i in by_rank else n for i, (_, n) in enumerate(trees)]
    columns = own + sum(n for _, n in trees)
    sensitivities = [*sensitivities, *(s for (s, _), n in zip(trees, levels, strict=True) for _ in range(n))]
    threshold, for_columns, noise_delta = None, left, delta
    if select is not None:
        max_groups, relation, least = select
        noise_delta = delta / 2 if kind is Kind.GAUSSIAN else Fraction(0)
        share = left / ((columns if width is None else width) + 1)
        threshold = selection(share, delta - noise_delta, max_groups, relation, least)
        for_columns = left - share
    named = {i: replace(q, epsilon=for_columns * trees[i][1] / columns) for i, q in by_rank.items()}
    for_columns -= sum((q.epsilon for q in named.values()), Fraction(0))
    report_noises = tuple(DiscreteLaplaceNoise(s.l1 * len(reports) / for_reports) for s in reports)
    report_events = sum((n.event(s) for n, s in zip(report_noises, reports, strict=True)), Composed())
    fixed = (threshold.event() if threshold else Composed()) + report_events
    fixed += sum((q.events for q in named.values()), Composed())
    parts = [*shares[:own], *(w for w, n in zip(shares[own:], levels, strict=False) for _ in range(n))]
    parts = parts or [Fraction(1, len(sensitivities)) for _ in sensitivities]
    moving = sum((w for s, w in zip(sensitivities, parts, strict=True) if s.l0), Fraction(0))
    parts = [w / (moving or 1) for w in parts]  # what no unit moves needs no part
    noises = _noises(sensitivities, for_columns, noise_delta, kind, parts)
    events = fixed + sum((n.event(s) for n, s in zip(noises, sensitivities, strict=True)), Composed())
    needs_delta = (
        delta
        if kind is Kind.GAUSSIAN or select is not None or not _is_pure(noises, sensitivities, for_columns)
        else Fraction(0)
    )
    starts = [own + sum(levels[:i]) for i in range(len(trees))]
    return Allocation(
        noises[:own],
        threshold,
        report_noises,
        events,
        Approximate(epsilon if events.parts else Fraction(0), needs_delta),
        # levels of one sensitivity have one noise
        tuple(named[i] if i in named else noises[start] for i, start in enumerate(starts)),
    )


def _noises(
    sensitivities: Sequence[Sensitivity], epsilon: Fraction, delta: Fraction, kind: Kind, shares: Sequence[Fraction]
) -> tuple[Additive, ...]:
    if not sensitivities:
        return ()
    pairs = list(zip(sensitivities, shares, strict=True))
    if kind is Kind.GAUSSIAN:
        mu_squared = mu_squared_for(epsilon, delta)
        return tuple(
            RoundedGaussianNoise(root_above(max(s.l2_squared, 1) / (mu_squared * share)) if s.l0 else _EXACT)
            for s, share in pairs
        )
    scales = [max(s.l1, 1) / (epsilon * share) if s.l0 else _EXACT for s, share in pairs]
    return composed(scales, sensitivities, epsilon, delta)


_EXACT = Fraction(1, 1024)  # of noise that is 0, but for a chance below 2^-1000, in a number that no unit moves


def composed(
    scales: Sequence[Fraction], sensitivities: Sequence[Sensitivity], epsilon: Fraction, delta: Fraction
) -> tuple[Additive, ...]:
    """Laplace noise of these scales, which cost (ε, δ) at most, all made smaller by the one factor at which they do."""
    factor = _composed_factor(tuple(sensitivities), tuple(scales), epsilon, delta)
    return tuple(DiscreteLaplaceNoise(b * factor) for b in scales)


def as_small(
    scales: Sequence[Fraction], sensitivities: Sequence[Sensitivity], epsilon: Fraction, delta: Fraction
) -> tuple[Additive, ...]:
    """As `composed`, of scales that may cost (ε, δ) already."""
    pairs = zip(scales, sensitivities, strict=True)
    less = sum((DiscreteLaplaceNoise(b * _LESS).event(s) for b, s in pairs), Composed())
    if PrivacyLoss(less).epsilon(delta=delta) > epsilon:
        return tuple(DiscreteLaplaceNoise(b) for b in scales)
    return composed(scales, sensitivities, epsilon, delta)


_LESS = Fraction(999, 1000)  # a factor from which on it is worth a search


@lru_cache(maxsize=256)  # a query is planned for its price and once more when it is asked
def _composed_factor(
    sensitivities: tuple[Sensitivity, ...], scales: tuple[Fraction, ...], epsilon: Fraction, delta: Fraction
) -> Fraction:
    """By how much all scales can shrink when a δ allows composition better than adding up ε."""
    if delta == 0 or sum(s.l0 for s in sensitivities) < _FEW:
        return Fraction(1)

    def loss(factor: Fraction) -> PrivacyLoss:
        pairs = zip(scales, sensitivities, strict=True)
        return PrivacyLoss(sum((DiscreteLaplaceNoise(b * factor).event(s) for b, s in pairs), Composed()))

    return min(calibrate(loss, epsilon=epsilon, delta=delta), Fraction(1))


_FEW = 8  # below so many numbers, adding up ε is the best composition at any useful δ


def _is_pure(noises: Sequence[Additive], sensitivities: Sequence[Sensitivity], epsilon: Fraction) -> bool:
    total = Fraction(0)
    for noise, s in zip(noises, sensitivities, strict=True):
        if not isinstance(noise, DiscreteLaplaceNoise):
            return False
        total += s.l1 / noise.scale
    return total <= epsilon


def _check_delta(delta: Fraction, kind: Kind, select: tuple[int, Relation, int] | None) -> None:
    if delta > 0:
        return
    if select is not None and select[2] > 1:
        raise NotPrivate(
            f"Groups of fewer than {select[2]} people are left out (min_people). Leaving them out needs δ > 0.",
            hint="pass delta=1e-6 (less than one over the number of people)",
            missing=[MissingFact("groups", "a δ to leave small groups out with", "delta=1e-7")],
        )
    if select is not None:
        raise NotPrivate(
            "The groups of this query are not declared. Showing undeclared groups needs δ > 0.",
            hint="pass delta=1e-6 (less than one over the number of people), or declare the keys: "
            'columns={"region": dp.Values("north", "south")}',
            missing=[MissingFact("groups", "a δ to select groups with", "delta=1e-7")],
        )
    if kind is Kind.GAUSSIAN:
        raise NotPrivate(
            "Gaussian noise needs a δ above 0.",
            hint="pass delta=1e-6, or use noise='laplace'",
            missing=[MissingFact("delta", "a δ for Gaussian noise", "delta=1e-7", "noise='laplace'")],
        )


def root_above(x: Fraction) -> Fraction:
    """Return a fraction at or just above the square root, with relative error ≤ 2^-40 and a small denominator."""
    if x <= 0:
        raise InvalidParameter("a column that nobody can move needs no noise.")
    bits = 80 + x.denominator.bit_length()
    # isqrt and // both round down: 1 covers both
    root = math.isqrt((x.numerator << (2 * bits)) // x.denominator) + 1
    shift = max(root.bit_length() - 48, 0)
    return Fraction((root >> shift) + 1, 1) * Fraction(2) ** (shift - bits)
