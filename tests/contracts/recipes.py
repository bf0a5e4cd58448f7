"""One contract for every recipe: what its public side may follow from, and what its private part must hold.

A `RecipeRow` says how a recipe is made, and of which table. Each check runs the recipe through the meter and the uses
of the product. Mechanisms are tapped: a check sees the exact numbers that they are handed, and may choose the noisy
ones, so that a recipe is led into states that honest noise never reaches. What is wrong is a list of `Fault`s, each
named by its check; a broken twin of a recipe is rejected by the check that is for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from discreet.engine.cells import ColumnUse, FlowUse, GroupsUse, ReportsUse, TotalsUse, TreeUse
from discreet.engine.first_stage import CensusUse, SizedUse
from discreet.engine.meter import PlannedUse
from discreet.engine.person_parts import PartUse
from discreet.errors import DiscreetError, InternalError
from discreet.plan.plan import Plan
from discreet.privacy.unit import Relation
from discreet.verify.claim import PartKind
from tests.contracts.recipes_bench import SCRIPTS, Bench, Norms, Script, Trace, exceeds, is_sampled, moved
from tests.contracts.recipes_row import RecipeRow as RecipeRow
from tests.contracts.recipes_worlds import World, extreme, furthest, usual, worlds


class Fault(NamedTuple):
    """Something that a recipe does and may not do: the check that saw it, and what it saw."""

    check: str
    saw: str


def planned(use: PlannedUse, relation: Relation, unit: str | None) -> Norms:
    """Return how far one unit may move a draw, as the plan says: the unit of this column, where rows have two."""
    times = 2 if relation is Relation.REPLACE else 1
    if isinstance(use, PartUse):
        part: Any = use.part
        return Norms(part.moves.l0, part.moves.linf, part.moves.l1, part.moves.l2_squared)
    if isinstance(use, ReportsUse):  # a unit is in one count of each report
        n = times * len(use.query.reports)
        return Norms(n, 1, n, n)
    if isinstance(use, CensusUse | SizedUse):  # counts of a first stage: a unit is in one of them
        return Norms(times, 1, times, times)
    if isinstance(use, FlowUse):
        assert use.plan.flows is not None
        (side,) = (p.side for p in use.plan.flows.parties if p.unit.column == unit)
        s = side.sensitivities[use.place]
        return Norms(s.l0, s.linf, s.l1, s.l2_squared)
    if isinstance(use, GroupsUse):
        assert use.query.allocation.threshold is not None
        n = use.query.allocation.threshold.touched
        return Norms(n, 1, n, n)
    if isinstance(use, TreeUse):
        s, depth = use.query.trees[use.place][0], use.query.question.trees[use.place].shape.depth
        return Norms(s.l0 * depth, s.linf, s.l1 * depth, s.l2_squared * depth)
    assert isinstance(use, ColumnUse | TotalsUse)
    s = use.query.sensitivities[use.place]
    if isinstance(use, TotalsUse):  # sums of cells, of which all that a unit moves may be one
        return Norms(s.l0, s.l1, s.l1, s.l1 * s.l1)
    return Norms(s.l0, s.linf, s.l1, s.l2_squared)


@dataclass(frozen=True)
class Effort:
    """How much is tried.

    Attributes:
        lone: people of every extreme in the largest data set.
        newcomers: people of every extreme who come, or take the place of another.
        scripts: what mechanisms answer.
        far: people who add as much as they may.
    """

    lone: int = 300
    newcomers: int = 6
    scripts: Sequence[str] = tuple(SCRIPTS)
    far: int = 4

    @property
    def hostile(self) -> dict[str, Script]:
        """The scripts that are no honest noise."""
        found = ((name, SCRIPTS[name]) for name in self.scripts)
        return {name: script for name, script in found if script is not None}


QUICK, THOROUGH = Effort(), Effort(lone=1000)
SHORT = Effort(60, 2, ("far above", "by turns"), far=2)
"""For the default tier."""


@cache
def begun(row: RecipeRow, relation: Relation) -> tuple[Bench, Any, Plan] | Fault:
    """Return a bench, a recipe and its plan; a fault where the second derivation refuses the plan."""
    bench, recipe = Bench(row, relation), row.make()
    try:
        return bench, recipe, bench.plan(recipe)
    except InternalError as error:
        return Fault("verified", error.message)


def faults_of(trace: Trace, where: str) -> Iterator[Fault]:
    """Yield what is wrong with how a run ended."""
    if trace.leaked or trace.forked:
        given = "was given noisy values" if trace.leaked else "was given nothing"
        yield Fault("forked", f"a child of the run went on, and {given} ({where})")
    error = trace.error
    if error is None or (trace.failed == "public" and isinstance(error, DiscreetError) and not _internal(error)):
        return
    check = {"public": "hostile noise", "meter": "paid for", "private": "raises"}[trace.failed]
    yield Fault(check, f"{type(error).__name__}: {error} ({where})")


def _internal(error: DiscreetError) -> bool:
    return isinstance(error, InternalError)


def transcript(row: RecipeRow, relation: Relation, effort: Effort = QUICK) -> Iterator[Fault]:
    """Sent the same noisy values over unrelated data, the public side makes equal draws, states and results."""
    start = begun(row, relation)
    if isinstance(start, Fault):
        yield start
        return
    bench, recipe, plan = start
    first, others = usual(row, 12, 5), (World({}), World(dict(enumerate(extreme(row, 15, 6)))))
    for name in effort.scripts:
        script = SCRIPTS[name]
        base = bench.run(recipe, plan, first, script)
        faults = list(faults_of(base, name))
        yield from faults
        if faults:
            return
        replayed = [t.noisy for t in base.told]
        shown = _shown(bench, recipe, plan, base)
        yield from (Fault("replay", f"another result ({name})") for _ in range(shown[1] != shown[2]))
        for world in others:
            other = row.make()
            again = bench.run(other, plan, world, script, replayed)
            yield from faults_of(again, name)
            if again.draws != base.draws:
                yield Fault("transcript", f"other draws ({name})")
            elif _shown(bench, other, plan, again) != shown:
                yield Fault("transcript", f"another state or result ({name})")


def _shown(bench: Bench, recipe: Any, plan: Plan, trace: Trace) -> tuple[str, str, str]:
    """Return what the ledger keeps and what is built, or the error in place of them."""
    try:
        if trace.error is not None:
            raise trace.error
        return ("", "", "") if trace.state is None else bench.result(recipe, plan, trace.state)
    except Exception as error:  # whether it is a declared one is another check
        told = f"{type(error).__name__}: {error}"
        return told, told, told


def hostile_noise(row: RecipeRow, relation: Relation, effort: Effort = QUICK) -> Iterator[Fault]:
    """Sent extremes of what mechanisms say, the public side ends in a result or a declared error."""
    start = begun(row, relation)
    if isinstance(start, Fault):
        yield start
        return
    bench, recipe, plan = start
    world = World(dict(enumerate(extreme(row, 12, 7))))
    for name, script in effort.hostile.items():
        trace = bench.run(recipe, plan, world, script)
        yield from faults_of(trace, name)
        if trace.error is None and trace.state is not None:
            try:
                bench.result(recipe, plan, trace.state)
            except Exception as error:  # whatever it is: it is what the check is about
                if not isinstance(error, DiscreetError) or _internal(error):
                    yield Fault("hostile noise", f"{type(error).__name__}: {error} ({name})")


def private_parts(row: RecipeRow, relation: Relation, effort: Effort = QUICK) -> Iterator[Fault]:
    """The private part raises nothing on any data set, repeats, has a public shape, and keeps to each person's rows."""
    start = begun(row, relation)
    if isinstance(start, Fault):
        yield start
        return
    bench, recipe, plan = start
    known = worlds(row, effort.lone)
    for name in ("far above", "by turns"):
        base = bench.run(recipe, plan, known["many"], SCRIPTS[name])
        faults = list(faults_of(base, name))
        yield from faults
        if faults:
            return
        replayed = [t.noisy for t in base.told]
        shapes = {tuple(t.shape for t in base.told)}
        for size, world in known.items():
            one = bench.run(recipe, plan, world, SCRIPTS[name], replayed)
            again = bench.run(recipe, plan, World(world.people, backwards=True), SCRIPTS[name], replayed)
            yield from faults_of(one, f"{name}, {size}")
            yield from faults_of(again, f"{name}, {size}")
            if [t.exact for t in one.told] != [t.exact for t in again.told]:
                yield Fault("repeats", f"other numbers of the same people ({name}, {size})")
            if any(t.beyond for t in one.told):
                yield Fault("clipped", f"a person's part is beyond the norms, and counts 0 ({name}, {size})")
            shapes.add(tuple(t.shape for t in one.told))
        if len(shapes) > 1:
            yield Fault("shape", f"how many numbers are drawn follows from the data ({name})")
        yield from _apart(bench, recipe, plan, usual(row, 7, 8), SCRIPTS[name], replayed)


def _apart(
    bench: Bench, recipe: Any, plan: Plan, world: World, script: Script | None, replayed: Sequence[Any]
) -> Iterator[Fault]:
    """Yield what is wrong where parts of kind each do not add up over people, or samples are not of people."""
    whole = bench.run(recipe, plan, world, script, replayed)
    alone = [bench.run(recipe, plan, world.only([i]), script, replayed, everyone=True) for i in world.people]
    for place, told in enumerate(whole.told):
        part: Any = told.use.part if isinstance(told.use, PartUse) else None
        if part is None or any(len(one.told) <= place for one in alone):
            continue
        within = [i for i in world.people if part.sampling is None or is_sampled(i, place)]
        if part.kind is not PartKind.WHOLE:
            total = Counter[Hashable]()
            for i in within:
                total.update(alone[i].told[place].exact)
            if moved(total, told.exact).l0:
                yield Fault("own rows", f"{part.name}: a draw is not the sum of what people have alone")
        elif part.sampling is not None:
            own = bench.run(recipe, plan, world.only(within), script, replayed, everyone=True)
            if moved(own.told[place].exact, told.exact).l0:
                yield Fault("samples", f"{part.name}: a sample is not a draw of these people alone")


class Move(NamedTuple):
    """How far one unit moved a draw, and how far it may."""

    of: str
    found: Norms
    most: Norms
    script: str


def bounds(row: RecipeRow, relation: Relation, effort: Effort = QUICK) -> Iterator[Fault]:
    """What one unit moves lies within the plan's norms, also in the states that hostile noise leads to."""
    for seen in moves(row, relation, effort):
        if isinstance(seen, Fault):
            yield seen
        elif exceeds(seen.found, seen.most):
            words = f"{seen.of}: one unit moves it by {seen.found}, and {seen.most} was planned ({seen.script})"
            yield Fault("bounds", words)


def moves(row: RecipeRow, relation: Relation, effort: Effort = QUICK) -> Iterator[Move | Fault]:
    """Yield how far each draw moves between neighbours; or how a run fails."""
    start = begun(row, relation)
    if isinstance(start, Fault):
        yield start
        return
    bench, recipe, plan = start
    far, others = furthest(row)[: effort.far], extreme(row, effort.newcomers, 11)
    some = World(dict(enumerate((*far, *usual(row, 6, 9).people.values(), *extreme(row, 4, 10)))))
    if relation is Relation.ADD_REMOVE:
        pairs = {some: [some.plus(o) for o in (*far, *others)], World({}): [World({0: o}) for o in (*far, *others)]}
        pairs[some] += [some.without(i) for i in range(5)]
    else:
        pairs = {some: [some.replaced(i, o) for i in range(len(far)) for o in far]}
        pairs[some] += [some.replaced(i, o) for i in (0, 9) for o in others]
        pairs[World({0: others[0]})] = [World({0: o}) for o in (*far, *others[1:])]
    for name, script in effort.hostile.items():
        for world, neighbours in pairs.items():
            base = bench.run(recipe, plan, world, script)
            failed = list(faults_of(base, name))
            yield from failed
            if failed:
                return
            replayed = [t.noisy for t in base.told]
            for neighbour in neighbours:
                other = bench.run(recipe, plan, neighbour, script, replayed)
                for a, b in zip(base.told, other.told, strict=False):
                    yield Move(a.draw.of, moved(a.exact, b.exact), planned(a.use, relation, row.unit.column), name)


CHECKS: tuple[Callable[[RecipeRow, Relation, Effort], Iterator[Fault]], ...] = (
    transcript,
    hostile_noise,
    private_parts,
    bounds,
)


def faults(row: RecipeRow, effort: Effort = QUICK) -> list[Fault]:
    """Return everything that is wrong with a recipe, each once."""
    found = (fault for relation in row.relations for check in CHECKS for fault in check(row, relation, effort))
    return list(dict.fromkeys(found))
