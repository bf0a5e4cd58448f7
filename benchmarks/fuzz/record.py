"""What all runs of the fuzzer have seen together: a line of JSON for each stretch of seeds, which is never asked again.

A line has the digest of the code that was asked (`src/discreet`) and of the grammar and the checks (this folder): seeds
give the same questions under the same grammar alone.
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
from pathlib import Path

from benchmarks import runner
from benchmarks.fuzz.tally import Tally


@dataclass(frozen=True, slots=True)
class Stretch:
    """Seeds that were asked.

    Attributes:
        first, last: the seeds.
        code, grammar: digests of what was asked, and of what asked it.
        at: when it ended.
        tally: what was seen.
    """

    first: int
    last: int
    code: str
    grammar: str
    at: str
    tally: Tally


def digest(folder: Path) -> str:
    """Twelve digits that change with any module of a folder."""
    found = sha256()
    for path in sorted(folder.rglob("*.py")):
        found.update(f"{path.relative_to(folder)}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def code() -> str:
    """The digest of what is asked."""
    return digest(runner.ROOT / "src" / "discreet")


def grammar() -> str:
    """The digest of what asks it."""
    return digest(Path(__file__).parent)


def stretches(path: Path) -> list[Stretch]:
    """All that was recorded."""
    if not path.exists():
        return []
    return [_stretch(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def append(path: Path, first: int, last: int, tally: Tally, *, code: str, grammar: str) -> None:
    """Records the seeds from `first` to `last`."""
    record = {
        "first": first,
        "last": last,
        "code": code,
        "grammar": grammar,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "asked": tally.asked,
        "answered": tally.answered,
        "moved": tally.moved,
        "seconds": round(tally.seconds, 3),
        "broken": tally.broken,
        "seen": {c: [tally.hits[c], n] for c, n in sorted(tally.seen.items())},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record, ensure_ascii=False) + "\n")


def total(found: Sequence[Stretch]) -> Tally:
    """All of them together."""
    tally = Tally()
    for s in found:
        tally.add(s.tally)
    return tally


def next_seed(found: Sequence[Stretch]) -> int:
    """The first seed after all that were asked."""
    return max((s.last + 1 for s in found), default=0)


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


def _stretch(line: str) -> Stretch:
    kept = json.loads(line)
    hits = Counter({c: hit for c, (hit, _) in kept["seen"].items() if hit})
    seen = Counter({c: n for c, (_, n) in kept["seen"].items()})
    counts = kept["asked"], kept["answered"], kept["moved"]
    tally = Tally(*counts, hits, seen, kept["broken"], [], kept["seconds"])
    return Stretch(kept["first"], kept["last"], kept["code"], kept["grammar"], kept["at"], tally)
