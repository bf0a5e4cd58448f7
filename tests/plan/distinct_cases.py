"""The orders in which the engine takes a unit's groups and values, for the referee of COUNT(DISTINCT x)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet.plan.query import Query
from tests.plan.cases import Engine, as_value
from tests.reference.distinct import First
from tests.reference.question import Key, Order


def orders(plan: Query, engine: Engine) -> tuple[Order, First]:
    """The plan's own hashes over the tables that the engine holds, of groups and of values; 0 where none rank."""
    ((_, text),) = plan.distinct
    if plan.question.table.unit.is_row:
        return lambda _unit, _key: 0, lambda _unit, _key, _value: 0
    stages, _, _ = text.rpartition(',\n"unit bounded" AS (')
    each = ", ".join(["u", *(f"g{i}" for i in range(len(plan.question.keys.exprs)))])
    hashes = f"hash({each}, $secret)" if "dense_rank" in text else "0"
    rows = engine.run(f'{stages}\nSELECT {each}, d, {hashes}, hash({each}, d, $secret) FROM "unit values"')
    groups = {(unit, _key(plan, key)): h for unit, *key, _, h, _ in rows}
    values = {(unit, _key(plan, key), value): h for unit, *key, value, _, h in rows}
    return lambda unit, key: groups[unit, key], lambda unit, key, value: values[unit, key, value]


def _key(plan: Query, key: Sequence[Any]) -> Key:
    lists = plan.question.keys.lists
    if lists is not None:
        return tuple(as_value(values[i]) for values, i in zip(lists, key, strict=True))
    return tuple(v + 0.0 if isinstance(v, float) else v for v in key)
