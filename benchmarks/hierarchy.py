"""Census-style releases of the 2010 Rhode Island blocks: errors of each level, and CPU time, against their targets.

    python -m benchmarks.hierarchy [--epsilons 1,10] [--runs 5]

Each person is a row, of 16 kinds: eight groups of race and origin, adults and children. Rows are replaced, their number
is public, δ is 1e-5, and all else is the default. Numbers are medians of `--runs` releases: mean absolute errors of
units' totals and of cells. CPU seconds are of `session.hierarchy` with all rows read, and of what follows the counts:
noise, estimates, whole tables.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import discreet as dp
from discreet.engine.session import Session
from discreet.noise.entropy import SystemEntropy
from discreet.synth.census import estimates, tree_noise
from discreet.synth.tree import whole

RACES = ("white", "black", "hisp", "aian", "asian", "nhpi", "other", "two")
LEVELS = {"county": 5, "tract": 11, "group": 12, "block": 15}
TARGETS: dict[float, dict[str, float]] = {
    1: {"block": 7.6, "tract": 12.2, "county": 14, "block cell": 1.26, "tract cell": 8.0},
    10: {"block": 1.1, "tract cell": 1.3},
}


def counts() -> tuple[list[str], Any]:
    """Return the codes of all blocks, and their people by race and whether they are adults."""
    frame = pd.read_parquet(Path(__file__).parent / "data" / "rhode_island_2010.parquet")
    adults, people = (frame[[f"{of}_{race}" for race in RACES]].to_numpy(np.int64) for of in ("vap", "pop"))
    return frame["GEOID"].tolist(), np.stack([adults, people - adults], axis=2)


def connected(codes: list[str], table: Any) -> Session:
    """Return a session over one row for each person."""
    block, race, child = np.unravel_index(np.repeat(np.arange(table.size), table.reshape(-1)), table.shape)
    people = pd.DataFrame({"geo": np.array(codes)[block], "race": np.array(RACES)[race], "adult": child == 0})
    return dp.connect(
        {"people": people.sample(frac=1, random_state=0)},
        unit=dp.PrivacyUnit.row(),
        relation="replace",
        columns={"race": dp.Values(*RACES), "adult": dp.Values(True, False)},
        population="rhode island",
        budget=dp.Budget(10_000, "1e-2"),
        ledger=":memory:",
    )


def measure(session: Session, codes: list[str], table: Any, epsilon: float) -> dict[str, float]:
    """Return the errors of one release, and its times."""
    asked: dict[str, Any] = {
        "code": "geo",
        "levels": LEVELS,
        "units": {"geo": codes},
        "attributes": ["race", "adult"],
        "filler": {"race": "other", "adult": True},
        "invariants": ["total"],
    }
    start = time.process_time()
    h = session.hierarchy(epsilon=epsilon, delta="1e-5", fresh=True, **asked)
    found = {"CPU s": time.process_time() - start}
    released = {tuple(row[:-1]): row[-1] for row in h.table("block").rows}
    own = np.array([[[released[c, r, a] for a in (True, False)] for r in RACES] for c in codes])
    for level, length in LEVELS.items():
        unit = pd.factorize(pd.Series(codes).str[:length])[0]
        apart = np.zeros((unit.max() + 1, len(RACES), 2))
        np.add.at(apart, unit, own - table)
        found[level] = float(np.abs(apart.sum(axis=(1, 2))).mean())
        found[f"{level} cell"] = float(np.abs(apart).mean())
    found["CPU s after counts"] = after_counts(h)
    return found


def after_counts(h: Any) -> float:
    """Return the CPU time of noise, estimates and whole tables."""
    recipe, plan, entropy = h._recipe, h.plan, SystemEntropy()
    start = time.process_time()
    kept: dict[str, Any] = {"rows": h.rows}
    for part in plan.parts:
        noisy = part.law.start(entropy)(np.zeros(part.width, np.int64))
        kept[part.name] = " ".join(map(str, noisy.tolist()))
    whole(tree_noise(recipe, plan), estimates(recipe, plan, kept), h.rows)
    return time.process_time() - start


def main() -> None:
    """Print a line for each ε and number."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epsilons", default="1,10")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    codes, table = counts()
    with connected(codes, table) as session:
        for epsilon in map(float, given.epsilons.split(",")):
            runs = [measure(session, codes, table, epsilon) for _ in range(given.runs)]
            for name in runs[0]:
                values, goal = [run[name] for run in runs], TARGETS.get(epsilon, {}).get(name)
                wanted = "" if goal is None else f"  (≤ {goal:g})"
                shown = f"{statistics.median(values):8.3f}  from {min(values):.3f} to {max(values):.3f}"
                print(f"ε = {epsilon:<3g} {name:18} {shown}{wanted}", flush=True)


if __name__ == "__main__":
    main()
