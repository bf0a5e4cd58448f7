"""The true curves of groups, at `DIGITS` digits or as exact fractions. Nothing here looks at the package."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import mpmath
from mpmath import mpf

from tests.privacy.curves import exactly, real

Point = tuple[Fraction, Fraction]


def iterated(p: Sequence[Fraction], q: Sequence[Fraction], k: int, alpha: Fraction) -> Fraction:
    """The largest g(g(…g(x))) − αx with g(x) the largest p(S) of an event with q(S) ≤ x, all of it exact.

    It is concave and piecewise linear, and bends only where some inner value meets a corner of g.
    """
    corners = _corners(p, q)
    places = {Fraction(0), Fraction(1)}
    for corner, _ in corners:
        x: Fraction | None = corner
        for _ in range(k):
            if x is None:
                break
            places.add(x)
            x = _inverse(corners, x)
    best = Fraction(0)
    for place in places:
        value = place
        for _ in range(k):
            value = _value(corners, value)
        best = max(best, value - alpha * place)
    return best


@exactly
def sampled(mu_squared: Fraction, rate: Fraction, k: int, epsilon: float, removes: bool) -> mpf:
    """The curve of (Σ_j Bin(j; k, q) N(jμ, 1), N(0, 1)), or of the two swapped, from the best ray."""
    mu, q, alpha = mpmath.sqrt(real(mu_squared)), real(rate), mpmath.exp(real(epsilon))
    weights = _weights(q, k)
    edge = _edge(mu, weights, alpha if removes else 1 / alpha)
    if removes:
        beyond = sum((w * mpmath.ncdf(j * mu - edge) for j, w in enumerate(weights)), mpf(0))
        return beyond - alpha * mpmath.ncdf(-edge)
    before = sum((w * mpmath.ncdf(edge - j * mu) for j, w in enumerate(weights)), mpf(0))
    return mpmath.ncdf(edge) - alpha * before


@exactly
def sampled_by_quadrature(mu_squared: Fraction, rate: Fraction, k: int, epsilon: float, removes: bool) -> mpf:
    """∫ (p − e^ε q)₊, from the definition."""
    mu, q, alpha = mpmath.sqrt(real(mu_squared)), real(rate), mpmath.exp(real(epsilon))
    weights = _weights(q, k)

    def excess(x: mpf) -> mpf:
        mixed = sum((w * mpmath.npdf(x, mu=j * mu) for j, w in enumerate(weights)), mpf(0))
        difference = mixed - alpha * mpmath.npdf(x) if removes else mpmath.npdf(x) - alpha * mixed
        return max(difference, mpf(0))

    edge = _edge(mu, weights, alpha if removes else 1 / alpha)
    cuts = [edge + step for step in (0, 1, 2, 4, 7, 12)]
    return mpmath.quad(excess, cuts if removes else sorted(2 * edge - cut for cut in cuts))


def _weights(q: mpf, k: int) -> list[mpf]:
    return [mpmath.binomial(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]


def _edge(mu: mpf, weights: list[mpf], ratio: mpf) -> mpf:
    """Where the density of the mixture is `ratio` times that of N(0, 1)."""
    low, high = mpf(-500), mpf(500)
    for _ in range(220):
        x = (low + high) / 2
        found = sum((w * mpmath.exp(j * mu * x - (j * mu) ** 2 / 2) for j, w in enumerate(weights)), mpf(0))
        low, high = (low, x) if found > ratio else (x, high)
    return low


def _corners(p: Sequence[Fraction], q: Sequence[Fraction]) -> list[Point]:
    order = sorted(zip(p, q, strict=True), key=lambda pq: (pq[1] == 0, pq[0] / pq[1] if pq[1] else 0), reverse=True)
    x, y, out = Fraction(0), Fraction(0), []
    for a, b in order:
        x, y = x + b, y + a
        out.append((x, y))
    first = Fraction(0), sum((a for a, b in order if not b), Fraction(0))
    return [first, *(point for point in out if point[0] > 0)]


def _value(corners: list[Point], x: Fraction) -> Fraction:
    for (a, b), (c, d) in pairwise(corners):
        if a <= x <= c and c > a:
            return b + (d - b) * (x - a) / (c - a)
    return Fraction(1)


def _inverse(corners: list[Point], y: Fraction) -> Fraction | None:
    if y < corners[0][1]:
        return None
    for (a, b), (c, d) in pairwise(corners):
        if b <= y <= d and d > b:
            return a + (c - a) * (y - b) / (d - b)
    return Fraction(1)
