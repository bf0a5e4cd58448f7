"""Unary encoding: a bit for each value of the domain, each of them noisy."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.coins import WHOLE, Coin, check_ratio, rounded_coin
from discreet.local.domain import Places
from discreet.local.frequency import FrequencyOracle, Integers, Scores, no_report
from discreet.local.randomizer import numbered
from discreet.noise.entropy import Entropy
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import called, decimal

_MOST_BITS = 1 << 32


@dataclass(frozen=True, slots=True, init=False, repr=False)
class UnaryEncoding(FrequencyOracle):
    """Reports k bits: that of the device's value is 1 with chance p, each of the others with chance q.

    "optimised" (OUE) has p = 1/2 and q = 1/(e^ε + 1), and nearly the least error for rare values of a large domain.
    "symmetric" (basic RAPPOR) has p = e^(ε/2)/(e^(ε/2) + 1) and q = 1 − p. Reports are arrays of k bytes, 0 or 1
    (`numpy.packbits` makes them smaller on the wire).

    Guarantee:
        Each report is ε-DP for any two values of the device, inside or outside of the domain. The chances are multiples
        of 2^−64, rounded so that p(1 − q)/((1 − p)q) ≤ e^ε is proved in integers.

    References:
        Wang, Blocki, Li, Jha 2017, Section 4 (symmetric and optimized unary encoding),
        https://www.usenix.org/system/files/conference/usenixsecurity17/sec17-wang-tianhao.pdf;
        Erlingsson, Pihur, Korolova 2014, Section 3.1 (basic one-time RAPPOR), https://arxiv.org/abs/1407.6981;
        docs/proofs/unary-encoding.md

    >>> UnaryEncoding(5, epsilon=1).randomize(3).shape
    (5,)
    """

    variant: Literal["optimised", "symmetric"]
    true: Coin
    false: Coin

    def __init__(
        self,
        domain: int | Iterable[Hashable],
        *,
        epsilon: Real,
        other: Hashable | None = None,
        variant: Literal["optimised", "symmetric"] = "optimised",
    ) -> None:
        FrequencyOracle.__init__(self, domain, epsilon=epsilon, other=other)
        asked: object = variant  # what came need not be what was annotated
        if not isinstance(asked, str) or asked not in ("optimised", "symmetric"):
            given = repr(asked) if isinstance(asked, str) else type(asked).__name__
            raise InvalidParameter(
                f"variant must be 'optimised' or 'symmetric', not {given}.", hint="variant='optimised'"
            )
        if variant == "optimised":
            true, kept = Coin(WHOLE // 2), rounded_coin(self.epsilon)
        else:
            true = kept = rounded_coin(self.epsilon / 2)
        false = Coin(WHOLE - kept.weight)
        p, q = true.chance, false.chance
        check_ratio(p * (1 - q) / ((1 - p) * q), self.epsilon)
        for name, value in (("variant", variant), ("true", true), ("false", false)):
            object.__setattr__(self, name, value)

    @property
    def scores(self) -> Scores:
        return Scores.of_support(self.true.chance, self.false.chance)

    def _reports(self, places: Places, rng: Entropy) -> NDArray[Any]:
        n, k = places.size, self.domain.size
        if n * k > _MOST_BITS:
            raise InvalidParameter(
                f"reports of {n:,} devices with {k:,} bits each do not fit in memory.",
                hint="randomize fewer devices at a time, or use Hadamard, whose reports are short",
            )
        bits = self.false.flips(n * k, rng).reshape(n, k)
        bits[np.arange(n), places] = self.true.flips(n, rng)
        return bits.view(np.uint8)

    def _totals(self, reports: NDArray[Any]) -> Integers:
        if reports.ndim != 2 or reports.shape[1] != self.domain.size or reports.dtype.kind not in "iub":
            raise no_report(f"{reports.dtype} of shape {reports.shape}")
        if reports.min() < 0 or reports.max() > 1:
            raise no_report("a number that is no bit")
        return np.asarray(reports.sum(axis=0, dtype=np.int64))

    def explain(self) -> str:
        p, q = self.true.chance, self.false.chance
        e = decimal(self.epsilon)
        return numbered(
            repr(self),
            f"Law. Of {self.domain.size} bits that of the device's value is 1 with chance p = {decimal(p)}, each other "
            f"one with chance q = {decimal(q)}, all of them independent; both are whole numbers over 2^64.",
            "Neighbours. For two values x, x' all bits but theirs have the same law, and cancel.",
            "Ratio. The two that are left give at most p/q · (1 − q)/(1 − p) = "
            f"{decimal(p * (1 - q) / ((1 - p) * q))}, where bit x is 1 and bit x' is 0; it is at most exp({e}) in "
            f"integers, with a proved bound of exp(−{e}).",
            "Outside. A value outside of the domain has the law of one in it, or the average of all of them.",
            f"Conclusion. P(report | x) ≤ exp({e})·P(report | x') for any two values: each report is {e}-DP.",
        )

    def __repr__(self) -> str:
        return called(self, "epsilon", "variant", first=repr(self.domain))
