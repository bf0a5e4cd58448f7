"""Small tables to try things on; the README beside them says where they come from."""

from __future__ import annotations

from pathlib import Path

from discreet.namespace import public_names

_HERE = Path(__file__).parent


def adult() -> Path:
    """Return the path of `adult.parquet`: 32,561 real people, one row each, from the US census survey of 1994.

    >>> adult().stem
    'adult'
    """
    return _HERE / "adult.parquet"


def clinic_visits() -> Path:
    """Return the path of `clinic_visits.parquet`: 25,403 visits of 3,000 invented people to a clinic.

    >>> clinic_visits().stem
    'clinic_visits'
    """
    return _HERE / "clinic_visits.parquet"


def survey() -> Path:
    """Return the path of `survey.parquet`: 7,244 real people of Massachusetts, one row each, from a survey of 2018.

    >>> survey().stem
    'survey'
    """
    return _HERE / "survey.parquet"


def trips() -> Path:
    """Return the path of `trips.parquet`: 6,433 real taxi trips of March 2019 in New York; riders are not in it.

    >>> trips().stem
    'trips'
    """
    return _HERE / "trips.parquet"


def housing() -> Path:
    """Return the path of `housing.parquet`: the 20,640 block groups of California in the US census of 1990, one row
    each.

    >>> housing().stem
    'housing'
    """
    return _HERE / "housing.parquet"


def tables() -> tuple[Path, ...]:
    """Return the paths of all sample tables.

    >>> [path.stem for path in tables()]
    ['adult', 'clinic_visits', 'survey', 'trips', 'housing']
    """
    return adult(), clinic_visits(), survey(), trips(), housing()


def __dir__() -> list[str]:
    return public_names(globals())
