"""Why each column moves as far as is claimed, in sentences; their wording belongs to the format."""

from __future__ import annotations

import math

from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.unit import Relation
from discreet.verify.claim import Measurement, PartKind, PlanClaim
from discreet.verify.flows import FlowClaim, span_of_side


def reasons(claim: PlanClaim) -> list[str]:
    """A sentence for each integer column, spread and selection of the claim, in order."""
    found = []
    for look in claim.looks:
        times = 2 if claim.relation.value == "replace" else 1
        found.append(
            f"The first look at {look.kind} counts a unit in {look.moved} of its counts or vectors of counts; a unit "
            f"moves each of them by {times} in all."
        )
        if look.values:
            found.append(
                f"For each of {look.values} chosen ranges a unit is counted once, as within it or as not; a unit moves "
                f"these two numbers by {times} in all."
            )
    for m in claim.measurements:
        where, change = _where(m), change_of(claim.relation)
        for i, c in enumerate(m.columns):
            found.append(
                f"Column m{i}: {where} and adds a whole number from {c.low:,} to {c.high:,} to each of them; when it "
                f"{change}, {moves(c.sensitivity)}."
            )
        for i, t in enumerate(m.trees):
            found.append(
                f"Spread {i}: {where} and adds weights to its leaves; when it {change}, in each of {t.depth} levels "
                f"{moves(t.sensitivity)}."
            )
        for v in m.levels:
            kept = ", ".join(f"g{i}" for i in v.kept) or "no key"
            found.append(f"Totals by {kept} are sums of the groups, and move as these do together.")
        if m.threshold is not None:
            found.append(
                f"Selection of groups: a unit is in at most {m.threshold.max_groups:,} of them, counted once in each."
            )
        counts = (
            "one of its counts, and leaves it for another"
            if change == "becomes another unit"
            else "one of its counts"
        )
        found += [f"Report {i}: a unit is in {counts} when it {change}." for i in range(len(m.reports))]
    return found + part_reasons(claim)


def part_reasons(claim: PlanClaim) -> list[str]:
    """A sentence for each private part of a recipe."""
    found = []
    for part in claim.parts:
        n = part.norms
        norms = f"l0 ≤ {n.l0:,}, l∞ ≤ {n.linf:,}, l1 ≤ {n.l1:,}, l2² ≤ {n.l2_squared:,}"
        if part.kind is PartKind.WHOLE:
            why = f"the recipe promises that one unit moves it by {norms} at most; nothing here proves it"
        else:
            whose = (
                "sees one unit at a time"
                if part.apart
                else "is promised to make each part of one unit's rows alone"
            )
            why = f"a unit's part beyond {norms} counts 0, which is checked in integers; the code {whose}"
        sampled = "" if part.sampling is None else f", each on a secret sample of units ({part.sampling!r})"
        found.append(
            f"Part {part.name!r}: {part.width:,} whole numbers of at most {part.rows:,} rows of a unit, drawn at most "
            f"{part.times:,} times{sampled} with {part.law.name}; {why}."
        )
    return found


def reasons_of_both(claim: FlowClaim) -> list[str]:
    """A sentence for each integer column and population, in order; the wording belongs to the format."""
    found = []
    for i, column in enumerate(claim.measured):
        flows = "a maximum flow" if len(column.pipes) == 1 else "a difference of two maximum flows"
        for place, side in enumerate(claim.sides):
            low, high = span_of_side(column, place)
            found.append(
                f"Column {i}: {flows} in each of {math.prod(claim.lists):,} groups, to which a unit of "
                f"{side.unit!r} adds a whole number from {low:,} to {high:,} by its caps; when it "
                f"{change_of(side.relation)}, {moves(side.sensitivities[i])}."
            )
    return found


def _where(m: Measurement) -> str:
    if m.keys == 0:
        return "a unit enters the one group"
    of = "" if m.declared is None else f" of {m.declared:,}"
    return f"a unit enters at most {m.groups:,}{of} groups"


def change_of(relation: Relation) -> str:
    """What happens to a unit between neighbours."""
    return "becomes another unit" if relation.value == "replace" else "comes or goes"


def moves(s: Sensitivity) -> str:
    """How far a unit moves a column, in words."""
    return (
        f"at most {s.l0:,} numbers move, each by {s.linf:,} at most, all by {s.l1:,} in sum and {s.l2_squared:,} in "
        "sum of squares"
    )
