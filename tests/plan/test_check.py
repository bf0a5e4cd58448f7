"""The second derivation: it accepts what the writer writes, and no text or price that was tampered with."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.errors import InternalError
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.threshold import Threshold
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.privacy.event import Composed
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.verify.derive import PrivateRows, derive
from tests.plan.cases import SECRET, Engine
from tests.plan.claims import check

COLUMNS = {
    "uid": Type.INT,
    "other": Type.INT,
    "x": Type.INT,
    "v": Type.REAL,
    "region": Type.TEXT,
    "day": Type.INT,
    "shop": Type.INT,
    "word": Type.TEXT,
}
FACTS: dict[str, Fact] = {
    "x": Range(0, 10, integer=True),
    "v": Range("-1.5", "2.25"),
    "region": Values("a", "b", None),
    "day": Range(1, 4, integer=True),
    "shop": Range(-10, 289, integer=True),
    "word": Values(*(f"it's {i}" for i in range(20))),
}
SQL = {
    "unit": "SELECT region, day, COUNT(*), COUNT(DISTINCT uid), SUM(x), AVG(v) FROM t WHERE x <> 9 GROUP BY 1, 2",
    "whole": "SELECT COUNT(*), SUM(v) FROM t WHERE day = 2 OR x > 3",
    "private": "SELECT x + day, COUNT(x), SUM(v) FROM t GROUP BY 1",
    "many": "SELECT shop, COUNT(*), SUM(x) FROM t GROUP BY shop",
    "words": "SELECT word, COUNT(*), SUM(x) FROM t GROUP BY word",
    "row words": "SELECT shop, word, COUNT(*), SUM(x) FROM t GROUP BY shop, word",
    "row": "SELECT region, day, COUNT(*), COUNT(v), SUM(x), AVG(v) FROM t WHERE x <> 9 GROUP BY region, day",
    "row whole": "SELECT SUM(v), AVG(x) FROM t",
    "row private": "SELECT other, SUM(v) FROM t GROUP BY other",
}


def table(name: str, relation: Relation = Relation.ADD_REMOVE) -> TableSchema:
    unit = PrivacyUnit.row() if name.startswith("row") else PrivacyUnit("uid", max_groups=2, max_rows=3)
    facts = {n: f for n, f in FACTS.items() if name != "private" or n != "day"}
    return TableSchema("t", COLUMNS, facts, unit, relation)


@cache
def plan(name: str, relation: Relation = Relation.ADD_REMOVE, **asked: Any) -> Query:
    options = {"population": "p", "version": None, "epsilon": 1, "delta": "1e-6" if "private" in name else 0, **asked}
    return make_query(SQL[name], [table(name, relation)], **options)


RUN = Engine.open()
RUN.connection.execute(f"CREATE TABLE t ({', '.join(f'{n} {k.value}' for n, k in COLUMNS.items())})")
RUN.connection.execute("CREATE TABLE people AS SELECT * FROM t")


def is_sql(text: str) -> bool:
    """Whether the database would run it: a text that it refuses is no danger."""
    return RUN.connection.execute(text, {"secret": SECRET} if "$secret" in text else {}).fetchall() is not None


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", list(SQL))
def test_what_the_writer_writes_is_accepted(name: str, relation: Relation) -> None:
    assert is_sql(plan(name, relation).sql)
    check(plan(name, relation).sql, plan(name, relation))


def test_the_derived_reach_is_the_one_that_the_decision_gives() -> None:
    columns = frozenset(COLUMNS)
    found = derive(plan("unit").sql, PrivateRows("t", columns, "uid"))
    step = Fraction(1, 1 << 28)  # 2.25 is at most 2^30 of them
    centre = (Fraction("-1.5") / step + Fraction("2.25") / step) // 2
    top = int(3 * (Fraction("2.25") / step - centre))
    spans = {"rows": (0, 3), "units": (1, 1), "total": (0, 30), "centred": (-top, top), "known": (0, 3)}
    names = [m.identity[0] for m in plan("unit").question.measures]
    assert (found.groups, found.keys, found.listed) == (2, 2, 12)
    assert found.spans == tuple(spans[n] for n in names)
    assert derive(plan("row private").sql, PrivateRows("t", columns, None)).spans[1] == (0, 1)


HASH = "hash(u, g0, g1, $secret)"
RANK = f"QUALIFY row_number() OVER (PARTITION BY u ORDER BY {HASH}, g0, g1) <= 2"
SUM_ = "least(greatest(coalesce(s_v1, 0), 0), 30)"
M1 = "CAST(coalesce(sum(m1), 0) AS VARCHAR)"
END = 'FROM "unit bounded" GROUP BY g0, g1'
TWICE = '"unit bounded" UNION ALL SELECT * FROM "unit bounded"'
ONES = "'1', '1', '1', '1', '1'"
KEPT = 'AND s."uid" IS NOT'
OTHERS = "SELECT other FROM main.t"
DAYS = ", ".join(f"(CAST({d} AS BIGINT), {d - 1})" for d in range(1, 5))
LIST = f'"key 1" AS (SELECT v, min(g) AS g FROM (VALUES {DAYS}) l(v, g) GROUP BY v)'
FIRST = "QUALIFY dense_rank() OVER (PARTITION BY u ORDER BY hash(u, g0, $secret), g0) <= 2"
GROUPED = 'FROM "unit bounded" GROUP BY g0'
TALLIED = 'FROM "unit groups"\n'
SHOPS = "unnest(range(-10, 290)) AS v"
ALL_SHOPS = "unnest((SELECT list(shop) FROM main.t)) AS v"
ALL_WORDS = "string_split((SELECT string_agg(word, ',') FROM main.t), ',')"
TEXT_MUTANTS: list[tuple[str, str, str, str]] = [
    # a unit's groups
    ("unit", "no ranking", RANK, ""),
    ("unit", "one group more", "<= 2\n)", "<= 3\n)"),
    ("unit", "any number of groups", "g1) <= 2", "g1) <= 2 OR TRUE"),
    ("unit", "at least instead of at most", "g1) <= 2", "g1) >= 2"),
    ("unit", "a rank that repeats", "row_number()", "rank()"),
    ("unit", "a rank without gaps", "row_number()", "dense_rank()"),
    ("unit", "ranked over everybody", "PARTITION BY u ORDER", "ORDER"),
    ("unit", "ranked within each group", "PARTITION BY u ORDER", "PARTITION BY u, g0 ORDER"),
    ("unit", "ranked over another column", "PARTITION BY u", "PARTITION BY n"),
    ("unit", "a key left out of the order", f"{HASH}, g0, g1)", f"{HASH}, g0)"),
    ("unit", "no key in the order", f"{HASH}, g0, g1)", f"{HASH})"),
    ("unit", "the same key twice in the order", f"{HASH}, g0, g1)", f"{HASH}, g0, g0)"),
    ("unit", "an order that looks at other people", HASH, "hash(u, g0, g1, $secret, (SELECT count(*) FROM main.t))"),
    ("unit", "an order by the tallies alone", HASH, "n"),
    ("unit", "an order without the secret", HASH, "hash(u, g0, g1)"),
    ("unit", "a frame", "g0, g1) <=", "g0, g1 ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) <="),
    ("unit", "a cap that is not a number", "g1) <= 2", "g1) <= n"),
    # what it adds to each
    ("unit", "a count without its cap", "least(n, 3)", "n"),
    ("unit", "a wider cap", "least(n, 3)", "least(n, 4)"),
    ("unit", "least and greatest exchanged", "least(n, 3)", "greatest(n, 3)"),
    ("unit", "a cap that may be NULL", "least(n, 3)", "least(n, s_v0)"),
    ("unit", "a sum without its upper bound", SUM_, "greatest(coalesce(s_v1, 0), 0)"),
    ("unit", "a sum without its lower bound", SUM_, "least(coalesce(s_v1, 0), 30)"),
    ("unit", "a wider upper bound", "0), 30) AS BIGINT)", "0), 31) AS BIGINT)"),
    ("unit", "a wider lower bound", "coalesce(s_v1, 0), 0)", "coalesce(s_v1, 0), -31)"),
    ("unit", "exchanged bounds", SUM_, "greatest(least(coalesce(s_v1, 0), 0), 30) * 2"),
    ("unit", "a bounded sum multiplied", "least(n, 3)", "2 * least(n, 3)"),
    ("unit", "two bounded sums added", "least(n, 3)", "least(n, 3) + least(n, 3)"),
    ("unit", "more than one for a unit", "1 AS m", "2 AS m"),
    ("unit", "a window in a contribution", "least(n, 3)", "least(sum(n) OVER (), 3)"),
    ("unit", "a contribution that is random", "least(n, 3)", "least(CAST(random() * 9 AS BIGINT), 3)"),
    ("unit", "a query in a contribution", "least(n, 3)", "least((SELECT count(*) FROM main.t), 3)"),
    ("unit", "tallies of everybody beside them", 'FROM "unit groups"\n', 'FROM "unit groups", (SELECT 1 AS z)\n'),
    # how units are told apart
    ("unit", "another unit", 's."uid" AS u', 's."other" AS u'),
    ("unit", "no unit", 's."uid" AS u', "1 AS u"),
    ("unit", "a unit for each row", 's."uid" AS u', "s.rowid AS u"),
    ("unit", "units merged", 's."uid" AS u', 'abs(s."uid") AS u'),
    ("unit", "units invented", 's."uid" AS u', 'coalesce(s."uid", s."other") AS u'),
    ("unit", "units by cases", 's."uid" AS u', 'CASE WHEN s."x" > 3 THEN s."uid" ELSE s."other" END AS u'),
    ("unit", "rows of nobody kept", ' AND s."uid" IS NOT NULL', ""),
    ("unit", "rows of nobody kept by OR", ' AND s."uid" IS NOT NULL', ' OR s."uid" IS NOT NULL'),
    ("unit", "only rows of nobody", 's."uid" IS NOT NULL', 's."uid" IS NULL'),
    ("unit", "another column is not NULL", 's."uid" IS NOT NULL', 's."other" IS NOT NULL'),
    ("unit", "tallies not by unit", "GROUP BY u, g0, g1\n", "GROUP BY ALL\n"),
    ("unit", "tallies by one group more", "GROUP BY u, g0, g1\n", "GROUP BY u, g0, g1, v0\n"),
    ("unit", "tallies by another order", "GROUP BY u, g0, g1\n", "GROUP BY ROLLUP (u, g0, g1)\n"),
    ("unit", "grouping sets", "GROUP BY u, g0, g1\n", "GROUP BY GROUPING SETS ((u, g0, g1), (u, g0, g1))\n"),
    ("unit", "an average of averages", "sum(v0) AS s_v0", "max(v0) * count(*) AS s_v0"),
    ("unit", "a tally of somebody", "sum(v0) AS s_v0", "(SELECT sum(v0) FROM \"unit rows\") AS s_v0"),
    ("unit", "groups that depend on others", "GROUP BY u, g0, g1\n", "GROUP BY u, g0, g1 HAVING count(*) > 1\n"),
    # the sum over units
    ("unit", "the largest instead of the sum", "coalesce(sum(m0), 0)", "coalesce(max(m0), 0)"),
    ("unit", "the sum of squares", "coalesce(sum(m0), 0)", "coalesce(sum(m0 * m0), 0)"),
    ("unit", "a sum times two", "coalesce(sum(m0), 0)", "coalesce(2 * sum(m0), 0)"),
    ("unit", "a mean", "coalesce(sum(m0), 0)", "coalesce(avg(m0), 0)"),
    ("unit", "a sum of distinct numbers", "coalesce(sum(m0), 0)", "coalesce(sum(DISTINCT m0), 0)"),
    ("unit", "a filtered sum", "coalesce(sum(m0), 0)", "coalesce(sum(m0) FILTER (WHERE g0 > 0), 0)"),
    ("unit", "another value for an empty sum", "coalesce(sum(m0), 0)", "coalesce(sum(m0), 99)"),
    ("unit", "the raw column beside it", "coalesce(sum(m1), 0)", "coalesce(sum(g0), 0)"),
    ("unit", "sums by other groups", END, 'FROM "unit bounded" GROUP BY ALL'),
    ("unit", "a limit", 'GROUP BY g0, g1', "GROUP BY g0, g1 LIMIT 1"),
    ("unit", "a filter on exact sums", END, f'{END} HAVING sum(m0) > 5'),
    ("unit", "the groups in an order of exact sums", END, f'{END} ORDER BY sum(m0)'),
    ("unit", "everything twice", END, f'{END} UNION ALL SELECT 0, 0, {ONES}'),
    ("unit", "sums of the wrong stage", 'FROM "unit bounded" GROUP BY', f'FROM (SELECT * FROM {TWICE}) GROUP BY'),
    ("unit", "exchanged columns", "AS VARCHAR) AS m0", "AS VARCHAR) AS m1"),
    # the rows
    ("unit", "a join that copies rows", 'FROM main."t" s JOIN', 'FROM main."t" s JOIN main."t" z ON z.x = s.x JOIN'),
    ("unit", "a join without a condition", 'ON s."day" = k1.v', "ON TRUE"),
    ("unit", "a join on inequality", 'ON s."day" = k1.v', 'ON s."day" <= k1.v'),
    ("unit", "a join on the place", 'ON s."day" = k1.v', 'ON s."day" = k1.g'),
    ("unit", "an outer join", 'JOIN "key 1"', 'LEFT JOIN "key 1"'),
    ("unit", "a list of keys with repeats", "GROUP BY v)", "GROUP BY v, g)"),
    ("unit", "keys from the data", LIST, '"key 1" AS (SELECT uid AS v, min(x) AS g FROM main.t GROUP BY uid)'),
    ("unit", "one declared key more", "(CAST(4 AS BIGINT), 3)", "(CAST(4 AS BIGINT), 3), (CAST(5 AS BIGINT), 4)"),
    ("unit", "places that do not count up", "(CAST(4 AS BIGINT), 3)", "(CAST(4 AS BIGINT), 7)"),
    ("unit", "another table", 'main."t" s', "main.people s"),
    ("unit", "a table twice", 'main."t" s', "(SELECT * FROM main.t UNION ALL SELECT * FROM main.t) s"),
    ("unit", "a sample", 'main."t" s', 'main."t" s TABLESAMPLE 50%'),
    ("unit", "some of the rows", 'IS NOT NULL\n', "IS NOT NULL LIMIT 3\n"),
    ("unit", "distinct rows", 'SELECT s."uid" AS u', 'SELECT DISTINCT s."uid" AS u'),
    ("unit", "a filter that looks at others", KEPT, f'AND EXISTS ({OTHERS}) {KEPT}'),
    ("unit", "a filter by membership", KEPT, f'AND s."x" IN ({OTHERS}) {KEPT}'),
    ("unit", "a filter that is random", KEPT, f'AND random() < 0.5 {KEPT}'),
    ("unit", "a window over rows", 's."uid" AS u', 's."uid" AS u, row_number() OVER () AS w'),
    ("unit", "a recursive query", "WITH ", "WITH RECURSIVE "),
    ("whole", "a sum without its lower bound", "greatest(coalesce(s_v0, 0), -1207959552)", "coalesce(s_v0, 0)"),
    ("whole", "a sum between columns", "1811939328) AS BIGINT)", "n * 1811939328) AS BIGINT)"),
    ("whole", "one sum too many", ' FROM "unit bounded"', f', {M1} AS m2 FROM "unit bounded"'),
    ("whole", "one sum too few", f", {M1} AS m1 FROM", " FROM"),
    ("whole", "groups by unit", 'AS m1 FROM "unit bounded"', 'AS m1 FROM "unit bounded" GROUP BY m0'),
    # groups from the data
    ("private", "no ranking", FIRST, ""),
    ("private", "rows counted instead of units", "1 AS m2", "least(n, 3) AS m2"),
    ("private", "the row shown as a key", "AS g0, CASE", "AS g0x, s.rowid AS g0, CASE"),
    ("private", "a key over others", "AS g0, CASE", "AS g0x, count(*) OVER () AS g0, CASE"),
    ("private", "the exact sum shown as a key", "SELECT g0, CAST(coal", "SELECT sum(m0) AS g0, CAST(coal"),
    # the rows of a unit's first groups
    ("many", "no ranking", FIRST, ""),
    ("many", "one group more", "g0) <= 2", "g0) <= 3"),
    ("many", "one group less, and not the last", "g0) <= 2", "g0) < 2"),
    ("many", "all but the first groups", "g0) <= 2", "g0) >= 2"),
    ("many", "any number of groups", "g0) <= 2", "g0) <= 2 OR TRUE"),
    ("many", "a cap that is not a number", "g0) <= 2", "g0) <= v0"),
    ("many", "a rank with gaps", "dense_rank()", "rank()"),
    ("many", "rows ranked instead of groups", "dense_rank()", "row_number()"),
    ("many", "a share instead of a rank", "dense_rank()", "cume_dist()"),
    ("many", "ranked over everybody", "PARTITION BY u ORDER", "ORDER"),
    ("many", "ranked within each group", "PARTITION BY u ORDER", "PARTITION BY u, g0 ORDER"),
    ("many", "ranked over another column", "PARTITION BY u ORDER", "PARTITION BY v0 ORDER"),
    ("many", "ranked over the groups", "PARTITION BY u ORDER", "PARTITION BY g0 ORDER"),
    ("many", "the key left out of the order", "$secret), g0)", "$secret))"),
    ("many", "another column in the order", "$secret), g0)", "$secret), v0)"),
    ("many", "one column more in the order", "$secret), g0)", "$secret), g0, v0)"),
    ("many", "an order by the key alone", "hash(u, g0, $secret), g0)", "g0)"),
    ("many", "an order without the secret", "hash(u, g0, $secret)", "hash(u, g0)"),
    ("many", "a frame", "g0) <=", "g0 ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) <="),
    ("many", "tallies of all rows", 'FROM "unit kept"', 'FROM "unit rows"'),
    ("many", "groups of everybody, added up first", GROUPED, f"{GROUPED} QUALIFY dense_rank() OVER (ORDER BY g0) <= 2"),
    ("many", "a second cut, over others", TALLIED, 'FROM "unit groups" QUALIFY count(*) OVER () > 1\n'),
    ("many", "a second cut", TALLIED, f'FROM "unit groups" {FIRST.replace("dense_rank", "row_number")}\n'),
    ("many", "a filter beside the cut", "\n  QUALIFY", " WHERE random() < 0.5\n  QUALIFY"),
    ("many", "some rows of the groups", "<= 2\n)", "<= 2 LIMIT 5\n)"),
    ("many", "another unit passed on", 'SELECT u, g0, v0 FROM', "SELECT v0 AS u, g0, v0 FROM"),
    ("many", "another group passed on", 'SELECT u, g0, v0 FROM', "SELECT u, v0 AS g0, v0 FROM"),
    ("many", "another value passed on", 'SELECT u, g0, v0 FROM', "SELECT u, g0, 100 * v0 AS v0 FROM"),
    ("many", "units and groups exchanged", 'SELECT u, g0, v0 FROM', "SELECT g0 AS u, u AS g0, v0 FROM"),
    ("many", "distinct rows", 'SELECT u, g0, v0 FROM', "SELECT DISTINCT u, g0, v0 FROM"),
    ("many", "rows of another stage", 'v0 FROM "unit rows"', 'v0 FROM (SELECT * FROM "unit rows")'),
    # long lists of keys
    ("many", "one declared key more", "range(-10, 290)", "range(-10, 291)"),
    ("many", "one declared key less", "range(-10, 290)", "range(-9, 290)"),
    ("many", "a list that has its end", "range(-10, 290)", "generate_series(-10, 290)"),
    ("many", "a list in steps", "range(-10, 290)", "range(-10, 290, 1)"),
    ("many", "fewer places than keys", "range(0, 300)", "range(0, 299)"),
    ("many", "more places than keys", "range(0, 300)", "range(0, 301)"),
    ("many", "places from one on", "range(0, 300)", "range(1, 301)"),
    ("many", "keys from the data", SHOPS, ALL_SHOPS),
    ("many", "keys that are random", SHOPS, "unnest(range(-10, 290)) + CAST(random() AS BIGINT) AS v"),
    ("many", "keys moved by the data", SHOPS, "unnest(range(-10, 290)) + (SELECT min(shop) FROM main.t) AS v"),
    ("many", "keys and places exchanged", "SELECT unnest(range(-10, 290)) AS v, unnest(range(0, 300)) AS g",
     "SELECT unnest(range(-10, 290)) AS g, unnest(range(0, 300)) AS v"),
    ("words", "one piece more", "('it''s 0,", "('it''s 0,more,"),
    ("words", "one piece less", "('it''s 0,", "('"),
    ("words", "another separator", "', ',')", "', 's')"),
    ("words", "a separator from the data", "', ',')", "', (SELECT min(word) FROM main.t))"),
    ("words", "a pattern", "string_split(", "regexp_split_to_array("),
    ("words", "pieces that repeat", 'FROM "list 0" GROUP BY v)', 'FROM "list 0" GROUP BY v, g)'),
    ("words", "a list beside the list", 'FROM "list 0" GROUP BY v)', 'FROM "list 0", (VALUES (1), (2)) GROUP BY v)'),
    ("words", "the last place instead of the first", "min(g)", "max(g)"),
    ("words", "part of the list", 'FROM "list 0" GROUP BY v)', 'FROM "list 0" WHERE g > 3 GROUP BY v)'),
    ("words", "a list for each row", "unnest(range(0, 20)) AS g)", "unnest(range(0, 20)) AS g FROM main.t)"),
    ("row words", "one piece less", "('it''s 0,", "('"),
    ("row words", "a list in steps", "range(-10, 290)", "range(-10, 290, 1)"),
    ("row words", "pieces that repeat", 'FROM "list 1" GROUP BY v)', 'FROM "list 1" GROUP BY v, g)'),
    # each row a unit
    ("row", "a value without its bounds", 'CAST(least(greatest(s."x", 0), 10) AS INTEGER)', 's."x"'),
    ("row", "a wider bound", 'greatest(s."x", 0), 10)', 'greatest(s."x", 0), 11)'),
    ("row", "a bound left out", 'least(greatest(s."x", 0), 10)', 'greatest(s."x", 0)'),
    ("row", "a finer grid", "CAST(268435456.0 AS DOUBLE)", "CAST(536870912.0 AS DOUBLE)"),
    ("row", "another centre", "* 100663296)", "* 0)"),
    ("row", "a count of another column", "CAST(count(v0) AS HUGEINT)", "CAST(count(v1) AS HUGEINT)"),
    ("row", "a key that matches twice", "ON r.g1 = k1.v", "ON r.g1 <= k1.v"),
    ("row", "a join on nothing", "ON r.g1 = k1.v", "ON TRUE"),
    ("row", "keys that repeat", "GROUP BY v)", "GROUP BY v, g)"),
    ("row", "the groups twice", 'FROM "row groups" r', 'FROM "row groups" r CROSS JOIN "row groups" q'),
    ("row", "grouped by less", "GROUP BY g0, g1\n", "GROUP BY g0, g1, v0\n"),
    ("row", "a sum over everybody", "sum(v1) AS m", "sum(sum(v1)) OVER () AS m"),
    ("row", "a sum of squares", "sum(v1) AS m", "sum(v1 * v1) AS m"),
    ("row", "the largest", "sum(v1) AS m", "max(v1) AS m"),
    ("row", "rows twice", 'FROM main."t" s', 'FROM main."t" s, main.people p'),
    ("row", "a limit", '(s."x" <> CAST(9 AS BIGINT))\n', '(s."x" <> CAST(9 AS BIGINT)) LIMIT 1\n'),
    ("row whole", "a sum three times", "sum(v1) AS m", "3 * sum(v1) AS m"),
    ("row whole", "a group that is no key", 'FROM "unit bounded"\n', 'FROM "unit bounded" GROUP BY v0\n'),
    ("row private", "another list of groups", "SELECT r.g0 AS g0", "SELECT r.m0 AS g0"),
    ("row private", "no count of units", "count(*) AS m1", "sum(v0) AS m1"),
]  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("name", "old", "new"), [pytest.param(n, o, w, id=f"{n}: {what}") for n, what, o, w in TEXT_MUTANTS]
)
def test_no_changed_text_is_accepted(name: str, old: str, new: str) -> None:
    sound = plan(name)
    assert old in sound.sql
    broken = sound.sql.replace(old, new)
    assert is_sql(broken)
    with pytest.raises(InternalError):
        check(broken, sound)


def test_a_text_in_which_every_hash_collides_is_bounded_by_the_keys_alone() -> None:
    """What bounds is the total order, so the derivation asks for it and not for a good hash."""
    sound = plan("unit")
    with pytest.raises(InternalError, match="order"):
        check(sound.sql.replace(f"ORDER BY {HASH}, g0, g1", "ORDER BY g0, g1"), sound)


def priced(p: Query, **changes: Any) -> Query:
    return replace(p, allocation=replace(p.allocation, **changes))


def quieter(p: Query, factor: Fraction, which: int = 0) -> Query:
    """The plan with less noise on one column, and with the events and the guarantee of the right noise."""
    noises = list(p.allocation.noises)
    noise = noises[which]
    if isinstance(noise, DiscreteLaplaceNoise):
        noises[which] = DiscreteLaplaceNoise(noise.scale * factor)
    else:
        assert isinstance(noise, RoundedGaussianNoise)
        noises[which] = RoundedGaussianNoise(noise.sigma * factor)
    return priced(p, noises=tuple(noises))


LESS = Fraction(999, 1000)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("name", list(SQL))
def test_a_column_with_less_noise_than_it_needs_is_refused(name: str, relation: Relation) -> None:
    for p in (plan(name, relation), plan(name, relation, noise="gaussian", delta="1e-6")):
        check(p.sql, p)
        for which in range(len(p.allocation.noises)):
            with pytest.raises(InternalError):
                check(p.sql, quieter(p, LESS, which))


def test_noise_for_add_remove_is_refused_under_replacement() -> None:
    for name in SQL:
        p = plan(name)
        other = replace(p, question=replace(p.question, table=replace(p.question.table, relation=Relation.REPLACE)))
        moves_further = name not in ("row whole", "whole") or any(s[0] < 0 for s in spans(p))
        if moves_further:
            with pytest.raises(InternalError):
                check(p.sql, other)


def spans(p: Query) -> list[tuple[int, int]]:
    most = p.question.table.unit.max_rows
    assert most is not None
    return [m.span(most) for m in p.question.measures]


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("epsilon", ["1/10", 1, 8])
@pytest.mark.parametrize("relation", list(Relation))
def test_composition_below_the_sum_of_epsilons_is_followed(relation: Relation, epsilon: Any) -> None:
    """With a δ, many Laplace numbers may cost more ε in sum than is charged; by how much is found out."""
    for groups in (8, 60):
        unit = PrivacyUnit("uid", max_groups=groups, max_rows=1)
        facts = {"day": Range(1, groups * 2 + 1, integer=True), "x": Range(0, 1, integer=True)}
        t = TableSchema("t", COLUMNS, facts, unit, relation)
        text = "SELECT day, COUNT(*), SUM(x), COUNT(x) FROM t GROUP BY day"
        p = make_query(text, [t], population="p", version=None, epsilon=epsilon, delta="1e-6")
        check(p.sql, p)
        less = Fraction(17, 20)
        noises = [
            DiscreteLaplaceNoise(n.scale * less) for n in p.allocation.noises if isinstance(n, DiscreteLaplaceNoise)
        ]
        told = sum((n.event(s) for n, s in zip(noises, p.sensitivities, strict=True)), Composed())
        with pytest.raises(InternalError, match="the price of the columns"):
            check(p.sql, priced(p, noises=tuple(noises), events=told))


def test_a_cost_that_hides_something_is_refused() -> None:
    p, private = plan("unit"), plan("private")
    a, b = p.allocation, private.allocation
    assert b.threshold is not None
    fewer = Threshold(b.threshold.epsilon, b.threshold.delta, max_groups=1)
    cheaper = replace(a.guarantee, epsilon=a.guarantee.epsilon * LESS)
    for broken in (
        priced(p, guarantee=cheaper),
        priced(p, events=Composed(list(a.events)[1:])),
        priced(p, events=Composed()),
        priced(p, noises=a.noises[1:]),
        priced(p, noises=(*a.noises, a.noises[0])),
        priced(p, reports=(a.noises[0],)),
        priced(private, threshold=None),
        priced(private, threshold=fewer),
        priced(private, guarantee=replace(b.guarantee, delta=b.guarantee.delta * LESS)),
        priced(private, events=Composed((e, n) for e, n in b.events if not e.failure)),
        priced(p, threshold=b.threshold),
    ):
        with pytest.raises(InternalError):
            check(broken.sql, broken)


def test_the_wrong_table_unit_or_keys_are_refused() -> None:
    p = plan("unit")
    t = p.question.table
    for other in (
        replace(t, name="people"),
        replace(t, unit=PrivacyUnit("other", max_groups=2, max_rows=3)),
        replace(t, unit=PrivacyUnit.row()),
        replace(t, columns={n: k for n, k in t.columns.items() if n != "x"}),
    ):
        with pytest.raises(InternalError):
            check(p.sql, replace(p, question=replace(p.question, table=other)))
    for lists in (None, (("a",), (1, 2, 3, 4)), (("a", "b", None), (1, 2, 3, 4, 5))):
        keys = replace(p.question.keys, lists=lists)
        with pytest.raises(InternalError):
            check(p.sql, replace(p, question=replace(p.question, keys=keys)))


REPORT_MUTANTS = [
    ("a sum is no count", "count(*) FILTER (WHERE p0 = 1)", "sum(p0) FILTER (WHERE p0 = 1)"),
    ("another test", "FILTER (WHERE p0 = 1)", "FILTER (WHERE p0 > 0)"),
    ("no filter", "count(*) FILTER (WHERE p0 = 1)", "count(*) * 2"),
    ("one count twice", "FILTER (WHERE p0 = 1)", "FILTER (WHERE p0 = 2)"),
    ("one row for each group", 'FROM "unit groups" GROUP BY u\n', 'FROM "unit groups" GROUP BY u, n\n'),
    ("by everybody", "max(n) AS most FROM", "max(sum(n)) OVER () AS most FROM"),
    ("by row", 'FROM "unit places"', 'FROM "unit groups", "unit places"'),
    ("another unit", 's."uid" AS u', 's."other" AS u'),
    ("nobody's rows", ' AND s."uid" IS NOT NULL', ""),
    ("a test over others", "WHEN most > 3", "WHEN most > (SELECT count(*) FROM main.t)"),
    (
        "one report more",
        ' FROM "unit places"',
        ', CAST(count(*) FILTER (WHERE p0 + 0 = 9) AS VARCHAR) AS m9 FROM "unit places"',
    ),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("old", "new"), [pytest.param(o, w, id=what) for what, o, w in REPORT_MUTANTS])
def test_no_changed_report_of_truncation_is_accepted(old: str, new: str) -> None:
    p = plan("unit", truncation="1/10")
    caps, *others = p.truncation
    assert old in caps
    check(p.sql, p)
    with pytest.raises(InternalError):
        check(p.sql, replace(p, truncation=(caps.replace(old, new), *others)))


def test_a_report_without_its_noise_is_refused() -> None:
    p = plan("unit", truncation="1/10")
    quiet = tuple(
        DiscreteLaplaceNoise(n.scale / 2) for n in p.allocation.reports if isinstance(n, DiscreteLaplaceNoise)
    )
    for broken in (priced(p, reports=quiet), priced(p, reports=()), replace(p, truncation=())):
        with pytest.raises(InternalError):
            check(broken.sql, broken)


@pytest.mark.parametrize("name", ["U", "G0", "X0"])
def test_of_names_that_differ_in_case_alone_the_database_takes_the_first(name: str) -> None:
    p = plan("unit")
    old = 's."uid" AS u'
    assert old in p.sql
    check(p.sql, p)
    with pytest.raises(InternalError):
        check(p.sql.replace(old, f's."other" AS "{name}", s."other" AS "{name.lower()}", {old}'), p)
    with pytest.raises(InternalError):
        check(p.sql.replace(old, f's."other" AS "U", {old}'), p)
