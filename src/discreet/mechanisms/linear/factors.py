"""Matrices of queries about one attribute, most of them without their entries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Factor(ABC):
    """A matrix with a column for each of `n` values of an attribute, and a row for each query."""

    __slots__ = ()

    n: int

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many queries."""

    @abstractmethod
    def gram(self) -> Floats:
        """WᵀW."""

    @abstractmethod
    def apply(self, x: Floats) -> Floats:
        """W·x along the first axis of x."""

    @abstractmethod
    def squares(self, c: Floats) -> Floats:
        """q·C·qᵀ for each row q of W."""

    def matrix(self) -> Floats:
        """W itself."""
        return self.apply(np.eye(self.n))


@dataclass(frozen=True, slots=True)
class Identity(Factor):
    """Each cell."""

    n: int

    @property
    def rows(self) -> int:
        return self.n

    def gram(self) -> Floats:
        return np.eye(self.n)

    def apply(self, x: Floats) -> Floats:
        return x

    def squares(self, c: Floats) -> Floats:
        return np.diag(c).copy()


@dataclass(frozen=True, slots=True)
class TotalSum(Factor):
    """The sum of all cells."""

    n: int

    @property
    def rows(self) -> int:
        return 1

    def gram(self) -> Floats:
        return np.ones((self.n, self.n))

    def apply(self, x: Floats) -> Floats:
        return np.asarray(x.sum(axis=0, keepdims=True))

    def squares(self, c: Floats) -> Floats:
        return np.array([c.sum()])


@dataclass(frozen=True, slots=True)
class Prefix(Factor):
    """The sums of the first 1, 2, …, n cells."""

    n: int

    @property
    def rows(self) -> int:
        return self.n

    def gram(self) -> Floats:
        i = np.arange(self.n)
        return (self.n - np.maximum.outer(i, i)).astype(np.float64)

    def apply(self, x: Floats) -> Floats:
        return np.asarray(np.cumsum(x, axis=0))

    def squares(self, c: Floats) -> Floats:
        return np.diag(np.cumsum(np.cumsum(c, axis=0), axis=1)).copy()


@dataclass(frozen=True, slots=True)
class RangeSums(Factor):
    """The sums of the cells a, …, b for all a ≤ b, in the order of a and then of b."""

    n: int

    @property
    def rows(self) -> int:
        return self.n * (self.n + 1) // 2

    def gram(self) -> Floats:
        i = np.arange(self.n)
        return np.asarray((np.minimum.outer(i, i) + 1) * (self.n - np.maximum.outer(i, i)), dtype=np.float64)

    def apply(self, x: Floats) -> Floats:
        a, b = np.triu_indices(self.n)
        below = np.concatenate((np.zeros((1, *x.shape[1:])), np.cumsum(x, axis=0)))
        return np.asarray(below[b + 1] - below[a])

    def squares(self, c: Floats) -> Floats:
        a, b = np.triu_indices(self.n)
        below = np.zeros((self.n + 1, self.n + 1))
        below[1:, 1:] = np.cumsum(np.cumsum(c, axis=0), axis=1)
        return np.asarray(below[b + 1, b + 1] + below[a, a] - below[a, b + 1] - below[b + 1, a])


class Explicit(Factor):
    """A matrix of numbers."""

    __slots__ = ("_digest", "_entries", "n")

    def __init__(self, entries: NDArray[Any]) -> None:
        self._entries: Floats = np.array(entries, dtype=np.float64)
        self._entries.setflags(write=False)
        self._digest = sha256(self._entries.tobytes()).digest()
        self.n = self._entries.shape[1]

    @property
    def rows(self) -> int:
        return int(self._entries.shape[0])

    def gram(self) -> Floats:
        return np.asarray(self._entries.T @ self._entries)

    def apply(self, x: Floats) -> Floats:
        return np.asarray(np.tensordot(self._entries, x, axes=1))

    def squares(self, c: Floats) -> Floats:
        return np.asarray(((self._entries @ c) * self._entries).sum(axis=1))

    def matrix(self) -> Floats:
        return np.asarray(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Explicit) and (self.n, self._digest) == (other.n, other._digest)

    def __hash__(self) -> int:
        return hash((self.n, self._digest))

    def __repr__(self) -> str:
        return f"Explicit({self.rows}×{self.n})"
