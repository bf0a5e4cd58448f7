"""A yearly report on a table in which one person has many rows, every page of it from one budget."""

from __future__ import annotations

import discreet as dp
from discreet import data

PAGES = {
    "Wards": (
        "SELECT ward, COUNT(*) AS visits, SUM(cost) AS cost, AVG(cost) AS per_visit "
        "FROM clinic_visits GROUP BY ward ORDER BY cost DESC"
    ),
    "Large bills": (
        "SELECT ward, COUNT(*) AS bills FROM clinic_visits WHERE cost > 1000 GROUP BY ward HAVING COUNT(*) > 100"
    ),
    "People": "SELECT COUNT(DISTINCT person_id) AS people FROM clinic_visits",
}


def main() -> None:
    """Print the report, and what it cost."""
    clinic = dp.connect(
        data.clinic_visits(),
        unit=dp.PrivacyUnit("person_id", max_groups=2, max_rows=10),
        columns={
            "cost": dp.Range(0, 2000),
            "ward": dp.Values("emergency", "maternity", "cardiology", "oncology", "surgery"),
        },
        population="patients",
        budget=dp.Budget(epsilon=3),
        ledger=":memory:",
    )
    for title, question in PAGES.items():
        print(f"{title}\n{clinic.sql(question, epsilon=1)}\n")
    print(f"Left: {clinic.remaining}")


if __name__ == "__main__":
    main()
