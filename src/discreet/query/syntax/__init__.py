"""From the parser's nodes to functions of the closed language: a table of shapes, and the few that need a rule."""

from __future__ import annotations

from sqlglot import exp

from discreet.query.syntax.moments import MOMENT_RULES
from discreet.query.syntax.names import named
from discreet.query.syntax.refusals import nothing_but, refuse
from discreet.query.syntax.rules import RULES, Applied
from discreet.query.syntax.table import PLAIN, SILENT


def function_of(node: exp.Expr) -> Applied:
    """Return the function that a node applies: its name in the language and its arguments, still syntax.

    Raises:
        UnsupportedQuery: the node, or a part of it, is not in the language.
        UnknownColumn: a function that nobody knows.
    """
    if isinstance(node, exp.Anonymous):
        return named(node)
    rule = MOMENT_RULES.get(type(node)) or RULES.get(type(node))
    found = rule(node) if rule is not None else None
    if found is not None:
        return found
    plain = PLAIN.get(type(node))
    if plain is None:
        refuse(node)
    name, places = plain
    nothing_but(node, {*places, *SILENT.get(type(node), set())})
    args: list[exp.Expr] = []
    for place in places:
        part = node.args.get(place)
        args += part if isinstance(part, list) else [part] if part is not None else []
    return name, args
