"""What `release` takes: one number or an array, a list or a column of numbers, told apart by type alone.

An integer and a real number go through different laws, so the choice must not depend on the value. It depends on the
Python type and the array's dtype, which the caller keeps the same for all neighbours. No message here quotes a value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError, InvalidParameter
from discreet.noise.lattice import Grid
from discreet.privacy.exact import Real, exact
from discreet.privacy.guarantee import decimal


@dataclass(frozen=True, slots=True)
class NumberArray:
    """Finite float64, or integers (int64, or Python integers beyond 64 bits), in one dimension.

    Attributes:
        entries: the numbers.
        shape: the shape to give back; None for a single number.
    """

    entries: NDArray[Any]
    shape: tuple[int, ...] | None

    @property
    def is_real(self) -> bool:
        return self.entries.dtype == np.float64


def read(value: object) -> NumberArray:
    """Return the numbers of `value`.

    Raises:
        InvalidParameter: a truth value, a text, None, a complex number, NaN, an infinity, or a type whose precision
            is not that of an integer or a float64.
    """
    value = plain(value)
    if isinstance(value, np.ndarray):
        _check_plain(value)
        return NumberArray(_flat(value), value.shape if value.ndim else None)
    number = single(value)
    if number is not None:
        return NumberArray(np.array([number]) if type(number) is float else _whole([int(number)]), None)
    if isinstance(value, list | tuple):
        return _listed(value)
    raise InvalidParameter(
        f"value must be an int, a float or a numpy array, not {type(value).__name__}.", hint="use int or float"
    )


def plain(value: Any) -> Any:
    """Return the array of a data frame or of a column of one, without its index; any other value as it is."""
    return value.to_numpy() if callable(getattr(value, "to_numpy", None)) else value


def _listed(values: list[Any] | tuple[Any, ...]) -> NumberArray:
    """Return a list of numbers: reals where one of them is a float by its type, else integers."""
    numbers = [single(v) for v in values]
    if any(n is None for n in numbers):
        raise InvalidParameter(
            "value must hold integers and floats only.", hint="decide what a missing one counts as; np.array for tables"
        )
    if any(type(n) is float for n in numbers):
        if any(isinstance(n, int) and abs(n) > _EXACT for n in numbers):  # a float would move it further than is paid
            raise InvalidParameter(
                "value holds floats and an integer of more than 53 bits.", hint="give integers alone, or floats alone"
            )
        return NumberArray(_flat(np.array(numbers, dtype=np.float64)), (len(numbers),))
    return NumberArray(_whole([int(n) for n in numbers if n is not None]), (len(numbers),))


def single(value: object) -> int | float | None:
    """Return the number that is no array: an int, or a finite float; None for everything else.

    Raises:
        InvalidParameter: a truth value, NaN or an infinity.
    """
    if type(value) is int:
        return value
    if isinstance(value, np.ndarray):
        return None
    if isinstance(value, bool | np.bool_):
        raise InvalidParameter(
            "value must be a number, not a truth value.", hint="use int(value) to count it as 0 or 1"
        )
    if isinstance(value, float | np.float32 | np.float16):
        number = float(value)
        if not math.isfinite(number):
            raise InvalidParameter("value must be a finite number.", hint=_FINITE)
        return number
    try:
        return operator.index(value)  # type: ignore[arg-type]  # refused by `read` when it is none
    except TypeError:
        return None


def _check_plain(array: NDArray[Any]) -> None:
    """Refuses numpy's subclasses: a masked array would give back what is under its mask without noise, and a
    matrix does not become flat, so that one draw of noise would serve all its entries.
    """
    if type(array) is not np.ndarray:
        raise InvalidParameter(
            f"value must be a plain numpy array, not {type(array).__name__}.",
            hint="use np.array(value, subok=False), after deciding what a masked entry counts as",
        )


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    entries = array.reshape(-1)
    assert entries.ndim == 1
    if entries.dtype.kind == "u" and entries.dtype.itemsize == 8:  # of either byte order
        return _whole(entries.tolist())
    if entries.dtype.kind in "iu":
        return entries.astype(np.int64, copy=False)  # only ever read
    if entries.dtype.kind == "f" and entries.dtype.itemsize <= 8:
        with np.errstate(all="ignore"):  # a signalling NaN of 32 bits would warn
            reals = entries.astype(np.float64)
        if not np.isfinite(reals).all():
            raise InvalidParameter("value must hold finite numbers only.", hint=_FINITE)
        return reals
    raise InvalidParameter(
        f"value must be an array of integers or floats of at most 64 bits, not {array.dtype}.",
        hint="use value.astype(float), or astype(int)",
    )


def _whole(integers: list[int]) -> NDArray[Any]:
    """Return an int64 array where it holds the integers, else one of Python integers."""
    if all(_LEAST <= n <= _MOST for n in integers):
        return np.array(integers, dtype=np.int64)
    entries = np.empty(len(integers), dtype=object)
    entries[:] = integers
    return entries


def total(values: NDArray[Any], noise: NDArray[Any]) -> NDArray[Any]:
    """Their sum, exactly: int64 where every sum fits, else Python integers. Each value has a noise of its own.

    The sum takes the place of the noise where it can: nothing needs the noise any more, and fresh memory for
    a large array costs more than drawing it.
    """
    if values.shape != noise.shape:
        raise InternalError("Noise was drawn for another number of values.")
    if values.dtype == np.int64 and noise.dtype == np.int64:
        if not len(values) or _adds_up(values, noise):
            return np.asarray(np.add(values, noise, out=noise if noise.flags.writeable else None))
        summed = values + noise
        if not (((values ^ summed) & (noise ^ summed)) < 0).any():  # no sum has a sign that neither summand has
            return np.asarray(summed)
    return _whole([v + z for v, z in zip(values.tolist(), noise.tolist(), strict=True)])


def _adds_up(values: NDArray[Any], noise: NDArray[Any]) -> bool:
    """Return whether even the extremes of both together fit in 64 bits."""
    least, most = int(values.min()) + int(noise.min()), int(values.max()) + int(noise.max())
    return least >= _LEAST and most <= _MOST


_EXACT = 1 << 53
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_FINITE = "decide what a missing or infinite number counts as before it comes here; a refusal is visible"


Values: TypeAlias = "NDArray[Any] | Sequence[int | float | Fraction]"
"""One number for each unit. Their type is public, their values are not."""

_LARGEST = Fraction(10**24)
_PLACES = 60  # bits of a place counted from 0, so that sums of two fit in 64


@dataclass(frozen=True, slots=True)
class Declared:
    """The range [lower, upper], and the multiples of a power of two inside it, numbered from 0 to `span`.

    Guarantee:
        Range and grid follow from public parameters alone. `places` treats each value by itself and never refuses one:
        what lies outside is moved to the nearer end, NaN counts as `lower`.
    """

    lower: Fraction
    upper: Fraction
    grid: Grid
    first: int
    span: int

    @classmethod
    def of(cls, lower: Real, upper: Real, *, bits: int) -> Declared:
        """Return the grid with 2^`bits` steps or up to twice as many; fewer where the ends are near for their size."""
        low, high = exact("lower", lower), exact("upper", upper)
        if not low < high:
            raise InvalidParameter(
                f"lower must be below upper, not {decimal(low)} and {decimal(high)}.",
                hint="declare the range that values may have, from what is publicly known",
            )
        far, width = max(abs(low), abs(high)), high - low
        if far > _LARGEST or width < 1 / _LARGEST:
            raise InvalidParameter(
                "lower and upper must lie within ±1e24, at least 1e-24 apart.", hint="use other units"
            )
        fine = max(Grid.for_scale(width, bits=bits).exponent, Grid.for_scale(far, bits=_PLACES).exponent)
        grid = Grid(fine)
        first, last = -(-low // grid.step), high // grid.step
        if last - first < 2:
            raise InvalidParameter(
                "the range is too narrow for numbers so far from 0: a float64 could not tell them apart.",
                hint="subtract a public number from all values first",
            )
        return cls(low, high, grid, int(first), int(last - first))

    def places(self, values: Values) -> NDArray[np.int64]:
        """Return the place of each value.

        Raises:
            InvalidParameter: not a list of numbers, or an array of another type or shape; the message quotes no value.
        """
        reals = numbers(values)
        last = self.first + self.span
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            steps = np.rint(np.ldexp(reals, -self.grid.exponent))
        steps = np.where(np.isnan(steps), float(self.first), steps)
        whole = np.clip(steps, -(2.0**62), 2.0**62).astype(np.int64)  # both ends lie within
        return np.asarray(np.clip(whole, self.first, last) - self.first, dtype=np.int64)

    def value(self, place: int) -> float:
        """Return the number at a place."""
        return self.grid.to_float(self.first + int(place))

    @property
    def width(self) -> Fraction:
        """The length of the range."""
        return self.upper - self.lower

    def in_steps(self, length: Fraction) -> Fraction:
        """Return a length in steps of the grid."""
        return length / self.grid.step


def numbers(values: object) -> NDArray[np.float64]:
    """Values as float64 in one dimension, not necessarily finite.

    Raises:
        InvalidParameter: truth values, texts, masked arrays, another shape. What decides is the type, which is public.
    """
    values = plain(values)
    if isinstance(values, np.ndarray):
        if type(values) is not np.ndarray:
            raise InvalidParameter(
                f"values must be a plain numpy array, not {type(values).__name__}.",
                hint="decide what a masked entry counts as, then use np.array(values, subok=False)",
            )
        if values.ndim != 1 or values.dtype.kind not in "iuf" or values.dtype.itemsize > 8:
            raise InvalidParameter(
                "values must be a one-dimensional array of integers or floats of at most 64 bits, not "
                f"{values.dtype} in {values.ndim} dimensions."
            )
        with np.errstate(all="ignore"):  # a signalling NaN of 32 bits would warn
            return values.astype(np.float64)
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InvalidParameter(
            f"values must be a list or an array of numbers, not {type(values).__name__}.", hint="[1, 2, 3]"
        )
    if not all(isinstance(v, _NUMBERS) and not isinstance(v, bool | np.bool_) for v in values):
        raise InvalidParameter("values must be integers, floats or fractions.")
    return np.array([_nearest(v) for v in values], dtype=np.float64)


_NUMBERS = (int, float, Fraction, Decimal, np.integer, np.floating)


def _nearest(x: Any) -> float:
    try:
        return float(x)
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")
    except ValueError:  # a signalling NaN of decimal
        return float("nan")
