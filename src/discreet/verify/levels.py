"""What the totals of ROLLUP, CUBE and GROUPING SETS cost beside the finest groups, from the derived facts alone.

A unit adds to at most k finest groups an integer of its span. The totals of a level are sums of them, which are not
taken by the database, so that its text says nothing of them; the levels themselves are read off the plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product


@dataclass(frozen=True, slots=True)
class Tier:
    """A level of totals: how many there are, how many finest groups each adds up, and the noise on each: its scale, or
    its variance where it is Gaussian.
    """

    cells: int
    parts: int
    noise: Fraction


def tier_of(sizes: Sequence[int], kept: Sequence[int], noise: Fraction) -> Tier | None:
    """Return the level that keeps these keys; None where they are no keys of the query, each once."""
    if len(set(kept)) != len(kept) or not all(0 <= i < len(sizes) for i in kept):
        return None
    cells = math.prod(sizes[i] for i in kept)
    return Tier(cells, math.prod(sizes) // cells, noise)


def laplace_cost(tiers: Sequence[Tier], span: tuple[int, int], k: int, *, replace: bool) -> Fraction:
    """Return the ε of Laplace noise on all tiers: the most that Σ ‖move of a tier‖₁ / scale can be."""
    low, high = max(-span[0], 0), max(span[1], 0)
    apart = sum((Fraction(_furthest(t, low, high, k, replace=replace)) / t.noise for t in tiers), Fraction(0))
    if not replace:
        return apart
    # Let a change put x into groups and take y out of them. The one total of everything moves by |x − y|, every
    # other level by x + y at most. Both sides put all they can at one end of the span, or nothing: it is convex.
    total = sum((1 / t.noise for t in tiers if t.cells == 1), Fraction(0))
    rest = sum((1 / t.noise for t in tiers if t.cells > 1), Fraction(0))
    ends = ((k * high, 0), (0, k * low), (0, 0))
    together = max(
        rest * (new_up + old_down + new_down + old_up) + total * abs((new_up + old_down) - (new_down + old_up))
        for (new_up, new_down), (old_up, old_down) in product(ends, ends)
    )
    return min(apart, together)


def gaussian_cost(tiers: Sequence[Tier], span: tuple[int, int], k: int, *, replace: bool) -> Fraction:
    """Return the μ² of Gaussian noise on all tiers, each at its worst."""
    low, high = max(-span[0], 0), max(span[1], 0)
    return sum((Fraction(_furthest_squared(t, low, high, k, replace=replace)) / t.noise for t in tiers), Fraction(0))


def _furthest(tier: Tier, low: int, high: int, k: int, *, replace: bool) -> int:
    """ℓ1 of a tier: a total with a groups before and b after moves by most·max(a, b) + least·min(a, b)."""
    most, least = max(low, high), min(low, high)
    if not replace:
        return k * most
    full, rest = divmod(k, tier.parts)
    shared = max(2 * k - tier.cells * tier.parts, 0)
    if rest and tier.cells == 2 * full + 1:
        shared = rest  # the two rests have one total left
    return k * (most + least) + (most - least) * (k - shared)


def _furthest_squared(tier: Tier, low: int, high: int, k: int, *, replace: bool) -> int:
    """ℓ2² of a tier, by trying every number of totals that are full before and after, and every place of the rests."""
    most, least = max(low, high), min(low, high)
    full, rest = divmod(k, tier.parts)
    if not replace:
        return most**2 * (full * tier.parts**2 + rest**2)

    def squared(a: int, b: int) -> int:
        return (most * max(a, b) + least * min(a, b)) ** 2

    best = 0
    for both in range(full + 1):
        for pairs in _places(tier, full - both, full - both, rest):
            if both + len(pairs) <= tier.cells:
                best = max(best, both * squared(tier.parts, tier.parts) + sum(squared(a, b) for a, b in pairs))
    return best


def _places(tier: Tier, ones: int, others: int, rest: int) -> Iterator[list[tuple[int, int]]]:
    """Yield the totals that are not full on both sides: full ones of a side, met by a rest of the other or nothing."""
    before, after = [tier.parts] * ones, [tier.parts] * others
    if not rest:
        yield [*((a, 0) for a in before), *((0, b) for b in after)]
        return
    yield [*((a, 0) for a in before), *((0, b) for b in after), (rest, rest)]
    for on_after, on_before in product((False, True), repeat=2):
        if (on_after and not after) or (on_before and not before):
            continue
        pairs = [*((a, 0) for a in before[int(on_before) :]), *((0, b) for b in after[int(on_after) :])]
        pairs.append((rest, tier.parts) if on_after else (rest, 0))
        pairs.append((tier.parts, rest) if on_before else (0, rest))
        yield pairs
