"""What each person's own budget adds to a question: time and memory, with millions of people in the table.

    python -m benchmarks.people [--people 10000000] [--asked 1000000] [--questions 18]

The same question, of so many of the people, is asked of the same file with one budget for all, and with one for each
person, whose table holds everybody. Of the latter the first in a process reads the whole table, and one in fifteen
writes it anew; both are told apart. Memory is that of a process which does nothing else.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import duckdb

import discreet as dp
from benchmarks.runner import Claim, Sample, Timing, in_subprocess, measure, report_sample, save, table

REGIONS = tuple(f"region {i}" for i in range(20))
EPSILON = Fraction(1, 1000)
SECONDS, MB = 1.5, 1024


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that is thrown away afterwards."""
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


def write(place: Path, people: int) -> Path:
    """A file with one row for each person."""
    file = place / "visits.parquet"
    with duckdb.connect() as db:
        db.execute(
            f"COPY (SELECT i AS id, 'region ' || (i % 20) AS region, (hash(i) % 10000) / 100.0 AS amount "
            f"FROM range({people}) t(i)) TO '{file}' (FORMAT parquet)"
        )
    return file


def session(file: Path, ledger: Path, *, each: bool) -> dp.Session:
    """One budget for all, or one for each person."""
    budgets = {"per_person": dp.Budget(1)} if each else {"budget": dp.Budget(100)}
    return dp.connect(
        {"visits": str(file)},
        unit=dp.PrivacyUnit("id", max_groups=1, max_rows=1),
        columns={"amount": dp.Range(0, 100), "region": dp.Values(*REGIONS)},
        population="visitors",
        ledger=ledger,
        **budgets,  # type: ignore[arg-type]  # a budget each
    )


def ask(s: dp.Session, asked: int) -> None:
    """A grouped count and sum over the first people."""
    sql = f"SELECT region, COUNT(*), SUM(amount) FROM visits WHERE id < {asked} GROUP BY region"
    s.sql(sql, epsilon=EPSILON, fresh=True)


def fill(file: Path, ledger: Path) -> None:
    """Everybody is charged once, so that the table has everybody."""
    with session(file, ledger, each=True) as s:
        s.sql("SELECT COUNT(*) FROM visits", epsilon=EPSILON)


def questions(file: Path, ledger: Path, asked: int, n: int) -> tuple[list[Timing], list[Claim]]:
    """Questions in turn, with one budget for all and with one for each."""
    with session(file, ledger.with_suffix(".all"), each=False) as plain, session(file, ledger, each=True) as own:
        ask(plain, asked)
        first = measure(lambda: ask(own, asked))
        pairs = [(measure(lambda: ask(plain, asked)), measure(lambda: ask(own, asked))) for _ in range(n)]
    for_all, for_each = (
        Timing("one budget", tuple(p for p, _ in pairs)),
        Timing("a budget each", tuple(q for _, q in pairs)),
    )
    # the table has a segment from before, one of the first question, and is merged at every sixteenth
    merging = [q.wall - p.wall for i, (p, q) in enumerate(pairs) if (i + 4) % 15 == 1]
    usual = [(q.wall - p.wall, q.cpu - p.cpu) for i, (p, q) in enumerate(pairs) if (i + 4) % 15 != 1]
    wall, cpu = (statistics.median(x) for x in zip(*usual, strict=True))
    return [for_all, for_each], [
        Claim("a question, wall seconds more", wall, SECONDS, "s"),
        Claim("a question, CPU seconds more", cpu, SECONDS, "s"),
        Claim("the first of a process, wall seconds more", first.wall - for_all.wall, SECONDS, "s"),
        *(Claim("one that writes the whole table, wall seconds more", x, SECONDS, "s") for x in merging),
    ]


def memory(file: Path, ledger: Path, asked: int) -> list[Claim]:
    """The most memory of a process that asks sixteen questions."""
    peaks = {}
    for name in ("all", "each"):
        copy = ledger.with_suffix(f".{name}.copy")
        shutil.copy(ledger, copy)
        found: Sample = in_subprocess(
            "benchmarks.people", "--once", name, "--file", str(file), "--ledger", str(copy), "--asked", str(asked)
        )
        peaks[name] = found.peak_mb or float("nan")
        print(f"peak memory, {name}: {peaks[name]:.0f} MB", flush=True)
    return [Claim("memory more", peaks["each"] - peaks["all"], MB, "MB")]


def once(file: Path, ledger: Path, asked: int, *, each: bool) -> None:
    """Sixteen questions, among which the table is merged."""
    if not each:
        ledger.unlink()
    with session(file, ledger, each=each) as s:
        for _ in range(16):
            ask(s, asked)


def main() -> None:
    """Measures, prints the table and the targets, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=10_000_000)
    parser.add_argument("--asked", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=18)
    parser.add_argument("--once", choices=["all", "each"], help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ledger", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        report_sample(lambda: once(options.file, options.ledger, options.asked, each=options.once == "each"))
        return
    with folder() as place:
        file, ledger = write(place, options.people), place / "people.ledger"
        fill(file, ledger)
        print(f"the ledger with {options.people:,} people: {ledger.stat().st_size / 1e6:.0f} MB", flush=True)
        claims = memory(file, ledger, options.asked)
        timings, found = questions(file, ledger, options.asked, options.questions)
    claims += found
    print(table(timings, baseline="one budget"), *claims, sep="\n")
    print(save("people", {f"{options.people:,} people, {options.asked:,} asked": timings}, claims))


if __name__ == "__main__":
    main()
