"""The pictures of docs/gallery.md: `python examples/gallery.py [FOLDER]` draws them anew, with new noise."""

from __future__ import annotations

import sys
from pathlib import Path

import discreet as dp
from discreet import data, plots
from discreet.plots.vega import Picture


def first_result() -> Picture:
    """Average working hours by education, each row one person."""
    with dp.connect(
        data.adult(),
        unit=dp.PrivacyUnit.row(),
        columns={
            "hours": dp.Range(1, 99),
            "education": dp.Values("HS-grad", "Some-college", "Bachelors", "Masters", "Doctorate"),
        },
        budget=dp.Budget(epsilon=1),
        ledger=":memory:",
    ) as people:
        query = "SELECT education, AVG(hours) AS hours FROM adult GROUP BY education"
        return plots.release(people.sql(query, epsilon="0.5"))


def patients_by_month() -> Picture:
    """Patients of a clinic in each month; one person counts in at most six months."""
    with dp.connect(
        data.clinic_visits(),
        unit=dp.PrivacyUnit("person_id", max_groups=6, max_rows=1),
        columns={"month": dp.Values(*(f"2026-{month:02}" for month in range(1, 13)))},
        population="patients",
        budget=dp.Budget(epsilon=1),
        ledger=":memory:",
    ) as clinic:
        query = "SELECT month, COUNT(DISTINCT person_id) AS patients FROM clinic_visits GROUP BY month ORDER BY month"
        return plots.release(clinic.sql(query, epsilon=1))


def prices_by_place() -> Picture:
    """Average house value of Californian block groups, by distance to the ocean."""
    with dp.connect(
        data.housing(),
        unit=dp.PrivacyUnit.row(),
        columns={
            "median_house_value": dp.Range(0, 500_000),
            "ocean_proximity": dp.Values("INLAND", "<1H OCEAN", "NEAR BAY", "NEAR OCEAN", "ISLAND"),
        },
        budget=dp.Budget(epsilon=1),
        ledger=":memory:",
    ) as places:
        query = (
            "SELECT ocean_proximity AS place, AVG(median_house_value) AS value FROM housing GROUP BY ocean_proximity"
        )
        return plots.release(places.sql(query, epsilon="0.2"))


def randomized_response() -> Picture:
    """Randomized response on four answers: the probability of each output on each input."""
    values = ("never", "once", "often", "daily")
    rows = {a: {b: "5/8" if a == b else "1/8" for b in values} for a in values}
    return plots.matrix(dp.finite.Mechanism(rows))


PICTURES = (first_result, patients_by_month, prices_by_place, randomized_response)


def main(folder: Path) -> None:
    """Draw every picture into a folder, under the name of its function."""
    for picture in PICTURES:
        plots.save(picture(), folder / f"{picture.__name__.replace('_', '-')}.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
