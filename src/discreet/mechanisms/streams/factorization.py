"""What is measured of a stream, and how prefix sums are read from it: A = L·R, with R in whole numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Draw: TypeAlias = Callable[[int], NDArray[Any]]
"""So many fresh draws of the noise, each for one measured integer."""


class Factorization(ABC):
    """A matrix R of whole numbers that measures a stream, and the matrix L with L·R·x = the prefix sums of x.

    Both are lower triangular in time: what is measured up to a step, and the answer there, follow from the elements
    up to that step. Units of L are those of the values, for one unit of noise.

    Attributes:
        steps: the most elements of a stream.
        bits: what is measured of an element is in units of 2^−bits.
    """

    __slots__ = ()

    steps: int
    bits: int

    @abstractmethod
    def l1(self, contributions: int) -> int:
        """The most by which ‖R x‖₁ can move when so many elements of x move by 1 each."""

    @abstractmethod
    def l2_squared(self, contributions: int) -> int:
        """The most by which ‖R x‖₂² can move then."""

    @abstractmethod
    def squares(self, step: int) -> float:
        """Σ c² over the weights that the answer at this step (from 1) gives to the noise."""

    @abstractmethod
    def absolutes(self, step: int) -> float:
        """At least Σ |c| over them."""

    @abstractmethod
    def worst(self) -> int:
        """The step with the largest `squares`."""

    @abstractmethod
    def mean_squares(self) -> float:
        """The mean of `squares` over all steps."""

    @abstractmethod
    def release(self, values: NDArray[Any], draw: Draw) -> NDArray[np.float64]:
        """The noisy prefix sums of int64 or of Python integers."""

    @abstractmethod
    def begin(self, draw: Draw) -> Progress:
        """The same, one element at a time."""

    @abstractmethod
    def explained(self) -> str:
        """What is measured, in a sentence."""


class Progress(ABC):
    """The answers so far; it moves on only when an answer is complete."""

    __slots__ = ()

    @property
    @abstractmethod
    def taken(self) -> int:
        """How many elements have come."""

    @abstractmethod
    def add(self, value: int) -> float:
        """The noisy prefix sum after this element."""


def widened(values: NDArray[Any], shift: int, total: int) -> NDArray[Any]:
    """The values times 2^shift, in a type in which `total` times the largest of them does not wrap."""
    if values.dtype == np.int64:
        most = max(int(values.max()), -int(values.min()))
        if (most * total) << shift < 1 << 62:
            return values << shift if shift else values
    exact = np.empty(len(values), dtype=object)
    exact[:] = [int(v) << shift for v in values.tolist()]
    return exact


def floats(integers: NDArray[Any]) -> NDArray[np.float64]:
    """The nearest floats of released integers."""
    return integers.astype(np.float64)
