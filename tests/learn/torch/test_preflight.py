"""What is refused before training, with its remedy, and what is not."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from discreet.learn.torch.clipping import clipped_sum
from discreet.learn.torch.preflight import check, fix
from tests.learn.torch.nets import NETS, ce, net

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")


@pytest.mark.parametrize("name", NETS)
def test_nets_whose_rows_stay_apart_pass(name: str) -> None:
    model, loss, batch_of = net(name)
    found = check(model, loss, batch_of(3))
    assert found.ok, str(found)
    assert bool(found.notes) == (name in {"lstm", "own parameter"})


def test_nothing_of_the_model_or_of_torch_changes() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    fixed = fix(copy.deepcopy(model))
    for m in (model, fixed):
        check(m, lambda m, x: m(x).sum(1), [torch.zeros(2, 4)])
    assert all(torch.equal(a, b) for a, b in zip(before.values(), model.state_dict().values(), strict=True))
    assert torch.equal(state, torch.get_rng_state())


class Centred(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out = self.inner(x)
        return out - out.mean(0)  # type: ignore[no-any-return, unused-ignore]


class Across(nn.Module):
    """Attention whose first dimension is taken for the positions, and holds the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.out = nn.MultiheadAttention(4, 1), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.attention(x, x, x)[0].mean(1))  # type: ignore[no-any-return, unused-ignore]


class Backwards(nn.Module):
    """Rows that mix in the gradient alone."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out = self.inner(x)
        return out + (out.mean(0) - out.mean(0).detach())  # type: ignore[no-any-return, unused-ignore]


class Counting(nn.Linear):
    """How often it ran, which follows from how many pieces a batch has."""

    def __init__(self) -> None:
        super().__init__(4, 3)
        self.runs: Tensor
        self.register_buffer("runs", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        return super().forward(x)


class Remembering(nn.Module):
    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.seen = 0.9 * self.seen + 0.1 * x.detach().mean(0)
        return self.inner(x)  # type: ignore[no-any-return, unused-ignore]


WIDE = (torch.zeros(1, 4), torch.tensor([0, 2]))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), r"1 \(BatchNorm1d\) mixes rows. Use nn.GroupNorm"),
        (nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3)).eval(), r"0 \(BatchNorm1d\) mixes rows"),
        (Centred(), "follows from the other rows"),
        (Backwards(), "follows from the other rows"),
        (Remembering(), "the buffer seen learns from rows"),
        (Counting(), "the buffer runs changes with each run of the model"),
        (nn.Linear(4, 3).requires_grad_(False), "no parameter is trained"),
        (nn.Sequential(nn.LazyLinear(3)), "has no shape yet"),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, nn.Module) else "",
)
def test_what_mixes_rows_or_keeps_them_is_named(model: nn.Module, said: str) -> None:
    found = check(model, ce, WIDE)
    assert not found.ok
    with pytest.raises(AssertionError, match=said):
        raise AssertionError(str(found))


def test_attention_over_the_rows_is_seen() -> None:
    assert "follows from the other rows" in str(check(Across(), ce, (torch.zeros(1, 6, 4), torch.tensor([0, 2]))))


def test_a_loss_that_is_a_mean_is_named_with_its_remedy() -> None:
    found = check(nn.Linear(4, 3), lambda m, x, y: functional.cross_entropy(m(x), y), WIDE)
    assert 'reduction="none"' in str(found)


def test_embeddings_that_mix_rows_are_named_and_fixed() -> None:
    model = nn.Sequential(nn.Embedding(5, 3, max_norm=1.0), nn.Flatten(), nn.Linear(6, 1))
    example = [torch.tensor([[0, 4]])]
    assert "max_norm" in str(check(model, lambda m, x: m(x)[:, 0], example))
    assert check(fix(model), lambda m, x: m(x)[:, 0], example).ok


def test_dropout_is_no_mixing() -> None:
    assert check(nn.Sequential(nn.Linear(4, 30), nn.Dropout(0.5), nn.Linear(30, 3)), ce, WIDE).ok


def test_a_fixed_model_has_the_same_weights_and_can_be_clipped() -> None:
    model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.Flatten(), nn.LazyLinear(2)).train()
    model(torch.rand(2, 1, 8, 8))
    weight = model[1].weight
    fixed = fix(model)
    assert fixed is model
    assert isinstance(model[1], nn.GroupNorm)
    assert model[1].weight is weight
    clipped_sum(model, ce, (torch.rand(3, 1, 8, 8), torch.zeros(3, dtype=torch.long)), max_grad_norm=1.0)


def test_parameters_that_the_loss_never_reaches_are_named() -> None:
    model = nn.ModuleDict({"a": nn.Linear(4, 3), "b": nn.Linear(4, 3)})
    found = check(model, lambda m, x, y: ce(m["a"], x, y), WIDE)
    assert found.ok
    assert "never reaches b.weight, b.bias" in str(found)
