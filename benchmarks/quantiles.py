"""One quantile by its rank against one from a noisy tree, at the same ε, on real columns: error and interval, in rows.

    python -m benchmarks.quantiles [--rounds 40] [--rows 1000000] [--divisions]

Both answer the same question on the same exact counts in the same run, each row a person. A rank's error is how far
the named leaf's ranks are from p times the rows; the interval's is half the rows strictly between its ends. The last
columns say which way the engine takes, from public facts, and where the other one is closer: its error is less by more
than a quarter, and its interval is not wider by as much. `--divisions` prints other divisions of ε between the quantile
and its interval as well.
"""

from __future__ import annotations

import argparse
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from benchmarks.runner import Claim, save
from benchmarks.visits import visits
from discreet.backends.connection import open_database
from discreet.data import housing, trips
from discreet.mechanisms import ExponentialQuantile
from discreet.noise.entropy import SystemEntropy
from discreet.plan.plan import Plan, make_plan
from discreet.plan.schema import Range, TableSchema
from discreet.plan.spreads.tree import ExactLeaves, NoisyTree
from discreet.plan.types import Type
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.run import exact_leaves

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


def leaves_of(c: Column, rows: int, p: str, relation: Relation) -> tuple[Plan, ExactLeaves]:
    """The plan at ε = 1 and the exact counts of the first so many rows in a fixed shuffled order."""
    kind = Type.INT if c.whole else Type.REAL
    table = TableSchema(
        "t", {"x": kind}, {"x": Range(c.low, c.high, integer=c.whole)}, PrivacyUnit.row(), relation
    )
    text = f"SELECT QUANTILE_CONT(x, {p}) AS q FROM t"
    plan = make_plan(text, [table], population="p", version=None, epsilon=1)
    with open_database() as db:
        kept = "BIGINT" if c.whole else "DOUBLE"
        db.execute(
            f"CREATE TABLE t AS SELECT x FROM (SELECT CAST({c.column} AS {kept}) AS x, row_number() OVER () AS i "
            f"FROM '{c.path}') WHERE x IS NOT NULL ORDER BY hash(i) LIMIT {rows}"
        )
        found = exact_leaves(plan, 0, lambda q: db.execute(q).fetchall())
    return plan, found[()]


def by_tree(plan: Plan, exact: ExactLeaves, epsilon: Fraction, p: Fraction, rounds: int) -> Measured:
    """The tree, as the engine draws it."""
    spread = plan.question.spreads[0].spread
    tree_plan = make_plan(
        plan.question.text, [plan.question.table], population="p", version=None, epsilon=epsilon, trees=True
    )
    (noise,) = tree_plan.allocation.spreads
    assert not isinstance(noise, ExponentialQuantile)
    found = []
    for _ in range(rounds):
        tree = NoisyTree(
            spread, noise, {}, is_row=True, draw=lambda i, j: tuple(noise.add(exact.sums(spread, i, j), RNG))
        )
        tree.look(plan.question.spreads[0])
        leaf = tree._leaf(p)
        low, high = tree._between(p, Fraction(19, 20))
        found.append((leaf, min(low, leaf), max(high, leaf)))
    return judged(found, exact, p)


def by_rank(
    plan: Plan,
    exact: ExactLeaves,
    epsilon: Fraction,
    p: Fraction,
    rounds: int,
    share: Fraction = Fraction(1, 3),
) -> Measured:
    """The exponential mechanism; with another `share` of ε than a third for the quantile itself."""
    spread, relation = plan.question.spreads[0].spread, plan.question.table.relation
    one = ExponentialQuantile(epsilon=3 * share * epsilon, p=p, relation=relation)
    ends = ExponentialQuantile(epsilon=Fraction(3, 2) * (1 - share) * epsilon, p=p, relation=relation)
    found = []
    for _ in range(rounds):
        _, low, high = named = ends.choose(exact.leaves, exact.before, spread.leaves, RNG)
        leaf = (
            named[0]
            if share == Fraction(1, 3)
            else one.choose(exact.leaves, exact.before, spread.leaves, RNG)[0]
        )
        found.append((min(max(leaf, low), high), low, high))
    return judged(found, exact, p)


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


def main() -> None:
    """Measures, prints, and writes the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--divisions", action="store_true")
    options = parser.parse_args()
    print(f"{'column':22} {'rows':>8} {'p':>5} {'ε':>4} {'neighbours':11} {'tree: error, half':>18} "
          f"{'rank: error, half':>18} {'held':>10}  taken")  # fmt: skip
    right, cases, ratios, held = 0, 0, [], [0.0, 0.0]
    for c in columns(options.rows):
        for rows in (50, 1_000, options.rows):
            for p, relation in (("0.5", "add-remove"), ("0.75", "add-remove"), ("0.95", "add-remove"),
                                ("0.95", "replace")):  # fmt: skip
                plan, exact = leaves_of(c, rows, p, Relation(relation))
                chosen = isinstance(plan.allocation.spreads[0], ExponentialQuantile)
                for epsilon in ("0.1", "1", "10"):
                    asked = plan, exact, Fraction(epsilon), Fraction(p), options.rounds
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
                    if options.divisions and chosen:
                        for share in (Fraction(1, 5), Fraction(1, 4), Fraction(2, 5), Fraction(1, 2)):
                            m = by_rank(*asked, share)
                            print(f"{'':56} {share} of ε for the quantile {m.error:9,.1f} {m.half:8,.0f}")
    ratios.sort()
    claims = [
        Claim(
            "quantiles for which the way that is taken is the better one",
            right / cases,
            0.9,
            "",
            at_least=True,
        ),
        Claim("error by rank against the tree's where it is taken, median", ratios[len(ratios) // 2], 0.5),
        Claim("intervals that held the quantile, of either way", min(held) / cases, 0.95, "", at_least=True),
    ]
    print(*claims, sep="\n")
    print(save(f"quantiles-{options.rows}", {}, claims))


if __name__ == "__main__":
    main()
