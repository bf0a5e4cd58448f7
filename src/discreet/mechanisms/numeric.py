"""Mechanisms that add noise to numbers: integers as they are, floats on a public lattice."""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import Mechanism
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, Integers
from discreet.mechanisms.parameters import read_confidence
from discreet.mechanisms.values import NumberArray, read, single, total
from discreet.noise.entropy import Entropy, SystemEntropy, process
from discreet.noise.lattice import Grid
from discreet.privacy.exact import Real, above
from discreet.privacy.guarantee import decimal
from discreet.table import measured

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss
    from discreet.finite.mechanism import Mechanism as FiniteMechanism


_CHUNK = 1 << 14  # numbers that stay in the cache while they are worked on

_MOST = 1 << 10  # numbers of a block; blocks before it double, so that little is drawn in vain


@dataclass(frozen=True, slots=True)
class Lattice:
    """How floats are released: rounded to `grid`, and the noise in its steps.

    Attributes:
        grid: the public grid; its step is a power of two.
        steps: a bound on the difference of two neighbours after rounding, in steps and in the mechanism's
            norm (for the Gaussian the square of the norm).
        noise: the law in steps, calibrated to `steps`.
    """

    grid: Grid
    steps: int
    noise: Additive


class Numeric(Mechanism):
    """A mechanism that adds independent noise to a number, or to each number of an array.

    Guarantee:
        The type of a value (int or float, its dtype and shape) is public: the caller keeps it the same for
        all neighbours. `sensitivity` bounds the change of the value over all neighbours, in the norm of the
        mechanism, under the relation that the caller's account uses. NaN and infinite values are refused; a
        refusal is visible, so they have to be decided before.
    """

    __slots__ = ("_for_reals", "_for_wholes")  # no fields: not compared, shown, copied or pickled

    sensitivity: Fraction
    dimension: int | None
    _for_reals: Reserve
    _for_wholes: Reserve

    @property
    @abstractmethod
    def noise(self) -> Additive:
        """The law that is added to integers, with its exact parameter."""

    @property
    @abstractmethod
    def lattice(self) -> Lattice | None:
        """The grid and law for floats; None where only integers are taken."""

    def release(self, value: object, *, rng: Entropy | None = None) -> Any:
        """Return the value with fresh noise: an int for an int, a float for a float, an array for an array.

        An integer array comes back as int64, or as Python integers (dtype object) where a noisy number leaves
        64 bits: nothing ever wraps. Floats come back as multiples of the grid's step; beyond 1.8e308 they are
        cut off there. The noise of single numbers is drawn ahead (`Reserve`), unless `rng` is given, or the
        mechanism is no frozen dataclass with slots, so that its noise may change.

        Args:
            value: an int, a float, or a numpy array of either. A float array needs `dimension=`.
            rng: where randomness comes from, for tests; the operating system's by default.

        Raises:
            InvalidParameter: the value is not such a number, not finite, or of the wrong size. The message
                does not quote it.
        """
        number = single(value) if rng is None else None
        if number is not None:
            return self._ahead(number).add(number)
        numbers = read(value)
        self._check_size(numbers)
        law, grid = self._noise_for(numbers.is_real)
        noise = law.draw(len(numbers.entries), SystemEntropy() if rng is None else rng)
        noisy = total(numbers.entries, noise) if grid is None else _on_grid(grid, numbers.entries, noise)
        return noisy.tolist()[0] if numbers.shape is None else noisy.reshape(numbers.shape)

    def _ahead(self, number: int | float) -> Reserve:
        """Return the noise that is drawn ahead for numbers of this type."""
        name = "_for_reals" if type(number) is float else "_for_wholes"
        try:
            return getattr(self, name)  # type: ignore[no-any-return]  # both slots hold a reserve
        except AttributeError:
            numbers = read(number)
            self._check_size(numbers)
            reserve = Reserve(*self._noise_for(numbers.is_real))
            if _is_fixed(type(self)):  # others' parameters may change: their noise is drawn on demand
                object.__setattr__(self, name, reserve)
            return reserve

    def answer(self, value: object, *, confidence: Real = 0.95, rng: Entropy | None = None) -> NoisyValue:
        """Return a release with its interval and its cost; raises as `release`."""
        noisy, width = self.release(value, rng=rng), self.error(confidence)
        return NoisyValue(noisy, (noisy - width, noisy + width), read_confidence(confidence), self.loss)

    def matrix(self, universe: Iterable[int]) -> FiniteMechanism:
        """Return the mechanism on these integers as a stochastic matrix, for exact calculations with `dp.finite`.

        What leaves the range of the universe is put on its ends, which is post-processing. Neighbours are integers that
        differ by at most the sensitivity.

        Raises:
            InvalidParameter: the law is not geometric, or the universe has fewer than two integers, or too many.
        """
        from discreet.finite.laws import geometric
        from discreet.finite.rows import several

        law, known = self.noise, several("universe", universe, hint="range(11)")
        if not isinstance(law, DiscreteLaplaceNoise):
            return super().matrix(known)
        self._noise_for(False)
        if len(set(known)) < 2 or not all(type(x) is int for x in known):
            raise InvalidParameter("universe must be at least two integers.", hint="range(11)")
        low, step = min(known), math.floor(self.sensitivity)
        table = geometric(max(known) - low, epsilon=step / law.scale, sensitivity=step)
        moved = table.of(lambda x: x - low, inputs=known, neighbours=lambda x, y: 0 < abs(x - y) <= step)
        return moved.post(lambda o: o + low)

    def error(self, confidence: Real = 0.95) -> float:
        """Return a half-width within which the error of each released number stays with at least this confidence.

        It covers integers and floats alike, the rounding to the grid included; for an array it is per number.
        """
        widths = [] if self.sensitivity < 1 else [above(Fraction(self.noise.quantile(confidence)))]
        fine = self.lattice
        if fine is not None:
            widths.append(above(fine.grid.step * (fine.noise.quantile(confidence) + Fraction(1, 2))))
        return max(widths)

    def _noise_for(self, real: bool) -> tuple[Additive, Grid | None]:
        """Return the noise of integers; or of floats, and their grid."""
        if not real:
            if self.sensitivity < 1:
                raise InvalidParameter(
                    f"sensitivity {float(self.sensitivity):.6g} is below 1: an integer could not change at all.",
                    hint="pass the value as a float",
                )
            return self.noise, None
        fine = self.lattice
        if fine is None:
            raise InvalidParameter(
                f"{type(self).__name__} takes integers only.",
                hint="use Laplace or Gaussian, which put floats on a lattice",
            )
        return fine.noise, fine.grid

    def _check_size(self, numbers: NumberArray) -> None:
        size = len(numbers.entries)
        if self.dimension is not None and size != self.dimension:
            raise InvalidParameter(f"value must hold {self.dimension} numbers, as dimension= says, not {size}.")
        if self.dimension is None and numbers.is_real and numbers.shape is not None:
            raise InvalidParameter(
                "an array of floats needs dimension=, since rounding each of them to the lattice adds to "
                "the sensitivity.",
                hint=f"{type(self).__name__}(..., dimension={size}) where this length is public",
            )


def fine_grid(width: Fraction, share: Fraction) -> Grid:
    """Return the grid for noise of this width, where each number's `share` of the sensitivity bears on the rounding.

    The step is at most 2^-20 of both, so that what rounding adds to the sensitivity is below one part in a
    million. Where the width would then exceed 2^55 steps, which is more than noise in 64 bits holds, the step
    is up to 2^8 times coarser. Values up to 2^32 times the smaller of both keep their place in 53 bits;
    larger ones, and wider noise, go through Python's integers.
    """
    return Grid.for_scale(max(min(width, share), min(width / (1 << 34), share * (1 << 8))), bits=20)


def _is_fixed(kind: type) -> bool:
    """Return whether objects of a class hold a frozen dataclass's fields alone; a subclass says so itself."""
    params = vars(kind).get("__dataclass_params__")
    return params is not None and bool(params.frozen) and not kind.__dictoffset__


def _on_grid(grid: Grid, values: NDArray[np.float64], noise: Integers) -> NDArray[np.float64]:
    """Return the values, rounded to the grid, plus their noise."""
    floats = np.empty(len(values), dtype=np.float64)
    for start in range(0, len(values), _CHUNK):
        part = slice(start, start + _CHUNK)
        floats[part] = _floats(grid, total(_snapped(grid, values[part]), noise[part]))
    return floats


def _snapped(grid: Grid, values: NDArray[np.float64]) -> NDArray[Any]:
    if (np.abs(values) < float(grid.step) * 2.0**62).all():  # an overflow to infinity is right here
        return grid.snap_vector(values)
    steps = np.empty(len(values), dtype=object)
    steps[:] = [grid.snap(x) for x in values.tolist()]
    return steps


def _floats(grid: Grid, steps: NDArray[Any]) -> NDArray[np.float64]:
    """Return the nearest floats, themselves multiples of the step; beyond the largest float, the largest."""
    if steps.dtype == np.int64:
        with np.errstate(over="ignore"):
            floats = np.ldexp(steps.astype(np.float64), grid.exponent)
        return np.clip(floats, -sys.float_info.max, sys.float_info.max)
    return np.array([grid.to_float(k) for k in steps.tolist()], dtype=np.float64)


class Reserve:
    """Noise of one law, and of one mechanism, that no release has used yet.

    The vector samplers draw a block in less time than a few single numbers take. A release takes the last
    number out of the block and adds it; an empty block is drawn anew by the next release.

    Guarantee:
        The released numbers have the law of noise drawn on demand: those of a block are independent of each
        other and of everything outside it, none is used twice, and which one a release gets does not depend
        on any of them. Threads take different numbers, since `list.pop` is one step. A process that was
        forked throws away what it finds, since a block belongs to the process that began to draw it. A copy,
        pickled or not, has none of the numbers.

        The time of a release does not follow its noise: it is that of one step out of a list and one addition, in which
        only the length of Python's integers shows (some 20 ns), beside a pause of 0 to about 2 µs that is drawn
        together with the noise. A block is drawn at every 1,024th release, whatever was drawn or released before.

    References:
        docs/proofs/reserve.md.
    """

    __slots__ = ("_grid", "_law", "_size", "_stock")

    def __init__(self, law: Additive, grid: Grid | None) -> None:
        self._law = law
        self._grid = grid
        self._size = 1
        self._stock: tuple[tuple[int, int], list[tuple[int, int]]] = (process(), [])

    def add(self, value: int | float) -> int | float:
        """Return an integer, or a finite float on the grid, plus noise of its own."""
        noise = self._take()
        grid = self._grid
        if grid is None:
            assert type(value) is int
            return value + noise
        try:
            # Both powers of two are exact, or end at 0 or out of range; the sum is one of integers.
            return math.ldexp(round(math.ldexp(value, -grid.exponent)) + noise, grid.exponent)
        except OverflowError:
            return grid.to_float(grid.snap(value) + noise)

    def _take(self) -> int:
        home, ahead = self._stock
        try:
            number, pause = ahead.pop()
        except IndexError:
            return self._draw()
        if home != process():
            return self._draw()
        for _ in range(pause << 1):
            pass
        return number

    def _draw(self) -> int:
        """Return the first number of a new block, which takes the place of all that is left."""
        home = process()  # first, so that the child of a fork in between finds a block of its parent's
        rng, size = SystemEntropy(), self._size  # which another thread may change meanwhile
        block = list(zip(self._law.draw(size, rng).tolist(), rng.bytes(size), strict=True))
        number: int = block.pop()[0]
        self._size = min(2 * size, _MOST)
        self._stock = home, block
        return number

    def __reduce__(self) -> tuple[type[Reserve], tuple[Additive, Grid | None]]:
        return Reserve, (self._law, self._grid)


@dataclass(frozen=True, slots=True)
class NoisyValue:
    """What `Mechanism.answer` and `Session.release` return.

    Attributes:
        value: the released value.
        interval: its two ends, of an array those of each number; None where no error is known before the data.
        confidence: with which the interval contains the value without noise, each number by itself.
        cost: what the release costs.
    """

    value: Any
    interval: tuple[Any, Any] | None
    confidence: Fraction
    cost: PrivacyLoss

    def __str__(self) -> str:
        scalar = isinstance(self.value, int | float)
        shown = measured(self.value, self.interval) if scalar else str(self.value)
        level = "" if self.interval is None or not scalar else f"{decimal(100 * self.confidence)} %, "
        return f"{shown} ({level}{str(self.cost).removeprefix('PrivacyLoss: ')})"
