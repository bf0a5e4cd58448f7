"""Rows of several tables: what the second derivation accepts keeps the definition, and what loses it is refused."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from discreet.catalog.schema import Reached, TableSchema, Values
from discreet.catalog.types import Type
from discreet.errors import InternalError
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit
from discreet.privacy.unit import Relation as PopulationRelation
from discreet.verify.census import derive_reports
from discreet.verify.derive import PrivateRows, derive
from discreet.verify.owned import OwnedSelect, PublicTable, owned
from tests.plan.claims import check
from tests.plan.owned_texts import MUTANTS, ORDERS, TEXTS, ZONES
from tests.plan.owned_worlds import TABLES, Engine, World, breaches, random_world


def read(nested: str) -> OwnedSelect:
    query = sqlglot.parse_one(f"SELECT 1 FROM ({nested}) s", dialect="duckdb")
    return owned(query.args["from_"].this, TABLES)


@cache
def engines() -> tuple[Engine, Engine]:
    return Engine(1), Engine(4)


def is_sql(nested: str) -> bool:
    """Whether the database would run it: a text that it refuses is no danger."""
    try:
        engines()[0].by_unit(nested)
    except duckdb.Error:
        return False
    return True


def test_every_shape_is_accepted_and_keeps_the_definition() -> None:
    for nested in TEXTS.values():
        read(nested)
    rng = random.Random(20)
    assert breaches(TEXTS.values(), [random_world(rng), random_world(rng, 8)], engines(), rng) == {}


@pytest.mark.slow
def test_every_shape_keeps_the_definition_on_many_worlds() -> None:
    rng = random.Random(21)
    worlds = [random_world(rng, rng.randrange(2, 12)) for _ in range(100)]
    assert breaches(TEXTS.values(), worlds, engines(), rng) == {}


@pytest.mark.parametrize(
    ("name", "old", "new"), [pytest.param(n, o, w, id=f"{n}: {what}") for n, what, o, w in MUTANTS]
)
def test_no_changed_relation_is_accepted(name: str, old: str, new: str) -> None:
    sound = TEXTS[name]
    read(sound)
    assert old in sound
    changed = sound.replace(old, new)
    assert is_sql(changed)
    with pytest.raises(InternalError):
        read(changed)


BREACHES = [
    ("base", "another column"),
    ("base", "the unit or another"),
    ("base", "a count of everybody"),
    ("reached", "any key"),
    ("reached", "another column of the owner"),
    ("inner", "units not held equal"),
    ("inner", "anything else as well"),
    ("left", "units not held equal"),
    ("anti", "units not held equal"),
    ("grouped", "not by the unit"),
    ("distinct", "one row of each"),
    ("numbered", "over everybody"),
    ("ranked", "everybody's count"),
    ("framed", "over everybody"),
    ("a value of the unit's rows", "units not held equal"),
    ("a value of the unit's rows", "of everybody"),
    ("a public value", "of people's rows"),
    ("a value by what is around", "strangers among the rows"),
    ("rows that are there as often", "numbered over everybody"),
]


def test_the_definition_finds_relations_that_are_not_owned() -> None:
    changed = {TEXTS[n].replace(old, new) for n, what, old, new in MUTANTS if (n, what) in BREACHES}
    rng = random.Random(22)
    assert len(changed) == len(BREACHES)
    assert breaches(changed, [random_world(rng, 8) for _ in range(5)], engines()[:1], rng).keys() == changed


CHANGED = (
    exp.Column, exp.And, exp.EQ, exp.Join, exp.Group, exp.Order, exp.Coalesce, exp.Select, exp.Window, exp.Table,
    exp.Case, exp.Sum, exp.Avg, exp.Where, exp.Subquery,
)  # fmt: skip
JOINS = [("", ""), ("LEFT", ""), ("RIGHT", ""), ("FULL", ""), ("", "SEMI"), ("", "ANTI")]


def changed_at_random(tree: exp.Expr, rng: random.Random) -> None:
    """One change of a kind that could matter, somewhere."""
    node = rng.choice(list(tree.find_all(*CHANGED)))
    match node:
        case exp.Column() if rng.random() < 0.3:
            node.set("table", exp.to_identifier(rng.choice("lrto")))
        case exp.Column():
            node.replace(rng.choice(list(tree.find_all(exp.Column))).copy())
        case exp.And():
            kept = rng.choice([node.this, node.expression, exp.Or(this=node.this, expression=node.expression)])
            node.replace(kept.copy())
        case exp.EQ():
            other = rng.choice([exp.LTE, exp.NEQ, exp.NullSafeEQ])
            node.replace(other(this=node.this.copy(), expression=node.expression.copy()))
        case exp.Join():
            side, kind = rng.choice(JOINS)
            node.set("side", side or None)
            node.set("kind", kind or None)
        case exp.Group() | exp.Order() | exp.Coalesce() | exp.Select():
            listed = list(node.expressions)
            rng.shuffle(listed)
            node.set("expressions", listed[: rng.randrange(max(len(listed) - 1, 1), len(listed) + 1)])
            if type(node) is exp.Select and rng.random() < 0.3:
                node.set("distinct", None if node.args.get("distinct") else exp.Distinct())
        case exp.Window():
            part = rng.choice(["partition_by", "order"])
            node.set(part, None)
        case exp.Table():
            node.set("this", exp.to_identifier(rng.choice(list(TABLES)), quoted=True))
        case exp.Case():
            node.replace(node.args["ifs"][0].args["true"].copy())
        case exp.Sum() | exp.Avg() if type(node.this) is exp.Order:
            node.set("this", node.this.this.copy())
        case exp.Where():
            node.pop()
        case exp.Subquery():
            node.set("this", rng.choice(list(tree.find_all(exp.Select))).copy())
        case _:
            pass


def accepted_changes(count: int, rng: random.Random, worlds: Sequence[World]) -> tuple[set[str], int]:
    """Random changes of the texts that are still accepted and run on these worlds, and how many were not accepted."""
    accepted, refused = set(), 0
    for _ in range(count):
        tree = sqlglot.parse_one(rng.choice(list(TEXTS.values())), dialect="duckdb")
        for _ in range(rng.randrange(1, 4)):
            changed_at_random(tree, rng)
        text = tree.sql(dialect="duckdb")
        try:
            read(text)
        except InternalError:
            refused += 1
            continue
        accepted.add(text)
    accepted -= set(TEXTS.values())
    for world in worlds:
        engines()[0].fill(world)
        accepted = {text for text in accepted if is_sql(text)}
    engines()[0].fill({name: [] for name in TABLES})
    return accepted, refused


def test_random_changes_that_are_accepted_keep_the_definition() -> None:
    rng = random.Random(23)
    worlds = [random_world(rng, 8)]
    accepted, refused = accepted_changes(150, rng, worlds)
    assert len(accepted) > 10
    assert refused > 50
    assert breaches(accepted, worlds, engines()[1:], rng) == {}


@pytest.mark.slow
def test_many_random_changes_that_are_accepted_keep_the_definition() -> None:
    rng = random.Random(24)
    worlds = [random_world(rng, n) for n in (4, 8, 12)]
    accepted, refused = accepted_changes(20_000, rng, worlds)
    assert len(accepted) > 500
    assert refused > 10_000
    assert breaches(accepted, worlds, engines(), rng) == {}


MANY = """
INSERT INTO orders
SELECT who, i % 5, i % 3, ([0.1, 0.2, 1e16, -1e16, '-0.0', 0.0, 0.7 / (i % 7 + 1)]::DOUBLE[])[i % 7 + 1]
FROM range(3000) x(i), range(1, $people + 1) y(who)
WHERE who = 1 OR i % 2 = 0 ORDER BY hash(i, who, $seed)
"""
ORDERLY = (
    "framed",
    "a value of the unit's rows",
    "rows that are there as often",
    "grouped",
    "grouped reals",
    "distinct reals",
    "numbered",
    "first value",
    "ranked",
)


@pytest.mark.parametrize("name", ORDERLY)
def test_many_rows_in_any_order_and_on_any_number_of_threads_give_the_same(name: str) -> None:
    """Last bits and the order of ties: whatever else is there, wherever a row lies."""
    seen = []
    for seed, threads, people in ((1, 1, 1), (2, 4, 1), (3, 4, 60), (4, 1, 9)):
        engine = Engine(threads)
        engine.connection.execute(MANY, {"people": people, "seed": seed})
        seen.append(engine.by_unit(TEXTS[name])[1])
    assert all(rows == seen[0] for rows in seen)


OUTER = """WITH "unit rows" AS (
  SELECT s."u" AS u,
    CASE WHEN s."{0}" IS NOT NULL
      THEN CAST(least(greatest(length(TRY_CAST(s."{0}" AS VARCHAR)), 0), 9) AS INTEGER) END AS v0
  FROM ({1}) s WHERE s."u" IS NOT NULL
),
"unit groups" AS (
  SELECT u, count(*) AS n, sum(v0) AS s_v0 FROM "unit rows" GROUP BY u
),
"""
SUMS = """"unit bounded" AS (
  SELECT least(n, 3) AS m0, CAST(least(greatest(coalesce(s_v0, 0), 0), 27) AS BIGINT) AS m1 FROM "unit groups"
)
SELECT CAST(coalesce(sum(m0), 0) AS VARCHAR) AS m0, CAST(coalesce(sum(m1), 0) AS VARCHAR) AS m1 FROM "unit bounded\""""
REPORT = """"unit totals" AS (SELECT u, count(*) AS groups, max(n) AS most FROM "unit groups" GROUP BY u),
"unit places" AS (SELECT CASE WHEN groups > 1 THEN 1 ELSE 0 END + CASE WHEN most > 3 THEN 2 ELSE 0 END AS p0
  FROM "unit totals")
SELECT CAST(count(*) FILTER (WHERE p0 = 1) AS VARCHAR) AS m0,
  CAST(count(*) FILTER (WHERE p0 = 3) AS VARCHAR) AS m1 FROM "unit places\""""
SEVERAL = PrivateRows(None, frozenset(), "u", TABLES)


@pytest.mark.parametrize("name", list(TEXTS))
def test_a_question_over_accepted_rows_has_the_reach_that_its_stages_give(name: str) -> None:
    outer = OUTER.format(next(iter(read(TEXTS[name]).columns)), TEXTS[name])
    found = derive(outer + SUMS, SEVERAL)
    assert (found.groups, found.spans, found.keys, found.listed) == (None, ((0, 3), (0, 27)), 0, 1)
    assert derive_reports(outer + REPORT, SEVERAL) == (2,)


WHOLE = OUTER.format("c11", ORDERS) + SUMS
SINGLE = (OUTER.format("day", "") + SUMS).replace("() s", 'main."orders" s').replace('s."u"', 's."pid"')
OUTER_MUTANTS = [
    ("another unit", 's."u" AS u', 's."c11" AS u'),
    ("rows of nobody kept", ' WHERE s."u" IS NOT NULL', ""),
    ("a column that is not there", 's."c11"', 's."pid"'),
    ("the rows twice", ") s WHERE", ") s JOIN main.orders z ON TRUE WHERE"),
    ("beside another query", ") s WHERE", f") s, ({ORDERS}) z WHERE"),
    ("a query in the filter", ") s WHERE", ") s WHERE s.c11 IN (SELECT age FROM main.people) AND"),
    ("another alias", ") s WHERE", ") z WHERE"),
    ("columns renamed", ") s WHERE", ") s(c11, c10, u, c12) WHERE"),
    ("public rows", ORDERS, ZONES.replace('t."size" AS c53', 't."size" AS u')),
    ("rows of a private table without its unit", ORDERS, ORDERS.replace('t."pid" AS u, ', "")),
    ("rows nested in a later stage", 'FROM "unit rows"', 'FROM (SELECT * FROM "unit rows")'),
    ("a stage inside", ORDERS, f'{ORDERS}, "unit groups" z'),
    ("a cast inside that can fail", 't."total" AS c12', 'CAST(t."total" AS BIGINT) AS c12'),
]


@pytest.mark.parametrize(("old", "new"), [pytest.param(o, w, id=what) for what, o, w in OUTER_MUTANTS])
def test_no_changed_question_over_several_tables_is_accepted(old: str, new: str) -> None:
    derive(WHOLE, SEVERAL)
    assert old in WHOLE
    with pytest.raises(InternalError):
        derive(WHOLE.replace(old, new), SEVERAL)


def test_rows_are_nested_only_where_several_tables_are_asked() -> None:
    columns = frozenset(TABLES["orders"].columns)
    derive(SINGLE, PrivateRows("orders", columns, "pid"))
    for text, source in (
        (WHOLE, PrivateRows("orders", columns, "pid")),
        (SINGLE, SEVERAL),
        (SINGLE, PrivateRows("items", columns, "pid", TABLES)),
        (SINGLE.replace('"orders"', '"rows of several tables"'), SEVERAL),
    ):
        with pytest.raises(InternalError):
            derive(text, source)


def test_a_table_is_somebodys_in_one_way() -> None:
    for facts in ({"unit": "a", "public": True}, {"unit": "a", "key": ("a", "b", "c")}):
        with pytest.raises(InternalError, match="whose a table is"):
            PublicTable({"a": "BIGINT"}, **facts)


def test_rows_that_are_units_are_nobodys_beside_a_unit() -> None:
    misled = dict(TABLES) | {"orders": replace(TABLES["orders"], unit=None)}
    with pytest.raises(InternalError, match="whose the rows are"):
        owned(sqlglot.parse_one(f"SELECT 1 FROM ({ORDERS}) s", dialect="duckdb").args["from_"].this, misled)


def test_a_foreign_key_into_a_public_table_leads_to_nobody() -> None:
    """Public rows that a person is joined with hold keys that are not the person's own."""
    misled = dict(TABLES) | {"items": PublicTable({"oid": "BIGINT", "sku": "VARCHAR"}, key=("oid", "zones", "size"))}
    keys = f"SELECT l.u AS u, r.c53 AS c60 FROM ({ORDERS}) l JOIN ({ZONES}) r ON TRUE"
    owner = f"(SELECT DISTINCT u, c60 FROM ({keys}) k) o"
    text = f'SELECT o.u AS u, t."sku" AS c61 FROM main."items" t JOIN {owner} ON t."oid" = o.c60'
    query = sqlglot.parse_one(f"SELECT 1 FROM ({text}) s", dialect="duckdb")
    with pytest.raises(InternalError):
        owned(query.args["from_"].this, misled)


def several() -> Query:
    """A question of the real writer over tables of each of the three ways to be somebody's."""
    unit, relation = PrivacyUnit("pid", max_groups=2, max_rows=3), PopulationRelation.ADD_REMOVE
    types = {n: {c: None if k is None else Type(k) for c, k in t.columns.items()} for n, t in TABLES.items()}
    schemas = [
        TableSchema("people", types["people"], {"city": Values("a", "b")}, unit, relation),
        TableSchema("orders", types["orders"], {}, unit, relation),
        TableSchema("items", types["items"], {}, unit, relation, Reached("oid", "orders", "oid")),
        TableSchema("zones", types["zones"], {}, unit, relation, public=True),
    ]
    text = (
        "SELECT p.city, COUNT(*) FROM people p JOIN orders o ON p.pid = o.pid JOIN items i ON i.oid = o.oid "
        "JOIN zones z ON z.city = p.city GROUP BY p.city"
    )
    return make_query(text, schemas, population="p", version=None, epsilon=1, delta=0)


def test_the_check_takes_the_tables_from_the_question() -> None:
    plan = several()
    check(plan.sql, plan)
    for old, new in (
        ("l.u = r.u AND", ""),
        ("ON l.u = r.u ", "ON TRUE "),
        ('t."oid" = o.', 't."iid" = o.'),
        ('main."zones"', 'main."people"'),
        ('main."items"', 'main."orders"'),
        ('t."pid" AS u', 't."age" AS u'),
    ):
        if old in plan.sql:
            with pytest.raises(InternalError):
                check(plan.sql.replace(old, new), plan)
    assert 't."oid" = o.' in plan.sql
    assert "l.u = r.u" in plan.sql


def test_the_check_refuses_several_tables_as_one_and_the_wrong_relation() -> None:
    plan = several()
    question = plan.question
    single = replace(question, relation=None)
    other = replace(question, table=replace(question.table, relation=PopulationRelation.REPLACE))
    public = replace(single, table=replace(question.table, public=True))
    for broken in (single, other, public):
        with pytest.raises(InternalError):
            check(plan.sql, replace(plan, question=broken))
