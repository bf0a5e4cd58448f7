"""Asks random questions of random neighbours, as many as wanted: `python -m benchmarks.fuzz --queries 1000000`.

Runs add up: each begins at the first seed that none has asked, and what all of them saw is reported (alone with
`--report`). With `--rare` only those questions are asked that have a construct which was hit too seldom so far.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from benchmarks import runner
from benchmarks.fuzz import record
from benchmarks.fuzz.cases import QUESTIONS
from benchmarks.fuzz.questions import WRONG
from benchmarks.fuzz.tally import WANTED, Tally, one_seed, rare, strict

_STRETCH = 300.0  # seconds after which what was seen is written down
_HUNG = 1800.0  # seconds that no seed needs


def main() -> int:
    """Runs, reports, and saves the numbers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000, help="how many questions to ask now")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--rare", action="store_true", help="of these, ask only those with a rare construct")
    parser.add_argument(
        "--construct", default="", help="of these, ask only those with this construct, as reports name it"
    )
    parser.add_argument("--report", action="store_true", help="ask nothing, and report what was asked")
    parser.add_argument("--failures", type=Path, default=runner.ROOT / "tests" / "fixtures" / "fuzz")
    parser.add_argument("--record", type=Path, default=record.RECORD)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was seen is still written down
    now = Tally()
    if not options.report:
        with record.alone(options.record):
            now = _run(options)
    if options.construct:
        print(f"{options.construct}: {now.hits[options.construct]:,} of {now.seen[options.construct]:,} were answered")
    return _report(record.total(record.stretches(options.record)), now)


def _run(options: argparse.Namespace) -> Tally:
    """Asks the next seeds, and records them stretch by stretch."""
    before = record.stretches(options.record)
    start = record.next_seed(before)
    seeds = range(start, start + -(-options.queries // QUESTIONS))
    only: frozenset[str] = frozenset(rare(record.total(before))) if options.rare else frozenset()
    only = frozenset({options.construct}) if options.construct else only
    work = functools.partial(one_seed, failures=options.failures, only=only, wanted=options.construct)
    asked = record.version()
    first, until, ends = start, time.monotonic() + _STRETCH, time.monotonic() + options.seconds
    all_of_it, stretch, seed = Tally(), Tally(), start - 1
    try:
        for seed, tally in asked_in_order(seeds, work, options.processes):
            stretch.add(tally)
            all_of_it.add(tally)
            for line in (*tally.broken, *tally.slow):
                print(line, flush=True)
            if sys.stderr.isatty():
                print(f"\r{all_of_it.asked:,} asked", end="", file=sys.stderr)
            if time.monotonic() > min(until, ends):
                record.add(options.record, first, seed, stretch, asked)
                first, stretch, until = seed + 1, Tally(), time.monotonic() + _STRETCH
            if time.monotonic() > ends:
                break
    finally:
        if seed >= first:
            record.add(options.record, first, seed, stretch, asked)
    return all_of_it


def asked_in_order(seeds: range, work: Callable[[int], Tally], processes: int) -> Iterator[tuple[int, Tally]]:
    """The seeds in their order with what they gave; one that takes its process down is broken itself."""
    left = deque(seeds)
    while left:
        pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), strict, max_tasks_per_child=500)
        waiting: deque[tuple[int, Future[Tally]]] = deque()
        try:
            while left or waiting:
                while left and len(waiting) < 2 * processes:
                    waiting.append((left[0], pool.submit(work, left.popleft())))
                seed, future = waiting[0]
                found = future.result(timeout=_HUNG)
                waiting.popleft()
                yield seed, found
        except (BrokenProcessPool, TimeoutError) as error:
            seed, _ = waiting.popleft()
            left.extendleft(reversed([s for s, _ in waiting]))
            yield seed, Tally(broken=[f"seed {seed} took the process down: {type(error).__name__}"])
        finally:
            _end(pool)


def _end(pool: ProcessPoolExecutor) -> None:
    """Ends a pool's processes, the hanging ones too."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()


def _report(total: Tally, now: Tally) -> int:
    seldom = rare(total)
    print(f"{total.asked:,} questions, {total.answered:,} answered, {len(total.broken)} broke something")
    print(f"{total.moved:,} of them with integers that differ between the neighbours")
    if now.asked:
        each = now.seconds / now.asked
        print(f"now: {now.asked:,} at {each:.4f} CPU s each, {len(now.broken)} broke something")
    print(f"{len(total.hits)} constructs were hit")
    print(f"below {WANTED:,} hits: " + (", ".join(f"{c} ({n})" for c, n in seldom.items()) or "none"))
    refused = sorted(set(total.seen) - set(total.hits))
    print("never answered: " + (", ".join(refused) or "none"))
    claims = [
        runner.Claim("questions", total.asked, 1_000_000, "", at_least=True),
        runner.Claim("questions that were answered", total.answered, 500_000, "", at_least=True),
        runner.Claim("of them with integers that the neighbours tell apart", total.moved, 250_000, "", at_least=True),
        runner.Claim("cases that broke something", len(total.broken), 0, ""),
        *(
            runner.Claim(f"answered questions with {c}", total.hits[c], WANTED, "", at_least=True)
            for c in sorted({*total.hits, *seldom} - {WRONG})
        ),
    ]
    print(f"saved {runner.save('fuzz', {}, claims).name}")
    return 1 if now.broken else 0


if __name__ == "__main__":
    sys.exit(main())
