"""Columns that are computed from others: what a vector shows as a whole, and what floats leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.tree import Column

Floats: TypeAlias = NDArray[np.float64]

_FEW = 6
"""Numeric columns up to which each one's lowest bits are a column; beyond, the lowest of all of them."""
_MOST_DIFFERENCES = 64


@dataclass(frozen=True, slots=True)
class Derived:
    """Which columns are computed, and from which."""

    groups: tuple[tuple[int, ...], ...]
    numbers: tuple[int, ...]
    labels: tuple[int, ...]

    @classmethod
    def of(cls, columns: tuple[Column, ...]) -> Derived:
        """What can be computed from raw columns: those of one parent are a vector."""
        vectors: dict[str, list[int]] = {}
        for i, column in enumerate(columns):
            if column.name.endswith("]"):
                vectors.setdefault(column.kind + column.name.rpartition("[")[0], []).append(i)
        numeric = [tuple(v) for k, v in vectors.items() if k.startswith("number") and len(v) > 1]
        named = [v for k, v in vectors.items() if k.startswith("label") and len(v) > 1]
        numbers = tuple(i for i, c in enumerate(columns) if c.kind == "number" and not c.labels)
        return cls(tuple(numeric), numbers, tuple(named[0]) if named else ())

    def compute(
        self, raw: Floats, columns: tuple[Column, ...], *, bits: bool
    ) -> Iterator[tuple[Column, Floats]]:
        """The computed columns with their values."""
        for group in self.groups:
            yield from _of_vector(raw[:, list(group)], [columns[i] for i in group])
        if self.labels:
            some = raw[:, list(self.labels)]
            path = columns[self.labels[0]].name.rpartition("[")[0]
            yield _derived(f"first change in {path}", np.argmax(some != some[:, :1], axis=1))
        if not bits:
            return
        if 0 < len(self.numbers) <= _FEW:
            for i in self.numbers:
                yield _derived(f"lowest bit of {columns[i].name}", lowest_bit(raw[:, i]))
                yield _derived(f"whether {columns[i].name} is whole", np.floor(raw[:, i]) == raw[:, i])
        elif self.numbers:
            lowest = lowest_bit(raw[:, list(self.numbers)])
            yield _derived("lowest bit of any number", np.fmin.reduce(lowest, axis=1))
            yield _derived("highest lowest bit of all numbers", np.fmax.reduce(lowest, axis=1))


def lowest_bit(x: Floats) -> Floats:
    """log₂ of the lowest bit that is set in each float; 0 has +∞, what is no number NaN."""
    mantissa, exponent = np.frexp(x)
    finite = np.isfinite(x)
    whole = np.where(finite, np.abs(mantissa) * 2.0**53, 1).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] - 1.0
    return np.where(finite, np.where(x == 0, np.inf, exponent - 53 + lowest), np.nan)


def _of_vector(some: Floats, columns: list[Column]) -> list[tuple[Column, Floats]]:
    path = columns[0].name.rpartition("[")[0]
    with np.errstate(invalid="ignore", over="ignore"):
        return list(_described(some, columns, path))


def _described(some: Floats, columns: list[Column], path: str) -> Iterator[tuple[Column, Floats]]:
    absent = np.isnan(some)
    holes = bool(absent.any())
    yield _derived(f"sum of {path}", (np.where(absent, 0.0, some) if holes else some).sum(axis=1))
    yield _derived(f"largest of {path}", np.fmax.reduce(some, axis=1))
    yield _derived(f"smallest of {path}", np.fmin.reduce(some, axis=1))
    high = np.where(absent, -np.inf, some) if holes else some
    yield _derived(f"index of the largest of {path}", np.argmax(high, axis=1))
    yield _derived(f"index of the first number in {path}", np.argmax(~absent, axis=1))
    yield _derived(f"index of the first that is no number in {path}", np.argmax(absent, axis=1))
    yield _derived(f"how many numbers in {path}", (~absent).sum(axis=1))
    if all(c.labels for c in columns):
        return
    for j in range(1, min(len(columns), _MOST_DIFFERENCES + 1)):
        name = f"{columns[j].name} − {columns[j - 1].name}"
        yield Column(name, "difference"), some[:, j] - some[:, j - 1]


def _derived(name: str, values: NDArray[np.generic]) -> tuple[Column, Floats]:
    return Column(name, "derived"), values.astype(np.float64)
