"""How far one unit moves an integer column or a level of a spread, from what the SQL says of it."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.privacy.sensitivity import Sensitivity
from discreet.verify.spread import DerivedSpread


@dataclass(frozen=True, slots=True)
class Moves:
    """How far one unit moves a column: ℓ1 and squared ℓ2 at worst, how many of its numbers and each of them by how much
    at worst, and a move that it surely can make (`many` numbers by `far` each).
    """

    l1: int
    l2_squared: int
    many: int
    far: int
    furthest: int

    @property
    def norms(self) -> tuple[int, int, int, int]:
        """The four norms of the worst change: l0, linf, l1 and squared l2."""
        return self.many, self.furthest, self.l1, self.l2_squared

    def within(self, said: Sensitivity) -> bool:
        """Whether no norm is larger than is said."""
        return all(own <= most for own, most in zip(self.norms, norms(said), strict=True))


def norms(said: Sensitivity) -> tuple[int, int, int, int]:
    """Return the four norms of a sensitivity, in the order of `Moves.norms`."""
    return said.l0, said.linf, said.l1, said.l2_squared


def column_moves(span: tuple[int, int], k: int, groups: int | None, *, replace: bool) -> Moves:
    """Return the worst change of a unit that adds to at most k groups a number of the span, by trying every number of
    shared groups; `groups` is how many there are, None when that is private.
    """
    low, high = min(span[0], 0), max(span[1], 0)
    far, width = max(-low, high), high - low
    if not replace:
        return Moves(k * far, k * far * far, k, far, far)
    best1 = best2 = 0
    # what is best is best at an end: both norms are linear in the number of shared groups on either side of a bend
    bend = k if groups is None else min(max(2 * k - groups, 0), k)
    for shared in {0, bend, max(bend - 1, 0), min(bend + 1, k), k}:
        fresh = 2 * (k - shared) if groups is None else min(2 * (k - shared), groups - shared)
        best1 = max(best1, shared * width + fresh * far)
        best2 = max(best2, shared * width * width + fresh * far * far)
    return Moves(best1, best2, 2 * k if groups is None else min(2 * k, groups), far, width)


def tree_moves(found: DerivedSpread, groups: int, *, replace: bool) -> Moves:
    """Return the worst change of a level of a spread."""
    l1, l2_squared, many, far = found.moves(groups, replace=replace)
    return Moves(l1, l2_squared, many, far, far)
