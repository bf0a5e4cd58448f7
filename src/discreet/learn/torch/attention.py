"""Attention whose projections are seen as layers: `nn.MultiheadAttention` itself never calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

ALL = slice(None)


def attend(layer: nn.MultiheadAttention, keep: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """Return what stands in for the layer's `forward`: the same numbers, with each projection handed to `keep`."""

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
            mask = _added(attn_mask, q.dtype)
            mask = mask.reshape(n, heads, far, near) if mask.dim() == 3 else mask
        if key_padding_mask is not None:
            padding = _added(key_padding_mask, q.dtype)[:, None, None, :]
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


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a mask that is added to scores, of one where True means that a key is left out."""
    return (
        torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -torch.inf)
        if mask.dtype is torch.bool
        else mask
    )
