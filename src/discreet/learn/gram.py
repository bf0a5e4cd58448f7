"""One noisy Gram matrix of declared features, and what follows from it: covariance, components, scales, lines.

A row is x = (features, 1), and y where there is a target, all within public bounds; the sum of x·xᵀ over rows is drawn
once. Entries (i, j) and (j, i) have noise of their own and are averaged. Whatever follows is free.

Guarantee:
    (ε, δ)-DP for one person under the relation of the account: a person's part keeps to the planned length, which the
    meter checks in integers. So is everything that follows from the noisy matrix.

References:
    Dwork, Talwar, Thakurta, Zhang 2014 (Analyze Gauss), https://doi.org/10.1145/2591796.2591883; docs/proofs/learn.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from discreet.engine.recipe import Draw
from discreet.engine.row_factor import RowFactor, RowPlaces
from discreet.errors import InvalidParameter
from discreet.learn.asked import FeatureRows, histogram_part
from discreet.learn.estimator import PrivateEstimator, parameters
from discreet.learn.features import BITS, DeclaredColumn, Features, numbers_of
from discreet.learn.losses import Floats, Squared
from discreet.plan.parts import PersonPart, person_part
from discreet.privacy.exact import count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.engine.person_parts import Parts, PeopleRows
    from discreet.engine.recipe import Running
    from discreet.plan.person_rows import PersonRows
    from discreet.plan.plan import Plan

BINS, RANGED, HIDDEN, LOST = 32, Fraction(1, 10), 3.0, 0.25
"""Bins of a number, the part of the budget for them, the deviations of their noise that hide rows at the ends, and the
most of the rows that may be hidden so."""

SHADED = 2.0  # deviations of its noise, below which a component's variance is not told from 0, and is taken for so many
_FAR = 1e6  # no weight is larger
_RIDGE = 0.5
_COARSEST = 9  # bits of a grid on which rows are hardly rounded
_LARGEST = 61  # bits of the squares of a person's part


@dataclass(frozen=True)
class GramSum(FeatureRows):
    """The noisy sum of x·xᵀ over rows; x has y at its end, scaled to [−1, 1], where there is a target."""

    @property
    def width(self) -> int:
        """How many rows the matrix has."""
        return self.features.width + (self.target is not None)

    @property
    def bits(self) -> int:
        """Of the grid of rows: so fine that squares of a person's part fit in 62 bits."""
        free = _LARGEST - 2 * self.width.bit_length() - 2 * self.per_person.bit_length()
        return min(BITS, (free // 2 - 1) // 2)

    @property
    def longest(self) -> int:
        """The length of a row in whole numbers, however it is rounded."""
        scale = self.features.scale if self.target is not None else 0.0
        return math.ceil(2.0**self.bits * math.sqrt(1 + scale**2) + math.sqrt(self.width) + 1)

    def part(self, rows: PersonRows, share: Fraction = Fraction(1)) -> PersonPart:
        """Return the private part. Raises InvalidParameter: there are too many features."""
        if self.bits < _COARSEST:
            raise InvalidParameter(
                f"a Gram matrix of {self.width} features is too wide.", hint="fewer features, or solver='gradient'"
            )
        most = self.longest**2 * self.per_person
        return person_part("gram", rows, width=self.width**2, l2=most, kind="squares", share=share)

    def parts(self, rows: PersonRows, epsilon: Fraction) -> list[PersonPart]:
        return [self.part(rows)]

    @property
    def said(self) -> Any:
        return [self.features.said, self.target]

    def run(self, plan: Plan) -> Running[Any]:
        (part,) = plan.parts
        return self.of_noisy((yield Draw("gram")), part)

    def of_noisy(self, drawn: Any, part: Any) -> dict[str, Any]:
        """Return the matrix in units of the features, and the deviation of its noise."""
        noisy = np.array(drawn, np.float64).reshape(self.width, self.width)
        unit = 4.0**self.bits * self.features.scale**2
        return {"gram": ((noisy + noisy.T) / 2 / unit).tolist(), "noise": spread_of(part) / unit}

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        names = [*self.features.names, "1", *(["y"] if self.target is not None else [])]
        return ["feature", *names], [[name, *row] for name, row in zip(names, state["gram"], strict=True)]

    def prepare(self, people: PeopleRows) -> Any:
        return self._factors(people, self.features, self.cells(people))

    def _factors(self, people: PeopleRows, features: Features, cells: Iterable[NDArray[Any]]) -> RowFactor:
        drop, (places, values) = BITS - self.bits, features.encode(cells, len(people.matrix))
        if self.target is not None:
            y = Squared().scaled(self.numbers(people, *self.target), *self.target)
            scaled = np.rint(y * 2**BITS * features.scale).astype(np.int16)
            places = np.concatenate([places, np.full((len(y), 1), features.width, np.int32)], axis=1)
            values = np.concatenate([values, scaled[:, None]], axis=1)
        return RowFactor(people.starts, places, values + (1 << drop >> 1) >> drop, self.width)


@dataclass(frozen=True)
class NarrowedGram(GramSum):
    """The noisy sum over rows whose numbers were moved into narrower ranges, which a noisy histogram gives.

    The noise of the matrix follows from the width of the ranges. Of each number its rows in a few public bins are
    counted, and the bins at the ends in which noise hides the rows are left out.
    """

    # how much of the budget is for the matrix, and for the histogram
    shares: tuple[Fraction, Fraction] = field(default=(1 - RANGED, RANGED), kw_only=True)

    def parts(self, rows: PersonRows, epsilon: Fraction) -> list[PersonPart]:
        d, (share, ranged) = len(self._numbers), self.shares
        return [self.part(rows, share), *([histogram_part(rows, d, BINS, ranged)] if d else [])]

    @property
    def said(self) -> Any:
        return [super().said, BINS]

    @property
    def _numbers(self) -> list[DeclaredColumn]:
        return [c for c in self.columns if c.values is None]

    def run(self, plan: Plan) -> Running[Any]:
        found, _ = yield from self.drawn(plan)
        return found

    def drawn(self, plan: Plan) -> Running[tuple[dict[str, Any], Floats]]:
        """Return the state, and the noisy histogram of each number."""
        parts = {part.name: part for part in plan.parts}
        ranges: list[list[float]] = []
        noisy: Floats = np.zeros((0, BINS))
        if "histogram" in parts:
            noisy = np.array((yield Draw("histogram")), np.float64).reshape(-1, BINS)
            hidden = HIDDEN * spread_of(parts["histogram"]) * np.sqrt(np.arange(1, BINS + 1))
            for c, own in zip(self._numbers, noisy, strict=True):
                seen = [np.flatnonzero(np.cumsum(counts) > hidden) for counts in (own, own[::-1])]
                # an end stays where noise may hide too many rows beyond it
                first, last = (
                    int(some[0]) if len(some) and hidden[some[0]] <= LOST * own.sum() else 0 for some in seen
                )
                ends = (first, BINS - last) if first + last < BINS else (0, BINS)
                ranges.append([self.features.value_at(c, end / BINS) for end in ends])
        return {**self.of_noisy((yield Draw("gram", {"ranges": ranges})), parts["gram"]), "ranges": ranges}, noisy

    def prepare(self, people: PeopleRows) -> Any:
        return [*self.cells(people)]

    def each(self, people: PeopleRows, of: str, args: Any) -> Parts:
        cells = people.prepared
        if of != "histogram":
            return self.rows_within(people, args["ranges"])
        read = [(c, own) for c, own in zip(self.columns, cells, strict=True) if c.values is None]
        bins = [np.minimum(self.features.position(c, own) * BINS, BINS - 1).astype(np.int64) for c, own in read]
        return RowPlaces(people.starts, np.stack(bins, axis=1) + BINS * np.arange(len(bins)), len(bins) * BINS)

    def rows_within(self, people: PeopleRows, ranges: Sequence[Sequence[float]]) -> RowFactor:
        """Return people's rows, whose numbers were moved into these ranges."""
        return self._factors(people, Features(narrowed(self.columns, ranges)), people.prepared)


def narrowed(columns: Sequence[DeclaredColumn], ranges: Sequence[Sequence[float]]) -> tuple[DeclaredColumn, ...]:
    """Return columns whose numbers have these ranges."""
    left = iter(ranges)
    return tuple(c if c.values is not None else replace(c, low=(p := next(left))[0], high=p[1]) for c in columns)


@dataclass(frozen=True)
class GramRegression(GramSum):
    """Weights of a linear model of the smallest squared error, from a noisy Gram matrix."""

    def run(self, plan: Plan) -> Running[Any]:
        found = yield from super().run(plan)
        gram, noise = np.array(found["gram"]), found["noise"]
        ridge = _RIDGE * noise * math.sqrt(self.width)  # about the largest eigenvalue of the noise
        values, vectors = np.linalg.eigh(gram[:-1, :-1])
        held = np.maximum(values, 0) + ridge
        weights = vectors @ (vectors.T @ gram[-1, :-1] / held) / self.features.scale
        return {"weights": [np.clip(weights, -_FAR, _FAR).tolist()], "rows": max(gram[-2, -2], 1.0), "steps": 1}

    table = FeatureRows.table


def moments_of(gram: Floats) -> tuple[float, Floats, Floats]:
    """Return the noisy number of rows, and the mean and the covariance of features within ±1."""
    rows = max(float(gram[-1, -1]), 1.0)
    mean = np.clip(gram[-1, :-1] / rows, -1, 1)
    spread = gram[:-1, :-1] / rows - np.outer(mean, mean)
    within = np.sqrt(np.clip(np.diagonal(spread), 0, 1))
    return rows, mean, np.clip(spread, -np.outer(within, within), np.outer(within, within))


def units_of(columns: Sequence[DeclaredColumn]) -> tuple[Floats, Floats]:
    """Return for each feature the value that stands for 0, and that which 1 is away from it."""
    middles: list[float] = []
    halves: list[float] = []
    for c in columns:
        middles += [c.middle] if c.values is None else [0.0] * (len(c.values) + 1)
        halves += [(c.high - c.low) / 2] if c.values is None else [1.0] * (len(c.values) + 1)
    return np.array(middles), np.array(halves)


def spread_of(part: Any) -> float:
    """Return the standard deviation of the noise of a part's numbers."""
    return math.sqrt(float(part.law.noise.variance))


class NoisyMoments(PrivateEstimator):
    """What estimators that follow from a Gram matrix share."""

    terms_: list[str]  # the names of the features: numbers, and one for each declared value
    rows_: float  # a noisy number of rows, at least 1
    mean_: Floats  # the noisy mean of each feature, in the units of the data
    covariance_: Floats  # their noisy covariance
    _gram: Floats
    _noise: float
    _narrowed: tuple[DeclaredColumn, ...]

    def _recipe(self, rows: int | None = None) -> GramSum:
        return GramSum(self._columns, *self._guarantee())

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        width = Features(self._columns).width
        return {"gram": (width, width), "noise": ()}

    def _take(self, state: Any) -> None:
        columns = self._narrowed = narrowed(self._columns, state["ranges"]) if "ranges" in state else self._columns
        self.terms_ = Features(columns).names
        self._gram, self._noise = np.array(state["gram"]), float(state["noise"])
        self.rows_, mean, spread = moments_of(self._gram)
        middles, halves = units_of(columns)
        self.mean_, self.covariance_ = middles + halves * mean, spread * np.outer(halves, halves)

    def _matrix(self, X: Any) -> Floats:
        """Return the features of rows, in the units of the data."""
        check_is_fitted(self)
        return numbers_of(self._columns, self._inputs(X))

    def _explained(self) -> str:
        return f"A Gram matrix of {len(self.terms_)} features of {len(self._columns)} columns, drawn once."


@parameters
class Gram(NoisyMoments):
    """Sums of products of all pairs of columns, drawn once: means, covariance, and what follows from them.

    Guarantee:
        (ε, δ)-DP for each row, under `relation`, of everything that `fit` leaves, and of all models that are made of
        it. What is public: the number and names of columns, and the bounds. Each fit draws fresh noise.

    References:
        docs/proofs/learn.md.

    >>> X = np.array([[0.0, 0.0], [4.0, 2.0]] * 5000)
    >>> found = Gram(epsilon=1, delta=1e-6, bounds=(0, 5)).fit(X)
    >>> found.mean_.round(1).tolist(), found.pca(1).components_.round(1).tolist()
    ([2.0, 1.0], [[0.9, 0.4]])
    """

    def pca(self, n_components: int | None = None) -> PCA:
        """Return the principal components that follow from the matrix: free."""
        found = PCA(n_components, **self.get_params(deep=False))
        self._share(found)
        return found

    def scaler(self, *, with_mean: bool = True, with_std: bool = True) -> StandardScaler:
        """Return the means and scales that follow from the matrix: free."""
        found = StandardScaler(with_mean=with_mean, with_std=with_std, **self.get_params(deep=False))
        self._share(found)
        return found

    def _share(self, model: NoisyMoments) -> None:
        check_is_fitted(self)
        model._check()
        shared = ("n_features_in_", "feature_names_in_", "_columns", "loss_", "_planned", "_state")
        model.__dict__ |= {name: self.__dict__[name] for name in shared if name in self.__dict__}
        if isinstance(model, PCA):
            model._state = {**self._state, "ranges": [[c.low, c.high] for c in self._columns if c.values is None]}
        model._take(model._state)


@parameters
class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, NoisyMoments):  # type: ignore[misc]  # as above
    """Principal components of a noisy covariance matrix.

    Components are of the data's own units: where units differ, scale columns by public constants first. A tenth of the
    budget is for narrower ranges than the bounds, at whose ends numbers count that lie beyond: variances are of these.
    A variance that noise hides counts as two deviations of the noise: then the widest bounds say which are first.

    Guarantee:
        As of `Gram`.
    """

    n_components: int | None = field(default=None, kw_only=False)

    def _recipe(self, rows: int | None = None) -> GramSum:
        return NarrowedGram(self._columns, *self._guarantee())

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {**super()._shapes(), "ranges": (sum(c.values is None for c in self._columns), 2)}

    def _check(self) -> None:
        super()._check()
        if self.n_components is not None:
            count("n_components", self.n_components)

    def _take(self, state: Any) -> None:
        super()._take(state)
        found, halves = self.covariance_.copy(), units_of(self._narrowed)[1]
        # else noise alone would say which of them is least: the widest bounds do
        hidden = min(SHADED * self._noise / self.rows_, 1.0) * halves**2
        np.fill_diagonal(found, np.maximum(np.diagonal(found), hidden))
        values, vectors = np.linalg.eigh(found)
        order = np.argsort(-values, kind="stable")[: self.n_components]
        found = vectors[:, order].T
        signs = np.sign(found[np.arange(len(found)), np.abs(found).argmax(axis=1)])
        self.components_ = found * np.where(signs == 0, 1, signs)[:, None]
        self.explained_variance_ = np.maximum(values[order], 0)
        total = max(float(np.maximum(values, 0).sum()), 1e-300)
        self.explained_variance_ratio_ = self.explained_variance_ / total
        self.n_components_ = len(order)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def transform(self, X: Any) -> Floats:
        """Return the coordinates of rows along the components."""
        return np.asarray((self._matrix(X) - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Floats:
        """Return the features of rows that have these coordinates."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X) @ self.components_ + self.mean_)


@parameters
class StandardScaler(OneToOneFeatureMixin, TransformerMixin, NoisyMoments):  # type: ignore[misc]  # as above
    """Scaling of columns to a noisy mean of 0 and a noisy variance of 1.

    Guarantee:
        As of `Gram`.
    """

    with_mean: bool = True
    with_std: bool = True

    def _recipe(self, rows: int | None = None) -> GramSum:
        self._only_numbers()
        return super()._recipe()

    def _take(self, state: Any) -> None:
        super()._take(state)
        halves = units_of(self._columns)[1]
        # what noise hides is not divided by
        least = np.clip(self._noise / self.rows_, 1e-12, 1.0) * halves**2
        self.var_ = np.maximum(np.diagonal(self.covariance_), least)
        self.scale_ = np.sqrt(self.var_) if self.with_std else None

    def transform(self, X: Any) -> Floats:
        """Return rows whose columns were scaled."""
        found = self._matrix(X) - (self.mean_ if self.with_mean else 0)
        return found if self.scale_ is None else np.asarray(found / self.scale_)

    def inverse_transform(self, X: Any) -> Floats:
        """Return rows in the units of the data."""
        check_is_fitted(self)
        found = np.asarray(X) * (1 if self.scale_ is None else self.scale_)
        return np.asarray(found + (self.mean_ if self.with_mean else 0))
