"""Which nodes of the parser are aggregates, answered or not, rather than functions of single rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ErrorLevel

NAMES = frozenset({"mean", "every", "histogram", "sum_within", "count_within"})
"""Aggregates that the parser leaves as names, in lower case."""


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node itself is an aggregate, with its FILTER or WITHIN GROUP."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in NAMES
    if isinstance(node, _AROUND):
        return is_aggregate(node.this)
    return isinstance(node, _AGGREGATES)


_AROUND = (exp.IgnoreNulls, exp.RespectNulls)
_AGGREGATES = (exp.AggFunc, exp.Filter, exp.WithinGroup)


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
    if isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        return word(node.this)
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    if not isinstance(node, exp.Func):
        return type(node).__name__.upper()
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
