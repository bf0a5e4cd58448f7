"""Naive Bayes: noisy sums of each class, drawn once.

A row adds to its class alone: 1, and for each number z within ±1 both z and 2z² − 1, and for each column of declared
values a 1 in one place.

Guarantee:
    (ε, δ)-DP for one person under the relation of the account: a person's part keeps to the planned length, which the
    meter checks in integers. So is everything that follows from the noisy sums.

References:
    docs/proofs/learn.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.engine.recipe import Draw
from discreet.engine.row_factor import RowFactor
from discreet.learn.asked import DeclaredRows
from discreet.learn.estimator import parameters
from discreet.learn.features import BITS, DeclaredColumn
from discreet.learn.gram import spread_of
from discreet.learn.linear import Probabilities
from discreet.learn.losses import Floats
from discreet.plan.parts import person_part

if TYPE_CHECKING:
    from discreet.engine.person_parts import PeopleRows
    from discreet.engine.recipe import Running
    from discreet.plan.parts import PersonPart
    from discreet.plan.person_rows import PersonRows
    from discreet.plan.plan import Plan

_LEAST = 1e-4  # of a variance, where the half width of the bounds is 1


@dataclass(frozen=True)
class ClassTerms:
    """Terms of a row of declared columns that are summed: 1, then two terms of each number, then one of each value."""

    columns: tuple[DeclaredColumn, ...]  # the declared columns

    @cached_property
    def starts(self) -> list[int]:
        """For each column the place of its first term, and after them the number of terms."""
        sizes = [2 if c.values is None else len(c.values) + 1 for c in self.columns]
        return [1, *(1 + np.cumsum(sizes)).tolist()]

    @property
    def width(self) -> int:
        """The count of terms."""
        return self.starts[-1]

    @cached_property
    def scale(self) -> float:
        """What each term is multiplied by, so that no row is longer than 1."""
        return 1 / math.sqrt(1 + sum(2 if c.values is None else 1 for c in self.columns))

    @property
    def longest(self) -> int:
        """The length of a row in whole numbers, however it is rounded."""
        return (1 << BITS) + len(self.columns) * 2 + 2

    @property
    def names(self) -> list[str]:
        """The terms."""
        return ["1", *(name for c in self.columns for name in c.names([c.name, f"2·{c.name}² − 1"]))]

    @property
    def said(self) -> Any:
        """The terms as plain values."""
        return ["class terms", [c.said for c in self.columns]]

    def encode(self, cells: Iterable[NDArray[Any]], n: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the places and the values of the terms of `n` rows, in steps of 2^-12."""
        places, values, unit = [np.zeros(n)], [np.ones(n)], 2.0**BITS * self.scale
        for c, start, own in zip(self.columns, self.starts, cells, strict=False):
            if c.values is not None:
                places.append(start + own)
                values.append(np.ones(n))
            else:
                z = c.scaled(own)
                places += [np.full(n, start), np.full(n, start + 1)]
                values += [z, 2 * z * z - 1]
        return np.stack(places, axis=1).astype(np.int32), np.rint(np.stack(values, axis=1) * unit).astype(np.int32)

    def scores(self, columns: Sequence[NDArray[Any]], weights: Floats, n: int) -> Floats:
        """Return the scores of `n` rows: of two classes that of the second, else one for each.

        Args:
            columns: what `DeclaredColumn.read` gave of each.
            weights: for each class the logarithm of its share, then the mean and the variance of each number and the
                logarithm of the share of each value.
            n: how many rows there are.
        """
        found = np.tile(weights[:, 0], (n, 1))
        for c, start, cells in zip(self.columns, self.starts, columns, strict=False):
            if c.values is not None:
                found += weights[:, start:].T[np.clip(np.rint(cells), 0, len(c.values)).astype(np.int64)]
            else:
                mean, variance = weights[:, start], weights[:, start + 1]
                found -= ((c.scaled(cells)[:, None] - mean) ** 2 / variance + np.log(variance)) / 2
        return found[:, 1:] - found[:, :1] if len(weights) == 2 else found

    def weights(self, sums: Floats, noise: float) -> Floats:
        """Return the weights that follow from noisy sums of each class, whose noise has this deviation."""
        found = np.zeros_like(sums)
        n = np.maximum(sums[:, 0], max(noise, 1.0))
        found[:, 0] = np.log(n / n.sum())
        for c, start, end in zip(self.columns, self.starts, self.starts[1:], strict=False):
            if c.values is not None:
                counts = np.maximum(sums[:, start:end], 0) + max(noise, 1.0)  # noise that is as large hides nothing
                found[:, start:end] = np.log(counts / counts.sum(axis=1, keepdims=True))
            else:
                mean = np.clip(sums[:, start] / n, -1, 1)
                square = (np.clip(sums[:, start + 1] / n, -1, 1) + 1) / 2
                found[:, start] = mean
                found[:, start + 1] = np.clip(square - mean**2, 0, 1) + _LEAST + np.minimum((noise / n) ** 2, 1)
        return found


@dataclass(frozen=True)
class ClassSums(DeclaredRows):
    """Noisy sums of the terms of each class."""

    # how many; the target y is the place of a row's class, or their number for every undeclared label
    classes: int = field(default=2, kw_only=True)

    @cached_property
    def terms(self) -> ClassTerms:
        """Terms that are summed."""
        return ClassTerms(self.columns)

    def parts(self, rows: PersonRows, epsilon: Fraction) -> list[PersonPart]:
        shape: dict[str, Any] = {"width": self.classes * self.terms.width, "l2": self.terms.longest * self.per_person}
        return [person_part("sums", rows, **shape)]

    @property
    def said(self) -> Any:
        return [self.terms.said, self.classes]

    def run(self, plan: Plan) -> Running[Any]:
        noisy, unit = np.array((yield Draw("sums")), np.float64), 2.0**BITS * self.terms.scale
        sums = (noisy / unit).reshape(self.classes, self.terms.width)
        return {"sums": sums.tolist(), "noise": spread_of(plan.parts[0]) / unit}

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        sums = zip(*state["sums"], strict=True)
        return ["term", *(f"class {k}" for k in range(self.classes))], [
            [name, *row] for name, row in zip(self.terms.names, sums, strict=True)
        ]

    def prepare(self, people: PeopleRows) -> Any:
        n, y = len(people.matrix), people.column("y")
        places, values = self.terms.encode(self.cells(people), n)
        shown = np.zeros((n, self.classes), np.int64)
        shown[np.arange(n), np.clip(y, 0, self.classes - 1)] = y < self.classes
        return shown, RowFactor(people.starts, places, values, self.terms.width)


@parameters
class GaussianNB(Probabilities):
    """Naive Bayes: within each class numbers are normal, declared values have shares, and columns are independent.

    Guarantee:
        (ε, δ)-DP for each row, under `relation`, of everything that `fit` leaves: noisy sums of each class are drawn
        once. What is public: the number and names of columns, the bounds and the classes. Each fit draws fresh noise.

    References:
        docs/proofs/learn.md.

    >>> X = np.array([[-1.0], [1.0]] * 500)
    >>> model = GaussianNB(epsilon=1, delta=1e-6, bounds=(-2, 2), classes=["low", "high"])
    >>> model.fit(X, np.where(X[:, 0] > 0, "high", "low")).predict([[-1.5], [1.5]]).tolist()
    ['low', 'high']
    """

    classes: Any = None

    def _recipe(self, rows: int | None = None) -> ClassSums:
        return ClassSums(self._columns, *self._guarantee(), classes=len(self.classes_))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"sums": (len(self.classes_), ClassTerms(self._columns).width), "noise": ()}

    def _take(self, state: Any) -> None:
        terms, sums = ClassTerms(self._columns), np.array(state["sums"])
        self._features: Any = terms
        self._weights = terms.weights(sums, state["noise"])
        self.class_count_, self.class_prior_ = np.maximum(sums[:, 0], 0), np.exp(self._weights[:, 0])
        numbers = [(c, start) for c, start in zip(self._columns, terms.starts, strict=False) if c.values is None]
        places = [start for _, start in numbers]
        halves = np.array([(c.high - c.low) / 2 for c, _ in numbers])
        self.theta_ = np.array([c.middle for c, _ in numbers]) + halves * self._weights[:, places]
        self.var_ = halves**2 * self._weights[:, [p + 1 for p in places]]

    def rebuild(self, outputs: int) -> Floats:
        self._features = ClassTerms(tuple(self._features.columns))
        self._weights = np.asarray(self._weights, np.float64).reshape(max(outputs, 2), self._features.width)
        variances = [
            s + 1 for c, s in zip(self._features.columns, self._features.starts, strict=False) if c.values is None
        ]
        self._weights[:, variances] = np.maximum(self._weights[:, variances], _LEAST)
        return self._weights

    def _explained(self) -> str:
        return f"Sums of {self._features.width} terms of {len(self._columns)} columns in {len(self.classes_)} classes."
