"""Trained models audited with canaries: the trainer keeps its claim, and three broken twins are caught."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from discreet import audit
from discreet.accounting import gaussian
from discreet.learn.torch import PrivateTrainer
from discreet.learn.torch.batches import RowBatch
from discreet.learn.torch.clipping import Clipper
from discreet.learn.torch.layers import RowSums

pytestmark = pytest.mark.laws

M, LAYERS = 1200, 16


class Wide(nn.Module):
    """Layers that each have a coordinate for every canary."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(M, 1, bias=False) for _ in range(LAYERS))
        for p in self.parameters():
            nn.init.zeros_(p)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([layer(x)[:, 0] for layer in self.layers]).sum(0)


def long(model: nn.Module, x: Tensor) -> Tensor:
    return -1000 * model(x)  # type: ignore[no-any-return, unused-ignore]


class WithoutNoiseInLaterPieces(PrivateTrainer):
    """Splits the noise of a step among its pieces, and adds the part of the first one alone."""

    def step(self, batch: RowBatch) -> None:
        assert self._source is not None
        noise, part = self._noise(), math.sqrt(self.physical_batch / M)
        for tensors, kept in self._source.pieces(batch, self.physical_batch, self._rng, filled=True):
            sums = self._fitted().sums(tensors, self._limit, kept=kept)
            total = noise.whole([sums[p] for p in self._fitted().trained])
            exact = total * float(noise.grid.step)
            found = exact + (noise.noisy(total, self._rng) - exact) * part
            start, part = 0, 0.0
            for p in self._fitted().trained:
                p.grad = torch.from_numpy(found[start : start + p.numel()]).reshape(p.shape).float()
                start += p.numel()
            self.optimizer.step()


def audited(kind: type[PrivateTrainer] = PrivateTrainer, physical: int | None = None) -> Any:
    """Return the audit of one step over all canaries, each with a coordinate of its own."""
    rows = np.eye(M, dtype=np.float32)
    asked: dict[str, Any] = {"noise_multiplier": 1, "steps": 1, "rows": M, "batch_size": M, "max_grad_norm": 1.0}

    def trainer(data: Any) -> PrivateTrainer:
        model = Wide()
        sgd = torch.optim.SGD(model.parameters(), lr=1.0)
        return kind(model, long, sgd, (torch.from_numpy(data),), physical_batch=physical, **asked)

    def train(data: Any) -> Any:
        t = trainer(data)
        for batch in t.batches():
            t.step(batch)
        return torch.stack([p.detach()[0] for p in t.model.parameters()]).sum(0).numpy()

    claim = trainer(rows).plan().loss(1)
    return audit.one_run(train, rows, lambda found, row: float(found @ row), claim, seed=3)


@pytest.mark.parametrize("physical", [None, 100])
def test_the_trainer_keeps_its_claim(physical: int | None) -> None:
    assert not audited(physical=physical).violated


def test_without_clipping_it_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.learn.torch.clipping.scaled", lambda square, limit, clipping: torch.ones_like(square))
    assert audited().violated


def test_noise_that_misses_some_pieces_is_caught() -> None:
    assert audited(WithoutNoiseInLaterPieces, physical=100).violated


def test_layers_that_are_each_clipped_to_the_whole_limit_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    true = Clipper.sums

    def sums(self: Clipper, batch: Any, limit: float, *, kept: Tensor | None = None, clipping: Any = "flat") -> RowSums:
        return true(self, batch, limit * LAYERS**0.5, kept=kept, clipping="per-layer")

    monkeypatch.setattr(Clipper, "sums", sums)
    assert audited().violated


def audited_over_steps(participations: int | None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the audit of 18 passes of two steps each, whose noise is correlated."""
    rows = np.eye(M, dtype=np.float32)
    if participations is not None:
        monkeypatch.setattr("discreet.learn.torch.batches.Parts.participations", lambda self, times: participations)

    def loss(model: nn.Module, x: Tensor) -> Any:
        return -1000 * model(x)[:, 0]

    def train(data: Any) -> Any:
        model = nn.Linear(M, 1, bias=False)
        nn.init.zeros_(model.weight)
        asked: dict[str, Any] = {"noise_multiplier": 1, "steps": 36, "rows": M, "batch_size": M // 2}
        sgd = torch.optim.SGD(model.parameters(), lr=1.0)
        t = PrivateTrainer(
            model, loss, sgd, (torch.from_numpy(data),), max_grad_norm=1.0, noise="banded", sampling="cyclic", **asked
        )
        assert t.fit().privacy_loss == gaussian(1)
        return model.weight.detach()[0].numpy()

    return audit.one_run(train, rows, lambda found, row: float(found @ row), gaussian(1), seed=3)


def test_correlated_noise_keeps_its_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not audited_over_steps(None, monkeypatch).violated


def test_noise_for_one_of_18_participations_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert audited_over_steps(1, monkeypatch).violated
