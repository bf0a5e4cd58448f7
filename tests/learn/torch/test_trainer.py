"""Private training: what is charged is what runs, what is refused, and what leaves."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from discreet.accounting import gaussian, random_allocation
from discreet.errors import InvalidParameter
from discreet.learn.torch import PrivateTrainer, checkpoint, clipped_sum, make_private
from discreet.learn.torch.batches import RowBatch, random_order
from discreet.learn.torch.layers import WHOLE
from discreet.learn.torch.noise import GridNoise
from discreet.noise.entropy import SystemEntropy, process
from discreet.privacy.sampling import PoissonEvent
from tests.learn.torch.nets import ce, net

N, WIDE = 400, 6


def data(rows: int = N) -> tuple[Tensor, Tensor]:
    x = torch.randn(rows, WIDE)
    return x, (x[:, 0] > 0).long()


def trainer(model: nn.Module | None = None, dataset: Any = None, lr: float = 1.0, **more: Any) -> PrivateTrainer:
    model = nn.Linear(WIDE, 2) if model is None else model
    asked = {"noise_multiplier": 1, "steps": 5, "rows": N, "batch_size": 40, "max_grad_norm": 1.0} | more
    asked = {name: value for name, value in asked.items() if value is not None}
    loss = asked.pop("loss_fn", ce)
    optimizer = asked.pop("optimizer", None) or torch.optim.SGD(model.parameters(), lr=lr)
    return PrivateTrainer(model, loss, optimizer, data() if dataset is None else dataset, **asked)


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().double().flatten() for p in model.parameters()])


# ------------------------------------------------------------------ what runs is what is charged
def variance_of_steps(scale: float = 1.0) -> float:
    """Return the variance of what steps without a gradient add, over that of the charged σ."""
    model = nn.Linear(100, 100, bias=False)

    def nothing(model: nn.Module, x: Tensor) -> Tensor:
        return model(x).sum(1) * 0

    t = trainer(model, (torch.zeros(N, 100),), loss_fn=nothing, noise_multiplier=2, max_grad_norm=0.5, steps=8)
    assert t.privacy_loss.epsilon() == 0
    found = []
    for batch in t.batches():
        before = flat(model)
        t.step(batch)
        found.append((flat(model) - before) * scale)
    ((event, times),) = t.privacy_loss.events
    assert isinstance(event, PoissonEvent)
    assert event.event.mu_squared is not None
    assert times == 8
    charged = 1 / math.sqrt(float(event.event.mu_squared)) * 0.5 / t.plan().expected_batch
    return float(torch.cat(found).square().mean()) / charged**2


def test_the_noise_is_that_of_the_charged_multiplier() -> None:
    # 80,000 numbers: the variance is known to 0.5 %, and a σ that is 5 % low lies 20 deviations away
    assert abs(variance_of_steps() - 1) < 0.03
    assert abs(variance_of_steps(0.95) - 1) > 0.03


def test_batches_are_poisson_samples_at_the_charged_rate() -> None:
    t = trainer(steps=300, physical_batch=8)
    drawn = [t._draw()._places for _ in range(300)]
    ((event, times),) = t.privacy_loss.events
    assert isinstance(event, PoissonEvent)
    rate = float(event.rate)
    assert times == 300
    assert rate == pytest.approx(0.1, rel=1e-8)
    sizes = np.array([len(places) for places in drawn])
    assert abs(sizes.mean() - N * rate) < 6 * math.sqrt(N * rate * (1 - rate) / 300)
    variance = N * rate * (1 - rate)
    assert abs(sizes.var() / variance - 1) < 6 * math.sqrt(2 / 300)  # a fixed size has none
    missed = N - len(np.unique(np.concatenate(drawn[:10])))  # shuffled epochs miss nobody
    expected = N * (1 - rate) ** 10
    assert abs(missed - expected) < 6 * math.sqrt(expected)


@pytest.mark.parametrize("physical", [1, 7, 64, None])
def test_a_step_is_the_clipped_sum_of_its_rows_over_the_expected_batch(physical: int | None) -> None:
    model, loss, batch_of = net("causal, tied")
    dataset = batch_of(60)
    t = trainer(
        model, dataset, loss_fn=loss, noise_multiplier="1e-7", rows=60, batch_size=9, physical_batch=physical, steps=2
    )
    for batch in t.batches():
        rows = [x[batch._places] for x in dataset]
        wanted = clipped_sum(model, loss, rows, max_grad_norm=1.0)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        t.step(batch)
        for name, p in model.named_parameters():
            assert torch.allclose(before[name] - p.detach(), wanted[name] / t.plan().expected_batch, atol=2e-5)


def test_buffers_do_not_tell_how_often_a_model_ran() -> None:
    model = nn.utils.parametrizations.spectral_norm(nn.Linear(WIDE, 2))
    own = trainer(model, physical_batch=8)
    with torch.no_grad():
        for p in model.parameters():  # the norm that the buffers follow is another one now
            p.copy_(torch.arange(1.0, p.numel() + 1).cos().reshape(p.shape))
    before = {name: b.clone() for name, b in model.named_buffers()}
    own.step(next(own.batches()))
    assert before and all(torch.equal(b, before[name]) for name, b in model.named_buffers())


def test_an_empty_batch_is_noise_alone() -> None:
    t = trainer(batch_size=1, steps=3)
    batch = t._draw()
    object.__setattr__(batch, "_places", batch._places[:0])
    before = flat(t.model)
    t.step(batch)
    assert not torch.equal(before, flat(t.model))


def test_the_schemes_are_charged_as_their_own_events() -> None:
    sigma, count = Fraction(3, 2), 12
    fixed = trainer(sampling="fixed", rows=None, noise_multiplier=sigma, steps=count)
    assert fixed.fit().privacy_loss == gaussian(sigma).fixed_size(40, N) * count
    one = trainer(sampling="allocation", noise_multiplier=sigma, steps=count)
    assert one.plan().steps == 20
    assert one.fit().privacy_loss == random_allocation(sigma, 10) * 2
    poisson = trainer(noise_multiplier=sigma, steps=count)
    assert poisson.fit().spent(1e-5) == pytest.approx((gaussian(sigma).poisson(0.1) * count).epsilon(1e-5), rel=1e-6)


def test_each_row_is_in_one_step_of_a_pass_of_an_allocation() -> None:
    t = trainer(sampling="allocation", steps=20)
    drawn = [batch._places for batch in t.batches()]
    assert sorted(np.concatenate(drawn[:10])) == sorted(np.concatenate(drawn[10:])) == list(range(N))


def test_replaced_rows_get_noise_for_twice_the_norm() -> None:
    one, two = (GridNoise(Fraction(1), Fraction(1), 10, 8, (1,), replaced) for replaced in (False, True))
    assert two.deviation == pytest.approx(2 * one.deviation, rel=1e-4)
    assert 1 < one.deviation < 1.0002


@pytest.mark.parametrize("limit", [1e-6, 0.37, 1.0, 1e6])
@pytest.mark.parametrize("width", [1, 1000, 10**8])
@pytest.mark.parametrize("piece", [1, 512, 1 << 20])
def test_the_grid_is_fine_and_its_sums_are_exact(limit: float, width: int, piece: int) -> None:
    noise = GridNoise(Fraction(limit), Fraction(1), width, piece, (1, WHOLE))
    assert float(noise.grid.step) * math.sqrt(width) <= limit * 2.0**-16
    assert piece * limit / float(noise.grid.step) < 2**53
    assert noise.rounding < Fraction(1, 200)


def test_noise_is_of_the_parameters_that_were_differentiated() -> None:
    model = nn.Sequential(nn.Linear(WIDE, 4), nn.Flatten(), nn.Linear(12, 2))
    t = trainer(model, (torch.randn(N, 3, WIDE), torch.zeros(N).long()), steps=30)
    for number, batch in enumerate(t.batches()):
        if number == 2:
            model[0].weight.requires_grad_(False)  # its rows were whole; its bias has positions
        t.step(batch)
        if number > 2:
            break
    again = trainer(model, (torch.randn(N, 3, WIDE), torch.zeros(N).long()), steps=30)
    assert t._noise().sensitivity == again._noise().sensitivity
    t._latest = batch = RowBatch(4, np.zeros(0, np.int64))
    model[0].bias.requires_grad_(False)  # and so before a batch without rows
    t.step(batch)
    assert t._made is not None and t._made.terms == (1,)


def test_noise_that_is_drawn_ahead_is_used_once() -> None:
    noise, rng = GridNoise(Fraction(1), Fraction(1), 1000, 8, (1,)), SystemEntropy()
    used = [noise.drawn(1000, rng) for _ in range(4)]
    ((_, kept),) = noise._reserve._kept
    assert len(kept)
    for other in (copy.copy(noise._reserve), copy.deepcopy(noise)._reserve, pickle.loads(pickle.dumps(noise))._reserve):
        assert not other._kept
    used += [noise.drawn(400, rng), noise.drawn(len(kept) - 400, rng), noise.drawn(1000, rng)]
    together = np.concatenate(used)
    assert list(together[4000 : 4000 + len(kept)]) == list(kept)
    assert len(np.unique(together)) > 0.99 * len(together)  # 2^20 steps wide: a few are the same by chance
    seen: list[Any] = []
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: seen.append(noise._reserve._kept)).result()
    assert not seen[0]


@pytest.mark.parametrize("name", ["_forks", "os.getpid"])  # the child of a child may have the number of a process
def test_the_child_of_a_fork_draws_its_own_noise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    noise, rng = GridNoise(Fraction(1), Fraction(1), 1000, 8, (1,)), SystemEntropy()
    for _ in range(2):
        noise.drawn(1000, rng)
    ((_, kept),) = noise._reserve._kept
    assert len(kept) == 1000
    monkeypatch.setattr(f"discreet.noise.entropy.{name}", -1 if name == "_forks" else lambda: -1)
    assert (noise.drawn(1000, rng) == kept).mean() < 0.01


def test_noise_that_is_drawn_in_the_middle_of_a_request_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    noise, rng = GridNoise(Fraction(1), Fraction(1), 1000, 8, (1,)), SystemEntropy()
    for _ in range(2):
        noise.drawn(1000, rng)
    assert len(noise._reserve._kept[0][1]) == 1000
    inner: list[Any] = []

    def handler() -> tuple[int, int]:  # of a signal, where a request looks for its process
        monkeypatch.undo()
        inner.append(noise.drawn(1000, rng))
        return process()

    monkeypatch.setattr("discreet.learn.torch.noise.process", handler)
    outer = noise.drawn(1000, rng)
    assert len(inner) == 1 and (outer == inner[0]).mean() < 0.01
    later = [noise.drawn(1000, rng) for _ in range(8)]
    for i, one in enumerate([outer, *inner, *later]):
        assert all((one == other).mean() < 0.01 for other in [outer, *inner, *later][i + 1 :])


def test_noise_of_a_request_that_failed_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    noise, rng = GridNoise(Fraction(1), Fraction(1), 1000, 8, (1,)), SystemEntropy()
    for _ in range(2):
        noise.drawn(1000, rng)
    ((_, kept),) = noise._reserve._kept
    with monkeypatch.context() as patch:
        patch.setattr("discreet.learn.torch.noise.process", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            noise.drawn(1000, rng)
    assert not noise._reserve._kept
    assert (noise.drawn(1000, rng) == kept).mean() < 0.01


def test_neighbours_differ_by_no_more_than_the_charged_distance() -> None:
    model, loss, batch_of = net("attention")
    dataset = batch_of(41)
    t = trainer(model, dataset, loss_fn=loss, batch_size=20, physical_batch=16, rows=41, max_grad_norm=0.01)
    noise, trained = t._noise(), t._fitted().trained
    places = random_order(41, SystemEntropy())

    def total(order: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        found = np.zeros(noise.width, np.int64)
        for i in range(0, len(order), 16):
            part = order[i : i + 16]
            rows = [torch.cat([x[part], x.new_zeros(16 - len(part), *x.shape[1:])]) for x in dataset]
            sums = t._fitted().sums(rows, 0.01, kept=torch.arange(16) < len(part))
            found += noise.whole([sums[p] for p in trained])
        return found

    for j in (0, 5, 39):  # the new row takes place j, and the row that was there goes to the end
        with_row = np.concatenate([places[:j], places[40:], places[j + 1 : 40], places[j : j + 1]])
        assert float(np.linalg.norm(total(with_row) - total(places[:40]))) <= float(noise.sensitivity)


# ------------------------------------------------------------------ what is asked and solved for
@pytest.mark.parametrize("sampling", ["poisson", "fixed", "allocation"])
def test_what_is_spent_is_at_most_what_was_asked(sampling: str) -> None:
    rows = None if sampling == "fixed" else N
    t = trainer(sampling=sampling, rows=rows, noise_multiplier=None, epsilon=2, delta=1e-5, epochs=1, steps=None)
    assert t.spent(1e-5) == 0
    t.fit()
    assert 1.99 < t.spent(1e-5) <= 2
    assert t.plan().epsilons[-1] <= 2
    assert sorted(t.plan().epsilons) == list(t.plan().epsilons)


def test_a_plan_says_what_each_pass_costs() -> None:
    plan = trainer(steps=35).plan()
    one = gaussian(1).poisson(Fraction(plan.sampling.rate))  # type: ignore[attr-defined]
    assert plan.epsilons == tuple((one * n).epsilon(1e-5) for n in (10, 20, 30, 35))
    assert plan.noise == pytest.approx(1 / 40, rel=1e-3)
    assert len(trainer(steps=4000).plan().epsilons) < 60


def test_steps_are_solved_for_too() -> None:
    t = trainer(epsilon=2, delta=1e-5, steps=None, noise_multiplier=2)
    steps = t.plan().steps
    one = gaussian(2).poisson(Fraction(round(0.1 * 2**32 - 0.5), 2**32))
    assert (one * steps).epsilon(1e-5) <= 2 < (one * (steps + 1)).epsilon(1e-5)


def test_a_private_number_of_rows_is_counted_for_a_part_of_epsilon() -> None:
    t = trainer(rows=None, noise_multiplier=None, epsilon=5, delta=1e-5)
    with pytest.raises(InvalidParameter, match=r"The number of rows is private.\nHint: give a guess"):
        t.plan()
    assert t.plan(rows=N).rows == N
    assert t.spent(1e-5) == 0
    t.fit()
    assert abs(t.plan().rows - N) < 300  # Laplace noise of scale 10
    assert 4.99 < t.spent(1e-5) <= 5


def test_a_count_below_the_batch_is_raised_to_it() -> None:
    t = trainer(rows=None, noise_multiplier=None, epsilon=5, delta=1e-5, batch_size=5000, steps=2)
    assert t.fit().plan().rows == 5000


ASKED = [
    ({"steps": None}, "two must be given"),
    ({"epsilon": 1, "delta": 1e-5}, "two must be given"),
    ({"epsilon": 1, "steps": None}, "epsilon and delta are given together"),
    ({"epochs": 2}, "Both epochs and steps"),
    ({"rows": None}, "counting it takes a part of ε"),
    ({"sampling": "shuffle"}, "sampling must be 'poisson', 'fixed', 'allocation' or 'cyclic'"),
    ({"clipping": "none"}, "clipping must be 'flat', 'per-layer', 'automatic' or 'adaptive'"),
    ({"batch_size": 0}, "batch_size must be"),
    ({"physical_batch": 1 << 21}, "physical_batch must be at most"),
    ({"sampling": "fixed", "rows": 7}, "rows is not the number of rows"),
    ({"sampling": "fixed", "rows": None, "batch_size": N}, "batch_size must be below the number of rows"),
    ({"loss_fn": lambda m, x, y: ce(m, x, y).mean()}, 'reduction="none"'),
]


@pytest.mark.parametrize(("more", "said"), ASKED)
def test_what_cannot_be_is_refused_in_a_sentence(more: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        trainer(**more)
    assert said in str(refused.value)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([])


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        (DataLoader(TensorDataset(torch.zeros(8, WIDE))), "A DataLoader draws batches itself"),
        (Stream(), "An IterableDataset has no rows"),
        ((torch.zeros(8, WIDE), torch.zeros(7)), "different lengths"),
        (7, "dataset must be tensors or a map-style data set, not int"),
    ],
)
def test_data_that_cannot_be_sampled_is_refused(dataset: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        trainer(dataset=dataset)


def test_optimizers_that_cannot_take_one_gradient_are_refused() -> None:
    model = nn.Linear(WIDE, 2)
    with pytest.raises(InvalidParameter, match="LBFGS asks for the loss several times"):
        trainer(model, optimizer=torch.optim.LBFGS(model.parameters()))
    with pytest.raises(InvalidParameter, match="parameters that the model has not"):
        trainer(model, optimizer=torch.optim.SGD(nn.Linear(2, 2).parameters()))


def test_a_model_that_mixes_rows_is_refused_before_anything_is_charged() -> None:
    with pytest.raises(InvalidParameter, match="1 \\(BatchNorm1d\\) mixes rows"):
        trainer(nn.Sequential(nn.Linear(WIDE, 2), nn.BatchNorm1d(2)))


def test_a_batch_is_stepped_once_and_only_the_latest() -> None:
    t = trainer(steps=3)
    batches = t.batches()
    first = next(batches)
    second = next(batches)
    with pytest.raises(InvalidParameter, match="Only the latest batch"):
        t.step(first)
    t.step(second)
    with pytest.raises(InvalidParameter, match="Only the latest batch"):
        t.step(second)
    assert len(t.privacy_loss.events) == 2  # a batch that is passed over counts
    assert len(list(batches)) == 1
    assert list(t.batches()) == []


def test_nobody_steps_a_batch_while_it_is_stepped() -> None:
    """As the handler of a signal, or a thread, would: of one charge there were two sums with noise of their own."""
    t = trainer(steps=3)
    batch, clipper = next(t.batches()), t._fitted()
    loss, refused = clipper.loss, list[Any]()

    def interrupted(*given: Any) -> torch.Tensor:
        if not refused:
            with pytest.raises(InvalidParameter, match="Only the latest batch") as found:
                t.step(batch)
            refused.append(found)
        return loss(*given)

    def broken_off(*_: Any) -> torch.Tensor:
        raise KeyboardInterrupt

    clipper.loss = broken_off
    with pytest.raises(KeyboardInterrupt):
        t.step(batch)
    clipper.loss = interrupted
    t.step(batch)  # nothing was drawn for it before
    assert refused and t._latest is None


@pytest.mark.parametrize("name", ["_forks", "os.getpid"])
def test_the_child_of_a_fork_goes_on_with_no_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    t = trainer(steps=3)
    batches = t.batches()
    batch = next(batches)
    monkeypatch.setattr(f"discreet.noise.entropy.{name}", -1 if name == "_forks" else lambda: -1)
    for on in (lambda: t.step(batch), lambda: next(batches)):
        with pytest.raises(InvalidParameter, match="another process"):
            on()


# ------------------------------------------------------------------ what users expect
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_any_optimizer_and_scheduler_learns(kind: Any) -> None:
    model = nn.Linear(WIDE, 2)
    optimizer = kind(model.parameters(), lr=0.5)
    x, y = data(2000)
    t = trainer(model, (x, y), optimizer=optimizer, rows=2000, batch_size=400, steps=30)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    t.fit(scheduler=scheduler)
    assert float((model(x).argmax(1) == y).float().mean()) > 0.8
    assert optimizer.param_groups[0]["lr"] == pytest.approx(5e-4)
    assert [*model.state_dict()] == ["weight", "bias"]


class Rows(Dataset[Any]):
    """Rows of which some cannot be read, and some have another shape."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        if i % 10 == 3:
            raise ValueError(f"row {i} is broken")
        return torch.full((WIDE + (i % 10 == 4),), float(i)), i % 2


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("collate", [None, torch.utils.data.default_collate])
def test_rows_that_cannot_be_read_add_nothing(workers: int, collate: Callable[[list[Any]], Any] | None) -> None:
    t = trainer(dataset=Rows(), rows=100, batch_size=50, num_workers=workers, collate_fn=collate)
    batch = next(t.batches())
    assert t._source is not None
    pieces = list(t._source.pieces(batch, 16, SystemEntropy(), filled=True))
    assert {x.shape for tensors, _ in pieces for x in tensors} == {(16, WIDE), (16,)}
    good = sum(i % 10 not in (3, 4) for i in batch._places)
    assert sum(int(kept.sum()) for _, kept in pieces) == good
    t.step(batch)


def test_a_loop_of_ones_own_is_the_same_run() -> None:
    model = nn.Linear(WIDE, 2)
    sgd = torch.optim.SGD(model.parameters())
    p = make_private(
        model, sgd, data(), loss_fn=ce, batch_size=40, max_grad_norm=1.0, rows=N, steps=3, noise_multiplier=1
    )
    for batch in p.batches():
        p.step(batch)
    assert len(p.privacy_loss.events) == 3


def test_the_bar_shows_no_loss_of_rows(capsys: pytest.CaptureFixture[str]) -> None:
    t = trainer(steps=60)
    t.fit(progress=True)
    shown = capsys.readouterr()
    assert "step 60/60" in shown.err
    assert "noisy gradient" in shown.err
    assert "loss" not in shown.err
    assert shown.out == ""


def test_nothing_private_is_shown_of_a_batch_or_a_plan() -> None:
    t = trainer()
    batch = next(t.batches())
    assert repr(batch) == "RowBatch(step=1)"
    assert "5 steps of about 40 rows out of 400" in str(t.plan())


def test_a_run_that_learns_nothing_is_warned_of() -> None:
    x, y = torch.randn(N, WIDE), torch.randint(0, 2, (N,))
    with pytest.warns(UserWarning, match="not to be told from noise"):
        trainer(dataset=(x, y), noise_multiplier=50, steps=25).fit()


# ------------------------------------------------------------------ checkpoints
def test_a_run_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    path, x = tmp_path / "run.ckpt", data()
    t = trainer(dataset=x, steps=9, noise_multiplier=None, epsilon=3, delta=1e-5, rows=None)
    batches = t.batches()
    for _ in range(4):
        t.step(next(batches))
    t.save(path)
    model = nn.Linear(WIDE, 2)
    r = PrivateTrainer.resume(path, model, ce, torch.optim.SGD(model.parameters(), lr=1.0), x)
    assert torch.equal(flat(model), flat(t.model))
    assert r.plan().noise_multiplier == t.plan().noise_multiplier
    assert r.privacy_loss == t.privacy_loss
    assert len(list(r.batches())) == 5
    assert r.spent(1e-5) <= 3


def test_steps_after_the_checkpoint_are_charged_too(tmp_path: Path) -> None:
    path, x, other = tmp_path / "run.ckpt", data(), tmp_path / "copy.ckpt"
    t = trainer(dataset=x, steps=50)
    t.save(path)
    t.save(other)
    for n in range(1, 30):
        t._draw()  # and then the process is killed
        for where in (path, other)[n % 2 : n % 2 + 1 if n % 5 == 0 else 0]:
            model = nn.Linear(WIDE, 2)
            r = PrivateTrainer.resume(where, model, ce, torch.optim.SGD(model.parameters()), x)
            assert n <= len(r.privacy_loss.events) < n + checkpoint.AHEAD


def test_a_checkpoint_without_its_other_file_is_refused(tmp_path: Path) -> None:
    path, x = tmp_path / "run.ckpt", data()
    trainer(dataset=x).save(path)
    beside = tmp_path / "run.ckpt.begun"
    model = nn.Linear(WIDE, 2)
    sgd = torch.optim.SGD(model.parameters())
    text = beside.read_text()
    for damaged in (None, "", text.replace(" 0 ", " 1 "), "x" + text):
        beside.unlink() if damaged is None else beside.write_text(damaged)
        with pytest.raises(InvalidParameter, match=r"run\.ckpt\.begun is missing, damaged, or of another run"):
            PrivateTrainer.resume(path, model, ce, sgd, x)
    beside.write_text(text)
    with pytest.raises(InvalidParameter, match="is of another model or optimizer"):
        PrivateTrainer.resume(path, (m := nn.Linear(WIDE, 3)), ce, torch.optim.SGD(m.parameters()), x)
    path.write_bytes(b"no checkpoint")
    with pytest.raises(InvalidParameter, match="is no checkpoint that can be read"):
        PrivateTrainer.resume(path, model, ce, sgd, x)


def test_a_checkpoint_holds_no_key_place_or_noise(tmp_path: Path) -> None:
    path = tmp_path / "run.ckpt"
    t = trainer(steps=3)
    next(t.batches())
    t.save(path)
    found = checkpoint.read(path)
    assert found.keys() == {"version", "run", "begun", "settings", "model", "optimizer"}
    assert all(isinstance(v, str | int | float | bool | None) for v in found["settings"].values())


def test_an_allocation_goes_on_with_the_next_pass(tmp_path: Path) -> None:
    path, x = tmp_path / "run.ckpt", data()
    t = trainer(dataset=x, sampling="allocation", steps=20)
    for _, batch in zip(range(3), t.batches(), strict=False):
        t.step(batch)
    t.save(path)
    model = nn.Linear(WIDE, 2)
    r = PrivateTrainer.resume(path, model, ce, torch.optim.SGD(model.parameters()), x)
    assert len(list(r.batches())) == 10
    assert r.privacy_loss == random_allocation(1, 10) * 2
