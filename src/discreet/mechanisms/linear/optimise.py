"""Strategies that are optimised for a workload: for ℓ1 sensitivity p-Identity, for ℓ2 the convex optimum.

All of it is public, and the strategy that comes out is only rounded afterwards: how good it is, not whether it is
private, hangs on what happens here.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.linear.workloads import Workload

Floats = NDArray[np.float64]

LARGEST = 1024
"""Values of an attribute at most: each step of the optimisation takes the cube of it."""

_SWEEPS = 4  # over the attributes, where terms tie them together
_ITERATIONS = 200
_CLOSE = 1e-6  # of the optimum, by the gap to the dual
_FLAT = 1e-6  # of the mean of a Gram matrix's diagonal


def optimised(workload: Workload, *, is_pure: bool) -> list[Floats]:
    """One matrix for each attribute, with little total squared error on the workload at sensitivity 1.

    One term: each attribute by itself. Several: one attribute after another, each for the terms weighed by what the
    others' strategies make of them, a few times over.

    References:
        McKenna, Miklau, Hay, Machanavajjhala 2018, Sections 5 and 6, https://arxiv.org/abs/1808.03537.
    """
    for n in workload.shape:
        if n > LARGEST:
            raise InvalidParameter(
                f"strategies are optimised for at most {LARGEST:,} values of an attribute, not {n:,}.",
                hint="take strategy='hierarchical', or put neighbouring values together",
            )
    best = _for_l1 if is_pure else _for_l2
    grams = [[f.gram() for f in term] for term in workload.terms]
    found = [np.eye(n) for n in workload.shape]
    for _ in range(_SWEEPS if len(grams) > 1 and len(found) > 1 else 1):
        for i in range(len(found)):
            together = np.zeros_like(grams[0][i])
            for term in grams:
                others = [_cost(term[j], found[j]) for j in range(len(found)) if j != i]
                together += term[i] * float(np.prod(others))
            found[i] = best(together)
    return found


def _cost(gram: Floats, strategy: Floats) -> float:
    return float(np.trace(gram @ np.linalg.pinv(strategy.T @ strategy, hermitian=True)))


def _for_l2(gram: Floats) -> Floats:
    """A with columns of length 1 that has the least tr(G(AᵀA)⁻¹)."""
    eigenvalues, vectors = np.linalg.eigh(optimal_gram(gram)[0])
    return np.asarray((vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T)


def optimal_gram(gram: Floats) -> tuple[Floats, float, float]:
    """The X with diagonal 1 that minimises tr(G X⁻¹), its value, and a lower bound on any.

    The problem is convex. For v > 0 its dual is 2 tr((√v G √v)^½) − Σ v; at the optimum v is the diagonal of that
    root, and taking it again and again converges.

    References:
        Yuan, Yang, Zhang, Hao 2016, Section 3, https://arxiv.org/abs/1602.04302 (the problem is convex); Denisov,
        McMahan, Rush, Smith, Thakurta 2022, Section 3, https://arxiv.org/abs/2202.08312 (the fixed point).
    """
    g, unit = gram, float(np.trace(gram)) / len(gram)
    if np.linalg.eigvalsh(g)[0] < _FLAT * unit:  # what nobody asks about is measured a little all the same
        g = g + _FLAT * unit * np.eye(len(g))
    v = np.sqrt(np.diag(g))
    x, value, bound = np.eye(len(g)), float(np.trace(g)), 0.0
    for _ in range(_ITERATIONS):
        root = np.sqrt(v)
        eigenvalues, vectors = np.linalg.eigh(root[:, None] * g * root)
        roots = np.sqrt(np.maximum(eigenvalues, 0.0))
        middle = (vectors * roots) @ vectors.T
        bound = max(bound, 2 * float(roots.sum()) - float(v.sum()))
        found = middle / np.outer(root, root)
        lengths = np.sqrt(np.diag(found))
        found = found / np.outer(lengths, lengths)
        reached = float(np.trace(np.linalg.solve(found, g)))
        if reached < value:
            x, value = found, reached
        if value - bound <= _CLOSE * value:
            break
        v = np.diag(middle)
    return x, value, bound


def _for_l1(gram: Floats) -> Floats:
    """A p-Identity strategy [I; Θ]·D whose columns have ℓ1 norm 1, with p = ⌈n/16⌉, by L-BFGS from a fixed start."""
    return _p_identity(gram.tobytes(), len(gram))


@lru_cache(maxsize=16)
def _p_identity(entries: bytes, n: int) -> Floats:
    from scipy.optimize import minimize

    gram = np.frombuffer(entries).reshape(n, n)
    p = -(-n // 16)
    # Evenly spread numbers in place of random ones, so that one workload has one strategy.
    start = np.mod(np.arange(1, p * n + 1) * ((np.sqrt(5.0) - 1) / 2), 1.0)
    done = minimize(
        _total_error,
        start,
        args=(gram, p, float(np.trace(gram))),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (p * n),
        options={"maxiter": _ITERATIONS, "maxcor": 8},
    )
    theta = np.asarray(done.x).reshape(p, n)
    made = np.concatenate((np.eye(n), theta)) / (1 + theta.sum(axis=0))
    made.setflags(write=False)
    return np.asarray(made)


def _total_error(flat: Floats, gram: Floats, p: int, unit: float) -> tuple[float, Floats]:
    """tr(G(AᵀA)⁻¹) and its gradient in Θ, for AᵀA = D(I + ΘᵀΘ)D and D⁻¹ = diag(1 + Σ Θ), in time p·n²."""
    theta = flat.reshape(p, -1)
    s = 1 + theta.sum(axis=0)
    small = np.linalg.solve(np.eye(p) + theta @ theta.T, theta)  # (I + ΘᵀΘ)⁻¹ = I − Θᵀ·small
    h = gram * np.outer(s, s)
    left = h - theta.T @ (small @ h)
    both = left - (left @ theta.T) @ small
    inverse = np.eye(len(s)) - theta.T @ small
    gradient = -2 * theta @ both + 2 * ((gram * inverse) @ s)
    return float(np.trace(left)) / unit, gradient.ravel() / unit
