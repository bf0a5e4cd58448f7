"""How far the noise of a rank reaches: a rank is a sum of noisy nodes, all with noise of one law."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from discreet.mechanisms.additive import Additive

Weights: TypeAlias = tuple[tuple[Fraction, int], ...]
"""(size of a coefficient, how many independent noises have it)."""


@lru_cache(maxsize=1 << 14)
def rank_error(noise: Additive, weights: Weights, confidence: Fraction) -> float:
    """A t with P(|Σ aᵢ Zᵢ| ≤ t) ≥ confidence for independent noises Zᵢ of one law; at most about 3 % above the least.

    Guarantee:
        Each aᵢZᵢ is moved to the middle of a cell, by half a cell at most, so that the sum moves by at most half a cell
        for each term, which is added to t. The sum of the moved terms is convolved on a circle; what is beyond it, or
        wraps around it, is less than what is taken off and counts as outside (docs/proofs/spreads.md).
    """
    terms = [(max(float(a), _LEAST), n) for a, n in weights if a and n]
    count = sum(n for _, n in terms)
    if not count:
        return 0.0
    deviation = math.sqrt(sum(n * a * a for a, n in terms) * noise.variance)
    alone = noise.quantile(1 - (1 - confidence) / count)  # all terms are within it at once
    surely = sum(n * a for a, n in terms) * alone
    reach, furthest, beyond = _NEAR if 1 - confidence >= _OFTEN else _FAR
    if 1 - confidence <= 4 * beyond or deviation < _STILL or alone == 0:
        return surely
    step = deviation / (_CELLS * count)
    size = -(-2 * math.ceil(reach * _stretch(deviation)) * _CELLS * count // _ROUND) * _ROUND
    k = np.arange(-(size // 2), size // 2 + 1, dtype=np.float64)
    spectrum = np.ones(size // 2 + 1)
    for a, n in terms:
        mass = np.fft.ifftshift(np.diff(noise.cdf((k - 0.5) * (step / a))))
        spectrum = spectrum * np.fft.rfft(mass).real ** n  # a symmetric law has a real transform
    law = np.fft.irfft(spectrum, size)
    inside = law[0] + np.concatenate(([0.0], 2 * np.cumsum(law[1 : size // 2])))
    enough = np.flatnonzero(inside >= float(confidence) + 2 * beyond)
    if not len(enough) or enough[0] > furthest * _CELLS * count:
        return surely
    return min(surely, (int(enough[0]) + count / 2 + 0.5) * step)


def _stretch(deviation: float) -> float:
    """√κ: how much further than Laplace's a sum of small integers with this deviation may reach."""
    rate = deviation**-2
    if rate < 1e-6:
        return 1.0  # κ is below 1 + 1e-6
    return math.sqrt(2 * rate) / math.acosh(1 + rate)


_CELLS = 25  # of a standard deviation, for each term
_OFTEN = Fraction(1, 10_000)
# Half the circle in standard deviations, the furthest t that is believed, and a bound on what wraps around
# (docs/proofs/spreads.md): P(|S| > x) ≤ 2 min over u of exp(−√2 x u)/(1 − u²), with x twice the first less the second.
_NEAR = (12, 8, 1e-8)
_FAR = (20, 12, 1e-11)
_ROUND = 256  # sizes with small factors transform fast
_LEAST = 1e-250  # a smaller coefficient counts as this much, so that what is divided by it stays a float
_STILL = 1e-3  # noise with a deviation below this is 0 but once in a million times
