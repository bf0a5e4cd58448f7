"""LEFT JOIN of people's rows to a public table: read as JOIN where public rows that nobody matches change no number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Never

from sqlglot import exp

from discreet.errors import PlanError, UnsupportedQuery
from discreet.query.bind import bind_row
from discreet.query.expr import Call, Column, Expr
from discreet.query.functions import FUNCTIONS
from discreet.query.parse import Select, group_nodes, is_aggregate
from discreet.query.relation.names import Names
from discreet.query.relation.settle import columns_in
from discreet.query.relation.sources import conjuncts, is_nested


def check_unmatched(select: Select, names: Names, public: frozenset[Column]) -> None:
    """Refuses a query to which public rows without people's would add anything but groups of nobody.

    Such a row has NULL in every column that is not `public`. It fails each condition that is NULL for it, and adds
    nothing to an aggregate whose argument is.

    Raises:
        UnsupportedQuery: it would.
    """

    def fits(condition: exp.Expr) -> bool:
        if is_nested(condition):
            return False
        bound = bind_row(condition, names)
        return columns_in([bound]) <= public or is_null(bound)

    def is_null(e: Expr) -> bool:
        """Whether it is NULL where these columns are."""
        if isinstance(e, Column):
            return e not in public
        return isinstance(e, Call) and not FUNCTIONS[e.name].takes_null and any(map(is_null, e.args))

    joins = select.tree.args.get("joins") or []
    where = select.tree.args["where"].this if select.tree.args.get("where") else None
    inner = [j.args["on"] for j in joins if not j.side and j.args.get("on") is not None]
    if any(j.side not in ("", "LEFT", "RIGHT") or j.kind in ("SEMI", "ANTI") for j in joins):
        _refuse("Beside a LEFT JOIN from a public table stands a join that would keep its rows.", "use JOIN")
    if not all(fits(c) for condition in (where, *inner) for c in conjuncts(condition)):
        _refuse(
            "A condition may keep public rows that nobody matches, which would tell of people.",
            "use JOIN; compare columns of the private table with = or <, without IS NULL",
        )
    for key in group_nodes(select.items, select.group):
        if not columns_in([bind_row(key, names)]) <= public:
            _refuse("Public rows that nobody matches would be a group of their own.", "use JOIN")
    asked = [e for _, e in select.items] + [o.by for o in select.order]
    for aggregate in _aggregates([*asked, *([] if select.having is None else [select.having])]):
        found = []
        for e in _arguments(aggregate):
            with suppress(PlanError):
                found.append(bind_row(e, names))
        if not any(map(is_null, found)):
            _refuse(
                "An aggregate would count public rows that nobody matches.",
                "use JOIN; or count a column of the private table: COUNT(t.x) instead of COUNT(*)",
            )


def _aggregates(es: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    for e in es:
        if is_aggregate(e):
            yield e
        else:
            yield from _aggregates(list(e.iter_expressions()))


def _arguments(e: exp.Expr) -> Iterator[exp.Expr]:
    """Yield what an aggregate reads of each row, its FILTER too."""
    for part in e.iter_expressions():
        if isinstance(part, exp.Distinct | exp.Order | exp.Ordered | exp.Where) or is_aggregate(part):
            yield from _arguments(part)
        elif not isinstance(part, exp.Star):
            yield part


def _refuse(what: str, hint: str) -> Never:
    raise UnsupportedQuery(what, hint=hint)
