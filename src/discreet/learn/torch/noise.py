"""Exact Gaussian noise on sums of rows: a public grid, sums in whole numbers, and what rounding costs.

References:
    docs/proofs/torch.md, "Sums", "Noise".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from discreet.learn.torch.layers import LEAST_GAMMA
from discreet.noise import gaussian
from discreet.noise.entropy import Entropy
from discreet.noise.lattice import Grid

LARGEST_PIECE = 1 << 20
"""The most rows of one piece, whose sum floats hold exactly on the grid."""

_BITS = 16  # how much finer than C/√d the grid is
_SLACK = Fraction(1, 1 << 29)  # of weights in float64, and of squares that underflow


@dataclass(frozen=True)
class GridNoise:
    """The noise of one step.

    Attributes:
        limit: C.
        multiplier: σ over the sensitivity.
        width: d, how many numbers are trained.
        piece: P, how many rows are added up at once.
        terms: how many terms a row's gradient has in each use of a layer.
        replaced: whether neighbours differ by a row that is replaced, which moves a sum by 2C.

    Guarantee:
        For neighbours the sums in whole numbers differ by at most `sensitivity` steps in ℓ2, and each number gets
        exact Gaussian noise of at least `multiplier` times that.
    """

    limit: Fraction
    multiplier: Fraction
    width: int
    piece: int
    terms: Sequence[int]
    replaced: bool = False

    @cached_property
    def grid(self) -> Grid:
        """The public grid."""
        return Grid.for_scale(self.limit / (math.isqrt(max(self.width - 1, 0)) + 1), bits=_BITS)

    @cached_property
    def rounding(self) -> Fraction:
        """κ: by how much rounding of sums and of the grid lengthens the distance of neighbours, over C."""
        largest = math.isqrt(round(1 / LEAST_GAMMA))
        summed = sum(
            Fraction(2 * (self.piece * t + 4) * self.piece * (largest if t > 1 else 1), 1 << 53) for t in self.terms
        )
        across = (math.isqrt(max(self.width - 1, 0)) + 1) * self.grid.step / self.limit
        return 4 * summed + 2 * across + _SLACK

    @cached_property
    def sensitivity(self) -> Fraction:
        """Distance of neighbours, in steps of the grid."""
        return self.limit * ((2 if self.replaced else 1) + self.rounding) / self.grid.step

    @cached_property
    def sigma(self) -> int:
        """The deviation of the noise, in steps of the grid."""
        return math.ceil(self.multiplier * self.sensitivity)

    @cached_property
    def deviation(self) -> float:
        """The deviation of the noise of one number of the sum."""
        return float(self.sigma * self.grid.step)

    def whole(self, sums: Sequence[Tensor]) -> NDArray[np.int64]:
        """Return the sums of one piece in steps of the grid."""
        flat = np.concatenate([x.detach().cpu().numpy().reshape(-1) for x in sums])
        return self.grid.snap_vector(flat)

    def noisy(self, total: NDArray[np.int64], rng: Entropy) -> NDArray[np.float64]:
        """Return a sum with noise."""
        found = total + gaussian.rounded_vector(Fraction(self.sigma), total.size, rng)
        return np.ldexp(found.astype(np.float64), self.grid.exponent)
