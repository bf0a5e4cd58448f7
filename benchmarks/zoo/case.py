"""One mechanism to audit, with what is claimed of it and what is true."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import Budget

Floats = NDArray[np.float64]

GRID = 2.0**-10
"""The step to which continuous noise is rounded, where floats are not what a case is about."""


@dataclass(frozen=True, slots=True)
class Case:
    """A mechanism of the zoo.

    Attributes:
        name: its name in the table.
        mechanism: what is audited.
        inputs: the neighbours that the claim is about, to be searched.
        claimed: the claim: an ε, or a budget.
        true_epsilon: the least ε that holds at the claimed δ for these inputs; inf, or None where it is not known.
        broken: whether the claim is false.
        source: where it comes from, or what went wrong.
        samples: the most outputs of each neighbour, where a mechanism is slow or its event rare.
    """

    name: str
    mechanism: Callable[..., object]
    inputs: Any
    claimed: float | Budget
    true_epsilon: float | None
    broken: bool
    source: str
    samples: int | None = None

    @property
    def most_samples(self) -> int:
        """The most outputs of each neighbour: the same on every machine, however fast it is."""
        if self.samples is not None:
            return self.samples
        return 8_000_000 if "n" in signature(self.mechanism).parameters else 800_000

    @property
    def epsilon(self) -> float:
        """The claimed ε."""
        return float(self.claimed.epsilon) if isinstance(self.claimed, Budget) else self.claimed


def own() -> np.random.Generator:
    """A generator that no other process has: those of one benchmark must not share their noise."""
    return _of_process(os.getpid())


@cache
def _of_process(pid: int) -> np.random.Generator:
    return np.random.default_rng()


def laplace(scale: float, size: int | tuple[int, ...]) -> Floats:
    """Laplace noise, rounded to the grid: on values of the grid, floats give nothing away."""
    return np.asarray(np.rint(own().laplace(0.0, scale / GRID, size)) * GRID)


def exponential(scale: float, size: int | tuple[int, ...]) -> Floats:
    """Exponential noise, rounded up to the grid."""
    return np.asarray(np.ceil(own().exponential(scale / GRID, size)) * GRID)


def on_grid(x: Any) -> Floats:
    """Values rounded to the grid."""
    return np.asarray(np.rint(np.asarray(x, dtype=np.float64) / GRID) * GRID)
