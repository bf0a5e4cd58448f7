"""What `explain` says of totals that are measured."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet.plan.levels.weigh import agreements, levels_of

if TYPE_CHECKING:
    from discreet.plan.plan import Plan


def level_lines(plan: Plan) -> list[str]:
    """Which levels are measured, with what part of the budget, and what noise is left on each; nothing without them."""
    allocation, levels = plan.allocation, levels_of(plan.question)
    if not allocation.levels or levels is None:
        return []
    part = {level.kept: level.share for level in allocation.levels}
    part[levels.kept[0]] = 1 - sum(part.values(), Fraction(0))
    combined = agreements(plan.question, allocation)
    lines = [
        "Totals are measured as well, and all levels made to agree by least squares, so that totals are sums:"
    ]
    for kept in levels.kept:
        noise = ", ".join(
            f"{math.sqrt(a.variance(kept)) * float(m.step):,.4g}"
            for a, m in zip(combined, plan.question.measures, strict=True)
        )
        share = (
            f"{float(part[kept]):.1%} of each column's budget" if kept in part else "not measured, added up"
        )
        keys = f"{len(kept)} of {len(levels.sizes)} keys" if kept else "the grand total"
        lines.append(
            f"  {keys}: {levels.cells(kept):,} of {levels.parts(kept):,} finest groups each; {share}; "
            f"standard deviation {noise}."
        )
    return lines
