"""Clipped sums against autograd row by row, and against rows that try to be longer than they seem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from discreet.errors import InvalidParameter
from discreet.learn.torch.clipping import Clipper, _whole_rows, clipped_sum, scaled
from discreet.learn.torch.layers import ALL, SINGLE, TOGETHER, RowSums, has_full_products
from tests.learn.torch.nets import NETS, Batch, ce, net

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")

LOOP = {"lstm", "own parameter"}


def one_by_one(
    model: nn.Module, loss: Callable[..., Tensor], batch: Sequence[Tensor], limit: float
) -> dict[str, Tensor]:
    """Return the clipped sum by a pass of autograd for each row."""
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    sums = {n: torch.zeros(p.shape, dtype=torch.float64) for n, p in trained.items()}
    for i in range(len(batch[0])):
        row = torch.autograd.grad(loss(model, *[x[i : i + 1] for x in batch]).sum(), list(trained.values()))
        norm = float(torch.cat([g.double().flatten() for g in row]).norm())
        for total, g in zip(sums.values(), row, strict=True):
            total += g.double() * min(1.0, limit / norm)
    return sums


def flat(sums: dict[str, Tensor]) -> Tensor:
    return torch.cat([g.double().flatten() for g in sums.values()])


def assert_close(got: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float) -> None:
    for name in wanted:
        assert float((got[name] - wanted[name]).norm()) <= tolerance * float(wanted[name].norm()) + 1e-9, name


@pytest.mark.parametrize("name", NETS)
def test_sums_are_those_of_autograd_row_by_row(name: str) -> None:
    model, loss, batch_of = net(name)
    for rows in (1, 7) if name == "cnn" else (1, 7, 64):
        batch = batch_of(rows)
        assert_close(clipped_sum(model, loss, batch, max_grad_norm=1e6), one_by_one(model, loss, batch, 1e6), 1e-5)
        # where rows are clipped, their norms are bounds from above
        assert_close(clipped_sum(model, loss, batch, max_grad_norm=0.5), one_by_one(model, loss, batch, 0.5), 1e-4)


@pytest.mark.parametrize("name", NETS)
def test_the_rows_of_a_person_are_clipped_as_one(name: str) -> None:
    model, loss, batch_of = net(name)
    batch, kept = batch_of(15), torch.tensor([1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1]).bool()
    clipper = Clipper.of(model, loss, batch_of)
    for limit, tolerance in ((1e6, 1e-5), (0.3, 1e-3)):
        sums = clipper.sums(batch, limit, kept=kept, each=3)
        wanted = {n: torch.zeros(p.shape, dtype=torch.float64) for n, p in model.named_parameters() if p.requires_grad}
        for i in range(5):
            own = [x[3 * i : 3 * i + 3][kept[3 * i : 3 * i + 3]] for x in batch]
            if len(own[0]):
                one = clipped_sum(model, loss, own, max_grad_norm=1e6)
                part = min(1.0, limit / max(float(flat(one).norm()), 1e-12))
                wanted = {n: g + one[n].double() * part for n, g in wanted.items()}
        assert_close({n: sums[p] for n, p in model.named_parameters() if p in sums}, wanted, tolerance)


@pytest.mark.parametrize("name", NETS)
def test_an_empty_batch_adds_nothing_and_no_gradient_is_left_behind(name: str) -> None:
    model, loss, batch_of = net(name)
    sums = clipped_sum(model, loss, batch_of(0), max_grad_norm=1.0)
    assert all(float(g.abs().sum()) == 0 for g in sums.values())
    assert [p.grad for p in model.parameters() if p.grad is not None] == []


def test_only_layers_without_a_rule_are_done_row_by_row() -> None:
    found = {}
    for name in NETS:
        model, loss, batch_of = net(name)
        found[name] = Clipper.of(model, loss, batch_of).why
    assert {name for name, why in found.items() if why} == LOOP
    assert found["lstm"] == "cells (LSTM) has no rule of its own"


@pytest.mark.parametrize("split", [1, 3, 16])
def test_splits_of_a_batch_give_the_same_sum(split: int) -> None:
    model, loss, batch_of = net("causal, tied")
    batch = batch_of(16)
    together = flat(clipped_sum(model, loss, batch, max_grad_norm=0.5))
    parts = [[x[i : i + split] for x in batch] for i in range(0, 16, split)]
    apart = sum((flat(clipped_sum(model, loss, part, max_grad_norm=0.5)) for part in parts), torch.zeros(1))
    assert float((together - apart).norm() / together.norm()) < 1e-6


@pytest.mark.parametrize("name", ["mlp", "residual", "causal, tied", "attention", "adapted", "own parameter"])
def test_a_row_without_a_number_adds_nothing(name: str) -> None:
    model, loss, batch_of = net(name)
    batch = batch_of(6)
    wanted = clipped_sum(model, loss, [x[torch.arange(6) != 2] for x in batch], max_grad_norm=0.5)

    def spoilt(model: nn.Module, *batch: Tensor) -> Tensor:
        losses = loss(model, *batch)
        return losses * torch.tensor([1, 1, torch.nan, 1, 1, 1]) if len(losses) == 6 else losses

    if name not in LOOP:
        assert_close(clipped_sum(model, spoilt, batch, max_grad_norm=0.5), wanted, 1e-5)
    if batch[0].is_floating_point():
        batch[0][2] = torch.inf
        assert_close(clipped_sum(model, loss, batch, max_grad_norm=0.5), wanted, 1e-5)


@pytest.mark.parametrize("size", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("terms", [2, 16, 300])
@pytest.mark.parametrize("wide", [3, 40])
def test_positions_that_cancel_do_not_make_a_row_longer_than_the_limit(size: float, terms: int, wide: int) -> None:
    model = nn.Linear(wide, wide)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return (model(x) * y).sum((1, 2))  # y is the gradient of what leaves the layer

    x, y = (
        torch.randn(6, 1, wide).expand(6, terms, wide).clone(),
        torch.randn(6, 1, wide).expand(6, terms, wide).clone(),
    )
    y[:, 1::2] *= -1
    x *= 1 + 1e-6 * torch.randn(6, terms, wide)
    y *= size
    for i in range(6):  # what enters the sum, recomputed in float64 from the row itself
        sums = Clipper.of(model, loss, lambda n: (torch.randn(n, terms, wide), torch.randn(n, terms, wide)))
        found = sums.sums([x[i : i + 1], y[i : i + 1]], 1.0)
        assert float(torch.cat([g.flatten() for g in found.values()]).norm()) <= 1.0


def test_repeated_words_that_cancel_do_not_either() -> None:
    model = nn.Embedding(5, 4)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return (model(x) * y).sum((1, 2))

    x, y = torch.zeros(1, 200, dtype=torch.long), torch.randn(1, 1, 4).repeat(1, 200, 1) * 1e8
    y[:, 1::2] *= -(1 + 1e-7)
    clipper = Clipper.of(model, loss, lambda n: (torch.zeros(n, 200, dtype=torch.long), torch.randn(n, 200, 4)))
    assert float(next(iter(clipper.sums([x, y], 1.0).values())).norm()) <= 1.0


@pytest.mark.parametrize("rows", [5, 16, 303, SINGLE, SINGLE + 1])
@pytest.mark.parametrize("bits", [-40, 0, 50])
def test_sums_of_whole_rows_are_as_close_as_is_charged(rows: int, bits: int) -> None:
    flat = torch.randn(rows, 300) * torch.exp2(torch.linspace(bits - 3, bits, rows))[:, None]
    flat += 0.2 * float(flat.norm(dim=1).mean())
    place, part = (nn.Parameter(torch.zeros(300)), ALL), _whole_rows((nn.Parameter(torch.zeros(300)), ALL), flat)
    s, norms = scaled(part.square, 1.0, "flat"), flat.double().norm(dim=1)
    assert bool((part.square >= norms.square()).all())
    for autocast in (False, True):
        sums, wanted = RowSums(), (s[:, None] * flat.double()).sum(0)
        part = _whole_rows(place, flat)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast), torch.autocast("cpu", enabled=False):
            part.add(s, sums)
        charged = (TOGETHER + 4) * 2.0**-24 * float((s * norms).sum())
        assert float((sums[place[0]] - wanted).norm()) <= (charged if rows <= SINGLE else charged * 1e-6)
    low = (s.bfloat16()[:, None] * flat.bfloat16()).double().sum(0)
    assert float((low - wanted).norm()) > charged  # what the test would see of fewer digits


def test_a_model_under_autocast_has_sums_in_all_digits() -> None:
    model, loss, batch_of = net("residual")
    batch, clipper = batch_of(33), Clipper.of(model, loss, batch_of)
    wanted = clipper.sums(batch, 0.5)

    def outside(model: nn.Module, *batch: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return loss(model, *batch)

    clipper.loss = outside
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = clipper.sums(batch, 0.5)
    for p, g in wanted.items():
        assert float((found[p] - g).norm()) <= 1e-5 * float(g.norm())


def test_a_row_beyond_what_weights_of_float32_can_scale_adds_nothing() -> None:
    rows = torch.ones(4, 9)
    rows[1], rows[2] = 2.0**60, 2.0**70
    place, sums = (nn.Parameter(torch.zeros(9)), ALL), RowSums()
    part = _whole_rows(place, rows)
    assert part.square.isfinite().tolist() == [True, True, False, True]
    s = scaled(part.square, 1.0, "flat").masked_fill(~part.square.isfinite(), 0)
    part.add(s, sums, ~part.square.isfinite())
    assert float(sums[place[0]].norm()) == pytest.approx(3, rel=1e-4)


def test_hooks_and_forwards_of_the_callers_own_stay() -> None:
    model, loss, batch_of = net("mlp")
    seen: list[Any] = []
    layers: Any = model
    layer = layers[0]
    layer.register_forward_hook(lambda layer, inputs, output: seen.append(0))
    run = layer.forward
    layer.forward = own = lambda x: run(x) * 2
    batch = batch_of(6)
    wanted = torch.autograd.grad(loss(model, *batch).sum(), list(model.parameters()))
    found = clipped_sum(model, loss, batch, max_grad_norm=1e5)
    assert layer.forward is own and "forward" not in layers[2].__dict__
    assert len(seen) > 1
    assert_close(found, dict(zip(found, wanted, strict=True)), 1e-5)


def test_automatic_clipping_scales_every_row() -> None:
    model, loss, batch_of = net("mlp")
    batch = batch_of(1)
    short = clipped_sum(model, loss, batch, max_grad_norm=100.0, clipping="automatic")
    assert 40 < float(flat(short).norm()) < 100


@pytest.mark.parametrize("name", NETS)
def test_layers_that_are_clipped_apart_make_no_longer_row(name: str) -> None:
    model, loss, batch_of = net(name)
    batch = batch_of(1)
    apart = clipped_sum(model, loss, batch, max_grad_norm=0.1, clipping="per-layer")
    assert 0.01 < float(flat(apart).norm()) <= 0.1 * (1 + 1e-6)
    whole, free = (clipped_sum(model, loss, batch, max_grad_norm=1e6, clipping=c) for c in ("per-layer", "flat"))
    assert_close(whole, free, 1e-6)


def test_the_callers_tensors_stay_as_they_are() -> None:
    model, loss, batch_of = net("mlp")
    batch = batch_of(4)
    batch[0][1] = torch.inf
    before = [x.clone() for x in batch]
    clipped_sum(model, loss, batch, max_grad_norm=0.5)
    assert all(torch.equal(x, y) for x, y in zip(before, batch, strict=True))


def test_rows_in_half_precision_are_clipped_in_full() -> None:
    model, loss, batch_of = net("causal, tied")
    batch = batch_of(8)

    def half(model: nn.Module, *batch: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return loss(model, *batch)

    got, wanted = (clipped_sum(model, f, batch, max_grad_norm=0.5) for f in (half, loss))
    assert float((flat(got) - flat(wanted)).norm() / flat(wanted).norm()) < 0.05
    one = [x[:1] for x in batch]
    assert float(flat(clipped_sum(model, half, one, max_grad_norm=0.5)).norm()) <= 0.5 * (1 + 1e-6)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_norms_of_parameters_in_half_precision_are_no_shorter(kind: torch.dtype) -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.zeros(128, dtype=kind))

        def forward(self, x: Tensor) -> Tensor:
            return (x * self.w).sum(-1)

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        found: Tensor = model(x)
        return found

    clipper = Clipper.of(Own(), loss, lambda n: [torch.randn(n, 128).to(kind)])
    for size in range(1, 21):
        (found,) = clipper.sums([torch.randn(1, 128).mul(size).to(kind)], 1.0).values()
        assert float(found.norm()) <= 1.0


@pytest.mark.parametrize("name", ["DNNL_DEFAULT_FPMATH_MODE", "ONEDNN_DEFAULT_FPMATH_MODE"])
def test_digits_that_the_environment_takes_away_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert has_full_products()
    for mode, full in {"BF16": False, "any": False, "tf32": False, "strict": True, "": True}.items():
        monkeypatch.setenv(name, mode)
        assert has_full_products() == full


def test_weights_are_applied_in_full_under_autocast() -> None:
    p, rows = nn.Parameter(torch.zeros(8)), torch.full((16, 8), 1 + 2.0**-12)  # which bfloat16 rounds to 1
    with torch.autocast("cpu", torch.bfloat16):
        sums = RowSums()
        _whole_rows((p, ALL), rows).add(torch.ones(16, dtype=torch.float64), sums)
    assert torch.equal(sums[p], torch.full((8,), 16 * (1 + 2.0**-12), dtype=torch.float64))


@pytest.mark.parametrize("rows", [0, 3, 16, 17])
def test_parameters_without_a_number_have_sums(rows: int) -> None:
    p, sums = nn.Parameter(torch.zeros(0)), RowSums()
    _whole_rows((p, ALL), torch.zeros(rows, 0)).add(torch.ones(rows, dtype=torch.float64), sums)
    assert sums[p].shape == (0,)


def test_memory_for_rows_is_float32_on_the_cpu_whatever_new_tensors_are() -> None:
    def loss(model: nn.Module, x: Tensor) -> Tensor:
        found: Tensor = model(x).square().sum((1, 2))
        return found

    clipper, batch = Clipper.of(nn.Linear(4, 3), loss, lambda n: [torch.randn(n, 8, 4)]), [torch.randn(9, 8, 4)]
    wanted = clipper.sums(batch, 1.0)
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        for _ in range(2):
            clipper._room._kept = clipper._room._kept[:0]
            clipper._room.start()
            assert (clipper._room._kept.dtype, clipper._room._kept.device.type) == (torch.float32, "cpu")
            got = clipper.sums(batch, 1.0)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(got[p], wanted[p]) for p in clipper.trained)


@pytest.mark.parametrize("digits", ["high", "medium"])
def test_products_of_fewer_digits_make_no_row_shorter(digits: str) -> None:
    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return (model(x) * y).sum((1, 2))

    clipper = Clipper.of(nn.Linear(256, 256, bias=False), loss, lambda n: [torch.randn(n, 8, 256) for _ in "xy"])
    rows, first = torch.full((16, 8, 256), 1 + 2.0**-8 - 2.0**-16), torch.arange(16) == 0  # which bfloat16 rounds to 1
    try:
        torch.set_float32_matmul_precision(digits)
        (found,) = clipper.sums([rows, rows], 1.0, kept=first).values()
    finally:
        torch.set_float32_matmul_precision("highest")
    assert float(found.norm()) <= 1.0


def test_tokens_that_are_ignored_add_nothing() -> None:
    model, _, batch_of = net("causal, tied")

    def masked(model: nn.Module, x: Tensor) -> Tensor:
        out = model(x[:, :-1])
        wanted = x[:, 1:].masked_fill(torch.arange(8) < 4, -100)
        return functional.cross_entropy(out.transpose(1, 2), wanted, reduction="none", ignore_index=-100).sum(1)

    batch = batch_of(5)
    assert_close(clipped_sum(model, masked, batch, max_grad_norm=1e6), one_by_one(model, masked, batch, 1e6), 1e-5)


def test_a_loss_that_is_no_number_a_row_is_refused() -> None:
    model, _, batch_of = net("mlp")

    def mean(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(model(x), y)

    with pytest.raises(InvalidParameter, match=r'reduction="none"'):
        clipped_sum(model, mean, batch_of(4), max_grad_norm=1.0)


@pytest.mark.parametrize("limit", [0, -1.0, 1e-9, float("nan"), float("inf"), True, "1"])
def test_a_limit_that_is_no_positive_number_is_refused(limit: float) -> None:
    model, loss, batch_of = net("mlp")
    with pytest.raises(InvalidParameter, match="max_grad_norm must be a number from 1e-6 to 1e6"):
        clipped_sum(model, loss, batch_of(1), max_grad_norm=limit)


def test_a_compiled_model_is_seen_through() -> None:
    model, loss, batch_of = net("mlp")
    batch: Batch = batch_of(3)
    compiled: Any = torch.compile(model, backend="eager")
    assert_close(
        clipped_sum(compiled, loss, batch, max_grad_norm=0.5), clipped_sum(model, loss, batch, max_grad_norm=0.5), 1e-6
    )


def test_ce_is_one_number_a_row() -> None:
    model, _, batch_of = net("mlp")
    assert ce(model, *batch_of(3)).shape == (3,)
