"""Smooth sensitivity end to end: its law with the scale from the data, its ends, its public error, its doors."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.mechanisms import SmoothSensitivity
from discreet.privacy.event import ApproximateEvent, Composed, ZCDPEvent
from discreet.privacy.unit import Relation

ALARM = 1e-9
RANGE: dict[str, Any] = {"lower": 0, "upper": 1024}
VALUES = [500.0 + i for i in range(40)]


def by_hand(values: list[float], base: Fraction, relation: Relation) -> float:
    """S of the median from its formula, in floats."""
    x = sorted(values)
    n, m = len(x), -(-len(x) // 2)

    def at(s: int) -> float:
        return 0.0 if s < 1 else 1024.0 if s > n else x[s - 1]

    best = 0.0
    for k in range(3 * n):
        if relation is Relation.REPLACE:
            widest = max(at(m + t) - at(m + t - k - 1) for t in range(k + 2))
        else:
            widest = at(-(-(n + k + 1) // 2)) - at(-(-(n - k - 1) // 2))
        best = max(best, widest / float(base) ** k)
    return best


@pytest.mark.laws
@pytest.mark.sampled(3)
@pytest.mark.parametrize("relation", list(Relation), ids=lambda r: r.value)
@pytest.mark.parametrize(
    ("given", "law"),
    [({"degrees": 2}, stats.t(2)), ({"degrees": 3, "beta": "0.3"}, stats.t(3)), ({"law": "cauchy"}, stats.cauchy())],
    ids=["t2", "t3", "Cauchy"],
)
def test_answers_have_the_law_with_the_scale_of_the_data(given: dict[str, Any], law: Any, relation: Relation) -> None:
    m = SmoothSensitivity(epsilon=2, relation=relation, **RANGE, **given)
    scale = by_hand(VALUES, m.base, relation) / float(m.alpha)
    drawn = np.array([m.release(VALUES) for _ in range(900)])
    edges = 519.0 + scale * np.array([-3, -1.5, -0.6, 0, 0.6, 1.5, 3])
    seen = np.histogram(drawn, np.concatenate(([-np.inf], edges, [np.inf])))[0]
    for stretch, right in ((1.0, True), (2.0, False)):
        cells = law.cdf(np.concatenate(([-np.inf], edges - 519, [np.inf])) / (scale * stretch))
        assert (float(stats.chisquare(seen, 900 * np.diff(cells)).pvalue) > ALARM) is right


def test_answers_are_multiples_of_a_public_step_inside_the_range() -> None:
    m = SmoothSensitivity(epsilon="0.1", **RANGE)
    drawn = [m.release(v) for v in ([], [3.0], VALUES, [1e9, -1e9], [math.nan] * 9) for _ in range(20)]
    assert all(0 <= a <= 1024 and (Fraction(a) / m.step).denominator == 1 for a in drawn)
    assert m.step == Fraction(1, 1 << 30)
    assert {0.0, 1024.0} <= set(drawn)  # cut off at both ends


def test_the_step_does_not_follow_epsilon_or_data() -> None:
    assert len({SmoothSensitivity(epsilon=e, **RANGE).step for e in ("0.001", 1, 30)}) == 1


@pytest.mark.parametrize("statistic", ["median", "quantile", "iqr", "mad", "mode"])
@pytest.mark.parametrize("relation", list(Relation), ids=lambda r: r.value)
def test_with_much_epsilon_answers_are_near_the_statistic(statistic: str, relation: Relation) -> None:
    x = np.random.default_rng(5).normal(500, 50, 4001)
    given: dict[str, Any] = {"relation": relation}
    truth = {
        "median": np.median(x),
        "quantile": np.quantile(x, 0.9),
        "iqr": np.quantile(x, 0.75) - np.quantile(x, 0.25),
        "mad": np.median(np.abs(x - np.median(x))),
        "mode": 500.0,
    }[statistic]
    if statistic == "quantile":
        given["p"] = "0.9"
    if statistic == "mode":
        given["values"] = range(300, 701, 100)
        x = np.round(x, -2)
    m = SmoothSensitivity(statistic, epsilon=30, **RANGE, **given)
    assert all(abs(m.release(x) - truth) < 1 for _ in range(5))


def test_a_mode_is_one_of_the_declared_values_whatever_the_data() -> None:
    m = SmoothSensitivity("mode", epsilon="0.5", values=[1, 10, 1000], **RANGE)
    drawn = {m.release(v) for v in ([], [10.0, 10.0, 1.0], [5.0, math.nan]) for _ in range(300)}
    assert drawn == {1.0, 10.0, 1000.0}


def test_the_error_covers_when_the_assumption_is_true() -> None:
    for relation in Relation:
        for law in ("student-t", "quartic"):
            m = SmoothSensitivity(epsilon=2, relation=relation, law=law, **RANGE)
            s = by_hand(VALUES, m.base, relation) * (1 + 1e-9)
            width = m.error("0.8", smooth_sensitivity=s)
            inside = sum(abs(m.release(VALUES) - 519) <= width for _ in range(250))
            assert stats.binom.cdf(inside, 250, 0.8) > ALARM
            assert stats.binom.sf(inside, 250, 0.81) > ALARM


def test_the_error_is_public_and_at_most_the_range() -> None:
    m = SmoothSensitivity(epsilon=1, **RANGE)
    assert m.error() == m.error(0.999999) == 1024
    assert m.error(0.95, smooth_sensitivity=1) < m.error(0.99, smooth_sensitivity=1) < 1024
    assert m.error(smooth_sensitivity=10**9) == 1024
    assert 0 < m.error(smooth_sensitivity=0) < 1e-6
    mode = SmoothSensitivity("mode", epsilon=1, values=[5, 9], **RANGE)
    assert mode.error() == 4


def test_events_are_those_of_the_law() -> None:
    assert SmoothSensitivity(epsilon=1, **RANGE).events == Composed([ApproximateEvent(Fraction(1))])
    m = SmoothSensitivity(epsilon=1, delta="1e-6", law="laplace-log-normal", **RANGE)
    ((event, n),) = m.events
    assert isinstance(event, ZCDPEvent) and n == 1
    assert m.loss.epsilon(Fraction(1, 10**6)) <= 1


def test_more_changes_of_a_unit_mean_more_noise_at_the_same_epsilon() -> None:
    widths = []
    for changes in (1, 4, 16):
        m = SmoothSensitivity(epsilon=5, changes=changes, **RANGE)
        drawn = [abs(m.release(np.linspace(400, 600, 2001)) - 500) for _ in range(200)]
        widths.append(float(np.median(drawn)))
    assert widths[0] * 2 < widths[1] and widths[1] * 2 < widths[2]


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"statistic": "mean"}, "statistic"),
        ({"statistic": "quantile"}, "p="),
        ({"p": "0.5"}, "p="),
        ({"statistic": "quantile", "p": 0}, "p must"),
        ({"statistic": "quantile", "p": "0.12345678901"}, "p must"),
        ({"statistic": "mode"}, "values="),
        ({"values": [1, 2]}, "values="),
        ({"statistic": "mode", "values": [1]}, "two numbers"),
        ({"statistic": "mode", "values": [1, 1]}, "differ"),
        ({"statistic": "mode", "values": [1, 5000]}, "between lower and upper"),
        ({"lower": 1024}, "below upper"),
        ({"lower": math.nan}, "lower"),
        ({"upper": math.inf}, "upper"),
        ({"law": "gauss"}, "law"),
        ({"law": "laplace-log-normal"}, "delta"),
        ({"delta": "1e-6"}, "delta"),
        ({"degrees": 0}, "degrees"),
        ({"degrees": 33}, "degrees"),
        ({"changes": 0}, "changes"),
        ({"changes": 1 << 30}, "changes"),
        ({"beta": 3}, "beta"),
        ({"beta": 0}, "beta"),
        ({"beta": 50}, "beta"),
        ({"relation": "swap"}, "relation"),
        ({"epsilon": 0}, "epsilon"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_a_sentence_that_names_it(given: dict[str, Any], hint: str) -> None:
    with pytest.raises(InvalidParameter, match=hint):
        SmoothSensitivity(**{"epsilon": 1, **RANGE, **given})


@pytest.mark.parametrize("bad", [None, "12", 3.0, [True], np.array([[1.0]]), np.ma.masked_array([1.0])], ids=repr)
def test_only_the_type_of_values_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidParameter):
        SmoothSensitivity(epsilon=1, **RANGE).release(bad)


def test_the_assumed_sensitivity_is_a_number_of_at_least_zero() -> None:
    with pytest.raises(InvalidParameter):
        SmoothSensitivity(epsilon=1, **RANGE).error(smooth_sensitivity=-1)


def test_a_representation_makes_it_again() -> None:
    for m in (
        SmoothSensitivity("quantile", epsilon=1, p="0.9", relation="replace", changes=3, degrees=4, **RANGE),
        SmoothSensitivity("mode", epsilon=1, values=[1, 2], law="quartic", **RANGE),
        SmoothSensitivity(epsilon=1, delta="1e-6", law="laplace-log-normal", **RANGE),
    ):
        assert eval(repr(m)) == m
    assert "beta=0.2" in repr(SmoothSensitivity(epsilon=1, beta="0.2", **RANGE))
