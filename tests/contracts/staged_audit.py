"""The audit of questions in two stages: what was chosen, and the noisy answer under it, on two neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

import discreet as dp
from benchmarks.chosen_ranges import choose, settled, stages_of
from discreet.audit import Audit, distinguish
from discreet.engine.cells import measure
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.noise.entropy import SystemEntropy
from discreet.plan.auto_bounds.queries import Choice
from discreet.plan.auto_bounds.staged import PlanStages
from discreet.plan.plan import Plan
from discreet.privacy.guarantee import Budget

Staging: TypeAlias = Callable[[PlanStages], PlanStages]

PEOPLE = [(u, float(u)) for u in range(2, 9)]
MORE = [*PEOPLE, *[(1, 1000.0)] * 600]
"""One person more, with many rows and large values."""


def sound(stages: PlanStages) -> PlanStages:
    """The stages as they are."""
    return stages


def counted_for_each_row(stages: PlanStages) -> PlanStages:
    """The census counts rows where it should count people."""
    look = stages.of_caps
    assert look is not None and "count(*) AS VARCHAR" in look.sql
    counted = look.sql.replace("count(*) AS VARCHAR", "sum(pow(2, p1)) AS BIGINT")
    return replace(stages, of_caps=replace(look, sql=counted))


def placed_by_each_row(stages: PlanStages) -> PlanStages:
    """The places of all values of a person are counted, where those of the largest and the least should be."""
    look = stages.of_values
    assert look is not None and "max(v0) AS h0, min(v0) AS l0" in look.sql
    counted = look.sql.replace("max(v0) AS h0, min(v0) AS l0", "v0 AS h0, v0 AS l0").replace(" GROUP BY u\n", "\n")
    return replace(stages, of_values=replace(look, sql=counted))


def outside_with_little_noise(stages: PlanStages) -> PlanStages:
    """The numbers of units outside and within have a hundredth of their noise."""
    look = stages.of_values
    assert look is not None
    return replace(stages, of_values=replace(look, outside=DiscreteLaplaceNoise(look.outside.scale / 100)))


def asked(sql: str, slip: Staging, *, error: float, **options: Any) -> Callable[[int], Audit]:
    """An audit of all that two stages at ε = 1 give, with so many samples of each neighbour."""

    @cache
    def opened(side: int) -> tuple[Plan, Callable[[str], list[Any]], Callable[[Choice], Any]]:
        frame = pd.DataFrame((PEOPLE, MORE)[side], columns=["uid", "v"])
        session = dp.connect({"t": frame}, budget=Budget(epsilon=10**6), population="p", ledger=":memory:", **options)
        plan = session.plan(sql, epsilon=1, bounds=options["bounds"])
        plan = replace(plan, stages=slip(stages_of(plan)))
        read = cache(lambda text: session._desk.backend.rows(text, {}))
        return plan, read, cache(lambda choice: settled(plan, choice).query)

    def draws(side: int, n: int) -> object:
        plan, run, advised = opened(side)
        rng, found = SystemEntropy(), []
        for _ in range(n):
            choice = choose(plan, run, rng)
            caps = [] if choice.caps is None else [choice.caps.groups, choice.caps.rows, *(choice.beyond or ())]
            ends = [float(end) for r in choice.ranges for end in (r.low, r.high)]
            outside = [float(n) for counts in choice.outside for n in counts]
            # one plan for caps and a range
            bounded = advised(replace(choice, outside=((0, 0),) * len(outside[::2]), beyond=None))
            cells = measure(bounded, run, rng).cells[0]
            found.append([*caps, *ends, *outside, *map(float, cells)])
        return np.array(found)

    return lambda samples: distinguish(draws, 0, 1, Budget(epsilon=1), samples=samples, error=error, probes=False)
