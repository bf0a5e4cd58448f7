"""Two processes train one model: together they take the sampled batch, and noise is added once."""

from __future__ import annotations

import importlib
import math
import os
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from discreet.errors import InvalidParameter
from discreet.learn.torch import PrivateTrainer, clipped_sum
from discreet.learn.torch.session import training_of
from tests.learn.torch.nets import ce

pytestmark = pytest.mark.skipif(not hasattr(os, "fork") or not dist.is_gloo_available(), reason="gloo and fork")

N, STEPS, WIDE = 60, 8, 250


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    importlib.import_module("torch._dynamo")  # what DistributedDataParallel imports, once for all children


def on_two(at: Path, run: Callable[[int], Any]) -> list[Any]:
    """Return what two processes return of a function of their rank."""
    children = []
    for rank in range(2):
        child = os.fork()
        if not child:
            code = 1
            try:
                torch.manual_seed(rank)
                where = f"file://{at / 'meet'}"
                dist.init_process_group("gloo", where, timedelta(seconds=60), world_size=2, rank=rank)
                torch.save(run(rank), at / f"{rank}.pt")
                dist.destroy_process_group()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    (at / "meet").unlink(missing_ok=True)
    return [torch.load(at / f"{rank}.pt", weights_only=False) for rank in range(2)]


def rows() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(N, WIDE, generator=generator), torch.randint(0, 3, (N,), generator=generator)


class Seen(PrivateTrainer):
    """Keeps the noisy sums, and takes no step."""

    def _take(self, noisy: NDArray[np.float64]) -> None:
        self.__dict__.setdefault("seen", []).append(noisy)


class Unnoised(Seen):
    """Noise is added by no process."""

    def _noisy(self, total: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.ldexp(total.astype(np.float64), self._noise().grid.exponent)


class NoisedTwice(Seen):
    """Each process adds the whole noise to its share."""

    def _noisy(self, total: NDArray[np.int64]) -> NDArray[np.float64]:
        noise = self._noise()
        twice = total + self._ranks.added(noise.drawn(total.size, self._rng))
        return np.ldexp(twice.astype(np.float64), noise.grid.exponent)


def trainer(
    kind: type[PrivateTrainer] = Seen,
    model: Callable[[], nn.Module] = lambda: nn.Linear(WIDE, 3),
    dataset: Any = None,
    **more: Any,
) -> PrivateTrainer:
    ddp = DistributedDataParallel(model())
    asked: dict[str, Any] = {"noise_multiplier": 1, "steps": STEPS, "rows": N, "batch_size": 12, "physical_batch": 4}
    asked |= {"max_grad_norm": 1.0, **more}
    sgd = torch.optim.SGD(ddp.parameters(), lr=0.1)
    return kind(ddp, ce, sgd, rows() if dataset is None else dataset, **asked)


def stepped(t: PrivateTrainer) -> list[NDArray[np.int64]]:
    """Take all steps, and return which rows each had."""
    places = []
    for batch in t.batches():
        t.step(batch)
        places.append(batch._places)
    return places


def noise_of(kind: type[PrivateTrainer]) -> Callable[[int], Any]:
    def run(rank: int) -> Any:
        t = trainer(kind, batch_size=1)
        places = stepped(t)
        return {"seen": t.__dict__["seen"], "places": places, "model": t.model.state_dict(), "of": t._noise().deviation}

    return run


def variance_in_deviations(found: list[Any]) -> float:
    """Return by how many deviations the variance of the noise is away from what is charged."""
    one, data = found[0], rows()
    model = nn.Linear(WIDE, 3)
    model.load_state_dict(one["model"])
    noise = []
    for noisy, *places in zip(one["seen"], *(f["places"] for f in found), strict=True):
        together = torch.from_numpy(np.concatenate(places))
        sums = clipped_sum(model, ce, [x[together] for x in data], max_grad_norm=1.0)
        noise.append(noisy - torch.cat([g.flatten() for g in sums.values()]).numpy())
    squares = np.concatenate(noise) ** 2 / one["of"] ** 2
    return float((squares.mean() - 1) * math.sqrt(squares.size / 2))


def test_noise_is_added_once(tmp_path: Path) -> None:
    found = on_two(tmp_path, noise_of(Seen))
    assert abs(variance_in_deviations(found)) < 5
    assert all(np.array_equal(a, b) for a, b in zip(found[0]["seen"], found[1]["seen"], strict=True))


@pytest.mark.parametrize("kind", [Unnoised, NoisedTwice])
def test_a_wrong_law_of_noise_is_found(kind: type[PrivateTrainer], tmp_path: Path) -> None:
    assert abs(variance_in_deviations(on_two(tmp_path, noise_of(kind)))) > 20


@pytest.mark.parametrize("scheme", ["poisson", "allocation", "fixed"])
def test_the_processes_take_the_whole_batch_between_them(scheme: str, tmp_path: Path) -> None:
    def run(rank: int) -> Any:
        t = trainer(noise_multiplier="1e-4", sampling=scheme, steps=20)
        places = stepped(t)
        return {"seen": t.__dict__["seen"], "places": places, "model": t.model.state_dict()}

    found, data, model = on_two(tmp_path, run), rows(), nn.Linear(WIDE, 3)
    model.load_state_dict(found[0]["model"])
    batches = [np.concatenate(places) for places in zip(*(f["places"] for f in found), strict=True)]
    for places, noisy in zip(batches, found[0]["seen"], strict=True):
        assert len(np.unique(places)) == len(places)
        sums = clipped_sum(model, ce, [x[torch.from_numpy(places)] for x in data], max_grad_norm=1.0)
        exact = torch.cat([g.flatten() for g in sums.values()]).numpy()
        assert np.abs(noisy - exact).max() < 1e-3
    sizes = [len(places) for places in batches]
    assert all(abs(len(a) - len(b)) <= 1 for a, b in zip(*(f["places"] for f in found), strict=True))
    if scheme == "fixed":
        assert set(sizes) == {12}
    elif scheme == "allocation":
        assert sorted(np.concatenate(batches[:5])) == [*range(N)]
    else:  # 20 times 60 coins of 1/5
        assert abs(sum(sizes) - 240) < 6 * math.sqrt(240 * 0.8)


def test_all_go_on_alike_from_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"

    def run(rank: int) -> Any:
        asked: dict[str, Any] = {"noise_multiplier": None, "epsilon": 2, "delta": "1e-5", "rows": None}
        t = trainer(PrivateTrainer, **asked)
        batches = t.batches()
        for _ in range(3):
            t.step(next(batches))
        t.save(path)
        dist.barrier()
        model = DistributedDataParallel(nn.Linear(WIDE, 3))
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        r = PrivateTrainer.resume(path, model, ce, sgd, rows())
        begun = r._begun
        r.fit()
        return {"model": r.model.state_dict(), "begun": begun, "plan": (t.plan().rows, r.plan().rows), "spent": r.spent}

    def plain(rank: int) -> Any:
        found = run(rank)
        return found | {"spent": found["spent"]("1e-5")}

    one, other = on_two(tmp_path, plain)
    assert one["begun"] == other["begun"] == 3
    assert one["plan"] == other["plan"] and one["plan"][0] == one["plan"][1]
    assert one["spent"] == other["spent"] <= 2
    assert all(torch.equal(one["model"][name], other["model"][name]) for name in one["model"])


def test_what_takes_one_process_is_refused_in_two(tmp_path: Path) -> None:
    def run(rank: int) -> Any:
        said = []
        more: list[dict[str, Any]] = [{"clipping": "adaptive"}, {"noise": "tree", "sampling": "cyclic"}]
        for asked in [*more, {"validation": rows()}]:
            with pytest.raises(InvalidParameter, match="several processes"):
                trainer(**asked)
            said.append(1)
        model = DistributedDataParallel(nn.Linear(2, 2))
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        asked = {"epsilon": 1, "delta": "1e-5", "steps": 2, "batch_size": 2, "max_grad_norm": 1.0}
        with pytest.raises(InvalidParameter, match="in one process"):
            training_of(PrivateTrainer(model, ce, sgd, **asked), [])  # type: ignore[arg-type]
        return said

    assert on_two(tmp_path, run) == [[1, 1, 1]] * 2


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({"batch_size": 13}, "settings"),
        ({"epochs": 3, "steps": None}, "settings"),
        ({"max_grad_norm": 2.0**-3}, "settings, grid"),
        ({"dataset": tuple(x[:-1] for x in rows())}, "number of rows"),
        ({"model": lambda: nn.Sequential(nn.Linear(WIDE, 3), nn.Unflatten(1, (1, 3)), nn.Flatten())}, "trained param"),
    ],
)
def test_processes_that_differ_are_refused_before_a_charge(more: dict[str, Any], name: str, tmp_path: Path) -> None:
    def run(rank: int) -> Any:
        t = trainer(**(more if rank else {}))
        with pytest.raises(InvalidParameter, match=f"differ in {name}"):
            t.fit()
        return t._begun

    assert on_two(tmp_path, run) == [0, 0]


def test_processes_that_freeze_other_parameters_are_refused(tmp_path: Path) -> None:
    def run(rank: int) -> Any:
        t = trainer()
        t.model.bias.requires_grad_(not rank)
        with pytest.raises(InvalidParameter, match="differ in trained parameters"):
            t.fit()
        t.model.bias.requires_grad_(True)
        for batch in t.batches():
            t.model.bias.requires_grad_(not rank)
            with pytest.raises(InvalidParameter, match="differ in trained parameters"):
                t.step(batch)
            break
        return t._begun

    assert on_two(tmp_path, run) == [1, 1]


def test_sharded_models_are_refused_by_name() -> None:
    sharded: type[Any] = type("FullyShardedDataParallel", (nn.Sequential,), {})
    model = sharded(nn.Linear(WIDE, 3))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(InvalidParameter) as error:
        PrivateTrainer(model, ce, sgd, rows(), noise_multiplier=1, steps=1, rows=N, batch_size=1, max_grad_norm=1.0)
    assert "FullyShardedDataParallel" in str(error.value)
