"""The groups of a question: public lists of keys, or keys that have to be selected privately."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from discreet.catalog.schema import MOST_KEYS, Fact, Scalar, domain_values
from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.expr import Call, Expr, columns_of, walk
from discreet.query.functions import FUNCTIONS


@dataclass(frozen=True, slots=True)
class Keys:
    """The group keys of a question.

    Attributes:
        exprs: the row-level key expressions.
        lists: for each its public values, in the order of their declaration; None when any key is undeclared, so that
            the groups have to be selected privately.
    """

    exprs: tuple[Expr, ...]
    lists: tuple[tuple[Scalar, ...], ...] | None

    @property
    def count(self) -> int | None:
        """How many groups there are; None when that is private."""
        return None if self.lists is None else math.prod(len(v) for v in self.lists)

    def all(self) -> list[tuple[Scalar, ...]]:
        """Every combination of the public values."""
        assert self.lists is not None
        return list(itertools.product(*self.lists))


def find_keys(exprs: Sequence[Expr], facts: Mapping[str, Fact]) -> Keys:
    """Return the keys of a GROUP BY; public when every column in it has a declared list of values.

    An expression over declared columns has as keys its values over all combinations of theirs, computed
    here without data.
    """
    lists = [_values(e, facts) for e in exprs]
    if any(v is None for v in lists):
        return Keys(tuple(exprs), None)
    keys = Keys(tuple(exprs), tuple(v for v in lists if v is not None))
    if (keys.count or 0) > MOST_KEYS:
        raise UnsupportedQuery(
            f"The declared keys have {keys.count} combinations, more than {MOST_KEYS}.",
            hint="group by fewer columns, or by coarser expressions of them",
        )
    return keys


def sort_key(key: Sequence[Scalar]) -> list[tuple[int, float, str]]:
    """Return an order of keys that depends on nothing but their values: NULL last."""
    return [_rank(v) for v in key]


def _rank(value: Scalar) -> tuple[int, float, str]:
    if value is None:
        return (2, 0.0, "")
    if isinstance(value, int | float):
        return (0, float(value), str(value))
    return (1, 0.0, str(value))


def domain(expr: Expr, facts: Mapping[str, Fact], most: int) -> tuple[Scalar, ...] | None:
    """Return the values of an expression over all combinations of its columns' declared ones; None when any is
    undeclared, or there are more than `most` combinations.
    """
    lists = _declared_lists(expr, facts)
    if inexact_in(expr) is not None:
        return None
    return None if lists is None or math.prod(map(len, lists)) > most else _image(expr, lists)


def _values(expr: Expr, facts: Mapping[str, Fact]) -> tuple[Scalar, ...] | None:
    lists = _declared_lists(expr, facts)
    if lists is None:
        return None
    inexact = inexact_in(expr)
    if inexact is not None:
        raise UnsupportedQuery(
            f"A key over declared values cannot pass through {inexact.upper()}: its last digit depends on the machine.",
            hint="group by the column itself, or by CASE WHEN x < 10 THEN … or width_bucket(x, 0, 100, 10)",
        )
    if math.prod(map(len, lists)) > MOST_KEYS:
        raise UnsupportedQuery(
            f"An expression in GROUP BY has more than {MOST_KEYS} combinations of declared values.",
            hint="group by fewer columns in one expression",
        )
    return _image(expr, lists)


def inexact_in(expr: Expr) -> str | None:
    """Return a function in the tree whose value here may differ from the database's in the last bit."""
    return next((e.name for e in walk(expr) if isinstance(e, Call) and FUNCTIONS[e.name].inexact), None)


def _declared_lists(expr: Expr, facts: Mapping[str, Fact]) -> list[tuple[Scalar, ...]] | None:
    names = columns_of(expr)
    domains = [domain_values(facts.get(n)) for n in names]
    return [d for d in domains if d is not None] if names and None not in domains else None


def _image(expr: Expr, lists: Sequence[tuple[Scalar, ...]]) -> tuple[Scalar, ...]:
    names = columns_of(expr)
    found = (expr.of_row(dict(zip(names, values, strict=True))) for values in itertools.product(*lists))
    distinct = list(dict.fromkeys(_plain(v, expr.type) for v in found))
    return tuple(
        distinct if len(names) == 1 and len(distinct) == len(lists[0]) else sorted(distinct, key=lambda v: _rank(v))
    )


def _plain(value: Scalar, kind: Type | None) -> Scalar:
    return float(value) + 0.0 if kind is Type.REAL and isinstance(value, int | float) else value
