"""What a run of the fuzzer has seen: questions, hits of each construct, and what was broken."""

from __future__ import annotations

import signal
import time
import warnings
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.fuzz.cases import cases, tried, write
from benchmarks.fuzz.check import Databases
from benchmarks.fuzz.dialects import constructs
from benchmarks.fuzz.questions import WRONG
from discreet.query.functions import FUNCTIONS

WANTED = 1000
"""How often each construct has to be hit among the questions that were answered."""

_SLOW = 10.0  # CPU seconds of one question that are worth a line


@dataclass(slots=True)
class Tally:
    """What was seen.

    Attributes:
        asked, answered: questions.
        moved: answered questions of which an integer differs between the neighbours.
        hits: construct → questions with it that were answered.
        seen: construct → questions with it.
        broken: a sentence for each thing that did not hold.
        slow: a sentence for each question that took long.
        seconds: CPU time.
    """

    asked: int = 0
    answered: int = 0
    moved: int = 0
    hits: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: Tally) -> None:
        """Takes another tally in."""
        self.asked += other.asked
        self.answered += other.answered
        self.moved += other.moved
        self.hits.update(other.hits)
        self.seen.update(other.seen)
        self.broken += other.broken
        self.slow += other.slow
        self.seconds += other.seconds


_DATABASES = Databases()


def one_seed(seed: int, failures: Path, only: Collection[str] = (), wanted: str = "") -> Tally:
    """The questions of one seed, tried; cases that break something are written down.

    Args:
        seed: which.
        failures: the folder for them.
        only: where there are some, only questions with one of these constructs are asked.
        wanted: a construct that is written on purpose.
    """
    found, started, filled = Tally(), time.process_time(), False
    for i, case in enumerate(cases(seed, wanted=wanted)):
        used = set(case.constructs)
        if only and used.isdisjoint(only):
            continue
        before = time.process_time()
        outcome = tried(_DATABASES, case, filled=filled)
        filled = True
        found.asked += 1
        found.seen.update(used)
        if outcome.refusal is None:
            found.answered += 1
            found.moved += outcome.moved
            found.hits.update(used)
        if outcome.broken:
            failures.mkdir(parents=True, exist_ok=True)
            write(case, failures / f"{seed}-{i}.json", why=outcome.broken[0])
            found.broken.append(f"seed {seed}, question {i}: {outcome.broken[0]}")
        if (took := time.process_time() - before) > _SLOW:
            found.slow.append(f"seed {seed}, question {i} took {took:.0f} CPU seconds")
    found.seconds = time.process_time() - started
    return found


def rare(tally: Tally, wanted: int = WANTED) -> dict[str, int]:
    """The constructs that were hit too seldom; those that no question may have are left out."""
    universe = {f"function {name}" for name in FUNCTIONS} | {*constructs()} | set(tally.hits) - {WRONG}
    return {c: tally.hits[c] for c in sorted(universe, key=lambda c: (tally.hits[c], c)) if tally.hits[c] < wanted}


def strict() -> None:
    """For a process that asks: warnings are errors, and Ctrl-C is its parent's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("error")
