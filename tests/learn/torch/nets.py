"""Small nets of many kinds, each with its loss and its batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

Batch = tuple[Tensor, ...]
Net = tuple[nn.Module, Callable[..., Tensor], Callable[[int], Batch]]


def ce(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(model(x), y, reduction="none")


def next_token(model: nn.Module, x: Tensor) -> Tensor:
    out = model(x[:, :-1])
    return functional.cross_entropy(out.transpose(1, 2), x[:, 1:], reduction="none").mean(1)


def images(channels: int, *sides: int, classes: int = 10) -> Callable[[int], Batch]:
    return lambda n: (torch.rand(n, channels, *sides), torch.randint(0, classes, (n,)))


class Residual(nn.Module):
    def __init__(self, wide: int) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(wide, wide, 3, padding=1), nn.Conv2d(wide, wide, 3, padding="same")
        self.norm = nn.GroupNorm(2, wide)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.two(torch.relu_(self.norm(self.one(x))))


class Block(nn.Module):
    def __init__(self, wide: int, heads: int) -> None:
        super().__init__()
        self.n1, self.n2, self.heads = nn.LayerNorm(wide), nn.RMSNorm(wide), heads
        self.q, self.o = nn.Linear(wide, 3 * wide), nn.Linear(wide, wide)
        self.a, self.b = nn.Linear(wide, 4 * wide), nn.Linear(4 * wide, wide)

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        q, k, v = self.q(self.n1(x)).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, d)
        x = x + self.o(mixed)
        return x + self.b(functional.gelu(self.a(self.n2(x))))


class Causal(nn.Module):
    """A causal language model; its weights may be tied, its positions looked up once for all rows."""

    def __init__(self, words: int = 50, wide: int = 16, layers: int = 2, terms: int = 8, tied: bool = True) -> None:
        super().__init__()
        self.e, self.p = nn.Embedding(words, wide), nn.Embedding(terms, wide)
        self.blocks = nn.ModuleList(Block(wide, 4) for _ in range(layers))
        self.n, self.head = nn.LayerNorm(wide), nn.Linear(wide, words, bias=False)
        if tied:
            self.head.weight = self.e.weight

    def forward(self, x: Tensor) -> Tensor:
        h = self.e(x) + self.p(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.head(self.n(h))  # type: ignore[no-any-return, unused-ignore]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.out = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.cells(x)[0][:, -1])  # type: ignore[no-any-return, unused-ignore]


class Adapted(nn.Module):
    """A frozen layer with a trained product of low rank beside it."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__()
        self.base, self.down, self.up = (
            nn.Linear(low, high),
            nn.Linear(low, 2, bias=False),
            nn.Linear(2, high, bias=False),
        )
        self.base.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))  # type: ignore[no-any-return, unused-ignore]


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter, self.again, self.out = nn.Linear(7, 9), nn.Linear(9, 9), nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.again(torch.tanh(self.enter(x))))
        return self.out(torch.tanh(self.again(h)))  # type: ignore[no-any-return, unused-ignore]


class Attentive(nn.Module):
    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.own, self.cross = (nn.MultiheadAttention(8, 2, batch_first=batch_first) for _ in range(2))
        self.out = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.batch_first else x.transpose(0, 1)
        hidden = torch.ones(x.shape[1 if self.batch_first else 0], x.shape[1 if self.batch_first else 0]).triu(1).bool()
        h, _ = self.own(x, x, x, attn_mask=hidden, need_weights=False)
        h, _ = self.cross(h, x, x)
        h = self.out(h)
        return h.mean(1 if self.batch_first else 0)  # type: ignore[no-any-return, unused-ignore]


class Scaled(nn.Module):
    """A parameter of its own, which belongs to no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.scale = nn.Linear(5, 3), nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * self.scale  # type: ignore[no-any-return, unused-ignore]


def vectors(wide: int, *more: int) -> Callable[[int], Batch]:
    return lambda n: (torch.randn(n, *more, wide), torch.randint(0, 3, (n,)))


def net(name: str) -> Net:
    """Return a net by name, made from a fixed seed."""
    torch.manual_seed(0)
    made = NETS[name]()
    return made[0], made[1], made[2]


def _half() -> Any:
    model = nn.Sequential(nn.Linear(7, 9), nn.ReLU(), nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 3))
    model[2].requires_grad_(False)
    model[4].bias.requires_grad_(False)
    return model, ce, vectors(7)


def _mlp() -> Any:
    layers = [nn.Linear(95, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(inplace=True), nn.Linear(64, 2)]
    return nn.Sequential(*layers), ce, lambda n: (torch.rand(n, 95), torch.randint(0, 2, (n,)))


def mnist() -> Any:
    layers = [nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU()]
    layers += [nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10)]
    return nn.Sequential(*layers), ce, images(1, 28, 28)


def grouped(side: int = 32) -> Any:
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.ReLU(inplace=True)]
    layers += [nn.Conv2d(16, 16, 3, padding=1, groups=4), nn.GroupNorm(4, 16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2)]
    layers += [nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)]
    return nn.Sequential(*layers), ce, images(3, side, side)


def causal(words: int = 50, wide: int = 16, terms: int = 8, tied: bool = True) -> Any:
    model = Causal(words, wide, 2, terms, tied)
    return model, next_token, lambda n: (torch.randint(0, words, (n, terms + 1)),)


def _sides(kind: type[nn.Module], *sides: int) -> Any:
    first = kind(2, 4, 3, stride=2, padding=1, dilation=2, padding_mode="circular")
    layers = [first, nn.ReLU(), kind(4, 6, 3, padding=1, groups=2), nn.Flatten(), nn.LazyLinear(3)]
    model = nn.Sequential(*layers)
    model(torch.rand(1, 2, *sides))
    return model, ce, images(2, *sides, classes=3)


NETS: dict[str, Callable[[], Any]] = {
    "mlp": _mlp,
    "cnn": mnist,
    "group norm": lambda: grouped(12),
    "residual": lambda: (
        nn.Sequential(nn.Conv2d(2, 4, 3), Residual(4), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(16, 3)),
        ce,
        images(2, 12, 12, classes=3),
    ),
    "causal, tied": causal,
    "lstm": lambda: (Recurrent(), ce, vectors(6, 5)),
    "adapted": lambda: (nn.Sequential(Adapted(7, 9), nn.ReLU(), Adapted(9, 3)), ce, vectors(7)),
    "conv1d": lambda: _sides(nn.Conv1d, 12),
    "conv3d": lambda: _sides(nn.Conv3d, 6, 6, 6),
    "half frozen": _half,
    "twice": lambda: (Twice(), ce, vectors(7)),
    "attention": lambda: (Attentive(), ce, vectors(8, 4)),
    "attention, rows second": lambda: (Attentive(False), ce, vectors(8, 4)),
    "own parameter": lambda: (Scaled(), ce, vectors(5)),
}
