"""How much a question would become: some of its parts are read several times, and nested they would be without end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from sqlglot import Token, TokenType, exp

from discreet.errors import UnsupportedQuery

MOST = 20_000
"""Nodes that a question may have more when it is read than when it is written."""

_NESTED = 6
"""How often a call may stand inside itself of which the parser copies the arguments."""

_COPIED = frozenset({"DIV0", "DIV0NULL"})


def check_size(tree: exp.Expr, *, twice: tuple[type[exp.Expr], ...] = ()) -> None:
    """Refuses a question whose parts would be read too often: x BETWEEN a AND b reads x twice, CASE x WHEN … once for
    each arm, x % y reads y twice, and fmod and nodes that are read `twice` all of their parts.

    Raises:
        UnsupportedQuery: a short text that would be too long.
    """
    nodes = list(tree.walk())
    sizes: dict[int, int] = {}
    for node in reversed(nodes):  # parts come after what they are parts of
        parts = sum(sizes[id(child)] for child in node.iter_expressions())
        if isinstance(node, twice) or (isinstance(node, exp.Anonymous) and node.name.lower() == "fmod"):
            parts *= 2
        elif isinstance(node, exp.Between):
            parts += sizes[id(node.this)]
        elif isinstance(node, exp.Mod):
            parts += sizes[id(node.expression)]
        elif isinstance(node, exp.Case) and node.this is not None:
            parts += sizes[id(node.this)] * max(len(node.args["ifs"]) - 1, 0)
        sizes[id(node)] = 1 + parts
    if sizes[id(tree)] > len(nodes) + MOST:
        refuse_size()


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
    """Refuses a question that would become too long."""
    raise UnsupportedQuery(
        "The question nests too deeply to be read: parts of it would be read again and again.",
        hint="name the inner part in a subquery with AS, and use that name; or write it flatter",
    )
