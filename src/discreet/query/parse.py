"""From text to a checked SELECT: one statement, known clauses only; every other construct is refused by name.

No part is silently dropped: one that no rule below knows is an error, so a new parser feature cannot be
dropped silently. A query whose parts would be read again and again is refused before they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Never, TypeVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError

from discreet.errors import InvalidParameter, UnknownColumn, UnsupportedQuery
from discreet.query.grouping_sets import Nodes, grouping_sets
from discreet.query.over_everybody import with_aggregates
from discreet.query.spelling import SAID, respelled

_T = TypeVar("_T")
_DUCKDB = Dialect.get_or_raise("duckdb")

LONGEST = 100_000
"""Characters in a query; longer ones are refused before they are parsed."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """One term of ORDER BY."""

    by: exp.Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class Select:
    """The parts of a supported SELECT, still as syntax.

    `table` is the one table that it reads, and None where it reads several, or a subquery: then `tree` has them.
    """

    tree: exp.Select
    table: str | None
    alias: str
    items: tuple[tuple[str | None, exp.Expr], ...]
    where: exp.Expr | None
    group: tuple[exp.Expr, ...] | None
    having: exp.Expr | None
    order: tuple[Ordering, ...]
    limit: int | None
    offset: int
    sets: tuple[Nodes, ...] | None = None
    said: tuple[str, ...] = ()
    """A sentence for each part that was read as something else than it is written as."""


@dataclass(frozen=True, slots=True)
class Inner:
    """The clauses of a subquery beside FROM, WHERE and its columns."""

    group: tuple[exp.Expr, ...] | None
    having: exp.Expr | None
    qualify: exp.Expr | None
    distinct: bool


FED_BACK = "dp_fed"
"""Function that stands for a result in the text of what reads it; only the planner writes it (`split.py`)."""


def is_fed(node: exp.Expr) -> bool:
    """Whether a node stands for a result that is fed back into people's rows."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == FED_BACK


def parse_select(sql: str, tables: Sequence[str] = (), *, fed: bool = False) -> Select:
    """Return the one SELECT of a query, which may name these tables with their schemas.

    Args:
        sql: the query.
        tables: the names of the connected tables.
        fed: whether the planner wrote the text, in which results may be fed back.

    Raises:
        UnsupportedQuery: not one SELECT, or one with a construct that is not supported.
        UnknownColumn: a function that only the planner writes.
    """
    query, said = read_text(sql, tables)
    if not fed and any(map(is_fed, query.find_all(exp.Anonymous))):
        raise UnknownColumn(f"There is no function {FED_BACK!r} here.", hint="write the subquery itself")
    if not isinstance(query, exp.Select):
        raise UnsupportedQuery(
            "UNION, INTERSECT and EXCEPT of these rows are not supported here: they are of people.",
            hint="aggregate on each side, or leave ALL out, so that each row is a group",
        )
    tree = query
    for source in [tree.args.get("from_"), *(tree.args.get("joins") or [])]:
        if source is not None and source.this.args.get("pivots"):
            refuse_beside(source.this, "pivots")
    _refuse_windows_of_rows(tree)
    _group_distinct(tree)
    for name, part in tree.args.items():
        if part and name not in _KNOWN:
            refuse_part(name)
    table, alias = _table(tree)
    return Select(
        tree,
        table,
        alias,
        tuple(_item(e) for e in tree.expressions),
        tree.args["where"].this if tree.args.get("where") else None,
        group_of(tree),
        tree.args["having"].this if tree.args.get("having") else None,
        tuple(_ordering(o) for o in tree.args["order"].expressions) if tree.args.get("order") else (),
        _number(tree, "limit", "LIMIT"),
        _number(tree, "offset", "OFFSET") or 0,
        sets_of(tree),
        said,
    )


def read_text(sql: str, tables: Sequence[str] = ()) -> tuple[exp.Query, tuple[str, ...]]:
    """Return the query of a text, in which windows over everybody are the aggregates that they mean, and a sentence for
    each part that was read as something else than it is written as.

    Raises:
        UnsupportedQuery: as `parse_query`.
    """
    if not isinstance(sql, str):
        parse_query(sql)
    query, said = _read_text(sql, tuple(tables))
    return query.copy(), said


@lru_cache(maxsize=4)  # a text is read as a question, then as one over results, and again when it is asked
def _read_text(sql: str, tables: tuple[str, ...]) -> tuple[exp.Query, tuple[str, ...]]:
    query = parse_query(sql, tables)
    tree, said = with_aggregates(query)
    return tree, (*dict.fromkeys(query.meta.get(SAID, ())), *said)


def columns_named(sql: str) -> list[str]:
    """Return the names of the columns that a query reads or shows, each once, in lower case.

    Raises:
        UnsupportedQuery: as `parse_select`.
    """
    return list(dict.fromkeys(c.name.lower() for c in parse_select(sql).tree.find_all(exp.Column)))


def inner_parts(tree: exp.Select) -> Inner:
    """Return the clauses of a subquery.

    Raises:
        UnsupportedQuery: a clause that is not supported inside.
    """
    for name, part in tree.args.items():
        if part and name in ("limit", "offset"):
            raise UnsupportedQuery(
                f"{name.upper()} would choose among people's rows inside a subquery.",
                hint="leave it out; or QUALIFY row_number() OVER (PARTITION BY unit ORDER BY …) = 1",
            )
        if part and name not in KNOWN_INSIDE:
            refuse_part(name)
    if sets_of(tree) is not None:
        raise UnsupportedQuery(
            "ROLLUP, CUBE and GROUPING SETS are not supported inside a subquery.",
            hint="group by plain columns there; totals belong to the outermost SELECT",
        )
    distinct = tree.args.get("distinct")
    return Inner(
        group_of(tree),
        tree.args["having"].this if tree.args.get("having") else None,
        tree.args["qualify"].this if tree.args.get("qualify") else None,
        distinct is not None,
    )


def group_nodes(
    items: Sequence[tuple[str | None, exp.Expr]],
    group: Sequence[exp.Expr] | None,
    is_column: Callable[[exp.Column], bool] = lambda _: False,
) -> list[exp.Expr]:
    """GROUP BY's expressions, with ordinals and output names replaced by what they stand for.

    A name that is a column of the rows as well is that column, as in DuckDB; where DuckDB refuses that, since the
    output of the name does not follow from the columns, it is the output.
    """
    named = {n.lower(): e for n, e in items if n}
    nodes: list[exp.Expr] = []
    for e in group or ():
        match e:
            case exp.Literal(is_string=False):
                if not e.name.isdigit() or not 1 <= int(e.name) <= len(items):
                    raise UnsupportedQuery(f"GROUP BY {e.name} names no output column.", hint="use 1 for the first")
                e = items[int(e.name) - 1][1]
            case exp.Column(table="") if e.name.lower() in named:
                output = named[e.name.lower()]
                follows = output in (group or ()) or any(
                    c.name.lower() == e.name.lower() for c in output.find_all(exp.Column)
                )
                if not (follows and is_column(e)):
                    e = output
        nodes.append(e)
    return nodes


def with_earlier_names(
    items: Sequence[tuple[str | None, _T]], is_column: Callable[[exp.Column], bool]
) -> list[tuple[str | None, _T]]:
    """Return output columns in which the name of an earlier one, that is no column, is what it stands for."""
    named: dict[str, exp.Expr] = {}
    found: list[tuple[str | None, _T]] = []
    for name, e in items:
        made = e
        if named and isinstance(e, exp.Expr) and e.name.lower() not in ENDS:
            used = [c for c in e.find_all(exp.Column) if not c.table and c.name.lower() in named and not is_column(c)]
            if used:
                root = exp.Paren(this=e.copy())
                for c in [c for c in root.find_all(exp.Column) if c in used]:
                    c.replace(exp.Paren(this=named[c.name.lower()].copy()))
                made = root.this
        if name and isinstance(made, exp.Expr):
            named.setdefault(name.lower(), made)
        found.append((name, made))
    return found


def default_name(node: exp.Expr, place: int) -> str:
    """Return what an output column is called when it was given no name."""
    if isinstance(node, exp.Column):
        return node.name
    text = node.sql(dialect="duckdb", comments=False, unsupported_level=ErrorLevel.IGNORE).lower()
    return text if len(text) <= 40 else f"column_{place + 1}"


def refuse_beside(table: exp.Expr, part: str) -> Never:
    """Refuses what stands beside a table in FROM.

    Raises:
        UnsupportedQuery: always.
    """
    what, hint = _BESIDE.get(part, (f"a part that is not supported: {part}", "name just the table"))
    raise UnsupportedQuery(f"FROM {(table.name or table.alias)!r} has {what}.", hint=hint)


_KNOWN = {
    *("expressions", "from_", "joins", "laterals", "with_"),
    *("where", "group", "having", "order", "limit", "offset"),
}
KNOWN_INSIDE = {
    *("expressions", "from_", "joins", "laterals", "with_"),
    *("where", "group", "having", "qualify", "distinct", "windows"),
    "order",  # which puts rows in no order that anything outside could see, without LIMIT
}
_REFUSED = {
    "qualify": ("QUALIFY is not supported here.", "filter the result with HAVING, or people's rows in a subquery"),
    "windows": (
        "A WINDOW clause is not supported here.",
        "in a subquery, write the window where it is used: OVER (PARTITION BY the unit …)",
    ),
    "sample": ("Sampling is not supported here.", "ask about the whole table; privacy does not need the sample"),
    "into": ("SELECT INTO is not supported here: a query only reads.", "keep the Release that sql() returns"),
    "locks": ("FOR UPDATE is not supported here: a query only reads.", "leave it out"),
    "pivots": ("PIVOT is not supported here.", "group by the column instead"),
}


_ONLY_SELECT = "Only SELECT is supported: a query reads the table and changes nothing."
_BESIDE = {
    "db": (
        "a schema before it that is not connected",
        "name the table alone, or as schema.table where it is connected so",
    ),
    "catalog": ("a database before it", "name the table alone: system tables and other databases are not connected"),
    "sample": ("a sample", "ask about the whole table; privacy does not need the sample"),
    "when": ("a version", "connect the version of the data that is meant, with version= as its label"),
    "version": ("a version", "connect the version of the data that is meant, with version= as its label"),
    "pivots": ("a PIVOT", "group by the column instead"),
    "joins": ("a join inside", "leave the brackets out"),
}


def parse_query(sql: object, tables: Sequence[str] = ()) -> exp.Query:
    """Return the one SELECT of a text, or those that UNION and the like put together, as it is written.

    Raises:
        UnsupportedQuery: anything else.
    """
    if not isinstance(sql, str):
        raise InvalidParameter(
            f"the query must be text, not {type(sql).__name__}.", hint='sql("SELECT COUNT(*) FROM my_table", …)'
        )
    if not sql.strip():
        raise UnsupportedQuery("The query is empty.", hint="write a SELECT, such as SELECT COUNT(*) FROM my_table")
    if len(sql) > LONGEST or "\0" in sql or any("\ud800" <= c <= "\udfff" for c in sql):
        raise UnsupportedQuery(
            f"The query is longer than {LONGEST} characters, or holds a character that no text has.",
            hint="shorten it; NUL and lone surrogates cannot be stored",
        )
    tokens = _one_select(sql)
    try:
        parser = _DUCKDB.parser(error_level=ErrorLevel.RAISE)
        statements = [s for s in parser.parse(tokens, sql) if s is not None]
    except RecursionError:
        raise UnsupportedQuery("The query nests too deeply to be read.", hint="write it flatter") from None
    except Exception as error:  # on some broken texts the parser itself breaks; nothing has been read yet
        raise UnsupportedQuery(
            f"The SQL cannot be read{_place(error)}.", hint="check quotes, commas and brackets"
        ) from None
    tree = statements[0]
    keep_words(tree, tokens)
    if not isinstance(tree, exp.Select | exp.SetOperation):
        raise UnsupportedQuery(_ONLY_SELECT, hint="write one SELECT, without brackets around it")
    kinds = check_size(tree)
    if not kinds.isdisjoint(RESPELLED) or any(t.args.get("db") for t in tree.find_all(exp.Table)):
        respelled(tree, tables)
    return tree


def _one_select(sql: str) -> list[Token]:
    """Return the tokens, of one SELECT by its first words; anything else, and more than one statement, is refused."""
    try:
        tokens = _DUCKDB.tokenize(sql)
    except (SqlglotError, RecursionError, IndexError):
        raise UnsupportedQuery(
            "The SQL cannot be read.", hint="check quotes, brackets and comments: one is not closed"
        ) from None
    if any(t.token_type is TokenType.NUMBER and _HUGE.search(t.text) for t in tokens):  # whose digits fill the memory
        raise UnsupportedQuery(
            "A number of the query has an exponent beyond 999, and no value is so large or so small.",
            hint="write a number between 1e-300 and 1e300",
        )
    starts = [
        t for before, t in pairwise([None, *tokens]) if before is None or before.token_type is TokenType.SEMICOLON
    ]
    first = [t for t in starts if t is not None and t.token_type is not TokenType.SEMICOLON]
    if not first:
        raise UnsupportedQuery("The query is empty.", hint="write a SELECT, such as SELECT COUNT(*) FROM my_table")
    if len(first) > 1:
        raise UnsupportedQuery(
            f"One query at a time: this text holds {len(first)} statements.", hint="call sql() for each"
        )
    if first[0].text.upper() in ("SELECT", "FROM", "WITH", "TABLE", "VALUES", "("):
        return tokens
    if first[0].token_type is TokenType.VAR:  # no word of SQL
        raise UnsupportedQuery(
            f"The SQL cannot be read: it begins with {first[0].text!r:.40}.", hint="begin with SELECT"
        )
    raise UnsupportedQuery(_ONLY_SELECT, hint="begin with SELECT")


_HUGE = re.compile(r"[eE][+-]?0*[1-9][0-9]{3}")


def refuse_part(name: str) -> Never:
    """Refuses a clause by its name.

    Raises:
        UnsupportedQuery: always.
    """
    word = name.strip("_").upper()
    reason, hint = _REFUSED.get(name, (f"{word} is not supported here.", "leave it out"))
    raise UnsupportedQuery(reason, hint=hint)


def _place(error: Exception) -> str:
    found = getattr(error, "errors", None) or [{}]
    line, near = found[0].get("line"), re.sub(r"\s+", " ", str(found[0].get("highlight") or ""))[:40]
    return f" in line {line}, near {near!r}" if line and near else ""


def _table(tree: exp.Select) -> tuple[str | None, str]:
    """Return the one table that a query without joins and subqueries reads."""
    source = tree.args.get("from_")
    if source is None:
        raise UnsupportedQuery("The query names no table.", hint="add FROM and the table's name")
    table = source.this
    several = any(tree.args.get(part) for part in ("joins", "laterals", "with_"))
    if several or sum(1 for _ in tree.find_all(exp.Select, exp.Subquery)) > 1:
        return None, ""
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise UnsupportedQuery(
            "FROM takes the name of a connected table, nothing else (no files, functions or VALUES).",
            hint="connect the file first; its table is named by the file's stem",
        )
    for name, part in table.args.items():
        if part and name not in ("this", "alias"):
            refuse_beside(table, name)
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return None, ""
    return table.name, table.alias or table.name


def _item(e: exp.Expr) -> tuple[str | None, exp.Expr]:
    match e:
        case exp.Star() | exp.Column(this=exp.Star()):
            raise UnsupportedQuery(
                "SELECT * would release the rows of people.", hint="ask for aggregates: COUNT(*), SUM(x), AVG(x)"
            )
        case exp.Aliases():
            raise UnsupportedQuery("One name for each output column.", hint="write expression AS name")
        case exp.Alias():
            return e.alias, e.this
    return None, e


def group_of(tree: exp.Select) -> tuple[exp.Expr, ...] | None:
    """Return the expressions of GROUP BY as they are written, those of all grouping sets; None without GROUP BY."""
    group = tree.args.get("group")
    if group is None:
        return None
    if group.args.get("all"):
        if group.expressions:
            raise UnsupportedQuery(
                "GROUP BY ALL takes nothing beside it.", hint="write GROUP BY ALL alone, or all groups by name"
            )
        places = [i for i, e in enumerate(tree.expressions, start=1) if not has_aggregate(e)]
        return tuple(exp.Literal.number(i) for i in places) or None
    for name, part in group.args.items():
        if part and name != "expressions":
            raise UnsupportedQuery(
                f"GROUP BY … WITH {name.upper()} is not supported here.", hint="write GROUP BY ROLLUP (a, b)"
            )
    sets = grouping_sets(group.expressions)
    return tuple(group.expressions) if sets is None else tuple(e for s in sets for e in s)


def _refuse_windows_of_rows(tree: exp.Select) -> None:
    """Refuse windows beside each row, where nothing is aggregated."""
    windows = [e for e in (i.unalias() for i in tree.expressions) if type(e) is exp.Window and has_aggregate(e.this)]
    if not windows or any(tree.args.get(part) for part in ("group", "having", "distinct", "qualify")):
        return
    rest = [i.unalias() for i in tree.expressions if type(i.unalias()) is not exp.Window]
    if any(map(has_aggregate, rest)) or any(has_aggregate(a) for w in windows for a in w.this.iter_expressions()):
        return
    keys = ", ".join(e.sql("duckdb") for e in windows[0].args.get("partition_by") or [])
    shown = f"{keys}, " if keys else ""
    raise UnsupportedQuery(
        "Windows over people's rows are beside each single row, and single rows are never released.",
        hint=f"one row for each group: SELECT {shown}{windows[0].this.sql('duckdb')} FROM …"
        + (f" GROUP BY {keys}" if keys else ""),
    )


def _group_distinct(tree: exp.Select) -> None:
    """Read the outermost SELECT DISTINCT as GROUP BY its columns."""
    distinct = tree.args.get("distinct")
    if distinct is None:
        return
    if distinct.args.get("on"):
        raise UnsupportedQuery(
            "SELECT DISTINCT ON is not supported here.",
            hint="GROUP BY; or in a subquery, QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) = 1",
        )
    items = [(e.alias or None, e.unalias()) for e in tree.expressions]
    shown = [e for _, e in items]
    group = tree.args.get("group")
    counted = any(has_aggregate(e) for e in (*shown, *(tree.args[c] for c in ("having", "order") if tree.args.get(c))))
    if group is None and counted:  # one row
        tree.set("distinct", None)
        return
    plain = group is None or not any(part for name, part in group.args.items() if name != "expressions")
    if group is not None and plain and all(e in shown for e in group_nodes(items, group.expressions)):
        tree.set("distinct", None)  # each row has a key of its own
        return
    if counted or not plain:
        raise UnsupportedQuery(
            "SELECT DISTINCT over groups whose keys are not all shown is not supported here.",
            hint="show all keys of GROUP BY, or leave DISTINCT out",
        )
    tree.set("distinct", None)
    keys = [e.copy() for e in shown if not isinstance(e, exp.Literal | exp.Null | exp.Boolean)]
    tree.set("group", exp.Group(expressions=keys))


def sets_of(tree: exp.Select) -> tuple[Nodes, ...] | None:
    """Return the grouping sets of ROLLUP, CUBE and GROUPING SETS; None where there are none."""
    group = tree.args.get("group")
    sets = None if group is None else grouping_sets(group.expressions)
    return None if sets is None or len(sets) == 1 else sets


def _ordering(o: exp.Expr) -> Ordering:
    if not isinstance(o, exp.Ordered) or o.args.get("with_fill"):
        raise UnsupportedQuery("This form of ORDER BY is not supported here.", hint="write ORDER BY column [DESC], …")
    descending = bool(o.args.get("desc"))
    return Ordering(o.this, descending, bool(o.args.get("nulls_first")))


def _number(tree: exp.Select, clause: str, word: str) -> int | None:
    node = tree.args.get(clause)
    if node is None:
        return None
    e = node.args.get("expression")
    extras = [k for k, v in node.args.items() if v and k != "expression"]
    number = whole_number(e)
    if extras or number is None:
        raise UnsupportedQuery(f"{word} takes a whole number.", hint=f"write {word} 10")
    return number


def whole_number(node: object, digits: int = 18) -> int | None:
    """Return a whole number from 0 on that is written out in so many digits at most; None for anything else."""
    match node:
        case exp.Literal(is_string=False, name=name) if name.isdigit() and len(name) <= digits:
            return int(name)
        case _:
            return None


MOST_NODES = 20_000
"""Nodes that a query may have more when it is read than when it is written."""

_NESTED = 6
"""How often a call may stand inside itself of which the parser copies the arguments."""

_COPIED = frozenset({"DIV0", "DIV0NULL"})


RESPELLED = frozenset(
    {exp.Anonymous, exp.ApproxDistinct, exp.Between, exp.Distinct, exp.Fetch, exp.TimeToStr, exp.Tuple}
)
"""Nodes of which some have another spelling; Tuple stands in those of IN and of equations."""


def check_size(tree: exp.Expr, *, twice: tuple[type[exp.Expr], ...] = ()) -> set[type[exp.Expr]]:
    """Return the kinds of nodes that there are.

    It refuses a query whose parts would be read too often: x BETWEEN a AND b reads x twice, CASE x WHEN … once for
    each arm, x % y reads y twice, and fmod and nodes that are read `twice` all of their parts.

    Raises:
        UnsupportedQuery: a short text that would be too long.
    """
    nodes = list(tree.walk())
    sizes: dict[int, int] = {}
    for node in reversed(nodes):  # parts come after what they are parts of
        parts = sum(sizes[id(child)] for child in node.iter_expressions())
        match node:
            case _ if isinstance(node, twice):
                parts *= 2
            case exp.Anonymous() if node.name.lower() == "fmod":
                parts *= 2
            case exp.Between():
                parts += sizes[id(node.this)]
            case exp.Mod():
                parts += sizes[id(node.expression)]
            case exp.Case(this=exp.Expr() as compared):
                parts += sizes[id(compared)] * max(len(node.args["ifs"]) - 1, 0)
        sizes[id(node)] = 1 + parts
    if sizes[id(tree)] > len(nodes) + MOST_NODES:
        refuse_size()
    return {type(node) for node in nodes}


def check_calls(tokens: Sequence[Token]) -> None:
    """Refuses calls that stand inside themselves so often that the parser would copy them without end.

    Raises:
        UnsupportedQuery: then.
    """
    open_calls: list[bool] = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.token_type is TokenType.L_PAREN:
            open_calls.append(before is not None and before.text.upper() in _COPIED)
            if sum(open_calls) > _NESTED:
                refuse_size()
        elif token.token_type is TokenType.R_PAREN and open_calls:
            open_calls.pop()


def refuse_size() -> Never:
    """Refuses a query that would become too long."""
    raise UnsupportedQuery(
        "The query nests too deeply to be read: parts of it would be read again and again.",
        hint="name the inner part in a subquery with AS, and use that name; or write it flatter",
    )


ENDS = {"dp_interval_low": False, "dp_interval_high": True}
"""The functions, and whether they give the upper end."""

CONFIDENCE = Fraction(19, 20)
"""Of the interval whose ends they are."""


def interval_end(node: exp.Expr) -> tuple[str, bool] | None:
    """Return the output column whose interval's end a node gives, and whether the upper one; None for any other node.

    Raises:
        UnsupportedQuery: such a function inside another expression, or of what is no output's name.
    """
    inner = [n for n in node.find_all(exp.Anonymous) if n.name.lower() in ENDS]
    if not inner:
        return None
    args = node.expressions if inner == [node] else []
    match args:
        case [exp.Column(table="", name=str(name))]:
            return name, ENDS[node.name.lower()]
    refuse_end()


def end_of(name: str, items: Sequence[tuple[str | None, exp.Expr]]) -> exp.Expr:
    """Return the expression of the output column of that name.

    Raises:
        UnknownColumn: there is none.
    """
    found = [e for n, e in items if (n or (e.name if isinstance(e, exp.Column) else "")).lower() == name.lower()]
    if len(found) != 1 or interval_end(found[0]) is not None:
        listed = ", ".join(n for n, e in items if n and interval_end(e) is None)
        raise UnknownColumn(
            f"There is no output column {name!r:.60} whose interval could be given.", hint=f"name one with AS: {listed}"
        )
    return found[0]


def refuse_end() -> Never:
    """Refuses an end of an interval anywhere but as a column of its own."""
    raise UnsupportedQuery(
        "DP_INTERVAL_LOW and DP_INTERVAL_HIGH stand alone as output columns, and take the name of another one.",
        hint="SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high",
    )


SINGLE_ROWS = "would show values of single rows"


def refuse_single_rows(name: str) -> Never:
    """Refuses an aggregate that shows values of single rows.

    Raises:
        UnsupportedQuery: always.
    """
    raise UnsupportedQuery(
        f"{name} {SINGLE_ROWS}.", hint="GROUP BY the value and count it: SELECT x, COUNT(*) … GROUP BY x"
    )


AGGREGATE_NAMES = frozenset({"mean", "every", "histogram", "sum_within", "count_within"})
"""Aggregates that the parser leaves as names, in lower case."""


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node itself is an aggregate, with its FILTER or WITHIN GROUP."""
    match node:
        case exp.Anonymous():
            return node.name.lower() in AGGREGATE_NAMES
        case exp.IgnoreNulls() | exp.RespectNulls():
            return is_aggregate(node.this)
        case exp.AggFunc() | exp.Filter() | exp.WithinGroup():
            return True
    return False


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate stands anywhere in it."""
    rest = [node]
    while rest:
        found = rest.pop()
        if is_aggregate(found):
            return True
        if type(found) not in _LEAVES:
            rest += found.iter_expressions()
    return False


_LEAVES = frozenset({exp.Boolean, exp.Identifier, exp.Literal, exp.Null})


def word(node: exp.Expr) -> str:
    """Return an aggregate in the user's words."""
    match node:
        case exp.Filter() | exp.WithinGroup() | exp.IgnoreNulls() | exp.RespectNulls():
            return word(node.this)
        case exp.Anonymous():
            return node.name.upper()
        case exp.Func():
            pass
        case _:
            return type(node).__name__.upper()
    if node.key == "groupconcat" and node.meta.get(_WORD) != "GROUP_CONCAT":
        return "STRING_AGG"  # DuckDB's writer has another word
    if _WORD in node.meta:
        return str(node.meta[_WORD])
    name = node.sql(dialect="duckdb", unsupported_level=ErrorLevel.IGNORE).partition("(")[0]
    return name if name.replace("_", "").isalnum() else node.sql_name()


_WORD = "as written"
_SPELLINGS: dict[type[exp.Expr], frozenset[str]] = {
    exp.GroupConcat: frozenset({"STRING_AGG", "LISTAGG", "GROUP_CONCAT"}),
    exp.ArrayAgg: frozenset({"LIST", "ARRAY_AGG"}),
    exp.ArgMax: frozenset({"ARG_MAX", "ARGMAX", "MAX_BY"}),
    exp.ArgMin: frozenset({"ARG_MIN", "ARGMIN", "MIN_BY"}),
    exp.PercentileCont: frozenset({"QUANTILE_CONT", "PERCENTILE_CONT"}),
    exp.PercentileDisc: frozenset({"QUANTILE_DISC", "PERCENTILE_DISC"}),
    exp.ApproxQuantiles: frozenset({"APPROX_QUANTILES"}),
    exp.ApproxTopK: frozenset({"APPROX_TOP_K"}),
    exp.Variance: frozenset({"VARIANCE", "VAR_SAMP"}),
}
"""Aggregates that the parser keeps under another name than they may be written with."""
_SPELLED = frozenset[str]().union(*_SPELLINGS.values())


def keep_words(tree: exp.Expr, tokens: Sequence[Token]) -> None:
    """Note on such aggregates of a text, of which the tokens are given, how they are written in it, for messages."""
    calls = [t.text.upper() for t, after in pairwise(tokens) if after.token_type is TokenType.L_PAREN]
    if _SPELLED.isdisjoint(calls):
        return
    every = list(tree.find_all(*_SPELLINGS, bfs=False))
    for kind in _SPELLINGS:
        nodes = [node for node in every if isinstance(node, kind)]
        words = [w for w in calls if w in _SPELLINGS[kind]]
        if len(words) == len(nodes):
            for node, written in zip(nodes, words, strict=True):
                node.meta[_WORD] = written
