"""The questions of `benchmarks.questions` asked of OpenDP's Polars plug-in; runs in OpenDP's own environment.

    python -m benchmarks.questions --peers      runs it

OpenDP bounds rows per (person, region) and regions per person by itself. In 0.16.0 its `truncate_num_groups`
keeps one group fewer than it charges for, and fails with its default `keep`, hence the two arguments. It takes one pair
of truncations, by the keys of the question: so a count over everybody is bounded by rows alone, and by region and day
it is 30 groups that a person enters.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import opendp.prelude as dp
import polars as pl

from benchmarks.bounding import GROUPS, HIGH, LOW, REGIONS, ROWS
from benchmarks.runner import report_sample

CANDIDATES = [float(x) for x in range(101)]


def rows(path: str, *by: str) -> Any:
    """The private table; the margin's bounds are public, and needed: twice its rows (looser ones add noise to sums)."""
    length = 2 * pl.scan_parquet(path).select(pl.len()).collect().item()
    margins = [dp.polars.Margin(by=list(by), max_length=length, max_groups=10_000)]
    return dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user_id")),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=1,
        margins=margins,
    ).query()


def grouped(path: str, groups: int, *by: str) -> Any:
    """Count and sum by these columns, with at most so many groups of a person."""
    bounded = rows(path, *by).truncate_per_group(ROWS, by=list(by))
    bounded = bounded.truncate_num_groups(groups + 1, by=list(by), keep="first")
    amount = pl.col("amount").fill_nan(0.0).fill_null(0.0).dp.sum((float(LOW), float(HIGH)))  # type: ignore[attr-defined]  # OpenDP adds it
    return bounded.group_by(*by).agg(dp.len(), amount)


def quartiles(path: str) -> Any:
    """Q4."""
    amount = pl.col("amount").fill_nan(0.0).fill_null(0.0)
    shown = [amount.dp.quantile(a, CANDIDATES).alias(str(a)) for a in (0.25, 0.5, 0.75)]  # type: ignore[attr-defined]  # OpenDP adds it
    return rows(path).truncate_per_group(GROUPS * ROWS).select(shown)


KEYS = pl.LazyFrame({"region": REGIONS}, schema={"region": pl.String})
QUESTIONS: Mapping[str, Callable[[str], Any]] = {
    "Q1": lambda path: rows(path).truncate_per_group(GROUPS * ROWS).select(dp.len()),
    "Q2": lambda path: grouped(path, GROUPS, "region").with_keys(KEYS),
    "Q3": lambda path: grouped(path, GROUPS * ROWS, "region", "day"),
    "Q4": quartiles,
    "Q5": lambda path: rows(path).truncate_per_group(1).select(dp.len()),
}


def ask(path: str, name: str) -> None:
    """From the file to the noisy answer; of a million rows OpenDP releases no group of Q3."""
    QUESTIONS[name](path).release().collect()


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    dp.enable_features("contrib")
    report_sample(lambda: ask(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "Q2"))
