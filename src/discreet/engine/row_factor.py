"""Rows of whole numbers that stay the same for a whole run: the second factor of people's parts, or places that count.

A person's part is the sum over their rows of (the row's weights)ᵀ·(the row), as in a gradient of a linear model, whose
weights are the residuals. The rows are measured once, so that the weights of each draw are checked in a few operations.

Guarantee:
    `total` adds up the parts that keep to the norms and no other; both are decided in integers (docs/proofs/learn.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError

if TYPE_CHECKING:
    from discreet.privacy.unit import Sensitivity


Integers: TypeAlias = NDArray[np.int64]

_WIDEST = 1 << 62
_LONGEST = (1 << 31) - 1
_BLOCK = 1 << 16  # rows that are measured at a time


class RowFactor:
    """Rows of whole numbers, sparse, with their norms; the arrays are read-only, also to whoever gave them.

    Attributes:
        matrix: the rows, as whole numbers in floats (`scipy.sparse.csr_array`).
        width: how many columns there are.
    """

    __slots__ = ("_limits", "_norms", "_size", "_starts", "matrix", "width")

    def __init__(self, starts: Integers, columns: NDArray[Any], values: NDArray[Any], width: int) -> None:
        """Build the rows: in each of them its `values` stand in its `columns`.

        Args:
            starts: for each person the place of their first row, and after them the number of rows.
            columns: for each row the places of its values, in ascending order: whole numbers.
            values: for each row its values: whole numbers within 31 bits.
            width: how many columns there are.

        Raises:
            InternalError: not such numbers.
        """
        n, k = columns.shape
        if values.shape != (n, k) or n != starts[-1] or {columns.dtype.kind, values.dtype.kind} != {"i"}:
            raise InternalError("A factor has a row of whole numbers for each row that was read.")
        norms = []
        for first in range(0, max(n, 1), _BLOCK):
            own, held = columns[first : first + _BLOCK], np.abs(values[first : first + _BLOCK].astype(np.int64))
            if held.size and (held.max() > _LONGEST or own.min() < 0 or own.max() >= width):
                raise InternalError("A factor's values are small, and stand in its columns.")
            if (own[:, 1:] <= own[:, :-1]).any():
                raise InternalError("A factor's values stand in ascending columns.")
            norms.append(((held != 0).sum(axis=1), held.max(axis=1, initial=0), held.sum(axis=1), squares(held)))
        self._norms: tuple[Integers, ...] = tuple(np.concatenate(found) for found in zip(*norms, strict=True))
        index = np.int32 if n * k < _LONGEST else np.int64
        parts = (values.astype(np.float64).reshape(-1), columns.astype(index, copy=False).reshape(-1))
        self.matrix = _sparse((*parts, np.arange(n + 1, dtype=index) * index(k)), shape=(n, width))
        self.width, self._starts, self._size = width, starts, len(starts) - 1
        self._limits: dict[Sensitivity, tuple[Integers, ...]] = {}
        for array in (columns, self.matrix.data, self.matrix.indices, self.matrix.indptr, *self._norms):
            array.flags.writeable = False

    @property
    def people(self) -> int:
        """How many people have rows."""
        return self._size

    @property
    def is_single(self) -> bool:
        """Whether each person has one row."""
        return bool(self.matrix.shape[0] == self._size)

    def most(self, norms: Sensitivity) -> Integers:
        """For each row the largest weight with which, alone, it keeps to the norms."""
        l0, linf, l1, _, root = self._limits_of(norms)
        return np.where(l0 > 0, np.minimum(np.minimum(linf, l1), root), 0)

    def total(self, weights: Integers, norms: Sensitivity) -> Integers:
        """Return the sum over people, where a part beyond the norms counts 0.

        Args:
            weights: for each row its weights.
            norms: how far a person's part may go.
        """
        if not self.is_single:
            found = np.zeros(weights.shape[1] * self.width, np.int64)
            for parts in self.parts(weights):
                found += parts[within(parts, norms)].sum(axis=0)
            return found
        kept = np.where(self._within(weights, norms)[:, None], weights, 0)
        # every partial sum is a whole number of at most 2^53, so that floats add up exactly, in any order
        block = max((1 << 53) // max(norms.linf, 1), 1)
        summed = np.zeros((self.width, weights.shape[1]), np.int64)
        for first in range(0, len(kept), block):
            part = kept[first : first + block].astype(np.float64)
            rows = self.matrix if block >= len(kept) else self.matrix[first : first + block]  # a slice is a copy
            summed += (rows.T @ part).astype(np.int64)
        return summed.T.reshape(-1)

    def parts(self, weights: Integers) -> Iterator[Integers]:
        """Yield people's parts, one a row, some people at a time; the part of one that could leave 62 bits is 0."""
        counts = np.maximum(np.diff(self._starts), 1)
        own = np.repeat(counts, np.diff(self._starts)) * np.maximum(self._norms[1], 1)
        most = (_WIDEST // own)[:, None]
        fits = np.asarray(((weights <= most) & (weights >= -most)).all(axis=1))
        some = max((1 << 22) // max(weights.shape[1] * self.width, 1), 1)
        for first in range(0, self._size, some):
            starts = self._starts[first : first + some + 1]
            rows = slice(int(starts[0]), int(starts[-1]))
            people, whole = len(starts) - 1, self.matrix[rows].astype(np.int64)
            person = np.repeat(np.arange(people), np.diff(starts))
            small = np.ones(people, np.bool_)
            small[person[~fits[rows]]] = False
            held = np.where(small[person][:, None], weights[rows], 0)
            found = np.zeros((people, weights.shape[1], self.width), np.int64)
            for k in range(weights.shape[1]):
                at = (person, np.arange(len(person)))
                mixed = _sparse((held[:, k], at), shape=(people, len(person)))
                found[:, k] = (mixed @ whole).toarray()
            yield found.reshape(people, -1)

    def _within(self, weights: Integers, norms: Sensitivity) -> NDArray[np.bool_]:
        """Whose parts keep to the norms, of people with one row: each norm is that of the weights times that of the
        row, and x·y ≤ n where x ≤ n // y.
        """
        if weights.shape[1] == 1:
            most = self.most(norms)
            return np.asarray((weights[:, 0] <= most) & (weights[:, 0] >= -most))
        small = np.asarray(((weights <= _LONGEST) & (weights >= -_LONGEST)).all(axis=1))
        held = np.abs(np.where(small[:, None], weights, 0))
        l0, linf, l1, square, _ = self._limits_of(norms)
        return np.asarray(
            small
            & ((held != 0).sum(axis=1) <= l0)
            & (held.max(axis=1, initial=0) <= linf)
            & (held.sum(axis=1) <= l1)
            & (squares(held) <= square)
        )

    def _limits_of(self, norms: Sensitivity) -> tuple[Integers, ...]:
        """For each row how large the norms of its weights may be, and the whole root of the last."""
        if norms not in self._limits:
            most = (norms.l0, norms.linf, norms.l1, norms.l2_squared)
            found = [n // np.maximum(own, 1) for n, own in zip(most, self._norms, strict=True)]
            self._limits[norms] = (*found, whole_root(found[3]))
        return self._limits[norms]


def _sparse(entries: Any, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array

    return csr_array(entries, shape=shape)


def within(parts: Integers, norms: Sensitivity) -> NDArray[np.bool_]:
    """Whose parts keep to the norms; no sum of squares of numbers within l∞ leaves 64 bits (`plan/parts.py`)."""
    found = [_within(parts[first : first + _BLOCK], norms) for first in range(0, max(len(parts), 1), _BLOCK)]
    return np.concatenate(found)


def _within(parts: Integers, norms: Sensitivity) -> NDArray[np.bool_]:
    small = np.asarray(((parts <= norms.linf) & (parts >= -norms.linf)).all(axis=1))
    held = np.abs(np.where(small[:, None], parts, 0))
    return np.asarray(
        small
        & ((held != 0).sum(axis=1) <= norms.l0)
        & (held.sum(axis=1) <= norms.l1)
        & ((held * held).sum(axis=1) <= norms.l2_squared)
    )


def squares(held: Integers) -> Integers:
    """Return sums of squares of rows; one that 64 bits do not hold counts as the largest number there is."""
    total = (held.astype(np.float64) ** 2).sum(axis=1)
    return np.where(total < 2.0**62, (held * held).sum(axis=1), np.iinfo(np.int64).max)


def whole_root(square: Integers) -> Integers:
    """Return the largest whole numbers whose squares are at most these, which are below 2^62."""
    found = np.sqrt(square.astype(np.float64)).astype(np.int64)
    found -= found * found > square
    found += (found + 1) * (found + 1) <= square
    return np.asarray(found)


class RowPlaces:
    """Rows each of which counts 1 at each of its places: a person's part is the histogram of the places of their rows.

    Guarantee:
        `total` adds up the parts that keep to the norms and no other; both are decided in integers
        (docs/proofs/synth.md).

    Attributes:
        places: the places, a line a row; read-only.
        width: how many places there are.
        people: how many people have rows.
    """

    __slots__ = ("_starts", "people", "places", "width")

    def __init__(self, starts: Integers, places: Integers, width: int) -> None:
        """Build the rows.

        Args:
            starts: for each person the place of their first row, and after them the number of rows.
            places: for each row where it counts: whole numbers from 0 to width − 1.
            width: how many places there are.

        Raises:
            InternalError: not such numbers.
        """
        shaped = type(places) is np.ndarray and places.dtype == np.int64 and places.ndim == 2
        if not shaped or len(places) != starts[-1] or (places.size and not 0 <= places.min() <= places.max() < width):
            raise InternalError("Each row that was read counts at whole places, which the part has.")
        self.places, self.width, self.people, self._starts = places, width, len(starts) - 1, starts
        places.flags.writeable = False

    def total(self, norms: Sensitivity) -> Integers:
        """Return the sum over people, where a part beyond the norms counts 0."""
        kept = self.places
        if kept.shape[1] > 1 or (np.diff(self._starts) > 1).any():  # else each part is one 1, and no norm is below that
            kept = kept[self._within(norms)[self._person]]
        return np.bincount(kept.reshape(-1), minlength=self.width).astype(np.int64)

    def parts(self) -> Iterator[Integers]:
        """Yield people's parts, one a row, some people at a time."""
        some = max((1 << 22) // max(self.width, 1), 1)
        for first in range(0, self.people, some):
            starts = self._starts[first : first + some + 1]
            found = np.zeros((len(starts) - 1, self.width), np.int64)
            rows = slice(int(starts[0]), int(starts[-1]))
            np.add.at(found, (self._person[rows, None] - first, self.places[rows]), 1)
            yield found

    @property
    def _person(self) -> Integers:
        """For each row the place of its person."""
        return np.repeat(np.arange(self.people), np.diff(self._starts))

    def _within(self, norms: Sensitivity) -> NDArray[np.bool_]:
        """Whose histograms keep to the norms."""
        if self.people * self.width >= 1 << 62:  # a place of a person is one number below
            raise InternalError("A part has more places than can be counted person by person.")
        own = self._person[:, None] * self.width + self.places
        place, times = np.unique(own, return_counts=True)
        person = place // max(self.width, 1)
        size = np.bincount(person, minlength=self.people)
        total = np.zeros(self.people, np.int64)
        square, most = total.copy(), total.copy()
        np.add.at(total, person, times)
        np.add.at(square, person, times * times)
        np.maximum.at(most, person, times)
        return np.asarray(
            (size <= norms.l0) & (most <= norms.linf) & (total <= norms.l1) & (square <= norms.l2_squared)
        )


def dense(parts: RowPlaces) -> Integers:
    """Return people's parts, one a row."""
    return np.concatenate([np.zeros((0, parts.width), np.int64), *parts.parts()])
