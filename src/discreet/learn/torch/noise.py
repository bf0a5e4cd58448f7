"""Exact Gaussian noise on sums of rows: a public grid, sums in whole numbers, and what rounding costs.

References:
    docs/proofs/torch.md, "Sums", "Noise".
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from discreet.errors import InvalidParameter
from discreet.learn.torch.clipping import LARGEST_LIMIT, SMALLEST_LIMIT
from discreet.learn.torch.layers import LEAST_GAMMA, SINGLE, TOGETHER, WHOLE
from discreet.mechanisms.gaussian import root_above
from discreet.mechanisms.square_root import Factorization
from discreet.noise import gaussian
from discreet.noise.entropy import Entropy, process
from discreet.noise.lattice import Grid

LARGEST_PIECE = 1 << 20
"""The most rows of one piece, whose sum floats hold exactly on the grid."""

_QUANTILE, _RATE = 0.5, 0.2  # of adaptive clipping, as its authors have them
_AHEAD = 1 << 18  # numbers of noise that are drawn at once
_BITS = 16  # how much finer than C/√d the grid is
_SLACK = Fraction(1, 1 << 29)  # of weights in float64, and of squares that underflow


class _Reserve(threading.local):
    """Noise for later steps of small models, since many numbers at once take half the time. Each is handed out once: no
    copy has any, nor has the child of a fork.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[tuple[int, int], NDArray[np.int64]]] = []
        self._times = 0

    def __reduce__(self) -> tuple[type[_Reserve], tuple[()]]:
        return _Reserve, ()

    def take(self, size: int, draw: Callable[[int], NDArray[np.int64]]) -> NDArray[np.int64]:
        while True:
            # Out of its place while it is used: a signal handler that draws in between finds nothing, and what an error
            # breaks off is lost. A fork, before or in between, is seen at the end: the child draws anew.
            try:
                owner, kept = self._kept.pop()
            except IndexError:
                owner, kept = (-1, -1), np.zeros(0, np.int64)
            now = process()
            if owner != now or len(kept) < size:
                self._times = min(self._times + 1, max(1, _AHEAD // max(size, 1)))  # one step's at first
                kept = draw(size * self._times)
            if now == process():
                self._kept.append((now, kept[size:]))
                return kept[:size]


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
        factors: what is measured of all steps together, where their noise is correlated.
        participations: in how many steps a row is at most, where it is one of these.
        separation: how many steps two of them are apart at least.

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
    factors: Factorization | None = None
    participations: int = 1
    separation: int = 1

    @cached_property
    def grid(self) -> Grid:
        """The public grid."""
        return Grid.for_scale(self.limit / (math.isqrt(max(self.width - 1, 0)) + 1), bits=_BITS)

    @cached_property
    def rounding(self) -> Fraction:
        """κ: by how much rounding of sums and of the grid lengthens the distance of neighbours, over C."""
        largest = math.isqrt(round(1 / LEAST_GAMMA))
        summed = sum(
            Fraction(2 * (self.piece * max(t, 1) + 4) * self.piece * (largest if t > 1 else 1), 1 << 53)
            for t in self.terms
        )
        across = (math.isqrt(max(self.width - 1, 0)) + 1) * self.grid.step / self.limit
        single = Fraction((TOGETHER + 4) * min(self.piece, SINGLE), 1 << 24) if WHOLE in self.terms else 0
        return 4 * (summed + single) + 2 * across + _SLACK

    @cached_property
    def sensitivity(self) -> Fraction:
        """Distance of neighbours, in steps of the grid."""
        return self.limit * ((2 if self.replaced else 1) + self.rounding) / self.grid.step

    @cached_property
    def sigma(self) -> int:
        """The deviation of what is drawn, in steps of the grid, or of what is measured of it."""
        longer = Fraction(1)
        if self.factors is not None:
            longer = root_above(Fraction(self.factors.sensitivity(self.participations, self.separation)))
        found = math.ceil(self.multiplier * self.sensitivity * longer)
        if found > gaussian.LARGEST_SIGMA:
            raise InvalidParameter("The noise is too large for 64 bits.", hint="take a smaller noise_multiplier")
        return found

    @cached_property
    def deviation(self) -> float:
        """The deviation of the noise of one number of the sum; or of independent noise with this error of all sums."""
        found = float(self.sigma * self.grid.step)
        if self.factors is not None:
            found *= math.sqrt(self.factors.mean_squares() * 2 / (self.factors.steps + 1))
        return found

    def variance(self, steps: int) -> float:
        """Return the variance of correlated noise of one number, added up over the first steps."""
        assert self.factors is not None
        return self.factors.squares(steps) * float(self.sigma * self.grid.step) ** 2

    def whole(self, sums: Sequence[Tensor]) -> NDArray[np.int64]:
        """Return the sums of one piece in steps of the grid."""
        return self.grid.snap_vector(torch.cat([x.detach().reshape(-1) for x in sums]).cpu().numpy())

    def drawn(self, size: int, rng: Entropy) -> NDArray[np.int64]:
        """Return so many fresh numbers."""
        return self._reserve.take(size, lambda n: gaussian.rounded_vector(Fraction(self.sigma), n, rng))

    @cached_property
    def _reserve(self) -> _Reserve:
        return _Reserve()

    def noisy(self, total: NDArray[np.int64], rng: Entropy) -> NDArray[np.float64]:
        """Return a sum with noise of its own."""
        return np.ldexp((total + self.drawn(total.size, rng)).astype(np.float64), self.grid.exponent)


@dataclass(frozen=True)
class AdaptiveLimit:
    """How C follows the median of the gradients' norms, from a noisy count of those below it.

    Attributes:
        multiplier: σ, of the sum and the count together.
        batch: how many rows are expected.
        replaced: whether neighbours differ by a row that is replaced, which moves the count by 2.

    Guarantee:
        The sum with noise of `of_sum` and the count with noise of `of_count`, over their sensitivities, are together
        one Gaussian use of `multiplier`.

    References:
        Andrew, Thakkar, McMahan, Ramaswamy 2021, Theorem 1, https://arxiv.org/abs/1905.03871; docs/proofs/torch.md,
        "Adaptive clipping".
    """

    multiplier: Fraction
    batch: int
    replaced: bool = False

    @property
    def of_count(self) -> Fraction:
        """The noise multiplier of the count: a tenth of the batch, so that it costs the sum at most 2 % more noise."""
        return max(Fraction(self.batch, 10), 5 * self.multiplier)

    @property
    def of_sum(self) -> Fraction:
        """The noise multiplier of the sum."""
        one, other = self.multiplier**2, self.of_count**2
        return root_above(one * other / (other - one))

    def next(self, limit: float, balance: int, rng: Entropy) -> float:
        """Return the next C, from how many rows were not shortened less how many were."""
        noisy = balance + gaussian.rounded(self.of_count * (2 if self.replaced else 1), rng)
        below = min(max((noisy / self.batch + 1) / 2, 0.0), 1.0)
        return min(max(limit * math.exp(-_RATE * (below - _QUANTILE)), SMALLEST_LIMIT), LARGEST_LIMIT)


class CorrelatedNoise:
    """A run of sums whose noise is correlated over steps; each is given once, in their order.

    What is measured up to a step is whole numbers with exact noise, and what is returned follows from them.

    Guarantee:
        That of one Gaussian use of the noise's multiplier for all steps, where rows take part as it says.

    References:
        docs/proofs/torch.md, "Correlated noise".
    """

    def __init__(self, noise: GridNoise, rng: Entropy, state: tuple[Any, ...] | None = None) -> None:
        assert noise.factors is not None
        self._noise = noise
        self._progress = noise.factors.begin(lambda n: noise.drawn(n, rng), noise.width)
        self._answer: NDArray[np.float64] | float = 0.0
        if state is not None:
            self._progress.state, self._answer = state

    @property
    def state(self) -> tuple[Any, ...]:
        """What the run goes on with. Private."""
        return self._progress.state, self._answer

    @property
    def taken(self) -> int:
        """How many sums were given."""
        return self._progress.taken

    def noisy(self, total: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the next sum with noise."""
        before = self._answer
        self._answer = self._progress.add(total)
        return np.ldexp(self._answer - before, self._noise.grid.exponent)


def set_gradients(parameters: Sequence[nn.Parameter], mean: NDArray[np.float64]) -> None:
    """Give parameters the parts of a vector as their gradients."""
    wide, made, start = torch.from_numpy(mean), dict[Any, Tensor](), 0
    for p in parameters:
        kind = p.device, p.dtype
        if kind not in made:
            made[kind] = wide.to(*kind)
        p.grad = made[kind][start : start + p.numel()].view(p.shape)
        start += p.numel()
