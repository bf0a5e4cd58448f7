"""Asks random questions of random neighbours, as many as wanted: `python -m benchmarks.fuzz --queries 1000000`."""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks import runner
from benchmarks.fuzz.cases import QUESTIONS
from benchmarks.fuzz.tally import WANTED, Tally, one_seed, quiet, rare


def main() -> int:
    """Runs, reports, and saves the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--failures", type=Path, default=runner.ROOT / "tests" / "fixtures" / "fuzz")
    parser.add_argument("--name", default="fuzz", help="of the file among the results")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + -(-options.queries // QUESTIONS))
    work = functools.partial(one_seed, failures=options.failures)
    total, until = Tally(), time.monotonic() + 60 * options.minutes
    with multiprocessing.get_context("spawn").Pool(options.processes, quiet, maxtasksperchild=200) as pool:
        for tally in _until(pool.imap_unordered(work, seeds), until):
            total.add(tally)
            for line in tally.broken:
                print(line, flush=True)
            if sys.stderr.isatty():
                print(f"\r{total.asked:,} asked, {len(total.broken)} broken", end="", file=sys.stderr)
    return _report(total, options.name)


def _until(tallies: Iterable[Tally], until: float) -> Iterator[Tally]:
    for tally in tallies:
        yield tally
        if time.monotonic() > until:
            return


def _report(total: Tally, name: str) -> int:
    seldom = rare(total)
    print(f"{total.asked:,} questions, {total.answered:,} answered, {len(total.broken)} broke something")
    print(
        f"{total.asked / max(total.seconds, 1e-9) * 60:,.0f} a CPU-minute; {len(total.hits)} constructs were hit"
    )
    print(f"below {WANTED:,} hits: " + (", ".join(f"{c} ({n})" for c, n in seldom.items()) or "none"))
    refused = sorted(set(total.seen) - set(total.hits))
    print("never answered: " + (", ".join(refused) or "none"))
    claims = [
        runner.Claim("questions", total.asked, 1_000_000, "", at_least=True),
        runner.Claim("questions that were answered", total.answered, 500_000, "", at_least=True),
        runner.Claim("cases that broke something", len(total.broken), 0, ""),
        *(
            runner.Claim(f"answered questions with {c}", total.hits[c], WANTED, "", at_least=True)
            for c in sorted({*total.hits, *seldom})
        ),
    ]
    print(f"saved {runner.save(name, {}, claims).name}")
    return 1 if total.broken else 0


if __name__ == "__main__":
    sys.exit(main())
