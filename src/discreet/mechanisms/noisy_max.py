"""Report noisy max, with discrete Laplace noise."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.mechanism import numbered
from discreet.mechanisms.parameters import read_confidence, read_whole
from discreet.mechanisms.selection import Selection
from discreet.noise import laplace, selection
from discreet.noise.entropy import Entropy
from discreet.noise.gaps import Utilities
from discreet.privacy.exact import Real, count
from discreet.privacy.guarantee import decimal


@dataclass(frozen=True, slots=True, init=False, repr=False)
class NoisyMax(Selection):
    """Names the candidate whose integer utility is largest after discrete Laplace noise of scale 2Δ/ε.

    Ties are broken at random.

    Guarantee:
        ε-DP when the list of candidates is public and each utility, an integer, moves by at most
        `sensitivity` = Δ between neighbours, in any direction. Ties have positive probability on integers; a
        uniform choice among them keeps the guarantee (docs/proofs/noisy-max.md).

    References:
        Dwork, Roth, *The Algorithmic Foundations of Differential Privacy*, Claim 3.9 (there Δ = 1 and counts
        that move in one direction, hence half the scale),
        https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf

    >>> NoisyMax(epsilon=1000).release(["red", "blue"], [3, 8])
    'blue'
    """

    def __init__(self, *, epsilon: Real, sensitivity: Real = 1) -> None:
        Selection.__init__(self, epsilon=epsilon, sensitivity=read_whole("sensitivity", sensitivity))
        if 1 / self.rate > laplace.LARGEST_SCALE:
            raise InvalidParameter(
                "2·sensitivity/epsilon must be at most 2^56.", hint="PermuteAndFlip has no such limit"
            )

    @property
    def scale(self) -> float:
        """2Δ/ε."""
        return float(1 / self.rate)

    def error(self, confidence: Real = 0.95, *, candidates: int) -> float:
        """How far below the best utility the named one may be, among so many candidates.

        Twice a bound that all the noise stays within: P(|Z| > t) ≤ (1 − confidence)/n for each.
        """
        n = count("candidates", candidates)
        each = 1 - (1 - read_confidence(confidence)) / n
        return 2.0 * DiscreteLaplaceNoise(1 / self.rate).quantile(each)

    def _index(self, utilities: Utilities, rng: Entropy) -> int:
        whole = np.asarray(utilities).dtype.kind in "iu" or all(
            isinstance(u, int | np.integer) for u in utilities
        )
        if not whole:
            raise InvalidParameter(
                "utilities of NoisyMax must be integers.",
                hint="use PermuteAndFlip, which takes floats as they are",
            )
        return selection.noisy_max(utilities, 1 / self.rate, rng)  # type: ignore[arg-type]  # whole, as just seen

    def explain(self) -> str:
        e, d, s = decimal(self.epsilon), decimal(self.sensitivity), decimal(Fraction(1) / self.rate)
        return numbered(
            repr(self),
            f"Sensitivity. Between neighbours x, y every utility moves by at most Δ = {d}.",
            f"Law. argmaxᵢ uᵢ + Zᵢ with independent discrete Laplace Zᵢ of scale b = 2Δ/ε = {s}; ties at "
            "random.",
            "Others fixed. Given all Zⱼ with j ≠ i, the chance that i is named grows with Zᵢ, and what Zᵢ "
            "gives under x "
            f"is given by Zᵢ + 2Δ = Zᵢ + {decimal(2 * self.sensitivity)} under y.",
            f"Ratio. P(Z = z) / P(Z = z + 2Δ) ≤ exp(2Δ/b) = exp({e}).",
            f"Conclusion. Averaged over the others, P(M(x) = i) / P(M(y) = i) ≤ exp({e}): M is {e}-DP.",
        )
