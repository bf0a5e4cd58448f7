"""Errors of what is asked together, before and after it is planned together, at the same ε.

    python -m benchmarks.workloads [--draws 300]

Ranges: many counts of people by age, one question or one batch, each range with its noise against that of a question of
its own with its part of ε; beside it the optimised strategy of the matrix mechanism, which has real weights and is for
all ranges together, however much noise one of them has.

Before: totals of ROLLUP and CUBE are the sums of the noisy finest groups, and each column of a batch has the same part
of ε. After: totals are measured as well where that is better and made to agree with their parts; a batch is divided by
need. Alone: each grouping set, each question of a batch, as a question of its own with its part of ε. Errors are root
mean squares over all rows of a level and all draws (ten times as many as of ranges), in the unit of the count, each row
a person: of `plan`'s own laws and, for totals, of drawn noise through the same code that makes answers.
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
from discreet.backends.connection import open_database
from discreet.catalog.schema import Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.cells import measure
from discreet.engine.release import Release
from discreet.mechanisms.linear import MatrixMechanism, explicit
from discreet.noise.entropy import SystemEntropy
from discreet.plan.cost import Kind, allocate
from discreet.plan.grouping_sets.split_budget import agreements
from discreet.plan.nodes.of_tree import Within
from discreet.plan.plan import alone
from discreet.plan.planner import make_query, plan_batch
from discreet.plan.query import Query
from discreet.post.evaluate import adjusted
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


def planned(sizes: Sequence[int], group: str, **asked: Any) -> Query:
    """A count by these groups, at ε = 1 unless said."""
    sql = f"SELECT COUNT(*) AS n FROM t{f' GROUP BY {group}' if group else ''}"
    return make_query(sql, [table(sizes)], population="p", version=None, **{"epsilon": 1, **asked})


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


def drawn_errors(plan: Query, sizes: Sequence[int], draws: int) -> np.ndarray:
    """The errors of the finest groups, drawn and made to agree: totals' errors are their sums."""
    (agreement,) = agreements(plan.question, plan.allocation)
    drawn = [z.draw(draws * agreement.levels.cells(s), RNG) for s, z in agreement.measured]
    read = [x.reshape(draws, -1).tolist() for x in drawn]
    found = [adjusted(agreement, one[0], one[1:]) for one in zip(*read, strict=True)]
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
    for name, output in found.outputs.items():
        query, at = output.query, output.place
        assert at is not None
        part: dict[str, Any] = {"epsilon": Fraction(1, m), "delta": delta / m}
        apart = plan_batch({name: QUESTIONS[name]}, [table((10, 10))], **part, **common).query
        width, other = len(apart.question.measures), apart.allocation.noises[0]
        if not at.columns:  # read from one partition with others
            ((_, count),) = query.question.outer.columns
            assert isinstance(count, Within)
            mine, before = math.sqrt(count.noise_variance(query.laws)), math.nan
            rows.append((name, width, mine, before, math.sqrt(other.variance)))
            continue
        place = sum(len(of) for of in moves[: at.measurement]) + at.columns[0]
        step = float(query.question.measures[0].step)
        noises = query.allocation.noises[0], even[place], other
        mine, before, single = (math.sqrt(z.variance) * step for z in noises)
        rows.append((name, width, mine, before, single))
    return rows


@dataclass(frozen=True)
class Counted:
    """Errors of many ranges: against each alone, the mean and the worst; the root mean square over ranges, of the laws
    and drawn; how often a 95 % interval held; and that of the optimised strategy.
    """

    ranges: int
    layers: str
    mean: float
    worst: float
    planned: float
    drawn: float
    held: float
    optimised: float


def ranges_of_age() -> dict[str, list[tuple[int, int]]]:
    """Ages from … to …: up to some age, decades, and at random."""
    rng = np.random.default_rng(5)
    found = {f"up to, {n}": [(17, int(a)) for a in np.linspace(18, 90, n).round()] for n in (10, 30, 73)}
    found["decades, 8"] = [(a, a + 9) for a in range(17, 90, 10)]
    for n in (10, 30, 100):
        drawn: dict[tuple[int, int], None] = {}
        while len(drawn) < n:
            a, b = sorted(int(x) for x in rng.integers(17, 91, 2))
            drawn[a, b] = None
        found[f"random, {n}"] = list(drawn)
    return found


def people(ages: Sequence[tuple[int, int]], **asked: Any) -> Query:
    """One question with a count for each range."""
    counts = ", ".join(f"COUNT_IF(age BETWEEN {a} AND {b}) AS c{i}" for i, (a, b) in enumerate(ages))
    owned = TableSchema("adult", {"age": Type.INT}, {}, PrivacyUnit.row(), Relation.ADD_REMOVE)
    return make_query(f"SELECT {counts} FROM adult", [owned], population="p", version=None, epsilon=1, **asked)


def counted(ages: Sequence[tuple[int, int]], draws: int, asked: dict[str, Any]) -> Counted:
    """The errors of a question with many ranges, on the ages of Adult."""
    plan, n = people(ages, **asked), len(ages)
    delta = Fraction(asked.get("delta", 0)) / n
    alone = variance_alone(n, asked["noise"], delta)
    variances = [e.noise_variance(plan.laws) for _, e in plan.question.outer.columns if isinstance(e, Within)]
    assert len(variances) == n, "not counted jointly"
    (tree_read,) = plan.question.trees
    errors, held = drawn_counts(plan, ages, draws)
    read = [e.leaves for _, e in plan.question.outer.columns if isinstance(e, Within)]
    cells = np.array([[cell in own for cell in range(tree_read.shape.leaves)] for own in read], dtype=float)
    best = MatrixMechanism(explicit(cells), epsilon=1, noise=asked["noise"], delta=asked.get("delta"))
    ratios = np.sqrt(np.array(variances) / alone)
    return Counted(
        n,
        "+".join(str(len(layer)) for layer in tree_read.shape.layers or ()),
        float(ratios.mean()),
        float(ratios.max()),
        math.sqrt(float(np.mean(variances))),
        errors,
        held,
        best.root_mean_square,
    )


def variance_alone(n: int, noise: str, delta: Fraction) -> float:
    """The variance of a count that is a question of its own, with an n-th of ε and of δ."""
    owned = TableSchema("adult", {"age": Type.INT}, {}, PrivacyUnit.row(), Relation.ADD_REMOVE)
    one = "SELECT COUNT_IF(age < 30) FROM adult"
    part: dict[str, Any] = {"epsilon": Fraction(1, n), "delta": delta, "noise": noise}
    (law,) = make_query(one, [owned], population="p", version=None, **part).allocation.noises
    return law.variance


def drawn_counts(query: Query, ages: Sequence[tuple[int, int]], draws: int) -> tuple[float, float]:
    """The root mean square error of answers on Adult, and the least share of a range's intervals that held."""
    from discreet import data

    database = open_database()
    database.execute("CREATE TABLE adult AS SELECT age FROM read_parquet($1)", [str(data.adult())])
    among = [f"count(*) FILTER (age BETWEEN {a} AND {b})" for a, b in ages]
    (truth,) = database.execute(f"SELECT {', '.join(among)} FROM adult").fetchall()
    errors, held = [], np.zeros(len(ages))
    for _ in range(draws):
        noisy = measure(query, lambda sql: database.execute(sql).fetchall(), RNG)
        release = Release(alone(query, "p"), noisy)
        errors.append([x - t for x, t in zip(release.rows[0], truth, strict=True)])
        ends = [release.interval(name)[0] for name in release.columns]
        held += [low <= t <= high for (low, high), t in zip(ends, truth, strict=True)]
    return float(np.sqrt(np.mean(np.square(errors)))), float(held.min() / draws)


def print_ranges(draws: int) -> list[Counted]:
    """All kinds of ranges under both kinds of noise."""
    found = []
    for asked in WAYS:
        print(f"\nRanges of age in one question, {asked['noise']}, ε = 1: error ÷ alone; in people")
        print(line("ranges", ("mean", "worst", "planned", "drawn", "held", "optimised", "sums")))
        for name, ages in ranges_of_age().items():
            x = counted(ages, draws, asked)
            found.append(x)
            print(line(name, (x.mean, x.worst, x.planned, x.drawn, x.held, x.optimised, f"  {x.layers}")))
    return found


def line(name: str, cells: Sequence[float | str]) -> str:
    """A row of a printed table."""
    shown = (x if isinstance(x, str) else str(x) if isinstance(x, int) else f"{x:,.2f}" for x in cells)
    return f"  {name:18}" + "".join(f"{x:>10}" for x in shown)


def main() -> None:
    """Measures, prints, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=300)
    options = parser.parse_args()
    worst, held, gains = 0.0, 1.0, []
    shapes = [((10, 10, 10), "ROLLUP"), ((10, 10, 10), "CUBE"), ((4, 12, 31), "ROLLUP"), ((50, 20), "CUBE")]
    for (sizes, group), asked in itertools.product(shapes, WAYS):
        print(f"\n{group} of {' × '.join(map(str, sizes))}, {asked['noise']}, ε = 1")
        print(line("rows of", ("after", "drawn", "before", "alone", "/ before", "/ alone", "held")))
        for x in levels(sizes, group, 10 * options.draws, asked):
            worst, held = max(worst, x.after / x.alone), min(held, x.held)
            if x.keys == "all":
                gains.append(x.before / x.drawn)
            ratios = x.drawn / x.before, x.drawn / x.alone
            print(line(x.keys, (x.after, x.drawn, x.before, x.alone, *ratios, x.held)))
    shares, many = [], print_ranges(options.draws)
    for asked in WAYS:
        print(f"\nTen questions, {asked['noise']}, ε = 1: noise of the first column")
        print(line("question", ("columns", "after", "even", "alone", "/ even", "/ alone")))
        for name, width, mine, even, apart in batch(asked):
            shares.append(mine / apart)
            print(line(name, (width, mine, even, apart, mine / even, mine / apart)))
    claims = [
        Claim("noise of a range among many against that alone, worst", max(x.worst for x in many), 1.001),
        Claim("noise of a range among many against that alone, mean", sum(x.mean for x in many) / len(many), 0.5),
        Claim("least share of a range's 95 % intervals that held", min(x.held for x in many), 0.9, "", at_least=True),
        Claim(
            "error of ranges against the optimised strategy's, worst", max(x.planned / x.optimised for x in many), 1.5
        ),
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
