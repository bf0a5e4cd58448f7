"""Propose, test, release: the threshold, the chance of an answer, answers and refusals, doors."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.mechanisms import ProposeTestRelease
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.unit import Relation

ALARM = 1e-9
RANGE: dict[str, Any] = {"lower": 0, "upper": 100}


def made(**given: Any) -> ProposeTestRelease:
    return ProposeTestRelease(**{"epsilon": 1, "delta": "0.01", "bound": 1, **RANGE, **given})


@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "3", "50"])
@pytest.mark.parametrize("delta", ["1e-9", "1e-6", "0.01", "0.4", "1e-200"])
def test_the_threshold_is_the_least_whole_number_that_delta_allows(epsilon: str, delta: str) -> None:
    m = made(epsilon=epsilon, delta=delta)
    with mp.workdps(250):
        e = mp.mpf(m.testing.numerator) / m.testing.denominator
        d = mp.mpf(m.delta.numerator) / m.delta.denominator

        def passes(t: int) -> mp.mpf:
            """P(Z > t), summed from the mass function."""
            q = mp.exp(-e)
            return (1 - q) / (1 + q) * q ** (t + 1) / (1 - q)

        assert passes(m.threshold) <= d
        assert m.threshold == 0 or passes(m.threshold - 1) > d
        assert m.threshold <= mp.log(1 / d) / e + 1e-9  # the textbook's


@pytest.mark.laws
def test_an_answer_comes_with_the_chance_that_the_distance_gives_it() -> None:
    m = made(lower=0, upper=1, bound="0.1")
    q = math.exp(-0.5)
    for size in (m.threshold - 3, m.threshold + 2):  # so many zeros are as far from breaking the bound
        n = 6000
        came = sum(m.release(np.zeros(size)) is not None for _ in range(n))
        away = m.threshold - size  # D + Z > T with D = size
        tail = q ** (away + 1) / (1 + q) if away >= 0 else 1 - q ** (-away) / (1 + q)
        assert ALARM < stats.binom.cdf(came, n, tail) < 1 - ALARM
        assert not ALARM < stats.binom.cdf(came, n, tail * 0.5) < 1 - ALARM


@pytest.mark.parametrize("statistic", ["median", "iqr", "mad", "quantile"])
@pytest.mark.parametrize("relation", list(Relation), ids=lambda r: r.value)
def test_stable_data_is_answered_with_noise_for_the_bound(statistic: str, relation: Relation) -> None:
    x = np.random.default_rng(1).normal(50, 5, 3001)
    truth = {
        "median": np.median(x),
        "quantile": np.quantile(x, 0.75),
        "iqr": np.quantile(x, 0.75) - np.quantile(x, 0.25),
        "mad": np.median(np.abs(x - np.median(x))),
    }[statistic]
    given = {"p": "3/4"} if statistic == "quantile" else {}
    m = made(statistic=statistic, relation=relation, epsilon=4, **given)
    drawn = np.array([m.release(x) for _ in range(150)], dtype=np.float64)
    assert np.isfinite(drawn).all()
    assert stats.kstest((drawn - truth), stats.laplace(scale=0.5).cdf).pvalue > ALARM
    assert stats.kstest((drawn - truth), stats.laplace(scale=5).cdf).pvalue < ALARM


def test_unstable_data_is_refused_nearly_always() -> None:
    m = made(delta="1e-12")
    for values in ([], [3.0], [0.0] * 20 + [100.0] * 20):
        assert all(m.release(values) is None for _ in range(50))


def test_a_mode_is_released_as_it_is_or_not_at_all() -> None:
    m = made(statistic="mode", bound=None, values=[10, 20, 30], delta="1e-12")
    assert m.noise is None and m.error() == 0.0 and m.testing == 1
    clear = [20.0] * 60 + [10.0] * 3
    assert {m.release(clear) for _ in range(50)} == {20.0}
    assert {m.release([20.0] * 31 + [10.0] * 30) for _ in range(50)} == {None}


def test_answers_are_multiples_of_a_public_step_inside_the_range() -> None:
    m = made(epsilon=8, bound=90)
    drawn = [m.release(np.zeros(500)) for _ in range(50)]
    assert 0.0 in drawn and all(a is not None and 0 <= a <= 100 for a in drawn)
    assert all((Fraction(a) * (1 << 34)).denominator == 1 for a in drawn if a is not None)


def test_answers_from_is_where_they_come_with_that_confidence() -> None:
    for epsilon in ("0.3", "2"):
        m = made(epsilon=epsilon)
        q = math.exp(-float(m.testing))
        for confidence in (0.6, 0.95, 0.999):
            d = m.answers_from(confidence)
            assert 1 - q ** (d - m.threshold) / (1 + q) >= confidence
            assert d - m.threshold - 2 < math.log(1 / (1 - confidence)) / float(m.testing)


def test_the_error_covers_where_there_is_an_answer() -> None:
    m, x = made(epsilon=4), np.linspace(45, 55, 2001)
    inside = sum(abs((m.release(x) or 0.0) - 50) <= m.error("0.8") for _ in range(400))
    assert stats.binom.cdf(inside, 400, 0.8) > ALARM and stats.binom.sf(inside, 400, 0.82) > ALARM
    assert made(bound=100).error() == 100


def test_the_event_is_what_was_asked_for() -> None:
    assert made().events == Composed([ApproximateEvent(Fraction(1), Fraction(1, 100))])


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"bound": None}, "bound="),
        ({"bound": 0}, "bound"),
        ({"bound": math.inf}, "bound"),
        ({"bound": "1e-15"}, "bound"),
        ({"statistic": "mode", "values": [1, 2]}, "no bound"),
        ({"delta": 0}, "delta"),
        ({"delta": 1}, "delta"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": "1e-20"}, "epsilon"),
        ({"changes": True}, "changes"),
        ({"lower": 100}, "lower"),
        ({"statistic": "sum"}, "statistic"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_a_sentence_that_names_it(given: dict[str, Any], hint: str) -> None:
    with pytest.raises(InvalidParameter, match=hint):
        made(**given)


def test_a_representation_makes_it_again() -> None:
    for m in (
        made(relation="replace", changes=2, statistic="quantile", p="0.9"),
        made(statistic="mode", bound=None, values=[1, 2]),
    ):
        assert eval(repr(m)) == m
