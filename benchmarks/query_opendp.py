"""The question of `benchmarks.query` asked of OpenDP's Polars plug-in; runs in OpenDP's own environment.

    python -m benchmarks.query --peers      runs it

OpenDP bounds rows per (person, region) and regions per person by itself. In 0.16.0 its `truncate_num_groups`
keeps one group fewer than it charges for, and fails with its default `keep`, hence the two arguments.
"""

from __future__ import annotations

import sys
import warnings

import opendp.prelude as dp
import polars as pl

from benchmarks.runner import report_sample

REGIONS = [f"region_{i:02d}" for i in range(20)]
GROUPS, ROWS, LOW, HIGH = 3, 10, 0.0, 100.0


def ask(path: str) -> None:
    """From the file to the noisy answer."""
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("user_id")),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["region"], max_length=20_000_000, max_groups=10_000)],
    )
    bounded = context.query().truncate_per_group(ROWS, by=["region"])
    bounded = bounded.truncate_num_groups(GROUPS + 1, by=["region"], keep="first")
    keys = pl.LazyFrame({"region": REGIONS}, schema={"region": pl.String})
    amount = pl.col("amount").fill_nan(0.0).fill_null(0.0).dp.sum((LOW, HIGH))  # type: ignore[attr-defined]  # OpenDP adds it
    answer = bounded.group_by("region").agg(dp.len(), amount).with_keys(keys).release().collect()
    assert len(answer) == len(REGIONS)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    dp.enable_features("contrib")
    report_sample(lambda: ask(sys.argv[1]))
