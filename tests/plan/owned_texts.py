"""Nested SELECTs of every shape of decision 0005, written by hand, and changes to them that lose the unit or the determinism."""

# ruff: noqa: E501  # a query is easier to compare with its change when it stands on one line

from __future__ import annotations

from collections.abc import Mapping

FINITE = "CASE WHEN isfinite({0}) THEN {0} END"
PLAIN = "CASE WHEN isfinite({0}) THEN {0} + CAST(0 AS DOUBLE) END"
PEOPLE = 'SELECT t."pid" AS u, t."city" AS c0, t."age" AS c1, t."w" AS c2 FROM main."people" t'
ORDERS = 'SELECT t."pid" AS u, t."oid" AS c10, t."day" AS c11, t."total" AS c12 FROM main."orders" t'
KEYS = 'SELECT DISTINCT u, c20 FROM (SELECT t."pid" AS u, t."oid" AS c20 FROM main."orders" t) k'
ITEMS = (
    'SELECT o.u AS u, t."sku" AS c30, t."price" AS c31, t."n" AS c32, t."iid" AS c33 '
    f'FROM main."items" t JOIN ({KEYS}) o ON t."oid" = o.c20'
)
PARTS = (
    'SELECT o.u AS u, t."k" AS c40 FROM main."parts" t '
    f'JOIN (SELECT DISTINCT u, c33 FROM ({ITEMS}) k) o ON t."iid" = o.c33'
)
ZONES = 'SELECT t."city" AS c50, t."zone" AS c51, t."rate" AS c52, t."size" AS c53 FROM main."zones" t'
LISTED = "SELECT v.a0 AS c54, v.a1 AS c55 FROM (VALUES (CAST(1 AS BIGINT), 'a'), (CAST(NULL AS BIGINT), 'b')) v(a0, a1)"
STEADY = f"SELECT r.u AS u, r.c10 AS c13, r.c11 AS c14, {PLAIN.format('r.c12')} AS c15 FROM ({ORDERS}) r"
IN_ORDER = f"{FINITE} ORDER BY {FINITE}"
SORTED = IN_ORDER.format("r.c12")
EVERY = "r.c13, r.c14, r.c15"
FRAMED = f"OVER (PARTITION BY r.u ORDER BY {EVERY} ROWS BETWEEN"
OF_A_UNIT = f"SELECT r.u AS u, count(*) AS c71, avg({SORTED}) AS c72 FROM ({ORDERS}) r GROUP BY r.u"
OF_ALL_ZONES = f"SELECT count(*) AS c71, avg({IN_ORDER.format('r.c52')}) AS c72 FROM ({ZONES}) r"
AROUND = f"SELECT DISTINCT r.u AS u, r.c11 AS c70 FROM ({ORDERS}) r"
MET = f"SELECT l.u AS u, l.c70 AS c73, r.c13 AS c74 FROM ({AROUND}) l JOIN ({STEADY}) r ON l.u = r.u AND r.c14 < l.c70"
COPIES = (
    f"SELECT r.u AS u, r.c14 AS c75, r.c15 AS c76, row_number() OVER (PARTITION BY r.u, r.c14, r.c15 ORDER BY {EVERY}) AS c77 "
    f"FROM ({STEADY}) r"
)
SOME_COPIES = COPIES.replace(STEADY, f"{STEADY} WHERE r.c10 > 1")

TEXTS: Mapping[str, str] = {
    "base": PEOPLE,
    "split": f"SELECT r.u AS u, r.c1 AS c3, unnest(list_slice(string_split(r.c0, ','), 1, 1000)) AS c4 FROM ({PEOPLE}) r",
    "constants": f"SELECT l.u AS u, r.c55 AS c61 FROM ({PEOPLE}) l JOIN ({LISTED}) r ON l.c1 = r.c54",
    "base filtered": f'{ORDERS} WHERE t."day" > 0',
    "reached": ITEMS,
    "reached twice": PARTS,
    "reached by a filtered key": PARTS.replace("FROM main.\"orders\" t)", 'FROM main."orders" t WHERE t."day" = 1)'),
    "projected": f"SELECT r.u AS u, r.c1 + 1 AS c3, coalesce(r.c0, 'none') AS c4 FROM ({PEOPLE}) r WHERE r.c1 < 2 OR r.c0 = 'a'",
    "inner": f"SELECT l.u AS u, l.c0 AS c60, r.c12 AS c61 FROM ({PEOPLE}) l JOIN ({ORDERS}) r ON l.u = r.u AND l.c1 <= r.c11",
    "left": f"SELECT l.u AS u, l.c0 AS c60, r.c12 AS c61 FROM ({PEOPLE}) l LEFT JOIN ({ORDERS}) r ON l.u = r.u AND (l.c1 < r.c11 OR l.c0 = 'a')",
    "full": f"SELECT coalesce(l.u, r.u) AS u, l.c0 AS c60, r.c11 AS c61 FROM ({PEOPLE}) l FULL JOIN ({ORDERS}) r ON l.u = r.u AND l.c1 < r.c11",
    "semi": f"SELECT l.u AS u, l.c0 AS c60 FROM ({PEOPLE}) l SEMI JOIN ({ORDERS}) r ON l.u = r.u AND l.c1 < r.c11",
    "anti": f"SELECT l.u AS u, l.c0 AS c60 FROM ({PEOPLE}) l ANTI JOIN ({ORDERS}) r ON l.u = r.u AND l.c1 < r.c11",
    "joined with reached rows": f"SELECT l.u AS u, l.c11 AS c60, r.c30 AS c61 FROM ({ORDERS}) l JOIN ({ITEMS}) r ON l.u = r.u AND (l.c10 = r.c32)",
    "inner public": f"SELECT l.u AS u, l.c1 AS c60, r.c51 AS c61 FROM ({PEOPLE}) l JOIN ({ZONES}) r ON l.c0 = r.c50",
    "inner public on anything": f"SELECT l.u AS u, r.c51 AS c61 FROM ({PEOPLE}) l JOIN ({ZONES}) r ON l.c1 < r.c53 OR TRUE",
    "left public": f"SELECT l.u AS u, l.c1 AS c60, r.c52 AS c61 FROM ({PEOPLE}) l LEFT JOIN ({ZONES}) r ON l.c0 = r.c50 AND r.c53 > 0",
    "semi public": f"SELECT l.u AS u, l.c1 AS c60 FROM ({PEOPLE}) l SEMI JOIN ({ZONES}) r ON l.c0 = r.c50",
    "anti public": f"SELECT l.u AS u, l.c1 AS c60 FROM ({PEOPLE}) l ANTI JOIN ({ZONES}) r ON l.c0 = r.c50",
    "public sums": (
        f"SELECT l.u AS u, r.c56 AS c61 FROM ({PEOPLE}) l JOIN (SELECT r.c50 AS c54, count(*) AS c55, "
        f"sum({IN_ORDER.format('r.c52')}) AS c56 FROM ({ZONES}) r GROUP BY r.c50) r ON l.c0 = r.c54"
    ),
    "public of public": (
        f"SELECT l.u AS u, r.c57 AS c61 FROM ({PEOPLE}) l JOIN (SELECT r.c51 AS c57 FROM ({ZONES}) l "
        f"FULL JOIN ({ZONES}) r ON l.c53 < r.c53) r ON TRUE"
    ),
    "grouped": (
        f"SELECT r.u AS u, r.c11 AS c60, count(*) AS c61, sum({SORTED}) AS c62, avg({SORTED}) AS c63, "
        "sum(r.c11) AS c64, min(r.c11) AS c65, count(DISTINCT r.c12) AS c66, bool_or(r.c11 > 1) AS c67 "
        f"FROM ({ORDERS}) r GROUP BY r.u, r.c11"
    ),
    "grouped by the unit alone": f"SELECT r.u AS u, count(r.c12) AS c61, avg(r.c11) AS c62 FROM ({ORDERS}) r GROUP BY r.u",
    "grouped reals": f"SELECT r.u AS u, r.c15 AS c60, max(r.c15) AS c61, count(*) AS c62 FROM ({STEADY}) r GROUP BY r.u, r.c15",
    "grouped different values": (
        f"SELECT r.u AS u, sum(DISTINCT r.c14) AS c60, avg(DISTINCT r.c14) AS c61, sum(DISTINCT r.c15 ORDER BY r.c15) AS c62, "
        f"avg(DISTINCT r.c15 ORDER BY r.c15) AS c63 FROM ({STEADY}) r GROUP BY r.u"
    ),
    "distinct": f"SELECT DISTINCT r.u AS u, r.c11 AS c60 FROM ({ORDERS}) r",
    "distinct reals": f"SELECT DISTINCT r.u AS u, CAST(r.c15 AS VARCHAR) AS c60, r.c15 AS c61 FROM ({STEADY}) r",
    "union": f"SELECT u, c0 AS c60, c1 AS c61 FROM ({PEOPLE}) l UNION ALL SELECT u, c30, c32 FROM ({ITEMS}) r",
    "numbered": (
        f"SELECT r.u AS u, r.c15 AS c60, row_number() OVER (PARTITION BY r.u ORDER BY r.c14 DESC NULLS LAST, {EVERY}) AS c61, "
        f"lag(r.c15, 1) OVER (PARTITION BY r.u ORDER BY r.c14 DESC NULLS LAST, {EVERY}) AS c62, "
        f"ntile(2) OVER (PARTITION BY r.u ORDER BY r.c14 DESC NULLS LAST, {EVERY}) AS c63 FROM ({STEADY}) r"
    ),
    "numbered in parts": f"SELECT r.u AS u, row_number() OVER (PARTITION BY r.c13, r.u ORDER BY {EVERY}) AS c61, r.c15 AS c62 FROM ({STEADY}) r",
    "first value": f"SELECT r.u AS u, first_value(r.c15) OVER (PARTITION BY r.u ORDER BY r.c14, {EVERY}) AS c61 FROM ({STEADY}) r",
    "ranked": (
        "SELECT r.u AS u, r.c12 AS c60, rank() OVER (PARTITION BY r.u ORDER BY r.c11) AS c61, dense_rank() OVER (PARTITION BY r.u "
        "ORDER BY r.c12) AS c62, sum(r.c11) OVER (PARTITION BY r.u ORDER BY r.c11 DESC) AS c63, count(*) OVER (PARTITION BY r.u) AS c64, "
        f"max(r.c11) OVER (PARTITION BY r.u, r.c10) AS c65 FROM ({ORDERS}) r"
    ),
    "framed": (
        f"SELECT r.u AS u, r.c15 AS c60, sum(r.c14) {FRAMED} 1 PRECEDING AND CURRENT ROW) AS c61, "
        f"last_value(r.c15) {FRAMED} UNBOUNDED PRECEDING AND 1 FOLLOWING) AS c62, first_value(r.c13) {FRAMED} 1 FOLLOWING AND "
        f"2 FOLLOWING) AS c63, max(r.c15) {FRAMED} CURRENT ROW AND UNBOUNDED FOLLOWING) AS c64, count(*) {FRAMED} 3 PRECEDING "
        f"AND 1 PRECEDING) AS c65, row_number() OVER (PARTITION BY r.u ORDER BY {EVERY}) AS c66 FROM ({STEADY}) r"
    ),
    "a value of the unit's rows": (
        f"SELECT l.u AS u, l.c11 AS c60, r.c71 AS c61, r.c72 AS c62 FROM ({ORDERS}) l LEFT JOIN ({OF_A_UNIT}) r ON l.u = r.u"
    ),
    "a public value": (
        f"SELECT l.u AS u, l.c11 AS c60, r.c71 AS c61, r.c72 AS c62 FROM ({ORDERS}) l LEFT JOIN ({OF_ALL_ZONES}) r ON TRUE"
    ),
    "a value by what is around": (
        f"SELECT l.u AS u, l.c11 AS c60, r.c79 AS c61 FROM ({ORDERS}) l LEFT JOIN (SELECT r.u AS u, r.c73 AS c78, count(r.c74) "
        f"AS c79 FROM ({MET}) r GROUP BY r.u, r.c73) r ON l.u = r.u AND l.c11 IS NOT DISTINCT FROM r.c78"
    ),
    "rows that are there as often": (
        f"SELECT l.u AS u, l.c75 AS c80, l.c76 AS c81 FROM ({COPIES}) l SEMI JOIN ({SOME_COPIES}) r ON l.u = r.u AND "
        "l.c75 IS NOT DISTINCT FROM r.c75 AND l.c76 IS NOT DISTINCT FROM r.c76 AND l.c77 = r.c77"
    ),
    "the last of each": (
        f"SELECT r.u AS u, r.c61 AS c62 FROM (SELECT r.u AS u, r.c15 AS c61, row_number() OVER (PARTITION BY r.u ORDER BY {EVERY}) "
        f"AS c60 FROM ({STEADY}) r) r WHERE r.c60 = 1"
    ),
}  # fmt: skip

OUT_OF_ORDER = f"row_number() OVER (PARTITION BY r.u, r.c14 ORDER BY {EVERY})"
EVERY_ORDER = f"row_number() OVER (PARTITION BY r.u ORDER BY r.c14 DESC NULLS LAST, {EVERY})"

MUTANTS: list[tuple[str, str, str, str]] = [
    # which values are added once each, and in which order
    ("grouped different values", "in no order", "sum(DISTINCT r.c15 ORDER BY r.c15)", "sum(DISTINCT r.c15)"),
    ("grouped different values", "zeros of two signs", PLAIN.format("r.c12"), "r.c12"),
    # whose a base row is
    ("base", "another column", 't."pid" AS u', 't."age" AS u'),
    ("base", "an expression", 't."pid" AS u', 't."pid" % 2 AS u'),
    ("base", "a constant", 't."pid" AS u', "1 AS u"),
    ("base", "the unit or another", 't."pid" AS u', 'coalesce(t."pid", t."age") AS u'),
    ("base", "a row each", 't."pid" AS u', "t.rowid AS u"),
    ("base", "a table that a stage may hide", 'main."people"', '"people"'),
    ("base", "a public table", PEOPLE, ZONES),
    ("base", "a public table's column for the unit", PEOPLE, 'SELECT t."size" AS u, t."city" AS c0 FROM main."zones" t'),
    ("base", "a reached table's key for the unit", PEOPLE, 'SELECT t."oid" AS u, t."sku" AS c0 FROM main."items" t'),
    ("base", "rows of a function", PEOPLE, "SELECT t.range AS u FROM range(3) t"),
    ("base", "another alias", PEOPLE, PEOPLE.replace("t.", "s.").replace('" t', '" s')),
    ("base", "a stage of another name", PEOPLE, "WITH z AS (SELECT pid FROM main.people) SELECT t.pid AS u FROM z t"),
    ("base", "a pivot", PEOPLE, 'SELECT t.pid AS u FROM (PIVOT main."people" ON age USING count(*)) t'),
    ("base", "columns renamed", 'main."people" t', 'main."people" t("age", "city", "pid", "w")'),
    ("base", "a sample", 'main."people" t', 'main."people" t TABLESAMPLE 50%'),
    ("base", "a limit", 'main."people" t', 'main."people" t LIMIT 2'),
    ("base", "an order", 'main."people" t', 'main."people" t ORDER BY t."age"'),
    ("base", "everything", 't."w" AS c2', 't."w" AS c2, t.*'),
    ("base", "the unit twice", 't."w" AS c2', 't."age" AS u'),
    ("base", "the unit last", 't."pid" AS u, t."city" AS c0', 't."city" AS c0, t."pid" AS u'),
    ("base", "a column of that name", 't."w" AS c2', 't."age" AS "U"'),
    ("base", "a random column", 't."w" AS c2', "random() AS c2"),
    ("base", "a clock", 't."w" AS c2', "CAST(now() AS VARCHAR) AS c2"),
    ("base", "a hash", 't."w" AS c2', 'hash(t."w") AS c2'),
    ("base", "a setting", 't."w" AS c2', "current_setting('threads') AS c2"),
    ("base", "a count of everybody", 't."w" AS c2', "(SELECT count(*) FROM main.people) AS c2"),
    ("base", "a window over everybody", 't."w" AS c2', "count(*) OVER () AS c2"),
    ("base", "the row", 't."w" AS c2', "t AS c2"),
    ("base", "the place of the row", 't."w" AS c2', "t.rowid AS c2"),
    ("base", "a column of another name", 't."w" AS c2', 't."w" AS x'),
    ("base", "rows that others have", 'main."people" t', 'main."people" t WHERE EXISTS (SELECT 1 FROM main.people p WHERE p.age > t.age)'),
    ("base", "rows by membership", 'main."people" t', 'main."people" t WHERE t."age" IN (SELECT age FROM main.people)'),
    ("base", "a qualified row", 'main."people" t', 'main."people" t QUALIFY row_number() OVER () < 3'),
    ("base", "a cross product", 'main."people" t', 'main."people" t, main."people" p'),
    # whose a reached row is
    ("reached", "a row's own column", "o.u AS u", 't."n" AS u'),
    ("reached", "any key", 't."oid" = o.c20', "TRUE"),
    ("reached", "some key", 't."oid" = o.c20', 't."oid" = o.c20 OR t."n" = 1'),
    ("reached", "greater keys", 't."oid" = o.c20', 't."oid" <= o.c20'),
    ("reached", "another column of the row", 't."oid" = o.c20', 't."iid" = o.c20'),
    ("reached", "the unit as the key", 't."oid" = o.c20', 't."oid" = o.u'),
    ("reached", "another column of the owner", 't."oid" AS c20', 't."day" AS c20'),
    ("reached", "a key that is computed", 't."oid" AS c20', 't."oid" + 1 AS c20'),
    ("reached", "a key of another table", KEYS, KEYS.replace('"orders"', '"people"').replace('"oid"', '"age"')),
    ("reached", "a key of a public table", KEYS, 'SELECT DISTINCT u, c20 FROM (SELECT t."size" AS u, t."size" AS c20 FROM main."zones" t) k'),
    ("reached", "a key list that is not distinct", "SELECT DISTINCT u, c20", "SELECT u, c20"),
    ("reached", "one unit of a key", "SELECT DISTINCT u, c20", "SELECT DISTINCT ON (c20) u, c20"),
    ("reached", "the columns exchanged", "SELECT DISTINCT u, c20", "SELECT DISTINCT c20 AS u, u AS c20"),
    ("reached", "an outer join", "JOIN (SELECT DISTINCT", "LEFT JOIN (SELECT DISTINCT"),
    ("reached", "the owners' table twice", ") o ON", ') o ON t."oid" = o.c20 JOIN main."orders" p ON'),
    ("reached twice", "the other key", 'o ON t."iid" = o.c33', 'o ON t."k" = o.c33'),
    ("reached twice", "another column of the owner", 't."iid" AS c33', 't."n" AS c33'),
    # the parts of a text
    ("split", "the unit's own text", "string_split(r.c0,", "string_split(CAST(r.u AS VARCHAR),"),
    ("split", "parts as the unit", "r.u AS u", "r.c0 AS u"),
    ("split", "a list of chance", "list_slice(string_split(r.c0, ','), 1, 1000)", "[random()]"),
    ("split", "other people's texts", "string_split(r.c0, ',')", "(SELECT list(city) FROM main.people)"),
    ("split", "parts of a query", "r.c0, ','", "(SELECT max(city) FROM main.people), ','"),
    ("split", "another function", "string_split", "regexp_extract_all"),
    ("split", "an end by a query", "1, 1000", "1, (SELECT count(*) FROM main.people)"),
    ("split", "a separator by a query", "','", "(SELECT max(city) FROM main.people)"),
    ("split", "two texts", "r.c1 AS c3", "unnest(list_slice(string_split(r.c0, 'a'), 1, 9)) AS c3"),
    ("split", "a limit", "1, 1000)) AS c4 FROM", "1, 1000)) AS c4, count(*) OVER () AS c5 FROM"),
    ("split", "an order", f"({PEOPLE}) r", f"({PEOPLE}) r ORDER BY c4 LIMIT 3"),
    # rows that are written out
    ("constants", "a value by a query", "'a')", "(SELECT max(city) FROM main.people))"),
    ("constants", "a value of the row beside", "'a')", "l.c0)"),
    ("constants", "a value by chance", "CAST(1 AS BIGINT)", "CAST(random() AS BIGINT)"),
    ("constants", "people's rows", LISTED, "SELECT v.pid AS c54, v.city AS c55 FROM main.people v"),
    ("constants", "people's rows beside", "v(a0, a1)", "v(a0, a1), main.people p"),
    ("constants", "a limit", "v(a0, a1)", "v(a0, a1) LIMIT 1"),
    # one relation
    ("projected", "another unit", "r.u AS u, r.c1", "r.c1 AS u, r.c1"),
    ("projected", "a computed unit", "r.u AS u, r.c1", "r.u + 1 AS u, r.c1"),
    ("projected", "the unit by cases", "r.u AS u, r.c1", "CASE WHEN r.c1 > 1 THEN r.u ELSE 1 END AS u, r.c1"),
    ("projected", "no unit", "r.u AS u, r.c1", "r.c1"),
    ("projected", "an unqualified column", "r.c1 < 2", "c1 < 2"),
    ("projected", "an output's name", "r.c1 < 2", "c3 < 2"),
    ("projected", "a random filter", "r.c1 < 2", "random() < 0.5"),
    ("projected", "a lambda", "r.c1 + 1", "list_sum(list_transform([r.c1], lambda x: x))"),
    ("projected", "columns renamed", ") r WHERE", ") r(c1, c0, u, c2) WHERE"),
    # private with private
    ("inner", "units not held equal", "l.u = r.u AND ", ""),
    ("inner", "units equal or not", "l.u = r.u AND", "l.u = r.u OR"),
    ("inner", "anything else as well", "l.c1 <= r.c11", "l.c1 <= r.c11 OR TRUE"),
    ("inner", "units that differ", "l.u = r.u", "l.u <> r.u"),
    ("inner", "not equal", "l.u = r.u", "NOT l.u = r.u"),
    ("inner", "units NULL together", "l.u = r.u", "l.u IS NOT DISTINCT FROM r.u"),
    ("inner", "equal remainders", "l.u = r.u", "l.u % 2 = r.u % 2"),
    ("inner", "another column", "l.u = r.u", "l.u = r.c11"),
    ("inner", "a unit with itself", "l.u = r.u", "l.u = l.u"),
    ("inner", "another column for the unit", "l.u AS u", "l.c1 AS u"),
    ("inner", "units in a subquery", "l.u = r.u", "l.u IN (SELECT r.u)"),
    ("inner", "as of", "l JOIN", "l ASOF JOIN"),
    ("inner", "positional", f"JOIN ({ORDERS}) r ON l.u = r.u AND l.c1 <= r.c11", f"POSITIONAL JOIN ({ORDERS}) r"),
    ("inner", "using", "ON l.u = r.u AND l.c1 <= r.c11", "USING (u)"),
    ("inner", "natural", f"l JOIN ({ORDERS}) r ON l.u = r.u AND l.c1 <= r.c11", f"l NATURAL JOIN ({ORDERS}) r"),
    ("inner", "no condition", f"JOIN ({ORDERS}) r ON l.u = r.u AND l.c1 <= r.c11", f"CROSS JOIN ({ORDERS}) r"),
    ("inner", "a comma", f"JOIN ({ORDERS}) r ON l.u = r.u AND l.c1 <= r.c11", f", ({ORDERS}) r WHERE l.u = r.u"),
    ("inner", "an inner comparison of units", "l.u = r.u", "(l.u = r.u) = (l.c1 > 0)"),
    ("inner", "a third relation", f"({ORDERS}) r ON", f"({ORDERS}) r ON l.u = r.u JOIN ({PEOPLE}) z ON"),
    ("inner", "a lateral query", f"JOIN ({ORDERS}) r", 'JOIN (SELECT t."pid" AS u, t."day" AS c11, l.c1 AS c12 FROM main."orders" t) r'),
    ("left", "the other side's unit", "l.u AS u", "r.u AS u"),
    ("left", "the other side is kept", "LEFT JOIN", "RIGHT JOIN"),
    ("left", "both sides are kept", "LEFT JOIN", "FULL JOIN"),
    ("left", "a unit of either", "l.u AS u", "coalesce(r.u, l.u) AS u"),
    ("left", "units not held equal", "l.u = r.u AND ", ""),
    ("full", "the left unit", "coalesce(l.u, r.u)", "l.u"),
    ("full", "the left unit or a column", "coalesce(l.u, r.u)", "coalesce(l.u, r.c11)"),
    ("full", "the left unit or a constant", "coalesce(l.u, r.u)", "coalesce(l.u, r.u, 1)"),
    ("full", "units not held equal", "l.u = r.u AND ", ""),
    ("semi", "units not held equal", "l.u = r.u AND ", ""),
    ("semi", "units equal or not", "l.u = r.u AND", "l.u = r.u OR"),
    ("anti", "units not held equal", "l.u = r.u AND ", ""),
    ("anti", "units equal or not", "l.u = r.u AND", "l.u = r.u OR"),
    ("joined with reached rows", "keys alone", "l.u = r.u AND (l.c10 = r.c32)", "l.c10 = r.c33"),
    # private with public
    ("inner public", "the public side's column for the unit", "l.u AS u", "r.c53 AS u"),
    ("inner public", "public rows that nobody has", "l JOIN", "l RIGHT JOIN"),
    ("inner public", "public rows that nobody has, too", "l JOIN", "l FULL JOIN"),
    ("inner public", "a private table as a public one", ZONES, 'SELECT t."city" AS c50, t."city" AS c51 FROM main."people" t'),
    ("inner public", "a private table with a unit as a public one", ZONES, 'SELECT t."pid" AS u, t."city" AS c50, t."city" AS c51 FROM main."people" t'),
    ("inner public", "a condition on others", "l.c0 = r.c50", "l.c0 = r.c50 AND l.c1 > (SELECT avg(age) FROM main.people)"),
    ("semi public", "the other way round, with a unit", f"SELECT l.u AS u, l.c1 AS c60 FROM ({PEOPLE}) l SEMI JOIN ({ZONES}) r ON l.c0 = r.c50", f"SELECT l.c53 AS u, l.c53 AS c60 FROM ({ZONES}) l SEMI JOIN ({PEOPLE}) r ON r.c0 = l.c50"),
    ("public sums", "a sum in any order", IN_ORDER.format("r.c52"), FINITE.format("r.c52")),
    ("public sums", "only some public rows", "GROUP BY r.c50", "GROUP BY r.c50 LIMIT 1"),
    ("public sums", "private rows", ZONES, 'SELECT t."city" AS c50, t."city" AS c51, t."w" AS c52, t."age" AS c53 FROM main."people" t'),
    # groups
    ("grouped", "not by the unit", "SELECT r.u AS u, r.c11 AS c60", "SELECT r.c11 AS u, min(r.u) AS c60"),
    ("grouped", "any unit of the group", "SELECT r.u AS u", "SELECT min(r.u) AS u"),
    ("grouped", "by everything", "GROUP BY r.u, r.c11", "GROUP BY ALL"),
    ("grouped", "by sets of keys", "GROUP BY r.u, r.c11", "GROUP BY GROUPING SETS ((r.u, r.c11), (r.c11))"),
    ("grouped", "with subtotals", "GROUP BY r.u, r.c11", "GROUP BY ROLLUP (r.u, r.c11)"),
    ("grouped", "by a place", "GROUP BY r.u, r.c11", "GROUP BY r.u, 2"),
    ("grouped", "with the unit last", "GROUP BY r.u, r.c11", "GROUP BY r.c11, r.u"),
    ("grouped", "reals in any order", f"sum({SORTED})", f"sum({FINITE.format('r.c12')})"),
    ("grouped", "reals in another order", f"sum({SORTED})", f"sum({FINITE.format('r.c12')} ORDER BY r.c11)"),
    ("grouped", "reals that may be NaN", f"sum({SORTED})", "sum(r.c12 ORDER BY r.c12)"),
    ("grouped", "a mean in any order", f"avg({SORTED})", f"avg({FINITE.format('r.c12')})"),
    ("grouped", "a variance", f"avg({SORTED})", "var_pop(r.c12)"),
    ("grouped", "the first", "min(r.c11)", "first(r.c12)"),
    ("grouped", "any", "min(r.c11)", "any_value(r.c12)"),
    ("grouped", "the one with the most", "min(r.c11)", "arg_max(r.c12, r.c11)"),
    ("grouped", "a list", "min(r.c11)", "list(r.c12)"),
    ("grouped", "a text of all", "min(r.c11)", "string_agg(CAST(r.c12 AS VARCHAR), ',')"),
    ("grouped", "the commonest", "min(r.c11)", "mode(r.c12)"),
    ("grouped", "the median", "min(r.c11)", "median(r.c12)"),
    ("grouped", "an approximation", "min(r.c11)", "approx_count_distinct(r.c12)"),
    ("grouped", "a quantile", "min(r.c11)", "approx_quantile(r.c12, 0.5)"),
    ("grouped", "the least of several", "min(r.c11)", "min(r.c11, 2)"),
    ("grouped", "which zero is least", "min(r.c11)", "min(r.c12)"),
    ("grouped", "an aggregate of everybody", "min(r.c11)", "sum(count(*)) OVER ()"),
    ("grouped", "a filter", "count(*) AS", "count(*) FILTER (WHERE random() < 0.5) AS"),
    ("grouped", "a limit", "r.u, r.c11", "r.u, r.c11 LIMIT 2"),
    ("grouped reals", "which zero is the key", f"{STEADY}", STEADY.replace(PLAIN.format("r.c12"), "r.c12")),
    ("grouped reals", "which zero is the key, without NaN", f"{STEADY}", STEADY.replace(PLAIN.format("r.c12"), "CASE WHEN isfinite(r.c12) THEN r.c12 END")),
    ("grouped reals", "which NaN is the key", f"{STEADY}", STEADY.replace(PLAIN.format("r.c12"), "r.c12 + CAST(0 AS DOUBLE)")),
    ("grouped reals", "a guard of something else", f"{STEADY}", STEADY.replace(PLAIN.format("r.c12"), "CASE WHEN isfinite(r.c11) THEN r.c12 + CAST(0 AS DOUBLE) END")),
    ("grouped reals", "a one for the zero", f"{STEADY}", STEADY.replace(PLAIN.format("r.c12"), "CASE WHEN isfinite(r.c12) THEN r.c12 * CAST(1 AS DOUBLE) END")),
    ("distinct", "without the unit", "r.u AS u, r.c11 AS c60", "r.c11 AS u"),
    ("distinct", "one row of each", "SELECT DISTINCT", "SELECT DISTINCT ON (r.c11)"),
    ("distinct", "one row of each unit", "SELECT DISTINCT", "SELECT DISTINCT ON (r.u)"),
    ("distinct reals", "which zero is kept", f"{STEADY}", STEADY.replace(PLAIN.format("r.c12"), "r.c12")),
    # unions
    ("union", "units in different places", "SELECT u, c30, c32", "SELECT c32, c30, u"),
    ("union", "a column for the unit", "SELECT u, c30, c32", "SELECT c32 AS u, c30, c32"),
    ("union", "the unit for a column", "c1 AS c61", "u AS c61"),
    ("union", "distinct", "UNION ALL", "UNION"),
    ("union", "by name", "UNION ALL", "UNION ALL BY NAME"),
    ("union", "without", "UNION ALL", "EXCEPT ALL"),
    ("union", "both", "UNION ALL", "INTERSECT ALL"),
    ("union", "a limit", ") r", ") r LIMIT 3"),
    ("union", "columns of two types", "u, c30, c32", "u, c32, c30"),
    ("union", "public rows", f"SELECT u, c30, c32 FROM ({ITEMS}) r", f"SELECT c53, c50, c53 FROM ({ZONES}) r"),
    # windows
    ("numbered", "over everybody", "row_number() OVER (PARTITION BY r.u ORDER", "row_number() OVER (ORDER"),
    ("numbered", "over a column", "row_number() OVER (PARTITION BY r.u ORDER", "row_number() OVER (PARTITION BY r.c13 ORDER"),
    ("numbered", "no order", EVERY_ORDER, "row_number() OVER (PARTITION BY r.u)"),
    ("numbered", "an order that is not total", f"r.c14 DESC NULLS LAST, {EVERY}", "r.c14 DESC NULLS LAST"),
    ("numbered", "a column left out of the order", f"r.c14 DESC NULLS LAST, {EVERY}", "r.c14 DESC NULLS LAST, r.c13, r.c14"),
    ("numbered", "two orders", EVERY_ORDER, OUT_OF_ORDER),
    ("numbered", "another order of the same rows", EVERY_ORDER, f"row_number() OVER (PARTITION BY r.u ORDER BY {EVERY})"),
    ("numbered", "which zero comes first", f"{STEADY}", STEADY.replace(PLAIN.format("r.c12"), "r.c12")),
    ("numbered", "a frame", f"{EVERY}) AS c62", f"{EVERY} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS c62"),
    ("numbered", "a chosen row", f"FROM ({STEADY}) r", f"FROM ({STEADY}) r QUALIFY row_number() OVER () < 3"),
    ("numbered", "the next but a column's number", "lag(r.c15, 1)", "lag(r.c15, r.c13)"),
    ("numbered", "a query for the offset", "lag(r.c15, 1)", "lag(r.c15, (SELECT count(*) FROM main.orders))"),
    ("numbered", "nulls left out", "lag(r.c15, 1)", "lag(r.c15, 1 IGNORE NULLS)"),
    ("numbered", "another unit", "r.u AS u, r.c15", "r.c13 AS u, r.c15"),
    ("ranked", "over everybody", "rank() OVER (PARTITION BY r.u ORDER", "rank() OVER (ORDER"),
    ("ranked", "everybody's count", "count(*) OVER (PARTITION BY r.u)", "count(*) OVER ()"),
    ("ranked", "a sum of reals", "sum(r.c11) OVER", "sum(r.c12) OVER"),
    ("ranked", "a mean", "sum(r.c11) OVER", "avg(r.c12) OVER"),
    ("ranked", "which zero is most", "max(r.c11) OVER", "max(r.c12) OVER"),
    ("ranked", "rows of the frame", "ORDER BY r.c11 DESC)", "ORDER BY r.c11 DESC ROWS UNBOUNDED PRECEDING)"),
    ("ranked", "without the unit", "PARTITION BY r.u, r.c10", "PARTITION BY r.c10"),
    ("ranked", "the last value", "dense_rank()", "last_value(r.c12)"),
    ("first value", "of an order that is not total", f"r.c14, {EVERY}", "r.c14"),
    ("first value", "of everybody", "PARTITION BY r.u ", ""),
    # frames
    ("framed", "over everybody", f"sum(r.c14) {FRAMED}", f"sum(r.c14) {FRAMED.replace('PARTITION BY r.u ', '')}"),
    ("framed", "over a column", f"sum(r.c14) {FRAMED}", f"sum(r.c14) {FRAMED.replace('BY r.u', 'BY r.c13')}"),
    ("framed", "an order that is not total", f"sum(r.c14) {FRAMED}", f"sum(r.c14) {FRAMED.replace(', r.c15', '')}"),
    ("framed", "no order", f"sum(r.c14) {FRAMED}", "sum(r.c14) OVER (PARTITION BY r.u ROWS BETWEEN"),
    ("framed", "another order of the same rows", f"sum(r.c14) {FRAMED}", f"sum(r.c14) {FRAMED.replace('r.c13, r.c14', 'r.c14, r.c13')}"),
    ("framed", "a sum of reals", f"sum(r.c14) {FRAMED}", f"sum(r.c15) {FRAMED}"),
    ("framed", "a mean", f"sum(r.c14) {FRAMED}", f"avg(r.c15) {FRAMED}"),
    ("framed", "a list", f"sum(r.c14) {FRAMED}", f"list(r.c14) {FRAMED}"),
    ("framed", "a second value", f"sum(r.c14) {FRAMED}", f"nth_value(r.c14, 2) {FRAMED}"),
    ("framed", "a frame of peers", f"count(*) {FRAMED}", f"count(*) {FRAMED.replace('ROWS', 'GROUPS')}"),
    ("framed", "a range", f"count(*) {FRAMED} 3 PRECEDING AND 1 PRECEDING", "count(*) OVER (PARTITION BY r.u ORDER BY r.c13 RANGE BETWEEN 3 PRECEDING AND 1 PRECEDING"),
    ("framed", "as many rows as a query says", f"count(*) {FRAMED} 3 PRECEDING", f"count(*) {FRAMED} (SELECT count(*) FROM main.orders) PRECEDING"),
    ("framed", "rows left out", "AND 1 PRECEDING)", "AND 1 PRECEDING EXCLUDE TIES)"),
    ("framed", "nulls left out", "last_value(r.c15)", "last_value(r.c15 IGNORE NULLS)"),
    ("framed", "a condition", f"count(*) {FRAMED}", f"count(*) FILTER (WHERE random() < 0.5) {FRAMED}"),
    ("framed", "which zero comes last", f"{STEADY}", STEADY.replace(PLAIN.format("r.c12"), "r.c12")),
    # subqueries in place of values
    ("a value of the unit's rows", "units not held equal", "ON l.u = r.u", "ON TRUE"),
    ("a value of the unit's rows", "another column", "ON l.u = r.u", "ON l.c11 = r.c71"),
    ("a value of the unit's rows", "of everybody", f"({OF_A_UNIT}) r ON l.u = r.u", f"({OF_A_UNIT.replace('r.u AS u, ', '').replace(' GROUP BY r.u', '')}) r ON TRUE"),
    ("a value of the unit's rows", "of everybody with one u", f"({OF_A_UNIT})", f"({OF_A_UNIT.replace('r.u AS u', 'min(r.u) AS u').replace(' GROUP BY r.u', '')})"),
    ("a value of the unit's rows", "reals in any order", f"avg({SORTED})", "avg(r.c12)"),
    ("a value of the unit's rows", "the other's unit", "l.u AS u", "r.u AS u"),
    ("a public value", "of private rows", f"{OF_ALL_ZONES}", 'SELECT count(*) AS c71, max(r.c50) AS c72 FROM (SELECT t."age" AS c50 FROM main."people" t) r'),
    ("a public value", "of people's rows", f"{OF_ALL_ZONES}", f"SELECT count(*) AS c71, max(r.c1) AS c72 FROM ({PEOPLE}) r"),
    ("a public value", "reals in any order", IN_ORDER.format("r.c52"), FINITE.format("r.c52")),
    ("a public value", "some zones", f"FROM ({ZONES}) r)", f"FROM ({ZONES}) r USING SAMPLE 50%)"),
    ("a public value", "from the public side", "LEFT JOIN", "FULL JOIN"),
    ("a value by what is around", "units not held equal", "r.u AND l.c11 IS", "r.u OR l.c11 IS"),
    ("a value by what is around", "strangers among the rows", "ON l.u = r.u AND r.c14 < l.c70", "ON r.c14 < l.c70"),
    ("a value by what is around", "grouped over people", "GROUP BY r.u, r.c73", "GROUP BY r.c73, r.u"),
    ("a value by what is around", "one of everybody's values around", "SELECT DISTINCT r.u AS u, r.c11", "SELECT DISTINCT ON (r.c11) r.u AS u, r.c11"),
    ("rows that are there as often", "units not held equal", "ON l.u = r.u AND l.c75", "ON l.c75"),
    ("rows that are there as often", "numbered over everybody", "PARTITION BY r.u, r.c14", "PARTITION BY r.c14"),
    ("rows that are there as often", "an order that is not total", f"ORDER BY {EVERY}", "ORDER BY r.c13"),
]  # fmt: skip
"""Name of a text, what is done to it, what is replaced, and by what."""
