"""Clusters of rows: by a noisy grid of cells where columns are few, else by noisy steps of Lloyd's algorithm.

Up to three columns, rows are counted once in the cells of a public grid, and the centres are those of the noisy cells.
Beyond, a noisy histogram of each column narrows its range, and a noisy covariance is drawn within these. The first
centres are those of a law with both, and each of a few steps draws the number of rows that are nearest to each centre,
and their sum.

Guarantee:
    (ε, δ)-DP for one person under the relation of the account: each row counts in one cell, or adds one row of bounded
    length to one centre; the meter checks the planned norms in integers. Centres follow from noisy numbers.

References:
    Su, Cao, Li, Bertino, Jin 2016 (grids and noisy Lloyd steps), https://doi.org/10.1145/2857705.2857708;
    docs/proofs/learn.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from discreet.engine.recipe import Draw
from discreet.engine.row_factor import RowPlaces
from discreet.errors import InvalidParameter
from discreet.learn.asked import DeclaredRows, in_cells
from discreet.learn.estimator import PrivateEstimator, parameters
from discreet.learn.features import DeclaredColumn
from discreet.learn.gram import NarrowedGram, moments_of, narrowed, spread_of, units_of
from discreet.learn.losses import Floats
from discreet.plan.notes import many
from discreet.plan.parts import person_part
from discreet.privacy.exact import count

if TYPE_CHECKING:
    from discreet.engine.person_parts import Parts, PeopleRows
    from discreet.engine.recipe import Running
    from discreet.plan.parts import PersonPart
    from discreet.plan.person_rows import PersonRows
    from discreet.plan.plan import Plan

SIDES = {1: 512, 2: 32, 3: 10}  # cells along each column of a grid, by the number of columns

STEPS, FIRST, RANGED = 3, Fraction(1, 10), Fraction(4, 10)
"""Steps of Lloyd's algorithm, and the parts of the budget for the covariance and for the histograms before them."""

FULL, NEAR = 3.0, 2.0
"""A cell is kept if its noisy count is above `FULL` deviations of the noise, and that of the cells around it `NEAR`."""

_MOST = 500  # clusters
_POINTS = 2048  # of the normal law that stands in for the rows at the start


@dataclass(frozen=True)
class Clustering(DeclaredRows):
    """Centres of clusters."""

    clusters: int = field(default=8, kw_only=True)  # how many

    @cached_property
    def _gram(self) -> NarrowedGram:
        given: dict[str, Any] = {"sql": self.sql, "per_person": self.per_person, "centred": self.centred}
        given["shares"] = FIRST, RANGED
        return NarrowedGram(self.columns, self.epsilon, self.delta, **given)

    @property
    def side(self) -> int:
        """How many cells the grid has along each column; 0 where there is none."""
        return SIDES.get(len(self.columns), 0)

    def parts(self, rows: PersonRows, epsilon: Fraction) -> list[PersonPart]:
        m = self.per_person
        if self.side:
            cells = self.side ** len(self.columns)
            return [person_part("grid", rows, width=cells, norms=in_cells(cells, m), kind="places")]
        shape: dict[str, Any] = {"width": self.clusters * (len(self.columns) + 1), "l2": self._gram.longest * m}
        nearest = person_part("nearest", rows, **shape, times=STEPS, share=1 - FIRST - RANGED)
        return [*self._gram.parts(rows, epsilon), nearest]

    @property
    def said(self) -> Any:
        return [self.clusters, self._gram.said]

    # ------------------------------------------------------------------ public: centres from noisy numbers
    def run(self, plan: Plan) -> Running[Any]:
        parts = {part.name: part for part in plan.parts}
        if self.side:
            noisy = np.array((yield Draw("grid")), np.float64)
            return {"centres": self._of_cells(noisy, spread_of(parts["grid"]), units_of(self.columns)[1]).tolist()}
        moments, counts = yield from self._gram.drawn(plan)
        ranges = moments["ranges"]
        centres = self._starts(moments_of(np.array(moments["gram"]))[2], counts, spread_of(parts["histogram"]), ranges)
        halves = units_of(narrowed(self.columns, ranges))[1]
        spread, width = spread_of(parts["nearest"]), len(self.columns) + 1
        for _ in range(STEPS):
            noisy = np.array(
                (yield Draw("nearest", {"centres": (centres * halves).tolist(), "ranges": ranges})), np.float64
            )
            found = noisy.reshape(self.clusters, width)
            n = np.maximum(found[:, -1], 1.0)
            means = np.clip(found[:, :-1] / n[:, None], -1, 1)
            # as far as noise does not hide it
            centres += np.clip(1 - (3 * spread / n) ** 2, 0, 1)[:, None] * (means - centres)
        return {"centres": centres.tolist(), "ranges": ranges}

    def _of_cells(self, noisy: Floats, spread: float, halves: Floats) -> Floats:
        """Return the centres of noisy cells, of which those that are hardly above the noise are left out."""
        from scipy.ndimage import uniform_filter

        d, shape = len(self.columns), (self.side,) * len(self.columns)
        around = uniform_filter(noisy.reshape(shape), 3, mode="constant").reshape(-1) * 3**d
        kept = (noisy > FULL * spread) & (around > NEAR * spread * 3 ** (d / 2))
        if kept.sum() < self.clusters:
            kept = np.zeros(noisy.size, np.bool_)
            kept[np.argsort(-noisy, kind="stable")[: self.clusters]] = True
        middles = (np.stack(np.unravel_index(np.arange(noisy.size), shape), axis=1) + 0.5) * (2 / self.side) - 1
        return self._centres(middles[kept], np.clip(noisy[kept], 1.0, 2.0**40), halves)

    def _starts(self, spread: Floats, counts: Floats, noise: float, ranges: Sequence[Sequence[float]]) -> Floats:
        """Return the centres of points that are spread evenly in a law: with these noisy histograms, and the copula of
        the normal law of this covariance.
        """
        from scipy.stats import norm

        within = np.sqrt(np.maximum(np.diagonal(spread), 1e-12))
        alike = spread / np.outer(within, within)
        np.fill_diagonal(alike, 1)
        values, vectors = np.linalg.eigh(alike)
        mixed = vectors * np.sqrt(np.maximum(values, 0))
        even = norm.cdf(norm.ppf(_even(_POINTS, len(spread))) @ (mixed / np.linalg.norm(mixed, axis=1)[:, None]).T)
        own, features = narrowed(self.columns, ranges), self._gram.features
        middles, halves = units_of(own)
        points = np.empty_like(even)
        for i, (c, column) in enumerate(zip(self.columns, own, strict=True)):
            ends = [features.value_at(c, b / counts.shape[1]) for b in range(counts.shape[1] + 1)]
            kept = np.where(counts[i] > noise, counts[i], 0)
            below = np.cumsum([0.0, *kept]) / max(kept.sum(), 1e-9)
            points[:, i] = np.clip(np.interp(even[:, i], below, ends), column.low, column.high)
        return self._centres((points - middles) / halves, np.ones(_POINTS), halves)

    def _centres(self, points: Floats, weights: Floats, halves: Floats) -> Floats:
        """Return the centres of public points, by distances in the units of the data."""
        from sklearn.cluster import KMeans as Plain

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # points may be fewer than clusters
            found = Plain(self.clusters, n_init=4, random_state=0).fit(points * halves, sample_weight=weights)
        return np.asarray(np.clip(found.cluster_centers_ / halves, -1, 1), np.float64)

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return [c.name for c in self.columns], centres_of(self.columns, state).tolist()

    # ------------------------------------------------------------------ private: of people's rows
    def prepare(self, people: PeopleRows) -> Any:
        if not self.side:
            return self._gram.prepare(people)
        n = len(people.matrix)
        place = np.zeros(n, np.int64)
        for c, cells in zip(self.columns, self.cells(people), strict=True):
            along = np.floor((cells - c.low) / (c.high - c.low) * self.side)
            place = place * self.side + np.clip(along, 0, self.side - 1).astype(np.int64)
        return RowPlaces(people.starts, place[:, None], self.side ** len(self.columns))

    def each(self, people: PeopleRows, of: str, args: Any) -> Parts:
        if of != "nearest":
            found: Parts = people.prepared if self.side else self._gram.each(people, of, args)
            return found
        factor = self._gram.rows_within(people, args["ranges"])
        units = units_of(narrowed(self.columns, args["ranges"]))[1] / (2.0**self._gram.bits * self._gram.features.scale)
        near = nearest(factor.matrix[:, :-1].toarray() * units, np.array(args["centres"]))
        shown = np.zeros((len(near), self.clusters), np.int64)
        shown[np.arange(len(near)), near] = 1
        return shown, factor


def centres_of(columns: Sequence[DeclaredColumn], state: Any) -> Floats:
    """Return the centres of a state, in the units of the data."""
    middles, halves = units_of(narrowed(columns, state["ranges"]) if "ranges" in state else columns)
    return np.asarray(middles + halves * np.array(state["centres"]))


def _even(n: int, d: int) -> Floats:
    """Return points that are spread evenly in the unit cube: multiples of powers of the root of x^(d+1) = x + 1."""
    root = 1.5
    for _ in range(60):
        root = (1 + root) ** (1 / (d + 1))
    return np.asarray((0.5 + np.outer(np.arange(n), root ** -np.arange(1.0, d + 1))) % 1 * (1 - 1 / n) + 0.5 / n)


def nearest(points: Floats, centres: Floats) -> NDArray[np.int64]:
    """Return the place of the centre that is nearest to each point."""
    found = np.zeros(len(points), np.int64)
    least = np.full(len(points), np.inf)
    for k, centre in enumerate(centres):
        far = ((points - centre) ** 2).sum(axis=1)
        found[far < least] = k
        least = np.minimum(least, far)
    return found


@parameters
class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):  # type: ignore[misc]  # no types
    """Clusters of rows of numbers, by distances in the units of the data.

    Beyond three columns half of the budget is for noisy histograms and a covariance, which narrow the ranges of columns
    and place the first centres, so that wide bounds cost little.

    There is no `labels_`, which would tell of each row: `predict` says which cluster a row is in.

    Guarantee:
        (ε, δ)-DP for each row, under `relation`, of everything that `fit` leaves. What is public: the number and names
        of columns, the bounds and the number of clusters. Each fit draws fresh noise.

    References:
        docs/proofs/learn.md.

    >>> X = np.array([[1.0, 1.0], [9.0, 5.0]] * 1000)
    >>> found = KMeans(2, epsilon=1, delta=0, bounds=(0, 10)).fit(X)
    >>> sorted(found.predict([[2.0, 2.0], [8.0, 6.0]]).tolist())
    [0, 1]
    """

    n_clusters: int = field(default=8, kw_only=False)

    def _check(self) -> None:
        super()._check()
        if count("n_clusters", self.n_clusters) > _MOST:
            raise InvalidParameter(f"n_clusters must be at most {_MOST}, not {self.n_clusters}.", hint="n_clusters=8")

    def _recipe(self, rows: int | None = None) -> Clustering:
        self._only_numbers()
        return Clustering(self._columns, *self._guarantee(), clusters=self.n_clusters)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        d = len(self._columns)
        return {"centres": (self.n_clusters, d), **({} if d in SIDES else {"ranges": (d, 2)})}

    def _take(self, state: Any) -> None:
        self.cluster_centers_ = centres_of(self._columns, state)

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the cluster of each row."""
        return nearest(self._rows(X), self.cluster_centers_)

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """Fit the centres, and return the cluster of each row, which is not private."""
        return self.fit(X).predict(X)

    def transform(self, X: Any) -> Floats:
        """Return the distance of each row from each centre."""
        rows = self._rows(X)
        return np.stack([np.sqrt(((rows - centre) ** 2).sum(axis=1)) for centre in self.cluster_centers_], axis=1)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the sum of squared distances from the nearest centres, times −1; it is not private."""
        return -float((self.transform(X).min(axis=1) ** 2).sum())

    def _rows(self, X: Any) -> Floats:
        check_is_fitted(self)
        return np.stack(self._inputs(X), axis=1)

    def _explained(self) -> str:
        how = "counts in the cells of a public grid" if len(self._columns) in SIDES else f"histograms and {STEPS} steps"
        k, d = (many(len(x), of) for x, of in ((self.cluster_centers_, "cluster"), (self._columns, "column")))
        return f"{k} of {d}, from {how}."
