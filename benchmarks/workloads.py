"""Errors of what is asked together, before and after it is planned together, at the same ε.

    python -m benchmarks.workloads [--draws 300]

Before: totals of ROLLUP and CUBE are the sums of the noisy finest groups, and each column of a batch has the same part
of ε. After: totals are measured as well where that is better and made to agree with their parts; a batch is divided by
need. Alone: each grouping set, each question of a batch, as a question of its own with its part of ε. Errors are root
mean squares over all rows of a level and all draws, in the unit of the count, each row a person: of `plan`'s own laws
and, for totals, of drawn noise through the same code that makes answers.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from benchmarks.runner import Claim, save
from discreet.noise.entropy import SystemEntropy
from discreet.plan.batch import plan_batch
from discreet.plan.cost import Kind, allocate
from discreet.plan.levels.weigh import agreements
from discreet.plan.plan import Plan, make_plan
from discreet.plan.schema import Range, TableSchema, Values
from discreet.plan.types import Type
from discreet.privacy.unit import PrivacyUnit, Relation

RNG = SystemEntropy()
WAYS: tuple[dict[str, Any], ...] = ({"noise": "laplace"}, {"noise": "gaussian", "delta": "1e-6"})


@dataclass(frozen=True)
class Level:
    """Errors of one grouping set's rows: planned and drawn after, before, alone; how often a 95 % interval held."""

    keys: str
    after: float
    drawn: float
    before: float
    alone: float
    held: float


def table(sizes: Sequence[int]) -> TableSchema:
    """Keys k0, k1, … of so many values each, and a number v."""
    keys = [f"k{i}" for i in range(len(sizes))]
    facts = {k: Values(*range(n)) for k, n in zip(keys, sizes, strict=True)}
    columns = {**dict.fromkeys(keys, Type.INT), "v": Type.REAL}
    return TableSchema("t", columns, {**facts, "v": Range(0, 10)}, PrivacyUnit.row(), Relation.ADD_REMOVE)


def planned(sizes: Sequence[int], group: str, **asked: Any) -> Plan:
    """A count by these groups, at ε = 1 unless said."""
    sql = f"SELECT COUNT(*) AS n FROM t{f' GROUP BY {group}' if group else ''}"
    return make_plan(sql, [table(sizes)], population="p", version=None, **{"epsilon": 1, **asked})


def levels(sizes: Sequence[int], group: str, draws: int, asked: dict[str, Any]) -> list[Level]:
    """The errors of each grouping set of ROLLUP or CUBE of all keys."""
    keys = ", ".join(f"k{i}" for i in range(len(sizes)))
    plan = planned(sizes, f"{group} ({keys})", **asked)
    (before,) = planned(sizes, keys, **asked).allocation.noises
    combined = agreements(plan.question, plan.allocation)
    if not combined:
        return []
    (agreement,) = combined
    found, shown = drawn_errors(plan, sizes, draws), agreement.levels
    rows = []
    for kept in shown.kept:
        part = {**asked, "epsilon": Fraction(1, len(shown.kept))}
        if "delta" in asked:
            part["delta"] = Fraction(asked["delta"]) / len(shown.kept)
        (alone,) = planned(sizes, ", ".join(f"k{i}" for i in kept), **part).allocation.noises
        others = tuple(i + 1 for i in range(len(sizes)) if i not in kept)
        errors = found.sum(axis=others) if others else found
        t = agreement.noise(kept).quantile(Fraction(19, 20))
        rows.append(
            Level(
                "".join(f"k{i} " for i in kept) or "all",
                math.sqrt(agreement.variance(kept)),
                float(np.sqrt(np.mean(errors**2))),
                math.sqrt(before.variance * shown.parts(kept)),
                math.sqrt(alone.variance),
                float(np.mean(np.abs(errors) <= t)),
            )
        )
    return rows


def drawn_errors(plan: Plan, sizes: Sequence[int], draws: int) -> np.ndarray:
    """The errors of the finest groups, drawn and made to agree: totals' errors are their sums."""
    (agreement,) = agreements(plan.question, plan.allocation)
    drawn = [z.draw(draws * agreement.levels.cells(s), RNG) for s, z in agreement.measured]
    read = [x.reshape(draws, -1).tolist() for x in drawn]
    found = [agreement.adjusted(one[0], one[1:]) for one in zip(*read, strict=True)]
    return np.array(found, dtype=np.float64).reshape(draws, *sizes)


QUESTIONS = {
    **{f"count v < {i}": f"SELECT COUNT(*) FROM t WHERE v < {i}" for i in range(1, 5)},
    "count by k0": "SELECT k0, COUNT(*) FROM t GROUP BY k0",
    "count, sum by k0": "SELECT k0, COUNT(*), SUM(v) FROM t GROUP BY k0",
    "variance by k1": "SELECT k1, VARIANCE(v), COUNT(*), SUM(v) FROM t GROUP BY k1",
    "mean by k0": "SELECT k0, AVG(v) FROM t GROUP BY k0",
    "all at once": "SELECT COUNT(*), SUM(v), AVG(v), STDDEV(v) FROM t",
    "sum v > 5": "SELECT SUM(v) FROM t WHERE v > 5",
}
"""Ten questions, of one column to five."""


def batch(asked: dict[str, Any]) -> list[tuple[str, int, float, float, float]]:
    """For each question how many columns it has and the noise of its first: after, with even parts, alone."""
    m, rows, delta = len(QUESTIONS), [], Fraction(asked.get("delta", 0))
    common: dict[str, Any] = {"population": "p", "version": None, "noise": asked["noise"]}
    found = plan_batch(QUESTIONS, [table((10, 10))], epsilon=1, delta=delta, **common)
    moves = [p.sensitivities for p in found.measurements]
    kind = Kind(asked["noise"])
    flat = [s for of in moves for s in of]
    even = allocate(flat, epsilon=Fraction(1), delta=delta, kind=kind, select=None).noises
    for name, plan in found.plans.items():
        part: dict[str, Any] = {"epsilon": Fraction(1, m), "delta": delta / m}
        alone = plan_batch({name: QUESTIONS[name]}, [table((10, 10))], **part, **common).plans[name]
        at = found.places[name]
        place = sum(len(of) for of in moves[: at.measurement]) + at.columns[0]
        step = float(plan.question.measures[0].step)
        noises = plan.allocation.noises[0], even[place], alone.allocation.noises[0]
        mine, before, other = (math.sqrt(z.variance) * step for z in noises)
        rows.append((name, len(plan.question.measures), mine, before, other))
    return rows


def line(name: str, cells: Sequence[float | str]) -> str:
    """A row of a printed table."""
    shown = (x if isinstance(x, str) else str(x) if isinstance(x, int) else f"{x:,.2f}" for x in cells)
    return f"  {name:18}" + "".join(f"{x:>10}" for x in shown)


def main() -> None:
    """Measures, prints, and writes the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=300)
    options = parser.parse_args()
    worst, held, gains = 0.0, 1.0, []
    shapes = [((10, 10, 10), "ROLLUP"), ((10, 10, 10), "CUBE"), ((4, 12, 31), "ROLLUP"), ((50, 20), "CUBE")]
    for (sizes, group), asked in itertools.product(shapes, WAYS):
        print(f"\n{group} of {' × '.join(map(str, sizes))}, {asked['noise']}, ε = 1")
        print(line("rows of", ("after", "drawn", "before", "alone", "/ before", "/ alone", "held")))
        for x in levels(sizes, group, options.draws, asked):
            worst, held = max(worst, x.after / x.alone), min(held, x.held)
            if x.keys == "all":
                gains.append(x.before / x.drawn)
            ratios = x.drawn / x.before, x.drawn / x.alone
            print(line(x.keys, (x.after, x.drawn, x.before, x.alone, *ratios, x.held)))
    shares = []
    for asked in WAYS:
        print(f"\nTen questions, {asked['noise']}, ε = 1: noise of the first column")
        print(line("question", ("columns", "after", "even", "alone", "/ even", "/ alone")))
        for name, width, mine, even, alone in batch(asked):
            shares.append(mine / alone)
            print(line(name, (width, mine, even, alone, mine / even, mine / alone)))
    claims = [
        Claim("noise of a level of totals against that of its question alone, worst", worst, 1.001),
        Claim("noise of the grand total, before against after, least", min(gains), 2.0, at_least=True),
        Claim("least share of a level's 95 % intervals that held", held, 0.94, "", at_least=True),
        Claim("noise of a question in a batch against that alone, worst", max(shares), 1.001),
        Claim("noise of a question in a batch against that alone, mean", sum(shares) / len(shares), 1.0),
    ]
    print(*claims, sep="\n")
    print(save("workloads", {}, claims))


if __name__ == "__main__":
    main()
