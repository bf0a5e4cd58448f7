"""The five queries of docs/comparison.md: their errors, CPU seconds and memory, here and with five peers.

    python -m benchmarks.peers opendp pipelinedp smartnoise diffprivlib tumult-analytics
    python -m benchmarks.compared [--rows 100000] [--runs 10] [--only ours,opendp] [--queries Q1,Q2]

Runs of some systems add to those of others over the same table, so that slow ones can be run by themselves. "derived"
is ours with SUM(amount) / COUNT(*) in the place of AVG(amount), which some peers do by themselves.

Every system runs each query in a process of its own, several times, each from the Parquet file to the result. Two
errors stand beside each other: *noise* is the standard deviation between runs, of a group; *error* is the root mean
square distance to the true result without bounds, in percent of it, so that truncation by bounds counts. Both are over
all groups and runs. A peer without an environment is left out, and this is said.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, pvariance
from typing import Any

import discreet as dp
from benchmarks import peers
from benchmarks.bounding import GROUPS, ROWS
from benchmarks.compared_peers import DELTA, EPSILON, PEERS, QUARTILES, Numbers, report
from benchmarks.query import in_duckdb, session
from benchmarks.questions import PLAIN, UNIT
from benchmarks.runner import RESULTS, ROOT
from benchmarks.visits import visits

COLUMNS = {
    "Q1": ("count",),
    "Q2": ("count", "sum", "mean"),
    "Q3": ("count", "sum", "mean"),
    "Q4": tuple(f"quartile {x}" for x in QUARTILES),
    "Q5": ("people",),
}
KEYS = {"Q1": 0, "Q2": 1, "Q3": 2, "Q4": 0, "Q5": 0}
IN_ALL = dp.PrivacyUnit("user_id", max_groups=1, max_rows=GROUPS * ROWS)
"""Without groups a user's rows are bounded as the peers bound them: 30 in all."""
OWN = ("ours", "derived")
VENVS = {"tumult": "tumult-analytics"}


def numbers(name: str, rows: Sequence[Sequence[Any]]) -> Numbers:
    """Return the rows of a result by their keys."""
    return {",".join(map(str, r[: KEYS[name]])): [float(x) for x in r[KEYS[name] :]] for r in rows}


def ours(name: str, path: str, *, derived: bool = False) -> Numbers:
    """Return our numbers: connect, open an account, plan, charge, run, add noise."""
    text = PLAIN[name].replace("AVG(amount)", "SUM(amount) / COUNT(*)") if derived else PLAIN[name]
    with session(Path(path), IN_ALL if name in ("Q1", "Q4") else UNIT) as s:
        return numbers(name, s.sql(text, epsilon=EPSILON, delta=DELTA, fresh=True).rows)


def asked(system: str, name: str, path: Path, runs: int) -> dict[str, Any] | None:
    """Return what a system's process reports of a query; None where its environment was not made."""
    own = system in OWN
    python = Path(sys.executable) if own else peers.python_of(VENVS.get(system, system))
    if python is None:
        return None
    module = ["benchmarks.compared", "--once"] if own else ["benchmarks.compared_peers"]
    call = [str(python), "-m", *module, system, name, str(path), str(runs)]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"cpu"')]
    return json.loads(lines[-1]) if lines else {"said": done.stderr[-300:], "runs": [], "cpu": None, "peak_mb": None}


def judged(name: str, true: Numbers, runs: Sequence[Numbers]) -> dict[str, dict[str, float]]:
    """Return the noise and the error of each column, over the groups that every run has."""
    shared = [key for key in true if runs and all(key in run for run in runs)]
    found = {}
    for j, column in enumerate(COLUMNS[name]):
        cells = [([run[key][j] for run in runs], true[key][j]) for key in shared if all(len(r[key]) > j for r in runs)]
        if cells:
            spread = fmean(pvariance(got) * len(got) / max(len(got) - 1, 1) for got, _ in cells)
            off = fmean(fmean((x - t) ** 2 for x in got) / t**2 for got, t in cells)
            found[column] = {"noise": math.sqrt(spread), "error": 100 * math.sqrt(off)}
    return found


def table(name: str, found: Mapping[str, dict[str, Any]]) -> str:
    """Return the systems of one query as a Markdown table, noise as a multiple of ours."""
    head = ["system", "CPU s", "MB", "groups", *(f"{c}: noise (÷ ours), error %" for c in COLUMNS[name])]
    lines = [head, ["---"] * len(head)]
    own = found.get("ours", {}).get("columns", {})
    for system, of in found.items():
        if of["cpu"] is None:
            lines.append([system, of["said"].splitlines()[-1][:80], *[""] * (len(head) - 2)])
            continue
        cells = []
        for column in COLUMNS[name]:
            got, base = of["columns"].get(column), own.get(column)
            ratio = f" ({got['noise'] / base['noise']:.2g})" if got and base and base["noise"] else ""
            cells.append(f"{got['noise']:.3g}{ratio}, {got['error']:.2g}" if got else "–")
        lines.append([system, f"{of['cpu']:.2g}", f"{of['peak_mb']:.0f}", f"{of['groups']}", *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Measures, prints a table for each query, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--only", default=",".join([*OWN, *PEERS]), help="systems, with commas")
    parser.add_argument("--queries", default=",".join(PLAIN), help="queries, with commas")
    parser.add_argument("--once", nargs=4, metavar=("SYSTEM", "NAME", "FILE", "RUNS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        system, name, file, runs = options.once
        report(lambda: {name: partial(ours, name, derived=system == "derived")}, name, file, int(runs))
        return
    path, place = visits(options.rows), RESULTS / f"compared-{options.rows}.json"
    saved = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    for name in options.queries.split(","):
        true, found = numbers(name, in_duckdb(path, PLAIN[name])), saved.setdefault(name, {})
        for system in options.only.split(","):
            if system == "derived" and "AVG" not in PLAIN[name]:
                continue
            told = asked(system, name, path, options.runs)
            if told is None:
                print(f"{system} is left out: python -m benchmarks.peers {VENVS.get(system, system)}")
            else:
                runs = told.pop("runs")
                groups = round(fmean(map(len, runs))) if runs else 0
                found[system] = {**told, "groups": groups, "columns": judged(name, true, runs)}
        print(f"\n{name}, {options.rows:,} rows, {options.runs} runs\n{table(name, found)}", flush=True)
        place.write_text(json.dumps(saved, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(place)


if __name__ == "__main__":
    main()
