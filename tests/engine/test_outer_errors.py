"""Errors of outer columns before the data: affine ones exactly, smooth ones at guesses, all others refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.engine.session import Session
from discreet.errors import InvalidParameter, UnknownColumn

VISITS = pd.DataFrame({"person": [1, 2, 3, 4], "ward": [*"abca"], "room": [*"uvwx"], "cost": [10.0, 20, 30, 40]})
PART = (
    "WITH r AS (SELECT ward, COUNT(*) AS n, SUM(cost) AS s, AVG(cost) AS m FROM visits GROUP BY ward) SELECT {} FROM r"
)
COUNTS = "WITH r AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) SELECT {} FROM r"


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with dp.connect(
        {"visits": VISITS, "wards": pd.DataFrame({"code": ["a", "b"], "beds": [2, 4]})},
        unit=dp.PrivacyUnit("person", max_groups=1, max_rows=1),
        public=["wards"],
        columns={"ward": dp.Values("a", "b", "c"), "cost": dp.Range(0, 100)},
        population="p",
        ledger=":memory:",
        budget=dp.Budget(epsilon=50, delta="1e-3"),
    ) as opened:
        yield opened


def test_an_affine_column_has_the_error_of_its_weighed_noise(session: Session) -> None:
    plan = session.plan(COUNTS.format("ward, 3 * n + 1 AS t, SUM(n) OVER () AS x, n - AVG(n) OVER () AS d"), epsilon=1)
    (noise,) = plan.outputs["part_1"].query.allocation.noises
    law = np.diff(noise.cdf(np.arange(-60, 62, dtype=np.float64) - 0.5))
    total = np.convolve(np.convolve(law, law), law)
    held = [total[180 - t : 181 + t].sum() for t in range(40)]
    least = next(t for t, share in enumerate(held) if share >= 0.95)
    assert plan.error("t") == 3 * noise.quantile(dp.privacy.exact.exact("p", "0.95"))
    assert least <= plan.error("x") <= least * 1.1
    spread = np.multiply.outer(2 * np.arange(-60, 61), np.ones(241)) - np.arange(-120, 121)
    weight = np.multiply.outer(law, np.convolve(law, law))
    assert weight[np.abs(spread) <= 3 * plan.error("d")].sum() >= 0.95
    assert weight[np.abs(spread) <= 2.7 * plan.error("d")].sum() < 0.95
    assert "  x: ± " in str(plan)


def test_a_column_of_a_part_has_the_error_that_it_has_there(session: Session) -> None:
    plan = session.plan(PART.format("ward AS w, n AS people, m AS mean"), epsilon=1)
    part = plan.outputs["part_1"].query
    assert plan.error("people") == part.error("n")
    assert plan.error("mean", assuming={"rows": 500}) == part.error("m", assuming={"rows": 500})
    selected = session.plan(COUNTS.replace("ward", "room").format("room, n"), epsilon=1, delta="1e-6")
    assert selected.error("n") == selected.outputs["part_1"].query.error("n")


def test_the_least_epsilon_of_an_outer_error_gives_it(session: Session) -> None:
    total = session.plan(COUNTS.format("SUM(n) AS x"), error={"x": 20})
    assert 18.9 < total.error("x") <= 20
    release = session.sql(COUNTS.format("SUM(n) AS x"), error={"x": 20})
    assert release.charged.epsilon == total.epsilon


@pytest.mark.exhaustive
def test_a_smooth_column_has_an_error_at_guesses(session: Session) -> None:
    share = COUNTS.format("ward, n / SUM(n) OVER () AS x")
    guesses = {"n": 1000}
    plan = session.plan(share, error={"x": "6%"}, assuming=guesses)  # of a third
    assert 0.019 < plan.error("x", assuming=guesses) <= 0.02


def test_a_price_list_has_the_errors_of_outer_columns(session: Session) -> None:
    with pytest.raises(InvalidParameter, match=r"epsilon=1 gives n ± 3 and x ± 6 \(95"):
        session.sql(COUNTS.format("ward, n, 2 * n AS x"))


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ("n / SUM(n) OVER () AS x", r"how large the numbers are.*\n.*assuming={'n': 10_000"),
        ("m * 2 AS x", "how large the numbers are"),
        ("MAX(n) AS x", "noise chooses the rows, or more than sums"),
        ("n AS x FROM r ORDER BY n LIMIT 1 --", "noise chooses the rows"),
        ("ward AS x", "is public"),
        ("n * beds AS x FROM r JOIN wards ON code = ward --", "public tables"),
        ("SUM(n) OVER () AS x, RANK() OVER (ORDER BY n) AS y", "which row is which"),
        ("n + (SELECT COUNT(*) FROM visits GROUP BY room ORDER BY room LIMIT 1) AS x", "selected privately"),
    ],
)
def test_what_follows_from_the_data_is_refused_by_its_reason(session: Session, columns: str, why: str) -> None:
    plan = session.plan(PART.format(columns), epsilon=1, delta="1e-6")
    with pytest.raises(InvalidParameter, match=why):
        plan.error("x")
    assert plan.error_or_none("x") is None


def test_other_guesses_and_columns_are_refused(session: Session) -> None:
    plan = session.plan(PART.format("n / SUM(n) OVER () AS x"), epsilon=1)
    assert plan.error("x", assuming={"n": 1}) == float("inf")
    with pytest.raises(InvalidParameter, match="above 99 %"):
        plan.error("x", "0.999", assuming={"n": 1000})
    with pytest.raises(InvalidParameter, match="fails at guessed"):
        session.plan(COUNTS.format("CAST(n AS UTINYINT) AS x"), epsilon=1).error("x", assuming={"n": 1000})
    with pytest.raises(UnknownColumn, match="'y'"):
        plan.error("y")
    with pytest.raises(InvalidParameter, match="'z'"):
        session.plan(COUNTS.format("SUM(n) AS x"), error={"x": 9}, assuming={"z": 1})
    with pytest.raises(InvalidParameter, match="depends on how large 'x' is"):
        session.plan(COUNTS.format("SUM(n) AS x"), error={"x": "9%"})
