"""Rows of numbers as points of a public box, in whole numbers: each row by itself, whatever the others are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, count, exact

Floats: TypeAlias = NDArray[np.float64]
Ranges: TypeAlias = tuple[Real, Real] | Sequence[tuple[Real, Real]]

_MOST = 1 << 16  # coordinates
_FINEST = 20  # bits of a coordinate; float64 holds every sum of products exactly (see `hashing`)
_HINT = "ranges=(0, 255) for all coordinates, or one pair for each"


@dataclass(frozen=True, slots=True)
class Box:
    """The ranges of the coordinates of a row: declared, never read from the data.

    Attributes:
        ranges: (low, high) of each coordinate.
    """

    ranges: tuple[tuple[Fraction, Fraction], ...]

    @classmethod
    def of(cls, dimension: int, ranges: Ranges) -> Box:
        """Return the box of so many coordinates.

        Raises:
            InvalidParameter: no such number of ranges, or a range that is empty or not finite.
        """
        d = count("dimension", dimension)
        if d > _MOST:
            raise InvalidParameter(f"dimension must be at most {_MOST:,}, not {d:,}.", hint="project the rows first")
        pairs = _pairs(ranges, d)
        for low, high in pairs:
            if not 0 < _span(low, high) < math.inf:  # as floats: a division by 0 would warn of some rows
                raise InvalidParameter("each range must go from a lower to a higher finite number.", hint=_HINT)
        return cls(pairs)

    @property
    def dimension(self) -> int:
        """How many coordinates a row has."""
        return len(self.ranges)

    @property
    def bits(self) -> int:
        """So many bits the place of a coordinate in its range has."""
        return min(_FINEST, (49 - (self.dimension - 1).bit_length()) // 2)

    def whole(self, rows: object) -> Floats:
        """Each row as whole numbers from −2^(bits−1) to 2^(bits−1): from the lower to the upper end of each range.

        Numbers outside of a range, infinite ones too, are moved to its nearest end; NaN to its middle. Each coordinate
        is a function of that one number: elementwise IEEE operations, each rounded correctly.

        Raises:
            InvalidParameter: no plain array of numbers with so many columns; the message quotes none of them.
        """
        points = read_rows(rows, self.dimension)
        middles = np.array([float((low + high) / 2) for low, high in self.ranges])
        spans = np.array([_span(low, high) for low, high in self.ranges])
        with np.errstate(all="ignore"):  # whether a number overflows or underflows is private
            places = (points - middles) / spans
        places = np.clip(np.where(np.isnan(places), 0.0, places), -0.5, 0.5)
        return np.asarray(np.rint(places * 2.0**self.bits))


def read_rows(rows: object, dimension: int) -> Floats:
    """Return the rows of a plain two-dimensional array of numbers, as floats.

    Raises:
        InvalidParameter: anything else. Type, dtype and the number of columns are public; nothing else decides.
    """
    if type(rows) is not np.ndarray:
        raise InvalidParameter(
            f"rows must be a plain numpy array, not {type(rows).__name__}.",
            hint="use np.asarray(rows, dtype=float), after deciding what a masked entry counts as",
        )
    array: NDArray[Any] = rows
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise InvalidParameter(
            f"rows must be integers or floats of at most 64 bits, not {array.dtype}.", hint="use rows.astype(float)"
        )
    if array.shape == (0,):  # what numpy makes of a list of no rows
        array = array.reshape(0, dimension)
    if array.ndim != 2 or array.shape[1] != dimension:
        raise InvalidParameter(
            f"rows must have two axes and {dimension} columns, as dimension= says.",
            hint="one row by itself is rows.reshape(1, -1)",
        )
    with np.errstate(all="ignore"):  # a signalling NaN of 32 bits would warn
        return array.astype(np.float64)


def _span(low: Fraction, high: Fraction) -> float:
    """Return the width of a range, as floats tell it; infinite where they do not hold it."""
    try:
        return float(high) - float(low)
    except OverflowError:
        return math.inf


def _pairs(ranges: object, d: int) -> tuple[tuple[Fraction, Fraction], ...]:
    if not isinstance(ranges, Sequence) or isinstance(ranges, str):
        raise InvalidParameter("ranges must be a pair, or one pair for each coordinate.", hint=_HINT)
    if len(ranges) == 2 and (isinstance(ranges[0], str) or not isinstance(ranges[0], Sequence | np.ndarray)):
        return (_pair(ranges),) * d
    if len(ranges) != d:
        raise InvalidParameter(f"ranges must have one pair for each of {d} coordinates, not {len(ranges)}.", hint=_HINT)
    return tuple(map(_pair, ranges))


def _pair(pair: Any) -> tuple[Fraction, Fraction]:
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        raise InvalidParameter("each range must be a pair of numbers.", hint=_HINT)
    return exact("ranges", pair[0]), exact("ranges", pair[1])
