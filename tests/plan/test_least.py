"""The least ε for a wanted error: as closed forms have it, never above the target, minimal up to three digits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest
from scipy.stats import norm

import discreet as dp
from discreet.engine.session import Session
from discreet.errors import DiscreetError, InvalidParameter, NotPrivate, UnknownColumn
from discreet.plan.least import _epsilon, _index

FRAME = pd.DataFrame({"uid": [1, 1, 2, 3], "ward": ["a", "b", "b", "c"], "cost": [1.0, 2.0, 3.0, 4.0]})
COUNT = "SELECT COUNT(*) AS n FROM data"
ALL = "SELECT COUNT(*) AS n, SUM(cost) AS s, AVG(cost) AS a, SUM(cost) / COUNT(*) AS r FROM data"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    unit = dp.PrivacyUnit("uid", max_groups=1, max_rows=2)
    with dp.connect(
        {"data": FRAME},
        unit=unit,
        columns={"cost": dp.Range(0, 10), "ward": dp.Values("a", "b")},
        budget=dp.Budget(10, "1e-2", per_query=15),
        ledger=":memory:",
    ) as opened:
        yield opened


def laplace_error(epsilon: Fraction, sensitivity: int, confidence: float) -> int:
    """The least t with P(|Z| ≤ t) = 1 − 2p^(t+1)/(1 + p) ≥ confidence, for p = exp(−ε/Δ), by trying."""
    p = math.exp(-float(epsilon) / sensitivity)
    return next(t for t in itertools.count() if 1 - 2 * p ** (t + 1) / (1 + p) >= confidence)


@pytest.mark.parametrize("target", [1, 7, 50, 333])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_least_epsilon_of_a_count_is_the_closed_forms(session: Session, target: int, confidence: float) -> None:
    plan = session.plan(COUNT, error={"n": target}, confidence=confidence)
    before = _epsilon(_index(plan.epsilon) - 1)
    assert laplace_error(plan.epsilon, 2, confidence) <= target < laplace_error(before, 2, confidence)
    assert plan.error("n", confidence) <= target
    assert plan.charge.guarantee.epsilon == plan.epsilon


def test_a_gaussian_sum_has_the_epsilon_of_its_curve(session: Session) -> None:
    plan = session.plan("SELECT SUM(cost) AS s FROM data", error={"s": 100}, delta=1e-6, noise="gaussian")
    mu = 20 * 1.959964 / 100  # Δ₂/σ, where 1.96 σ is the target
    e, m = float(plan.epsilon), mu
    delta = norm.cdf(m / 2 - e / m) - math.exp(e) * norm.cdf(-m / 2 - e / m)
    assert delta == pytest.approx(1e-6, rel=0.1)
    assert 99 < plan.error("s") <= 100


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "asked",
    [
        {"error": {"n": 50, "s": 100}},
        {"error": {"a": 0.5}, "assuming": {"rows": 1_000}},
        {"error": {"a": 0.5}, "assuming": {"n": 1_000}},
        {"error": {"a": 0.5}, "assuming": {"guess": 1_000}},
        {"error": {"a": "10%"}, "assuming": {"rows": 1_000, "a": 5}},
        {"error": {"n": "5%"}, "assuming": {"n": 1_000}},
        {"error": {"r": 0.5}, "assuming": {"n": 1_000, "s": 5_000}},
        {"error": {"r": "10%", "n": "2.5 %"}, "assuming": {"n": 1_000, "s": 5_000}},
        {"error": {"n": Fraction(50), "a": "1/2"}, "assuming": {"rows": 1_000}, "delta": 1e-6, "noise": "gaussian"},
    ],
    ids=str,
)  # fmt: skip
def test_no_error_is_above_its_target_and_a_little_less_epsilon_would_not_do(
    session: Session, asked: dict[str, Any]
) -> None:
    plan = session.plan(ALL, **asked)
    assuming = asked.get("assuming")
    targets = {"n": 50, "s": 100, "a": 0.5, "r": 0.5}
    if "%" in str(asked["error"]):
        targets = {"n": 50 if "r" not in asked["error"] else 25, "r": 0.5, "a": 0.5}
    assert all(plan.error(c, assuming=assuming) <= targets[c] for c in asked["error"])
    less = session.plan(
        ALL, epsilon=_epsilon(_index(plan.epsilon) - 1), delta=asked.get("delta", 0), noise=asked.get("noise")
    )
    assert any(less.error(c, assuming=assuming) > targets[c] for c in asked["error"])
    assert len(str(plan.epsilon.numerator)) <= 3 or plan.epsilon.denominator == 1


def test_the_error_of_a_ratio_covers_what_the_noise_does(session: Session) -> None:
    plan = session.plan(ALL, epsilon=1)
    t = plan.error("r", assuming={"n": 1_000, "s": 5_000})
    n = plan.error("n", Fraction(39, 40))  # by hand: both noisy columns lie in their boxes with 95 %
    s = plan.error("s", Fraction(39, 40))
    assert t == pytest.approx((5_000 + s) / (1_000 - n) - 5, rel=1e-9)


def test_epsilon_on_the_grid_of_three_digits_is_found_again() -> None:
    for text in ("1e-6", "1.01e-6", "9.99e-4", "0.123", "1", "9.99", "20"):
        assert _epsilon(_index(Fraction(text))) == Fraction(text)
    assert _epsilon(_index(Fraction("0.12301"))) == Fraction("0.124")


def test_what_any_epsilon_gives_takes_the_least_there_is(session: Session) -> None:
    assert session.plan(COUNT, error={"n": 1e12}).epsilon == Fraction(1, 10**6)


@pytest.mark.parametrize(
    ("asked", "kind", "words"),
    [
        ({"epsilon": 1, "error": {"n": 5}}, InvalidParameter,
         "epsilon and error cannot both be given: each follows from the other."),
        ({"epsilon": 1, "assuming": {"n": 5}}, InvalidParameter, "assuming goes with error."),
        ({"error": {"n": 0.1}, "delta": 1e-6, "noise": "gaussian"}, InvalidParameter,
         "no ε up to 15, the owner's cap on one query, makes the error of 'n' so small."),
        ({"error": {}}, InvalidParameter,
         "error must be a dict from a column's name to its largest error, not {}."),
        ({"error": 50}, InvalidParameter,
         "error must be a dict from a column's name to its largest error, not 50."),
        ({"error": {"n": 0}}, InvalidParameter, "error['n'] must be above 0, not 0."),
        ({"error": {"n": "5 %%"}}, InvalidParameter, "error['n'] must be a number, not '5 %'."),
        ({"error": {"n": float("nan")}}, InvalidParameter, "error['n'] must be a finite number, not nan."),
        ({"error": {"n": "5%"}}, InvalidParameter, "an error of 5% of 'n' depends on how large 'n' is."),
        ({"error": {"n": "5%"}, "assuming": {"n": 0}}, InvalidParameter,
         "an error of 5% of 'n' depends on how large 'n' is."),
        ({"error": {"n": 5}, "assuming": {"m": 9}}, InvalidParameter,
         "assuming says what 'm' is, which the result does not have."),
        ({"error": {"n": 5}, "assuming": 9}, InvalidParameter,
         "assuming must be a dict from a column's name to a public guess, not int."),
        ({"error": {"n": 5}, "assuming": {"n": "x"}}, InvalidParameter,
         "assuming['n'] must be a number, not 'x'."),
        ({"error": {"m": 5}}, UnknownColumn, "The result has no column 'm'."),
        ({"error": {"n": 5}, "confidence": 1}, InvalidParameter,
         "confidence must lie strictly between 0 and 1, not 1."),
        ({"error": {"n": 5}, "noise": "gaussian"}, NotPrivate, "Gaussian noise needs a δ above 0."),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_planned_is_refused_with_a_sentence(
    session: Session, asked: dict[str, Any], kind: type[DiscreetError], words: str
) -> None:
    with pytest.raises(kind) as caught:
        session.plan(COUNT, **asked)
    assert caught.value.message == words


def test_an_error_that_depends_on_the_data_needs_a_guess(session: Session) -> None:
    for column, what in (("a", "how many rows it is over"), ("r", "the values of the columns that it combines")):
        with pytest.raises(InvalidParameter, match=what):
            session.plan(ALL, error={column: 0.5})


def test_a_question_without_epsilon_says_how_to_have_one(session: Session) -> None:
    with pytest.raises(InvalidParameter) as caught:
        session.sql(COUNT)
    offers = ("epsilon=0.1 gives n ± 60", "epsilon=0.5 gives n ± 12", "epsilon=1 gives n ± 6")
    said = f"A query needs epsilon=, its privacy cost: {'; '.join(offers)} (95 % confidence)."
    assert caught.value.message == said
    assert caught.value.hint == "add epsilon=0.5; or error={'n': 50} for the least ε that gives this error"


def test_the_owners_cap_on_one_question_refuses_before_anything_is_charged(session: Session) -> None:
    before = len(session.history())
    with pytest.raises(InvalidParameter) as caught:
        session.sql(COUNT, epsilon=16)
    assert caught.value.message == "one query may ask ε = 15 at most, and this one asks ε = 16."
    assert len(session.history()) == before


def test_the_error_of_a_rounded_column_has_a_step_more(session: Session) -> None:
    plan = session.plan("SELECT ROUND(AVG(cost), 1) AS a, AVG(cost) AS b, ROUND(SUM(cost)) AS s FROM data", epsilon=1)
    assuming = {"rows": 1_000}
    assert plan.error("a", assuming=assuming) == pytest.approx(plan.error("b", assuming=assuming) + 0.1)
    total = session.plan("SELECT SUM(cost) AS s, AVG(cost) AS b FROM data", epsilon=1)
    assert plan.error("s") == pytest.approx(total.error("s") + 1)


def test_the_error_of_totals_is_that_of_the_row_that_adds_up_the_most(session: Session) -> None:
    sql = "SELECT ward, COUNT(*) AS n FROM data GROUP BY ROLLUP(ward)"
    plan = session.plan(sql, epsilon=1)
    # two groups: the law of the sum of two Laplace numbers, b = 2, by convolution
    p = math.exp(-1 / 2)
    one = [(1 - p) / (1 + p) * p ** abs(k) for k in range(-60, 61)]
    two = {k: sum(one[i + 60] * one[k - i + 60] for i in range(-60, 61) if abs(k - i) <= 60) for k in range(-60, 61)}
    least = next(t for t in range(60) if sum(two[k] for k in range(-t, t + 1)) >= 0.95)
    assert least <= plan.error("n") <= least * 1.02 + 1
    planned = session.plan(sql, error={"n": 20})
    assert planned.error("n") <= 20
    private = session.plan("SELECT uid % 9 AS k, COUNT(*) AS n FROM data GROUP BY ROLLUP(k)", epsilon=1, delta=1e-3)
    with pytest.raises(InvalidParameter, match="the error of a total depends on how many groups it adds up"):
        private.error("n")
    assert str(private).startswith("A plan that costs")


def test_no_error_bounds_an_answer_that_may_be_null(session: Session) -> None:
    """The root of a noisy count below 0 is NULL: where that may well happen, no error is promised."""
    plan = session.plan("SELECT sqrt(COUNT(*)) AS root, COUNT(*) AS n FROM data", epsilon=1)
    assert plan.error("root", assuming={"n": 3}) == math.inf
    assert plan.error("root", assuming={"n": 10_000}) < 1
