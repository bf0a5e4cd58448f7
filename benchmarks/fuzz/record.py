"""What all runs of the fuzzer have seen together, in git: a line of JSON for each version of the code and the grammar.

A line has the digest of the code that was asked (`src/discreet`), of the grammar and the checks (this folder), and the
libraries' versions; the seeds, which are never asked again; and what they gave, summed. Seeds give the same questions
under the same grammar alone.
"""

from __future__ import annotations

import fcntl
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks import runner
from benchmarks.fuzz.tally import Tally

RECORD = runner.ROOT / "benchmarks" / "recorded" / "fuzz.jsonl"
"""Where it is kept."""

Seeds: TypeAlias = tuple[tuple[int, int], ...]
"""First and last seed of each run without gaps, in order."""


@dataclass(frozen=True, slots=True)
class Version:
    """What was asked, and what asked it.

    Attributes:
        code, grammar: digests.
        libraries: the database and the parser.
    """

    code: str
    grammar: str
    libraries: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """Seeds that were asked of one version.

    Attributes:
        seeds: which.
        at: when the last of them ended.
        tally: what was seen.
    """

    version: Version
    seeds: Seeds
    at: str
    tally: Tally


def digest(folder: Path) -> str:
    """Twelve digits that change with any module of a folder."""
    found = sha256()
    for path in sorted(folder.rglob("*.py")):
        found.update(f"{path.relative_to(folder)}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def version() -> Version:
    """The version that runs now."""
    import sqlglot.tokenizer_core

    compiled = "" if sqlglot.tokenizer_core.__file__.endswith(".py") else " compiled"
    libraries = f"duckdb {metadata.version('duckdb')}, sqlglot {metadata.version('sqlglot')}{compiled}"
    return Version(digest(runner.ROOT / "src" / "discreet"), digest(Path(__file__).parent), libraries)


def stretches(path: Path) -> list[Stretch]:
    """All that was recorded."""
    if not path.exists():
        return []
    return [_stretch(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line]


def add(path: Path, first: int, last: int, tally: Tally, asked: Version) -> None:
    """Records the seeds from `first` to `last`, in the line of their version."""
    found = {s.version: s for s in stretches(path)}
    before = found.pop(asked, Stretch(asked, (), "", Tally()))
    both = Tally()
    both.add(before.tally)
    both.add(tally)
    at = datetime.now(UTC).isoformat(timespec="minutes")
    found[asked] = Stretch(asked, _joined([*before.seeds, (first, last)]), at, both)
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text("".join(_line(s) for s in found.values()), encoding="utf-8")
    new.replace(path)


def total(found: Sequence[Stretch]) -> Tally:
    """All of them together."""
    tally = Tally()
    for s in found:
        tally.add(s.tally)
    return tally


def next_seed(found: Sequence[Stretch]) -> int:
    """The first seed after all that were asked."""
    return max((last + 1 for s in found for _, last in s.seeds), default=0)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Holds the record for one run: two at once would ask the same seeds.

    Raises:
        BlockingIOError: another run holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _joined(seeds: Sequence[tuple[int, int]]) -> Seeds:
    """The same seeds in as few parts as there are."""
    parts: list[tuple[int, int]] = []
    for first, last in sorted(seeds):
        if parts and first == parts[-1][1] + 1:
            parts[-1] = (parts[-1][0], last)
        else:
            parts.append((first, last))
    return tuple(parts)


def _line(s: Stretch) -> str:
    t = s.tally
    record = {
        "code": s.version.code,
        "grammar": s.version.grammar,
        "libraries": s.version.libraries,
        "seeds": s.seeds,
        "at": s.at,
        "asked": t.asked,
        "answered": t.answered,
        "moved": t.moved,
        "seconds": round(t.seconds, 1),
        "broken": t.broken,
        "seen": {c: [t.hits[c], n] for c, n in sorted(t.seen.items())},
    }
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def _stretch(kept: dict[str, Any]) -> Stretch:
    hits = Counter({c: hit for c, (hit, _) in kept["seen"].items() if hit})
    seen = Counter({c: n for c, (_, n) in kept["seen"].items()})
    counts = kept["asked"], kept["answered"], kept["moved"]
    tally = Tally(*counts, hits, seen, kept["broken"], [], kept["seconds"])
    asked = Version(kept["code"], kept["grammar"], kept["libraries"])
    return Stretch(asked, tuple((first, last) for first, last in kept["seeds"]), kept["at"], tally)
