"""The final SQL as a tree. It is read by a library that shares nothing with what has written it."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from discreet.rederive.shapes import disagree, too_deep


def read(sql: str) -> exp.Expr:
    """The statement's tree.

    Raises:
        InternalError: it is no statement.
        UnsupportedQuery: it nests too deeply.
    """
    try:
        return sqlglot.parse_one(sql, dialect="duckdb")
    except RecursionError:
        too_deep()
    except SqlglotError:
        disagree("the shape of the query")
