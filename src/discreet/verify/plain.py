"""Texts that the database cannot read otherwise than they are read here.

The second derivation judges the tree that one parser makes of a statement; the database makes its own. They agree on
every text of the forms below. They do not on all texts: the database takes some invisible characters for spaces, and
names that differ in upper and lower case for one name, of which the first column counts.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

_TOKEN = re.compile(
    r"""
    [ \n]+
    | (?<![0-9A-Za-z_])'(?:[^'\0]|'')*'(?![0-9A-Za-z_])
    | (?<![0-9A-Za-z_])"(?:[^"\0]|"")+"(?![0-9A-Za-z_])
    | [A-Za-z_][0-9A-Za-z_]*(?!\$)
    | [0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?(?![0-9A-Za-z_.$])
    | \$(?:secret|fed_[0-9]{1,9})(?![0-9A-Za-z_$])
    | [(),.]
    | (?<![-+*/<>=!|%])(?:<=|>=|<>|!=|//|\|\||[-+*/<>=%])(?![-+*/<>=!|%])
    """,
    re.VERBOSE,
)
"""What a statement is made of: spaces, constants, names, numbers, the places of the secret and of results that are fed
back, and operators that stand alone.

There are no comments, no escapes, no text between dollars, and outside of quotes nothing but ASCII; numbers
are no longer than any type holds."""


def ambiguity(sql: str) -> str | None:
    """Return what two readers of a statement could take for different things; None when it is nothing.

    Guarantee:
        Of a text in which nothing was found, every word is one word to both readers, each stage stands before those
        that read it, and no two stages, columns of a stage, or tables that are read together have names that differ in
        upper and lower case alone.
    """
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        if found is None:
            return "a character or a form that no statement needs"
        at = found.end()
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except (SqlglotError, RecursionError):
        return "the shape of a statement"
    if not _are_apart([stage.alias for stage in tree.find_all(exp.CTE)]):
        return "two stages of one name"
    for select in tree.find_all(exp.Select):
        if not _are_apart([e.alias_or_name for e in select.expressions]):
            return "two columns of one name"
        read = [select.args.get("from_"), *(select.args.get("joins") or [])]
        if not _are_apart([r.this.alias_or_name for r in read if r is not None]):
            return "two tables of one name"
    return None if _are_in_order(tree) else "a stage that is read before it is there"


def results_in(sql: str) -> tuple[str, ...]:
    """Return the results that are fed back into a statement, by the names of their parameters, each once."""
    words = (found.group() for found in _TOKEN.finditer(sql))
    return tuple(dict.fromkeys(word[1:] for word in words if word.startswith("$fed_")))


def _are_apart(names: Collection[str]) -> bool:
    return len({name.casefold() for name in names}) == len(names)


def _are_in_order(tree: exp.Expr) -> bool:
    """Whether each stage reads what was said before it; a table of the stage's name would be read otherwise."""
    listed = tree.args.get("with_")
    known: set[str] = set()
    for stage in [] if listed is None else listed.expressions:
        if any(not t.args.get("db") and t.name not in known for t in stage.this.find_all(exp.Table)):
            return False
        known.add(stage.alias)
    return True
