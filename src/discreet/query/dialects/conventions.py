"""What other private databases write into a question: BigQuery's clause and named bounds, Snowflake's functions.

    SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, max_groups_contributed = 2, privacy_unit_column = user_id) …
    SUM(x, contribution_bounds_per_group => (0, 100))
    SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high

They may tighten the owner's policy and never weaken it: wider caps or bounds, and another unit, are refused. No parser
that is used here knows the first two, so they are taken off the text word by word, before it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Never

from sqlglot import Token, TokenType, tokenize

from discreet.catalog.schema import TableSchema
from discreet.errors import InvalidParameter, UnsupportedQuery
from discreet.privacy.exact import Real, exact, positive, probability
from discreet.privacy.guarantee import decimal
from discreet.privacy.unit import PrivacyUnit
from discreet.query.dialects.dialect import DIALECTS, as_duckdb

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
                f"the question's OPTIONS say {name} = {decimal(said)}, and the call says {given}.", hint="say it once"
            )
        return given


def prepare(sql: str, dialect: object, tables: Sequence[TableSchema]) -> Prepared:
    """Take off what stands in a question beside it, applies it, and puts the rest into DuckDB's spelling.

    Raises:
        UnsupportedQuery, InvalidParameter: a form that is not answered, or one that would weaken the owner's policy.
    """
    tokens = _tokens(sql, dialect)
    if tokens is None:
        return Prepared(as_duckdb(sql, dialect, tables), tuple(tables))
    edits: list[tuple[int, int, str]] = []
    found = _clause(tokens, edits)
    _bounds(tokens, edits)
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
        f"WITH {CLAUSE} stands in a question of its own: a batch has one price and one policy.",
        hint="leave it out, and give epsilon to batch()",
    )


def _tokens(sql: object, dialect: object) -> list[Token] | None:
    """Return the words of a text that has one of the conventions in it."""
    if not isinstance(sql, str) or dialect not in DIALECTS:
        return None
    if CLAUSE not in sql.upper() and BOUNDS not in sql.upper():
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
            _refuse_bounds("is answered for SUM(x), COUNT(x) and COUNT(*)")
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
    if unit.max_groups is None:
        raise InvalidParameter(
            "max_groups_contributed tightens a declared cap, and the owner's are chosen from the data.",
            hint="leave it out, or connect with dp.PrivacyUnit(column, max_groups=…, max_rows=…)",
        )
    if not asked.isdecimal() or not 0 < int(asked) <= unit.max_groups:
        raise InvalidParameter(
            f"max_groups_contributed must be a whole number from 1 to the owner's {unit.max_groups}, not {asked:.20}.",
            hint="a question may tighten the owner's policy, and never weaken it",
        )
    if unit.is_row or int(asked) == unit.max_groups:
        return table
    return replace(table, unit=PrivacyUnit(unit.column, int(asked), unit.max_rows, unit.tables))


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
