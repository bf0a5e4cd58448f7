"""The bench of the contract of recipes: runs one on a data set, and sees and answers what mechanisms are handed."""

from __future__ import annotations

import copy
import json
import mmap
import os
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pytest

from discreet.backends.connection import open_database
from discreet.catalog.schema import TableSchema
from discreet.catalog.types import Type
from discreet.engine import person_parts
from discreet.engine.cells import GroupsUse
from discreet.engine.meter import Meter, PlannedUse, PrivateReads, Reserved
from discreet.engine.perform import planned_uses, verified
from discreet.engine.recipe import Draw, Drawn, Receipt, Wait
from discreet.engine.row_factor import RowFactor, RowPlaces, dense
from discreet.ledger.ledger import Ledger
from discreet.mechanisms.additive import Additive
from discreet.mechanisms.draws import AboveOrBelow, RunningTotals
from discreet.mechanisms.exponential_quantile import Chosen, ExponentialQuantile, doubling
from discreet.mechanisms.samples import FixedSizeSampling, OneOfSteps, PoissonSampling
from discreet.mechanisms.selection import Selection
from discreet.mechanisms.threshold import Threshold
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.plan.plan import Plan
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import Relation
from discreet.verify.claim import PartKind
from tests.contracts.recipes_row import RecipeRow
from tests.contracts.recipes_worlds import World

Exact: TypeAlias = Mapping[Hashable, int]
"""The exact numbers that a draw's mechanism was handed, by their places; one that is not there is 0."""


class Norms(NamedTuple):
    """How many numbers differ, by how much at most, in all, and in squares."""

    l0: int
    linf: int
    l1: int
    l2_squared: int


def norms_of(values: Any) -> Norms:
    """Return the four norms of whole numbers."""
    sizes = [abs(v) for v in values if v]
    return Norms(len(sizes), max(sizes, default=0), sum(sizes), sum(v * v for v in sizes))


def exceeds(found: Norms, planned: Any) -> bool:
    """Return whether a norm is larger than it was planned."""
    most = (planned.l0, planned.linf, planned.l1, planned.l2_squared)
    return any(a > b for a, b in zip(found, most, strict=True))


def moved(a: Exact, b: Exact) -> Norms:
    """Return how far apart the exact numbers of two draws are."""
    return norms_of(a.get(key, 0) - b.get(key, 0) for key in {**a, **b})


@dataclass(frozen=True)
class Script:
    """What mechanisms answer, whatever they are handed: extremes of what each of them may say.

    Attributes:
        numbers: in place of noisy numbers, one after the other and over again.
        place: in place of the chosen one of several, counted from the end where it is negative.
        keys: whether every group is shown, or none.
        above: in place of what a sparse vector says, one after the other, and the last for ever.
    """

    numbers: tuple[int, ...]
    place: int = 0
    keys: bool = False
    above: tuple[bool | None, ...] = (False,)


FAR = 1 << 62
SCRIPTS: Mapping[str, Script | None] = MappingProxyType(
    {
        "honest noise": None,
        "nothing": Script((0,), 0, keys=False, above=(None,)),
        "far below": Script((-FAR,), -1, keys=True, above=(False,)),
        "far above": Script((FAR,), 1, keys=True, above=(True, True, None)),
        "by turns": Script((FAR, 0, -FAR, 1, -1, 40), 2, keys=True, above=(False, True, False, True, None)),
        "beyond 64 bits": Script((1 << 80, -(1 << 80)), 3, keys=False, above=(True, None)),
    }
)


@dataclass
class Told:
    """One draw: what was asked, what came back, and what the mechanism had been handed."""

    draw: Draw
    use: PlannedUse
    noisy: Any
    exact: Exact
    shape: tuple[int, ...]
    beyond: bool


@dataclass
class Trace:
    """One run of a recipe on one data set.

    Attributes:
        people: who is in the data set.
        script: what mechanisms answer; None for their own noise.
        replayed: what the public side is sent in place of what its draws gave.
        everyone: whether everybody is in a script's samples.
        told: the draws.
        state: what the run returned, or waited with.
        error: what it ended in.
        failed: where it failed: "public", "meter" or "private".
        forked: whether it went on in a child too; leaked: whether that was given noisy values.
    """

    people: Collection[int]
    script: Script | None = None
    replayed: Sequence[Any] | None = None
    everyone: bool = False
    told: list[Told] = field(default_factory=list)
    state: Any = None
    error: BaseException | None = None
    failed: str = ""
    forked: bool = False
    leaked: bool = False
    exact: dict[Hashable, int] = field(default_factory=dict)
    shape: list[int] = field(default_factory=list)
    beyond: bool = False
    _said: int = 0
    _busy: bool = False

    @property
    def draws(self) -> list[tuple[str, str]]:
        """What the public side asked for."""
        return [(told.draw.of, said(told.draw.args)) for told in self.told]

    def drawn(self, use: PlannedUse, exact: PrivateReads, args: Any, rng: Entropy) -> Any:
        """Draw a use, and send what is replayed in its place."""
        self.exact, self.shape, self.beyond, self._said = {}, [], False, 0
        try:
            noisy = use.draw(exact, args, rng)
            if isinstance(use, GroupsUse):  # its support is private: counts are compared by their keys
                self.exact = {key: cell[-1] for key, cell in use.cells(exact).items()}
        except BaseException:
            self.failed = "private"
            raise
        if self.replayed is not None:
            noisy = copy.deepcopy(self.replayed[len(self.told)])
        told = copy.deepcopy(noisy)
        self.told.append(Told(Draw(use.name, args), use, told, self.exact, tuple(self.shape), self.beyond))
        return noisy

    def handed(self, values: Mapping[int, Any], size: int | None, answer: Callable[[int], Any], own: Any) -> Any:
        """Note what a mechanism was handed, and answer in its place: by the script, or as it does itself."""
        if self._busy:  # a mechanism that is made of others
            return own()
        call, first = len(self.shape), self._said
        self.exact |= {(call, place): int(value) for place, value in values.items()}
        self.shape.append(-1 if size is None else size)
        self._said += size or 1
        if self.script is not None:
            return answer(first)
        self._busy = True
        try:
            return own()
        finally:
            self._busy = False

    def number(self, place: int) -> int:
        """Return the script's noisy number for the i-th of a draw."""
        assert self.script is not None
        return self.script.numbers[(place + len(self.told)) % len(self.script.numbers)]

    def numbers(self, first: int, size: int) -> list[int]:
        """Return the script's next noisy numbers."""
        return [self.number(first + i) for i in range(size)]


def is_sampled(who: int, draw: int) -> bool:
    """Return whether a person is in the sample that a script has for a draw."""
    return (who + draw) % 3 > 0


@contextmanager
def tapped(trace: Trace) -> Iterator[None]:
    """Let a trace see what every mechanism is handed, and answer in its place."""
    add, choose, keep = Additive.add, ExponentialQuantile.choose, Threshold.keep
    release, totals, starts = Selection.release, RunningTotals.start, AboveOrBelow.start
    total_of = person_parts.total_of

    def script() -> Script:
        assert trace.script is not None
        return trace.script

    def added(self: Additive, values: Sequence[int], rng: Entropy) -> Any:
        n = len(values)
        numbers = lambda first: trace.numbers(first, n)  # noqa: E731
        return trace.handed(dict(enumerate(map(int, values))), n, numbers, lambda: add(self, values, rng))

    def chosen(self: Any, places: Sequence[int], before: Sequence[int], cells: int, rng: Entropy) -> Any:
        def answer(first: int) -> Chosen:
            cell = (0, cells - 1, cells // 2, 1 % cells)[script().place % 4]
            edges = doubling(cell, cells)
            return Chosen(cell, tuple(edges), tuple(trace.numbers(first, len(edges) + 1)))

        weights = {place: b - a for place, (a, b) in zip(places, pairwise(before), strict=True)}
        return trace.handed(weights, None, answer, lambda: choose(self, places, before, cells, rng))

    def kept(self: Threshold, counts: Any, rng: Entropy) -> Any:
        return trace.handed({}, None, lambda _: [script().keys] * len(counts), lambda: keep(self, counts, rng))

    def released(self: Selection, candidates: Any, utilities: Any, *, rng: Entropy | None = None) -> Any:
        scores, n = dict(enumerate(utilities)), len(utilities)
        own = lambda: release(self, candidates, utilities, rng=rng)  # noqa: E731
        return trace.handed(scores, n, lambda _: candidates[(script().place + len(trace.told)) % n], own)

    def asked(self: AboveOrBelow, rng: Entropy) -> Any:
        run, said = starts(self, rng), []

        def draw(values: Any) -> Any:
            said.append(1)
            above = lambda _: script().above[min(len(said), len(script().above)) - 1]  # noqa: E731
            return trace.handed({0: int(values[0])}, 1, above, lambda: run(values))

        return draw

    def summed(self: RunningTotals, rng: Entropy) -> Any:
        run, said = totals(self, rng), []

        def draw(values: Any) -> Any:
            said.append(1)
            number = lambda first: None if len(said) > self.tree.steps else float(trace.number(first))  # noqa: E731
            return trace.handed({0: int(values[0])}, 1, number, lambda: run(values))

        return draw

    def total(part: Any, values: Any) -> Any:
        if part.kind is not PartKind.WHOLE:
            trace.beyond |= any(exceeds(norms_of(p), part.norms) for p in _parts_of(values))
        return total_of(part, values)

    def sample(self: Any, people: int, rng: Entropy) -> Iterator[Any]:
        while True:  # by their numbers, the same whoever else is there
            assert people == len(trace.people), "everybody is in the reads of sampled parts"
            chosen = [trace.everyone or is_sampled(who, len(trace.told)) for who in sorted(trace.people)]
            yield np.flatnonzero(chosen)

    with pytest.MonkeyPatch.context() as patch:
        for owner, name, tap in (
            (Additive, "add", added),
            (ExponentialQuantile, "choose", chosen),
            (Threshold, "keep", kept),
            (Selection, "release", released),
            (AboveOrBelow, "start", asked),
            (RunningTotals, "start", summed),
            (person_parts, "total_of", total),
        ):
            patch.setattr(owner, name, tap)
        for scheme in (PoissonSampling, FixedSizeSampling, OneOfSteps) if trace.script is not None else ():
            patch.setattr(scheme, "start", sample)
        yield


def _parts_of(values: Any) -> Iterator[list[int]]:
    """Yield the part of each person, as a list of integers."""
    if isinstance(values, RowPlaces):
        values = dense(values)
    if not isinstance(values, tuple):
        yield from map(list, {tuple(part) for part in values.tolist()})
        return
    if isinstance(values[1], RowFactor):
        yield from (part for parts in values[1].parts(values[0]) for part in parts.tolist())
        return
    for a, b in {(tuple(a), tuple(b)) for a, b in zip(values[0].tolist(), values[1].tolist(), strict=True)}:
        yield [x * y for x in a for y in b]


@dataclass(frozen=True, slots=True)
class Watched(PlannedUse):
    """A use of the product, which a trace watches."""

    inner: PlannedUse
    trace: Trace

    @property
    def times(self) -> int:
        return self.inner.times

    def read_ahead(self, exact: PrivateReads) -> None:
        self.inner.read_ahead(exact)

    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> Any:
        return self.trace.drawn(self.inner, exact, args, rng)


def watched(use: PlannedUse, trace: Trace) -> PlannedUse:
    """Return the use as it is watched; what is set aside for a later stage gives uses that are."""
    if isinstance(use, Reserved):
        return Reserved(use.name, lambda plan: [watched(u, trace) for u in use.uses(plan)])
    return Watched(use.name, use, trace)


# ------------------------------------------------------------------ the bench: a recipe, a relation, and a database
SECRET = 0x9E3779B97F4A7C15
"""The account's key, which chooses the rows of each person that are kept."""


class Filled:
    """A database with one data set in it."""

    def __init__(self) -> None:
        self.connection = open_database()
        self.connection.execute("SET threads = 1")
        self.filled: World | None = None


_database = cache(Filled)


class Bench:
    """Runs a row's recipe under one relation, on one data set after another."""

    def __init__(self, row: RecipeRow, relation: Relation) -> None:
        self.row = row
        column = row.unit.column
        self.columns = ({} if column is None else {column: Type.INT}) | row.columns
        self.tables = [TableSchema(row.table, self.columns, row.facts, row.unit, relation)]
        book = Ledger.prepared(":memory:")
        self.account = book.prepared_account("p", Budget(10**6, "0.5"), relation=relation)
        self._read: dict[tuple[World, str], list[tuple[Any, ...]]] = {}

    def plan(self, recipe: Any) -> Plan:
        """Return the recipe's plan, verified as a session does it."""
        plan: Plan = recipe.plan(self.tables)
        if self.row.trusted:
            stays_open = self.row.inputs is not None
            return verified(recipe, plan, self.account, self.tables, None, stays_open=stays_open)
        return plan

    def run(
        self,
        recipe: Any,
        plan: Plan,
        world: World,
        script: Script | None,
        replayed: Sequence[Any] | None = None,
        *,
        everyone: bool = False,
    ) -> Trace:
        """Run the recipe on a data set, to its end or its failure."""
        trace = Trace(world.people.keys(), script, replayed, everyone)
        uses = [watched(use, trace) for use in planned_uses(plan, recipe, None)]
        meter = Meter(uses, lambda text, keyed: self.rows(world, text, keyed=keyed), SystemEntropy())
        with tapped(trace):
            try:
                trace.state = self._followed(recipe, plan, meter, trace)
            except Exception as error:  # whatever it is: it is what the check is about
                trace.error = error
            meter.close()
        return trace

    def _followed(self, recipe: Any, plan: Plan, meter: Meter, trace: Trace) -> Any:
        """Return the state of a run that is sent noisy values, and inputs where it waits for them."""
        home, shared = os.getpid(), mmap.mmap(-1, 2)  # what a child of it writes is seen here
        inputs = iter(self.row.inputs or ())
        running, given = recipe.run(plan), None
        try:
            while True:
                trace.failed = "public"
                step = running.send(given)
                if isinstance(step, Wait):
                    given = next(inputs, shared)
                    if given is shared:
                        running.close()
                        return step.state
                    continue
                trace.failed = "meter"
                given = meter.draw(step)
                shared[1] |= os.getpid() != home
        except StopIteration as end:
            return end.value
        finally:
            if os.getpid() != home:
                shared[0] = 1
                os._exit(0)
            trace.forked, trace.leaked = bool(shared[0]), bool(shared[1])

    def rows(self, world: World, text: str, *, keyed: bool) -> list[tuple[Any, ...]]:
        """Return what the database gives for a statement on a data set."""
        if (world, text) not in self._read:
            if _database().filled is not world:
                self._fill(world)
            found = _database().connection.execute(text, {"secret": SECRET} if keyed else {}).fetchall()
            self._read[world, text] = found
        return list(self._read[world, text])

    def _fill(self, world: World) -> None:
        given = [(() if self.row.unit.is_row else (i,)) + own for i, rows in world.people.items() for own in rows]
        if world.backwards:
            given.reverse()
        kinds = {Type.INT: pa.int64(), Type.REAL: pa.float64(), Type.TEXT: pa.string(), Type.BOOL: pa.bool_()}
        schema = pa.schema([(name, kinds[kind]) for name, kind in self.columns.items()])
        cells = [pa.array([own[i] for own in given], field.type) for i, field in enumerate(schema)]
        database, table = _database(), f'main."{self.row.table}"'
        database.connection.register("given", pa.table(cells, schema))
        database.connection.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM given")
        database.filled = world

    def result(self, recipe: Any, plan: Plan, state: Any) -> tuple[str, str, str]:
        """Return what the ledger keeps of a state, and the answers that are built of it now and when it is replayed."""
        paid: Any = None
        receipt = Receipt(Drawn("2026-01-01T00:00:00", None), stored=False, paid=paid)
        settled = recipe.settled(plan, state)
        answers = recipe.answers(settled, state, recipe.build(settled, state, receipt))
        kept = json.dumps(recipe.keep(state))
        again = recipe.restore(plan, json.loads(kept))
        settled = recipe.settled(plan, again)
        replayed = recipe.answers(settled, again, recipe.build(settled, again, receipt))
        return kept, said(answers), said(replayed)


def said(value: Any) -> str:
    """Return a text that is the same for the same plain values."""
    if isinstance(value, np.ndarray):
        return f"array({value.dtype}, {value.tolist()})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{said(k)}: {said(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(said, value))})"
    return value.identity if isinstance(value, Plan) else repr(value)
