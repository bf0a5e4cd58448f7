"""Caps chosen from a census of units against race-to-the-top truncation (R2T), for totals over joins, at the same ε.

    python -m benchmarks.race [--rows 1000000] [--scale 1] [--rounds 25]

R2T (Dong, Fang, Yi, Tao, Machanavajjhala 2022, https://doi.org/10.1145/3514221.3517844, section 4) answers a total
without self-joins of people by truncating each person's part at τ = 2, 4, 8, … up to a public bound GS, all of them
at once: each of the log2 GS truncated totals has Laplace noise of scale log2(GS)·τ/ε and loses
log2(GS)·ln(log2(GS)/β)·τ/ε; the largest is the answer. Here it is given what people exactly add, β = 0.1, and for GS
the largest number of rows that ours would choose, times the largest value. Ours is asked with `bounds="auto"`, and pays
for its census. Errors are relative to the true total, truncation and noise together, over the rounds.
"""

from __future__ import annotations

import argparse
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import discreet as dp
from benchmarks.chosen_ranges import choose, chosen_in, settled
from benchmarks.runner import Claim, save
from benchmarks.tpch import COLUMNS, PRIVATE
from benchmarks.tpch_tables import tables
from benchmarks.visits import visits
from discreet.engine.cells import Run, measure
from discreet.engine.release import Release
from discreet.noise.entropy import SystemEntropy

BETA = 0.1
"""With what chance R2T's penalty may fall short: the authors' own."""


@dataclass(frozen=True, slots=True)
class Raced:
    """A total over a join.

    Attributes:
        sql: what is asked.
        parts: SQL for what each person adds to it, one number a row.
        largest: the public bound on what a person may add, for R2T: 2^20 rows, times the largest value.
    """

    sql: str
    parts: str
    largest: float


LINES = "FROM customer, orders, lineitem WHERE c_custkey = o_custkey AND o_orderkey = l_orderkey"
REVENUE = "SUM(l_extendedprice * (1 - l_discount))"
OF_CUSTOMERS = {
    "TPC-H, lines of orders": Raced(
        f"SELECT COUNT(*) AS n {LINES}", f"SELECT COUNT(*) {LINES} GROUP BY c_custkey", 2**20
    ),
    "TPC-H, revenue": Raced(
        f"SELECT {REVENUE} AS n {LINES}", f"SELECT {REVENUE} {LINES} GROUP BY c_custkey", 2**20 * 105_000
    ),
    "TPC-H, late lines of one mode": Raced(
        f"SELECT COUNT(*) AS n {LINES} AND l_shipmode = 'MAIL' AND l_receiptdate > l_commitdate",
        f"SELECT COUNT(*) {LINES} AND l_shipmode = 'MAIL' AND l_receiptdate > l_commitdate GROUP BY c_custkey",
        2**20,
    ),
}
PAIRS = "FROM visits a JOIN visits b ON a.user_id = b.user_id AND a.region = b.region"
OF_VISITORS = {
    "visits, amounts in one region": Raced(
        "SELECT SUM(amount) AS n FROM visits WHERE region = 'region_07'",
        "SELECT SUM(amount) FROM visits WHERE region = 'region_07' GROUP BY user_id",
        2**20 * 200,
    ),
    "visits joined with themselves": Raced(
        f"SELECT COUNT(*) AS n {PAIRS}", f"SELECT COUNT(*) {PAIRS} GROUP BY a.user_id", 2**20
    ),
    "the same, far apart in time": Raced(
        f"SELECT COUNT(*) AS n {PAIRS} AND a.day > b.day + 300",
        f"SELECT COUNT(*) {PAIRS} AND a.day > b.day + 300 GROUP BY a.user_id",
        2**20,
    ),
}


def race_to_the_top(parts: np.ndarray[Any, Any], largest: float, epsilon: float, rng: np.random.Generator) -> float:
    """One answer of R2T."""
    steps = math.ceil(math.log2(largest))
    best = 0.0
    for j in range(1, steps + 1):
        tau = 2.0**j
        truncated = float(np.minimum(parts, tau).sum())
        penalty = steps * math.log(steps / BETA) * tau / epsilon
        best = max(best, truncated + float(rng.laplace(0, steps * tau / epsilon)) - penalty)
    return best


def chosen(raced: Raced, session: dp.Session, run: Run, rounds: int, epsilon: float) -> tuple[list[float], list[int]]:
    """Our answers and the caps that the census chose: both stages with fresh noise, each statement run once."""
    plan = session.plan(raced.sql, epsilon=epsilon)
    answers, caps = [], []
    for _ in range(rounds):
        both = settled(plan, choose(plan, run, SystemEntropy()))
        release = Release(both, measure(both.query, run, SystemEntropy()))
        answers.append(float(release.rows[0][0]))
        found = chosen_in(both).caps
        assert found is not None
        caps.append(found.rows)
    return answers, caps


def compare(
    raced: Raced, session: dp.Session, parts: np.ndarray[Any, Any], run: Run, rounds: int, epsilon: float
) -> tuple[list[float], list[float], str]:
    """The relative errors of both, and the caps that the census chose."""
    truth, rng = float(parts.sum()), np.random.default_rng(20_261_121)
    theirs = [race_to_the_top(parts, raced.largest, epsilon, rng) for _ in range(rounds)]
    ours, caps = chosen(raced, session, run, rounds, epsilon)
    low, high = min(caps), max(caps)
    return (
        [abs(x - truth) / truth for x in ours],
        [abs(x - truth) / truth for x in theirs],
        f"{low} to {high}" if low < high else str(low),
    )


def main() -> None:
    """Asks, prints the table, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    files = {n: f for n, f in tables(options.scale).items() if n in PRIVATE}
    given: list[tuple[dict[str, Raced], dict[str, Path], dict[str, Any]]] = [
        (OF_CUSTOMERS, files, {"unit": dp.PrivacyUnit("c_custkey", tables=PRIVATE)}),
        (OF_VISITORS, {"visits": visits(options.rows)}, {"unit": "user_id"}),
    ]
    claims = []
    print("| total | ε | ours, median | 95 % | R2T, median | 95 % | rows chosen |\n|---|---|---|---|---|---|---|")
    for questions, sources, how in given:
        with (
            duckdb.connect() as db,
            dp.connect(
                {n: str(f) for n, f in sources.items()},
                columns={"amount": dp.Range(0, 200)} if "visits" in sources else COLUMNS,
                budget=dp.Budget(epsilon=1_000_000),
                population="raced",
                ledger=":memory:",
                bounds="auto",
                **how,
            ) as session,
        ):
            for name, path in sources.items():
                db.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')")

            read: dict[str, list[Any]] = {}

            def run(sql: str, session: dp.Session = session, read: dict[str, list[Any]] = read) -> list[Any]:
                if sql not in read:
                    read[sql] = session._desk.backend.rows(sql, {})
                return read[sql]

            for name, raced in questions.items():
                parts = np.array([float(x) for (x,) in db.execute(raced.parts).fetchall()])
                for epsilon in (1.0, 0.1):
                    ours, theirs, rows = compare(raced, session, parts, run, options.rounds, epsilon)
                    shown = [
                        x
                        for e in (ours, theirs)
                        for x in (statistics.median(e), statistics.quantiles(e, n=20, method="inclusive")[-1])
                    ]
                    cells = " | ".join(f"{x:.2%}" for x in shown)
                    print(f"| {name} | {epsilon:g} | {cells} | {rows} |", flush=True)
                    claims.append(Claim(f"{name}, ε = {epsilon:g}: our median error ÷ R2T's", shown[0] / shown[2], 1))
    print(*claims, sep="\n")
    print(save("race", {}, claims))


if __name__ == "__main__":
    main()
