"""One quantile by its rank against one from a noisy tree, at the same ε: error and interval.

    python -m benchmarks.quantiles [--rounds 40] [--rows 1000000] [--only widths|columns]

*Columns.* Both answer the same question on the same exact counts of real columns in the same run, each row a person. A
rank's error is how far the named leaf's ranks are from p times the rows; the interval's is half the rows strictly
between its ends. The last columns say which way the engine takes, from public facts, and where the other one is closer:
its error is less by more than a quarter, and its interval is not wider by as much.

*Widths.* On values without ties: the median width of the 95 % interval against the width of the central 95 % of the
law of the named leaf itself, which follows from the data; and the same for trees of which two quantiles are read, and
whose law is that of the draws.
"""

from __future__ import annotations

import argparse
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from benchmarks.runner import Claim, save
from benchmarks.visits import visits
from discreet.backends.connection import open_database
from discreet.catalog.schema import Range, TableSchema
from discreet.catalog.types import Type
from discreet.data import housing, trips
from discreet.engine.cells import exact_leaves
from discreet.mechanisms import ExponentialQuantile
from discreet.mechanisms.exponential_quantile import Runs
from discreet.noise.entropy import SystemEntropy
from discreet.plan.planner import make_query
from discreet.plan.quantile_tree.tree import ExactLeaves, NoisyTree
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit, Relation

RNG = SystemEntropy()
MORE = 1.25


@dataclass(frozen=True)
class Column:
    """Values to ask a quantile of: the table that holds them, the column, its public range."""

    name: str
    path: str
    column: str
    low: float
    high: float
    whole: bool = False


@dataclass(frozen=True)
class Measured:
    """Root mean square of the rank's error, mean half-width of the interval, how often it held the quantile."""

    error: float
    half: float
    held: float


def leaves_of(c: Column, rows: int, p: str, relation: Relation) -> tuple[Query, ExactLeaves]:
    """The plan at ε = 1 and the exact counts of the first so many rows in a fixed shuffled order."""
    kind = Type.INT if c.whole else Type.REAL
    table = TableSchema("t", {"x": kind}, {"x": Range(c.low, c.high, integer=c.whole)}, PrivacyUnit.row(), relation)
    text = f"SELECT QUANTILE_CONT(x, {p}) AS q FROM t"
    plan = make_query(text, [table], population="p", version=None, epsilon=1)
    with open_database() as db:
        kept = "BIGINT" if c.whole else "DOUBLE"
        db.execute(
            f"CREATE TABLE t AS SELECT x FROM (SELECT CAST({c.column} AS {kept}) AS x, row_number() OVER () AS i "
            f"FROM '{c.path}') WHERE x IS NOT NULL ORDER BY hash(i) LIMIT {rows}"
        )
        found = exact_leaves(plan, 0, lambda q: db.execute(q).fetchall())
    return plan, found[()]


def by_tree(plan: Query, exact: ExactLeaves, epsilon: Fraction, p: Fraction, rounds: int) -> Measured:
    """The tree, as the engine draws it."""
    tree_plan = make_query(
        plan.question.text, [plan.question.table], population="p", version=None, epsilon=epsilon, rules=()
    )
    return judged(drawn_by_tree(tree_plan, exact, p, rounds), exact, p)


def drawn_by_tree(plan: Query, exact: ExactLeaves, p: Fraction, rounds: int) -> list[tuple[int, int, int]]:
    """The leaf at p and the ends of its interval."""
    (tree_read,), (noise,) = plan.question.trees, plan.allocation.trees
    assert not isinstance(noise, ExponentialQuantile)
    law, found = noise, []
    for _ in range(rounds):
        tree = NoisyTree(
            tree_read.shape,
            law,
            {},
            is_row=True,
            draw=lambda i, j: tuple(law.add(exact.sums(tree_read.shape, i, j), RNG)),
        )
        tree.look(tree_read)
        leaf = tree._leaf(p)
        low, high = tree._between(p, Fraction(19, 20))
        found.append((leaf, min(low, leaf), max(high, leaf)))
    return found


def by_rank(plan: Query, exact: ExactLeaves, epsilon: Fraction, p: Fraction, rounds: int) -> Measured:
    """The exponential mechanism, with its interval."""
    shape, relation = plan.question.trees[0].shape, plan.question.table.relation
    q = ExponentialQuantile(epsilon=epsilon, p=p, relation=relation)
    return judged(drawn_by_rank(q, exact, shape.leaves, rounds), exact, p)


def drawn_by_rank(q: ExponentialQuantile, exact: ExactLeaves, leaves: int, rounds: int) -> list[tuple[int, int, int]]:
    """The named leaf and the ends of its interval, as the engine draws them."""
    found = [q.choose(exact.leaves, exact.before, leaves, RNG) for _ in range(rounds)]
    return [(c.cell, *q.interval(c, leaves, Fraction(19, 20))) for c in found]


def judged(found: Sequence[tuple[int, int, int]], exact: ExactLeaves, p: Fraction) -> Measured:
    """Errors and widths of what was named."""
    total = exact.before[-1]
    true = exact.leaves[bisect_left(exact.before, max(math.ceil(p * total), 1)) - 1]
    off, widths, held = [], [], 0
    for leaf, low, high in found:
        left, upto = _left(exact, leaf), _left(exact, leaf + 1)
        off.append(max(left - float(p) * total, float(p) * total - upto, 0.0))
        widths.append(max(_left(exact, high) - _left(exact, low + 1), 0) / 2)
        held += low <= true <= high
    n = len(found)
    return Measured(math.sqrt(sum(x * x for x in off) / n), sum(widths) / n, held / n)


def _left(exact: ExactLeaves, leaf: int) -> int:
    return exact.before[bisect_right(exact.leaves, leaf - 1)]


def columns(rows: int) -> list[Column]:
    """Skewed, heavy, spiky and coarse ones."""
    v, h, t = str(visits(rows)), str(housing()), str(trips())
    return [
        Column("visit's cost", v, "amount", 0, 200),
        Column("house value", h, "median_house_value", 0, 600_000),
        Column("rooms in a block", h, "total_rooms", 0, 40_000, whole=True),
        Column("fare", t, "fare", 0, 500),
        Column("age of houses", h, "housing_median_age", 0, 100, whole=True),
        Column("day of a visit", v, "day", 0, 364, whole=True),
        Column("visit's cost in cents", v, "100 * amount", 0, 20_000, whole=True),
    ]


def central(q: ExponentialQuantile, exact: ExactLeaves, leaves: int) -> float:
    """How wide the central 95 % of the exact law of the named leaf is, in leaves."""
    runs = Runs.of(exact.leaves, exact.before, leaves)
    losses = runs.losses(q.p.numerator * exact.before[-1], q.p.denominator).astype(np.float64)
    weights = np.log(runs.lengths) - float(q.rate) / q.p.denominator * losses
    mass = np.exp(weights - weights.max())
    upto = np.concatenate(([0.0], np.cumsum(mass / mass.sum())))
    ends = np.append(runs.starts, leaves)
    low, high = np.interp([0.025, 0.975], upto, ends)  # leaves of a run are alike
    return float(high - low)


SHAPES: dict[str, Callable[[np.random.Generator, int], NDArray[np.float64]]] = {
    "uniform": lambda rng, n: rng.uniform(0, 1000, n),
    "normal": lambda rng, n: rng.normal(500, 50, n),
    "lognormal": lambda rng, n: rng.lognormal(3.5, 1, n),
    "two hills": lambda rng, n: np.where(rng.random(n) < 0.5, rng.normal(300, 40, n), rng.normal(600, 60, n)),
}


def widths(rounds: int) -> list[Claim]:
    """The ratios of intervals to laws, for values without ties."""
    table = TableSchema("t", {"x": Type.REAL}, {"x": Range(0, 1000)}, PrivacyUnit.row(), Relation.ADD_REMOVE)
    ratios: dict[str, list[float]] = {"fine": [], "coarse": [], "trees": []}
    held = []
    for shape, draw in SHAPES.items():
        for n in (200, 1_900, 20_000):
            values = np.clip(draw(np.random.default_rng(1), n), 0, 999.99)
            for p, epsilon in product(("0.5", "0.9"), ("0.5", "1")):
                both = [
                    make_query(f"SELECT {asked} FROM t", [table], population="p", version=None, epsilon=epsilon)
                    for asked in (f"QUANTILE_CONT(x, {p}) AS q", "MEDIAN(x) AS q, QUANTILE_CONT(x, 0.9) AS r")
                ]
                leaves = both[0].question.trees[0].shape.leaves
                exact = ExactLeaves.of(Counter((values * leaves / 1000).astype(int).tolist()))
                (q,) = both[0].allocation.trees
                assert isinstance(q, ExponentialQuantile)
                found = drawn_by_rank(q, exact, leaves, rounds)
                trees = drawn_by_tree(both[1], exact, Fraction(p), rounds)
                width = [float(np.median([high - low + 1 for _, low, high in f])) for f in (found, trees)]
                ends = np.quantile([leaf for leaf, _, _ in trees], [0.025, 0.975])
                pair = width[0] / central(q, exact, leaves), width[1] / (float(ends[1] - ends[0]) + 1)
                off = [abs(_left(exact, leaf) / n - float(p)) for leaf, _, _ in found]
                kind = "fine" if np.quantile(off, 0.95) <= 0.02 else "coarse"
                ratios[kind].append(pair[0])
                ratios["trees"].append(pair[1])
                held.append((judged(found, exact, Fraction(p)).held, judged(trees, exact, Fraction(p)).held))
                print(f"{shape:12} {n:7,} {p:>4} {epsilon:>4} {kind:6} by rank {pair[0]:5.2f} of its law, held "
                      f"{held[-1][0]:.2f}; tree {pair[1]:5.2f}, held {held[-1][1]:.2f}", flush=True)  # fmt: skip
    for kind, all_of in ratios.items():
        print(f"{kind}: {len(all_of)} cases, median {np.median(all_of):.2f}, greatest {max(all_of):.2f}")
    return [
        Claim("width by rank over its law's, rank known to 2 % of rows, median case", _middle(ratios["fine"]), 1.35),
        Claim("width by rank over its law's, rank known less well, median case", _middle(ratios["coarse"]), 2.0),
        Claim("width from a tree over its law's, median case", _middle(ratios["trees"]), 2.0),
        *(
            Claim(f"intervals {way} that held the quantile", float(kept), 0.95, "", at_least=True)
            for way, kept in zip(("by rank", "from trees"), np.mean(held, axis=0), strict=True)
        ),
    ]


def main() -> None:
    """Measures, prints, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", choices=("widths", "columns"))
    options = parser.parse_args()
    claims = [] if options.only == "columns" else widths(options.rounds)
    if options.only != "widths":
        claims += of_columns(options.rows, options.rounds)
    print(*claims, sep="\n")
    print(save(f"quantiles-{options.rows}", {}, claims))


def _middle(ratios: Sequence[float]) -> float:
    return float(np.median(ratios))


def of_columns(most: int, rounds: int) -> list[Claim]:
    """Both ways on real columns."""
    print(f"{'column':22} {'rows':>8} {'p':>5} {'ε':>4} {'neighbours':11} {'tree: error, half':>18} "
          f"{'rank: error, half':>18} {'held':>10}  taken")  # fmt: skip
    right, cases, ratios, held = 0, 0, [], [0.0, 0.0]
    for c in columns(most):
        for rows in (50, 1_000, most):
            for p, relation in (("0.5", "add-remove"), ("0.75", "add-remove"), ("0.95", "add-remove"),
                                ("0.95", "replace")):  # fmt: skip
                plan, exact = leaves_of(c, rows, p, Relation(relation))
                chosen = isinstance(plan.allocation.trees[0], ExponentialQuantile)
                for epsilon in ("0.1", "1", "10"):
                    asked = plan, exact, Fraction(epsilon), Fraction(p), rounds
                    tree, rank = by_tree(*asked), by_rank(*asked)
                    taken, other = (rank, tree) if chosen else (tree, rank)
                    # a tenth of a row is no error
                    fine = taken.error <= MORE * other.error + 0.1 or taken.half * MORE <= other.half
                    right, cases = right + fine, cases + 1
                    held = [held[0] + rank.held, held[1] + tree.held]
                    if chosen and tree.error:
                        ratios.append(rank.error / tree.error)
                    print(f"{c.name:22} {exact.before[-1]:8,} {p:>5} {epsilon:>4} {relation:11} "
                          f"{tree.error:9,.1f} {tree.half:8,.0f} {rank.error:9,.1f} {rank.half:8,.0f} "
                          f"{tree.held:5.2f} {rank.held:4.2f}  {'rank' if chosen else 'tree'}"
                          f"{'' if fine else '  the other is closer'}", flush=True)  # fmt: skip
    ratios.sort()
    return [
        Claim("quantiles for which the way that is taken is the better one", right / cases, 0.9, "", at_least=True),
        Claim("error by rank against the tree's where it is taken, median", ratios[len(ratios) // 2], 0.5),
        Claim("intervals that held the quantile, of either way", min(held) / cases, 0.95, "", at_least=True),
    ]


if __name__ == "__main__":
    main()
