"""Places at which people's rows count: parts of people that are histograms, without a line for each person.

Guarantee:
    `total` adds up the parts that keep to the norms and no other; both are decided in integers (docs/proofs/synth.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from discreet.engine.row_factor import Integers
from discreet.errors import InternalError

if TYPE_CHECKING:
    from discreet.privacy.unit import Sensitivity


class RowPlaces:
    """Rows each of which counts 1 at each of its places: a person's part is the histogram of the places of their rows.

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
