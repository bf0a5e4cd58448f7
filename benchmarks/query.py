"""The query engine on `visits`: our answer beside plain DuckDB and the usual SQL that bounds each person.

    python -m benchmarks.query [--rows 10000000] [--rounds 5] [--peers]

Every contender goes from the Parquet file to the 20 × 3 numbers. The two-window SQL is what is commonly
written to bound one person to 3 regions and 10 rows in each; it adds no noise, so it is a floor for engines
that bound this way. Ours bounds, charges the ledger and adds noise.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

import discreet as dp
from benchmarks import peers
from benchmarks.bounding import GROUPS, HIGH, LOW, ROWS
from benchmarks.runner import Claim, Contender, Timing, alternate, in_subprocess, report_sample, save, table
from benchmarks.visits import REGIONS, visits

QUESTION = "SELECT region, COUNT(*) AS n, SUM(amount) AS total, AVG(amount) AS mean FROM visits GROUP BY region"
PLAIN = "SELECT region, COUNT(*), SUM(amount), AVG(amount) FROM visits GROUP BY region"
TWO_WINDOWS = f"""
WITH few_rows AS (
    SELECT user_id, region, least(greatest(amount, {LOW}), {HIGH}) AS amount,
           row_number() OVER (PARTITION BY user_id, region ORDER BY hash(day, amount)) AS nth_row
    FROM visits),
few_groups AS (
    SELECT *, dense_rank() OVER (PARTITION BY user_id ORDER BY hash(user_id, region)) AS nth_group
    FROM few_rows WHERE nth_row <= {ROWS})
SELECT region, COUNT(*), SUM(amount), AVG(amount) FROM few_groups WHERE nth_group <= {GROUPS} GROUP BY region
"""
PER_PERSON = dp.PrivacyUnit("user_id", max_groups=GROUPS, max_rows=ROWS)
PER_ROW = dp.PrivacyUnit.row()


def in_duckdb(path: Path, sql: str, settings: Sequence[str] = ()) -> list[tuple[object, ...]]:
    """The rows of one SQL text over the file, in a database opened for it."""
    with duckdb.connect() as db:
        for setting in settings:
            db.execute(setting)
        db.execute(f"CREATE VIEW visits AS SELECT * FROM read_parquet('{path}')")
        return db.execute(sql).fetchall()


@contextmanager
def session(path: Path, unit: dp.PrivacyUnit) -> Iterator[dp.Session]:
    """Our session on the file, with a ledger on disk that is thrown away afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        yield dp.connect(
            {"visits": str(path)},
            unit=unit,
            columns={"amount": dp.Range(LOW, HIGH), "region": dp.Values(*REGIONS)},
            budget=dp.Budget(epsilon=100_000, delta="0.1"),
            population="visits",
            ledger=f"{folder}/visits.ledger",
        )


def ask(path: Path, unit: dp.PrivacyUnit) -> None:
    """From the file to the noisy answer: connect, open an account, plan, charge, run, add noise."""
    with session(path, unit) as s:
        assert len(s.sql(QUESTION, epsilon=1, fresh=True).rows) == len(REGIONS)


def contenders(path: Path) -> dict[str, Callable[[], object]]:
    """What can be timed, by name."""
    return {
        "plain": lambda: in_duckdb(path, PLAIN),
        "two windows": lambda: in_duckdb(path, TWO_WINDOWS),
        "ours, per person": lambda: ask(path, PER_PERSON),
        "ours, per row": lambda: ask(path, PER_ROW),
    }


def engine(path: Path, rounds: int, *, with_peers: bool) -> tuple[list[Timing], list[Claim]]:
    """All contenders on one file."""
    entries = [Contender(name, run) for name, run in contenders(path).items()]
    opendp = peers.python_of("opendp") if with_peers else None
    if opendp is not None:
        entries.append(
            Contender("OpenDP (Polars)", lambda: in_subprocess("benchmarks.query_opendp", str(path), python=opendp))
        )
    elif with_peers:
        print("OpenDP is left out: make its environment with `python -m benchmarks.peers opendp`")
    timings = alternate(entries, rounds=rounds)
    by = {t.name: t for t in timings}
    per_row_extra = by["ours, per row"].cpu - 1.5 * by["plain"].cpu
    return timings, [
        Claim("per person, CPU against two windows", by["ours, per person"].ratio(by["two windows"])[0], 0.45),
        Claim("per row, CPU beyond 1.5 × plain", 1000 * per_row_extra, 50, "ms"),
    ]


def overhead(rounds: int) -> tuple[list[Timing], list[Claim]]:
    """What a question costs when there is next to no data: ours less plain on 100 rows."""
    path = visits(100)
    with session(path, PER_PERSON) as open_session:
        timings = alternate(
            [
                Contender("plain", lambda: in_duckdb(path, PLAIN)),
                Contender("ours, session open", lambda: open_session.sql(QUESTION, epsilon=1, fresh=True)),
                Contender("ours, with connect", lambda: ask(path, PER_PERSON)),
            ],
            rounds=4 * rounds,
        )
    plain, asked, connected = timings
    return timings, [
        Claim("fixed overhead of a question, CPU", 1000 * (asked.cpu - plain.cpu), 50, "ms"),
        Claim("fixed overhead of a question, wall", 1000 * (asked.wall - plain.wall), 50, "ms"),
        Claim("the same with connecting and a new ledger, CPU", 1000 * (connected.cpu - plain.cpu), 50, "ms"),
        Claim("the same with connecting and a new ledger, wall", 1000 * (connected.wall - plain.wall), 50, "ms"),
    ]


def memory(path: Path) -> tuple[list[Timing], list[Claim]]:
    """Peak memory of a process that does nothing else."""
    timings = [
        Timing(name, (in_subprocess("benchmarks.query", "--once", name, "--file", str(path)),))
        for name in contenders(path)
    ]
    peak = {t.name: t.peak_mb or float("nan") for t in timings}
    return timings, [Claim("peak memory, per person", peak["ours, per person"], 1024, "MB")]


def main() -> None:
    """Measures, prints the tables and the targets, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", action="store_true", help="OpenDP too, where its environment was made")
    parser.add_argument("--once", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        report_sample(contenders(options.file)[options.once])
        return
    path = visits(options.rows)
    rows = f"{options.rows:,} rows"
    parts: dict[str, Callable[[], tuple[list[Timing], list[Claim]]]] = {
        rows: lambda: engine(path, options.rounds, with_peers=options.peers),
        "100 rows": lambda: overhead(options.rounds),
        f"{rows}, one process each": lambda: memory(path),
    }
    timings: dict[str, list[Timing]] = {}
    claims: list[Claim] = []
    for title, part in parts.items():
        timings[title], found = part()
        claims += found
        print(f"\n{title}\n{table(timings[title], baseline='plain')}", flush=True)
    print("", *claims, sep="\n")
    print(save(f"query-{options.rows}", timings, claims))


if __name__ == "__main__":
    main()
