"""COUNT(DISTINCT x) of the reference: how many different values there are, where a unit brings few to each group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tests.reference.expression import Expression, Row
from tests.reference.question import Key, Order, Question, groups_of, kept_rows
from tests.reference.values import Value, rank

First: TypeAlias = Callable[[Value, Key, Value], Any]
"""The hash of a unit, a group and a value (or anything that compares); equal hashes fall back on the value itself."""


def distinct_cells(
    rows: Sequence[Row], question: Question, argument: Expression, order: Order, first: First
) -> dict[Key, int]:
    """How many different values of the argument each group has; the question's measures are not looked at.

    A unit brings at most `max_rows` of its values that are not NULL to a group, and to at most `max_groups` of them.

    >>> from tests.reference.expression import Column
    >>> from tests.reference.values import Kind
    >>> x, uid = Column("x", Kind.INT), Column("uid", Kind.INT)
    >>> rows = [{"uid": 1, "x": n} for n in (3, 3, 2, 1)] + [{"uid": 2, "x": n} for n in (1, None)]
    >>> asked = Question((), unit=uid, max_groups=1, max_rows=2)
    >>> distinct_cells(rows, asked, x, lambda u, g: 0, lambda u, g, v: -v)
    {(): 3}
    """
    blocks = kept_rows(rows, question, order)
    found: dict[Key, set[Value]] = {key: set() for key in groups_of(question, blocks)}
    for (unit, key), block in blocks.items():
        values = {v for v in map(argument.at, block) if v is not None}
        ranked = sorted(values, key=lambda v, unit=unit, key=key: (first(unit, key, v), rank(v)))  # type: ignore[misc]
        found[key] |= set(ranked[: question.max_rows])
    return {key: len(values) for key, values in found.items()}
