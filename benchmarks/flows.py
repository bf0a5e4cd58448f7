"""What one question to two populations takes: a million visits of 100,000 patients to 1,000 doctors.

    python -m benchmarks.flows

Each line is one question, planned, charged to both accounts in a ledger in memory, and answered. Caps bind for a part
of the units, which is the slow case: where they bind for nobody, the flow is found at once.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import pyarrow as pa

import discreet as dp
from discreet.engine.cells import exact_flows
from discreet.plan.plan import Plan

QUESTIONS = (
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT SUM(cost) AS total FROM visits",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward",
    "SELECT ward, COUNT(*) AS n, SUM(cost) AS total, COUNT(DISTINCT patient) AS people FROM visits GROUP BY ward",
)


def table(visits: int, patients: int, doctors: int) -> pa.Table:
    """Visits, of which some patients and some doctors have many."""
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "patient": (patients * rng.random(visits) ** 2).astype(np.int64),
            "doctor": (doctors * rng.random(visits) ** 2).astype(np.int64),
            "cost": rng.gamma(2.0, 50.0, visits),
            "ward": rng.integers(0, 10, visits),
        }
    )


def main() -> None:
    """Print a line for each question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=int, default=1_000_000)
    parser.add_argument("--patients", type=int, default=100_000)
    parser.add_argument("--doctors", type=int, default=1_000)
    given = parser.parse_args()
    rows = max(given.visits // given.patients, 1), max(given.visits // given.doctors, 1)
    session = dp.connect_both(
        {"visits": table(given.visits, given.patients, given.doctors)},
        units={
            "patients": dp.PrivacyUnit("patient", max_rows=rows[0]),
            "doctors": dp.PrivacyUnit("doctor", max_rows=rows[1]),
        },
        budget={"patients": dp.Budget(1000), "doctors": dp.Budget(1000)},
        columns={"cost": dp.Range(0, 500), "ward": dp.Range(0, 9, integer=True)},
        ledger=":memory:",
    )
    with session:
        for question in QUESTIONS:
            wall, cpu = time.perf_counter(), time.process_time()
            release = session.sql(question, epsilon=1)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            print(f"{wall:6.2f} s, {cpu:6.2f} s of CPU{kept(session, release.plan, given.visits)}: {question}")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory {most:,.0f} MB")


def kept(session: dp.Session, plan: Plan, visits: int) -> str:
    """The share of all rows that the flow of COUNT(*) keeps; the table is invented, so that we may look."""
    place = [str(m.identity) for m in plan.query.question.measures]
    if "['rows']" not in place:
        return ""
    numbers = exact_flows(plan, lambda text: session._desk.backend.rows(text, {}))
    share = sum(numbers[place.index("['rows']")]) / visits
    return f", {share:.0%} of the rows within the caps"


if __name__ == "__main__":
    main()
