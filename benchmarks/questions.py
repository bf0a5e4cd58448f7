"""Five everyday questions on `visits`: our answer beside plain DuckDB and the usual SQL that bounds each person.

    python -m benchmarks.questions [--rows 10000000] [--rounds 3] [--only Q4] [--linear]

Q1 COUNT(*); Q2 COUNT, SUM and AVG by 20 declared regions; Q3 the same by region and day, the groups selected privately;
Q4 the three quartiles of a column; Q5 the number of people. The two-window SQL bounds a person to 3 regions of 10 rows
and adds no noise: a floor for engines that bound this way. `--linear` asks Q2 of tables of growing size as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import discreet as dp
from benchmarks.query import GROUPS, HIGH, LOW, ROWS, in_duckdb, session
from benchmarks.runner import Claim, Contender, Timing, alternate, save, table
from benchmarks.visits import visits

PLAIN: Mapping[str, str] = {
    "Q1": "SELECT COUNT(*) FROM visits",
    "Q2": "SELECT region, COUNT(*), SUM(amount), AVG(amount) FROM visits GROUP BY region",
    "Q3": "SELECT region, day, COUNT(*), SUM(amount), AVG(amount) FROM visits GROUP BY region, day",
    "Q4": "SELECT quantile_cont(amount, 0.25), quantile_cont(amount, 0.5), quantile_cont(amount, 0.75) FROM visits",
    "Q5": "SELECT COUNT(DISTINCT user_id) FROM visits",
}
FEW = f"""
WITH few_rows AS (
    SELECT user_id, region, day, least(greatest(amount, {LOW}), {HIGH}) AS amount,
           row_number() OVER (PARTITION BY user_id, region ORDER BY hash(day, amount)) AS nth_row
    FROM visits),
few_groups AS (
    SELECT *, dense_rank() OVER (PARTITION BY user_id ORDER BY hash(user_id, region)) AS nth_group
    FROM few_rows WHERE nth_row <= {ROWS}),
few AS (SELECT * FROM few_groups WHERE nth_group <= {GROUPS})
"""
UNIT = dp.PrivacyUnit("user_id", max_groups=GROUPS, max_rows=ROWS)
TARGET = 0.45
SIZES = (1_000_000, 3_000_000, 10_000_000)


def two_windows(name: str) -> str:
    """The question over the rows that the usual bounding keeps."""
    text = FEW + PLAIN[name].replace("FROM visits", "FROM few")
    return f"{text} HAVING COUNT(DISTINCT user_id) > 20" if name == "Q3" else text


def ask(path: Path, name: str) -> None:
    """From the file to the noisy answer: connect, open an account, plan, charge, run, add noise."""
    with session(path, UNIT) as s:
        delta = 1e-6 if name == "Q3" else 0
        assert s.sql(PLAIN[name], epsilon=1, delta=delta, fresh=True).rows


def contenders(path: Path, name: str) -> list[Contender]:
    """Plain, bounded by two windows, and ours."""
    return [
        Contender("plain", partial(in_duckdb, path, PLAIN[name])),
        Contender("two windows", partial(in_duckdb, path, two_windows(name))),
        Contender("ours", partial(ask, path, name)),
    ]


def linear(rounds: int) -> tuple[list[Timing], Claim]:
    """Ours on growing tables; the cost for each row of the largest against that of the smallest."""
    entries = [Contender(f"{n:,} rows", partial(ask, visits(n), "Q2")) for n in SIZES]
    timings = alternate(entries, rounds=rounds)
    each = [t.cpu / n for t, n in zip(timings, SIZES, strict=True)]
    return timings, Claim("CPU for each row, largest table against smallest", each[-1] / each[0], 1.5)


def main() -> None:
    """Measures, prints the tables and the targets, and writes the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only")
    parser.add_argument("--linear", action="store_true")
    options = parser.parse_args()
    path = visits(options.rows)
    timings: dict[str, list[Timing]] = {}
    claims: list[Claim] = []
    for name in PLAIN:
        if options.only in (None, name):
            timings[name] = alternate(contenders(path, name), rounds=options.rounds)
            _, bounded, ours = timings[name]
            claims.append(Claim(f"{name}, CPU against two windows", ours.ratio(bounded)[0], TARGET))
            print(f"\n{name}\n{table(timings[name], baseline='two windows')}", flush=True)
    if options.linear:
        timings["growth"], claim = linear(options.rounds)
        claims.append(claim)
    print("", *claims, sep="\n")
    print(save(f"questions-{options.rows}", timings, claims))


if __name__ == "__main__":
    main()
