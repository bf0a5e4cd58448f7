"""Reports of many users, each randomised at home by one randomiser, seen only after a shuffle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from discreet.errors import InvalidParameter
from discreet.privacy.event import Event, at_least_zero
from discreet.privacy.exact import above, below, count, first_whole
from discreet.privacy.pair import Curve, Pair
from discreet.privacy.unit import Relation

_UNIT = 2.0**-52
_MOST_USERS = 1 << 30  # more users hide each other better, and are counted as this many
_NO_CLONES = 300.0  # with an ε₀ beyond it the others hide nothing that a float could show
_SLACK = 1e-10  # how far the binomial probabilities below may be off, relatively; a test checks a tenth of it
_LARGEST = 600.0
_EXPONENT = 745.0  # tails with a chance below e^−this are below `FLOOR`
_BLOCK = 1 << 20
_DIRECT = 64  # so many ε are computed one by one


@dataclass(frozen=True, slots=True)
class ShuffleEvent(Event):
    """The shuffled reports of `users`, each made by the same ε-DP local randomiser, ε = `epsilon`.

    `binary` says that the randomiser is randomised response on two answers, which is known to hide more.

    Guarantee:
        It holds for replacing one user's data. Every user applies the same randomiser to their own data
        only, each report is made once, all `users` take part, and nothing but the shuffled reports is seen.
        Without a trusted shuffle, or for users who may drop out or lie, count only those who surely follow.

    References: Feldman, McMillan, Talwar 2021, *Hiding among the clones*, https://arxiv.org/abs/2012.12803. The sharper
    Theorems 3.1 and 3.2 of their 2022 paper, https://arxiv.org/abs/2208.04591, are withdrawn for general randomisers by
    its errata and are not used. Proof of all that is claimed here: docs/proofs/shuffling.md
    """

    epsilon: Fraction
    users: int
    binary: bool = False
    relation: ClassVar[Relation] = Relation.REPLACE

    def __post_init__(self) -> None:
        at_least_zero("epsilon", self.epsilon)
        count("users", self.users)
        if not isinstance(self.binary, bool):
            raise InvalidParameter(f"binary must be True or False, not {self.binary!r}.")

    @property
    def pure(self) -> Fraction:
        """That of the randomiser: one report is all that a user's data can change."""
        return self.epsilon

    @property
    def rho(self) -> Fraction:
        """ε²/2, of the randomiser: Bun, Steinke 2016, Proposition 1.4, https://arxiv.org/abs/1605.02065"""
        return self.epsilon * self.epsilon / 2

    def pair(self) -> Pair:
        return ShufflePair(above(self.epsilon), min(self.users, _MOST_USERS), self.binary)


@dataclass(frozen=True, slots=True)
class ShufflePair(Pair):
    """(A + Δ, C + 1 − A − Δ) and its mirror: C ~ Bin(n−1, c), A ~ Bin(C, ½), Δ ~ Ber(e^ε₀/(1 + e^ε₀)).

    Each other user is a clone with chance c, and reports a fair coin then: c = e^−ε₀, or 2/(1 + e^ε₀) for
    binary randomised response. Symmetric, by exchanging the two counts.
    """

    epsilon: float
    users: int
    binary: bool
    exact: ClassVar[bool] = False  # most randomisers hide more, and `delta` is rounded up

    def delta(self, epsilon: Curve) -> Curve:
        """Σ_C P(C)·(the curve of C clones) for ε ≥ 0, rounded up; mirrored below."""
        x = np.minimum(epsilon, 0.0)
        flat = np.abs(np.ravel(epsilon))
        positive = _sums(self, flat) if flat.size <= _DIRECT else _between(self, flat)
        bound = np.minimum(positive, 1.0).reshape(np.shape(epsilon))
        return np.where(epsilon >= 0, bound, -np.expm1(x) + np.exp(x) * bound)

    @property
    def epsilon_max(self) -> float:
        return self.epsilon


def _sums(pair: ShufflePair, epsilon: Curve) -> Curve:
    """Return the curve at each ε ≥ 0 of a row, a block at a time."""
    clones, weight = _clones(pair.epsilon, pair.users, pair.binary)
    out = np.zeros(epsilon.size)
    rows = max(_BLOCK // clones.size, 1)
    for i in range(0, epsilon.size, rows):
        part = slice(i, i + rows)
        out[part] = _given(epsilon[part, None], clones, pair.epsilon) @ weight
    return out


def _between(pair: ShufflePair, epsilon: Curve) -> Curve:
    """Return the same for many ε, by chords in e^ε between known points: the true curve is convex, and below them."""
    knots, value = _table(pair)
    x = np.minimum(epsilon, knots[-1])
    i = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, knots.size - 2)
    share = np.expm1(x - knots[i]) / np.expm1(knots[i + 1] - knots[i])
    return np.asarray(value[i] * (1 - share) + value[i + 1] * share)


@lru_cache(maxsize=16)
def _table(pair: ShufflePair) -> tuple[Curve, Curve]:
    """Return the curve at a few thousand ε, dense against the deviation of the loss, the last one being ε₀."""
    clones, weight = _clones(pair.epsilon, pair.users, pair.binary)
    deviation = 2 * math.tanh(pair.epsilon / 2) / math.sqrt(1 + float(clones @ weight))
    near = deviation * np.concatenate((np.arange(0, 10, 1 / 100), np.arange(10, 45, 1 / 40)))
    end = min(pair.epsilon, _LARGEST)
    knots = np.unique(np.concatenate((near[near < end], np.linspace(0.0, end, 201))))
    return knots, np.append(_sums(pair, knots[:-1]), _sums(pair, np.array([end]))[0])


def _given(epsilon: Curve, clones: Curve, largest: float) -> Curve:
    """Return the curve of C clones at ε ≥ 0: u·p(m) − (e^ε − 1)·F(m − 1) at the best m, rounded up.

    p and F are the mass and the distribution function of Bin(C, ½), u = (e^ε₀ − e^ε)/(1 + e^ε₀), and the
    event is "at most m reports speak against the first hypothesis".
    """
    e = np.minimum(epsilon, min(largest, _LARGEST))  # a smaller ε has a larger δ
    u = -np.expm1(e - largest) / (1 + math.exp(-largest))
    if largest == 0:
        return np.zeros(np.broadcast_shapes(epsilon.shape, clones.shape))
    # m < N(e^ε₀ − e^ε)/((e^ε₀ − 1)(1 + e^ε)); nothing here cancels.
    edge = (clones + 1) * (np.expm1(e - largest) / (math.expm1(-largest) * (1 + np.exp(e))))
    m = np.clip(np.ceil(edge) - 1, 0.0, clones)
    gained, lost = u * _mass(clones, m), np.expm1(e) * _at_most(clones, m - 1)
    found = np.maximum(gained - lost, 0.0) + _SLACK * (gained + lost)
    return np.where(epsilon < largest, found, 0.0)


def _mass(n: Curve, k: Curve) -> Curve:
    """P(Bin(n, ½) = k), by Loader's form, whose terms stay small."""
    inner = (k > 0) & (k < n)
    x, m = np.where(inner, k, 1.0), np.where(inner, n, 2.0)
    log = _saddle(m, x, 0.5)
    return np.exp(np.where(inner, log, -n * math.log(2)))


def _saddle(n: Curve, k: Curve, p: float) -> Curve:
    """Return the logarithm of P(Bin(n, p) = k) for 0 < k < n."""
    entropy = _deviance(k, n * p) + _deviance(n - k, n * (1 - p))
    stirling = _stirling(n) - _stirling(k) - _stirling(n - k)
    return stirling - entropy + 0.5 * np.log(n / (2 * math.pi * k * (n - k)))


def _deviance(x: Curve, mean: Curve) -> Curve:
    """x·log(x/mean) + mean − x, without cancellation where x is near the mean."""
    t = (x - mean) / mean
    near = np.abs(t) < 0.1
    small = np.where(near, t, 0.0)
    # (1+t)log(1+t) − t = t²/2 − t³/6 + …, by its series Σ (−t)^k/(k(k−1)).
    series = np.zeros_like(small)
    for k in range(18, 1, -1):
        series = series * -small + 1 / (k * (k - 1))
    far = np.where(near, 1.0, 1 + t)
    return mean * np.where(near, small * small * series, far * np.log(far) - t)


def _stirling(n: Curve) -> Curve:
    """Return the error of Stirling's formula: log n! − log(√(2πn)·(n/e)^n)."""
    from scipy.special import gammaln

    small = np.minimum(n, 15.0)
    exact = gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * math.log(2 * math.pi)
    s = 1 / (n * n)
    series = (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s / 1188)))) / n
    return np.where(n <= 15, exact, series)


def _at_most(n: Curve, k: Curve) -> Curve:
    """P(Bin(n, ½) ≤ k)."""
    from scipy.special import betainc

    inner = (k >= 0) & (k < n)
    kk, m = np.where(inner, k, 0.0), np.where(inner, n, 1.0)
    return np.where(inner, betainc(m - kk, kk + 1, 0.5), np.where(k >= n, 1.0, 0.0))


@lru_cache(maxsize=64)
def _clones(epsilon: float, users: int, binary: bool) -> tuple[Curve, Curve]:
    """Numbers of clones with their chances: a few hundred, each standing for itself and some above it.

    The curve falls as clones are added, so the least of a block stands for all of it.
    """
    n = users - 1
    chance = _chance(epsilon, binary) if n else 0.0
    if chance < math.exp(-_NO_CLONES):
        return np.zeros(1), np.ones(1)
    low, high = _range(n, chance)
    k = np.arange(low, high + 1, dtype=np.float64)
    spread = math.sqrt(n * chance * (1 - chance))
    fine, coarse = max(spread / 24, 1.0), max(spread / 3, 1.0)
    bulk = np.abs(k - n * chance) <= 8 * spread
    # A block ends where the steps so far, fine in the bulk and coarse beyond, pass a whole number.
    steps = np.floor(np.cumsum(np.where(bulk, 1 / fine, 1 / coarse)) + 1e-9)
    starts = np.flatnonzero(np.diff(steps, prepend=-1.0) > 0)
    weight = np.add.reduceat(_binomial(n, chance, k), starts)
    # Up: each chance, and what lies below `low`, which need hide nothing.
    chances = np.append(weight * (1 + _SLACK), math.exp(-_EXPONENT) if low else 0.0)
    numbers = np.append(k[starts], 0.0)
    for column in (numbers, chances):
        column.flags.writeable = False
    return numbers, chances


def _chance(epsilon: float, binary: bool) -> float:
    """Return the chance that another user is a clone, rounded down: with fewer clones the loss is larger."""
    odds = math.exp(-epsilon) * (1 - 4 * _UNIT)
    return below(Fraction(2 * odds / (1 + odds))) * (1 - 4 * _UNIT) if binary else odds


def _binomial(n: int, p: float, k: Curve) -> Curve:
    """P(Bin(n, p) = k)."""
    inner = (k > 0) & (k < n)
    with np.errstate(divide="ignore", invalid="ignore"):
        log = _saddle(np.full_like(k, float(n)), np.where(inner, k, 1.0), p) if n > 1 else np.zeros_like(k)
        none = n * math.log1p(-p) if p < 1 else (0.0 if n == 0 else -math.inf)
    return np.exp(np.where(inner, log, np.where(k == 0, none, n * math.log(p))))


def _range(n: int, p: float) -> tuple[int, int]:
    """Return the numbers outside of which a binomial has chances below e^−745, by Chernoff; the upper end stays in."""

    def exponent(k: int) -> float:
        kk = np.array([float(k)])
        rest = _deviance(n - kk, np.array([n * (1 - p)])) if k < n else np.array([n * (1 - p)])
        first = _deviance(kk, np.array([n * p])) if k else np.array([n * p])
        return float(first[0] + rest[0])

    mean = int(n * p)
    low = first_whole(lambda k: exponent(k) <= _EXPONENT + 1, 0, mean) - 1 if exponent(0) > _EXPONENT + 1 else 0
    if p >= 1 or exponent(n) <= _EXPONENT + 1:
        return low, n
    return low, first_whole(lambda k: exponent(k) > _EXPONENT + 1, mean, n)
