"""A recipe over a caller's own arrays, without a ledger: for audits, and for whoever charges elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.engine.meter import Meter, follow
from discreet.engine.person_parts import part_uses
from discreet.errors import InvalidParameter
from discreet.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from discreet.engine.recipe import Recipe
    from discreet.engine.row_factor import Integers
    from discreet.noise.entropy import Entropy
    from discreet.plan.decided import HandedRows
    from discreet.plan.plan import Plan


def run_on_arrays(
    recipe: Recipe[Any, Any],
    plan: Plan,
    who: NDArray[Any],
    columns: Mapping[str, NDArray[Any]],
    *,
    rng: Entropy | None = None,
) -> Any:
    """Draw what a recipe planned, of arrays in the place of its tables, and return the state of its run.

    Guarantee:
        All that is returned costs the plan's events for one person of `who`, once for each call; the caller accounts
        for them. Values are clamped and rounded, and rows of a person cut off, as the plan's rows say.

    Args:
        recipe: whose parts all read columns of these names.
        plan: what it planned; WHERE and the tables of its rows are the caller's business.
        who: whose each row is: integers.
        columns: name → the numbers of all rows, NaN for none.
        rng: where randomness comes from; the operating system's by default.

    Raises:
        InvalidParameter: a column is missing, or has another length, or the plan asks SQL.
        InternalError: the recipe's code failed.
    """
    if plan.measurements or not plan.parts:
        raise InvalidParameter(
            "arrays have people's rows, and this plan asks queries in SQL.", hint="perform it in a session"
        )
    reads = {part.rows.sql: part.rows for part in plan.parts}
    for read in reads.values():
        _check(read, len(who), columns)
    meter = Meter(
        part_uses(plan.parts, recipe),
        lambda text, keyed: [],
        SystemEntropy() if rng is None else rng,
        lambda text, keyed: _columns(reads[text], np.asarray(who), columns),
    )
    return follow(recipe.run(plan), meter)


def _check(read: HandedRows, rows: int, columns: Mapping[str, NDArray[Any]]) -> None:
    """Refuse arrays that lack a column, or have different lengths."""
    missing = [name for name in read.columns if name not in columns]
    if missing or any(len(columns[name]) != rows for name in read.columns):
        raise InvalidParameter(
            f"the arrays lack {missing[0]!r}." if missing else "the arrays have different lengths.",
            hint=f"one number a row in each of: {', '.join(read.columns)}",
        )


def _columns(read: HandedRows, who: NDArray[Any], columns: Mapping[str, NDArray[Any]]) -> list[Integers]:
    """Return what a database would have given of these rows: people's numbers, and whole numbers within the bounds."""
    found = []
    for name, v in read.columns.items():
        real = np.asarray(columns[name], np.float64)
        steps = np.rint(np.clip(real / float(v.step), v.low, v.high))
        nearest = min(max(0, v.low), v.high)
        found.append(np.where(np.isfinite(real), steps, nearest).astype(np.int64))
    if not read.is_keyed:
        return found
    people, number = np.unique(who, return_inverse=True)
    order = np.lexsort([*reversed(found), number])
    first = np.searchsorted(number[order], np.arange(len(people)))
    kept = order[np.arange(len(order)) - first[number[order]] < read.most]
    return [number[kept].astype(np.int64), *(c[kept] for c in found)]
