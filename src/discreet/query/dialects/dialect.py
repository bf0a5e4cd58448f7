"""Queries as other databases spell them.

The text is read by the grammar of its database and written as DuckDB reads it. A part of the language stands here
only where it is known to mean the same, or how its meaning is said in the other spelling. Everything else is refused by
name, so nothing changes its meaning silently. Three things hold for all: an error on a row is NULL on that row, whole
numbers have 64 bits and other numbers are doubles, and texts compare by their code points. Settings of a session are
taken at their defaults (Snowflake's WEEK_START and WEEK_OF_YEAR_POLICY).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

from sqlglot import exp, parse, parse_one
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokens import Tokenizer

from discreet.catalog.schema import TableSchema
from discreet.errors import InvalidParameter, UnsupportedQuery
from discreet.pages import page
from discreet.query.dialects.functions import NEUTRAL, PASSED, RULES
from discreet.query.dialects.kinds import Kinds
from discreet.query.parse import LONGEST, check_calls, check_size

DIALECTS = ("duckdb", "postgres", "bigquery", "snowflake", "spark")
"""Spellings that are understood."""

NAMES = {"postgres": "PostgreSQL", "bigquery": "BigQuery", "snowflake": "Snowflake", "spark": "Spark"}


def as_duckdb(sql: Any, dialect: object, tables: Sequence[TableSchema]) -> Any:
    """Return the same query as DuckDB spells it.

    Raises:
        InvalidParameter: no dialect of that name.
        UnsupportedQuery: a part whose meaning there is not, or not surely, one that can be said here.
    """
    if not isinstance(dialect, str) or dialect not in DIALECTS:
        raise InvalidParameter(
            f"dialect must be one of {', '.join(DIALECTS)}, not {dialect!r:.40}.", hint="dialect='postgres'"
        )
    if dialect == "duckdb" or not isinstance(sql, str):
        return sql
    if not 0 < len(sql) <= LONGEST:
        return sql  # the reader of questions says what is wrong with it
    try:
        check_calls(Dialect.get_or_raise(dialect).tokenize(sql))
        trees = [t for t in parse(sql, dialect=dialect, error_level=ErrorLevel.RAISE) if t is not None]
    except UnsupportedQuery:
        raise
    except RecursionError:
        raise UnsupportedQuery("The query nests too deeply to be read.", hint="write it flatter") from None
    except Exception:  # on some broken texts the parser itself breaks; nothing has been read yet
        raise UnsupportedQuery(
            f"The SQL cannot be read as {NAMES[dialect]}.", hint="check quotes, commas and brackets"
        ) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Select | exp.SetOperation):
        return sql  # refused by the reader of questions: not one SELECT
    check_size(trees[0], twice=(exp.Least, exp.Greatest))
    try:
        tree = Reader(dialect, tables, trees[0]).read(trees[0])
        return _written(tree, dialect)
    except RecursionError:
        raise UnsupportedQuery("The query nests too deeply to be read.", hint="write it flatter") from None
    except (AttributeError, KeyError, TypeError, ValueError):  # a node of a shape that no rule foresaw
        _refuse_doubt(dialect)


class Reader:
    """One query, node by node, from another dialect to DuckDB's."""

    def __init__(self, dialect: str, tables: Sequence[TableSchema], tree: exp.Expr) -> None:
        self.dialect = dialect
        self.kinds = Kinds(dialect, tables, tree)
        self._columns = [c for t in tables for c in t.columns]
        self._folded = {c.lower() for c in self._columns}

    def read(self, node: exp.Expr) -> exp.Expr:
        """Return the node as DuckDB's parser would give it."""
        rule = RULES.get(type(node))
        if rule is not None:
            return rule(node, self)
        if type(node) in PASSED:
            return node.copy()
        if type(node) not in NEUTRAL:
            self.refuse(node)
        return self.rebuilt(node)

    def rebuilt(self, node: exp.Expr) -> exp.Expr:
        """Return the same node with its parts read; a part that is not known is refused."""
        allowed, marks = NEUTRAL[type(node)]
        parts = {k: v for k, v in node.args.items() if v and k not in marks}
        if isinstance(node, exp.Join) and node.kind in ("SEMI", "ANTI") and node.side == "LEFT":
            del parts["side"]  # there is no other
        if not parts.keys() <= allowed:
            self.refuse(node)
        match node:
            case exp.Select():
                self._check_names(node)
            case exp.Column():
                self._check_column(node)
            case exp.Identifier():
                return _identifier(node)
            case exp.Literal() | exp.Boolean():
                return node.copy()
        made = type(node)(**{k: self._part(v) for k, v in parts.items()})
        if isinstance(node, exp.Union):
            # what is not set is UNION, and not UNION ALL
            made.set("distinct", bool(node.args.get("distinct")))
        return made

    def _part(self, value: object) -> object:
        if isinstance(value, list):
            return [self._part(v) for v in value]
        return self.read(value) if isinstance(value, exp.Expr) else value

    def refuse(self, node: exp.Expr, why: str = "", hint: str = "") -> Never:
        """Refuses a part by its text, with the way round."""
        text = " ".join(node.sql(dialect=self.dialect, comments=False, unsupported_level=ErrorLevel.IGNORE).split())
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise UnsupportedQuery(
            f"{NAMES[self.dialect]}'s {shown} {why or 'has no reading here that is known to mean the same'}.",
            hint=hint
            or f"write it in DuckDB's dialect (leave dialect out); {page('sql-reference')} lists supported SQL",
        )

    def _check_names(self, select: exp.Select) -> None:
        """Databases differ on what a name in HAVING or ORDER BY means that is an output's and a column's; in WHERE and
        GROUP BY it is the column's in all of them but BigQuery.
        """
        outputs = {
            e.alias.lower()
            for e in select.expressions
            if isinstance(e, exp.Alias)
            and not (isinstance(e.this, exp.Column) and e.this.name.lower() == e.alias.lower())
        }
        for clause in ("having", "qualify", "order", *(["group"] if self.dialect == "bigquery" else [])):
            part = select.args.get(clause)
            for column in part.find_all(exp.Column) if part is not None else ():
                if not column.table and column.name.lower() in outputs & self._folded:
                    word = {"group": "GROUP BY", "order": "ORDER BY"}.get(clause, clause.upper())
                    raise UnsupportedQuery(
                        f"{column.name!r:.60} is both a column and an output's name; databases differ on which of them "
                        f"{word} means.",
                        hint="give the output another name with AS",
                    )

    def _check_column(self, column: exp.Column) -> None:
        """Databases differ on which of two columns a name means that upper and lower case alone tell apart."""
        alike = {c for c in self._columns if c.lower() == column.name.lower()}
        if len(alike) > 1 and not (column.this.args.get("quoted") and column.name in alike):
            raise UnsupportedQuery(
                f"{column.name!r:.60} fits {len(alike)} columns, upper and lower case aside.",
                hint="write the one that is meant in double quotes, and ask in DuckDB's dialect",
            )


def _identifier(node: exp.Identifier) -> exp.Identifier:
    """Quoted only where DuckDB needs it."""
    name = node.name
    plain = name.isascii() and name.isidentifier() and name.upper() not in _WORDS
    return exp.Identifier(this=name, quoted=not plain)


_WORDS = frozenset(word.strip() for word in Tokenizer.KEYWORDS)


def _written(tree: exp.Expr, dialect: str) -> str:
    text = written(tree)
    if text is None:
        _refuse_doubt(dialect)
    return text


def written(tree: exp.Expr) -> str | None:
    """Return the text that DuckDB's grammar reads as this very tree; None where there is none."""
    try:
        text = tree.sql(dialect="duckdb", comments=False, unsupported_level=ErrorLevel.RAISE)
        again = parse_one(text, dialect="duckdb", error_level=ErrorLevel.RAISE)
    except SqlglotError:
        return None
    return text if _plain(again) == _plain(tree.copy()) else None


def _refuse_doubt(dialect: str) -> Never:
    raise UnsupportedQuery(
        f"This query cannot be carried over from {NAMES[dialect]}'s spelling without a doubt.",
        hint="ask in DuckDB's dialect (leave dialect out)",
    )


def _plain(tree: exp.Expr) -> exp.Expr:
    """Take off the marks that a parser leaves for writers, and write functions that are only names as such."""
    for node in list(tree.walk()):
        for mark in _MARKS.intersection(node.args):
            node.set(mark, None)
        match node:
            case exp.Ordered():
                node.set("nulls_first", bool(node.args.get("nulls_first")) or None)
            case exp.DateTrunc():
                node.replace(exp.TimestampTrunc(this=node.this, unit=exp.Var(this=node.args["unit"].name)))
            case exp.ToChar():
                node.replace(exp.Anonymous(this="TO_CHAR", expressions=[node.this, node.args["format"]]))
            case exp.ApproxQuantiles():
                node.replace(exp.Anonymous(this="APPROX_QUANTILES", expressions=[node.this, node.expression]))
            case exp.LogicalOr():
                node.replace(exp.Anonymous(this="BOOL_OR", expressions=[node.this]))
            case exp.LogicalAnd():
                node.replace(exp.Anonymous(this="BOOL_AND", expressions=[node.this]))
    return tree


_MARKS = frozenset(
    (
        *("safe", "typed", "big_int", "ignore_nulls", "coalesce", "nested", "quoted"),
        *("zero_on_all_null", "null_if_pos_overflow"),
    )
)
