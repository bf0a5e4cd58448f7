"""The strategies for several tables reach what they are for."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from discreet.privacy.unit import Relation as Neighbours
from tests.reference.expression import Or
from tests.reference.relation import Base, Database, Filter, Group, Join, JoinKind, Project, Relation, Union, Windowed
from tests.reference.relation_nested import Beside, Matched, Nested
from tests.strategies.database import databases, neighbours
from tests.strategies.relation import RelationCase, relation_cases


def nodes(relation: Relation) -> Iterator[Relation]:
    """The node and all below it."""
    yield relation
    match relation:
        case Join(left, right) | Union(left, right) | Matched(left, right):
            yield from (*nodes(left), *nodes(right))
        case Filter(of) | Project(of) | Group(of) | Windowed(of):
            yield from nodes(of)
        case Beside(of):
            yield from (*nodes(of), *(n for _, s in relation.nested for n in nodes(s.of)))


def joins(case: RelationCase) -> list[tuple[JoinKind, bool]]:
    """Every join, and whether it is with a public table."""
    return [(n.how, n.left.owned is not n.right.owned) for n in nodes(case.relation) if isinstance(n, Join)]


def aggregates(case: RelationCase) -> set[str]:
    return {a.name for n in nodes(case.relation) if isinstance(n, Group) for _, a in n.aggregates}


def windows(case: RelationCase) -> set[str]:
    return {w.name for n in nodes(case.relation) if isinstance(n, Windowed) for _, w in n.windows}


def framed(case: RelationCase) -> set[str]:
    of = [w for n in nodes(case.relation) if isinstance(n, Windowed) for _, w in n.windows]
    return {w.name for w in of if w.frame is not None}


def matched(case: RelationCase) -> list[tuple[bool, bool]]:
    return [(n.keeps, n.every) for n in nodes(case.relation) if isinstance(n, Matched)]


def nested(case: RelationCase) -> list[tuple[str, bool]]:
    """The subqueries in place of values: what they are, and whether they ask a public table."""
    return [(_what(s), not s.of.owned) for n in nodes(case.relation) if isinstance(n, Beside) for _, s in n.nested]


def _what(s: Nested) -> str:
    if s.aggregate is not None:
        return "a value"
    return "EXISTS" if s.value is None else "IN its own list" if s.own else "IN"


def owners(case: RelationCase) -> list[int]:
    d = case.database
    return [len(d.owners("items", row)) for row in d.rows["items"]]


def _has(parts: Callable[[RelationCase], Collection[object]], part: object) -> Callable[[RelationCase], bool]:
    return lambda case: part in parts(case)


WANTED: dict[str, Callable[[RelationCase], bool]] = {
    **{f"private {k.value}": _has(joins, (k, False)) for k in JoinKind},
    **{
        f"public {k.value}": _has(joins, (k, True))
        for k in (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
    },
    **{f"{a} inside": _has(aggregates, a) for a in ("COUNT", "COUNT DISTINCT", "SUM", "AVG", "MIN", "MAX")},
    **{f"{w} OVER": _has(windows, w) for w in ("ROW_NUMBER", "RANK", "LAG", "COUNT", "SUM")},
    "a frame": lambda c: bool(framed(c)),
    "LAST_VALUE OVER": _has(windows, "LAST_VALUE"),
    **{f"keeps {k}, ALL {e}": _has(matched, (k, e)) for k in (True, False) for e in (True, False)},
    **{
        f"{w} of {'public' if p else 'private'} rows": _has(nested, (w, p))
        for w in ("a value", "EXISTS", "IN", "IN its own list")
        for p in (True, False)
        if (w, p) != ("IN its own list", True)
    },
    "a subquery under OR": lambda c: any(isinstance(n, Beside) and isinstance(n.where, Or) for n in nodes(c.relation)),
    "HAVING": lambda c: any(isinstance(n, Group) and n.having is not None for n in nodes(c.relation)),
    "DISTINCT": lambda c: any(isinstance(n, Project) and n.distinct for n in nodes(c.relation)),
    "UNION ALL": lambda c: any(isinstance(n, Union) and not n.distinct for n in nodes(c.relation)),
    "UNION": lambda c: any(isinstance(n, Union) and n.distinct for n in nodes(c.relation)),
    "three tables": lambda c: len({n.table.name for n in nodes(c.relation) if isinstance(n, Base)}) >= 3,
    "WITH": lambda c: c.sql.startswith("WITH "),
    "NOT EXISTS": lambda c: "NOT EXISTS" in c.sql,
    "a row of two people": lambda c: 2 in owners(c),
    "a row of nobody": lambda c: 0 in owners(c),
    "an order that names its person": lambda c: c.database.table("orders").unit is not None,
    "NaN": lambda c: any(isinstance(r["price"], float) and math.isnan(r["price"]) for r in c.database.rows["items"]),
    "declared keys": lambda c: c.question.declared_keys is not None,
    "private keys": lambda c: c.question.groups is None,
}


class AllSeen(Exception):
    """Nothing is left to look for."""


def test_cases_reach_everything() -> None:
    left = set(WANTED)

    @given(relation_cases())
    @settings(max_examples=1500, phases=[Phase.generate], database=None, derandomize=True, deadline=None)
    def look(case: RelationCase) -> None:
        left.difference_update({what for what in left if WANTED[what](case)})
        if not left:
            raise AllSeen

    with contextlib.suppress(AllSeen):
        look()
    assert left == set()


@given(st.data(), databases(), st.sampled_from(list(Neighbours)))
@settings(max_examples=60, derandomize=True, deadline=None)
def test_neighbours_differ_in_the_rows_of_one_unit(data: st.DataObject, first: Database, relation: Neighbours) -> None:
    before, after = data.draw(neighbours(first, relation))
    assert before == first
    changed = {
        unit
        for unit in {*before.units(), *after.units()}
        for t in before.tables
        if not t.public and of(before, t.name, unit) != of(after, t.name, unit)
    }
    assert before.rows["regions"] == after.rows["regions"]
    assert len(changed) <= (1 if relation is Neighbours.ADD_REMOVE else 2)  # another person may come for who left


def of(database: Database, table: str, unit: object) -> list[str]:
    """The rows of a unit in a table."""
    return sorted(repr(row) for u, row in database.owned(table) if u == unit)
