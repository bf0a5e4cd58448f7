"""The one pair of laws that dominates every pair of neighbours of a table, and nothing more."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise

Row = tuple[int, ...]


def dominating(
    laws: Iterable[tuple[Row, Row]], whole: int
) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """(P, Q) with P(E) − aQ(E) at its largest, for every a ≥ 0, what it is at most over all the given pairs of laws.

    The points (Q(E), P(E)) of the likeliest events of all pairs have an upper convex hull; its edges are the
    outcomes of the pair.

    References: Zhu, Dong, Wang 2022, Proposition 8, https://arxiv.org/abs/2106.08567; proof:
    docs/proofs/finite.md
    """
    points = {(0, 0), (whole, whole)}
    for p, q in laws:
        points |= set(_curve(p, q))
    hull = _upper(points)
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(hull)]
    return tuple(Fraction(p, whole) for _, p in steps), tuple(Fraction(q, whole) for q, _ in steps)


def _curve(p: Row, q: Row) -> Iterable[tuple[int, int]]:
    """The events {P > aQ} as points (Q, P), from the likeliest outputs on."""
    ratios: dict[Fraction | None, tuple[int, int]] = {}
    for a, b in zip(p, q, strict=True):
        if a or b:
            ratio = Fraction(a, b) if b else None
            more, less = ratios.get(ratio, (0, 0))
            ratios[ratio] = more + a, less + b
    under, over = 0, 0
    if None in ratios:
        over = ratios.pop(None)[0]
        yield 0, over
    for _, (a, b) in sorted(ratios.items(), key=lambda r: r[0] or Fraction(0), reverse=True):
        under, over = under + b, over + a
        yield under, over


def _upper(points: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The vertices of the upper hull from (0, 0) to the right end, none between two others (Andrew 1979)."""
    highest: dict[int, int] = {}
    for x, y in points:
        highest[x] = max(y, highest.get(x, y))
    hull: list[tuple[int, int]] = []
    for x, y in sorted(highest.items()):
        while len(hull) > 1 and _turn(hull[-2], hull[-1], (x, y)) >= 0:
            hull.pop()
        hull.append((x, y))
    return hull if hull[0] == (0, 0) else [(0, 0), *hull]


def _turn(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> int:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
