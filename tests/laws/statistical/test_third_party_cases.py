"""The 296 third-party statistical cases: this package gets the verdict that each implies, and so do worse libraries.

Of a case of an aggregate follow three verdicts: answers keep the case's (ε, δ); answers whose neighbours lie farther
apart by the case's factor do not; nor do answers that now and then fail visibly, for one neighbour only. Of a case of
closeness follow that a mechanism has the stated mean, variance and law, and that laws that are shifted, stretched or
of the other kind are told from it.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr

from discreet.accounting.loss import PrivacyLoss
from discreet.audit import Audit, distinguish
from tests.laws.statistical.third_party import (
    ASKED,
    CLOSENESS,
    COMBINED,
    TOO_FAR,
    TREES,
    Case,
    Draw,
    Pair,
    answers,
    cases,
    cost,
    failing,
    farther,
    neighbours,
    noise_of,
    one_person_apart,
)

ALARM = 1e-9
"""The chance of accusing answers that keep their claim."""

MISSED = 1e-3
"""The error with which worse answers are refuted."""

AGGREGATES = [case for case in cases() if case.collection in ASKED]
PUBLISHED = [case for case in cases() if case.collection in COMBINED]
DEVIATIONS = list(map(one_person_apart, PUBLISHED))
LAWS = [case for case in cases() if case.collection in CLOSENESS]
SLICE = 22
"""Each so-manieth case is in the default suite."""

aggregates = pytest.mark.parametrize("case", AGGREGATES, ids=str)
laws = pytest.mark.parametrize("case", LAWS, ids=str)


def audited(pair: Pair, case: Case, samples: int, error: float, claim: PrivacyLoss | None = None) -> Audit:
    """Whether the answers of two neighbours keep the case's (ε, δ), or another claim."""

    def mechanism(side: int, n: int) -> object:
        return (pair.second if side else pair.first)(n)

    return distinguish(mechanism, 0, 1, claim or case.claim, samples=samples, error=error, probes=False)


def shown_by(case: Case, samples: int) -> float:
    """By how many standard errors answers that are too far apart break (ε, δ), for the best event that there is.

    By the closed forms of both laws: the events are thresholds of the answer.
    """
    claimed, grown = case.tested.get("delta", 0.0), math.exp(case.tested["epsilon"])
    if case.sampled["noise_type"] == "LAPLACE":
        p, q = np.array([0.5]), np.array([0.5 * math.exp(-case.sampled["epsilon"] * stretch(case))])
    else:
        mu = allowed(case) * stretch(case)
        t = np.linspace(case.sampled["epsilon"], case.sampled["epsilon"] + 40 * mu, 4000)
        p, q = ndtr(mu / 2 - t / mu), ndtr(-mu / 2 - t / mu)
    excess = (p - grown * q - claimed) / np.sqrt(p + grown * grown * q + 1e-300)
    return float(excess.max()) * math.sqrt(samples)


def shown_by_the_curve(case: Case, samples: int) -> float:
    """The same for Gaussian noise against its whole curve, at ε = 0."""
    mu, farther = allowed(case), allowed(case) * stretch(case)
    return float(gaussian_delta(farther, 0.0) - gaussian_delta(mu, 0.0)) * math.sqrt(samples)


def allowed(case: Case) -> float:
    """The μ of Gaussian noise that the case's (ε, δ) allow."""
    epsilon, delta = case.sampled["epsilon"], case.sampled["delta"]
    return float(brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 1e-6, 20.0))


def gaussian_delta(mu: float, epsilon: float) -> float:
    """δ at ε of μ-GDP: Balle, Wang 2018, Theorem 8."""
    below = ndtr(mu / 2 - epsilon / mu)
    return float(below - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def stretch(case: Case) -> float:
    """How many sensitivities the neighbours that are too far apart lie apart: counts go up to the next whole one."""
    factor = float(case.factors["distance_specificity"])
    if not case.collection.startswith("count"):
        return factor
    moved: int = sum(case.sampled["neighbour_raw_increment_by"]) - sum(case.sampled["raw_increment_by"])
    partitions: int = case.sampled["max_partitions_contributed"]
    most = partitions if case.sampled["noise_type"] == "LAPLACE" else math.sqrt(partitions)
    return math.ceil(factor * moved) / most


CLEAR = 9.0
"""Standard errors at which a violation is found in every run, learning on the way."""

FAR = [case for case in AGGREGATES if shown_by(case, case.samples) > CLEAR]
NEAR = [case for case in AGGREGATES if shown_by(case, case.samples) <= CLEAR]
"""Gaussian noise that is too small by the case's factor, and whose δ at the case's ε no such number of samples can tell
from the claimed one: these are held against the whole curve of what this package says that the question costs.
"""
NEAR_SOON = [case for case in NEAR if shown_by_the_curve(case, 400_000) > CLEAR]
FAR_SOON = [case for case in AGGREGATES if shown_by(case, 100_000) > CLEAR]
FAIL_SOON = [c for c in AGGREGATES if c.tested["delta_tolerance"] * c.factors["failure_specificity"] > 4e-3]


def test_all_cases_are_there_and_each_is_asked_or_known() -> None:
    number = Counter(case.collection for case in cases())
    assert sum(number.values()) == 296
    assert number.keys() == ASKED.keys() | COMBINED.keys() | set(TREES) | CLOSENESS.keys()
    assert len(AGGREGATES) == len(FAR) + len(NEAR) == 159 and len(LAWS) == 42


def test_entries_are_flat_lists_of_numbers() -> None:
    for case in cases():
        lists = [v for name, v in case.sampled.items() if "raw_entry" in name or "increment" in name]
        assert len(lists) == (0 if case.collection in CLOSENESS else 2)
        assert all(isinstance(entry, int | float) for entries in lists for entry in entries)


@pytest.mark.parametrize("case", DEVIATIONS[::SLICE], ids=str)
def test_some_deviations_keep_what_their_cases_ask(case: Case) -> None:
    assert not audited(answers(case), case, 20_000, ALARM).violated


@pytest.mark.parametrize("case", DEVIATIONS[:: 2 * SLICE], ids=str)
def test_some_failures_of_a_deviation_are_noticed(case: Case) -> None:
    assert audited(failing(case), case, case.samples, MISSED).violated


@pytest.mark.slow
@pytest.mark.parametrize("case", DEVIATIONS, ids=str)
def test_deviations_keep_what_their_cases_ask(case: Case) -> None:
    assert not audited(answers(case), case, 1_000_000, ALARM).violated


@pytest.mark.parametrize("name", TOO_FAR)
def test_deviations_of_five_people_are_told_apart(name: str) -> None:
    (case,) = (case for case in PUBLISHED if case.name == name)
    assert audited(answers(case), case, 100_000, MISSED).violated


@pytest.mark.parametrize("case", AGGREGATES[::SLICE], ids=str)
def test_some_aggregates_keep_what_their_cases_ask(case: Case) -> None:
    assert not audited(answers(case), case, 20_000, ALARM).violated


@pytest.mark.parametrize("case", FAR_SOON[::SLICE], ids=str)
def test_some_neighbours_that_are_too_far_apart_are_noticed(case: Case) -> None:
    assert audited(farther(case), case, 150_000, MISSED).violated


@pytest.mark.parametrize("case", NEAR_SOON[::SLICE], ids=str)
def test_some_that_are_hardly_too_far_apart_are_noticed_by_the_whole_curve(case: Case) -> None:
    assert audited(farther(case), case, 400_000, MISSED, cost(case)).violated


@pytest.mark.parametrize("case", FAIL_SOON[::SLICE], ids=str)
def test_some_failures_of_one_neighbour_are_noticed(case: Case) -> None:
    assert audited(failing(case), case, 100_000, MISSED).violated


def check_distance(case: Case) -> None:
    """The exact cells lie as far apart as the engine thinks that one person can move them."""
    first, second = neighbours(case)
    gaussian = case.sampled["noise_type"] == "GAUSSIAN"
    ((key, cells),) = first.cells.items()
    for a, b, s in zip(cells, second.cells[key], first.plan.sensitivities, strict=True):
        most = math.sqrt(s.l2_squared) if gaussian else float(s.l1)
        # a count goes up by a whole number: by the floor of the root of the number of groups
        assert abs(b - a) == pytest.approx(math.floor(most) if case.collection.startswith("count") else most)


@pytest.mark.parametrize("case", AGGREGATES[::SLICE], ids=str)
def test_the_exact_cells_of_some_cases_lie_one_sensitivity_apart(case: Case) -> None:
    check_distance(case)


@pytest.mark.slow
@aggregates
def test_the_exact_cells_of_all_cases_lie_one_sensitivity_apart(case: Case) -> None:
    check_distance(case)


@pytest.mark.slow
@aggregates
def test_aggregates_keep_what_their_cases_ask(case: Case) -> None:
    assert not audited(answers(case), case, 1_000_000, ALARM).violated


@pytest.mark.slow
@pytest.mark.parametrize("case", FAR, ids=str)
def test_neighbours_that_are_too_far_apart_are_noticed(case: Case) -> None:
    assert audited(farther(case), case, case.samples, MISSED).violated


@pytest.mark.slow
@pytest.mark.parametrize("case", NEAR, ids=str)
def test_neighbours_that_are_too_far_apart_are_noticed_by_the_whole_curve(case: Case) -> None:
    assert audited(farther(case), case, case.samples, MISSED, cost(case)).violated


@pytest.mark.slow
@aggregates
def test_failures_of_one_neighbour_are_noticed(case: Case) -> None:
    assert audited(failing(case), case, case.samples, MISSED).violated


def have_law(values: NDArray[np.float64], case: Case, **moved: float) -> bool:
    """Whether values have the law of a case, at a false-alarm rate of 1e-9; `moved` changes it."""
    tested = case.tested
    sigma = math.sqrt(tested["variance"] * moved.get("variance", 1.0))
    mean = tested["mean"] + moved.get("sigmas", 0.0) * sigma
    laplace = case.collection.startswith("laplace") != bool(moved.get("other", 0.0))
    law: Any = stats.laplace(mean, sigma / math.sqrt(2)) if laplace else stats.norm(mean, sigma)
    return bool(stats.kstest(values, law.cdf, method="asymp").pvalue > ALARM)


def check_law(draw: Draw, case: Case) -> None:
    values = draw(int(case.sampled["number_of_samples"]))
    factors = case.factors
    assert have_law(values, case)
    assert abs(np.mean(values) - case.tested["mean"]) < 6 * math.sqrt(case.tested["variance"] / len(values))
    # 1 % covers seven standard errors, and the thousandth by which the given deviation of a Gaussian is rounded up
    assert np.var(values - case.tested["mean"]) == pytest.approx(case.tested["variance"], rel=0.02)
    for sign in (1, -1):
        assert not have_law(values, case, sigmas=sign * factors["shift_specificity"])
        assert not have_law(values, case, variance=factors["scale_specificity"] ** sign)
    assert not have_law(values, case, other=1.0)


@pytest.mark.parametrize("case", LAWS[0::14], ids=str)
def test_some_mechanisms_have_the_law_that_their_cases_give(case: Case) -> None:
    check_law(noise_of(case), case)


@pytest.mark.slow
@laws
def test_mechanisms_have_the_law_that_their_cases_give(case: Case) -> None:
    check_law(noise_of(case), case)
