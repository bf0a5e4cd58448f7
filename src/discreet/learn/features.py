"""Features of a linear model from declared columns: whole numbers on a public grid, the same for data and predictions.

A number is scaled by its declared range to [−1, 1] (basis "linear"), or becomes the weights of hat functions on public
knots (basis "gam"); a column of declared values is one-hot, with one more place for every other value. All of a row is
divided by √(columns + 1), so that its length is at most 1 with the intercept, and rounded to multiples of 2^-12.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.catalog.schema import Fact, Range, Values
from discreet.errors import InvalidParameter, MissingBounds
from discreet.learn.losses import Floats
from discreet.privacy.exact import count

BITS = 12  # a feature is a multiple of 2^-12
BASES = ("linear", "gam")

_WIDE = 1000  # a range from 0 up that is wider has knots at equal distances of log(1 + value − low)


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A declared column: a number within `low` and `high`, or one of `values`, whose place is read."""

    name: str  # what it is called
    low: float  # the least number; of values 0
    high: float  # the largest; of values how many there are, which stands for every other value
    values: tuple[Any, ...] | None = None  # the declared ones; None for a number

    @classmethod
    def of(cls, name: str, fact: Fact) -> DeclaredColumn:
        """Return the column of which this is declared.

        Raises:
            InvalidParameter: its range has no width, or is of dates.
        """
        if isinstance(fact, Values):
            return cls(name, 0.0, float(len(fact.values)), fact.values)
        if fact.type.is_moment:
            raise InvalidParameter(
                f"the bounds of {name!r} are dates.", hint="learn from numbers: days since a public date"
            )
        low, high = float(fact.low), float(fact.high)
        if not low < high or not math.isfinite(high - low):
            raise InvalidParameter(f"the bounds of {name!r} must have low < high, and fit a float, not {fact!r}.")
        return cls(name, low, high)

    @property
    def middle(self) -> float:
        """What a missing number becomes; of values, another one."""
        return (self.low + self.high) / 2 if self.values is None else self.high

    @property
    def said(self) -> Any:
        """What is declared as plain values."""
        return [self.name, self.low, self.high, None if self.values is None else [*map(repr, self.values)]]

    def names(self, number: Sequence[str]) -> list[str]:
        """Return the names of its features: these of a number, else one for each value and one for every other."""
        return [*number] if self.values is None else [*(f"{self.name}={v}" for v in self.values), f"{self.name}=other"]

    def scaled(self, cells: Any) -> Floats:
        """Return numbers as parts of the way from −1, at the low end, to 1, at the high one."""
        return np.asarray(2 * (np.clip(cells, self.low, self.high) - self.low) / (self.high - self.low) - 1)

    def read(self, cells: Any) -> Floats:
        """Return a column of data as numbers within the bounds, whatever stands in it."""
        if self.values is None:
            numbers = _numbers(cells)
            return np.clip(np.where(np.isnan(numbers), self.middle, numbers), self.low, self.high)
        found = np.full(len(cells), self.high)
        array = np.asarray(cells)
        for place, value in enumerate(self.values):
            found[equal(array, value)] = place
        return found


@dataclass(frozen=True)
class Features:
    """The features of a model over declared columns."""

    columns: tuple[DeclaredColumn, ...]  # the declared columns, in the order of the data's
    basis: str = "linear"  # "linear" or "gam"
    knots: int = 12  # how many hat functions a number has in the basis "gam"

    def __post_init__(self) -> None:
        if self.basis not in BASES:
            raise InvalidParameter(f"basis must be 'linear' or 'gam', not {self.basis!r}.")
        count("knots", self.knots, least=2)

    @cached_property
    def starts(self) -> list[int]:
        """For each column the place of its first feature, and after them that of the intercept."""
        number = 1 if self.basis == "linear" else self.knots
        sizes = [number if c.values is None else len(c.values) + 1 for c in self.columns]
        return [0, *np.cumsum(sizes).tolist()]

    @property
    def width(self) -> int:
        """How many features there are, with the intercept."""
        return self.starts[-1] + 1

    @cached_property
    def scale(self) -> float:
        """What each feature is multiplied by, so that no row is longer than 1."""
        return 1 / math.sqrt(len(self.columns) + 1)

    @cached_property
    def names(self) -> list[str]:
        """The features without the intercept."""
        linear = self.basis == "linear"
        numbers = ([c.name] if linear else [f"{c.name}≈{knot:.6g}" for knot in self._knots(c)] for c in self.columns)
        return [name for c, own in zip(self.columns, numbers, strict=True) for name in c.names(own)]

    def encode(self, columns: Iterable[NDArray[Any]], n: int) -> tuple[NDArray[np.int32], NDArray[np.int16]]:
        """Return the places and the values of the features of `n` rows, in steps of 2^-12."""
        width = sum(1 if c.values is not None or self.basis == "linear" else 2 for c in self.columns) + 1
        places, values = np.empty((n, width), np.int32), np.empty((n, width), np.int16)
        at, unit = 0, 2**BITS * self.scale
        for c, start, cells in zip(self.columns, self.starts, columns, strict=False):
            if c.values is not None:
                places[:, at], values[:, at] = start + np.clip(np.rint(cells), 0, len(c.values)), round(unit)
            elif self.basis == "linear":
                places[:, at], values[:, at] = start, np.rint(c.scaled(cells) * unit)
            else:
                u = self.position(c, cells) * (self.knots - 1)
                first = np.minimum(u.astype(np.int64), self.knots - 2)
                places[:, at], places[:, at + 1] = start + first, start + first + 1
                values[:, at], values[:, at + 1] = np.rint((1 - (u - first)) * unit), np.rint((u - first) * unit)
                at += 1
            at += 1
        places[:, at], values[:, at] = self.starts[-1], round(unit)
        return places, values

    def scores(self, columns: Sequence[NDArray[Any]], weights: Floats, n: int) -> Floats:
        """Return the scores of `n` rows, one column for each row of weights."""
        places, values = self.encode(columns, n)
        found = np.zeros((n, len(weights)))
        for j in range(places.shape[1]):
            found += weights.T[places[:, j]] * (values[:, j, None] / 2**BITS)
        return found

    def coefficients(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return coefficients in the units of the data, and intercepts, of weights of the features."""
        coefficients, intercepts = weights[:, :-1] * self.scale, weights[:, -1] * self.scale
        if self.basis == "linear":
            for c, start in zip(self.columns, self.starts, strict=False):
                if c.values is None:
                    slope = 2 * coefficients[:, start] / (c.high - c.low)
                    intercepts = intercepts - slope * c.middle
                    coefficients[:, start] = slope
        return coefficients, intercepts

    def position(self, c: DeclaredColumn, cells: Floats) -> Floats:
        """Return where numbers lie between the first knot, 0, and the last, 1."""
        held = np.clip(cells, c.low, c.high)
        if self._is_wide(c):
            return np.asarray(np.log1p(held - c.low) / math.log1p(c.high - c.low))
        return np.asarray((held - c.low) / (c.high - c.low))

    def _knots(self, c: DeclaredColumn) -> Iterator[float]:
        return (self.value_at(c, i / (self.knots - 1)) for i in range(self.knots))

    def value_at(self, c: DeclaredColumn, u: float) -> float:
        """Return the number that lies at such a part of the way between the knots at the ends."""
        width = c.high - c.low
        return c.low + (math.expm1(u * math.log1p(width)) if self._is_wide(c) else u * width)

    def _is_wide(self, c: DeclaredColumn) -> bool:
        return c.low >= 0 and c.high - c.low > _WIDE

    @property
    def said(self) -> Any:
        """The features as plain values."""
        return [self.basis, self.knots, [c.said for c in self.columns]]


def numbers_of(columns: Sequence[DeclaredColumn], cells: Iterable[NDArray[Any]]) -> Floats:
    """Return rows of numbers: of a column of values a 1 in the place of each."""
    found: list[Any] = []
    for c, own in zip(columns, cells, strict=True):
        found += [own] if c.values is None else [own == k for k in range(len(c.values) + 1)]
    return np.stack(found, axis=1).astype(np.float64)


def read_bounds(bounds: Any, names: Sequence[str], *, named: bool) -> tuple[DeclaredColumn, ...]:
    """Return the declared columns.

    Args:
        bounds: (low, high) for all columns, a pair a column, or a mapping of names to `Range` or `Values`.
        names: the columns of the data, in their order.
        named: whether the data has names of its own.

    Raises:
        MissingBounds: a column has none.
        InvalidParameter: they are no bounds, or of other columns.
    """
    if isinstance(bounds, Mapping):
        if not named:
            raise InvalidParameter(
                "bounds= has names, and X is an array without names of columns.",
                hint="give a data frame, or a pair a column: bounds=[(17, 90), (1, 16)]",
            )
        unknown = [name for name in bounds if name not in names]
        missing = [name for name in names if name not in bounds]
        if missing:
            slip = f" bounds= has {unknown[0]!r}, which is no column of X." if unknown else ""
            raise MissingBounds(
                f"The columns {', '.join(map(repr, missing))} have no declared bounds.{slip}",
                hint=f"bounds={{{missing[0]!r}: dp.Range(LOW, HIGH)}}, or leave the column out of X",
            )
        if unknown:
            raise InvalidParameter(f"bounds= has {unknown[0]!r}, which is no column of X.")
        return tuple(DeclaredColumn.of(name, fact_of(name, bounds[name])) for name in names)
    pairs = _pairs(bounds)
    if len(pairs) == 1:
        pairs = pairs * len(names)
    if len(pairs) != len(names):
        raise InvalidParameter(f"bounds= has {len(pairs)} pairs, and X has {len(names)} columns.")
    return tuple(DeclaredColumn.of(name, fact) for name, fact in zip(names, pairs, strict=True))


def _pairs(bounds: Any) -> list[Fact]:
    """Return one fact for all columns, or one for each."""
    if isinstance(bounds, Range | Values):
        return [bounds]
    try:
        given = [*bounds]
        if len(given) == 2 and not any(isinstance(b, Range | Values) or np.ndim(b) for b in given):
            return [fact_of("X", bounds)]
        return [fact_of(f"column {i}", b) for i, b in enumerate(given)]
    except TypeError:
        raise _no_bounds("bounds") from None


def fact_of(name: str, given: Any) -> Fact:
    """Return what is declared: a fact, or (low, high). Raises InvalidParameter: it is neither."""
    if isinstance(given, Range | Values):
        return given
    try:
        low, high = given
        return Range(_plain(low), _plain(high))
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidParameter):
            raise
        raise _no_bounds(f"what is declared of {name}") from None


def _plain(end: Any) -> Any:
    return end.item() if isinstance(end, np.generic) else end


def _no_bounds(what: str) -> InvalidParameter:
    return InvalidParameter(
        f"{what} must be (low, high), a pair a column, or a dict of dp.Range and dp.Values.", hint="bounds=(0, 1)"
    )


def _numbers(cells: Any) -> Floats:
    """Return cells as floats; what is no number is NaN."""
    array = np.asarray(cells)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    return np.array([number(cell) for cell in array.tolist()], np.float64)


def number(cell: Any) -> float:
    """Return a cell as a float; NaN where it is no number."""
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def cell_by_cell(y: Any) -> NDArray[Any]:
    """Return one cell a row: of a list each as it is, since numpy would make one type of all for the sake of one."""
    if not isinstance(y, list | tuple):
        return np.asarray(y)
    found = np.empty(len(y), object)
    for place, cell in enumerate(y):
        found[place] = cell.item() if isinstance(cell, np.generic) else cell
    return found


def occurring_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the labels that occur, sorted; missing ones are none."""
    return np.unique(np.array([cell for cell in labels.tolist() if cell is not None and _same(cell, cell)]))


def equal(array: NDArray[Any], value: Any) -> NDArray[np.bool_]:
    """Return whether each cell is a value; cells that cannot be compared are not."""
    with np.errstate(all="ignore"):
        try:
            found = np.asarray(array == value)
        except (TypeError, ValueError):
            found = np.zeros(0, np.bool_)
    if found.shape == array.shape and found.dtype == np.bool_:
        return found
    return np.array([_same(cell, value) for cell in array.tolist()], np.bool_).reshape(array.shape)


def _same(cell: Any, value: Any) -> bool:
    try:
        return bool(cell == value)
    except (TypeError, ValueError):
        return False
