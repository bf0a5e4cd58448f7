"""Numbers that tests choose: a uniform real as the bytes a sampler reads, a fraction of numpy's integers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.testing.replay import ReplayEntropy


def replayed(u: Fraction, chunks: Sequence[int]) -> ReplayEntropy:
    """The binary digits of u in [0, 1), in chunks of so many bytes, the most significant chunk first."""
    data = b""
    for n in chunks:
        whole, u = divmod(u * 256**n, 1)
        data += int(whole).to_bytes(n, "little")
    return ReplayEntropy(data)


def of_numpy(numerator: int, denominator: int) -> Fraction:
    """A fraction that holds 64-bit integers, as a user's arithmetic may make it."""
    word: Any = np.int64
    return Fraction(word(numerator), word(denominator))
