"""The statistics whose sensitivity on a data set is computed: names, parameters, and what they are of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.errors import InvalidParameter
from discreet.mechanisms.declared import Declared, Values
from discreet.mechanisms.parameters import read_choice
from discreet.mechanisms.stable.spread import Deviation, Interquartile, ModeBounds, Rank, SensitivityBounds
from discreet.privacy.exact import Real, exact
from discreet.privacy.guarantee import decimal
from discreet.privacy.unit import Relation

NAMES = ("median", "quantile", "iqr", "mad", "mode")
"""Every statistic."""

BITS = 40
"""The grid has 2^40 steps or up to twice as many."""

_FINEST_P = 1 << 20  # ranks are computed in 64 bits


@dataclass(frozen=True, slots=True)
class Statistic:
    """A statistic of numbers in a declared range.

    Attributes:
        name: one of `NAMES`.
        p: for "quantile", which one.
        values: for "mode", what is counted.
        declared: the range and its grid.
    """

    name: str
    p: Fraction | None
    values: tuple[Fraction, ...] | None
    declared: Declared

    @classmethod
    def read(cls, name: str, *, lower: Real, upper: Real, p: Real | None, values: Sequence[Real] | None) -> Statistic:
        """Return the statistic that a caller names; refuses what does not fit together."""
        name = read_choice("statistic", name, NAMES)
        if (name == "quantile") != (p is not None):
            raise InvalidParameter("p= belongs to statistic='quantile', which needs it.", hint="p=0.9")
        if (name == "mode") != (values is not None):
            raise InvalidParameter(
                "values= belongs to statistic='mode', which needs it: the values that are counted.",
                hint="values=[0, 1, 2]: declared, never taken from the data",
            )
        declared = Declared.of(lower, upper, bits=BITS)
        share = None if p is None else _share(p)
        listed = None if values is None else _listed(values, declared)
        return cls(name, share, listed, declared)

    @property
    def width(self) -> Fraction:
        """How far apart two answers can be."""
        if self.values is not None:
            return max(self.values) - min(self.values)
        return self.declared.width

    def of(self, values: Values, relation: Relation, changes: int) -> SensitivityBounds:
        """Return the statistic at these values."""
        places = self.declared.places(values)
        span = self.declared.span
        if self.values is not None:
            at = [int(i) for i in self.declared.places(self.values)]
            found, counts = np.unique(places, return_counts=True)
            held = dict(zip(found.tolist(), counts.tolist(), strict=True))
            return ModeBounds([held.get(i, 0) for i in at], at, span, relation, changes=changes)
        ordered = np.sort(places)
        if self.name == "iqr":
            return Interquartile(ordered, span, relation, changes=changes)
        if self.name == "mad":
            return Deviation(ordered, span, relation, changes=changes)
        return Rank(ordered, span, self.p or Fraction(1, 2), relation, changes=changes)

    def ends(self) -> tuple[int, int]:
        """Between which places an answer lies."""
        if self.values is not None:
            at = self.declared.places(self.values)
            return int(at.min()), int(at.max())
        return 0, self.declared.span

    def answer(self, place: int) -> float:
        """Return the number at a place: a value, a distance, or for the mode the nearest declared value."""
        if self.values is not None:
            exactly = self.declared.grid.value(self.declared.first + place)
            return float(min(self.values, key=lambda v: (abs(v - exactly), v)))
        if self.name in ("iqr", "mad"):
            return self.declared.grid.to_float(place)
        return self.declared.value(place)

    def arguments(self) -> str:
        """As in a call."""
        given = [repr(self.name), f"lower={decimal(self.declared.lower)}", f"upper={decimal(self.declared.upper)}"]
        if self.p is not None:
            given.append(f"p={str(self.p)!r}")
        if self.values is not None:
            given.append(f"values=[{', '.join(decimal(v) for v in self.values)}]")
        return ", ".join(given)


def _share(p: Real) -> Fraction:
    share = exact("p", p)
    if not 0 < share < 1 or share.denominator > _FINEST_P:
        raise InvalidParameter(
            f"p must lie strictly between 0 and 1, with a denominator of at most 2^20, not {decimal(share)}.",
            hint="p=0.9, or p='1/3'",
        )
    return share


def _listed(values: Sequence[Real], declared: Declared) -> tuple[Fraction, ...]:
    listed: object = values  # what came need not be what was annotated
    if type(listed) is np.ndarray and listed.ndim == 1:
        listed = listed.tolist()
    if isinstance(listed, str) or not isinstance(listed, Sequence) or len(listed) < 2:
        raise InvalidParameter("values must be a list of two numbers or more.", hint="values=[0, 1, 2]")
    found = tuple(exact("values", v) for v in listed)
    if not all(declared.lower <= v <= declared.upper for v in found):
        raise InvalidParameter(
            "each of values must lie between lower and upper.", hint="declare a range that holds them all"
        )
    if len(set(declared.places(found).tolist())) < len(found):
        raise InvalidParameter("values must differ from one another.", hint="say each of them once")
    return found
