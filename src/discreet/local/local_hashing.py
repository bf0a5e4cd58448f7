"""Local hashing with linear hash functions, whose reports are decoded for all values at once by one Fourier transform.

A value is a vector x of t digits modulo a prime q. A device draws a public vector a uniformly, and reports a together
with ⟨a, x⟩ mod q, kept with chance p and otherwise another residue. How many reports support each x, that is have
⟨a, x⟩ = z, is for all x together one discrete Fourier transform over (Z/q)^t. A value is listed from so many supporting
reports on as exact tails of the binomial law show.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.coins import Coin, rounded_coin
from discreet.local.domain import Places
from discreet.local.estimate import Estimate
from discreet.local.frequency import FrequencyOracle, Integers, Scores, whole_reports
from discreet.local.randomizer import numbered
from discreet.noise.entropy import Entropy, below_vector
from discreet.privacy.exact import Real, exact, first_whole
from discreet.privacy.guarantee import decimal

MOST = 1 << 25
"""The most vectors x that are decoded."""

_PRIMES = tuple(q for q in range(2, 128) if all(q % d for d in range(2, q)))
_CHUNK = 1 << 20

_SAFETY = 1 + 1e-6  # far more than the incomplete beta function is off
_SMALLEST = Fraction(1, 10**200)


@dataclass(frozen=True, slots=True)
class LinearHash:
    """The law of one report (a, z), which is the whole number a·q + z.

    Guarantee:
        ε-DP: a is drawn without the value, and given a the report z = ⟨a, x⟩ has chance p, each other one
        (1 − p)/(q − 1), with p(q − 1)/(1 − p) ≤ e^ε in integers.

    Attributes:
        prime: q.
        digits: t.
        coin: heads with chance p.
    """

    prime: int
    digits: int
    coin: Coin

    @property
    def size(self) -> int:
        """q^t, the number of vectors."""
        return int(self.prime**self.digits)

    @property
    def scores(self) -> Scores:
        """A report supports the device's own x with chance p, every other x with chance exactly 1/q."""
        return Scores.of_support(self.coin.chance, Fraction(1, self.prime))

    def reports(self, places: Integers, rng: Entropy) -> Integers:
        """One report for each place from 0 to q^t − 1."""
        q, n = self.prime, places.size
        drawn = below_vector(self.size, n, rng)
        lie = below_vector(q - 1, n, rng) + 1
        lie[self.coin.flips(n, rng)] = 0
        return drawn * q + (self._product(drawn, places) + lie) % q

    def totals(self, reports: Integers) -> Integers:
        """For each of the q^t places, how many reports support it."""
        q, t = self.prime, self.digits
        half = q // 2 + 1  # what is left out on the last axis is the conjugate of what is there
        spectrum = np.zeros(q ** (t - 1) * half, dtype=np.complex128)
        turns = np.exp(-2j * np.pi * np.arange(q) / q)
        step = max(1, 2 * _CHUNK // q)
        for start in range(0, reports.size, step):
            drawn, z = np.divmod(reports[start : start + step], q)
            factors = np.arange(1, q)[:, None]  # G(s·a) gains ω^(−s·z) for each s
            *digits, last = (digit * factors % q for digit in self._digits(drawn))
            kept = last < half
            index = np.zeros_like(last)
            for digit in digits:
                index = index * q + digit
            np.add.at(spectrum, index[kept] * half + last[kept], turns[z * factors % q][kept])
        shape = (q,) * (t - 1) + (half,)
        waves = np.fft.irfftn(spectrum.reshape(shape), s=(q,) * t, axes=tuple(range(t)), norm="forward")
        # exact: the sum of at most 2^53 ones, in floats off by far less than a half
        return np.rint((waves.reshape(-1) + reports.size) / q).astype(np.int64)

    def supports(self, reports: Integers, place: int) -> NDArray[np.bool_]:
        """Return which reports support a place: the definition that `totals` counts."""
        drawn, z = np.divmod(reports, self.prime)
        return np.asarray(self._product(drawn, np.full(reports.shape, place)) == z)

    def _product(self, a: Integers, x: Integers) -> Integers:
        total = np.zeros(a.shape, dtype=np.int64)
        for digit, other in zip(self._digits(a), self._digits(x), strict=True):
            total += digit * other
        return total % self.prime

    def _digits(self, numbers: Integers) -> list[Integers]:
        """From the first to the last, as `reshape` orders the axes."""
        found = []
        for _ in range(self.digits):
            numbers, digit = np.divmod(numbers, self.prime)
            found.append(digit)
        return found[::-1]


@lru_cache(maxsize=64)
def linear_hash(epsilon: Fraction, size: int) -> LinearHash:
    """Return the hash for so many values of the least variance, where twice as long a transform weighs like a hundredth
    of it.

    Raises:
        InvalidParameter: there are more values than can be decoded.
    """
    if size > MOST:
        raise InvalidParameter(
            f"local hashing decodes at most 2^25 values at once, not {size:,}.",
            hint="HeavyHitters is for domains without a list",
        )
    laws = [LinearHash(q, _digits_for(size, q), rounded_coin(epsilon, Fraction(1, q - 1))) for q in _PRIMES]
    laws = [law for law in laws if law.size <= 2 * MOST]
    return min(laws, key=lambda law: law.scores.variance(Fraction(0)) * (100 + (law.size // size).bit_length()))


def _digits_for(size: int, q: int) -> int:
    t = 1
    while q**t < size:
        t += 1
    return t


def least_support(users: int, prime: int, chance: Fraction) -> int:
    """Return the least k with P(X ≥ k) ≤ chance, X binomial of `users` trials of chance 1/prime; or users + 1."""
    from scipy.special import betainc

    def tail(k: int) -> float:
        return 1.0 if k <= 0 else float(betainc(k, users - k + 1, 1 / prime)) * _SAFETY

    return first_whole(lambda k: tail(k) <= float(chance), 0, users + 1)  # tail(0) = 1, tail(users + 1) = 0


def read_error(error: Real) -> Fraction:
    """Return the chance of a false find, strictly between 0 and 1."""
    chance = exact("error", error)
    if not _SMALLEST <= chance < 1:
        raise InvalidParameter(f"error must lie between 0 and 1, not {decimal(chance)}.", hint="error=0.05")
    return chance


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

    def __init__(self, domain: int | Iterable[Hashable], *, epsilon: Real, other: Hashable | None = None) -> None:
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
