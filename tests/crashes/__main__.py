"""The crash campaign, for anyone: `python -m tests.crashes`.

    python -m tests.crashes                        10,000 points of each means
    python -m tests.crashes --points 200           a short one
    python -m tests.crashes --only kill,power      some means
    python -m tests.crashes --seed 7               another campaign
    python -m tests.crashes --replay "two ask the same" 12345

It ends with a table of what was tried, and with exit status 1 and the faults if there are any.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from tests.crashes.campaign import MEANS, Log, crash, swarm
from tests.crashes.interleavings import SCENARIOS, every_run, run
from tests.crashes.tracer import can_trace

RANDOM, ORDERS = "random kill", "interleaving"
_ALL = (*MEANS, RANDOM, ORDERS)


def main(args: list[str] | None = None) -> int:
    """Run the campaign and print its table; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.crashes", description=__doc__)
    parser.add_argument("--points", type=int, default=10_000, help="of each means")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(_ALL), help="some of: " + ", ".join(_ALL))
    parser.add_argument("--log", type=Path, help="where the table is kept as JSON")
    parser.add_argument("--replay", nargs=2, metavar=("SCENARIO", "NUMBER"), help="one interleaving again")
    asked = parser.parse_args(args)
    if asked.replay:
        return _replayed(*asked.replay)
    means = [part.strip() for part in asked.only.split(",")]
    if unknown := sorted(set(means) - set(_ALL)):
        parser.error(f"unknown means {unknown[0]!r}; there are: {', '.join(_ALL)}")
    if not can_trace() and set(means) & set(MEANS):
        parser.error(f"{', '.join(MEANS)} need Linux on x86-64; --only '{RANDOM},{ORDERS}' runs anywhere")
    began, log = time.monotonic(), Log()
    _campaign(asked.seed, asked.points, means, log)
    _print(log, time.monotonic() - began)
    if asked.log is not None:
        rows = [[*key, n] for key, n in sorted(log.tried.items())]
        asked.log.write_text(json.dumps({"tried": rows, "found": log.found}, indent=1), encoding="utf-8")
    return int(bool(log.found))


def _campaign(seed: int, points: int, means: list[str], log: Log) -> None:
    for way in means:
        number = seed
        while way in MEANS and log.points(way) < points:
            crash(number, log, most=points, means=(way,))
            _progress(way, log.points(way), points)
            number += 1
        while way == RANDOM and log.points(way) < points:
            swarm(number, log, kills=min(200, points - log.points(way)))
            _progress(way, log.points(way), points)
            number += 1
        if way == ORDERS:
            for scenario in SCENARIOS:
                _orders(scenario, points, log)


def _orders(scenario: str, most: int, log: Log) -> None:
    for number, wrong in every_run(scenario, most=most):
        log.tried[ORDERS, scenario, "any"] += 1
        log.found += [f'--replay "{scenario}" {number}: {text}' for text in wrong]
        if number % 500 == 0:
            _progress(scenario, log.tried[ORDERS, scenario, "any"], most)


def _replayed(scenario: str, number: str) -> int:
    if scenario not in SCENARIOS:
        print(f"there is no scenario {scenario!r}; there are: {', '.join(SCENARIOS)}", file=sys.stderr)
        return 2
    choices, wrong = run(scenario, int(number))
    print("choices:", " ".join(f"{choice + 1}/{among}" for choice, among in choices.made))
    print("\n".join(wrong) or "nothing is wrong")
    return int(bool(wrong))


def _progress(what: str, done: int, most: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{what}: {min(done, most):,} of {most:,}  ", end="", file=sys.stderr, flush=True)


def _print(log: Log, seconds: float) -> None:
    if sys.stderr.isatty():
        print(file=sys.stderr)
    by_step: Counter[tuple[str, str]] = Counter()
    by_change: dict[tuple[str, str], Counter[str]] = {}
    for (way, step, change), n in log.tried.items():
        by_step[way, step] += n
        by_change.setdefault((way, step), Counter())[change] += n
    print("| means | step | points | at which change |")
    print("|---|---|---|---|")
    for (way, step), n in sorted(by_step.items()):
        changes = ", ".join(f"{change} {k:,}" for change, k in sorted(by_change[way, step].items()))
        print(f"| {way} | {step} | {n:,} | {changes} |")
    print(f"\n{sum(by_step.values()):,} points in {seconds:,.0f} s; faults: {len(log.found)}")
    for fault in log.found[:50]:
        print("-", fault)


if __name__ == "__main__":
    sys.exit(main())
