"""Strategies: what is measured, in whole numbers, and how the cells are estimated from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.linear.workloads import LARGEST, Floats, Workload, along
from discreet.privacy.unit import Relation

_EXACT = 1 << 53  # floats add and multiply integers below it without rounding
_NOTHING = 1e-16  # of a question's squared length: 1e-8 of it, where rounding a strategy moves it by 1e-6
_PAIRS = 1 << 28  # products that are formed to look at all pairs of columns
_LONG_PAIRS = 1 << 22  # the same where they do not fit in 64 bits
_GRAM = 1 << 10  # columns of which all inner products are formed


class Strategy:
    """A Kronecker product of matrices of whole numbers, one for each attribute of the cells.

    Its sensitivity is taken from these integers, its estimates from the same ones: whatever a matrix was before it
    was rounded bears on neither.
    """

    __slots__ = ("_key", "columns", "factors", "inverses", "rows", "shape")

    factors: tuple[NDArray[np.int64], ...]
    inverses: tuple[Floats, ...]

    def __init__(self, matrices: Sequence[Floats], *, bits: int) -> None:
        """Round the strategy; a matrix of whole numbers below 2^bits stays as it is.

        Args:
            matrices: one for each attribute, with finite entries.
            bits: the largest entry of each is rounded to about so many binary digits.
        """
        self.factors = tuple(_rounded(m, bits) for m in matrices)
        self.shape = tuple(int(f.shape[1]) for f in self.factors)
        self.rows = tuple(int(f.shape[0]) for f in self.factors)
        if math.prod(self.rows) > LARGEST:
            raise InvalidParameter(f"the strategy measures {math.prod(self.rows):,} numbers, more than {LARGEST:,}.")
        self.inverses = tuple(_pseudoinverse(f) for f in self.factors)
        self.columns = math.prod(self.shape)
        digest = sha256(b"".join(f.tobytes() for f in self.factors)).digest()
        self._key = (self.rows, self.shape, digest)

    def sensitivity(self, relation: Relation) -> tuple[int, int]:
        """Return the largest ‖·‖₁ and ‖·‖₂² of a column, under replace of a difference of two columns as well.

        Norms of columns of a product are products of norms, so that the largest are found exactly. Differences are
        gone through where there are few enough; else twice the ℓ1 norm bounds them. For ℓ2 inner products of columns
        do, exactly, where there are not too many; else twice the squared ℓ2 norm where no entry is negative, four
        times otherwise.
        """
        l1 = math.prod(int(np.abs(f).sum(axis=0).max()) for f in self.factors)
        l2 = math.prod(max(sum(int(v) ** 2 for v in column) for column in f.T.tolist()) for f in self.factors)
        if relation is Relation.ADD_REMOVE:
            return l1, l2
        rows, largest = math.prod(self.rows), math.prod(int(np.abs(f).max()) for f in self.factors)
        fits = rows * (2 * largest) ** 2 < 1 << 62  # else Python's integers, of which fewer are gone through
        if self.columns**2 * rows <= (_PAIRS if fits else _LONG_PAIRS):
            kind = np.int64 if fits else object
            apart = _differences(reduce(np.kron, [f.astype(kind) for f in self.factors]))
            return max(l1, apart[0]), max(l2, apart[1])
        if self.columns <= _GRAM:  # ‖a − b‖² = ‖a‖² + ‖b‖² − 2⟨a, b⟩, and ⟨·, ·⟩ of products are products
            inner = reduce(np.kron, [f.T.astype(object) @ f.astype(object) for f in self.factors])
            lengths = np.diagonal(inner)
            return 2 * l1, max(l2, int((lengths[:, None] + lengths - 2 * inner).max()))
        return 2 * l1, (2 if all((f >= 0).all() for f in self.factors) else 4) * l2

    def measure(self, table: NDArray[Any], shift: int) -> NDArray[Any]:
        """2^shift times the strategy's answers on integers, exactly: int64, or Python integers beyond."""
        most = max(int(table.max()), -int(table.min()), 1)
        most *= math.prod(int(np.abs(f).sum(axis=1).max()) for f in self.factors)
        if most < _EXACT:  # every sum of products is a float exactly, in any order
            made = along(table.astype(np.float64), [_times(f.astype(np.float64)) for f in self.factors])
            answers: NDArray[Any] = made.astype(np.int64).reshape(-1)
        else:
            kind = np.int64 if most < 1 << 62 else object
            answers = along(table.astype(kind), [_times(f.astype(kind)) for f in self.factors]).reshape(-1)
        if most << shift >= 1 << 62 and answers.dtype == np.int64:
            answers = answers.astype(object)
        return answers << shift

    def estimate(self, noisy: Floats) -> Floats:
        """Return the least-squares estimate of the cells from noisy answers, floats in the strategy's units."""
        return along(noisy.reshape(self.rows), [_times(a) for a in self.inverses])

    def squares(self, workload: Workload) -> list[list[Floats]]:
        """Σ c² over the weights that queries give to the noise, for each term one vector for each attribute.

        That of a query of a term is the product of its entries.
        """
        spreads = [a @ a.T for a in self.inverses]
        return [[f.squares(c) for f, c in zip(term, spreads, strict=True)] for term in workload.terms]

    def mean_squares(self, workload: Workload) -> float:
        """Return the mean of Σ c² over all queries."""
        spreads = [a @ a.T for a in self.inverses]
        sums = [
            math.prod(float((f.gram() * c).sum()) for f, c in zip(term, spreads, strict=True))
            for term in workload.terms
        ]
        return sum(sums) / workload.queries

    def answers(self, workload: Workload) -> bool:
        """Return whether every query is a combination of what is measured."""
        for attribute, (f, inverse) in enumerate(zip(self.factors, self.inverses, strict=True)):
            missing = np.eye(f.shape[1]) - inverse @ f
            for term in workload.terms:
                gram = term[attribute].gram()
                if float(((gram @ missing) * missing).sum()) > _NOTHING * float(np.trace(gram)):
                    return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Strategy) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        sizes = " ⊗ ".join(f"{p}×{n}" for p, n in zip(self.rows, self.shape, strict=True))
        return f"Strategy({sizes})"


def hierarchical(n: int) -> Floats:
    """Return the sums of all dyadic blocks of n cells, up to all of them; the last block of a size may be shorter."""
    rows = []
    size = 1
    while True:
        for start in range(0, n, size):
            row = np.zeros(n)
            row[start : start + size] = 1
            rows.append(row)
        if size >= n:
            return np.array(rows)
        size *= 2


def _rounded(matrix: Floats, bits: int) -> NDArray[np.int64]:
    largest = float(np.abs(matrix).max())
    if largest < 2.0**bits and (matrix == np.rint(matrix)).all():
        whole = matrix.astype(np.int64)
    else:
        whole = np.rint(np.ldexp(matrix, bits - math.frexp(largest)[1])).astype(np.int64)
    whole.setflags(write=False)
    return whole


def _pseudoinverse(factor: NDArray[np.int64]) -> Floats:
    p, n = factor.shape
    if p == n and not np.count_nonzero(factor - np.diag(np.diag(factor))) and np.diag(factor).all():
        return np.diag(1.0 / np.diag(factor))
    return np.asarray(np.linalg.pinv(factor.astype(np.float64), rcond=1e-9))


def _differences(matrix: NDArray[Any]) -> tuple[int, int]:
    """Return the largest ‖·‖₁ and ‖·‖₂² of a difference of two columns, in a type in which neither wraps."""
    columns = matrix.T
    l1 = l2 = 0
    for i in range(len(columns) - 1):
        apart = np.abs(columns[i + 1 :] - columns[i])
        l1 = max(l1, int(apart.sum(axis=1).max()))
        l2 = max(l2, int((apart * apart).sum(axis=1).max()))
    return l1, l2


def _times(matrix: NDArray[Any]) -> Any:
    return lambda x: np.tensordot(matrix, x, axes=1)
