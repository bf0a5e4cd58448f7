"""Ranges and keys of a draft, found by queries that are charged to the account which the policy will have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidParameter

if TYPE_CHECKING:
    from discreet.catalog.schema import Fact
    from discreet.catalog.types import TableShape
    from discreet.privacy.guarantee import Budget
    from discreet.privacy.unit import PrivacyUnit

MOST_KEYS = 50
"""Found values of a column up to which they are drafted as its keys."""

_NUMBERS = ("BIGINT", "DOUBLE")


@dataclass(frozen=True, slots=True)
class FoundFacts:
    """The unit, budget and facts of a charged look at one table.

    Attributes:
        unit: who is protected.
        budget: of the new account.
        spent: what was charged, in words.
        facts: the range or the keys of each column for which they were found.
        outside: for each range, how much of the column may lie outside, in words.
    """

    unit: PrivacyUnit
    budget: Budget
    spent: str
    facts: Mapping[str, Fact]
    outside: Mapping[str, str]


def find_facts(
    source: str,
    table: str,
    shape: TableShape,
    *,
    epsilon: Fraction,
    unit: PrivacyUnit,
    budget: Budget,
    population: str,
    ledger: str,
) -> FoundFacts:
    """Return the ranges and keys of a table's columns, charged to a new account.

    Half of ε is for ranges (`bounds="ranges"`), and half for keys, where the budget has a δ: half of it is divided
    among the columns of text. All of ε is for ranges, or for keys, where nothing else is looked for. A range beyond
    which too many values may lie is left out.

    Raises:
        InvalidParameter: nothing can be found in such a table.
        BudgetExceeded: the budget is less than ε.
    """
    import discreet as dp
    from discreet.backends.source import identifier
    from discreet.cli.output import spelled
    from discreet.plan.auto_bounds.ranges import MOST_OUTSIDE
    from discreet.plan.auto_bounds.staged import percent

    kinds = {n: k for n, k in shape.columns.items() if n != unit.column and k is not None and not shape.text}
    numbers = [n for n, k in kinds.items() if k in _NUMBERS]
    texts = [n for n, k in kinds.items() if k == "VARCHAR"] if budget.delta > 0 else []
    if shape.text:
        raise InvalidParameter(
            f"--private-bounds finds nothing in {table!r}: a column of a text file has no type.",
            hint="make a Parquet file of it, whose columns have types; or say ranges and values in the draft",
        )
    if not numbers and not texts:
        raise InvalidParameter(
            f"--private-bounds finds nothing in {table!r}: it has no column of numbers, and of text none without a δ.",
            hint="add a δ, as in --budget 3,1e-6",
        )
    part = epsilon / 2 if numbers and texts else epsilon
    facts: dict[str, Fact] = {}
    outside: dict[str, str] = {}
    with dp.connect({table: source}, unit=unit, budget=budget, population=population, ledger=ledger) as session:
        if numbers:
            listed = ", ".join(f"AVG({identifier(n)}) AS c{i}" for i, n in enumerate(numbers))
            found: Any = session.sql(f"SELECT {listed} FROM {identifier(table)}", epsilon=part, bounds="ranges")
            chosen = found.plan.query.chosen
            limits = dict(zip(chosen.named, chosen.limits, strict=True))
            facts.update({n: chosen.ranges[repr(n)] for n in numbers if limits.get(repr(n), 1) <= MOST_OUTSIDE})
            outside = {
                n: f"at most {percent(limits[repr(n)])} of {'rows' if unit.is_row else 'units have values'} outside"
                for n in facts
            }
        for name in texts:
            query = f"SELECT {identifier(name)} AS k, COUNT(*) AS n FROM {identifier(table)} GROUP BY k"
            groups = session.sql(query, epsilon=part / len(texts), delta=budget.delta / 2 / len(texts))
            keys = sorted(k for k, _ in groups.rows if k is not None)
            if 0 < len(keys) <= MOST_KEYS:
                facts[name] = dp.Values(*keys, *([None] if len(keys) < len(groups.rows) else []))
        cost = dp.Budget(budget.epsilon - session.remaining.epsilon, budget.delta - session.remaining.delta)
        return FoundFacts(unit, budget, spelled(cost), facts, outside)
