"""What `explain` says of counts that are read from a partition."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from discreet.plan.expr import Within, walk
from discreet.plan.partition.closer import variance_of
from discreet.plan.partition.strategy import weights
from discreet.plan.spreads.spread import Spread

if TYPE_CHECKING:
    from discreet.plan.plan import Plan


def partition_lines(plan: Plan, spread: Spread) -> list[str]:
    """Which sums of cells are measured, and how each count is read from them."""
    assert spread.layers is not None
    read = dict.fromkeys(
        e
        for expr in plan.question.outer.expressions
        for e in walk(expr)
        if isinstance(e, Within) and e.spread == spread
    )
    sums = " and ".join(f"{len(layer):,}" for layer in spread.layers)
    each = f"on each of {spread.depth} levels ({sums} sums)" if spread.depth > 1 else f"({sums} sums)"
    lines = [
        f"  A row lies in one cell at most, so all counts that are read from them cost together what one costs {each};",
        "  each is read from the sums by least squares:",
    ]
    for i, count in enumerate(read):
        terms = len(weights(spread.layers, count.leaves))
        lines.append(
            f"    count {i}: {_of(len(count.leaves), 'cell')}, read from {_of(terms, 'sum')}; "
            f"standard deviation {math.sqrt(variance_of(plan, count)):,.4g} rows."
        )
    return lines


def _of(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' if n != 1 else ''}"
