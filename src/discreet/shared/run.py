"""From a question to two populations to its noisy table: edges are read once, flows are found, noise is added.

As `run.py`, the only place where private integers and noise meet: its input is the plan, a function that runs SQL, and
entropy; its output is the noisy table, and nothing else leaves it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.backends.connection import quietly
from discreet.plan.flows.flow import largest_flows
from discreet.plan.flows.plan import SharedPlan
from discreet.release import NoisyTable

if TYPE_CHECKING:
    from discreet.noise.entropy import Entropy

Run: TypeAlias = Callable[[str], list[tuple[Any, ...]]]
"""Runs SQL on the data."""

Whole: TypeAlias = NDArray[np.int64]


def measure_shared(plan: SharedPlan, run: Run, rng: Entropy) -> NoisyTable:
    """The noisy table of a plan.

    Guarantee:
        The result is a function of the flows with the plan's noise added, one row for each declared group in the order
        of their declaration; it costs each population what the plan charges it (docs/proofs/flows.md).
    """
    exact = exact_flows(plan, run)
    columns = [noise.add(column, rng) for noise, column in zip(plan.allocation.noises, exact, strict=True)]
    return NoisyTable(tuple(plan.question.keys.all()), tuple(zip(*columns, strict=True)))


def exact_flows(plan: SharedPlan, run: Run) -> list[list[int]]:
    """The exact number of each group, for each column. Private: only `measure_shared` and audits call it. When it
    fails, no exact number is in any frame of the traceback.
    """
    interrupted = False
    try:
        return quietly(lambda: _flows(plan, run(plan.sql)))
    except KeyboardInterrupt:  # raised anew below, without the frames that hold what was read
        interrupted = True
    assert interrupted
    raise KeyboardInterrupt("The question was interrupted while it ran. Its charges stand.")


def _flows(plan: SharedPlan, rows: Sequence[tuple[Any, ...]]) -> list[list[int]]:
    sizes = [len(values) for values in plan.question.keys.lists or ()]
    n, groups = len(sizes), plan.question.keys.count or 1
    columns = list(zip(*rows, strict=True)) if rows else [()] * (n + 2 + len(plan.flows))
    group = np.zeros(len(rows), np.int64)
    for size, places in zip(sizes, columns[:n], strict=True):
        group = group * size + np.array(places, np.int64)
    first, second = _numbered(columns[n]), _numbered(columns[n + 1])
    weights = iter(columns[n + 2 :])
    found = []
    for network in plan.networks:
        total = np.zeros(groups, np.int64)
        for flow in network.flows:
            weight = np.array(next(weights), np.int64)
            total += flow.sign * largest_flows(
                group,
                first,
                second,
                weight,
                groups=groups,
                most_first=flow.caps[0],
                most_second=flow.caps[1],
            )
        found.append(total.tolist())
    return found


_NAN = math.nan
"""One of the many objects that the database's only NaN comes as."""


def _numbered(ids: Sequence[Hashable]) -> Whole:
    """Each id by a number of its own, from 0: ids that are one to the database have one, and so has NaN."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(i if i == i else _NAN, len(known)) for i in ids], np.int64)
