"""The referee of several tables: against cases computed by hand, and against plain DuckDB where no key is dirty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.backends.connection import open_database
from discreet.errors import InvalidParameter
from discreet.privacy.unit import Relation as Neighbours
from tests.reference.expression import And, Column, Compare, Expression, IsNull, Literal, Row
from tests.reference.measures import Count
from tests.reference.question import Question, bounded_cells
from tests.reference.relation import (
    UNIT,
    Base,
    Database,
    Filter,
    Group,
    Join,
    JoinKind,
    Link,
    Project,
    Relation,
    Table,
    Union,
    Windowed,
    unit_rows,
)
from tests.reference.relation_parts import Aggregate, Window
from tests.reference.relation_sql import Spelling, database_sql, relation_question_sql, relation_sql
from tests.reference.values import Kind, Value
from tests.strategies.database import databases, neighbours
from tests.strategies.relation import RelationCase, relation_cases, sources

INT, TEXT, REAL = Kind.INT, Kind.TEXT, Kind.REAL
PEOPLE = Table("people", {"id": INT, "person": INT, "town": TEXT}, unit="person")
VISITS = Table("visits", {"id": INT, "who": INT, "day": INT}, link=Link("who", "people", "id"))
NOTES = Table("notes", {"visit": INT, "x": INT}, link=Link("visit", "visits", "id"))
TOWNS = Table("towns", {"name": TEXT, "size": INT})


def database(
    people: Sequence[tuple[Value, Value, Value]] = (),
    visits: Sequence[tuple[Value, Value, Value]] = (),
    notes: Sequence[tuple[Value, Value]] = (),
    towns: Sequence[tuple[Value, Value]] = (),
) -> Database:
    tables = PEOPLE, VISITS, NOTES, TOWNS
    rows = people, visits, notes, towns
    return Database(
        tables,
        {t.name: tuple(dict(zip(t.columns, r, strict=True)) for r in of) for t, of in zip(tables, rows, strict=True)},
    )


def col(name: str, kind: Kind = INT) -> Column:
    return Column(name, kind)


def same(a: str, b: str, kind: Kind = INT) -> Expression:
    return Compare("=", col(a, kind), col(b, kind))


def found(relation: Relation, of: Database) -> list[tuple[Value, ...]]:
    """Unit and cells of each row, sorted as text."""
    return sorted(((u, *row.values()) for u, row in relation.rows(of)), key=repr)


# Person 7 has two ids, id 2 belongs to both persons, one row is nobody's.
SHARED = database(
    people=[(1, 7, "a"), (2, 7, "a"), (2, 8, "b"), (3, None, "c"), (None, 9, "b")],
    visits=[(10, 1, 1), (11, 2, 2), (11, 2, 2), (12, 3, 3), (13, None, 4), (14, 99, 5), (10, 2, 6)],
    notes=[(10, 5), (12, 5), (None, 5), (11, 6)],
    towns=[("a", 1), ("b", 2), ("b", 3), (None, 4)],
)
P, V, N, T = Base(PEOPLE, "p"), Base(VISITS, "v"), Base(NOTES, "n"), Base(TOWNS, "t")


def test_a_row_belongs_to_everybody_who_owns_its_key_and_once_to_each() -> None:
    assert found(V, SHARED) == sorted(
        [(7, 10, 1, 1), (7, 11, 2, 2), (7, 11, 2, 2), (8, 11, 2, 2), (8, 11, 2, 2), (7, 10, 2, 6), (8, 10, 2, 6)],
        key=repr,
    )


def test_two_steps_away_a_key_is_shared_by_all_who_own_it() -> None:
    assert found(N, SHARED) == [(7, 10, 5), (7, 11, 6), (8, 10, 5), (8, 11, 6)]


def test_null_keys_lead_nowhere_even_where_the_other_key_is_null() -> None:
    of = database(people=[(None, 7, "a")], visits=[(1, None, 1)])
    assert found(V, of) == []
    assert of.units() == [7]


def test_a_unit_leaves_with_its_rows_and_shared_ones_leave_with_the_last() -> None:
    without_7 = SHARED.without(7)
    assert found(V, without_7) == [(8, 10, 2, 6), (8, 11, 2, 2), (8, 11, 2, 2)]
    assert found(N, without_7) == [(8, 10, 5), (8, 11, 6)]
    nobody = without_7.without(8).without(9)
    assert nobody.units() == []
    assert [len(nobody.rows[t]) for t in ("people", "visits", "notes", "towns")] == [1, 3, 2, 4]


def test_private_rows_meet_within_a_unit_only() -> None:
    joined = Join(P, V, JoinKind.INNER, same("p.id", "v.who"))
    assert found(joined, SHARED) == sorted(
        [
            (7, 1, 7, "a", 10, 1, 1),
            *[(7, 2, 7, "a", 11, 2, 2)] * 2,
            *[(8, 2, 8, "b", 11, 2, 2)] * 2,
            (7, 2, 7, "a", 10, 2, 6),
            (8, 2, 8, "b", 10, 2, 6),
        ],
        key=repr,
    )
    anybody = Join(P, Base(PEOPLE, "q"), JoinKind.INNER, Literal(True))
    assert len(anybody.rows(SHARED)) == 2 * 2 + 1 + 1


@pytest.mark.parametrize(
    ("how", "rows"),
    [
        (JoinKind.INNER, [(7, 1, 7, "a", 10, 1, 1)]),
        (JoinKind.LEFT, [(7, 1, 7, "a", 10, 1, 1), (7, 2, 7, "a", None, None, None), (8, 3, 8, "b", None, None, None)]),
        (JoinKind.RIGHT, [(7, 1, 7, "a", 10, 1, 1), (8, None, None, None, 11, 3, 9)]),
        (
            JoinKind.FULL,
            [
                (7, 1, 7, "a", 10, 1, 1),
                (7, 2, 7, "a", None, None, None),
                (8, 3, 8, "b", None, None, None),
                (8, None, None, None, 11, 3, 9),
            ],
        ),
        (JoinKind.SEMI, [(7, 1, 7, "a")]),
        (JoinKind.ANTI, [(7, 2, 7, "a"), (8, 3, 8, "b")]),
    ],
)
def test_every_kind_of_join_keeps_the_rows_that_it_is_named_for(how: JoinKind, rows: list[tuple[Value, ...]]) -> None:
    of = database(people=[(1, 7, "a"), (2, 7, "a"), (3, 8, "b")], visits=[(10, 1, 1), (11, 3, 9)])
    on = And(same("p.id", "v.who"), Compare("<", col("v.day"), Literal(5)))
    assert found(Join(P, V, how, on), of) == sorted(rows, key=repr)


def test_a_public_table_multiplies_and_drops_rows_of_people_and_never_adds_nobodys() -> None:
    on = same("p.town", "t.name", TEXT)
    assert found(Join(P, T, JoinKind.INNER, on), SHARED) == sorted(
        [(7, 1, 7, "a", "a", 1), (7, 2, 7, "a", "a", 1)]
        + [(u, i, u, "b", "b", n) for u, i in ((8, 2), (9, None)) for n in (2, 3)],
        key=repr,
    )
    mirrored = found(Join(T, P, JoinKind.RIGHT, on), SHARED)
    assert len(mirrored) == len(found(Join(P, T, JoinKind.LEFT, on), SHARED)) == 6
    assert found(Join(P, T, JoinKind.ANTI, on), SHARED) == []
    for left, right, how in [
        (P, T, JoinKind.FULL), (P, T, JoinKind.RIGHT), (T, P, JoinKind.LEFT), (T, P, JoinKind.FULL),
        (T, P, JoinKind.SEMI), (T, P, JoinKind.ANTI),
    ]:  # fmt: skip
        with pytest.raises(InvalidParameter, match="which are nobody's"):
            Join(left, right, how, on)


def test_public_rows_are_not_peoples_rows() -> None:
    with pytest.raises(InvalidParameter, match="nobody's"):
        Union(Project(P, "a", (("c", col("p.id")),)), Project(T, "b", (("c", col("t.size")),)), "u")
    with pytest.raises(InvalidParameter, match="relation must hold a private table"):
        unit_rows(T, SHARED)


def test_groups_distinct_rows_and_windows_are_each_units_own() -> None:
    of = database(people=[(1, 7, "a"), (1, 8, "b")], visits=[(10, 1, 3), (10, 1, 3), (10, 1, None), (11, 1, 1)])
    sums = (
        ("n", Aggregate("COUNT")),
        ("k", Aggregate("COUNT", col("v.day"))),
        ("d", Aggregate("COUNT DISTINCT", col("v.day"))),
        ("s", Aggregate("SUM", col("v.day"))),
        ("a", Aggregate("AVG", col("v.day"))),
        ("l", Aggregate("MIN", col("v.day"))),
        ("m", Aggregate("MAX", col("v.day"))),
    )
    by_id = Group(V, "g", (("id", col("v.id")),), sums)
    assert found(by_id, of) == [
        (u, *rest) for u in (7, 8) for rest in ((10, 3, 2, 1, 6, 3.0, 3, 3), (11, 1, 1, 1, 1, 1.0, 1, 1))
    ]
    several = replace(by_id, having=Compare(">", col("g.n"), Literal(1)))
    assert [u for u, _ in several.rows(of)] == [7, 8]
    distinct = Project(V, "x", (("id", col("v.id")), ("day", col("v.day"))), distinct=True)
    assert found(distinct, of) == [(u, *r) for u in (7, 8) for r in ((10, 3), (10, None), (11, 1))]
    order = ((col("v.day"), False),)
    windows = (
        ("i", Window("ROW_NUMBER", None, (), order)),
        ("r", Window("RANK", None, (), order)),
        ("l", Window("LAG", col("v.id"), (), order)),
        ("c", Window("COUNT", col("v.day"), (), order)),
        ("s", Window("SUM", col("v.day"), (), ((col("v.day"), True),))),
    )
    numbered = Windowed(V, "w", (("day", col("v.day")),), windows)
    assert found(numbered, of) == [
        (u, *rest)
        for u in (7, 8)
        for rest in ((1, 1, 1, None, 1, 7), (3, 2, 2, 11, 3, 6), (3, 3, 2, 10, 3, 6), (None, 4, 4, 10, 3, 7))
    ]


def test_a_sum_of_reals_follows_from_the_values_and_not_from_their_order() -> None:
    rows: list[Row] = [{"x": 0.3}, {"x": 0.1}, {"x": 0.2}]
    sums = {Aggregate("SUM", col("x", REAL)).over([rows[i] for i in p]) for p in ((0, 1, 2), (2, 0, 1), (1, 0, 2))}
    assert sums == {0.1 + 0.2 + 0.3}
    assert Aggregate("SUM", col("x")).over([{"x": 1 << 62}] * 2) is None
    assert Aggregate("MAX", col("x", REAL)).over([{"x": float("nan")}]) is None


def test_a_relations_rows_are_bounded_like_a_tables() -> None:
    question = Question((Count(),), (col("v.day"),), ((2,), (6,)), unit=col(UNIT), max_groups=1, max_rows=1)
    cells = bounded_cells(unit_rows(V, SHARED), question, lambda unit, key: 0)
    assert cells == {(2,): (2,), (6,): (0,)}  # both own two visits on day 2, and enter that day's group alone


def test_the_text_says_the_tree() -> None:
    inner = Group(Filter(V, IsNull(col("v.day"))), "g", (("who", col("v.who")),), (("n", Aggregate("COUNT")),))
    tree = Join(Join(P, inner, JoinKind.LEFT, same("p.id", "g.who")), T, JoinKind.SEMI, same("p.town", "t.name", TEXT))
    question = Question((Count(),), (col("g.n"),), unit=col(UNIT))
    assert relation_question_sql(question, tree) == (
        "SELECT g.n AS k0, COUNT(*) AS a0 FROM people AS p LEFT JOIN "
        "(SELECT v.who AS who, COUNT(*) AS n FROM visits AS v WHERE (v.day IS NULL) GROUP BY v.who) AS g "
        "ON (p.id = g.who) SEMI JOIN towns AS t ON (p.town = t.name) GROUP BY g.n"
    )
    assert relation_question_sql(question, tree, spelling=Spelling.NAMED) == (
        "WITH g AS (SELECT v.who AS who, COUNT(*) AS n FROM visits AS v WHERE (v.day IS NULL) GROUP BY v.who) "
        "SELECT g.n AS k0, COUNT(*) AS a0 FROM people AS p LEFT JOIN g ON (p.id = g.who) "
        "WHERE EXISTS (SELECT 1 FROM towns AS t WHERE (p.town = t.name)) GROUP BY g.n"
    )


def plain(case: RelationCase, spelling: Spelling) -> Counter[tuple[Value, ...]]:
    """The relation's rows as DuckDB has them, whosever they are."""
    with open_database() as connection:
        connection.execute("SET threads = 1")
        for statement in database_sql(case.database):
            connection.execute(statement)
        rows = connection.execute(relation_sql(case.relation, spelling)).fetchall()
    return Counter(tuple(map(_comparable, row)) for row in rows)


def _comparable(value: Value) -> Value:
    return round(value, 9) if isinstance(value, float) else value  # DuckDB adds reals in any order


def assert_plain(case: RelationCase, spelling: Spelling) -> None:
    ours = Counter(tuple(map(_comparable, row.values())) for _, row in case.relation.rows(case.database))
    assert ours == plain(case, spelling)


@pytest.mark.exhaustive
@given(relation_cases(clean=True), st.sampled_from(list(Spelling)))
@settings(max_examples=60, derandomize=True, deadline=None)
def test_where_keys_are_whole_and_unique_the_rows_are_plain_sqls(case: RelationCase, spelling: Spelling) -> None:
    assert_plain(case, spelling)


@pytest.mark.slow
@given(relation_cases(clean=True, max_size=6, depth=3), st.sampled_from(list(Spelling)))
@settings(max_examples=600, deadline=None)
def test_where_keys_are_whole_and_unique_the_rows_are_plain_sqls_at_length(
    case: RelationCase, spelling: Spelling
) -> None:
    assert_plain(case, spelling)


@pytest.mark.exhaustive
@given(st.data(), databases())
@settings(max_examples=60, derandomize=True, deadline=None)
def test_what_a_unit_has_does_not_depend_on_who_else_is_there(data: st.DataObject, of: Database) -> None:
    """The rule on which all bounds rest: the rows of a unit stay when somebody else leaves."""
    relation = data.draw(sources(of.tables)).relation
    before, after = data.draw(neighbours(of, Neighbours.ADD_REMOVE))
    left = [u for u in before.units() if u not in after.units()]

    def of_others(rows: list[tuple[Value, Row]]) -> Counter[str]:
        return Counter(repr(row) for row in rows if row[0] not in left)

    assert of_others(relation.rows(before)) == of_others(relation.rows(after))
