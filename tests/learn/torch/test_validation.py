"""Validation: public rows, or a loss that was paid for before the first step."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from discreet.errors import InvalidParameter
from discreet.learn.torch import PrivateTrainer
from discreet.learn.torch.validation import Validation
from discreet.noise.entropy import SystemEntropy
from tests.learn.torch.nets import ce
from tests.learn.torch.test_trainer import WIDE, N, data, trainer

HELD: dict[str, Any] = {"validation_epsilon": "0.5", "validation_bound": 2, "validations": 4}


class Half(nn.Module):
    """Dropout, which validation switches off."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.drop = nn.Linear(WIDE, 2), nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        return self.linear(self.drop(x))


def test_public_rows_show_their_mean_loss_at_any_time(capsys: pytest.CaptureFixture[str]) -> None:
    model, held = Half(), data(101)
    t = trainer(model, validation=held, validations=3, steps=60)
    wanted = float(ce(model.eval(), *held).detach().mean())
    model.train()
    assert t.validate() == pytest.approx(wanted, rel=1e-5)
    assert model.drop.training
    assert t.spent(1e-5) == 0
    t.fit(progress=True)
    assert [step for step, _ in t.validated] == [0, 20, 40, 60]
    assert f"validation {t.validated[-1][1]:.4g}" in capsys.readouterr().err
    assert t.validated[-1][1] < wanted


def test_private_rows_are_paid_for_up_front_and_only_so_often() -> None:
    t = trainer(validation=data(300), **HELD, steps=8)
    plain = trainer(steps=8)
    assert t.spent(1e-5) == 0
    with pytest.raises(InvalidParameter, match="paid for 4 times in a run, and the next one is not due"):
        t.validate()
    batches = t.batches()
    t.step(next(batches))
    plain.step(next(plain.batches()))
    assert t.spent(1e-5) > plain.spent(1e-5) + 0.3
    for batch in batches:
        t.step(batch)
        if batch.step % 2 == 0:
            t.validate()
        with pytest.raises(InvalidParameter, match="not due"):
            t.validate()
    assert t.spent(1e-5) <= plain.fit().spent(1e-5) + 0.5


@pytest.mark.parametrize("rows", [N, None])
def test_epsilon_pays_for_both(rows: int | None) -> None:
    t = trainer(rows=rows, noise_multiplier=None, epsilon=3, delta=1e-5, validation=data(200), **HELD)
    t.fit()
    assert len(t.validated) == 4
    assert 2.8 < t.spent(1e-5) <= 3
    with pytest.raises(InvalidParameter, match="leaves nothing of epsilon"):
        trainer(noise_multiplier=None, epsilon="0.5", delta=1e-5, validation=data(200), **HELD)


def fixed(model: nn.Module, x: Any, y: Any) -> Any:
    return x[:, 0] + 0 * model(x).sum(1)


def test_a_paid_loss_is_the_clipped_mean_with_noise_of_the_stated_size() -> None:
    x = torch.zeros(1000, WIDE)
    x[:500, 0], x[500:900, 0], x[900:, 0] = 0.5, 5, torch.nan  # 5 and no number count as the bound, 2
    source = trainer(dataset=(x, torch.zeros(1000)), loss_fn=fixed)._source
    model, rng = nn.Linear(WIDE, 1), SystemEntropy()
    assert source is not None
    held = Validation.of(source, 1, 1, 2)
    found = np.array([held.loss(model, fixed, 512, rng) for _ in range(400)])
    # Σ(loss − 1) = 250 has noise of scale 2, the count of scale 2: the mean is off by √8·√(1 + 0.25²)/1000
    deviation = 8**0.5 * (1 + 0.25**2) ** 0.5 / 1000
    assert abs(found.mean() - 1.25) < 6 * deviation / 20
    assert 0.7 < found.std() / deviation < 1.4
    assert not 0.7 < found.std() / deviation / 2 < 1.4
    empty = trainer(dataset=(x[:1], torch.zeros(1)), loss_fn=fixed)._source
    assert empty is not None
    assert all(0 <= Validation.of(empty, 3, "0.1", 2).loss(model, fixed, 512, rng) <= 2 for _ in range(20))


def test_a_resumed_run_has_what_was_not_due_yet(tmp_path: Path) -> None:
    path, x = tmp_path / "run.ckpt", data()
    t = trainer(dataset=x, validation=x, **HELD, steps=40)
    t.save(path)
    for _ in range(11):
        t.step(t._draw())
    model = nn.Linear(WIDE, 2)
    r = PrivateTrainer.resume(path, model, ce, torch.optim.SGD(model.parameters()), x, validation=x)
    assert r._set_apart == Fraction(1, 2)
    with pytest.raises(InvalidParameter, match="not due"):
        r.validate()
    r.fit()
    assert [step for step, _ in r.validated] == [20, 30, 40]
    assert r.privacy_loss == trainer(dataset=x, validation=x, **HELD, steps=40).fit().privacy_loss
    without = PrivateTrainer.resume(path, model, ce, torch.optim.SGD(model.parameters()), x)
    assert without.privacy_loss == r.privacy_loss


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"validation": True, "validation_epsilon": 1}, "are given together"),
        ({"validation": True, "validation_bound": 1}, "are given together"),
        ({"validation_epsilon": 1, "validation_bound": 1}, "go with validation="),
        ({"validation": True, "validations": 0}, "validations must be"),
    ],
)
def test_what_is_not_whole_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        trainer(**asked | ({"validation": data(9)} if "validation" in asked else {}))
    with pytest.raises(InvalidParameter, match="There is no validation set"):
        trainer().validate()
