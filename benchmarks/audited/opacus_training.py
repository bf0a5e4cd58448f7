"""DP-SGD with Opacus, and trainers around it that go wrong, as `benchmarks.audit_training` audits them.

Each takes `{"rows": …, "codes": k, "epochs": e}`. A row has some features, the number of one of k codes or −1, and a
label of 0 or 1; the codes are one-hot columns of weight `CODE`. The model is logistic regression. The answer is the ε
that is claimed at `DELTA`, then the weights, the codes' last.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from opacus import PrivacyEngine
from opacus.accountants import PRVAccountant
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DELTA = 1e-5
NOISE = 2.0  # standard deviations of noise for one gradient
CLIP = 1.0
BATCHES = 10  # each step takes a row with chance 1 / BATCHES
RATE = 0.2
CODE = 500.0  # so that the gradient of a row with a code is far beyond CLIP

torch.set_num_threads(1)


@cache
def claimed(epochs: int) -> float:
    """The ε of as many epochs as Opacus accounts for them."""
    accountant = PRVAccountant()
    accountant.history = [(NOISE, 1 / BATCHES, epochs * BATCHES)]
    return float(accountant.get_epsilon(DELTA))


def trained(asked: dict[str, Any], *, slip: str = "") -> list[float]:
    """A model of the rows."""
    if slip == "seed":
        torch.manual_seed(0)
    rows = torch.tensor(asked["rows"], dtype=torch.float32)
    codes, epochs = int(asked["codes"]), int(asked["epochs"])
    here = rows[:, -2].long()
    one_hot = nn.functional.one_hot(here + 1, codes + 1)[:, 1:] * CODE
    x, y = torch.hstack([rows[:, :-2], one_hot.float()]), rows[:, -1]
    model = nn.Linear(x.shape[1], 1)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    # Opacus samples each row with chance 1 / (batches of the loader): rows that come and go leave it at BATCHES.
    loader = DataLoader(TensorDataset(x, y), batch_size=round(len(rows) / (BATCHES - 0.5)))
    private, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=RATE),
        data_loader=loader,
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
    )
    if len(loader) != BATCHES:
        raise ValueError(f"{len(rows)} rows make {len(loader)} batches, not {BATCHES}")
    if slip == "noise":
        optimizer.noise_multiplier = NOISE / optimizer.expected_batch_size
    if slip == "clip":
        optimizer.max_grad_norm, optimizer.noise_multiplier = 1e6, NOISE * CLIP / 1e6
    for _ in range(epochs):
        for features, labels in [(x, y)] * BATCHES if slip == "batch" else loader:
            optimizer.zero_grad()
            answers = private(features).squeeze(1)
            nn.functional.binary_cross_entropy_with_logits(answers, labels).backward()
            optimizer.step()
    weights = [float(model.bias.detach()), *model.weight.detach().flatten().tolist()]
    return [claimed(epochs), *weights]


def _slipping(slip: str) -> Callable[[Any], list[float]]:
    return lambda asked: trained(asked, slip=slip)


MECHANISMS: dict[str, Callable[[Any], Any]] = {
    "Opacus": trained,
    "noise for a mean, added to a sum": _slipping("noise"),
    "gradients are not clipped": _slipping("clip"),
    "all rows in each step, accounted as a tenth": _slipping("batch"),
    "one seed for every run": _slipping("seed"),
}
