"""RAPPOR: noisy Bloom filters of texts out of no fixed list, once or again and again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.coins import WHOLE, Coin, check_ratio, rounded_coin
from discreet.local.domain import is_many, listed, read_array
from discreet.local.estimate import Estimate, Floats, Shares, half_width, read_epsilon
from discreet.local.frequency import no_report, read_reports
from discreet.local.hashing import Bloom, text
from discreet.local.randomizer import Randomizer, numbered
from discreet.noise.entropy import Entropy, SystemEntropy, below_vector
from discreet.privacy.exact import Real, above, count, set_fields
from discreet.privacy.guarantee import called, decimal

Bytes = NDArray[np.uint8]

_MOST_BITS = 1 << 16
_MOST_COHORTS = 256
_MOST_HASHES = 8  # as many as BLAKE2b gives words
_MOST_CELLS = 1 << 27
_LEAST_INDEPENDENT = 1e-6


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Rappor(Randomizer):
    """Reports the Bloom filter of a text with each bit flipped by a coin; the server knows candidates.

    A device has no list of values. It draws a cohort, sets the `hashes` bits of its text in that cohort's filter,
    keeps each bit with chance `permanent` and turns it otherwise (the permanent response), and, where `lifetime` is
    above `epsilon`, keeps each of those with chance `instant` (the instantaneous response). Reports are arrays of
    bytes: the cohort, then the bits. With `Memoised(Rappor(…))` the permanent response is drawn once for a text, and
    only the instantaneous one again: the original's two levels.

    Args:
        epsilon: the ε of one report.
        lifetime: the ε of all reports ever made of one text once it is memoised; by default `epsilon`, and then the
            report is the permanent response itself (one-time RAPPOR).
        bits: the size of a filter.
        hashes: the bits that a text sets in it.
        cohorts: how many families of hash functions there are.

    Guarantee:
        One report is ε-DP, and all reports from one permanent response are `lifetime`-DP, for any two texts of a
        device. Two filters differ in at most 2·hashes bits, and each contributes at most the odds of a kept bit. The
        chances are multiples of 2^−64, and both bounds are proved in integers. Cohorts are drawn without looking at
        the text.

    References:
        Erlingsson, Pihur, Korolova 2014, Theorem 1 (permanent: 2h·ln((1 − f/2)/(f/2)), here f/2 is 1 − `permanent`) and
        Theorem 2 (one report), https://arxiv.org/abs/1407.6981; docs/proofs/rappor.md

    >>> Rappor(epsilon=1, lifetime=4)
    Rappor(epsilon=1, lifetime=4, bits=128, hashes=2, cohorts=8)
    """

    epsilon: Fraction
    lifetime: Fraction
    bloom: Bloom
    permanent: Coin
    instant: Coin

    def __init__(
        self, *, epsilon: Real, lifetime: Real | None = None, bits: int = 128, hashes: int = 2, cohorts: int = 8
    ) -> None:
        one = read_epsilon(epsilon)
        ever = one if lifetime is None else read_epsilon(lifetime, "lifetime")
        if ever < one:
            raise InvalidParameter(
                f"lifetime must be at least epsilon = {decimal(one)}, not {decimal(ever)}: it covers one report too.",
                hint="leave lifetime out for reports that are the permanent response",
            )
        bloom = Bloom(
            _limited("bits", bits, _MOST_BITS, least=2),
            _limited("hashes", hashes, _MOST_HASHES),
            _limited("cohorts", cohorts, _MOST_COHORTS),
        )
        permanent = rounded_coin(ever / (2 * bloom.hashes))
        instant = Coin(WHOLE) if ever == one else _instant(permanent, rounded_coin(one / (2 * bloom.hashes)))
        set_fields(self, epsilon=one, lifetime=ever, bloom=bloom, permanent=permanent, instant=instant)
        kept = self.kept
        check_ratio((permanent.chance / (1 - permanent.chance)) ** (2 * bloom.hashes), ever)
        check_ratio((kept / (1 - kept)) ** (2 * bloom.hashes), one)

    @property
    def kept(self) -> Fraction:
        """The chance that a bit of a report is that of the filter."""
        a, b = self.permanent.chance, self.instant.chance
        return a * b + (1 - a) * (1 - b)

    def randomize(self, x: Any, *, rng: Entropy | None = None) -> Any:
        """Return the report of one device that holds the text `x`; for an array or a list, one report for each.

        Args:
            x: any value, which stands for its `str`; or an array or a list with one value for each device.
            rng: where randomness comes from, for tests; the operating system's by default.
        """
        source = SystemEntropy() if rng is None else rng
        many = is_many(x)
        values = [x] if not many else x if isinstance(x, list) else read_array("x", x).tolist()
        reports = self._turned(self._permanent(values, source), self.instant, source)
        return reports if many else reports[0]

    def fix(self, x: Any, rng: Entropy) -> Any:
        """Return the permanent response of one device: drawn once for a text."""
        return self._permanent([x], rng)[0]

    def repeat(self, fixed: Any, rng: Entropy) -> Any:
        """Return an instantaneous response from what is permanent."""
        return self._turned(np.array([fixed], dtype=np.uint8), self.instant, rng)[0]

    def key(self, x: Any) -> str:
        """Return the text that is hashed."""
        return text(x).hex()

    def estimate(self, reports: Any, *, domain: Sequence[Hashable] | None = None) -> Estimate:
        """Return the share of the devices that hold each candidate, by least squares over all bits of all cohorts.

        Args:
            reports: an array with one report for each device, or a list of reports.
            domain: the candidates. Estimates are unbiased when every device holds one of them; a device with another
                text adds to the candidates whose bits it shares.

        Raises:
            InvalidParameter: no candidates, or too many to be told apart by so many bits; no reports of these
            parameters.
        """
        candidates, design = self._design(domain)
        given = self._given(reports)
        solution: Floats = np.asarray(np.linalg.pinv(design), dtype=np.float64)
        noise = float(self.kept * (1 - self.kept) / (2 * self.kept - 1) ** 2)
        own, other = _variances(solution, design, self.bloom, noise)
        return Estimate(
            candidates,
            solution @ self._means(given),
            users=len(given),
            own=own,
            other=other,
            reach=self._reach(solution),
        )

    def fit(self, reports: Any, domain: Sequence[Hashable]) -> Shares:
        """Return the shares of at least 0 that fit the bits best: non-negative least squares, as in the paper.

        For more candidates than can be told apart, of which few are there. Biased, and without intervals.

        Args:
            reports: an array with one report for each device, or a list of reports.
            domain: the candidates.
        """
        from scipy.optimize import nnls

        candidates, design = self._design(domain, told_apart=False)
        means = self._means(self._given(reports))
        # Each cohort's bits count alike: they have nearly the same variance.
        shares, _ = nnls(design, means)
        return Shares(candidates, shares)

    def error(self, users: int, confidence: Real = 0.95) -> float:
        """Return how far a share is off at most, with that confidence, for a candidate whose bits are its own.

        Collisions between the candidates add to it: `estimate` counts them.
        """
        h = self.bloom.hashes
        noise = self.kept * (1 - self.kept) / (2 * self.kept - 1) ** 2
        # Solution 1/(m·h) on m·h bits of its own: a user's part has variance m·(m·h)·noise/(m·h)², and no other.
        return half_width(above(noise / h), users, confidence)

    def explain(self) -> str:
        a, s, h = self.permanent.chance, self.kept, self.bloom.hashes
        e, ever = decimal(self.epsilon), decimal(self.lifetime)
        return numbered(
            repr(self),
            f"Filter. A text sets at most {h} of {self.bloom.bits} bits, so the filters of two texts differ in at most "
            f"2·{h} bits; the cohort is drawn without looking at the text.",
            f"Permanent. Each bit is kept with chance a = {decimal(a)}, independently: two texts differ by "
            f"(a/(1 − a))^{2 * h} ≤ exp({ever}), in integers, with a proved bound of exp(−{ever}).",
            f"For ever. All reports made from the permanent response are post-processing of it: together {ever}-DP.",
            f"One report. Over both coins a bit is that of the filter with chance s = {decimal(s)}, and "
            f"(s/(1 − s))^{2 * h} ≤ exp({e}), in integers.",
            f"Conclusion. P(report | x) ≤ exp({e})·P(report | x') for any two texts: one report is {e}-DP.",
        )

    def _permanent(self, values: list[Any], rng: Entropy) -> Bytes:
        n = len(values)
        if n * self.bloom.bits > _MOST_CELLS * 16:
            raise InvalidParameter(
                f"reports of {n:,} devices with {self.bloom.bits:,} bits each do not fit in memory.",
                hint="randomize fewer devices at a time",
            )
        cohorts = below_vector(self.bloom.cohorts, n, rng)
        filters = self.bloom.filters(values, cohorts.tolist())
        return self._turned(np.column_stack((cohorts.astype(np.uint8), filters)), self.permanent, rng)

    def _turned(self, reports: Bytes, coin: Coin, rng: Entropy) -> Bytes:
        """Return the bits kept with the coin's chance and turned otherwise; the cohort stays."""
        bits = reports[:, 1:]
        turned = Coin(WHOLE - coin.weight).flips(bits.size, rng).reshape(bits.shape)
        return np.column_stack((reports[:, 0], bits ^ turned))

    def _given(self, reports: Any) -> Bytes:
        given = read_reports(reports)
        shaped = given.ndim == 2 and given.shape[1] == self.bloom.bits + 1 and given.dtype.kind in "iub"
        if not shaped or given.min() < 0 or given[:, 1:].max() > 1:
            raise no_report(f"{given.dtype} of shape {given.shape}")
        if given[:, 0].max() >= self.bloom.cohorts:
            raise no_report("a cohort that there is not")
        return given.astype(np.uint8, copy=False)

    def _means(self, reports: Bytes) -> Floats:
        """For each cohort and bit an unbiased estimate of the share of devices whose filter would have it set there."""
        n, m = len(reports), self.bloom.cohorts
        ones = np.zeros((m, self.bloom.bits))
        users = np.bincount(reports[:, 0], minlength=m)
        for cohort in range(m):
            ones[cohort] = reports[reports[:, 0] == cohort, 1:].sum(axis=0, dtype=np.int64)
        turned, gap = float(1 - self.kept), float(2 * self.kept - 1)
        return ((ones - turned * users[:, None]) * (m / (gap * n))).ravel()

    def _design(
        self, domain: Sequence[Hashable] | None, *, told_apart: bool = True
    ) -> tuple[tuple[Hashable, ...], Floats]:
        """Return the candidates, and for each of them the bits that it sets in each cohort, as a column."""
        candidates: tuple[Hashable, ...] = listed(domain)
        if not candidates or len(set(map(text, candidates))) < len(candidates):
            raise InvalidParameter(
                "domain= must list the candidates, each of them once: RAPPOR's devices have no list of values.",
                hint="rappor.estimate(reports, domain=['red', 'green', 'blue'])",
            )
        m, cells = self.bloom.cohorts, self.bloom.cohorts * self.bloom.bits
        if len(candidates) * cells > _MOST_CELLS or (told_apart and len(candidates) > cells):
            raise InvalidParameter(
                f"{len(candidates):,} candidates are too many for {m} cohorts of {self.bloom.bits} bits.",
                hint="estimate fewer at a time with fit(), or use more bits and cohorts",
            )
        columns = [self.bloom.filters(candidates, [cohort] * len(candidates)) for cohort in range(m)]
        design = np.concatenate(columns, axis=1).T.astype(np.float64)
        if told_apart and np.linalg.svd(design, compute_uv=False)[-1] < _LEAST_INDEPENDENT:
            raise InvalidParameter(
                "some candidates cannot be told apart by their bits.",
                hint="use fewer candidates, more bits or more cohorts; fit() takes them as they are",
            )
        return candidates, design

    def _reach(self, solution: Floats) -> float:
        """Return how far a device's part can lie from its mean: within twice the largest it can be."""
        m, s = self.bloom.cohorts, float(self.kept)
        by_cohort = np.abs(solution).reshape(len(solution), m, self.bloom.bits).sum(axis=2)
        return 2 * float(by_cohort.max()) * m * s / (2 * s - 1) * (1 + 1e-9)

    def __repr__(self) -> str:
        ever = ("lifetime",) if self.lifetime != self.epsilon else ()
        return called(self, "epsilon", *ever, "bloom.bits", "bloom.hashes", "bloom.cohorts")


def _variances(solution: Floats, design: Floats, bloom: Bloom, noise: float) -> tuple[Floats, Floats]:
    """For each candidate the variance of a device's part when it holds the candidate, and the largest when another.

    A device that holds u and is in cohort c adds m·A_c·(bits_c + noise), so that its part for v has mean [u = v] and
    variance m·Σ_c (noise·|A_vc|² + (A_vc·X_cu)²) − [u = v].
    """
    m, k = bloom.cohorts, len(solution)
    parts = solution.reshape(k, m, bloom.bits)
    rows = design.reshape(m, bloom.bits, -1)
    signal = np.zeros((k, k))
    for cohort in range(m):
        signal += (parts[:, cohort] @ rows[cohort]) ** 2
    spread = m * (noise * (solution**2).sum(axis=1)[:, None] + signal) * (1 + 1e-9)
    own = np.diagonal(spread) - 1
    others = spread.copy()
    np.fill_diagonal(others, 0.0)
    return own, np.maximum(others.max(axis=1), own if k == 1 else 0.0)


def _instant(permanent: Coin, target: Coin) -> Coin:
    """Return the coin of the instantaneous response: the largest with a·b + (1 − a)(1 − b) at most the target's."""
    a, s = permanent.chance, target.chance
    b = (s + a - 1) / (2 * a - 1)
    return Coin(min(int(b * WHOLE), WHOLE))


def _limited(name: str, value: int, most: int, *, least: int = 1) -> int:
    n = count(name, value, least=least)
    if n > most:
        raise InvalidParameter(f"{name} must be at most {most}, not {n}.")
    return n
