"""Accuracy of private training beside Opacus: paired runs with the same first weights, σ, q, steps, C and optimizer.

python -m benchmarks.torch_peers                       # Adult; in an environment with opacus and this package
python -m benchmarks.torch_peers --mnist DIRECTORY     # MNIST's 10,000 test images, from their two .gz files
"""

from __future__ import annotations

import argparse
import gzip
import math
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from discreet import data
from discreet.learn.torch import PrivateTrainer
from tests.learn.torch import nets


@dataclass(frozen=True)
class Case:
    """A training: its rows, its net, and what both systems are told."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    net: Callable[[], nn.Module]
    optimizer: Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer]
    batch: int
    epochs: int
    sigma: float = 1.0
    limit: float = 1.0

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return self.epochs * len(self.train[0]) // self.batch

    def accuracy(self, model: nn.Module) -> float:
        """Return the share of test rows that a model gets right."""
        with torch.no_grad():
            return float((model.eval()(self.test[0]).argmax(1) == self.test[1]).double().mean())


def adult() -> Case:
    """Return Adult: 30,000 rows to train on, 15,222 to test."""
    import pandas as pd

    people = pd.read_parquet(data.adult())
    wide = pd.get_dummies(people[["relationship", "education"]].astype(str))
    columns: list[Any] = [people["age"] / 45 - 1, people["hours"] / 50 - 1, wide]
    x = torch.tensor(pd.concat(columns, axis=1).to_numpy("float32", na_value=0))
    y = torch.tensor((people["income"] == ">50K").to_numpy("int64"))

    def net() -> nn.Module:
        return nn.Sequential(nn.Linear(x.shape[1], 64), nn.Tanh(), nn.Linear(64, 2))

    parts = (x[:30000], y[:30000]), (x[30000:], y[30000:])
    return Case(*parts, net, lambda p: torch.optim.Adam(p, lr=0.01), batch=500, epochs=4)


def mnist(at: Path) -> Case:
    """Return MNIST's 10,000 test images: 8,000 to train on, 2,000 to test."""
    images, labels = (next(at.glob(f"*{kind}*.gz")) for kind in ("images", "labels"))
    x = np.frombuffer(gzip.decompress(images.read_bytes())[16:], np.uint8).reshape(-1, 1, 28, 28)
    y = torch.tensor(np.frombuffer(gzip.decompress(labels.read_bytes())[8:], np.uint8), dtype=torch.int64)
    of = torch.tensor(x).float() / 127.5 - 1
    parts = (of[:8000], y[:8000]), (of[8000:], y[8000:])
    return Case(*parts, lambda: nets.mnist()[0], lambda p: torch.optim.SGD(p, lr=0.5), batch=250, epochs=4)


def ours(case: Case) -> float:
    """Return the accuracy of this package's training."""
    model = case.net()
    asked: dict[str, Any] = {"noise_multiplier": case.sigma, "steps": case.steps, "rows": len(case.train[0])}
    asked |= {"batch_size": case.batch, "max_grad_norm": case.limit}
    PrivateTrainer(model, nets.ce, case.optimizer(model.parameters()), case.train, **asked).fit()
    return case.accuracy(model)


def theirs(case: Case) -> float:
    """Return the accuracy of Opacus' training."""
    from opacus import PrivacyEngine

    model = case.net()
    loader = DataLoader(TensorDataset(*case.train), batch_size=case.batch)
    wrapped, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=case.optimizer(model.parameters()),
        data_loader=loader,
        noise_multiplier=case.sigma,
        max_grad_norm=case.limit,
    )
    for _ in range(case.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            mean: Any = nn.functional.cross_entropy(wrapped(x), y)
            mean.backward()
            optimizer.step()
    return case.accuracy(model)


def main() -> None:
    """Print each pair, and the mean difference with its standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    case = mnist(asked.mnist) if asked.mnist else adult()
    pairs = []
    for seed in range(asked.runs):
        found = []
        for train in (ours, theirs):
            torch.manual_seed(seed)
            found.append(train(case))
        pairs.append(found)
        print(f"{seed}: {found[0]:.4f} here, {found[1]:.4f} with Opacus", file=sys.stderr, flush=True)
        if seed:
            away = [a - b for a, b in pairs]
            means = [statistics.mean(x) for x in zip(*pairs, strict=True)]
            error = statistics.stdev(away) / math.sqrt(len(away))
            said = f"{means[0]:.4f} here, {means[1]:.4f} with Opacus: {statistics.mean(away):+.4f} ± {error:.4f}"
            print(f"{len(pairs)} pairs of {case.steps} steps: {said}", flush=True)


if __name__ == "__main__":
    main()
