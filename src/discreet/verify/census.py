"""What the SQL of reports and censuses says of one unit, read from the text alone: it is in one of the counts, once.

A census counts units by places, which are functions of what is known of a unit. This module shares no code with the
writer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from sqlglot import exp

from discreet.verify.derive import PrivateRows, parsed, stage_of, unit_rows, unit_stages
from discreet.verify.kinds import kind_of, span_of
from discreet.verify.shapes import (
    counts_rows,
    grouped_by,
    holds_only,
    is_column,
    known_columns,
    of_one_row,
    outputs,
    reads_stage,
    reject,
    text_of,
    whole_constant,
)


def derive_reports(sql: str, source: PrivateRows) -> tuple[int, ...]:
    """How many counts each truncation report of a statement has; of each report, one unit is in one of them at most.

    The last SELECT reads a stage with one row for each unit, and counts for each column of places in how many rows it
    is each of some different numbers. The places of a unit follow from its own rows: where each row is a unit, from
    this row; else from tallies of the rows, by which alone the unit is known from then on.

    Raises:
        InternalError: a shape that is not known to be one.
    """
    tree, ctes, source = parsed(sql, source)
    if source.unit is None:
        stage, (_, row, _) = "unit rows", unit_rows(ctes, source, outer=True)
        places = {name for name, e in row.items() if kind_of(e, _no_column) == "BIGINT"}
    elif "unit totals" in ctes:
        stage, places = "unit places", {*_places(ctes, "unit totals", _unit_totals(ctes, source))}
    else:
        tallies = unit_stages(ctes, [], source, outer=True).tallies
        stage, places = "unit places", {*_places(ctes, "unit groups", tallies)}
    reads_stage(tree, stage, {"expressions", "from_", "with_"})
    found: dict[str, list[int]] = {}
    for e in outputs(tree).values():
        name, place = _counted_place(e)
        if name not in places or place in found.get(name, ()) or (name in found and name != [*found][-1]):
            reject("the report of truncation")
        found.setdefault(name, []).append(place)
    return tuple(len(counts) for counts in found.values())


def _counted_place(e: exp.Expr) -> tuple[str, int]:
    """Return the p and the k of CAST(count(*) FILTER (WHERE p = k) AS text)."""
    counted = text_of(e)
    if type(counted) is not exp.Filter or not holds_only(counted, {"this", "expression"}):
        reject("the report of truncation")
    where = counted.expression
    if not counts_rows(counted.this) or type(where) is not exp.Where or not holds_only(where, {"this"}):
        reject("the report of truncation")
    test = where.this
    if type(test) is not exp.EQ or type(test.this) is not exp.Column or type(test.expression) is not exp.Literal:
        reject("the report of truncation")
    place = whole_constant(test.expression)
    if not is_column(test.this, "", test.this.name) or place >= _FAR:
        reject("the report of truncation")
    return test.this.name, place


_FAR = 1 << 31
"""Smaller whole numbers are different numbers to the database, whatever the type of what they are compared with."""


def _no_column(_: exp.Column) -> None:
    """Places are written in the text: what a column holds is none."""


def derive_census(sql: str, source: PrivateRows) -> int:
    """How many columns say a unit's place in the census; one unit is counted in one place, and there once.

    `"unit places"` has one row for each unit, and the last SELECT groups these rows by all of their columns and counts.

    Raises:
        InternalError: a shape that is not known to be one.
    """
    tree, ctes, source = parsed(sql, source)
    places = _places(ctes, "unit totals", _unit_totals(ctes, source))
    grouped_by(tree, places)
    _counts(tree, places)
    return len(places)


def derive_values(sql: str, source: PrivateRows) -> int:
    """In how many counts one unit is, by the places of its largest and its least values, or of its one row's.

    `"unit places"` has one row for each unit. The last SELECT groups these rows by the two columns of one value at a
    time (by one column, where each row is a unit), so that a unit is in one count of each value.

    Raises:
        InternalError: a shape that is not known to be one.
    """
    tree, ctes, source = parsed(sql, source)
    _, row, _ = unit_rows(ctes, source)
    if source.unit is None:
        places = _places(ctes, "unit rows", frozenset(row))
    else:
        totals = stage_of(ctes, "unit totals")
        reads_stage(totals, "unit rows", {"expressions", "from_", "group"})
        grouped_by(totals, ["u"])
        ends = outputs(totals, ["u"])
        for e in ends.values():
            if type(e) not in (exp.Max, exp.Min) or not holds_only(e, {"this"}) or type(e.this) is not exp.Column:
                reject("the totals of a unit")
            known_columns(e, row.keys() - {"u"}, None)
        places = _places(ctes, "unit totals", frozenset(ends))
    _one_at_a_time(tree, places, 1 if source.unit is None else 2)
    _counts(tree, places)
    return len(places)


def check_price(spent: Fraction, epsilon: Fraction, *, replace: bool) -> None:
    """Refuses noise that costs more than ε, given what it costs for a unit that moves each vector of counts by 1.

    A unit that comes or goes does so; one that is replaced leaves one count and enters another.

    Raises:
        InternalError: it is not noise enough.
    """
    if spent * (2 if replace else 1) > epsilon:
        reject("what the first stage costs")


def _places(ctes: Mapping[str, exp.Expr], stage: str, names: frozenset[str]) -> list[str]:
    """Return the columns of `"unit places"`, each of them a function of one row of the stage that it reads."""
    select = stage_of(ctes, "unit places")
    reads_stage(select, stage, {"expressions", "from_"})
    places = outputs(select)
    for e in places.values():
        if any(type(node) not in _OF_NUMBERS for node in e.walk()):
            reject("the places of the census")
        if any(not cast.to.is_type(exp.DataType.Type.DOUBLE) for cast in e.find_all(exp.Cast)):
            reject("the places of the census")
        of_one_row(e)
        known_columns(e, names - {"u"}, None)
        if not _is_listed(e):
            reject("the places of the census")
    if not places or list(places) != [f"p{i}" for i in range(len(places))]:
        reject("the places of the census")
    return list(places)


def _is_listed(e: exp.Expr) -> bool:
    """Whether the values of an expression are whole numbers between two that follow from the text, or NULL: so that the
    places to which noise is added are public.
    """
    match e:
        case exp.Paren() | exp.Neg():
            return _is_listed(e.this)
        case exp.Literal():
            return not e.is_string and e.name.isdigit()
        case exp.Case() if e.this is None:
            arms = [*(i.args["true"] for i in e.args["ifs"]), e.args.get("default")]
            return all(_is_listed(arm) for arm in arms if arm is not None)
        case exp.Add():
            return _is_listed(e.this) and _is_listed(e.expression)
        case exp.Floor() if type(e.this) is exp.Log and e.this.expression is not None:
            base, number = span_of(e.this.this, frozenset()), span_of(e.this.expression, frozenset())
            return base == (2, 2) and 0 < number[0] <= number[1] < math.inf
        case _:
            return False


# Equal numbers have equal places, such as 0.0 and −0.0: which of them is a unit's largest is not settled.
_NODES = "Column Identifier Literal Cast DataType Case If LT GT Add Sub Mul Neg Paren Abs Least Greatest Floor Log"
_OF_NUMBERS = frozenset(getattr(exp, name) for name in _NODES.split())


def _one_at_a_time(tree: exp.Select, places: list[str], each: int) -> None:
    """GROUP BY GROUPING SETS ((p0, p1), (p2, p3), …): one set of so many columns for each value."""
    group = tree.args.get("group")
    sets = group.expressions if group is not None and holds_only(group, {"expressions"}) else []
    if len(sets) != 1 or type(sets[0]) is not exp.GroupingSets or not holds_only(sets[0], {"expressions"}):
        reject("the places of the census")
    found = [e.expressions if type(e) is exp.Tuple else [e.this] for e in sets[0].expressions]
    if any(type(e) not in (exp.Paren, exp.Tuple) for e in sets[0].expressions):
        reject("the places of the census")
    if len(places) % each or [len(columns) for columns in found] != [each] * (len(places) // each):
        reject("the places of the census")
    for e, name in zip((e for columns in found for e in columns), places, strict=True):
        if not is_column(e, "", name):
            reject("the places of the census")


def _counts(tree: exp.Select, places: list[str]) -> None:
    """Check that the last SELECT gives the places as they are, and count(*)."""
    reads_stage(tree, "unit places", {"expressions", "from_", "group", "with_"})
    counted = outputs(tree, places)
    if [(n, e.sql(dialect="duckdb")) for n, e in counted.items()] != [("m0", "CAST(COUNT(*) AS TEXT)")]:
        reject("what the census counts")


def _unit_totals(ctes: Mapping[str, exp.Expr], source: PrivateRows) -> frozenset[str]:
    """Return the columns of the stage `"unit totals"`, which has one row for each unit: counts, sums and maxima over
    it.
    """
    keys = [e.alias_or_name for e in stage_of(ctes, "unit groups").expressions if type(e) is exp.Column][1:]
    stages = unit_stages(ctes, keys, source)
    totals = stage_of(ctes, "unit totals")
    reads_stage(totals, "unit groups", {"expressions", "from_", "group"})
    grouped_by(totals, ["u"])
    named = outputs(totals, ["u"])
    for total in named.values():
        if counts_rows(total):
            continue
        if type(total) not in (exp.Count, exp.Sum, exp.Max) or not holds_only(total, {"this", "big_int"}):
            reject("the totals of a unit")
        if type(total.this) is not exp.Column:
            reject("the totals of a unit")
        # of keys only the number: sums of reals, and which of 0.0 and −0.0 is the largest, follow the order of rows
        known_columns(total.this, {*(keys if type(total) is exp.Count else ()), *stages.tallies}, None)
    return frozenset(named)
