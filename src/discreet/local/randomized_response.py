"""Randomized response: the true value, or one of the others."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.local.coins import Coin, rounded_coin
from discreet.local.domain import Places
from discreet.local.frequency import FrequencyOracle, Integers, Scores, whole_reports
from discreet.local.randomizer import numbered
from discreet.noise.entropy import Entropy, below_vector
from discreet.privacy.discrete_events import RandomizedResponseEvent
from discreet.privacy.event import Composed
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import decimal

_TABLE = 1 << 20  # values up to which all are counted at once


@dataclass(frozen=True, slots=True, init=False, repr=False)
class RandomizedResponse(FrequencyOracle):
    """Reports the true value with chance p = e^ε/(e^ε + k − 1), and each of the k − 1 others with (1 − p)/(k − 1).

    The best choice for few values, k < 3e^ε + 2 or so; for two values nothing is better. Reports are places in the
    domain.

    Guarantee:
        Each report is ε-DP for any two values of the device, inside or outside of the domain. p is rounded down to a
        multiple of 2^−64, so that p(k − 1)/(1 − p) ≤ e^ε is proved in integers; `coin` holds it.

    References:
        Warner 1965, https://doi.org/10.1080/01621459.1965.10480775; Kairouz, Bonawitz, Ramage 2016 (k-RR),
        https://arxiv.org/abs/1602.07387; Wang, Blocki, Li, Jha 2017, Section 4 (direct encoding),
        https://www.usenix.org/system/files/conference/usenixsecurity17/sec17-wang-tianhao.pdf;
        docs/proofs/randomized-response.md

    >>> survey = RandomizedResponse(["no", "yes"], epsilon=30)
    >>> survey.estimate(survey.randomize(["no", "yes", "yes", "yes"])).values.round(6).tolist()
    [0.25, 0.75]
    """

    coin: Coin

    def __init__(
        self, domain: int | Iterable[Hashable] = (False, True), *, epsilon: Real, other: Hashable | None = None
    ) -> None:
        FrequencyOracle.__init__(self, domain, epsilon=epsilon, other=other)
        object.__setattr__(self, "coin", rounded_coin(self.epsilon, Fraction(1, self.domain.size - 1)))

    @property
    def events(self) -> Composed:
        return Composed([RandomizedResponseEvent(self.epsilon, self.domain.size)])

    @property
    def scores(self) -> Scores:
        p = self.coin.chance
        return Scores.of_support(p, (1 - p) / (self.domain.size - 1))

    def _reports(self, places: Places, rng: Entropy) -> NDArray[Any]:
        k = self.domain.size
        kept = self.coin.flips(places.size, rng)
        others = (places + 1 + below_vector(k - 1, places.size, rng)) % k
        return np.where(kept, places, others)

    def _totals(self, reports: NDArray[Any]) -> Integers:
        k = self.domain.size
        return np.bincount(whole_reports(reports, 1, k), minlength=k)

    def _totals_of(self, reports: NDArray[Any], places: Places) -> Integers:
        if self.domain.size <= _TABLE:
            return self._totals(reports)[places]
        ordered = np.sort(whole_reports(reports, 1, self.domain.size))  # no table of the whole domain
        last, first = (np.searchsorted(ordered, places, side=side) for side in ("right", "left"))
        return np.asarray(last - first)

    def explain(self) -> str:
        p, k = self.coin.chance, self.domain.size
        q = (1 - p) / (k - 1)
        e = decimal(self.epsilon)
        return numbered(
            repr(self),
            f"Law. The device reports its own value with chance p = {decimal(p)}, and each of the {k - 1} others with "
            f"q = (1 − p)/{k - 1} = {decimal(q)}; p is a whole number over 2^64, rounded down.",
            f"Ratio. A report has chance p or q under any value, so two values differ by p/q = {decimal(p / q)} at "
            f"most, and p ≤ exp({e})·q holds in integers, with a proved bound of exp(−{e}).",
            "Outside. A value outside of the domain has the law of one in it, or the average of all of them, whose "
            "chances lie between q and p.",
            f"Conclusion. P(report | x) ≤ exp({e})·P(report | x') for any two values: each report is {e}-DP.",
        )
