"""The discrete Laplace law, exactly: P(k) = (1−p)/(1+p)·p^|k| with p = exp(−1/scale)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.noise.cells import Target, cells, standard_exponential
from discreet.noise.entropy import Entropy
from discreet.noise.table import exponential

LARGEST_SCALE = 1 << 56
"""The largest scale of a vector, whose values are int64."""

_FEW = 256  # so many scalars cost less than the table of a fresh scale


def sample(scale: Fraction, rng: Entropy) -> int:
    """One integer from the discrete Laplace law; any rational scale above 0.

    Guarantee:
        Exact in law given ideal bits, in time that does not follow the value: ⌊scale·E⌋ is geometric with
        ratio p when E is a standard exponential real number, drawn lazily; a fair sign is put on it, and a
        negative zero is drawn anew.

    References:
        docs/proofs/laplace-sampling.md; Canonne, Kamath, Steinke 2020, Algorithm 2 (sign and rejection),
        https://arxiv.org/abs/2004.00010.
    """
    _check_scale(scale)
    standard = standard_exponential()
    while True:
        magnitude, minus = standard.floor(scale, 0, rng)
        if magnitude or not minus:
            return -magnitude if minus else magnitude


def sample_vector(scale: Fraction, size: int, rng: Entropy) -> NDArray[np.int64]:
    """`size` independent integers from the law of `sample`; scale at most 2^56.

    Guarantee:
        Exact in law given ideal bits; nothing is cut off and nothing wraps.

    References:
        docs/proofs/laplace-sampling.md.
    """
    _check_scale(scale)
    if scale > LARGEST_SCALE:
        raise InvalidParameter(
            f"the scale of a vector of Laplace noise is at most 2^56, not {scale}.",
            hint="draw single values, which have no limit, or use a coarser lattice",
        )
    _check_size(size)
    if size <= _FEW:
        return np.array([sample(scale, rng) for _ in range(size)], dtype=np.int64)
    return cells(exponential(scale), Target.INTEGERS).draw(size, rng)


def _check_scale(scale: Fraction) -> None:
    if scale.numerator <= 0:
        raise InvalidParameter(f"the scale of Laplace noise must be above 0, not {scale}.")


def _check_size(size: int) -> None:
    if size < 0:
        raise InvalidParameter(f"the size of a vector of Laplace noise must be at least 0, not {size}.")
