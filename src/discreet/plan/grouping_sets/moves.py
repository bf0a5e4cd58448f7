"""How far one unit moves the totals of one level, and those of all levels together.

The groups of a level are sums of the finest ones, `parts` of them each, and a unit adds to at most k finest groups an
integer of its span. So it moves a total of n of its groups by at most n times that, and many totals by less.

References: docs/proofs/totals.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.privacy.unit import Relation, Sensitivity


@dataclass(frozen=True, slots=True)
class ColumnReach:
    """What a unit can do to one column: an integer of `span` in each of at most `groups` finest groups."""

    span: tuple[int, int]
    groups: int
    relation: Relation

    @property
    def most(self) -> int:
        """By how much it moves one finest group when it comes or goes."""
        return max(-self.span[0], self.span[1])

    @property
    def width(self) -> int:
        """By how much it moves one finest group when it changes."""
        return self.span[1] - self.span[0]


def level_moves(reach: ColumnReach, cells: int, parts: int) -> Sensitivity:
    """How far one unit moves the `cells` totals of a level, each over `parts` finest groups; exact.

    >>> level_moves(ColumnReach((0, 10), 3, Relation.ADD_REMOVE), 5, 4)
    Sensitivity(l0=3, linf=30, l1=30, l2_squared=900)
    """
    k, most = min(reach.groups, cells * parts), reach.most
    full, rest = divmod(k, parts)
    together = min(k, parts)
    if reach.relation is Relation.ADD_REMOVE:
        return Sensitivity(
            min(k, cells), together * most, l1=k * most, l2_squared=most**2 * (full * parts**2 + rest**2)
        )
    least = reach.width - most

    def moved(one: int, other: int) -> int:  # a total that has `one` groups before and `other` after
        return most * max(one, other) + least * min(one, other)

    first = second = 0
    for pairs in _pairings(full, parts, rest, cells):
        sizes = [(n, moved(*pair)) for pair, n in pairs]
        first = max(first, sum(n * d for n, d in sizes))
        second = max(second, sum(n * d * d for n, d in sizes))
    return Sensitivity(min(2 * k, cells), together * reach.width, l1=first, l2_squared=second)


def _pairings(full: int, parts: int, rest: int, cells: int) -> Iterator[list[tuple[tuple[int, int], int]]]:
    """How many totals have how many groups before and after, at the extremes.

    Both sides fill `full` totals each and put a rest into another, since both norms are convex in how many groups each
    total has; and they are linear in how many totals both fill, so that only the fewest and the most are tried.
    """
    rests = 1 if rest else 0
    # a rest meets a full total of the other side, once or twice, or the other rest
    for on_full, on_rest in ((0, 0), (1, 0), (2, 0), (0, 1)) if rest else ((0, 0),):
        alone = 2 * (rests - on_rest) - on_full
        fewest = max(2 * full + alone + on_rest - cells, 0)
        most = full - (on_full + 1) // 2
        for both in {fewest, most} if fewest <= most else ():
            yield [
                ((parts, parts), both),
                ((parts, 0), 2 * (full - both) - on_full),
                ((parts, rest), on_full),
                ((rest, rest), on_rest),
                ((rest, 0), alone),
            ]


def joint_l1(
    reach: ColumnReach, moves: Sequence[Sensitivity], cells: Sequence[int], rates: Sequence[Fraction]
) -> Fraction:
    """Return the most that Σ rateₛ·‖move of level s‖₁ can be for one unit.

    With noise of scale 1/rate on each level that is what all levels cost together. When a unit comes or goes every
    level can move by its most at once. When it changes, a grand total cannot where the finest groups do: what leaves
    one group enters another.
    """
    apart = sum((a * s.l1 for a, s in zip(rates, moves, strict=True)), Fraction(0))
    if reach.relation is Relation.ADD_REMOVE:
        return apart
    total = sum((a for a, n in zip(rates, cells, strict=True) if n == 1), Fraction(0))
    other = sum(rates, Fraction(0)) - total
    together = reach.groups * max(2 * reach.most * other, reach.width * (other + total))
    return min(apart, together)
