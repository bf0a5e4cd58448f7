"""Ranges that are chosen privately, many times over: how often they can be relied on, and whether their limit holds.

The engine's own first stage runs with its exact noise on counts of units by place, which are the same each time, and
its second stage on exact sums of clamped values; only the database is left out, so that a run takes milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import discreet as dp
from discreet.engine.cells import Run as Read
from discreet.engine.cells import measure
from discreet.engine.first_stage import chosen, first_stage_uses
from discreet.engine.meter import Meter, follow
from discreet.engine.release import Release
from discreet.noise.entropy import Entropy
from discreet.plan.auto_bounds.queries import Choice
from discreet.plan.auto_bounds.ranges import FINEST, WIDEST
from discreet.plan.auto_bounds.staged import ChosenBounds, PlanStages
from discreet.plan.measures.measure import CentredTotal
from discreet.plan.plan import Plan
from discreet.plan.query import Query

Values: TypeAlias = NDArray[np.float64]
Drawn: TypeAlias = Callable[[np.random.Generator, int], Values]

DISTRIBUTIONS: Mapping[str, Drawn] = {
    "uniform 0 to 100": lambda rng, n: rng.uniform(0, 100, n),
    "normal 170 ± 10": lambda rng, n: rng.normal(170, 10, n),
    "normal 0 ± 1": lambda rng, n: rng.normal(0, 1, n),
    "normal 50 ± 25": lambda rng, n: rng.normal(50, 25, n),
    "exponential 100": lambda rng, n: rng.exponential(100, n),
    "debts, −exponential 100": lambda rng, n: -rng.exponential(100, n),
    "lognormal 3, 1": lambda rng, n: rng.lognormal(3, 1, n),
    "lognormal 5, 2": lambda rng, n: rng.lognormal(5, 2, n),
    "Pareto 1.5": lambda rng, n: 10 * (1 + rng.pareto(1.5, n)),
    "Student's t, 3": lambda rng, n: rng.standard_t(3, n),
    "Poisson 3": lambda rng, n: rng.poisson(3, n).astype(float),
    "1 in 100 a thousand times as large": lambda rng, n: np.where(
        rng.random(n) < 0.01, 10_000.0, rng.uniform(0, 20, n)
    ),
}
"""Twelve, with one or two tails, heavy ones, zeros, and outliers."""

QUESTION = "SELECT AVG(x) AS m FROM t"
ENOUGH = 2_000
"""From so many rows times ε on, nearly all intervals are to be finite."""


class Seeded:
    """Entropy that is the same each time: for simulations, never for an answer."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def bytes(self, n: int, /) -> bytes:
        """The next random bytes."""
        return self._rng.bytes(n)


@dataclass(frozen=True, slots=True)
class Run:
    """What one run gave.

    Attributes:
        limit: the stated share of rows outside.
        outside: the true one.
        covered: whether the interval holds the clamped mean; None where it is infinite.
    """

    limit: float
    outside: float
    covered: bool | None


@dataclass(slots=True)
class World:
    """A table of n values, each a person's, and its answers to both stages.

    Attributes:
        values: the rows.
        staged: the question.
        sums: exact cells, the clamped mean and the share outside, of each plan that was asked for.
    """

    values: Values
    staged: Plan
    sums: dict[str, tuple[list[int], float, float]] = field(default_factory=dict)

    def runs(self, count: int, rng: np.random.Generator) -> Iterator[Run]:
        """So many independent runs of both stages."""
        counts = list(zip(*np.unique(places(self.values), return_counts=True), strict=True))
        entropy = Seeded(rng)
        for _ in range(count):
            plan = settled(self.staged, choose(self.staged, lambda _: counts, entropy))
            cells, mean, outside = self._exact(plan.query)
            table = measure(plan.query, lambda _, cells=cells: [tuple(cells)], entropy)  # type: ignore[misc]
            ((low, high),) = Release(plan, table).interval("m")
            finite = math.isfinite(low) and math.isfinite(high)
            limit = chosen_in(plan).limits[0]
            yield Run(float(limit), outside, low <= mean <= high if finite else None)

    def _exact(self, query: Query) -> tuple[list[int], float, float]:
        """The exact integers of the second stage, the mean of the clamped values, and the share outside."""
        found = self.sums.get(query.identity)
        if found is None:
            total = next(m for m in query.question.measures if isinstance(m, CentredTotal))
            v, n = total.value, len(self.values)
            steps = np.rint(np.clip(self.values / float(v.step), v.low, v.high))
            clamped = round(float(np.sum(steps - total.centre)))
            cells = [clamped if m is total else n for m in query.question.measures]
            assert isinstance(query.chosen, ChosenBounds)
            ends = [float(end) for r in query.chosen.choice.ranges for end in (r.low, r.high)]
            outside = float(np.mean((self.values < ends[0]) | (self.values > ends[1])))
            found = self.sums[query.identity] = cells, float(np.mean(steps)) * float(v.step), outside
        return found


def places(values: Values) -> NDArray[np.int64]:
    """The place of each value: its sign and its power of two, read off its bits."""
    power = np.clip(np.frexp(values)[1] - 1, FINEST, WIDEST) - FINEST + 1
    return np.asarray(np.sign(values) * power, np.int64)


def stages_of(plan: Plan) -> PlanStages:
    """How a plan's bounds are chosen."""
    assert isinstance(plan.stages, PlanStages)
    return plan.stages


def choose(plan: Plan, run: Read, rng: Entropy) -> Choice:
    """Runs a plan's first stage: what is chosen from its noisy counts."""
    stages = stages_of(plan)
    return follow(chosen(stages), Meter(first_stage_uses(stages), lambda text, _: run(text), rng))


def settled(plan: Plan, choice: Choice) -> Plan:
    """A plan in two stages with what its first one chose."""
    return stages_of(plan).settled(plan, choice)


def chosen_in(plan: Plan) -> ChosenBounds:
    """What was chosen for a plan, and what is known of it."""
    assert isinstance(plan.query.chosen, ChosenBounds)
    return plan.query.chosen


def staged(epsilon: float = 1) -> Plan:
    """The plan of the mean of a column without bounds, each row a person's; it makes one second stage for a range."""
    with dp.connect(
        {"t": pd.DataFrame({"x": [0.5]})},
        unit=dp.PrivacyUnit.row(),
        bounds="values",
        budget=dp.Budget(epsilon=1000),
        population="p",
        ledger=":memory:",
    ) as session:
        plan = session.plan(QUESTION, epsilon=epsilon, bounds="values")
    stages = stages_of(plan)
    second = cache(stages.second)
    once = replace(stages, second=lambda choice: second(Choice(choice.caps, choice.ranges)))
    return replace(plan, stages=once)


def worlds(sizes: tuple[int, ...], seed: int) -> Iterator[tuple[str, World]]:
    """A table of each size of each distribution, asked at ε = 1."""
    plan = staged()
    for number, (name, drawn) in enumerate(DISTRIBUTIONS.items()):
        for n in sizes:
            rng = np.random.default_rng([seed, number, n])
            yield name, World(drawn(rng, n), plan)


@dataclass(slots=True)
class Tally:
    """How many runs there were, and how many of them kept which promise."""

    runs: int = 0
    finite: int = 0
    covered: int = 0
    held: int = 0

    def add(self, run: Run) -> None:
        """Counts a run."""
        self.runs += 1
        self.finite += run.covered is not None
        self.covered += bool(run.covered)
        self.held += run.outside <= run.limit

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(a + b for a, b in zip(self.counts, other.counts, strict=True)))

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """All four."""
        return self.runs, self.finite, self.covered, self.held


def bar(share: float, runs: int) -> float:
    """A share that a right law falls below once in 30,000 times: four standard deviations below it."""
    return share - 4 * math.sqrt(share * (1 - share) / max(runs, 1))


def tallies(sizes: tuple[int, ...], runs: int, seed: int) -> dict[tuple[str, int], Tally]:
    """(distribution, number of rows) → what so many runs gave."""
    found: dict[tuple[str, int], Tally] = {}
    for name, world in worlds(sizes, seed):
        tally = found[name, len(world.values)] = Tally()
        rng = np.random.default_rng([seed, len(found)])
        for run in world.runs(runs, rng):
            tally.add(run)
    return found


def end_to_end(n: int, runs: int, unit: Any, seed: int) -> Tally:
    """The same of the whole engine, with its database and entropy: means of U(0, 100), one row a person."""
    values = np.random.default_rng(seed).uniform(0, 100, n)
    tally = Tally()
    with dp.connect(
        {"t": pd.DataFrame({"uid": range(n), "x": values})},
        unit=unit,
        bounds="values",
        budget=dp.Budget(epsilon=10 * runs),
        population="p",
        ledger=":memory:",
    ) as session:
        for _ in range(runs):
            release = session.sql(QUESTION, epsilon=1, fresh=True)
            found, ((low, high),) = chosen_in(release.plan), release.interval("m")
            (bounds,), (limit,) = found.choice.ranges, found.limits
            ends = float(bounds.low), float(bounds.high)
            mean, outside = np.mean(values.clip(*ends)), np.mean((values < ends[0]) | (values > ends[1]))
            finite = math.isfinite(low) and math.isfinite(high)
            covered = bool(low <= mean <= high) if finite else None
            tally.add(Run(float(limit), float(outside), covered))
    return tally
