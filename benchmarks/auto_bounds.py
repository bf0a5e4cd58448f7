"""Caps chosen privately against fixed ones, at the same ε, on the heavy-tailed `visits`.

    python -m benchmarks.auto_bounds [--rows 1000000] [--rounds 5]

The error is Σ |noisy − exact| over the 20 regions, divided by the number of rows: truncation and noise together.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import duckdb

import discreet as dp
from benchmarks.runner import Claim, save
from benchmarks.visits import REGIONS, visits

QUESTION = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
FIXED = dp.PrivacyUnit("user_id", max_groups=3, max_rows=10)


def errors(path: Path, rounds: int, **how: Any) -> list[float]:
    """The relative error of several answers at ε = 1."""
    with duckdb.connect() as db:
        exact = dict(db.execute(f"SELECT region, COUNT(*) FROM '{path}' GROUP BY region").fetchall())
    session = dp.connect(
        {"visits": str(path)},
        columns={"region": dp.Values(*REGIONS)},
        budget=dp.Budget(epsilon=1000),
        population="visits",
        ledger=":memory:",
        **how,
    )
    with session:
        answers = [session.sql(QUESTION, epsilon=1, fresh=True) for _ in range(rounds)]
    return [sum(abs(exact[k] - n) for k, n in a.rows) / sum(exact.values()) for a in answers]


def main() -> None:
    """Asks, prints both errors and the target, and writes the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    path = visits(options.rows)
    fixed = statistics.median(errors(path, options.rounds, unit=FIXED))
    chosen = statistics.median(errors(path, options.rounds, unit="user_id", bounds="auto"))
    print(f"3 groups of 10 rows: {fixed:.1%} of all rows; chosen: {chosen:.1%}")
    claims = [Claim("error of chosen caps against fixed ones, ε = 1", chosen / fixed, 1 / 3)]
    print(*claims, sep="\n")
    print(save(f"auto-bounds-{options.rows}", {}, claims))


if __name__ == "__main__":
    main()
