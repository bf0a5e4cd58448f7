"""Runs that are killed: whatever was drawn is charged when they go on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from discreet.learn.torch import PrivateTrainer
from tests.learn.torch.nets import ce

STEPS = 400


def train(path: Path, data: tuple[torch.Tensor, torch.Tensor], to: int) -> None:
    """Train in a child, and say of each batch that it was drawn, until this process is killed."""
    model = nn.Linear(4, 2)
    sgd = torch.optim.SGD(model.parameters())
    asked = {"noise_multiplier": 1, "steps": STEPS, "rows": 50, "batch_size": 5, "max_grad_norm": 1.0}
    t = PrivateTrainer(model, ce, sgd, data, **asked)  # type: ignore[arg-type]
    t.save(path)
    os.write(to, b"+")
    for batch in t.batches():
        os.write(to, b".")
        t.step(batch)
        if batch.step % 23 == 0:
            t.save(path)
    time.sleep(60)


@pytest.mark.slow  # pytest -m slow tests/learn/torch/test_kills.py
def test_every_drawn_step_is_charged_after_a_kill(tmp_path: Path) -> None:
    data = torch.randn(50, 4), torch.zeros(50, dtype=torch.long)
    for n in range(50):
        path = tmp_path / f"{n}.ckpt"
        at, to = os.pipe()
        child = os.fork()
        if not child:
            os.close(at)
            try:
                train(path, data, to)
            finally:
                os._exit(1)
        os.close(to)
        assert os.read(at, 1) == b"+"
        drawn = 0
        while drawn < n * 3:
            drawn += len(os.read(at, 1 + n % 7))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while more := len(os.read(at, 4096)):
            drawn += more
        os.close(at)
        model = nn.Linear(4, 2)
        r = PrivateTrainer.resume(path, model, ce, torch.optim.SGD(model.parameters()), data)
        assert drawn <= len(r.privacy_loss.events) <= min(drawn + 16, STEPS)
        assert len(r.privacy_loss.events) + len(list(r.batches())) == STEPS
