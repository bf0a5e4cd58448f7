"""What every mechanism promises, over the table of all of them. A new mechanism is one more row."""

from __future__ import annotations

import inspect
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet import mechanisms
from discreet.errors import InvalidParameter
from discreet.mechanisms import (
    DiscreteGaussian,
    Exponential,
    ExponentialQuantile,
    Gaussian,
    Geometric,
    Laplace,
    Mechanism,
    NoisyMax,
    Numeric,
    PermuteAndFlip,
    Threshold,
)
from discreet.privacy.codec import decode, encode
from discreet.privacy.event import Composed, GaussianEvent
from tests.contracts.families import added
from tests.contracts.mechanism_row import DELTA, Row
from tests.coverage import covers
from tests.house.tree import listed
from tests.noise.chi_square import accepts

PROOFS = Path(__file__).parents[2] / "docs" / "proofs"
MECHANISMS = Path(inspect.getfile(mechanisms)).parent
EPSILONS = [Fraction(1, 100), Fraction(1, 2), Fraction(9, 10)]
DRAWS = 40_000
ALARM = 1e-9


def laplace_pmf(m: Mechanism, k: NDArray[np.float64], stretch: float) -> NDArray[np.float64]:
    return np.exp(-np.abs(k) / (m.scale * stretch))  # type: ignore[attr-defined, no-any-return]


def rounded_pmf(m: Mechanism, k: NDArray[np.float64], stretch: float) -> NDArray[np.float64]:
    s = m.sigma * stretch  # type: ignore[attr-defined]
    a = np.abs(k)  # differences of upper tails lose no digits
    return np.asarray(stats.norm.sf((a - 0.5) / s) - stats.norm.sf((a + 0.5) / s))


def discrete_pmf(m: Mechanism, k: NDArray[np.float64], stretch: float) -> NDArray[np.float64]:
    return np.exp(-(k * k) / (2 * (m.sigma * stretch) ** 2))  # type: ignore[attr-defined, no-any-return]


def laplace_cdf(m: Mechanism, x: NDArray[np.float64], stretch: float) -> NDArray[np.float64]:
    return np.asarray(stats.laplace.cdf(x, scale=m.scale * stretch))  # type: ignore[attr-defined]


def normal_cdf(m: Mechanism, x: NDArray[np.float64], stretch: float) -> NDArray[np.float64]:
    return np.asarray(stats.norm.cdf(x, scale=m.sigma * stretch))  # type: ignore[attr-defined]


N = 20_000  # numbers in the float arrays
ROWS = [
    Row(Laplace, lambda e: Laplace(epsilon=e), "laplace", True, laplace_pmf, None),
    Row(Laplace, lambda e: Laplace(epsilon=e, sensitivity=3, dimension=N), "laplace", True, None, laplace_cdf),
    Row(Geometric, lambda e: Geometric(epsilon=e, sensitivity=2), "geometric-mechanism", True, laplace_pmf, None),
    Row(Geometric, lambda e: Geometric(epsilon=e, dimension=1), "geometric-mechanism", True),
    Row(Gaussian, lambda e: Gaussian(epsilon=e, delta=DELTA), "gaussian", False, rounded_pmf, None),
    Row(
        Gaussian,
        lambda e: Gaussian(epsilon=e, delta=DELTA, sensitivity="0.1", dimension=N),
        "gaussian",
        False,
        None,
        normal_cdf,
    ),
    Row(Gaussian, lambda e: Gaussian(epsilon=e, delta=DELTA, calibration="classical"), "gaussian", False, rounded_pmf),
    Row(DiscreteGaussian, lambda e: DiscreteGaussian(epsilon=e, delta=DELTA), "discrete-gaussian", False, discrete_pmf),
    Row(
        DiscreteGaussian,
        lambda e: DiscreteGaussian(epsilon=e, delta=DELTA, sensitivity=3, dimension=N),
        "discrete-gaussian",
        False,
    ),
    Row(
        DiscreteGaussian,
        lambda e: DiscreteGaussian(epsilon=e, delta=DELTA, step=Fraction(1, 1024), dimension=N),
        "discrete-gaussian",
        False,
        None,
        normal_cdf,
    ),
    Row(Threshold, lambda e: Threshold(e, DELTA, 3), "threshold", False, sized=False, tight=False),
    Row(Threshold, lambda e: Threshold(e, DELTA, 2, relation="replace"), "threshold", False, sized=False, tight=False),
    Row(Exponential, lambda e: Exponential(epsilon=e), "exponential", True),
    Row(ExponentialQuantile, lambda e: ExponentialQuantile(epsilon=e), "exponential-quantile", True),
    Row(
        ExponentialQuantile,
        lambda e: ExponentialQuantile(epsilon=e, p="0.9", relation="replace", max_groups=2, groups=3),
        "exponential-quantile",
        True,
    ),
    Row(PermuteAndFlip, lambda e: PermuteAndFlip(epsilon=e), "permute-and-flip", True),
    Row(NoisyMax, lambda e: NoisyMax(epsilon=e), "noisy-max", True),
    *added("MECHANISMS"),
]


def every(rows: list[Row]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=[f"{r.make(EPSILONS[1])!r}" for r in rows])


NUMERIC = [r for r in ROWS if issubclass(r.kind, Numeric)]
WITH_PMF = [r for r in ROWS if r.pmf]
WITH_CDF = [r for r in ROWS if r.cdf]


def test_the_table_holds_every_public_mechanism() -> None:
    public = {
        name
        for name in listed(mechanisms)
        if inspect.isclass(kind := getattr(mechanisms, name)) and not inspect.isabstract(kind)
    }
    assert public == {row.kind.__name__ for row in ROWS}


@every(ROWS)
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_the_loss_is_at_most_what_was_claimed(row: Row, epsilon: Fraction) -> None:
    mechanism = row.make(epsilon)
    if row.pure:
        assert sum(e.pure * n for e, n in mechanism.events if e.pure is not None) <= epsilon
        assert all(e.pure is not None and e.failure == 0 for e, _ in mechanism.events)
        assert mechanism.loss.pure == epsilon
    assert mechanism.loss.guarantee(0 if row.pure else DELTA).epsilon <= epsilon
    assert Fraction(mechanism.loss.delta(epsilon)) <= (0 if row.pure else DELTA * (1 + Fraction(1, 10**9)))


@every(ROWS)
def test_the_claim_is_nearly_used_up(row: Row) -> None:
    # Not privacy but waste: none but the textbook's bound, conversions and splits leave more than 1 %.
    mechanism = row.make(Fraction(1, 2))
    used = mechanism.loss.epsilon(0 if row.pure else DELTA)
    wasteful = "classical" in repr(mechanism) or "dimension" in repr(mechanism) or not row.tight
    assert used >= (0.3 if wasteful else 0.99) * 0.5


@every(ROWS)
def test_more_noise_never_costs_more(row: Row) -> None:
    losses = [row.make(e).loss for e in sorted(EPSILONS)]
    delta = 0 if row.pure else DELTA
    costs = [loss.epsilon(delta) for loss in losses]
    assert costs == sorted(costs)
    for name in ("rho", "mu_squared", "pure"):
        values = [getattr(loss, name) for loss in losses]
        assert None in values or values == sorted(values)


@every(NUMERIC)
def test_a_smaller_epsilon_means_a_larger_error(row: Row) -> None:
    errors = [row.make(e).error(0.9) for e in sorted(EPSILONS)]  # type: ignore[attr-defined]
    assert errors == sorted(errors, reverse=True) and errors[0] > errors[-1] > 0


@every(ROWS)
def test_n_uses_are_one_use_n_times(row: Row) -> None:
    mechanism = row.make(Fraction(1, 2))
    events, n = mechanism.events, 7
    assert (mechanism.loss * n).events == sum([events] * n, Composed()) == events * n
    assert len(events * n) == n * len(events)


@every(ROWS)
def test_events_survive_the_codec(row: Row) -> None:
    events = row.make(Fraction(1, 3)).events
    assert decode(encode(events)) == events


@every(WITH_PMF)
def test_integers_get_noise_of_the_stated_mass_and_no_other(row: Row) -> None:
    mechanism = row.make(Fraction(1, 2))
    assert isinstance(mechanism, Numeric) and row.pmf is not None
    centre = 1000
    drawn = mechanism.release(np.full(DRAWS, centre))
    k = np.arange(-centre, centre + 1, dtype=np.float64)
    for stretch, right in ((1.0, True), (1.08, False), (0.93, False)):
        mass = row.pmf(mechanism, k, stretch)
        assert accepts(drawn.tolist(), (mass / mass.sum()).tolist()) is right
    mass = row.pmf(mechanism, k - 1, 1.0)  # moved by one
    assert not accepts(drawn.tolist(), (mass / mass.sum()).tolist())


@every([r for r in WITH_PMF if r.kind is not DiscreteGaussian])
def test_single_integers_follow_the_same_law(row: Row) -> None:
    mechanism = row.make(Fraction(9, 10))
    assert isinstance(mechanism, Numeric) and row.pmf is not None
    drawn = [mechanism.release(200) for _ in range(6000)]
    k = np.arange(-200, 201, dtype=np.float64)
    mass = row.pmf(mechanism, k, 1.0)
    assert accepts(drawn, (mass / mass.sum()).tolist())
    mass = row.pmf(mechanism, k, 1.3)
    assert not accepts(drawn, (mass / mass.sum()).tolist())


@every(WITH_CDF)
def test_floats_get_noise_of_the_stated_law_and_no_other(row: Row) -> None:
    mechanism = row.make(Fraction(1, 2))
    assert isinstance(mechanism, Numeric) and row.cdf is not None
    value = np.linspace(-3, 3, N)
    noise = mechanism.release(value) - value
    assert stats.kstest(row.cdf(mechanism, noise, 1.0), "uniform").pvalue > ALARM
    assert stats.kstest(row.cdf(mechanism, noise, 1.25), "uniform").pvalue < ALARM
    assert stats.kstest(row.cdf(mechanism, noise - 0.1 * float(np.std(noise)), 1.0), "uniform").pvalue < ALARM


@every([r for r in NUMERIC if r.pmf or r.cdf])
@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_error_covers_at_its_rate(row: Row, confidence: float) -> None:
    mechanism = row.make(Fraction(1, 2))
    assert isinstance(mechanism, Numeric)
    value = np.zeros(N) if row.cdf else np.zeros(N, dtype=np.int64)
    far, t = np.abs(mechanism.release(value)), mechanism.error(confidence)
    inside = int((far <= t).sum())
    # at least the nominal rate, and above it by no more than the mass of the last integer
    last = (
        0.0
        if row.cdf
        else mechanism.noise.tail(int(mechanism.error(confidence)) - 1)
        - mechanism.noise.tail(int(mechanism.error(confidence)))
    )
    assert covers(inside, N, confidence)
    assert not covers(int((far <= t / 2).sum()), N, confidence)
    assert stats.binom.sf(inside, N, min(confidence + last + 1e-3, 1.0)) > ALARM


BAD = [0, -1, math.nan, math.inf, -math.inf, "much", None, True, [1]]


@every(ROWS)
@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_impossible_parameters_are_refused(row: Row, bad: object) -> None:
    asked: dict[str, Any] = {"epsilon": Fraction(1, 2)} | ({} if row.pure else {"delta": DELTA})
    given = {**asked, **row.given}
    row.kind(**given)  # the table of arguments is right
    for name in asked:
        with pytest.raises(InvalidParameter):
            row.kind(**(given | {name: bad}))
    if row.sized:
        with pytest.raises(InvalidParameter):
            row.kind(**given, sensitivity=bad)  # type: ignore[call-arg]


@every(NUMERIC)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, "7", None, True, np.array([True])], ids=repr)
def test_impossible_values_are_refused(row: Row, bad: object) -> None:
    with pytest.raises(InvalidParameter):
        row.make(Fraction(1, 2)).release(bad)  # type: ignore[attr-defined]


@every(ROWS)
def test_explain_has_numbered_steps_with_the_numbers(row: Row) -> None:
    mechanism = row.make(Fraction(1, 2))
    title, *steps = mechanism.explain().splitlines()
    assert title == repr(mechanism)
    assert [step.split(".")[0] for step in steps] == [str(i) for i in range(1, len(steps) + 1)]
    assert len(steps) >= 4 and "0.5" in "".join(steps)
    assert row.pure or "1e-06" in "".join(steps)
    assert all(step.endswith(".") for step in steps)


@every(ROWS)
def test_docstring_says_guarantee_and_references(row: Row) -> None:
    text = inspect.getdoc(row.kind) or ""
    assert "Guarantee:" in text and "References:" in text
    assert re.search(r"https://", text) and re.search(r"Theorem|Claim|Algorithm|Section|Definition", text)


@every(ROWS)
def test_the_proof_page_names_the_file_that_it_proves(row: Row) -> None:
    page = (PROOFS / f"{row.page}.md").read_text(encoding="utf-8")
    source = Path(inspect.getfile(row.kind))
    assert f"src/discreet/mechanisms/{source.relative_to(MECHANISMS).as_posix()}" in page
    assert "## Statement" in page and "## Proof" in page


@every(ROWS)
def test_mechanisms_are_frozen_values(row: Row) -> None:
    mechanism = row.make(Fraction(1, 2))
    assert mechanism == row.make(Fraction(1, 2)) and hash(mechanism) == hash(row.make(Fraction(1, 2)))
    assert mechanism != row.make(Fraction(1, 3))
    with pytest.raises(AttributeError):
        mechanism.epsilon = Fraction(9)  # type: ignore[attr-defined]


def test_a_gaussian_loss_is_certified_in_fifty_digits() -> None:
    with mp.workdps(50):
        for epsilon in EPSILONS:
            ((event, count),) = Gaussian(epsilon=epsilon, delta=DELTA).events
            assert count == 1 and isinstance(event, GaussianEvent)
            mu = mp.sqrt(mp.mpf(event.mu_squared.numerator) / event.mu_squared.denominator)
            e = mp.mpf(epsilon.numerator) / epsilon.denominator
            delta = mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)
            assert delta <= mp.mpf(DELTA.numerator) / DELTA.denominator
