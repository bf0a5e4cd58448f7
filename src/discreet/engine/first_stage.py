"""Uses of a first stage: counts of units with noise, from which caps and bounds of values are chosen.

Every number that is read is the number of units in a place that is known before; which places lie within a range that
was chosen follows from noisy counts (docs/proofs/census.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet.catalog.schema import Range
from discreet.engine.cells import measured
from discreet.engine.meter import PlannedUse, PrivateReads, drawn
from discreet.engine.recipe import Draw, Running
from discreet.errors import InternalError
from discreet.plan.auto_bounds.queries import CENSUS, CapsQuery, Choice, RangesQuery
from discreet.plan.auto_bounds.ranges import PLACES, holds
from discreet.plan.plan import Staging

if TYPE_CHECKING:
    from discreet.noise.entropy import Entropy
    from discreet.plan.plan import Plan
    from discreet.post.noisy_table import NoisyTable

SECOND = "second stage"  # the use that is set aside for what follows from the first stage

Counts: TypeAlias = dict[tuple[int, int], int]
"""For each pair of the places of a unit's least value and of its largest, how many units. Private."""


def first_stage_uses(stages: Staging) -> list[PlannedUse]:
    """Every use of the first stage."""
    found: list[PlannedUse] = [] if stages.of_caps is None else [CensusUse("caps", stages.of_caps)]
    look = stages.of_values
    if look is not None:
        for i in range(len(look.exprs)):
            found += [SizesUse(f"values {i} {end}", look, i, end) for end in look.ends]
            found.append(OutsideUse(f"outside {i}", look, i))
    return found


def chosen(stages: Staging) -> Running[Choice]:
    """Draws the first stage, and chooses: a function of the noisy counts."""
    caps, beyond, ranges, outside, look = None, None, [], [], stages.of_values
    if stages.of_caps is not None:
        caps, beyond = stages.of_caps.choose((yield Draw("caps")))
    for i in range(0 if look is None else len(look.exprs)):
        assert look is not None
        noisy = yield from drawn(Draw(f"values {i} {end}") for end in look.ends)
        ranges.append(look.choose(i, noisy, caps))
        outside.append((yield Draw(f"outside {i}", ranges[-1])))
    return Choice(caps, tuple(ranges), tuple(outside), beyond)


def measured_in_stages(plan: Plan) -> Running[tuple[Choice, Plan, NoisyTable]]:
    """Draws both stages: what was chosen, the plan with it, and its noisy table."""
    assert plan.stages is not None
    choice = yield from chosen(plan.stages)
    settled = plan.stages.settled(plan, choice)
    yield Draw(SECOND, plan=settled)
    return choice, settled, (yield from measured(settled.query, f"{SECOND} "))


@dataclass(frozen=True, slots=True)
class CensusUse(PlannedUse):
    """The noisy number of units in each place of the census of caps."""

    look: CapsQuery

    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> list[int]:
        found = {(int(k), int(t), int(m)): int(n) for k, t, m, n in exact.read(self.look.sql, False)}
        return self.look.noise.add([found.get(place, 0) for place in CENSUS], rng)


@dataclass(frozen=True, slots=True)
class SizedUse(PlannedUse):
    """A use that reads how many units have values of which size, which is read once for all of them."""

    look: RangesQuery  # what is read
    place: int  # which of its values it is of

    def counts(self, exact: PrivateReads) -> Counts:
        """How many units of which the value is the i-th. Private."""
        return exact.once("values", lambda: _read(self.look, exact))[self.place]


@dataclass(frozen=True, slots=True)
class SizesUse(SizedUse):
    """The noisy number of units in each place by their least value (`end` 0) or their largest one (1)."""

    end: int

    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> list[int]:
        found = dict.fromkeys(PLACES, 0)
        for place, n in self.counts(exact).items():
            found[place[self.end]] += n
        return self.look.noise.add(list(found.values()), rng)


@dataclass(frozen=True, slots=True)
class OutsideUse(SizedUse):
    """The noisy numbers of units that have a value outside a range, which is public, and of those that have none."""

    def draw(self, exact: PrivateReads, args: Range, rng: Entropy) -> tuple[int, int]:
        if type(args) is not Range:  # another class would be handed private places
            raise InternalError("What lies outside is counted of a range. The charge stands.")
        counts = self.counts(exact)
        within = sum(n for place, n in counts.items() if all(holds(args, p) for p in place))
        outside, inside = self.look.outside.add([sum(counts.values()) - within, within], rng)
        return outside, inside


def _read(look: RangesQuery, exact: PrivateReads) -> list[Counts]:
    """Add up the exact numbers of units of each value, by the places of their least value and of their largest."""
    found: list[Counts] = [{} for _ in look.exprs]
    each = len(look.ends)
    for *places, n in exact.read(look.sql, False):
        for i, counts in enumerate(found):
            of = places[i * each : (i + 1) * each]
            if all(p is not None and int(p) in PLACES for p in of):  # else another value's, or of no value
                place = int(of[-1]), int(of[0])
                counts[place] = counts.get(place, 0) + int(n)
    return found
