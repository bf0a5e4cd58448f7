"""Mechanisms that name one candidate out of many, the better ones more likely."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import Mechanism, one_changed
from discreet.mechanisms.parameters import read_confidence, read_flag, read_size
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.noise.selection import Utilities
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.exact import Real, count, set_fields
from discreet.privacy.guarantee import called, decimal

T = TypeVar("T")


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Selection(Mechanism):
    """Names one of n candidates by utilities that each move by at most Δ between neighbours.

    Guarantee:
        ε-DP when the list of candidates is public and each utility moves by at most `sensitivity`, under the
        relation for which that bound was shown. With `monotonic=True` also: between any two neighbours all
        utilities move in one direction (none falls while another rises), as counts do under add-remove but
        not under replace; then twice the rate is private. Only the named candidate is released, not its
        utility. The draw is exact, however far apart the utilities lie.

    Attributes:
        rate: ε/2Δ, by which utilities are weighed; ε/Δ where they are monotonic.
    """

    epsilon: Fraction
    sensitivity: Fraction
    monotonic: bool
    rate: Fraction = field(init=False)

    def __init__(self, *, epsilon: Real, sensitivity: Real = 1, monotonic: bool = False) -> None:
        set_fields(self, epsilon=read_size("epsilon", epsilon), sensitivity=read_size("sensitivity", sensitivity))
        set_fields(self, monotonic=read_flag("monotonic", monotonic))
        object.__setattr__(self, "rate", self.epsilon / self.spread)

    @property
    def spread(self) -> Fraction:
        """By how much two utilities may move apart between neighbours: 2Δ, or Δ where they are monotonic."""
        return self.sensitivity if self.monotonic else 2 * self.sensitivity

    @property
    def events(self) -> Composed:
        return Composed([ApproximateEvent(self.epsilon)])

    def release(self, candidates: Sequence[T], utilities: Utilities, *, rng: Entropy | None = None) -> T:
        """One of the candidates.

        Args:
            candidates: what may be named; public.
            utilities: one finite number for each candidate, in the same order; higher is better.
            rng: where randomness comes from, for tests; the operating system's by default.

        Raises:
            InvalidParameter: no candidates, another number of utilities, or one that is not a finite number. The
                message does not quote it.
        """
        listed, numbers = paired(candidates, utilities)
        return listed[self._index(numbers, SystemEntropy() if rng is None else rng)]

    def error(self, confidence: Real = 0.95, *, candidates: int) -> float:
        """Return how far below the best utility the named one may be, among so many candidates.

        (2Δ/ε)(ln n + ln 1/(1 − confidence)): Dwork, Roth, Corollary 3.12; half of it where they are monotonic.
        """
        surprise = -math.log(1 - read_confidence(confidence))
        return float(1 / self.rate) * (math.log(count("candidates", candidates)) + surprise) * (1 + 2.0**-48)

    @abstractmethod
    def _index(self, utilities: Utilities, rng: Entropy) -> int: ...

    def __repr__(self) -> str:
        return called(self, "epsilon", "sensitivity", monotonic=False)

    def _changed(self) -> str:
        """Return the last step of the proof."""
        return one_changed(self.epsilon)

    def _moves(self) -> str:
        """Return the first step of the proof."""
        direction = ", all of them in one direction" if self.monotonic else ""
        return (
            f"Sensitivity. Between neighbours x, y every utility moves by at most Δ = "
            f"{decimal(self.sensitivity)}{direction}."
        )

    @property
    def _apart(self) -> str:
        """`spread`, in letters."""
        return "Δ" if self.monotonic else "2Δ"


def paired(candidates: Sequence[T], utilities: Utilities, *, least: int = 1) -> tuple[Sequence[T], Utilities]:
    """Return the candidates and their utilities, both by place.

    The column of a data frame would be read by its index, whose numbers may come in any order, or lack one: that
    would name the wrong candidate, or fail for some draws only. So it becomes a list.

    Raises:
        InvalidParameter: fewer candidates than `least`, another number of utilities, what has no order, or a
            utility that is not a finite number.
    """
    listed, numbers = _ordered("candidates", candidates), _ordered("utilities", utilities)
    n, hint = len(listed), "release(['red', 'blue'], [3, 5])"
    if n < least and least > 1:
        raise InvalidParameter(
            f"there are {n} candidates, fewer than k = {least}.", hint="ask for no more than there are"
        )
    if n == 0:
        raise InvalidParameter("candidates must hold at least one candidate.", hint=hint)
    if len(numbers) != n:
        raise InvalidParameter(f"utilities must hold one number for each of the {n} candidates.", hint=hint)
    return listed, _numbers(numbers)


def _ordered(name: str, items: Any) -> Any:
    """Return a list of them, or a plain array."""
    if isinstance(items, np.ndarray) and items.ndim:
        return items
    for method in ("tolist", "to_list"):  # of pandas, of polars
        if hasattr(items, method):
            items = getattr(items, method)()
            break
    if not isinstance(items, Sequence):
        raise InvalidParameter(
            f"{name} must be a list or an array, not {type(items).__name__}.",
            hint="lists of both, one number for each candidate in the same order",
        )
    return items


def _numbers(utilities: Utilities) -> Utilities:
    """Return the utilities, none of which is a truth value, a text, NaN or infinite."""
    if isinstance(utilities, np.ndarray):
        array: NDArray[Any] = utilities
        if type(utilities) is not np.ndarray:  # a candidate under a mask would never be named
            raise InvalidParameter(
                f"utilities must be a plain numpy array, not {type(utilities).__name__}.",
                hint="use np.array(utilities, subok=False)",
            )
        if array.ndim != 1 or array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
            raise InvalidParameter(
                "utilities must be a one-dimensional array of integers or floats of at most 64 bits, not "
                f"{array.dtype} in {array.ndim} dimensions.",
                hint="use utilities.astype(float), or astype(int)",
            )
        finite = bool(np.isfinite(array).all())
    else:
        if any(isinstance(u, bool | np.bool_) or not isinstance(u, _NUMBERS) for u in utilities):
            raise InvalidParameter(
                "utilities must be integers, floats or fractions.",
                hint="decide what a missing one counts as before it comes here",
            )
        finite = all(not isinstance(u, float | np.floating) or math.isfinite(u) for u in utilities)
    if not finite:
        raise InvalidParameter(
            "utilities must be finite.", hint="leave a candidate that must never be named out of the public list"
        )
    return utilities


_NUMBERS = (int, float, Fraction, np.integer, np.float64, np.float32, np.float16)
