"""Uniform integers below n, exact for every n."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.noise.entropy import Entropy, bits, words16, words32, words64


def below(n: int, rng: Entropy) -> int:
    """Return a uniform integer in [0, n), for any n ≥ 1.

    Guarantee:
        Exact: as many bits as n − 1 has are drawn until they are below n, fewer than twice on average. The
        number of draws is independent of the result.
    """
    if n < 1:
        raise InvalidParameter("n must be an integer of at least 1.")
    k = (n - 1).bit_length()
    while True:
        drawn = bits(rng, k)
        if drawn < n:
            return drawn


def below_vector(n: int, size: int, rng: Entropy) -> NDArray[np.int64]:
    """`size` independent uniform integers in [0, n), for 1 ≤ n ≤ 2^63.

    Guarantee:
        Exact, by the same rejection as `below`.
    """
    if not 1 <= n <= 1 << 63:
        raise InvalidParameter("n must be an integer from 1 to 2^63.")
    if size < 0:
        raise InvalidParameter("size must be an integer of at least 0.")
    k = (n - 1).bit_length()
    if n == 1 << k:
        return _words(k, size, rng)
    drawn = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        left = size - filled
        more = _words(k, left + left * ((1 << k) - n) // n + 16, rng)  # about the expected number; the rest is repeated
        accepted = more[more < n][:left]
        drawn[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return drawn


def _words(k: int, size: int, rng: Entropy) -> NDArray[np.int64]:
    """`size` words of k ≤ 63 uniform bits."""
    if k == 0:
        return np.zeros(size, dtype=np.int64)
    if k <= 16:
        return (words16(rng, size) >> np.uint16(16 - k)).astype(np.int64)
    if k <= 32:
        return (words32(rng, size) >> np.uint32(32 - k)).astype(np.int64)
    return (words64(rng, size) >> np.uint64(64 - k)).astype(np.int64)
