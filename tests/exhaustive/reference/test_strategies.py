"""The strategies reach what they are for."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from discreet.privacy.unit import Relation
from tests.reference.expression import Case as CaseWhen
from tests.reference.expression import Column
from tests.reference.measures import CountOf, CountUnits, Mean, Sum
from tests.strategies.questions import SCHEMA, UNIT, Case, queries, random_neighbours, tables

WANTED: dict[str, Callable[[Case], bool]] = {
    "an empty table": lambda c: not c.rows,
    "a single row": lambda c: len(c.rows) == 1,
    "a unit with several rows": lambda c: len({r[UNIT] for r in c.rows}) < len(c.rows) - 2,
    "a row of nobody": lambda c: any(r[UNIT] is None for r in c.rows),
    "NaN": lambda c: any(isinstance(r["v"], float) and math.isnan(r["v"]) for r in c.rows),
    "an infinity": lambda c: any(isinstance(r["v"], float) and math.isinf(r["v"]) for r in c.rows),
    "the greatest integer": lambda c: any(r["x"] == 2**63 - 1 for r in c.rows),
    "each row a unit": lambda c: c.unit is None,
    "several groups and rows": lambda c: c.max_groups > 1 and c.max_rows > 1,
    "declared keys": lambda c: c.question.declared_keys is not None,
    "declared NULL": lambda c: any(None in key for key in c.question.declared_keys or ()),
    "two keys": lambda c: len(c.question.keys) == 2,
    "private keys": lambda c: c.question.groups is None,
    "a key that is an expression": lambda c: any(not isinstance(k, Column) for k in c.question.keys),
    "a filter": lambda c: c.question.where is not None,
    "COUNT(x)": lambda c: any(isinstance(m, CountOf) for m in c.question.measures),
    "COUNT(DISTINCT unit)": lambda c: any(isinstance(m, CountUnits) for m in c.question.measures),
    "AVG": lambda c: any(isinstance(m, Mean) for m in c.question.measures),
    "SUM of CASE": lambda c: any(
        isinstance(m, Sum) and isinstance(m.expression, CaseWhen) for m in c.question.measures
    ),
}


@pytest.mark.parametrize("what", WANTED)
def test_cases_reach(what: str) -> None:
    quick = settings(max_examples=3000, phases=[Phase.generate], database=None, derandomize=True)
    assert WANTED[what](find(queries(), WANTED[what], settings=quick))


@given(queries())
def test_cases_are_consistent(case: Case) -> None:
    assert all(row.keys() == SCHEMA.keys() for row in case.rows)
    assert {kind for kind, *_ in case.columns.values()} <= {"range", "values"}
    if case.question.declared_keys is not None:
        names = [k.name for k in case.question.keys if isinstance(k, Column)]
        assert all(case.columns[name][0] == "values" for name in names)
    if case.question.groups is None:
        used = {k.name for k in case.question.keys if isinstance(k, Column)}
        assert not used & case.columns.keys()


@given(tables(max_size=3))
def test_tables_have_the_size_that_was_asked_for(rows: tuple[object, ...]) -> None:
    assert len(rows) <= 3


@given(case=queries(max_size=4), relation=st.sampled_from(Relation), data=st.data())
def test_neighbours_differ_in_one_unit(case: Case, relation: Relation, data: st.DataObject) -> None:
    before, after = data.draw(random_neighbours(case, relation))
    assert before == case.rows
    here, there = (sorted(repr(sorted(r.items())) for r in rows) for rows in (before, after))
    if case.unit is None:
        gone, came = _minus(here, there), _minus(there, here)
        assert (len(gone), len(came)) in (
            [(0, 0), (1, 1)] if relation is Relation.REPLACE else [(0, 1), (1, 0), (0, 0)]
        )
        return
    changed = {u for u in _units(before) | _units(after) if _rows_of(u, before) != _rows_of(u, after)}
    assert None not in changed
    assert len(changed) <= (2 if relation is Relation.REPLACE else 1)
    if relation is Relation.ADD_REMOVE:
        assert all(not _rows_of(u, before) or not _rows_of(u, after) for u in changed)


def _minus(x: list[str], y: list[str]) -> list[str]:
    rest = list(x)
    for item in y:
        if item in rest:
            rest.remove(item)
    return rest


def _units(rows: tuple[object, ...]) -> set[object]:
    return {r[UNIT] for r in rows if isinstance(r, dict)}


def _rows_of(unit: object, rows: tuple[object, ...]) -> list[str]:
    return sorted(repr(sorted(r.items())) for r in rows if isinstance(r, dict) and r[UNIT] == unit)
