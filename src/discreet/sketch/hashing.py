"""Locality-sensitive hash functions, drawn without the data and computed in whole numbers.

Rows that are near fall into one bucket more often than rows that are far: the chance is the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.noise import gaussian
from discreet.noise.entropy import Entropy, below_vector, words64
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

        Numbers outside of a range, infinite ones too, are clamped; NaN to its middle. Each coordinate
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


_ROOM = 49  # bits of a projection and a coordinate together, before the sum over coordinates
_WIDEST = Fraction(1 << 11)  # of a bandwidth
_BLOCK = 1 << 22  # numbers that are made at a time


class Kernel(Enum):
    """How near two rows are: by their distance, or by the angle between them as seen from the middle of the box."""

    L2 = "l2"
    ANGULAR = "angular"

    @classmethod
    def parse(cls, text: object) -> Kernel:
        """Return the kernel of that name.

        Raises:
            InvalidParameter: no such kernel.
        """
        try:
            return cls(text)
        except ValueError:
            raise InvalidParameter(f"kernel must be 'l2' or 'angular', not {text!r}.") from None


@dataclass(frozen=True, slots=True)
class Family:
    """The public parameters from which hash functions are drawn.

    Attributes:
        box: where rows lie.
        kernel: what near means.
        bandwidth: the width of the slices of an l2 hash, where each range has width 1; None for angles.
        power: so many hashes have to agree; the kernel is that power of the chance of one.
        repetitions: so many hash functions there are.
        buckets: the range of each of them, a power of two.
    """

    box: Box
    kernel: Kernel
    bandwidth: Fraction | None
    power: int
    repetitions: int
    buckets: int

    @property
    def finer(self) -> int:
        """Bits of a projection: with those of a coordinate and of their number they stay below 2^52."""
        return _ROOM - (self.box.dimension - 1).bit_length() - self.box.bits

    @property
    def width(self) -> int:
        """The bandwidth, in units of the products; 1 for angles, where it is not used."""
        if self.bandwidth is None:
            return 1
        if not 1 / _WIDEST**2 <= self.bandwidth <= _WIDEST:
            raise InvalidParameter("bandwidth must lie between 2^-22 and 2^11, where each range has width 1.")
        return round(self.bandwidth * (1 << (self.finer + self.box.bits)))  # from 2^11 to 2^60, in every dimension

    def chance(self, near: Floats) -> Floats:
        """Return the kernel at these distances (where each range has width 1), or at these angles."""
        near = np.asarray(near, dtype=np.float64)
        if self.bandwidth is None:
            return np.asarray((1 - near / math.pi) ** self.power)
        from scipy.special import ndtr

        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            r = float(self.bandwidth) / near
            one = 1 - 2 * ndtr(-r) - 2 / (math.sqrt(2 * math.pi) * r) * -np.expm1(-r * r / 2)
        return np.asarray(np.where(near > 0, np.maximum(one, 0.0), 1.0) ** self.power)

    def draw(self, rng: Entropy) -> Hashes:
        """Hash functions: independent of all data."""
        size, d = self.repetitions * self.power, self.box.dimension
        normal = gaussian.rounded_vector(Fraction(1 << self.finer), d * size, rng).astype(np.float64)
        most = 2.0 ** (self.finer + 4)  # 16 deviations: nothing is that far
        return Hashes(
            self,
            np.clip(normal, -most, most).reshape(d, size),
            below_vector(self.width, size, rng),
            words64(rng, size).reshape(self.repetitions, self.power).copy(),
            words64(rng, self.repetitions).copy(),
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Hashes:
    """Hash functions that were drawn; public.

    Guarantee:
        The buckets of a row are a function of that row and of these numbers, whatever rows stand beside it: every
        product is a sum of whole numbers below 2^52, which float64 adds exactly in every order, so that no library's
        way of blocking a matrix product shows. Only that matters for privacy; how near the function is to the ideal
        one does not (docs/proofs/race.md).

    Attributes:
        family: what they were drawn from.
        directions: whole numbers, one column for each projection.
        offsets: where the slices begin.
        factors, shifts: of the multiply-shift hash that brings the slices into the buckets.
    """

    family: Family
    directions: Floats
    offsets: NDArray[np.int64]
    factors: NDArray[np.uint64]
    shifts: NDArray[np.uint64]

    def blocks(self, size: int) -> list[slice]:
        """Slices of so many rows, such that a block needs little memory."""
        step = max(_BLOCK // (self.family.repetitions * self.family.power), 1)
        return [slice(i, i + step) for i in range(0, size, step)]

    def buckets(self, whole: Floats) -> NDArray[np.int64]:
        """Return the bucket of each row (whole numbers of the box) under each function.

        References: Datar, Immorlica, Indyk, Mirrokni 2004, Section 3.1, https://doi.org/10.1145/997817.997857 (l2);
        Charikar 2002, Section 3, https://doi.org/10.1145/509907.509965 (angles); Thorup 2015, Section 3.5,
        https://arxiv.org/abs/1504.06804 (multiply-shift of vectors, strongly universal).
        """
        f = self.family
        products = (whole @ self.directions).astype(np.int64)
        if f.bandwidth is None:
            parts = (products >= 0).astype(np.uint64)
        else:
            slices = (products + self.offsets) // f.width
            parts = (slices & 0xFFFFFFFF).astype(np.uint64)
        mixed = np.zeros((len(whole), f.repetitions), dtype=np.uint64)
        parts = parts.reshape(len(whole), f.repetitions, f.power)
        for i in range(f.power):
            mixed += parts[:, :, i] * self.factors[:, i]  # modulo 2^64, as it should be
        if f.buckets == 1:
            return np.zeros(mixed.shape, dtype=np.int64)
        bits = f.buckets.bit_length() - 1
        return ((mixed + self.shifts) >> np.uint64(64 - bits)).astype(np.int64)
