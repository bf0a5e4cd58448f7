"""Conventions of other private databases: dialect-specific clauses, which are stripped before a query is parsed.

    SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, max_groups_contributed = 2, privacy_unit_column = user_id) …
    SELECT WITH ANONYMIZATION OPTIONS(epsilon = 1, kappa = 2) ANON_SUM(x CLAMPED BETWEEN 0 AND 100), ANON_COUNT(*) …
    SUM(x, contribution_bounds_per_group => (0, 100)), VAR_POP(x, contribution_bounds_per_row => (0, 100))
    SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high
    SELECT TOP 5 …

sqlglot does not know them, so they are stripped from the text token by token.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Never, TypeAlias

from sqlglot import Token, TokenType, tokenize

from discreet.errors import UnsupportedQuery

CLAUSES = ("DIFFERENTIAL_PRIVACY", "ANONYMIZATION")
_PER_GROUP, _PER_ROW = "CONTRIBUTION_BOUNDS_PER_GROUP", "CONTRIBUTION_BOUNDS_PER_ROW"
_WITHIN = {"SUM": "SUM_WITHIN", "COUNT": "COUNT_WITHIN"}
"""Aggregates that take bounds on what a unit adds to a group, and how the language here calls them then."""
_OF_VALUES = frozenset(
    {
        *("SUM", "AVG", "MIN", "MAX", "MEDIAN", "VAR_POP", "VAR_SAMP", "VARIANCE", "STDDEV", "STDDEV_POP"),
        *("STDDEV_SAMP", "PERCENTILE_CONT", "PERCENTILE_DISC", "QUANTILE_CONT", "QUANTILE_DISC", "APPROX_QUANTILES"),
    }
)
"""Aggregates whose values are clamped one by one, row by row."""
_ANON = {"ANON_QUANTILES": "APPROX_QUANTILES"} | {
    f"ANON_{name}": name
    for name in ("COUNT", "SUM", "AVG", "VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP", "PERCENTILE_CONT")
}
SIGNS = re.compile(rf"{'|'.join(CLAUSES)}|{_PER_GROUP}|{_PER_ROW}|\bANON_|\bCLAMPED\b|\bTOP\b", re.IGNORECASE)

_SPELLED = {"KAPPA": "MAX_GROUPS_CONTRIBUTED"}
_OPTIONS = (
    *("EPSILON", "DELTA", "MAX_GROUPS_CONTRIBUTED", "MAX_ROWS_CONTRIBUTED", "PRIVACY_UNIT_COLUMN"),
    "MIN_PRIVACY_UNITS_PER_GROUP",
    "GROUP_SELECTION_STRATEGY",
)
_STRATEGIES = ("LAPLACE_THRESHOLD", "PUBLIC_GROUPS")

Edits: TypeAlias = "list[tuple[int, int, str]]"
"""From one place of a text to another, and what stands there instead."""


def take_off(sql: str, dialect: str) -> tuple[str, dict[str, str] | None]:
    """Return a query without what stands in it beside it, and the options of the clause, None where it has none.

    Raises:
        UnsupportedQuery: a form that is not supported.
    """
    try:
        tokens = list(tokenize(sql, dialect=dialect))
    except Exception:  # the reader of questions says what is wrong with it
        return sql, None
    edits: Edits = []
    options = _clause(tokens, edits)
    if options and _known_groups(options.get("GROUP_SELECTION_STRATEGY")):
        _join_known(tokens, edits)
    _aggregates(tokens, edits)
    _top(tokens, edits)
    for start, end, instead in sorted(edits, reverse=True):
        sql = sql[:start] + instead + sql[end:]
    return sql, options


def _word(token: Token) -> str:
    """Return a word of the language or a bare name; nothing for texts and quoted names."""
    quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
    return "" if quoted else token.text.upper()


def _clause(tokens: Sequence[Token], edits: Edits) -> dict[str, str] | None:
    """Return the options of the clause, once, behind the outermost SELECT."""
    words, depth = [_word(t) for t in tokens], 0
    found: dict[str, str] | None = None
    for i, word in enumerate(words):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if words[i : i + 2] != ["SELECT", "WITH"] or words[i + 2 : i + 3] not in ([c] for c in CLAUSES):
            continue
        if depth or found is not None:
            raise UnsupportedQuery(
                f"WITH {words[i + 2]} stands behind the outermost SELECT, once.", hint="leave it out of subqueries"
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
        name = _SPELLED.get(part[0].text.upper(), part[0].text.upper())
        if name == "K_THRESHOLD":
            _refuse_options(f"How many people a shown group has at least ({part[0].text}) is not an option of a query")
        if name not in _OPTIONS:
            _refuse_options(f"OPTIONS have no {part[0].text!r:.60} here")
        if name in found:
            _refuse_options(f"OPTIONS say {name.lower()} twice")
        value = part[2:]
        if any(t.end + 1 != after.start for t, after in pairwise(value)):
            _refuse_options(f"{part[0].text} has more than one value")  # 1 000 is no 1000
        found[name] = "".join(t.text for t in value)
    return found


def _refuse_options(what: str) -> Never:
    raise UnsupportedQuery(
        f"{what}.", hint=f"they are {', '.join(o.lower() for o in _OPTIONS)}; the owner says the rest when connecting"
    )


def _known_groups(strategy: str | None) -> bool:
    """Whether the clause says that groups are public; how others are selected is the owner's to say."""
    if strategy is not None and strategy.upper() not in _STRATEGIES:
        _refuse_options(f"OPTIONS have no group_selection_strategy {strategy!r:.40} here")
    return strategy is not None and strategy.upper() == "PUBLIC_GROUPS"


def _join_known(tokens: Sequence[Token], edits: Edits) -> None:
    """RIGHT [OUTER] JOIN of a table of groups: known groups are all shown anyway, and its rows belong to nobody."""
    words = [_word(t) for t in tokens]
    for i, word in enumerate(words):
        if word == "RIGHT" and words[i + 1 : i + 2] in (["OUTER"], ["JOIN"]):
            last = i + 1 if words[i + 1] == "OUTER" else i
            edits.append((tokens[i].start, tokens[last].end + 1, ""))


def _aggregates(tokens: Sequence[Token], edits: Edits) -> None:
    """ANON_SUM(x) becomes SUM(x), and with bounds SUM_WITHIN(x, low, high) or AVG(DP_CLAMP(x, low, high))."""
    words = [_word(t) for t in tokens]
    for i, word in enumerate(words):
        if words[i + 1 : i + 2] != ["("] or not (word in _ANON or word in _WITHIN or word in _OF_VALUES):
            continue
        name = _ANON.get(word, word)
        closing = _closing(words, i + 1)
        bounds = _bounds(tokens, words, i + 1, closing)
        if bounds is not None:
            at, (low, high), per_row = bounds
            name = _bounded(name, tokens, words, (i + 2, at), f"{low}, {high}", edits, per_row=per_row)
            edits.append((tokens[at].start, tokens[closing].start, ""))
        if name != word:
            edits.append((tokens[i].start, tokens[i].end + 1, name))


def _bounds(
    tokens: Sequence[Token], words: Sequence[str], opening: int, closing: int
) -> tuple[int, tuple[str, str], bool] | None:
    """Return where the bounds of an aggregate begin, which they are, and whether they are of rows."""
    depth, inside = 0, range(opening + 1, closing)
    for i in inside:
        depth += {"(": 1, ")": -1}.get(words[i], 0)
        if depth:
            continue
        if words[i] == "," and words[i + 1] in (_PER_GROUP, _PER_ROW) and words[i + 2] == "=>":
            whole = words[i + 3] == "(" and _closing(words, i + 3) == closing - 1
            numbers = _split(tokens[i + 4 : closing - 1]) if whole else []
            if len(numbers) != 2 or not all(numbers):
                _refuse_bounds(words[i + 1].lower(), "is the last argument of an aggregate, and has two numbers")
            return i, (_text(numbers[0]), _text(numbers[1])), words[i + 1] == _PER_ROW
        if words[i : i + 2] == ["CLAMPED", "BETWEEN"]:
            joint = next((k for k in range(i + 2, closing) if words[k] == "AND"), closing)
            low, high = tokens[i + 2 : joint], tokens[joint + 1 : closing]
            if not low or not high:
                _refuse_bounds("CLAMPED BETWEEN", "has two numbers, with AND between them")
            return i, (_text(low), _text(high)), False
    return None


def _text(tokens: Sequence[Token]) -> str:
    return " ".join(t.text for t in tokens)


def _bounded(
    name: str,
    tokens: Sequence[Token],
    words: Sequence[str],
    inside: tuple[int, int],
    numbers: str,
    edits: Edits,
    *,
    per_row: bool,
) -> str:
    """Return the aggregate that has these bounds: of what a unit adds to a group, or of the value of each row."""
    first, end = inside
    if words[first] == "DISTINCT" or (per_row and name == "COUNT"):
        what = (_PER_ROW if per_row else _PER_GROUP).lower()
        _refuse_bounds(what, f"is not supported for {name}({words[first]} …)" if per_row else "stands beside DISTINCT")
    if name in _WITHIN and not per_row:
        edits.append((tokens[end].start, tokens[end].start, f", {_with_zero(numbers)}"))
        return _WITHIN[name]
    depth, last = 0, end
    for i in range(first, end):
        depth += {"(": 1, ")": -1}.get(words[i], 0)
        if depth == 0 and words[i] == ",":
            last = i
            break
    edits.append((tokens[first].start, tokens[first].start, "DP_CLAMP("))
    edits.append((tokens[last].start, tokens[last].start, f", {numbers})"))
    return name


def _with_zero(numbers: str) -> str:
    """Return bounds that hold 0 as well, which is what a unit without rows adds; other units keep what they have."""
    ends = [n.strip() for n in numbers.split(",")]
    try:
        low, high = (float(n) for n in ends)  # of which the sign alone is looked at
    except ValueError:
        return numbers
    return f"{'0' if low > 0 else ends[0]}, {'0' if high < 0 else ends[1]}"


def _refuse_bounds(word: str, what: str) -> Never:
    raise UnsupportedQuery(
        f"{word} {what}.",
        hint="SUM(x, contribution_bounds_per_group => (0, 100)), VAR_POP(x, contribution_bounds_per_row => (0, 100))",
    )


def _top(tokens: Sequence[Token], edits: Edits) -> None:
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
