"""Adaptive clipping: its count is a part of the noise that was charged, and C finds the median."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from discreet.accounting import gaussian
from discreet.errors import InvalidParameter
from discreet.learn.torch import PrivateTrainer, clipped_sum
from discreet.learn.torch.clipping import Clipper
from discreet.learn.torch.noise import AdaptiveLimit
from discreet.noise.entropy import SystemEntropy
from tests.learn.torch.nets import ce
from tests.learn.torch.test_trainer import WIDE, N, data, flat, trainer


def slope(model: nn.Module, x: Any) -> Any:
    return model(x)[:, 0]


@pytest.mark.parametrize("sigma", ["1/3", 1, "2.7", 40])
@pytest.mark.parametrize("batch", [1, 64, 1000])
def test_both_parts_of_the_noise_are_what_was_charged(sigma: Any, batch: int) -> None:
    a = AdaptiveLimit(Fraction(sigma), batch)
    total = 1 / a.of_sum**2 + 1 / a.of_count**2
    assert total <= 1 / Fraction(sigma) ** 2 < total * (1 + Fraction(1, 10**6))
    assert a.of_sum <= Fraction(sigma) * Fraction(103, 100)


def parts(scale: float = 1.0) -> float:
    """Return μ² of both parts of a step's noise, that of the sum from what it does to parameters, over the charged."""
    model = nn.Linear(50, 50, bias=False)
    rows = torch.zeros(N, 50)  # no gradient: none is shortened
    t = trainer(model, (rows,), loss_fn=lambda m, x: m(x).sum(1) * 0, noise_multiplier=2, steps=10, clipping="adaptive")
    sums = []
    for batch in t.batches():
        before, limit = flat(model), t.max_grad_norm
        t.step(batch)
        sums.append(float(((flat(model) - before) * 40 / limit).square().mean()) * scale**2)
    noise = 1 / float(np.mean(sums)) + 1 / float(AdaptiveLimit(Fraction(2), 40).of_count) ** 2
    return noise * 4


def test_the_noise_of_the_sum_is_what_the_count_leaves() -> None:
    # 25,000 numbers: known to 0.9 %, and a σ that is 5 % low lies 10 deviations away
    assert abs(parts() - 1) < 0.045
    assert abs(parts(0.95) - 1) > 0.045


def test_the_count_has_its_noise() -> None:
    a = AdaptiveLimit(Fraction(2), 400)
    found = [math.log(a.next(1.0, 0, SystemEntropy())) / -0.2 for _ in range(4000)]  # ~ N(0, 40/800)
    for scale, right in ((1.0, True), (0.9, False)):
        deviation = float(np.std(found)) * scale
        assert (abs(deviation / (40 / 800) - 1) < 6 / math.sqrt(2 * 4000)) == right
    twice = AdaptiveLimit(Fraction(2), 400, replaced=True)
    assert np.std([math.log(twice.next(1.0, 0, SystemEntropy())) for _ in range(1000)]) > 0.2 * 0.09


def test_the_limit_finds_the_median_of_the_norms() -> None:
    x = torch.ones(2000, 1) * torch.linspace(0.1, 8, 2000)[:, None]  # the gradients' norms, median 4
    t = trainer(
        nn.Linear(1, 1, bias=False),
        (x,),
        loss_fn=slope,
        clipping="adaptive",
        rows=2000,
        batch_size=400,
        steps=60,
        max_grad_norm=0.5,
    )
    t.fit()
    assert 3 < t.max_grad_norm < 5
    assert t.privacy_loss == trainer(rows=2000, batch_size=400, steps=60).fit().privacy_loss


def test_one_row_moves_the_count_by_one() -> None:
    x = torch.cat([torch.ones(5, 1) * 3, torch.ones(4, 1), torch.full((1, 1), math.nan)])
    clipper = Clipper.of(nn.Linear(1, 1, bias=False), slope, lambda n: [torch.ones(n, 1)])
    kept = torch.ones(10, dtype=torch.bool)
    assert clipper.sums([x], 2.0, clipping="adaptive").balance == 4 - 5
    for i in range(10):
        kept[:] = True
        kept[i] = False
        found = clipper.sums([x], 2.0, kept=kept, clipping="adaptive").balance
        assert abs(found - (4 - 5)) <= 1
    assert clipper.sums([x], 2.0).balance == 0


@pytest.mark.parametrize("sampling", ["poisson", "fixed", "allocation"])
def test_what_is_charged_is_as_without(sampling: Any) -> None:
    rows = None if sampling == "fixed" else N
    adaptive, flat_ = (trainer(sampling=sampling, rows=rows, steps=10, clipping=c) for c in ("adaptive", "flat"))
    assert adaptive.fit().privacy_loss == flat_.fit().privacy_loss
    assert adaptive.plan().noise == pytest.approx(flat_.plan().noise * 1.02, rel=0.01)
    if sampling == "poisson":
        assert adaptive.privacy_loss == gaussian(1).poisson(adaptive.plan().sampling.rate) * 10  # type: ignore[attr-defined]


def test_the_limit_is_kept_in_a_checkpoint(tmp_path: Path) -> None:
    path, x = tmp_path / "run.ckpt", data()
    t = trainer(dataset=x, clipping="adaptive", steps=9)
    for _ in range(4):
        t.step(t._draw())
    t.save(path)
    model = nn.Linear(WIDE, 2)
    r = PrivateTrainer.resume(path, model, ce, torch.optim.SGD(model.parameters()), x)
    assert r.max_grad_norm == t.max_grad_norm != 1.0
    r.fit()


def test_it_is_refused_where_one_limit_is_needed() -> None:
    with pytest.raises(InvalidParameter, match="clipping='adaptive' does not go with noise='banded'"):
        trainer(clipping="adaptive", noise="banded")
    with pytest.raises(InvalidParameter, match="changes C from step to step"):
        clipped_sum(nn.Linear(WIDE, 2), ce, data(4), max_grad_norm=1.0, clipping="adaptive")
