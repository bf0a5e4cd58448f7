"""One way to measure: contenders take turns, medians are compared, CPU seconds stand beside wall seconds.

On a shared machine the wall clock mostly measures the neighbours. So contenders alternate within one run,
each round gives one ratio to the baseline, and the table shows the median ratio of CPU seconds with its
range over the rounds. Standard library only, so that a peer's own environment can import it.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).resolve().parent / "results"
_MARK = "sample: "


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: seconds by the clock, CPU seconds with children, peak memory where known."""

    wall: float
    cpu: float
    peak_mb: float | None = None


@dataclass(frozen=True, slots=True)
class Contender:
    """A named way to do the work. A call that returns a `Sample` measured itself, in a process of its own."""

    name: str
    run: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timing:
    """All rounds of one contender."""

    name: str
    samples: tuple[Sample, ...]

    @property
    def wall(self) -> float:
        """The median of the wall seconds."""
        return statistics.median(s.wall for s in self.samples)

    @property
    def cpu(self) -> float:
        """The median of the CPU seconds."""
        return statistics.median(s.cpu for s in self.samples)

    @property
    def peak_mb(self) -> float | None:
        """The largest peak memory of any round, in MB."""
        peaks = [s.peak_mb for s in self.samples if s.peak_mb is not None]
        return max(peaks) if peaks else None

    def ratio(self, baseline: Timing) -> tuple[float, float, float]:
        """The median, least and greatest ratio of CPU seconds to the baseline's, round by round."""
        rounds = [s.cpu / max(b.cpu, 1e-9) for s, b in zip(self.samples, baseline.samples, strict=True)]
        return statistics.median(rounds), min(rounds), max(rounds)


@dataclass(frozen=True, slots=True)
class Claim:
    """A measured number beside the number that was aimed at."""

    what: str
    measured: float
    limit: float
    unit: str = "×"
    at_least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the measured number is on the right side of the limit."""
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        verdict = "holds" if self.holds else "MISSED"
        target = f"target {sign} {self.limit:g} {self.unit}"
        return f"{self.what}: {self.measured:.3g} {self.unit} ({target}) {verdict}"


def measure(run: Callable[[], object]) -> Sample:
    """Runs once and returns its cost; the result of `run` itself when that is a `Sample`."""
    gc.collect()
    wall, cpu = time.perf_counter(), _cpu()
    result = run()
    cpu, wall = _cpu() - cpu, time.perf_counter() - wall
    return result if isinstance(result, Sample) else Sample(wall, cpu)


def alternate(contenders: Sequence[Contender], *, rounds: int = 5, warmup: int = 1) -> list[Timing]:
    """Runs every contender once a round, each round starting with another one, and returns their timings."""
    for _ in range(warmup):
        for c in contenders:
            c.run()
    samples: dict[str, list[Sample]] = {c.name: [] for c in contenders}
    for i in range(rounds):
        first = i % len(contenders)
        for c in [*contenders[first:], *contenders[:first]]:
            samples[c.name].append(measure(c.run))
    return [Timing(name, tuple(rows)) for name, rows in samples.items()]


def report_sample(run: Callable[[], object]) -> None:
    """Runs once and prints the cost for `in_subprocess` to read: what a child process ends with."""
    s = measure(run)
    print(_MARK + json.dumps(asdict(Sample(s.wall, s.cpu, peak_mb()))))


def in_subprocess(module: str, *args: str, python: Path | None = None) -> Sample:
    """The sample that `python -m module args` reports: its own memory, nobody else's caches."""
    done = subprocess.run(
        [str(python or sys.executable), "-m", module, *args], cwd=ROOT, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode != 0 or not lines:
        raise RuntimeError(f"{module} {' '.join(args)} failed:\n{done.stdout}{done.stderr}")
    return Sample(**json.loads(lines[-1].removeprefix(_MARK)))


def peak_mb() -> float | None:
    """The most memory that this process has held, in MB; None where the system (not Linux) does not say."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return None
    kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(kib) / 1024


def table(timings: Sequence[Timing], *, baseline: str) -> str:
    """A table for the terminal: medians, and ratios of CPU seconds to the baseline."""
    base = next(t for t in timings if t.name == baseline)
    head = ("", "wall s", "CPU s", "peak MB", f"CPU ÷ {baseline}", "(min – max)")
    rows = [head, *(_row(t, base) for t in timings)]
    widths = [max(len(r[i]) for r in rows) for i in range(len(head))]
    return "\n".join(
        "  ".join([r[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(r[1:], widths[1:], strict=True))]).rstrip()
        for r in rows
    )


def save(name: str, timings: Mapping[str, Sequence[Timing]], claims: Sequence[Claim]) -> Path:
    """Writes one run as JSON (samples, claims, versions, kind of machine) and returns where."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    record = {
        "benchmark": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "platform": platform.platform(), "python": platform.python_version()},
        "versions": _versions("discreet", "numpy", "scipy", "duckdb", "sqlglot", "cryptography"),
        "timings": {title: [asdict(t) for t in rows] for title, rows in timings.items()},
        "claims": [{**asdict(c), "holds": c.holds} for c in claims],
    }
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _cpu() -> float:
    """CPU seconds of this process (all threads, fine clock) and of its finished children (coarse clock)."""
    t = os.times()
    return time.process_time() + t.children_user + t.children_system


def _row(t: Timing, base: Timing) -> tuple[str, ...]:
    median, least, most = t.ratio(base)
    peak = "" if t.peak_mb is None else f"{t.peak_mb:.0f}"
    return t.name, f"{t.wall:.4g}", f"{t.cpu:.4g}", peak, f"{median:.3g}", f"({least:.3g} – {most:.3g})"


def _versions(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
