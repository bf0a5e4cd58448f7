"""Per-row gradients of each kind of layer, from what entered it and the gradient of what left it.

A layer's rows are either *whole*, a tensor of gradients for each parameter, or *factored*: an upper bound of each row's
squared norm, and a way to add the weighted rows up that never makes them. RowSums are added up in float64.

References:
    Bu, Wang, Zha, Karypis 2023 (book-keeping), https://arxiv.org/abs/2210.00038; docs/proofs/torch.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

Place: TypeAlias = tuple[nn.Parameter, slice]
"""A parameter, and which of its first dimension a gradient belongs to."""

ALL = slice(None)
LEAST_GAMMA = 2.0**-20
"""The least share of M² that is added to a squared norm: it bounds how large terms that cancel may be."""

SMALLEST = 2.0**-126
"""The least float32 that keeps all of its digits: what a product below it may lose."""

TOGETHER = 16
"""How many whole rows are added up in float32; their sums are added up in float64."""

SINGLE = 512
"""The most rows whose gradients are added up so; of more all sums are in float64."""

WHOLE = 0
"""In place of the number of terms of a row's gradient, where rows are whole."""

LARGEST_SQUARE = 2.0**128
"""A row whose whole gradient has a larger squared norm adds nothing, as its weight is no float32 with all digits."""

_UNIT = 2.0**-24  # rounding of float32
_FEW = 128  # squares that are added up at once
_WIDE = 0.004  # above this share of an ordinary row's norm², products are made in float64
_KEPT = 1 << 24  # numbers of whole rows whose memory is kept from step to step


class Room:
    """Memory for whole rows that is kept from step to step: fresh memory costs as much as the product in it."""

    def __init__(self) -> None:
        self._kept, self._wanted = torch.empty(0, dtype=torch.float32, device="cpu"), 0

    def start(self) -> None:
        """Begin a step: what was taken before is taken anew."""
        if len(self._kept) < self._wanted <= _KEPT:
            self._kept = torch.empty(self._wanted, dtype=torch.float32, device="cpu")
        self._wanted = 0

    def take(self, like: Tensor, *shape: int) -> Tensor:
        """Return a tensor that is to be filled."""
        size, at = math.prod(shape), self._wanted
        self._wanted += size
        if like.dtype == torch.float32 and like.device.type == "cpu" and self._wanted <= len(self._kept):
            return self._kept[at : at + size].view(shape)
        return like.new_empty(shape)


@dataclass(frozen=True, slots=True)
class LayerUse:
    """One use of a layer: what entered it, and where the gradient of what left it is found.

    Attributes:
        layer: the module.
        kind: its class, among those of `KINDS`; `nn.Linear` for a projection inside of attention.
        weight: its weight, None where that is frozen or missing.
        bias: its bias, as `weight`.
        entered: the input, with the rows first.
        room: where whole rows are made.
    """

    layer: Any
    kind: type[nn.Module]
    weight: Place | None
    bias: Place | None
    entered: Tensor
    room: Room

    @property
    def places(self) -> list[Place]:
        """The trained parameters."""
        return [place for place in (self.weight, self.bias) if place is not None]


@dataclass(slots=True)
class Factored:
    """Rows that are known by factors.

    Attributes:
        square: upper bounds of the squared norms.
        factors: tensors with the rows first.
        sum: adds the rows up, from the factors, each times its weight.
    """

    square: Tensor
    factors: list[Tensor]
    sum: Callable[[list[Tensor], Tensor, RowSums], None]

    def add(self, s: Tensor, sums: RowSums, bad: Tensor | None = None) -> None:
        """Add the rows up, each times its weight, without those that are no numbers."""
        factors = self.factors
        if bad is not None:  # since 0 times NaN is NaN; the factors themselves may be the caller's own tensors
            factors = [x.masked_fill(bad.reshape(-1, *[1] * (x.dim() - 1)), 0) for x in factors]
        with without_autocast(factors):
            self.sum(factors, s, sums)


class RowSums(dict[nn.Parameter, Tensor]):
    """Sums of rows in float64, a tensor for each parameter.

    Attributes:
        balance: how many rows were not shortened, less how many were; counted for adaptive clipping.
    """

    balance = 0

    def add(self, place: Place, value: Tensor) -> None:
        """Add a sum to that of a parameter."""
        parameter, rows = place
        if parameter not in self:
            if rows == ALL:
                self[parameter] = value.reshape(parameter.shape)
                return
            self[parameter] = value.new_zeros(parameter.shape)
        self[parameter][rows] += value.reshape(self[parameter][rows].shape)


def in_order(x: Tensor, dim: int) -> Tensor:
    """Return a tensor with the rows first, in float32 or better."""
    x = x.movedim(dim, 0) if dim else x
    return x if x.dtype in (torch.float32, torch.float64) or not x.is_floating_point() else x.float()


def whole(use: LayerUse, a: Tensor, g: Tensor) -> list[tuple[Place, Tensor]]:
    """Return the gradients of each row, as (parameter, (rows, …))."""
    weight, bias = KINDS[use.kind].whole(use, a, g)
    found = []
    if use.weight is not None:
        found.append((use.weight, weight()))
    if use.bias is not None:
        found.append((use.bias, bias()))
    return found


def factored(use: LayerUse, a: Tensor, g: Tensor) -> Factored | None:
    """Return the rows by factors; None where whole rows are cheaper."""
    make = KINDS[use.kind].factored
    return None if make is None else make(use, a, g)


def positions(use: LayerUse) -> int:
    """Return how many terms a row's gradient has."""
    a = use.entered
    if use.kind is nn.Embedding:
        return a[0].numel()
    return a[0].numel() // a.shape[-1] if use.kind is nn.Linear else 1


Whole: TypeAlias = "tuple[Callable[[], Tensor], Callable[[], Tensor]]"


# ------------------------------------------------------------------ Linear
def _linear_whole(use: LayerUse, a: Tensor, g: Tensor) -> Whole:
    a, g = _flat(a), _flat(g)

    def weight() -> Tensor:
        return torch.bmm(g.transpose(1, 2), a, out=use.room.take(a, len(a), g.shape[2], a.shape[2]))

    return weight, lambda: g.sum(1)


def _linear_factored(use: LayerUse, a: Tensor, g: Tensor) -> Factored | None:
    a, g = _flat(a), _flat(g)
    n, terms, wide, high = len(a), a.shape[1], a.shape[2], g.shape[2]
    if use.weight is not None and terms > 1 and wide * high <= 2 * terms * (wide + high):
        return None  # whole rows are no larger than what enters and leaves, and cost no product in float64
    if terms == 1:
        square = upper_squares(g[:, 0])
        if use.weight is not None:
            square = square.mul_(upper_squares(a[:, 0]).add_(0 if use.bias is None else 1)).mul_(1 + LEAST_GAMMA)
    else:
        of_g, square = _norm(g), torch.zeros(n, dtype=torch.float64, device=g.device)
        if use.weight is not None:
            square = _products(lambda x: torch.bmm(a.to(x), a.to(x).transpose(1, 2)), _norm(a), wide, g, of_g)
        if use.bias is not None:
            square = square + _norm(g.sum(1, dtype=torch.float64)).square() + LEAST_GAMMA * of_g.sum(1).square()

    def add(factors: list[Tensor], s: Tensor, sums: RowSums) -> None:
        a, g = factors
        q = (g * s[:, None, None]).reshape(n * terms, high)  # float64, as s is
        if use.weight is not None:
            sums.add(use.weight, q.t() @ a.reshape(n * terms, wide).double())
        if use.bias is not None:
            sums.add(use.bias, q.sum(0))

    return Factored(square, [a, g], add)


def _products(gram: Callable[[Tensor], Tensor], of_a: Tensor, wide: int, g: Tensor, of_g: Tensor) -> Tensor:
    """Return upper bounds of ‖Σ_t g_t a_tᵀ‖² for each row.

    Products of positions are made in float64 where the rounding of float32 would be a large share of the norm, and
    where torch may make those of float32 in fewer digits (TF32, bfloat16). `gram` gives those of a in the dtype of the
    tensor that it is given.
    """
    terms, high = g.shape[1:]
    lengths = of_a * of_g
    gamma = (2 * max(wide, high) + terms * terms) * _UNIT
    if gamma * terms > _WIDE or not has_full_products():
        gamma, g = LEAST_GAMMA, g.double()
    n2 = (gram(g) * torch.bmm(g, g.transpose(1, 2))).sum((1, 2), dtype=torch.float64)
    small = terms * SMALLEST * (wide * of_g.square().sum(1) + high * of_a.square().sum(1) + terms)
    return n2.clamp_min(0) + max(gamma, LEAST_GAMMA) * lengths.sum(1).square() + small


def has_full_products() -> bool:
    """Whether torch makes products of float32 in all their digits."""
    if _in_few_digits() or _FEW_AT_START:
        return False
    try:
        return torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # it was set by backend, in one of which it may be lower
        return False


def _in_few_digits() -> bool:
    """Return whether oneDNN was asked to, as bfloat16 on aarch64."""
    asked = (os.environ.get(f"{name}_DEFAULT_FPMATH_MODE", "") for name in ("DNNL", "ONEDNN"))
    return any(mode.lower() not in ("", "strict") for mode in asked)


_FEW_AT_START = _in_few_digits()


@contextmanager
def without_autocast(tensors: Iterable[Tensor]) -> Iterator[None]:
    """Leave products of these tensors in their own dtype, on whatever devices they are."""
    with ExitStack() as stack:
        for kind in {x.device.type for x in tensors}:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def upper_squares(x: Tensor) -> Tensor:
    """Return upper bounds of the squared norms of rows: at most `_FEW` squares are added up in float32 at once."""
    if x.dtype != torch.float32:
        return _norm(x).square() * (1 + LEAST_GAMMA)
    wide = x.shape[1]
    if wide > _FEW:
        even = wide - wide % _FEW
        each = torch.linalg.vector_norm(x[:, :even].reshape(len(x), even // _FEW, _FEW), dim=2).double()
        square = each.square_().sum(1)
        if even < wide:
            square += torch.linalg.vector_norm(x[:, even:], dim=1).double().square_()
    else:
        square = torch.linalg.vector_norm(x, dim=1).double().square_()
    return square.mul_(1 + 2 * _FEW * _UNIT).add_(wide * SMALLEST)


def _norm(x: Tensor) -> Tensor:
    return torch.linalg.vector_norm(x, dim=-1, dtype=torch.float64)


def _flat(x: Tensor) -> Tensor:
    return x[:, None] if x.dim() == 2 else x.reshape(len(x), math.prod(x.shape[1:-1]), x.shape[-1])


# ------------------------------------------------------------------ Embedding
def _embedding_whole(use: LayerUse, a: Tensor, g: Tensor) -> Whole:
    i, g = _indices(use, a, g)
    assert use.weight is not None
    parameter = use.weight[0]

    def weight() -> Tensor:
        rows = g.new_zeros(len(g), *parameter.shape)
        return rows.scatter_add_(1, i[..., None].expand(*i.shape, g.shape[-1]), g)

    return weight, lambda: g.sum(1)


def _embedding_factored(use: LayerUse, a: Tensor, g: Tensor) -> Factored:
    i, g = _indices(use, a, g)
    place, lengths = use.weight, _norm(g)
    assert place is not None
    if i.shape[1] == 1:
        square = lengths[:, 0].square() * (1 + LEAST_GAMMA)
    else:
        same = i[:, :, None] == i[:, None, :]
        square = _products(same.to, torch.ones_like(lengths), 1, g, lengths)

    def add(factors: list[Tensor], s: Tensor, sums: RowSums) -> None:
        (g,) = factors
        rows = torch.zeros(place[0].shape, dtype=torch.float64, device=g.device)
        rows.index_add_(0, i.flatten(), (g * s[:, None, None]).reshape(-1, g.shape[-1]))
        sums.add(place, rows)

    return Factored(square, [g], add)


def _indices(use: LayerUse, a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    i = a.reshape(len(a), a[:1].numel())
    g = g.reshape(len(a), i.shape[1], g.shape[-1])
    padding = use.layer.padding_idx
    return i, g if padding is None else g * (i != padding)[..., None]


# ------------------------------------------------------------------ norms
def _layer_norm_whole(use: LayerUse, a: Tensor, g: Tensor) -> Whole:
    shape, eps = use.layer.normalized_shape, use.layer.eps
    norm = functional.rms_norm if use.kind is nn.RMSNorm else functional.layer_norm

    def added(x: Tensor) -> Tensor:
        return x.reshape(len(x), -1, *shape).sum(1)

    return lambda: added(g * norm(a.to(g.dtype), shape, eps=eps)), lambda: added(g)


def _group_norm_whole(use: LayerUse, a: Tensor, g: Tensor) -> Whole:
    def added(x: Tensor) -> Tensor:
        return x.reshape(*x.shape[:2], x[:1, :1].numel()).sum(2)

    return (
        lambda: added(g * functional.group_norm(a.to(g.dtype), use.layer.num_groups, eps=use.layer.eps)),
        lambda: added(g),
    )


# ------------------------------------------------------------------ convolutions
def _conv_whole(use: LayerUse, a: Tensor, g: Tensor) -> Whole:
    layer: Any = use.layer
    n, places, padding = len(a), a.dim() - 2, layer.padding
    if isinstance(padding, str) or layer.padding_mode != "zeros":
        mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        a, padding = functional.pad(a, layer._reversed_padding_repeated_twice, mode=mode), (0,) * places

    def weight() -> Tensor:  # one convolution in which each row is a group
        return torch.ops.aten.convolution_backward(
            g.reshape(1, n * g.shape[1], *g.shape[2:]),
            a.reshape(1, n * a.shape[1], *a.shape[2:]),
            layer.weight.detach().to(g.dtype).repeat(n, *[1] * (places + 1)),
            None,
            layer.stride,
            padding,
            layer.dilation,
            False,
            [0] * places,
            layer.groups * n,
            [False, True, False],
        )[1].reshape(n, *layer.weight.shape)

    return weight, lambda: g.flatten(2).sum(2)


@dataclass(frozen=True, slots=True)
class LayerKind:
    """How the rows of one kind of layer are found."""

    whole: Callable[[LayerUse, Tensor, Tensor], Whole]
    factored: Callable[[LayerUse, Tensor, Tensor], Factored | None] | None = None


KINDS: dict[type[nn.Module], LayerKind] = {
    nn.Linear: LayerKind(_linear_whole, _linear_factored),
    nn.Embedding: LayerKind(_embedding_whole, _embedding_factored),
    nn.Conv1d: LayerKind(_conv_whole),
    nn.Conv2d: LayerKind(_conv_whole),
    nn.Conv3d: LayerKind(_conv_whole),
    nn.LayerNorm: LayerKind(_layer_norm_whole),
    nn.RMSNorm: LayerKind(_layer_norm_whole),
    nn.GroupNorm: LayerKind(_group_norm_whole),
}
"""The kinds of layers whose rows are found without a pass for each."""


# ------------------------------------------------------------------ attention
def attend(layer: nn.MultiheadAttention, keep: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """Return what stands in for the layer's `forward`, which never calls its projections as layers: the same numbers,
    with each projection handed to `keep`.
    """

    def added(mask: Tensor, dtype: torch.dtype) -> Tensor:  # to scores; True means that a key is left out
        if mask.dtype is not torch.bool:
            return mask
        return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -torch.inf)

    def project(weight: Any, bias: Any, rows: slice, bias_rows: slice, x: Tensor) -> Tensor:
        o = functional.linear(x, weight[rows], None if bias is None else bias[bias_rows])
        places = [
            (p, at) if p is not None and p.requires_grad else None for p, at in ((weight, rows), (bias, bias_rows))
        ]
        return keep(layer, nn.Linear, *places, x, o) if any(places) else o

    def projections(q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        weight, bias, wide = layer.in_proj_weight, layer.in_proj_bias, layer.embed_dim
        thirds = [slice(i * wide, (i + 1) * wide) for i in range(3)]
        if weight is None:
            apart = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
            return [project(w, bias, ALL, at, x) for w, at, x in zip(apart, thirds, (q, k, v), strict=True)]
        if q is k and k is v:
            return list(project(weight, bias, ALL, ALL, q).chunk(3, -1))
        return [project(weight, bias, at, at, x) for at, x in zip(thirds, (q, k, v), strict=True)]

    def forward(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if query.dim() != 3 or layer.bias_k is not None or layer.add_zero_attn:
            return type(layer).forward(
                layer, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
            )
        same = query is key and key is value
        if not layer.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
            key, value = (query, query) if same else (key, value)
        n, far, near, heads = len(query), query.shape[1], key.shape[1], layer.num_heads
        q, k, v = (x.reshape(n, -1, heads, layer.head_dim).transpose(1, 2) for x in projections(query, key, value))
        mask = None
        if attn_mask is not None:
            mask = added(attn_mask, q.dtype)
            mask = mask.reshape(n, heads, far, near) if mask.dim() == 3 else mask
        if key_padding_mask is not None:
            padding = added(key_padding_mask, q.dtype)[:, None, None, :]
            mask = padding if mask is None else mask + padding
        dropout, weights = layer.dropout if layer.training else 0.0, None
        if need_weights:
            scores = q @ k.transpose(2, 3) / layer.head_dim**0.5
            weights = functional.dropout(torch.softmax(scores if mask is None else scores + mask, -1), dropout)
            o = weights @ v
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            o = functional.scaled_dot_product_attention(q, k, v, mask, dropout)
        o = o.transpose(1, 2).reshape(n, far, layer.embed_dim)
        o = project(layer.out_proj.weight, layer.out_proj.bias, ALL, ALL, o)
        return (o if layer.batch_first else o.transpose(0, 1)), weights

    return forward
