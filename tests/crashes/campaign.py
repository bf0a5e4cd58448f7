"""The campaign: every step of a workload is cut off at each change that it makes, in each way, and looked at."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.crashes.powercut import Files, Record, states
from tests.crashes.tracer import Change, End, Fate, run
from tests.crashes.workload import NAME, UNVERIFIED, Step, Told, faults, spending, workload

STEPS = 9
"""Of each workload, after the ledger and its accounts are made."""


@dataclass(slots=True)
class Log:
    """What was tried, and what was found.

    Attributes:
        tried: (means, step, change) → how often.
        found: the faults, in sentences that tell how to see them again.
    """

    tried: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)

    def points(self, means: str) -> int:
        """How often that means was tried."""
        return sum(n for (tried, _, _), n in self.tried.items() if tried == means)


def crash(seed: int, log: Log, *, most: int, means: tuple[str, ...], first: bool = False) -> None:
    """One workload: each of its steps in all the ways that `means` names (`MEANS`).

    Args:
        seed: the number of the workload.
        log: where it is told.
        most: the points of each means at which it ends, in the middle of the workload if need be.
        means: what is done.
        first: whether the first fault ends it.
    """
    with _folders() as (good, copy):
        rng = random.Random(seed)  # of the campaign, not of any release
        for number, step in enumerate(workload(rng, steps=STEPS)):
            for way in means:
                where = f"seed {seed}, step {number} ({step.name}), {way}"
                for point, change, wrong in _WAYS[way](step, good, copy, rng):
                    log.tried[way, step.name, change] += 1
                    log.found += [f"{where} {point}: {text}" for text in wrong]
                    if first and log.found:
                        return
                    if log.points(way) >= most:
                        break
            end = _run(step, good, lambda change: Fate.MADE)
            if end.status != 0:
                log.found.append(f"seed {seed}, step {number} ({step.name}) failed by itself")
                return
            if all(log.points(way) >= most for way in means):
                return


def swarm(seed: int, log: Log, *, kills: int, workers: int = 3) -> None:
    """Several workers on one ledger, one of which is killed at a random moment, again and again."""
    with _folders() as (folder, _):
        rng = random.Random(seed)
        for step in workload(rng, steps=0):
            step.work(folder / NAME, os.open(os.devnull, os.O_WRONLY))
        told: list[Told] = []
        running = [_worker(folder / NAME, rng.randrange(1 << 30)) for _ in range(workers)]
        for kill in range(kills):
            time.sleep(rng.random() * 0.03)
            pid, pipe = running.pop(rng.randrange(workers))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            told += Told.read(b"".join(iter(lambda p=pipe: os.read(p, 1 << 16), b"")))  # type: ignore[misc]
            os.close(pipe)
            log.tried["random kill", "charge beside others", "any"] += 1
            running.append(_worker(folder / NAME, rng.randrange(1 << 30)))
            if kill % 20 == 19 or kill == kills - 1:
                wrong = faults(folder / NAME, told, {})
                log.found += [f"seed {seed}, after {kill + 1} random kills: {text}" for text in wrong]
        for pid, pipe in running:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(pipe)


def _kills(step: Step, good: Path, copy: Path, rng: random.Random) -> Iterator[tuple[str, str, list[str]]]:
    """Killed before each change; killed after the last one is killed before it says so."""
    before, place, ended = spending(good / NAME), 0, False
    while not ended:
        seen: list[str] = []

        def decide(change: Change, seen: list[str] = seen, place: int = place) -> Fate:
            seen.append(change.call)
            return Fate.KILLED if len(seen) == place + 1 else Fate.MADE

        _fresh(good, copy)
        end = _run(step, copy, decide)
        ended = end.status != -signal.SIGKILL
        if not ended:
            yield f"before change {place + 1}", seen[-1], faults(copy / NAME, Told.read(end.said), before)
        place += 1


def _errors(step: Step, good: Path, copy: Path, rng: random.Random) -> Iterator[tuple[str, str, list[str]]]:
    """Each change is refused, made in part or forgotten, once, and the worker goes on as it can."""
    before = spending(good / NAME)
    for fate in (Fate.FULL, Fate.BROKEN, Fate.SHORT, Fate.LOST):
        place, hit = 0, True
        while hit:
            seen: list[Change] = []
            hit = False

            def decide(change: Change, seen: list[Change] = seen, place: int = place, fate: Fate = fate) -> Fate:
                seen.append(change)
                return fate if len(seen) == place + 1 and _can(change, fate) else Fate.MADE

            _fresh(good, copy)
            end = _run(step, copy, decide)
            hit = len(seen) > place
            if hit and _can(seen[place], fate):
                wrong = faults(copy / NAME, Told.read(end.said), before)
                yield f"{fate.value} at change {place + 1}", f"{seen[place].call}: {fate.value}", wrong
            place += 1


def _can(change: Change, fate: Fate) -> bool:
    if fate is Fate.SHORT:
        return len(change.data) > 1
    if fate is Fate.LOST:
        return change.call in ("fsync", "fdatasync")
    return True


def _power_cuts(step: Step, good: Path, copy: Path, rng: random.Random) -> Iterator[tuple[str, str, list[str]]]:
    """The power is cut after each change; what had been said by then must hold."""
    before, (record, told, said_at) = spending(good / NAME), _recorded(step, good, copy)
    for cut in range(len(record.changes) + 1):
        call = record.changes[cut - 1].call if cut else "none"
        known = [t for t, at in zip(told, said_at, strict=True) if at <= cut]
        for number, files in enumerate(_different(states(record, cut, draws=6, rng=rng))):
            _write(files, copy)
            yield f"after change {cut}, state {number}", call, faults(copy / NAME, known, before)


def _lies(step: Step, good: Path, copy: Path, rng: random.Random) -> Iterator[tuple[str, str, list[str]]]:
    """One sync was only said to be done, and the power is cut at the end. What was lost then cannot be had back: but
    the ledger, asked with the head that was known, says that it is not whole.
    """
    before, (record, told, _) = spending(good / NAME), _recorded(step, good, copy)
    syncs = [i for i, change in enumerate(record.changes) if change.call in ("fsync", "fdatasync")]
    for place in syncs:
        lied = replace(record, changes=record.changes[:place] + record.changes[place + 1 :])
        for number, files in enumerate(_different(states(lied, len(lied.changes), draws=4, rng=rng))):
            _write(files, copy)
            wrong = faults(copy / NAME, told, before)
            silent = [] if any(text.startswith(UNVERIFIED) for text in wrong) else wrong
            yield f"sync {place + 1} lost, state {number}", record.changes[place].call, silent


def _recorded(step: Step, good: Path, copy: Path) -> tuple[Record, list[Told], list[int]]:
    """What a step does, what its worker said, and after how many changes it said each of it."""
    _fresh(good, copy)
    record, said_at = Record.of(copy), list[int]()

    def decide(change: Change) -> Fate:
        record.changes.append(change)
        return Fate.MADE

    end = _run(step, copy, decide, lambda: said_at.append(len(record.changes)))
    return record, Told.read(end.said), said_at


def _different(found: Iterator[Files]) -> Iterator[Files]:
    seen = set()
    for files in found:
        state = tuple(sorted(files.items()))
        if state not in seen:
            seen.add(state)
            yield files


_WAYS = {"kill": _kills, "error": _errors, "power": _power_cuts, "lie": _lies}

MEANS = tuple(_WAYS)
"""kill -9 before each change, an I/O error at each, a power cut after each, and a sync that the disk only pretends."""


def _run(step: Step, folder: Path, decide: Callable[[Change], Fate], hear: Callable[[], None] | None = None) -> End:
    return run(lambda tell: _quietly(step, folder, tell), folder, decide, hear)


def _quietly(step: Step, folder: Path, tell: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a worker whose disk fails says so, and nobody listens
    step.work(folder / NAME, tell)


def _worker(path: Path, seed: int) -> tuple[int, int]:
    told, tell = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(tell)
        return pid, told
    try:
        rng = random.Random(seed)
        for step in [s for s in workload(rng, steps=10_000) if s.name.startswith("charge")]:
            step.work(path, tell)
    finally:
        os._exit(1)


@contextmanager
def _folders() -> Iterator[tuple[Path, Path]]:
    with tempfile.TemporaryDirectory(prefix="discreet-crashes-") as name:
        good, copy = Path(name).resolve() / "good", Path(name).resolve() / "copy"
        good.mkdir()
        copy.mkdir()
        yield good, copy


def _fresh(good: Path, copy: Path) -> None:
    _write({path.name: path.read_bytes() for path in good.iterdir()}, copy)


def _write(files: Files, folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
