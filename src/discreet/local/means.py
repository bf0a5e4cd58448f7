"""What the means have in common: numbers of a declared range, whole numbers reported, the deviation of their mean."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.estimate import half_width, read_epsilon
from discreet.local.randomizer import Randomizer
from discreet.local.reals import Span, read_span
from discreet.privacy.exact import Real, set_fields
from discreet.privacy.guarantee import called

_LARGEST = (1 << 63) - 1  # of int64, in which all is computed


class MeanRandomizer(Randomizer):
    """A randomizer of numbers of a declared range, from whose reports their mean is estimated.

    Attributes:
        epsilon: the ε of one report.
        span: the declared range.
    """

    __slots__ = ()

    epsilon: Fraction
    span: Span

    def __init__(self, *, epsilon: Real, low: Real = -1, high: Real = 1) -> None:
        set_fields(self, epsilon=read_epsilon(epsilon), span=read_span(low, high))

    def error(self, users: int, confidence: Real = 0.95) -> float:
        """Return how far the mean of so many values is off at most, with that confidence, at the worst values.

        For vectors it is each coordinate of the mean.
        """
        return half_width(self._variance, users, confidence)

    @property
    @abstractmethod
    def _variance(self) -> float:
        """Of what one device adds to the sum, at the worst value."""

    def __repr__(self) -> str:
        return called(self, "epsilon", "span.low", "span.high")


def read_reports(
    reports: Any, *, row: tuple[int, ...] = (), low: int | None = None, high: int | None = None
) -> NDArray[Any]:
    """Report as an array of integers with one `row` for each device, all from `low` to `high`.

    Raises:
        InvalidParameter: they are not what devices of these parameters send.
    """
    try:
        array = np.asarray(reports)
    except ValueError:  # a ragged list
        array = np.empty(0, dtype=np.object_)
    if isinstance(reports, np.ma.MaskedArray):
        raise InvalidParameter("reports must be a plain array, not a masked one.", hint="reports[~mask].data")
    if array.shape == row and array.dtype.kind in "iub":  # of one device
        array = array[None]
    if array.dtype.kind not in "iub" or array.shape[1:] != row or array.ndim != 1 + len(row):
        kind = "an integer" if not row else f"a row of {row[0]} integers"
        raise InvalidParameter(
            f"reports must hold {kind} for each device, not {array.dtype} of shape {array.shape}.",
            hint="pass what randomize returned, stacked in one array",
        )
    if not len(array):
        raise InvalidParameter("there must be at least one report.")
    most = _LARGEST if high is None else high
    if (low is not None and int(array.min()) < low) or int(array.max()) > most:
        raise InvalidParameter(
            "there are reports that no device with these parameters sends.",
            hint="server and devices need equal parameters",
        )
    return array


def no_domain(domain: Sequence[Hashable] | None) -> None:
    """Refuses a domain where a mean is estimated."""
    if domain is not None:
        raise InvalidParameter("a mean has no domain.", hint="estimate(reports)")
