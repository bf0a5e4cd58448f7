"""Questions as other databases ask them: their conventions for private answers, and their spelling.

    SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, max_groups_contributed = 2, privacy_unit_column = user_id) …
    SUM(x, contribution_bounds_per_group => (0, 100))
    SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high

Conventions may tighten the owner's policy and never weaken it: wider caps or bounds, and another unit, are refused. No
parser that is used here knows the first two, so they are taken off the text word by word, before it is read.

Then the text is read by the grammar of its database and written as DuckDB reads it. A part of the language stands here
only where it is known to mean the same, or how its meaning is said in the other spelling. Everything else is refused by
name, so nothing changes its meaning silently. Three things hold for all: an error on a row is NULL on that row, whole
numbers have 64 bits and other numbers are doubles, and texts compare by their code points. Settings of a session are
taken at their defaults (Snowflake's WEEK_START and WEEK_OF_YEAR_POLICY).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, Never

from sqlglot import Token, TokenType, exp, parse, parse_one, tokenize
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokens import Tokenizer

from discreet.catalog.schema import TableSchema
from discreet.errors import InvalidParameter, UnsupportedQuery
from discreet.pages import page
from discreet.privacy.exact import Real, exact, positive, probability
from discreet.privacy.guarantee import decimal
from discreet.query.dialects.functions import NEUTRAL, PASSED, RULES
from discreet.query.dialects.kinds import Kinds
from discreet.query.parse import LONGEST, check_calls, check_size

CLAUSE, BOUNDS = "DIFFERENTIAL_PRIVACY", "CONTRIBUTION_BOUNDS_PER_GROUP"
WITHIN = {"SUM": "SUM_WITHIN", "COUNT": "COUNT_WITHIN"}
"""Aggregates that take bounds on what a unit adds to a group, and how the language here calls them then."""

_OPTIONS = ("EPSILON", "DELTA", "MAX_GROUPS_CONTRIBUTED", "PRIVACY_UNIT_COLUMN")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A question without what stood in it beside the question, in DuckDB's spelling.

    Attributes:
        text: the question.
        tables: the connected tables, under the policy that the question asked for.
        epsilon, delta: what the clause says may be spent; None where it does not.
        has_clause: whether there was one.
    """

    text: str
    tables: tuple[TableSchema, ...]
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    has_clause: bool = False

    def epsilon_or(self, given: Real | None) -> Real | None:
        """Return the ε of the clause or of the caller, who may both say it if they agree."""
        return self.epsilon if given is None else self._agreed("epsilon", given, self.epsilon)

    def delta_or(self, given: Real) -> Real:
        """Return the δ of the clause or of the caller; 0 is what a caller says who does not say it."""
        if self.delta is not None and exact("delta", given) == 0:
            return self.delta
        return self._agreed("delta", given, self.delta)

    def _agreed(self, name: str, given: Real, said: Fraction | None) -> Real:
        if said is not None and exact(name, given) != said:
            raise InvalidParameter(
                f"the query's OPTIONS say {name} = {decimal(said)}, and the call says {given}.", hint="say it once"
            )
        return given


def prepare(sql: str, dialect: object, tables: Sequence[TableSchema]) -> Prepared:
    """Take off what stands in a question beside it, applies it, and puts the rest into DuckDB's spelling.

    Raises:
        UnsupportedQuery, InvalidParameter: a form that is not supported, or one that would weaken the owner's policy.
    """
    tokens = _tokens(sql, dialect)
    if tokens is None:
        return Prepared(as_duckdb(sql, dialect, tables), tuple(tables))
    edits: list[tuple[int, int, str]] = []
    found = _clause(tokens, edits)
    _bounds(tokens, edits)
    _top(tokens, edits)
    text = sql
    for start, end, instead in sorted(edits, reverse=True):
        text = text[:start] + instead + text[end:]
    options = found or {}
    own = tuple(_tightened(t, options) for t in tables)
    _check_unit(options.get("PRIVACY_UNIT_COLUMN"), tables)
    return Prepared(
        as_duckdb(text, dialect, tables),
        own,
        positive("epsilon", options["EPSILON"]) if "EPSILON" in options else None,
        probability("delta", options["DELTA"]) if "DELTA" in options else None,
        found is not None,
    )


def refuse_clause() -> Never:
    """Refuses the clause in one question of several that share a price."""
    raise UnsupportedQuery(
        f"WITH {CLAUSE} stands in a query of its own: a batch has one price and one policy.",
        hint="leave it out, and give epsilon to batch()",
    )


def _tokens(sql: object, dialect: object) -> list[Token] | None:
    """Return the words of a text that has one of the conventions in it."""
    if not isinstance(sql, str) or dialect not in DIALECTS:
        return None
    if not any(word in sql.upper() for word in (CLAUSE, BOUNDS, "TOP")):
        return None
    try:
        return list(tokenize(sql, dialect=str(dialect)))
    except Exception:  # the reader of questions says what is wrong with it
        return None


def _word(token: Token) -> str:
    """Return a word of the language or a bare name; nothing for texts and quoted names."""
    quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return "" if quoted else token.text.upper()


def _clause(tokens: Sequence[Token], edits: list[tuple[int, int, str]]) -> dict[str, str] | None:
    """Return the options of the clause, once, behind the outermost SELECT."""
    words, depth = [_word(t) for t in tokens], 0
    found: dict[str, str] | None = None
    for i, word in enumerate(words):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if words[i : i + 3] != ["SELECT", "WITH", CLAUSE]:
            continue
        if depth or found is not None:
            raise UnsupportedQuery(
                f"WITH {CLAUSE} stands behind the outermost SELECT, once.", hint="leave it out of subqueries"
            )
        last, found = i + 2, {}
        if words[i + 3 : i + 5] == ["OPTIONS", "("]:
            last = _closing(words, i + 4)
            found = _options(tokens[i + 5 : last])
        edits.append((tokens[i + 1].start, tokens[last].end + 1, ""))
    return found


def _options(tokens: Sequence[Token]) -> dict[str, str]:
    """Each name = value, between commas."""
    found: dict[str, str] = {}
    parts = _split(tokens)
    for part in parts if tokens else []:
        if len(part) < 3 or part[1].text != "=":
            _refuse_options("OPTIONS are written name = value")
        name = part[0].text.upper()
        if name not in _OPTIONS:
            _refuse_options(f"OPTIONS have no {part[0].text!r:.60} here")
        if name in found:
            _refuse_options(f"OPTIONS say {part[0].text} twice")
        value = part[2:]
        if any(t.end + 1 != after.start for t, after in pairwise(value)):
            _refuse_options(f"{part[0].text} has more than one value")  # 1 000 is no 1000
        found[name] = "".join(t.text for t in value)
    return found


def _refuse_options(what: str) -> Never:
    raise UnsupportedQuery(
        f"{what}.", hint=f"they are {', '.join(o.lower() for o in _OPTIONS)}; the owner says the rest when connecting"
    )


def _bounds(tokens: Sequence[Token], edits: list[tuple[int, int, str]]) -> None:
    """SUM(x, contribution_bounds_per_group => (low, high)) becomes SUM_WITHIN(x, low, high)."""
    words = [_word(t) for t in tokens]
    for i, word in enumerate(words):
        if word != BOUNDS or words[i + 1 : i + 2] != ["=>"]:
            continue
        opening = _opening(words, i)
        closing = _closing(words, i + 2) if words[i + 2 : i + 3] == ["("] else None
        if opening is None or closing is None or words[i - 1] != "," or words[closing + 1 : closing + 2] != [")"]:
            _refuse_bounds("is the last argument of an aggregate, and has two numbers")
        name = words[opening - 1] if opening else ""
        if name not in WITHIN or words[opening + 1] == "DISTINCT":
            _refuse_bounds("is supported for SUM(x), COUNT(x) and COUNT(*)")
        numbers = _split(tokens[i + 3 : closing])
        if len(numbers) != 2 or not all(numbers):
            _refuse_bounds("is the last argument of an aggregate, and has two numbers")
        low, high = (" ".join(t.text for t in n) for n in numbers)
        edits.append((tokens[opening - 1].start, tokens[opening - 1].end + 1, WITHIN[name]))
        edits.append((tokens[i].start, tokens[closing].end + 1, f"{low}, {high}"))


def _refuse_bounds(what: str) -> Never:
    raise UnsupportedQuery(
        f"contribution_bounds_per_group {what}.",
        hint="SUM(x, contribution_bounds_per_group => (0, 100)); for others declare the column's bounds",
    )


def _top(tokens: Sequence[Token], edits: list[tuple[int, int, str]]) -> None:
    """SELECT TOP 5 … becomes SELECT … LIMIT 5."""
    words = [_word(t) for t in tokens]
    for i, word in enumerate(words):
        if word != "TOP" or words[i - 1 : i] not in (["SELECT"], ["DISTINCT"], ["ALL"]):
            continue
        at = i + 1 if words[i + 1 : i + 2] != ["("] else i + 2
        last = at if at == i + 1 else at + 1
        if tokens[at : at + 1] == [] or tokens[at].token_type is not TokenType.NUMBER or words[last:][:1] == [","]:
            continue
        depth, end = 0, i
        for end in range(last + 1, len(words) + 1):
            word = words[end] if end < len(words) else ";"
            depth += {"(": 1, ")": -1}.get(word, 0)
            if depth < 0 or (depth == 0 and word in (";", "UNION", "INTERSECT", "EXCEPT")):
                break
        if words[last + 1 : last + 2] == ["PERCENT"] or words[last + 1 : last + 3] == ["WITH", "TIES"] or depth > 0:
            raise UnsupportedQuery(
                "TOP takes a number of rows, nothing else (no PERCENT, no TIES).", hint="write ORDER BY … LIMIT 10"
            )
        if word not in (")", ";"):
            raise UnsupportedQuery(f"TOP stands beside {word} here.", hint="write ORDER BY … LIMIT 10 behind it")
        edits.append((tokens[i].start, tokens[last].end + 1, ""))
        edits.append((tokens[end - 1].end + 1, tokens[end - 1].end + 1, f" LIMIT {tokens[at].text}"))


def _opening(words: Sequence[str], at: int) -> int | None:
    """Return the bracket that is open there."""
    depth = 0
    for i in range(at - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(words[i], 0)
        if depth < 0:
            return i
    return None


def _closing(words: Sequence[str], opening: int) -> int:
    """Return the bracket that closes that one."""
    depth = 0
    for i in range(opening, len(words)):
        depth += {"(": 1, ")": -1}.get(words[i], 0)
        if depth == 0:
            return i
    raise UnsupportedQuery("The SQL cannot be read.", hint="check quotes, commas and brackets")


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return what stands between commas; a bracket within is no part of either."""
    parts: list[list[Token]] = [[]]
    for t in tokens:
        if _word(t) == ",":
            parts.append([])
        else:
            parts[-1].append(t)
    return parts


def _tightened(table: TableSchema, options: dict[str, str]) -> TableSchema:
    """Return the table under the cap on groups that the question asks for."""
    asked, unit = options.get("MAX_GROUPS_CONTRIBUTED"), table.unit
    if asked is None or table.public:
        return table
    if unit.caps is None:
        raise InvalidParameter(
            "max_groups_contributed tightens a declared cap, and the owner's are chosen from the data.",
            hint="leave it out, or connect with dp.PrivacyUnit(column, max_groups=…, max_rows=…)",
        )
    if not asked.isdecimal() or not 0 < int(asked) <= (most := unit.caps[0]):
        raise InvalidParameter(
            f"max_groups_contributed must be a whole number from 1 to the owner's {unit.caps[0]}, not {asked:.20}.",
            hint="a query may tighten the owner's policy, and never weaken it",
        )
    if unit.is_row or int(asked) == most:
        return table
    return replace(table, unit=replace(unit, max_groups=int(asked)))


def _check_unit(asked: str | None, tables: Sequence[TableSchema]) -> None:
    """Check that the unit is the owner's."""
    if asked is None:
        return
    units = {t.unit.column for t in tables if not t.public and t.reached is None}
    named = asked.rpartition(".")[2].lower()
    if named not in {u.lower() for u in units if u is not None}:
        who = "each row" if units == {None} else " or ".join(sorted(repr(u) for u in units if u is not None))
        raise InvalidParameter(
            f"privacy_unit_column says {asked!r:.60}, and the owner protects {who}.",
            hint="leave it out: who is protected is the owner's to say",
        )


DIALECTS = ("duckdb", "postgres", "bigquery", "snowflake", "spark")
"""Spellings that are understood."""

NAMES = {"postgres": "PostgreSQL", "bigquery": "BigQuery", "snowflake": "Snowflake", "spark": "Spark"}


def as_duckdb(sql: Any, dialect: object, tables: Sequence[TableSchema]) -> Any:
    """Return the same question as DuckDB spells it.

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
    """One question, node by node, from another dialect to DuckDB's."""

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
        """Databases differ on what a name in GROUP BY, HAVING or ORDER BY means that is an output's and a column's."""
        outputs = {
            e.alias.lower()
            for e in select.expressions
            if isinstance(e, exp.Alias)
            and not (isinstance(e.this, exp.Column) and e.this.name.lower() == e.alias.lower())
        }
        for clause in ("where", "group", "having", "qualify", "order"):
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
    return text if _plain(again) == _plain(tree) else None


def _refuse_doubt(dialect: str) -> Never:
    raise UnsupportedQuery(
        f"This query cannot be carried over from {NAMES[dialect]}'s spelling without a doubt.",
        hint="ask in DuckDB's dialect (leave dialect out)",
    )


def _plain(tree: exp.Expr) -> exp.Expr:
    """Without the marks that a parser leaves for writers, and with functions that are only names as such."""
    copy = tree.copy()
    for node in list(copy.walk()):
        for mark in ("safe", "typed", "big_int", "ignore_nulls", "coalesce", "nested", "quoted", "zero_on_all_null"):
            if node.args.get(mark) is not None:
                node.set(mark, None)
        match node:
            case exp.Ordered():
                node.set("nulls_first", bool(node.args.get("nulls_first")) or None)
            case exp.LogicalOr():
                node.replace(exp.Anonymous(this="BOOL_OR", expressions=[node.this]))
            case exp.LogicalAnd():
                node.replace(exp.Anonymous(this="BOOL_AND", expressions=[node.this]))
    return copy
