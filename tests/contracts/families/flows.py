"""Answers to two populations at once: an audit from the side of each, and a twin that cuts rows off in an order."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from discreet.catalog.schema import TableSchema
from discreet.catalog.types import Type
from discreet.engine.cells import exact_flows
from discreet.noise.entropy import SystemEntropy
from discreet.plan.cost import Kind
from discreet.plan.flows.plan import make_flow_plan
from discreet.plan.plan import Plan
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.contracts.audit_row import ENGINE, AuditRow, sampled

PATIENTS = 12
EVERYBODYS = [(p, 0) for p in range(PATIENTS)]
"""Each patient's first visit: to the same doctor, who is there or not."""
OTHERS = [(p, p + 1) for p in range(PATIENTS)]
"""Each patient's second one, to a doctor of the own."""


@cache
def plan() -> Plan:
    """A count, of one visit of each patient and of each doctor, for ε = 1 of either."""
    patients, doctors = PrivacyUnit("patient", max_rows=1), PrivacyUnit("doctor", max_rows=1)
    table = TableSchema("visits", {"patient": Type.INT, "doctor": Type.INT}, {}, patients, Relation.ADD_REMOVE)
    return make_flow_plan(
        "SELECT COUNT(*) FROM visits",
        [table],
        {"visits": (patients, doctors)},
        populations=("patients", "doctors"),
        relations=(Relation.ADD_REMOVE, Relation.ADD_REMOVE),
        version=None,
        epsilons=(Fraction(1), Fraction(1)),
        deltas=(Fraction(0), Fraction(0)),
        kind=Kind.LAPLACE,
    )


def flow(visits: list[tuple[int, int]]) -> int:
    """The count, as it is measured."""
    rows: list[tuple[Any, ...]] = [(p, d, 1) for p, d in visits]
    ((count,),) = exact_flows(plan(), lambda sql: rows)
    return count


def in_order(visits: list[tuple[int, int]]) -> int:
    """The count of each patient's first visit, of which each doctor's first one is kept."""
    first: dict[int, int] = {}
    for patient, doctor in sorted(visits):
        first.setdefault(patient, doctor)
    return len(set(first.values()))


def without(population: str) -> AuditRow:
    """One unit goes who is in the way of the others: a doctor whom everybody sees, or a patient who sees everybody."""
    worlds = [[*EVERYBODYS, *OTHERS], OTHERS]
    if population == "patients":
        worlds = [[(d, p) for p, d in visits] for visits in worlds]

    def asked(count: Callable[[list[tuple[int, int]]], int]) -> Callable[..., object]:
        counts = [count(visits) for visits in worlds]

        def release(side: int, n: int) -> object:
            (noise,) = plan().query.allocation.noises
            return np.array(noise.add([counts[side]] * n, SystemEntropy()), dtype=np.float64)

        return release

    def turned(visits: list[tuple[int, int]]) -> int:
        """The twin cuts the other population first, so that whoever goes is in the second."""
        return in_order(visits if population == "doctors" else [(d, p) for p, d in visits])

    sound, twin = (sampled(asked(count), 0, 1, Budget(epsilon=1)) for count in (flow, turned))
    case = f"two populations, one of the {population} goes"
    return AuditRow(ENGINE, case, sound, twin, f"rows let in by an order: {PATIENTS - 1} for 1", 10_000, 100_000)


AUDITS = [without("doctors"), without("patients")]
"""The audits of this family."""
