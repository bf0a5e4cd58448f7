"""Intervals of what follows from noisy tables: from the ends of their intervals, or by drawing their noise again.

Guarantee:
    Post-processing: a function of noisy tables, of the laws of their noise and of the outer query, which are public.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet.post.evaluate import evaluate

if TYPE_CHECKING:
    from discreet.mechanisms.additive import Additive
    from discreet.plan.plan import Plan, PlanOutput
    from discreet.post.noisy_table import NoisyTable

PAIRS = 100
"""Draws of the noise, each used with both signs: 200 runs of the outer query."""

BENT = 0.1
"""How far the two runs of a draw may differ, of their size together, before a column does not count as smooth."""

Rows: TypeAlias = "Sequence[Sequence[Any]]"
Place: TypeAlias = tuple[int, int]
"""Which measurement, and which of its columns."""


@dataclass(slots=True)
class _Stream:
    """Bytes that follow from what was released: drawing noise again for its spread is no secret."""

    seed: bytes
    drawn: int = 0

    def bytes(self, n: int, /) -> bytes:
        """Return the next `n` bytes."""
        self.drawn += 1
        return hashlib.shake_256(self.seed + self.drawn.to_bytes(8, "big")).digest(n)


def redrawn(plan: Plan, tables: Mapping[str, NoisyTable]) -> Iterator[tuple[dict[str, Rows], dict[str, Rows]]]:
    """Yield the rows of all parts with their noise drawn once more, added and taken away: what parts share, alike."""
    kept = json.dumps([t.to_json() for t in tables.values()], sort_keys=True)
    rng = _Stream(hashlib.sha256(kept.encode()).digest())
    for _ in range(PAIRS):
        drawn: dict[Place, list[int]] = {}
        for name, output in plan.outputs.items():
            for key, noise in column_places(output):
                if key not in drawn:
                    drawn[key] = noise.add([0] * len(tables[name].cells), rng)
        yield (moved(plan, tables, drawn, 1), moved(plan, tables, drawn, -1))


def column_places(output: PlanOutput) -> list[tuple[Place, Additive]]:
    """Return for each noisy column of a part which measured one it is, and its noise."""
    place, noises = output.place, output.query.allocation.noises
    return [((0, i) if place is None else (place.measurement, place.columns[i]), z) for i, z in enumerate(noises)]


def moved(
    plan: Plan, tables: Mapping[str, NoisyTable], drawn: Mapping[Place, Sequence[int]], sign: int
) -> dict[str, Rows]:
    """Return the rows of all parts with the numbers of each measured column moved."""
    found: dict[str, Rows] = {}
    for name, output in plan.outputs.items():
        table, moves = tables[name], [drawn[key] for key, _ in column_places(output)]
        cells = tuple(
            tuple(c + sign * m[k] for c, m in zip(row, moves, strict=True)) for k, row in enumerate(table.cells)
        )
        found[name] = [values for _, values in evaluate(output.query, replace(table, cells=cells))]
    return found


def spread(shown: Rows, column: int, runs: Sequence[tuple[Rows, Rows]], level: Fraction) -> list[float | None]:
    """Return for each row how far a column lies from the truth at most, at this confidence; None where that is unknown.

    Each pair of runs has one draw of the noise with both signs. Where a column is linear in the noise, what it is moved
    by has the law of its own error. It is unknown where a draw and its opposite do not move it alike.
    """
    place = math.ceil(level * (len(runs) + 1))
    if place > len(runs):
        return [None] * len(shown)
    found: list[float | None] = []
    for i, row in enumerate(shown):
        moves = [(_moved_by(row[column], up[i][column]), _moved_by(row[column], down[i][column])) for up, down in runs]
        if not all(math.isfinite(m) for pair in moves for m in pair):
            found.append(None)
            continue
        sizes = sorted(max(abs(up), abs(down)) for up, down in moves)
        largest = sizes[place - 1]
        is_bent = sum(abs(up + down) for up, down in moves) > BENT * sum(abs(up) + abs(down) for up, down in moves)
        found.append(None if is_bent else largest)
    return found


def _moved_by(value: Any, other: Any) -> float:
    numbers = isinstance(value, int | float) and isinstance(other, int | float)
    return float(other) - float(value) if numbers else math.nan
