"""Two small tables to try things on; the README beside them says where they come from."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent


def adult() -> Path:
    """The path of `adult.parquet`: 32,561 real people, one row each, from the US census survey of 1994.

    >>> adult().stem
    'adult'
    """
    return _HERE / "adult.parquet"


def clinic_visits() -> Path:
    """The path of `clinic_visits.parquet`: 25,403 visits of 3,000 invented people to a clinic.

    >>> clinic_visits().stem
    'clinic_visits'
    """
    return _HERE / "clinic_visits.parquet"
