"""Compare what queries mean with the fixture, or write what they mean now.

    python -m tests.meanings --compare [--every 60] [--world visits]
    python -m tests.meanings --write [--add cases.jsonl] [--draw]

`--compare` prints each difference and a summary, and ends with 1 if there are any. `--write` keeps the stored noisy
states unless `--draw` is given; `--add` appends cases, one JSON object a line with `world`, `sql`, `asked` and `from`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

from tests.meanings import fixture


def main() -> int:
    """Compare or write."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tests.meanings", description=__doc__, formatter_class=form)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--compare", action="store_true", help="compare with the fixture")
    what.add_argument("--write", action="store_true", help="write the fixture")
    parser.add_argument("--every", type=int, default=1, help="each n-th case only")
    parser.add_argument("--world", default="", help="first letters of the worlds' names")
    parser.add_argument("--add", type=Path, help="file with new cases")
    parser.add_argument("--draw", action="store_true", help="new noisy states")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    return write(given.add, draw=given.draw) if given.write else compare(given.every, given.world)


def compare(every: int, world: str) -> int:
    """Print the differences of some cases; return whether there are any."""
    worlds, cases = fixture.load()
    some = [case for case in cases if case["world"].startswith(world)][::every]
    started = time.process_time()
    differences = fixture.compared(worlds, some)
    for i in sorted({d.case for d in differences}):
        case = some[i]
        print(f"\n{case['world']}, {case['from']}, {case['asked']}:\n  {case['sql']}")
        print(*(f"    {d}" for d in differences if d.case == i), sep="\n")
    print(fixture.summary(differences, len(some)))
    print(f"{time.process_time() - started:.0f} s of CPU time")
    return int(bool(differences))


def write(new: Path | None, *, draw: bool) -> int:
    """Write what all cases mean now."""
    worlds, cases = fixture.load()
    if new is not None:
        cases += map(json.loads, new.read_text(encoding="utf-8").splitlines())
    kept = ("world", "sql", "asked", "from") if draw else ("world", "sql", "asked", "from", "state")
    inputs = [{key: case[key] for key in kept if key in case} for case in cases]
    written = [case | means for case, means in zip(inputs, fixture.observed(worlds, inputs, strict=True), strict=True)]
    fixture.save(worlds, written)
    refused = sum("refused" in case["planned"] for case in written)
    print(f"{len(written)} cases, {refused} of them refused, {fixture.FIXTURE.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
