"""A mechanism in the table of contracts, and what outsiders know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms import Mechanism

DELTA = Fraction(1, 10**6)
"""The δ of every row that has one."""


@dataclass(frozen=True)
class Row:
    """A mechanism at a given ε (and δ = 1e-6 where it has one), and what outsiders know of it.

    Attributes:
        page: its page in docs/proofs.
        pmf: for integers, the mass at k, up to a factor, from its parameters alone (`stretch` moves the law).
        cdf: for floats, the continuous law that the lattice stands for.
        given: what its class needs beside ε (and δ).
        sized: whether it takes `sensitivity=`.
        tight: whether nearly all of ε is used up by the loss.
    """

    kind: type[Mechanism]
    make: Callable[[Fraction], Mechanism]
    page: str
    pure: bool
    pmf: Callable[[Mechanism, NDArray[np.float64], float], NDArray[np.float64]] | None = None
    cdf: Callable[[Mechanism, NDArray[np.float64], float], NDArray[np.float64]] | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    sized: bool = True
    tight: bool = True
