"""Caps chosen privately against fixed ones, at the same ε, on the heavy-tailed `visits`.

    python -m benchmarks.auto_bounds [--rows 1000000] [--rounds 5]

The error is Σ |noisy − exact| over the 20 regions, divided by the number of rows: truncation and noise together. Then
the same for SUM(amount) under fixed caps, with a declared range and with one that is chosen (`bounds="values"`).
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


SUMMED = "SELECT region, SUM(amount) AS n FROM visits GROUP BY region"
DECLARED = dp.Range(0, 200)
"""The largest amounts there are: what an owner would declare who knows the tariff."""


def errors(path: Path, rounds: int, question: str = QUESTION, amount: Any = None, **how: Any) -> list[float]:
    """The relative error of several answers at ε = 1."""
    with duckdb.connect() as db:
        exact = dict(db.execute(question.replace("FROM visits", f"FROM '{path}'")).fetchall())
    known = {} if amount is None else {"amount": amount}
    session = dp.connect(
        {"visits": str(path)},
        columns={"region": dp.Values(*REGIONS), **known},
        budget=dp.Budget(epsilon=1000),
        population="visits",
        ledger=":memory:",
        **how,
    )
    with session:
        answers = [session.sql(question, epsilon=1, fresh=True) for _ in range(rounds)]
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
    caps = dp.PrivacyUnit("user_id", max_groups=20, max_rows=100)
    known = statistics.median(errors(path, options.rounds, SUMMED, DECLARED, unit=caps))
    unknown = statistics.median(errors(path, options.rounds, SUMMED, unit=caps, bounds="values"))
    print(f"SUM with the range declared: {known:.2%} of the total; with one that is chosen: {unknown:.2%}")
    claims.append(Claim("error of a chosen range against the declared one, ε = 1", unknown / known, 2))
    print(*claims, sep="\n")
    print(save(f"auto-bounds-{options.rows}", {}, claims))


if __name__ == "__main__":
    main()
