"""Sums of one function of each binned column, by logistic regression: the log ratio of any product of laws."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.encoding import Encoded
from discreet.audit.places import Floats, Index, binned
from discreet.audit.scores.bins import Bins
from discreet.audit.scores.column import SumOfColumns, threshold_words

_TAILS = (0.0005, 0.003, 0.012, 0.04)
"""Ranks of knots near either end, where the log ratio of Gaussian noise goes on rising."""
_HEAVY = 0.03
"""The share of a value that has a weight of its own."""
_VALUES = 400
"""Such values and labels in all columns together, the heaviest of each: time grows with the cube of all weights."""
_PLACED_ROWS = 10_000
"""Rows from which centres and spreads are taken."""
_LEVELS = (1, 2, 4, 8, 16)

_RIDGES = 4
"""Updates of the ridges for each step."""
_BLOCK = 8
_LONGEST = 4.0
"""The largest change of a weight in one step: a ramp from 0 to 1 then moves log odds by as much."""
_SMALL = 0.002
"""Standard deviation of log odds: a step that moves them by less is the last one."""
_CURVATURE_CELLS = 600_000
"""Rows × columns from which the curvature is taken; the gradient is taken from all rows."""


def learn(
    bins: Bins, p: Index, q: Index, chosen: NDArray[np.intp], ramps: int, what: str, rounds: int
) -> SumOfColumns | None:
    """Return a model with its own table for each chosen column, made of about so many ramps."""
    p, q = np.asfortranarray(p[:, chosen]), np.asfortranarray(q[:, chosen])
    bases, columns = [], []
    for k, j in enumerate(chosen):
        mass = np.bincount(p[:, k], minlength=256) / len(p) + np.bincount(q[:, k], minlength=256) / len(q)
        basis = _basis(bins, int(j), mass / 2, ramps, _VALUES // len(chosen))
        if basis.shape[1]:
            bases.append(basis)
            columns.append(k)
    if not columns:
        return None
    one = ramps == 1
    groups = np.repeat(np.arange(len(bases)) * (not one), [b.shape[1] for b in bases])
    tables, intercept = fitted(p[:, columns], q[:, columns], bases, groups, shared=False, rounds=rounds)
    return SumOfColumns(bins, chosen[columns], tuple(tables), intercept, what)


@dataclass(frozen=True, slots=True, eq=False)
class Placing:
    """Where the cuts of columns with one table are: each column is centred and scaled first."""

    columns: NDArray[np.intp]
    centres: Floats
    spreads: Floats
    cuts: Floats

    def index(self, values: Floats) -> list[Index]:
        """Return the bins of the rows, for each column."""
        places = zip(self.columns.tolist(), self.centres, self.spreads, strict=True)
        return [binned(self.cuts, (values[:, j] - centre) / spread) for j, centre, spread in places]

    def of(self, outputs: Encoded) -> list[Index]:
        """Return the same for outputs, kept for a model that has them mirrored."""
        if self not in outputs.kept:
            outputs.kept[self] = self.index(outputs.values)
        found: list[Index] = outputs.kept[self]
        return found


@dataclass(frozen=True, slots=True)
class Common:
    """One table for all columns, each of which is centred, and mirrored where it falls.

    Where every column tells little, few weights are learned from all of them together.
    """

    placing: Placing
    flips: NDArray[np.bool_]
    table: Floats
    intercept: float
    what: str

    @property
    def name(self) -> str:
        """How it was learned."""
        return f"{self.what} of {len(self.flips)} columns"

    @property
    def needs(self) -> frozenset[int]:
        """The columns that it looks at."""
        return frozenset(self.placing.columns.tolist())

    def __call__(self, outputs: Encoded) -> Floats:
        """Return the score of each output."""
        total = np.full(len(outputs), self.intercept)
        for bins, flipped in zip(self.placing.of(outputs), self.flips, strict=True):
            table = _mirrored_table(self.table) if flipped else self.table
            total += table.take(bins)
        return total

    def words(self, outputs: Encoded, hit: NDArray[np.bool_]) -> str:
        """Return the threshold and an example."""
        return threshold_words(f"score of the {self.name}", self(outputs), outputs, hit)


def learn_common(
    p: Floats, q: Floats, chosen: NDArray[np.intp], what: str, rounds: int, *, plain: bool
) -> list[Common]:
    """One model with all columns as they are (where `plain`), and one with those mirrored that fall from p to q."""
    placed = [_place(p[:, j], q[:, j]) for j in chosen]
    centres = np.array([c for c, _, _ in placed])
    spreads = np.array([s for _, s, _ in placed])
    falls = np.array([f for _, _, f in placed])
    if spreads.max() <= 1.5 * spreads.min():
        spreads[:] = np.median(spreads)
    step = max(1, (len(p) + len(q)) // _PLACED_ROWS)
    sizes = [
        np.abs(np.concatenate([p[::step, j], q[::step, j]]) - c) / s
        for j, c, s in zip(chosen, centres, spreads, strict=True)
    ]
    size = np.sort(np.concatenate(sizes))
    size = size[(size > 0) & (size < np.inf)]
    if not len(size):
        return []
    ranks = np.concatenate([np.arange(1, 16) / 16, [0.97, 0.99, 0.997]])
    half = np.unique(size[(ranks * (len(size) - 1)).astype(np.int64)])
    cuts = np.concatenate([-half[::-1], half])
    placing = Placing(chosen, centres, spreads, cuts)
    index_p, index_q = (np.stack(placing.index(v), axis=1) for v in (p, q))
    basis, groups = _levels(len(cuts))
    turns = [(falls, f"mirrored {what}")] if falls.any() or not plain else []
    if plain or not falls.any():
        turns.insert(0, (np.zeros_like(falls), f"common {what}"))
    found = []
    for flips, told in turns[: 2 if plain else 1]:
        turned = [_mirrored(i, flips, len(cuts)) for i in (index_p, index_q)]
        tables, intercept = fitted(turned[0], turned[1], [basis], groups, shared=True, rounds=rounds)
        found.append(Common(placing, flips, tables[0], intercept, told))
    return found


def _basis(bins: Bins, j: int, mass: Floats, ramps: int, values: int) -> Floats:
    """Bins × weights: ramps between knots at quantiles, and one weight for each bin that has no place in an order."""
    order = bins.orders[j]
    size = len(bins.cuts[j]) + 2 if order is None else int(order.max(initial=0)) + 1
    mass = mass[:size]
    seen = np.flatnonzero(mass > 0)
    found: list[Floats] = []
    if order is not None or mass[0] > 0:
        own = np.arange(size) if order is not None else np.array([0])
        found += _single(own[mass[own] > 0][1 if len(seen) == 1 else 0 :], mass, values)
    inner = seen[seen > 0] if order is None else seen[:0]
    if len(inner) > 1:
        place = _places(bins.cuts[j], size)
        if ramps == 1:
            rank = np.cumsum(mass[inner]) / mass[inner].sum()
            ends = np.minimum(np.searchsorted(rank, [0.1, 0.9]), len(inner) - 1)
            knots = inner[ends] if ends[0] < ends[1] else inner[[0, -1]]
        elif len(inner) <= ramps + 1:
            knots = inner
        else:
            rank = np.cumsum(mass[inner]) / mass[inner].sum()
            wanted = np.linspace(0, 1, ramps + 1)[1:-1]
            if ramps > 6:
                tails = np.array(_TAILS)
                wanted = np.concatenate([tails, wanted[(wanted > 0.06) & (wanted < 0.94)], 1 - tails])
            knots = inner[np.unique(np.minimum(np.searchsorted(rank, np.sort(wanted)), len(inner) - 1))]
            heavy = inner[mass[inner] > _HEAVY] if len(inner) > 4 * ramps else inner[:0]
            found += _single(heavy, mass, values)
        for low, high in pairwise(knots):
            ramp = np.clip((place - place[low]) / (place[high] - place[low]), 0, 1)
            ramp[0] = 0.0
            found.append(ramp)
    if not found:
        return np.empty((size, 0))
    basis = np.stack(found, axis=1)
    return np.asarray(basis - np.einsum("i,ij->j", mass / mass.sum(), basis))


def _single(bins: NDArray[np.intp], mass: Floats, most: int) -> list[Floats]:
    """Return a weight for each of some bins, or for the heaviest of them."""
    heaviest = bins[np.argsort(-mass[bins], kind="stable")[:most]]
    return list(np.eye(len(mass))[np.sort(heaviest)])


def _places(cuts: Floats, size: int) -> Floats:
    """Where each bin is: its middle; rising, without infinities."""
    finite = np.isfinite(cuts)
    if not finite.all() or cuts[-1] / 2 - cuts[0] / 2 > 1e300:
        return np.arange(size, dtype=np.float64)
    middle = (cuts[1:] + cuts[:-1]) / 2 if len(cuts) > 1 else cuts[:0]
    width = float(np.median(np.diff(cuts))) if len(cuts) > 1 else 1.0
    place = np.concatenate([[cuts[0] - width], [cuts[0] - width / 2], middle, [cuts[-1] + width / 2]])[:size]
    # Equal places would be ramps without width.
    return place if (np.diff(place) > 0).all() else np.arange(size, dtype=np.float64)


def _levels(cuts: int) -> tuple[Floats, NDArray[np.int64]]:
    """Ramps over the ordered bins from coarse to fine, and their level, which has a ridge of its own."""
    size = cuts + 2
    rank = np.arange(size, dtype=np.float64)
    middle = (size + 1) / 2
    found, groups = [], []
    for level, pieces in enumerate(_LEVELS):
        reach = (size - 1) / 2 * (0.5 if pieces == 1 else 1.0)
        knots = np.linspace(middle - reach, middle + reach, pieces + 1)
        for low, high in pairwise(knots):
            ramp = np.clip((rank - low) / (high - low), 0, 1)
            ramp[0] = 0.5
            found.append(ramp - ramp[1:].mean())
            groups.append(level)
    return np.stack(found, axis=1), np.array(groups)


def _place(p: Floats, q: Floats) -> tuple[float, float, bool]:
    """Return the centre and the spread of a column, and whether it falls from the first neighbour to the second."""
    step = max(1, (len(p) + len(q)) // _PLACED_ROWS)
    s = np.sort(np.concatenate([p[::step], q[::step]]))
    s = s[np.isfinite(s)]
    if not len(s):
        return 0.0, 1.0, False
    low, centre, high = (float(s[int(r * (len(s) - 1))]) for r in (0.25, 0.5, 0.75))
    means = [float(np.clip(x[~np.isnan(x)], low, high).sum()) / len(x) for x in (p, q)]
    return centre, high - low if 0 < high - low < np.inf else 1.0, means[0] > means[1]


def _mirrored(index: Index, flips: NDArray[np.bool_], cuts: int) -> Index:
    turned = index.copy()
    turned[:, flips] = np.where(index[:, flips] == 0, 0, cuts + 2 - index[:, flips])
    return np.asfortranarray(turned)


def _mirrored_table(table: Floats) -> Floats:
    return np.concatenate([table[:1], table[:0:-1]])


def fitted(
    p: Index, q: Index, bases: list[Floats], groups: NDArray[np.int64], *, shared: bool, rounds: int
) -> tuple[list[Floats], float]:
    """Return the tables of a model of log(P/Q), and its intercept.

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
    starts = np.zeros(columns, dtype=np.int64) if shared else np.cumsum([0, *(b.shape[1] for b in bases)])[:-1]
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
    """Return the weights of a quadratic model, and the ridges that fit them."""
    floor = 1e-6 * float(np.trace(schur)) / len(schur) + 1e-6
    for _ in range(_RIDGES):
        inverse = _inverse(schur + np.diag(ridge[groups] + floor))
        w = np.einsum("ij,j->i", inverse, wanted)
        kept = np.bincount(groups, 1 - ridge[groups] * np.diag(inverse))
        ridge = np.clip(kept / np.maximum(np.bincount(groups, w**2), 1e-12), 1e-1, 1e8)
    return w, ridge


def _inverse(a: Floats) -> Floats:
    """Return the inverse of a positive definite matrix, by Gauss–Jordan elimination of blocks.

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
    index: list[NDArray[np.int64]], spread: Floats, of: list[Floats], at: list[slice], size: int, *, shared: bool
) -> tuple[Floats, Floats]:
    """Return the second derivatives between weights, and with the intercept, from joint histograms of two columns."""
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
