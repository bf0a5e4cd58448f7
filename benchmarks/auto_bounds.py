"""Caps chosen privately against fixed ones, at the same ε, on the heavy-tailed `visits`.

    python -m benchmarks.auto_bounds [--rows 1000000] [--rounds 5] [--runs 10000] [--end-to-end 200] [--only-ranges]

The error is Σ |noisy − exact| over the 20 regions, divided by the number of rows: truncation and noise together. Then
the same for SUM(amount) under fixed caps, with a declared range and with one that is chosen (`bounds="values"`).

Then so many runs of AVG over each of 12 distributions, over 50 to a million rows at ε = 1 (`chosen_ranges.py`): whether
finite intervals cover the clamped mean, whether the true share of rows outside the chosen range is at most the stated
one, and from 2,000 rows on how many intervals are finite. Targets are 95, 97.5 and 95 %, the first two less four
standard deviations of so many runs. A few runs of the whole engine stand beside them.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import duckdb

import discreet as dp
from benchmarks.chosen_ranges import ENOUGH, Tally, bar, end_to_end, tallies
from benchmarks.runner import Claim, save
from benchmarks.visits import REGIONS, visits

QUESTION = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
FIXED = dp.PrivacyUnit("user_id", max_groups=3, max_rows=10)


SUMMED = "SELECT region, SUM(amount) AS n FROM visits GROUP BY region"
DECLARED = dp.Range(0, 200)
"""The largest amounts there are: what an owner would declare who knows the tariff."""


def errors(path: Path, rounds: int, question: str = QUESTION, amount: Any = None, **how: Any) -> list[float]:
    """The relative error of several answers at ε = 1."""
    with duckdb.connect() as db:
        exact = dict(db.execute(question.replace("FROM visits", f"FROM '{path}'")).fetchall())
    known = {} if amount is None else {"amount": amount}
    session = dp.connect(
        {"visits": str(path)},
        columns={"region": dp.Values(*REGIONS), **known},
        budget=dp.Budget(epsilon=1000),
        population="visits",
        ledger=":memory:",
        **how,
    )
    with session:
        answers = [session.sql(question, epsilon=1, fresh=True) for _ in range(rounds)]
    return [sum(abs(exact[k] - n) for k, n in a.rows) / sum(exact.values()) for a in answers]


SIZES = (50, 100, 500, 1_000, ENOUGH, 10_000, 100_000, 1_000_000)
SEED = 20_261_124


def kept(what: str, tally: Tally) -> list[Claim]:
    """What finite intervals and stated shares promise."""
    covered, held = tally.covered / max(tally.finite, 1), tally.held / tally.runs
    least = bar(0.95, tally.finite), bar(0.975, tally.runs)
    return [
        Claim(f"{what}: finite intervals that cover the clamped mean", covered, least[0], "", at_least=True),
        Claim(f"{what}: true share outside is at most the stated one", held, least[1], "", at_least=True),
    ]


def ranges(runs: int, whole: int) -> list[Claim]:
    """Chosen ranges: so many runs of each distribution over all sizes, and so many of the whole engine."""
    found = tallies(SIZES, max(runs // len(SIZES), 1), SEED)
    together = sum(found.values(), Tally())
    many = sum((t for (_, n), t in found.items() if n >= ENOUGH), Tally())
    for n in SIZES:
        t = sum((t for (_, m), t in found.items() if m == n), Tally())
        print(f"{n:>9,} rows: {t.finite / t.runs:.1%} finite, {t.held / t.runs:.1%} within the stated share")
    names = {name for name, _ in found}
    each = {name: sum((t for (m, n), t in found.items() if m == name and n >= ENOUGH), Tally()) for name in names}
    for name in sorted(names):
        t = found[name, ENOUGH]
        print(f"{name}, {ENOUGH:,} rows: {t.finite / t.runs:.1%} finite, {t.held / t.runs:.1%} within the stated share")
    name, worst = min(each.items(), key=lambda of: of[1].finite / of[1].runs)
    claims = kept(f"{together.runs:,} runs", together)
    finite = f"finite intervals from {ENOUGH:,} rows on"
    claims.append(Claim(finite, many.finite / many.runs, 0.95, "", at_least=True))
    claims.append(Claim(f"the same, least of 12 ({name})", worst.finite / worst.runs, 0.95, "", at_least=True))
    people = dp.PrivacyUnit("uid", max_groups=1, max_rows=1)
    for unit, n, whose in ((dp.PrivacyUnit.row(), ENOUGH, "rows"), (people, 2 * ENOUGH, "people")):
        tally = end_to_end(n, whole, unit, SEED)
        claims += kept(f"{whole} whole questions to {n:,} {whose}", tally)
        claims.append(Claim("finite ones", tally.finite / tally.runs, bar(0.95, whole), "", at_least=True))
    return claims


def heavy_tailed(rows: int, rounds: int) -> list[Claim]:
    """Chosen caps and a chosen range against declared ones, on `visits`."""
    path = visits(rows)
    fixed = statistics.median(errors(path, rounds, unit=FIXED))
    chosen = statistics.median(errors(path, rounds, unit="user_id", bounds="auto"))
    print(f"3 groups of 10 rows: {fixed:.1%} of all rows; chosen: {chosen:.1%}")
    claims = [Claim("error of chosen caps against fixed ones, ε = 1", chosen / fixed, 1 / 3)]
    caps = dp.PrivacyUnit("user_id", max_groups=20, max_rows=100)
    known = statistics.median(errors(path, rounds, SUMMED, DECLARED, unit=caps))
    unknown = statistics.median(errors(path, rounds, SUMMED, unit=caps, bounds="values"))
    print(f"SUM with the range declared: {known:.2%} of the total; with one that is chosen: {unknown:.2%}")
    return [*claims, Claim("error of a chosen range against the declared one, ε = 1", unknown / known, 2)]


def main() -> None:
    """Asks, prints what was measured beside its targets, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=10_000, help="Runs of each distribution.")
    parser.add_argument("--end-to-end", type=int, default=200, help="Runs of the whole engine.")
    parser.add_argument("--only-ranges", action="store_true", help="Leave out the table of visits.")
    options = parser.parse_args()
    claims = [] if options.only_ranges else heavy_tailed(options.rows, options.rounds)
    claims += ranges(options.runs, options.end_to_end)
    print(*claims, sep="\n")
    print(save(f"auto-bounds-{options.rows}", {}, claims))


if __name__ == "__main__":
    main()
