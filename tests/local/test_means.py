"""Means of numbers on devices: exact laws over all coins, unbiased estimates, variances, and bad values."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.local import Duchi, Estimate, Laplace, Memoised, Piecewise
from discreet.local.coins import Coin
from discreet.local.means import Window
from discreet.local.reals import STEPS, rounded_at_random
from discreet.noise.entropy import SystemEntropy
from discreet.testing import ReplayEntropy
from tests.local.branches import Branches, plain
from tests.local.public_parts import largest_ratio, law_of, least_exp, tree
from tests.noise.chi_square import accepts

__all__ = ["tree"]

EPSILONS = [Fraction(1, 10**6), Fraction(1, 100), Fraction(1, 2), Fraction(1), Fraction(3), Fraction(12), Fraction(40)]
VALUES = [-1.0, -0.3, 0.0, 0.1, 0.999, 1.0, math.nan, -5.0, math.inf]
SINGLE = [Duchi, Laplace, Piecewise]


def truth(x: float) -> float:
    """What a value counts as, on [−1, 1]."""
    return 0.0 if math.isnan(x) else min(max(x, -1.0), 1.0)


def tight(epsilon: Fraction) -> bool:
    return Fraction(1, 100) <= epsilon <= 12  # beyond, 64 bits are coarse, on the private side


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_the_bit_of_a_number_has_ratio_e_to_epsilon_at_most_and_nearly(epsilon: Fraction, tree: Branches) -> None:
    duchi = Duchi(epsilon=epsilon)
    laws = [law_of(duchi, x, tree) for x in VALUES]
    ratio = largest_ratio(laws)
    assert ratio <= least_exp(epsilon)
    assert not tight(epsilon) or ratio >= least_exp(epsilon) * (1 - Fraction(1, 10**12))


@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(4)], ids=str)
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_the_corner_of_a_vector_has_ratio_e_to_epsilon_at_most_and_nearly(
    d: int, epsilon: Fraction, tree: Branches, monkeypatch: pytest.MonkeyPatch
) -> None:
    duchi = Duchi(epsilon=epsilon, dimension=d)
    inputs = [[1.0] * d, [-1.0] * d, [0.3, -1.0, 1.0, 0.0][:d], [math.nan] * d]
    laws = [_corner_law(duchi, x, tree) for x in inputs]
    ratio = largest_ratio(laws)
    assert ratio <= least_exp(epsilon)
    assert ratio >= least_exp(epsilon) * (1 - Fraction(1, 10**12))
    for x, law in zip(inputs, laws, strict=True):  # unbiased
        mean = sum(float(p) * duchi.estimate(np.array([corner])).values for corner, p in law.items())
        assert np.allclose(mean, [truth(v) for v in x], atol=1e-9)


def _law_with(duchi: Duchi, x: list[float], tree: Branches, drawn: bytes) -> dict[Any, Fraction]:
    """Replayed anew on every course."""
    return dict(tree.law(lambda: plain(duchi.randomize(x, rng=ReplayEntropy(drawn)))))


def _corner_law(duchi: Duchi, x: list[float], tree: Branches) -> dict[Any, Fraction]:
    """Over the coins by the tree, and over the uniform corner by all its bits."""
    d, total = len(x), dict[Any, Fraction]()
    for byte in range(1 << d):
        given = _law_with(duchi, x, tree, bytes([byte << (8 - d)]))
        for corner, chance in given.items():
            total[corner] = total.get(corner, Fraction(0)) + chance / (1 << d)
    return total


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_the_piecewise_window_has_ratio_e_to_epsilon_at_most_and_nearly(epsilon: Fraction) -> None:
    law = Piecewise(epsilon=epsilon).window
    inside, outside = law.coin.chance / law.width, (1 - law.coin.chance) / law.inputs
    assert outside < inside <= outside * least_exp(epsilon)
    assert not tight(epsilon) or inside >= outside * least_exp(epsilon) * (1 - Fraction(1, 10**12))
    larger = Fraction(law.coin.weight + 1, 1 << 64)  # one more would be too much
    assert larger / law.width > (1 - larger) / law.inputs * least_exp(epsilon)


@pytest.mark.parametrize("i", [0, 1, 5, 8])
def test_the_piecewise_report_is_the_window_else_the_rest(
    i: int, tree: Branches, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Window(3, 2, Coin(3 << 62))
    monkeypatch.setattr(Piecewise, "window", property(lambda self: small))
    piecewise = Piecewise(epsilon=1)
    law = law_of(piecewise, -1 + i / 4, tree)
    p = small.coin.chance
    assert law == {k: p / 2 if i <= k < i + 2 else (1 - p) / 8 for k in range(10)}
    mean = sum((k * chance for k, chance in law.items()), Fraction(0))
    square = sum((k * k * chance for k, chance in law.items()), Fraction(0))
    assert small.moments(i) == (mean, square - mean * mean)


@pytest.mark.thinned(2)
@pytest.mark.laws
@pytest.mark.sampled(4)
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(4)], ids=str)
@pytest.mark.parametrize("x", [-1.0, -0.37, 0.0, 0.5, 1.0])
def test_reports_of_one_number_are_unbiased_with_at_most_the_variance_that_is_stated(
    epsilon: Fraction, x: float, tree: Branches
) -> None:
    for randomizer in (Duchi(epsilon=epsilon, low=-2, high=6), Piecewise(epsilon=epsilon, low=-2, high=6)):
        value = 2 + 4 * x
        share = Fraction(round((value + 2) / 8 * STEPS), STEPS)
        if isinstance(randomizer, Duchi):
            law = law_of(randomizer, value, tree)
        else:
            law = _piecewise_law(randomizer.window, share)
        said = {r: float(randomizer.estimate([r]).values[0]) for r in law}
        mean = math.fsum(float(p) * said[r] for r, p in law.items())
        assert mean == pytest.approx(float(-2 + 8 * share), abs=1e-9)
        variance = math.fsum(float(p) * (said[r] - mean) ** 2 for r, p in law.items())
        estimate = randomizer.estimate([next(iter(law))])
        assert variance <= float(estimate.own[0]) * (1 + 1e-9)
        assert max(abs(v - mean) for v in said.values()) <= estimate.reach * (1 + 1e-9)
        worst = 0.0 if isinstance(randomizer, Duchi) else 1.0
        assert abs(x) != worst or variance >= 0.98 * float(estimate.own[0])


def _piecewise_law(law: Window, share: Fraction) -> dict[int, Fraction]:
    i, rest = divmod(share * law.inputs, 1)
    p, found = law.coin.chance, dict.fromkeys(range(law.reports), Fraction(0))
    for first, weight in ((int(i), 1 - rest), (int(i) + 1, rest)):
        for k in range(law.reports) if weight else ():
            inside = first <= k < first + law.width
            found[k] += weight * (p / law.width if inside else (1 - p) / law.inputs)
    return found


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 5.0])
def test_the_variances_are_those_of_the_papers(epsilon: float) -> None:
    # Wang et al. 2019, on [−1, 1]: Duchi's at 0, that of the piecewise mechanism at an end, 8/ε² for Laplace.
    duchi = ((math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)) ** 2
    half = math.exp(epsilon / 2)
    piecewise = 1 / (half - 1) + (half + 3) / (3 * (half - 1) ** 2)
    ours = {kind: float(kind(epsilon=epsilon).estimate([1]).own[0]) for kind in SINGLE}
    assert ours[Duchi] == pytest.approx(duchi, rel=1e-9)
    assert ours[Piecewise] == pytest.approx(piecewise, rel=0.03)
    assert ours[Laplace] == pytest.approx(8 / epsilon**2, rel=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3, 8, 9])
def test_the_signal_of_a_corner_is_the_mean_of_a_sum_of_signs(d: int) -> None:
    corners = (np.arange(1 << d)[:, None] >> np.arange(d)) & 1
    mean = Fraction(int(np.abs(2 * corners.sum(axis=1) - d).sum()), d << d)
    duchi = Duchi(epsilon=1, dimension=d)
    assert duchi.signal == (2 * duchi.coin.chance - 1) * mean


def test_laplace_reports_have_discrete_laplace_noise_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    laplace = Laplace(epsilon=1)
    assert laplace.scale == STEPS
    monkeypatch.setattr("discreet.local.means.STEPS", 4)  # so that single masses can be seen
    assert laplace.scale == 4
    drawn = laplace.randomize(np.full(100_000, -1.0))
    k = np.arange(-120, 121)
    for scale, right in ((4.0, True), (4.2, False)):
        mass = np.exp(-np.abs(k) / scale)
        assert accepts((drawn + 120).tolist(), (mass / mass.sum()).tolist()) is right


def test_laplace_noise_has_lighter_tails_than_its_proven_interval_needs() -> None:
    # ln E e^{sZ} of the discrete law is below b²s²/(1 − bs), which is sub-gamma with variance 2b² and scale b
    with mp.workdps(40):
        for b in (mp.mpf(1) / 2, mp.mpf(3), mp.mpf(1000)):
            for share in (mp.mpf(1) / 100, mp.mpf(1) / 2, mp.mpf(99) / 100):
                s = share / b
                discrete = -mp.log(1 - (mp.sinh(s / 2) / mp.sinh(1 / (2 * b))) ** 2)
                assert discrete <= b**2 * s**2 / (1 - b * s)


def test_piecewise_reports_follow_their_law_and_no_other() -> None:
    piecewise = Piecewise(epsilon=2)
    drawn = piecewise.randomize(np.full(200_000, 0.3))
    law = piecewise.window
    for x, right in ((0.3, True), (0.4, False), (0.2, False)):
        chances = _piecewise_law(law, Fraction(round((x + 1) / 2 * STEPS), STEPS))
        assert accepts(drawn.tolist(), [float(c) for c in chances.values()]) is right


def test_rounding_at_random_goes_up_in_exactly_the_share_that_is_left() -> None:
    steps = np.array([5 * 1024 + 300], dtype=np.int64)
    ups = 0
    for low in range(1024):  # all that the ten bits which are used can be
        word = (low << 22).to_bytes(4, "little")
        rounded = int(rounded_at_random(steps, 20, ReplayEntropy(word))[0])
        assert rounded in (5, 6)
        ups += rounded == 6
    assert ups == 300
    assert rounded_at_random(np.array([STEPS, 0]), 0, SystemEntropy()).tolist() == [1, 0]


@pytest.mark.parametrize("kind", SINGLE)
def test_a_mean_of_many_devices_lies_in_its_interval(kind: type[Duchi | Laplace | Piecewise]) -> None:
    values = np.linspace(0, 10, 50_001) ** 2 / 10
    randomizer = kind(epsilon=1, low=0, high=10)
    estimate = randomizer.estimate(randomizer.randomize(values))
    deviation = (estimate.values[0] - values.mean()) / estimate.standard_error[0]
    assert abs(deviation) < 6.5  # two-sided 8e-11
    assert abs(estimate.values[0] - values.mean() - 1.0) > 6.5 * estimate.standard_error[0]
    low, high = estimate.proven_interval(1 - Fraction(1, 10**10))
    assert low[0] <= values.mean() <= high[0]
    assert randomizer.error(50_001) == pytest.approx(1.96 * estimate.standard_error[0], rel=0.01)


def test_a_mean_of_vectors_lies_in_its_intervals() -> None:
    rows = np.linspace(-1, 1, 30_000)[:, None] * np.array([1, -1, 0.5, 0, 0.2]) + np.array([0, 0, 0.5, 1, -0.4])
    duchi = Duchi(epsilon=2, dimension=5)
    estimate = duchi.estimate(duchi.randomize(rows))
    means = np.clip(rows, -1, 1).mean(axis=0)
    assert estimate.labels == (0, 1, 2, 3, 4)
    assert (np.abs(estimate.values - means) < 6.6 * estimate.standard_error).all()
    assert np.abs(estimate.values - means[::-1]).max() > 6.6 * estimate.standard_error[0]


@pytest.mark.parametrize("randomizer", [*(k(epsilon=1) for k in SINGLE), Duchi(epsilon=1, dimension=2)], ids=repr)
def test_every_number_is_answered_and_no_type_but_numbers(randomizer: Any) -> None:
    wide = getattr(randomizer, "dimension", None) == 2
    anything: tuple[Any, ...] = (
        math.nan,
        math.inf,
        -math.inf,
        0,
        3,
        np.float32(0.5),
        Fraction(1, 3),
        10**400,
        -(10**400),
        Decimal("sNaN"),
        None,
    )
    for x in anything:
        randomizer.randomize([x, x] if wide else x)
    refusable: tuple[Any, ...] = (
        [b"1", 1.0],
        "1",
        True,
        [[1.0], [2.0, 3.0]],
        np.ma.array([1.0, 2.0]),
        np.zeros((2, 2, 2)),
        object(),
        1j,
    )
    for x in refusable:
        with pytest.raises(InvalidParameter) as refused:
            randomizer.randomize(x)
        assert "1.0" not in str(refused.value)
    assert len(randomizer.randomize(np.empty((0, 2) if wide else 0))) == 0


@pytest.mark.parametrize("kind", SINGLE)
def test_impossible_parameters_are_refused(kind: Any) -> None:
    for bad in (0, -1, math.nan, math.inf, None, "much", True, 10**9):
        with pytest.raises(InvalidParameter):
            kind(epsilon=bad)
    for low, high in ((1, 1), (2, 1), (math.nan, 1), (0, math.inf), (10**9, 10**9 + 1), (0, 10**200)):
        with pytest.raises(InvalidParameter):
            kind(epsilon=1, low=low, high=high)


@pytest.mark.parametrize("bad", [0, -1, 2.5, True, "3", 1 << 30])
def test_impossible_dimensions_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidParameter):
        Duchi(epsilon=1, dimension=bad)


@pytest.mark.parametrize("kind", SINGLE)
def test_what_no_device_reported_is_refused(kind: Any) -> None:
    randomizer = kind(epsilon=1)
    for bad in ([], [0.5], [[1, 2]], ["a"], *([] if kind is Laplace else [[-1], [10**6]])):
        with pytest.raises(InvalidParameter):
            randomizer.estimate(bad)
    with pytest.raises(InvalidParameter, match="domain"):
        randomizer.estimate([1], domain=[1])


@pytest.mark.parametrize("kind", SINGLE)
def test_randomizers_are_frozen_values_that_explain_themselves(kind: Any) -> None:
    randomizer = kind(epsilon="0.5", low=0, high=10)
    assert randomizer == kind(epsilon=Fraction(1, 2), low=0, high=10) != kind(epsilon=1, low=0, high=10)
    assert pickle.loads(pickle.dumps(randomizer)) == randomizer
    with pytest.raises(AttributeError):
        randomizer.epsilon = Fraction(9)
    title, *steps = randomizer.explain().splitlines()
    assert title == repr(randomizer) and len(steps) >= 5 and "0.5-DP" in randomizer.explain()
    assert randomizer.loss.epsilon(0) == pytest.approx(0.5, rel=1e-9)
    assert isinstance(randomizer.estimate(randomizer.randomize([1.0, 2.0])), Estimate)
    assert "Guarantee:" in (kind.__doc__ or "") and "References:" in (kind.__doc__ or "")
    daily = Memoised(randomizer)
    assert len({daily.randomize(3.0) for _ in range(20)}) == 1


def test_the_noise_of_laplace_composes_better_than_pure_reports() -> None:
    assert (Laplace(epsilon=1).loss * 100).epsilon(1e-6) < 0.9 * (Duchi(epsilon=1).loss * 100).epsilon(1e-6)
