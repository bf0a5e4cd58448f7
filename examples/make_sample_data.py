"""Make the sample tables that ship with the package, from the public originals and a fixed seed.

    python examples/make_sample_data.py originals src/discreet/data

The folder `originals` holds, as they are published, `adult.data` (the training split of UCI Adult: 15 columns,
no header, `?` for unknown), `ma2018.csv` (the Massachusetts excerpt of NIST's Diverse Communities Data),
`taxis.csv` (seaborn's sample of New York taxi trips) and `housing.csv` (California's block groups of 1990).
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
        f"CAST(trim({name}) AS INTEGER) AS {name}" if name in NUMBERS else f"nullif(trim({name}), '?') AS {name}"
        for name in KEPT
    )
    rows = f"read_csv('{original}', header=false, auto_detect=false, delim=',', quote='', columns={{{columns}}})"
    _write(f"SELECT {chosen} FROM {rows}", target)


def survey(original: Path, target: Path) -> None:
    """Ten features of the people of Massachusetts who were asked in 2018, with words for codes and NULL for N."""
    status = "CASE MSP WHEN '1' THEN 'married' WHEN '2' THEN 'married' WHEN '3' THEN 'widowed' "
    status += "WHEN '4' THEN 'divorced' WHEN '5' THEN 'separated' WHEN '6' THEN 'never married' END"
    education = "CAST(nullif(EDU, 'N') AS INTEGER)"
    chosen = {
        "area": "PUMA",
        "age": "CAST(AGEP AS INTEGER)",
        "sex": "CASE SEX WHEN '1' THEN 'male' ELSE 'female' END",
        "marital": status,
        "education": f"CASE WHEN {education} >= 10 THEN 'beyond bachelor' WHEN {education} = 9 THEN 'bachelor' "
        f"WHEN {education} >= 7 THEN 'some college' WHEN {education} >= 5 THEN 'high school' "
        f"WHEN {education} >= 1 THEN 'less' END",
        "home": "CASE OWN_RENT WHEN '1' THEN 'owned' WHEN '2' THEN 'rented' ELSE 'group quarters' END",
        "children": "CAST(nullif(NOC, 'N') AS INTEGER)",
        "income": "CAST(CAST(nullif(PINCP, 'N') AS DOUBLE) AS INTEGER)",
        "poverty": "CAST(CAST(nullif(POVPIP, 'N') AS DOUBLE) AS INTEGER)",
        "weight": "CAST(PWGTP AS INTEGER)",
    }
    _write(_chosen(chosen, f"read_csv('{original}', header=true, all_varchar=true)"), target)


def trips(original: Path, target: Path) -> None:
    """What a trip was, without its zones and tolls; money in dollars, distance in miles."""
    names = (
        *("pickup", "dropoff", "passengers", "distance", "fare", "tip", "total", "color", "payment"),
        *("pickup_borough", "dropoff_borough"),
    )
    _write(_chosen({name: name for name in names}, f"read_csv('{original}', header=true)"), target)


def housing(original: Path, target: Path) -> None:
    """All columns, whole numbers as such."""
    whole = ("housing_median_age", "total_rooms", "total_bedrooms", "population", "households", "median_house_value")
    chosen = {
        **{name: name for name in ("longitude", "latitude")},
        **{name: f"CAST({name} AS INTEGER)" for name in whole},
        **{name: name for name in ("median_income", "ocean_proximity")},
    }
    _write(_chosen(chosen, f"read_csv('{original}', header=true)"), target)


def _chosen(columns: dict[str, str], rows: str) -> str:
    return f"SELECT {', '.join(f'{sql} AS {name}' for name, sql in columns.items())} FROM {rows}"


def visits() -> list[tuple[int, str, str, float]]:
    """A year of invented visits to a clinic: most people come a few times, a few come every week."""
    rng = random.Random(SEED)  # noqa: S311 (invented people; nothing here is secret)
    rows = []
    for person in range(1, PEOPLE + 1):
        often = rng.random() < 0.06
        visits_made = 1 + int(rng.expovariate(1 / 38 if often else 1 / 6.2))
        wards = rng.choices(list(WARDS), weights=[share for share, _ in WARDS.values()], k=rng.choice((1, 1, 2, 3)))
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
    """Write the tables into the folder of the second argument."""
    originals, folder = Path(sys.argv[1]), Path(sys.argv[2])
    adult(originals / "adult.data", folder / "adult.parquet")
    survey(originals / "ma2018.csv", folder / "survey.parquet")
    trips(originals / "taxis.csv", folder / "trips.parquet")
    housing(originals / "housing.csv", folder / "housing.parquet")
    clinic_visits(folder / "clinic_visits.parquet")


if __name__ == "__main__":
    main()
