"""Texts that two readers take for different things: the database shows that it is so, and they are refused."""

from __future__ import annotations

import pytest
import sqlglot

from discreet.backends.connection import open_database
from discreet.verify.plain import ambiguity
from tests.verify.asked import SEVERAL, SINGLE, ask, plain, session

OTHERWISE = {
    "names by case": ('WITH a AS (SELECT 7 AS "M0", 1 AS m0) SELECT sum(m0) FROM a', 7),
    "an invisible join": ("WITH a AS (SELECT 1 AS m0) SELECT sum(m0) FROM a AS x\u200bCROSS\u200bJOIN\u200bunits", 3),
    "digits of another script": ('WITH a AS (SELECT 9 AS "\u0663") SELECT least(20, \u0663) FROM a', 9),
    "an escape": ("SELECT e'\\' OR 1 = '", "' OR 1 = "),
    "text between dollars": ("SELECT $x$ ' $x$", " ' "),
    "underscores in a number": ("SELECT 1_0", 10),
}
"""Texts, and what the database makes of them."""


@pytest.mark.parametrize("what", OTHERWISE)
def test_what_the_database_reads_otherwise_is_refused(what: str) -> None:
    text, value = OTHERWISE[what]
    with open_database() as database:
        database.execute("CREATE TABLE units AS FROM range(3) t(id)")
        assert database.execute(text).fetchall() == [(value,)]
    assert ambiguity(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 -- a",
        "SELECT /* a */ 1",
        "SELECT 1 {# a #}",
        "SELECT 1; SELECT 2",
        "SELECT x'41'",
        "SELECT $1",
        "SELECT $secret$a$secret$",
        "SELECT 1.2.3",
        "SELECT 12ab",
        f"SELECT {'9' * 5000}",
        "SELECT 1e5000",
        "SELECT 'a'b",
        "SELECT 'a",
        'SELECT ""',
        "SELECT 1\t",
        "SELECT 1 <=- 2",
        "SELECT a ->> b",
        "SELECT a[1]",
        "SELECT 'a\0'",
        "SELECT (",
        "SELECT 1 AS a, 2 AS A",
        "SELECT a.x FROM t AS a JOIN t AS A ON a.x = A.x",
        "WITH a AS (SELECT 1 AS x), A AS (SELECT 2 AS x) SELECT x FROM a",
        "WITH b AS (SELECT x FROM a), a AS (SELECT 1 AS x) SELECT x FROM b",
        "WITH a AS (SELECT x FROM a) SELECT x FROM a",
    ],
)
def test_a_form_that_no_statement_needs_is_refused(text: str) -> None:
    assert ambiguity(text) is not None


def test_what_is_quoted_may_be_anything() -> None:
    text = """SELECT s."a ""-- \u200b é" AS x, '{# it''s -- \u200b $x$ ' AS y FROM main."T 1" s WHERE s.n <= -1.5e-3"""
    assert sqlglot.parse_one(text, dialect="duckdb") is not None
    assert ambiguity(text) is None


@pytest.mark.exhaustive
@pytest.mark.sampled(9)
@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", [*SINGLE, *SEVERAL])
def test_the_statements_of_honest_certificates_are_plain(name: str) -> None:
    several = name in SEVERAL
    sql, options = (SEVERAL if several else SINGLE)[name]
    claim = plain(ask(session("add-remove", several), sql, options).certificate())["claim"]
    texts = [look["sql"] for look in claim["looks"]]
    for m in claim["measurements"]:
        texts += [m["sql"], *m["truncation"], *(own for _, own in m["distinct"]), *(t["sql"] for t in m["trees"])]
    assert any(texts)
    assert [ambiguity(text) for text in texts if text] == [None] * sum(map(bool, texts))
