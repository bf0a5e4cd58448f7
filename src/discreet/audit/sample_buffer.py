"""Outputs of two neighbours that are kept to learn from, and how many of them are enough."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.shape import Batch

KEPT = 600_000
"""Outputs of each neighbour that are learned from at most."""

_ONCE_MORE = 4  # times the outputs that were learned from, with which a test that goes on learns once more
_WORTH = 2  # the same below which it is not worth while
_ROOM = 2**27  # bytes that the outputs of both neighbours may take that are kept for it
_WEIGHED = 8  # outputs by which all are weighed
_LOOKED_INTO = 10_000  # parts of an output that are looked at


class SampleBuffer:
    """Batches of two neighbours, as many outputs of the one as of the other.

    Args:
        began: outputs that were drawn before.

    Attributes:
        learned_from: outputs of each neighbour from which was learned the last time.
    """

    def __init__(self, began: tuple[Batch, Batch] | None = None) -> None:
        self._pairs: list[tuple[Batch, Batch]] = [] if began is None else [began]
        self.learned_from = 0
        self._weight = 0.0

    def __len__(self) -> int:
        return sum(len(p) for p, _ in self._pairs)

    def add(self, p: Batch, q: Batch) -> None:
        """Keep a batch of each."""
        self._pairs.append((p, q))

    def clear(self) -> None:
        """Keep nothing of what there is."""
        self._pairs.clear()

    def lesson(self) -> tuple[Batch, Batch]:
        """Return what is learned from now: all outputs, or the newest of them. The other ones are forgotten."""
        p, q = (_joined([pair[i] for pair in self._pairs], KEPT) for i in (0, 1))
        self._pairs[:] = [(p, q)]
        self.learned_from = len(p)
        return p, q

    @property
    def enough(self) -> int:
        """The outputs of each neighbour from which a test that goes on learns once more."""
        return min(_ONCE_MORE * self.learned_from, KEPT)

    def has_room(self) -> bool:
        """Return whether so many are more than were learned from, and small enough to be kept until then."""
        return _WORTH * self.learned_from <= self.enough and self.enough <= self.most()

    def most(self) -> float:
        """Return the outputs of each neighbour that are small enough to be kept all at once."""
        if self._pairs and not self._weight:
            self._weight = sum(_bytes_each(batch) for batch in self._pairs[-1])
        return _ROOM / self._weight if self._weight else math.inf


def _joined(parts: Sequence[Batch], most: int) -> Batch:
    """Return the newest outputs of several batches, at most so many."""
    arrays: list[NDArray[np.generic]] = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts):
        return np.concatenate(arrays)[-most:]
    return [output for part in parts for output in part][-most:]


def _bytes_each(batch: Batch) -> float:
    """Return the bytes of memory that an output takes, about; inf for one of very many parts."""
    if isinstance(batch, np.ndarray) and batch.dtype != object:
        return batch.nbytes / len(batch)
    some = batch[:: max(1, len(batch) // _WEIGHED)]
    return sum(map(_bytes, some)) / len(some)


def _bytes(value: object) -> float:
    found, seen, open_ = 0.0, set[int](), [value]
    while open_:
        part = open_.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if len(seen) > _LOOKED_INTO:
            return math.inf
        if isinstance(part, np.ndarray) and part.dtype != object:
            found += part.nbytes
            continue
        try:
            found += sys.getsizeof(part)
            open_ += _parts(part)
        except Exception:  # it does not let itself be looked at
            return math.inf
    return found


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return chain(value, value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    if isinstance(value, np.ndarray):
        return list(value.flat)
    return () if isinstance(value, type) else list(getattr(value, "__dict__", {}).values())
