"""Make the two sample tables that ship with the package, from the public original and a fixed seed.

    python examples/make_sample_data.py adult.data src/discreet/data

`adult.data` is the training split of UCI Adult as it is published: 15 columns, no header, `?` for unknown.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import duckdb

ADULT = (
    *("age", "workclass", "weight", "education", "education_years", "marital", "occupation", "relationship"),
    *("race", "sex", "gain", "loss", "hours", "country", "income"),
)
KEPT = ("age", "workclass", "education", "marital", "occupation", "relationship", "sex", "hours", "income")
NUMBERS = {"age", "hours"}

PEOPLE = 3_000
SEED = 20260101
WARDS = {  # of each ward: its share of the first visits, and the middle of what a visit costs
    "emergency": (0.34, 180.0),
    "maternity": (0.14, 420.0),
    "cardiology": (0.20, 350.0),
    "oncology": (0.12, 900.0),
    "surgery": (0.20, 1_300.0),
}


def adult(original: Path, target: Path) -> None:
    """Nine columns of Adult, trimmed, with NULL for `?`; all rows, in their order."""
    columns = ", ".join(f"'{name}': 'VARCHAR'" for name in ADULT)
    chosen = ", ".join(
        f"CAST(trim({name}) AS INTEGER) AS {name}"
        if name in NUMBERS
        else f"nullif(trim({name}), '?') AS {name}"
        for name in KEPT
    )
    rows = (
        f"read_csv('{original}', header=false, auto_detect=false, delim=',', quote='', columns={{{columns}}})"
    )
    _write(f"SELECT {chosen} FROM {rows}", target)


def visits() -> list[tuple[int, str, str, float]]:
    """A year of invented visits to a clinic: most people come a few times, a few come every week."""
    rng = random.Random(SEED)  # noqa: S311 (invented people; nothing here is secret)
    rows = []
    for person in range(1, PEOPLE + 1):
        often = rng.random() < 0.06
        visits_made = 1 + int(rng.expovariate(1 / 38 if often else 1 / 6.2))
        wards = rng.choices(
            list(WARDS), weights=[share for share, _ in WARDS.values()], k=rng.choice((1, 1, 2, 3))
        )
        for _ in range(visits_made):
            ward = rng.choice(wards)
            cost = round(WARDS[ward][1] * rng.lognormvariate(0, 0.5), 2)
            rows.append((1000 + person, ward, f"2026-{rng.randint(1, 12):02d}", cost))
    rng.shuffle(rows)
    return rows


def clinic_visits(target: Path) -> None:
    """The invented visits as a table: person_id, ward, month, cost."""
    values = ", ".join(f"({person}, '{ward}', '{month}', {cost})" for person, ward, month, cost in visits())
    columns = "CAST(a AS INTEGER) AS person_id, b AS ward, c AS month, CAST(d AS DOUBLE) AS cost"
    _write(f"SELECT {columns} FROM (VALUES {values}) AS t (a, b, c, d)", target)


def _write(query: str, target: Path) -> None:
    options = "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 19"
    with duckdb.connect() as database:
        database.execute("SET threads = 1")  # keeps the rows in their order, and the file the same
        database.execute(f"COPY ({query}) TO '{target}' ({options})")


def main() -> None:
    """Write both tables into the folder of the second argument."""
    original, folder = Path(sys.argv[1]), Path(sys.argv[2])
    adult(original, folder / "adult.parquet")
    clinic_visits(folder / "clinic_visits.parquet")


if __name__ == "__main__":
    main()
