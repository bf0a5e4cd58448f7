"""Local hashing over a public list of values, decoded for all of them at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.local.domain import Places
from discreet.local.estimate import Estimate
from discreet.local.frequency import FrequencyOracle, Integers, Scores, whole_reports
from discreet.local.linear_hash import LinearHash, least_support, linear_hash, read_error
from discreet.local.randomizer import numbered
from discreet.noise.entropy import Entropy
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import decimal


@dataclass(frozen=True, slots=True, init=False, repr=False)
class LocalHashing(FrequencyOracle):
    """Reports a public random hash function with q ≈ e^ε + 1 values, and the noisy hash of the device's value.

    Optimised local hashing (OLH) with the linear functions x ↦ ⟨a, x⟩ on vectors of digits modulo a prime q: its
    variance is that of OLH (within 8 % for ε ≤ 5; q is at most 127), but all of a million values are decoded by one
    Fourier transform, where OLH needs time for each pair of a report and a value. A report is one whole number below
    q^(t + 1), where q^t holds the domain.

    Guarantee:
        Each report is ε-DP for any two values of the device, inside or outside of the domain: the hash function is
        drawn without looking at the value, and the residue that it gives is kept with chance p, where
        p(q − 1)/(1 − p) ≤ e^ε is proved in integers.

    References:
        Wang, Blocki, Li, Jha 2017 (OLH),
        https://www.usenix.org/system/files/conference/usenixsecurity17/sec17-wang-tianhao.pdf; Feldman, Nelson,
        Nguyen, Talwar 2022 (linear structure over a finite field, for fast decoding),
        https://arxiv.org/abs/2203.00194; docs/proofs/heavy-hitters.md, Theorems 1 and 2.

    >>> LocalHashing(["a", "b", "c"], epsilon=1).law.prime
    3
    """

    def __init__(
        self, domain: int | Iterable[Hashable], *, epsilon: Real, other: Hashable | None = None
    ) -> None:
        FrequencyOracle.__init__(self, domain, epsilon=epsilon, other=other)
        linear_hash(self.epsilon, self.domain.size)  # refuses what cannot be decoded

    @property
    def law(self) -> LinearHash:
        """The law of a report: q, t and p."""
        return linear_hash(self.epsilon, self.domain.size)

    @property
    def scores(self) -> Scores:
        return self.law.scores

    def find(self, reports: Any, *, error: Real = "0.05") -> Estimate:
        """Return the values that enough reports support, the most frequent first: the heavy hitters.

        Args:
            reports: an array with one report for each device.
            error: a bound of the chance that any value is listed that no device holds.

        Guarantee:
            Of the list: the reports that support a value which no device holds are binomial with the exact chance 1/q,
            whatever the others hold; the bound is by the exact tail, for all values of the domain together.
        """
        chance = read_error(error)
        found = self.estimate(reports)
        least = least_support(found.users, self.law.prime, chance / self.domain.size)
        p, q = float(self.law.coin.chance), self.law.prime
        floor = (least - 0.5 - found.users / q) / (found.users * (p - 1 / q))
        order = np.argsort(-found.values, kind="stable")
        order = order[found.values[order] > floor]
        return Estimate(
            tuple(found.labels[i] for i in order.tolist()),
            found.values[order],
            users=found.users,
            own=found.own[order],
            other=found.other[order],
            reach=found.reach,
        )

    def _reports(self, places: Places, rng: Entropy) -> NDArray[Any]:
        return self.law.reports(places, rng)

    def _totals(self, reports: NDArray[Any]) -> Integers:
        law = self.law
        whole = whole_reports(reports, 1, law.size * law.prime)
        return law.totals(whole)[: self.domain.size]

    def explain(self) -> str:
        law, e = self.law, decimal(self.epsilon)
        q, t, p = law.prime, law.digits, law.coin.chance
        return numbered(
            repr(self),
            f"Hash. A value is a vector x of {t} digits modulo q = {q}; a uniform vector a is drawn without it, and "
            "h = ⟨a, x⟩ mod q.",
            f"Law. z = h with chance p = {decimal(p)}, each other residue with chance (1 − p)/{q - 1}; (a, z) is "
            "reported.",
            f"Ratio. Given a, two values have ratio at most p·{q - 1}/(1 − p), which is at most exp({e}) in integers.",
            "Conclusion. The law of a is the same for all values, so "
            f"P(report | x) ≤ exp({e})·P(report | x'): each report is {e}-DP.",
            f"Decoding. A report supports every x with ⟨a, x⟩ = z: the device's own with chance p, any other with "
            f"chance 1/{q}.",
        )
