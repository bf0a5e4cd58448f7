"""Textbook intervals: what a reader can check without the betting."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


def clopper_pearson(hits: int, n: int, error: float) -> tuple[float, float]:
    """Both ends of an interval for a chance, from `hits` in `n` independent trials.

    Guarantee:
        Each end is on the wrong side of the truth with probability at most error/2.

    References:
        Clopper, Pearson 1934, https://doi.org/10.1093/biomet/26.4.404
    """
    low, high = clopper_pearson_many(np.asarray([hits]), n, error)
    return float(low[0]), float(high[0])


def clopper_pearson_many(hits: NDArray[np.int_], n: int, error: float) -> tuple[Floats, Floats]:
    """`clopper_pearson` for several counts; each interval has the error by itself."""
    from scipy.special import betaincinv

    k = np.asarray(hits, dtype=np.float64)
    if n == 0:
        return np.zeros_like(k), np.ones_like(k)
    low = betaincinv(np.maximum(k, 1), np.maximum(n - k + 1, 1), error / 2)
    high = betaincinv(k + 1, np.maximum(n - k, 1), 1 - error / 2)
    # The inverse of the incomplete beta function is good to about 1e-13; outwards by more than that.
    low = np.where(k > 0, low * (1 - 1e-9), 0.0)
    high = np.where(k < n, np.minimum(high * (1 + 1e-9), 1.0), 1.0)
    return np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)


def broken(points: Iterable[tuple[float, float]], low: float, high: float) -> bool:
    """Return whether promises P(E) ≤ e^ε Q(E) + δ contradict P(E) ≥ low and Q(E) ≤ high."""
    return any(low > math.exp(min(e, 700.0)) * high + d for e, d in points)


def tradeoff_high(
    alpha: Floats, p_hits: NDArray[np.int_], q_hits: NDArray[np.int_], n: int, error: float
) -> tuple[Floats, Floats]:
    """Return the type II errors of the tests "reject when the event happens", and upper bounds that hold all at once.

    Args:
        alpha: type I errors at which the curve is wanted.
        p_hits: how often each event happened in n samples of P (the alternative). The events were chosen before these
            samples were drawn.
        q_hits: the same in n samples of Q (the null).
        n: samples of each.
        error: the chance that any of the bounds is below what the best test can reach.

    Returns:
        `beta`, estimated, and `beta_high`, at each alpha.

    Guarantee:
        With probability at least 1 − error, the least type II error among tests of type I error alpha is at most
        beta_high, for all alpha at once: 2K one-sided Clopper–Pearson bounds, each with error/(2K), and tests in
        between by randomising.
    """
    each = error / (2 * max(len(p_hits), 1))
    type_one = np.concatenate([[0.0], q_hits / max(n, 1), [1.0]])
    type_two = np.concatenate([[1.0], 1 - p_hits / max(n, 1), [0.0]])
    one_high = np.concatenate([[0.0], clopper_pearson_many(q_hits, n, 2 * each)[1], [1.0]])
    two_high = np.concatenate([[1.0], 1 - clopper_pearson_many(p_hits, n, 2 * each)[0], [0.0]])
    return _under(type_one, type_two, alpha), _under(one_high, two_high, alpha)


def _under(x: Floats, y: Floats, at: Floats) -> Floats:
    """Return the lower convex hull of points, at `at`: a mixture of two tests is a test."""
    hull: list[tuple[float, float]] = []
    for point in sorted(zip(x.tolist(), y.tolist(), strict=True)):
        if hull and point[1] >= hull[-1][1]:
            continue  # not better than one with a smaller type I error
        while len(hull) >= 2 and _above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    xs, ys = np.asarray(hull).T
    return np.asarray(np.interp(at, xs, ys), dtype=np.float64)


def _above(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])
