"""Report noisy max, with discrete Laplace, exponential or Gumbel noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import numbered
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.parameters import read_choice, read_confidence, read_whole
from discreet.mechanisms.selection import Selection
from discreet.noise import laplace, selection
from discreet.noise.entropy import Entropy
from discreet.noise.selection import Utilities
from discreet.privacy.discrete_events import BoundedRangeEvent
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.exact import Real, count
from discreet.privacy.guarantee import called, decimal


@dataclass(frozen=True, slots=True, init=False, repr=False)
class NoisyMax(Selection):
    """Names the candidate whose utility is largest after noise: discrete Laplace of scale 2Δ/ε, or another.

    With `noise="exponential"` it is the law of `PermuteAndFlip`, with `noise="gumbel"` that of `Exponential`:
    they take any finite numbers, are drawn by those samplers without ever rounding a noise, and err less than
    Laplace noise, the exponential one least. Laplace noise is for integers; ties are broken at random.

    Guarantee:
        ε-DP when the list of candidates is public and each utility (for Laplace noise an integer) moves by at most
        `sensitivity` = Δ between neighbours, in any direction; with `monotonic=True` the scale is Δ/ε, and all
        utilities have to move in one direction. Ties have positive probability on integers; a uniform choice among them
        keeps the guarantee. With Gumbel noise it is ε-bounded-range too (docs/proofs/noisy-max.md).

    References:
        Dwork, Roth, *The Algorithmic Foundations of Differential Privacy*, Claim 3.9 (there Δ = 1 and counts that move
        in one direction, hence half the scale), https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf; Ding, Kifer
        et al. 2021 (exponential noise is permute and flip), https://arxiv.org/abs/2105.07260; Gumbel noise: McSherry,
        Talwar 2007, Theorem 6, https://doi.org/10.1109/FOCS.2007.41, by the equivalence proved on the page.

    >>> NoisyMax(epsilon=1000).release(["red", "blue"], [3, 8])
    'blue'
    """

    noise: Literal["laplace", "exponential", "gumbel"]

    def __init__(
        self,
        *,
        epsilon: Real,
        sensitivity: Real = 1,
        noise: Literal["laplace", "exponential", "gumbel"] = "laplace",
        monotonic: bool = False,
    ) -> None:
        read_choice("noise", noise, _NOISES)
        whole = noise == "laplace"
        width = read_whole("sensitivity", sensitivity) if whole else sensitivity
        Selection.__init__(self, epsilon=epsilon, sensitivity=width, monotonic=monotonic)
        object.__setattr__(self, "noise", noise)
        if whole and 1 / self.rate > laplace.LARGEST_SCALE:
            raise InvalidParameter(
                "2·sensitivity/epsilon must be at most 2^56.",
                hint="PermuteAndFlip and noise='exponential' have no such limit",
            )

    @property
    def scale(self) -> float:
        """2Δ/ε, or Δ/ε where utilities are monotonic."""
        return float(1 / self.rate)

    @property
    def events(self) -> Composed:
        if self.noise == "gumbel":
            return Composed([BoundedRangeEvent(self.epsilon)])
        return Composed([ApproximateEvent(self.epsilon)])

    def error(self, confidence: Real = 0.95, *, candidates: int) -> float:
        """Return how far below the best utility the named one may be, among so many candidates.

        For Laplace noise twice a bound that all the noise stays within: P(|Z| > t) ≤ (1 − confidence)/n for
        each. For the others (2Δ/ε)(ln n + ln 1/(1 − confidence)), as of the mechanisms whose law they have.
        """
        if self.noise != "laplace":
            return Selection.error(self, confidence, candidates=candidates)
        n = count("candidates", candidates)
        each = 1 - (1 - read_confidence(confidence)) / n
        return 2.0 * DiscreteLaplaceNoise(1 / self.rate).quantile(each)

    def _index(self, utilities: Utilities, rng: Entropy) -> int:
        if self.noise == "exponential":
            return selection.permute_and_flip(utilities, self.rate, rng)
        if self.noise == "gumbel":
            return selection.exponential(utilities, self.rate, rng)
        whole = np.asarray(utilities).dtype.kind in "iu" or all(isinstance(u, int | np.integer) for u in utilities)
        if not whole:
            raise InvalidParameter(
                "utilities of NoisyMax with Laplace noise must be integers.",
                hint="use PermuteAndFlip or noise='exponential', which take floats as they are",
            )
        return selection.noisy_max(utilities, 1 / self.rate, rng)  # type: ignore[arg-type]  # whole, as just seen

    def explain(self) -> str:
        e, s, far = decimal(self.epsilon), decimal(1 / self.rate), decimal(self.spread)
        apart = self._apart
        law, tail = {
            "laplace": ("discrete Laplace Zᵢ of scale b = {}; ties at random", "P(Z = z) / P(Z = z + {})"),
            "exponential": (
                "exponential Zᵢ of scale b = {}; drawn as permute and flip, which is the same law",
                "P(Z > z) / P(Z > z + {})",
            ),
            "gumbel": (
                "Gumbel Zᵢ of scale b = {}; drawn as P(i) ∝ exp(uᵢ/b), which is the same law",
                "P(Z > z) / P(Z > z + {})",
            ),
        }[self.noise]
        return numbered(
            repr(self),
            self._moves(),
            f"Law. argmaxᵢ uᵢ + Zᵢ with independent {law.format(f'{apart}/ε = {s}')}.",
            "Others fixed. Given all Zⱼ with j ≠ i, the chance that i is named grows with Zᵢ, and what Zᵢ gives "
            f"under x is given by Zᵢ + {apart} = Zᵢ + {far} under y.",
            f"Ratio. {tail.format(apart)} ≤ exp({apart}/b) = exp({e}).",
            f"Conclusion. Averaged over the others, P(M(x) = i) / P(M(y) = i) ≤ exp({e}): M is {e}-DP.",
            self._changed(),
        )

    def __repr__(self) -> str:
        return called(self, "epsilon", "sensitivity", monotonic=False, noise="laplace")


_NOISES = ("laplace", "exponential", "gumbel")
