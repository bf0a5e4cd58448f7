"""The benchmark table `visits`: many rows per person, made once and kept under benchmarks/results.

    python -m benchmarks.visits 1000000

`user_id`, `region` (20, Zipf-like; 6 rows of 10 in the person's home region), `day` 0..364 (weekends and
spring busier), `amount` (gamma, skewed, cents, at most 200), `flag`. About ten rows a person, log-normal
with σ = 1.2: the busiest people have a hundred times the median. The seed is fixed, so two machines measure
the same table.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.runner import RESULTS

REGIONS = tuple(f"region_{i:02d}" for i in range(20))
ROWS_PER_PERSON = 10
_CHUNK = 1_000_000


def visits(rows: int) -> Path:
    """The path of a Parquet file with about `rows` rows, made when it is not there yet."""
    path = RESULTS / f"visits-{rows}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".part")
        _write(half, rows)
        half.rename(path)
    return path


def _write(path: Path, rows: int) -> None:
    rng = np.random.default_rng(20_260_101)
    people = max(1, rows // ROWS_PER_PERSON)
    weight = rng.lognormal(0.0, 1.2, people)
    count = np.maximum(1, np.round(weight / weight.mean() * ROWS_PER_PERSON * 0.98)).astype(np.int64)
    user = np.repeat(np.arange(people, dtype=np.int64), count)
    rng.shuffle(user)
    user = user[:rows]
    popularity = 1.0 / np.arange(1, 21) ** 0.7
    popularity /= popularity.sum()
    days = np.arange(365)
    season = 1 + 0.5 * np.sin(days / 365 * 2 * np.pi) + 0.6 * (days % 7 >= 5)
    season /= season.sum()
    home = rng.choice(20, size=people, p=popularity)
    schema = pa.schema(
        [
            ("user_id", pa.int64()),
            ("region", pa.string()),
            ("day", pa.int32()),
            ("amount", pa.float64()),
            ("flag", pa.bool_()),
        ]
    )
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, len(user), _CHUNK):
            u = user[start : start + _CHUNK]
            n = len(u)
            region = np.where(rng.random(n) < 0.6, home[u], rng.choice(20, size=n, p=popularity)).astype(np.int8)
            columns = {
                "user_id": u,
                "region": pa.DictionaryArray.from_arrays(pa.array(region), pa.array(REGIONS)).cast(pa.string()),
                "day": rng.choice(365, size=n, p=season).astype(np.int32),
                "amount": np.minimum(200.0, np.round(rng.gamma(1.2, 28 + region * 0.8, n), 2)),
                "flag": rng.random(n) < 0.3,
            }
            writer.write_table(pa.table(columns, schema=schema), row_group_size=250_000)


if __name__ == "__main__":
    print(visits(int(sys.argv[1])))
