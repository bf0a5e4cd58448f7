"""Columns that are computed from others: what a vector shows as a whole, and what floats leave behind."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.tree import OutputColumn
from discreet.audit.places import Floats

Computed: TypeAlias = "tuple[OutputColumn, Callable[[], Floats]]"
"""A column, and what computes its values."""

_FEW = 6
"""Numeric columns up to which each one's lowest bits are a column; beyond, the lowest of all of them."""
_MOST_DIFFERENCES = 64
_FRACTION, _EXPONENTS, _BIAS = 52, 0x7FF, 1023  # of a float of 64 bits
_BLOCK = 16_384  # numbers whose bits stay in the cache


@dataclass(frozen=True, slots=True)
class DerivedColumns:
    """Which columns are computed, and from which."""

    groups: tuple[tuple[int, ...], ...]
    numbers: tuple[int, ...]
    labels: tuple[int, ...]

    @classmethod
    def of(cls, columns: tuple[OutputColumn, ...], numbers: Sequence[int]) -> DerivedColumns:
        """Return what can be computed from raw columns: those of one parent are a vector.

        Args:
            columns: the raw columns.
            numbers: those whose bits are looked at.
        """
        vectors: dict[str, list[int]] = {}
        for i, column in enumerate(columns):
            if column.name.endswith("]"):
                vectors.setdefault(column.kind + column.name.rpartition("[")[0], []).append(i)
        numeric = [tuple(v) for k, v in vectors.items() if k.startswith("number") and len(v) > 1]
        named = [v for k, v in vectors.items() if k.startswith("label") and len(v) > 1]
        return cls(tuple(numeric), tuple(numbers), tuple(named[0]) if named else ())

    def compute(self, raw: Floats, columns: tuple[OutputColumn, ...]) -> Iterator[Computed]:
        """Yield the computed columns; their values are computed when they are asked for."""
        for group in self.groups:
            yield from _of_vector(_Once(partial(_some, raw, group)), [columns[i] for i in group])
        if self.labels:
            labels = _Once(partial(_some, raw, self.labels))
            path = columns[self.labels[0]].name.rpartition("[")[0]
            yield _derived(f"first change in {path}", lambda: np.argmax(labels() != labels()[:, :1], axis=1))
        if 0 < len(self.numbers) <= _FEW:
            for i in self.numbers:
                yield _derived(f"lowest bit of {columns[i].name}", partial(lowest_bit, raw[:, i]))
                yield _derived(f"whether {columns[i].name} is whole", partial(_is_whole, raw[:, i]))
        elif self.numbers:
            bit = _Once(lambda: lowest_bit(_some(raw, self.numbers)))
            yield _derived("lowest bit of any number", lambda: _across(np.fmin, bit()))
            yield _derived("highest lowest bit of all numbers", lambda: _across(np.fmax, bit()))


def lowest_bit(x: Floats) -> Floats:
    """log₂ of the lowest bit that is set in each float; 0 has +∞, what is no number NaN."""
    found = np.empty(x.shape)
    rows = max(1, _BLOCK // max(1, math.prod(x.shape[1:])))
    for start in range(0, len(x), rows):
        found[start : start + rows] = _lowest_bit(x[start : start + rows])
    return found


def _lowest_bit(x: Floats) -> Floats:
    bits = np.ascontiguousarray(x, dtype=np.float64).view(np.int64)
    exponent = bits >> _FRACTION & _EXPONENTS
    whole = bits & (1 << _FRACTION) - 1 | (exponent > 0).astype(np.int64) << _FRACTION
    # A power of two, whose own exponent is the place of that bit.
    lowest = (whole & -whole).astype(np.float64).view(np.int64) >> _FRACTION
    place = lowest + np.maximum(exponent, 1) - (_BIAS + _BIAS + _FRACTION)
    found: Floats = place.astype(np.float64)
    found[whole == 0] = np.inf
    found[exponent == _EXPONENTS] = np.nan
    return found


class _Once:
    """A value that several columns need, computed when the first of them is."""

    def __init__(self, of: Callable[[], Floats]) -> None:
        self._of = of
        self._value: Floats | None = None

    def __call__(self) -> Floats:
        if self._value is None:
            self._value = self._of()
        return self._value


def _some(raw: Floats, columns: tuple[int, ...]) -> Floats:
    return raw if columns == tuple(range(raw.shape[1])) else raw[:, list(columns)]


def _is_whole(x: Floats) -> NDArray[np.bool_]:
    return np.asarray(np.floor(x) == x)


def _step(some: _Once, j: int) -> Floats:
    return np.asarray(some()[:, j] - some()[:, j - 1])


def _of_vector(some: _Once, columns: list[OutputColumn]) -> Iterator[Computed]:
    path = columns[0].name.rpartition("[")[0]
    yield from _described(some, path)
    if all(c.labels for c in columns):
        return
    for j in range(1, min(len(columns), _MOST_DIFFERENCES + 1)):
        name = f"{columns[j].name} − {columns[j - 1].name}"
        yield OutputColumn(name, "difference"), _quiet(partial(_step, some, j))


def _described(some: _Once, path: str) -> Iterator[Computed]:
    def high() -> Floats:
        return np.where(np.isnan(some()), -np.inf, some())

    yield _derived(f"sum of {path}", lambda: np.where(np.isnan(some()), 0.0, some()).sum(axis=1))
    yield _derived(f"largest of {path}", lambda: _across(np.fmax, some()))
    yield _derived(f"smallest of {path}", lambda: _across(np.fmin, some()))
    yield _derived(f"index of the largest of {path}", lambda: np.argmax(high(), axis=1))
    yield _derived(f"index of the first number in {path}", lambda: _first(~np.isnan(some())))
    yield _derived(f"index of the first that is no number in {path}", lambda: _first(np.isnan(some())))
    yield _derived(f"how many numbers in {path}", lambda: (~np.isnan(some())).sum(axis=1))


def _across(of: np.ufunc, some: Floats) -> Floats:
    """Return a ufunc over the entries of each row: column after column, as numpy is slow at many short rows."""
    return np.asarray(reduce(of, some.T))


def _first(here: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the first place in each row; its length where there is none."""
    return np.asarray(np.where(here.any(axis=1), np.argmax(here, axis=1), here.shape[1]))


def _derived(name: str, values: Callable[[], NDArray[np.generic]]) -> Computed:
    return OutputColumn(name, "derived"), _quiet(lambda: values().astype(np.float64))


def _quiet(values: Callable[[], Floats]) -> Callable[[], Floats]:
    def computed() -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            return values()

    return computed
