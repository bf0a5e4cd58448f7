"""The demo's first two parts: a question with error bars, and people who have many rows."""

from __future__ import annotations

from discreet.cli.answers import as_table
from discreet.cli.story import Scene, heading, show, tell

BY_WORK = """\
SELECT workclass, COUNT(*) AS people, AVG(hours) AS hours
FROM adult
GROUP BY workclass
ORDER BY people DESC"""

BY_WARD = """\
SELECT ward, COUNT(DISTINCT person_id) AS people, SUM(cost) AS cost
FROM clinic_visits
GROUP BY ward
ORDER BY cost DESC"""


def ask(scene: Scene) -> None:
    """A question of one row per person, its intervals, and how many of them hold the exact number."""
    heading(1, "Ask a question")
    tell(
        """The table has 32,561 people from the US census survey of 1994, one row each. Noise is
        added to every number so that no one person can be made out, and the ± says how far off
        each number may be."""
    )
    show(BY_WORK)
    release = scene.adults.sql(BY_WORK, epsilon="0.3")
    show(as_table(release))
    exact = {work: values for work, *values in scene.truth(BY_WORK)}
    hits = shown = 0
    for name, at in (("people", 0), ("hours", 1)):
        for row, interval in zip(release.rows, release.interval(name, confidence=0.95), strict=True):
            if interval is not None:
                shown += 1
                hits += interval[0] <= exact[row[0]][at] <= interval[1]
    tell(
        f"""It cost ε = 0.3 of these people's budget of 1. The demo, unlike an analyst, may look:
        {hits} of the {shown} intervals hold the exact number, and on average 95 in 100 do."""
    )


def ask_about_visits(scene: Scene) -> None:
    """A question of many rows per person, with caps that the engine enforces."""
    heading(2, "People with many rows")
    tell(
        """This table has a year of visits to a clinic, of 3,000 invented people; one of them came
        210 times. The whole person is protected, not the single visit: nobody enters more than 2
        wards or adds more than 10 visits of at most $2,000 to each, and the engine sees to it."""
    )
    show(BY_WARD)
    release = scene.clinic.sql(BY_WARD, epsilon="1")
    show(as_table(release))
    capped, exact = (sum(row[2] for row in rows) for rows in (release.rows, scene.truth(BY_WARD)))
    tell(
        f"""The caps have a price: what lies above them is not counted. These costs add up to
        ${capped / 1e6:.1f} million, and the true ones to ${exact / 1e6:.1f} million. Intervals are about the
        capped answer; choosing caps well is explained in docs/how-to/choose-bounds.md."""
    )
