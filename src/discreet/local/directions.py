"""Public random directions: unit vectors that a number names, the same on the device and on the server."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.local.hashing import Words, mixed

Floats = NDArray[np.float64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_MASK = np.uint64((1 << 32) - 1)


def directions(nonces: Words, index: NDArray[np.int64], dimension: int) -> Floats:
    """The directions with these indices that each nonce names: shape (nonces, indices, dimension), each of length 1.

    `index` is one-dimensional, the same for all nonces, or has a row for each. A Gaussian vector, divided by its
    length, is uniform on the sphere; the normals are Box and Muller's, of hashed counters.
    """
    pairs = -(-dimension // 2)
    index = np.broadcast_to(index, (nonces.size, index.shape[-1]))
    first = index.astype(np.uint64)[:, :, None] * np.uint64(pairs)
    counters = np.asarray(first + np.arange(pairs, dtype=np.uint64), dtype=np.uint64)
    words = mixed(mixed(nonces)[:, None, None] + counters * _STEP)
    radius = np.sqrt(-2 * np.log(((words >> _HALF).astype(np.float64) + 0.5) / 2**32))
    angle = (words & _MASK).astype(np.float64) * (2 * np.pi / 2**32)
    normals = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    vectors: Floats = normals.reshape(*index.shape, 2 * pairs)[:, :, :dimension]
    lengths = np.sqrt((vectors * vectors).sum(axis=-1, keepdims=True))
    return np.asarray(vectors / lengths)
