"""What the SQL of a census says of one unit, read from the text alone: it is one of the counts, once."""

from __future__ import annotations

from sqlglot import exp

from discreet.plan.derive import Source, unit_totals
from discreet.plan.shapes import disagree, known_columns, of_one_row, reads_stage


def derive_census(sql: str, source: Source) -> int:
    """How many columns say a unit's place in the census; one unit is counted in one place, and there once.

    The last SELECT groups the rows of `"unit totals"`, one for each unit, by functions of that row, and counts.

    Raises:
        InternalError: a shape that is not known to be one.
    """
    tree, names = unit_totals(sql, source)
    reads_stage(tree, "unit totals", {"expressions", "from_", "group", "with_"})
    *places, counted = tree.expressions
    for i, place in enumerate(places):
        if type(place) is not exp.Alias or place.alias != f"p{i}":
            disagree("the places of the census")
        of_one_row(place.this)
        known_columns(place.this, names, None)
    if counted.sql(dialect="duckdb") != "CAST(COUNT(*) AS TEXT) AS m0":
        disagree("what the census counts")
    group = tree.args.get("group")
    if group is None or any(v and k != "expressions" for k, v in group.args.items()):
        disagree("the places of the census")
    if [str(e) for e in group.expressions] != [str(e.this) for e in places]:
        disagree("the places of the census")
    return len(places)
