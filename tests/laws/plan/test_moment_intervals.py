"""Intervals of variances, covariances, slopes and what is made of them: coverage over fresh noise, and width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise
from discreet.noise.entropy import SystemEntropy
from discreet.plan.plan import alone
from discreet.privacy.unit import PrivacyUnit
from tests.coverage import covers
from tests.plan.people import LEVEL, exact_on, plan
from tests.plan.tables import planned

TRIALS = 250


def hits(aggregate: str, rows: int, *, short: int = 1, trials: int = TRIALS, **asked: Any) -> int:
    """In how many fresh noises the interval for noise `short` times smaller contains the bounded answer."""
    each = PrivacyUnit.row()
    decided = plan(f"SELECT {aggregate} AS a FROM t", each, **asked)
    exact = exact_on(decided, rows)
    expr, noises = decided.column("a"), decided.allocation.noises
    laws: list[Additive] = [
        DiscreteLaplaceNoise(n.scale / short) if isinstance(n, DiscreteLaplaceNoise) else n for n in noises
    ]
    value, interval = expr.compiled(), expr.number_interval(laws, LEVEL)
    truth, rng = value((), exact), SystemEntropy()
    drawn = [n.add([c] * trials, rng) for n, c in zip(noises, exact, strict=True)]
    found = 0
    for cells in zip(*drawn, strict=True):
        ends = interval((), cells)
        assert ends is not None
        assert ends[0] <= value((), cells) <= ends[1]
        found += ends[0] <= truth <= ends[1]
    return found


@pytest.mark.thinned(2)
@pytest.mark.parametrize("rows", [0, 1, 30, 3000])
@pytest.mark.parametrize(
    "aggregate", ["VAR_POP(x)", "VAR_SAMP(v)", "COVAR_SAMP(v, x)", "CORR(v, x)", "REGR_SLOPE(v, x)"]
)
def test_intervals_cover_whatever_the_size_of_the_group(aggregate: str, rows: int) -> None:
    assert covers(hits(aggregate, rows), TRIALS, LEVEL)


@pytest.mark.parametrize(
    "aggregate", ["STDDEV(w)", "REGR_INTERCEPT(v, x)", "REGR_R2(v, x)", "REGR_SXY(v, x)", "STDDEV(v) / AVG(w)"]
)
def test_intervals_of_lines_and_ratios_cover(aggregate: str) -> None:
    assert covers(hits(aggregate, 3000), TRIALS, LEVEL)


def test_intervals_cover_under_gaussian_noise() -> None:
    for aggregate in ("VAR_POP(v)", "COVAR_POP(v, x)"):
        assert covers(hits(aggregate, 300, noise="gaussian", delta="1e-6"), TRIALS, LEVEL)


@pytest.mark.parametrize("aggregate", ["VAR_POP(v)", "COVAR_POP(v, x)", "STDDEV(w)", "REGR_SLOPE(v, x)"])
def test_an_interval_for_half_the_noise_is_refused(aggregate: str) -> None:
    assert not covers(hits(aggregate, 3000, short=2, trials=1000), 1000, LEVEL)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [0, 1, 2, 10, 100, 1000, 10_000])
@pytest.mark.parametrize(
    "aggregate", ["VAR_POP(x)", "VAR_SAMP(v)", "COVAR_POP(w, x)", "COVAR_SAMP(v, x)", "CORR(v, x)", "REGR_SLOPE(v, x)"]
)
def test_intervals_cover_at_length(aggregate: str, rows: int) -> None:
    assert covers(hits(aggregate, rows, trials=5000), 5000, LEVEL)


def test_intervals_are_hardly_wider_than_the_noise() -> None:
    """The half-width, against the error that 95 of 100 noises stay below: inversion loses little here."""
    for aggregate, most in (("VAR_POP(v)", 1.4), ("COVAR_POP(v, x)", 1.25), ("REGR_SLOPE(v, x)", 1.5)):
        decided = plan(f"SELECT {aggregate} AS a FROM t", PrivacyUnit.row())
        exact = exact_on(decided, 3000)
        expr, noises = decided.column("a"), decided.allocation.noises
        value, interval = expr.compiled(), expr.number_interval(noises, LEVEL)
        drawn = [n.add([c] * 3000, SystemEntropy()) for n, c in zip(noises, exact, strict=True)]
        errors = [abs(value((), cells) - value((), exact)) for cells in zip(*drawn, strict=True)]
        ends = interval((), exact)
        assert ends is not None
        assert (ends[1] - ends[0]) / 2 < most * float(np.quantile(errors, 0.95))


def test_the_error_of_a_variance_depends_on_a_guess_at_how_many_rows_it_is_over() -> None:
    asked = planned("SELECT STDDEV(amount) AS s, VAR_POP(amount) AS v, COUNT_IF(flag) AS n FROM visits")
    with pytest.raises(InvalidParameter, match="the error of 'v' depends on how many rows it is over"):
        asked.error("v")
    with pytest.raises(InvalidParameter, match="the error of 's' depends on the values of the columns"):
        asked.error("s")
    assert asked.error("n") > 0
    assert asked.error("v", assuming={"rows": 10}) == 100**2  # the width of its bounds: all that can be said
    assert asked.error("v", assuming={"rows": 10**6}) < asked.error("v", assuming={"rows": 10**5}) < 10**3
    assert "n: ±" in str(alone(asked, "people"))


@pytest.mark.parametrize("aggregate", ["VAR_POP(v)", "VAR_SAMP(v)", "COVAR_POP(v, x)"])
def test_noise_moves_a_variance_no_further_than_its_error_said(aggregate: str) -> None:
    asked = plan(f"SELECT {aggregate} AS a FROM t", PrivacyUnit.row())
    exact, value = exact_on(asked, 3000), asked.column("a").compiled()
    known = next(c for c, m in zip(exact, asked.question.measures, strict=True) if m.identity[0] == "known")
    error = asked.error("a", assuming={"rows": known})
    noises = asked.allocation.noises
    drawn = [n.add([c] * 1500, SystemEntropy()) for n, c in zip(noises, exact, strict=True)]
    far = np.array([abs(value((), c) - value((), exact)) for c in zip(*drawn, strict=True)])
    assert covers((far <= error).sum(), 1500, LEVEL)
    assert not covers((far <= error / 8).sum(), 1500, LEVEL)  # an error before the charge is no narrow one
