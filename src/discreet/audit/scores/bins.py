"""Columns cut into ordered bins: quantiles, finer towards the ends, and values that are repeated on their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.encoding import Encoded
from discreet.audit.outputs.tree import OutputColumn
from discreet.audit.places import Floats, Index, binned

_TAIL = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Ranks from either end at which a column is cut, so that rare outputs at the ends have bins of their own."""
_BEYOND = np.array([0, 1, 3, 7, 15])
_ATOMS = 24
_MOST = 250


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """The cuts of each column: bin 0 holds NaN, bin k what is above cut k − 1 and at most cut k.

    A label column has one bin for each frequent label instead, in the order of its share of the first sample; the
    other ones share bin 0.
    """

    columns: tuple[OutputColumn, ...]
    cuts: tuple[Floats, ...]
    orders: tuple[NDArray[np.int64] | None, ...]

    @classmethod
    def learned(cls, p: Floats, q: Floats, columns: tuple[OutputColumn, ...], most: int, *, differences: bool) -> Bins:
        """Cuts from two samples, about `most` for each column; none for differences where they are not wanted."""
        cuts: list[Floats] = []
        orders: list[NDArray[np.int64] | None] = []
        for j, column in enumerate(columns):
            if column.kind == "difference" and not differences:
                orders.append(None)
                cuts.append(np.empty(0))
            elif column.kind == "label":
                orders.append(_order(p[:, j], q[:, j], len(column.labels), most))
                cuts.append(np.empty(0))
            else:
                orders.append(None)
                cuts.append(_cuts(p[:, j], q[:, j], most))
        return cls(columns, tuple(cuts), tuple(orders))

    def index(self, values: Floats) -> Index:
        """Return the bins of each row and column."""
        found = np.empty((len(values), len(self.cuts)), dtype=np.uint8, order="F")
        for j in range(len(self.cuts)):
            found[:, j] = self._one(values[:, j], j)
        return found

    def of(self, outputs: Encoded, columns: NDArray[np.intp]) -> list[Index]:
        """Return the bins of the chosen columns, which are kept for other scores with the same cuts."""
        found: dict[int, Index] = outputs.kept.setdefault(self, {})
        for j in columns.tolist():
            if j not in found:
                found[j] = self._one(outputs.values[:, j], j)
        return [found[j] for j in columns.tolist()]

    def width(self) -> int:
        """Return the number of bins of the column that has most."""
        sizes = [
            len(c) + 2 if o is None else int(o.max(initial=0)) + 1 for c, o in zip(self.cuts, self.orders, strict=True)
        ]
        return max(sizes, default=1)

    def words(self, j: int, hit: NDArray[np.bool_]) -> str:
        """Return the outputs whose bins of column j are hit, in words."""
        column, order = self.columns[j], self.orders[j]
        if order is not None:
            named = [column.labels[i] for i in np.flatnonzero(hit[order[: len(column.labels)]])]
            return f"{column.name} is " + (" or ".join(_short(t) for t in named[:8]) or "none of the usual")
        cuts = self.cuts[j]
        hit = np.concatenate([hit, np.zeros(len(cuts) + 2, dtype=bool)])[: len(cuts) + 2]
        found = [f"{column.name} is missing or NaN"] if hit[0] else []
        edges = np.flatnonzero(np.diff(np.concatenate([[False], hit[1:], [False]]).astype(np.int8)))
        for first, last in zip(edges[::2], edges[1::2], strict=True):
            low = cuts[first - 1] if first > 0 else None
            high = cuts[last - 1] if last - 1 < len(cuts) else None
            found.append(_interval(column, low, high))
        if len(found) > 6:
            found = [*found[:5], f"{len(found) - 5} more intervals"]
        return " or ".join(found) or "never"

    def _one(self, x: Floats, j: int) -> Index:
        order = self.orders[j]
        if order is not None:
            return np.asarray(order[np.where(np.isnan(x), -1, x).astype(np.int64)], dtype=np.uint8)
        if len(self.cuts[j]) == 0:
            return np.ones(len(x), dtype=np.uint8)
        return binned(self.cuts[j], x)


def counts(index: Index, width: int) -> Floats:
    """Return how many rows are in each bin: columns × bins."""
    return np.stack([np.bincount(index[:, k], minlength=width) for k in range(index.shape[1])]).astype(np.float64)


def _cuts(p: Floats, q: Floats, most: int) -> Floats:
    s = np.sort(np.concatenate([p, q]))
    s = s[: len(s) - int(np.isnan(s).sum())]
    if len(s) == 0:
        return np.empty(0)
    begins = np.flatnonzero(np.concatenate([[True], s[1:] != s[:-1]]))
    if len(begins) <= most:
        return np.asarray(s[begins[:-1]])
    n = len(s)
    tail = np.array([r for r in _TAIL if 4 * r < n])
    inner = np.linspace(0, n - 1, most + 1)[1:-1].astype(np.int64)
    lows = _below(np.array([np.nanmin(p, initial=np.inf), np.nanmin(q, initial=np.inf)]))
    highs = np.array([np.nanmax(p, initial=-np.inf), np.nanmax(q, initial=-np.inf)])
    times = np.diff(np.concatenate([begins, [n]]))
    # Beyond the last value of one sample the support may differ: there the cuts follow the samples one by one.
    beyond = np.concatenate(
        [np.searchsorted(s, highs, side="right")[:, None] + _BEYOND, np.searchsorted(s, lows)[:, None] - 1 - _BEYOND]
    )
    beyond = beyond[(beyond >= 0) & (beyond < n)]
    # Where values are hardly ever repeated, one that is repeated is a sign; elsewhere it has to be a heavy one.
    least = 3 if len(begins) > 0.9 * n else max(3, n // (2 * most))
    atoms = np.flatnonzero(times >= least)
    atoms = atoms[np.argsort(-times[atoms], kind="stable")[:_ATOMS]]
    values = s[begins[atoms]]
    cuts = np.unique(
        np.concatenate([s[inner], s[tail], s[n - 1 - tail], lows, highs, s[beyond], values, _below(values)])
    )
    return np.asarray(cuts[cuts < s[-1]][:_MOST])


def _order(p: Floats, q: Floats, labels: int, most: int) -> NDArray[np.int64]:
    """Return the bin of each label, in the order of its share; the last entry is for −1, an unknown one."""
    k = np.bincount(p[p >= 0].astype(np.int64), minlength=labels)
    m = np.bincount(q[q >= 0].astype(np.int64), minlength=labels)
    frequent = np.argsort(-(k + m), kind="stable")[:most]
    ranked = frequent[np.argsort((k[frequent] + 1) / (m[frequent] + 1), kind="stable")]
    order = np.zeros(labels + 1, dtype=np.int64)
    order[ranked] = np.arange(1, len(ranked) + 1)
    return order


def _below(x: Floats) -> Floats:
    return np.asarray(np.nextafter(x, -np.inf), dtype=np.float64)


def _interval(column: OutputColumn, low: np.float64 | None, high: np.float64 | None) -> str:
    if column.labels:
        return f"{column.name} is {bool(high is None)}"
    if low is None:
        return f"{column.name} ≤ {high:.9g}" if high is not None else f"{column.name} is a number"
    if high is None:
        return f"{column.name} > {low:.9g}"
    if np.nextafter(low, np.inf) == high:
        return f"{column.name} = {float(high)!r}"
    return f"{low:.9g} < {column.name} ≤ {high:.9g}"


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")
