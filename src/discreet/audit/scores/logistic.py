"""Logistic regression on binned columns: every column is a table, and the sum of the tables is a log ratio."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.places import Index

Floats: TypeAlias = NDArray[np.float64]

_RIDGES = 4
"""Updates of the ridges for each step."""
_BLOCK = 8
_LONGEST = 4.0
"""The largest change of a weight in one step: a ramp from 0 to 1 then moves log odds by as much."""
_SMALL = 0.002
"""Standard deviation of log odds: a step that moves them by less is the last one."""
_CURVATURE_CELLS = 600_000
"""Rows × columns from which the curvature is taken; the gradient is taken from all rows."""


def fitted(
    p: Index, q: Index, bases: list[Floats], groups: NDArray[np.int64], *, shared: bool, rounds: int
) -> tuple[list[Floats], float]:
    """The tables of a model of log(P/Q), and its intercept.

    Newton's method; after each step the ridge of a group of weights is set to the precision that they show (MacKay's
    fixed point), so that groups that tell nothing vanish.

    Args:
        p: bins of the first sample, rows × columns.
        q: bins of the second one.
        bases: for each column what its table is made of, bins × weights.
        groups: the group of each weight.
        shared: whether all columns have the same table; then there is one basis.
        rounds: the most steps of Newton's method.

    References: MacKay 1992, Bayesian interpolation, equation 4.9 for one ridge; Tipping 2001, Sparse Bayesian learning,
        equation 16 for many, https://www.jmlr.org/papers/v1/tipping01a.html
    """
    columns = p.shape[1]
    index = [np.concatenate([p[:, k], q[:, k]]) for k in range(columns)]
    y = np.concatenate([np.ones(len(p)), np.zeros(len(q))])
    n = len(y)
    base = float(np.log(len(p) / len(q)))
    size = len(groups)
    starts = (
        np.zeros(columns, dtype=np.int64) if shared else np.cumsum([0, *(b.shape[1] for b in bases)])[:-1]
    )
    of = [bases[0] if shared else bases[k] for k in range(columns)]
    at = [slice(int(starts[k]), int(starts[k]) + of[k].shape[1]) for k in range(columns)]
    w, b = np.zeros(size), base
    ridge = np.full(int(groups.max()) + 1, 1.0)
    step = max(1, n * columns // _CURVATURE_CELLS * max(1, columns // 40))
    some = [i[::step].astype(np.int64) for i in index]
    eta = np.full(n, base)
    curvature, cross, total, when = np.zeros((size, size)), np.zeros(size), 1.0, np.zeros(0)
    for _ in range(rounds):
        chance = 1 / (1 + np.exp(-eta))
        rest = y - chance
        gradient = np.zeros(size)
        for k in range(columns):
            _add(gradient, at[k], np.bincount(index[k], rest, len(of[k])), of[k])
        spread = chance[::step] * (1 - chance[::step])
        # The curvature hardly changes while the model tells little: then the first one serves for all steps.
        if not len(when) or float(np.abs(spread - when).mean()) > 0.02 * float(spread.mean()):
            when, scale = spread, n / len(spread)
            curvature, cross = _curvature(some, spread, of, at, size, shared=shared)
            curvature, cross, total = curvature * scale, cross * scale, float(spread.sum()) * scale
        slope = float(rest.sum())
        schur = curvature - np.outer(cross, cross) / total  # the intercept, eliminated
        wanted = gradient - cross * slope / total + np.einsum("ij,j->i", schur, w)
        old = w
        w, ridge = _ridged(schur, wanted, ridge, groups)
        move = w - old
        move *= min(1.0, _LONGEST / max(1e-12, float(np.abs(move).max())))
        w = old + move
        b += (slope - float((cross * move).sum())) / total
        before = eta
        eta = np.full(n, b)
        for k in range(columns):
            eta += np.einsum("ij,j->i", of[k], w[at[k]]).take(index[k])
        if float((eta - before).std()) < _SMALL:
            break
    tables = [np.einsum("ij,j->i", of[k], w[at[k]]) for k in range(1 if shared else columns)]
    return tables, b - base


def _ridged(schur: Floats, wanted: Floats, ridge: Floats, groups: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """The weights of a quadratic model, and the ridges that fit them."""
    floor = 1e-6 * float(np.trace(schur)) / len(schur) + 1e-6
    for _ in range(_RIDGES):
        inverse = _inverse(schur + np.diag(ridge[groups] + floor))
        w = np.einsum("ij,j->i", inverse, wanted)
        kept = np.bincount(groups, 1 - ridge[groups] * np.diag(inverse))
        ridge = np.clip(kept / np.maximum(np.bincount(groups, w**2), 1e-12), 1e-1, 1e8)
    return w, ridge


def _inverse(a: Floats) -> Floats:
    """The inverse of a positive definite matrix, by Gauss–Jordan elimination of blocks.

    The products are so small that no matrix library starts threads for them: for one learner among other processes
    on the same cores those cost far more than they give.
    """
    a = a.copy()
    for i in range(0, len(a), _BLOCK):
        k = slice(i, i + _BLOCK)
        inner = np.linalg.inv(a[k, k])
        left, row = a[:, k].copy(), inner @ a[k]
        a -= left @ row
        a[k] = row
        a[:, k] = -left @ inner
        a[k, k] = inner
    return a


def _curvature(
    index: list[NDArray[np.int64]],
    spread: Floats,
    of: list[Floats],
    at: list[slice],
    size: int,
    *,
    shared: bool,
) -> tuple[Floats, Floats]:
    """The second derivatives between weights, and with the intercept, from joint histograms of two columns."""
    curvature, cross = np.zeros((size, size)), np.zeros(size)
    pooled = np.zeros((len(of[0]), len(of[0])))
    width = max(len(basis) for basis in of)
    for i in range(len(index)):
        _add(cross, at[i], np.bincount(index[i], spread, len(of[i])), of[i])
        row = index[i] * width
        for j in range(i, len(index)):
            joint = np.bincount(row + index[j], spread, len(of[i]) * width)
            joint = joint.reshape(len(of[i]), width)[:, : len(of[j])]
            if shared:
                pooled += joint if i == j else joint + joint.T
                continue
            block = np.einsum("ka,kb->ab", of[i], np.einsum("kl,lb->kb", joint, of[j]))
            curvature[at[i], at[j]] = block
            curvature[at[j], at[i]] = block.T
    if shared:
        curvature = np.einsum("ka,kb->ab", of[0], np.einsum("kl,lb->kb", pooled, of[0]))
    return curvature, cross


def _add(to: Floats, at: slice, histogram: NDArray[np.generic], basis: Floats) -> None:
    # einsum, and not @, here and elsewhere: it starts no threads either.
    to[at] += np.einsum("i,ij->j", histogram.astype(np.float64), basis)
