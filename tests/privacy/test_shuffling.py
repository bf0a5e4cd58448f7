"""Shuffled reports: the pair, that it dominates enumerated shuffles, and the authors' published program."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from hashlib import sha256
from itertools import pairwise, product
from math import comb

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from discreet.errors import InvalidParameter
from discreet.privacy import shuffling
from discreet.privacy.event import ApproximateEvent
from discreet.privacy.shuffling import ShuffleEvent, ShufflePair
from discreet.privacy.unit import Relation

F = Fraction
Counts = tuple[int, ...]
Law = dict[Counts, F]
ALPHAS = [F(a, b) for a, b in ((1, 4), (2, 3), (1, 1), (11, 10), (3, 2), (2, 1), (5, 2), (4, 1))]


def hockey_stick(p: Law, q: Law, alpha: F) -> F:
    return sum((max(x - alpha * q.get(k, F(0)), F(0)) for k, x in p.items()), F(0))


def shuffled(reports: list[tuple[F, ...]]) -> Law:
    """The law of how often each answer was given, each report having its own law."""
    law: Law = {(0,) * len(reports[0]): F(1)}
    for report in reports:
        after: defaultdict[Counts, F] = defaultdict(F)
        for (counts, p), (k, r) in product(law.items(), enumerate(report)):
            after[(*counts[:k], counts[k] + 1, *counts[k + 1 :])] += p * r
        law = dict(after)
    return law


def randomizer(odds: int, answers: int, inputs: int, seed: str) -> list[tuple[F, ...]]:
    """Laws within the factor `odds` of each other, many entries as far apart as they may be."""
    rows = []
    for i in range(inputs):
        digest = sha256(f"{seed}:{i}".encode()).digest()
        weight = [odds if b % 3 == 0 else 1 if b % 3 == 1 else 2 for b in digest[:answers]]
        rows.append(weight)
    total = [sum(row) for row in rows]
    laws = [tuple(F(w, t) for w in row) for row, t in zip(rows, total, strict=True)]
    worst = max(a / b for p, q in product(laws, laws) for a, b in zip(p, q, strict=True))
    # Mixed with their mean until the largest ratio is at most `odds`.
    mean = tuple(sum(column, F(0)) / inputs for column in zip(*laws, strict=True))
    share = F(1)
    while worst > odds:
        share *= F(9, 10)
        mixed = [tuple(share * x + (1 - share) * m for x, m in zip(p, mean, strict=True)) for p in laws]
        worst = max(a / b for p, q in product(mixed, mixed) for a, b in zip(p, q, strict=True))
        if worst <= odds:
            return mixed
    return laws


def clones(users: int, odds: int, chance: F, alpha: F) -> F:
    """The curve of the pair from its definition, exactly."""
    first, second = F(odds, 1 + odds), F(1, 1 + odds)
    p: defaultdict[Counts, F] = defaultdict(F)
    q: defaultdict[Counts, F] = defaultdict(F)
    for c in range(users):
        for a in range(c + 1):
            both = comb(users - 1, c) * chance**c * (1 - chance) ** (users - 1 - c) * F(comb(c, a), 2**c)
            p[(a + 1, c - a)] += both * first
            p[(a, c - a + 1)] += both * second
            q[(a + 1, c - a)] += both * second
            q[(a, c - a + 1)] += both * first
    return hockey_stick(dict(p), dict(q), alpha)


def curve(pair: ShufflePair, alpha: F) -> float:
    return float(pair.upper(np.array([math.log(alpha)]))[0])


def pair(epsilon: float, users: int, binary: bool = False) -> ShufflePair:
    return ShufflePair(epsilon, users, binary)


def least_epsilon(shuffle: ShufflePair, delta: float) -> float:
    low, high = 0.0, shuffle.epsilon
    for _ in range(50):
        middle = (low + high) / 2
        small = shuffle.upper(np.array([middle]))[0] <= delta
        low, high = (low, middle) if small else (middle, high)
    return high


@pytest.mark.parametrize("users", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("odds", [2, 5])
@pytest.mark.parametrize("binary", [False, True])
def test_the_curve_is_that_of_the_enumerated_clones(users: int, odds: int, binary: bool) -> None:
    chance = F(2, 1 + odds) if binary else F(1, odds)
    for alpha in ALPHAS:
        truth = float(clones(users, odds, chance, alpha))
        found = curve(pair(math.log(odds), users, binary), alpha)
        assert truth - 1e-15 <= found <= truth * (1 + 1e-8) + 1e-9 * (alpha != 1)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(16))
def test_no_enumerated_shuffle_lies_above_the_curve(seed: int) -> None:
    odds, users = (2, 4)[seed % 2], 2 + seed % 3
    laws = randomizer(odds, 3 + seed % 2, 3, str(seed))
    bounds = {a: curve(pair(math.log(odds), users), a) for a in ALPHAS}
    for others in product(laws, repeat=users - 1):
        p, q = shuffled([laws[0], *others]), shuffled([laws[1], *others])
        for a in ALPHAS:
            assert max(hockey_stick(p, q, a), hockey_stick(q, p, a)) <= bounds[a] * (1 + 1e-12)


@pytest.mark.parametrize("odds", [2, 4])
@pytest.mark.parametrize("ones", range(5))
def test_no_enumerated_shuffle_of_binary_answers_lies_above_its_curve(odds: int, ones: int) -> None:
    yes, no = (F(odds, 1 + odds), F(1, 1 + odds)), (F(1, 1 + odds), F(odds, 1 + odds))
    others = [yes] * ones + [no] * (4 - ones)
    p, q = shuffled([yes, *others]), shuffled([no, *others])
    for a in ALPHAS:
        bound = curve(pair(math.log(odds), 5, True), a)
        assert max(hockey_stick(p, q, a), hockey_stick(q, p, a)) <= bound * (1 + 1e-12)


@pytest.mark.parametrize(
    ("epsilon", "users", "delta", "low", "high"),
    [  # from the program that the authors of the theorem published, github.com/apple/ml-shuffling-amplification
        (1.0, 1000, 1e-4, 0.12102497262692108, 0.13062271122035338),
        (2.0, 1000, 1e-4, 0.3794288635253906, 0.40386390686035156),
        (0.5, 100, 1e-3, 0.11182880401611328, 0.12567806243896484),
        (1.0, 10_000, 1e-6, 0.05281764738586035, 0.0540767676347125),
        (3.0, 10_000, 1e-6, 0.313078741163043, 0.3306807833601347),
    ],
)
def test_the_answers_lie_between_the_bounds_of_the_authors_program(
    epsilon: float, users: int, delta: float, low: float, high: float
) -> None:
    assert low <= least_epsilon(pair(epsilon, users), delta) <= high


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("alpha", [1.0, 1.01, 1.05, 1.1, 1.15])
def test_a_few_thousand_users_match_a_double_sum(alpha: float) -> None:
    users, epsilon = 3000, 1.0
    truth = 0.0
    w = math.exp(epsilon) / (1 + math.exp(epsilon))
    for c in range(900, 1320):
        n = np.arange(c + 2)
        up, stay = binom.pmf(n - 1, c, 0.5), binom.pmf(n, c, 0.5)
        p, q = w * up + (1 - w) * stay, (1 - w) * up + w * stay
        truth += binom.pmf(c, users - 1, math.exp(-epsilon)) * np.maximum(p - alpha * q, 0.0).sum()
    found = float(pair(epsilon, users).upper(np.array([math.log(alpha)]))[0])
    assert truth * (1 - 1e-9) <= found <= truth * 1.01


@pytest.mark.parametrize("n", [1, 3, 16, 1000, 370_000])
@pytest.mark.parametrize("deviations", [0, 3, 12, 30])
def test_binomial_probabilities_are_ten_times_as_accurate_as_assumed(n: int, deviations: int) -> None:
    k = max(int(n / 2 - deviations * math.sqrt(n) / 2), 0)
    with mpmath.workdps(40):
        mass = mpmath.binomial(n, k) * mpmath.mpf(2) ** -n
        total, term, j = mpmath.mpf(0), mass, k
        while j >= 0 and term > mass * mpmath.mpf(10) ** -25:
            total, term, j = total + term, term * j / (n - j + 1), j - 1
    size, at = np.array([float(n)]), np.array([float(k)])
    assert shuffling._mass(size, at)[0] == pytest.approx(float(mass), rel=shuffling._SLACK / 10)
    assert shuffling._at_most(size, at)[0] == pytest.approx(float(total), rel=shuffling._SLACK / 10)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("n", "p"), [(1, 0.3), (7, 0.9), (5000, 0.37), (10**6, 0.0025)])
def test_the_chances_of_clones_are_binomial(n: int, p: float) -> None:
    low, high = shuffling._range(n, p)
    k = np.unique(np.linspace(low, high, 500).astype(int)).astype(np.float64)
    with mpmath.workdps(30):
        for x, found in zip(k, shuffling._binomial(n, p, k), strict=True):
            truth = mpmath.binomial(n, int(x)) * mpmath.mpf(p) ** int(x) * (1 - mpmath.mpf(p)) ** (n - int(x))
            if truth > 1e-290:
                assert found == pytest.approx(float(truth), rel=shuffling._SLACK / 10)
    assert binom.cdf(low - 1, n, p) < 1e-290
    assert binom.sf(high, n, p) < 1e-290


@pytest.mark.exhaustive
def test_more_users_and_binary_answers_lose_less() -> None:
    x = np.linspace(-0.9, 0.9, 19)
    curves = [pair(1.0, users).upper(x) for users in (1, 2, 10, 100, 10_000, 10**6, 1 << 30)]
    for fewer, more in pairwise(curves):
        assert np.all(more <= fewer)
    assert np.all(pair(1.0, 100, True).upper(x) <= pair(1.0, 100).upper(x))


@pytest.mark.exhaustive
@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("epsilon", "users", "binary"), [(1.0, 10**6, False), (3.0, 50, True), (0.2, 3, False), (700.0, 9, False)]
)
def test_many_points_at_once_lie_just_above_the_same_points_one_by_one(
    epsilon: float, users: int, binary: bool
) -> None:
    shuffle = pair(epsilon, users, binary)
    x = np.concatenate([np.linspace(-1.1, 1.1, 801) * share for share in (0.005, 1.0)]) * epsilon
    together = shuffle.delta(x)
    apart = np.concatenate([shuffle.delta(part) for part in np.array_split(x, 4)])
    assert np.all(together >= apart * (1 - 1e-9))
    common = apart > 1e-12
    assert np.all(together[common] <= apart[common] * 1.02 + 1e-5 * epsilon * (users < 10))


def test_a_single_user_is_not_hidden() -> None:
    x = np.linspace(-2, 2, 41)
    alone = ApproximateEvent(F(1)).pair()
    assert pair(1.0, 1).delta(x) == pytest.approx(alone.delta(x), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 40.0, 300.0, 800.0, 5000.0])
def test_extreme_randomizers_stay_within_one_report(epsilon: float) -> None:
    x = np.array([-1e4, -1.0, 0.0, 1e-10, 1.0, 30.0, 299.0, 1e4])
    found = pair(epsilon, 1000).upper(x)
    assert np.all((found >= 0) & (found <= 1))
    assert found[-1] <= 1e-299
    assert np.all(found <= ApproximateEvent(F(epsilon)).pair().upper(x) + 1e-9)


def test_the_event_says_what_holds_without_the_shuffle() -> None:
    event = ShuffleEvent(F(1), 500)
    assert (event.pure, event.rho, event.failure) == (F(1), F(1, 2), F(0))
    assert event.relation is Relation.REPLACE
    assert event.pair().reverse() == event.pair()
    assert event.pair().epsilon_max == 1.0


@pytest.mark.parametrize(
    ("epsilon", "users", "binary"), [(F(-1), 5, False), (F(1), 0, False), (1.0, 5, False), (F(1), 5, 1)]
)
def test_impossible_shuffles_are_refused(epsilon: Fraction, users: int, binary: bool) -> None:
    with pytest.raises(InvalidParameter):
        ShuffleEvent(epsilon, users, binary)
