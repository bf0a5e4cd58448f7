"""Uses of a query to two populations: edges are read once, flows are found, and the planned noise is added."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.backends.connection import redacting_errors
from discreet.engine.meter import PlannedUse, PrivateReads, drawn
from discreet.engine.recipe import Draw, Running
from discreet.plan.flows.flow import Whole, largest_flows
from discreet.post.noisy_table import NoisyTable

if TYPE_CHECKING:
    from discreet.engine.cells import Run
    from discreet.noise.entropy import Entropy
    from discreet.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class FlowUse(PlannedUse):
    """A column's noisy flows, in each declared group in the order of their declaration."""

    plan: Plan
    place: int

    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> list[int]:
        found = exact.once("flows", lambda: exact_flows(self.plan, lambda text: exact.read(text, False)))
        return self.plan.query.allocation.noises[self.place].add(found[self.place], rng)


def flow_uses(plan: Plan) -> list[PlannedUse]:
    """Every use of a plan that two populations pay for."""
    return [FlowUse(f"column {i}", plan, i) for i in range(len(plan.query.allocation.noises))]


def measured_flows(plan: Plan) -> Running[NoisyTable]:
    """Draws every column: the noisy table.

    Guarantee:
        The result is a function of the flows with the plan's noise added, one row for each declared group in the order
        of their declaration; it costs each population what the plan charges it (docs/proofs/flows.md).
    """
    columns = yield from drawn(Draw(f"column {i}") for i in range(len(plan.query.allocation.noises)))
    return NoisyTable(tuple(plan.query.question.keys.all()), tuple(zip(*columns, strict=True)))


def exact_flows(plan: Plan, run: Run) -> list[list[int]]:
    """Return the exact number of each group, for each column. Private: only uses and audits call it."""
    return redacting_errors(lambda: _flows(plan, run(plan.query.sql)))


def _flows(plan: Plan, rows: Sequence[tuple[Any, ...]]) -> list[list[int]]:
    keys, flows = plan.query.question.keys, plan.flows
    assert flows is not None
    sizes = [len(values) for values in keys.lists or ()]
    n, groups = len(sizes), keys.count or 1
    columns = list(zip(*rows, strict=True)) if rows else [()] * (n + 2 + len(flows.flows))
    group = np.zeros(len(rows), np.int64)
    for size, places in zip(sizes, columns[:n], strict=True):
        group = group * size + np.array(places, np.int64)
    first, second = _numbered(columns[n]), _numbered(columns[n + 1])
    weights = iter(columns[n + 2 :])
    found = []
    for network in flows.networks:
        total = np.zeros(groups, np.int64)
        for flow in network.flows:
            weight = np.array(next(weights), np.int64)
            total += flow.sign * largest_flows(
                group, first, second, weight, groups=groups, most_first=flow.caps[0], most_second=flow.caps[1]
            )
        found.append(total.tolist())
    return found


_NAN = math.nan
"""One of the many objects that the database's only NaN comes as."""


def _numbered(ids: Sequence[Hashable]) -> Whole:
    """Each id by a number of its own, from 0: ids that are one to the database have one, and so has NaN."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(i if i == i else _NAN, len(known)) for i in ids], np.int64)
