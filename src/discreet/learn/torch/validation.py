"""The mean loss of rows that are held back: plain where they are public, else with noise that was paid for up front."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import nn

from discreet.errors import InvalidParameter
from discreet.learn.torch.batches import RowBatch, RowSource, own_chance
from discreet.learn.torch.clipping import Loss, checked_losses, unchanged
from discreet.noise import laplace
from discreet.noise.entropy import Entropy
from discreet.privacy.exact import Real, count, positive

_FINE = 1 << 20  # steps of a loss up to its bound


@dataclass
class Validation:
    """Rows whose loss is shown, and what is paid for it.

    Attributes:
        source: the rows; public where nothing is paid.
        times: how often their loss is shown in a run.
        epsilon: what all of these times cost together; None where the rows are public.
        bound: the largest loss of a row that counts; larger ones count as this.

    Guarantee:
        Where it is paid for, all times together are ε-DP for one row added, removed or replaced.

    References:
        docs/proofs/torch.md, "Validation".
    """

    source: RowSource
    times: int
    epsilon: Fraction | None = None
    bound: Fraction | None = None

    @classmethod
    def of(cls, source: RowSource, times: int, epsilon: Real | None, bound: Real | None) -> Validation:
        """Return what was asked for.

        Raises:
            InvalidParameter: a loss is to be paid for and has no bound, or has one and is public.
        """
        if (epsilon is None) != (bound is None):
            raise InvalidParameter(
                "validation_epsilon and validation_bound are given together.",
                hint="validation_epsilon=0.1, validation_bound=5; without both, validation= is declared to be public",
            )
        paid = None if epsilon is None else positive("validation_epsilon", epsilon)
        most = None if bound is None else positive("validation_bound", bound)
        return cls(source, count("validations", times), paid, most)

    def due(self, step: int, steps: int) -> int:
        """Return how many of its times are due when so many of all steps were begun."""
        return self.times * step // steps

    def loss(self, model: nn.Module, loss_fn: Loss, physical: int, rng: Entropy) -> float:
        """Return the mean loss, with noise where it is paid for. Each call is one of `times`."""
        modes, everything = [(m, m.training) for m in model.modules()], np.arange(self.source.size)
        total, rows, plain = 0, 0, 0.0
        try:
            model.eval()
            with torch.no_grad(), unchanged(model), own_chance():
                for tensors, kept in self.source.pieces(RowBatch(0, everything), physical, rng, filled=True):
                    losses: Any = loss_fn(model, *tensors)
                    checked_losses(losses, len(tensors[0]))
                    found = losses.double()[kept].cpu().numpy()
                    rows, plain = rows + len(found), plain + float(found.sum())
                    if self.bound is not None:
                        shares = np.clip(np.nan_to_num(found / float(self.bound), nan=1.0), 0, 1)
                        total += int((np.rint(shares * _FINE).astype(np.int64) - _FINE // 2).sum())
        finally:
            for module, mode in modes:
                module.training = mode
        if self.epsilon is None or self.bound is None:
            return plain / max(rows, 1)
        half = self.epsilon / self.times / 2
        noisy = total + laplace.sample(Fraction(_FINE // 2) / half, rng)
        size = max(rows + laplace.sample(1 / half, rng), 1)
        return float(self.bound * min(max(Fraction(noisy, size * _FINE) + Fraction(1, 2), Fraction(0)), Fraction(1)))
