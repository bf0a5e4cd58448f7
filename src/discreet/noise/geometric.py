"""The geometric law on 0, 1, 2, …: P(X = k) = (1 − e^(−1/s))·e^(−k/s)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.noise import fixedpoint
from discreet.noise.entropy import Entropy, bits


def sample(scale: Fraction, rng: Entropy) -> int:
    """One draw with P(X = k) = (1 − e^(−1/s))·e^(−k/s), k ≥ 0, for any fraction s = `scale` > 0.

    Guarantee:
        Exact: X = ⌊−s·ln U⌋ for a uniform U, of which as many bits are drawn as decide the floor by a proved
        enclosure of the logarithm. One step nearly always suffices (it fails with a chance below 2^−64),
        and its work depends on `scale` only, so the time does not follow the draw.

    References:
        docs/proofs/geometric.md.
    """
    p, q = _positive(scale)
    known = 80 + max(0, p.bit_length() - q.bit_length()) & ~7
    drawn = bits(rng, known)
    while True:
        if drawn:
            # drawn/2^known ≤ U < (drawn + 1)/2^known, and ln(drawn + 1) ≤ ln(drawn) + 1/drawn
            lo, hi = fixedpoint.ln_ratio(drawn, 1 << known, known)
            least = -hi - -(-(1 << known) // drawn)
            k, above = (p * least // q) >> known, (p * -lo // q) >> known
            if k == above:
                return k
        drawn = drawn << 64 | bits(rng, 64)
        known += 64


def sample_vector(scale: Fraction, size: int, rng: Entropy) -> NDArray[np.int64]:
    """`size` independent draws of the law of `sample`, as 64-bit integers.

    Guarantee:
        Exact: with Y discrete Laplace of the same scale, X = Y for Y ≥ 0 and X = −1 − Y for Y < 0 has
        P(X = k) = P(Y = k) + P(Y = −1 − k) = (1 − e^(−1/s))·e^(−k/s). Scales are refused, and never
        wrapped, where `laplace.sample_vector` refuses them.

    References:
        docs/proofs/geometric.md.
    """
    from discreet.noise import laplace

    _positive(scale)
    y = laplace.sample_vector(scale, size, rng)
    return y ^ (y >> 63)


def _positive(scale: Fraction) -> tuple[int, int]:
    if scale <= 0:
        raise InvalidParameter("scale must be above 0.")
    return int(scale.numerator), int(scale.denominator)  # a fraction may hold numpy's integers, which wrap
