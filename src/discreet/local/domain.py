"""The public list of values that a device may hold, and what becomes of a value that is not in it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, KeysView, Sequence, Set
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.noise.entropy import Entropy, below_vector
from discreet.privacy.exact import set_fields

Places = NDArray[np.int64]

_LARGEST = 1 << 40
_MOST_LABELS = 1 << 26
_PLAIN = (np.str_, np.bytes_, np.bool_, np.integer, np.floating)
"""What numpy wraps: the same label as what is inside, which is written alike by all versions of numpy."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Domain:
    """k public values, by their places 0 … k − 1: the whole numbers below k, or a list of labels.

    A value that is not in the domain stands for `other`, a label of the domain, where one was named. Otherwise it
    stands for a label drawn uniformly, each time anew. It is never refused: a report that does not come tells the
    server what the device was to hide. Either way the report's law is a law of the domain or a mixture of them, and
    the guarantee holds for values outside too.

    Equality is Python's: 2.0 is 2, and True is 1.
    """

    size: int
    labels: tuple[Hashable, ...] | None
    other: int | None
    _places: dict[Hashable, int] = field(compare=False, hash=False)

    def __init__(self, domain: int | Iterable[Hashable], other: Hashable | None = None) -> None:
        labels, size = _read(domain)
        places: dict[Hashable, int] = {}
        if labels is not None:
            if other is not None and not _usable(other):
                raise InvalidParameter(
                    f"other must be a value like those of the domain, not {type(other).__name__}.",
                    hint="other='other', which then is one more value",
                )
            if other is not None and other not in labels:
                labels = (*labels, other)
            places = {label: i for i, label in enumerate(labels)}
            if len(places) < len(labels):
                raise InvalidParameter("domain must not hold a value twice; True is 1, and 2.0 is 2.")
            size = len(labels)
        if size < 2:
            raise InvalidParameter(
                f"domain must hold at least two values, not {size}.",
                hint="domain=['red', 'green', 'blue'], or domain=3 for the values 0, 1, 2",
            )
        set_fields(self, size=size, labels=labels, _places=places)
        object.__setattr__(self, "other", None if other is None else self._other(other))

    def read(self, x: Any, rng: Entropy) -> tuple[Places, bool]:
        """Return the place of each device's value, and whether an array came (or a list) and not one value."""
        many = is_many(x)
        places = self._found(x) if many else np.array([self._place(x)], dtype=np.int64)
        outside = np.flatnonzero(places < 0)
        if outside.size:
            stand_in = below_vector(self.size, outside.size, rng) if self.other is None else self.other
            places[outside] = stand_in
        return places, many

    def find(self, labels: Sequence[Hashable] | None) -> tuple[tuple[Hashable, ...], Places]:
        """Labels that a server asks for, with their places; all of them by default.

        Raises:
            InvalidParameter: a label that is not in the domain.
        """
        if labels is None:
            if self.size > _MOST_LABELS:
                raise InvalidParameter(
                    f"the domain has {self.size:,} values, more than can be estimated at once.",
                    hint="estimate(reports, domain=[…]) with those that matter",
                )
            all_of_them = tuple(range(self.size)) if self.labels is None else self.labels
            return all_of_them, np.arange(self.size)
        asked = listed(labels)
        places = np.array([self._place(label) for label in asked], dtype=np.int64)
        if not asked or (places < 0).any() or np.unique(places).size < len(asked):
            raise InvalidParameter(
                "domain= must name some of the randomizer's values, each of them once.",
                hint="leave it out for all of them",
            )
        return asked, places

    def key(self, x: Any) -> str:
        """Return a text by which equal values are known; the same for all values outside."""
        place = self._place(x)
        return str(place if place >= 0 or self.other is None else self.other)

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        if self.labels is None:
            return str(self.size)
        return repr(list(self.labels)) if self.size <= 8 else f"<{self.size} values>"

    def _found(self, x: Any) -> Places:
        values = x if isinstance(x, list) else read_array("x", x)
        if self.labels is None and isinstance(values, np.ndarray) and values.dtype.kind in "iubf":
            if values.dtype in (np.float16, np.float32):  # which would round the size of the domain
                values = values.astype(np.float64)
            inside = (values >= 0) & (values < self.size)
            if values.dtype.kind == "f":
                inside &= np.floor(values) == values
            return np.where(inside, values, 0).astype(np.int64) - ~inside
        listed = values if isinstance(values, list) else values.tolist()
        return np.fromiter(map(self._place, listed), dtype=np.int64, count=len(listed))

    def _place(self, value: Any) -> int:
        """Return the place of one value; −1 outside."""
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        if self.labels is not None:
            try:
                return self._places.get(value, -1)
            except TypeError:  # it cannot be hashed, so it is no label
                return -1
        if not isinstance(value, int | float | Real | Decimal | np.bool_):
            return -1
        try:
            number: Any = value
            if not 0 <= number < self.size:  # before anything else: int(Decimal("1e999999999")) has no end
                return -1
            place = int(number)
            return place if place == number else -1
        except (ValueError, ArithmeticError):  # what is not a number
            return -1

    def _other(self, other: Hashable) -> int:
        place = self._place(other)
        if place < 0:
            raise InvalidParameter(
                f"other must be one of the whole numbers below {self.size}.",
                hint=f"domain={self.size + 1}, other={self.size} adds a value for all others",
            )
        return place


def is_many(x: Any) -> bool:
    """Return whether `x` holds a value for each of several devices: a list, or an array, a series or the like."""
    return isinstance(x, list) or (hasattr(x, "__array__") and np.ndim(x) > 0)


def listed(values: object) -> tuple[Any, ...]:
    """Return the items of a list or an array as plain values; none of them for a text or what is no list at all."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        return ()
    return tuple(values.tolist() if isinstance(values, np.ndarray) else values)


def read_array(name: str, x: Any) -> NDArray[Any]:
    """Return a plain one-dimensional array.

    Raises:
        InvalidParameter: a masked array, or another number of dimensions.
    """
    if isinstance(x, np.ma.MaskedArray):
        raise InvalidParameter(
            f"{name} must be a plain array, not a masked one.", hint="fill what is masked with a value first"
        )
    array = np.asarray(x)
    if array.ndim != 1:
        raise InvalidParameter(
            f"{name} must be one value, or an array of one dimension, not {array.ndim}.",
            hint="one value for each device",
        )
    return array


def _usable(label: object) -> bool:
    """Return whether it has a hash and equals itself, as NaN and arrays do not."""
    try:
        hash(label)
        return bool(label == label)
    except (TypeError, ValueError):
        return False


def _read(given: object) -> tuple[tuple[Hashable, ...] | None, int]:
    domain = int(given) if isinstance(given, np.integer) else given
    if isinstance(domain, int) and not isinstance(domain, bool):
        if domain > _LARGEST:
            raise InvalidParameter(
                "domain must hold at most 2^40 values.",
                hint="a sketch or a search for heavy hitters is for large domains",
            )
        return None, max(domain, 0)
    if isinstance(domain, str | bytes) or not isinstance(domain, Iterable):
        raise InvalidParameter(
            f"domain must be a list of values or how many there are, not {type(domain).__name__}.",
            hint="domain=['red', 'green', 'blue'], or domain=3 for the values 0, 1, 2",
        )
    if isinstance(domain, Set) and not isinstance(domain, KeysView):
        raise InvalidParameter(
            "domain must have an order: that of a set differs from one process to the next.",
            hint="domain=sorted(values)",
        )
    labels = tuple(label.item() if isinstance(label, _PLAIN) else label for label in listed(domain))
    try:
        sound = len(labels) <= _MOST_LABELS and all(label == label for label in labels)
        hash(labels)
    except (TypeError, ValueError):
        sound = False
    if not sound:
        raise InvalidParameter(
            "domain must be a flat list of at most 2^26 values that can be hashed, none of them NaN.",
            hint="domain=['red', 'green', 'blue'], or domain=3 for the values 0, 1, 2",
        )
    return labels, len(labels)
