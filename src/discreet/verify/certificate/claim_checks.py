"""Claims as a check sees them: what each step asks of a claim, whoever pays; and the results of a plan's claim.

What a claim's mechanisms cost, as events, is recomputed from each column's move and noise, and composed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.mechanisms.rounds import WHOLE
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.unit import Relation, Sensitivity
from discreet.verify.certificate.forms import must
from discreet.verify.certificate.stored import check_stored, results_of
from discreet.verify.check import Found, check_moves, derived, priced, without_parts
from discreet.verify.claim import Cost, Measurement, NoisyColumn, PartKind, PlanClaim
from discreet.verify.derive import PrivateRows
from discreet.verify.levels import Tier, gaussian_cost, laplace_cost, tier_of
from discreet.verify.parts import part_reasons
from discreet.verify.plain import ambiguity
from discreet.verify.price import PricedPart, check_charge, norms, tree_moves
from discreet.verify.shapes import reject


@dataclass(frozen=True, slots=True)
class PricedNoise:
    """What the noise costs one population, derived anew as parts and as events, and the cost that is claimed."""

    parts: Sequence[PricedPart]
    events: Composed
    claimed: Cost


@dataclass(frozen=True, slots=True)
class RegistryFacts:
    """What a registry says of one population: its unit, whether groups are declared, the mechanisms, what else is out
    of scope.
    """

    unit: dict[str, Any]
    declared: bool
    mechanisms: Sequence[object]
    also: Sequence[str] = ()


class ClaimChecks(ABC):
    """What the steps of a check ask of a claim. What does not hold is `Broken` or a `DiscreetError`.

    Attributes:
        measures: whether anything is measured.
        payers: of each population that pays, its neighbours and its charge, in the order of the certificate.
        costs: every cost that the claim names.
        note: fields of a charge's note that this kind of claim has besides.
        promised: the parts whose sensitivity rests on the code of a recipe.
    """

    promised: Sequence[str] = ()
    measures: bool
    payers: tuple[tuple[Relation, Cost], ...]
    costs: tuple[Cost, ...]
    note: Mapping[str, Any]

    @abstractmethod
    def derive(self) -> None:
        """Derive what the statements give from their texts."""

    @abstractmethod
    def check_sensitivities(self) -> None:
        """Refuses sensitivities that are not exactly those of the statements."""

    @abstractmethod
    def priced(self) -> list[PricedNoise]:
        """Return what the noise costs each population."""

    @abstractmethod
    def check_charges(self) -> None:
        """Refuses charges that are not made up of what is priced."""

    @abstractmethod
    def sources(self, place: int) -> list[tuple[PrivateRows, Sequence[str]]]:
        """Return the rows that are read, as they are those of the population at this place, and the statements over
        them.
        """

    @abstractmethod
    def others(self, place: int, populations: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return the other populations that the rows belong to as well, with the columns of their ids."""

    @abstractmethod
    def check_stored(self, release: Mapping[str, Any]) -> None:
        """Refuses a stored release that holds other numbers than the claim has noise for."""

    @abstractmethod
    def reasons(self) -> list[str]:
        """Why each column moves as far as is claimed, in sentences; their wording belongs to the format."""

    @abstractmethod
    def registry_facts(self, place: int, populations: Sequence[str]) -> RegistryFacts:
        """Return what a registry says of the population at this place."""


class PlanChecks(ClaimChecks):
    """The claim of a plan, for which one population pays."""

    def __init__(self, claim: PlanClaim) -> None:
        self.claim = claim
        self.measures = bool(claim.measurements or claim.parts)
        self.payers = ((claim.relation, claim.charged),)
        self.costs = (claim.measured, claim.charged)
        self.note = {}
        self.promised = [part.name for part in claim.parts if part.kind is PartKind.WHOLE or not part.apart]

    @cached_property
    def facts(self) -> tuple[Found, ...]:
        """What the statements of each measurement say of a unit."""
        return derived(self.claim)

    def derive(self) -> None:
        for text in self.claim.statements:
            found = ambiguity(text)
            must(found is None, f"two readers of a statement could take it for different things: {found}")
        _ = self.facts

    def check_sensitivities(self) -> None:
        check_moves(self.claim, self.facts)
        check_exact(self.claim, self.facts)

    def priced(self) -> list[PricedNoise]:
        claim = self.claim
        return [PricedNoise(priced(claim, self.facts), of_measurements(claim), without_parts(claim))]

    def check_charges(self) -> None:
        check_charge(self.claim)
        same = self.claim.charged.events == of_charge(self.claim)
        must(same, "the events of the charge are not those of its parts")

    def sources(self, place: int) -> list[tuple[PrivateRows, Sequence[str]]]:
        found: list[tuple[PrivateRows, Sequence[str]]] = [(look.source, [look.sql]) for look in self.claim.looks]
        for m in self.claim.measurements:
            texts = [m.sql, *m.truncation, *(own for _, own in m.distinct), *(t.sql for t in m.trees)]
            found.append((m.source, [text for text in texts if text]))
        return [*found, *((part.source, [part.sql]) for part in self.claim.parts)]

    def others(self, place: int, populations: Sequence[str]) -> Sequence[tuple[str, str]]:
        return ()

    def check_stored(self, release: Mapping[str, Any]) -> None:
        check_stored(release, self.claim, self.facts)

    def reasons(self) -> list[str]:
        change, found = change_of(self.claim.relation), []
        times = 2 if self.claim.relation is Relation.REPLACE else 1
        for look in self.claim.looks:
            found.append(
                f"The first look at {look.kind} counts a unit in {look.moved} of its counts or vectors of counts; a "
                f"unit moves each of them by {times} in all."
            )
            if look.values:
                found.append(
                    f"For each of {look.values} chosen ranges a unit is counted once, as within it or as not; a unit "
                    f"moves these two numbers by {times} in all."
                )
        for m in self.claim.measurements:
            found += _reasons_of(m, change)
        return found + part_reasons(self.claim)

    def registry_facts(self, place: int, populations: Sequence[str]) -> RegistryFacts:
        claim, measured = self.claim, self.claim.measurements
        unit = {
            "is": sorted({unit_of(source) for source in claim.sources}),
            "population": populations[place],
            # what the second derivation finds; how many rows count (`m.rows`) is read off no statement
            "contribution": [{"groups": m.groups, "of_groups": m.declared} for m in measured],
            "bounded_by": _bounded_by(claim),
        }
        used: list[object] = [z for look in claim.looks for z in (look.noise, look.outside)]
        for m in measured:
            used += [*(c.noise for c in m.columns), *(t.noise for t in m.trees), *m.reports, m.threshold]
            used += [z for v in m.levels for z in v.noises]
        used += [part.law for part in claim.parts]
        return RegistryFacts(unit, any(m.lists for m in measured), [z for z in used if z is not None])


def _bounded_by(claim: PlanClaim) -> str:
    """Return what bounds a unit's contribution."""
    kinds = {part.kind for part in claim.parts}
    if PartKind.WHOLE in kinds:
        return "in part by the promise of a recipe, which nothing here proves; nothing is assumed of the data"
    if kinds:
        return "norms of a unit's part that are checked in integers; nothing is assumed of the data"
    return "the SQL that runs; nothing is assumed of the data"


def check_exact(claim: PlanClaim, found: Sequence[Found]) -> None:
    """Refuses a claim that a unit enters more groups, adds more or moves a column further than its statements let it.

    Less noise would have done then: it is no danger, and still not what the certificate says.

    Raises:
        InternalError: naming it.
    """
    other = claim.relation is Relation.REPLACE
    for m, facts in zip(claim.measurements, found, strict=True):
        if m.groups != facts.groups:
            reject("how many groups a unit enters")
        moves = facts.moves(m.declared, replace=other)
        for column, (low, high), moved in zip(m.columns, facts.spans, moves, strict=True):
            if (column.low, column.high) != (min(low, 0), max(high, 0)):
                reject("what a unit adds to a group")
            if moved.norms != norms(column.sensitivity):
                reject("how far a unit moves a column")
        for tree, reach in zip(m.trees, facts.trees, strict=True):
            moved = tree_moves(reach, facts.groups, replace=other)
            one = facts.groups * reach.total
            one = one if reach.together is None else min(one, reach.together)
            nodes = (2 if other else 1) * one  # each by a step, in as many as there are
            if m.declared is not None:
                nodes = min(nodes, m.declared * reach.leaves)
            if (nodes, reach.total, moved.l1, moved.l2_squared) != norms(tree.sensitivity):
                reject("how far a unit moves a tree")


def _reasons_of(m: Measurement, change: str) -> list[str]:
    """Return a sentence for each integer column, tree and selection of a measurement."""
    where = "a unit enters the one group"
    if m.keys:
        where = f"a unit enters at most {m.groups:,}{'' if m.declared is None else f' of {m.declared:,}'} groups"
    read = ", ".join(f"${name}" for name in results_of(m))
    found = (
        [f"It reads {read}, computed from earlier noisy numbers: what follows holds for every value."] if read else []
    )
    found += [
        f"Column m{i}: {where} and adds a whole number from {c.low:,} to {c.high:,} to each of them; when it "
        f"{change}, {moves(c.sensitivity)}."
        for i, c in enumerate(m.columns)
    ]
    found += [
        f"Quantile tree {i}: {where} and adds weights to its leaves; when it {change}, in each of {t.depth} levels "
        f"{moves(t.sensitivity)}."
        for i, t in enumerate(m.trees)
    ]
    for v in m.levels:
        kept = ", ".join(f"g{i}" for i in v.kept) or "no key"
        found.append(f"Totals by {kept} are sums of the groups, and move as these do together.")
    if m.threshold is not None:
        how = (
            f"gives {WHOLE:,}/√n to each of its n that are not shown so far" if m.weights else "is counted once in each"
        )
        found.append(f"Selection of groups: a unit is in at most {m.threshold.max_groups:,} of them, and {how}.")
    counts = "one of its counts" + (", and leaves it for another" if change == _REPLACED else "")
    return found + [f"Report {i}: a unit is in {counts} when it {change}." for i in range(len(m.reports))]


def change_of(relation: Relation) -> str:
    """Return what happens to a unit between neighbours."""
    return _REPLACED if relation is Relation.REPLACE else "comes or goes"


_REPLACED = "becomes another unit"


def moves(s: Sensitivity) -> str:
    """How far a unit moves a column, in words."""
    return (
        f"at most {s.l0:,} numbers move, each by {s.linf:,} at most, all by {s.l1:,} in sum and {s.l2_squared:,} in "
        "sum of squares"
    )


def rows_of(table: str, column: str) -> str:
    """Return a unit of rows of one table, in words."""
    return f"all rows of {table} with one value of {column}"


def unit_of(source: PrivateRows) -> str:
    """Return a unit of the rows that are read, in words."""
    if source.table is not None:
        return f"each row of {source.table}" if source.unit is None else rows_of(source.table, source.unit)
    ways = []
    for name, t in sorted(source.tables.items()):
        if t.unit is not None:
            ways.append(f"{name}.{t.unit}")
        elif t.key is not None:
            ways.append(f"{name}.{t.key[0]} -> {t.key[1]}.{t.key[2]}")
    if source.unit is None:
        own = next(name for name, t in source.tables.items() if not t.public)
        return f"each row of {own}"
    return f"all rows that lead to one value of the unit: {', '.join(ways)}"


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
        InternalError: a level that is none of the query's.
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
