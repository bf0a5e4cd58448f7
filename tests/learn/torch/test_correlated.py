"""Noise that is correlated over steps: what runs is what is charged, and a run goes on from its last step or not."""

from __future__ import annotations

import math
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from discreet.accounting import gaussian
from discreet.errors import InvalidParameter
from discreet.learn.torch import PrivateTrainer, checkpoint
from discreet.learn.torch.batches import Parts
from discreet.mechanisms.binary_tree import BlockTree
from discreet.mechanisms.square_root import Banded
from discreet.privacy.sampling import PoissonEvent
from tests.learn.torch.nets import ce
from tests.learn.torch.test_trainer import WIDE, N, data, flat, trainer

KINDS: list[dict[str, Any]] = [
    {"noise": "tree", "sampling": "cyclic"},
    {"noise": "banded", "sampling": "cyclic"},
    {"noise": "banded", "bands": 3},
]


def measured(factors: Any, steps: int) -> NDArray[Any]:
    """R, one row for each number that is measured."""
    if isinstance(factors, BlockTree):
        rows = [(h, k) for h in range(factors.levels) for k in range(steps >> h)]
        return np.array([[float(k << h <= t < (k + 1) << h) for t in range(steps)] for h, k in rows])
    column = np.array([*factors.column, *[0] * steps]) / 2.0**factors.bits
    return np.array([[column[i - j] if i >= j else 0 for j in range(steps)] for i in range(steps)])


def variance_of_steps(asked: dict[str, Any], scale: float = 1.0) -> float:
    """Return the variance of noise, made white by what should be its law, over that of the charged σ."""
    model, steps, width = nn.Linear(60, 60, bias=False), 20, 3600

    def nothing(model: nn.Module, x: Tensor) -> Tensor:
        return model(x).sum(1) * 0

    t = trainer(model, (torch.zeros(N, 60),), loss_fn=nothing, noise_multiplier=2, steps=steps, **asked)
    found = []
    with pytest.warns(UserWarning, match="not to be told from noise"):
        for batch in t.batches():
            before = flat(model)
            t.step(batch)
            found.append((flat(model) - before).numpy() * scale * t.plan().expected_batch)
    ((event, _),) = t.privacy_loss.events
    event = event.event if isinstance(event, PoissonEvent) else event
    assert event.mu_squared is not None
    sampling = t.plan().sampling
    assert isinstance(sampling, Parts)
    r = measured(t._noise().factors, steps)
    # the rows of a part together: where nothing is sampled, all of its steps are one use
    parts = range(sampling.parts)
    taken = [sum(r[:, s] for s in range(p, steps, sampling.parts)) for p in parts] if sampling.rate == 1 else [*r.T]
    longest = max(float(np.linalg.norm(x)) for x in taken)
    if isinstance(t._noise().factors, Banded):
        white = r @ np.array(found)
    else:
        weights = []
        for s in range(1, steps + 1):
            seen = ~r[:, s:].any(axis=1)
            weights.append(np.zeros(len(r)))
            weights[-1][seen] = np.ones(s) @ np.linalg.pinv(r[seen][:, :s])
        white = np.linalg.solve(np.linalg.cholesky(np.array(weights) @ np.array(weights).T), np.cumsum(found, axis=0))
    assert white.shape == (steps, width)
    return float((white**2).mean()) * float(event.mu_squared) / longest**2


@pytest.mark.parametrize("asked", KINDS)
def test_the_noise_is_that_of_the_charged_multiplier(asked: dict[str, Any]) -> None:
    # 72,000 numbers: the variance is known to 0.5 %, and a σ that is 5 % low lies 18 deviations away
    assert abs(variance_of_steps(asked) - 1) < 0.03
    assert abs(variance_of_steps(asked, 0.95) - 1) > 0.03


def test_cyclic_runs_are_one_use_and_sampled_ones_a_use_for_each_participation() -> None:
    for asked in KINDS[:2]:
        t = trainer(**asked, steps=37)
        assert t.spent(1e-5) == 0
        t.step(next(t.batches()))
        assert t.privacy_loss == gaussian(1)
        assert t.fit().privacy_loss == gaussian(1)
    t = trainer(**KINDS[2], steps=37)
    rate = Fraction(3 * 40 * 2**32 // N, 2**32)
    assert t.fit().privacy_loss == gaussian(1).poisson(rate) * 13
    assert t.plan().expected_batch == pytest.approx(40)


def test_the_noise_multiplier_is_solved_for() -> None:
    for asked in KINDS:
        t = trainer(**asked, noise_multiplier=None, epsilon=2, delta=1e-5, steps=None, epochs=3)
        assert 1.99 < t.fit().spent(1e-5) <= 2
        t = trainer(**asked, noise_multiplier=None, epsilon=2, delta=1e-5, steps=30, rows=None)
        assert 1.99 < t.fit().spent(1e-5) <= 2


def test_a_row_takes_part_in_each_pass_at_one_step() -> None:
    t = trainer(**KINDS[1], steps=30)
    drawn = []
    for batch in t.batches():
        drawn.append(batch._places.tolist())
        t.step(batch)
    assert sorted(row for places in drawn[:10] for row in places) == list(range(N))
    assert drawn[:10] == drawn[10:20] == drawn[20:]
    sizes = np.array([len(x) for x in drawn[:10]])
    assert 40 * 0.9 / 6 < sizes.var() < 40 * 0.9 * 4  # parts of one size, as of shuffled rows, have none


def test_a_sampled_step_has_rows_of_its_part_at_the_charged_rate() -> None:
    t = trainer(**KINDS[2], steps=300)
    drawn = []
    for batch in t.batches():
        drawn.append(batch._places)
        t._latest = None
        t._begun -= 1  # so that no step need be taken
        if len(drawn) == 300:
            break
    for part in range(3):
        assert not set(np.concatenate(drawn[part::3])) & set(np.concatenate(drawn[(part + 1) % 3 :: 3]))
    sizes, rate = np.array([len(x) for x in drawn]), float(t.plan().sampling.rate)  # type: ignore[attr-defined]
    people = np.bincount(t._part_of)
    assert abs(sizes.mean() - N / 3 * rate) < 6 * math.sqrt(N / 3 * rate * (1 - rate) / 300)
    assert abs(sizes[::3].var() / (people[0] * rate * (1 - rate)) - 1) < 6 * math.sqrt(2 / 100)


@pytest.mark.parametrize("asked", KINDS)
def test_without_noise_a_step_is_its_clipped_sum(asked: dict[str, Any]) -> None:
    x = data()
    models = [nn.Linear(WIDE, 2) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    t = trainer(models[0], x, **asked, noise_multiplier="1e-7", steps=25)
    plain = trainer(models[1], x, noise_multiplier="1e-7", steps=25)
    for batch, other in zip(t.batches(), plain.batches(), strict=True):
        object.__setattr__(other, "_places", batch._places)
        t.step(batch)
        plain.step(other)
        scale = plain.plan().expected_batch / t.plan().expected_batch
        assert scale == pytest.approx(1, rel=0.01)
        assert torch.allclose(flat(models[0]), flat(models[1]), atol=1e-3)


def test_sums_over_steps_have_less_noise_than_independent_ones_of_the_same_cost() -> None:
    def noise(**more: Any) -> float:
        return trainer(noise_multiplier=None, epsilon=4, delta=1e-5, steps=200, batch_size=20, **more).plan().noise

    # without samples: independent noise on 10 participations of each row, accounted as one use
    independent = noise(noise="banded", bands=1, sampling="cyclic")
    banded, tree = noise(noise="banded", sampling="cyclic"), noise(noise="tree", sampling="cyclic")
    assert banded < tree < independent / 2
    assert noise(noise="banded", bands=2) < noise()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"noise": "pink"}, "noise must be 'independent', 'tree' or 'banded'"),
        ({"noise": "tree"}, "sampling='poisson' does not go with noise='tree'"),
        ({"noise": "banded", "sampling": "fixed", "rows": None}, "sampling='fixed' does not go with noise='banded'"),
        ({"noise": "tree", "sampling": "allocation"}, "sampling='allocation' does not go with noise='tree'"),
        ({"sampling": "cyclic"}, "sampling='cyclic' does not go with noise='independent'"),
        ({"noise": "tree", "sampling": "cyclic", "bands": 3}, "bands= does not go with noise='tree'"),
        ({"bands": 3}, "bands= does not go with noise='independent'"),
        ({"noise": "banded", "steps": 1 << 21}, "takes at most 1,048,576 steps"),
        ({"noise": "tree", "sampling": "cyclic", "steps": None, "epsilon": 1, "delta": 1e-5}, "costs the same for any"),
    ],
)
def test_what_does_not_go_together_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        trainer(**asked)
    assert said in str(refused.value)


def test_parts_smaller_than_the_batch_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="Each of 10 parts of 400 rows is smaller than batch_size = 40"):
        trainer(noise="banded", bands=10).plan()


def test_every_batch_is_stepped() -> None:
    t = trainer(**KINDS[0])
    batches = t.batches()
    first = next(batches)
    with pytest.raises(InvalidParameter, match="Step 1 was drawn and not stepped"):
        t._draw()
    with pytest.raises(InvalidParameter, match="Step 1 was drawn and not stepped"):
        t.save("nowhere")
    t.step(first)
    for p in t.model.parameters():
        p.requires_grad_(False)
        break
    with pytest.raises(InvalidParameter, match="must stay trained"):
        t.step(t._draw())


# ------------------------------------------------------------------ checkpoints
def resumed(path: Path, x: Any) -> PrivateTrainer:
    model = nn.Linear(WIDE, 2)
    return PrivateTrainer.resume(path, model, ce, torch.optim.SGD(model.parameters(), lr=1.0), x)


@pytest.mark.parametrize("asked", KINDS)
def test_a_run_goes_on_from_its_last_step_alone(asked: dict[str, Any], tmp_path: Path) -> None:
    path, other, x = tmp_path / "run.ckpt", tmp_path / "other.ckpt", data()
    t = trainer(dataset=x, **asked, steps=15)
    for _ in range(7):
        t.step(t._draw())
    t.save(other)
    t.save(path)
    secret = tmp_path / "run.ckpt.secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert not (tmp_path / "other.ckpt.secret").exists()
    with pytest.raises(InvalidParameter, match=r"other\.ckpt\.secret is missing"):
        resumed(other, x)
    assert checkpoint.read(path).keys() == {"version", "run", "begun", "settings", "model", "optimizer"}
    kept = secret.read_bytes()
    r = resumed(path, x)
    assert r.privacy_loss == t.privacy_loss
    assert np.array_equal(r._part_of, t._part_of)
    assert r._correlated is not None and t._correlated is not None
    for one, two in zip(r._correlated.state[0], t._correlated.state[0], strict=True):
        assert str(one) == str(two)
    batches = r.batches()
    r.step(next(batches))
    assert not secret.exists()  # it has gone on
    secret.write_bytes(kept)
    with pytest.raises(InvalidParameter, match="older than the last step that was begun"):
        resumed(path, x)
    for batch in batches:
        r.step(batch)
    assert r._begun == 15
    assert r.privacy_loss == trainer(dataset=x, **asked, steps=15).fit().privacy_loss


@pytest.mark.parametrize("asked", KINDS[:2])
def test_a_resumed_run_is_the_same_run(asked: dict[str, Any], tmp_path: Path) -> None:
    path, x = tmp_path / "run.ckpt", data()
    t = trainer(dataset=x, **asked, noise_multiplier="1e-7", steps=13)
    for _ in range(6):
        t.step(t._draw())
    t.save(path)
    r, t._paths = resumed(path, x), []
    for _ in range(7):
        t.step(t._draw())
        r.step(r._draw())
    assert torch.allclose(flat(t.model), flat(r.model), atol=1e-4)
