"""The auditor against a zoo of broken and sound mechanisms, with the inputs searched, beside published auditors.

    python -m benchmarks.auditor                           until every case has twenty repetitions, on two cores
    python -m benchmarks.auditor --repetitions 1           one of each
    python -m benchmarks.auditor --only SparseVector,SVT34 the cases whose names contain one of these
    python -m benchmarks.auditor --only SVT34 --restart    forgets first what they have of it
    python -m benchmarks.auditor --record                  stores the table in auditor_table.md as well

Each repetition audits every case: `refute` with an error of 1e-4 and the repetition's number as the seed of its search.
Every audit is one line of recorded/auditor.jsonl, which is kept with the code, as soon as it is done, and is not done
again: repetitions may be gathered over several runs and machines. Who changes what a case rests on says `--restart`;
the table counts what is in the file. How long a whole repetition takes is measured only where one run does all of its
audits at once, on two cores: what was gathered in parts says nothing of it, and then no such claim is made.

The mechanisms on which auditors are compared have one audit more, for the lower bound on ε with 95 % confidence that
stands beside the published ones (auditor_peers.json): `refute` that does not stop at the verdict finds the inputs and
the event, and `lower_bound` counts it on fresh samples. `--repetitions 0` is that alone, `--no-bounds` leaves it out.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks import pace
from benchmarks.runner import Claim, Sample, Timing, save
from benchmarks.zoo import ALL, Case
from benchmarks.zoo.standard import STANDARD

PEERS = Path(__file__).with_name("auditor_peers.json")
TABLE = Path(__file__).with_name("auditor_table.md")
DONE = Path(__file__).with_name("recorded") / "auditor.jsonl"
CORES = 2
ERROR = 1e-4  # of each verdict
UNSURE = 0.05  # of each lower bound that is set beside the published ones
SECONDS = 300  # for one repetition of the whole suite
SEARCHED = 1_000_000  # samples of each neighbour to find the inputs and the event of such a bound
LONGER = {
    "NoisyHist1": 4_000_000,
    "ReportNoisyMax3": 4_000_000,
    "SparseVectorTechnique2": 4_000_000,
    "SparseVectorTechnique3": 8_000_000,
    "SparseVectorTechnique4": 8_000_000,
    "LaplaceParallel": 8_000_000,
}  # where several inputs or scores are nearly as good
SAMPLES = 10_000_000  # of each neighbour, on which that event is counted
MORE = {  # where the best event is rare, or the published bound near the truth; that took 200 million
    "LaplaceMechanism": 40_000_000,
    "TruncatedGeometricMechanism": 40_000_000,
    "NoisyHist1": 40_000_000,
    "ReportNoisyMax1": 80_000_000,
    "ReportNoisyMax2": 60_000_000,
    "ReportNoisyMax3": 400_000_000,
    "SparseVectorTechnique1": 200_000_000,
    "SparseVectorTechnique2": 200_000_000,
    "SparseVectorTechnique3": 100_000_000,
    "SparseVectorTechnique4": 800_000_000,
    "LaplaceParallel": 200_000_000,
    "NumericalSVT": 30_000_000,
}
NAMES = frozenset(case.name for case in STANDARD)


@dataclass(frozen=True, slots=True)
class Found:
    """What one audit of one case found.

    Attributes:
        case: its name.
        purpose: "verdict" or "bound".
        repetition: its number, the seed of the search.
        violated: the verdict.
        lower: the lower bound on ε.
        seconds: wall-clock seconds.
        cpu: CPU seconds.
        samples: of both neighbours, with those of the search.
        load: the machine's load average of the last minute: what the seconds are worth.
    """

    case: str
    purpose: str
    repetition: int
    violated: bool
    lower: float
    seconds: float
    cpu: float
    samples: int
    load: float


Task: TypeAlias = tuple[str, str, int]
"""Case, purpose and repetition."""


def audit(task: Task) -> Found:
    """One audit of one case: for the verdict, or for the bound."""
    from discreet.audit import lower_bound, refute

    name, purpose, seed = task
    case = next(c for c in ALL if c.name == name)
    began, cpu = time.perf_counter(), time.process_time()
    args: dict[str, Any] = {"error": ERROR, "samples": case.most_samples}
    if purpose == "bound":
        args = {"error": UNSURE, "samples": LONGER.get(name, SEARCHED), "keep": 1, "until": "end"}
    done = refute(case.mechanism, case.inputs, case.claimed, probes=False, seed=seed, **args)
    lower, samples = done.epsilon_lower, done.samples
    if purpose == "bound":  # the search has another error: its own bound does not count
        more = MORE.get(name, SAMPLES)
        lower, samples = lower_bound(case.mechanism, done, samples=more, error=UNSURE), samples + 2 * more
    spent = time.perf_counter() - began, time.process_time() - cpu
    return Found(*task, done.violated, lower, *spent, samples, os.getloadavg()[0])


def line(found: Found) -> str:
    """An audit as a line of the file: its fields in their order, a bound rounded down to six places."""
    lower = found.lower if math.isinf(found.lower) else math.floor(found.lower * 1e6) / 1e6
    seconds = [round(value, 2) for value in (found.seconds, found.cpu)]
    row = [found.case, found.purpose, found.repetition, int(found.violated), lower, *seconds, found.samples]
    return json.dumps([*row, round(found.load, 1)], ensure_ascii=False, separators=(",", ":")) + "\n"


def recorded() -> dict[Task, Found]:
    """The audits that were done before, the latest of each."""
    if not DONE.exists():
        return {}
    kept: dict[Task, Found] = {}
    for text in DONE.read_text(encoding="utf-8").splitlines():
        case, purpose, repetition, violated, *rest = json.loads(text)
        kept[case, purpose, repetition] = Found(case, purpose, repetition, bool(violated), *rest)
    return kept


def forget(names: Collection[str], purposes: Collection[str]) -> None:
    """Takes the audits of some cases for some purposes out of the file."""
    rows = recorded().items()
    kept = [line(r) for task, r in rows if task[0] not in names or task[1] not in purposes]
    DONE.parent.mkdir(exist_ok=True)
    DONE.write_text("".join(kept), encoding="utf-8")


def all_at_once(tasks: Sequence[Task], pool: Any) -> tuple[list[Found], float]:
    """All tasks, each recorded when it is done, and the wall-clock seconds that they took together."""
    began = time.perf_counter()
    found = []
    DONE.parent.mkdir(exist_ok=True)
    with DONE.open("a", encoding="utf-8") as file:
        for i, one in enumerate(pool.imap_unordered(audit, tasks)):
            found.append(one)
            file.write(line(one))
            file.flush()
            if sys.stderr.isatty():
                print(f"\r{i + 1}/{len(tasks)} ", end="", file=sys.stderr, flush=True)
    return found, time.perf_counter() - began


def table(cases: Sequence[Case], found: Mapping[str, Sequence[Found]], bounds: Mapping[str, Found]) -> Iterator[str]:
    """Markdown: the standard mechanisms beside published auditors, then all others."""
    peers = json.loads(PEERS.read_text(encoding="utf-8"))["mechanisms"]
    standard = [c for c in cases if c.name in NAMES]
    if standard:
        yield (
            "| mechanism | claimed | true | verdict | s | found (95 %) | s "
            "| DP-Sniper, logistic | s | DP-Sniper, MLP | s | StatDP | s |"
        )
        yield "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    for case in standard:
        bound = bounds.get(case.name)
        cells = [case.name, f"{case.epsilon:.4g}", _true(case), *_verdict(case, found[case.name])]
        cells += ["–", "–"] if bound is None else [f"{bound.lower:.4f}", f"{bound.seconds:.0f}"]
        for tool in ("DP-Sniper, logistic", "DP-Sniper, MLP", "StatDP"):
            theirs = peers[case.name].get(tool)
            many = theirs if isinstance(theirs, list) else [theirs] if theirs else []
            best = max(many, key=lambda row: row["lower"], default=None)
            cells += ["–", "–"] if best is None else [_theirs(case, best), f"{best['seconds']:.0f}"]
        yield "| " + " | ".join(cells) + " |"
    for title, broken in (("broken", True), ("sound", False)):
        others = [c for c in cases if c.name not in NAMES and c.broken is broken]
        if others:
            yield f"\n| {title} | claimed | true | verdict | s | found at the verdict | what it is |"
            yield "|---|---|---|---|---|---|---|"
        for case in others:
            rows = found[case.name]
            lower = f"{statistics.median(r.lower for r in rows):.3g}" if rows else "–"
            cells = [case.name, _claimed(case), _true(case), *_verdict(case, rows), lower, case.source]
            yield "| " + " | ".join(cells) + " |"
    runs = max((len(rows) for rows in found.values()), default=0)
    yield f"\nSeconds by the clock, on one core of {CORES} that are busy; medians of at most {runs} repetitions."


def _claimed(case: Case) -> str:
    if isinstance(case.claimed, int | float):
        return f"{case.claimed:.4g}"
    return f"{float(case.claimed.epsilon):.4g}, δ = {float(case.claimed.delta):g}"


def _true(case: Case) -> str:
    if case.true_epsilon is None:
        return "?"
    return "∞" if math.isinf(case.true_epsilon) else f"{case.true_epsilon:.4g}"


def _verdict(case: Case, rows: Sequence[Found]) -> tuple[str, str]:
    """The verdict with how often it was given, and the seconds."""
    if not rows:
        return "–", "–"
    violated = sum(r.violated for r in rows)
    right = violated == (len(rows) if case.broken else 0)
    word = "violated" if 2 * violated > len(rows) else "consistent"
    text = f"{word} {max(violated, len(rows) - violated)}/{len(rows)}{'' if right else ' **WRONG**'}"
    return text, f"{statistics.median(r.seconds for r in rows):.1f}"


def _theirs(case: Case, row: Mapping[str, Any]) -> str:
    """A published lower bound; one that is above the truth is marked."""
    above = case.true_epsilon is not None and row["lower"] > case.true_epsilon
    return f"{row['lower']:.4f}{' (above the truth)' if above else ''}"


def judged(
    cases: Sequence[Case], found: Mapping[str, Sequence[Found]], bounds: Mapping[str, Found], seconds: Sequence[float]
) -> list[Claim]:
    """What was aimed at, beside what was measured."""
    peers = json.loads(PEERS.read_text(encoding="utf-8"))["mechanisms"]
    missed = sum(not r.violated for c in cases if c.broken for r in found[c.name])
    accused = sum(r.violated for c in cases if not c.broken for r in found[c.name])
    above = {True: 0, False: 0}
    lower = 0
    for case in cases:
        known = math.inf if case.true_epsilon is None else case.true_epsilon
        above[False] += sum(r.lower > known for r in found[case.name])
        if case.name in bounds:
            above[True] += bounds[case.name].lower > known
            theirs = max(peers[case.name][t]["lower"] for t in ("DP-Sniper, logistic", "DP-Sniper, MLP"))
            if bounds[case.name].lower < theirs:
                lower += 1
                print(f"{case.name}: {bounds[case.name].lower:.4f} < {theirs:.4f}")
    claims = [
        Claim("broken mechanisms that were missed", missed, 0, ""),
        Claim("sound mechanisms that were accused", accused, 0, ""),
        Claim("lower bounds of the verdicts above the truth", above[False], 0, ""),
        # Each is wrong with a chance of 5 % at most: of twenty, one may be.
        Claim("lower bounds with 95 % confidence above the truth", above[True], 1, ""),
        Claim("rows in which DP-Sniper's lower bound is the higher one", lower, 0, ""),
    ]
    if seconds:
        middle = statistics.median(seconds)
        claims.append(Claim(f"one repetition, {CORES} processes (median)", middle, SECONDS, "s"))
    return claims


def main() -> None:
    """Audits, prints the table and the claims, and writes the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20, help="how many each case is to have")
    parser.add_argument("--only", default="", metavar="NAMES", help="cases whose names contain one of these")
    parser.add_argument("--restart", action="store_true", help="forgets what these cases have of what is asked for")
    parser.add_argument("--no-bounds", action="store_true", help="the verdicts alone")
    parser.add_argument("--processes", type=int, default=CORES, help="audits at a time")
    parser.add_argument("--record", action="store_true", help="store the table beside this file")
    options = parser.parse_args()
    parts = options.only.lower().split(",")
    cases = [c for c in ALL if any(part in c.name.lower() for part in parts)]
    if not cases:
        parser.error(f"no case has {options.only!r} in its name")
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"  # each process has one core
    if options.restart:
        verdicts = ["verdict"] if options.repetitions else []
        forget({c.name for c in cases}, verdicts if options.no_bounds else [*verdicts, "bound"])
    seconds: list[float] = []
    factors: list[float] = []
    # Fresh processes: forked ones would share the parent's random numbers and caches.
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        known = recorded()
        bounded = [] if options.no_bounds else [c for c in cases if c.name in NAMES]
        longest = sorted(bounded, key=lambda c: -MORE.get(c.name, 0))
        tasks = [t for c in longest if (t := (c.name, "bound", 0)) not in known]
        if tasks:
            rows, wall = all_at_once(tasks, pool)
            print(f"bounds: {wall:.0f} s, {sum(r.cpu for r in rows):.0f} s of CPU", flush=True)
        for i in range(options.repetitions):
            ordered = sorted(cases, key=lambda c: c.broken)
            tasks = [t for c in ordered if (t := (c.name, "verdict", i)) not in known]
            if not tasks:
                continue
            factors.append(pace.slowness())
            rows, wall = all_at_once(tasks, pool)
            factors.append(pace.slowness())
            if len(tasks) == len(ALL) and options.processes == CORES:
                seconds.append(wall)
            broken = {c.name: c.broken for c in cases}
            wrong = [r.case for r in rows if r.violated != broken[r.case]]
            spent = f"{wall:.0f} s, {sum(r.cpu for r in rows):.0f} s of CPU, load {os.getloadavg()[0]:.1f}"
            print(f"repetition {i}, {len(tasks)} cases: {spent}; wrong: {wrong or 'none'}", flush=True)
    found: dict[str, list[Found]] = {c.name: [] for c in cases}
    bounds: dict[str, Found] = {}
    for (name, purpose, number), row in sorted(recorded().items()):
        if name in found and purpose == "verdict" and number < options.repetitions:
            found[name].append(row)
        elif name in found and purpose == "bound" and not options.no_bounds:
            bounds[name] = row
    lines = list(table(cases, found, bounds))
    print(*lines, sep="\n")
    if options.record:
        TABLE.write_text("\n".join(["# The auditor's table", "", *lines]) + "\n", encoding="utf-8")
    claims = judged(cases, found, bounds, seconds)
    if not seconds:
        print("\nNo repetition was run whole and at once: nothing is said about its seconds.")
    print("", *claims, *([pace.report(factors)] if seconds else []), sep="\n")
    timings = {
        name: [Timing("verdict", tuple(Sample(r.seconds, r.cpu) for r in rows))] for name, rows in found.items() if rows
    }
    print(save("auditor", timings, claims))


if __name__ == "__main__":
    main()
