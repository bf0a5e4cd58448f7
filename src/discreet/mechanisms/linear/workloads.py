"""Workloads: many linear queries about a vector of counts, as stacks of Kronecker products."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.privacy.exact import count

LARGEST_SIDE = 1 << 11
"""Values of one attribute at most."""
LARGEST = 1 << 24
"""Cells, and answers of one release, at most."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Queries about the cells of a table with one or more attributes.

    Attributes:
        shape: the number of values of each attribute; cells are in the order of a numpy array of this shape.
        terms: for each part of the stack one matrix for each attribute, whose Kronecker product it is.
    """

    shape: tuple[int, ...]
    terms: tuple[tuple[Factor, ...], ...]

    def __post_init__(self) -> None:
        if self.cells > LARGEST:
            raise InvalidParameter(f"a workload has at most {LARGEST:,} cells, not {self.cells:,}.")

    @property
    def cells(self) -> int:
        """How many cells."""
        return math.prod(self.shape)

    @property
    def queries(self) -> int:
        """How many queries."""
        return sum(math.prod(f.rows for f in term) for term in self.terms)

    def matrix(self) -> NDArray[np.float64]:
        """One row for each query, one column for each cell.

        Raises:
            InvalidParameter: it would have too many entries.
        """
        entries = self.queries * self.cells
        if entries > LARGEST:
            raise InvalidParameter(
                f"the matrix of this workload would have {entries:,} entries, more than {LARGEST:,}.",
                hint="use answers(x), which does not need it",
            )
        return np.concatenate([multiplied([f.matrix() for f in term]) for term in self.terms])

    def answers(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Return the answers for counts x (flat, or of shape `shape`), without noise, in floats.

        Raises:
            InvalidParameter: another size of x, or too many queries for one array.
        """
        self.check_queries()
        values = np.asarray(x, dtype=np.float64)
        if values.size != self.cells:
            raise InvalidParameter(f"x must hold {self.cells} numbers, one for each cell, not {values.size}.")
        table = values.reshape(self.shape)
        return np.concatenate([along(table, [f.apply for f in term]).reshape(-1) for term in self.terms])

    def check_queries(self) -> None:
        """Refuses more queries than one array of answers holds."""
        if self.queries > LARGEST:
            raise InvalidParameter(f"an array of {self.queries:,} answers is too long; {LARGEST:,} at most.")

    def __repr__(self) -> str:
        sides = "×".join(map(str, self.shape))
        return f"Workload({self.queries} queries on {sides} cells)"


def identity(n: int) -> Workload:
    """Each of n cells."""
    return _single(Identity(_side(n)))


def total(n: int) -> Workload:
    """Return the sum of n cells."""
    return _single(TotalSum(_side(n)))


def prefix(n: int) -> Workload:
    """Return the sums of the first 1, 2, …, n cells."""
    return _single(Prefix(_side(n)))


def ranges(n: int) -> Workload:
    """Return the sums of the cells a, …, b for all a ≤ b: n(n + 1)/2 queries, in the order of a and then of b.

    >>> ranges(3).matrix()[:, 0].tolist()
    [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    """
    return _single(RangeSums(_side(n)))


def explicit(matrix: NDArray[Any]) -> Workload:
    """Return the queries that are the rows of a matrix of finite numbers."""
    return _single(Explicit(checked("workload", matrix)))


def kron(*workloads: Workload) -> Workload:
    """All products of a query about each: about a table that has the attributes of all.

    >>> kron(prefix(3), identity(2))
    Workload(6 queries on 3×2 cells)
    """
    if not workloads or not all(isinstance(w, Workload) for w in workloads):
        raise InvalidParameter("kron takes one or more workloads.", hint="kron(prefix(10), identity(3))")
    terms: list[tuple[Factor, ...]] = [()]
    for w in workloads:
        terms = [(*before, *term) for before in terms for term in w.terms]
    return Workload(tuple(n for w in workloads for n in w.shape), tuple(terms))


def stack(*workloads: Workload) -> Workload:
    """Return the queries of all, about the same cells.

    >>> stack(prefix(4), identity(4))
    Workload(8 queries on 4 cells)
    """
    if not workloads or not all(isinstance(w, Workload) for w in workloads):
        raise InvalidParameter("stack takes one or more workloads.", hint="stack(prefix(10), identity(10))")
    shapes = {w.shape for w in workloads}
    if len(shapes) > 1:
        raise InvalidParameter(f"workloads that are stacked must be about the same cells, not {sorted(shapes)}.")
    return Workload(workloads[0].shape, tuple(term for w in workloads for term in w.terms))


def marginals(shape: Sequence[int], ways: int) -> Workload:
    """Return the tables of counts over every choice of `ways` of the attributes.

    >>> marginals((2, 3, 5), 2)
    Workload(31 queries on 2×3×5 cells)
    """
    sides = tuple(_side(n) for n in shape)
    if not sides or count("ways", ways, least=0) > len(sides):
        raise InvalidParameter(f"ways must be at most the number of attributes, {len(sides)}, not {ways}.")
    kept = list(combinations(range(len(sides)), ways))
    if len(kept) > 1 << 12:
        raise InvalidParameter(f"there are {len(kept):,} such marginals, more than {1 << 12:,}.")
    return Workload(
        sides, tuple(tuple(Identity(n) if i in chosen else TotalSum(n) for i, n in enumerate(sides)) for chosen in kept)
    )


def checked(name: str, matrix: object) -> NDArray[np.float64]:
    """Return a matrix of finite numbers, as floats.

    Raises:
        InvalidParameter: it is none, or has no rows or columns, or too many.
    """
    if type(matrix) is not np.ndarray or matrix.ndim != 2 or matrix.dtype.kind not in "iuf":
        what = f"{matrix.dtype} in {matrix.ndim} dimensions" if type(matrix) is np.ndarray else type(matrix).__name__
        raise InvalidParameter(
            f"{name} must be a plain numpy matrix of numbers, not {what}.", hint="np.array([[1, 0], [1, 1]])"
        )
    if not matrix.size or matrix.size > LARGEST or matrix.shape[1] > LARGEST_SIDE:
        raise InvalidParameter(
            f"{name} must have 1 to {LARGEST_SIDE:,} columns and at most {LARGEST:,} entries, "
            f"not {matrix.shape[0]:,} × {matrix.shape[1]:,}."
        )
    entries = matrix.astype(np.float64)
    if not np.isfinite(entries).all():
        raise InvalidParameter(f"{name} must hold finite numbers only.")
    if not entries.any():
        raise InvalidParameter(f"{name} must not be zero everywhere.")
    return entries


def along(table: NDArray[np.float64], steps: Sequence[Any]) -> NDArray[np.float64]:
    """Each step applied along its own axis of a table."""
    for axis, step in enumerate(steps):
        table = np.moveaxis(step(np.moveaxis(table, axis, 0)), 0, axis)
    return table


def multiplied(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the Kronecker product of vectors or of matrices."""
    made = parts[0]
    for part in parts[1:]:
        made = np.asarray(np.kron(made, part))
    return made


def _single(factor: Factor) -> Workload:
    return Workload((factor.n,), ((factor,),))


def _side(n: int) -> int:
    side = count("the number of cells", n)
    if side > LARGEST_SIDE:
        raise InvalidParameter(
            f"an attribute has at most {LARGEST_SIDE:,} values, not {side:,}.", hint="put neighbouring values together"
        )
    return side


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
