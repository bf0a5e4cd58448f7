"""The engine's exact integers over several tables, cell by cell, against the referee's."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from discreet.privacy.unit import Relation
from tests.plan.distinct_cases import orders
from tests.plan.relation_cases import RelationEngine, both, relation_plan
from tests.reference.distinct import distinct_cells
from tests.reference.expression import And, Call, Column, Compare, Literal
from tests.reference.measures import Count, CountOf, Sum
from tests.reference.question import Question
from tests.reference.relation import UNIT, Base, Database, Join, JoinKind, Project, Windowed, columns, unit_rows
from tests.reference.relation import Relation as Rows
from tests.reference.relation_nested import Beside, Matched, Nested
from tests.reference.relation_parts import Aggregate, Window
from tests.reference.relation_sql import relation_question_sql
from tests.reference.values import Kind
from tests.strategies.database import CUSTOMERS, ITEMS, ORDERS, REGIONS
from tests.strategies.questions import Declared
from tests.strategies.relation import RelationCase, relation_cases

ENGINE = RelationEngine.open()


def assert_same(case: RelationCase, relation: Relation) -> None:
    found, expected = both(ENGINE, case, relation)
    assert found == expected


@given(relation_cases(), st.sampled_from(list(Relation)))
@settings(max_examples=50, derandomize=True, deadline=None)
def test_every_cell_is_the_referees(case: RelationCase, relation: Relation) -> None:
    assert_same(case, relation)


@pytest.mark.slow
@given(relation_cases(max_size=6, depth=3), st.sampled_from(list(Relation)))
@settings(max_examples=400, deadline=None)
def test_every_cell_is_the_referees_at_length(case: RelationCase, relation: Relation) -> None:
    assert_same(case, relation)


@given(relation_cases(), st.data(), st.sampled_from(list(Relation)))
@settings(max_examples=30, derandomize=True, deadline=None)
def test_every_count_of_different_values_is_the_referees(
    case: RelationCase, data: st.DataObject, relation: Relation
) -> None:
    column = data.draw(st.sampled_from(columns(case.relation)))
    text = relation_question_sql(replace(case.question, measures=(Count(),)), case.relation)
    assert text.count("COUNT(*) AS a0") == 1
    case = replace(case, sql=text.replace("COUNT(*) AS a0", f"COUNT(DISTINCT {column.name}) AS a0"))
    plan = relation_plan(case, relation)
    assume(plan.distinct)  # the unit itself is counted as people are
    ((place, _),) = plan.distinct
    found = {key: cell[place] for key, cell in ENGINE.cells(plan, case.database).items()}
    rows = unit_rows(case.relation, case.database)
    assert found == distinct_cells(rows, case.question, column, *orders(plan, ENGINE.engine))


# An order of two people, one of nobody, and items of each; the key 1 is 7's and 8's.
DIRTY = Database(
    (CUSTOMERS, ORDERS, ITEMS, REGIONS),
    {
        "customers": (
            {"id": 1, "person": 7, "region": "a", "age": 1},
            {"id": 1, "person": 8, "region": "b", "age": 2},
            {"id": None, "person": 9, "region": "a", "age": 3},
            {"id": 2, "person": None, "region": "a", "age": 3},
        ),
        "orders": tuple(
            {"id": i, "customer_id": c, "person": None, "amount": a, "day": 1}
            for i, c, a in [(10, 1, 5), (10, 1, 4), (11, 2, 5), (12, None, 5), (13, 77, 5)]
        ),
        "items": tuple(
            {"order_id": o, "product": "p", "price": 0.5, "qty": q}
            for o, q in [(10, 1), (10, 2), (11, 3), (12, 4), (13, 4), (None, 4)]
        ),
        "regions": ({"name": "a", "country": "x", "factor": 1}, {"name": "a", "country": "x", "factor": 2}),
    },
)


def asked(how: JoinKind) -> RelationCase:
    """Items beside their orders, and beside other rows of nobody's."""
    on = Compare("=", Column("i.order_id", Kind.INT), Column("o.id", Kind.INT))
    relation = Join(Base(ITEMS, "i"), Base(ORDERS, "o"), how, on)
    measures = (Count(), Sum(Column("i.qty", Kind.INT), Fraction(0), Fraction(4)))
    question = Question(measures, unit=Column(UNIT, Kind.INT), max_groups=1, max_rows=9)
    facts = {t.name: {"qty": ("range", 0, 4)} if t is ITEMS else {} for t in DIRTY.tables}
    return RelationCase(DIRTY, relation, question, relation_question_sql(question, relation), facts)


@pytest.mark.parametrize(
    ("how", "cell"),
    [
        (JoinKind.INNER, (8, 12)),  # each of two people: two items beside two orders
        (JoinKind.LEFT, (8, 12)),
        (JoinKind.RIGHT, (8, 12)),
        (JoinKind.FULL, (8, 12)),
        (JoinKind.SEMI, (4, 6)),
        (JoinKind.ANTI, (0, 0)),
    ],
)
def test_rows_of_two_people_count_for_both_and_rows_of_nobody_for_nobody(how: JoinKind, cell: tuple[int, int]) -> None:
    found, expected = both(ENGINE, asked(how), Relation.ADD_REMOVE)
    assert found == expected == {(): cell}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("l.u = r.u AND ", ""),
        ("SELECT DISTINCT u, ", "SELECT u, "),
        ('"order_id" = o.', '"order_id" <> o.'),
        ("least(n, 9)", "least(n, 3)"),
    ],
)
def test_the_referee_would_notice_another_text(old: str, new: str) -> None:
    case = asked(JoinKind.INNER)
    plan = relation_plan(case)
    assert old in plan.sql
    found, expected = both(ENGINE, case, Relation.ADD_REMOVE, replace(plan, sql=plan.sql.replace(old, new)))
    assert found != expected


ORDER = Base(ORDERS, "o")
ORDER_ID, AMOUNT = Column("o.id", Kind.INT), Column("o.amount", Kind.INT)
IN_ORDER = Compare("=", ORDER_ID, Column("i.order_id", Kind.INT))
QTY = Column("i.qty", Kind.INT)
OF_ORDERS = (("key", ORDER_ID), ("who", Column("o.customer_id", Kind.INT)), ("x", AMOUNT))
BY = tuple((Column(n, k), False) for n, k in ORDER.columns.items())


def beside(nested: Nested) -> Rows:
    """Orders with a subquery beside them, which is what is added up."""
    return Beside(ORDER, "s", OF_ORDERS[:2], (("x", nested),))


NEW: dict[str, tuple[Rows, list[tuple[str, str]]]] = {
    "a value": (
        beside(Nested(Base(ITEMS, "i"), IN_ORDER, Aggregate("SUM", QTY))),
        [(" LEFT JOIN ", " JOIN "), ("sum(", "min("), ("l.u = r.u AND ", "")],
    ),
    "a value by what is around": (
        beside(
            Nested(
                Base(ITEMS, "i"), And(IN_ORDER, Compare("<", QTY, AMOUNT)), Aggregate("COUNT")
            )
        ),
        [("SELECT DISTINCT r.u AS u, ", "SELECT r.u AS u, "), ("count(*)", "2 * count(*)"), ("coalesce(", "nullif(")],
    ),
    "IN": (
        beside(Nested(Base(ITEMS, "i"), IN_ORDER, value=AMOUNT, member=QTY)),
        [(" LEFT JOIN ", " JOIN "), ("count(*)", "0 * count(*)")],
    ),
    "EXCEPT ALL": (
        Matched(
            Project(ORDER, "p", (*OF_ORDERS[:2], ("x", Literal(5)))), Project(ORDER, "q", OF_ORDERS),
            "s", keeps=False, every=True,
        ),
        [(" ANTI JOIN ", " SEMI JOIN "), ("row_number() OVER", "1 + 0 * row_number() OVER")],
    ),
    "a frame": (
        Windowed(
            ORDER, "s", OF_ORDERS[:2],
            (("x", Window("SUM", AMOUNT, (Column("o.customer_id", Kind.INT),), BY, (-1, 0))),),
        ),
        [("1 PRECEDING", "2 PRECEDING"), ("PARTITION BY r.u, ", "PARTITION BY ")],
    ),
}  # fmt: skip
"""Relations, and changes of their text that make other rows of them."""


def of_new(name: str) -> RelationCase:
    relation, _ = NEW[name]
    column = Column("s.x", Kind.INT)
    clamped = Call("GREATEST", (Call("LEAST", (column, Literal(9))), Literal(0)))
    measures = (Count(), CountOf(column), Sum(clamped, Fraction(0), Fraction(9)))
    question = Question(measures, unit=Column(UNIT, Kind.INT), max_groups=1, max_rows=9)
    facts: dict[str, dict[str, Declared]] = {table: {} for table in DIRTY.rows}
    return RelationCase(WORLD, relation, question, relation_question_sql(question, relation), facts)


WORLD = DIRTY.plus(
    {
        "customers": [{"id": 3, "person": 5, "region": "a", "age": 1}],
        "orders": [
            {"id": i, "customer_id": 3, "person": None, "amount": a, "day": 1}
            for i, a in [(20, 1), (20, 1), (21, 2), (22, 2), (23, None)]
        ],
        "items": [
            {"order_id": o, "product": "p", "price": 0.5, "qty": q}
            for o, q in [(20, 0), (20, 3), (20, 1), (21, 1), (21, None), (10, 4)]
        ],
    }
)


@pytest.mark.parametrize(("name", "old", "new"), [(n, o, w) for n, (_, those) in NEW.items() for o, w in those])
def test_the_referee_would_notice_another_text_of_a_subquery_a_set_or_a_frame(name: str, old: str, new: str) -> None:
    case = of_new(name)
    plan = relation_plan(case)
    assert old in plan.sql
    found, expected = both(ENGINE, case, Relation.ADD_REMOVE, plan)
    assert found == expected
    found, expected = both(ENGINE, case, Relation.ADD_REMOVE, replace(plan, sql=plan.sql.replace(old, new)))
    assert found != expected
