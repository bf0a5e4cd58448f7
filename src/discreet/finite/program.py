"""The linear program of the best private mechanism, solved in floats; what is exact is made of it elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from discreet.errors import InternalError

Matrix: TypeAlias = list[list[Fraction]]
_TRIES = (("highs-ds", 1e-10), ("highs-ds", 1e-7), ("highs-ipm", 1e-10), ("highs-ipm", 1e-7))
"""Ways to solve, the best first: it finds corners, but now and then takes a task for unbounded."""

Ordered: TypeAlias = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Solution:
    """What the solver found, near the truth: the probabilities, and a price for each constraint.

    Attributes:
        rows: the probabilities, a row for each input.
        prices: for each output and each ordered pair (x, y) the price λ ≥ 0 of P(o | x) ≤ e^ε P(o | y).
        prior: the prior on the inputs: the one that was given, or the least favourable.
    """

    rows: Matrix
    prices: Matrix
    prior: list[Fraction]


def solutions(
    costs: Matrix, edges: Ordered, grown: Fraction, prior: list[Fraction] | None
) -> Iterator[Solution]:
    """The least mean cost under the prior, or without one the least of the largest mean cost, in several ways.

    The variables are P(o | x), row by row, and for the second task the largest mean. All solutions are near the truth;
    which of them has the nearest probabilities, or the nearest prices, differs from task to task.

    Raises:
        InternalError: the solver gave up, whichever way.
    """
    import numpy as np
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    n, m = len(costs), len(costs[0])
    size = max((abs(c) for row in costs for c in row), default=Fraction(0)) or Fraction(1)
    scaled = np.array([[float(c / size) for c in row] for row in costs])
    extra = prior is None
    objective = np.append(np.zeros(n * m), 1.0) if prior is None else (scaled * _column(prior)).ravel()
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2)
    one = (pairs[:, :1] * m + np.arange(m)).ravel()  # P(o | x) − e^ε P(o | y) ≤ 0
    two = (pairs[:, 1:] * m + np.arange(m)).ravel()
    # Each such row is divided by e^(ε/2): its entries then lie as far below 1 as above, which loses the fewest digits.
    half = float(grown) ** 0.5
    at = np.arange(one.size)
    entries = [np.full(one.size, 1 / half), np.full(one.size, -half)]
    rows, columns = [at, at], [one, two]
    if extra:  # Σ cost P(o | x) − t ≤ 0
        last = one.size + np.arange(n)
        rows += [np.repeat(last, m), last]
        columns += [np.arange(n * m), np.full(n, n * m)]
        entries += [scaled.ravel(), -np.ones(n)]
    width = n * m + extra
    upper = coo_matrix(
        (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))),
        shape=(one.size + n * extra, width),
    ).tocsr()
    sums = coo_matrix(
        (np.ones(n * m), (np.repeat(np.arange(n), m), np.arange(n * m))), shape=(n, width)
    ).tocsr()
    solver: Any = linprog
    found: Any = None
    solved = False
    for method, tolerance in _TRIES:
        found = solver(
            objective,
            A_ub=upper if upper.shape[0] else None,
            b_ub=np.zeros(upper.shape[0]) if upper.shape[0] else None,
            A_eq=sums,
            b_eq=np.ones(n),
            bounds=[(0, 1)] * (n * m) + [(-2, 2)] * extra,  # implied, and a help to the solver
            method=method,
            options={"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance},
        )
        if not found.success:
            continue
        solved = True
        marginals = -np.asarray(found.ineqlin.marginals) if upper.shape[0] else np.zeros(0)
        marginals = np.maximum(marginals, 0.0)
        weights = prior
        if weights is None:
            least = [Fraction(float(w)) for w in marginals[one.size :]]
            weights = [w / sum(least) for w in least] if any(least) else [Fraction(1, n)] * n
        prices = [
            [Fraction(float(v) / half) * size for v in row] for row in marginals[: one.size].reshape(-1, m)
        ]
        law = [[Fraction(max(float(p), 0.0)) for p in row] for row in found.x[: n * m].reshape(n, m)]
        yield Solution(law, prices, weights)
    if not solved:
        raise InternalError(f"the linear program was not solved: {found.message}")


def lower_bound(
    costs: Matrix, edges: Ordered, grown: Fraction, prior: Sequence[Fraction], prices: Matrix
) -> Fraction:
    """What no mechanism with all ratios at most `grown` goes below under the prior: the value of the dual.

    For any prices λ ≥ 0 and every such mechanism, the mean cost is at least what it is with Σ λ(P(o|x) − e^ε P(o|y))
    added, which is ≤ 0; that is a sum over single probabilities with coefficients, and each row gives
    at least its least one.
    """
    reduced = [[b * c for c in row] for b, row in zip(prior, costs, strict=True)]
    for (x, y), row in zip(edges, prices, strict=True):
        for o, price in enumerate(row):
            if price:
                reduced[x][o] += price
                reduced[y][o] -= grown * price
    return sum((min(row) for row in reduced), Fraction(0))


def _column(prior: Sequence[Fraction]) -> object:
    import numpy as np

    return np.array([[float(b)] for b in prior])
