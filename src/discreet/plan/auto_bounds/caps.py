"""Which caps to use, chosen from a noisy census of units: how many groups and rows they have, and how unevenly.

A cap that is too low truncates most of a heavy-tailed table; one that is too high drowns it in noise. The first stage
of `bounds="auto"` counts units by their number of groups, their number of rows, and the share of their largest group:
one unit is one of these counts, so it moves the census by 1. What follows is post-processing of the noisy census.

References:
    The bias and the noise of a cap traded off: Amin, Kulesza, Muñoz Medina, Vassilvitskii 2019, *Bounding user
    contributions*, https://proceedings.mlr.press/v97/amin19a.html
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.summed import SummedNoise
from discreet.plan.auto_bounds.ranges import CONFIDENCE

Cell: TypeAlias = tuple[int, int, int]
"""A place in the census: the bins of a unit's groups, of its rows, and of the share of its largest group."""

EDGES = tuple(1 << i for i in range(21))
"""Where the bins of numbers of groups and of rows begin: 1, 2, 4, … 2^20. Fine bins would drown in the noise."""

CANDIDATES = tuple(sorted({*EDGES, *(3 << i for i in range(20))}))
"""Caps that may be chosen: 1, 2, 3, 4, 6, 8, 12, … 2^20."""

SHARES = 2
"""Bins of the share of the largest group: nearer to evenly spread, or to all rows in one group."""

_SURE = 1e-3
"""With what chance some empty place of the census is taken for an inhabited one, far from all others."""

_NEAR = 0.05
"""With what chance one beside an inhabited one is."""


@dataclass(frozen=True, slots=True)
class Caps:
    """At most so many groups of a unit, and so many rows in each; or so many rows in all, which is less then."""

    groups: int
    rows: int
    total: int | None = None

    @property
    def counted(self) -> int:
        """How many rows of a unit count at most."""
        return self.groups * self.rows if self.total is None else self.total

    @property
    def words(self) -> str:
        """What was chosen, as it would be declared."""
        if self.total is not None:
            return f"max_contributions = {self.total}"
        return f"max_groups = {self.groups} and max_rows = {self.rows}"


def choose(
    census: Mapping[Cell, int], noise: DiscreteLaplaceNoise, *, groups: int | None, columns: int, epsilon: Fraction
) -> Caps:
    """Return the caps with the least error expected over all groups: rows that are cut off, and noise.

    Args:
        census: the noisy counts; places that are missing count as 0.
        noise: what was added to each.
        groups: how many groups there are, None if that is private.
        columns: how many columns of the result share the second stage's budget.
        epsilon: what the second stage spends.
    """
    people = [(_typical(cell), n) for cell, n in _inhabited(census, noise, groups).items()]
    most_groups = max((k for (k, _, _), _ in people), default=1.0)
    most_rows = max((largest for (_, largest, _), _ in people), default=1.0)
    reach = groups if groups is not None else max(math.ceil(most_groups), 1)
    best: tuple[float, Caps] | None = None
    for k in _candidates(min(most_groups, reach), reach):
        for r in _candidates(most_rows, CANDIDATES[-1]):
            cut = sum(n * _cut(unit, k, r) for unit, n in people)
            error = cut + reach * math.sqrt(2) * columns * k * r / float(epsilon)
            if best is None or error < best[0]:
                best = error, Caps(k, r)
    assert best is not None
    for total in (
        _candidates(max((sum_of(unit) for unit, _ in people), default=1.0), CANDIDATES[-1]) if reach > 1 else ()
    ):
        cut = sum(n * max(sum_of(unit) - total, 0) for unit, n in people)
        error = cut + reach * math.sqrt(2) * columns * total / float(epsilon)
        if error < best[0]:
            best = error, Caps(total, total, total)
    return best[1]


def beyond(census: Mapping[Cell, int], caps: Caps, groups: int | None) -> tuple[int, int]:
    """Return the noisy number of units that may exceed caps, and that of all units."""
    cut, others = _split(caps, groups)
    return sum(census[c] for c in cut), sum(census[c] for c in (*cut, *others))


def share_beyond(counts: tuple[int, int], caps: Caps, noise: DiscreteLaplaceNoise, groups: int | None) -> Fraction:
    """Return an upper limit of the share of units that exceed caps, from what `beyond` gives.

    Guarantee:
        It is at least the true share with a probability of `CONFIDENCE` over the noise, for all caps together, so that
        they may be chosen from the same noisy counts (docs/proofs/census.md, 7).
    """
    cut, others = _split(caps, groups)
    # caps cut off no more different sets of places
    error, sets = 1 - CONFIDENCE, (_bins(groups) + (groups != 1)) * len(EDGES)
    most = counts[0] + SummedNoise(noise, len(cut)).quantile(1 - 2 * error * Fraction(24, 25) / sets)
    least = counts[1] - SummedNoise(noise, len(cut) + len(others)).quantile(1 - 2 * error * Fraction(1, 25))
    return min(Fraction(max(most, 0), least), Fraction(1)) if least > 0 else Fraction(1)


def _split(caps: Caps, groups: int | None) -> tuple[list[Cell], list[Cell]]:
    """Return the places in which units can be that exceed caps, and those in which only other units can be.

    A unit has a row for each of its groups at least; with one group, all of them are in the largest. In the last bins
    there is no most.
    """
    cut: list[Cell] = []
    others: list[Cell] = []
    for k in range(_bins(groups)):
        for n in range(k, len(EDGES)):
            for share in range(SHARES) if k else [int(n > 0)]:
                rows = max((2 << n) * (share + 1) // SHARES - 1, 1) if n + 1 < len(EDGES) else math.inf
                most = (2 << k) - 1 if k + 1 < len(EDGES) else math.inf
                if caps.total is not None:
                    exceeds = n + 1 == len(EDGES) or (2 << n) - 1 > caps.total
                else:
                    exceeds = rows > caps.rows or (most if groups is None else min(most, groups)) > caps.groups
                (cut if exceeds else others).append((k, n, share))
    return cut, others


def _bins(groups: int | None) -> int:
    """How many bins of numbers of groups there are."""
    return len(EDGES) if groups is None else sum(e <= groups for e in EDGES)


def place_sql(groups: str, rows: str, largest: str) -> tuple[str, str, str]:
    """Return SQL for a unit's place in the census, from its numbers of groups, rows, and rows in its largest group."""
    of = f"greatest({rows} - 1, 1)"
    arms = " ".join(f"WHEN {SHARES} * ({largest} - 1) < {i + 1} * {of} THEN {i}" for i in range(SHARES - 1))
    return _bin_sql(groups), _bin_sql(rows), f"CASE {arms} ELSE {SHARES - 1} END"


def _bin_sql(number: str) -> str:
    """Return the bin of a whole number from 1 on: the logarithm of a power of two is exact, below one it is less."""
    return f"floor(log2(least(greatest({number}, 1), {EDGES[-1]})))"


def _inhabited(census: Mapping[Cell, int], noise: DiscreteLaplaceNoise, groups: int | None) -> dict[Cell, int]:
    """Return the places whose counts stand above the noise: far above it, or less far beside one that does.

    A unit cannot have more groups than there are. The tail of a table is where few people are: an empty place that is
    d bins from an inhabited one is taken for one with a chance of `_NEAR`·4^(1−d) over the places that are so near, so
    that its larger caps cost little on average.
    """
    possible = {c: n for c, n in census.items() if groups is None or EDGES[c[0]] <= groups}
    scale = float(noise.scale)
    bins = _bins(groups)
    sure = [c for c, n in possible.items() if n > scale * math.log(bins * len(EDGES) * SHARES / (2 * _SURE))]
    found = {}
    for cell, n in possible.items() if sure else ():
        away = min(max(abs(cell[0] - s[0]), abs(cell[1] - s[1])) for s in sure)
        beside = SHARES * 2 * min(2 * away + 1, bins)  # about so many places lie as far out in rows
        if n > scale * (math.log(beside / (2 * _NEAR)) + (away - 1) * math.log(4)) or cell in sure:
            found[cell] = n
    return found


def _typical(cell: Cell) -> tuple[float, float, float]:
    """Return a unit of that place: its groups, the rows of its largest group, and the rows of each other group."""
    k, rows = _middle(cell[0]), max(_middle(cell[1]), _middle(cell[0]))
    largest = max(1 + (cell[2] + 0.5) / SHARES * (rows - 1), rows / k)
    return k, largest, (rows - largest) / (k - 1) if k > 1 else 0.0


def _middle(i: int) -> float:
    return (EDGES[i] + EDGES[i + 1] - 1) / 2 if i + 1 < len(EDGES) else float(EDGES[i])


def sum_of(unit: tuple[float, float, float]) -> float:
    """Return the rows of a typical unit."""
    k, largest, other = unit
    return largest + (k - 1) * other


def _cut(unit: tuple[float, float, float], groups: int, rows: int) -> float:
    """Return the rows that such a unit loses: each of its groups is kept with the same chance."""
    k, largest, other = unit
    kept = min(largest, rows) + (k - 1) * min(other, rows)
    return largest + (k - 1) * other - min(1.0, groups / k) * kept


def _candidates(typical: float, most: int) -> list[int]:
    """Caps up to the first that holds a typical number, and `most` where that is less."""
    found = [c for c in CANDIDATES if c < min(typical, most)]
    beyond = next((c for c in CANDIDATES if c >= typical), CANDIDATES[-1])
    return [*found, min(beyond, most)]
